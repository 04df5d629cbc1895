package main

import "fmt"

// Compact panels of types with grids, turned into the panels of their table, as inflate.go does it: 4 rows at a time. A
// row's entries 0 and 1 are a register, 2 and 3 another; signs become bytes of ones, and one instruction shifts the
// second register into the first, whatever its high nibbles are.
//
//	R0 the panel  R1 the compact panel  R2 the entries' nibbles  R3 super-blocks left  R4 bytes of scales
//	R5 rows of a sub-block left  R6 entries of a row  R7 signs, R8 high bits, of the next rows  R9 sub-blocks left
//	R10, R11, R12, R13 temporary  R14 where bits 8 of IQ2_XS begin  R15 how far they are shifted  R16 where 4 rows go
//	V0 … V3 rows  V4 … V7 temporary  V8 signs of 4 rows  V16 … V23 where a row's are  V24 a bit for each weight

// neonInflate writes them, and those of other types.
func neonInflate(f neonFile) {
	for _, v := range inflates {
		f.inflateNEON(v)
	}
	neonInflatePlain(f)
}

// inflateNEON writes the kernel of a type.
func (f neonFile) inflateNEON(v *inflate) {
	entries, parameter := "octets *uint64", "octets"
	if v.quads {
		entries, parameter = "quads *uint32", "quads"
	}
	doc := fmt.Sprintf("WeightKernels.Inflate of %s: of super-blocks, with scales bytes of s each", v.doc)
	f.function(v.name+"InflateNEON", 0, "dst *byte, panel *byte, "+entries+", supers int, scales int", doc)
	f.args("dst", "R0", "panel", "R1", parameter, "R2", "supers", "R3", "scales", "R4")
	f.signBitsNEON(v)
	f.label("super")
	f.ins("MOVD", "$8", "R9")
	if v.name == "iq2xs" {
		f.ins("ADD", imm(8*v.sub), "R1", "R14")
		f.ins("MOVD", "ZR", "R15")
	}
	f.label("sub")
	f.ins("ADD", imm(v.low), "R1", "R7")
	f.ins("MOVD", "R0", "R16")
	switch v.name {
	case "iq2xs":
		f.ins("MOVD", "R14", "R8")
	case "iq2s":
		f.ins("ADD", "$128", "R1", "R8")
	case "iq1":
		f.ins("ADD", "$64", "R1", "R8")
	}
	f.ins("MOVD", "$4", "R5")
	f.label("rows")
	if v.minus {
		f.ins("FMOVD", "(R7)", q(8))
		f.ins("ADD", "$8", "R7")
	} else {
		f.ins("FMOVQ", "(R7)", q(8))
		f.ins("ADD", "$16", "R7")
	}
	for r := range 4 {
		f.inflateRowNEON(v, r)
	}
	f.ins("VZIP1", v4reg(1), v4reg(0), v4reg(4))
	f.ins("VZIP2", v4reg(1), v4reg(0), v4reg(5))
	f.ins("VZIP1", v4reg(3), v4reg(2), v4reg(6))
	f.ins("VZIP2", v4reg(3), v4reg(2), v4reg(7))
	for g := range 4 {
		f.ins([]string{"VZIP1", "VZIP2"}[g%2], fmt.Sprintf("V%d.D2", 6+g/2), fmt.Sprintf("V%d.D2", 4+g/2),
			fmt.Sprintf("V%d.D2", g))
		f.ins("FMOVQ", q(g), at("R16", 64*g))
	}
	f.ins("ADD", "$16", "R16")
	f.ins("SUB", "$1", "R5")
	f.ins("CBNZ", "R5", "rows")
	f.ins("ADD", imm(v.sub-v.low), "R1") // entries were passed
	f.ins("ADD", "$256", "R0")
	f.ins("SUB", "$1", "R9")
	if v.name == "iq2xs" {
		f.ins("ADD", "$16", "R14")
		f.ins("CMP", "$4", "R9")
		f.ins("BNE", "low")
		f.ins("SUB", "$64", "R14")
		f.ins("MOVD", "$4", "R15")
		f.label("low")
	}
	f.ins("CBNZ", "R9", "sub")
	if v.name == "iq2xs" {
		f.ins("ADD", "$64", "R1")
	}
	f.inflateScalesNEON()
	f.ins("SUB", "$1", "R3")
	f.ins("CBNZ", "R3", "super")
	f.done()
}

func v4reg(i int) string { return v(i, "S4") }

