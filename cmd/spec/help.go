package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/specgo/spec/cmd/spec/internal/terminal"
)

// help prints the list of commands, or one command's flags, at the terminal's width.
func (p *program) help(args []string) error {
	w := bufio.NewWriter(p.stdout)
	width := min(terminal.Width(p.stdout), widestHelp)
	if len(args) == 0 {
		io.WriteString(w, terminal.Wrap("spec runs GGUF language models on CPUs, faster by speculative decoding: a cheap "+
			"drafter proposes tokens, and the model verifies them all in one pass.", width)+"\n")
		for _, c := range commands() {
			io.WriteString(w, terminal.Columns("  spec "+c.name, c.does, 20, width))
		}
		io.WriteString(w, terminal.Columns("  spec help [NAME]", "this list, or a command's flags", 20, width)+"\n")
		io.WriteString(w, terminal.Wrap(`Flags have llama.cpp's names and defaults where it has them, and may be written with one dash or two. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

The environment variable SPEC_SIMD selects the kernels; a set that this machine lacks is an error.`, width))
		return w.Flush()
	}
	c, err := findCommand(args[0])
	if err != nil {
		return err
	}
	io.WriteString(w, terminal.Columns("usage: spec "+c.name+" ", c.usage, len("usage: spec "+c.name+" "), width)+"\n")
	io.WriteString(w, terminal.Wrap(c.about, width))
	if flags := c.new().flags(); len(flags) > 0 {
		io.WriteString(w, "\n")
		printFlags(w, flags, width)
	}
	return w.Flush()
}

const widestHelp = 110 // characters of a line of help: longer ones are hard to read

// printFlags writes the table of flags: names, value, then the text, wrapped under itself.
func printFlags(w io.Writer, flags []flag, width int) {
	column := 30
	if width < 70 {
		column = 8
	}
	var without []string
	for _, f := range flags {
		if f.ignored {
			without = append(without, f.names...)
			continue
		}
		left := "  " + strings.Join(f.names, ", ")
		switch {
		case f.optional:
			left += " [" + f.arg + "]"
		case f.arg != "":
			left += " " + f.arg
		}
		if len(left) > column-1 && len(left) > width {
			left = terminal.Columns("", left, 2, width)
			left = strings.TrimSuffix(left, "\n")
		}
		io.WriteString(w, terminal.Columns(left+" ", f.help, column, width))
	}
	if len(without) > 0 {
		fmt.Fprint(w, "\n", terminal.Wrap("Accepted from llama.cpp's command lines, without effect here: "+strings.Join(
			without, " ")+".", width))
	}
}
