package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pseudoterminal is a terminal, and the end of it at which somebody types and reads.
func pseudoterminal(t *testing.T) (terminal, user *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { user.Close() })
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err = errors.Join(err, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Skip(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, user
}

// The question whether a large copy of weights may be written ends with Ctrl-C; in a conversation, whose editor reads
// the terminal, it is not asked.
func TestTheQuestionForALargeCopyEnds(t *testing.T) {
	tty, user := pseudoterminal(t)
	p := &program{stdin: tty, stdout: tty, stderr: tty}
	asks := func(ctx context.Context, m modelFlags) error {
		answer := make(chan error, 1)
		go func() { answer <- m.mayWrite(ctx, p, "large.gguf", "cache/0123.panels", unasked+1) }()
		select {
		case err := <-answer:
			return err
		case <-time.After(10 * time.Second):
			return errors.New("it waits on")
		}
	}
	if err := asks(t.Context(), modelFlags{conversing: true}); err == nil || !strings.Contains(err.Error(), "--panels") {
		t.Errorf("in a conversation: %v", err)
	}
	for answer, good := range map[string]bool{"y\n": true, "Yes\n": true, "n\n": false, "\n": false} {
		if _, err := user.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		if err := asks(t.Context(), modelFlags{}); good != (err == nil) {
			t.Errorf("%q: %v", answer, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := asks(ctx, modelFlags{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Ctrl-C: %v", err)
	}
	seen := make([]byte, 4096)
	n, err := user.Read(seen)
	if err != nil || !bytes.Contains(seen[:n], []byte("Write it? [y/N] ")) {
		t.Errorf("%q, %v", seen[:n], err)
	}
	if _, err := user.WriteString("\n"); err != nil { // for who still reads
		t.Fatal(err)
	}
}
