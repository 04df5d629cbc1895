package main

import (
	"bytes"
	"fmt"
)

// neonType describes a type to the NEON nest, in addition to weights: how a sub-block of 32 columns is unpacked.
type neonType struct {
	copies int // sub-blocks that share bytes; 0 is 1
	dAt    int // of super-blocks: where d begins, then dmin

	unpack    func(k *nest, c, g, out int) // leaves group g of sub-block c of those that share bytes in Q registers
	constants func(f neonFile, u *unpacked)
	masks     int   // registers of constants
	order     []int // of groups, so that what was loaded serves twice
	raw, high int   // registers per quad for what is loaded
	spare     int   // registers that unpacking needs besides

	alone    bool // super-blocks have no other scales than d
	fromZero bool // unpacked weights are signed: products start at 0
	fit      int  // groups whose products fit into 16 bits

	plain *neonType // in place of this one where there is no SDOT
}

var (
	neonFiveBits = neonType{
		unpack: (*nest).fiveBits, constants: neonMasks(15, 16), masks: 2, order: byNibbles, raw: 1, high: 1, spare: 1, fit: 8,
	}
	neonNibbles = neonType{unpack: (*nest).nibbles4, constants: neonMasks(15), masks: 1, order: byNibbles, raw: 1, fit: 8}
)

// neonLookup is for nibbles that a table maps to signed weights.
func neonLookup(table string, fit int) neonType {
	return neonType{unpack: (*nest).lookup, constants: lookupTable(table), masks: 2, order: byNibbles, raw: 1,
		fromZero: true, fit: fit}
}

// at is the same in super-blocks with d at an offset.
func (n neonType) at(d int) neonType {
	n.dAt = d
	return n
}

var (
	naturally = []int{0, 1, 2, 3, 4, 5, 6, 7}
	byNibbles = []int{0, 4, 1, 5, 2, 6, 3, 7}
)

// neonWeights is a type with the sizes and offsets that the NEON nest uses.
type neonWeights struct {
	*weights
	neonType
	bytes      int // of the weights of the sub-blocks that share bytes
	dBytes     int // of the 16 rows' scales
	scalesStep int // of super-blocks: from one sub-block's scales to the next one's; 0: there are none
	minimum    minimum
	start      int // products start at a tile's sum shifted right by this; -1: at 0
}

type minimum int

const (
	noMinimum     minimum = iota
	minimumBlock          // m per block: + m*dsum
	minimumK              // dmin, and a byte per sub-block: - (dmin*mn)*dsum
	minimumHalves         // dmin, and a nibble per 16 weights
)

// minimumsAt is from a sub-block's scale bytes to its minimums.
const minimumsAt = 8 * 16

func newNeonWeights(w *weights, sdot bool) *neonWeights {
	kind := w.neon
	if kind.plain != nil && !sdot {
		kind = *kind.plain
	}
	n := &neonWeights{weights: w, neonType: kind, bytes: w.quants, dBytes: 16 * w.scaleBytes, start: w.shift}
	n.copies = max(n.copies, 1)
	if w.super > 0 {
		n.bytes, n.dBytes, n.scalesStep = w.quants/8*n.copies, 32, 16
	}
	if w.pairs {
		n.scalesStep = 32
	}
	if n.alone {
		n.scalesStep = 0
	}
	switch {
	case !w.min:
	case w.pairs:
		n.minimum = minimumHalves
	case w.super > 0:
		n.minimum = minimumK
	default:
		n.minimum = minimumBlock
	}
	if n.fromZero || w.sums == "dsum" || w.zero {
		n.start = -1
	}
	return n
}

// sumsUsed reports whether a kernel reads the parameter sums.
func (w *neonWeights) sumsUsed() bool { return w.start >= 0 || w.minimum != noMinimum }

// scalesAt is where in a super-block the scales of sub-blocks begin: before d and dmin, or after them.
func (w *neonWeights) scalesAt() int {
	if w.dAt == w.quants {
		return w.quants + 64
	}
	return w.quants
}

// superScales is how many registers hold a super-block's scales of all quads.
func (w *neonWeights) superScales() int {
	if w.min {
		return 8
	}
	return 4
}

// long reports whether quads are a loop at run time: a super-block's float sums and scales are loaded once per quad.
func (w *neonWeights) long(T int) bool { return w.super > 0 && T > 1 }

// begin sets the registers for the first block.
func (w *neonWeights) begin(f neonFile) {
	if w.super > 0 {
		return
	}
	f.ins("MOVD", "R0", "R1")
	f.ins("ADD", "$64", "R0")
	if w.per > 1 {
		f.ins("MOVD", "$0", "R11")
	}
}

