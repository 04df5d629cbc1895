//go:build !purego

package asm

// sets returns the kernel sets this machine can run, best last. golang.org/x/sys/cpu decides.
func sets() []Kernels {
	all := []Kernels{Scalar()}
	return all
}
