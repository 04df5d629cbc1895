package tensor

import (
	"encoding/binary"
	"math"

	"github.com/specgo/spec/asm"
)

// The K types store the scales of their sub-blocks as small integers, so the best scales are not simply those that span
// the numbers. Both encoders look for them in three steps: for each sub-block alone, the best of a few scales that use
// more or less of the range (the numbers that fall outside are clipped), each improved by least squares for the integers
// it gives; then the common scales, from the greatest; then for each sub-block the best of the neighbouring integers.
// Errors are squared and weighted: a greater weight counts for more, as it does in a sum of products.
//
// Every operation is one rounding in a fixed order, so the bytes are the same on every machine.

// What is greater than maxK is more than the K types can hold; what is less has squares that float32 can sum. What is less
// than minK is zero in them, and its reciprocal might overflow.
const (
	maxK = 0x1p28
	minK = 0x1p-60
)

// encodeQ4K: x = d*scale*q - dmin*minimum with q in 0 … 15 and, for each 32 numbers, scale and minimum in 0 … 63.
func encodeQ4K(block []byte, x []float32) (d float32) {
	if amax := greatest(x); amax >= maxK {
		return amax
	}
	var (
		scales, minima [8]float32
		sc, mn         [8]int
		weights        [256]float32
		q              [32]float32
	)
	var top, bottom float32
	for j := range 8 {
		sub, w := x[32*j:][:32], weights[32*j:][:32]
		weigh(w, sub)
		scales[j], minima[j] = fitRange(sub, w, q[:])
		top, bottom = max(top, scales[j]), max(bottom, minima[j])
	}
	hd, hm := asm.ToF16(top/63), asm.ToF16(bottom/63)
	d, dmin := asm.FromF16(hd), asm.FromF16(hm)
	binary.LittleEndian.PutUint16(block, hd)
	binary.LittleEndian.PutUint16(block[2:], hm)
	if d > math.MaxFloat32 || dmin > math.MaxFloat32 {
		return max(top, bottom) / 63
	}
	clear(block[4:])
	for j := range 8 {
		sub, w := x[32*j:][:32], weights[32*j:][:32]
		s0, m0 := nearest(scales[j], d), nearest(minima[j], dmin)
		least := float32(math.MaxFloat32)
		for _, s := range neighbours(s0, 0, 63) {
			for _, m := range neighbours(m0, 0, 63) {
				scale, minimum := float32(d*float32(s)), float32(dmin*float32(m))
				round15(q[:], sub, reciprocal(scale), minimum)
				if e := rangeError(sub, w, q[:], scale, minimum); e < least {
					least, sc[j], mn[j] = e, s, m
				}
			}
		}
		round15(q[:], sub, reciprocal(d*float32(sc[j])), float32(dmin*float32(mn[j])))
		for i, v := range q {
			block[16+j/2*32+i] |= byte(v) << (j % 2 * 4)
		}
	}
	// Scales and minima 0 … 3 have bytes of their own, whose upper two bits are the upper two of 4 … 7.
	for j := range 4 {
		block[4+j] = byte(sc[j] | sc[j+4]>>4<<6)
		block[8+j] = byte(mn[j] | mn[j+4]>>4<<6)
		block[12+j] = byte(sc[j+4]&15 | mn[j+4]&15<<4)
	}
	return d
}

// fitRange finds scale and minimum, neither negative, for x = scale*q - minimum with q in 0 … 15. q is scratch.
func fitRange(x, w, q []float32) (scale, minimum float32) {
	var low, high float32
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	if high-low < minK {
		return 0, 0
	}
	scale, minimum = (high-low)/15, -low
	round15(q, x, reciprocal(scale), minimum)
	least := rangeError(x, w, q, scale, minimum)
	for step := range 11 {
		span := 11 + float32(0.5*float32(step)) // 11 … 16: how many steps the range is divided in
		round15(q, x, span/(high-low), -low)
		s, m := solveRange(x, w, q)
		if s <= 0 {
			continue
		}
		round15(q, x, reciprocal(s), m)
		if e := rangeError(x, w, q, s, m); e < least {
			least, scale, minimum = e, s, m
		}
	}
	return scale, minimum
}

// round15 sets q to the integers in 0 … 15 nearest to (x + minimum)*inverse, halves up.
func round15(q, x []float32, inverse, minimum float32) {
	q = q[:len(x)]
	for i, v := range x {
		u := float32((v + minimum) * inverse)
		switch {
		case u < 0:
			u = 0
		case u > 15:
			u = 15
		}
		q[i] = float32(int32(u + 0.5))
	}
}

