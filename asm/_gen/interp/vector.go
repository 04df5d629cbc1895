package interp

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"
)

// packed is a vector instruction that computes every lane of its destination from sources of the same width, or
// narrower.
type packed struct {
	sources int  // in operands, without immediate, mask and destination
	old     bool // the destination's old content is the first source
	imm     bool // the first operand is an immediate
	elem    int  // bytes that a mask bit stands for, and that .BCST repeats
	narrow  int  // the source is so many times narrower than the destination; 0 is 1
	float   bool // results are numbers whose NaN payloads are not specified here
	f       operation
}

func two[T number](elem int, f func(a, b T) T) packed {
	return packed{sources: 2, elem: elem, f: each2(f)}
}
func float2(f func(a, b float32) float32) packed {
	return packed{sources: 2, elem: 4, float: true, f: each2(f)}
}
func bits2(elem int, f func(a, b uint64) uint64) packed { return two(elem, f) }
func fused(f func(a, b, c float32) float32) packed {
	return packed{sources: 2, old: true, elem: 4, float: true, f: each3(f)}
}
func shifted[T number](elem int, f func(a T, n int) T) packed {
	return packed{sources: 1, imm: true, elem: elem, f: shift(f)}
}
func widened[T, U number](narrow, elem int, f func(a T) U) packed {
	return packed{sources: 1, narrow: narrow, elem: elem, f: widen(f)}
}

// ones makes all bits of a truth.
func ones[T int8 | int16 | int32](b bool) T {
	if b {
		return -1
	}
	return 0
}

