package main

import (
	"fmt"
	"math"
)

const quantizeDoc = `for b < blocks:
	amax = greatest |v[b][i]|; return b if it is Inf or NaN
	if amax < 2^-100: all 0
	else: d = amax/127; q[i] = v[i]*(127/amax) rounded half to even; s0, s1 = sums of q[0..15], q[16..31]
	      bias = -128*(s0+s1); dsum = d*float(s0+s1); half = -32*s0, -32*s1
return blocks`

// neonQuantize writes the quantization of activations and the conversions of binary16.
//
//	R0 v  R1 q  R2 d  R3 bias  R4 dsum  R6 half  R5 blocks left  R7 tokens*4
func neonQuantize(f neonFile) {
	f.function("quantizeNEON", 0,
		"v *float32, q *int8, d *float32, bias *int32, dsum *float32, half *int32, blocks, tokens int -> done int",
		quantizeDoc)
	f.args("v", "R0", "q", "R1", "d", "R2", "bias", "R3", "dsum", "R4", "half", "R6", "blocks", "R5", "tokens", "R7")
	f.ins("LSL", "$2", "R7", "R7")
	f.ins("MOVD", "$0x42fe0000", "R11") // 127
	f.ins("FMOVS", "R11", q(30))
	f.ins("VMOVI", "$255", v(31, "B16"))
	f.ins("VUSHR", "$1", v(31, "S4"), v(31, "S4")) // all but the sign
	f.label("loop")
	f.loadVectors("R0", 0, 0, 8)
	for i := range 8 {
		f.ins("VAND", v(31, "B16"), v(i, "B16"), v(8+i, "B16"))
	}
	for n := 4; n > 0; n /= 2 {
		for i := range n {
			f.ins("VUMAX", v(8+i+n, "S4"), v(8+i, "S4"), v(8+i, "S4"))
		}
	}
	f.op("UMAXV4", 8, 8)
	f.ins("FMOVS", q(8), "R11")
	f.ins("MOVD", "$0x7f800000", "R12")
	f.ins("CMPW", "R12", "R11")
	f.ins("BHS", "done")
	f.ins("MOVD", fmt.Sprintf("$%#x", math.Float32bits(0x1p-100)), "R12")
	f.ins("CMPW", "R12", "R11")
	f.ins("BLO", "zeros")
	f.ins("FDIVS", q(8), q(30), q(9))
	f.ins("FDIVS", q(30), q(8), q(10))
	for i := range 8 {
		f.op("FMULI", 0, 9, i, i)
		f.op("FCVTNS4", i, i) // within ±127: amax*inv is at most 127*(1+2^-23)
	}
	for h := range 2 {
		a := 4 * h
		f.ins("VADD", v(a, "S4"), v(a+1, "S4"), v(12+h, "S4"))
		f.ins("VADD", v(a+2, "S4"), v(a+3, "S4"), v(14+h, "S4"))
		f.ins("VADD", v(12+h, "S4"), v(14+h, "S4"), v(12+h, "S4"))
		f.ins("VADDV", v(12+h, "S4"), fmt.Sprintf("V%d", 12+h))
		f.ins("FMOVS", q(12+h), fmt.Sprintf("R%d", 11+h))
		f.narrow(a, 16+h)
	}
	f.storeVectors("R1", 0, 16, 2)
	f.ins("ADD", "R11", "R12", "R13")
	f.ins("SCVTFWS", "R13", q(11))
	f.ins("FMULS", q(10), q(11), q(11))
	f.ins("LSL", "$7", "R13", "R13")
	for _, r := range []string{"R11", "R12"} {
		f.ins("LSL", "$5", r, r)
		f.ins("NEG", r, r)
	}
	f.ins("NEG", "R13", "R13")
	f.label("store")
	f.ins("FMOVS", q(10), at("R2", 0))
	f.ins("MOVW", "R13", at("R3", 0))
	f.ins("FMOVS", q(11), at("R4", 0))
	f.ins("MOVW", "R11", at("R6", 0))
	f.ins("MOVW", "R12", at("R6", 4))
	f.ins("ADD", "$128", "R0")
	f.ins("ADD", "R7<<3", "R1")
	f.ins("ADD", "R7", "R2")
	f.ins("ADD", "R7", "R3")
	f.ins("ADD", "R7", "R4")
	f.ins("ADD", "R7<<1", "R6")
	f.ins("SUB", "$1", "R5")
	f.ins("CBNZ", "R5", "loop")
	f.endBlocks()
	f.label("zeros")
	f.clear(10, 2)
	f.clear(16, 2)
	f.storeVectors("R1", 0, 16, 2)
	for _, r := range []string{"R11", "R12", "R13"} {
		f.ins("MOVD", "ZR", r)
	}
	f.ins("B", "store")

	f.encodeQ4_0NEON()

	f.function("encodeF16NEON", 0, "dst *uint16, src *float32, whole int", "for i < 16*whole: dst[i] = float16(src[i])")
	f.args("dst", "R0", "src", "R1", "whole", "R5")
	f.label("loop")
	f.loadVectors("R1", 0, 0, 4)
	for i := 0; i < 4; i += 2 {
		f.op("FCVTN", i, i)
		f.op("FCVTNH", i+1, i)
		f.ins("FMOVQ", q(i), at("R0", 8*i))
	}
	f.nextWhole("R0", 32, "R1", 64)

	f.function("decodeF16NEON", 0, "dst *float32, src *uint16, whole int", "for i < 16*whole: dst[i] = float32(src[i])")
	f.args("dst", "R0", "src", "R1", "whole", "R5")
	f.label("loop")
	f.floats("f16", "R1", 0, 0)
	f.storeVectors("R0", 0, 0, 4)
	f.nextWhole("R0", 64, "R1", 32)

	f.function("findNEON", 0, "x *float32, m float32, whole int -> at int",
		"return the least b < whole for which a x[16b+i] == m, i < 16; else whole")
	f.args("x", "R0", "whole", "R5")
	f.ins("FMOVS", f.arg("m"), q(4))
	f.ins("VDUP", vlane(4, 0), v(4, "S4"))
	f.ins("MOVD", "ZR", "R1")
	f.label("loop")
	f.loadVectors("R0", 0, 0, 4)
	for i := range 4 {
		f.op("FCMEQ4", 4, i, i)
	}
	for _, i := range []int{1, 2, 3} {
		f.ins("VORR", v(i, "B16"), v(0, "B16"), v(0, "B16"))
	}
	f.op("UMAXV4", 0, 0)
	f.ins("FMOVS", q(0), "R11")
	f.ins("CBNZW", "R11", "found")
	f.ins("ADD", "$64", "R0")
	f.ins("ADD", "$1", "R1")
	f.ins("CMP", "R5", "R1")
	f.ins("BNE", "loop")
	f.label("found")
	f.ins("MOVD", "R1", f.arg("at"))
	f.done()
}

