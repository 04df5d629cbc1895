package asm

import "math"

// The functions below serve tables (RoPE, YaRN) that are made once; they are slower than package math's and the same
// on every machine. The coefficients are fdlibm's (Sun Microsystems).

// Exp64 returns e^x within 1 ulp or so.
func Exp64(x float64) float64 {
	const (
		hi = 6.93147180369123816490e-01
		lo = 1.90821492927058770002e-10
	)
	switch {
	case x != x || x > 710:
		return x * math.Inf(1) // NaN or Inf
	case x < -746:
		return 0
	}
	k := math.Floor(float64(x*math.Log2E) + 0.5)
	h := x - float64(k*hi)
	l := float64(k * lo)
	r := h - l
	t := r * r
	p := 4.13813679705723846039e-08
	for _, c := range [...]float64{-1.65339022054652515390e-06, 6.61375632143793436117e-05, -2.77777777770155933842e-03,
		1.66666666666666019037e-01} {
		p = float64(p*t) + c
	}
	c := r - float64(t*p)
	y := 1 - ((l - float64(r*c)/(2-c)) - h)
	return math.Ldexp(y, int(k))
}

// Log64 returns the natural logarithm within 1 ulp or so: -Inf for 0, NaN below.
func Log64(x float64) float64 {
	const (
		hi = 6.93147180369123816490e-01
		lo = 1.90821492927058770002e-10
	)
	switch {
	case x != x || x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case math.IsInf(x, 1):
		return x
	}
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	f := m - 1
	k := float64(e)
	s := f / (2 + f)
	s2 := float64(s * s)
	p := 1.479819860511658591e-01
	for _, c := range [...]float64{1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
		2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01} {
		p = float64(p*s2) + c
	}
	r := float64(s2 * p)
	h := float64(float64(0.5*f) * f)
	return float64(k*hi) - ((h - (float64(s*(h+r)) + float64(k*lo))) - f)
}

// Pow returns x^y for x > 0, as Exp64(y*Log64(x)): a relative error of about |y log x| * 2^-52.
func Pow(x, y float64) float64 { return Exp64(y * Log64(x)) }

// SinCos returns sine and cosine of x (radians), with an absolute error under 2^-50 for |x| < 2^20, growing beyond.
// NaN for NaN and Inf.
func SinCos(x float64) (sin, cos float64) {
	// pi/2 in pieces of 33 bits, so that n times a piece is exact for n < 2^20.
	const (
		p1 = 1.57079632673412561417e+00
		p2 = 6.07710050630396597660e-11
		p3 = 2.02226624879595063154e-21
	)
	if x != x || math.IsInf(x, 0) {
		return math.NaN(), math.NaN()
	}
	n := math.Floor(float64(x*(2/math.Pi)) + 0.5)
	r := x - float64(n*p1)
	r = r - float64(n*p2)
	r = r - float64(n*p3)
	z := float64(r * r)

	p := 1.58969099521155010221e-10
	for _, c := range [...]float64{-2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
		8.33333333332248946124e-03, -1.66666666666666324348e-01} {
		p = float64(p*z) + c
	}
	s := r + float64(float64(r*z)*p)

	p = -1.13596475577881948265e-11
	for _, c := range [...]float64{2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
		-1.38888888888741095749e-03, 4.16666666666666019037e-02} {
		p = float64(p*z) + c
	}
	h := float64(0.5 * z)
	w := 1 - h
	c := w + (((1 - w) - h) + float64(float64(z*z)*p))

	switch int64(math.Mod(n, 4)) & 3 {
	case 1:
		return c, -s
	case 2:
		return -s, -c
	case 3:
		return -c, s
	}
	return s, c
}
