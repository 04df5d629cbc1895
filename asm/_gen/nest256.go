package main

import (
	"fmt"
	"math"
)

// The loop nest of AVX2 and AVX-VNNI: units > parts of the tokens > halves of the rows > blocks > groups. A unit is a
// block, or as many blocks of a super-block as the type writes out. There is one kernel's code for each of 1 to 4
// tokens; 5 to 8 are two parts, each with its code, or a loop over the halves of the rows for all of them
// (weights.whole). 16 rows are two halves of 8: where registers suffice both at once, else one after the other, as a
// loop.
//
//	Y0-7 integer sums  Y8-9 weights  Y10 activations or their scale  Y11-13 scratch, scales  Y14-15 mostly constants
//	AX quants  BX scales: relative to AX in pairs  DI counts groups  R14 the super-block  R12 the type's
//	R9 from one part's activations to the next one's, as many bytes of d; 0 with a single part
//
// There are too few registers for the float sums of 8 tokens, so they are kept in out itself, at R10 + R11 * {0, 1, 2,
// 4}, + R8 (3 strides) * {1, 2}, and in kernels for a whole tile + R9 (5 strides), + R12 (7 strides). Of 5 to 8 tokens
// they are kept in local memory: in out their rows lie a multiple of 4 KB apart as a rule, and 8 lines at such
// addresses fill one set of an L1 cache of 8 ways.
type parts256 struct {
	constants func(f *file, vnni bool) // fills registers once
	super     func(f *file)            // points BX, and R12, into the super-block at AX
	next      func(f *file)            // moves AX, BX, and R12, to the next unit of a super-block
	before    func(f *file, vnni bool) // before the groups of a block

	// unpack unpacks a group's weights, of half h of the rows, to Y(reg), from AX+64*g+32*h; with dual, of nibble v. phase
	// is the block's place in the unit. Y13 is free, and Y11 before the activations.
	unpack func(f *file, vnni bool, phase, g, v, h, reg int)
	phases int
	dual   bool
	flat   bool // groups are not looped over, for not all of their bytes lie 64 bytes apart

	scales   func(f *file, phase, h, reg int) // the block's, as floats; Y11 is free
	minimums func(f *file, phase, h, reg int)
	integers func(f *file, phase, c, reg int) // pairs: the scales of 16 weights, as int32; Y11 is free
	factor   func(f *file, h, reg int)        // pairs with minimums: what these, in 16 bits, are multiplied with
}

// tile256 is the part of a product that is in registers at once: n tokens with one half of the rows or both.
type tile256 struct {
	w      *weights
	vnni   bool
	n      int
	halves int
	floats bool // the sums are floats
}

// sum is the register of token t's integer sums, half h.
func (u tile256) sum(t, h int) int { return u.halves*t + h }

// each calls do for every token and half.
func (u tile256) each(do func(t, h, sum int)) {
	for t := range u.n {
		for h := range u.halves {
			do(t, h, u.sum(t, h))
		}
	}
}

// wide reports whether AVX2 sums products in 32 bits, pairs of groups at a time.
func (u tile256) wide() bool { return !u.vnni && u.w.half() }

// half reports whether kernels hold one half of the rows in registers.
func (w *weights) half() bool { return !w.folds() && (w.pairs || !w.signed && !w.small) }

// folds reports whether kernels multiply from the buffer by fold256.
func (w *weights) folds() bool { return w.buffer && w.fold > 0 }

// foldsTwice reports whether a block has two sums of 16 bits, of which the first waits in local memory.
func (w *weights) foldsTwice() bool { return w.folds() && w.fold == 4 }

// wraps reports whether the products of w.fold groups fit into 16 bits only without what the offset adds to weights. In
// the buffer it is taken away beforehand, modulo 2^16.
func (w *weights) wraps() bool { return (2*w.offset()-1)*127*2*w.fold > math.MaxInt16 }

// outAt is the address of token t's row, half h.
func outAt(t, h int) string {
	off := 32 * h
	switch t {
	case 0:
		return at("R10", off)
	case 1, 2, 4:
		return atx("R10", "R11", t, off)
	case 3, 6:
		return atx("R10", "R8", t/3, off)
	case 5:
		return atx("R10", "R9", 1, off)
	}
	return atx("R10", "R12", 1, off)
}

