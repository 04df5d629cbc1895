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

// octetsOf are a type's entries of 8 weights.
func octetsOf(f Format) *uint64 { return &formats[f].table.grid.octets[0] }

// quadsOf are a type's entries of 4 weights.
func quadsOf(f Format) *uint32 { return &formats[f].table.grid.quads[0] }
