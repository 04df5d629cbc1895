package tensor

import (
	"math"

	"github.com/specgo/spec/asm"
)

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

func encodeQ3_K(row []byte, x, importance []float32) error {
	return encodeBlocks(Q3_K, row, x, importance, blockQ3_K)
}

// blockQ3_K: x = d*scale*q with q in -4 … 3 and, for each 16 numbers, scale in -32 … 31.
func blockQ3_K(block []byte, x, importance []float32) (d float32) {
	if amax := greatest(x); amax >= maxK {
		return amax
	}
	var (
		scales  [16]float32
		weights [256]float32
		u       [16]float32
	)
	weigh(weights[:], x, importance)
	for j := range 16 {
		scales[j] = fitScale(x[16*j:][:16], weights[16*j:][:16], u[:], 4)
	}
	top := greatestSigned(scales[:])
	h := asm.ToF16(0 - float32(top/32)) // so that the greatest uses all of its bits; never -0
	if d = asm.FromF16(h); abs32(d) > math.MaxFloat32 {
		return top / 32
	}
	clear(block)
	high, low, packed := block[:32], block[32:96], block[96:108]
	le.PutUint16(block[108:], h)
	for j := range 16 {
		sub, w := x[16*j:][:16], weights[16*j:][:16]
		least, best := float32(math.MaxFloat32), 0
		for _, s := range neighbors(nearest(scales[j], d), -32, 31) {
			scale := float32(d * float32(s))
			roundSigned(u[:], sub, reciprocal(scale), 4)
			if e := rangeError(sub, w, u[:], scale, 0); e < least {
				least, best = e, s
			}
		}
		sc := byte(best + 32)
		packed[j%8] |= sc & 15 << (j / 8 * 4)
		packed[8+j%4] |= sc >> 4 << (j / 4 * 2)
		roundSigned(u[:], sub, reciprocal(d*float32(best)), 4)
		for i, v := range u {
			k, q := 16*j+i, byte(int32(v)+4)
			low[k/128*32+k%32] |= q & 3 << (k / 32 % 4 * 2)
			high[k%32] |= q >> 2 << (k / 32)
		}
	}
	return d
}
