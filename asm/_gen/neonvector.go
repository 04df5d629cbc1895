package main

import (
	"fmt"
	"math"
)

// neonVectors is a kernel over slices of float32, 16 elements at a time: a virtual register v is V4v to V4v+3, so that
// element i is in lane i mod 16, as sums want it. Registers from V20 on hold constants; they are named by [one].
//
// The last, incomplete 16 are copied to the stack, with zeros behind, worked on there, and copied back. R11 to R17 are
// used.
type neonVectors struct {
	neonFile
	rest bool // the incomplete 16
}

// one is a single register, the same for all lanes.
type one int

// Registers of constants.
const (
	expMin     one = 20 + iota
	expMax         // limits of the argument
	roundMagic     // 3<<22
	unit           // 1
	expA           // log2(e), -ln2hi, -ln2lo, p0
	expB           // p1 to p4
	expC           // p5, geluCubic, geluLinear, expNormal
	spare1
	spare2
	spare3
)

// Registers of constants of one kernel, in the place of the spare ones.
const (
	tailA one = spare1 + iota // tail7 to tail4
	tailB                     // tail3 to tail0
	tailC                     // tailK, -1/2, 0, 0
)

const vectorFrame = 4 * 64 // a copy of the incomplete 16 for each of up to four slices

func (v *neonVectors) constants() {
	const geluLinear = -1.5957691216057308
	values := []float64{
		-104, -104, -104, -104, 89, 89, 89, 89, 3 << 22, 3 << 22, 3 << 22, 3 << 22, 1, 1, 1, 1,
		1.44269504088896341, -0.693359375, 2.12194440e-4, 1.9875691500e-4,
		1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
		5.0000001201e-1, geluLinear * 0.044715, geluLinear, -87.33654,
	}
	for i := 7; i >= 0; i-- {
		values = append(values, tailPolynomial[i])
	}
	values = append(values, 0.3, -0.5, 0, 0)
	v.textf("\n// Limits, 3<<22 and 1, four times each; log2(e), -ln2hi, -ln2lo; the polynomial of exp; two numbers of " +
		"GELU and the\n" +
		"// limit of normal results of exp; UpperTail32's polynomial, 0.3 and -1/2.\n")
	for i := 0; i < len(values); i += 2 {
		v.textf("DATA numbers<>+%d(SB)/8, $0x%08x%08x\n", 4*i,
			math.Float32bits(float32(values[i+1])), math.Float32bits(float32(values[i])))
	}
	v.textf("GLOBL numbers<>(SB), RODATA|NOPTR, $%d\n", 4*len(values))
	v.masks()
}

// masks writes the table that only uses.
func (v *neonVectors) masks() {
	v.textf("\n// 16 lanes on, 16 off: 4n bytes before the middle the first n are on.\n")
	for i := 0; i < 128; i += 8 {
		v.textf("DATA tails<>+%d(SB)/8, $%#x\n", i, []uint64{math.MaxUint64, 0}[i/64])
	}
	v.textf("GLOBL tails<>(SB), RODATA|NOPTR, $128\n")
}

// loadConstants fills V20 to V26.
func (v *neonVectors) loadConstants() {
	v.ins("MOVD", "$numbers<>(SB)", "R11")
	v.loadVectors("R11", 0, int(expMin), 7)
}

// do writes an instruction for all lanes. Operands are virtual registers, single registers, or, first, the shift or
// lane.
func (v *neonVectors) do(op string, operands ...any) {
	for h := range 4 {
		var list []int
		for i, o := range operands {
			switch o := o.(type) {
			case int:
				if i == 0 && len(operands) > 2 && (op == "SSHR4" || op[len(op)-1] == 'I') {
					list = append(list, o)
				} else {
					list = append(list, 4*o+h)
				}
			case one:
				list = append(list, int(o))
			}
		}
		v.op(op, list...)
	}
}

// native is do for instructions that the assembler knows.
func (v *neonVectors) native(op, arrangement string, operands ...any) {
	for h := range 4 {
		var list []string
		for _, o := range operands {
			switch o := o.(type) {
			case int:
				list = append(list, v4(4*o+h, arrangement))
			case one:
				list = append(list, v4(int(o), arrangement))
			case string:
				list = append(list, o)
			}
		}
		v.ins(op, list...)
	}
}

func v4(i int, arrangement string) string { return fmt.Sprintf("V%d.%s", i, arrangement) }

