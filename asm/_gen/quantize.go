package main

import "math"

// quantize writes the quantization of activations, the conversions of binary16 and the encoding of Q4_0, with 256-bit
// registers for all sets: they are a small part of a pass, or none of it.
func quantize(f *file) {
	abs := f.constant("abs", 0x7fffffff)
	small := f.constant("small", math.Float32bits(0x1p-100)-1)
	c127 := f.constant("c127", math.Float32bits(127))
	flip := f.constant("flip", 0x80808080)
	order := f.table("order", 0, 4, 1, 5, 2, 6, 3, 7)

	f.function("quantizeAVX2", 0,
		"v *float32, q *int8, d *float32, bias *int32, dsum *float32, half *int32, blocks, tokens int -> greatest int",
		"for b < blocks: q[b], d[b], bias[b], dsum[b], half[b] as in quantize; all with a stride of tokens\ngreatest = max "+
			"of the bits of |v|")
	f.load("v", "BX", "q", "CX", "d", "DX", "bias", "SI", "dsum", "DI", "half", "R10", "blocks", "AX", "tokens", "R11")
	f.ins("SHLQ", "$2", "R11")
	f.ins("VPXOR", x(15), x(15), x(15)) // the greatest so far
	f.ins("VMOVDQU", abs, y(14))
	f.ins("VMOVDQU", order, y(13))
	f.ins("VPXOR", x(12), x(12), x(12))
	f.label("loop")
	f.magnitudes(4, 5)
	f.ins("VPCMPGTD", small, x(4), x(5)) // all ones unless the block is taken for zeros
	f.ins("VMOVSS", c127, x(7))
	f.ins("VDIVSS", x(7), x(4), x(6))
	f.ins("VPAND", x(5), x(6), x(6)) // d
	f.ins("VDIVSS", x(4), x(7), x(7))
	f.ins("VPAND", x(5), x(7), x(7)) // inv
	f.ins("VMOVSS", x(6), at("DX", 0))
	f.ins("VBROADCASTSS", x(7), y(7))
	for i := range 4 {
		f.ins("VMULPS", y(7), y(i), y(i))
		f.ins("VCVTPS2DQ", y(i), y(i))
	}
	f.ins("VPACKSSDW", y(1), y(0), y(0))
	f.ins("VPACKSSDW", y(3), y(2), y(2))
	f.ins("VPACKSSWB", y(2), y(0), y(0))
	f.ins("VPERMD", y(0), y(13), y(0))
	f.ins("VMOVDQU", y(0), at("CX", 0))
	f.ins("VPXOR", flip, y(0), y(0)) // q+128, which VPSADBW can add
	f.ins("VPSADBW", y(12), y(0), y(0))
	f.ins("VPSHUFD", "$0x4E", y(0), y(1))
	f.ins("VPADDD", y(1), y(0), y(0))
	f.ins("VEXTRACTI128", "$1", y(0), x(1))
	for i, r := range []string{"R8", "R9"} { // the sums of 16 quants
		f.ins("VMOVD", x(i), r)
		f.ins("SUBL", "$(16*128)", r)
		f.ins("IMUL3L", "$-32", r, "R12")
		f.ins("MOVL", "R12", at("R10", 4*i))
	}
	f.ins("ADDL", "R9", "R8")
	f.ins("VCVTSI2SSL", "R8", x(12), x(1))
	f.ins("VMULSS", x(6), x(1), x(1))
	f.ins("VMOVSS", x(1), at("DI", 0))
	f.ins("IMUL3L", "$-128", "R8", "R8")
	f.ins("MOVL", "R8", at("SI", 0))
	f.ins("ADDQ", "$128", "BX")
	f.ins("LEAQ", atx("CX", "R11", 8, 0), "CX")
	for _, p := range []string{"DX", "SI", "DI"} {
		f.ins("ADDQ", "R11", p)
	}
	f.ins("LEAQ", atx("R10", "R11", 2, 0), "R10")
	f.ins("DECQ", "AX")
	f.ins("JNZ", "loop")
	f.ins("VMOVD", x(15), "AX")
	f.ins("MOVQ", "AX", f.arg("greatest"))
	f.ret()

	f.encodeQ4_0(abs)

	f.function("encodeF16AVX2", 0, "dst *uint16, src *float32, n int",
		"for i < n: dst[i] = ToF16(src[i])  // n is a multiple of 8")
	f.load("dst", "AX", "src", "BX", "n", "DI")
	f.label("loop")
	f.ins("VMOVUPS", at("BX", 0), y(0))
	f.ins("VCVTPS2PH", "$0", y(0), at("AX", 0))
	f.ins("ADDQ", "$16", "AX")
	f.ins("ADDQ", "$32", "BX")
	f.ins("SUBQ", "$8", "DI")
	f.ins("JNZ", "loop")
	f.ret()

	f.function("decodeF16AVX2", 0, "dst *float32, src *uint16, n int",
		"for i < n: dst[i] = FromF16(src[i])  // n is a multiple of 8")
	f.load("dst", "AX", "src", "BX", "n", "DI")
	f.label("loop")
	f.ins("VCVTPH2PS", at("BX", 0), y(0))
	f.ins("VMOVUPS", y(0), at("AX", 0))
	f.ins("ADDQ", "$32", "AX")
	f.ins("ADDQ", "$16", "BX")
	f.ins("SUBQ", "$8", "DI")
	f.ins("JNZ", "loop")
	f.ret()

	f.function("indexAVX2", 0, "x *float32, n int, e float32 -> i int",
		"i = the least i < n with x[i] == e, else n  // n is a multiple of 8")
	f.load("x", "AX", "n", "DI")
	f.ins("VBROADCASTSS", f.arg("e"), y(1))
	f.ins("XORQ", "BX", "BX")
	f.label("loop")
	f.ins("CMPQ", "BX", "DI")
	f.ins("JGE", "done")
	f.ins("VCMPPS", "$0", atx("AX", "BX", 4, 0), y(1), y(0))
	f.ins("VMOVMSKPS", y(0), "CX")
	f.ins("TESTL", "CX", "CX")
	f.ins("JNZ", "found")
	f.ins("ADDQ", "$8", "BX")
	f.ins("JMP", "loop")
	f.label("found")
	f.ins("BSFL", "CX", "CX")
	f.ins("ADDQ", "CX", "BX")
	f.label("done")
	f.ins("MOVQ", "BX", f.arg("i"))
	f.ret()

	pairs := f.table("pairs", 0, 0, 1, 1, 2, 2, 3, 3)
	f.function("ropeInterleavedAVX2", 0, "x, cos, sin *float32, n int",
		"for i < n: a, b = x[2i], x[2i+1]; x[2i] = fma(a, cos[i], -(b*sin[i])); x[2i+1] = fma(b, cos[i], a*sin[i])  // n "+
			"is a multiple of 4")
	f.load("x", "AX", "cos", "CX", "sin", "DX", "n", "DI")
	f.ins("VMOVDQU", pairs, y(4))
	f.label("loop")
	f.ins("VMOVUPS", at("AX", 0), y(0))
	for i, p := range []string{"CX", "DX"} {
		f.ins("VMOVUPS", at(p, 0), x(1+i))
		f.ins("VPERMPS", y(1+i), y(4), y(1+i))
	}
	f.ins("VPERMILPS", "$0xB1", y(0), y(3))
	f.ins("VMULPS", y(2), y(3), y(3))
	f.ins("VFMADDSUB213PS", y(3), y(1), y(0)) // subtracts in even lanes, adds in odd ones
	f.ins("VMOVUPS", y(0), at("AX", 0))
	f.ins("ADDQ", "$32", "AX")
	f.ins("ADDQ", "$16", "CX")
	f.ins("ADDQ", "$16", "DX")
	f.ins("SUBQ", "$4", "DI")
	f.ins("JNZ", "loop")
	f.ret()
}