// signBitsNEON sets V16 … V24: of row r, V16+2r is where the signs of entries 0 and 1 are, V17+2r of 2 and 3.
func (f neonFile) signBitsNEON(v *inflate) {
	const each = 0x0101010101010101
	for r := range uint64(4) {
		for part := range uint64(2) {
			if v.minus {
				f.sixteen(each*(2*r+part), each*(2*r+part), int(16+2*r+part))
			} else {
				f.sixteen(each*(4*r+2*part), each*(4*r+2*part+1), int(16+2*r+part))
			}
		}
	}
	if v.minus {
		f.sixteen(each*8, each*128, 24)
	} else {
		f.sixteen(0x8040201008040201, 0x8040201008040201, 24)
	}
}

// inflateRowNEON makes row r of 4.
func (f neonFile) inflateRowNEON(v *inflate, r int) {
	if v.quads {
		f.ins("MOVD", "(R1)", "R6")
		f.ins("ADD", "$8", "R1")
		for part := range 4 {
			for k := range 2 {
				f.ins("UBFX", imm(16*part+8*k), "R6", "$8", fmt.Sprintf("R%d", 10+k))
				f.ins("MOVWU", fmt.Sprintf("(R2)(R%d<<2)", 10+k), fmt.Sprintf("R%d", 10+k))
			}
			f.ins("ORR", "R11<<32", "R10", "R10")
			f.ins("VMOV", "R10", fmt.Sprintf("V%d.D[%d]", []int{r, 5}[part/2], part%2))
		}
	} else {
		f.ins("MOVWU", "(R1)", "R6")
		f.ins("ADD", "$4", "R1")
		width, step := 0, 0
		switch v.name {
		case "iq2xs":
			f.ins("MOVBU", "(R8)", "R12")
			f.ins("ADD", "$1", "R8")
			f.ins("LSR", "R15", "R12", "R12")
			width, step = 1, 1
		case "iq2s":
			f.ins("MOVBU", "(R8)", "R12")
			f.ins("ADD", "$1", "R8")
			width, step = 2, 2
		case "iq1":
			f.ins("MOVHU", "(R8)", "R12")
			f.ins("ADD", "$2", "R8")
			width, step = 3, 4
		}
		for k := range 4 {
			f.ins("UBFX", imm(8*k), "R6", "$8", "R10")
			if width > 0 {
				f.ins("UBFX", imm(step*k), "R12", imm(width), "R11")
				f.ins("ADD", "R11<<8", "R10", "R10")
			}
			reg := []int{r, 5}[k/2]
			if k%2 == 0 {
				f.ins("FMOVD", "(R2)(R10<<3)", q(reg))
			} else {
				f.ins("FMOVD", "(R2)(R10<<3)", q(6))
				f.ins("VMOV", "V6.D[0]", fmt.Sprintf("V%d.D[1]", reg))
			}
		}
	}
	for part, reg := range []int{r, 5} {
		f.ins("VTBL", v2(16+2*r+part), "["+v2(8)+"]", v2(6))
		f.ins("VCMTST", v2(24), v2(6), v2(6))
		if v.minus {
			f.ins("VADD", v2(6), v2(reg), v2(reg))
		} else {
			f.ins("VEOR", v2(6), v2(reg), v2(reg))
		}
	}
	f.ins("VSLI", "$4", v2(5), v2(r))
}

func v2(i int) string { return v(i, "B16") }

// inflateScalesNEON writes u, and copies d, of a super-block.
func (f neonFile) inflateScalesNEON() {
	f.ins("VMOVI", "$15", v2(4))
	f.ins("VMOVI", "$1", v2(5))
	f.ins("ADD", "R4", "R0", "R10")
	f.ins("MOVD", "R4", "R11")
	f.label("scales")
	f.ins("FMOVQ", "(R1)", q(0))
	f.ins("VUSHR", "$4", v2(0), v2(1))
	f.ins("VAND", v2(4), v2(0), v2(0))
	for h := range 2 {
		f.ins("VADD", v2(h), v2(h), v2(h))
		f.ins("VADD", v2(5), v2(h), v2(h))
	}
	f.ins("FMOVQ", q(0), "(R0)")
	f.ins("FMOVQ", q(1), "(R10)")
	f.ins("ADD", "$16", "R1")
	f.ins("ADD", "$16", "R0")
	f.ins("ADD", "$16", "R10")
	f.ins("SUB", "$16", "R11")
	f.ins("CBNZ", "R11", "scales")
	f.loadVectors("R1", 0, 0, 2)
	f.storeVectors("R10", 0, 0, 2)
	f.ins("ADD", "$32", "R1")
	f.ins("ADD", "$64", "R10", "R0")
}
