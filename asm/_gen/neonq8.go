package main

import (
	"fmt"
	"slices"
)

// q8Pairs is the nest for Q8_0 without SDOT, quads written out. |w*x| can be 128*127, so that only two products fit
// into 16 bits. The multiplier is the bottleneck. So that it does not wait for instructions that depend on a sum, a
// token's sums are scaled while those of the next token are computed.
func (f neonFile) q8Pairs(s neonISA, w *neonWeights) {
	f.function(w.name+s.name, 0, w.params(), neonDoc(w.weights))
	f.args("w", "R0", "q", "R2", "d", "R3", w.sums, "R4", w.count(), "R5", "n", "R6", "tokens", "R7", "out", "R8",
		"stride", "R9")
	f.strides()
	w.begin(f)
	f.choose("R6", s.most)
	for T := s.most; T > 0; T-- {
		f.label(fmt.Sprintf("t%d", T))
		f.q8PairsOf(w, T)
	}
}

func (f neonFile) q8PairsOf(weights *neonWeights, T int) {
	var free registers
	facc, iacc := free.take(4*T), free.take(8)
	w, p, x, raw := free.take(2), free.take(2), free.take(2), free.take(1)
	dx, dw, scales := free.take(1), free.take(4), free.take(4) // scales = dw*dx
	sum := func(quad int) int { return iacc + 2*quad }

	finish := func(t, i int) []instr { // scales quad i of token t
		return f.lines(func() {
			f.ins("VADDP", v(sum(i)+1, "S4"), v(sum(i), "S4"), v(sum(i), "S4"))
			f.op("SCVTF4", sum(i), sum(i))
			f.ins("VFMLA", v(scales+i, "S4"), v(sum(i), "S4"), v(facc+4*t+i, "S4"))
		})
	}
	f.clear(0, 32)
	f.label(fmt.Sprintf("loop%d", T))
	f.prefetch(0, 512)
	for t := range T {
		between := f.lines(func() {
			if t == 0 {
				f.halves("R1", 0, 4, dw)
			}
			f.ins("FMOVS", at("R3", 4*t), q(dx))
			for i := range 4 {
				f.op("FMULI", 0, dx, dw+i, scales+i)
			}
		})
		multiplications := 0
		multiply := func(op string, m, n, d int, then []instr) []instr {
			f.op(op, m, n, d)
			multiplications++
			if len(then) == 0 && multiplications > 24 && multiplications%3 == 0 && len(between) > 0 {
				then, between = between[:1], between[1:]
			}
			if len(then) == 0 {
				return nil
			}
			f.emit(then[0])
			return then[1:]
		}
		for g := 0; g < 8; g += 2 {
			if g%4 == 0 {
				f.ins("FMOVQ", at("R2", 32*t+4*g), q(raw))
			}
			f.ins("VDUP", vlane(raw, g%4), v(x, "S4"))
			f.ins("VDUP", vlane(raw, g%4+1), v(x+1, "S4"))
			for i := range 4 {
				f.ins("FMOVQ", at("R0", 64*g+16*i), q(w))
				f.ins("FMOVQ", at("R0", 64*g+64+16*i), q(w+1))
				add := "SADALP"
				var then []instr
				if g == 0 {
					add, then = "SADDLP", finish((t+T-1)%T, i)
				}
				then = multiply("SMULL", x, w, p, then)
				then = multiply("SMULL2", x, w, p+1, then)
				then = multiply("SMLAL", x+1, w+1, p, then)
				multiply("SMLAL2", x+1, w+1, p+1, then)
				f.op(add, p, sum(i))
				f.op(add, p+1, sum(i)+1)
			}
		}
		if len(between) > 0 {
			panic("no place left between multiplications")
		}
	}
	f.ins("ADD", "R10", "R2")
	f.ins("ADD", "R7", "R3")
	weights.next(f, nil)
	f.ins("SUB", "$1", "R5")
	f.ins("CBNZ", "R5", fmt.Sprintf("loop%d", T))
	for i := range 4 { // what the last block left
		f.emit(finish(T-1, i)...)
	}
	for t := range T {
		f.storeVectors("R8", 0, facc+4*t, 4)
		if t < T-1 {
			f.ins("ADD", "R9", "R8")
		}
	}
	f.done()
}

// lines returns the instructions that write would add to the function.
func (f neonFile) lines(write func()) []instr {
	before := len(f.fn.code)
	write()
	added := slices.Clone(f.fn.code[before:])
	f.fn.code = f.fn.code[:before]
	return added
}
