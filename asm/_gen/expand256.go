package main

import "fmt"

// AVX2 without VNNI takes four instructions for 32 products, and unpacking weights as many again. Where several tiles
// of tokens are multiplied with a panel, 256 columns of it are unpacked once, into a buffer that stays in the L1 cache,
// and the kernels of this file multiply from there; see matMulTiles in package asm. A block in the buffer is the
// float32 scales of 16 rows, the other numbers per row that the type has, then the weights of 8 groups.
//
// From the buffer both halves of the rows are multiplied with a load of 4 activations, whatever the type.

// Where a block in the buffer has numbers of its 16 rows, 64 bytes each: of the types with minimums these as float32,
// or of Q8_0 the sums of -w0*w1; of those with two sums of 16 weights the scales of the first 16 and of the others, 16
// bits, twice in 32; then the two minimums in 32 bits, and the float32 number that these are multiplied with.
const (
	bufferNumbers  = 64
	bufferPairs    = 64
	bufferMinimums = 192
	bufferFactor   = 256
)

// frameFold is the local memory of fold256: 8 registers on a boundary of 32 bytes.
const frameFold = 8*32 + 32

const expandParams = "w *byte, blocks int, buffer *byte" + prefetchParams

// expanded are the types that AVX2 expands.
var expanded = []*weights{
	&q8, &iq4nl, &table8, &q4, &q41, &q50, &q51, &mxfp4, &table5, &q4k, &q5k, &q6k, &q3k, &table5Pairs,
	&table7Pairs, &q2k,
}

// Table types by the size of their numbers: those of IQ1 are -9 to 9, and have 5 bits when 16 is added; those of IQ2
// are -43 to 43, and have 7 when 64 is added; those of IQ4_XS have 8.
var (
	table8      = table32.only("table8", "IQ4_XS")
	table5      = raised32.only("table5", "IQ1_S")
	table7Pairs = table16.only("table7Pairs", "IQ2_S", "IQ2_XS")
	table5Pairs = table16.only("table5Pairs", "IQ1_M")
)

// bufferLike are types whose blocks in the buffer are another type's, so that its kernel multiplies them.
var bufferLike = map[*weights]*weights{
	&iq4nl: &q8, &table8: &q8,
	&q41: &q4k, &q51: &q5k,
	&mxfp4: &q50, &table5: &q50,
	&table5Pairs: &q3k,
}

// inBuffer is the type that the buffer's blocks are of.
func (w *weights) inBuffer() *weights {
	if like := bufferLike[w]; like != nil {
		return like.inBuffer()
	}
	e := *w
	e.name += "Buffer"
	e.buffer, e.whole, e.super, e.table = true, false, 0, false
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
	case w.pairs && w.min:
		e.header = bufferFactor + 64
	case w.min:
		e.header, e.vec256.minimums = bufferNumbers+64, load(bufferNumbers)
	case w.pairs:
		e.header = bufferPairs + 128
		if w.fold == 4 && !w.wraps() {
			e.shift = 1 // w+16
		}
	case w.signed:
		e.header, e.quants, e.words = bufferNumbers+64, 1024, true
		e.sums = "cross"
	}
	if w.wraps() {
		e.sums, e.shift = map[string]string{"bias": "laneBias", "half": "laneHalf"}[w.sums], 0
	}
	e.doc, e.signedDoc = e.bufferDoc(), ""
	return &e
}

// bufferDoc is the loop of a kernel that multiplies from the buffer.
func (w *weights) bufferDoc() string {
	if w.words {
		return wordsDoc
	}
	doc := fmt.Sprintf(`for t < n, r < 16:
	for b < blocks:                         // weights are bytes w+%d
`, w.offset())
	if w.pairs {
		doc += `		isum := sc[b][0][r]*(sum of w*q over k < 16) + sc[b][1][r]*(sum of w*q over 16 <= k < 32)
`
	} else {
		doc += `		isum := sum of w[b][k/4][r][k%4]*q[b][t][k] over k < 32
`
	}
	if w.wraps() {
		doc += fmt.Sprintf(`		        // its sums start at %s, modulo 2^16
`, w.sums)
	}
	doc += `		out[t*stride+r] = fma(float(isum), scales[b][r]*d[b][t], out[t*stride+r])`
	switch {
	case w.pairs && w.min:
		doc += `
		u := mn[b][0][r]*(sum of q over k < 16) + mn[b][1][r]*(sum of q over 16 <= k < 32)
		out[t*stride+r] = fma(-float(u), dmin[b][r]*d[b][t], out[t*stride+r])`
	case w.min:
		doc += `
		out[t*stride+r] = fma(-minimums[b][r], dsum[b][t], out[t*stride+r])`
	}
	return doc
}

