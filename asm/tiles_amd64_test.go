//go:build !purego && amd64

package asm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// tilesCase is a product of panels with tiles.
type tilesCase struct {
	blocks, panels, tokens int  // blocks of the format, of 32 or 256 columns
	extreme                bool // greatest and least quants of both factors, which 16-bit sums must hold
}

// tilesSize is the tokens of a tile.
func tilesSize(k *Kernels, f Format) int {
	if f.Integer() {
		return k.TilesTokens
	}
	return k.FloatTokens
}

// tilesCases are all numbers of tokens of the last tile, and numbers of blocks around those of a chunk.
func tilesCases(k *Kernels, f Format) (all []tilesCase) {
	last, size := 0, tilesSize(k, f)
	add := func(blocks int) { // with fewer and with more than half of the last tile
		for _, half := range []int{0, size / 2} {
			last++
			tokens := (last%2)*size + half + 1 + last%(size/2)
			all = append(all, tilesCase{blocks, 1 + last%2, tokens, last%3 == 0})
		}
	}
	if f.Integer() && f.BlockWeights() > BlockSize {
		for blocks := 1; blocks <= 5; blocks++ {
			add(blocks)
		}
	} else {
		for _, blocks := range []int{1, 2, 3, 4, 5, 7, 8, 9, 14, 32, 33, 64 + 6} {
			add(blocks)
		}
	}
	if !f.Integer() { // around a piece of a panel, and of several pieces
		for _, cols := range []int{255, 256, 257, 511, 512, 513, 1281} {
			add((cols + f.BlockWeights() - 1) / f.BlockWeights())
		}
	}
	for tokens := 1; tokens <= size+1; tokens++ {
		all = append(all, tilesCase{1, 1, tokens, tokens%8 == 7})
	}
	return append(all, tilesCase{1, 1, MostTokens, false})
}

// MatMulTiles gives the bits of the scalar kernel for every number of tokens, blocks and panels. It writes nothing
// between the rows of out, and what a tile has beyond the tokens does not count.
func TestMatMulTiles(t *testing.T) {
	scalar := Scalar()
	for _, name := range Available() {
		k, err := Select(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Formats() {
			if k.Weights[f].MatMulTiles == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%v", name, f), func(t *testing.T) {
				for i, c := range tilesCases(&k, f) {
					c.compare(t, &k, &scalar, f, newRand(uint64(40+i)))
				}
			})
		}
	}
}

func (c tilesCase) compare(t *testing.T, k, scalar *Kernels, f Format, r *rand.Rand) {
	cols := c.blocks * f.BlockWeights()
	bytes := f.ProductBytes(cols)
	panels, plain := tail[byte](t, c.panels*bytes), make([]byte, c.panels*bytes)
	for p := range c.panels {
		raw := randomRows(r, f, PanelRows, cols)
		if c.extreme {
			raw = extremeRows(f, cols)
		}
		packProduct(f, k.Offset, panels[p*bytes:][:bytes], raw, PanelRows, cols)
		packProduct(f, false, plain[p*bytes:][:bytes], raw, PanelRows, cols)
	}
	stride := c.panels*PanelRows + 3
	got := tail[float32](t, (c.tokens-1)*stride+c.panels*PanelRows)
	want := make([]float32, (c.tokens+TileTokens)*stride)
	for i := range got {
		got[i], want[i] = 7, 7
	}
	var tiles []Tile
	size := tilesSize(k, f)
	for from := 0; from < c.tokens; from += size {
		n := min(size, c.tokens-from)
		all := n
		if size > TileTokens {
			all = size
		}
		x, _ := newTile(t, k, r, all, cols)
		if c.extreme {
			setExtremes(k, x)
		}
		for i := range x.D {
			if i%all >= n {
				x.D[i], x.DSum[i] = float32(math.NaN()), float32(math.Inf(1))
			}
		}
		if form := k.Forms[k.Weights[f].TilesForm]; form != nil {
			x.Words, x.Cross = tail[int16](t, len(x.Q)), tail[int32](t, len(x.D))
			x.LaneBias, x.LaneHalf = tail[int32](t, len(x.D)), tail[int32](t, 2*len(x.D))
			form(x)
		}
		tiles = append(tiles, *x)
		for at := 0; at < n; at += TileTokens {
			part := x
			if f.Integer() {
				part = x.part(at, min(TileTokens, n-at))
			}
			for p := range c.panels {
				scalar.Weights[f].MatMul(plain[p*bytes:][:bytes], part, want[(from+at)*stride+p*PanelRows:], stride, Prefetch{})
			}
		}
	}
	k.Weights[f].MatMulTiles(panels, c.panels, tiles, c.tokens, got, stride, tail[byte](t, k.TilesBytes), anyPrefetch(r))
	wantSame(t, fmt.Sprintf("%+v", c), got, want[:len(got)])
}

// part is a tile of n tokens, from one on.
func (x *Tile) part(from, n int) *Tile {
	p := new(Tile)
	p.ResizeQuantized(n, x.Cols)
	for b := range x.Cols / BlockSize {
		for t := range n {
			i, j := b*n+t, b*x.Tokens+from+t
			copy(p.Q[i*BlockSize:][:BlockSize], x.Q[j*BlockSize:])
			p.D[i], p.Bias[i], p.DSum[i] = x.D[j], x.Bias[j], x.DSum[j]
			copy(p.Half[2*i:2*i+2], x.Half[2*j:])
		}
	}
	return p
}
