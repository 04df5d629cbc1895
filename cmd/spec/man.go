package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/specgo/spec/internal/results"
)

var manCommand = command{
	name:  "man",
	does:  "the man pages of all commands, as files",
	usage: "DIR",
	about: `Writes a man page for the program and one for each command into a folder: spec.1, spec-chat.1 and so on. They are written from the table of flags. man -l DIR/spec.1 shows one.`,
	new:   func() job { return &manual{} },
}

// manual is the command's options.
type manual struct{ dir string }

func (x *manual) flags() []group { return nil }

func (x *manual) operand(v string) error {
	if x.dir != "" || v == "" {
		return errors.New("one folder")
	}
	x.dir = v
	return nil
}

func (x *manual) check() error {
	if x.dir == "" {
		return usagef("the folder is missing: DIR")
	}
	return nil
}

func (x *manual) run(_ context.Context, p *program) error {
	date, err := pagesDate(p.env("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(x.dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(x.dir, "spec.1"), programPage(date), 0o644); err != nil {
		return err
	}
	for _, c := range commands() {
		if err := os.WriteFile(filepath.Join(x.dir, "spec-"+c.name+".1"), commandPage(&c, date), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pagesDate is the date of the pages: that of SOURCE_DATE_EPOCH, seconds since 1970, else that of the commit that the
// program was built from, else that of its file.
func pagesDate(epoch string) (string, error) {
	at := results.CommitTime()
	switch {
	case epoch != "":
		s, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return "", fmt.Errorf("SOURCE_DATE_EPOCH %s: not a number of seconds since 1970", shown(epoch))
		}
		at = time.Unix(s, 0)
	case at.IsZero():
		program, err := os.Executable()
		if err != nil {
			return "", err
		}
		info, err := os.Stat(program)
		if err != nil {
			return "", err
		}
		at = info.ModTime()
	}
	return at.UTC().Format(time.DateOnly), nil
}

// roff is a man page under way.
type roff struct{ bytes.Buffer }

// roffText is a text of people for roff, in ASCII: nothing in it is a request or an escape.
func roffText(s string) string {
	var b strings.Builder
	for _, c := range roffNames.Replace(s) {
		if c < utf8.RuneSelf {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, c)
		}
	}
	return b.String()
}

// roffNames are the names of characters that roff would take for others.
var roffNames = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// longestRoff is the most bytes of a line of text in a file: readers of roff ask for no more.
const longestRoff = 80

// line writes a line of text, on several lines of the file where it is long.
func (r *roff) line(format string, a ...any) {
	text := ""
	for word := range strings.FieldsSeq(roffText(fmt.Sprintf(format, a...))) {
		switch {
		case text == "":
		case len(text)+1+len(word) <= longestRoff:
			text += " " + word
			continue
		default:
			r.WriteString(text + "\n")
		}
		if text = word; strings.HasPrefix(word, ".") {
			text = `\&` + word // which is no request
		}
	}
	r.WriteString(text + "\n")
}

// request writes a request with its arguments, each quoted.
func (r *roff) request(name string, args ...string) {
	r.WriteString("." + name)
	for _, a := range args {
		r.WriteString(` "` + strings.ReplaceAll(roffText(a), `"`, `\(dq`) + `"`)
	}
	r.WriteString("\n")
}

// paragraphs writes a text in the form of terminal.Wrap: lines that begin with a space stay lines.
func (r *roff) paragraphs(text string) {
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			r.request("PP")
		}
		for n, l := range strings.Split(paragraph, "\n") {
			if strings.HasPrefix(l, " ") {
				if n > 0 { // it begins a line already
					r.request("br")
				}
				l = `\&` + roffText(l)
				r.WriteString(l + "\n")
				continue
			}
			r.line("%s", l)
		}
	}
}

// head begins a page of section 1.
func (r *roff) head(name, does, date string) {
	version := roffText("spec " + results.Version())
	fmt.Fprintf(r, ".TH \"%s\" 1 %s \"%s\" spec\n", roffText(strings.ToUpper(name)), date, version)
	r.request("SH", "NAME")
	r.line("%s - %s", name, does)
	r.request("SH", "SYNOPSIS")
}

// flags writes a table of flags with their variables.
func (r *roff) flags(list []flag) {
	for _, f := range list {
		r.request("TP")
		r.request("B", f.usage())
		text := f.help
		if f.standard != "" {
			text += " (default " + f.standard + ")"
		}
		if vars := f.variables(); len(vars) > 0 {
			text += " [" + strings.Join(vars, ", ") + "]"
		}
		r.line("%s", text)
	}
}

// ends writes what all pages end with.
func (r *roff) ends(see string) {
	r.request("SH", "EXIT STATUS")
	r.line("%s", exitCodes)
	r.request("SH", "SEE ALSO")
	r.line("%s", see)
}

// programPage is the page of the program.
func programPage(date string) []byte {
	var r roff
	r.head("spec", "runs GGUF language models on CPUs, faster by speculative decoding", date)
	r.request("B", "spec")
	r.request("I", "COMMAND [FLAG]...")
	r.request("SH", "DESCRIPTION")
	r.paragraphs(aboutProgram + "\n\n" + aboutFlags)
	r.request("SH", "COMMANDS")
	var pages []string
	for _, g := range commandGroups() {
		r.request("SS", g.title)
		for _, c := range g.commands {
			r.request("TP")
			r.request("B", "spec "+c.name)
			r.line("%s", c.does)
			pages = append(pages, "spec-"+c.name+"(1)")
		}
	}
	r.request("SH", "FLAGS FOR THE BEGINNING")
	r.flags(firstFlags())
	r.ends(strings.Join(pages, ", "))
	return r.Bytes()
}

// commandPage is the page of a command.
func commandPage(c *command, date string) []byte {
	var r roff
	r.head("spec-"+c.name, c.does, date)
	r.request("B", "spec "+c.name)
	if c.usage != "" {
		r.request("I", c.usage)
	}
	r.request("SH", "DESCRIPTION")
	r.paragraphs(c.about)
	for _, g := range c.new().flags() {
		list, without := g.split()
		if len(list) > 0 {
			r.request("SH", "FLAGS: "+strings.ToUpper(g.title))
			r.flags(list)
		}
		if len(without) > 0 {
			r.request("SH", "FLAGS WITHOUT EFFECT")
			r.line("%s", withoutText(without))
		}
	}
	r.request("SH", "FLAGS OF ALL COMMANDS")
	r.flags(commonRows())
	r.ends("spec(1)")
	return r.Bytes()
}