// units is the number of blocks in a unit.
func (p *parts256) units() int { return max(1, p.phases) }

// Values that have no register are kept in the memory of parameters that are no longer used.
const (
	slotHalf  = "w" // 1 in the second half
	slotPart  = "q" // 1 in the second part
	slotCount = "d" // tokens of this part
	slotOther = "n" // that, xor those of the other part
	slotOut   = "out"
)

func (f *file) nest256(w *weights, vnni bool) {
	set := "AVX2"
	if vnni {
		set = "AVXVNNI"
	}
	doc := w.doc
	if !vnni && w.signedDoc != "" {
		doc = w.signedDoc
	}
	p := &w.vec256
	frame := frame256
	if w.buffer { // out is memory of its own
		frame = 0
		if w.foldsTwice() {
			frame = frameFold
		}
	}
	f.function(w.name+set, frame, w.params(), doc)
	f.arguments(w)
	if w.foldsTwice() {
		f.ins("LEAQ", at("SP", 31), "R15")
		f.ins("ANDQ", "$-32", "R15")
	}
	if p.constants != nil {
		p.constants(f, vnni)
	}
	if !w.buffer {
		f.zeroOut256()
	}
	if w.super > 0 {
		f.ins("MOVQ", "AX", "R14")
		p.super(f)
	}
	halves := 2
	if w.half() {
		halves = 1
	}
	whole := w.whole && !vnni
	most := 4
	if whole {
		most = 8
	}
	f.ins("MOVQ", "$0", f.arg(slotHalf))
	f.ins("XORQ", "R9", "R9")
	if !whole {
		f.ins("CMPQ", "R8", "$4")
		f.ins("JGT", "parts")
	}
	if halves == 1 {
		f.halveStep(w)
	}
	f.ins("MOVQ", "R8", "DI")
	f.ins("LEAQ", "(R11)(R11*2)", "R8")
	f.dispatch("DI", most)
	for n := most; n >= 1; n-- {
		f.label(fmt.Sprintf("t%d", n))
		h := halves
		if n > 4 {
			h = 1
			f.halveStep(w)
			f.ins("LEAQ", "(R11)(R11*4)", "R9")
			f.ins("LEAQ", "(R8)(R11*4)", "R12")
		}
		f.label(fmt.Sprintf("loop%d", n))
		f.unit256(tile256{w: w, vnni: vnni, n: n, halves: h})
		if !whole {
			f.ins("TESTQ", "R9", "R9")
			f.ins("JNE", "part")
		}
		f.nextUnit256(w, fmt.Sprintf("loop%d", n))
		if n > 4 {
			f.ins("JMP", "output")
		} else {
			f.ret()
		}
	}
	if !whole {
		f.parts256(w, halves)
	}
	if !w.buffer {
		f.label("output")
		f.output256()
	}
}

// The local memory: the sums of 8 tokens from a cache line on, and two parameters that are needed at the end.
const (
	localOut    = 8*64 + 64
	localTokens = localOut + 8
	frame256    = localOut + 16
)

// localSums loads the address of the sums in local memory.
func (f *file) localSums(reg string) {
	f.ins("LEAQ", at("SP", 63), reg)
	f.ins("ANDQ", "$-64", reg)
}

// output256 writes the sums in local memory to out.
func (f *file) output256() {
	f.localSums("R9")
	f.ins("MOVQ", at("SP", localOut), "R10")
	f.ins("MOVQ", at("SP", localTokens), "R8")
	f.load("stride", "R11")
	f.label("row")
	for h := range 2 {
		f.ins("VMOVUPS", at("R9", 32*h), y(h))
		f.ins("VMOVUPS", y(h), at("R10", 32*h))
	}
	f.ins("ADDQ", "$64", "R9")
	f.ins("LEAQ", "(R10)(R11*4)", "R10")
	f.ins("DECQ", "R8")
	f.ins("JNZ", "row")
	f.ret()
}

