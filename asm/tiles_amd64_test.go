//go:build !purego && amd64

package asm

import (
	"fmt"
	"testing"
)

// MatMulTiles gives the bits of the scalar kernel for every number of tiles, tokens of the last one, and blocks.
func TestMatMulTiles(t *testing.T) {
	scalar := Scalar()
	tested := 0
	for _, name := range Available() {
		k, err := Select(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Formats() {
			if k.MatMulTiles[f] == nil {
				continue
			}
			tested++
			for blocks := 1; blocks <= 24; blocks++ {
				cols := blocks * f.BlockWeights()
				r := newRand(uint64(40 + blocks))
				n, last := 1+blocks%3, 1+blocks%TileTokens
				// greatest and least quants of both factors, which 16-bit sums must hold; every number of tokens of the last tile
				extreme := blocks > 16
				raw := randomRows(r, f, PanelRows, cols)
				if extreme {
					raw = extremeRows(f, cols)
				}
				panel, plain := tail[byte](t, f.ProductBytes(cols)), make([]byte, f.ProductBytes(cols))
				packProduct(f, k.Offset, panel, raw, PanelRows, cols)
				packProduct(f, false, plain, raw, PanelRows, cols)
				const stride = PanelRows + 3
				tokens := (n-1)*TileTokens + last
				got, want := tail[float32](t, (tokens-1)*stride+PanelRows), make([]float32, n*TileTokens*stride)
				for i := range got {
					got[i] = 7
				}
				tiles := make([]Tile, n)
				for i := range tiles {
					count := TileTokens
					if i == n-1 {
						count = last
					}
					x, _ := newTile(t, &k, r, count, cols)
					if extreme {
						setExtremes(&k, x)
					}
					if k.Widen != nil {
						x.Words, x.Cross = tail[int16](t, len(x.Q)), tail[int32](t, len(x.D))
						k.Widen(x)
					}
					tiles[i] = *x
					scalar.MatMul[f](plain, x, want[i*TileTokens*stride:], stride, Prefetch{})
				}
				k.MatMulTiles[f](panel, tiles, got, stride, tail[byte](t, ExpandedBytes), anyPrefetch(r))
				for i := range got {
					if i%stride >= PanelRows {
						want[i] = 7 // between the rows of out nothing is written
					}
				}
				wantSame(t, fmt.Sprintf("%s %v, %d blocks, %d tiles, last of %d", name, f, blocks, n, last), got, want[:len(got)])
			}
		}
	}
	t.Logf("%d kernels", tested)
}