// dup fills a virtual register with a lane of a single one.
func (v *neonVectors) dup(from one, lane, reg int) {
	for h := range 4 {
		v.ins("VDUP", vlane(int(from), lane), v4(4*reg+h, "S4"))
	}
}

func (v *neonVectors) load(base string, reg int)  { v.loadVectors(base, 0, 4*reg, 4) }
func (v *neonVectors) store(base string, reg int) { v.storeVectors(base, 0, 4*reg, 4) }

// only clears the lanes of reg past the end of the slice; tmp is used.
func (v *neonVectors) only(reg, tmp int) {
	if v.rest {
		v.load("R16", tmp)
		v.native("VAND", "B16", tmp, reg, reg)
	}
}

// loop writes a loop over count elements, 16 at a time: body is one iteration, after which pointers advance by 64
// bytes. The register count is destroyed. The first written pointers are of slices that are written.
func (v *neonVectors) loop(name, count string, written int, pointers []string, body func()) {
	v.ins("SUBS", "$16", count)
	v.ins("BLT", name+"Rest")
	v.label(name)
	v.rest = false
	body()
	for _, p := range pointers {
		v.ins("ADD", "$64", p)
	}
	v.ins("SUBS", "$16", count)
	v.ins("BGE", name)
	v.label(name + "Rest")
	v.ins("ADDS", "$16", count)
	v.ins("BEQ", name+"Done")
	v.ins("MOVD", "$tails<>+64(SB)", "R16")
	v.ins("LSL", "$2", count, "R17")
	v.ins("SUB", "R17", "R16")
	v.ins("MOVD", "RSP", "R13")
	for i, p := range pointers {
		if i == 0 {
			v.ins("ADD", "$8", "R13", "R13") // above the return address
		}
		for j := 0; j < 64; j += 16 {
			v.ins("STP", "(ZR, ZR)", at("R13", j))
		}
		v.copyWords(fmt.Sprintf("%sIn%d", name, i), p, "R13", count)
		if i < written {
			v.ins("MOVD", p, fmt.Sprintf("R%d", 14+i))
		}
		v.ins("MOVD", "R13", p)
		v.ins("ADD", "$64", "R13")
	}
	v.rest = true
	body()
	v.rest = false
	for i, p := range pointers[:written] {
		v.copyWords(fmt.Sprintf("%sOut%d", name, i), p, fmt.Sprintf("R%d", 14+i), count)
	}
	v.label(name + "Done")
}

// copyWords copies count words. R11, R12 and R17 are used.
func (v *neonVectors) copyWords(label, from, to, count string) {
	v.ins("MOVD", "ZR", "R11")
	v.label(label)
	v.ins("MOVWU", fmt.Sprintf("(%s)(R11<<2)", from), "R12")
	v.ins("MOVW", "R12", fmt.Sprintf("(%s)(R11<<2)", to))
	v.ins("ADD", "$1", "R11")
	v.ins("CMP", count, "R11")
	v.ins("BLT", label)
}

// sum adds the 16 lanes of virtual register 0 into lane 0 of V0: lane j with j+8, then 4, 2, 1. It uses virtual
// register 1.
func (v *neonVectors) sum() {
	v.op("FADD4", 2, 0, 0)
	v.op("FADD4", 3, 1, 1)
	v.op("FADD4", 1, 0, 0)
	v.ins("VEXT", "$8", v4(0, "B16"), v4(0, "B16"), v4(4, "B16"))
	v.op("FADD4", 4, 0, 0)
	v.ins("VDUP", vlane(0, 1), v4(4, "S4"))
	v.op("FADD4", 4, 0, 0)
}

// exp is Exp32 of virtual register a, into p; it uses z and a.
func (v *neonVectors) exp(a, z, p int) {
	v.do("FMAX4", expMin, a, a) // NaN is kept
	v.do("FMIN4", expMax, a, a)
	v.expWithin(a, z, p)
}

// weight is Weight32 of virtual register a, which is at most 0, into p; it uses z, a and V28 to V31. expMin holds the
// limit of normal results, expMax zero. No result is subnormal on the way.
func (v *neonVectors) weight(a, z, p int) {
	const below = 7
	v.do("FCMGT4", a, expMin, below) // false for NaN
	v.do("FMAX4", expMin, a, a)      // NaN is kept
	v.expWithin(a, z, p)
	v.native("VBIT", "B16", below, expMax, p)
}

