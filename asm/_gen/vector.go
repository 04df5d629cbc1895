package main

import (
	"fmt"
	"math"
	"slices"
)

// vectors is a kernel over slices of float32, 16 elements at a time, written once for both widths: a virtual register v
// is Zv, or Y2v and Y2v+1. Element i is in lane i mod 16, as sums want it. The last, incomplete 16 are loaded and
// stored under a mask (K1; Y14 and Y15); missing lanes are 0.
type vectors struct {
	*file
	isa
	constants map[string]string // float32 or integer bits: the names of constants
	held      map[string]int    // constants that lie in registers
	tail      bool
}

const maskReg = 7 // the virtual register of the tail's mask

func newVectors(f *file, s isa) *vectors {
	v := &vectors{file: f, isa: s, constants: map[string]string{}}
	on := uint32(math.MaxUint32)
	f.table("tails", on, on, on, on, on, on, on, on, on, on, on, on, on, on, on, on, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0)
	return v
}

// define makes constants that instructions can name.
func (v *vectors) define(name string, value float64) {
	v.defineBits(name, math.Float32bits(float32(value)))
}

func (v *vectors) defineBits(name string, bits uint32) { v.constants[name] = v.constant(name, bits) }

// names of the halves of a virtual register, or of a constant.
func (v *vectors) operand(o any, half int) string {
	switch o := o.(type) {
	case int:
		return v.reg(o*v.halves + half)
	case string:
		if c, ok := v.constants[o]; ok {
			return c
		}
		return o
	}
	panic(fmt.Sprint("operand ", o))
}

// do writes an instruction for all lanes. Operands are virtual registers, constants (only as the first operand) or
// immediates.
func (v *vectors) do(op string, operands ...any) {
	if c, ok := operands[0].(string); ok && v.constants[c] != "" && v.halves == 1 {
		if reg, ok := v.held[c]; ok {
			operands = append([]any{reg}, operands[1:]...)
		} else {
			op += ".BCST"
		}
	}
	for h := range v.halves {
		var list []string
		for _, o := range operands {
			list = append(list, v.operand(o, h))
		}
		v.ins(op, list...)
	}
}

// set fills a virtual register with a constant.
func (v *vectors) set(name string, reg int) {
	if from, ok := v.held[name]; ok {
		v.do("VMOVAPS", from, reg)
		return
	}
	for h := range v.halves {
		v.ins("VBROADCASTSS", v.constants[name], v.operand(reg, h))
	}
}

// hold keeps constants in registers from 16 on, with 512 bits, until release.
func (v *vectors) hold(names ...string) {
	if v.halves == 2 {
		return
	}
	held := map[string]int{}
	for i, name := range names {
		v.set(name, 16+i)
		held[name] = 16 + i
	}
	v.held = held
}

func (v *vectors) release() { v.held = nil }

// fill broadcasts a float32 in an X register or memory to a virtual register.
func (v *vectors) fill(from string, reg int) {
	for h := range v.halves {
		v.ins("VBROADCASTSS", from, v.operand(reg, h))
	}
}

func (v *vectors) clear(reg int) {
	for h := range v.halves {
		v.zero(v.isa, reg*v.halves+h)
	}
}

func (v *vectors) load(ptr string, reg int) {
	for h := range v.halves {
		m, r := at(ptr, h*v.size()), v.operand(reg, h)
		switch {
		case !v.tail:
			v.ins("VMOVUPS", m, r)
		case v.halves == 1:
			v.ins("VMOVUPS.Z", m, "K1", r)
		default:
			v.ins("VMASKMOVPS", m, v.operand(maskReg, h), r)
		}
	}
}

func (v *vectors) store(reg int, ptr string) {
	for h := range v.halves {
		m, r := at(ptr, h*v.size()), v.operand(reg, h)
		switch {
		case !v.tail:
			v.ins("VMOVUPS", r, m)
		case v.halves == 1:
			v.ins("VMOVUPS", r, "K1", m)
		default:
			v.ins("VMASKMOVPS", r, v.operand(maskReg, h), m)
		}
	}
}

// only clears the lanes of reg past the end of the slice.
func (v *vectors) only(reg int) {
	if !v.tail {
		return
	}
	if v.halves == 1 {
		v.ins("VMOVAPS.Z", v.operand(reg, 0), "K1", v.operand(reg, 0))
		return
	}
	v.do("VANDPS", maskReg, reg, reg)
}