// table holds the packed instructions by name.
var table = map[string]packed{
	// Logic.
	"VPAND": bits2(8, and), "VPANDD": bits2(4, and), "VANDPS": bits2(4, and), "VPANDQ": bits2(8, and),
	"VPOR": bits2(8, or), "VPORD": bits2(4, or), "VORPS": bits2(4, or), "VPORQ": bits2(8, or),
	"VPXOR": bits2(8, xor), "VPXORD": bits2(4, xor), "VXORPS": bits2(4, xor), "VPXORQ": bits2(8, xor),
	"VPANDN": bits2(8, andNot), "VPANDND": bits2(4, andNot), "VANDNPS": bits2(4, andNot),
	"VPTERNLOGD": {sources: 2, old: true, imm: true, elem: 4, f: ternary},
	"VPTERNLOGQ": {sources: 2, old: true, imm: true, elem: 8, f: ternary},

	// Integers.
	"VPADDB": two(1, func(a, b uint8) uint8 { return a + b }), "VPSUBB": two(1, func(a, b uint8) uint8 { return a - b }),
	"VPADDW":    two(2, func(a, b uint16) uint16 { return a + b }),
	"VPSUBW":    two(2, func(a, b uint16) uint16 { return a - b }),
	"VPADDD":    two(4, func(a, b uint32) uint32 { return a + b }),
	"VPSUBD":    two(4, func(a, b uint32) uint32 { return a - b }),
	"VPADDQ":    two(8, func(a, b uint64) uint64 { return a + b }),
	"VPSUBQ":    two(8, func(a, b uint64) uint64 { return a - b }),
	"VPMULHW":   two(2, func(a, b int16) int16 { return int16(int32(a) * int32(b) >> 16) }),
	"VPMULHUW":  two(2, func(a, b uint16) uint16 { return uint16(uint32(a) * uint32(b) >> 16) }),
	"VPMULHRSW": two(2, func(a, b int16) int16 { return int16((int32(a)*int32(b) + 1<<14) >> 15) }),
	"VPMULLD":   two(4, func(a, b int32) int32 { return a * b }),
	"VPMULLW":   two(2, func(a, b int16) int16 { return a * b }),
	"VPMAXSD":   two(4, func(a, b int32) int32 { return max(a, b) }),
	"VPMINSD":   two(4, func(a, b int32) int32 { return min(a, b) }),
	"VPMAXUD":   two(4, func(a, b uint32) uint32 { return max(a, b) }),
	"VPMINUD":   two(4, func(a, b uint32) uint32 { return min(a, b) }),
	"VPCMPEQB":  two(1, func(a, b int8) int8 { return ones[int8](a == b) }),
	"VPCMPGTB":  two(1, func(a, b int8) int8 { return ones[int8](a > b) }),
	"VPCMPEQW":  two(2, func(a, b int16) int16 { return ones[int16](a == b) }),
	"VPCMPGTW":  two(2, func(a, b int16) int16 { return ones[int16](a > b) }),
	"VPCMPEQD":  two(4, func(a, b int32) int32 { return ones[int32](a == b) }),
	"VPCMPGTD":  two(4, func(a, b int32) int32 { return ones[int32](a > b) }),
	"VPSIGNB":   two(1, func(a, b int8) int8 { return a * sign8(b) }),
	"VPABSB":    {sources: 1, elem: 1, f: each1(func(a int8) int8 { return max(a, -a) })},
	"VPABSD":    {sources: 1, elem: 4, f: each1(func(a int32) int32 { return max(a, -a) })},
	"VPMADDUBSW": {sources: 2, elem: 2, f: func(d *vec, s []*vec, width, _ int) {
		z, a, b := lanes[int16](d, width), lanes[uint8](s[0], width), lanes[int8](s[1], width)
		for i := range z {
			z[i] = int16(saturate(int(a[2*i])*int(b[2*i])+int(a[2*i+1])*int(b[2*i+1]), math.MinInt16, math.MaxInt16))
		}
	}},
	"VPMADDWD": {sources: 2, elem: 4, f: func(d *vec, s []*vec, width, _ int) {
		z, a, b := lanes[int32](d, width), lanes[int16](s[0], width), lanes[int16](s[1], width)
		for i := range z {
			z[i] = int32(a[2*i])*int32(b[2*i]) + int32(a[2*i+1])*int32(b[2*i+1])
		}
	}},
	"VPDPBUSD": {sources: 2, old: true, elem: 4, f: func(d *vec, s []*vec, width, _ int) {
		z, acc, a, b := lanes[int32](d, width), lanes[int32](s[0], width), lanes[uint8](s[1], width), lanes[int8](s[2], width)
		for i := range z {
			a, b := (*[4]uint8)(a[4*i:]), (*[4]int8)(b[4*i:])
			z[i] = acc[i] + int32(a[0])*int32(b[0]) + int32(a[1])*int32(b[1]) + int32(a[2])*int32(b[2]) + int32(a[3])*int32(b[3])
		}
	}},
	"VPDPWSSD": {sources: 2, old: true, elem: 4, f: func(d *vec, s []*vec, width, _ int) {
		z, acc, a, b := lanes[int32](d, width), lanes[int32](s[0], width), lanes[int16](s[1], width),
			lanes[int16](s[2], width)
		for i := range z {
			z[i] = acc[i] + int32(a[2*i])*int32(b[2*i]) + int32(a[2*i+1])*int32(b[2*i+1])
		}
	}},
	"VPSADBW": {sources: 2, elem: 8, f: func(d *vec, s []*vec, width, _ int) {
		z := lanes[uint64](d, width)
		for i := range z {
			z[i] = 0
			for j := 8 * i; j < 8*i+8; j++ {
				z[i] += uint64(max(s[0][j], s[1][j]) - min(s[0][j], s[1][j]))
			}
		}
	}},

	// Shifts.
	"VPSLLW":  shifted(2, func(a uint16, n int) uint16 { return a << n }),
	"VPSRLW":  shifted(2, func(a uint16, n int) uint16 { return a >> n }),
	"VPSLLD":  shifted(4, func(a uint32, n int) uint32 { return a << n }),
	"VPSRLD":  shifted(4, func(a uint32, n int) uint32 { return a >> n }),
	"VPSLLQ":  shifted(8, func(a uint64, n int) uint64 { return a << n }),
	"VPSRLQ":  shifted(8, func(a uint64, n int) uint64 { return a >> n }),
	"VPSRAW":  shifted(2, func(a int16, n int) int16 { return a >> n }),
	"VPSRAD":  shifted(4, func(a int32, n int) int32 { return a >> n }),
	"VPSLLVD": two(4, func(a, n uint32) uint32 { return a << n }),
	"VPSRLVD": two(4, func(a, n uint32) uint32 { return a >> n }),
	"VPSRLDQ": {sources: 1, imm: true, elem: 1,
		f: quarters(func(d, a, _ []byte, n int) { clear(d); copy(d, a[min(n, 16):]) })},
	"VPSLLDQ": {sources: 1, imm: true, elem: 1,
		f: quarters(func(d, a, _ []byte, n int) { clear(d); copy(d[min(n, 16):], a) })},

	// Order of lanes.
	"VPSHUFB": {sources: 2, elem: 1, f: quarters(func(d, a, b []byte, _ int) {
		for i, e := range b {
			if d[i] = a[e&15]; e > 127 {
				d[i] = 0
			}
		}
	})},
	"VPSHUFD":   {sources: 1, imm: true, elem: 4, f: quarters(shuffle4)},
	"VPERMILPS": {sources: 1, imm: true, elem: 4, f: quarters(shuffle4)},
	"VPALIGNR": {sources: 2, imm: true, elem: 1, f: quarters(func(d, a, b []byte, n int) {
		var both [64]byte
		copy(both[:], b)
		copy(both[16:], a)
		copy(d, both[min(n, 32):])
	})},
	"VPACKSSWB":   {sources: 2, elem: 1, f: quarters(pack[int16, int8](math.MinInt8, math.MaxInt8))},
	"VPACKUSWB":   {sources: 2, elem: 1, f: quarters(pack[int16, uint8](0, math.MaxUint8))},
	"VPACKSSDW":   {sources: 2, elem: 2, f: quarters(pack[int32, int16](math.MinInt16, math.MaxInt16))},
	"VPHADDD":     {sources: 2, elem: 4, f: quarters(addNeighbors)},
	"VPUNPCKLBW":  {sources: 2, elem: 1, f: quarters(interleave[uint8](0))},
	"VPUNPCKHBW":  {sources: 2, elem: 1, f: quarters(interleave[uint8](1))},
	"VPUNPCKLWD":  {sources: 2, elem: 2, f: quarters(interleave[uint16](0))},
	"VPUNPCKHWD":  {sources: 2, elem: 2, f: quarters(interleave[uint16](1))},
	"VPUNPCKLDQ":  {sources: 2, elem: 4, f: quarters(interleave[uint32](0))},
	"VPUNPCKHDQ":  {sources: 2, elem: 4, f: quarters(interleave[uint32](1))},
	"VPUNPCKLQDQ": {sources: 2, elem: 8, f: quarters(interleave[uint64](0))},
	"VPUNPCKHQDQ": {sources: 2, elem: 8, f: quarters(interleave[uint64](1))},
	"VPERMD":      {sources: 2, elem: 4, f: permute}, "VPERMPS": {sources: 2, elem: 4, f: permute},
	"VPERMB":   {sources: 2, elem: 1, f: permuteTables[uint8]},
	"VPERMI2B": {sources: 2, old: true, elem: 1, f: permuteTables[uint8]},
	"VPERMI2D": {sources: 2, old: true, elem: 4, f: permuteTables[uint32]},
	"VPMULTISHIFTQB": {sources: 2, elem: 8, f: func(d *vec, s []*vec, width, _ int) {
		from := lanes[uint64](s[1], width)
		for i, at := range s[0][:width] {
			d[i] = byte(bits.RotateLeft64(from[i/8], -int(at&63)))
		}
	}},
	"VPBLENDW": {sources: 2, imm: true, elem: 2, f: func(d *vec, s []*vec, width, imm int) {
		z := lanes[uint16](d, width)
		for i := range z {
			z[i] = lanes[uint16](s[imm>>(i%8)&1], width)[i]
		}
	}},
	"VPBLENDD": {sources: 2, imm: true, elem: 4, f: func(d *vec, s []*vec, width, imm int) {
		z := lanes[uint32](d, width)
		for i := range z {
			z[i] = lanes[uint32](s[imm>>i&1], width)[i]
		}
	}},
	"VBLENDVPS": {sources: 3, elem: 4, f: each3(func(a, b, c int32) int32 {
		if c < 0 {
			return b
		}
		return a
	})},
	"VPBLENDVB": {sources: 3, elem: 1, f: each3(func(a, b, c int8) int8 {
		if c < 0 {
			return b
		}
		return a
	})},
	"VPMOVSXBD": widened(4, 4, func(a int8) int32 { return int32(a) }),
	"VPMOVZXBD": widened(4, 4, func(a uint8) uint32 { return uint32(a) }),
	"VPMOVSXBW": widened(2, 2, func(a int8) int16 { return int16(a) }),
	"VPMOVZXBW": widened(2, 2, func(a uint8) uint16 { return uint16(a) }),
	"VPMOVSXWD": widened(2, 4, func(a int16) int32 { return int32(a) }),
	"VPMOVZXWD": widened(2, 4, func(a uint16) uint32 { return uint32(a) }),

	// Floating point.
	"VADDPS": float2(func(a, b float32) float32 { return a + b }),
	"VSUBPS": float2(func(a, b float32) float32 { return a - b }),
	"VMULPS": float2(func(a, b float32) float32 { return a * b }),
	"VDIVPS": float2(func(a, b float32) float32 { return a / b }),
	"VMAXPS": two(4, maximum), "VMINPS": two(4, minimum), "VSCALEFPS": float2(scalef),
	"VFMADD132PS":  fused(func(d, a, b float32) float32 { return fma(d, b, a) }),
	"VFMADD213PS":  fused(func(d, a, b float32) float32 { return fma(a, d, b) }),
	"VFMADD231PS":  fused(func(d, a, b float32) float32 { return fma(a, b, d) }),
	"VFMSUB213PS":  fused(func(d, a, b float32) float32 { return fma(a, d, -b) }),
	"VFMSUB231PS":  fused(func(d, a, b float32) float32 { return fma(a, b, -d) }),
	"VFNMADD213PS": fused(func(d, a, b float32) float32 { return fma(-a, d, b) }),
	"VFNMADD231PS": fused(func(d, a, b float32) float32 { return fma(-a, b, d) }),
	"VFMADDSUB213PS": {sources: 2, old: true, elem: 4, float: true, f: func(d *vec, s []*vec, width, _ int) {
		z, x, a, b := lanes[float32](d, width), lanes[float32](s[0], width), lanes[float32](s[1], width),
			lanes[float32](s[2], width)
		for i := range z {
			c := b[i]
			if i%2 == 0 {
				c = -c
			}
			z[i] = fma(a[i], x[i], c)
		}
	}},
	"VCVTDQ2PS": {sources: 1, elem: 4, f: each1(func(a int32) float32 { return float32(a) })},
	"VCVTPS2DQ": {sources: 1, elem: 4, f: each1(toInt32)},
	"VCVTTPS2DQ": {sources: 1, elem: 4, f: each1(func(a float32) int32 {
		return toInt32(float32(math.Trunc(float64(a))))
	})},
	"VCVTPH2PS":   widened(2, 4, fromHalf),
	"VRNDSCALEPS": {sources: 1, imm: true, elem: 4, float: true, f: roundTo},
	"VROUNDPS":    {sources: 1, imm: true, elem: 4, float: true, f: roundTo},
	"VCMPPS": {sources: 2, imm: true, elem: 4, f: func(d *vec, s []*vec, width, imm int) {
		z, a, b := lanes[int32](d, width), lanes[float32](s[0], width), lanes[float32](s[1], width)
		for i := range z {
			z[i] = ones[int32](compare(imm, a[i], b[i]))
		}
	}},
}

