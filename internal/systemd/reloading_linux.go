package systemd

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Reloading are the lines that tell of the beginning of a reload, whose end READY=1 tells.
func Reloading() []string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return []string{"RELOADING=1"}
	}
	return []string{"RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000)}
}