// magnitudes reads the 32 numbers at BX into Y0 … Y3 and their magnitudes into Y4 … Y7, by the mask Y14. The greatest
// goes into all lanes of X(to), and X15 is the greatest so far; tmp is overwritten.
func (f *file) magnitudes(to, tmp int) {
	for i := range 4 {
		f.ins("VMOVUPS", at("BX", 32*i), y(i))
		f.ins("VPAND", y(14), y(i), y(4+i))
	}
	f.ins("VPMAXSD", y(5), y(4), y(to))
	f.ins("VPMAXSD", y(7), y(6), y(tmp))
	f.ins("VPMAXSD", y(tmp), y(to), y(to))
	f.ins("VEXTRACTI128", "$1", y(to), x(tmp))
	f.ins("VPMAXSD", x(tmp), x(to), x(to))
	for _, swap := range []string{"$0x4E", "$0xB1"} {
		f.ins("VPSHUFD", swap, x(to), x(tmp))
		f.ins("VPMAXSD", x(tmp), x(to), x(to))
	}
	f.ins("VPMAXSD", x(to), x(15), x(15))
}

// encodeQ4_0 writes the encoding of weights.
//
//	AX blocks left  BX x  CX the row  R8 … R11 which numbers are the greatest, then the first one's index
//	Y0 … Y3 numbers  Y4 … Y9 temporary, X8 the greatest magnitude, X9 d, Y6 1/d  X10 1  X11 -1/8  Y12 15  Y13 8.5
//	Y14 all but signs  X15 the greatest of all blocks
func (f *file) encodeQ4_0(abs string) {
	one := f.constant("one", math.Float32bits(1))
	eighth := f.constant("eighth", math.Float32bits(-0.125))
	most := f.constant("most", math.Float32bits(15))
	middle := f.constant("middle", math.Float32bits(8.5))
	subnormal := f.constant("subnormal", 0x007fffff)

	f.function("encodeQ4_0AVX2", 0, "dst *byte, x *float32, blocks int -> greatest int",
		"for b < blocks: dst[18b:] = x[32b:] as in EncodeQ4_0\ngreatest = max of the bits of |x|")
	f.load("dst", "CX", "x", "BX", "blocks", "AX")
	f.ins("VMOVSS", one, x(10))
	f.ins("VMOVSS", eighth, x(11))
	for i, c := range []string{most, middle, abs} {
		f.ins("VMOVDQU", c, y(12+i))
	}
	f.ins("VPXOR", x(15), x(15), x(15))
	f.label("loop")
	f.magnitudes(8, 9)
	f.ins("VPBROADCASTD", x(8), y(8))
	for i := range 4 {
		r := []string{"R8", "R9", "R10", "R11"}[i]
		f.ins("VPCMPEQD", y(8), y(4+i), y(4+i))
		f.ins("VMOVMSKPS", y(4+i), r)
		if i > 0 {
			f.ins("SHLL", imm(8*i), r)
			f.ins("ORL", r, "R8")
		}
	}
	f.ins("BSFL", "R8", "R8")
	f.ins("VMOVSS", atx("BX", "R8", 4, 0), x(9))
	f.ins("VPXOR", x(4), x(4), x(4))
	f.ins("VPCMPGTD", x(4), x(8), x(4))
	f.ins("VPAND", x(4), x(9), x(9)) // 0 and not -0
	f.ins("VMULSS", x(11), x(9), x(9))
	f.ins("VPAND", x(14), x(9), x(5))
	f.ins("VPCMPGTD", subnormal, x(5), x(5)) // all ones if there is a 1/d
	f.ins("VDIVSS", x(9), x(10), x(6))
	f.ins("VPAND", x(5), x(6), x(6))
	f.ins("VBROADCASTSS", x(6), y(6))
	f.ins("VCVTPS2PH", "$0", x(9), x(9))
	f.ins("VMOVSS", x(9), at("CX", 0)) // its upper half is overwritten
	for i := range 4 {
		f.ins("VMULPS", y(6), y(i), y(i))
		f.ins("VADDPS", y(13), y(i), y(i))
		f.ins("VMINPS", y(12), y(i), y(i))
		f.ins("VCVTTPS2DQ", y(i), y(i))
	}
	f.ins("VPACKSSDW", y(1), y(0), y(0))
	f.ins("VPACKSSDW", y(3), y(2), y(2))
	f.ins("VPSLLW", "$4", y(2), y(2))
	f.ins("VPOR", y(2), y(0), y(0))
	f.ins("VEXTRACTI128", "$1", y(0), x(1))
	f.ins("VPACKUSWB", x(1), x(0), x(0))
	f.ins("VPSHUFD", "$0xD8", x(0), x(0))
	f.ins("VMOVDQU", x(0), at("CX", 2))
	f.ins("ADDQ", "$128", "BX")
	f.ins("ADDQ", "$18", "CX")
	f.ins("DECQ", "AX")
	f.ins("JNZ", "loop")
	f.ins("VMOVD", x(15), "AX")
	f.ins("MOVQ", "AX", f.arg("greatest"))
	f.ret()
}
