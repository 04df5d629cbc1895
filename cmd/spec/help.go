package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/specgo/spec/internal/terminal"
)

// help prints the list of commands, or one command's flags, at the terminal's width.
func (p *program) help(args []string) error {
	w := bufio.NewWriter(p.stdout)
	width := min(terminal.Width(p.stdout), widestHelp)
	if len(args) == 0 {
		io.WriteString(w, terminal.Wrap("spec runs GGUF language models on CPUs, faster by speculative decoding: a cheap "+
			"drafter proposes tokens, and the model verifies them all in one pass.", width)+"\n")
		for i, g := range commandGroups() {
			if i > 0 {
				io.WriteString(w, "\n")
			}
			io.WriteString(w, g.title+"\n")
			for _, c := range g.commands {
				io.WriteString(w, terminal.Columns("  spec "+c.name, c.does, 20, width))
			}
		}
		io.WriteString(w, terminal.Columns("  spec help [NAME]", "this list, or a command's flags", 20, width)+"\n")
		io.WriteString(w, terminal.Wrap(`Flags have llama.cpp's names and defaults where it has them, and may be written with one dash or two. Each can be given by an environment variable too: the one in brackets behind it, else SPEC_ and its long name, as SPEC_STATE_MEMORY for --state-memory; a switch is 1 or 0. A flag counts before its variable, and that before the default. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

The environment variable SPEC_SIMD selects the kernels; a set that this machine lacks is an error.`, width))
		return w.Flush()
	}
	c, err := findCommand(args[0])
	if err != nil {
		return err
	}
	io.WriteString(w, terminal.Columns("usage: spec "+c.name+" ", c.usage, len("usage: spec "+c.name+" "), width)+"\n")
	io.WriteString(w, terminal.Wrap(c.about, width))
	printGroups(w, c.new().flags(), width)
	return w.Flush()
}

const widestHelp = 110 // characters of a line of help: longer ones are hard to read

// printGroups writes the flags of each group, and those without effect as one paragraph.
func printGroups(w io.Writer, groups []group, width int) {
	for _, g := range groups {
		var without []string
		var list []flag
		for _, f := range g.flags {
			if f.ignored {
				without = append(without, f.names...)
			} else {
				list = append(list, f)
			}
		}
		if len(list) > 0 {
			io.WriteString(w, "\n"+g.title+"\n")
			printFlags(w, list, width)
		}
		if len(without) > 0 {
			fmt.Fprint(w, "\n", terminal.Wrap("Accepted from llama.cpp's command lines, without effect here: "+strings.Join(
				without, " ")+".", width))
		}
	}
}

// printFlags writes a table of flags: names, value, then the text, wrapped under itself.
func printFlags(w io.Writer, flags []flag, width int) {
	column := 30
	if width < 70 {
		column = 8
	}
	for _, f := range flags {
		left := "  " + f.usage()
		if len(left) > column-1 && len(left) > width {
			left = terminal.Columns("", left, 2, width)
			left = strings.TrimSuffix(left, "\n")
		}
		io.WriteString(w, terminal.Columns(left+" ", f.text(), column, width))
	}
}

// usage is a flag's names with its value.
func (f *flag) usage() string {
	text := strings.Join(f.names, ", ")
	switch {
	case f.optional:
		text += " [" + f.arg + "]"
	case f.arg != "":
		text += " " + f.arg
	}
	return text
}

// text is a flag's help with its default, and the variables that other tools know.
func (f *flag) text() string {
	text := f.help
	if f.standard != "" {
		text += " (default " + f.standard + ")"
	}
	if len(f.vars) > 0 {
		text += " [" + f.vars[0] + "]"
	}
	return text
}
