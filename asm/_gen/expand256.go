package main

import "fmt"

// AVX2 without VNNI takes four instructions for 32 products, and unpacking weights as many again. Where several tiles
// of tokens are multiplied with a panel, 256 columns of it are unpacked once, into a buffer that stays in the L1 cache,
// and the kernels of this file multiply from there; see matMulTiles in package asm. A block in the buffer is the
// float32 scales of 16 rows, the other numbers per row that the type has, then the weights of 8 groups.

const expandParams = "w *byte, blocks int, buffer *byte" + prefetchParams

// expanded are the types that AVX2 expands.
var expanded = []*weights{&q8, &q4, &q4k, &q6k}

// inBuffer is the type that the buffer's blocks are of.
func (w *weights) inBuffer() *weights {
	e := *w
	e.name += "Buffer"
	e.buffer, e.whole, e.super = true, false, 0
	e.per, e.scaleBytes, e.header, e.quants = 1, 4, 64, 512
	load := func(off int) func(f *file, _, h, reg int) {
		return func(f *file, _, h, reg int) { f.ins("VMOVUPS", blockScales(off+32*h), y(reg)) }
	}
	e.vec256 = parts256{
		unpack: func(f *file, _ bool, _, g, _, h, reg int) { f.ins("VMOVDQU", at("AX", 64*g+32*h), y(reg)) },
		scales: load(0),
		flat:   true,
	}
	switch {
	case w.min:
		e.header, e.vec256.minimums = 128, load(64)
	case w.pairs:
		e.header = 192
		e.vec256.scalePairs = func(f *file, c, reg int) { load(64+64*c)(f, 0, 0, reg) }
	case w.signed:
		e.header, e.quants, e.words = 128, 1024, true
		e.sums = "cross"
		e.doc = wordsDoc
	}
	return &e
}

// expand256 writes the kernel that expands blocks: a multiple of 8 of those of super-blocks.
//
//	AX, BX, R12, R14, R15 as in nest256  DI blocks left  R10 the buffer
func (f *file) expand256(w *weights) {
	p := &w.vec256
	f.function(w.name+"ExpandAVX2", 0, expandParams,
		fmt.Sprintf("for b < blocks: buffer[b] = block b of w, %d bytes", w.inBuffer().blockBytes()))
	f.load("w", "AX", "blocks", "DI", "buffer", "R10", "prefetch", "R15")
	f.ins("ADDQ", "AX", "R15")
	if w.super == 0 {
		f.beginRun(w)
	}
	if p.constants != nil {
		p.constants(f, false)
	}
	f.label("loop")
	if w.super > 0 {
		f.ins("MOVQ", "AX", "R14")
		p.super(f)
		f.label("unit")
	}
	for phase := range p.units() {
		f.expandBlock256(w, phase)
	}
	if w.super == 0 {
		f.nextBlock(w)
	} else {
		p.next(f)
		f.ins("LEAQ", at("R14", w.quants), "CX")
		f.ins("CMPQ", "AX", "CX")
		f.ins("JNE", "unit")
		f.ins("LEAQ", at("R14", w.super), "AX")
		f.ins("SUBQ", imm(8-p.units()), "DI")
	}
	f.ins("SUBQ", imm(p.units()), "DI")
	f.ins("JNZ", "loop")
	f.ret()
}

func (f *file) expandBlock256(w *weights, phase int) {
	p, e := &w.vec256, w.inBuffer()
	groups, nibbles := 8, 1
	if p.dual {
		groups, nibbles = 4, 2
	}
	if e.words {
		f.zero(avx2, 0)
		f.zero(avx2, 1)
	}
	for g := range groups {
		f.prefetchLine(g)
		for v := range nibbles {
			for h := range 2 {
				p.unpack(f, false, phase, g, v, h, 8+h)
				if !e.words {
					f.ins("VMOVDQU", y(8+h), at("R10", e.header+64*(g+4*v)+32*h))
					continue
				}
				// the bytes k0 to k3 of a row become k0, k2 and k1, k3, 16 bits each
				f.ins("VPSLLW", "$8", y(8+h), y(10))
				f.ins("VPSRAW", "$8", y(10), y(10))
				f.ins("VPSRAW", "$8", y(8+h), y(11))
				f.ins("VMOVDQU", y(10), at("R10", e.header+128*g+64*h))
				f.ins("VMOVDQU", y(11), at("R10", e.header+128*g+64*h+32))
				f.ins("VPMADDWD", y(10), y(11), y(10))
				f.ins("VPSUBD", y(10), y(h), y(h))
			}
		}
	}
	f.linesAfter(groups, w.lines())
	f.prefetchNext()
	for h := range 2 {
		p.scales(f, phase, h, 12)
		f.ins("VMOVUPS", y(12), at("R10", 32*h))
		switch {
		case w.min:
			p.minimums(f, phase, h, 12)
			f.ins("VMOVUPS", y(12), at("R10", 64+32*h))
		case e.words:
			f.ins("VMOVDQU", y(h), at("R10", 64+32*h))
		case w.pairs:
			for c := range 2 {
				f.scalePair256(w, phase, c, 12)
				f.ins("VMOVDQU", y(12), at("R10", 64+64*c+32*h))
			}
			if h == 0 {
				f.ins("ADDQ", "$8", "BX")
			} else {
				f.ins("SUBQ", "$8", "BX")
			}
		}
	}
	f.ins("ADDQ", imm(e.header+e.quants), "R10")
}

