package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endless generates until it is interrupted.
var endless = []string{"generate", "--ignore-eos", "--drafter", "none", "--no-kv-cache"}

func interrupt(t *testing.T, cmd *exec.Cmd, s os.Signal, stderr *bytes.Buffer) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Error(err)
	}
	if code := finish(t, cmd, stderr); code != exitInterrupted {
		t.Errorf("exit %d after %v, want %d; %s", code, s, exitInterrupted, stderr)
	}
}

func needSignals(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		t.Skip("no interrupts between processes here")
	}
}

// needInterrupts is for tests of Ctrl-C alone: a background job of a shell script ignores it, and what it starts.
func needInterrupts(t *testing.T) {
	needSignals(t)
	if signal.Ignored(os.Interrupt) {
		t.Skip("interrupts are ignored here, as in a background job of a shell")
	}
}

// heard are the signals that end a command here: one that is ignored, as under nohup, stays ignored. Asked at once:
// tests of the server listen to signals, and then none counts as ignored.
var heard = slices.DeleteFunc(slices.Clone(endSignals), signal.Ignored)

// Ctrl-C, SIGTERM and SIGHUP end the text with its figures.
func TestInterruptText(t *testing.T) {
	needSignals(t)
	for _, s := range heard {
		cmd, stdout, stderr := start(t, strings.NewReader(ring), endless...)
		text, trouble := &firstByte{Writer: stdout, given: make(chan struct{})},
			&firstByte{Writer: stderr, given: make(chan struct{})}
		cmd.Stdout, cmd.Stderr = text, trouble
		launch(t, cmd)
		select {
		case <-text.given:
		case <-trouble.given:
		}
		interrupt(t, cmd, s, stderr)
		if strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), " tokens in ") {
			t.Errorf("%v: standard error is not one line of figures: %q", s, stderr)
		}
	}
}

// With --json the text so far is printed. The trace tells when there is some.
func TestInterruptJSON(t *testing.T) {
	needSignals(t)
	for _, s := range heard {
		cmd, stdout, stderr := start(t, strings.NewReader(ring), append(endless, "--json", "--trace")...)
		traced := &firstByte{Writer: stderr, given: make(chan struct{})}
		cmd.Stderr = traced
		launch(t, cmd)
		<-traced.given
		interrupt(t, cmd, s, stderr)
		if r := decode[result](t, stdout.String()); r.Stats.End != "cancel" || r.Stats.Generated == 0 {
			t.Errorf("%v: %+v", s, r.Stats)
		}
	}
}

// killed is os/exec's exit code of a process that a signal ended.
const killed = -1

// The first Ctrl-C ends a command that waits for a pipe to say something, or for a FIFO to be opened.
func TestInterruptWaiting(t *testing.T) {
	needSignals(t)
	dir := t.TempDir() // each case has a FIFO of its own
	for name, args := range map[string][]string{
		"pipe":            {"generate"},
		"FIFO":            {"generate", "-f", "FIFO"},
		"tokenize FIFO":   {"tokenize", "-f", "FIFO"},
		"selftest FIFO":   {"selftest", "--prompts", "FIFO"},
		"compare FIFO":    {"compare", "--prompts", "FIFO"},
		"FIFO as output":  {"quantize", "../../testdata/go-draft.q8_0.gguf", "FIFO", "f16"},
		"perplexity pipe": {"perplexity"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if i := slices.Index(args, "FIFO"); i >= 0 {
				args[i] = filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
				if err := mkfifo(args[i]); err != nil {
					t.Skip("no named pipes here")
				}
			}
			in, silent, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer silent.Close()
			// A signal before the program listens kills it; on a busy machine that takes time, so the next attempt waits longer.
			for delay := 300 * time.Millisecond; ; delay *= 2 {
				cmd, _, stderr := start(t, in, args...)
				launch(t, cmd)
				done := make(chan int, 1)
				go func() { done <- finish(t, cmd, stderr) }()
				time.Sleep(delay)
				cmd.Process.Signal(syscall.SIGINT)
				select {
				case code := <-done:
					if code == killed && delay < 10*time.Second {
						continue
					}
					if code != exitInterrupted || stderr.Len() > 0 {
						t.Errorf("exit %d: %s", code, stderr)
					}
					return
				case <-time.After(60 * time.Second):
					cmd.Process.Kill()
					<-done
					t.Fatal("the first Ctrl-C did not end the command")
				}
			}
		})
	}
}
