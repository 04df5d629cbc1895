//go:build !purego && (amd64 || arm64)

package asm

import (
	"testing"
	"unsafe"
)

// TestPrefetchPart: the parts of a tile prefetch one after the other, without gaps and hardly more than the whole.
func TestPrefetchPart(t *testing.T) {
	r := newRand(30)
	for range 1000 {
		a := Prefetch{From: r.IntN(1<<20) - 1<<19, Step: r.IntN(1000)}
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

// TestFloatPieces: long columns are cut, so that no kernel takes long, and prefetch as one stream all the same.
func TestFloatPieces(t *testing.T) {
	const tokens, cols, bytes = 8, 3*floatColumns + 5, 32
	panel, out := make([]byte, cols*bytes), make([]float32, tokens*PanelRows)
	a := Prefetch{From: 1 << 13, Step: 29}
	upto, calls := a.From, 0
	kernel := floatKernel(func(w *byte, _ *float32, k, _, _ int, _ *float32, _, prefetch, step int) {
		from := int(uintptr(unsafe.Pointer(w))-uintptr(unsafe.Pointer(&panel[0]))) + prefetch
		if k > floatColumns || from > upto {
			t.Fatalf("call %d: %d columns, prefetch from %d after %d", calls, k, from, upto)
		}
		upto = from + step*k
		calls++
	})
	x := &Tile{Tokens: tokens, Cols: cols, F: make([]float32, cols*tokens)}
	floatMatMul(kernel, bytes, 6)(panel, x, out, PanelRows, a)
	if end := a.From + a.Step*cols; calls != 4*2 || upto < end || upto > end+cols {
		t.Errorf("%d calls prefetch up to %d, not %d", calls, upto, end)
	}
}

// TestFloatTilesPrefetch: before a piece of a panel is multiplied, all of it has been prefetched by the tiles of the
// piece before, and after the last one as many bytes of what follows.
func TestFloatTilesPrefetch(t *testing.T) {
	for _, c := range []struct{ cols, panels, tokens int }{{100, 1, 7}, {700, 3, 24}, {1281, 2, 13}, {3, 4, 250}} {
		size := F16.ProductBytes(c.cols)
		panels, out := make([]byte, c.panels*size), make([]float32, c.tokens*c.panels*PanelRows)
		prefetched := make([]bool, len(panels)+size)
		last, length := 0, 0
		kernel := floatKernel(func(w *byte, _ *float32, k, n, tokens int, _ *float32, _, prefetch, step int) {
			at := int(uintptr(unsafe.Pointer(w)) - uintptr(unsafe.Pointer(&panels[0])))
			for i := at; i < at+k*32; i++ {
				if at != 0 && !prefetched[i] {
					t.Fatalf("%+v: byte %d is multiplied before it is prefetched", c, i)
				}
			}
			if k*32 > floatPiece || n != tokens {
				t.Fatalf("%+v: %d columns, %d of %d tokens", c, k, n, tokens)
			}
			for i := at + prefetch; i < min(at+prefetch+step*k, len(prefetched)); i++ {
				prefetched[i] = true
			}
			last, length = at, k*32
		})
		tiles := make([]Tile, (c.tokens+5)/6)
		for i := range tiles {
			tiles[i].ResizeFloat(min(6, c.tokens-6*i), c.cols)
		}
		floatTiles(F16, kernel, 32)(panels, c.panels, tiles, c.tokens, out, c.panels*PanelRows, nil, Prefetch{})
		for i := range length {
			if end := len(panels); !prefetched[end+i] || last+length > end {
				t.Fatalf("%+v: byte %d after the panels is not prefetched", c, i)
			}
		}
	}
}