// expWithin is exp of an argument within its limits.
func (v *neonVectors) expWithin(a, z, p int) {
	v.native("VMOV", "B16", roundMagic, z)
	v.do("FMLAI", 0, expA, a, z)
	v.do("FSUB4", roundMagic, z, p)
	v.do("FMLAI", 1, expA, p, a)
	v.do("FMLAI", 2, expA, p, a)
	// z becomes 2^a and 2^(n-a) later: the polynomial needs two registers in turn, so z is narrowed to integers first.
	v.native("VSUB", "S4", roundMagic, z, z)
	const t = 4
	v.dup(expB, 0, p)
	v.do("FMLAI", 3, expA, a, p)
	v.dup(expB, 1, t)
	v.native("VFMLA", "S4", a, p, t)
	v.dup(expB, 2, p)
	v.native("VFMLA", "S4", a, t, p)
	v.dup(expB, 3, t)
	v.native("VFMLA", "S4", a, p, t)
	v.dup(expC, 0, p)
	v.native("VFMLA", "S4", a, t, p)
	v.do("FMUL4", a, a, t)
	v.native("VFMLA", "S4", t, p, a)
	v.do("FADD4", unit, a, p)
	v.do("SSHR4", 1, z, a)
	v.native("VSUB", "S4", a, z, z)
	for _, e := range []int{a, z} {
		v.native("VSHL", "S4", "$23", e, e)
		v.native("VADD", "S4", unit, e, e) // the bits of 1 are the exponent's offset
		v.do("FMUL4", e, p, p)
	}
}

