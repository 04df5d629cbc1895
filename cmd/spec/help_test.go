package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Who types the name alone learns what it is and three commands, which there are; a script gets a usage error.
func TestWelcome(t *testing.T) {
	var b strings.Builder
	if err := (&program{stdout: &b}).welcome(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(b.String()) {
		if name, ok := strings.CutPrefix(line, "  spec "); ok {
			n++
			if _, err := findCommand(strings.Fields(name)[0]); err != nil {
				t.Error(err)
			}
		}
	}
	if n != 3 || !strings.HasPrefix(b.String(), "spec runs GGUF") {
		t.Errorf("%d commands in\n%s", n, b.String())
	}
	if out, errs, code := spec(t, ""); code != exitUsage || out != "" || !strings.Contains(errs, "no command given") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// The list of commands has ten flags; help all has every flag that has an effect, by its long name.
func TestHelpAll(t *testing.T) {
	if n := len(firstFlags()); n != 10 {
		t.Errorf("%d first flags", n)
	}
	text := done(t, "", "help", "all")
	var long []string
	for line := range strings.Lines(text) {
		if line, ok := strings.CutPrefix(line, "  -"); ok {
			names, _, _ := strings.Cut("-"+strings.TrimSpace(line), "  ")
			for _, n := range strings.Split(names, ", ") {
				n, _, _ = strings.Cut(n, " ")
				long = append(long, n)
			}
		}
	}
	sorted := sortedFlags()
	for _, f := range sorted {
		for _, n := range f.names {
			if !slices.Contains(long, n) {
				t.Errorf("no %s", n)
			}
		}
	}
	if slices.Contains(long, "-ngl") {
		t.Error("a flag without effect")
	}
	if !slices.IsSortedFunc(sorted, func(a, b *sharedFlag) int { return strings.Compare(a.long(), b.long()) }) ||
		sorted[0].long() != "against" {
		t.Error("not sorted")
	}
}

// bash completes by the script: the shell is asked, not the text compared.
func TestCompletionOfBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	script := done(t, "", "completion", "bash")
	for line, want := range map[string]string{
		"spec gen":                "generate",
		"spec pe":                 "perplexity",
		"spec help selft":         "selftest",
		"spec completion f":       "fish",
		"spec generate --kv q":    "q8_0 q4_0",
		"spec generate --mod":     "--model --model-draft",
		"spec generate --model x": "",
		"spec serve --no-web":     "--no-webui",
		"spec quantize --no-web":  "",
		"spec chat --when-full d": "drop",
		"spec verify --hel":       "--help",
	} {
		words := strings.Fields(line)
		cmd := exec.Command(bash, "--norc", "-c", script+`
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _spec; echo "${COMPREPLY[*]}"`, "bash")
		cmd.Args = append(cmd.Args, words...)
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", line, got, err, want)
		}
	}
}

// The other shells read their scripts, where they are here; every command and flag is in them.
func TestCompletionOfOtherShells(t *testing.T) {
	for shell, check := range map[string]string{"zsh": "-n", "fish": "--no-execute"} {
		script := done(t, "", "completion", shell)
		for _, c := range completions() {
			if !strings.Contains(script, c.name) {
				t.Errorf("%s lacks %s", shell, c.name)
			}
		}
		quotes := strings.Count(strings.ReplaceAll(script, `'\''`, ""), "'")
		if shell == "zsh" && quotes%2 != 0 {
			t.Errorf("%d quotes in zsh's", quotes)
		}
		file := filepath.Join(t.TempDir(), "script")
		write(t, file, script)
		if path, err := exec.LookPath(shell); err == nil {
			if out, err := exec.Command(path, check, file).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %v, %s", shell, err, out)
			}
		}
	}
	for _, line := range []string{"completion", "completion tcsh", "completion bash zsh"} {
		if _, errs, code := spec(t, "", strings.Fields(line)...); code != exitUsage {
			t.Errorf("%s: exit %d, %s", line, code, errs)
		}
	}
}

// Every command has a page, without an error or a warning of groff, where it is here, and with every flag in it.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	done(t, "", "man", dir)
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) != len(commands())+1 {
		t.Fatalf("%d pages for %d commands", len(pages), len(commands()))
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		return
	}
	shown, err := exec.Command(groff, "-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=1000n",
		filepath.Join(dir, "spec-generate.1")).CombinedOutput()
	if err != nil || strings.Contains(string(shown), "warning") {
		t.Fatalf("%v: %.500s", err, shown)
	}
	for _, f := range flagsOf(newGenerate().flags()) {
		if !f.ignored && !strings.Contains(string(shown), f.usage()) {
			t.Errorf("spec-generate.1 lacks %s", f.usage())
		}
	}
	all, err := exec.Command(groff, append([]string{"-man", "-Tutf8", "-ww", "-z"}, pages...)...).CombinedOutput()
	if err != nil || len(all) > 0 {
		t.Errorf("groff: %v: %.500s", err, all)
	}
	if _, err := os.Stat(filepath.Join(dir, "spec.1")); err != nil {
		t.Error(err)
	}
}
