package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// docs/FLAGS.md is what the rows say: SPEC_UPDATE=1 writes it.
func TestFlagsAreDocumented(t *testing.T) {
	const file = "../../docs/FLAGS.md"
	want := flagsDocument()
	if os.Getenv("SPEC_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the rows say (%v): SPEC_UPDATE=1 go test ./cmd/spec -run FlagsAreDocumented", file, err)
	}
}

func flagsDocument() string {
	var titles []string
	rows := map[string][]*sharedFlag{}
	for _, f := range sharedFlags() {
		if !slices.Contains(titles, f.title) {
			titles = append(titles, f.title)
		}
		rows[f.title] = append(rows[f.title], f)
	}
	var b strings.Builder
	b.WriteString(`# Flags
This file is printed from the rows of the flags (cmd/spec). Flags may be written with one dash or two, a value behind a space or "=".
Each has an environment variable, and a key in the file of settings: its name without dashes, or the variable. A flag counts before its variable,
that before the file, and that before the default; what a variable or the file says beside a command line that has no use for it is left alone.
A value that does not fit is an error that names the variable, or the line. A switch is 1 or 0 there, and 0 of X is --no-X where there is such a flag.
-c of perplexity and imatrix, -n of commands that measure, --verify of bench and -o of results are not what these names are in other commands:
in the file their variables alone are their keys.
The file is that of --config FILE, which every command has, or of SPEC_CONFIG (none: no file), else spec/config.ini in the user's folder for
configuration; spec help config shows one. LLAMA_ARG_HF_FILE names the file of the repository that LLAMA_ARG_HF_REPO is,
which counts instead of LLAMA_ARG_MODEL where both are set, as the variables of -hfd do beside those of -md.
`)
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	for _, title := range titles {
		fmt.Fprintf(&b, "\n## %s%s\n", strings.ToUpper(title[:1]), title[1:])
		if rows[title][0].ignored {
			b.WriteString("Accepted from llama.cpp's command lines:\n\n| flag | commands |\n|---|---|\n")
			for _, d := range rows[title] {
				fmt.Fprintf(&b, "| `%s` | %s |\n", cell(d.usage()), strings.Join(d.commands, ", "))
			}
			continue
		}
		b.WriteString("\n| flag | variable | what | default | commands |\n|---|---|---|---|---|\n")
		for _, d := range rows[title] {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", cell(d.usage()), strings.Join(d.variables(), ", "), cell(d.help),
				cell(d.standard), strings.Join(d.commands, ", "))
		}
	}
	return b.String()
}