// zeroOut256 clears R8 tokens' sums: in out, or, of more than 4, in local memory, which R10 and R11 then address.
func (f *file) zeroOut256() {
	f.ins("CMPQ", "R8", "$4")
	f.ins("JLE", "few")
	f.ins("MOVQ", "R10", at("SP", localOut))
	f.ins("MOVQ", "R8", at("SP", localTokens))
	f.localSums("R10")
	f.ins("MOVQ", "$64", "R11")
	f.label("few")
	f.ins("VPXOR", y(0), y(0), y(0))
	f.ins("MOVQ", "R10", "R9")
	f.ins("MOVQ", "R8", "R12")
	f.label("zero")
	f.ins("VMOVUPS", y(0), at("R9", 0))
	f.ins("VMOVUPS", y(0), at("R9", 32))
	f.ins("ADDQ", "R11", "R9")
	f.ins("DECQ", "R12")
	f.ins("JNZ", "zero")
}

// halveStep halves the bytes to prefetch per block: the code of each half of the rows, or of each part of the tokens,
// prefetches half.
func (f *file) halveStep(w *weights) {
	if w.buffer {
		return
	}
	f.ins("MOVQ", f.arg("step"), "DI")
	f.ins("INCQ", "DI")
	f.ins("SHRQ", "$1", "DI")
	f.ins("MOVQ", "DI", f.arg("step"))
}

// nextUnit256 moves on to the next unit and jumps to label loop, or falls through at the end.
func (f *file) nextUnit256(w *weights, loop string) {
	if w.super == 0 {
		f.nextBlock(w)
	} else {
		w.vec256.next(f)
		if w.vec256.units() < 8 {
			f.ins("LEAQ", at("R14", w.quants), "DI")
			f.ins("CMPQ", "AX", "DI")
			f.ins("JNE", loop)
		}
		f.ins("LEAQ", at("R14", w.super), "AX")
		f.ins("MOVQ", "AX", "R14")
		w.vec256.super(f)
	}
	f.ins("DECQ", f.arg(w.count()))
	f.ins("JNZ", loop)
}

// parts256 divides 5 to 8 tokens, whose number is in R8, into two parts, and alternates between them within each unit.
func (f *file) parts256(w *weights, halves int) {
	units := w.vec256.units()
	f.label("parts")
	f.halveStep(w)
	if halves == 1 {
		f.halveStep(w)
	}
	f.ins("MOVQ", "$0", f.arg(slotPart))
	f.ins("LEAQ", "1(R8)", "R9") // the first part: (n+1)/2 tokens
	f.ins("SHRQ", "$1", "R9")
	f.ins("SUBQ", "R9", "R8")
	f.ins("XORQ", "R9", "R8")
	f.ins("MOVQ", "R8", f.arg(slotOther))
	f.ins("MOVQ", "R9", f.arg(slotCount))
	f.ins("MOVQ", "R11", "DI") // out of one part, xor that of the other
	f.ins("IMULQ", "R9", "DI")
	f.ins("ADDQ", "R10", "DI")
	f.ins("XORQ", "R10", "DI")
	f.ins("MOVQ", "DI", f.arg(slotOut))
	f.ins("LEAQ", "(R11)(R11*2)", "R8")
	f.ins("SHLQ", "$2", "R9")
	f.backBy(units, "R9")
	f.ins("JMP", "choose")

	f.label("part") // a part is done
	f.ins("ADDQ", "R9", "DX")
	f.moveQuants(w, "R9")
	f.moveSums(w, "R9")
	f.ins("NEGQ", "R9")
	f.backBy(units, "R9")
	f.ins("XORQ", f.arg(slotOut), "R10")
	f.ins("MOVQ", f.arg(slotOther), "DI")
	f.ins("XORQ", "DI", f.arg(slotCount))
	f.ins("XORQ", "$1", f.arg(slotPart))
	f.ins("JNE", "choose")
	f.nextUnit256(w, "choose")
	if w.buffer {
		f.ret()
	} else {
		f.ins("JMP", "output")
	}
	f.label("choose")
	f.ins("MOVQ", f.arg(slotCount), "DI")
	f.ins("CMPQ", "DI", "$3")
	f.ins("JEQ", "loop3")
	f.ins("JGT", "loop4")
	f.ins("JMP", "loop2")
}

