//go:build !purego

package asm

// pairKernel multiplies two panels, panel bytes from one to the next, with a whole tile; see stubs_amd64.go.
type pairKernel func(w *byte, panel int, q *int8, d *float32, bias *int32, blocks int, out *float32, stride, ahead, step int)

// blockMatMulPair makes a MatMulPair of a pairKernel.
func blockMatMulPair(f Format, kernel pairKernel) MatMul {
	return func(panels []byte, x *Tile, out []float32, stride int, ahead Ahead) {
		blocks, panel := x.Cols/BlockSize, f.PanelBytes(x.Cols)
		if blocks == 0 {
			clearTile(x, out, stride)
			clearTile(x, out[PanelRows:], stride)
			return
		}
		last := blocks*TileTokens - 1
		_, _, _ = panels[2*panel-1], x.Q[last*BlockSize+31], x.Bias[last]
		_, _ = x.D[last], out[(TileTokens-1)*stride+2*PanelRows-1]
		kernel(&panels[0], panel, &x.Q[0], &x.D[0], &x.Bias[0], blocks, &out[0], stride, ahead.From, ahead.Step)
	}
}
