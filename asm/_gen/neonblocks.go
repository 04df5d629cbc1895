package main

import (
	"fmt"
	"math/bits"
	"slices"
)

// Kernels of quantized weights for NEON. A vector holds four rows, a quad; a block's sums are taken for all 16 rows at once, or
// for as many quads as there are registers for.
//
//	R0 weights  R1 scales  R2 activations  R3 their scales  R4 bias, sums  R5 blocks  R6 n
//	R7 tokens*4  R8 out  R9 stride in bytes  R10 tokens*32  R11 what to skip after a block
//	R13 the constant magic, twice (with SDOT)

// neonISA is a way to multiply bytes.
type neonISA struct {
	name string
	most int  // tokens at once
	sdot bool // has SDOT; else products are 16-bit numbers that SADALP adds in pairs
}

var (
	baseline = neonISA{"NEON", 2, false}
	dotprod  = neonISA{"Dotprod", 4, true}
)

// tile is where the sums of T tokens lie. Registers from free on are scratch.
type tile struct {
	isa      neonISA
	T, quads int // quads of rows whose integer sums are held
	facc     int // [T][4] float sums
	iacc     int // [T][quads] integer sums; without SDOT two registers each while they are added up
	magic    int // with SDOT: holds 3<<22, whose low bits sums are added to, so that a subtraction makes floats of them; else -1
	free     registers
}

func newTile(s neonISA, T, quads int) *tile {
	k := &tile{isa: s, T: T, quads: quads, magic: -1}
	k.facc = k.free.take(4 * T)
	k.iacc = k.takeSums()
	return k
}

// begin clears the float sums, and fills the constant that integer sums start from: conversions are slow, and one pipe's only.
func (f neonFile) begin(k *tile) {
	f.clear(k.facc, 4*k.T)
	if k.isa.sdot {
		k.magic = k.free.take(1)
		f.ins("MOVD", "$magic<>(SB)", "R13")
		f.ins("FMOVQ", at("R13", 0), q(k.magic))
	}
}

// magic fills a register with 3<<22, a float32.
func (f neonFile) magic(reg int) {
	f.ins("MOVD", "$0x4b400000", "R12")
	f.ins("VDUP", "R12", v(reg, "S4"))
}

// float makes a float32 of an integer sum.
func (f neonFile) float(k *tile, sum int) {
	if k.magic >= 0 {
		f.op("FSUB4", k.magic, sum, sum)
	} else {
		f.op("SCVTF4", sum, sum)
	}
}

// takeSums makes room for integer sums.
func (k *tile) takeSums() int {
	if k.isa.sdot {
		return k.free.take(k.T * k.quads)
	}
	return k.free.take(2 * k.T * k.quads)
}

func (k *tile) float(t, quad int) int { return k.facc + 4*t + quad }

func (k *tile) sum(iacc, t, quad int) int {
	if k.isa.sdot {
		return iacc + t*k.quads + quad
	}
	return iacc + 2*(t*k.quads+quad)
}

// loader loads the 4 weights of each of 4 rows, of group g, for n quads of the panel, as bytes into registers from reg on.
type loader func(g, quad, n, reg int)

// add leaves in iacc the sums of groups from .. to-1 of a block of activations for the quads from quad on. starts, if not nil,
// gives the lane where a token's sums start. Without SDOT all products of a sum must fit into 16 bits.
func (f neonFile) add(k *tile, iacc, quad, from, to int, starts func(t int) (lane, reg int), load loader) {
	if k.isa.sdot {
		f.addDot(k, iacc, quad, from, to, starts, load)
		return
	}
	f.addDeep(k, iacc, quad, from, to, load)
	for t := range k.T {
		for i := range k.quads {
			s := k.sum(iacc, t, i)
			f.ins("VADDP", v(s+1, "S4"), v(s, "S4"), v(s, "S4"))
			if starts != nil {
				lane, reg := starts(t)
				f.ins("VDUP", vlane(reg, lane), v(s+1, "S4"))
				f.ins("VADD", v(s+1, "S4"), v(s, "S4"), v(s, "S4"))
			}
		}
	}
}

// addDot: one SDOT per token, quad and group.
func (f neonFile) addDot(k *tile, iacc, quad, from, to int, starts func(t int) (lane, reg int), load loader) {
	for t := range k.T {
		switch {
		case starts != nil:
		case k.T == 1: // there loads are as scarce as arithmetic
			for i := range k.quads {
				f.ins("VMOV", v(k.magic, "B16"), v(k.sum(iacc, t, i), "B16"))
			}
			continue
		default:
			for i := 0; i < k.quads; i += 2 {
				f.ins("FLDPQ", at("R13", 0), pair(k.sum(iacc, t, i)))
			}
			continue
		}
		for i := range k.quads {
			s := k.sum(iacc, t, i)
			lane, reg := starts(t)
			f.ins("VDUP", vlane(reg, lane), v(s, "S4"))
		}
	}
	r := k.free
	x := r.take(k.T)
	step := min(k.quads, 4)
	if step > 32-r.next {
		step = 2
	}
	w := r.take(step)
	for g := from; g < to; g++ {
		if g%4 == 0 {
			for t := range k.T {
				f.ins("FMOVQ", at("R2", 32*t+4*g), q(x+t))
			}
		}
		for i := 0; i < k.quads; i += step {
			load(g, quad+i, step, w)
			for j := range step {
				for t := range k.T {
					f.op("SDOT", g%4, x+t, w+j, k.sum(iacc, t, i+j))
				}
			}
		}
	}
}

