//go:build !unix

package main

import (
	"os"
	"syscall"

	"github.com/specgo/spec/internal/lineedit"
)

// endSignals interrupt the program as Ctrl-C does: what was written so far is completed, exit code 130.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// hangup is the end of the program's terminal; there is no such signal here.
var hangup os.Signal

// survive lets the program go on when its terminal or the reader of its output is gone, which no signal tells here.
func (p *program) survive() (end func()) { return func() {} }

// pipesFail does nothing: here a write to nobody ends no program.
func pipesFail() (end func()) { return func() {} }

// unread is not known here.
func unread(error) bool { return false }

// hangups receives nothing: there is no such signal here.
func (p *program) hangups() (hung <-chan os.Signal, end func()) { return nil, func() {} }

// watchTerminal would tell the line editor what happens to its terminal, which no signal tells here.
func watchTerminal(*lineedit.Reader) (end func()) { return func() {} }
