package tensor

import "github.com/specgo/spec/asm"

// TQ2_0: a super-block of 256 weights is 64 bytes of pairs of bits, and d binary16. Weight l of sub-block i, of 32, has
// bits 2(i%4) of byte 32(i/4)+l. A weight, stored as q+1, is d*q.

func decodeTQ2_0(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[66:] {
		d := asm.FromF16(le.Uint16(row[64:]))
		for k := range dst[:256] {
			dst[k] = d * float32(int(row[k/128*32+k%32]>>(k/32%4*2)&3)-1)
		}
	}
}

// TQ1_0: a super-block of 256 weights is 52 bytes whose digits of base 3 are weights q+1, and d binary16. Bytes 0 …
// 31 have 5 digits each, the first digits of all before the second ones; then bytes 32 … 47 5 digits, bytes 48 …
// 51 4. Digit n of a byte v is the integer part of 3*frac(v*3^n/256).

func decodeTQ1_0(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[54:] {
		d, k := asm.FromF16(le.Uint16(row[52:])), 0
		for _, part := range [][]byte{row[:32], row[32:48], row[48:52]} {
			for power := 1; power <= 81 && k < 256; power *= 3 {
				for _, v := range part {
					dst[k] = d * float32(int(v)*power%256*3/256-1)
					k++
				}
			}
		}
	}
}
