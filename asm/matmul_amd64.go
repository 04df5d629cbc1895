//go:build !purego

package asm

// columns multiplies columns from .. to-1 of a panel with a tile: it begins the sums in out at column 0, else adds to them. The
// columns are whole blocks of the format, and pairs where blocks come in pairs.
type columns func(panel []byte, x *Tile, out []float32, stride, from, to int)

// use makes m the product for a format. step is how many columns of a panel to take at a time when there are several tiles:
// as much as the first cache holds beside the activations.
func (k *Kernels) use(f Format, step int, m columns) {
	k.MatMul[f] = func(panel []byte, x *Tile, out []float32, stride int) {
		if x.Cols == 0 {
			clearTile(x, out, stride)
			return
		}
		m(panel, x, out, stride, 0, x.Cols)
	}
	k.MatMulTiles[f] = func(panel []byte, x []Tile, out []float32, stride int) {
		if x[0].Cols == 0 {
			for i := range x {
				clearTile(&x[i], out[i*TileTokens*stride:], stride)
			}
			return
		}
		for from := 0; from < x[0].Cols; from += step {
			for i := range x {
				m(panel, &x[i], out[i*TileTokens*stride:], stride, from, min(from+step, x[i].Cols))
			}
		}
	}
}

// blockKernel multiplies blocks of 32 weights of a panel, from the first of a pair on, with n of a tile's tokens; see
// stubs_amd64.go. It adds to out if more is not 0.
type blockKernel func(w *byte, q *int8, d *float32, bias *int32, blocks, n, tokens int, out *float32, stride, more int)

// blockMatMul makes a product of a blockKernel that takes up to most tokens at once.
func blockMatMul(f Format, kernel blockKernel, most int) columns {
	return func(panel []byte, x *Tile, out []float32, stride, from, to int) {
		blocks := x.Cols / BlockSize
		last, n := blocks*x.Tokens-1, 0
		_, _, _ = panel[f.PanelBytes(x.Cols)-1], x.Q[last*BlockSize+31], x.Bias[last]
		_, _ = x.D[last], out[(x.Tokens-1)*stride+PanelRows-1]
		w := &panel[f.PanelBytes(from)]
		for t := 0; t < x.Tokens; t += n {
			n = part(x.Tokens-t, most)
			i := from/BlockSize*x.Tokens + t
			kernel(w, &x.Q[i*BlockSize], &x.D[i], &x.Bias[i], (to-from)/BlockSize, n, x.Tokens, &out[t*stride], stride, from)
		}
	}
}

// superKernel multiplies super-blocks of a panel with n of a tile's tokens. sums is what the format takes of a tile besides
// quants and their scales. It adds to out if more is not 0.
type superKernel[S any] func(w *byte, q *int8, d *float32, sums *S, supers, n, tokens int, out *float32, stride, more int)

// superMatMul makes a product of a superKernel that takes up to most tokens at once. of gives the tile's sums, perToken to a
// token.
func superMatMul[S any](f Format, kernel superKernel[S], of func(*Tile) []S, perToken, most int) columns {
	return func(panel []byte, x *Tile, out []float32, stride, from, to int) {
		supers, n := x.Cols/SuperBlock, 0
		sums, last := of(x), supers*8*x.Tokens-1
		_, _, _ = panel[f.PanelBytes(x.Cols)-1], x.Q[last*BlockSize+31], x.D[last]
		_, _ = sums[(last+1)*perToken-1], out[(x.Tokens-1)*stride+PanelRows-1]
		w := &panel[f.PanelBytes(from)]
		for t := 0; t < x.Tokens; t += n {
			n = part(x.Tokens-t, most)
			i := from/BlockSize*x.Tokens + t
			kernel(w, &x.Q[i*BlockSize], &x.D[i], &sums[i*perToken], (to-from)/SuperBlock, n, x.Tokens, &out[t*stride], stride, from)
		}
	}
}

func tileDSum(x *Tile) []float32 { return x.DSum }
func tileHalf(x *Tile) []int32   { return x.Half }

// floatKernel multiplies k columns of a panel with n of a tile's tokens. It adds to out if more is not 0.
type floatKernel func(w *byte, x *float32, k, n, tokens int, out *float32, stride, more int)

// floatMatMul makes a product of a floatKernel that takes up to most tokens at once; a column of a panel has columnBytes.
func floatMatMul(kernel floatKernel, columnBytes, most int) columns {
	return func(panel []byte, x *Tile, out []float32, stride, from, to int) {
		_, _, _ = panel[x.Cols*columnBytes-1], x.F[x.Cols*x.Tokens-1], out[(x.Tokens-1)*stride+PanelRows-1]
		n := 0
		for t := 0; t < x.Tokens; t += n {
			n = part(x.Tokens-t, most)
			kernel(&panel[from*columnBytes], &x.F[from*x.Tokens+t], to-from, n, x.Tokens, &out[t*stride], stride, from)
		}
	}
}

// part is how many of n tokens to take next so that the parts, each at most most, are about equal.
func part(n, most int) int {
	parts := (n + most - 1) / most
	return (n + parts - 1) / parts
}

// clearTile is the product with a matrix of no columns.
func clearTile(x *Tile, out []float32, stride int) {
	for t := range x.Tokens {
		clear(out[t*stride:][:PanelRows])
	}
}
