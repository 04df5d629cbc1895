//go:build !purego

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

// inflateTernary is Kernels.Inflate of TQ1_0.
func inflateTernary(dst, panel []byte, cols int) {
	if supers := cols / SuperBlock; supers > 0 {
		_, _ = dst[supers*tqPanel-1], panel[supers*tq1Panel-1]
		tq1InflateAVX2(&dst[0], &panel[0], supers)
	}
}

// inflatesAVX2 sets what turns compact panels into those of products.
func inflatesAVX2(k *Kernels) {
	octets := func(f Format) *uint64 { return &formats[f].table.grid.octets[0] }
	k.Inflate[IQ3_XXS] = inflateOf(IQ3_XXS, iq3xxsInflateAVX2, &formats[IQ3_XXS].table.grid.quads[0])
	k.Inflate[IQ2_S] = inflateOf(IQ2_S, iq2sInflateAVX2, octets(IQ2_S))
	k.Inflate[IQ2_XS] = inflateOf(IQ2_XS, iq2xsInflateAVX2, octets(IQ2_XS))
	k.Inflate[IQ2_XXS] = inflateOf(IQ2_XXS, iq2xxsInflateAVX2, octets(IQ2_XXS))
	k.Inflate[IQ1_M] = inflateOf(IQ1_M, iq1InflateAVX2, octets(IQ1_M))
	k.Inflate[TQ1_0] = inflateTernary
	k.Inflate[IQ1_S] = inflateOf(IQ1_S, iq1InflateAVX2, octets(IQ1_S))
}
