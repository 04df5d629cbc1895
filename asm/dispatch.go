package asm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Errors of Select, wrapped with the name.
var (
	ErrUnknown     = errors.New("no such kernel set")
	ErrUnavailable = errors.New("kernel set not available on this machine")
)

// names are all kernel sets, of all processors.
var names = []string{"scalar", "avx2", "avxvnni", "avx512", "neon", "dotprod", "i8mm"}

// Select returns the kernel set of that name, or the best one of this machine if name is empty. The error wraps
// [ErrUnknown] or [ErrUnavailable].
func Select(name string) (Kernels, error) {
	all := sets()
	if name == "" {
		return all[len(all)-1], nil
	}
	for _, k := range all {
		if k.Name == name {
			return k, nil
		}
	}
	if slices.Contains(names, name) {
		return Kernels{}, fmt.Errorf("SIMD %s: %w (it has %s)", name, ErrUnavailable, strings.Join(Available(), ", "))
	}
	return Kernels{}, fmt.Errorf("SIMD %q: %w (there are %s)", name, ErrUnknown, strings.Join(names, ", "))
}

// Available names the kernel sets of this machine, best last. The first is always scalar.
func Available() []string {
	var list []string
	for _, k := range sets() {
		list = append(list, k.Name)
	}
	return list
}
