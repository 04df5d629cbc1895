package asm

import (
	"math"
	"testing"
)

// ulps is the distance from the exact value in units of the last place of binary32 (of subnormals, their unit).
func ulps(got float32, want float64) float64 {
	e := math.Ilogb(math.Max(math.Abs(want), 0x1p-126))
	return math.Abs(float64(got)-want) / math.Ldexp(1, e-23)
}

func TestFloat32Functions(t *testing.T) {
	r := newRand(2)
	for _, c := range []struct {
		name  string
		f     func(float32) float32
		want  func(float64) float64
		x     func() float64
		limit float64
	}{
		{"Exp32", Exp32, math.Exp, func() float64 { return r.Float64()*192 - 103.5 }, 1},
		{"Exp32 near 0", Exp32, math.Exp, func() float64 { return r.NormFloat64() * 0.1 }, 1},
		{"Log32", Log32, math.Log, func() float64 { return float64(math.Float32frombits(r.Uint32N(0x7f7fffff) + 1)) }, 1},
		{"Log32 near 1", Log32, math.Log, func() float64 { return 1 + r.NormFloat64()*0.01 }, 1},
		{"Log32 of subnormals", Log32, math.Log,
			func() float64 { return float64(math.Float32frombits(r.Uint32N(0x7fffff) + 1)) }, 1},
		{"Tanh32", Tanh32, math.Tanh, func() float64 { return r.NormFloat64() * 2 }, 2},
		{"Sigmoid32", Sigmoid32, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
			func() float64 { return r.NormFloat64() * 10 }, 3},
		{"UpperTail32", UpperTail32, func(a float64) float64 { return math.Erfc(a/math.Sqrt2) / 2 },
			func() float64 { return r.Float64() * 2 }, 9},
		{"UpperTail32 of the far end", UpperTail32, func(a float64) float64 { return math.Erfc(a/math.Sqrt2) / 2 },
			func() float64 { return r.Float64() * 13 }, 90}, // a*a is rounded
	} {
		worst, at := 0.0, float32(0)
		for range cases(200000) {
			x := float32(c.x())
			if u := ulps(c.f(x), c.want(float64(x))); !(u <= worst) {
				worst, at = u, x
			}
		}
		t.Logf("%s: within %.3f ulp (at %g)", c.name, worst, at)
		if !(worst <= c.limit) {
			t.Errorf("%s is off by %.3f ulp at %g: %g", c.name, worst, at, c.f(at))
		}
	}
}

func TestFloat32FunctionsAtEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	negZero := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		name    string
		f       func(float32) float32
		x, want float32
	}{
		{"Exp32", Exp32, 0, 1}, {"Exp32", Exp32, negZero, 1}, {"Exp32", Exp32, inf, inf}, {"Exp32", Exp32, -inf, 0},
		{"Exp32", Exp32, nan, nan},
		{"Exp32", Exp32, 88.8, inf}, {"Exp32", Exp32, 1e30, inf}, {"Exp32", Exp32, -1e30, 0},
		{"Exp32", Exp32, -103.9, 0x1p-149}, {"Exp32", Exp32, -104, 0},
		{"Weight32", Weight32, 0, 1}, {"Weight32", Weight32, -87, Exp32(-87)}, {"Weight32", Weight32, nan, nan},
		{"Weight32", Weight32, -88, 0}, {"Weight32", Weight32, -103.5, 0}, {"Weight32", Weight32, -inf, 0},
		{"UpperTail32", UpperTail32, 1e30, 0}, {"UpperTail32", UpperTail32, inf, 0}, {"UpperTail32", UpperTail32, nan, nan},
		{"Log32", Log32, 1, 0}, {"Log32", Log32, 0, -inf}, {"Log32", Log32, negZero, -inf}, {"Log32", Log32, -1, nan},
		{"Log32", Log32, inf, inf}, {"Log32", Log32, nan, nan},
		{"Tanh32", Tanh32, negZero, negZero}, {"Tanh32", Tanh32, inf, 1}, {"Tanh32", Tanh32, -inf, -1},
		{"Tanh32", Tanh32, nan, nan}, {"Tanh32", Tanh32, 1e-40, 1e-40},
		{"Sigmoid32", Sigmoid32, 0, 0.5}, {"Sigmoid32", Sigmoid32, inf, 1}, {"Sigmoid32", Sigmoid32, -inf, 0},
	} {
		if got := c.f(c.x); !same(got, c.want) {
			t.Errorf("%s(%g) = %g, want %g", c.name, c.x, got, c.want)
		}
	}
}

