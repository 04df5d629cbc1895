//go:build !purego

package asm

// pairKernel multiplies two panels, which begin panel bytes apart, with a whole tile; see stubs_amd64.go.
type pairKernel func(w *byte, panel int, q *int8, d *float32, bias *int32, blocks int, out *float32, stride, prefetch,
	step int)

// blockMatMulPair makes a MatMulPair of a pairKernel.
func blockMatMulPair(f Format, kernel pairKernel) MatMul {
	return func(panels []byte, x *Tile, out []float32, stride int, prefetch Prefetch) {
		blocks, panel := x.Cols/BlockSize, f.PanelBytes(x.Cols)
		if blocks == 0 {
			clearTile(x, out, stride)
			clearTile(x, out[PanelRows:], stride)
			return
		}
		last := blocks*TileTokens - 1
		_, _, _ = panels[2*panel-1], x.Q[last*BlockSize+31], x.Bias[last]
		_, _ = x.D[last], out[(TileTokens-1)*stride+2*PanelRows-1]
		kernel(&panels[0], panel, &x.Q[0], &x.D[0], &x.Bias[0], blocks, &out[0], stride, prefetch.From, prefetch.Step)
	}
}

// integerMatMul makes a MatMul of a kernel of integer weights. of returns the sums of the tile that the type takes.
func integerMatMul[S any](f Format, kernel superKernel[S], of func(*Tile) []S) MatMul {
	units, block, perToken := f.BlockWeights(), f.productBlock(), f.sumsPerToken()
	return func(panel []byte, x *Tile, out []float32, stride int, prefetch Prefetch) {
		if x.Cols < units {
			clearTile(x, out, stride)
			return
		}
		sums, last := of(x), x.Cols/BlockSize*x.Tokens-1
		_, _, _ = panel[x.Cols/units*block-1], x.Q[last*BlockSize+31], x.D[last]
		_, _ = sums[perToken*(last+1)-1], out[(x.Tokens-1)*stride+PanelRows-1]
		kernel(&panel[0], &x.Q[0], &x.D[0], &sums[0], x.Cols/units, x.Tokens, x.Tokens, &out[0], stride, prefetch.From,
			prefetch.Step)
	}
}

// sumsPerToken is how many sums a type takes per block and token.
func (f Format) sumsPerToken() int {
	if formats[f].sums == halfSums {
		return 2
	}
	return 1
}

func tileBias(x *Tile) []int32 { return x.Bias }

// tableMatMul is integerMatMul for a table type.
func tableMatMul[S any](f Format, kernel tableKernel[S], of func(*Tile) []S) MatMul {
	t := formats[f].table
	return t.scaled(integerMatMul(f, kernel.of(t), of))
}
