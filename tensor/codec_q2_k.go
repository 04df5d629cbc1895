package tensor

import (
	"math"

	"github.com/specgo/spec/asm"
)

// Q2_K: a super-block of 256 weights is 16 bytes with a scale (low nibble) and a minimum (high nibble) of 16 weights
// each, 64 bytes of pairs of bits, d and dmin binary16. Weight l of sub-block i, of 32, is bits 2(i%4) of byte
// 32(i/4)+l. A weight is (d*sc[k/16])*q - dmin*mn[k/16]; the products are exact, the difference rounds once.

func decodeQ2_K(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[84:] {
		scales, low := row[:16], row[16:80]
		d, dmin := asm.FromF16(le.Uint16(row[80:])), asm.FromF16(le.Uint16(row[82:]))
		for j, v := range scales {
			s, m := d*float32(v&15), float32(dmin*float32(v>>4))
			for k := 16 * j; k < 16*j+16; k++ {
				i, l := k/32, k%32
				dst[k] = float32(s*float32(low[i/4*32+l]>>(i%4*2)&3)) - m
			}
		}
	}
}

func encodeQ2_K(row []byte, x, importance []float32) error {
	return encodeBlocks(Q2_K, row, x, importance, blockQ2_K)
}

// blockQ2_K: x = d*scale*q - dmin*minimum with q in 0 … 3 and, for each 16 numbers, scale and minimum in 0 … 15.
func blockQ2_K(block []byte, x, importance []float32) (d float32) {
	if amax := greatest(x); amax >= maxK {
		return amax
	}
	var (
		scales, minimums [16]float32
		weights          [256]float32
		u                [16]float32
		top, bottom      float32
	)
	weigh(weights[:], x, importance)
	for j := range 16 {
		scales[j], minimums[j] = fitRange(x[16*j:][:16], weights[16*j:][:16], u[:], 3, false)
		top, bottom = max(top, scales[j]), max(bottom, minimums[j])
	}
	hd, hm := asm.ToF16(top/15), asm.ToF16(bottom/15)
	d, dmin := asm.FromF16(hd), asm.FromF16(hm)
	if d > math.MaxFloat32 || dmin > math.MaxFloat32 {
		return max(top, bottom) / 15
	}
	clear(block)
	le.PutUint16(block[80:], hd)
	le.PutUint16(block[82:], hm)
	for j := range 16 {
		sub, w := x[16*j:][:16], weights[16*j:][:16]
		least, sc, mn := float32(math.MaxFloat32), 0, 0
		for _, s := range neighbors(nearest(scales[j], d), 0, 15) {
			for _, m := range neighbors(nearest(minimums[j], dmin), 0, 15) {
				scale, minimum := float32(d*float32(s)), float32(dmin*float32(m))
				roundUnsigned(u[:], sub, reciprocal(scale), minimum, 3)
				if e := rangeError(sub, w, u[:], scale, minimum); e < least {
					least, sc, mn = e, s, m
				}
			}
		}
		block[j] = byte(sc | mn<<4)
		roundUnsigned(u[:], sub, reciprocal(d*float32(sc)), float32(dmin*float32(mn)), 3)
		for i, v := range u {
			k := 16*j + i
			block[16+k/128*32+k%32] |= byte(v) << (k / 32 % 4 * 2)
		}
	}
	return d
}
