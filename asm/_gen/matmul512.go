package main

import "fmt"

// Registers of the integer kernels. A tile's token strides are its own (tokens), not the number n of tokens computed here.
//
//	AX weights  BX what to add for their scales  CX activations  DX their scales  SI bias, sums  DI blocks  R8 n
//	R10 out  R11 stride in bytes  R13 tokens*4  R14 what to skip after a block  R15 how far ahead of AX to read
const blockParams = "w *byte, q *int8, d *float32, bias *int32, blocks, n, tokens int, out *float32, stride" + aheadParams

// aheadParams: while a kernel multiplies, it prefetches what lies ahead bytes after its weights, step bytes for every block.
const aheadParams = ", ahead, step int"

// readAhead prefetches a cache line, the i-th of those that are to be read ahead with a block. They are read in ascending order,
// or the hardware's own prefetchers lose the thread (a tenth of the speed).
func (f *file) readAhead(i int) { f.ins("PREFETCHT0", atx("AX", "R15", 1, 64*i)) }

// stepAhead goes on to what is to be read ahead with the next block.
func (f *file) stepAhead() { f.ins("ADDQ", f.arg("step"), "R15") }

// advance moves AX over some bytes.
func (f *file) advance(bytes int) {
	f.ins("ADDQ", imm(bytes), "AX")
	f.ins("SUBQ", imm(bytes), "R15")
}

// blockArgs loads the parameters. A pair of blocks is the scales of both, then their quants; w begins with one.
func (f *file) blockArgs() {
	f.load("w", "AX", "q", "CX", "d", "DX", "bias", "SI", "blocks", "DI", "n", "R8", "tokens", "R13", "out", "R10", "stride", "R11")
	f.ins("SHLQ", "$2", "R11")
	f.ins("SHLQ", "$2", "R13")
	f.load("ahead", "R15")
	f.beginPairs()
}

// beginPairs makes AX, BX and R14 what they are in the first block of a pair, for AX at its scales.
func (f *file) beginPairs() {
	f.advance(64)
	f.ins("MOVQ", "$-64", "BX")
	f.ins("XORQ", "R14", "R14")
}

// blockScales is the memory of the scales of a block's rows, off bytes further.
func blockScales(off int) string { return atx("AX", "BX", 1, off) }

// afterBlock moves all pointers to the next block, whose quants follow at once if it is the second of its pair.
func (f *file) afterBlock(quantBytes int) {
	f.ins("ADDQ", "AX", "R15")
	f.ins("LEAQ", atx("AX", "R14", 1, quantBytes), "AX")
	f.ins("SUBQ", "AX", "R15")
	f.stepAhead()
	f.ins("XORQ", "$64", "R14")
	f.ins("XORQ", imm(-64^-(quantBytes+32)), "BX")
	f.nextBlock()
}

// nextBlock moves the pointers to the next block of activations.
func (f *file) nextBlock() {
	f.ins("LEAQ", atx("CX", "R13", 8, 0), "CX")
	f.ins("ADDQ", "R13", "DX")
	f.ins("ADDQ", "R13", "SI")
}

func matmul512(f *file) {
	q8_512(f)
	q4_512(f)
	q4k_512(f)
	q6k_512(f)
	q8Pair512(f)
	q4Pair512(f)
}

func q8_512(f *file) {
	f.function("q8AVX512", 0, blockParams, q8Doc)
	f.blockArgs()
	f.tiles512(func(T int) {
		for t := range T {
			f.ins("VPBROADCASTD", at("SI", 4*t), z(t))
		}
		for g := range 8 {
			w := 14 + g&1
			f.ins("VMOVDQU8", at("AX", 64*g), z(w))
			f.readAhead(g)
			for t := range T {
				f.product512(T, t, g, w)
			}
		}
		f.readAhead(8)
		f.scale512(T)
		f.afterBlock(512)
	})
}

