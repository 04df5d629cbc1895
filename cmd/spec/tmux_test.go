package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/internal/lineedit"
)

// asEditor, if set in the environment, makes the test binary a program that tells what its line editor reads.
const asEditor = "SPEC_TEST_EDITOR"

// tellLines reads texts and tells their length and checksum. The text "panic" is what it says.
func tellLines() {
	e, err := lineedit.Open(os.Stdin, os.Stdout, lineedit.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer e.Close()
	defer watchTerminal(e)()
	for {
		text, err := e.Read(context.Background(), "> ", "")
		switch {
		case errors.Is(err, io.EOF):
			return
		case text == "panic":
			panic("as asked")
		}
		fmt.Printf("got %d %08x\n", len(text), crc32.ChecksumIEEE([]byte(text)))
	}
}

// A pane is a shell in a terminal of tmux.
type pane struct {
	t      *testing.T
	socket string
	spec   string // the command line of spec chat
	editor string // that of the program of tellLines
}

// newPane starts a shell in a terminal of some size. The tests run where SPEC_TMUX is set: they take seconds each.
func newPane(t *testing.T, width, height int) *pane {
	t.Helper()
	if os.Getenv("SPEC_TMUX") == "" {
		t.Skip("SPEC_TMUX is not set")
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := &pane{
		t: t, socket: filepath.Join(dir, "socket"),
		spec: asCommand + "=1 XDG_STATE_HOME=" + dir + " " + self +
			" chat --chat-template plain --temp 0 -n 8 --drafter none",
		editor: asEditor + "=1 " + self,
	}
	p.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height),
		"env LC_ALL=C.UTF-8 PS1='$ ' bash --norc --noprofile")
	t.Cleanup(func() { p.tmux("kill-server") })
	p.wait("$")
	return p
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-u", "-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// keys types keys by tmux's names, and text.
func (p *pane) keys(keys ...string) {
	p.t.Helper()
	p.tmux(append([]string{"send-keys"}, keys...)...)
}

func (p *pane) screen() string {
	p.t.Helper()
	var lines []string
	for l := range strings.Lines(p.tmux("capture-pane", "-p")) {
		lines = append(lines, strings.TrimRight(l, " \n"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// wait waits for the screen to end with a text.
func (p *pane) wait(end string) {
	p.t.Helper()
	p.until(fmt.Sprintf("end with %q", end), func(screen string) bool { return strings.HasSuffix(screen, end) })
}

// until waits for the screen to be as expected, 15 seconds at most.
func (p *pane) until(what string, expected func(screen string) bool) {
	p.t.Helper()
	var got string
	for range 300 {
		if got = p.screen(); expected(got) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.t.Fatalf("the screen does not %s:\n%s", what, got)
}

// restored checks that the shell's terminal echoes and reads lines, outside of the shell's own editor.
func (p *pane) restored() {
	p.t.Helper()
	p.keys("clear; stty -a | grep -o ' [-]*icanon\\| [-]*echo ' | tr -d '\\n'; echo .", "Enter")
	p.wait(" icanon echo .\n$")
}

// A paste of 1 MB is one message, whole, though it has line ends and control characters.
func TestTmuxPaste(t *testing.T) {
	p := newPane(t, 80, 24)
	var text strings.Builder
	for i := 0; text.Len() < 1<<20; i++ {
		fmt.Fprintf(&text, "line %d\twith 世界 and e\u0301\n", i)
	}
	file := filepath.Join(t.TempDir(), "paste")
	for _, paste := range []string{text.String(), strings.Repeat("x", 1<<20), "three\nshort\nlines"} {
		if err := os.WriteFile(file, []byte(paste), 0o600); err != nil {
			t.Fatal(err)
		}
		p.keys("clear; "+p.editor, "Enter")
		p.wait(">")
		p.tmux("load-buffer", file)
		p.tmux("paste-buffer", "-p")
		p.keys("Enter")
		p.wait(fmt.Sprintf("got %d %08x\n>", len(paste), crc32.ChecksumIEEE([]byte(paste))))
		p.keys("C-d")
		p.wait("$")
		p.restored()
	}
}

// What is typed, also of wide characters, stays what it is while the terminal gets narrower and wider.
func TestTmuxResize(t *testing.T) {
	p := newPane(t, 80, 20)
	p.keys("clear; "+p.editor, "Enter")
	p.wait(">")
	p.keys("-l", strings.Repeat("0123456789", 7)+"世界世界世界世界")
	p.wait("> " + strings.Repeat("0123456789", 7) + "世界世\n  界世界世界")
	p.tmux("resize-window", "-x", "40")
	p.wait("> 0123456789012345678901234567890123456\n" +
		"  789012345678901234567890123456789世界\n  世界世界世界")
	p.keys("Home", "-", "End", "+")
	p.tmux("resize-window", "-x", "300")
	p.wait("> -" + strings.Repeat("0123456789", 7) + "世界世界世界世界+")
	p.keys("BSpace", "BSpace", "Left", "Left", "x", "Enter")
	want := "-" + strings.Repeat("0123456789", 7) + "世界世界世x界世"
	p.wait(fmt.Sprintf("got %d %08x\n>", len(want), crc32.ChecksumIEEE([]byte(want))))
}

// The terminal is as it was after every way out.
func TestTmuxRestored(t *testing.T) {
	p := newPane(t, 80, 20)
	for _, out := range []string{"C-d", "panic", "TERM", "HUP", "INT"} {
		command := p.editor
		if out == strings.ToUpper(out) {
			command = p.spec
		}
		p.keys("clear; "+command, "Enter")
		p.wait(">")
		switch out {
		case "C-d":
			p.keys("C-d")
		case "panic":
			p.keys("panic", "Enter")
		default:
			p.keys("-l", "typed")
			p.wait("> typed")
			p.signal(out)
			if out == "INT" { // drops the line; the second one ends
				p.wait("ends)\n>")
				p.signal(out)
			}
		}
		p.wait("$")
		p.restored()
	}
	p.keys("clear; "+p.editor, "Enter")
	p.wait(">")
	p.keys("-l", "before")
	p.wait("> before")
	p.signal("STOP")
	p.wait("$")
	p.restored()
	p.keys("fg", "Enter")
	p.wait("> before")
	p.keys("-l", " behind")
	p.keys("Enter")
	p.wait(fmt.Sprintf("got 13 %08x\n>", crc32.ChecksumIEEE([]byte("before behind"))))
	p.keys("C-z")
	p.wait("$")
	p.restored()
}

// The terminal is restored where nobody reads the answers any more, which ends the conversation.
func TestTmuxReaderGone(t *testing.T) {
	p := newPane(t, 80, 20)
	p.keys("clear; "+p.spec+" | true", "Enter")
	p.wait("ends\n>")
	p.keys("-l", "func main() {")
	p.keys("Enter")
	p.wait("broken pipe\n$")
	p.restored()
}

// signal sends a signal to what runs in the foreground of the terminal.
func (p *pane) signal(name string) {
	p.t.Helper()
	tty := strings.TrimPrefix(strings.TrimSpace(p.tmux("display-message", "-p", "#{pane_tty}")), "/dev/")
	out, err := exec.Command("ps", "-o", "pid=,stat=", "-t", tty).Output()
	if err != nil {
		p.t.Fatal(err)
	}
	for l := range strings.Lines(string(out)) {
		if f := strings.Fields(l); len(f) == 2 && strings.Contains(f[1], "+") {
			if out, err := exec.Command("kill", "-"+name, f[0]).CombinedOutput(); err != nil {
				p.t.Fatalf("%v: %s", err, out)
			}
		}
	}
}

// A conversation: the history of an earlier one, ctrl-c during an answer and at the prompt, completion.
func TestTmuxChat(t *testing.T) {
	p := newPane(t, 60, 20)
	p.keys("clear; "+p.spec, "Enter")
	p.wait("ends\n>")
	p.keys("-l", "func 世界() {")
	p.keys("C-c")
	p.wait("\n> func 世界() {\n>")
	p.keys("-l", "/set pre")
	p.keys("Tab")
	p.keys("-l", "4")
	p.keys("Enter")
	p.wait("\n> /set predict 4\n>")
	p.keys("C-d")
	p.wait("$")
	p.keys("clear; "+strings.Replace(p.spec, "-n 8", "--ignore-eos --no-kv-cache", 1), "Enter")
	p.wait("ends\n>")
	p.keys("Up", "C-u")
	p.keys("-l", "func main() {")
	p.keys("Enter")
	p.until("show an answer", func(screen string) bool { // of more lines than the question
		_, answer, asked := strings.Cut(screen, "func main() {\n")
		return asked && strings.TrimSpace(answer) != "" || !asked && !strings.Contains(screen, "ends\n>")
	})
	p.keys("C-c")
	p.wait("(stopped)\n>")
	p.keys("C-r")
	p.keys("-l", "dict")
	p.wait("? /set predict 4\nsearch: dict_")
	p.keys("C-c", "C-d")
	p.wait("$")
	p.restored()
}

// /edit gives the last message to $EDITOR, and what that leaves is the next message, to go on with; Tab completes a
// drafter's name.
func TestTmuxEdit(t *testing.T) {
	p := newPane(t, 80, 20)
	program := filepath.Join(t.TempDir(), "editor")
	write(t, program, "#!/bin/sh\nstty -a | grep -q ' icanon ' && sed -i 's/first/second/; $a more' \"$1\"\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	p.keys("clear; VISUAL= EDITOR="+program+" "+p.spec, "Enter")
	p.wait("ends\n>")
	p.keys("-l", "// first")
	p.keys("Enter")
	p.wait("\n>")
	p.keys("-l", "/edit")
	p.keys("Enter")
	p.wait("\n> // second\n. more")
	p.keys("-l", " and more")
	p.wait("\n> // second\n. more and more")
	p.keys("C-c")
	p.wait(">")
	p.keys("-l", "/draft suff")
	p.keys("Tab")
	p.wait("\n> /draft suffix")
	p.keys("Enter")
	p.wait("\n> /draft suffix\n>")
	p.keys("C-d")
	p.wait("$")
	p.restored()
}

// Without a terminal lines have any length.
func TestPipedLongLine(t *testing.T) {
	d, _, _ := newDialog(strings.Repeat("x", 1<<20) + "\nshort\n")
	if text, err := d.read(t.Context()); err != nil || len(text) != 1<<20 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
