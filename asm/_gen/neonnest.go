package main

import "fmt"

// The nest of loops of all NEON kernels of integer weights:
//
//	for T tokens, the most first:                      written out
//		for super-blocks, or blocks of a type without:
//			for sub-blocks of 32 columns:              at run time; those that share bytes are written out
//				for quads of rows:                     written out; where that is long, at run time and around sub-blocks
//					sums of products of 8 groups of 4 weights; scale them; add
//
// "Written out" is unrolled by the generator. A type defines how its groups are unpacked (neonunpack.go) and how its
// sums are scaled (neonscale.go); neontypes.go has the layouts of panels. A vector holds 4 rows, a quad. Where quads
// are written out, float sums stay in registers. Where the loop over quads is a loop at run time, they are on the
// stack, [quad][token], and each iteration loads and stores its own.
//
//	R0 quants  R1 scales  R2 activations  R3 their scales  R4 bias, sums  R5 blocks or super-blocks  R6 n
//	R7 tokens*4  R8 out  R9 stride in bytes  R10 tokens*32
//	R11 scales of sub-blocks, or how far in a section of scales  R12 sub-blocks left  R13 the constant magic (with SDOT)
//	R14 R15 R16 R17 an iteration's quants, scales, scales of sub-blocks, float sums
//	R19 iterations of the loop over quads left  R22 scratch  R23 float sums  R24 R25 R26 an iteration's R2 R3 R4

// neonISA is a way to multiply bytes.
type neonISA struct {
	name string
	most int  // tokens at once
	sdot bool // has SDOT; else products are 16-bit numbers that are added in pairs
}

var (
	baseline = neonISA{"NEON", 2, false}
	dotprod  = neonISA{"Dotprod", 4, true}
)

// float is where a float sum of the current quads lies.
func (k *nest) float(t, i int) int {
	if k.loop {
		return k.facc + t*k.Q + i
	}
	return k.facc + 4*t + k.quad + i
}

// isum is where a sum of integers ends: without SDOT the last one where 16-bit sums were.
func (k *nest) isum(half, t, quad int) int {
	if !k.isa.sdot && (half == 1 || !k.w.pairs) {
		return k.deep + 2*(t*k.Q+quad)
	}
	return k.sum[half] + t*k.Q + quad
}

func (k *nest) label(name string)            { k.neonFile.label(fmt.Sprintf("%s%d", name, k.T)) }
func (k *nest) branch(op, reg, label string) { k.ins(op, reg, fmt.Sprintf("%s%d", label, k.T)) }

// product writes a type's kernel for an instruction set.
func (f neonFile) product(s neonISA, w *neonWeights) {
	f.function(w.name+s.name, 0, w.params(), neonDoc(w.weights))
	f.args("w", "R0", "q", "R2", "d", "R3", w.sums, "R4", w.count(), "R5", "n", "R6", "tokens", "R7", "out", "R8",
		"stride", "R9")
	f.strides()
	if s.sdot && !w.pairs {
		f.ins("MOVD", "$magic<>(SB)", "R13")
	}
	w.begin(f)
	f.choose("R6", s.most)
	for T := s.most; T > 0; T-- {
		f.fit(s, w, T)
	}
}

// fit writes the first plan for T tokens whose registers suffice.
func (f neonFile) fit(s neonISA, w *neonWeights, T int) {
	before := len(f.fn.code)
	for _, p := range w.plans(T) {
		if func() (ok bool) {
			defer func() {
				if e := recover(); e != nil && e != errRegisters {
					panic(e)
				}
			}()
			newNest(f, w, s, T, p).write()
			return true
		}() {
			return
		}
		f.fn.code = f.fn.code[:before]
	}
	panic("no plan fits for " + w.name + s.name)
}

