package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/speculative"
)

// /file puts texts in front of the next message, /raw writes the last answer again, /show the conversation.
func TestChatFilesAndTexts(t *testing.T) {
	dir := t.TempDir()
	file, bad, saved := filepath.Join(dir, "a.go"), filepath.Join(dir, "b"), filepath.Join(dir, "c.json")
	os.WriteFile(file, []byte("package a\n"), 0o666)
	os.WriteFile(bad, []byte{0xff}, 0o666)
	script := "/file " + file + "\nfunc main() {\n/raw\nsecond\n/save " + saved + "\n/show\n/model\n/draft none\n/draft\n"
	stdout, stderr, code := spec(t, script, greedyChat...)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	m := savedMessages(t, saved)
	if m[0].Content != file+":\npackage a\n\nfunc main() {" || m[2].Content != "second" {
		t.Errorf("messages %q, %q", m[0].Content, m[2].Content)
	}
	if answer := strings.TrimSuffix(m[1].Content, "\n") + "\n"; !strings.HasPrefix(stdout, answer+answer) {
		t.Errorf("/raw: %q", stdout)
	}
	for _, want := range []string{"[user]\nsecond\n", "a context of ", "drafter none"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %s", want, stderr)
		}
	}
	for command, want := range map[string]string{
		"/file": "needs the name", "/file " + bad: "not a text", "/file " + dir: "regular file", "/raw": "no answer",
		"/edit": "needs a terminal", "/draft nosuch": "nosuch", "/set markdown x": "markdown",
	} {
		if _, stderr, code := spec(t, command+"\n", greedyChat...); code != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d: %s", command, code, stderr)
		}
	}
}