// backBy subtracts the size of a unit's d from a register.
func (f *file) backBy(units int, reg string) {
	for range units {
		f.ins("SUBQ", "R13", reg)
	}
}

// unit256 multiplies a unit, adds the products, and advances the pointers to activations, but not those to weights.
func (f *file) unit256(u tile256) {
	w := u.w
	f.loops++
	half := fmt.Sprintf("half%d", f.loops)
	if u.halves == 1 {
		f.label(half)
	}
	for phase := range w.vec256.units() {
		switch {
		case w.words:
			f.words256(u)
		case w.folds():
			f.fold256(u)
		case w.pairs && u.vnni:
			f.pairs256(u, phase)
		case u.wide():
			f.wide256(u, phase)
		default:
			f.block256(u, phase)
		}
		f.nextActivations(w)
		if !w.buffer {
			f.prefetchNext()
		}
	}
	if u.halves == 2 {
		return
	}
	move := func(sign int) {
		f.ins("ADDQ", imm(32*sign), "AX")
		f.ins("ADDQ", imm(32*sign), "R10")
		if w.super == 0 {
			f.ins("SUBQ", imm((32-8*w.scaleBytes)*sign), "BX")
			return
		}
		f.ins("ADDQ", imm(8*sign), "BX")
		f.ins("ADDQ", imm(16*sign), "R14")
	}
	move(1)
	f.ins("XORQ", "$1", f.arg(slotHalf))
	f.ins("JEQ", half+"done")
	f.ins("XORQ", "DI", "DI")
	f.backBy(w.vec256.units(), "DI")
	f.ins("ADDQ", "DI", "DX")
	f.moveQuants(w, "DI")
	f.moveSums(w, "DI")
	f.ins("JMP", half)
	f.label(half + "done")
	move(-2)
}

// block256 multiplies one block of weights that have one scale, and adds the products. Without VNNI, sums of a block's
// products fit into 16 bits, or weights are signed.
func (f *file) block256(u tile256, phase int) {
	w, p := u.w, &u.w.vec256
	if p.before != nil {
		p.before(f, u.vnni)
	}
	groups, every := 8, 2
	if p.dual {
		groups = 4
	}
	lines := w.lines()
	if u.halves == 1 {
		lines = (lines + 1) / 2
	}
	if lines >= groups {
		every = 1
	}
	step := groups
	if !p.flat && (u.n > 2 || p.dual && u.n > 1) {
		step = 2
		if u.n > 4 && w.super > 0 {
			step = 4
		} else if u.n > 4 || p.dual && every == 1 {
			step = 1
			every = 1
		}
	}
	nibbles := 1
	if p.dual {
		nibbles = 2
	}
	if w.buffer {
		every, lines = 0, 0
	}
	starts := !u.vnni && w.small && step >= groups // the first products start the sums
	switch {
	case (u.vnni || w.raised) && !w.zero:
		f.bias256(u)
	case !starts:
		u.each(func(_, _, sum int) { f.zero(avx2, sum) })
	}
	f.groupLoop("DI", groups, step, 0, every, func(g int) {
		for v := range nibbles {
			for h := range u.halves {
				p.unpack(f, u.vnni, phase, g, v, h, 8+h)
				if !u.vnni && w.signed && !w.raised {
					f.ins("VPABSB", y(8+h), y(13+h))
				}
			}
			f.dots256(u, g, 16*v+4*g, starts && g+v == 0)
		}
	})
	if every > 0 {
		f.linesAfter(groups/every, lines)
	}
	if !u.vnni && !w.signed {
		u.each(func(t, h, sum int) {
			f.ins("VPMADDWD", ones, y(sum), y(sum))
			if w.zero {
				return
			}
			if h == 0 {
				f.ins("VPBROADCASTD", w.sumsAt(t, 0), y(10))
				if w.odd { // -15 times the sum, of -128 times it
					f.ins("VPSRAD", "$7", y(10), y(11))
					f.ins("VPSLLD", "$4", y(11), y(10))
					f.ins("VPSUBD", y(11), y(10), y(10))
				} else {
					f.ins("VPSRAD", imm(w.shift), y(10), y(10))
				}
			}
			if w.odd {
				f.ins("VPADDD", y(sum), y(sum), y(sum))
			}
			f.ins("VPADDD", y(10), y(sum), y(sum))
		})
	}
	f.scale256(u, phase)
}

