package testkit

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// longestLine is how many characters a line of Go may have; a tab counts as one.
const longestLine = 120

// No line of code or of a comment is longer, but for raw texts, directives and generated files.
func TestLinesAreShort(t *testing.T) {
	root := checkout(t)
	eachGoFile(t, root, func(name string) {
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(source, []byte("// Code generated")) {
			return
		}
		raw := rawLines(source)
		for i, line := range bytes.Split(source, []byte("\n")) {
			if n := utf8.RuneCount(line); n > longestLine && !raw[i+1] && !bytes.HasPrefix(line, []byte("//go:")) {
				t.Errorf("%s:%d: %d characters, more than %d", name, i+1, n, longestLine)
			}
		}
	})
}

// rawLines are the numbers of the lines that a text in back quotes stands in.
func rawLines(source []byte) map[int]bool {
	file := token.NewFileSet().AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	lines := map[int]bool{}
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return lines
		}
		if kind == token.STRING && text[0] == '`' {
			for i := range strings.Count(text, "\n") + 1 {
				lines[file.Line(at)+i] = true
			}
		}
	}
}