// scalars work on the lowest lane; the others are the first source's.
var scalars = map[string]operation{
	"VADDSS": each2(func(a, b float32) float32 { return a + b }),
	"VSUBSS": each2(func(a, b float32) float32 { return a - b }),
	"VMULSS": each2(func(a, b float32) float32 { return a * b }),
	"VDIVSS": each2(func(a, b float32) float32 { return a / b }),
	"VMAXSS": each2(maximum), "VMINSS": each2(minimum),
	"VSQRTSS": each2(func(_, b float32) float32 { return float32(math.Sqrt(float64(b))) }),
}

func and(a, b uint64) uint64    { return a & b }
func or(a, b uint64) uint64     { return a | b }
func xor(a, b uint64) uint64    { return a ^ b }
func andNot(a, b uint64) uint64 { return ^a & b }

func sign8(b int8) int8 {
	switch {
	case b > 0:
		return 1
	case b < 0:
		return -1
	}
	return 0
}

func ternary(d *vec, s []*vec, width, imm int) {
	for i := range width {
		var v byte
		for bit := range 8 {
			index := s[0][i]>>bit&1<<2 | s[1][i]>>bit&1<<1 | s[2][i]>>bit&1
			v |= byte(imm>>index&1) << bit
		}
		d[i] = v
	}
}

