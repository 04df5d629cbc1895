//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package batch

import "os"

// lock does nothing: here files cannot be locked in this way.
func lock(*os.File) (unlock func(), err error) { return func() {}, nil }