// product512 adds the products of group g's weights, in Z(w), and token t's activations. For few tokens loads are the limit, two a
// cycle: there one loads the first token's first 16 activations, and shuffles repeat them. More of that would gain on Zen 5
// and lose on cores that multiply and shuffle in the same two places.
func (f *file) product512(T, t, g, w int) {
	if T > 4 || t > 0 || g >= 4 {
		f.ins("VPDPBUSD.BCST", at("CX", 32*t+4*g), z(w), z(t))
		return
	}
	if g == 0 {
		f.ins("VBROADCASTI32X4", at("CX", 0), z(12))
	}
	f.ins("VPSHUFD", imm(0x55*g), z(12), z(13))
	f.ins("VPDPBUSD", z(13), z(w), z(t))
}

func q4_512(f *file) {
	f.function("q4AVX512", 0, blockParams, q4Doc)
	f.blockArgs()
	f.broadcast512(0x0f0f0f0f, 31)
	f.tiles512(func(T int) {
		for t := range T {
			f.ins("VPSRAD.BCST", "$4", at("SI", 4*t), z(t))
		}
		for g := range 4 {
			f.ins("VMOVDQU8", at("AX", 64*g), z(13))
			f.readAhead(g)
			f.ins("VPANDD", z(31), z(13), z(14))
			f.ins("VPSRLW", "$4", z(13), z(15))
			f.ins("VPANDD", z(31), z(15), z(15))
			for nibble := range 2 {
				for t := range T {
					f.ins("VPDPBUSD.BCST", at("CX", 32*t+16*nibble+4*g), z(14+nibble), z(t))
				}
			}
		}
		f.readAhead(4)
		f.scale512(T)
		f.afterBlock(256)
	})
}

// broadcast512 fills a register with a constant.
func (f *file) broadcast512(v uint32, reg int) {
	f.ins("MOVL", fmt.Sprintf("$0x%08x", v), "R9")
	f.ins("VPBROADCASTD", "R9", z(reg))
}

// tiles512 writes a loop over DI blocks for every number of tokens. Accumulators are Z16 and up; body may use the others.
func (f *file) tiles512(body func(T int)) {
	f.dispatch("R8", 8)
	for T := 8; T >= 1; T-- {
		f.label(fmt.Sprintf("t%d", T))
		for t := range T {
			f.ins("VPXORD", z(16+t), z(16+t), z(16+t))
		}
		f.label(fmt.Sprintf("loop%d", T))
		body(T)
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

// groups writes body for n groups of 4 weights: for few tokens one after the other, else as a loop over step of them, for the
// code of all tiles is to stay small. body reads weights from AX and activations from CX, 64 and 4 bytes a group, and finds both
// where they were when all is done. counter is a register for the loop.
func (f *file) groups(counter string, T, n, step int, body func(g int)) {
	if T <= 2 {
		for g := range n {
			body(g)
		}
		return
	}
	f.loops++
	label := fmt.Sprintf("groups%d", f.loops)
	f.ins("MOVQ", imm(n/step), counter)
	f.label(label)
	for g := range step {
		body(g)
	}
	f.ins("ADDQ", imm(64*step), "AX")
	f.ins("ADDQ", imm(4*step), "CX")
	f.ins("DECQ", counter)
	f.ins("JNZ", label)
	f.ins("SUBQ", imm(64*n), "AX")
	f.ins("SUBQ", imm(4*n), "CX")
}

// scale512 adds a block's integer sums Z0..: acc = fma(float(isum), dw*dx, acc).
func (f *file) scale512(T int) {
	f.ins("VCVTPH2PS", blockScales(0), z(13))
	for t := range T {
		s := 14 + t&1
		f.ins("VCVTDQ2PS", z(t), z(t))
		f.ins("VMULPS.BCST", at("DX", 4*t), z(13), z(s))
		f.ins("VFMADD231PS", z(s), z(t), z(16+t))
	}
}
