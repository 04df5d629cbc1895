//go:build !purego

package asm

import "unsafe"

// expandKernel writes blocks of a panel into a buffer.
type expandKernel func(w *byte, blocks int, buffer *byte, prefetch, step int)

// bufferKernel multiplies blocks in a buffer with a tile, and adds to out. q are its quants, or words.
type bufferKernel[Q, S any] func(w *byte, q *Q, d *float32, sums *S, blocks, n, tokens int, out *float32, stride int)

// tableExpandKernel is an expandKernel that looks weights up.
type tableExpandKernel func(w *byte, blocks int, buffer *byte, prefetch, step int, table *[32]byte)

// tableTiles is matMulTiles for a table type.
func tableTiles[Q, S any](f Format, expand tableExpandKernel, kernel bufferKernel[Q, S],
	of func(*Tile) ([]Q, []S)) MatMulTiles {
	t := formats[f].table
	values := t.kernelTable()
	product := matMulTiles(f, func(w *byte, blocks int, buffer *byte, prefetch, step int) {
		expand(w, blocks, buffer, prefetch, step, values)
	}, kernel, of)
	return func(panels []byte, count int, tiles []Tile, tokens int, out []float32, stride int, buffer []byte,
		prefetch Prefetch) {
		product(panels, count, tiles, tokens, out, stride, buffer, prefetch)
		for p := range count {
			t.scaleOut(tokens, out[p*PanelRows:], stride)
		}
	}
}

// matMulTiles makes a MatMulTiles. of gives a tile's quants and sums. Products are added up in the buffer: in out their
// rows lie a multiple of 4 KB apart as a rule, and those of 8 tokens would fill one set of an L1 cache of 8 ways.
func matMulTiles[Q, S any](f Format, expand expandKernel, kernel bufferKernel[Q, S],
	of func(*Tile) ([]Q, []S)) MatMulTiles {
	perToken := f.sumsPerToken()
	unit, units := f.productBlock(), f.BlockWeights()/BlockSize // bytes, blocks
	one := func(panel []byte, tiles []Tile, out []float32, stride int, buffer []byte, prefetch Prefetch) {
		blocks := tiles[0].Cols / BlockSize
		_, _ = panel[f.ProductBytes(tiles[0].Cols)-1], buffer[tilesBytes-1]
		sums := (*[MostTokens / TileTokens][TileTokens * PanelRows]float32)(unsafe.Pointer(&buffer[expandedBytes]))
		clear(sums[:len(tiles)])
		for from := 0; from < blocks; from += expandedBlocks {
			n := min(expandedBlocks, blocks-from)
			expand(&panel[from*unit/units], n, &buffer[0], prefetch.From, prefetch.Step)
			for i := range tiles {
				x := &tiles[i]
				q, s := of(x)
				at := from * x.Tokens
				_, _, _ = q[(at+n*x.Tokens)*BlockSize-1], x.D[at+n*x.Tokens-1], s[(at+n*x.Tokens)*perToken-1]
				kernel(&buffer[0], &q[at*BlockSize], &x.D[at], &s[at*perToken], n, x.Tokens, x.Tokens, &sums[i][0],
					PanelRows)
			}
		}
		for i := range tiles {
			for t := range tiles[i].Tokens {
				*(*[PanelRows]float32)(out[(i*TileTokens+t)*stride:]) = *(*[PanelRows]float32)(sums[i][t*PanelRows:])
			}
		}
	}
	return func(panels []byte, count int, tiles []Tile, _ int, out []float32, stride int, buffer []byte,
		prefetch Prefetch) {
		size := f.ProductBytes(tiles[0].Cols)
		for p := range count {
			one(panels[p*size:][:size], tiles, out[p*PanelRows:], stride, buffer, prefetch)
		}
	}
}

func tileQBias(x *Tile) ([]int8, []int32)   { return x.Q, x.Bias }
func tileQDSum(x *Tile) ([]int8, []float32) { return x.Q, x.DSum }
func tileQHalf(x *Tile) ([]int8, []int32)   { return x.Q, x.Half }
func tileQCross(x *Tile) ([]int16, []int32) { return x.Words, x.Cross }

func tileQLaneBias(x *Tile) ([]int8, []int32) { return x.Q, x.LaneBias }
func tileQLaneHalf(x *Tile) ([]int8, []int32) { return x.Q, x.LaneHalf }

// widen256 makes the form TileWords.
func widen256(x *Tile) {
	n := x.Cols / BlockSize * x.Tokens
	x.Words, x.Cross = resize(x.Words, n*BlockSize), resize(x.Cross, n)
	if n > 0 {
		_ = x.Q[n*BlockSize-1]
		widenAVX2(&x.Q[0], &x.Words[0], &x.Cross[0], n)
	}
}

// lanes256 makes the form TileLanes.
func lanes256(x *Tile) {
	n := x.Cols / BlockSize * x.Tokens
	x.LaneBias, x.LaneHalf = resize(x.LaneBias, n), resize(x.LaneHalf, 2*n)
	if n > 0 {
		_ = x.Q[n*BlockSize-1]
		lanesAVX2(&x.Q[0], &x.LaneHalf[0], &x.LaneBias[0], n)
	}
}

// tilesAVX2 sets what multiplies several tiles with an expanded panel.
func tilesAVX2(k *Kernels) {
	k.Forms[TileWords], k.Forms[TileLanes] = widen256, lanes256
	integerTilesAVX2(k)
	for f := range k.Weights {
		k.Weights[f].TilesFrom = 5
	}
	for _, f := range []Format{Q4_0, Q4_K, IQ1_S} { // which are quickly unpacked
		k.Weights[f].TilesFrom = TileTokens + 1
	}
	for _, f := range []Format{Q8_0, Q4_1} { // with two tiles no faster, and slower where threads share a core
		k.Weights[f].TilesFrom = 2*TileTokens + 1
	}
	for _, f := range []Format{IQ4_NL, IQ4_XS} { // nor with four
		k.Weights[f].TilesFrom = 4*TileTokens + 1
	}
	k.TilesTokens, k.TilesBytes = TileTokens, tilesBytes
	floatTilesAVX2(k)
}

// floatTilesAVX2 sets what multiplies several tiles with float weights, from as many tokens on as take three passes.
// With two, where the limit is memory, a panel at a time is faster.
func floatTilesAVX2(k *Kernels) {
	k.FloatTokens = 6
	k.Weights[F32].MatMulTiles = floatTiles(F32, f32AVX2, 64)
	k.Weights[F16].MatMulTiles = floatTiles(F16, f16AVX2, 32)
	k.Weights[NVFP4].MatMulTiles = k.Weights[F16].MatMulTiles
	k.Weights[BF16].MatMulTiles = floatTiles(BF16, bf16AVX2, 32)
	for _, f := range []Format{F32, F16, NVFP4, BF16} {
		k.Weights[f].TilesFrom = 2*k.FloatTokens + 1
	}
}

// noTiles takes it away, and products with compact panels: VNNI multiplies from the panel.
func noTiles(k *Kernels) {
	k.Forms = [TileForms]func(*Tile){}
	for f := range k.Weights {
		k.Weights[f].MatMulCompact = nil
		k.Weights[f].MatMulTiles, k.Weights[f].TilesFrom, k.Weights[f].TilesForm = nil, 0, TileQuants
	}
	k.TilesTokens, k.TilesBytes, k.FloatTokens = 0, 0, 0
}
