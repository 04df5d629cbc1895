package tensor

import "math"

// tableMXFP4 maps the nibbles of MXFP4 to weights, in units of 1/2.
var tableMXFP4 = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// MXFP4: a block of 32 weights is e, the exponent of a power of two, and 16 bytes whose low nibbles are weights 0 …
// 15 and whose high nibbles are weights 16 … 31. A weight is 2^(e-128)*tableMXFP4[nibble]; with e > 252 some
// overflow.

func decodeMXFP4(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[32:], row[17:] {
		d := float32(math.Ldexp(1, int(row[0])-128))
		for i, b := range row[1:17] {
			dst[i] = d * tableMXFP4[b&15]
			dst[16+i] = d * tableMXFP4[b>>4]
		}
	}
}
