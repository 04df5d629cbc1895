package main

import "fmt"

// The loop nest of AVX-512: tokens (one kernel's code for each number) > blocks or super-blocks > blocks > groups.
//
//	Z0-7 integer sums of the tokens  Z16-23 float sums
//	Z24 weights  Z25-26 scratch  Z27 and Z12-13 what the type keeps for a super-block  Z28-31 its constants
//	Z8-15 the second sums of pairs; otherwise Z8 scales, Z9 minimums, Z10-11 and Z14-15 scratch
type parts512 struct {
	constants func(f *file)            // fills registers once
	super     func(f *file)            // at the beginning of a super-block
	next      func(f *file, phase int) // after a block of a super-block
	before    func(f *file)            // before the groups of a block
	half      func(f *file, c int)     // pairs: before the groups of a half

	// unpack writes a group's weights to Z24, with dual also those of group g+4 to Z25, from AX+64*g. phase is the block's
	// place among the phases blocks that are written out, because they differ.
	unpack func(f *file, phase, g int)
	phases int
	dual   bool
	flat   bool // groups are not looped over

	// scales reads the scales of a block: Z8 and the minimums in Z9, or those of pairs in Z24 and Z25. minimums reads
	// those of pairs, as pairs of 16 bits, to Z24; their factor is Z28.
	scales   func(f *file, phase int)
	minimums func(f *file, phase int)
}

// matmul512 writes the kernels of all types.
func matmul512(f *file) {
	for _, w := range allWeights {
		f.nest512(w)
	}
	q8Pair512(f)
	q4Pair512(f)
}

func (f *file) nest512(w *weights) {
	f.function(w.name+"AVX512", 0, w.params(), w.doc)
	f.arguments(w)
	p := &w.vec512
	if p.constants != nil {
		p.constants(f)
	}
	f.dispatch("R8", 8)
	for T := 8; T >= 1; T-- {
		f.label(fmt.Sprintf("t%d", T))
		if f.prefetch = "PREFETCHT1"; T == 1 { // asm/_gen/README.md, "Memory"
			f.prefetch = "PREFETCHT0"
		}
		for t := range T {
			f.ins("VPXORD", z(16+t), z(16+t), z(16+t))
		}
		f.label(fmt.Sprintf("loop%d", T))
		if w.super == 0 {
			f.block512(w, T, 0)
			f.nextBlock(w)
		} else {
			f.super512(w, T)
		}
		f.ins("DECQ", "DI")
		f.ins("JNZ", fmt.Sprintf("loop%d", T))
		for t := range T {
			if t > 0 {
				f.ins("ADDQ", "R11", "R10")
			}
			f.ins("VMOVUPS", z(16+t), at("R10", 0))
		}
		f.ret()
	}
}

// super512 is a loop over the blocks of a super-block, or over as many of them as the type writes out. R9 counts.
func (f *file) super512(w *weights, T int) {
	p := &w.vec512
	p.super(f)
	label := fmt.Sprintf("blocks%d", T)
	runs := max(1, p.phases)
	f.ins("MOVQ", imm(8/runs), "R9")
	f.label(label)
	for phase := range runs {
		f.block512(w, T, phase)
		p.next(f, phase)
	}
	f.ins("DECQ", "R9")
	f.ins("JNZ", label)
	f.ins("ADDQ", imm(w.super-w.quants), "AX")
}

// block512 multiplies and adds one block.
func (f *file) block512(w *weights, T, phase int) {
	p := &w.vec512
	f.start512(w, T)
	if p.before != nil {
		p.before(f)
	}
	lines := w.lines()
	switch {
	case w.pairs:
		every := 2
		if lines > 5 {
			every = 1
		}
		for c := range 2 {
			step := 4
			if !p.flat && (p.phases > 1 && T > 2 || T > 4) {
				step = 2
			}
			if p.half != nil {
				p.half(f, c)
			}
			f.groupLoop("R12", 4, step, 4*c/every, every, func(g int) {
				p.unpack(f, phase, 4*c+g)
				for t := range T {
					f.ins("VPDPBUSD.BCST", at("CX", 32*t+16*c+4*g), z(24), z(8*c+t))
				}
			})
		}
		f.linesAfter(8/every, lines)
		f.pairs512(w, T, phase)
	case p.dual:
		step := 4
		switch {
		case T > 4:
			step = 1
		case T > 2:
			step = 2
		}
		f.groupLoop("R12", 4, step, 0, 1, func(g int) {
			p.unpack(f, phase, g)
			for v := range 2 {
				for t := range T {
					f.ins("VPDPBUSD.BCST", at("CX", 32*t+16*v+4*g), z(24+v), z(t))
				}
			}
		})
		f.linesAfter(4, lines)
		f.scale512(w, T, phase)
	default:
		step, every := 8, 2
		if w.super == 0 {
			every = 1
		}
		if T > 4 && w.super == 0 || p.phases > 1 && T > 2 {
			step = 4
		}
		f.groupLoop("R12", 8, step, 0, every, func(g int) {
			p.unpack(f, phase, g)
			for t := range T {
				f.product512(w, T, t, g)
			}
		})
		f.linesAfter(8/every, lines)
		f.scale512(w, T, phase)
	}
	f.nextActivations(w)
	f.prefetchNext()
}

