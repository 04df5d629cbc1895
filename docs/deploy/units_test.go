package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// directives are those of systemd.unit(5), systemd.service(5), systemd.exec(5), systemd.kill(5) and systemd.socket(5)
// that our units use, with the values they may have where those are words; nil: any.
var directives = map[string]map[string][]string{
	"Unit":    {"Description": nil, "Documentation": nil, "After": nil, "Wants": nil},
	"Install": {"WantedBy": nil},
	"Service": {
		"Type": {"notify"}, "ExecReload": {"/bin/kill -HUP $MAINPID"}, "ExecStart": nil, "TimeoutStartSec": nil,
		"TimeoutStopSec": nil,
		"Restart":        {"on-failure"}, "DynamicUser": {"yes"}, "StateDirectory": nil, "ProtectSystem": {"strict"},
		"SuccessExitStatus": {"130"}, "ProtectHome": {"yes"}, "PrivateTmp": {"yes"}, "PrivateDevices": {"yes"},
		"NoNewPrivileges":       {"yes"},
		"ProtectKernelTunables": {"yes"}, "ProtectControlGroups": {"yes"}, "RestrictAddressFamilies": nil,
		"SystemCallArchitectures": {"native"}, "MemoryDenyWriteExecute": {"yes"},
	},
	"Socket": {"ListenStream": nil, "FileDescriptorName": {"http", "metrics"}, "NoDelay": {"yes"}},
}

// Every line of a unit file is a directive of its section, once, with a value that the directive takes; the command is
// one that spec has.
func TestUnits(t *testing.T) {
	for name, sections := range map[string][]string{
		"spec.service": {"Unit", "Service", "Install"}, "spec.socket": {"Unit", "Socket", "Install"},
	} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		section := ""
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSuffix(line, "\n")
			if line == "" || line[0] == '#' {
				continue
			}
			if inside, ok := strings.CutPrefix(line, "["); ok {
				section = strings.TrimSuffix(inside, "]")
				seen = append(seen, section)
				continue
			}
			key, value, ok := strings.Cut(line, "=")
			values, known := directives[section][key]
			if !ok || !known || value == "" || values != nil && !slices.Contains(values, value) ||
				slices.Contains(seen, section+" "+key) {
				t.Errorf("%s, [%s]: %s", name, section, line)
			}
			if seen = append(seen, section+" "+key); key == "ExecStart" {
				words := strings.Fields(value)
				checkArguments(t, flagsOf(words[1:]))
			}
		}
		for _, s := range sections {
			if !slices.Contains(seen, s) {
				t.Errorf("%s has no section %s", name, s)
			}
		}
	}
}

// flagsOf leaves out the values of flags that follow them as words of their own.
func flagsOf(words []string) (list []string) {
	for i, w := range words {
		if i == 0 || strings.HasPrefix(w, "-") {
			list = append(list, w)
		}
	}
	return list
}

// systemd's own reader, where the machine has it, finds nothing to say about the units.
func TestUnitsVerify(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here")
	}
	dir := t.TempDir()
	args := []string{"verify"}
	for _, name := range []string{"spec.service", "spec.socket"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "/usr/local/bin/spec", "/bin/true") // it asks for the program
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, filepath.Join(dir, name))
	}
	said, err := exec.Command(tool, args...).CombinedOutput()
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "/spec.") {
			t.Errorf("%s", line)
		}
	}
	if len(said) > 0 || err != nil {
		t.Logf("%v, %s", err, said)
	}
}
