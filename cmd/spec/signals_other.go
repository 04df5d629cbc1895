//go:build !unix

package main

import (
	"os"
	"syscall"
)

// endSignals interrupt the program as Ctrl-C does: what was written so far is completed, exit code 130.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}