func shuffle4(d, a, _ []byte, imm int) {
	z, x := part128[uint32](d), part128[uint32](a)
	for i := range z {
		z[i] = x[imm>>(2*i)&3]
	}
}

func pack[T, U int8 | uint8 | int16 | int32](low, high int) func(d, a, b []byte, imm int) {
	return func(d, a, b []byte, _ int) {
		z := part128[U](d)
		x, y := part128[T](a), part128[T](b)
		for i := range x {
			z[i], z[len(x)+i] = U(saturate(int(x[i]), low, high)), U(saturate(int(y[i]), low, high))
		}
	}
}

func addNeighbors(d, a, b []byte, _ int) {
	z, x, y := part128[int32](d), part128[int32](a), part128[int32](b)
	z[0], z[1], z[2], z[3] = x[0]+x[1], x[2]+x[3], y[0]+y[1], y[2]+y[3]
}

func interleave[T number](half int) func(d, a, b []byte, imm int) {
	return func(d, a, b []byte, _ int) {
		z, x, y := part128[T](d), part128[T](a), part128[T](b)
		for i := range len(z) / 2 {
			z[2*i], z[2*i+1] = x[half*len(z)/2+i], y[half*len(z)/2+i]
		}
	}
}

func permute(d *vec, s []*vec, width, _ int) {
	z, at, x := lanes[uint32](d, width), lanes[uint32](s[0], width), lanes[uint32](s[1], width)
	for i := range z {
		z[i] = x[at[i]%uint32(len(x))]
	}
}