// The limit of Weight32 is the one of binary32 whose exponential is the first that is not subnormal.
func TestWeightIsZeroBelowNormalNumbers(t *testing.T) {
	for x := float32(-87.3); x > -87.4; x = math.Nextafter32(x, -100) {
		want := Exp32(x)
		if want < 0x1p-126 {
			want = 0
		}
		if got := Weight32(x); got != want {
			t.Fatalf("Weight32(%v) = %g, want %g", x, got, want)
		}
	}
}

func TestFloat64Functions(t *testing.T) {
	r := newRand(3)
	for range cases(200000) {
		x := (r.Float64() - 0.5) * 1400
		if g, w := Exp64(x), math.Exp(x); math.Abs(g-w) > 0x1p-51*w {
			t.Fatalf("Exp64(%g) = %g, want %g", x, g, w)
		}
		x = math.Exp(x)
		if g, w := Log64(x), math.Log(x); math.Abs(g-w) > 0x1p-51*math.Abs(w) {
			t.Fatalf("Log64(%g) = %g, want %g", x, g, w)
		}
		x, y := 10000*(1+r.Float64()*100), -r.Float64()
		if g, w := Pow(x, y), math.Pow(x, y); math.Abs(g-w) > 20*0x1p-52*w {
			t.Fatalf("Pow(%g, %g) = %g, want %g", x, y, g, w)
		}
		x = (r.Float64() - 0.5) * math.Ldexp(1, r.IntN(22))
		s, c := SinCos(x)
		if ws, wc := math.Sincos(x); math.Abs(s-ws) > 0x1p-50 || math.Abs(c-wc) > 0x1p-50 {
			t.Fatalf("SinCos(%g) = %g, %g, want %g, %g", x, s, c, ws, wc)
		}
	}
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range [][2]float64{
		{Exp64(inf), inf}, {Exp64(-inf), 0}, {Exp64(nan), nan}, {Exp64(0), 1}, {Exp64(1000), inf}, {Exp64(-1000), 0},
		{Log64(0), -inf}, {Log64(-1), nan}, {Log64(inf), inf}, {Log64(nan), nan}, {Log64(1), 0}, {Pow(7, 0), 1},
	} {
		if c[0] != c[1] && !(c[0] != c[0] && c[1] != c[1]) {
			t.Errorf("got %g, want %g", c[0], c[1])
		}
	}
	if s, c := SinCos(inf); s == s || c == c {
		t.Error("SinCos(Inf) is a number")
	}
}

func TestF16(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := FromF16(h)
		// The naive value: sign * 2^(e-15) * 1.m.
		e, m := int(h>>10&31), float64(h&1023)
		want := math.Ldexp(1024+m, e-25)
		switch {
		case e == 0:
			want = math.Ldexp(m, -24)
		case e == 31 && m == 0:
			want = math.Inf(1)
		case e == 31:
			want = math.NaN()
		}
		if h>>15 == 1 {
			want = -want
		}
		if h == 0x8000 {
			want = math.Copysign(0, -1)
		}
		if !same(f, float32(want)) {
			t.Fatalf("FromF16(%#04x) = %g, want %g", h, f, want)
		}
		if back := ToF16(f); back != h && !(e == 31 && m != 0 && back == h|0x200) {
			t.Fatalf("ToF16(FromF16(%#04x)) = %#04x", h, back)
		}
		if e == 31 || h >= 0x7bff {
			continue
		}
		// Rounding between h and the next number: below, at and above the middle.
		mid := (f + FromF16(h+1)) / 2 // exact
		even := h + h&1
		if math.Abs(float64(mid)) > 0x1p-140 {
			for _, c := range []struct {
				x    float32
				want uint16
			}{{math.Nextafter32(mid, f), h}, {mid, even}, {math.Nextafter32(mid, 2*mid-f), h + 1}} {
				if got := ToF16(c.x); got != c.want {
					t.Fatalf("ToF16(%b) = %#04x, want %#04x", c.x, got, c.want)
				}
			}
		}
	}
	for _, c := range []struct {
		x    float32
		want uint16
	}{{65519.996, 0x7bff}, {65520, 0x7c00}, {-1e30, 0xfc00}, {0x1p-25, 0}, {0x1.000002p-25, 1}, {0x1p-149, 0}} {
		if got := ToF16(c.x); got != c.want {
			t.Errorf("ToF16(%g) = %#04x, want %#04x", c.x, got, c.want)
		}
	}
}

