package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// weights describes a type of integer weights to the loop nests: sizes and offsets, and in vec512, vec256 and neon the
// functions that unpack weights and scale sums. Each type has a file, type_<type>.go.
//
// Weights reach the multiplication as unsigned bytes w+offset, 4 of each of 16 rows: a group of 64 bytes. A block of 32
// weights is 8 groups. Two layouts exist; see Format in package asm.
type weights struct {
	name string // prefix of the kernels' names
	doc  string // the Go loop

	signedDoc string // where AVX2 without VNNI has another one

	format string   // its name in package asm
	also   []string // other formats with this kernel
	table  bool     // which has the numbers that nibbles stand for as a parameter

	layout // of a panel

	// What the sums of a block start at: bias and half are shifted right by shift, or with -1 doubled; with dsum they
	// start at 0.
	sums  string
	shift int
	zero  bool

	pairs bool // two sums of 16 weights, each with a scale: an integer sum of both is scaled
	min   bool // acc = fma(minimum, dsum, acc) follows
	plus  bool // the minimum is added, not taken away

	// AVX2 without VNNI: signed: weights are multiplied as signed bytes; small: the sums of a block fit into 16 bits. If
	// neither is set, kernels hold one half of the rows in registers, also with VNNI, and load activations twice: for
	// these types unpacking, not loading activations, is the limit.
	signed, small bool
	raised        bool // signed: with 64 added weights have 7 bits, and are multiplied so
	apart         bool // pairs: products of one group alone fit into 16 bits
	odd           bool // weights w are 2w-15
	fold          int  // buffer: products of so many groups are summed in 16 bits; 0: of all, or signed
	whole         bool // kernels of 5 to 8 tokens that unpack weights once

	buffered

	vec512 parts512
	vec256 parts256
	neon   neonType
}

// buffered is set by inBuffer. buffer: the weights are in the buffer of expand256.go; kernels add to out and do not
// prefetch. words: weights and activations are 16 bits.
type buffered struct{ buffer, words bool }

// layout is where a panel has what it holds. Runs of per blocks, 1, 2 or 4: header bytes with the scales of all,
// scaleBytes a row, then the quants of each block, quants bytes. Or super-blocks of 8 blocks: super bytes, of which the
// first quants bytes are the quants.
type layout struct {
	per, header, scaleBytes, quants int
	super                           int
}

// blockBytes is the size of a block.
func (l *layout) blockBytes() int {
	if l.super > 0 {
		return l.super / 8
	}
	return l.header/l.per + l.quants
}

// formats are the types with this kernel.
func (w *weights) formats() []string { return append([]string{w.format}, w.also...) }

// maker is the function of package asm that makes a MatMul of the kernel.
func (w *weights) maker() string {
	if w.table {
		return "tableMatMul"
	}
	return "integerMatMul"
}

// minOp adds the minimum times dsum.
func (w *weights) minOp() string {
	if w.plus {
		return "VFMADD231PS.BCST"
	}
	return "VFNMADD231PS.BCST"
}

// lines is how many cache lines are prefetched per block.
func (w *weights) lines() int { return (w.blockBytes() + 63) / 64 }

// allWeights are the types of integer weights, in the order of package asm's formats.
var allWeights = []*weights{
	&q8, &q6k, &q51, &q5k, &q50, &q41, &q4k, &iq4nl, &q4, &table32, &mxfp4, &q3k, &q2k, &table16, &tq,
}

// aloneWeights are products with AVX2 alone, in the place of those that allWeights have for their formats.
var aloneWeights = []*weights{&odd32, &raised32}

// Registers of the integer kernels. A tile's token strides are its own (tokens), not the number n of tokens computed
// here.
//
//	AX weights  BX scales  CX activations  DX their scales  SI bias, half or dsum  DI blocks or super-blocks left
//	R10 out  R11 stride in bytes  R13 tokens*4  R14 see pairs  R15 the next line to prefetch
const integerParams = ", n, tokens int, out *float32, stride" + prefetchParams

// prefetchParams are the parameters of prefetching: a kernel prefetches step bytes per block, beginning prefetch bytes
// after its weights.
const prefetchParams = ", prefetch, step int"