// max is m = max(m, e), without e's NaN and the lanes of e past the end of the slice.
func (v *vectors) max(e, m int) {
	switch {
	case !v.tail:
		v.do("VMAXPS", m, e, m)
	case v.halves == 1:
		v.ins("VMAXPS", v.operand(m, 0), v.operand(e, 0), "K1", v.operand(m, 0))
	default:
		for h := range v.halves {
			v.ins("VBLENDVPS", v.operand(maskReg, h), v.operand(e, h), v.operand(m, h), v.operand(e, h))
		}
		v.do("VMAXPS", m, e, m)
	}
}

// loop writes a loop over count elements, 16 at a time: body is one iteration, after which pointers advance by 64
// bytes. The register count is destroyed, R13 is used.
func (v *vectors) loop(name, count string, pointers []string, body func()) {
	v.ins("SUBQ", "$16", count)
	v.ins("JLT", name+"Tail")
	v.label(name)
	v.tail = false
	body()
	for _, p := range pointers {
		v.ins("ADDQ", "$64", p)
	}
	v.ins("SUBQ", "$16", count)
	v.ins("JGE", name)
	v.label(name + "Tail")
	v.ins("ADDQ", "$16", count)
	v.ins("JEQ", name+"Done")
	v.ins("LEAQ", "tails<>+64(SB)", "R13") // 4n bytes before it, the first n of 16 lanes are on
	v.ins("SHLQ", "$2", count)
	v.ins("SUBQ", count, "R13")
	if v.halves == 1 {
		v.ins("VMOVUPS", at("R13", 0), z(31))
		v.ins("VPMOVD2M", z(31), "K1")
	} else {
		v.ins("VMOVUPS", at("R13", 0), v.operand(maskReg, 0))
		v.ins("VMOVUPS", at("R13", 32), v.operand(maskReg, 1))
	}
	v.tail = true
	body()
	v.tail = false
	v.label(name + "Done")
}

// reduce combines the 16 lanes of register 0 with op (which takes a pair) into X0: lane j with j+8, then 4, 2, 1. It
// uses register 1.
func (v *vectors) reduce(op string) {
	if v.halves == 1 {
		v.ins("VEXTRACTF64X4", "$1", z(0), y(1))
	}
	v.ins(op, y(1), y(0), y(0))
	v.ins("VEXTRACTF128", "$1", y(0), x(1))
	v.ins(op, x(1), x(0), x(0))
	v.ins("VPERMILPS", "$0x0e", x(0), x(1))
	v.ins(op, x(1), x(0), x(0))
	v.ins("VPERMILPS", "$0x01", x(0), x(1))
	v.ins(op, x(1), x(0), x(0))
}

// exp is Exp32 of virtual register a, at most most, into p; it uses a, z and n, and the first half of one more.
func (v *vectors) exp(a, z, n, p int, most float64) { v.expFrom("expMin", a, z, n, p, most) }

// weight is Weight32 of virtual register a, which is at most 0, into p; it uses a, z, n, and one more, or, with 512
// bits, the mask, and the constants are held. What is below the limit is computed as the limit itself, so that no
// result is subnormal on the way.
func (v *vectors) weight(a, z, n, p int, mask string) {
	const kept = 6 // lanes that are not below the limit, or NaN
	const notLess = "$5"
	if v.halves == 1 {
		least := v.held["expNormal"]
		v.do("VMAXPS", a, least, z) // NaN in a is kept
		v.ins("VCMPPS", notLess, v.operand(least, 0), v.operand(a, 0), mask)
	} else {
		v.set("expNormal", kept)
		v.do("VMAXPS", a, kept, z)
		for h := range v.halves {
			v.ins("VCMPPS", notLess, v.operand(kept, h), v.operand(a, h), v.operand(kept, h))
		}
	}
	v.do("VMOVAPS", z, a)
	v.expFrom("", a, z, n, p, 0)
	if v.halves == 1 {
		v.ins("VMOVAPS.Z", v.operand(p, 0), mask, v.operand(p, 0))
	} else {
		v.do("VANDPS", kept, p, p)
	}
}

// interleave writes n sequences of instructions of one form by turns: each waits for its own results, and the
// processor's queues have room for few instructions that wait.
func (f *file) interleave(n int, sequence func(i int)) {
	start := len(f.fn.code)
	for i := range n {
		sequence(i)
	}
	code := slices.Clone(f.fn.code[start:])
	f.fn.code = f.fn.code[:start]
	for k := range len(code) / n {
		for i := range n {
			f.fn.code = append(f.fn.code, code[i*len(code)/n+k])
		}
	}
}