// addDeep: all products of a sum fit into 16 bits.
func (f neonFile) addDeep(k *tile, iacc, quad, from, to int, load loader) {
	r := k.free
	raw, x, w := r.take(k.T), r.take(k.T), r.take(1)
	for g := from; g < to; g++ {
		for t := range k.T {
			if g%4 == 0 {
				f.ins("FMOVQ", at("R2", 32*t+4*g), q(raw+t))
			}
			f.ins("VDUP", vlane(raw+t, g%4), v(x+t, "S4"))
		}
		mul := "SMLAL"
		if g == from {
			mul = "SMULL"
		}
		for i := range k.quads {
			load(g, quad+i, 1, w)
			for t := range k.T {
				f.op(mul, x+t, w, k.sum(iacc, t, i))
				f.op(mul+"2", x+t, w, k.sum(iacc, t, i)+1)
			}
		}
	}
	for t := range k.T {
		for i := range k.quads {
			s := k.sum(iacc, t, i)
			f.op("SADDLP", s, s)
			f.op("SADDLP", s+1, s+1)
		}
	}
}

// scale adds the integer sums: acc = fma(float(isum), dw*dx, acc).
func (f neonFile) scale(k *tile, quad int) {
	step := k.quads
	if step == 4 && k.free.next > 32-7 {
		step = 2
	}
	r := k.free
	s, tmp := r.take(step), r.take(1)
	dx, _ := f.words("R3", 0, k.T, r.next)
	for i := 0; i < k.quads; i += step {
		f.halves("R1", 8*(quad+i), step, s)
		for t := range k.T {
			for j := range step {
				lane, d := dx(t)
				sum := k.sum(k.iacc, t, i+j)
				f.float(k, sum)
				f.op("FMULI", lane, d, s+j, tmp)
				f.ins("VFMLA", v(tmp, "S4"), v(sum, "S4"), v(k.float(t, quad+i+j), "S4"))
			}
		}
	}
}

// store writes the float sums of all tokens to out.
func (f neonFile) store(k *tile) {
	for t := range k.T {
		f.storeVectors("R8", 0, k.float(t, 0), 4)
		if t < k.T-1 {
			f.ins("ADD", "R9", "R8")
		}
	}
}

// blockArgs loads the parameters. A pair of blocks is the scales of both, then their quants; w begins with one.
func (f neonFile) blockArgs() {
	f.args("w", "R1", "q", "R2", "d", "R3", "bias", "R4", "blocks", "R5", "n", "R6", "tokens", "R7", "out", "R8", "stride", "R9")
	f.ins("ADD", "$64", "R1", "R0")
	f.ins("MOVD", "$0", "R11")
	f.strides()
}

func (f neonFile) strides() {
	f.ins("LSL", "$2", "R9", "R9")
	f.ins("LSL", "$5", "R7", "R10")
	f.ins("LSL", "$2", "R7", "R7")
}

// neonPrefetch is how far ahead of the weights to read, in bytes: 8 blocks of 30 cycles, about what memory takes to answer.
const neonPrefetch = 4096

// prefetch reads ahead of the weights, n bytes from off on: every other line, because loads are few and the hardware's own
// prefetchers follow.
func (f neonFile) prefetch(off, n int) {
	for i := 0; i < n; i += 128 {
		f.ins("PRFM", at("R0", off+neonPrefetch+i), "PLDL1KEEP")
	}
}

// wholeQuads is how many quads T tokens take at once so that all float sums stay in registers.
func (s neonISA) wholeQuads(T int) int {
	if s.sdot && T <= 3 || T == 1 {
		return 4
	}
	return 2
}

func neonMatMul(s neonISA) func(*file) {
	return neon(func(f neonFile) {
		if s.sdot {
			f.constant("magic", 0x4b400000)
		}
		f.q8(s)
		f.q4(s)
	})
}

func (f neonFile) q8(s neonISA) {
	f.function("q8"+s.name, 0, blockParams, q8SignedDoc)
	f.blockArgs()
	f.choose("R6", s.most)
	for T := s.most; T > 0; T-- {
		f.label(fmt.Sprintf("t%d", T))
		if !s.sdot {
			f.q8Pairs(T)
			continue
		}
		k := newTile(s, T, s.wholeQuads(T))
		f.begin(k)
		f.label(fmt.Sprintf("loop%d", T))
		f.prefetch(0, 512)
		for quad := 0; quad < 4; quad += k.quads {
			f.add(k, k.iacc, quad, 0, 8, nil, func(g, quad, n, reg int) {
				f.loadVectors("R0", 64*g+16*quad, reg, n)
			})
			f.scale(k, quad)
		}
		f.nextNEON(512, fmt.Sprintf("loop%d", T))
		f.store(k)
		f.done()
	}
}

