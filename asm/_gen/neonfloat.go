package main

import "fmt"

// neonMatMulFloat writes the kernels for weights that are floating-point numbers. A column of the panel is one element
// of each row:
//
//	R0 weights  R2 activations  R5 columns  R6 n  R7 tokens*4  R8 out  R10 a token of it  R9 stride in bytes
func neonMatMulFloat(f neonFile) {
	const most = 6
	for _, format := range []string{"f32", "f16", "bf16"} {
		bytes := 32
		if format == "f32" {
			bytes = 64
		}
		f.function(format+"NEON", 0, "w *byte, x *float32, k, n, tokens int, out *float32, stride"+prefetchParams, floatDoc)
		f.args("w", "R0", "x", "R2", "k", "R5", "n", "R6", "tokens", "R7", "out", "R8", "stride", "R9")
		f.strides()
		f.choose("R6", most)
		for T := most; T > 0; T-- {
			var free registers
			facc, w := free.take(4*T), free.take(4) // float sums [T][4], a column
			f.label(fmt.Sprintf("t%d", T))
			f.ins("MOVD", "R8", "R10")
			for t := range T {
				f.loadVectors("R10", 0, facc+4*t, 4)
				f.ins("ADD", "R9", "R10")
			}
			f.label(fmt.Sprintf("loop%d", T))
			f.prefetch(0, bytes)
			x, _ := f.words("R2", 0, T, free.next)
			f.floats(format, "R0", 0, w)
			for t := range T {
				lane, reg := x(t)
				for i := range 4 {
					f.op("FMLAI", lane, reg, w+i, facc+4*t+i)
				}
			}
			f.ins("ADD", imm(bytes), "R0")
			f.ins("ADD", "R7", "R2")
			f.ins("SUB", "$1", "R5")
			f.ins("CBNZ", "R5", fmt.Sprintf("loop%d", T))
			for t := range T {
				f.storeVectors("R8", 0, facc+4*t, 4)
				if t < T-1 {
					f.ins("ADD", "R9", "R8")
				}
			}
			f.done()
		}
	}
}

// floats widens 16 numbers of a format into four registers.
func (f neonFile) floats(format, base string, off, reg int) {
	wide, wideHigh := "FCVTL", "FCVTLH"
	switch format {
	case "f32":
		f.loadVectors(base, off, reg, 4)
		return
	case "bf16":
		wide, wideHigh = "SHLL16", "SHLL16H"
	}
	f.ins("FMOVQ", at(base, off), q(reg))
	f.ins("FMOVQ", at(base, off+16), q(reg+2))
	for i := reg; i < reg+4; i += 2 {
		f.op(wideHigh, i, i+1)
		f.op(wide, i, i)
	}
}
