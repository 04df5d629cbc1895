package main

import "fmt"

// Compact panels of types without grids, turned into those of products, as inflate.go and inflatenvfp4.go do it.

// neonInflatePlain writes them all.
func neonInflatePlain(f neonFile) {
	f.inflateTernaryNEON()
	f.inflateBitsNEON()
	f.inflateCrumbsNEON()
	f.inflateNVFP4NEON()
}

// repeat fills a register with 4 bytes, repeated.
func (f neonFile) repeat(v uint32, reg int) {
	f.ins("MOVD", fmt.Sprintf("$%#x", v), "R10")
	f.ins("VDUP", "R10", v4reg(reg))
}

// sixteen fills a register with two times 8 bytes.
func (f neonFile) sixteen(low, high uint64, reg int) {
	for half, n := range []uint64{low, high} {
		f.ins("MOVD", fmt.Sprintf("$%#x", n), "R10")
		f.ins("VMOV", "R10", fmt.Sprintf("V%d.D[%d]", reg, half))
	}
}

// inflateTernaryNEON writes the kernel of TQ1_0: 16 bytes of a group of weights at a time.
//
//	R0 the panel  R1 the compact panel  R3 super-blocks left  R5 parts of 16 bytes left  R6, R7 where they are and go
//	V0 bytes  V1, V3 temporary  V2 minus a digit  V4 … V8 crumbs of digits 0 … 4  V28 85  V29 170  V31 0
func (f neonFile) inflateTernaryNEON() {
	f.function("tq1InflateNEON", 0, "dst *byte, panel *byte, supers int",
		"WeightKernels.Inflate of TQ1_0, of super-blocks")
	f.args("dst", "R0", "panel", "R1", "supers", "R3")
	f.ins("VMOVI", "$85", v2(28))
	f.ins("VMOVI", "$170", v2(29))
	f.clear(31, 1)
	f.label("super")
	f.ins("MOVD", "$4", "R5")
	f.ins("MOVD", "R1", "R6")
	f.ins("MOVD", "R0", "R7")
	f.label("part")
	for c := range 3 {
		for i := 3; i >= 0; i-- { // the last group has the high bits
			f.ternaryDigits(256*c+64*i, func(n int) {
				sum := v2(4 + n)
				if i == 3 {
					f.ins("VSUB", v2(2), v2(31), sum)
					return
				}
				f.ins("VSHL", "$2", sum, sum)
				f.ins("VSUB", v2(2), sum, sum)
			})
		}
		for n := range 5 {
			f.ins("FMOVQ", q(4+n), at("R7", ternaryTo(c, n)))
		}
	}
	f.ternaryDigits(768, func(n int) {
		switch {
		case n == 0:
			f.ins("VSUB", v2(2), v2(31), v2(4))
		case n < 4:
			f.ins("VSUB", v2(2), v2(31), v2(2))
			f.ins("VSHL", imm(2*n), v2(2), v2(2))
			f.ins("VORR", v2(2), v2(4), v2(4))
		}
	})
	f.ins("FMOVQ", q(4), at("R7", 7*128+64))
	f.ins("ADD", "$16", "R6")
	f.ins("ADD", "$16", "R7")
	f.ins("SUB", "$1", "R5")
	f.ins("CBNZ", "R5", "part")
	for i := range 2 { // d
		f.ins("FMOVQ", at("R1", 832+16*i), q(i))
		f.ins("FMOVQ", q(i), at("R0", 1024+16*i))
	}
	f.ins("ADD", "$864", "R1")
	f.ins("ADD", "$1088", "R0")
	f.ins("SUB", "$1", "R3")
	f.ins("CBNZ", "R3", "super")
	f.done()
}

// ternaryDigits gives use the digits 0 … 4 of 16 bytes, as minus themselves in V2.
func (f neonFile) ternaryDigits(from int, use func(n int)) {
	f.ins("FMOVQ", at("R6", from), q(0))
	for n := range 5 {
		f.op("CMHIB", 28, 0, 2)
		f.op("CMHIB", 29, 0, 3)
		f.ins("VADD", v2(3), v2(2), v2(2))
		if n < 4 {
			f.ins("VADD", v2(0), v2(0), v2(1))
			f.ins("VADD", v2(1), v2(0), v2(0))
		}
		use(n)
	}
}

// inflateBitsNEON writes the kernel of Q1_0, 4 rows at a time.
//
//	R0 nibbles  R1 bits  V0 4 bytes of 4 rows  V1 … V4 byte 0 … 3 of each row, four times  V5, V6 low and high nibbles
//	V16 … V19 where bytes are  V20, V21 a bit for each byte  V22, V23 what a set bit adds  V24 sevens  V25 1
func (f neonFile) inflateBitsNEON() {
	f.function("q1InflateNEON", 0, "nibbles *byte, quants *byte", "WeightKernels.Inflate of a sub-block")
	f.args("nibbles", "R0", "quants", "R1")
	f.ins("VMOVI", "$1", v2(25))
	f.sixteen(0x0404040400000000, 0x0c0c0c0c08080808, 16)
	for k := 1; k < 4; k++ {
		f.ins("VADD", v2(25), v2(15+k), v2(16+k))
	}
	f.repeat(0x08040201, 20)
	f.repeat(0x80402010, 21)
	f.ins("VMOVI", "$2", v2(22))
	f.ins("VMOVI", "$32", v2(23))
	f.ins("VMOVI", "$119", v2(24))
	for rows := range 4 {
		f.ins("FMOVQ", at("R1", 16*rows), q(0))
		for k := range 4 {
			f.ins("VTBL", v2(16+k), "["+v2(0)+"]", v2(1+k))
		}
		for g := range 4 {
			for n := range 2 { // weights 4g … and 16+4g …
				f.ins("VCMTST", v2(20+g%2), v2(1+2*n+g/2), v2(5+n))
				f.ins("VAND", v2(22+n), v2(5+n), v2(5+n))
			}
			f.ins("VADD", v2(6), v2(5), v2(5))
			f.ins("VADD", v2(24), v2(5), v2(5))
			f.ins("FMOVQ", q(5), at("R0", 64*g+16*rows))
		}
	}
	f.done()
}

