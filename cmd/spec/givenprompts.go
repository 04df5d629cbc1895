package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/results"
)

// givenPrompts are single prompts of a command line: -p and -f, each as often as wanted.
type givenPrompts struct {
	list     []givenPrompt
	verbatim bool // --no-escape
}

// givenPrompt is a text, or the name of a file of one, "-" for standard input.
type givenPrompt struct{ text, file string }

func (g *givenPrompts) rows() []flag {
	add := func(p givenPrompt) error {
		if p == (givenPrompt{}) {
			return errors.New("empty")
		}
		g.list = append(g.list, p)
		return nil
	}
	return append([]flag{
		valueFlag("-p, --prompt", "TEXT", "a prompt; may be repeated",
			func(v string) error { return add(givenPrompt{text: v}) }),
		valueFlag("-f, --file", "FILE", "a prompt from a file, byte for byte; - is standard input; may be repeated",
			func(v string) error { return add(givenPrompt{file: v}) }),
	}, escapeRows(&g.verbatim)...)
}

// set is the prompts as a set of their own, empty where there are none.
func (g *givenPrompts) set(ctx context.Context, p *program) (s compare.Set, err error) {
	s.Name = "given"
	var all []byte // the texts with a zero behind each
	for i, x := range g.list {
		id, text := fmt.Sprint("-p ", i+1), x.text
		switch {
		case x.file != "":
			id = filepath.Base(x.file)
			source := &source{from: io.NopCloser(p.stdin), name: standardInput}
			if x.file != "-" {
				file, err := openInput(ctx, x.file)
				if err != nil {
					return s, err
				}
				source.from, source.name = file, x.file
			}
			if text, err = readText(ctx, source); err != nil {
				return s, err
			}
			if text == "" {
				return s, fmt.Errorf("-f %s: an empty prompt", x.file)
			}
		case !g.verbatim:
			text = unescape(text)
		}
		s.Prompts = append(s.Prompts, compare.Prompt{ID: id, Text: text})
		all = append(append(all, text...), 0)
	}
	name := "-p"
	if len(g.list) == 1 && g.list[0].file != "" && g.list[0].file != "-" {
		base := filepath.Base(g.list[0].file)
		s.Name, name = strings.TrimSuffix(base, filepath.Ext(base)), base
	}
	if len(g.list) == 1 {
		all = bytes.TrimSuffix(all, []byte{0})
	}
	s.File = results.TextFile(name, all)
	return s, nil
}

// command is the flags again, with quotes of a shell.
func (g *givenPrompts) command() (s string) {
	for _, x := range g.list {
		if x.file != "" {
			s += " -f " + filepath.Base(x.file)
			continue
		}
		s += " -p '" + strings.ReplaceAll(x.text, "'", `'\''`) + "'"
	}
	if g.verbatim {
		s += " --no-escape"
	}
	return s
}