// encodeQ4_0NEON writes the encoding of weights.
//
//	R0 the row  R1 x  R5 blocks left  R6 where quants go  R11 bits of the greatest magnitude, then of |d|, then d
//	R12 its index  R13 8*65520  R14 2^-126
//	V0 … V7 numbers  V8 … V15 magnitudes  V16 … V19 temporary  V20 d  V21 1/d  V22 binary16  V24 -1/8  V25 8.5  V26 15
//	V27 1  V28 28, 29, 30, 31  V29 4  V30 indices  V31 all but signs
func (f neonFile) encodeQ4_0NEON() {
	f.function("encodeQ4_0NEON", 0, "dst *byte, x *float32, blocks int -> done int",
		"for b < blocks: dst[18b:] = x[32b:] as in EncodeQ4_0; return b where that is false\nreturn blocks")
	f.args("dst", "R0", "x", "R1", "blocks", "R5")
	for i, v := range []float32{-0.125, 8.5, 15, 1} {
		f.repeat(math.Float32bits(v), 24+i)
	}
	f.sixteen(29<<32|28, 31<<32|30, 28)
	f.repeat(4, 29)
	f.repeat(0x7fffffff, 31)
	f.ins("MOVD", fmt.Sprintf("$%#x", math.Float32bits(8*65520)), "R13")
	f.ins("MOVD", fmt.Sprintf("$%#x", math.Float32bits(0x1p-126)), "R14")
	f.label("loop")
	f.loadVectors("R1", 0, 0, 8)
	for i := range 8 {
		f.ins("VAND", v2(31), v2(i), v2(8+i))
	}
	for i := range 4 {
		f.ins("VUMAX", v4reg(9+2*i), v4reg(8+2*i), v4reg(16+i))
	}
	for _, i := range []int{17, 18, 19} {
		f.ins("VUMAX", v4reg(i), v4reg(16), v4reg(16))
	}
	f.op("UMAXV4", 16, 16)
	f.ins("FMOVS", q(16), "R11")
	f.ins("CMPW", "R13", "R11")
	f.ins("BHS", "done")
	f.clear(20, 2)
	f.ins("CBZW", "R11", "scale")
	f.ins("VDUP", vlane(16, 0), v4reg(16))
	f.ins("VMOV", v2(31), v2(18)) // more than any index
	f.ins("VMOV", v2(28), v2(30))
	for i := 7; i >= 0; i-- {
		f.ins("VCMEQ", v4reg(16), v4reg(8+i), v4reg(17))
		f.ins("VBIT", v2(17), v2(30), v2(18))
		if i > 0 {
			f.ins("VSUB", v4reg(29), v4reg(30), v4reg(30))
		}
	}
	f.op("UMINV4", 18, 18)
	f.ins("FMOVS", q(18), "R12")
	f.ins("FMOVS", "(R1)(R12<<2)", q(20))
	f.label("scale")
	f.ins("FMULS", q(24), q(20), q(20))
	f.ins("FMOVS", q(20), "R11")
	f.ins("ANDW", "$0x7fffffff", "R11", "R11")
	f.ins("CMPW", "R14", "R11")
	f.ins("BLO", "small") // there is no 1/d
	f.ins("FDIVS", q(20), q(27), q(21))
	f.label("small")
	f.op("FCVTN", 20, 22)
	f.ins("VMOV", "V22.H[0]", "R11")
	f.ins("MOVH", "R11", "(R0)")
	for i := range 8 {
		f.op("FMULI", 0, 21, i, i)
		f.op("FADD4", 25, i, i)
		f.op("FMIN4", 26, i, i)
		f.op("FCVTZS4", i, i)
	}
	f.narrow(0, 16)
	f.narrow(4, 17)
	f.ins("VSLI", "$4", v2(17), v2(16))
	f.ins("ADD", "$2", "R0", "R6")
	f.ins("FMOVQ", q(16), "(R6)")
	f.ins("ADD", "$128", "R1")
	f.ins("ADD", "$18", "R0")
	f.ins("SUB", "$1", "R5")
	f.ins("CBNZ", "R5", "loop")
	f.endBlocks()
}

// narrow makes the bytes in register to of 16 numbers that fit them, in the lanes of registers a … a+3.
func (f neonFile) narrow(a, to int) {
	f.ins("VUZP1", v(a+1, "H8"), v(a, "H8"), v(a, "H8"))
	f.ins("VUZP1", v(a+3, "H8"), v(a+2, "H8"), v(a+2, "H8"))
	f.ins("VUZP1", v2(a+2), v2(a), v2(to))
}

// endBlocks returns how many blocks are done, of which R5 are left.
func (f neonFile) endBlocks() {
	f.label("done")
	f.args("blocks", "R11")
	f.ins("SUB", "R5", "R11", "R11")
	f.ins("MOVD", "R11", f.arg("done"))
	f.done()
}

// nextWhole ends a loop over groups of 16 elements, and the function.
func (f neonFile) nextWhole(dst string, dstBytes int, src string, srcBytes int) {
	f.ins("ADD", imm(dstBytes), dst)
	f.ins("ADD", imm(srcBytes), src)
	f.ins("SUB", "$1", "R5")
	f.ins("CBNZ", "R5", "loop")
	f.done()
}