func rangeError(x, w, q []float32, scale, minimum float32) (sum float32) {
	w, q = w[:len(x)], q[:len(x)]
	for i, v := range x {
		e := float32(scale*q[i]) - minimum - v
		sum += float32(w[i] * float32(e*e))
	}
	return sum
}

// solveRange is the weighted least squares solution of x = scale*q - minimum with a minimum that is not negative.
func solveRange(x, w, q []float32) (scale, minimum float32) {
	var sw, sx, sq, sqq, sxq float32
	w, q = w[:len(x)], q[:len(x)]
	for i, v := range x {
		wq := float32(w[i] * q[i])
		sw += w[i]
		sx += float32(w[i] * v)
		sq += wq
		sqq += float32(wq * q[i])
		sxq += float32(wq * v)
	}
	if det := float32(sw*sqq) - float32(sq*sq); det > 0 {
		scale = (float32(sw*sxq) - float32(sq*sx)) / det
		minimum = (float32(sq*sxq) - float32(sqq*sx)) / det
	}
	if minimum <= 0 && sqq > 0 {
		return sxq / sqq, 0
	}
	return scale, minimum
}

// encodeQ6K: x = d*scale*(q - 32) with q in 0 … 63 and, for each 16 numbers, scale in -128 … 127.
func encodeQ6K(block []byte, x []float32) (d float32) {
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
		weigh(w, sub)
		scales[j] = fitScale(sub, w, q[:])
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
	binary.LittleEndian.PutUint16(block[208:], h)
	for j := range 16 {
		sub, w := x[16*j:][:16], weights[16*j:][:16]
		s0 := nearest(scales[j], d)
		least, best := float32(math.MaxFloat32), 0
		for _, s := range neighbours(s0, -128, 127) {
			scale := float32(d * float32(s))
			round31(q[:], sub, reciprocal(scale))
			if e := rangeError(sub, w, q[:], scale, 0); e < least {
				least, best = e, s
			}
		}
		bytes[j] = byte(int8(best))
		round31(q[:], sub, reciprocal(d*float32(best)))
		half, run := j/8, j/2%4 // each half of the block has four runs of 32
		for i, v := range q {
			k, u := j%2*16+i, byte(int32(v)+32)
			low[half*64+run%2*32+k] |= u & 15 << (run / 2 * 4)
			high[half*32+k] |= u >> 4 << (run * 2)
		}
	}
	return d
}

// fitScale finds the scale for x = scale*q with q in -32 … 31. The number of greatest magnitude is on the side of -32. q is
// scratch.
func fitScale(x, w, q []float32) (scale float32) {
	top := greatestSigned(x)
	if abs32(top) < minK {
		return 0
	}
	least := float32(math.MaxFloat32)
	for step := range 9 {
		span := 30 + float32(0.5*float32(step)) // 30 … 34: the integer that stands for the greatest magnitude, before it is clipped
		round31(q, x, -span/top)
		var sxq, sqq float32
		for i, v := range x {
			wq := float32(w[i] * q[i])
			sxq += float32(wq * v)
			sqq += float32(wq * q[i])
		}
		s := top / -span
		if sqq > 0 && sxq != 0 {
			s = sxq / sqq
		}
		round31(q, x, reciprocal(s))
		if e := rangeError(x, w, q, s, 0); e < least {
			least, scale = e, s
		}
	}
	return scale
}

// round31 sets q to the integers in -32 … 31 nearest to x*inverse, halves up.
func round31(q, x []float32, inverse float32) {
	q = q[:len(x)]
	for i, v := range x {
		u := float32(v * inverse)
		switch {
		case u < -32:
			u = -32
		case u > 31:
			u = 31
		}
		q[i] = float32(int32(u+32.5) - 32)
	}
}

// weigh sets w to how much an error of each x counts: its magnitude, and the mean magnitude for all.
func weigh(w, x []float32) {
	var sum float32
	for _, v := range x {
		sum += float32(v * v)
	}
	mean := float32(math.Sqrt(float64(sum / float32(len(x)))))
	for i, v := range x {
		w[i] = mean + abs32(v)
	}
}

// nearest is the integer nearest to x/d. The callers' d is so close to the greatest x over 63 or 128 that it is small,
// unless d is subnormal in binary16: then it may be up to twice that.
func nearest(x, d float32) int { return int(math.Round(float64(x * reciprocal(d)))) }

// neighbours are n and the integers beside it, no less than low and no more than high; n comes first, to win ties.
func neighbours(n, low, high int) [3]int {
	clamp := func(n int) int { return min(max(n, low), high) }
	return [3]int{clamp(n), clamp(n - 1), clamp(n + 1)}
}
