//go:build !linux && !darwin

package tensor

import (
	"runtime"

	"github.com/specgo/spec/asm"
)

// usableCores is the number of physical cores this process may keep busy.
func usableCores() int {
	n := runtime.NumCPU()
	if cores := asm.CPU().PhysicalCores; cores > 0 {
		n = min(n, cores)
	}
	return max(1, n)
}
