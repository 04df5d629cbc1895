//go:build !purego && (amd64 || arm64)

package asm

// superKernel multiplies a panel of blocks or super-blocks with n of a tile's tokens. sums are the sums of the tile
// that the format takes, besides quants and scales.
type superKernel[S any] func(w *byte, q *int8, d *float32, sums *S, blocks, n, tokens int, out *float32, stride,
	prefetch, step int)

func tileDSum(x *Tile) []float32 { return x.DSum }
func tileHalf(x *Tile) []int32   { return x.Half }

// floatKernel multiplies k columns of a panel with n of a tile's tokens, and adds to out.
type floatKernel func(w *byte, x *float32, k, n, tokens int, out *float32, stride, prefetch, step int)

// floatMatMul makes a MatMul of a floatKernel that multiplies up to most tokens at once; a column of a panel has
// columnBytes.
func floatMatMul(kernel floatKernel, columnBytes, most int) MatMul {
	return func(panel []byte, x *Tile, out []float32, stride int, prefetch Prefetch) {
		clearTile(x, out, stride)
		for f := x.F[:x.Cols*x.Tokens]; len(f) > 0; {
			cols := min(len(f)/x.Tokens, floatColumns)
			kernel.tile(panel[:cols*columnBytes], f[:cols*x.Tokens], cols, most, x.Tokens, out, stride, prefetch)
			panel, f = panel[cols*columnBytes:], f[cols*x.Tokens:]
			prefetch.From += cols * (prefetch.Step - columnBytes)
		}
	}
}

// floatColumns is the most columns of float weights that one call of a kernel multiplies, in some 20 µs: assembly
// cannot be preempted, so a garbage collection waits for the end of the call.
const floatColumns = 8192

// tile multiplies some columns with a tile. It is not inlined: its prologue is a preemption point between calls of
// the kernel.
//
//go:noinline
func (kernel floatKernel) tile(panel []byte, x []float32, cols, most, tokens int, out []float32, stride int,
	prefetch Prefetch) {
	_ = out[(tokens-1)*stride+PanelRows-1]
	n := 0
	for t := 0; t < tokens; t += n {
		n = part(tokens-t, most)
		from, step := prefetch.part(t, n, tokens, cols)
		kernel(&panel[0], &x[t], cols, n, tokens, &out[t*stride], stride, from, step)
	}
}

// floatPiece is about the bytes of weights that all tiles are multiplied with before the next: they stay in the L1
// cache, beside a tile's activations.
const floatPiece = 16 << 10

// floatTiles makes a MatMulTiles of a floatKernel. While a piece of a panel is multiplied with the tiles, each of them
// prefetches its share of the piece that comes next.
func floatTiles(f Format, kernel floatKernel, columnBytes int) MatMulTiles {
	return func(panels []byte, count int, tiles []Tile, tokens int, out []float32, stride int, _ []byte, _ Prefetch) {
		cols, size := tiles[0].Cols, tiles[0].Tokens
		for t := range tokens {
			clear(out[t*stride:][:count*PanelRows])
		}
		panel, piece := f.ProductBytes(cols), part(cols, floatPiece/columnBytes)
		for from := 0; from < cols; from += piece {
			k := min(piece, cols-from)
			for p := range count {
				next := panel // the same columns of the next panel, after the last one the next columns of the first
				if p == count-1 && from+k < cols {
					next = k*columnBytes - p*panel
				} else if p == count-1 {
					next = panel - from*columnBytes
				}
				w := panels[p*panel+from*columnBytes:][:k*columnBytes]
				kernel.pieces(w, k, tiles, from, out[p*PanelRows:], size*stride, stride, next)
			}
		}
	}
}

// pieces multiplies k columns of a panel, w, with those of the tiles from one on. The next piece begins next bytes
// after this one. It is not inlined: its prologue is a preemption point between calls of the kernel.
//
//go:noinline
func (kernel floatKernel) pieces(w []byte, k int, tiles []Tile, from int, out []float32, apart, stride, next int) {
	share := (len(w) + len(tiles) - 1) / len(tiles)
	step := (share + k - 1) / k
	for i := range tiles {
		x := &tiles[i]
		f, to := x.F[from*x.Tokens:][:k*x.Tokens], out[i*apart:]
		_ = to[(x.Tokens-1)*stride+PanelRows-1]
		kernel(&w[0], &f[0], k, x.Tokens, x.Tokens, &to[0], stride, next+i*share, step)
	}
}

// part is the share of a that n of the tokens, from t on, prefetch: where it begins, and its bytes at each of the
// steps. Shares are rounded up, so that they leave no gaps.
func (a Prefetch) part(t, n, tokens, steps int) (from, step int) {
	if n == tokens {
		return a.From, a.Step
	}
	return a.From + a.Step*steps*t/tokens, (a.Step*n + tokens - 1) / tokens
}

// clearTile sets the products with a matrix that has no columns: zeros.
func clearTile(x *Tile, out []float32, stride int) {
	for t := range x.Tokens {
		clear(out[t*stride:][:PanelRows])
	}
}

// tableKernel is a superKernel of table types.
type tableKernel[S any] func(w *byte, q *int8, d *float32, sums *S, blocks, n, tokens int, out *float32, stride,
	prefetch, step int, table *[32]byte)

// of is the kernel of one type, whose table it gets.
func (kernel tableKernel[S]) of(t *table) superKernel[S] {
	values := t.kernelTable()
	return func(w *byte, q *int8, d *float32, sums *S, blocks, n, tokens int, out *float32, stride, prefetch, step int) {
		kernel(w, q, d, sums, blocks, n, tokens, out, stride, prefetch, step, values)
	}
}

// scaled multiplies products with the power of two that a table type has.
func (t *table) scaled(product MatMul) MatMul {
	if t.factor() == 1 {
		return product
	}
	return func(panel []byte, x *Tile, out []float32, stride int, prefetch Prefetch) {
		product(panel, x, out, stride, prefetch)
		t.scaleOut(x.Tokens, out, stride)
	}
}
