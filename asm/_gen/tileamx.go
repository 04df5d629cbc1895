package main

import (
	"fmt"
	"strings"
)

// Products of a panel's columns with tiles of 16 tokens by the tile unit of AMX. Integer sums are exact, so the bits
// are those of the other sets.
//
// Loops: panels > chunks of columns > tiles of tokens > groups of 4 blocks. A chunk is expanded once, to signed bytes
// and float32 scales in a buffer that stays in the L1 cache, and multiplied with all tiles. The bytes of a block, 8
// groups of 16 rows x 4 weights, are the B tile as they are; the A tile is 16 tokens x 32 activations. Float sums of a
// tile are in registers; between chunks they lie in the scratch memory.
//
// The tile unit takes 16 cycles a block and leaves one multiplication of 512 bits a cycle, so scaling is the limit.
// Hence:
//   - float(n) without a multiplication: the bits of 1.5*2^23 plus n are the float32 1.5*2^23 + n; its difference from
//     1.5*2^23 is exact for |n| < 2^22.
//   - Types with a scale per 16 weights are expanded to weight times scale: one byte, or two digits, low and 64*high,
//     whose sums are those of two products; 1.5*2^29 takes the sum of the high digits times 64.
//   - Minimums of 16 weights (Q2_K) are a second product, with bytes that repeat them.
//
// Block b is multiplied, b-late stored, b-4 scaled: the unit's latency is hidden.
//
//	AX buffer  CX activations  DX their scales  SI their sums  DI groups left  R8 64  R9 32
//	R12 0  R11 scratch  R15 prefetch  BX its step
//	Z0-15 sums of 16 tokens  Z16-23 scratch  Z24, Z25 scales, minimums  Z26-31 constants of conversions
//	TMM0-3 sums  TMM4-5 activations  TMM6-7 weights
//
// The expanders use registers as nest512 does; R10 points into the buffer.

// nestAMX is one of the loop nests: how integer sums become float sums.
type nestAMX struct {
	name, doc string
	products  int // of a block
	min       bool
	digits    bool // the second product counts 64 times, and both are one sum
	late      int
}

// Nests by what a type has: see nestOf.
var nestsAMX = []*nestAMX{
	{name: "scale", products: 1, late: 2, doc: "acc = fma(float(isum), scale*d[b][t], acc)"},
	{name: "minimum", products: 1, min: true, late: 2,
		doc: "acc = fma(float(isum), scale*d[b][t], acc)\n\t\tacc = fma(minimum, dsum[b][t], acc)"},
	{name: "digits", products: 2, digits: true, late: 1,
		doc: "acc = fma(float(isum + 64*isum1), scale*d[b][t], acc)"},
	{name: "twice", products: 2, late: 1,
		doc: "acc = fma(float(isum), scale*d[b][t], acc)\n\t\tacc = fma(float(isum1), scale1*d[b][t], acc)"},
}

// nestOf is the nest that a type takes.
func (w *weights) nestOf() *nestAMX {
	i := 0
	switch {
	case w.pairs && w.min:
		i = 3
	case w.pairs && !w.byteProducts():
		i = 2
	case w.min:
		i = 1
	}
	return nestsAMX[i]
}

// byteProducts says that weight times scale is a signed byte: -4…3 by -32…31 (minus the product), 0…3 by 0…15.
func (w *weights) byteProducts() bool { return w == &q3k || w == &q2k }

// formAMX is a type's place among those of its nest.
func (w *weights) formAMX() (form int) {
	for _, o := range allWeights {
		if o == w {
			return form
		}
		if o.nestOf() == w.nestOf() {
			form++
		}
	}
	panic("not a type")
}

// offset is what the unpacked bytes are greater by than the weights.
func (w *weights) offset() int {
	most := map[string]int{"bias": 128, "half": 32, "laneBias": 16, "laneHalf": 32, "dsum": 0}[w.sums]
	switch {
	case w.zero:
		return 0
	case w.shift < 0:
		return 2 * most
	}
	return most >> w.shift
}