// permuteTables looks up in the sources after the first, one after the other.
func permuteTables[T uint8 | uint32](d *vec, s []*vec, width, _ int) {
	var x []T
	for _, t := range s[1:] {
		x = append(x, lanes[T](t, width)...)
	}
	z, at := lanes[T](d, width), lanes[T](s[0], width)
	for i := range z {
		z[i] = x[int(at[i])%len(x)]
	}
}

// roundTo rounds to integers in the direction of the immediate.
func roundTo(d *vec, s []*vec, width, imm int) {
	z, a := lanes[float32](d, width), lanes[float32](s[0], width)
	if imm&^11 != 0 {
		panic("another way of rounding")
	}
	f := []func(float64) float64{math.RoundToEven, math.Floor, math.Ceil, math.Trunc}[imm&3]
	for i := range z {
		z[i] = float32(f(float64(a[i])))
	}
}

// split takes an instruction's name apart and finds mask and width.
func (in *Instruction) split() (base string) {
	base, suffix, _ := strings.Cut(in.Name, ".")
	for s := range strings.SplitSeq(suffix, ".") {
		switch s {
		case "BCST":
			in.bcst = true
		case "Z":
			in.zeroing = true
		}
	}
	n := len(in.operands)
	for i, o := range in.operands {
		if o.kind == mask && i == n-2 {
			in.maskAt = i
		}
		if o.kind == vector {
			in.width = max(in.width, o.width)
		}
	}
	return base
}