// scalePair256 reads the scales of 16 weights, twice in 32 bits. Y13 is used.
func (f *file) scalePair256(w *weights, phase, c, reg int) {
	if w.vec256.scalePairs != nil {
		w.vec256.scalePairs(f, c, reg)
		return
	}
	w.vec256.integers(f, phase, c, reg)
	f.ins("VPSLLD", "$16", y(reg), y(13))
	f.ins("VPBLENDW", "$0xAA", y(13), y(reg), y(reg))
}

const wordsDoc = `for t < n, r < 16:
	for b < blocks:                         // x0 x2 x1 x3 of 4 activations are q[b][t][g][0..3]
		isum := cross[b][t] + wcross[b][r]  // the sums of -x0*x1 and -w0*w1 over all pairs
		for p < 16: isum += (w[b][r][2*p]+x[b][t][2*p+1]) * (w[b][r][2*p+1]+x[b][t][2*p])
		out[t*stride+r] = fma(float(isum), scales[b][r]*d[b][t], out[t*stride+r])`

// words256 multiplies one block of 16-bit weights and adds the products. A product of sums, (w0+x1)*(w1+x0) = w0*x0 +
// w1*x1 + w0*w1 + x0*x1, takes two additions of 16 bits and one VPMADDWD for two products in each of 8 rows.
func (f *file) words256(u tile256) {
	for t := range u.n {
		f.ins("VPBROADCASTD", u.w.sumsAt(t, 0), y(12))
		for h := range 2 {
			f.ins("VPADDD", blockScales(64+32*h), y(12), y(u.sum(t, h)))
		}
	}
	f.loops++
	label := fmt.Sprintf("words%d", f.loops)
	f.ins("MOVQ", "$4", "DI")
	f.label(label)
	for g := range 2 {
		for i := range 4 {
			f.ins("VMOVDQU", at("AX", 128*g+32*i), y(8+i))
		}
		for t := range u.n {
			f.ins("VPBROADCASTD", at("CX", 64*t+8*g), y(12))
			f.ins("VPBROADCASTD", at("CX", 64*t+8*g+4), y(13))
			for h := range 2 {
				f.ins("VPADDW", y(13), y(8+2*h), y(14))
				f.ins("VPADDW", y(12), y(9+2*h), y(15))
				f.ins("VPMADDWD", y(14), y(15), y(14))
				f.ins("VPADDD", y(14), y(u.sum(t, h)), y(u.sum(t, h)))
			}
		}
	}
	f.ins("ADDQ", "$256", "AX")
	f.ins("ADDQ", "$16", "CX")
	f.ins("DECQ", "DI")
	f.ins("JNZ", label)
	f.ins("SUBQ", "$1024", "AX")
	f.ins("SUBQ", "$64", "CX")
	f.scale256(u, 0)
}

// widen writes the kernel that converts a tile's quants to the operands of words256: [x0 x2 x1 x3] of every 4, in 16
// bits, and the sum of -x0*x1 of every block.
//
//	AX quants  BX words  CX sums  DI blocks
func widen(f *file) {
	order := f.table("order", 0x03010200, 0x07050604, 0x0b090a08, 0x0f0d0e0c)
	f.function("widenAVX2", 0, "q *int8, words *int16, cross *int32, blocks int", `for b < blocks:
	for g < 8: words[b][g] = q[b][4*g], q[b][4*g+2], q[b][4*g+1], q[b][4*g+3]
	cross[b] = -(sum of q[b][2*i]*q[b][2*i+1], i < 16)`)
	f.load("q", "AX", "words", "BX", "cross", "CX", "blocks", "DI")
	f.ins("VBROADCASTI128", order, y(7))
	f.label("loop")
	f.ins("VMOVDQU", at("AX", 0), y(0))
	f.ins("VPSHUFB", y(7), y(0), y(0))
	f.ins("VEXTRACTI128", "$1", y(0), x(1))
	for i := range 2 {
		f.ins("VPMOVSXBW", x(i), y(i))
		f.ins("VMOVDQU", y(i), at("BX", 32*i))
		f.ins("VPSRLQ", "$32", y(i), y(2+i)) // x1 x3 0 0
		f.ins("VPMADDWD", y(i), y(2+i), y(2+i))
	}
	f.ins("VPADDD", y(3), y(2), y(2))
	f.ins("VEXTRACTI128", "$1", y(2), x(3))
	f.ins("VPADDD", x(3), x(2), x(2))
	f.ins("VPSRLDQ", "$8", x(2), x(3))
	f.ins("VPADDD", x(3), x(2), x(2)) // the upper halves of 64 bits are 0
	f.ins("VPXOR", x(3), x(3), x(3))
	f.ins("VPSUBD", x(2), x(3), x(3))
	f.ins("VMOVD", x(3), at("CX", 0))
	f.ins("ADDQ", "$32", "AX")
	f.ins("ADDQ", "$64", "BX")
	f.ins("ADDQ", "$4", "CX")
	f.ins("DECQ", "DI")
	f.ins("JNZ", "loop")
	f.ret()
}

// matmulExpanded writes the kernels of a file of their own.
func matmulExpanded(f *file) {
	f.constant("nibbles", 0x0f0f0f0f)
	f.constant("ones", 0x00010001)
	widen(f)
	for _, w := range expanded {
		f.expand256(w)
		f.nest256(w.inBuffer(), false)
	}
}
