package asm

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// Every set adds up the same words: all lengths of a few turns, odd offsets, with and without prefetching.
func TestReadSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 8<<10)
	for i := range buf {
		buf[i] = byte(rng.Uint32())
	}
	for _, k := range sets() {
		for n := range 700 {
			b := buf[n%3:][:n]
			padded := make([]byte, (n+7)/8*8)
			copy(padded, b)
			var want uint64
			for i := 0; i < len(padded); i += 8 {
				want += binary.LittleEndian.Uint64(padded[i:])
			}
			for _, distance := range []int{0, 4096} {
				if got := k.ReadSum(b, distance); got != want {
					t.Fatalf("%s: %d bytes, prefetch distance %d: %x, want %x", k.Name, n, distance, got, want)
				}
			}
		}
	}
}

func TestReadSumAllocatesNothing(t *testing.T) {
	buf := make([]byte, 8<<10)
	for _, k := range sets() {
		if n := testing.AllocsPerRun(10, func() { k.ReadSum(buf, 4096) }); n != 0 {
			t.Errorf("%s: %v allocations", k.Name, n)
		}
	}
}
