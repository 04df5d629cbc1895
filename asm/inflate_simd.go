//go:build !purego && (amd64 || arm64)

package asm

// inflateOf makes an Inflate of a kernel that gets a type's entries.
func inflateOf[E any](f Format, kernel func(dst, panel *byte, entries *E, supers, scales int), entries *E) func(
	dst, panel []byte, cols int) {
	scales := formats[f].table.scales() / 2
	return func(dst, panel []byte, cols int) {
		supers := cols / SuperBlock
		if supers == 0 {
			return
		}
		_, _ = dst[supers*formats[f].productBytes-1], panel[supers*formats[f].panelBytes-1]
		kernel(&dst[0], &panel[0], entries, supers, scales)
	}
}

// inflateTernaryOf makes an Inflate of TQ1_0.
func inflateTernaryOf(kernel func(dst, panel *byte, supers int)) func(dst, panel []byte, cols int) {
	return func(dst, panel []byte, cols int) {
		if supers := cols / SuperBlock; supers > 0 {
			_, _ = dst[supers*tqPanel-1], panel[supers*tq1Panel-1]
			kernel(&dst[0], &panel[0], supers)
		}
	}
}

// inflateNarrowOf makes an Inflate of Q1_0 or Q2_0 of a kernel for a sub-block.
func inflateNarrowOf(f Format, kernel func(nibbles, quants *byte)) func(dst, panel []byte, cols int) {
	weights := formats[f].blockWeights
	return narrowInflate(weights, 16*BlockSize/weights, func(nibbles, quants []byte) {
		kernel(&nibbles[0], &quants[0])
	})
}

// inflateHalvesOf makes an Inflate of NVFP4.
func inflateHalvesOf(kernel func(dst, panel *byte, parts int)) func(dst, panel []byte, cols int) {
	return func(dst, panel []byte, cols int) {
		if parts := cols / 16; parts > 0 {
			_, _ = dst[parts*16*PanelRows*2-1], panel[parts*nvfp4Part-1]
			kernel(&dst[0], &panel[0], parts)
		}
	}
}

// octetsOf are a type's entries of 8 weights.
func octetsOf(f Format) *uint64 { return &formats[f].table.grid.octets[0] }

// quadsOf are a type's entries of 4 weights.
func quadsOf(f Format) *uint32 { return &formats[f].table.grid.quads[0] }