// inflateCrumbsNEON writes the kernel of Q2_0, 4 rows at a time.
//
//	R0 nibbles  R1 pairs of bits  V0, V1 8 bytes of 4 rows  V2, V3 low and high nibbles
//	V16 … V23 where byte 0 … 7 of each row is, four times  V24, V25 how far pairs move  V26, V27 masks  V28 sevens  V29 1
func (f neonFile) inflateCrumbsNEON() {
	f.function("q2InflateNEON", 0, "nibbles *byte, quants *byte", "WeightKernels.Inflate of a sub-block")
	f.args("nibbles", "R0", "quants", "R1")
	f.ins("VMOVI", "$1", v2(29))
	f.sixteen(0x0808080800000000, 0x1818181810101010, 16)
	for k := 1; k < 8; k++ {
		f.ins("VADD", v2(29), v2(15+k), v2(16+k))
	}
	f.repeat(0xfafcfe00, 24) // 0, 2, 4, 6 to the right
	f.repeat(0xfe000204, 25) // and 4 to the left of that
	f.ins("VMOVI", "$3", v2(26))
	f.ins("VMOVI", "$48", v2(27))
	f.ins("VMOVI", "$119", v2(28))
	for rows := range 4 {
		f.loadVectors("R1", 32*rows, 0, 2)
		for g := range 4 {
			for n := range 2 {
				f.ins("VTBL", v2(16+4*n+g), "["+v2(0)+", "+v2(1)+"]", v2(2+n))
				f.op("USHLB", 24+n, 2+n, 2+n)
				f.ins("VAND", v2(26+n), v2(2+n), v2(2+n))
			}
			f.ins("VADD", v2(3), v2(2), v2(2))
			f.ins("VADD", v2(28), v2(2), v2(2))
			f.ins("FMOVQ", q(2), at("R0", 64*g+16*rows))
		}
	}
	f.done()
}

// inflateNVFP4NEON writes the kernel of NVFP4. The binary16 numbers that nibbles stand for have low bytes of 0, so that
// a table of bytes has them.
//
//	R0 the panel  R1 the compact panel  R5 parts of 16 weights left
//	V0 scales, then a byte of 16 rows  V1 … V7, V24, V25 temporary  V16 … V19 scales  V20 what nibbles mean
//	V21 low nibbles  V22 0x7f  V23 2^7  V31 0
func (f neonFile) inflateNVFP4NEON() {
	f.function("nvfp4InflateNEON", 0, "dst *byte, panel *byte, parts int",
		"WeightKernels.Inflate of NVFP4, of parts of 16 weights")
	f.args("dst", "R0", "panel", "R1", "parts", "R5")
	f.sixteen(0x4a4846444240_3c00, 0xcac8c6c4c2c0_bc00, 20)
	f.ins("VMOVI", "$15", v2(21))
	f.ins("VMOVI", "$127", v2(22))
	f.repeat(0x43000000, 23)
	f.clear(31, 1)
	f.label("part")
	f.ins("FMOVQ", "(R1)", q(0))
	f.ins("VCMEQ", v2(22), v2(0), v2(1))
	f.ins("VORR", v2(1), v2(0), v2(0))
	f.ins("VEOR", v2(1), v2(0), v2(0)) // 0x7f is 0
	f.ins("VAND", v2(22), v2(0), v2(0))
	f.ins("VUSHLL", "$7", v(0, "B8"), v(2, "H8"))
	f.ins("VUSHLL2", "$7", v(0, "B16"), v(3, "H8"))
	for i := range 2 {
		f.op("FCVTL", 2+i, 16+2*i)
		f.op("FCVTLH", 2+i, 17+2*i)
	}
	for i := range 4 {
		f.op("FMUL4", 23, 16+i, 16+i)
	}
	for i := range 8 {
		f.ins("FMOVQ", at("R1", 16+16*i), q(0))
		f.ins("VAND", v2(21), v2(0), v2(1))
		f.ins("VUSHR", "$4", v2(0), v2(2))
		for n := range 2 { // weights i and 8+i
			f.ins("VTBL", v2(1+n), "["+v2(20)+"]", v2(3))
			f.ins("VZIP1", v2(3), v2(31), v2(4))
			f.ins("VZIP2", v2(3), v2(31), v2(5))
			for h, floats := range []int{6, 24} { // 8 rows
				f.op("FCVTL", 4+h, floats)
				f.op("FCVTLH", 4+h, floats+1)
				for k := range 2 {
					f.op("FMUL4", 16+2*h+k, floats+k, floats+k)
				}
				f.op("FCVTN", floats, 4+h)
				f.op("FCVTNH", floats+1, 4+h)
			}
			f.storeVectors("R0", 32*(8*n+i), 4, 2)
		}
	}
	f.ins("ADD", "$144", "R1")
	f.ins("ADD", "$512", "R0")
	f.ins("SUB", "$1", "R5")
	f.ins("CBNZ", "R5", "part")
	f.done()
}
