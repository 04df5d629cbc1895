package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/specgo/spec/internal/terminal"
)

// show writes the conversation.
func (d *dialog) show(context.Context, string) error {
	for _, m := range d.messages {
		d.note("[%s]\n%s", m.Role, terminal.Text(m.Content))
	}
	return nil
}

// raw writes the text of the last answer.
func (d *dialog) raw(context.Context, string) error {
	for i := len(d.messages) - 1; i >= 0; i-- {
		if m := d.messages[i]; m.Role == "assistant" {
			return d.print(strings.TrimSuffix(m.Content, "\n")+"\n", "")
		}
	}
	return errors.New("there is no answer yet")
}

// rewrite lets the user write the next message in an editor.
func (d *dialog) rewrite(ctx context.Context, text string) error {
	if d.editor == nil {
		return errors.New("/edit needs a terminal")
	}
	if i := d.lastUser(); text == "" && i >= 0 {
		text = d.messages[i].Content
	}
	standard := "vi"
	if runtime.GOOS == "windows" {
		standard = "notepad"
	}
	program := editorCommand(cmp.Or(d.p.env("VISUAL"), d.p.env("EDITOR"), standard))
	if len(program) == 0 {
		return errors.New("VISUAL or EDITOR names no program")
	}
	file, err := os.CreateTemp("", "spec-*.md") // mode 0600
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(file.Name())
		return err
	}
	if err := d.editor.Aside(func() error {
		c := exec.CommandContext(ctx, program[0], append(program[1:], file.Name())...)
		c.Stdin, c.Stdout, c.Stderr = d.p.stdin, d.p.stdout, d.p.stderr
		return c.Run()
	}); err != nil {
		err = fmt.Errorf("%s: %w", program[0], err)
		if now, e := os.ReadFile(file.Name()); e == nil && string(now) != text {
			return fmt.Errorf("%w; what was written is in %s", err, file.Name())
		}
		os.Remove(file.Name())
		return err
	}
	edited, err := takeMessage(file.Name())
	if err != nil {
		return err
	}
	if d.draft = strings.TrimSuffix(edited, "\n"); strings.HasPrefix(d.draft, "/") {
		d.draft = "/" + d.draft // it is a message, and no command
	}
	return nil
}

// editorCommand cuts a command line into a program and its arguments. The program may have spaces in its path, where
// that is all of the line or stands between double quotes.
func editorCommand(line string) []string {
	if _, err := exec.LookPath(line); err == nil {
		return []string{line}
	}
	if rest, quoted := strings.CutPrefix(strings.TrimSpace(line), `"`); quoted {
		if program, arguments, ok := strings.Cut(rest, `"`); ok {
			return append([]string{program}, strings.Fields(arguments)...)
		}
	}
	return strings.Fields(line)
}

// takeMessage reads a file that was written to be a message, and deletes it. What cannot be a message stays, for who
// has written it.
func takeMessage(path string) (string, error) {
	text, err := messageFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", err
	case err != nil:
		return "", fmt.Errorf("%w; the file is kept", err)
	}
	_ = os.Remove(path) // the text is here
	return text, nil
}

// messageFile reads a file that is to be a message or a part of one.
func messageFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > longestMessageText {
		return "", fmt.Errorf("%s: must be a regular file of at most %d bytes", path, longestMessageText)
	}
	data, err := os.ReadFile(path)
	if err == nil && !utf8.Valid(data) {
		err = fmt.Errorf("%s: not a text in UTF-8", path)
	}
	return string(withoutMark(data)), err
}

// attach puts a file in front of the next message.
func (d *dialog) attach(_ context.Context, path string) error {
	if path == "" {
		return errors.New("/file needs the name of a file")
	}
	text, err := messageFile(path)
	if err != nil {
		return err
	}
	if len(d.attached)+len(text) > longestMessageText {
		return fmt.Errorf("the files of a message may have %d bytes together", longestMessageText)
	}
	d.attached += path + ":\n" + strings.TrimSuffix(text, "\n") + "\n\n"
	d.note("(%d bytes of %s go with the next message)", len(text), terminal.Line(path, 0))
	return nil
}

// chooseDrafter shows or changes what drafts.
func (d *dialog) chooseDrafter(_ context.Context, name string) error {
	choice := d.request.Speculation
	if name != "" {
		if choice.Drafter = name; name == "auto" {
			choice.Drafter = ""
		}
	}
	full, err := d.Choose(choice, d.request.Sampling.MaxTemperature())
	if err != nil {
		return requestError(err)
	}
	if d.request.Speculation = choice; name == "" {
		d.note("drafter %s, schedule %s, verifier %s", full.Drafter, full.Schedule, full.Verify)
	}
	return nil
}
