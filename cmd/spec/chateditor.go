package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/lineedit"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

// noHistory is the value of --history that keeps none.
const noHistory = "none"

// historyFile is where what was typed is kept: what --history says, else spec/history in the user's folder for state,
// or where a system has none, for configuration.
func historyFile(p *program, given string) string {
	switch {
	case given == noHistory:
		return ""
	case given != "":
		return given
	}
	if dir := p.env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "spec", "history")
	}
	if home := p.env("HOME"); filepath.IsAbs(home) && runtime.GOOS != "windows" && runtime.GOOS != "darwin" {
		return filepath.Join(home, ".local", "state", "spec", "history")
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "spec", "history")
}

// edit lets messages be typed with the line editor, where there is a terminal for it. end restores the terminal; that
// happens also as soon as the context ends.
func (d *dialog) edit(ctx context.Context, history string) (end func()) {
	none := func() {}
	in, ok := d.p.stdin.(*os.File)
	out, shown := d.p.stdout.(*os.File)
	if !d.shown {
		out, shown = d.p.stderr.(*os.File)
	}
	if !ok || !shown || !d.typed || !terminal.Is(out) || d.p.env("TERM") == "dumb" {
		return none
	}
	kept, err := lineedit.OpenHistory(historyFile(d.p, history))
	if err != nil {
		d.note("(what is typed is not kept: %s)", message(err))
	}
	o := lineedit.Options{
		History: kept, Most: longestMessageText, Open: unfinished, Complete: d.complete,
	}
	if d.color {
		o.Faint, o.Off = colorPrompt, colorOff
	}
	if d.editor, err = lineedit.Open(in, out, o); err != nil {
		d.editor = nil
		return none
	}
	unwatch, pipesEnd := watchTerminal(d.editor), pipesFail() // so that the terminal is restored first
	stop := context.AfterFunc(ctx, func() { d.editor.Close() })
	return func() {
		stop()
		unwatch()
		d.editor.Close()
		pipesEnd()
	}
}

// typedLine reads a message with the editor.
func (d *dialog) typedLine(ctx context.Context, prompt string) (string, error) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	d.stop.prompting(cancel)
	defer d.stop.prompting(nil)
	text, err := d.editor.Read(reading, prompt, d.draft)
	d.draft = ""
	if errors.Is(err, lineedit.ErrInterrupted) || reading.Err() != nil && ctx.Err() == nil {
		return "", errInterrupted
	}
	if err == nil && prompt == messagePrompt {
		if failed := d.editor.Remember(text); failed != nil {
			d.once("(what is typed is not kept: " + message(failed) + ")")
		}
	}
	return text, err
}

// prompting says what Ctrl-C as a signal does while a message is typed.
func (s *stopper) prompting(cancel context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompt = cancel
}

// complete lists what may stand in place of the end of a message that begins with a slash: commands, settings and
// their values, drafters, files.
func (d *dialog) complete(text string) (from int, choices []string) {
	if !strings.HasPrefix(text, "/") || strings.Contains(text, "\n") {
		return 0, nil
	}
	name, arg, spaced := strings.Cut(text[1:], " ")
	if !spaced {
		for _, c := range slashCommands() {
			for _, n := range c.names {
				if strings.HasPrefix(n, name) {
					choices = append(choices, "/"+n+ending(c.arg != ""))
				}
			}
		}
		return 0, choices
	}
	for _, c := range slashCommands() {
		switch {
		case !slices.Contains(c.names, name):
		case name == "set":
			arg, choices = completeSetting(arg)
		case name == "draft":
			choices = beginning(append([]string{"auto"}, speculative.Names(speculative.Drafters(), false)...), arg, "")
		case strings.Contains(c.arg, "FILE"):
			whole := d.p.atHome(arg)
			for _, path := range pathsFrom(whole) {
				choices = append(choices, arg+strings.TrimPrefix(path, whole))
			}
		}
	}
	return len(text) - len(arg), choices
}

// completeSetting lists the settings that begin with a text, or the values of the one that it names; part is what of
// the text they begin with.
func completeSetting(text string) (part string, choices []string) {
	name, value, valued := strings.Cut(text, " ")
	var list []string
	for _, s := range settings() {
		if valued && s.name == name {
			return value, beginning(s.values, value, "")
		}
		list = append(list, s.name)
	}
	return text, beginning(list, text, " ")
}

// beginning are the words that begin with a text, each with its end.
func beginning(list []string, text, end string) (found []string) {
	for _, w := range list {
		if strings.HasPrefix(w, text) {
			found = append(found, w+end)
		}
	}
	return found
}

func ending(more bool) string {
	if more {
		return " "
	}
	return ""
}

// atHome is a path with the user's folder in place of a ~ that it begins with, as a shell has it.
func (p *program) atHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest == "" || !os.IsPathSeparator(rest[0]) {
		return path
	}
	if home := p.env("HOME"); home != "" {
		return home + rest
	}
	return path
}

// mostFiles is how many files of a folder are looked at for a completion.
const mostFiles = 10000

// pathsFrom are the files whose path begins with a text; a folder's name ends in a slash.
func pathsFrom(begin string) (all []string) {
	dir, name := filepath.Split(begin)
	f, err := os.Open(filepath.Clean("./" + dir))
	if filepath.IsAbs(dir) {
		f, err = os.Open(dir)
	}
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(mostFiles)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), name) || name == "" && strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := dir + e.Name()
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path += string(filepath.Separator)
		}
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}