// Scratch memory: the configuration of the tiles, a row of the constant of conversions, the sums in flight, the buffer,
// and the float sums of all tiles between chunks. Package asm has the same numbers.
const (
	constantAMX = 64
	sumsAMX     = 1 << 10
	bufferAMX   = 12 << 10
	partialAMX  = 52 << 10
)

// A block in the buffer: 512 bytes of weights for each product, then float32 numbers of 16 rows.
func (n *nestAMX) scalesAt() int { return 512 * n.products }

func (n *nestAMX) blockBytes() int {
	if n.min || n.products == 2 && !n.digits {
		return n.scalesAt() + 128
	}
	return n.scalesAt() + 64
}

// rest says that a chunk's blocks may be no multiple of a group's: not in super-blocks.
func (n *nestAMX) rest() bool { return n.products == 1 }

const (
	groupAMX  = 4  // blocks written out
	tokensAMX = 16 // of a tile
)

const paramsAMX = "w *byte, panelBytes, panels int, tiles *amxTile, count, last int, blocks, chunk, chunkBytes int, " +
	"out *float32, stride int, scratch *byte, step, form int, table *[32]byte"

// Local variables.
const (
	doneAMX  = iota // blocks of the panel before this chunk
	chunkAMX        // where the chunk lies
	sizeAMX         // its blocks
	tileAMX         // the tile
	leftAMX         // tiles left
	outAMX          // of the tile
	sumAMX          // its float sums
	varsAMX
)

func localAMX(i int) string { return fmt.Sprintf("v%d-%d(SP)", i, 8*(i+1)) }

func matmulAMX(f *file) {
	for _, n := range nestsAMX {
		f.nestAMX(n)
	}
}

func (f *file) nestAMX(n *nestAMX) {
	v := localAMX
	var forms []*weights
	for _, w := range allWeights {
		if w.nestOf() == n {
			forms = append(forms, w)
		}
	}
	f.function(n.name+"AMX", 8*varsAMX, paramsAMX, `for p < panels, i < count, t < 16 (or last), r < 16:
	for b < blocks:    // isum = sum over k < 32 of weight[b][r][k]*q[b][t][k]; see _gen/tileamx.go
		`+n.doc)
	f.load("scratch", "R11")
	f.ldtilecfg("R11")
	f.label("panel")
	f.ins("MOVQ", "$0", v(doneAMX))
	f.load("w", "AX")
	f.ins("MOVQ", "AX", v(chunkAMX))

	f.label("chunk")
	f.load("blocks", "DI", "chunk", "R10")
	f.ins("SUBQ", v(doneAMX), "DI")
	f.ins("CMPQ", "DI", "R10")
	f.ins("CMOVQGT", "R10", "DI")
	f.ins("MOVQ", "DI", v(sizeAMX))
	f.ins("LEAQ", at("R11", bufferAMX), "R10")
	f.load("form", "R9")
	for i := range forms[1:] {
		f.ins("CMPQ", "R9", imm(i+1))
		f.ins("JEQ", fmt.Sprintf("form%d", i+1))
	}
	for i, w := range forms {
		if i > 0 {
			f.label(fmt.Sprintf("form%d", i))
		}
		f.expandAMX(w, i)
		if i < len(forms)-1 {
			f.ins("JMP", "expanded")
		}
	}

	f.label("expanded")
	f.constantsAMX(n)
	f.load("chunkBytes", "AX", "step", "BX", "tiles", "CX", "count", "DX", "out", "R10")
	f.ins("ADDQ", "AX", v(chunkAMX))
	f.ins("MOVQ", v(chunkAMX), "R15") // the next chunk, which is read meanwhile
	f.ins("MOVQ", "CX", v(tileAMX))
	f.ins("MOVQ", "DX", v(leftAMX))
	f.ins("MOVQ", "R10", v(outAMX))
	f.ins("LEAQ", at("R11", partialAMX), "AX")
	f.ins("MOVQ", "AX", v(sumAMX))

	f.label("tile")
	f.ins("MOVQ", v(tileAMX), "R14")
	f.ins("MOVQ", v(doneAMX), "R13")
	f.ins("SHLQ", "$6", "R13")
	f.ins("MOVQ", at("R14", 8), "DX")
	f.ins("ADDQ", "R13", "DX")
	if n.min {
		f.ins("MOVQ", at("R14", 16), "SI")
		f.ins("ADDQ", "R13", "SI")
	}
	f.ins("SHLQ", "$3", "R13")
	f.ins("MOVQ", at("R14", 0), "CX")
	f.ins("ADDQ", "R13", "CX")
	f.ins("LEAQ", at("R11", bufferAMX), "AX")
	f.ins("MOVQ", v(sumAMX), "R10")
	f.ins("MOVQ", v(sizeAMX), "DI")
	f.ins("SHRQ", "$2", "DI")
	f.ins("CMPQ", v(leftAMX), "$1")
	f.ins("JNE", "whole")
	f.ins("CMPQ", f.arg("last"), imm(tokensAMX/2))
	f.ins("JLE", "half")
	f.label("whole")
	f.tileAMX(n, tokensAMX)
	f.ins("JMP", "next")
	f.label("half")
	f.tileAMX(n, tokensAMX/2)

	f.label("next")
	f.ins("ADDQ", imm(64*tokensAMX), v(sumAMX))
	f.ins("ADDQ", "$24", v(tileAMX))
	f.ins("DECQ", v(leftAMX))
	f.ins("JNZ", "tile")
	f.ins("MOVQ", v(sizeAMX), "DI")
	f.ins("ADDQ", v(doneAMX), "DI")
	f.ins("MOVQ", "DI", v(doneAMX))
	f.ins("CMPQ", "DI", f.arg("blocks"))
	f.ins("JNE", "chunk")
	f.load("panelBytes", "AX")
	f.ins("ADDQ", "AX", f.arg("w"))
	f.ins("ADDQ", "$64", f.arg("out"))
	f.ins("DECQ", f.arg("panels"))
	f.ins("JNZ", "panel")
	f.tilerelease()
	f.ret()
}

