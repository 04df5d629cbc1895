package tensor

import (
	"math"

	"github.com/specgo/spec/asm"
)

// Q6_K: a super-block of 256 weights is 128 bytes of low nibbles, 64 bytes of high pairs of bits, 16 signed scales,
// and d binary16. A weight, stored as q+32, is (d*sc[k/16])*q.

func decodeQ6_K(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[210:] {
		low, high, sc, d := row[:128], row[128:192], row[192:208], asm.FromF16(le.Uint16(row[208:]))
		for i := range 256 {
			half, run, k := i/128, i/32%4, i%32 // each half of the block has four runs of 32
			l := low[half*64+run%2*32+k] >> (run / 2 * 4) & 15
			h := high[half*32+k] >> (run * 2) & 3
			s := float32(d * float32(int8(sc[i/16])))
			dst[i] = s * float32(int(l|h<<4)-32)
		}
	}
}

func encodeQ6_K(row []byte, x, importance []float32) error {
	return encodeBlocks(Q6_K, row, x, importance, blockQ6_K)
}

// blockQ6_K: x = d*scale*(q - 32) with q in 0 … 63 and, for each 16 numbers, scale in -128 … 127.
func blockQ6_K(block []byte, x, importance []float32) (d float32) {
	if amax := greatest(x); amax >= maxK {
		return amax
	}
	var (
		scales  [16]float32
		weights [256]float32
		q       [16]float32
	)
	var top float32
	for j := range 16 {
		sub, w := x[16*j:][:16], weights[16*j:][:16]
		weigh(w, sub, part(importance, 16*j, 16))
		scales[j] = fitScale(sub, w, q[:], 32)
		if abs32(scales[j]) > abs32(top) {
			top = scales[j]
		}
	}
	h := asm.ToF16(0 - float32(top/128)) // so that the greatest uses all of its byte; never -0
	d = asm.FromF16(h)
	if abs32(d) > math.MaxFloat32 {
		return top / 128
	}
	clear(block)
	low, high, bytes := block[:128], block[128:192], block[192:208]
	le.PutUint16(block[208:], h)
	for j := range 16 {
		sub, w := x[16*j:][:16], weights[16*j:][:16]
		s0 := nearest(scales[j], d)
		least, best := float32(math.MaxFloat32), 0
		for _, s := range neighbors(s0, -128, 127) {
			scale := float32(d * float32(s))
			roundSigned(q[:], sub, reciprocal(scale), 32)
			if e := rangeError(sub, w, q[:], scale, 0); e < least {
				least, best = e, s
			}
		}
		bytes[j] = byte(int8(best))
		roundSigned(q[:], sub, reciprocal(d*float32(best)), 32)
		half, run := j/8, j/2%4 // each half of the block has four runs of 32
		for i, v := range q {
			k, u := j%2*16+i, byte(int32(v)+32)
			low[half*64+run%2*32+k] |= u & 15 << (run / 2 * 4)
			high[half*32+k] |= u >> 4 << (run * 2)
		}
	}
	return d
}