// next advances to the next block or super-block; in a super-block loop ends the loop over sub-blocks.
func (w *neonWeights) next(f neonFile, loop func()) {
	f.ins("ADD", imm(w.bytes), "R0")
	switch {
	case w.super > 0:
		f.ins("SUB", "$1", "R12")
		loop()
		f.ins("ADD", imm(w.super-8/w.copies*w.bytes), "R0")
	case w.per == 1:
		f.ins("ADD", imm(w.bytes+64), "R1")
		f.ins("ADD", "$64", "R0")
	default: // after the last of those that share a section of scales the next section begins where the quants end
		f.ins("ADD", imm(w.dBytes), "R1")
		f.ins("ADD", imm(w.dBytes), "R11")
		f.ins("ADD", "$64", "R0", "R22")
		f.ins("CMP", "$64", "R11")
		f.ins("CSEL", "EQ", "R0", "R1", "R1")
		f.ins("CSEL", "EQ", "R22", "R0", "R0")
		f.ins("CSEL", "EQ", "ZR", "R11", "R11")
	}
}

// prepare converts loaded sums of a tile to the initial values of sums of products, or to the factors of minimums.
func (w *neonWeights) prepare(k *nest, reg int) {
	if w.minimum == minimumHalves {
		k.op("SSHR4", 5, reg, reg) // half is -32 times the sum
		k.op("NEG4", reg, reg)
	}
	if w.start < 0 {
		return
	}
	if w.start > 0 {
		k.op("SSHR4", w.start, reg, reg)
	}
	if k.isa.sdot && !w.pairs {
		k.ins("VADD", v(k.magic, "S4"), v(reg, "S4"), v(reg, "S4"))
	}
}

// neonMatMul writes the kernels of integer weights for an instruction set.
func neonMatMul(s neonISA) func(*file) {
	return neon(func(f neonFile) {
		f.tables(s.sdot)
		for _, w := range allWeights {
			if n := newNeonWeights(w, s.sdot); w == &q8 && !s.sdot {
				f.q8Pairs(s, n)
			} else {
				f.product(s, n)
			}
		}
	})
}

// Tables of 16 signed weights, by name.
const (
	iq4Table   = "iq4"
	mxfp4Table = "mxfp4"
)

// tables defines the constants of a file.
func (f neonFile) tables(magic bool) {
	if magic {
		f.constant("magic", 0x4b400000)
	}
	f.table(iq4Table, signedBytes(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)...)
	f.table(mxfp4Table, signedBytes(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)...)
}

// signedBytes packs bytes into words.
func signedBytes(b ...int8) []uint32 {
	words := make([]uint32, len(b)/4)
	for i, e := range b {
		words[i/4] |= uint32(uint8(e)) << (i % 4 * 8)
	}
	return words
}

// neonDoc is a kernel's comment.
func neonDoc(w *weights) string {
	return fmt.Sprintf("matMul%s for n tokens of a tile of tokens; prefetch and step are not used", w.format)
}

// neonSetters is a Go file of functions that put the kernels into a set.
func neonSetters() []byte {
	var b bytes.Buffer
	b.WriteString(header + "package asm\n")
	for _, s := range []neonISA{baseline, dotprod} {
		fmt.Fprintf(&b, "\n// integer%s sets the products with integer weights.\nfunc integer%[1]s(k *Kernels) {\n", s.name)
		for _, w := range allWeights {
			for _, format := range w.formats() {
				fmt.Fprintf(&b, "\tk.Weights[%s].MatMul = %s(%[1]s, %[3]s%s, tile%s, %d)\n",
					format, w.maker(), w.name, s.name, tileSums[w.sums], s.most)
			}
		}
		b.WriteString("}\n")
	}
	b.WriteString("\n// integerI8MM sets the products of integer weights with whole tiles.\nfunc integerI8MM(k " +
		"*Kernels) {\n")
	for _, w := range allWeights {
		for _, format := range w.formats() {
			fmt.Fprintf(&b, "\tk.Weights[%s].MatMul = wholeTiles(%s(%[1]s, %[3]sI8MM, tile%s, "+
				"TileTokens),\n\t\tk.Weights[%[1]s].MatMul)\n",
				format, w.maker(), w.name, tileSums[w.sums])
		}
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// tileSums are the fields of package asm's Tile.
var tileSums = map[string]string{
	"bias": "Bias", "half": "Half", "dsum": "DSum", "cross": "Cross", "laneBias": "LaneBias", "laneHalf": "LaneHalf",
}