// The constants of conversions: integer sums + bits of 1.5*2^k, minus 1.5*2^k.
const (
	magic23   = 0x4b400000
	magic29   = 0x4e400000
	minus23   = magic23 | 1<<31
	minusBoth = 0xce430000 // -(1.5*2^29 + 1.5*2^23)
)

func (f *file) constantsAMX(n *nestAMX) {
	f.ins("MOVQ", "$64", "R8")
	f.broadcast512(magic23, 30)
	f.broadcast512(minus23, 31)
	if n.products == 2 { // sums of the second product start at the constant: an addition less, 16 loads more
		second := 30
		if n.digits {
			second = 28
			f.broadcast512(magic29, second)
			f.broadcast512(minusBoth, 29)
		}
		f.ins("VMOVUPS", z(second), at("R11", constantAMX))
		f.ins("XORQ", "R12", "R12")
	}
	f.ins("MOVQ", "$32", "R9")
}

// tileAMX multiplies the chunk with a tile, of which it scales the sums of the first T tokens. R10 points to its float
// sums.
func (f *file) tileAMX(n *nestAMX, T int) {
	v := localAMX
	l := func(name string) string { return fmt.Sprintf("%s%d", name, T) }
	f.ins("CMPQ", v(doneAMX), "$0")
	f.ins("JEQ", l("zero"))
	for t := range T {
		f.ins("VMOVUPS", at("R10", 64*t), z(t))
	}
	f.ins("JMP", l("begin"))
	f.label(l("zero"))
	for t := range T {
		f.ins("VPXORD", z(t), z(t), z(t))
	}
	f.label(l("begin"))
	if n.rest() {
		f.ins("TESTQ", "DI", "DI")
		f.ins("JEQ", l("rest"))
	}
	for i := range groupAMX {
		f.multiplyAMX(n, i)
		if i >= n.late {
			f.storeAMX(n, i-n.late)
		}
	}
	f.nextAMX(n, groupAMX)
	f.ins("DECQ", "DI")
	f.ins("JEQ", l("last"))
	f.label(l("loop"))
	for i := range groupAMX {
		f.multiplyAMX(n, i)
		f.storeAMX(n, i-n.late)
		f.scaleAMX(n, i-groupAMX, T)
	}
	f.nextAMX(n, groupAMX)
	f.ins("DECQ", "DI")
	f.ins("JNE", l("loop"))
	f.label(l("last"))
	for i := range groupAMX {
		if i < n.late {
			f.storeAMX(n, i-n.late)
		}
		f.scaleAMX(n, i-groupAMX, T)
	}

	if n.rest() { // one by one
		f.label(l("rest"))
		f.ins("MOVQ", v(sizeAMX), "DI")
		f.ins("ANDQ", imm(groupAMX-1), "DI")
		f.ins("JEQ", l("scaled"))
		f.label(l("one"))
		f.multiplyAMX(n, 0)
		f.storeAMX(n, 0)
		f.scaleAMX(n, 0, T)
		f.nextAMX(n, 1)
		f.ins("DECQ", "DI")
		f.ins("JNE", l("one"))
		f.label(l("scaled"))
	}
	f.ins("MOVQ", v(doneAMX), "R13")
	f.ins("ADDQ", v(sizeAMX), "R13")
	f.ins("CMPQ", "R13", f.arg("blocks"))
	f.ins("JEQ", l("final"))
	for t := range T {
		f.ins("VMOVUPS", z(t), at("R10", 64*t))
	}
	f.ins("JMP", "next")
	f.label(l("final"))
	f.ins("MOVQ", v(outAMX), "R10")
	f.load("stride", "R13")
	if T == tokensAMX { // the last tile may have fewer
		f.ins("CMPQ", v(leftAMX), "$1")
		f.ins("JNE", l("all"))
		f.storeRowsAMX(T/2+1, T)
		f.label(l("all"))
		f.storeRowsAMX(T, T)
		f.ins("MOVQ", "R10", v(outAMX))
		return
	}
	f.storeRowsAMX(1, T)
}

