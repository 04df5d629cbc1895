package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// the command "spec" with its words, in a line of code or between back quotes
	specLine = regexp.MustCompile(`(?m)(?:^ {4}|^\t|^\$ )(?:\w+=\S+ )*(?:\./)?spec ([a-z]\S*)((?: [^\n|&;]*)?)|` +
		"`(?:\\./)?spec ([a-z][^` ]*)((?: [^`\n]*)?)`")
	lineFlag = regexp.MustCompile(`(?:^| |\[)(--?[a-z][a-z0-9-]*)`)
)

// Every command "spec NAME" that a document shows is there, with the flags behind it.
func TestDocumentsNameCommands(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named, flags := 0, 0
	for _, file := range slices.Concat(files, more, []string{"../../README.md", "../../CONTRIBUTING.md"}) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range specLine.FindAllStringSubmatch(string(text), -1) {
			name, rest := strings.TrimRight(m[1]+m[3], ",.:;)"), m[2]+m[4]
			if name == "help" {
				continue
			}
			c, err := findCommand(name)
			if err != nil {
				t.Errorf("%s: spec %s: no such command", file, name)
				continue
			}
			named++
			known := append(flagsOf(c.new().flags()), commonRows()...)
			rest = regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllString(rest, "TEXT")
			for _, f := range lineFlag.FindAllStringSubmatch(rest, -1) {
				if flags++; find(known, f[1]) == nil {
					t.Errorf("%s: spec %s has no flag %s", file, name, f[1])
				}
			}
		}
	}
	if named < 60 || flags < 60 {
		t.Errorf("%d commands and %d flags", named, flags)
	}
}

// A flag that a document names by itself is one of some command, or of a tool that is named here.
func TestDocumentsNameFlags(t *testing.T) {
	known := commonRows()
	for _, c := range commands() {
		known = append(known, flagsOf(c.new().flags())...)
	}
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	alone := regexp.MustCompile("`(--[a-z][a-z0-9-]*)[^`]*`")
	n := 0
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range alone.FindAllStringSubmatch(string(text), -1) {
			if n++; find(known, m[1]) == nil && m[1] != "--spec-type" { // llama.cpp's
				t.Errorf("%s: no command has %s", file, m[1])
			}
		}
	}
	if n < 60 {
		t.Errorf("%d flags", n)
	}
}
