package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/specgo/spec/internal/terminal"
)

var configCommand = command{
	name:  "config",
	does:  "what flags have in force, and from where",
	usage: "[COMMAND] [--config FILE]",
	about: `Prints the file of settings and what it and the environment set; with the name of a command, all flags of that command with their values and where these are from.

A flag counts before its environment variable, that before the file, and that before the default. In the file a key is a flag's name without its dashes, or its environment variable; a switch is 1 or 0, and x = 0 is no-x where there is such a flag; relative paths count from where the program is started. A comment begins with ; or #. The file is that of --config, else of SPEC_CONFIG, else spec/config.ini in the user's folder for configuration:

    threads = 8
    ctx-size = 8192
    temp = 0.6

A section is a model that spec serve offers by its name, loaded when it is asked for, beside those of the command line: its file (or hf-repo, else the name is one of the Hub), its draft model, and what its requests are answered with where they do not say otherwise. It may have model, hf-repo, model-draft, hf-repo-draft, chat-template, chat-template-file, alias, tags, system-prompt, load-on-startup, predict, and what samples: temp, top-k, top-p, min-p, typical, repeat-penalty, repeat-last-n, presence-penalty, frequency-penalty, mirostat, mirostat-ent, mirostat-lr, seed:

    [coder]
    model = /models/coder.gguf
    model-draft = /models/coder-small.gguf
    temp = 0.2`,
	new: func() job { return &configuring{} },
}

// configuring is the command's options.
type configuring struct {
	of     *command
	common *common
}

func (x *configuring) flags() []group { return nil }

// share gives a job the flags that every command has.
func (x *configuring) share(c *common) { x.common = c }

func (x *configuring) operand(v string) (err error) {
	if x.of != nil {
		return errors.New("one command at a time")
	}
	x.of, err = findCommand(v)
	return err
}

func (x *configuring) run(_ context.Context, p *program) error {
	w := bufio.NewWriter(p.stdout)
	name := x.common.config
	if name == "" {
		name = p.env("SPEC_CONFIG")
	}
	if name == "" {
		name = defaultConfig(p.env)
	}
	file, err := openConfig(x.common.config, p.env)
	switch {
	case err != nil:
		return err
	case file != nil:
		fmt.Fprintf(w, "file: %s\n", terminal.Line(file.Name, 0))
	case name == "" || name == noConfig:
		fmt.Fprintln(w, "file: none")
	default:
		fmt.Fprintf(w, "file: %s, which is not there\n", terminal.Line(name, 0))
	}
	table := terminal.Table{Columns: []terminal.Column{{Head: "flag", Left: true}, {Head: "value", Left: true},
		{Head: "from", Left: true}}}
	if x.of != nil {
		err = x.command(p, &table)
	} else {
		table.Columns = append(table.Columns, terminal.Column{Head: "commands", Left: true})
		err = x.all(p, &table)
	}
	if err != nil {
		return err
	}
	if x.of == nil || x.of.name == serveCommand.name {
		for _, row := range fromSections(file) {
			if x.of == nil {
				row = append(row, serveCommand.name)
			}
			table.Rows = append(table.Rows, row)
		}
	}
	if len(table.Rows) > 0 {
		width := terminal.Width(p.stdout)
		if out, ok := p.stdout.(*os.File); !ok || !terminal.Is(out) {
			width = widestTable
		}
		text, _ := table.String(width)
		io.WriteString(w, "\n"+text)
	}
	return w.Flush()
}

// widestTable is the width of a table that no terminal shows: nothing is left out of it.
const widestTable = 1 << 16

// command lists all flags of one command.
func (x *configuring) command(p *program, table *terminal.Table) error {
	job, line, err := x.of.settings(x.arguments(), p.env) // what must be given besides is not
	if err != nil {
		return err
	}
	for _, f := range flagsOf(job.flags()) {
		if f.ignored {
			continue
		}
		value, from := f.standard, "default"
		for _, s := range line.origins {
			if s.flag == f.names[0] {
				value, from = s.value, s.from
			}
		}
		table.Rows = append(table.Rows, []string{f.told(), shownValue(&f, value), terminal.Line(from, 100)})
	}
	return nil
}

// arguments are those by which another command reads the same file.
func (x *configuring) arguments() []string {
	if x.common.config == "" {
		return nil
	}
	return []string{"--config=" + x.common.config}
}

// all lists what is set for any command.
func (x *configuring) all(p *program, table *terminal.Table) error {
	for _, c := range commands() {
		job, line, err := c.settings(x.arguments(), p.env)
		if err != nil {
			return fmt.Errorf("spec %s: %w", c.name, err)
		}
	settings:
		for _, s := range line.origins {
			if s.flag == "--config" {
				continue
			}
			f := find(flagsOf(job.flags()), s.flag)
			row := []string{f.told(), shownValue(f, s.value), terminal.Line(s.from, 100), c.name}
			for _, r := range table.Rows {
				if r[0] == row[0] && r[2] == row[2] {
					r[3] += ", " + c.name
					continue settings
				}
			}
			table.Rows = append(table.Rows, row)
		}
	}
	return nil
}

// told is the name of a flag in a table: a long one, if it has one.
func (f *flag) told() string {
	for _, n := range f.names {
		if strings.HasPrefix(n, "--") {
			return n
		}
	}
	return f.names[0]
}

// shownValue is a flag's value in a table; keys are not shown.
func shownValue(f *flag, value string) string {
	if f.secret() && value != "" {
		return notShown
	}
	return terminal.Line(value, 60)
}
