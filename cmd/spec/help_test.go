package main

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// A flag's help names flags that its command has.
func TestHelpNamesFlagsOfItsCommand(t *testing.T) {
	named := regexp.MustCompile(`(?:^|[\s(])(--?[a-z][a-z0-9-]*)`)
	n := 0
	for _, c := range commands() {
		known := append(flagsOf(c.new().flags()), commonRows()...)
		for _, f := range known {
			for _, m := range named.FindAllStringSubmatch(f.help+" "+f.standard, -1) {
				other := c.name == "lookup" && m[1] == "--lookup" || m[1] == "-inf" // what finds an index; a value
				if n++; find(known, m[1]) == nil && !other {
					t.Errorf("spec %s: the help of %s names %s, which it does not have", c.name, f.names[0], m[1])
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("%d flags named", n)
	}
}

// completedLines are beginnings of lines, and what completes their last words in a folder with a file and a folder.
var completedLines = map[string]string{
	"spec gen":                          "generate",
	"spec pe":                           "perplexity",
	"spec help selft":                   "selftest",
	"spec completion f":                 "fish",
	"spec cache bu":                     "build",
	"spec lookup ch":                    "check",
	"spec synth llama-1":                "llama-1b",
	"spec generate --kv q":              "q4_0 q8_0",
	"spec generate --kv=q":              "q4_0 q8_0",
	"spec generate -m a_":               "a_file a_folder",
	"spec generate --model=a_fi":        "a_file",
	"spec serve --models-dir a_":        "a_folder",
	"spec serve a_":                     "",
	"spec serve --port a_":              "",
	"spec serve --log-level d":          "debug",
	"spec inspect a_fi":                 "a_file",
	"spec inspect --tensors a_fi":       "a_file",
	"spec compare --drafter model,tre":  "model,tree",
	"spec compare --kernels avx51":      "avx512",
	"spec compare --prompts co":         "code copy",
	"spec generate --chat-template pla": "plain",
	"spec generate --chat-template a_f": "a_file a_folder",
	"spec bench --type q8_":             "q8_0",
	"spec serve --no-web":               "--no-webui",
	"spec quantize --no-web":            "",
	"spec quantize a_file a_out q8_":    "q8_0",
	"spec chat --when-full d":           "drop",
	"spec verify --hel":                 "--help",
	"spec generate --color --trac":      "--trace",
	"spec generate --color=of":          "off",
}

// inFolder is a folder in which lines are completed.
func inFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a_file"), "")
	write(t, filepath.Join(dir, "a_folder", "inside"), "")
	return dir
}

// bash completes by the script: the shell is asked, not the text compared.
func TestCompletionOfBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(bash, "--norc", "-c", done(t, "", "completion", "bash")+`
while read -ra COMP_WORDS; do
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _spec; echo "${COMPREPLY[*]}"
done`)
	cmd.Dir = inFolder(t)
	lines := slices.Sorted(maps.Keys(completedLines))
	// = divides words of bash
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "=", " = "))
	checkCompleted(t, cmd, lines)
}

// fish is asked too.
func TestCompletionOfFish(t *testing.T) {
	fish, err := exec.LookPath("fish")
	if err != nil {
		t.Skip(err)
	}
	dir := inFolder(t)
	write(t, filepath.Join(dir, "script"), done(t, "", "completion", "fish"))
	cmd := exec.Command(fish, "--no-config", "-c",
		`source script; while read line; set -l words (complete -C $line | string replace -r \t.\* ""); echo "$words"; end`)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+t.TempDir())
	lines := slices.Sorted(maps.Keys(completedLines))
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	checkCompleted(t, cmd, lines)
}

// checkCompleted runs a shell that answers each line with what completes it.
func checkCompleted(t *testing.T, cmd *exec.Cmd, lines []string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(answers) != len(lines) {
		t.Fatalf("%v, %d answers to %d lines: %s", err, len(answers), len(lines), out)
	}
	for i, line := range lines {
		_, before, _ := strings.Cut(line, "=") // fish completes the whole word
		var got []string
		for _, w := range strings.Fields(answers[i]) {
			if _, value, ok := strings.Cut(w, "="); ok && before != "" {
				w = value
			}
			got = append(got, strings.TrimSuffix(w, "/"))
		}
		slices.Sort(got)
		if want := completedLines[line]; strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", line, got, want)
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

// Every command has a page with a date, without an error or a warning of groff and mandoc, where they are here, and
// with every flag in it.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	p := &program{stdout: io.Discard, stderr: io.Discard, env: environment("SOURCE_DATE_EPOCH=1790000000")}
	if code := p.main(t.Context(), []string{"man", dir}); code != exitDone {
		t.Fatalf("exit %d", code)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) != len(commands())+1 {
		t.Fatalf("%d pages for %d commands", len(pages), len(commands()))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil || !strings.Contains(string(text), `" 1 2026-09-21 "spec `) ||
			strings.Contains(string(text), ".PP\n.br\n") || strings.Contains(string(text), ".SH \"DESCRIPTION\"\n.br\n") {
			t.Errorf("%s: %v, %.200s", page, err, text)
		}
	}
	if mandoc, err := exec.LookPath("mandoc"); err == nil {
		if out, err := exec.Command(mandoc, append([]string{"-T", "lint"}, pages...)...).CombinedOutput(); err != nil {
			t.Errorf("mandoc: %v: %.500s", err, out)
		}
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
