package asm

import "github.com/klauspost/cpuid/v2"

// Machine describes the processor, for the choice of tile sizes and for display. [Select] does not use it. Zero:
// unknown.
type Machine struct {
	Name          string
	L1D, L2, L3   int // bytes; L1D and L2 of one core, L3 of one group of cores that share it
	PhysicalCores int
}

// CPU describes this machine's processor.
func CPU() Machine {
	c := &cpuid.CPU
	return Machine{
		Name:          c.BrandName,
		L1D:           max(c.Cache.L1D, 0),
		L2:            max(c.Cache.L2, 0),
		L3:            max(c.Cache.L3, 0),
		PhysicalCores: max(c.PhysicalCores, 0),
	}
}
