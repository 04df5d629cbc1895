//go:build !purego

package asm

import (
	"runtime"
	"unsafe"
)

// amxTile is what a kernel reads of a tile: addresses, because the list lies in scratch memory.
type amxTile struct{ q, d, sums uintptr }

// amxKernel multiplies panels with count tiles of 16 tokens, the last one of last; see stubs_amd64.go. form is the type
// among those of the kernel, chunk how many blocks are expanded at a time.
type amxKernel func(w *byte, panelBytes, panels int, tiles *amxTile, count, last, blocks, chunk, chunkBytes int,
	out *float32, stride int, scratch *byte, step, form int, table *[32]byte)

// Scratch memory of a kernel. _gen/tileamx.go has the same numbers.
const (
	amxTokens = 16 // of a tile
	amxTiles  = MostTokens / amxTokens

	amxList    = 128 // the tiles, behind their configuration
	amxBuffer  = 12 << 10
	amxPartial = 52 << 10
	amxBytes   = amxPartial + amxTiles*amxTokens*PanelRows*4
	amxAlign   = 4096
	amxAtOnce  = 64 << 10 // about the most bytes of panels in a call, which cannot be preempted
)

// amxTilesFrom is the number of tokens from which the tile unit is faster.
const amxTilesFrom = 64

// tilesAMX sets what multiplies many tokens.
func tilesAMX(k *Kernels) {
	integerAMX(k)
	for f := range k.Weights {
		k.Weights[f].TilesFrom = amxTilesFrom
	}
	k.TilesTokens, k.TilesBytes = amxTokens, amxBytes+amxAlign
}

// amxMatMulTiles makes a MatMulTiles. products is how many sums a block of the type has.
func amxMatMulTiles(f Format, kernel amxKernel, products, form int) MatMulTiles {
	units, unitBytes := f.BlockWeights(), formats[f].panelBytes
	if f.Compact() {
		unitBytes = formats[f].productBytes
	}
	chunk := 32 / products
	var values *[32]byte
	t := formats[f].table
	if t != nil {
		values = t.kernelTable()
	}
	return func(panels []byte, count int, tiles []Tile, tokens int, out []float32, stride int, buffer []byte, _ Prefetch) {
		blocks, size := tiles[0].Cols/BlockSize, f.ProductBytes(tiles[0].Cols)
		last := tokens - (len(tiles)-1)*amxTokens
		_, _ = panels[count*size-1:], out[(tokens-1)*stride+count*PanelRows-1]
		buffer = buffer[-uintptr(unsafe.Pointer(&buffer[0]))&(amxAlign-1):]
		scratch := (*[amxBytes]byte)(buffer)
		configureAMX((*[64]byte)(scratch[:]))
		list := (*[amxTiles]amxTile)(unsafe.Pointer(&scratch[amxList]))
		for i := range tiles {
			x := &tiles[i]
			n := blocks * amxTokens
			_, _, _ = x.Q[n*BlockSize-1], x.D[n-1], x.DSum[n-1]
			list[i] = amxTile{address(&x.Q[0]), address(&x.D[0]), address(&x.DSum[0])}
		}
		step := min(192, unitBytes*BlockSize/units/len(tiles)+1)
		for most := max(1, amxAtOnce/size); count > 0; {
			n := min(count, most)
			kernel.call(panels[:n*size], size, n, &list[0], len(tiles), last, blocks, chunk, chunk*BlockSize/units*unitBytes,
				&out[0], stride, &scratch[0], step, form, values)
			count -= n
			if t != nil {
				for p := range n {
					t.scaleOut(tokens, out[p*PanelRows:], stride)
				}
			}
			panels = panels[n*size:]
			if count > 0 {
				out = out[n*PanelRows:]
			}
		}
		runtime.KeepAlive(tiles)
	}
}

// call is not inlined: its prologue is a preemption point between calls of the kernel.
//
//go:noinline
func (kernel amxKernel) call(w []byte, panelBytes, panels int, tiles *amxTile, count, last, blocks, chunk,
	chunkBytes int, out *float32, stride int, scratch *byte, step, form int, table *[32]byte) {
	kernel(&w[0], panelBytes, panels, tiles, count, last, blocks, chunk, chunkBytes, out, 4*stride, scratch, step, form,
		table)
}

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// configureAMX writes the configuration: 4 tiles of sums, 2 of activations and 2 of weights.
func configureAMX(c *[64]byte) {
	clear(c[:])
	c[0] = 1 // palette
	for i := range 8 {
		rows, size := amxTokens, 4*PanelRows
		switch {
		case i >= 6:
			rows = BlockSize / 4
		case i >= 4:
			size = BlockSize
		}
		c[16+2*i], c[48+i] = byte(size), byte(rows)
	}
}
