//go:build !purego

package asm

import (
	"fmt"
	"syscall"
	"unsafe"
)

// Numbers of arch_prctl(2) since Linux 5.16, and the components of XSAVE that hold the tiles.
const (
	archSupported  = 0x1021
	archPermission = 0x1022
	archRequest    = 0x1023
	tileData       = 18
	tileState      = 1<<17 | 1<<tileData
)

// requestTiles asks Linux for the permission to use tiles, for all threads of the process, present and future. Without
// it the first tile instruction would raise SIGILL. It is asked only if the kernel saves tiles (it has set their bits
// in XCR0), and again afterwards: a seccomp filter may answer 0 and do nothing.
func requestTiles() error {
	if mask, err := archComponents(archSupported); err != nil || mask&tileState != tileState {
		return fmt.Errorf("the system does not save tiles (arch_prctl: %#x, %v)", mask, err)
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, archRequest, tileData, 0); e != 0 {
		return fmt.Errorf("the system refuses tiles: %w", e)
	}
	if mask, err := archComponents(archPermission); err != nil || mask&tileState != tileState {
		return fmt.Errorf("the system permits tiles, but its permissions are %#x (%v)", mask, err)
	}
	return nil
}

// archComponents is a mask of XSAVE components that arch_prctl answers with.
func archComponents(question uintptr) (mask uint64, err error) {
	if _, _, e := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, question, uintptr(unsafe.Pointer(&mask)), 0); e != 0 {
		return 0, e
	}
	return mask, nil
}