// linesAfter prefetches the lines of a block that were not prefetched between its groups.
func (f *file) linesAfter(done, lines int) {
	for i := done; i < lines; i++ {
		f.prefetchLine(i)
	}
}

// start512 starts the integer sums.
func (f *file) start512(w *weights, T int) {
	sums := 1
	if w.pairs {
		sums = 2
	}
	for c := range sums {
		for t := range T {
			switch {
			case w.zero:
				f.ins("VPXORD", z(8*c+t), z(8*c+t), z(8*c+t))
			case w.shift <= 0:
				f.ins("VPBROADCASTD", w.sumsAt(t, c), z(8*c+t))
				if w.shift < 0 {
					f.ins("VPADDD", z(8*c+t), z(8*c+t), z(8*c+t))
				}
			default:
				f.ins("VPSRAD.BCST", imm(w.shift), w.sumsAt(t, c), z(8*c+t))
			}
		}
	}
}

// product512 adds the products of group g's weights and token t's activations. For few tokens loads are the limit, two
// per cycle: there one load takes the first token's first 16 activations, and shuffles broadcast them. More shuffles
// would be faster on Zen 5 and slower on cores that multiply and shuffle on the same two ports.
func (f *file) product512(w *weights, T, t, g int) {
	if w.super > 0 || T > 4 || t > 0 || g >= 4 {
		f.ins("VPDPBUSD.BCST", at("CX", 32*t+4*g), z(24), z(t))
		return
	}
	if g == 0 {
		f.ins("VBROADCASTI32X4", at("CX", 0), z(14))
	}
	f.ins("VPSHUFD", imm(0x55*g), z(14), z(15))
	f.ins("VPDPBUSD", z(15), z(24), z(t))
}

// scale512 adds a block's sums: acc = fma(float(isum), dw*dx, acc); with minimums also acc = fma(minimum, dsum, acc).
func (f *file) scale512(w *weights, T, phase int) {
	w.vec512.scales(f, phase)
	for t := range T {
		s := 10 + t&1
		f.ins("VCVTDQ2PS", z(t), z(t))
		f.ins("VMULPS.BCST", at("DX", 4*t), z(8), z(s))
		f.ins("VFMADD231PS", z(s), z(t), z(16+t))
		if w.min {
			f.ins(w.minOp(), w.sumsAt(t, 0), z(9), z(16+t))
		}
	}
}

// pairs512 adds the sums of both halves of a block: acc = fma(float(sc0*isum0 + sc1*isum1), d*dx, acc). The integer is
// exact as a float: below 2^24.
func (f *file) pairs512(w *weights, T, phase int) {
	w.vec512.scales(f, phase)
	for t := range T {
		f.ins("VCVTDQ2PS", z(t), z(t))
		f.ins("VCVTDQ2PS", z(8+t), z(8+t))
		f.ins("VMULPS", z(24), z(t), z(t))
		f.ins("VFMADD231PS", z(25), z(8+t), z(t))
		f.ins("VMULPS.BCST", at("DX", 4*t), z(27), z(26))
		f.ins("VFMADD231PS", z(26), z(t), z(16+t))
	}
	if !w.min {
		return
	}
	// acc = fma(float(-u), dmin*dx, acc), u = mn0*sum0 + mn1*sum1: half is -32 times the sums
	w.vec512.minimums(f, phase)
	for t := range T {
		f.ins("VPBROADCASTQ", w.sumsAt(t, 0), z(25))
		f.ins("VPSRAD", "$5", z(25), z(25))
		f.ins("VPACKSSDW", z(25), z(25), z(25))
		f.ins("VPMADDWD", z(24), z(25), z(25))
		f.ins("VCVTDQ2PS", z(25), z(25))
		f.ins("VMULPS.BCST", at("DX", 4*t), z(28), z(26))
		f.ins("VFMADD231PS", z(26), z(25), z(16+t))
	}
}

// broadcast512 fills a register with a constant.
func (f *file) broadcast512(v uint32, reg int) {
	f.ins("MOVL", fmt.Sprintf("$0x%08x", v), "R9")
	f.ins("VPBROADCASTD", "R9", z(reg))
}

// blockScales512 reads the float16 scales of a block of a pair.
func blockScales512(f *file, _ int) { f.ins("VCVTPH2PS", blockScales(0), z(8)) }