func (in *Instruction) resolveVector() error {
	base := in.split()
	if special := specials[base]; special != nil {
		in.op = special
		return nil
	}
	n := len(in.operands)
	if f := scalars[base]; f != nil {
		if !in.shape("vvv", "mvv") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) {
			var b vec
			m.source(&in.operands[0], 4, &b)
			a := m.v[in.operands[1].reg]
			m.out = a
			f(&m.out, []*vec{&a, &b}, 4, 0)
			m.put(in, 16)
		}
		return nil
	}
	if base == "VCMPPS" && n == 4 && in.operands[3].kind == mask {
		if in.operands[0].kind != immediate || in.operands[1].kind != vector || in.operands[2].kind != vector {
			return errOperands
		}
		in.op = compareIntoMask
		return nil
	}
	p, ok := table[base]
	if !ok {
		return errUnknown
	}
	want := p.sources + 1
	first := 0
	if p.imm {
		want, first = want+1, 1
		if n == 0 || in.operands[0].kind != immediate {
			return errOperands
		}
	}
	if in.maskAt >= 0 {
		want++
	}
	if n != want || in.operands[n-1].kind != vector {
		return errOperands
	}
	for i := first; i < n-1; i++ {
		if k := in.operands[i].kind; i != in.maskAt && k != vector && (k != memory || i != first) {
			return errOperands
		}
	}
	in.vec = &p
	in.width = in.operands[n-1].width
	in.op = runPacked
	return nil
}

// source reads a vector operand into dst: n bytes of memory, or a whole register.
func (m *machine) source(o *operand, n int, dst *vec) {
	switch o.kind {
	case vector:
		*dst = m.v[o.reg]
	case memory:
		m.read(m.address(o), dst[:n])
	default:
		panic("operand of another kind")
	}
}

// runPacked executes an instruction of the table.
func runPacked(m *machine, in *Instruction) {
	p := in.vec
	imm, first := 0, 0
	if p.imm {
		imm, first = int(in.operands[0].imm), 1
	}
	n := len(in.operands) - 1
	d := &in.operands[n]
	var sources [4]*vec
	count := 0
	if p.old {
		sources[0] = &m.v[d.reg]
		count = 1
	}
	for i := n - 1; i >= first; i-- {
		o := &in.operands[i]
		switch {
		case i == in.maskAt:
			continue
		case o.kind == vector:
			sources[count] = &m.v[o.reg]
		case in.bcst:
			t := &m.tmp[count]
			m.read(m.address(o), t[:p.elem])
			for j := p.elem; j < in.width; j++ {
				t[j] = t[j-p.elem]
			}
			sources[count] = t
		default:
			size := in.width
			if p.narrow > 0 {
				size /= p.narrow
			}
			m.read(m.address(o), m.tmp[count][:size])
			sources[count] = &m.tmp[count]
		}
		count++
	}
	p.f(&m.out, sources[:count], in.width, imm)
	if in.maskAt >= 0 {
		m.blend(in, p.elem)
	}
	m.put(in, in.width)
}

// blend keeps in out only the lanes of elem bytes that the mask names; the others are the destination's, or zero.
func (m *machine) blend(in *Instruction, elem int) {
	k := m.k[in.operands[in.maskAt].reg]
	d := &m.v[in.operands[len(in.operands)-1].reg]
	for i := 0; i < in.width; i += elem {
		if k>>(i/elem)&1 != 0 {
			continue
		}
		if in.zeroing {
			clear(m.out[i : i+elem])
		} else {
			copy(m.out[i:i+elem], d[i:i+elem])
		}
	}
}

// put writes the first width bytes of out to the last operand; the rest of a register becomes zero.
func (m *machine) put(in *Instruction, width int) {
	o := &in.operands[len(in.operands)-1]
	if o.kind == memory {
		m.write(m.address(o), m.out[:width])
		return
	}
	clear(m.out[width:])
	m.v[o.reg] = m.out
}

// specials are the vector instructions that move, or mix kinds of registers.
var specials = makeSpecials()

