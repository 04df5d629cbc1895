package tensor

import "math"

// The scale that spans a block's numbers is not the one with the least error. The encoders search: for each block
// alone, the best of a few scales that use more or less of the range (the numbers that fall outside are clipped),
// each improved by least squares for the integers it gives. The K types store the scales of their sub-blocks as small
// integers; for them the common scales come next, from the greatest, and then for each sub-block the best of the
// neighboring integers. Errors are squared and weighted: a greater number counts for more, as it does in a sum of
// products.
//
// Every operation is one rounding in a fixed order, so the bytes are the same on every machine.

// Numbers above maxK exceed the range of these types; squares of numbers up to maxK can be summed in float32. Numbers
// below minK are zero in these types, and their reciprocals might overflow.
const (
	maxK = 0x1p28
	minK = 0x1p-60
)

// fitRange finds the scale and minimum for x = scale*q - minimum with q in 0 … most; the scale is not negative, nor
// is the minimum where signed is false. q is scratch.
func fitRange(x, w, q []float32, most float32, signed bool) (scale, minimum float32) {
	var low, high float32
	if signed {
		low, high = x[0], x[0]
	}
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	if high-low < minK {
		return 0, -low
	}
	scale, minimum = (high-low)/most, -low
	roundUnsigned(q, x, reciprocal(scale), minimum, most)
	least := rangeError(x, w, q, scale, minimum)
	first, each := most-4, float32(0.5)
	if most < 4 { // beyond most too: where few numbers matter, the others are clipped
		first, each = 1.9, 0.2
	}
	for step := range 11 {
		span := first + float32(each*float32(step)) // how many steps the range is divided in
		roundUnsigned(q, x, span/(high-low), -low, most)
		s, m := solveRange(x, w, q, signed)
		if s <= 0 {
			continue
		}
		roundUnsigned(q, x, reciprocal(s), m, most)
		if e := rangeError(x, w, q, s, m); e < least {
			least, scale, minimum = e, s, m
		}
	}
	return scale, minimum
}

// roundUnsigned sets q to the integers in 0 … most nearest to (x + minimum)*inverse, halves up.
func roundUnsigned(q, x []float32, inverse, minimum, most float32) {
	q = q[:len(x)]
	for i, v := range x {
		u := float32((v + minimum) * inverse)
		switch {
		case u < 0:
			u = 0
		case u > most:
			u = most
		}
		q[i] = float32(int32(u + 0.5))
	}
}

// fitScale finds the scale for x = scale*q with q in -half … half-1. The number of greatest magnitude is on the
// side of -half. q is scratch.
func fitScale(x, w, q []float32, half float32) (scale float32) {
	top := greatestSigned(x)
	if abs32(top) < minK {
		return 0
	}
	least := float32(math.MaxFloat32)
	first, each := half-2, float32(0.5)
	if half < 8 {
		first, each = half-1, 0.35
	}
	for step := range 9 {
		// the integer that stands for the greatest magnitude, before it is clipped
		span := first + float32(each*float32(step))
		roundSigned(q, x, -span/top, half)
		s := solveScale(x, w, q, top/-span)
		roundSigned(q, x, reciprocal(s), half)
		if e := rangeError(x, w, q, s, 0); e < least {
			least, scale = e, s
		}
	}
	return scale
}

// roundSigned sets q to the integers in -half … half-1 nearest to x*inverse, halves up.
func roundSigned(q, x []float32, inverse, half float32) {
	q = q[:len(x)]
	for i, v := range x {
		u := float32(v * inverse)
		switch {
		case u < -half:
			u = -half
		case u > half-1:
			u = half - 1
		}
		q[i] = float32(int32(u+half+0.5)) - half
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

// solveScale is the weighted least squares solution of x = scale*q, or otherwise if there is none.
func solveScale(x, w, q []float32, otherwise float32) float32 {
	var sxq, sqq float32
	w, q = w[:len(x)], q[:len(x)]
	for i, v := range x {
		wq := float32(w[i] * q[i])
		sxq += float32(wq * v)
		sqq += float32(wq * q[i])
	}
	if sqq > 0 && sxq != 0 {
		return sxq / sqq
	}
	return otherwise
}

// solveRange is the weighted least squares solution of x = scale*q - minimum, with a minimum that is not negative
// unless signed.
func solveRange(x, w, q []float32, signed bool) (scale, minimum float32) {
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
	if !signed && minimum <= 0 && sqq > 0 {
		return sxq / sqq, 0
	}
	return scale, minimum
}

// weigh sets w to how much an error of each x counts: its magnitude, and the mean magnitude for all; or where its
// importance is known, that times the root of the sum of the squares of both.
func weigh(w, x, importance []float32) {
	var sum float32
	for _, v := range x {
		sum += float32(v * v)
	}
	mean := float32(math.Sqrt(float64(sum / float32(len(x)))))
	for i, v := range x {
		if importance == nil {
			w[i] = mean + abs32(v)
			continue
		}
		w[i] = importance[i] * float32(math.Sqrt(float64(float32(mean*mean)+float32(v*v))))
	}
}

// nearest is the integer nearest to x/d. The callers' d is so close to the greatest x over 63 or 128 that it is small,
// unless d is subnormal in binary16: then it may be up to twice that.
func nearest(x, d float32) int { return int(math.Round(float64(x * reciprocal(d)))) }

// neighbors are n and the integers beside it, no less than low and no more than high; n comes first, to win ties.
func neighbors(n, low, high int) [3]int {
	clamp := func(n int) int { return min(max(n, low), high) }
	return [3]int{clamp(n), clamp(n - 1), clamp(n + 1)}
}
