package tensor

import "github.com/specgo/spec/asm"

// Q1_0: a block of 128 weights is d binary16 and 16 bytes, a bit per weight, the lowest first: d where it is set,
// else -d.

func decodeQ1_0(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[128:], row[18:] {
		d := asm.FromF16(le.Uint16(row))
		for k := range dst[:128] {
			dst[k] = d * float32(2*int(row[2+k/8]>>(k%8)&1)-1)
		}
	}
}

// Q2_0: a block of 64 weights is d binary16 and 16 bytes of pairs of bits, the lowest first. A weight, stored as q+1,
// is d*q.

func decodeQ2_0(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[64:], row[18:] {
		d := asm.FromF16(le.Uint16(row))
		for k := range dst[:64] {
			dst[k] = d * float32(int(row[2+k/4]>>(k%4*2)&3)-1)
		}
	}
}