// /save replaces what it has written, and an empty file; every other file stays, as the model's own.
func TestSaveReplacesConversationsAlone(t *testing.T) {
	dir := t.TempDir()
	model, note := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "note.json")
	data, err := os.ReadFile("../../testdata/go-draft.q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	write(t, model, string(data))
	write(t, note, `{"schema": 1, "messages": 3}`)
	for _, file := range []string{model, note} {
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, stderr, code := spec(t, "/save "+file+"\n", with(greedyChat, "-m", model)...)
		if code != exitFailed || !strings.Contains(stderr, "/save replaces a saved conversation alone: "+file+": ") {
			t.Errorf("%s: exit %d, %s", file, code, stderr)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != string(before) {
			t.Errorf("%s: %d bytes of %d, %v", file, len(now), len(before), err)
		}
	}
	empty := filepath.Join(dir, "empty")
	write(t, empty, "")
	if _, stderr, code := spec(t, "/save "+empty+"\n/system S\n/save "+empty+"\n", greedyChat...); code != exitDone ||
		len(savedMessages(t, empty)) != 1 {
		t.Errorf("again: exit %d, %s", code, stderr)
	}
}

// Markdown has a style on a terminal with colors, and is kept as it is.
func TestChatMarkdown(t *testing.T) {
	for _, c := range []struct {
		color, drafts, raw bool
		want               string
	}{
		{true, false, false, "a \x1b[0m\x1b[1mb\x1b[0m \\x1b\x1b[0m\n"},
		{true, true, false, "\x1b[32ma **b** \\x1b\x1b[0m\n"},
		{true, false, true, "a **b** \\x1b\n"}, {false, false, false, "a **b** \\x1b\n"},
	} {
		d, stdout, _ := newDialog("")
		d.color, d.showDrafts, d.markdown = c.color, c.drafts, !c.raw
		a := d.newAnswer()
		e := library.Event{Text: "a **b** \x1b"}
		e.Token.Drafted = true
		if err := a.write(&e); err != nil {
			t.Fatal(err)
		}
		if err := a.end(); err != nil || stdout.String() != c.want || a.message.Content != e.Text {
			t.Errorf("%+v: %q, %v", c, stdout, err)
		}
	}
}

// What drafts did is one line, for somebody who types.
func TestChatDraftLine(t *testing.T) {
	d, _, stderr := newDialog("")
	d.color = true // of answers: what is told beside them is not on a terminal here
	d.last = turn{generated: 9, stats: speculative.Stats{Drafted: 8, Accepted: 5, TargetPasses: 4}}
	d.drafted()
	d.typed = false
	d.drafted()
	if want := "(5 of 8 drafted tokens accepted, 9 tokens in 4 passes)\n"; stderr.String() != want {
		t.Errorf("%q", stderr)
	}
}

func TestChatCompletion(t *testing.T) {
	dir := t.TempDir() + string(filepath.Separator)
	os.WriteFile(dir+"one.json", nil, 0o666)
	os.Mkdir(dir+"open", 0o777)
	d, _, _ := newDialog("")
	d.p.env = func(name string) string { return map[string]string{"HOME": filepath.Clean(dir)}[name] }
	for text, want := range map[string][]string{
		"/load ~/o": {"~/one.json", "~/open" + string(filepath.Separator)}, "/load ~": nil,
		"/sta": {"/stats"}, "/mo": {"/model "}, "/model " + dir + "on": {dir + "one.json"}, "/set see": {"seed "},
		"/set when-full d": {"drop"}, "/set seed ": nil, "/set markdown ": {"show", "raw"},
		"/draft suf": {"suffix"}, "/draft a": {"auto"}, "/draft te": nil, "no /sta": nil, "/nosuch x": nil,
		"/load " + dir + "o": {dir + "one.json", dir + "open" + string(filepath.Separator)},
	} {
		from, got := d.complete(text)
		if !slices.Equal(got, want) || len(got) > 0 && !strings.HasPrefix(got[0], text[from:]) {
			t.Errorf("%q: %q from %d", text, got, from)
		}
	}
	env := map[string]string{}
	p := &program{env: func(name string) string { return env[name] }}
	if historyFile(p, noHistory) != "" || historyFile(p, "x") != "x" {
		t.Error("--history is not taken")
	}
	env["XDG_STATE_HOME"] = dir
	if got := historyFile(p, ""); got != filepath.Join(dir, "spec", "history") {
		t.Error(got)
	}
}

// A ~ before a path is the user's folder, where a command takes a file.
func TestFilesAtHome(t *testing.T) {
	home := t.TempDir()
	d, _, stderr := newDialog("")
	d.p.env = func(name string) string { return map[string]string{"HOME": home}[name] }
	for _, line := range []string{"save ~/a.json", "load ~/a.json", "file ~/a.json"} {
		if err := d.command(t.Context(), line); err != nil {
			t.Errorf("/%s: %v", line, err)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "a.json")); err != nil {
		t.Errorf("%v, %s", err, stderr)
	}
}

// The editor's path may have spaces.
func TestEditorCommand(t *testing.T) {
	program := put(t, filepath.Join(t.TempDir(), "my editor.exe"), "#!/bin/sh\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string][]string{
		program: {program}, `"` + program + `" --wait -n`: {program, "--wait", "-n"}, " vim -u  NONE ": {"vim", "-u", "NONE"},
		" ": {}, `"vim`: {`"vim`},
	} {
		if got := editorCommand(line); !slices.Equal(got, want) {
			t.Errorf("%q: %q", line, got)
		}
	}
}

// What was written in an editor is deleted when it is taken, and kept where it cannot be a message.
func TestWhatWasWrittenIsKept(t *testing.T) {
	for text, want := range map[string]bool{"a message\n": true, "caf\xe9": false} {
		file := put(t, filepath.Join(t.TempDir(), "message"), text)
		got, err := takeMessage(file)
		if _, gone := os.Stat(file); (err == nil) != want || want != (gone != nil) || want != (got == text) ||
			!want && !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %q, %v, %v", text, got, err, gone)
		}
	}
}

// /save says that JSON does not have what is not UTF-8.
func TestSaveOfHalfACharacter(t *testing.T) {
	dir := t.TempDir()
	for content, says := range map[string]bool{"caf\xc3": true, "café \ufffd": false} {
		d, _, stderr := newDialog("")
		d.messages = []chat.Message{chat.User("u"), chat.Assistant(content)}
		if err := d.saveCommand(t.Context(), filepath.Join(dir, "saved")); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(stderr.String(), "not UTF-8"); got != says {
			t.Errorf("%q: %s", content, stderr)
		}
	}
}
