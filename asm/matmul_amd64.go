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

// sideKernel multiplies k columns, an even number, of panels that begin panel bytes apart with n of a tile's tokens,
// and adds to out; what is ahead bytes behind the weights is prefetched.
type sideKernel func(w *byte, panel int, x *float32, k, n, tokens int, out *float32, stride, ahead int)

// sideColumns is the most columns that one call of a sideKernel multiplies: see floatColumns.
const sideColumns = floatColumns / 4

// floatPanels sets the MatMulPanels of a type of float weights: sides is how many panels the kernel multiplies at once
// with 1, 2 … tokens.
func (k *Kernels) floatPanels(f Format, kernel sideKernel, sides ...int) {
	w := &k.Weights[f]
	one := w.MatMul
	w.PanelsTokens = len(sides)
	w.MatMulPanels = func(panels []byte, count int, x *Tile, out []float32, stride int, prefetch Prefetch) {
		side, size := sides[x.Tokens-1], f.PanelBytes(x.Cols)
		done := 0
		for x.Cols%2 == 0 && done+side <= count {
			kernel.panels(panels[done*size:][:side*size], side, x, out[done*PanelRows:], stride, prefetch.From/side)
			done += side
		}
		for ; done < count; done++ {
			one(panels[done*size:][:size], x, out[done*PanelRows:], stride, prefetch)
		}
	}
}

// panels multiplies as many panels as the kernel takes at once. What comes after a panel's end is another one of them:
// near there what comes after all of them is prefetched.
func (kernel sideKernel) panels(w []byte, side int, x *Tile, out []float32, stride, ahead int) {
	n, size := x.Tokens, len(w)/side
	for t := range n {
		clear(out[t*stride:][:side*PanelRows])
	}
	near := x.Cols - min(x.Cols, ahead/(size/x.Cols))&^1 // the first such column
	for at, to := 0, 0; at < x.Cols; at = to {
		if to = min(at+sideColumns, x.Cols); at < near {
			to = min(to, near)
		} else if at == near {
			ahead += (side - 1) * size
		}
		kernel.columns(w[at*(size/x.Cols):], size, x.F[at*n:to*n], to-at, n, out, stride, ahead)
	}
}

// columns multiplies k columns. It is not inlined: its prologue is a preemption point between calls of the kernel.
//
//go:noinline
func (kernel sideKernel) columns(w []byte, panel int, x []float32, k, n int, out []float32, stride, ahead int) {
	kernel(&w[0], panel, &x[0], k, n, n, &out[0], stride, ahead)
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