// storeRowsAMX writes the outputs of T tokens, or from least tokens on of fewer if there are fewer.
func (f *file) storeRowsAMX(least, T int) {
	for t := range T {
		f.ins("VMOVUPS", z(t), at("R10", 0))
		f.ins("ADDQ", "R13", "R10")
		if t+1 >= least && t+1 < T {
			f.ins("CMPQ", f.arg("last"), imm(t+1))
			f.ins("JEQ", "next")
		}
	}
	if least < T {
		f.ins("JMP", "next")
	}
}

// multiplyAMX starts the products of block i of a group.
func (f *file) multiplyAMX(n *nestAMX, i int) {
	a, w := 32*tokensAMX*i, n.blockBytes()*i
	f.tileload(4+i%2, "CX", "R9", a)
	if n.products == 1 {
		f.tileload(6+i%2, "AX", "R8", w)
		f.tilezero(i % 4)
		f.tdpbssd(i%4, 4+i%2, 6+i%2)
		return
	}
	for p := range 2 {
		f.tileload(6+p, "AX", "R8", w+512*p)
		if p == 0 {
			f.tilezero(i % 2)
		} else {
			f.tileload(2+i%2, "R11", "R12", constantAMX)
		}
		f.tdpbssd(i%2+2*p, 4+i%2, 6+p)
	}
}

// storeAMX writes the integer sums of block i of a group, which may be negative, to memory.
func (f *file) storeAMX(n *nestAMX, i int) {
	i = (i + groupAMX) % groupAMX
	if n.products == 1 {
		f.tilestore(i, "R11", "R8", sumsAMX+1024*i)
		return
	}
	for p := range 2 {
		f.tilestore(i%2+2*p, "R11", "R8", sumsAMX+4096*p+1024*i)
	}
}

