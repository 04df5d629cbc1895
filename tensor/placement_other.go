//go:build !linux

package tensor

import (
	"fmt"
	"runtime"
)

// place is the placement of threads on this machine; of 0 threads, as many as there are cores.
func place(mode string, threads int) (placement, error) {
	if mode != "" {
		return placement{}, fmt.Errorf("%q: %w: threads are bound to memory nodes on Linux, not on %s", mode, ErrNUMA,
			runtime.GOOS)
	}
	if threads == 0 {
		threads = max(1, min(usableCores(), runtime.GOMAXPROCS(0)))
	}
	return unplaced(threads), nil
}
