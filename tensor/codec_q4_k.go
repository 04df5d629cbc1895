package tensor

import (
	"math"

	"github.com/specgo/spec/asm"
)

// Q4_K: a super-block of 256 weights is d and dmin binary16, 8 scales and 8 minimums of 6 bits in 12 bytes, and 4 x
// 32 bytes, each holding two sub-blocks of 32 weights, low nibbles first. A weight of sub-block i is (d*sc[i])*q -
// dmin*mn[i]; the products are exact, the difference rounds once.

func decodeQ4_K(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[144:] {
		d, dmin := asm.FromF16(le.Uint16(row)), asm.FromF16(le.Uint16(row[2:]))
		sc, mn := decodeScales(row[4:16])
		for i := range 8 {
			s, m := d*float32(sc[i]), float32(dmin*float32(mn[i]))
			for k := range 32 {
				q := row[16+i/2*32+k] >> (i % 2 * 4) & 15
				dst[32*i+k] = float32(s*float32(q)) - m
			}
		}
	}
}

// decodeScales reads the 6-bit scales and minimums of a Q4_K or Q5_K block: those of sub-blocks 0 … 3 have bytes of
// their own, whose upper two bits are the upper two of 4 … 7.
func decodeScales(p []byte) (sc, mn [8]byte) {
	for i := range 4 {
		sc[i], mn[i] = p[i]&63, p[i+4]&63
		sc[i+4] = p[i+8]&15 | p[i]>>6<<4
		mn[i+4] = p[i+8]>>4 | p[i+4]>>6<<4
	}
	return sc, mn
}

// encodeScales is the inverse of decodeScales.
func encodeScales(p []byte, sc, mn *[8]int) {
	for i := range 4 {
		p[i] = byte(sc[i] | sc[i+4]>>4<<6)
		p[i+4] = byte(mn[i] | mn[i+4]>>4<<6)
		p[i+8] = byte(sc[i+4]&15 | mn[i+4]&15<<4)
	}
}

func encodeQ4_K(row []byte, x, importance []float32) error {
	return encodeBlocks(Q4_K, row, x, importance, blockQ4_K)
}

// blockQ4_K: x = d*scale*q - dmin*minimum with q in 0 … 15.
func blockQ4_K(block []byte, x, importance []float32) (d float32) {
	var q [256]byte
	d = encodeRanges(block[:16], q[:], x, importance, 15)
	for j := range 4 {
		for i := range 32 {
			block[16+32*j+i] = q[64*j+i] | q[64*j+32+i]<<4
		}
	}
	return d
}

// encodeRanges encodes a super-block of Q4_K or Q5_K: x = d*scale*q - dmin*minimum with q in 0 … most and, for each
// 32 numbers, scale and minimum in 0 … 63. It writes what the two types begin with, and q. If a scale exceeds
// binary16 it returns that scale.
func encodeRanges(header, q []byte, x, importance []float32, most float32) (d float32) {
	if amax := greatest(x); amax >= maxK {
		return amax
	}
	var (
		scales, minimums [8]float32
		sc, mn           [8]int
		weights          [256]float32
		u                [32]float32
	)
	var top, bottom float32
	for j := range 8 {
		sub, w := x[32*j:][:32], weights[32*j:][:32]
		weigh(w, sub, part(importance, 32*j, 32))
		scales[j], minimums[j] = fitRange(sub, w, u[:], most, false)
		top, bottom = max(top, scales[j]), max(bottom, minimums[j])
	}
	hd, hm := asm.ToF16(top/63), asm.ToF16(bottom/63)
	d, dmin := asm.FromF16(hd), asm.FromF16(hm)
	le.PutUint16(header, hd)
	le.PutUint16(header[2:], hm)
	if d > math.MaxFloat32 || dmin > math.MaxFloat32 {
		return max(top, bottom) / 63
	}
	for j := range 8 {
		sub, w := x[32*j:][:32], weights[32*j:][:32]
		s0, m0 := nearest(scales[j], d), nearest(minimums[j], dmin)
		least := float32(math.MaxFloat32)
		for _, s := range neighbors(s0, 0, 63) {
			for _, m := range neighbors(m0, 0, 63) {
				scale, minimum := float32(d*float32(s)), float32(dmin*float32(m))
				roundUnsigned(u[:], sub, reciprocal(scale), minimum, most)
				if e := rangeError(sub, w, u[:], scale, minimum); e < least {
					least, sc[j], mn[j] = e, s, m
				}
			}
		}
		roundUnsigned(u[:], sub, reciprocal(d*float32(sc[j])), float32(dmin*float32(mn[j])), most)
		for i, v := range u {
			q[32*j+i] = byte(v)
		}
	}
	encodeScales(header[4:16], &sc, &mn)
	return d
}