// bias256 starts sums at the tokens' biases, shifted right.
func (f *file) bias256(u tile256) {
	u.each(func(t, h, sum int) {
		if h > 0 {
			f.ins("VMOVDQA", y(u.sum(t, 0)), y(sum))
			return
		}
		f.ins("VPBROADCASTD", u.w.sumsAt(t, 0), y(sum))
		if u.w.shift > 0 {
			f.ins("VPSRAD", imm(u.w.shift), y(sum), y(sum))
		}
	})
}

// dots256 multiplies the weights in Y8 and Y9 with the 4 activations of each token at offset off, and adds or starts
// sums.
func (f *file) dots256(u tile256, g, off int, start bool) {
	u.each(func(t, h, sum int) {
		switch {
		case h > 0:
		case u.n == 1 && u.vnni && !u.w.vec256.dual && u.w.super == 0: // loads are the limit: one for four groups
			if g%4 == 0 {
				f.ins("VBROADCASTI128", at("CX", 4*g), y(11))
			}
			f.ins("VPSHUFD", imm(0x55*(g%4)), y(11), y(10))
		default:
			f.ins("VPBROADCASTD", at("CX", 32*t+off), y(10))
		}
		switch {
		case u.vnni:
			f.dpbusd256(10, 8+h, sum)
		case u.w.raised:
			f.ins("VPMADDUBSW", y(10), y(8+h), y(11))
			f.ins("VPMADDWD", y(15), y(11), y(11))
			f.ins("VPADDD", y(11), y(sum), y(sum))
		case u.w.signed:
			// |w| meets x with w's sign: two products of u8 x s8 fit into 16 bits, two of (w+128)*x do not
			f.ins("VPSIGNB", y(8+h), y(10), y(11))
			f.ins("VPMADDUBSW", y(11), y(13+h), y(11))
			f.ins("VPMADDWD", y(15), y(11), y(11))
			f.ins("VPADDD", y(11), y(sum), y(sum))
		case start:
			f.ins("VPMADDUBSW", y(10), y(8+h), y(sum))
		default:
			f.ins("VPMADDUBSW", y(10), y(8+h), y(11))
			f.ins("VPADDW", y(11), y(sum), y(sum))
		}
	})
}

// scale256 is out = fma(float(isum), dw*dx, out); with minimums of 32 weights also fma(minimum, dsum, out).
func (f *file) scale256(u tile256, phase int) {
	w := u.w
	if w.pairs && w.min {
		f.scalePairs256(u, phase)
		return
	}
	for h := range u.halves {
		w.vec256.scales(f, phase, h, 12+h)
		if w.min {
			w.vec256.minimums(f, phase, h, 8+h)
		}
	}
	dsum := 10
	if w.buffer { // which takes no constants
		dsum = 14
	}
	u.each(func(t, h, sum int) {
		if !u.floats {
			f.ins("VCVTDQ2PS", y(sum), y(sum))
		}
		if h == 0 || w.min && dsum == 10 {
			f.ins("VBROADCASTSS", at("DX", 4*t), y(10))
		}
		f.ins("VMULPS", y(10), y(12+h), y(11))
		f.ins("VFMADD213PS", outAt(t, h), y(11), y(sum))
		if w.min {
			if h == 0 || dsum == 10 {
				f.ins("VBROADCASTSS", w.sumsAt(t, 0), y(dsum))
			}
			f.ins(w.minOp256(), y(dsum), y(8+h), y(sum))
		}
		f.ins("VMOVUPS", y(sum), outAt(t, h))
	})
}