// scaleAMX adds the sums of block i of a group, which may be negative.
func (f *file) scaleAMX(n *nestAMX, i, T int) {
	f.ins("VMOVUPS", at("AX", n.blockBytes()*i+n.scalesAt()), z(24))
	if n.blockBytes() > n.scalesAt()+64 {
		f.ins("VMOVUPS", at("AX", n.blockBytes()*i+n.scalesAt()+64), z(25))
	}
	for l := range 3 {
		f.ins("PREFETCHT1", at("R15", 64*l))
	}
	f.ins("ADDQ", "BX", "R15")
	slot := (i + groupAMX) % groupAMX
	for t := range T {
		d := at("DX", 4*tokensAMX*i+4*t)
		c := sumsAMX + 1024*slot + 64*t
		a, b := 16+t%4, 20+t%4
		f.ins("VPADDD", at("R11", c), z(30), z(a))
		if n.digits {
			f.ins("VADDPS", at("R11", c+4096), z(29), z(b))
			f.ins("VADDPS", z(b), z(a), z(a))
		} else {
			f.ins("VADDPS", z(a), z(31), z(a))
		}
		f.ins("VMULPS.BCST", d, z(24), z(b))
		f.ins("VFMADD231PS", z(b), z(a), z(t))
		switch {
		case n.min:
			f.ins("VFMADD231PS.BCST", at("SI", 4*tokensAMX*i+4*t), z(25), z(t))
		case n.products == 2 && !n.digits:
			f.ins("VADDPS", at("R11", c+4096), z(31), z(a))
			f.ins("VMULPS.BCST", d, z(25), z(b))
			f.ins("VFMADD231PS", z(b), z(a), z(t))
		}
	}
}

// nextAMX moves the pointers by some blocks.
func (f *file) nextAMX(n *nestAMX, blocks int) {
	f.ins("ADDQ", imm(blocks*n.blockBytes()), "AX")
	f.ins("ADDQ", imm(blocks*32*tokensAMX), "CX")
	f.ins("ADDQ", imm(blocks*4*tokensAMX), "DX")
	if n.min {
		f.ins("ADDQ", imm(blocks*4*tokensAMX), "SI")
	}
}

// expandAMX writes DI blocks of a panel into the buffer at R10. form makes labels.
//
//	Z16 offset  Z17 0xc0 in bytes  Z18 512 in words  Z19 0xff in words  Z20-21 scales of both halves as words, times 256
//	Z22-23 themselves  Z0-7 scratch; the others as in nest512
func (f *file) expandAMX(w *weights, form int) {
	n, p := w.nestOf(), &w.vec512
	l := func(name string) string { return fmt.Sprintf("%s%d", name, form) }
	f.ins("MOVQ", localAMX(chunkAMX), "AX")
	if w.offset() > 0 {
		f.broadcast512(uint32(w.offset())*0x01010101, 16)
	}
	if w.pairs {
		f.broadcast512(0x00ff00ff, 19)
	}
	if n.digits {
		f.broadcast512(0xc0c0c0c0, 17)
		f.broadcast512(0x02000200, 18)
	}
	if p.constants != nil {
		p.constants(f)
	}
	if w.super == 0 {
		f.beginRun(w)
	}
	f.label(l("expand"))
	if w.super == 0 {
		f.expandBlockAMX(w, 0)
		f.nextBlock(w)
		f.ins("DECQ", "DI")
	} else {
		p.super(f)
		runs := max(1, p.phases)
		f.ins("MOVQ", imm(8/runs), "R9")
		f.label(l("blocks"))
		for phase := range runs {
			f.expandBlockAMX(w, phase)
			p.next(f, phase)
		}
		f.ins("DECQ", "R9")
		f.ins("JNZ", l("blocks"))
		f.ins("ADDQ", imm(w.super-w.quants), "AX")
		f.ins("SUBQ", "$8", "DI")
	}
	f.ins("JNZ", l("expand"))
}

