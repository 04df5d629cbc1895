package tensor

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// usableCores is the number of physical cores this process may keep busy: on Apple's chips the performance cores, on
// others all.
func usableCores() int {
	n := runtime.NumCPU()
	for _, name := range []string{"hw.perflevel0.physicalcpu", "hw.physicalcpu"} {
		if cores, err := unix.SysctlUint32(name); err == nil && cores > 0 {
			return min(n, int(cores))
		}
	}
	return n
}