func (k *nest) write() {
	k.label("t")
	w := k.w
	w.constants(k.neonFile, &k.unpacked)
	if k.magic >= 0 {
		k.neonFile.magic(k.magic)
	}
	k.clear(k.facc, k.faccRegisters())
	if k.loop {
		k.fn.frame = max(k.fn.frame, 8+64*k.T) // 8: the stack pointer is a multiple of 16, and its word is taken
		k.ins("ADD", "$16", "RSP", "R23")
		for i := 0; i < 64*k.T; i += 16 {
			k.ins("FMOVQ", q(k.facc), at("R23", i))
		}
	}
	if k.loop && w.super > 0 {
		k.walkQuads()
	} else {
		k.walk(k.block)
	}
	k.store()
	k.done()
}

func (k *nest) faccRegisters() int {
	if k.loop {
		return k.T * k.Q
	}
	return 4 * k.T
}

// walk writes the loop over blocks, or over super-blocks and their sub-blocks, and calls block for sub-blocks that
// share bytes. It leaves the registers of the activations at the next ones.
func (k *nest) walk(block func()) {
	w := k.w
	k.label("loop")
	if w.super > 0 {
		rest := w.scalesAt()
		k.prefetch(rest, w.super-rest)
		k.superPointers()
		k.ins("MOVD", imm(8/w.copies), "R12")
		if k.d >= 0 {
			for i := 0; i < w.superScales(); i += 4 {
				k.halves("R1", 8*i, 4, k.d+i)
			}
		}
		k.label("sub")
	}
	k.prefetch(0, w.bytes)
	block()
	if w.super > 0 {
		k.ins("ADD", imm(w.copies*w.scalesStep), "R11")
	}
	w.next(k.neonFile, func() { k.branch("CBNZ", "R12", "sub") })
	k.ins("SUB", "$1", "R5")
	k.branch("CBNZ", "R5", "loop")
}

// superPointers sets the registers that lead to the parts of a super-block.
func (k *nest) superPointers() {
	k.ins("ADD", imm(k.w.dAt), "R0", "R1")
	k.ins("ADD", imm(k.w.scalesAt()), "R0", "R11")
}

// block multiplies the sub-blocks that share bytes.
func (k *nest) block() {
	if k.loop {
		again := k.quads()
		k.load24()
		k.acc(k.loadVectors)
		k.copies("R24", "R25", "R26")
		k.acc(k.storeVectors)
		again(16*k.T*k.Q, 0)
		k.store24()
		return
	}
	k.copies("R2", "R3", "R4")
}

// copies multiplies them, whose activations and what goes with them are at the given registers.
func (k *nest) copies(x, d, sums string) {
	for k.c = range k.w.copies {
		if k.loop {
			k.part()
		}
		for k.quad = 0; !k.loop && k.quad < 4; k.quad += k.Q {
			k.part()
		}
		k.advance(x, d, sums)
	}
}

// walkQuads is walk with the loop over quads around the loop over sub-blocks, so that float sums and a super-block's
// scales are loaded once for it.
func (k *nest) walkQuads() {
	w := k.w
	k.label("loop")
	k.prefetch(0, w.super)
	k.superPointers()
	again := k.quads()
	k.load24()
	k.acc(k.loadVectors)
	if k.d >= 0 {
		for i := 0; i < w.superScales(); i += 4 {
			k.halves("R15", 8*i, k.Q, k.d+i/4*k.Q)
		}
	}
	k.ins("MOVD", imm(8/w.copies), "R12")
	k.label("sub")
	k.copies("R24", "R25", "R26")
	k.ins("ADD", imm(w.bytes), "R14")
	k.ins("ADD", imm(w.copies*w.scalesStep), "R16")
	k.ins("SUB", "$1", "R12")
	k.branch("CBNZ", "R12", "sub")
	k.acc(k.storeVectors)
	again(16*k.T*k.Q, 8/w.copies)
	k.store24()
	k.ins("ADD", imm(w.super), "R0")
	k.ins("SUB", "$1", "R5")
	k.branch("CBNZ", "R5", "loop")
}