// expFrom is exp of an argument that is limited to the constant least, or of one between expNormal and 0 if that is "".
func (v *vectors) expFrom(least string, a, z, n, p int, most float64) {
	const clamp = 6
	if least != "" {
		v.set(least, clamp)
		v.do("VMAXPS", a, clamp, a) // NaN in a is kept
	}
	if most > 89 {
		v.set("expMax", clamp)
		v.do("VMINPS", a, clamp, a)
	}
	v.set("roundMagic", z)
	v.do("VFMADD231PS", "log2E", a, z)
	v.do("VSUBPS", "roundMagic", z, n)
	v.do("VFMADD231PS", "minusLn2Hi", n, a)
	v.do("VFMADD231PS", "minusLn2Lo", n, a)
	v.set("exp0", p)
	for i := 1; i <= 5; i++ {
		v.do("VFMADD213PS", fmt.Sprintf("exp%d", i), a, p)
	}
	if least == "" && v.halves == 2 { // 2^n is normal
		v.do("VMULPS", a, a, n)
		v.do("VFMADD213PS", a, n, p)
		v.do("VADDPS", "one", p, p)
		v.do("VPSLLD", "$23", z, z) // only n's bits stay
		v.do("VPADDD", "one", z, z)
		v.do("VMULPS", z, p, p)
		return
	}
	if v.halves == 1 { // p * 2^n, rounded once
		v.do("VMULPS", a, a, z)
		v.do("VFMADD213PS", a, z, p)
		v.do("VADDPS", "one", p, p)
		v.do("VSCALEFPS", n, p, p)
		return
	}
	v.do("VMULPS", a, a, n)
	v.do("VFMADD213PS", a, n, p)
	v.do("VADDPS", "one", p, p)
	v.do("VPSUBD", "magicBits", z, z)
	v.do("VPSRAD", "$1", z, n)
	v.do("VPSUBD", n, z, z)
	for _, e := range []int{n, z} {
		v.do("VPADDD", "bias", e, e)
		v.do("VPSLLD", "$23", e, e)
		v.do("VMULPS", e, p, p)
	}
}

func (v *vectors) expConstants() {
	v.define("expMin", -104)
	v.define("expMax", 89)
	v.define("expNormal", -87.33654)
	v.define("roundMagic", 3<<22)
	v.define("log2E", 1.44269504088896341)
	v.define("minusLn2Hi", -0.693359375)
	v.define("minusLn2Lo", 2.12194440e-4)
	for i, c := range []float64{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
		5.0000001201e-1} {
		v.define(fmt.Sprintf("exp%d", i), c)
	}
	v.define("one", 1)
	v.defineBits("magicBits", 0x4b400000)
	v.defineBits("bias", 127)
}

// tailPolynomial is that of UpperTail32, by t ascending.
var tailPolynomial = []float64{0.1196245409801462, 0.12082631350854212, 0.09946507341686626, 0.1300325781970022,
	-0.056450004070768244, 0.20934627303866304, -0.15893365223511768, 0.03608881771032195}

