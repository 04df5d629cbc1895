package asm

import "math"

// Coefficients after the Cephes library (S. Moshier); the order of operations is this package's.
const (
	roundMagic = 3 << 22 // x + roundMagic rounds x, |x| < 2^22, to an integer, half to even, and keeps it in the low bits

	log2E  = 1.44269504088896341
	ln2Hi  = 0.693359375 // 9 bits, so that its products with small integers are exact
	ln2Lo  = -2.12194440e-4
	expMin = -104 // below, exp rounds to 0
	expMax = 89   // above, exp is Inf

	expNormal = -87.33654 // the least x whose Exp32 is not below 2^-126

	geluLinear = -1.5957691216057308 // -2*sqrt(2/pi)
	geluCubic  = geluLinear * 0.044715
)

// Exp32 returns e^x, within 1 ulp; NaN for NaN.
//
//	x = min(max(x, -104), 89), NaN kept
//	z = fma(x, log2e, 3<<22); n = z - 3<<22          (the integer nearest to x*log2e)
//	r = fma(n, -ln2hi, x); r = fma(n, -ln2lo, r)
//	p = 1.9875691500e-4; p = fma(p, r, c) for c = 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
//	    1.6666665459e-1, 5.0000001201e-1
//	p = fma(p, r*r, r); p = p + 1
//	a = n>>1 (towards -Inf); result = (p * 2^a) * 2^(n-a)   (only the last product rounds: a subnormal result is
//	    rounded once)
func Exp32(x float32) float32 {
	if x < expMin {
		x = expMin
	}
	if x > expMax {
		x = expMax
	}
	z := FMA(x, log2E, roundMagic)
	n := z - roundMagic
	r := FMA(n, -ln2Hi, x)
	r = FMA(n, -ln2Lo, r)
	p := FMA(1.9875691500e-4, r, 1.3981999507e-3)
	p = FMA(p, r, 8.3334519073e-3)
	p = FMA(p, r, 4.1665795894e-2)
	p = FMA(p, r, 1.6666665459e-1)
	p = FMA(p, r, 5.0000001201e-1)
	p = FMA(p, r*r, r)
	p = p + 1
	i := int32(math.Float32bits(z)) - 0x4b400000
	a := i >> 1
	return float32(p*pow2(a)) * pow2(i-a)
}

// LeastNormal is the least positive number of binary32 that is not subnormal.
const LeastNormal = 0x1p-126

// Weight32 is Exp32(x), or 0 where that is below LeastNormal: a term of a softmax. Subnormal numbers cost some
// processors a hundredfold, and next to the greatest term, which is 1, they are nothing.
func Weight32(x float32) float32 {
	switch {
	case x < expNormal:
		return 0
	case x == 0: // of two maxima that are combined, one is the greater
		return 1
	}
	return Exp32(x)
}

// pow2 is 2^n for -126 <= n <= 127.
func pow2(n int32) float32 { return math.Float32frombits(uint32(n+127) << 23) }

// Log32 returns the natural logarithm, within 1 ulp: -Inf for 0, NaN below, Inf for Inf.
//
//	if x < 2^-126 { x = x * 2^23, e0 = -23 }
//	e = (bits(x) - 0x3f3504f3) >> 23 (towards -Inf); f = float(bits(x) - e<<23) - 1    (f+1 in [sqrt(1/2), sqrt(2)))
//	result = logReduced(f, float(e+e0))
func Log32(x float32) float32 {
	var e int32
	switch {
	case x != x || x < 0:
		return float32(math.NaN())
	case x == 0:
		return float32(math.Inf(-1))
	case x > math.MaxFloat32:
		return x
	case x < 0x1p-126:
		x *= 0x1p23
		e = -23
	}
	b := int32(math.Float32bits(x))
	k := (b - 0x3f3504f3) >> 23
	f := math.Float32frombits(uint32(b-k<<23)) - 1
	return logReduced(f, float32(e+k))
}

