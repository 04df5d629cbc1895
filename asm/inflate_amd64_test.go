//go:build !purego

package asm

import "testing"

// TestStepPlanes: the tables of 16 entries give every higher byte.
func TestStepPlanes(t *testing.T) {
	p := stepPlanes(gridIQ1[:])
	for i, e := range gridIQ1 {
		b := len(gridIQ1) + i/16
		n := len(gridIQ1) / 16
		high := p[b]
		if byte(i) > p[b+2*n] {
			high = p[b+n]
		}
		if p[i] != byte(e) || high != byte(e>>8) {
			t.Errorf("entry %d: %02x%02x, want %04x", i, high, p[i], e)
		}
	}
}