// exponentials writes the kernels that consist mostly of exp.
func exponentials(f *file, s isa) {
	v := newVectors(f, s)
	v.expConstants()
	v.defineBits("signBit", 1<<31)
	v.defineBits("minusInf", 0xff800000)
	const geluLinear = -1.5957691216057308
	v.define("geluLinear", geluLinear)
	v.define("geluCubic", geluLinear*0.044715)

	v.function("exp"+s.name, 0, "dst, x []float32", "for i: dst[i] = Exp32(x[i])")
	v.file.load("dst_base", "AX", "x_base", "BX", "x_len", "DI")
	v.loop("loop", "DI", []string{"AX", "BX"}, func() {
		v.load("BX", 0)
		v.exp(0, 1, 2, 3, math.Inf(1))
		v.store(3, "AX")
	})
	v.ret()

	v.function("siluMul"+s.name, 0, "dst, gate, up []float32", "for i: dst[i] = (gate[i] / (1 + Exp32(-gate[i]))) * up[i]")
	v.file.load("dst_base", "AX", "gate_base", "BX", "up_base", "CX", "gate_len", "DI")
	v.loop("loop", "DI", []string{"AX", "BX", "CX"}, func() {
		v.load("BX", 4)
		v.do("VXORPS", "signBit", 4, 0)
		v.exp(0, 1, 2, 3, math.Inf(1))
		v.do("VADDPS", "one", 3, 3)
		v.do("VDIVPS", 3, 4, 4)
		v.load("CX", 0)
		v.do("VMULPS", 0, 4, 4)
		v.store(4, "AX")
	})
	v.ret()

	v.function("sigmoidMul"+s.name, 0, "dst, x []float32", "for i: dst[i] *= 1 / (1 + Exp32(-x[i]))")
	v.file.load("dst_base", "AX", "x_base", "BX", "x_len", "DI")
	v.loop("loop", "DI", []string{"AX", "BX"}, func() {
		v.load("BX", 4)
		v.do("VXORPS", "signBit", 4, 0)
		v.exp(0, 1, 2, 3, math.Inf(1))
		v.do("VADDPS", "one", 3, 3)
		v.set("one", 4)
		v.do("VDIVPS", 3, 4, 4)
		v.load("AX", 0)
		v.do("VMULPS", 0, 4, 4)
		v.store(4, "AX")
	})
	v.ret()

	v.function("gelu"+s.name, 0, "dst, x []float32",
		"for i: dst[i] = x[i] / (1 + Exp32(x[i]*fma(x[i]*x[i], geluCubic, geluLinear)))")
	v.file.load("dst_base", "AX", "x_base", "BX", "x_len", "DI")
	v.loop("loop", "DI", []string{"AX", "BX"}, func() {
		v.load("BX", 4)
		v.set("geluLinear", 0)
		v.do("VMULPS", 4, 4, 1)
		v.do("VFMADD231PS", "geluCubic", 1, 0)
		v.do("VMULPS", 0, 4, 0)
		v.exp(0, 1, 2, 3, math.Inf(1))
		v.do("VADDPS", "one", 3, 3)
		v.do("VDIVPS", 3, 4, 4)
		v.store(4, "AX")
	})
	v.ret()

	v.define("minusHalf", -0.5)
	v.define("tailK", 0.3)
	for i, c := range tailPolynomial {
		v.define(fmt.Sprintf("tail%d", i), c)
	}
	v.defineBits("magnitude", 1<<31-1)
	v.function("geluErf"+s.name, 0, "dst, x []float32",
		"for i: a = |x[i]|; dst[i] = fma(-a, UpperTail32(a), max(x[i], 0))")
	v.file.load("dst_base", "AX", "x_base", "BX", "x_len", "DI")
	v.loop("loop", "DI", []string{"AX", "BX"}, func() {
		v.load("BX", 4)
		v.do("VMULPS", 4, 4, 0)
		v.do("VMULPS", "minusHalf", 0, 0)
		v.exp(0, 1, 2, 3, 0)
		v.do("VANDPS", "magnitude", 4, 0)
		v.set("one", 1)
		v.set("one", 2)
		v.do("VFMADD231PS", "tailK", 0, 2)
		v.do("VDIVPS", 2, 1, 1) // t
		v.set("tail7", 2)
		for i := 6; i >= 0; i-- {
			v.do("VFMADD213PS", fmt.Sprintf("tail%d", i), 1, 2)
		}
		v.do("VMULPS", 1, 2, 2)
		v.do("VMULPS", 3, 2, 2) // the upper tail
		v.clear(1)
		v.do("VMAXPS", 1, 4, 4) // +0 for -0
		v.do("VFNMADD231PS", 2, 0, 4)
		v.store(4, "AX")
	})
	v.ret()

	// All maxima come first: a row's exponentials wait for its maximum, and that for its elements one after another.
	v.function("expSums"+s.name, 0, "s []float32, stride, n int, m, l []float32",
		"for r < len(m): t = s[r*stride:][:n]\nm[r] = max of t, NaN ignored, -Inf if there is none; m[r] += 0\n"+
			"for i: t[i] = Weight32(t[i]-m[r])\nl[r] = lanes(t)")
	v.file.load("s_base", "SI", "stride", "R11", "n", "R12", "m_base", "R8", "l_base", "R9", "m_len", "R10")
	v.ins("SHLQ", "$2", "R11")
	v.ins("TESTQ", "R10", "R10")
	v.ins("JEQ", "done")
	v.ins("MOVQ", "SI", "BX")
	v.ins("MOVQ", "R10", "CX")
	v.label("maxima")
	v.ins("MOVQ", "BX", "AX")
	v.ins("MOVQ", "R12", "DI")
	v.maximum()
	v.ins("VXORPS", x(1), x(1), x(1))
	v.ins("VADDSS", x(1), x(0), x(0))
	v.ins("VMOVSS", x(0), at("R8", 0))
	v.ins("ADDQ", "R11", "BX")
	v.ins("ADDQ", "$4", "R8")
	v.ins("DECQ", "CX")
	v.ins("JNZ", "maxima")
	v.file.load("m_base", "R8")
	v.hold("expNormal", "roundMagic", "log2E", "minusLn2Hi", "minusLn2Lo", "exp0", "exp1", "exp2", "exp3", "exp4", "exp5",
		"one")
	v.label("sums")
	v.fill(at("R8", 0), 4)
	v.clear(5)
	v.ins("MOVQ", "SI", "AX")
	v.ins("MOVQ", "R12", "DI")
	if s.halves == 1 {
		work := [][4]int{{0, 1, 2, 3}, {6, 7, 8, 9}, {10, 11, 12, 13}, {14, 15, 28, 29}} // beside the constants
		v.ins("SUBQ", "$64", "DI")
		v.ins("JLT", "expFew")
		v.label("expMany")
		v.interleave(len(work), func(i int) {
			w, here := work[i], at("AX", 64*i)
			v.ins("VMOVUPS", here, z(w[0]))
			v.do("VSUBPS", 4, w[0], w[0])
			v.weight(w[0], w[1], w[2], w[3], fmt.Sprintf("K%d", 2+i))
			v.ins("VMOVUPS", z(w[3]), here)
		})
		for _, w := range work {
			v.do("VADDPS", w[3], 5, 5)
		}
		v.ins("ADDQ", "$256", "AX")
		v.ins("SUBQ", "$64", "DI")
		v.ins("JGE", "expMany")
		v.label("expFew")
		v.ins("ADDQ", "$64", "DI")
	}
	v.loop("exp", "DI", []string{"AX"}, func() {
		v.load("AX", 0)
		v.do("VSUBPS", 4, 0, 0)
		v.weight(0, 1, 2, 3, "K2")
		v.store(3, "AX")
		v.only(3)
		v.do("VADDPS", 3, 5, 5)
	})
	v.release()
	v.do("VMOVAPS", 5, 0)
	v.reduce("VADDPS")
	v.ins("VMOVSS", x(0), at("R9", 0))
	v.ins("ADDQ", "R11", "SI")
	v.ins("ADDQ", "$4", "R8")
	v.ins("ADDQ", "$4", "R9")
	v.ins("DECQ", "R10")
	v.ins("JNZ", "sums")
	v.label("done")
	v.ret()

	if s.halves == 1 {
		return // ArgMax is the 256-bit one in all sets
	}
	v.function("maximum"+s.name, 0, "x []float32 -> m float32", "m = max of x, NaN ignored, -Inf if there is none")
	v.file.load("x_base", "AX", "x_len", "DI")
	v.maximum()
	v.ins("VMOVSS", x(0), v.arg("m"))
	v.ret()
}

// maximum leaves the greatest of DI elements at AX that is not NaN, or -Inf, in X0.
func (v *vectors) maximum() {
	v.set("minusInf", 0)
	most := []int{0, 2, 3, 4} // of every fourth 16 elements: a maximum waits for the one before it
	for _, m := range most[1:] {
		v.do("VMOVAPS", 0, m)
	}
	v.ins("SUBQ", "$64", "DI")
	v.ins("JLT", "maxFew")
	v.label("maxMany")
	for i, m := range most {
		for h := range v.halves {
			v.ins("VMOVUPS", at("AX", 64*i+h*v.size()), v.operand(1, h))
		}
		v.max(1, m)
	}
	v.ins("ADDQ", "$256", "AX")
	v.ins("SUBQ", "$64", "DI")
	v.ins("JGE", "maxMany")
	for _, m := range most[1:] {
		v.max(m, 0)
	}
	v.label("maxFew")
	v.ins("ADDQ", "$64", "DI")
	v.loop("max", "DI", []string{"AX"}, func() {
		v.load("AX", 1)
		v.max(1, 0)
	})
	v.reduce("VMAXPS")
}
