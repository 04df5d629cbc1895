//go:build !purego && (amd64 || arm64)

package asm

import "testing"

// TestAheadPart: the parts of a tile prefetch one after the other, without gaps and hardly more than the whole.
func TestAheadPart(t *testing.T) {
	r := newRand(30)
	for range 1000 {
		a := Ahead{From: r.IntN(1<<20) - 1<<19, Step: r.IntN(1000)}
		tokens, most, steps := 1+r.IntN(TileTokens), 1+r.IntN(TileTokens), 1+r.IntN(3000)
		upto, n := a.From, 0
		for i := 0; i < tokens; i += n {
			n = part(tokens-i, most)
			from, step := a.part(i, n, tokens, steps)
			if from > upto {
				t.Fatalf("%+v, %d of %d tokens: from %d, after %d", a, i, tokens, from, upto)
			}
			upto = from + step*steps
		}
		if end := a.From + a.Step*steps; upto < end || upto >= end+steps {
			t.Fatalf("%+v in %d steps: up to %d", a, steps, upto)
		}
	}
}