// params is a kernel's list of parameters.
func (w *weights) params() string {
	if w.table {
		return w.productParams() + ", table *[32]byte"
	}
	return w.productParams()
}

func (w *weights) productParams() string {
	kind := "int32"
	if w.sums == "dsum" {
		kind = "float32"
	}
	if w.buffer {
		q := "*int8"
		if w.words {
			q = "*int16"
		}
		return fmt.Sprintf("w *byte, q %s, d *float32, %s *%s, blocks, n, tokens int, out *float32, stride int",
			q, w.sums, kind)
	}
	return fmt.Sprintf("w *byte, q *int8, d *float32, %s *%s, %s%s", w.sums, kind, w.count(), integerParams)
}

// count is the parameter that says how many blocks or super-blocks there are.
func (w *weights) count() string {
	if w.super > 0 {
		return "supers"
	}
	return "blocks"
}

// setters is a Go file of functions that put the kernels into a set.
func setters() []byte {
	var b bytes.Buffer
	b.WriteString(header + "package asm\n")
	for _, set := range []string{"AVX2", "AVXVNNI", "AVX512"} {
		fmt.Fprintf(&b, "\n// integer%s sets the products with integer weights.\nfunc integer%[1]s(k *Kernels) {\n", set)
		matMuls := allWeights
		if set == "AVX2" {
			matMuls = slices.Concat(allWeights, aloneWeights)
		}
		for _, w := range matMuls {
			for _, format := range w.formats() {
				fmt.Fprintf(&b, "\tk.Weights[%s].MatMul = %s(%[1]s, %[3]s%s, tile%s)\n",
					format, w.maker(), w.name, set, tileSums[w.sums])
			}
		}
		b.WriteString("}\n")
	}
	b.WriteString("\n// integerTilesAVX2 sets the products of many tokens with integer weights.\nfunc " +
		"integerTilesAVX2(k *Kernels) {\n")
	for _, w := range expanded {
		for _, format := range w.formats() {
			e, maker := w.inBuffer(), "matMulTiles"
			if w.table {
				maker = "tableTiles"
			}
			fmt.Fprintf(&b, "\tk.Weights[%[1]s].MatMulTiles = %[2]s(%[1]s, %[3]sExpandAVX2, %[4]sAVX2, tileQ%[5]s)\n",
				format, maker, w.name, e.name, tileSums[e.sums])
			switch e.sums {
			case "cross":
				fmt.Fprintf(&b, "\tk.Weights[%s].TilesForm = TileWords\n", format)
			case "laneBias", "laneHalf":
				fmt.Fprintf(&b, "\tk.Weights[%s].TilesForm = TileLanes\n", format)
			}
		}
	}
	b.WriteString("}\n")
	b.WriteString("\n// integerAMX sets the products of many tokens with integer weights.\nfunc integerAMX(k *Kernels) " +
		"{\n")
	for _, w := range allWeights {
		for _, format := range w.formats() {
			fmt.Fprintf(&b, "\tk.Weights[%s].MatMulTiles = amxMatMulTiles(%[1]s, %sAMX, %d, %d)\n",
				format, w.nestOf().name, w.nestOf().products, w.formAMX())
		}
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// arguments loads the parameters.
func (f *file) arguments(w *weights) {
	f.load("w", "AX", "q", "CX", "d", "DX", w.sums, "SI", w.count(), "DI",
		"n", "R8", "tokens", "R13", "out", "R10", "stride", "R11")
	f.ins("SHLQ", "$2", "R11")
	f.ins("SHLQ", "$2", "R13")
	if !w.buffer {
		f.load("prefetch", "R15")
		f.ins("ADDQ", "AX", "R15")
	}
	if w.super == 0 {
		f.beginRun(w)
	}
}

// beginRun sets AX, BX and R14 for the first block of a run, when AX points to its scales: BX is what to add to AX for
// the block's scales; R14 what to skip after its quants, or the number of the block in a run of 4.
func (f *file) beginRun(w *weights) {
	f.ins("ADDQ", imm(w.header), "AX")
	f.ins("MOVQ", imm(-w.header), "BX")
	f.ins("XORQ", "R14", "R14")
}

// blockScales is the memory of a block's scales, off bytes further.
func blockScales(off int) string { return atx("AX", "BX", 1, off) }

// nextBlock moves AX to the next block, whose quants follow at once if it is not the last of its run.
func (f *file) nextBlock(w *weights) {
	switch w.per {
	case 1:
		f.ins("ADDQ", imm(w.quants+w.header), "AX")
	case 2:
		f.ins("LEAQ", atx("AX", "R14", 1, w.quants), "AX")
		f.ins("XORQ", imm(w.header), "R14")
		f.ins("XORQ", imm(-w.header^-(w.quants+w.header-32)), "BX")
	case 4:
		f.loops++
		same := fmt.Sprintf("run%d", f.loops)
		f.ins("ADDQ", imm(w.quants), "AX")
		f.ins("SUBQ", imm(w.quants-16*w.scaleBytes), "BX")
		f.ins("INCQ", "R14")
		f.ins("TESTQ", "$3", "R14")
		f.ins("JNE", same)
		f.ins("ADDQ", imm(w.header), "AX")
		f.ins("MOVQ", imm(-w.header), "BX")
		f.label(same)
	}
}

// nextActivations moves the pointers to the next block of activations.
func (f *file) nextActivations(w *weights) {
	f.moveQuants(w, "R13")
	f.ins("ADDQ", "R13", "DX")
	f.moveSums(w, "R13")
}

// moveSums moves the pointer to sums by as many blocks and tokens as a register is bytes of d.
func (f *file) moveSums(w *weights, reg string) {
	if w.twoSums() {
		f.ins("LEAQ", atx("SI", reg, 2, 0), "SI")
	} else {
		f.ins("ADDQ", reg, "SI")
	}
}

// twoSums reports whether a token and block has two sums of quants.
func (w *weights) twoSums() bool { return w.sums == "half" || w.sums == "laneHalf" }

// moveQuants moves the pointer to activations by as many blocks and tokens as a register is bytes of d.
func (f *file) moveQuants(w *weights, reg string) {
	f.ins("LEAQ", atx("CX", reg, 8, 0), "CX")
	if w.words {
		f.ins("LEAQ", atx("CX", reg, 8, 0), "CX")
	}
}

// sumsAt is the memory of a token's bias or dsum, or of its half c.
func (w *weights) sumsAt(t, c int) string {
	if w.twoSums() {
		return at("SI", 8*t+4*c)
	}
	return at("SI", 4*t)
}

// prefetchLine prefetches the i-th of the cache lines that belong to a block. Lines are prefetched in ascending order:
// the hardware prefetchers do not follow another order.
func (f *file) prefetchLine(i int) { f.ins(cmp.Or(f.prefetch, "PREFETCHT0"), at("R15", 64*i)) }

// prefetchNext moves R15 to the lines that belong to the next block.
func (f *file) prefetchNext() { f.ins("ADDQ", f.arg("step"), "R15") }

// groupLoop is a loop over n groups of a block, unrolled step times; step = n unrolls it entirely. body reads the
// weights of group g from AX on and its activations from CX on, 64 and 4 bytes per group. One line per every groups is
// prefetched, from line first on. AX, CX and R15 advance in the loop and have their first values at its end.
func (f *file) groupLoop(counter string, n, step, first, every int, body func(g int)) {
	one := func(g int) {
		if every > 0 && g%every == 0 {
			f.prefetchLine(first + g/every)
		}
		body(g)
	}
	if step >= n {
		for g := range n {
			one(g)
		}
		return
	}
	f.loops++
	label := fmt.Sprintf("groups%d", f.loops)
	f.ins("MOVQ", imm(n/step), counter)
	f.label(label)
	for g := range step {
		one(g)
	}
	f.ins("ADDQ", imm(64*step), "AX")
	f.ins("ADDQ", imm(4*step), "CX")
	f.ins("ADDQ", imm(64*step/every), "R15")
	f.ins("DECQ", counter)
	f.ins("JNZ", label)
	f.ins("SUBQ", imm(64*n), "AX")
	f.ins("SUBQ", imm(4*n), "CX")
	f.ins("SUBQ", imm(64*n/every), "R15")
}