// neonExponentials writes the kernels that consist mostly of exp.
func neonExponentials(f neonFile) {
	v := &neonVectors{neonFile: f}
	v.constants()

	v.function("expNEON", vectorFrame, "dst, x []float32", "for i: dst[i] = Exp32(x[i])")
	v.args("dst_base", "R0", "x_base", "R1", "x_len", "R5")
	v.loadConstants()
	v.loop("loop", "R5", 1, []string{"R0", "R1"}, func() {
		v.load("R1", 0)
		v.exp(0, 1, 2)
		v.store("R0", 2)
	})
	v.done()

	v.function("siluMulNEON", vectorFrame, "dst, gate, up []float32",
		"for i: dst[i] = (gate[i] / (1 + Exp32(-gate[i]))) * up[i]")
	v.args("dst_base", "R0", "gate_base", "R1", "up_base", "R2", "gate_len", "R5")
	v.loadConstants()
	v.loop("loop", "R5", 1, []string{"R0", "R1", "R2"}, func() {
		v.load("R1", 3)
		v.do("FNEG4", 3, 0)
		v.exp(0, 1, 2)
		v.do("FADD4", unit, 2, 2)
		v.do("FDIV4", 2, 3, 3)
		v.load("R2", 0)
		v.do("FMUL4", 0, 3, 3)
		v.store("R0", 3)
	})
	v.done()

	v.function("sigmoidMulNEON", vectorFrame, "dst, x []float32", "for i: dst[i] *= 1 / (1 + Exp32(-x[i]))")
	v.args("dst_base", "R0", "x_base", "R1", "x_len", "R5")
	v.loadConstants()
	v.loop("loop", "R5", 1, []string{"R0", "R1"}, func() {
		v.load("R1", 3)
		v.do("FNEG4", 3, 0)
		v.exp(0, 1, 2)
		v.do("FADD4", unit, 2, 2)
		v.native("VMOV", "B16", unit, 3)
		v.do("FDIV4", 2, 3, 3)
		v.load("R0", 0)
		v.do("FMUL4", 0, 3, 3)
		v.store("R0", 3)
	})
	v.done()

	v.function("geluNEON", vectorFrame, "dst, x []float32",
		"for i: dst[i] = x[i] / (1 + Exp32(x[i]*fma(x[i]*x[i], geluCubic, geluLinear)))")
	v.args("dst_base", "R0", "x_base", "R1", "x_len", "R5")
	v.loadConstants()
	v.loop("loop", "R5", 1, []string{"R0", "R1"}, func() {
		v.load("R1", 3)
		v.do("FMUL4", 3, 3, 1)
		v.dup(expC, 2, 0)
		v.do("FMLAI", 1, expC, 1, 0)
		v.do("FMUL4", 0, 3, 0)
		v.exp(0, 1, 2)
		v.do("FADD4", unit, 2, 2)
		v.do("FDIV4", 2, 3, 3)
		v.store("R0", 3)
	})
	v.done()

	v.function("geluErfNEON", vectorFrame, "dst, x []float32",
		"for i: a = |x[i]|; dst[i] = fma(-a, UpperTail32(a), max(x[i], 0))")
	v.args("dst_base", "R0", "x_base", "R1", "x_len", "R5")
	v.loadConstants()
	v.loadVectors("R11", 7*16, int(tailA), 3)
	v.loop("loop", "R5", 1, []string{"R0", "R1"}, func() {
		v.load("R1", 3)
		v.do("FMUL4", 3, 3, 1)
		v.dup(tailC, 1, 0)
		v.do("FMUL4", 1, 0, 0)
		v.exp(0, 1, 2)
		magnitude := func(reg int) {
			v.native("VSHL", "S4", "$1", 3, reg)
			v.native("VUSHR", "S4", "$1", reg, reg)
		}
		magnitude(0)
		v.native("VMOV", "B16", unit, 1)
		v.do("FMLAI", 0, tailC, 0, 1)
		v.do("FDIV4", 1, unit, 1) // t
		p, next := 4, 0
		v.dup(tailA, 0, p)
		for i := 1; i < 8; i++ {
			v.dup(tailA+one(i/4), i%4, next)
			v.native("VFMLA", "S4", 1, p, next)
			p, next = next, p
		}
		v.do("FMUL4", 1, p, p)
		v.do("FMUL4", 2, p, p) // the upper tail
		magnitude(1)
		v.dup(tailC, 2, next)
		v.do("FMAX4", next, 3, 3) // +0 for -0
		v.native("VFMLS", "S4", p, 1, 3)
		v.store("R0", 3)
	})
	v.done()

	v.function("expSumNEON", vectorFrame, "s []float32 -> m, l float32",
		"m = max of s, NaN ignored, -Inf if there is none; m += 0\nfor i: s[i] = Weight32(s[i]-m)\nl = lanes(s)")
	v.loadConstants()
	v.ins("VDUP", vlane(int(expC), 3), v4(int(expMin), "S4"))
	v.ins("VEOR", v4(int(expMax), "B16"), v4(int(expMax), "B16"), v4(int(expMax), "B16"))
	v.maximum("s")
	v.ins("FMOVS", "ZR", q(1))
	v.ins("FADDS", q(1), q(0), q(0))
	v.ins("FMOVS", q(0), v.arg("m"))
	v.ins("VDUP", vlane(0, 0), v4(int(spare1), "S4"))
	v.args("s_base", "R0", "s_len", "R5")
	v.clear(12, 4)
	v.loop("exp", "R5", 1, []string{"R0"}, func() {
		v.load("R0", 0)
		v.do("FSUB4", spare1, 0, 0)
		v.weight(0, 1, 2)
		v.store("R0", 2)
		v.only(2, 1)
		v.do("FADD4", 2, 3, 3)
	})
	v.native("VMOV", "B16", 3, 0)
	v.sum()
	v.ins("FMOVS", q(0), v.arg("l"))
	v.done()

	v.function("maximumNEON", vectorFrame, "x []float32 -> m float32", "m = max of x, NaN ignored, -Inf if there is none")
	v.maximum("x")
	v.ins("FMOVS", q(0), v.arg("m"))
	v.done()
}

// maximum leaves the greatest element of a slice that is not NaN, or -Inf, in V0.
func (v *neonVectors) maximum(slice string) {
	v.args(slice+"_base", "R0", slice+"_len", "R5")
	v.ins("MOVW", "$0xff800000", "R1")
	v.ins("VDUP", "R1", v4(int(spare1), "S4"))
	v.native("VMOV", "B16", spare1, 0)
	v.loop("max", "R5", 0, []string{"R0"}, func() {
		v.load("R0", 1)
		if v.rest {
			v.load("R16", 3)
			v.native("VBIF", "B16", 3, spare1, 1)
		}
		v.do("FCMGT4", 0, 1, 2) // false for NaN
		v.native("VBIT", "B16", 2, 1, 0)
	})
	for _, i := range []int{1, 2, 3} {
		v.op("FMAX4", i, 0, 0)
	}
	v.op("FMAXV4", 0, 0)
}
