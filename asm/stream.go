package asm

import "encoding/binary"

// readSum is the scalar [MemoryKernels].ReadSum. Go has no prefetch instruction, so distance is not used.
func readSum(b []byte, _ int) uint64 {
	var s0, s1, s2, s3 uint64
	for ; len(b) >= 32; b = b[32:] {
		s0 += binary.LittleEndian.Uint64(b)
		s1 += binary.LittleEndian.Uint64(b[8:])
		s2 += binary.LittleEndian.Uint64(b[16:])
		s3 += binary.LittleEndian.Uint64(b[24:])
	}
	for i, v := range b {
		s0 += uint64(v) << (i % 8 * 8)
	}
	return s0 + s1 + s2 + s3
}
