package main

import "math/bits"

// neonTurns writes the kernels of turn.go for arm64. Bytes take a stage more: a register is 16 rows of a position.
//
//	R0 rows  R1 blocks of 16  R2 steps  R3 columns  R4 their stride
//	R5 R6 R7 advance by blocks: rows, how many are left, columns; R8 a column  R9 a row
func neonTurns(f neonFile) {
	arrangement := map[string]string{"BW": "B16", "WD": "H8", "DQ": "S4", "QDQ": "D2"}
	zip := func(stage string, half, a, b, dst int) {
		t := arrangement[stage]
		f.ins([]string{"VZIP1", "VZIP2"}[half], v(b, t), v(a, t), v(dst, t))
	}
	for _, kind := range turnKinds {
		row := page * kind.bytes
		f.function("turn"+kind.name+"NEON", 0, "dst, src *byte, stride, blocks, steps int", kind.doc)
		f.args("src", "R0", "blocks", "R1", "steps", "R2", "dst", "R3", "stride", "R4")
		f.label("step")
		f.ins("MOVD", "R0", "R5")
		f.ins("MOVD", "R3", "R7")
		f.ins("MOVD", "R1", "R6")
		f.label("rows")
		f.ins("MOVD", "R7", "R8")
		for part := range 4 {
			f.ins("ADD", imm(16*part), "R5", "R9")
			for i := range 16 {
				f.ins("FMOVQ", "(R9)", q(i))
				f.ins("ADD", imm(row), "R9")
			}
			rows, others, stages := upFrom(0, 16), upFrom(16, 16), append(kind.stages[:3:3], "QDQ")
			var low, high []int
			switch kind.name {
			case "Words":
				low, high = turned(rows[:8], others[:8], kind.stages, zip), turned(rows[8:], others[8:], kind.stages, zip)
			case "Bytes":
				low = turned(rows, others, stages, zip)
			case "Nibbles":
				low = turned(f.nibbleRows(), append(rows[:8:8], others[8:]...), stages, zip)
			}
			for i, c := range low {
				f.ins("FMOVQ", q(c), "(R8)")
				if high != nil {
					f.ins("FMOVQ", q(high[i]), "16(R8)")
				}
				f.ins("ADD", "R4", "R8")
			}
		}
		f.ins("ADD", imm(16*row), "R5")
		f.ins("ADD", imm(16*kind.bytes), "R7")
		f.ins("SUB", "$1", "R6")
		f.ins("CBNZ", "R6", "rows")
		f.ins("ADD", "$64", "R0")
		f.ins("LSL", imm(bits.Len(uint(64/kind.bytes))-1), "R4", "R8")
		f.ins("ADD", "R8", "R3")
		f.ins("SUB", "$1", "R2")
		f.ins("CBNZ", "R2", "step")
		f.done()
	}
}

// nibbleRows makes rows of bytes, as values have them, of rows of nibbles in registers 0 to 15. They are in 8 to 23.
func (f neonFile) nibbleRows() (rows []int) {
	const low, high, t, made = 30, 31, 29, 16
	f.ins("VMOVI", "$15", v(low, "B16"))
	f.ins("VMOVI", "$240", v(high, "B16"))
	op := func(name string, operands ...int) {
		var list []string
		for _, o := range operands {
			list = append(list, v(o, "B16"))
		}
		f.ins(name, list...)
	}
	for i := range 8 {
		a, b := i, i+8
		f.ins("VSHL", "$4", v(b, "B16"), v(t, "B16"))
		op("VAND", low, a, made+i)
		op("VORR", t, made+i, made+i)
		f.ins("VUSHR", "$4", v(a, "B16"), v(t, "B16"))
		op("VAND", high, b, b)
		op("VORR", t, b, b)
		rows = append(rows, made+i, b)
	}
	return rows
}