// expand256 writes the kernel that expands blocks: a multiple of 8 of those of super-blocks.
//
//	AX, BX, R12, R14, R15 as in nest256  DI blocks left  R10 the buffer
func (f *file) expand256(w *weights) {
	p := &w.vec256
	params := expandParams
	if w.table {
		params += ", table *[32]byte"
	}
	f.function(w.name+"ExpandAVX2", 0, params,
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
	if p.before != nil {
		p.before(f, false)
	}
	more := e.offset()
	if !w.signed || w.raised {
		more -= w.offset()
	}
	for g := range groups {
		if g < w.lines() {
			f.prefetchLine(g)
		}
		for v := range nibbles {
			for h := range 2 {
				p.unpack(f, false, phase, g, v, h, 8+h)
				if !e.words {
					if more != 0 {
						f.ins("VPADDB", f.lanes256(uint32(uint8(more))*0x01010101), y(8+h), y(8+h))
					}
					f.ins("VMOVDQU", y(8+h), at("R10", e.header+64*(g+4*v)+32*h))
					continue
				}
				// the bytes k0 to k3 of a row become k0, k2 and k1, k3, 16 bits each
				f.ins("VPSLLW", "$8", y(8+h), y(10))
				f.ins("VPSRAW", "$8", y(10), y(10))
				f.ins("VPSRAW", "$8", y(8+h), y(11))
				f.ins("VMOVDQU", y(10), at("R10", e.header+128*(g+4*v)+64*h))
				f.ins("VMOVDQU", y(11), at("R10", e.header+128*(g+4*v)+64*h+32))
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
		case w.pairs:
			f.expandPairs256(w, phase, h)
		case w.min:
			p.minimums(f, phase, h, 12)
			if w.plus != e.plus {
				f.ins("VXORPS", f.lanes256(1<<31), y(12), y(12))
			}
			f.ins("VMOVUPS", y(12), at("R10", bufferNumbers+32*h))
		case e.words:
			f.ins("VMOVDQU", y(h), at("R10", bufferNumbers+32*h))
		}
	}
	f.ins("ADDQ", imm(e.header+e.quants), "R10")
}

// expandPairs256 expands the integers of a block of two sums of 16 weights, half h: scales, minimums and their factor.
func (f *file) expandPairs256(w *weights, phase, h int) {
	p := &w.vec256
	f.ins("ADDQ", imm(8*h), "BX")
	for c := range 2 {
		f.scalePair256(w, phase, c, 12)
		f.ins("VMOVDQU", y(12), at("R10", bufferPairs+64*c+32*h))
	}
	if w.min {
		p.minimums(f, phase, 0, 12)
		p.minimums(f, phase, 1, 13)
		f.pair16(12, 13)
		f.ins("VMOVDQU", y(12), at("R10", bufferMinimums+32*h))
		p.factor(f, h, 12)
		f.ins("VMOVUPS", y(12), at("R10", bufferFactor+32*h))
	}
	f.ins("SUBQ", imm(8*h), "BX")
}

// scalePair256 reads the scales of 16 weights, twice in 32 bits. Y13 is used.
func (f *file) scalePair256(w *weights, phase, c, reg int) {
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
			f.ins("VPADDD", blockScales(bufferNumbers+32*h), y(12), y(u.sum(t, h)))
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

// fold256 multiplies one block and adds the products. Those of w.fold groups, 1, 4 or 8, fit into 16 bits, and VPMADDWD
// makes 32 bits of their sums, with ones or with the scale of 16 weights.
func (f *file) fold256(u tile256) {
	w := u.w
	if w.fold == 1 {
		f.foldEach256(u)
	} else {
		f.foldGroups256(u)
	}
	switch {
	case w.zero, w.wraps():
	case w.pairs:
		for h := range u.halves {
			f.ins("VMOVDQU", blockScales(bufferPairs+32*h), y(8+h))
			f.ins("VPBLENDW", "$0xAA", blockScales(bufferPairs+64+32*h), y(8+h), y(8+h))
			f.ins("VPSLLW", imm(5-w.shift), y(8+h), y(8+h))
		}
		u.each(func(t, h, sum int) {
			if h == 0 {
				f.halfSums(w, t)
			}
			f.ins("VPMADDWD", y(8+h), y(10), y(11))
			f.ins("VPADDD", y(11), y(sum), y(sum))
		})
	default:
		u.each(func(t, h, sum int) {
			if h == 0 {
				f.ins("VPBROADCASTD", w.sumsAt(t, 0), y(10))
				f.ins("VPSRAD", imm(w.shift), y(10), y(10))
			}
			f.ins("VPADDD", y(10), y(sum), y(sum))
		})
	}
	f.scale256(u, 0)
}

// toWide is what VPMADDWD makes 32 bits of the sums of group g with.
func (w *weights) toWide(g, h int) string {
	if w.pairs {
		return blockScales(bufferPairs + 64*(g/4) + 32*h)
	}
	return ones
}

// foldGroups256 sums the products of 4 or 8 groups in 16 bits. R15 is memory for the 32-bit sums of the first 4.
//
// Sums that wrap are of weights plus the offset: of 4 groups of Q6_K, w+32, they are up to 8*63*127 = 64,008. Those of
// w, -32 to 31, fit: 8*32*127 = 32,512. So they start at -32 times the sum of the quants, and are exact at the end.
func (f *file) foldGroups256(u tile256) {
	w := u.w
	for g := range 8 {
		f.weights256(u, g, 8)
		if g%w.fold == 0 && w.wraps() {
			u.each(func(t, h, sum int) {
				if h == 0 {
					f.ins("VPBROADCASTD", w.sumsAt(t, g/4), y(12))
					f.ins("VPBROADCASTD", at("CX", 32*t+4*g), y(10))
				}
				f.ins("VPMADDUBSW", y(10), y(8+h), y(11))
				f.ins("VPADDW", y(11), y(12), y(sum))
			})
		} else {
			f.dots256(u, g, 4*g, g%w.fold == 0)
		}
		if (g+1)%w.fold > 0 {
			continue
		}
		u.each(func(_, h, sum int) {
			f.ins("VPMADDWD", w.toWide(g, h), y(sum), y(sum))
			switch {
			case !w.foldsTwice():
			case g == 3:
				f.ins("VMOVDQA", y(sum), at("R15", 32*sum))
			default:
				f.ins("VPADDD", at("R15", 32*sum), y(sum), y(sum))
			}
		})
	}
}

// foldEach256 makes 32 bits of the products of each group, of types with two sums of 16 weights.
func (f *file) foldEach256(u tile256) {
	u.each(func(_, _, sum int) { f.zero(avx2, sum) })
	for g := range 8 {
		f.weights256(u, g, 8)
		if g%4 == 0 {
			for h := range u.halves {
				f.ins("VMOVDQU", u.w.toWide(g, h), y(12+h))
			}
		}
		u.each(func(t, h, sum int) {
			if h == 0 {
				f.ins("VPBROADCASTD", at("CX", 32*t+4*g), y(10))
			}
			f.ins("VPMADDUBSW", y(10), y(8+h), y(11))
			f.ins("VPMADDWD", y(12+h), y(11), y(11))
			f.ins("VPADDD", y(11), y(sum), y(sum))
		})
	}
}

// weights256 reads group g of the buffer to Y(reg) and Y(reg+1).
func (f *file) weights256(u tile256, g, reg int) {
	for h := range u.halves {
		u.w.vec256.unpack(f, false, 0, g, 0, h, reg+h)
	}
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

// lanes writes the kernel that sums a tile's quants as foldGroups256 takes them.
//
//	AX quants  BX half  CX bias  DI blocks
func lanes(f *file) {
	f.constant("bytes", 0x01010101)
	f.function("lanesAVX2", 0, "q *int8, half, bias *int32, blocks int", `for b < blocks, in 16 bits each:
	half[b][c] = -32*(sum of q[b][16*c+k] for k < 16, k%4 < 2), -32*(sum of the others), c < 2
	bias[b] = -16*(sum of q[b][k] for k < 32, k%4 < 2), -16*(sum of the others)`)
	f.load("q", "AX", "half", "BX", "bias", "CX", "blocks", "DI")
	f.ins("VMOVDQU", "bytes<>(SB)", y(7))
	f.zero(avx2, 6)
	f.label("loop")
	f.ins("VPMADDUBSW", at("AX", 0), y(7), y(0)) // sums of two, 4 quants in 32 bits
	f.ins("VPSRLDQ", "$8", y(0), y(1))
	f.ins("VPADDW", y(1), y(0), y(0))
	f.ins("VPSRLDQ", "$4", y(0), y(1))
	f.ins("VPADDW", y(1), y(0), y(0))
	f.ins("VPSUBW", y(0), y(6), y(0))
	f.ins("VEXTRACTI128", "$1", y(0), x(1))
	f.ins("VPADDW", x(1), x(0), x(2))
	f.ins("VPSLLW", "$4", x(2), x(2))
	f.ins("VMOVD", x(2), at("CX", 0))
	f.ins("VPUNPCKLDQ", x(1), x(0), x(0))
	f.ins("VPSLLW", "$5", x(0), x(0))
	f.ins("VMOVQ", x(0), at("BX", 0))
	f.ins("ADDQ", "$32", "AX")
	f.ins("ADDQ", "$8", "BX")
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
	lanes(f)
	for _, w := range expanded {
		f.expand256(w)
		if bufferLike[w] == nil {
			f.nest256(w.inBuffer(), false)
		}
	}
}
