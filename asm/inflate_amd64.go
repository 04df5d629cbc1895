//go:build !purego

package asm

// inflatesAVX2 sets what turns compact panels into those of products.
func inflatesAVX2(k *Kernels) {
	k.Weights[IQ3_XXS].Inflate = inflateOf(IQ3_XXS, iq3xxsInflateAVX2, quadsOf(IQ3_XXS))
	k.Weights[IQ2_S].Inflate = inflateOf(IQ2_S, iq2sInflateAVX2, octetsOf(IQ2_S))
	k.Weights[IQ2_XS].Inflate = inflateOf(IQ2_XS, iq2xsInflateAVX2, octetsOf(IQ2_XS))
	k.Weights[IQ2_XXS].Inflate = inflateOf(IQ2_XXS, iq2xxsInflateAVX2, octetsOf(IQ2_XXS))
	k.Weights[IQ1_M].Inflate = inflateOf(IQ1_M, iq1InflateAVX2, octetsOf(IQ1_M))
	k.Weights[TQ1_0].Inflate = inflateTernaryOf(tq1InflateAVX2)
	k.Weights[IQ1_S].Inflate = inflateOf(IQ1_S, iq1InflateAVX2, octetsOf(IQ1_S))
	k.Weights[Q1_0].Inflate = inflateNarrowOf(Q1_0, q1InflateAVX2)
	k.Weights[Q2_0].Inflate = inflateNarrowOf(Q2_0, q2InflateAVX2)
	k.Weights[NVFP4].Inflate = inflateHalvesOf(nvfp4InflateAVX2)
}

// inflatesAVX512 does it with AVX-512.
func inflatesAVX512(k *Kernels, vbmi bool) {
	k.Weights[NVFP4].Inflate = inflateHalvesOf(nvfp4InflateAVX512)
	if !vbmi {
		return
	}
	k.Weights[IQ3_XXS].Inflate = inflateOf(IQ3_XXS, iq3xxsInflateAVX512, &planesIQ3_XXS[0])
	k.Weights[IQ2_S].Inflate = inflateOf(IQ2_S, iq2sInflateAVX512, &planesIQ2_S[0])
	k.Weights[IQ2_XS].Inflate = inflateOf(IQ2_XS, iq2xsInflateAVX512, &planesIQ2_XS[0])
	k.Weights[IQ2_XXS].Inflate = inflateOf(IQ2_XXS, iq2xxsInflateAVX512, &planesIQ2_XXS[0])
	k.Weights[IQ1_M].Inflate = inflateOf(IQ1_M, iq1InflateAVX512, &planesIQ1[0])
	k.Weights[TQ1_0].Inflate = inflateTernaryOf(func(dst, panel *byte, supers int) {
		tq1InflateAVX512(dst, panel, &planesTQ1_0[0], supers)
	})
	k.Weights[IQ1_S].Inflate = inflateOf(IQ1_S, iq1InflateAVX512, &planesIQ1[0])
	k.Weights[Q1_0].Inflate = inflateNarrowOf(Q1_0, q1InflateAVX512)
	k.Weights[Q2_0].Inflate = inflateNarrowOf(Q2_0, q2InflateAVX512)
}

// Tables of the kernels of AVX-512: first the lower bytes of all entries, then the higher ones.
var (
	planesIQ2_XXS = planes(gridIQ2_XXS[:], func(e uint16) uint16 { return e })
	planesIQ2_XS  = planes(gridIQ2_XS[:], func(e uint16) uint16 { return e })
	planesIQ2_S   = planes(gridIQ2_S[:], func(e uint16) uint16 { return e })
	planesIQ3_XXS = planes(gridIQ3_XXS[:], bitsIQ3)
	planesIQ1     = stepPlanes(gridIQ1[:])
	planesTQ1_0   = planes(bytesTQ1_0(), digitsTQ1_0)
)

// planes are the bytes of 16 bits of each entry.
func planes(entries []uint16, bits func(e uint16) uint16) []byte {
	p := make([]byte, 2*len(entries))
	for i, e := range entries {
		v := bits(e)
		p[i], p[len(entries)+i] = byte(v), byte(v>>8)
	}
	return p
}

// stepPlanes are the lower bytes of ascending entries; then of each 16 of them the first and the last higher byte; then
// the low 8 bits of the index before the step between those, or of the last index. There is one step at most.
func stepPlanes(entries []uint16) []byte {
	n := len(entries) / 16
	p := make([]byte, len(entries)+3*n)
	for i, e := range entries {
		p[i] = byte(e)
		first, last, step := p[len(entries):][:n], p[len(entries)+n:][:n], p[len(entries)+2*n:]
		if high := byte(e >> 8); i%16 == 0 {
			first[i/16], last[i/16], step[i/16] = high, high, byte(i)
		} else if last[i/16] = high; high == first[i/16] {
			step[i/16] = byte(i)
		}
	}
	return p
}

// bitsIQ3 has of the 4 digits of an entry the two lower bits each, then the third one and 1.
func bitsIQ3(e uint16) (v uint16) {
	for j := range 4 {
		digit := e >> (3 * j) & 7
		v |= digit&3<<(2*j) | (digit>>2|2)<<(8+2*j)
	}
	return v
}

// bytesTQ1_0 are all bytes.
func bytesTQ1_0() []uint16 {
	b := make([]uint16, 256)
	for i := range b {
		b[i] = uint16(i)
	}
	return b
}

// digitsTQ1_0 has digits 0 … 3 of a byte, then digit 4 four times.
func digitsTQ1_0(e uint16) uint16 {
	d0, d1, d2, d3, d4 := ternaryDigits(uint64(e))
	return uint16(d0 | d1<<2 | d2<<4 | d3<<6 | d4*0x5500)
}
