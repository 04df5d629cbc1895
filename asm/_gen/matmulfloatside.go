package main

import "fmt"

// matmulFloatSide writes products of several panels of float weights with few tokens. A sum of a panel's column waits
// for that of the column before, 4 cycles; sums of other panels do not wait for it.
//
//	AX weights  BX bytes of a panel  R14 three times that  CX activations  DI columns left  R8 n  R10 out
//	R9 a token of it  R11 stride in bytes  R13 tokens*4  R15 what is prefetched of the first panel
func matmulFloatSide(f *file, s isa) {
	sides, w, x := []int{4, 2}, 12, 14 // panels for 1, 2 … tokens
	if s.halves == 1 {
		sides, w, x = []int{4, 4, 2, 2, 2, 2, 2}, 16, 24
	}
	for _, format := range []string{"f32", "f16", "bf16"} {
		bytes := 2
		if format == "f32" {
			bytes = 4
		}
		f.function(format+"Side"+s.name, 0,
			"w *byte, panel int, x *float32, k, n, tokens int, out *float32, stride, ahead int", fmt.Sprintf(sideDoc, sides))
		f.load("w", "AX", "panel", "BX", "x", "CX", "k", "DI", "n", "R8", "tokens", "R13", "out", "R10", "stride", "R11")
		f.ins("LEAQ", atx("BX", "BX", 2, 0), "R14")
		f.ins("SHLQ", "$2", "R11")
		f.ins("SHLQ", "$2", "R13")
		f.load("ahead", "R15")
		f.ins("ADDQ", "AX", "R15")
		f.dispatch("R8", len(sides))
		for T := len(sides); T >= 1; T-- {
			panels := sides[T-1]
			acc := func(t, p, h int) int { return (t*panels+p)*s.halves + h }
			of := func(base string, p, off int) string { // of panel p
				switch p {
				case 0:
					return at(base, off)
				case 3:
					return atx(base, "R14", 1, off)
				}
				return atx(base, "BX", p, off)
			}
			f.label(fmt.Sprintf("t%d", T))
			sums := func(move func(mem, reg string)) { // of one token after the other
				f.ins("MOVQ", "R10", "R9")
				for t := range T {
					if t > 0 {
						f.ins("ADDQ", "R11", "R9")
					}
					for p := range panels {
						for h := range s.halves {
							move(at("R9", 64*p+32*h), s.reg(acc(t, p, h)))
						}
					}
				}
			}
			sums(func(mem, reg string) { f.ins("VMOVUPS", mem, reg) })
			f.label(fmt.Sprintf("loop%d", T))
			for c := range 2 {
				for t := range T {
					from := at("CX", 4*t)
					if c == 1 {
						from = atx("CX", "R13", 1, 4*t)
					}
					f.ins("VBROADCASTSS", from, s.reg(x+t))
				}
				for p := range panels {
					if off := 16 * bytes * c; off%64 == 0 {
						f.ins("PREFETCHT0", of("R15", p, off))
					}
					for h := range s.halves {
						f.loadFloats(s, format, of("AX", p, (16*c+h*s.lanes())*bytes), w+h)
					}
					for t := range T {
						for h := range s.halves {
							f.ins("VFMADD231PS", s.reg(x+t), s.reg(w+h), s.reg(acc(t, p, h)))
						}
					}
				}
			}
			f.ins("ADDQ", imm(2*16*bytes), "AX")
			f.ins("ADDQ", imm(2*16*bytes), "R15")
			f.ins("LEAQ", atx("CX", "R13", 2, 0), "CX")
			f.ins("SUBQ", "$2", "DI")
			f.ins("JNZ", fmt.Sprintf("loop%d", T))
			sums(func(mem, reg string) { f.ins("VMOVUPS", reg, mem) })
			f.ret()
		}
	}
}