func (f *file) expandBlockAMX(w *weights, phase int) {
	n, p := w.nestOf(), &w.vec512
	for i := range w.lines() {
		f.ins("PREFETCHT0", at("AX", 4*w.blockBytes()+64*i))
	}
	if w.pairs {
		f.scaledScalesAMX(w, phase)
	}
	if p.before != nil {
		p.before(f)
	}
	one := func(reg, g int) {
		if w.offset() > 0 {
			f.ins("VPSUBB", z(16), z(reg), z(reg))
		}
		switch {
		case w.pairs:
			f.scaledWeightsAMX(n, g)
		default:
			f.ins("VMOVDQU64", z(reg), at("R10", 64*g))
		}
	}
	groups := 8
	if p.dual {
		groups = 4
	}
	for g := range groups {
		if g%4 == 0 && p.half != nil {
			p.half(f, g/4)
		}
		p.unpack(f, phase, g)
		one(24, g)
		if p.dual {
			one(25, g+4)
		}
	}
	second := n.scalesAt() + 64
	switch {
	case n.digits:
		f.ins("VMOVUPS", z(27), at("R10", n.scalesAt()))
	case w.pairs: // weights are minus the products
		f.broadcast512Into(1<<31, 0)
		f.ins("VPXORD", z(27), z(0), z(1))
		f.ins("VMOVUPS", z(1), at("R10", n.scalesAt()))
		if w.min {
			f.ins("VMOVUPS", z(28), at("R10", second))
			f.minimumBytesAMX(w, phase)
		}
	default:
		p.scales(f, phase)
		f.ins("VMOVUPS", z(8), at("R10", n.scalesAt()))
		if w.min && !w.plus {
			f.broadcast512Into(1<<31, 0)
			f.ins("VPXORD", z(9), z(0), z(9))
		}
		if w.min {
			f.ins("VMOVUPS", z(9), at("R10", second))
		}
	}
	f.ins("ADDQ", imm(n.blockBytes()), "R10")
}

// broadcast512Into is broadcast512 by R13, where R9 counts.
func (f *file) broadcast512Into(v uint32, reg int) {
	f.ins("MOVL", fmt.Sprintf("$0x%08x", v), "R13")
	f.ins("VPBROADCASTD", "R13", z(reg))
}

// scaledScalesAMX reads the scales of both halves of a block as words, two for each row.
func (f *file) scaledScalesAMX(w *weights, phase int) {
	w.vec512.scales(f, phase)
	for c := range 2 {
		f.ins("VCVTPS2DQ", z(24+c), z(24+c))
		if w.byteProducts() {
			f.ins("VPXORD", z(0), z(0), z(0))
			f.ins("VPSUBD", z(24+c), z(0), z(24+c))
		}
		f.ins("VPSLLD", "$16", z(24+c), z(0))
		f.ins("VPSRLD", "$16", z(0), z(1))
		f.ins("VPORD", z(0), z(1), z(22+c))
		f.ins("VPSLLW", "$8", z(22+c), z(20+c))
	}
}

// scaledWeightsAMX multiplies the weights of group g in Z24 with the scales, and stores a byte, or two digits.
func (f *file) scaledWeightsAMX(n *nestAMX, g int) {
	c := g / 4
	f.ins("VPSLLW", "$8", z(24), z(0))
	f.ins("VPSRAW", "$8", z(24), z(1))
	f.ins("VPMULHW", z(20+c), z(0), z(0)) // of even weights
	f.ins("VPMULLW", z(22+c), z(1), z(1)) // of odd ones
	if n.digits {
		f.ins("VPMULHRSW", z(18), z(0), z(2)) // (product + 32) >> 6
		f.ins("VPMULHRSW", z(18), z(1), z(3))
		f.ins("VPSLLW", "$8", z(3), z(3))
		f.ins("VPTERNLOGD", "$0xF8", z(2), z(19), z(3)) // odd | even & 0xff
		f.ins("VMOVDQU64", z(3), at("R10", 512+64*g))
	}
	f.ins("VPSLLW", "$8", z(1), z(1))
	f.ins("VPTERNLOGD", "$0xF8", z(0), z(19), z(1))
	if n.digits {
		f.ins("VPSLLW", "$6", z(3), z(2))
		f.ins("VPANDD", z(17), z(2), z(2))
		f.ins("VPSUBB", z(2), z(1), z(1))
	}
	f.ins("VMOVDQU64", z(1), at("R10", 64*g))
}

