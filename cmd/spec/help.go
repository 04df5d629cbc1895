package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/specgo/spec/internal/terminal"
)

const (
	aboutProgram = "spec runs GGUF language models on CPUs, faster by speculative decoding: a cheap drafter proposes " +
		"tokens, and the model verifies them all in one pass."
	aboutFlags = `Flags have llama.cpp's names where it has such flags, and may be written with one dash or two. Each can be given by an environment variable too: the one in brackets behind it, else SPEC_ and its long name, as SPEC_STATE_MEMORY for --state-memory; a switch is 1 or 0, and X=0 is --no-x where there is such a flag. A flag counts before its variable, that before the file of settings (--config FILE), and that before the default; spec config shows what is in force.

The environment variable SPEC_SIMD selects the kernels; a set that this machine lacks is an error.`
	exitCodes = "0 done, 1 failed, 2 wrong usage, 130 interrupted."
	helpAll   = "all" // what spec help takes beside the name of a command
)

// welcome is what the program says on a terminal to who calls it without a command.
func (p *program) welcome() error {
	width := min(terminal.Width(p.stdout), widestHelp)
	text := terminal.Wrap(aboutProgram, width) + "\n"
	for _, line := range [][2]string{
		{"spec demo", "the same text with and without drafts, in ten seconds; the models are inside this program"},
		{"spec run", "a conversation with a model that is here, or with a small one that it offers to download"},
		{"spec serve", "a page for the browser on http://127.0.0.1:8080, with OpenAI's API"},
	} {
		text += terminal.Columns("  "+line[0], line[1], 14, width)
	}
	_, err := io.WriteString(p.stdout, text+"\n"+terminal.Wrap("spec help lists the commands.", width))
	return err
}

// help prints the list of commands, one command's flags, or all flags, at the terminal's width.
func (p *program) help(args []string) error {
	w := bufio.NewWriter(p.stdout)
	width := min(terminal.Width(p.stdout), widestHelp)
	switch {
	case len(args) == 0, args[0] == "help":
		helpCommands(w, width)
		return w.Flush()
	case args[0] == helpAll:
		helpFlags(w, width)
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

// helpCommands writes the list of commands, and the flags that people need first.
func helpCommands(w io.Writer, width int) {
	io.WriteString(w, terminal.Wrap(aboutProgram, width))
	for _, g := range commandGroups() {
		io.WriteString(w, "\n"+g.title+"\n")
		for _, c := range g.commands {
			io.WriteString(w, terminal.Columns("  spec "+c.name, c.does, 20, width))
		}
	}
	io.WriteString(w, terminal.Columns("  spec help NAME", "what a command does, and its flags; spec help all: the "+
		"flags of all commands", 20, width))
	io.WriteString(w, "\nthe first flags to know\n")
	printFlags(w, firstFlags(), width)
	io.WriteString(w, "\n"+terminal.Wrap(aboutFlags+"\n\nExit codes: "+exitCodes, width))
}

// firstFlags are those that people need first.
func firstFlags() (list []flag) {
	all := flagsOf(new(converse).flags())
	for _, name := range []string{"-m", "-hf", "-md", "-p", "-sys", "-n", "-c", "--temp", "-t", "--memory"} {
		list = append(list, *find(all, name))
	}
	return list
}

// helpFlags writes the flags of all commands, sorted, each with the commands that have it.
func helpFlags(w io.Writer, width int) {
	for _, f := range sortedFlags() {
		list := []flag{f.flag}
		list[0].help += " (spec " + strings.Join(f.commands, ", ") + ")"
		printFlags(w, list, width)
	}
}

const widestHelp = 110 // characters of a line of help: longer ones are hard to read

// printGroups writes the flags of each group, and those without effect as one paragraph.
func printGroups(w io.Writer, groups []group, width int) {
	for _, g := range groups {
		list, without := g.split()
		if len(list) > 0 {
			io.WriteString(w, "\n"+g.title+"\n")
			printFlags(w, list, width)
		}
		if len(without) > 0 {
			fmt.Fprint(w, "\n", terminal.Wrap(withoutText(without), width))
		}
	}
}

// split divides a group into flags with an effect and the names of those without.
func (g *group) split() (list []flag, without []string) {
	for _, f := range g.flags {
		if f.ignored {
			without = append(without, f.names...)
		} else {
			list = append(list, f)
		}
	}
	return list, without
}

// withoutText says which flags have no effect.
func withoutText(names []string) string {
	return "Accepted from llama.cpp's command lines, without effect here: " + strings.Join(names, " ") + "."
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
