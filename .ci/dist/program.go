package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// A target is a system and a processor, as the go command names them.
type target struct{ system, processor string }

func (t target) String() string { return t.system + "/" + t.processor }

// hasPackage reports whether a release has a package for Debian of the target.
func (t target) hasPackage() bool {
	return t.system == "linux" && (t.processor == "amd64" || t.processor == "arm64")
}

func parseTargets(list string) ([]target, error) {
	var targets []target
	for name := range strings.SplitSeq(list, ",") {
		system, processor, ok := strings.Cut(name, "/")
		if !ok || !strings.Contains(","+allTargets+",", ","+name+",") {
			return nil, fmt.Errorf("-targets: %q is not one of %s", name, allTargets)
		}
		targets = append(targets, target{system, processor})
	}
	return targets, nil
}

// A program is cmd/spec of a target.
type program struct {
	target
	path string
	data []byte
	info *debug.BuildInfo
}

// build makes the program in the folder work. What the environment could change in its bytes is fixed.
func build(t target, work string) (*program, error) {
	p := &program{target: t, path: filepath.Join(work, t.system+"-"+t.processor, "spec")}
	if t.system == "windows" {
		p.path += ".exe"
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
		return nil, err
	}
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s", "-o", p.path, "./cmd/spec")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+t.system, "GOARCH="+t.processor,
		"GOAMD64=v1", "GOARM64=v8.0", "GORISCV64=rva20u64")
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: go build: %w: %s", t, err, out)
	}
	var err error
	if p.data, err = os.ReadFile(p.path); err != nil {
		return nil, err
	}
	if p.info, err = buildinfo.Read(bytes.NewReader(p.data)); err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return p, p.check()
}

// check checks that a program is what it should be, by its own words, and that it asks for no library.
func (p *program) check() error {
	for name, want := range map[string]string{"GOOS": p.system, "GOARCH": p.processor, "CGO_ENABLED": "0"} {
		if got := p.setting(name); got != want {
			return fmt.Errorf("%s: the program says %s=%s", p.target, name, got)
		}
	}
	if p.system != "linux" && p.system != "freebsd" {
		return nil
	}
	f, err := elf.NewFile(bytes.NewReader(p.data))
	if err != nil {
		return fmt.Errorf("%s: %w", p.target, err)
	}
	for _, s := range f.Progs {
		if s.Type == elf.PT_INTERP {
			return fmt.Errorf("%s: not a static program", p.target)
		}
	}
	return nil
}

// setting is a setting that the program was built with.
func (p *program) setting(name string) string {
	for _, s := range p.info.Settings {
		if s.Key == name {
			return s.Value
		}
	}
	return ""
}

var errNoRunner = errors.New("nothing here runs it")

// emulators are those of Debian's qemu-user-static, by the processors of Linux.
var emulators = map[string]string{
	"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static", "riscv64": "qemu-riscv64-static",
}

// sample is the text that the program writes with the pair of models that it holds.
func (p *program) sample() (string, error) {
	args := []string{p.path, "generate", "-p", "func (r *Ring) Push(", "--temp", "0", "-n", "8", "--no-display-prompt"}
	if p.system != runtime.GOOS || p.processor != runtime.GOARCH {
		runner, err := exec.LookPath(emulators[p.processor])
		if err != nil || p.system != "linux" || runtime.GOOS != "linux" {
			return "", errNoRunner
		}
		args = append([]string{runner}, args...)
	}
	c := exec.Command(args[0], args[1:]...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", p.target, err, stderr.Bytes())
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return "", fmt.Errorf("%s writes nothing", p.target)
	}
	return string(out), nil
}

// smoke runs the program where that is possible, and says what it found.
func (p *program) smoke(want string) (string, error) {
	got, err := p.sample()
	switch {
	case errors.Is(err, errNoRunner):
		return "not run: " + err.Error(), nil
	case err != nil:
		return "", err
	case got != want:
		return "", fmt.Errorf("%s writes %q, and this machine %q", p.target, got, want)
	}
	return fmt.Sprintf("writes %q", got), nil
}
