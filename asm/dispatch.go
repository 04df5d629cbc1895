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
var names = []string{"scalar", "avx2", "avxvnni", "avx512", "amx", "neon", "dotprod", "i8mm"}

// Names are the kernel sets of all processors.
func Names() []string { return slices.Clone(names) }

// Select returns the kernel set of that name, or the best one of this machine if name is empty. The error wraps
// [ErrUnknown] or [ErrUnavailable]. For "amx" or the best one it asks the system for the tile unit: see [TileUnit].
func Select(name string) (Kernels, error) {
	all := sets()
	if name == "" || name == "amx" {
		k, err := tileSet()
		if err == nil {
			all = append(all, k)
		} else if name == "amx" {
			return Kernels{}, fmt.Errorf("SIMD amx: %w (%w)", ErrUnavailable, err)
		}
	}
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
	if k, err := tileSet(); err == nil {
		list = append(list, k.Name)
	}
	return list
}

// Vector is the best kernel set of this machine without its tile unit, for which Select asks the system.
func Vector() Kernels {
	all := sets()
	return all[len(all)-1]
}

// errNoTiles says that the processor has no tile unit that kernels use.
var errNoTiles = errors.New("the processor has no tile unit")

// TileUnit says why the set amx does not exist although the processor has its tile unit: the system refuses it. Else it
// is nil. Linux gives a process its tiles on request, for all its threads and until it ends: the first Select("amx"),
// Select(""), Available or TileUnit asks, once. Signal frames of threads that used tiles are 8 KB larger.
func TileUnit() error {
	if _, err := tileSet(); err != nil && !errors.Is(err, errNoTiles) {
		return err
	}
	return nil
}
