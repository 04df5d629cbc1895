package tensor

import "math"

// NVFP4: a block of 64 weights is 4 scales and 4 times 8 bytes, of 16 weights each: low nibbles are the first 8. A
// scale has 4 bits of exponent, biased by 7, and 3 bits of mantissa; 0x7f is 0. A weight is scale/2*tableMXFP4[nibble].

func decodeNVFP4(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[64:], row[36:] {
		for s, e := range row[:4] {
			d := scaleNVFP4(e) / 2
			for i, b := range row[4+8*s:][:8] {
				dst[16*s+i] = d * tableMXFP4[b&15]
				dst[16*s+8+i] = d * tableMXFP4[b>>4]
			}
		}
	}
}

func scaleNVFP4(b byte) float32 {
	exponent, mantissa := int(b>>3&15), float64(b&7)
	switch {
	case b == 0x7f:
		return 0
	case exponent == 0:
		return float32(math.Ldexp(mantissa, -9))
	}
	return float32(math.Ldexp(8+mantissa, exponent-10))
}
