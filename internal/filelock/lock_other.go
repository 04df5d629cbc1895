//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package filelock

import "os"

// Works reports whether this system has such locks.
const Works = false

// Lock marks nothing: here files cannot be locked in this way.
func Lock(*os.File) (unlock func(), err error) { return func() {}, nil }

// Locked is false: nothing is marked.
func Locked(*os.File) bool { return false }
