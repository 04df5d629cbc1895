package main

import "fmt"

// matmulFloat writes the kernels for weights that are floating-point numbers. A column of the panel is one element of
// each row:
//
//	AX weights  CX activations  DI columns  R8 n  R10 out  R9 a token of it  R11 stride in bytes  R13 tokens*4
//	R15 the next line to prefetch  R12 bytes to prefetch per column
func matmulFloat(f *file, s isa) {
	const params = "w *byte, x *float32, k, n, tokens int, out *float32, stride" + prefetchParams
	w, tmp, most := 12, 14, 6 // 256 bits: sums of 6 tokens, two halves of weights, an activation
	if s.halves == 1 {
		w, most = 15, 8
	}
	for _, format := range []string{"f32", "f16", "bf16"} {
		bytes := 2
		if format == "f32" {
			bytes = 4
		}
		f.function(format+s.name, 0, params, floatDoc)
		f.load("w", "AX", "x", "CX", "k", "DI", "n", "R8", "tokens", "R13", "out", "R10", "stride", "R11")
		f.ins("SHLQ", "$2", "R11")
		f.ins("SHLQ", "$2", "R13")
		f.load("prefetch", "R15", "step", "R12")
		f.ins("ADDQ", "AX", "R15")
		f.dispatch("R8", most)
		for T := most; T >= 1; T-- {
			acc := func(t, h int) int { return t*s.halves + h }
			f.label(fmt.Sprintf("t%d", T))
			sums := func(move func(mem, reg string)) { // of one token after the other
				f.ins("MOVQ", "R10", "R9")
				for t := range T {
					if t > 0 {
						f.ins("ADDQ", "R11", "R9")
					}
					for h := range s.halves {
						move(at("R9", 32*h), s.reg(acc(t, h)))
					}
				}
			}
			sums(func(mem, reg string) { f.ins("VMOVUPS", mem, reg) })
			f.label(fmt.Sprintf("loop%d", T))
			f.prefetchLine(0)
			for h := range s.halves {
				f.loadFloats(s, format, at("AX", h*s.lanes()*bytes), w+h)
			}
			for t := range T {
				if s.halves == 1 {
					f.ins("VFMADD231PS.BCST", at("CX", 4*t), z(w), z(acc(t, 0)))
					continue
				}
				f.ins("VBROADCASTSS", at("CX", 4*t), y(tmp))
				for h := range s.halves {
					f.ins("VFMADD231PS", y(tmp), y(w+h), y(acc(t, h)))
				}
			}
			f.ins("ADDQ", imm(16*bytes), "AX")
			f.ins("ADDQ", "R12", "R15")
			f.ins("ADDQ", "R13", "CX")
			f.ins("DECQ", "DI")
			f.ins("JNZ", fmt.Sprintf("loop%d", T))
			sums(func(mem, reg string) { f.ins("VMOVUPS", reg, mem) })
			f.ret()
		}
	}
}

// loadFloats widens one register's worth of numbers of a format to float32.
func (f *file) loadFloats(s isa, format, mem string, reg int) {
	switch format {
	case "f32":
		f.ins("VMOVUPS", mem, s.reg(reg))
	case "f16":
		f.ins("VCVTPH2PS", mem, s.reg(reg))
	case "bf16":
		f.ins("VPMOVZXWD", mem, s.reg(reg))
		f.ins("VPSLLD", "$16", s.reg(reg), s.reg(reg))
	}
}
