//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endSignals interrupt the program as Ctrl-C does: what was written so far is completed, exit code 130.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// hangup is the end of the program's terminal.
const hangup = syscall.SIGHUP

// survive lets the program go on without its terminal and when nobody reads its output any more, until the function is
// called.
func (p *program) survive() (end func()) {
	broken := make(chan os.Signal, 1) // a signal that is asked for ends no program; nobody has to read it
	signal.Notify(broken, syscall.SIGPIPE)
	p.survives.Store(true)
	return func() {
		p.survives.Store(false)
		signal.Stop(broken)
	}
}
