package main

import "math"

// inflateNVFP4 writes the kernel of NVFP4, which makes the panel of F16. A scale's byte, 4 bits of exponent and 3 of
// mantissa, is a binary16 number times 2^8 when it is moved by 7; 0x7f is 0. A weight is half of it times a number of
// 8 that have signs; the product is exact.
//
//	AX the compact panel  BX the panel  DI parts of 16 weights left
//	0 scales  1 … 5 weights  12 0x7f  13 2^7  14 what nibbles mean  15 low nibbles
func (f *file) inflateNVFP4(s isa) {
	f.function("nvfp4Inflate"+s.name, 0, "dst *byte, panel *byte, parts int",
		"WeightKernels.Inflate of NVFP4, of parts of 16 weights")
	f.load("dst", "BX", "panel", "AX", "parts", "DI")
	numbers := [16]int{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
	f.ins("VMOVDQU", f.lanes256(0x7f7f7f7f), y(12))
	f.ins("VBROADCASTSS", f.constant("power7", math.Float32bits(1<<7)), s.reg(13))
	if s.halves == 1 {
		var v [16]uint32
		for i, n := range numbers {
			v[i] = math.Float32bits(float32(n))
		}
		f.ins("VMOVUPS", f.once("numbers", v[:]...), z(14))
	} else {
		f.ins("VMOVDQU", f.lookup("numbers", numbers), x(14))
		f.ins("VMOVDQU", f.lanes256(0x0f0f0f0f), y(15))
	}
	f.label("part")
	f.prefetchCompact(0, 144)
	f.ins("VMOVDQU", at("AX", 0), x(0))
	f.ins("VPCMPEQB", x(12), x(0), x(1))
	f.ins("VPANDN", x(0), x(1), x(0))
	f.ins("VPMOVZXBW", x(0), y(0))
	f.ins("VPSLLW", "$9", y(0), y(0)) // without bit 7
	f.ins("VPSRLW", "$2", y(0), y(0))
	if s.halves == 1 {
		f.ins("VCVTPH2PS", y(0), z(0))
		f.ins("VMULPS", z(13), z(0), z(0))
	} else {
		f.ins("VEXTRACTI128", "$1", y(0), x(1))
		for h := range 2 {
			f.ins("VCVTPH2PS", x(h), y(h))
			f.ins("VMULPS", y(13), y(h), y(h))
		}
	}
	for i := range 8 {
		from, to := at("AX", 16+16*i), [2]int{32 * i, 32 * (8 + i)}
		if s.halves == 1 {
			f.ins("VPMOVZXBD", from, z(1))
			f.ins("VPERMPS", z(14), z(1), z(2))
			f.ins("VPSRLD", "$4", z(1), z(1))
			f.ins("VPERMPS", z(14), z(1), z(3))
			for h := range 2 {
				f.ins("VMULPS", z(0), z(2+h), z(2+h))
				f.ins("VCVTPS2PH", "$0", z(2+h), at("BX", to[h]))
			}
			continue
		}
		f.ins("VMOVDQU", from, x(2))
		f.ins("VPSRLW", "$4", x(2), x(3))
		for h := range 2 {
			f.ins("VPAND", x(15), x(2+h), x(2+h))
			f.ins("VPSHUFB", x(2+h), x(14), x(2+h))
			f.ins("VPMOVSXBD", x(2+h), y(4))
			f.ins("VPSRLDQ", "$8", x(2+h), x(5))
			f.ins("VPMOVSXBD", x(5), y(5))
			for rows := range 2 {
				f.ins("VCVTDQ2PS", y(4+rows), y(4+rows))
				f.ins("VMULPS", y(rows), y(4+rows), y(4+rows))
				f.ins("VCVTPS2PH", "$0", y(4+rows), at("BX", to[h]+16*rows))
			}
		}
	}
	f.ins("ADDQ", "$144", "AX")
	f.ins("ADDQ", "$512", "BX")
	f.ins("DECQ", "DI")
	f.ins("JNZ", "part")
	f.ret()
}