func TestBF16(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := FromBF16(h)
		if f != f {
			if b := ToBF16(f); b != h|0x40 {
				t.Fatalf("ToBF16 of NaN %#04x = %#04x", h, b)
			}
			continue
		}
		if ToBF16(f) != h {
			t.Fatalf("ToBF16(FromBF16(%#04x)) = %#04x", h, ToBF16(f))
		}
		if h&0x7fff >= 0x7f7f {
			continue
		}
		mid := math.Float32frombits(uint32(h)<<16 | 0x8000)
		if got, want := ToBF16(mid), h+h&1; got != want {
			t.Fatalf("ToBF16(%b) = %#04x, want %#04x", mid, got, want)
		}
		if got := ToBF16(math.Float32frombits(uint32(h)<<16 | 0x8001)); got != h+1 {
			t.Fatalf("ToBF16 above the middle: %#04x, want %#04x", got, h+1)
		}
	}
}

func TestNoise(t *testing.T) {
	// Gumbel(0,1) has mean 0.5772…, variance pi²/6, distribution function exp(-exp(-x)).
	const n = 400000
	var sum, sq float64
	var bins [20]int
	for i := range n {
		g := float64(Noise(Key(7, uint64(i/1000)), uint32(i%1000)))
		sum += g
		sq += g * g
		bins[min(int(math.Exp(-math.Exp(-g))*20), 19)]++
	}
	mean := sum / n
	if math.Abs(mean-0.57721566) > 0.01 {
		t.Errorf("mean %g", mean)
	}
	if v := sq/n - mean*mean; math.Abs(v-math.Pi*math.Pi/6) > 0.03 {
		t.Errorf("variance %g", v)
	}
	chi := 0.0
	for _, c := range bins {
		d := float64(c) - n/20
		chi += d * d / (n / 20)
	}
	if chi > 43.8 { // 19 degrees of freedom, one in a thousand
		t.Errorf("chi² %g over %v", chi, bins)
	}
	// Gumbel-max draws from the softmax.
	logits := []float32{0, 1, 2, -1}
	var total float64
	var p, seen [4]float64
	for i, l := range logits {
		p[i] = math.Exp(float64(l))
		total += p[i]
	}
	for i := range 100000 {
		var x [4]float32
		gumbel(x[:], 0, Key(uint64(i), 3))
		for j := range x {
			x[j] += logits[j]
		}
		seen[argMax(x[:])]++
	}
	for i := range p {
		if e := p[i] / total; math.Abs(seen[i]/100000-e) > 0.006 {
			t.Errorf("token %d drawn with frequency %g, want %g", i, seen[i]/100000, e)
		}
	}
}

// The arguments of Noise's logarithms are nearly exact, at both ends of the range.
func TestNoisePrecision(t *testing.T) {
	for _, h := range []uint32{0, 1, 2, 1000, 1 << 20, 1<<31 - 1, 1 << 31, 1<<31 + 1, 0xb504f333, 0xc0000000,
		1<<32 - 1000, 1<<32 - 2, 1<<32 - 1} {
		u := (float64(h) + 0.5) * 0x1p-32
		c := (float64(^h) + 0.5) * 0x1p-32
		want := -math.Log(-math.Log1p(-c))
		if h < 1<<31 {
			want = -math.Log(-math.Log(u))
		}
		if got := float64(noiseOf(h)); math.Abs(got-want) > 4e-7*math.Max(1, math.Abs(want)) {
			t.Errorf("hash %#08x: %g, want %g", h, got, want)
		}
	}
}

func TestKey(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(4) {
		for a := range uint64(8) {
			seen[Key(seed, a)] = true
			for b := range uint64(8) {
				seen[Key(seed, a, b)] = true
			}
		}
		seen[Key(seed)] = true
	}
	if want := 4 * (1 + 8 + 64); len(seen) != want {
		t.Errorf("%d different keys, want %d", len(seen), want)
	}
	var mean float64
	for i := range 10000 {
		u := Uniform(Key(1, uint64(i)))
		if u < 0 || u >= 1 {
			t.Fatal(u)
		}
		mean += u / 10000
	}
	if math.Abs(mean-0.5) > 0.01 {
		t.Errorf("mean of Uniform %g", mean)
	}
}

// MostNoise bounds the noise of all lesser hashes.
func TestMostNoise(t *testing.T) {
	r := newRand(31)
	for range cases(200000) {
		most := r.Uint32() >> r.IntN(32)
		if r.IntN(2) == 0 {
			most = ^most
		}
		bound := MostNoise(most)
		for _, less := range []uint32{0, 1, 2, 3, uint32(r.IntN(1000)), most >> 1, most} {
			if h := most - min(less, most); noiseOf(h) > bound-0x1p-11 {
				t.Fatalf("the noise of %#08x is %g, that up to %#08x at most %g", h, noiseOf(h), most, bound)
			}
		}
		if n := noiseOf(most); n > 4 && bound-n > 0.02 {
			t.Fatalf("the noise of %#08x is %g, the bound %g", most, n, bound)
		}
	}
}
