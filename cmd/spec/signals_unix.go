//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/specgo/spec/internal/lineedit"
)

// endSignals interrupt the program as Ctrl-C does: what was written so far is completed, exit code 130.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// hangup is the end of the program's terminal.
const hangup = syscall.SIGHUP

// survive lets the program go on without its terminal and when nobody reads its output any more, until the function is
// called.
func (p *program) survive() (end func()) {
	pipesEnd := pipesFail()
	p.survives.Store(true)
	return func() {
		p.survives.Store(false)
		pipesEnd()
	}
}

// pipesFail has what is written to nobody return an error instead of ending the program, until end is called.
func pipesFail() (end func()) {
	broken := make(chan os.Signal, 1) // a signal that is asked for ends no program; nobody has to read it
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// unread reports whether an error is that of a write to nobody.
func unread(err error) bool { return errors.Is(err, syscall.EPIPE) }

// hangups receives a value at each hangup, until end is called.
func (p *program) hangups() (hung <-chan os.Signal, end func()) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, hangup)
	return heard, func() { signal.Stop(heard) }
}

// watchTerminal tells the line editor what happens to its terminal, until end is called.
func watchTerminal(e *lineedit.Reader) (end func()) {
	heard := make(chan os.Signal, 8)
	signal.Notify(heard, syscall.SIGWINCH, syscall.SIGCONT)
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(heard, syscall.SIGTSTP)
	}
	go func() {
		for s := range heard {
			switch s {
			case syscall.SIGWINCH:
				e.Resized()
			case syscall.SIGCONT:
				e.Resumed()
			case syscall.SIGTSTP:
				e.Stop()
			}
		}
	}()
	return func() {
		signal.Stop(heard)
		close(heard)
	}
}
