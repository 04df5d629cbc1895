package tensor

import "math"

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
