//go:build !purego

package asm

// integerMatMul makes a MatMul of a kernel of integer weights that multiplies up to most tokens at once. of returns
// the sums of the tile that the type takes.
func integerMatMul[S any](f Format, kernel superKernel[S], of func(*Tile) []S, most int) MatMul {
	units, block, perToken := f.BlockWeights(), f.productBlock(), 1
	if formats[f].sums == halfSums {
		perToken = 2
	}
	return func(panel []byte, x *Tile, out []float32, stride int, prefetch Prefetch) {
		if x.Cols < units {
			clearTile(x, out, stride)
			return
		}
		sums, last, n := of(x), x.Cols/BlockSize*x.Tokens-1, 0
		_, _, _ = panel[x.Cols/units*block-1], x.Q[last*BlockSize+31], x.D[last]
		_, _ = sums[perToken*(last+1)-1], out[(x.Tokens-1)*stride+PanelRows-1]
		for t := 0; t < x.Tokens; t += n {
			n = part(x.Tokens-t, most)
			from, step := prefetch.part(t, n, x.Tokens, x.Cols/BlockSize)
			kernel(&panel[0], &x.Q[t*BlockSize], &x.D[t], &sums[t*perToken], x.Cols/units, n, x.Tokens, &out[t*stride], stride,
				from, step)
		}
	}
}

func tileBias(x *Tile) []int32 { return x.Bias }

// wholeTiles is a MatMul that calls whole for TileTokens tokens and fewer for fewer.
func wholeTiles(whole, fewer MatMul) MatMul {
	return func(panel []byte, x *Tile, out []float32, stride int, prefetch Prefetch) {
		if x.Tokens == TileTokens {
			whole(panel, x, out, stride, prefetch)
		} else {
			fewer(panel, x, out, stride, prefetch)
		}
	}
}

// tableMatMul is integerMatMul for a table type.
func tableMatMul[S any](f Format, kernel tableKernel[S], of func(*Tile) []S, most int) MatMul {
	t := formats[f].table
	return t.scaled(integerMatMul(f, kernel.of(t), of, most))
}