// scalePairs256 is out = fma(float(isum), dw*dx, out), then fma(float(-u), dmin*dx, out), u = mn0*sum0 + mn1*sum1.
func (f *file) scalePairs256(u tile256, phase int) {
	w, p := u.w, &u.w.vec256
	scale, product := func(h int) string { return blockScales(32 * h) }, y(14)
	if w.buffer {
		for h := range u.halves {
			f.ins("VMOVDQU", blockScales(bufferMinimums+32*h), y(8+h))
			f.ins("VMOVUPS", blockScales(bufferFactor+32*h), y(12+h))
		}
	} else { // one half of the rows, and a constant in Y14
		scale, product = func(int) string { return y(13) }, y(9)
		p.minimums(f, phase, 0, 8)
		p.minimums(f, phase, 1, 9)
		f.pair16(8, 9)
		p.factor(f, 0, 12)
		p.scales(f, phase, 0, 13)
	}
	u.each(func(t, h, sum int) {
		if h == 0 {
			f.halfSums(w, t)
			f.ins("VBROADCASTSS", at("DX", 4*t), y(11))
		}
		if !u.floats {
			f.ins("VCVTDQ2PS", y(sum), y(sum))
		}
		f.ins("VMULPS", scale(h), y(11), product)
		f.ins("VFMADD213PS", outAt(t, h), product, y(sum))
		f.ins("VPMADDWD", y(8+h), y(10), y(15))
		f.ins("VCVTDQ2PS", y(15), y(15))
		f.ins("VMULPS", y(12+h), y(11), product)
		f.ins("VFMADD231PS", product, y(15), y(sum))
		f.ins("VMOVUPS", y(sum), outAt(t, h))
	})
}

// wide256 multiplies one block, one half of the rows, and adds the products, without VNNI: the products of two groups
// are summed in 16 bits, and VPMADDWD multiplies the sums with ones, or with the scale of 16 weights, on the way to 32.
func (f *file) wide256(u tile256, phase int) {
	w, p := u.w, &u.w.vec256
	u.each(func(t, _, sum int) {
		if w.pairs || w.zero {
			f.zero(avx2, sum)
		} else {
			f.ins("VPBROADCASTD", w.sumsAt(t, 0), y(sum))
			f.ins("VPSRAD", imm(w.shift), y(sum), y(sum))
		}
	})
	if p.before != nil {
		p.before(f, false)
	}
	lines := (w.lines() + 1) / 2
	for c := range 2 {
		if w.pairs {
			f.scalePair256(w, phase, c, 12)
		}
		for g := 4 * c; g < 4*c+4; g += 2 {
			if g/2 < lines {
				f.prefetchLine(g / 2)
			}
			for j := range 2 {
				if p.dual {
					p.unpack(f, false, phase, (g+j)%4, c, 0, 8+j)
				} else {
					p.unpack(f, false, phase, g+j, 0, 0, 8+j)
				}
			}
			for t := range u.n {
				for j := range 2 {
					f.ins("VPBROADCASTD", at("CX", 32*t+4*(g+j)), y(10+j))
					f.ins("VPMADDUBSW", y(10+j), y(8+j), y(10+j))
					if w.apart {
						f.ins("VPMADDWD", y(12), y(10+j), y(10+j))
						f.ins("VPADDD", y(10+j), y(t), y(t))
					}
				}
				if w.apart {
					continue
				}
				f.ins("VPADDW", y(11), y(10), y(10))
				if w.pairs {
					f.ins("VPMADDWD", y(12), y(10), y(10))
				} else {
					f.ins("VPMADDWD", ones, y(10), y(10))
				}
				f.ins("VPADDD", y(10), y(t), y(t))
			}
		}
	}
	f.linesAfter(4, lines)
	if w.pairs && !w.zero { // half is -32 times the sums, and weights are stored plus 32 >> shift
		p.integers(f, phase, 0, 8)
		p.integers(f, phase, 1, 9)
		f.pair16(8, 9)
		f.ins("VPSLLW", imm(5-w.shift), y(8), y(8))
		for t := range u.n {
			f.halfSums(w, t)
			f.ins("VPMADDWD", y(8), y(10), y(10))
			f.ins("VPADDD", y(10), y(t), y(t))
		}
	}
	f.scale256(u, phase)
}