func makeSpecials() map[string]func(m *machine, in *Instruction) {
	specials := map[string]func(m *machine, in *Instruction){}
	for name, elem := range map[string]int{"VMOVUPS": 4, "VMOVDQU": 8, "VMOVDQU8": 1, "VMOVDQU16": 2,
		"VMOVDQU32": 4, "VMOVDQU64": 8} {
		specials[name] = func(m *machine, in *Instruction) { m.move(in, elem, false) }
	}
	for name, elem := range map[string]int{"VMOVAPS": 4, "VMOVDQA": 8, "VMOVDQA32": 4, "VMOVDQA64": 8} {
		specials[name] = func(m *machine, in *Instruction) { m.move(in, elem, true) }
	}
	for name, elem := range map[string]int{"VPBROADCASTB": 1, "VPBROADCASTW": 2, "VPBROADCASTD": 4,
		"VPBROADCASTQ": 8, "VBROADCASTSS": 4,
		"VBROADCASTI128": 16, "VBROADCASTF128": 16, "VBROADCASTI32X4": 16, "VBROADCASTF32X4": 16, "VBROADCASTI64X4": 32} {
		specials[name] = func(m *machine, in *Instruction) { m.broadcast(in, elem) }
	}
	for name, size := range map[string]int{"VEXTRACTF128": 16, "VEXTRACTI128": 16, "VEXTRACTI32X4": 16,
		"VEXTRACTF32X4": 16, "VEXTRACTF64X4": 32, "VEXTRACTI64X4": 32} {
		specials[name] = func(m *machine, in *Instruction) {
			from := &m.v[in.operands[1].reg]
			at := int(in.operands[0].imm) % (in.operands[1].width / size) * size
			copy(m.out[:size], from[at:at+size])
			m.put(in, size)
		}
	}
	for name, size := range map[string]int{"VINSERTF128": 16, "VINSERTI128": 16, "VINSERTI32X4": 16, "VINSERTI64X4": 32} {
		specials[name] = func(m *machine, in *Instruction) {
			var part vec
			m.source(&in.operands[1], size, &part)
			m.out = m.v[in.operands[2].reg]
			width := in.operands[3].width
			at := int(in.operands[0].imm) % (width / size) * size
			copy(m.out[at:at+size], part[:size])
			m.put(in, width)
		}
	}
	specials["VZEROUPPER"] = func(m *machine, _ *Instruction) {
		for i := range 16 {
			clear(m.v[i][16:])
		}
	}
	specials["VMOVSS"] = func(m *machine, in *Instruction) { m.low(in, 4) }
	specials["VMOVSD"] = func(m *machine, in *Instruction) { m.low(in, 8) }
	specials["VMOVD"] = func(m *machine, in *Instruction) { m.low(in, 4) }
	specials["VMOVQ"] = func(m *machine, in *Instruction) { m.low(in, 8) }
	specials["VCVTSI2SSQ"] = func(m *machine, in *Instruction) { m.convert(in, float32(int64(m.get(&in.operands[0], 8)))) }
	specials["VCVTSI2SSL"] = func(m *machine, in *Instruction) { m.convert(in, float32(int32(m.get(&in.operands[0], 4)))) }
	specials["VMOVMSKPS"] = func(m *machine, in *Instruction) { m.signs(in, 4) }
	specials["VPMOVMSKB"] = func(m *machine, in *Instruction) { m.signs(in, 1) }
	specials["VPMOVD2M"] = func(m *machine, in *Instruction) { m.signs(in, 4) }
	specials["VPMOVB2M"] = func(m *machine, in *Instruction) { m.signs(in, 1) }
	specials["VMASKMOVPS"] = maskedMove
	specials["VCVTPS2PH"] = func(m *machine, in *Instruction) {
		if in.operands[0].imm != 0 {
			panic("another way of rounding")
		}
		o := &in.operands[1]
		a := lanes[float32](&m.v[o.reg], o.width)
		for i, e := range a {
			binary.LittleEndian.PutUint16(m.out[2*i:], toHalf(e))
		}
		if in.operands[2].kind == vector {
			clear(m.out[o.width/2:])
		}
		m.put(in, o.width/2)
	}
	specials["KMOVW"] = func(m *machine, in *Instruction) { m.moveMask(in, 0xffff) }
	specials["KMOVD"] = func(m *machine, in *Instruction) { m.moveMask(in, 0xffffffff) }
	specials["KMOVQ"] = func(m *machine, in *Instruction) { m.moveMask(in, math.MaxUint64) }
	return specials
}