// minimumBytesAMX writes minus the minimums of both halves as weights of the second product.
func (f *file) minimumBytesAMX(w *weights, phase int) {
	w.vec512.minimums(f, phase) // mn0 | mn1<<16
	f.ins("VPXORD", z(2), z(2), z(2))
	for c := range 2 {
		var order [16]int
		for i := range order {
			order[i] = i&^3 + 2*c
		}
		f.ins("VBROADCASTI32X4", f.lookup(fmt.Sprintf("byte%d", 2*c), order), z(0))
		f.ins("VPSHUFB", z(0), z(24), z(0))
		f.ins("VPSUBB", z(0), z(2), z(0))
		for g := range 4 {
			f.ins("VMOVDQU64", z(0), at("R10", 512+256*c+64*g))
		}
	}
}

// Tile instructions, which Go's assembler does not know: bytes with their text behind them.

var registerNumbers = map[string]int{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SI": 6, "DI": 7,
	"R8": 8, "R9": 9, "R10": 10, "R11": 11, "R12": 12, "R13": 13, "R14": 14, "R15": 15}

// vexTile emits VEX.128.0F38.W0 with a prefix (0 none, 1 66, 2 F3, 3 F2), an opcode, the register v, and what follows.
func (f *file) vexTile(text string, prefix, opcode, v, index, base int, rest ...byte) {
	code := append([]byte{0xC4, byte(1<<7 | (^index>>3&1)<<6 | (^base>>3&1)<<5 | 2), byte((^v&15)<<3 | prefix),
		byte(opcode)}, rest...)
	var b strings.Builder
	for _, c := range code {
		fmt.Fprintf(&b, "BYTE $0x%02X; ", c)
	}
	f.emit(instr{op: text, text: strings.TrimSuffix(b.String(), "; ") + " // " + text})
}

// memoryTile is ModRM, SIB and a displacement of 32 bits: a tile at off(base)(index*1); index 4 is none.
func (f *file) memoryTile(text string, prefix, opcode, tile int, base string, index, off int) {
	b := registerNumbers[base]
	f.vexTile(text, prefix, opcode, 0, index, b, byte(2<<6|tile<<3|4), byte(index&7<<3|b&7),
		byte(off), byte(off>>8), byte(off>>16), byte(off>>24))
}

func (f *file) ldtilecfg(base string) { f.memoryTile("LDTILECFG ("+base+")", 0, 0x49, 0, base, 4, 0) }

func (f *file) tilerelease() { f.vexTile("TILERELEASE", 0, 0x49, 0, 0, 0, 0xC0) }

func (f *file) tilezero(t int) {
	f.vexTile(fmt.Sprintf("TILEZERO TMM%d", t), 3, 0x49, 0, 0, 0, byte(0xC0|t<<3))
}

// tileload reads rows from off(base) on, stride bytes apart.
func (f *file) tileload(t int, base, stride string, off int) {
	f.memoryTile(fmt.Sprintf("TILELOADD %s, TMM%d", atx(base, stride, 1, off), t), 3, 0x4B, t, base,
		registerNumbers[stride], off)
}

func (f *file) tilestore(t int, base, stride string, off int) {
	f.memoryTile(fmt.Sprintf("TILESTORED TMM%d, %s", t, atx(base, stride, 1, off)), 2, 0x4B, t, base,
		registerNumbers[stride], off)
}

// tdpbssd adds products of signed bytes: c += a*b.
func (f *file) tdpbssd(c, a, b int) {
	f.vexTile(fmt.Sprintf("TDPBSSD TMM%d, TMM%d, TMM%d", b, a, c), 3, 0x5E, b, 0, 0, byte(0xC0|c<<3|a))
}