// acc moves the current quads' float sums from or to the stack.
func (k *nest) acc(move func(base string, off, first, n int)) {
	for i := range k.Q {
		for t := range k.T {
			move("R17", 16*(i*k.T+t), k.float(t, i), 1)
		}
	}
}

// load24 copies the pointers to activations for one iteration of the loop over quads; store24 copies back those of the
// last iteration.
func (k *nest) load24() {
	for i := range 3 {
		k.ins("MOVD", fmt.Sprintf("R%d", 2+i), fmt.Sprintf("R%d", 24+i))
	}
}

func (k *nest) store24() {
	for i := range 3 {
		k.ins("MOVD", fmt.Sprintf("R%d", 24+i), fmt.Sprintf("R%d", 2+i))
	}
}

// advance goes on to the next sub-block's activations.
func (k *nest) advance(x, d, sums string) {
	k.ins("ADD", "R10", x)
	k.ins("ADD", "R7", d)
	if k.w.pairs {
		k.ins("ADD", "R7<<1", sums)
	} else {
		k.ins("ADD", "R7", sums)
	}
}

// quads begins a loop over quads at run time, and returns the function that ends it. The float sums of consecutive
// iterations are bytes apart; an iteration has advanced to the next sub-blocks that share bytes so many times.
func (k *nest) quads() (again func(bytes, steps int)) {
	w := k.w
	name := fmt.Sprintf("quads%d%c", k.T, 'a'+k.c)
	k.ins("MOVD", "R0", "R14")
	k.ins("MOVD", "R1", "R15")
	if w.scalesStep > 0 {
		k.ins("MOVD", "R11", "R16")
	}
	k.ins("MOVD", "R23", "R17")
	k.ins("MOVD", imm(4/k.Q), "R19")
	k.neonFile.label(name)
	return func(bytes, steps int) {
		k.add(16*k.Q-steps*w.bytes, "R14")
		k.add(w.dBytes/4*k.Q, "R15")
		if w.scalesStep > 0 {
			k.add(4*k.Q-steps*w.copies*w.scalesStep, "R16")
		}
		k.add(bytes, "R17")
		k.ins("SUB", "$1", "R19")
		k.ins("CBNZ", "R19", name)
	}
}

// add moves a pointer by n bytes.
func (k *nest) add(n int, reg string) {
	if n < 0 {
		k.ins("SUB", imm(-n), reg)
	} else {
		k.ins("ADD", imm(n), reg)
	}
}

// store writes the float sums of all tokens to out.
func (k *nest) store() {
	for t := range k.T {
		if k.loop {
			for i := range 4 {
				k.ins("FMOVQ", at("R23", 16*(i*k.T+t)), q(i))
			}
			k.storeVectors("R8", 0, 0, 4)
		} else {
			k.storeVectors("R8", 0, k.facc+4*t, 4)
		}
		if t < k.T-1 {
			k.ins("ADD", "R9", "R8")
		}
	}
}

// magic fills a register with 3<<22, a float32.
func (f neonFile) magic(reg int) {
	f.ins("MOVD", "$0x4b400000", "R22")
	f.ins("VDUP", "R22", v(reg, "S4"))
}

func (f neonFile) strides() {
	f.ins("LSL", "$2", "R9", "R9")
	f.ins("LSL", "$5", "R7", "R10")
	f.ins("LSL", "$2", "R7", "R7")
}

// neonPrefetch is the prefetch distance in bytes: 8 blocks of 30 cycles, about the latency of memory.
const neonPrefetch = 4096

// prefetch prefetches n bytes of weights, from off on, at the distance neonPrefetch: every other line, because load
// slots are scarce and the hardware prefetchers fetch the lines between.
func (f neonFile) prefetch(off, n int) {
	for i := 0; i < n; i += 128 {
		f.ins("PRFM", at("R0", off+neonPrefetch+i), "PLDL1KEEP")
	}
}