// pairs256 multiplies and adds one block of two sums of 16 weights, one half of the rows, with VNNI: out =
// fma(float(sc0*isum0 + sc1*isum1), d*dx, out). The integer is exact as a float: below 2^24.
func (f *file) pairs256(u tile256, phase int) {
	w, p := u.w, &u.w.vec256
	lines := (w.lines() + 1) / 2
	if p.before != nil {
		p.before(f, true)
	}
	for c := range 2 {
		for t := range u.n {
			if w.zero {
				f.zero(avx2, 4*c+t)
				continue
			}
			f.ins("VPBROADCASTD", w.sumsAt(t, c), y(4*c+t))
			switch {
			case w.shift > 0:
				f.ins("VPSRAD", imm(w.shift), y(4*c+t), y(4*c+t))
			case w.shift < 0:
				f.ins("VPBROADCASTD", w.sumsAt(t, c), y(10))
				f.ins("VPADDD", y(10), y(4*c+t), y(4*c+t))
			}
		}
		for g := 4 * c; g < 4*c+4; g++ {
			if g%2 == 0 && g/2 < lines {
				f.prefetchLine(g / 2)
			}
			p.unpack(f, true, phase, g, 0, 0, 8)
			for t := range u.n {
				f.ins("VPBROADCASTD", at("CX", 32*t+4*g), y(10))
				f.dpbusd256(10, 8, 4*c+t)
			}
		}
		p.integers(f, phase, c, 8)
		f.ins("VCVTDQ2PS", y(8), y(8))
		for t := range u.n {
			f.ins("VCVTDQ2PS", y(4*c+t), y(4*c+t))
			if c == 0 {
				f.ins("VMULPS", y(8), y(t), y(t))
			} else {
				f.ins("VFMADD231PS", y(8), y(4+t), y(t))
			}
		}
	}
	f.linesAfter(4, lines)
	u.floats = true
	f.scale256(u, phase)
}

// pair16 packs the int32 numbers of two registers into pairs of 16 bits, in the first one.
func (f *file) pair16(first, second int) {
	f.ins("VPSLLD", "$16", y(second), y(second))
	f.ins("VPBLENDW", "$0xAA", y(second), y(first), y(first))
}

// halfSums makes Y10 the pair of 16 bits -sum0, -sum1 of a token's halves, of which Tile.Half is 32 times as much.
func (f *file) halfSums(w *weights, t int) {
	f.ins("VPBROADCASTQ", w.sumsAt(t, 0), y(10))
	f.ins("VPSRAD", "$5", y(10), y(10))
	f.ins("VPACKSSDW", y(10), y(10), y(10))
}

// minOp256 adds the minimum times dsum.
func (w *weights) minOp256() string {
	if w.plus {
		return "VFMADD231PS"
	}
	return "VFNMADD231PS"
}

const ones = "ones<>(SB)" // 16-bit ones, with which VPMADDWD adds neighbours

// matmul256 writes the kernels of all types.
func matmul256(f *file, vnni bool) {
	f.constant("nibbles", 0x0f0f0f0f)
	if !vnni {
		f.constant("ones", 0x00010001)
	}
	for _, w := range allWeights {
		f.nest256(w, vnni)
	}
	if !vnni {
		for _, w := range aloneWeights {
			f.nest256(w, false)
		}
	}
}

// nibbles256 reads the low (0) or high (1) nibbles at mem; Y14 is their mask.
func (f *file) nibbles256(nibble int, mem string, reg int) {
	if nibble == 0 {
		f.ins("VPAND", mem, y(14), y(reg))
		return
	}
	f.ins("VMOVDQU", mem, y(reg))
	f.ins("VPSRLW", "$4", y(reg), y(reg))
	f.ins("VPAND", y(14), y(reg), y(reg))
}

// nibbleMask256 fills Y14.
func nibbleMask256(f *file, _ bool) { f.ins("VMOVDQU", "nibbles<>(SB)", y(14)) }

// blockScales256 reads the float16 scales of a block of a pair, half h.
func blockScales256(f *file, _, h, reg int) { f.ins("VCVTPH2PS", blockScales(16*h), y(reg)) }