// move copies a register or memory, whole or by a mask; a lane of memory whose bit is not set is not touched.
func (m *machine) move(in *Instruction, elem int, aligned bool) {
	n := len(in.operands)
	from, to := &in.operands[0], &in.operands[n-1]
	for _, o := range []*operand{from, to} {
		if aligned && o.kind == memory && m.address(o)%uintptr(in.width) != 0 {
			panic("not aligned")
		}
	}
	if in.maskAt < 0 {
		m.source(from, in.width, &m.out)
		m.put(in, in.width)
		return
	}
	k := m.k[in.operands[in.maskAt].reg]
	var v vec
	if from.kind == vector {
		v = m.v[from.reg]
	}
	for i := 0; i < in.width; i += elem {
		if k>>(i/elem)&1 == 0 {
			continue
		}
		if from.kind == memory {
			m.read(m.address(from)+uintptr(i), v[i:i+elem])
		}
		if to.kind == memory {
			m.write(m.address(to)+uintptr(i), v[i:i+elem])
		}
	}
	if to.kind == vector {
		m.out = v
		m.blend(in, elem)
		m.put(in, in.width)
	}
}

func (m *machine) broadcast(in *Instruction, elem int) {
	o := &in.operands[0]
	if o.kind == general {
		binary.LittleEndian.PutUint64(m.out[:], m.g[o.reg])
	} else {
		m.source(o, elem, &m.out)
	}
	width := in.operands[len(in.operands)-1].width
	for j := elem; j < width; j++ {
		m.out[j] = m.out[j-elem]
	}
	if in.maskAt >= 0 {
		in.width = width
		m.blend(in, elem)
	}
	m.put(in, width)
}

// low moves the lowest size bytes; the rest of a vector register becomes zero.
func (m *machine) low(in *Instruction, size int) {
	if len(in.operands) != 2 {
		panic("only the form with two operands")
	}
	from, to := &in.operands[0], &in.operands[1]
	var v vec
	switch from.kind {
	case vector:
		copy(v[:size], m.v[from.reg][:size])
		if to.kind == vector && in.Name != "VMOVQ" {
			panic("only from or to memory or a general register")
		}
	default:
		binary.LittleEndian.PutUint64(v[:], m.get(from, size))
	}
	switch to.kind {
	case vector:
		m.v[to.reg] = v
	default:
		m.set(to, size, binary.LittleEndian.Uint64(v[:8]))
	}
}

func (m *machine) convert(in *Instruction, f float32) {
	m.out = m.v[in.operands[1].reg]
	binary.LittleEndian.PutUint32(m.out[:], math.Float32bits(f))
	m.put(in, 16)
}

// signs collects the highest bits of lanes of elem bytes.
func (m *machine) signs(in *Instruction, elem int) {
	from, to := &in.operands[0], &in.operands[1]
	var bits uint64
	for i := 0; i < from.width; i += elem {
		bits |= uint64(m.v[from.reg][i+elem-1]>>7) << (i / elem)
	}
	if to.kind == mask {
		m.k[to.reg] = bits
	} else {
		m.g[to.reg] = bits
	}
}

// compareIntoMask is VCMPPS of two registers with a mask for a destination.
func compareIntoMask(m *machine, in *Instruction) {
	b, a := lanes[float32](&m.v[in.operands[1].reg], in.width), lanes[float32](&m.v[in.operands[2].reg], in.width)
	var bits uint64
	for i := range a {
		if compare(int(in.operands[0].imm), a[i], b[i]) {
			bits |= 1 << i
		}
	}
	m.k[in.operands[3].reg] = bits
}

func maskedMove(m *machine, in *Instruction) {
	from, by, to := &in.operands[0], lanes[int32](&m.v[in.operands[1].reg], in.width), &in.operands[2]
	var v vec
	if from.kind == vector {
		v = m.v[from.reg]
	}
	for i, e := range by {
		switch {
		case e >= 0:
		case from.kind == memory:
			m.read(m.address(from)+uintptr(4*i), v[4*i:4*i+4])
		default:
			m.write(m.address(to)+uintptr(4*i), v[4*i:4*i+4])
		}
	}
	if to.kind == vector {
		m.v[to.reg] = v
	}
}

func (m *machine) moveMask(in *Instruction, bits uint64) {
	from, to := &in.operands[0], &in.operands[1]
	var v uint64
	if from.kind == mask {
		v = m.k[from.reg]
	} else {
		v = m.g[from.reg]
	}
	if to.kind == mask {
		m.k[to.reg] = v & bits
	} else {
		m.g[to.reg] = v & bits
	}
}
