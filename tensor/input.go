package tensor

import (
	"fmt"
	"sync/atomic"

	"github.com/specgo/spec/asm"
)

// Input is the activations of one or more tokens, the right-hand side of a [Runtime.MatMul]. Its zero value is empty.
// The first MatMul that needs them makes the forms that kernels take: quantized for integer weights, float32 tiles
// for float weights; later ones share them. An Input keeps its memory for the next Set; it belongs to one goroutine.
type Input struct {
	x            []float32
	tokens, cols int
	tiles        []asm.Tile // of 8 tokens, the last one of the rest, as all tiles
	large        []asm.Tile // of a kernel set's TilesTokens tokens, where that is more
	floatTiles   []asm.Tile // of floatSize tokens
	floatSize    int
	quantized    bool
	enlarged     bool // large are made
	floats       bool
	formed       [asm.TileForms]bool // of tiles
	bad          atomic.Int64        // the first token that is not finite
}

// Set makes x [tokens][cols] the contents of in. x is not copied: it must not change before the last MatMul with it.
func (in *Input) Set(rt *Runtime, x []float32, tokens, cols int) error {
	in.x, in.tokens, in.cols = nil, 0, 0
	in.quantized, in.enlarged, in.floats, in.formed = false, false, false, [asm.TileForms]bool{}
	if tokens < 1 || cols < 1 || len(x)/tokens != cols || len(x)%tokens != 0 {
		return shapeError("%d activations for %d tokens of %d", len(x), tokens, cols)
	}
	in.x, in.tokens, in.cols = x, tokens, cols
	in.tiles = resizeTiles(in.tiles, tokens, asm.TileTokens)
	return nil
}

// resizeTiles makes as many tiles of size tokens as the tokens take, and keeps the memory of those there are.
func resizeTiles(tiles []asm.Tile, tokens, size int) []asm.Tile {
	n := (tokens + size - 1) / size
	if n > cap(tiles) {
		tiles = append(tiles[:cap(tiles)], make([]asm.Tile, n-cap(tiles))...)
	}
	return tiles[:n]
}

// enlarge reports whether weights of type t take the large tiles.
func (in *Input) enlarge(rt *Runtime, t Type) bool {
	return rt.k.TilesTokens > asm.TileTokens && rt.tiled(t, in.tokens)
}

// tilesFor are the tiles that weights of type t take, and their tokens.
func (in *Input) tilesFor(rt *Runtime, t Type) ([]asm.Tile, int) {
	switch {
	case !t.Integer():
		return in.floatTiles, in.floatSize
	case in.enlarge(rt, t):
		return in.large, rt.k.TilesTokens
	}
	return in.tiles, asm.TileTokens
}

// Tokens is the number of tokens of the last Set.
func (in *Input) Tokens() int { return in.tokens }

// prepare makes the form that weights of type t take. It runs on rt's pool, under rt's lock.
func (in *Input) prepare(rt *Runtime, t Type) error {
	made, unit, units := &in.floats, rt.matmul.floatUnit, len(in.tiles)
	switch {
	case !t.Integer():
		if !in.floats {
			in.floatSize = rt.k.FloatTile(in.tokens)
			in.floatTiles = resizeTiles(in.floatTiles, in.tokens, in.floatSize)
		}
		units = len(in.floatTiles)
	case in.enlarge(rt, t):
		made, unit = &in.enlarged, rt.matmul.largeUnit
		if !in.enlarged {
			in.large = resizeTiles(in.large, in.tokens, rt.k.TilesTokens)
			for i := range in.large {
				in.large[i].ResizeQuantized(rt.k.TilesTokens, in.cols)
			}
		}
	default:
		made, unit = &in.quantized, rt.matmul.quantizeUnit
	}
	if *made {
		in.form(rt, t)
		return nil
	}
	in.bad.Store(int64(in.tokens))
	rt.pool.run(units, unit)
	if i := int(in.bad.Load()); i < in.tokens {
		k := firstNotFinite(in.x[i*in.cols:][:in.cols])
		return fmt.Errorf("token %d: activation %d is %v: %w", i, k, in.x[i*in.cols+k], ErrNotFinite)
	}
	*made = true
	in.form(rt, t)
	return nil
}

// form makes the form of quantized tiles that the [asm.WeightKernels].MatMulTiles of t reads.
func (in *Input) form(rt *Runtime, t Type) {
	f := rt.k.Weights[t].TilesForm
	if f != asm.TileQuants && rt.tiled(t, in.tokens) && !in.formed[f] {
		rt.matmul.form = f
		rt.pool.run(len(in.tiles), rt.matmul.formUnit)
		in.formed[f] = true
	}
}

// tile is the i-th tile and its number of tokens.
func (in *Input) tile(i int) (x *asm.Tile, first, tokens int) {
	first = i * asm.TileTokens
	return &in.tiles[i], first, min(asm.TileTokens, in.tokens-first)
}

func (in *Input) quantizeTile(k *asm.Kernels, i int) {
	x, first, tokens := in.tile(i)
	x.ResizeQuantized(tokens, in.cols)
	for t := range tokens {
		if !k.Quantize(in.x[(first+t)*in.cols:][:in.cols], x, t) {
			in.reject(first + t)
		}
	}
}

// quantizeLarge quantizes as many tokens as a tile of the others has.
func (in *Input) quantizeLarge(k *asm.Kernels, i int) {
	_, first, tokens := in.tile(i)
	for t := first; t < first+tokens; t++ {
		if !k.Quantize(in.x[t*in.cols:][:in.cols], &in.large[t/k.TilesTokens], t%k.TilesTokens) {
			in.reject(t)
		}
	}
}

func (in *Input) floatTile(k *asm.Kernels, i int) {
	x, first := &in.floatTiles[i], i*in.floatSize
	tokens := min(in.floatSize, in.tokens-first)
	x.ResizeFloat(tokens, in.cols)
	v := in.x[first*in.cols:][:tokens*in.cols]
	k.Transpose(x.F, tokens, v, in.cols, tokens, in.cols)
	if k.Finite(v) {
		return
	}
	for t := range tokens {
		if !k.Finite(v[t*in.cols:][:in.cols]) {
			in.reject(first + t)
		}
	}
}

// reject records that a token is not finite; the first such token is kept.
func (in *Input) reject(token int) {
	for {
		first := in.bad.Load()
		if int64(token) >= first || in.bad.CompareAndSwap(first, int64(token)) {
			return
		}
	}
}
