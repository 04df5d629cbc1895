package interp

import (
	"math"
	"unsafe"
)

// number is what a lane holds. Lanes are little endian, and so must the machine be.
type number interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32
}

// lanes are the first width bytes of a register.
func lanes[T number](v *vec, width int) []T {
	var e T
	return unsafe.Slice((*T)(unsafe.Pointer(v)), width/int(unsafe.Sizeof(e)))
}

// operation computes d from sources in Intel's order, the destination's old content first where it is read. No source
// is d.
type operation func(d *vec, s []*vec, width, imm int)

func each1[T, U number](f func(a T) U) operation {
	return func(d *vec, s []*vec, width, _ int) {
		z, a := lanes[U](d, width), lanes[T](s[0], width)
		for i := range z {
			z[i] = f(a[i])
		}
	}
}

func each2[T number](f func(a, b T) T) operation {
	return func(d *vec, s []*vec, width, _ int) {
		z, a, b := lanes[T](d, width), lanes[T](s[0], width), lanes[T](s[1], width)
		for i := range z {
			z[i] = f(a[i], b[i])
		}
	}
}

func each3[T number](f func(a, b, c T) T) operation {
	return func(d *vec, s []*vec, width, _ int) {
		z, a, b, c := lanes[T](d, width), lanes[T](s[0], width), lanes[T](s[1], width), lanes[T](s[2], width)
		for i := range z {
			z[i] = f(a[i], b[i], c[i])
		}
	}
}

// shift is for a constant number of bits.
func shift[T number](f func(a T, n int) T) operation {
	return func(d *vec, s []*vec, width, imm int) {
		z, a := lanes[T](d, width), lanes[T](s[0], width)
		for i := range z {
			z[i] = f(a[i], imm&255)
		}
	}
}

// widen extends the first of the source's lanes.
func widen[T, U number](f func(a T) U) operation {
	return func(d *vec, s []*vec, width, _ int) {
		z, a := lanes[U](d, width), lanes[T](s[0], 64)
		for i := range z {
			z[i] = f(a[i])
		}
	}
}

// quarters does every 128 bits by themselves.
func quarters(f func(d, a, b []byte, imm int)) operation {
	return func(d *vec, s []*vec, width, imm int) {
		second := s[len(s)-1]
		for i := 0; i < width; i += 16 {
			f(d[i:i+16], s[0][i:i+16], second[i:i+16], imm)
		}
	}
}

// part128 is a lane of 128 bits.
func part128[T number](b []byte) []T {
	var e T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), 16/int(unsafe.Sizeof(e)))
}

func saturate(v, low, high int) int { return min(max(v, low), high) }

// fma is a*b+c with one rounding: the product is exact in binary64; the sum is rounded to odd there, and then to
// nearest.
func fma(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	if s == 0 || math.IsInf(s, 0) || s != s {
		return float32(s)
	}
	v := s - p
	e := (p - (s - v)) + (q - v)
	if e != 0 && math.Float64bits(s)&1 == 0 {
		if e > 0 {
			s = math.Nextafter(s, math.Inf(1))
		} else {
			s = math.Nextafter(s, math.Inf(-1))
		}
	}
	return float32(s)
}

// maximum and minimum give the second operand where they do not know: NaN, or zeros of both signs.
func maximum(a, b float32) float32 {
	if a > b {
		return a
	}
	return b
}

func minimum(a, b float32) float32 {
	if a < b {
		return a
	}
	return b
}

// fromHalf is the binary32 of a binary16.
func fromHalf(h uint16) float32 {
	sign, e, m := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch {
	case e == 31 && m != 0:
		return math.Float32frombits(sign | 0x7fc00000 | m<<13)
	case e == 31:
		return math.Float32frombits(sign | 0x7f800000)
	case e == 0:
		v := float32(m) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(v))
	}
	return math.Float32frombits(sign | (e+112)<<23 | m<<13)
}

// toHalf rounds to the nearest binary16, ties to even.
func toHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	if f != f {
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	}
	a := math.Abs(float64(f))
	if a >= 65520 {
		return sign | 0x7c00
	}
	exp := max(int(b>>23&255)-127, -14)
	n := math.RoundToEven(math.Ldexp(a, 10-exp)) // in units of the last place
	return sign | uint16(int(n)+(exp+14)<<10)    // a carry goes into the exponent, and 1024 makes a number normal
}

// toInt32 rounds to the nearest integer; what does not fit is the least one.
func toInt32(f float32) int32 {
	r := math.RoundToEven(float64(f))
	if !(r >= math.MinInt32 && r <= math.MaxInt32) {
		return math.MinInt32
	}
	return int32(r)
}

// scalef is a * 2^floor(b) with one rounding.
func scalef(a, b float32) float32 {
	inf := float32(math.Inf(1))
	switch {
	case a != a && b == inf:
		return inf
	case a != a && b == -inf:
		return 0
	case a != a || b != b:
		return float32(math.NaN())
	case b == inf && a == 0, b == -inf && (a == inf || a == -inf):
		return float32(math.NaN())
	}
	n := min(max(math.Floor(float64(b)), -400), 400)
	return float32(math.Ldexp(float64(a), int(n)))
}

// compare is a predicate of VCMPPS.
func compare(predicate int, a, b float32) bool {
	unordered := a != a || b != b
	switch predicate & 15 {
	case 0:
		return a == b
	case 1:
		return a < b
	case 2:
		return a <= b
	case 3:
		return unordered
	case 4:
		return a != b
	case 5:
		return !(a < b)
	case 6:
		return !(a <= b)
	case 7:
		return !unordered
	case 8:
		return a == b || unordered
	case 9:
		return !(a >= b)
	case 10:
		return !(a > b)
	case 11:
		return false
	case 12:
		return a != b && !unordered
	case 13:
		return a >= b
	case 14:
		return a > b
	}
	return true
}