// q8Pairs is q8 for T tokens without SDOT. |w*x| can be 128*127, so that only two products fit into 16 bits. The multiplier is
// the bottleneck, and what depends on a sum would make it wait: a token's sums are scaled while the next one's are multiplied.
func (f neonFile) q8Pairs(T int) {
	k := &tile{T: T, quads: 4, magic: -1}
	k.facc, k.iacc = k.free.take(4*T), k.free.take(8)
	w, p, x, raw := k.free.take(2), k.free.take(2), k.free.take(2), k.free.take(1)
	dx, dw, scales := k.free.take(1), k.free.take(4), k.free.take(4) // scales = dw*dx

	finish := func(t, i int) []instr { // scales quad i of token t
		sum := k.sum(k.iacc, 0, i)
		return f.lines(func() {
			f.ins("VADDP", v(sum+1, "S4"), v(sum, "S4"), v(sum, "S4"))
			f.op("SCVTF4", sum, sum)
			f.ins("VFMLA", v(scales+i, "S4"), v(sum, "S4"), v(k.float(t, i), "S4"))
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
				f.op(add, p, k.sum(k.iacc, 0, i))
				f.op(add, p+1, k.sum(k.iacc, 0, i)+1)
			}
		}
		if len(between) > 0 {
			panic("no place left between multiplications")
		}
	}
	f.nextNEON(512, fmt.Sprintf("loop%d", T))
	for i := range 4 { // what the last block left
		f.emit(finish(T-1, i)...)
	}
	f.store(k)
	f.done()
}

// lines returns the instructions that write adds, instead of adding them.
func (f neonFile) lines(write func()) []instr {
	before := len(f.fn.code)
	write()
	added := slices.Clone(f.fn.code[before:])
	f.fn.code = f.fn.code[:before]
	return added
}

// nextNEON ends the loop over blocks: the next one's quants follow at once if it is the second of its pair.
func (f neonFile) nextNEON(bytes int, loop string) {
	f.ins("ADD", imm(bytes), "R0")
	f.ins("ADD", "R11", "R0")
	f.ins("ADD", "$32", "R1")
	f.ins("ADD", fmt.Sprintf("R11<<%d", bits.TrailingZeros(uint(2*bytes/64))), "R1")
	f.ins("EOR", "$64", "R11")
	f.ins("ADD", "R10", "R2")
	f.ins("ADD", "R7", "R3")
	f.ins("ADD", "R7", "R4")
	f.ins("SUB", "$1", "R5")
	f.ins("CBNZ", "R5", loop)
}

// nibbles loads half of 8 nibbles of each of 4 rows, for n quads.
func (f neonFile) nibbles(off, n int, high bool, mask, reg int) {
	f.loadVectors("R0", off, reg, n)
	for i := reg; i < reg+n; i++ {
		if high {
			f.ins("VUSHR", "$4", v(i, "B16"), v(i, "B16"))
		} else {
			f.ins("VAND", v(mask, "B16"), v(i, "B16"), v(i, "B16"))
		}
	}
}

func (f neonFile) q4(s neonISA) {
	f.function("q4"+s.name, 0, blockParams, q4Doc)
	f.blockArgs()
	f.choose("R6", s.most)
	for T := s.most; T > 0; T-- {
		k := newTile(s, T, s.wholeQuads(T))
		mask := k.free.take(1)
		f.label(fmt.Sprintf("t%d", T))
		f.ins("VMOVI", "$15", v(mask, "B16"))
		f.begin(k)
		bias := k.free.next // with SDOT sums start there, and then it is scratch
		if !s.sdot {
			bias = k.free.take(1)
		}
		f.label(fmt.Sprintf("loop%d", T))
		f.prefetch(0, 256)
		for quad := 0; quad < 4; quad += k.quads {
			f.add(k, k.iacc, quad, 0, 8, f.starts(k, bias), func(g, quad, n, reg int) {
				f.nibbles(g%4*64+16*quad, n, g >= 4, mask, reg)
			})
			f.scale(k, quad)
		}
		f.nextNEON(256, fmt.Sprintf("loop%d", T))
		f.store(k)
		f.done()
	}
}

// starts loads bias>>4 of all tokens into registers from reg on.
func (f neonFile) starts(k *tile, reg int) func(t int) (lane, reg int) {
	at, used := f.words("R4", 0, k.T, reg)
	for i := reg; i < reg+used; i++ {
		f.op("SSHR4", 4, i, i)
		if k.magic >= 0 {
			f.ins("VADD", v(k.magic, "S4"), v(i, "S4"), v(i, "S4"))
		}
	}
	return at
}
