package tensor

import "github.com/specgo/spec/asm"

// Q3_K: a super-block of 256 weights is 32 bytes of high bits, 64 bytes of low pairs of bits, 16 scales of 6 bits in
// 12 bytes, and d binary16. Weight l of sub-block i, of 32, has bit i of byte l, and bits 2(i%4) of byte 32(i/4)+l. A
// weight, stored as q+4, is (d*(sc[k/16]-32))*q.

func decodeQ3_K(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[110:] {
		high, low, scales, d := row[:32], row[32:96], row[96:108], asm.FromF16(le.Uint16(row[108:]))
		for j := range 16 {
			// The low 4 bits of scales 0 … 7 are the low nibbles of 8 bytes, those of 8 … 15 the high nibbles; the high 2
			// bits of scale j are in byte 8 + j%4.
			sc := scales[j%8]>>(j/8*4)&15 | scales[8+j%4]>>(j/4*2)&3<<4
			s := d * float32(int(sc)-32)
			for k := 16 * j; k < 16*j+16; k++ {
				i, l := k/32, k%32
				q := low[i/4*32+l]>>(i%4*2)&3 | high[l]>>i&1<<2
				dst[k] = s * float32(int(q)-4)
			}
		}
	}
}