// logReduced returns log((1+f) * 2^e) for 1+f in [sqrt(1/2), sqrt(2)).
//
//	z = f*f
//	p = 7.0376836292e-2; p = fma(p, f, c) for c = -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
//	    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1
//	y = (p*f)*z; y = fma(e, ln2lo, y); y = fma(z, -0.5, y)
//	result = fma(e, ln2hi, f+y)
func logReduced(f, e float32) float32 {
	z := f * f
	p := FMA(7.0376836292e-2, f, -1.1514610310e-1)
	p = FMA(p, f, 1.1676998740e-1)
	p = FMA(p, f, -1.2420140846e-1)
	p = FMA(p, f, 1.4249322787e-1)
	p = FMA(p, f, -1.6668057665e-1)
	p = FMA(p, f, 2.0000714765e-1)
	p = FMA(p, f, -2.4999993993e-1)
	p = FMA(p, f, 3.3333331174e-1)
	y := float32(p*f) * z
	y = FMA(e, ln2Lo, y)
	y = FMA(z, -0.5, y)
	return FMA(e, ln2Hi, f+y)
}

// Tanh32 returns the hyperbolic tangent, within 2 ulps.
//
//	a = |x|
//	if a < 0.625 { s = a*a; p = -5.70498872745e-3; p = fma(p, s, c) for c = 2.06390887954e-2, -5.37397155531e-2,
//	    1.33314422036e-1, -3.33332819422e-1; t = fma(a*s, p, a) } else { t = 1 - 2/(Exp32(2a) + 1) }
//	result = t with the sign of x
func Tanh32(x float32) float32 {
	a := math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
	var t float32
	if a < 0.625 {
		s := a * a
		p := FMA(-5.70498872745e-3, s, 2.06390887954e-2)
		p = FMA(p, s, -5.37397155531e-2)
		p = FMA(p, s, 1.33314422036e-1)
		p = FMA(p, s, -3.33332819422e-1)
		t = FMA(a*s, p, a)
	} else {
		t = 1 - 2/(Exp32(2*a)+1)
	}
	return math.Float32frombits(math.Float32bits(t)&^(1<<31) | math.Float32bits(x)&(1<<31))
}

// The polynomial of UpperTail32, by t ascending: a minimax fit (Remez) of its relative error over 0 <= a <= 13.2.
const (
	tailK = 0.3
	tail0 = 0.1196245409801462
	tail1 = 0.12082631350854212
	tail2 = 0.09946507341686626
	tail3 = 0.1300325781970022
	tail4 = -0.056450004070768244
	tail5 = 0.20934627303866304
	tail6 = -0.15893365223511768
	tail7 = 0.03608881771032195
)

// UpperTail32 returns (1 - erf(a/sqrt(2)))/2 for a >= 0: the chance that a standard normal number is above a,
// within 9 ulps for a <= 2; further out the rounding of a*a counts. 1 - 2*UpperTail32(x*sqrt(2)) is erf(x), x >= 0.
//
//	e = Exp32((a*a) * -0.5)
//	t = 1 / fma(a, 0.3, 1)
//	p = tail7; p = fma(p, t, tail6), … tail0
//	result = (p*t)*e
func UpperTail32(a float32) float32 {
	e := Exp32(float32(a*a) * -0.5)
	t := 1 / FMA(a, tailK, 1)
	p := FMA(tail7, t, tail6)
	p = FMA(p, t, tail5)
	p = FMA(p, t, tail4)
	p = FMA(p, t, tail3)
	p = FMA(p, t, tail2)
	p = FMA(p, t, tail1)
	p = FMA(p, t, tail0)
	return float32(p*t) * e
}

// Sigmoid32 returns 1 / (1 + Exp32(-x)).
func Sigmoid32(x float32) float32 { return 1 / (1 + Exp32(-x)) }

// sqrt32 is the square root, correctly rounded.
func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }
