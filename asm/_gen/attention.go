package main

import (
	"fmt"
	"math"
	"math/bits"
)

// The kernels of attention work on one page of one head: 256 positions. kvFormats are the storage types of its numbers.
var kvFormats = []struct {
	name  string
	bytes int
}{{"F16", 2}, {"F32", 4}, {"Q8", 1}, {"Q4", 1}} // of Q4 a byte has two numbers

const page = 256

// numbersOf is how many numbers of a value a byte has.
func numbersOf(format string) int {
	if format == "Q4" {
		return 2
	}
	return 1
}

// scaled reports whether a format has scales.
func scaled(format string) bool { return format == "Q8" || format == "Q4" }

// Registers of 512 bits that turn the nibbles of Q4 into numbers: the numbers as float32, which a permutation looks up;
// and 15 in each lane, and 2^23+8 as float32, whose lowest bits are 8: a nibble without its sign, xor these bits, is
// 2^23 + 8 + its number.
const nibbleTable, nibbleMask, nibbleBias = 29, 30, 31

// nibbleConstants loads them.
func (f *file) nibbleConstants(s isa, format string) {
	if format != "Q4" || s.halves == 2 {
		return
	}
	var numbers []uint32
	for i := range 16 {
		numbers = append(numbers, math.Float32bits(float32(i&7-i&8)))
	}
	f.ins("VMOVUPS", f.once("nibbles", numbers...), z(nibbleTable))
	f.ins("VBROADCASTSS", f.lanes256(15), z(nibbleMask))
	f.ins("VBROADCASTSS", f.lanes256(0x4b000008), z(nibbleBias))
}

// lowNibbles loads the numbers of the low nibbles of 16 bytes into register reg, and the high nibbles into register
// high. table is a register to look up in, or 0. A look-up takes fewer instructions, but on Zen 5 from the units that
// multiply.
func (f *file) lowNibbles(mem string, table, reg, high int) {
	if table > 0 {
		f.ins("VPMOVZXBD", mem, z(high))
		f.ins("VPERMPS", z(table), z(high), z(reg)) // by 4 bits of each lane
		f.ins("VPSRLD", "$4", z(high), z(high))
		return
	}
	const andXor = "$0x6A"
	f.ins("VPMOVZXBD", mem, z(reg))
	f.ins("VPSRLD", "$4", z(reg), z(high))
	f.ins("VPTERNLOGD", andXor, z(nibbleBias), z(nibbleMask), z(reg))
	f.ins("VSUBPS", z(nibbleBias), z(reg), z(reg))
}

// highNibbles turns what lowNibbles left in high into numbers in reg.
func (f *file) highNibbles(table, reg, high int) {
	if table > 0 {
		f.ins("VPERMPS", z(table), z(high), z(reg))
		return
	}
	f.ins("VPXORD", z(nibbleBias), z(high), z(reg))
	f.ins("VSUBPS", z(nibbleBias), z(reg), z(reg))
}

// loadKV loads numbers of the cache into one register as float32; integers are multiplied with the register scale. Of
// Q4 they are the low or the high nibbles.
func (f *file) loadKV(s isa, format, mem string, reg, scale int, high bool) {
	switch format {
	case "F16":
		f.ins("VCVTPH2PS", mem, s.reg(reg))
	case "F32":
		f.ins("VMOVUPS", mem, s.reg(reg))
	case "Q8", "Q4":
		f.ins("VPMOVSXBD", mem, s.reg(reg))
		if format == "Q4" && high {
			f.ins("VPSRAD", "$4", s.reg(reg), s.reg(reg))
		} else if format == "Q4" {
			f.ins("VPSLLD", "$28", s.reg(reg), s.reg(reg))
			f.ins("VPSRAD", "$28", s.reg(reg), s.reg(reg))
		}
		f.ins("VCVTDQ2PS", s.reg(reg), s.reg(reg))
		f.ins("VMULPS", s.reg(scale), s.reg(reg), s.reg(reg))
	}
}

// aheadBytes is the most bytes that a kernel of attention prefetches for w blocks of 16 numbers of a row of a page:
// what it reads of them, with scales. A byte has so many numbers of the row.
func aheadBytes(format string, bytes, w, numbers int) int {
	n := 16 * bytes
	if scaled(format) {
		n += n / 8 // more than they are
	}
	return (w*n + numbers - 1) / numbers
}

// prefetchAhead prefetches what will be read after this page, evenly over the work with it and in order, as the
// hardware's prefetchers follow it: up to most bytes from register from on, which goes on by register step. It goes to
// the second-level cache: the first one has too little room for it beside this page.
func (f *file) prefetchAhead(from, step string, most int) {
	for i := 0; i < most; i += 64 {
		f.ins("PREFETCHT1", at(from, i))
	}
	f.ins("ADDQ", step, from)
}

// aheadStep loads the bytes that are prefetched for w blocks of a row.
func (f *file) aheadStep(step string, w int) {
	f.ins("MOVQ", f.arg("step"), step)
	if w > 1 {
		f.ins("SHLQ", imm(bits.TrailingZeros(uint(w))), step)
	}
}

// scoresKernel multiplies n rows of queries with 16*blocks keys. A lane is a position.
//
//	SI keys  DI their scales  R8 queries  R10 out  R11 blocks  R12 dim  R9 rows*4
//	AX CX BX advance along a column of keys: one row of the page per dimension;
//	DX dimensions left  R13 of this group of 32
//	R14 what to prefetch  R15 bytes of it for each row of a column
func scoresKernel(f *file, s isa) {
	// wide[n] is how many blocks of 16 keys are multiplied at once with n rows: enough sums to hide the latency of the
	// additions.
	wide := []int{0, 4, 4, 4, 4, 2, 2, 2, 2}
	if s.halves == 2 {
		wide = []int{0, 2, 2, 1, 1, 1, 1}
	}
	for _, kv := range kvFormats {
		f.function("scores"+kv.name+s.name, 0, scoresParams, scoresDoc)
		f.load("k", "SI", "scales", "DI", "q", "R8", "out", "R10", "dim", "R12", "n", "AX", "rows", "R9", "blocks", "R11",
			"ahead", "R14")
		f.ins("SHLQ", "$2", "R9")
		f.nibbleConstants(s, kv.name)
		f.dispatch("AX", len(wide)-1)
		for n := len(wide) - 1; n > 0; n-- {
			f.label(fmt.Sprintf("t%d", n))
			if w := wide[n]; w > 1 {
				f.scoresColumns(s, kv.name, kv.bytes, read, n, w, fmt.Sprintf("wide%d", n), fmt.Sprintf("narrow%d", n))
			}
			f.scoresColumns(s, kv.name, kv.bytes, read, n, 1, fmt.Sprintf("narrow%d", n), fmt.Sprintf("done%d", n))
			f.label(fmt.Sprintf("done%d", n))
			f.ret()
		}
	}
}

// scoresColumns is the loop over columns of w blocks of 16 keys, at label here; it ends at label next. Where how is
// keep or kept, R14 is where the numbers are kept, or SI, and w is 1.
func (f *file) scoresColumns(s isa, format string, bytes int, how access, n, w int, here, next string) {
	vectors := w * s.halves
	acc := func(r, v int) int { return r*vectors + v }
	key := n * vectors
	query := key + vectors
	scale := query + 1         // of integers
	nibbles := scale + vectors // the high ones, with 512 bits
	table := 0
	if n <= 2 {
		table = nibbleTable
	}
	quant, dims := scaled(format), 1
	if format == "Q4" {
		dims = 2 // in a row of the page, which has bytes of all positions
	}

	f.label(here)
	f.ins("CMPQ", "R11", imm(w))
	f.ins("JLT", next)
	for i := range n * vectors {
		f.zero(s, i)
	}
	f.ins("MOVQ", "SI", "AX")
	f.ins("MOVQ", "R8", "CX")
	f.ins("MOVQ", "R12", "DX")
	if how != keep {
		f.aheadStep("R15", w)
	}
	if quant {
		f.ins("MOVQ", "DI", "BX")
		f.label(here + "group")
		if s.halves == 1 {
			for v := range vectors {
				f.ins("VCVTPH2PS", at("BX", 32*v), z(scale+v))
			}
		}
		f.ins("MOVQ", "$32", "R13")
		f.ins("CMPQ", "DX", "R13")
		f.ins("CMOVQLT", "DX", "R13")
		f.ins("SUBQ", "R13", "DX")
	}
	f.label(here + "dim")
	if how != kept {
		for i := 0; i < w*16*bytes; i += 64 {
			f.ins("PREFETCHT0", at("AX", i+w*16*bytes)) // the next column
		}
	}
	if how != keep {
		f.prefetchAhead("R14", "R15", aheadBytes(format, bytes, w, 1))
	}
	for d := range dims {
		for v := range vectors {
			sc := scale + v
			if quant && s.halves == 2 { // registers are few: convert the scales again
				sc = scale
				f.ins("VCVTPH2PS", at("BX", 16*v), y(sc))
			}
			mem := at("AX", v*s.lanes()*bytes)
			if format == "Q4" && s.halves == 1 {
				if d == 0 {
					f.lowNibbles(mem, table, key+v, nibbles+v)
				} else {
					f.highNibbles(table, key+v, nibbles+v)
				}
				f.ins("VMULPS", z(sc), z(key+v), z(key+v))
				continue
			}
			f.loadKV(s, format, mem, key+v, sc, d == 1)
		}
		if how == keep {
			f.keepNumbers(s, key, "R14")
		}
		for r := range n {
			f.ins("VBROADCASTSS", at("CX", 4*r), s.reg(query))
			for v := range vectors {
				f.ins("VFMADD231PS", s.reg(query), s.reg(key+v), s.reg(acc(r, v)))
			}
		}
		f.ins("ADDQ", "R9", "CX")
	}
	if how == kept {
		f.ins("ADDQ", "$64", "AX")
	} else {
		f.ins("ADDQ", imm(page*bytes), "AX")
	}
	if quant {
		f.ins("SUBQ", imm(dims), "R13")
		f.ins("JNZ", here+"dim")
		f.ins("ADDQ", imm(2*page), "BX")
		f.ins("TESTQ", "DX", "DX")
		f.ins("JNZ", here+"group")
	} else {
		f.ins("DECQ", "DX")
		f.ins("JNZ", here+"dim")
	}
	f.ins("VBROADCASTSS", f.arg("scale"), s.reg(key))
	for r := range n {
		for v := range vectors {
			f.ins("VMULPS", s.reg(key), s.reg(acc(r, v)), s.reg(acc(r, v)))
			f.ins("VMOVUPS", s.reg(acc(r, v)), at("R10", r*page*4+v*s.size()))
		}
	}
	if how == kept {
		f.ins("MOVQ", "AX", "SI")
	} else {
		f.ins("ADDQ", imm(w*16*bytes), "SI")
		f.ins("ADDQ", imm(w*32), "DI")
	}
	f.ins("ADDQ", imm(w*64), "R10")
	f.ins("SUBQ", imm(w), "R11")
	f.ins("JMP", here)
}

// valuesKernel adds count values, weighted by n rows of probabilities, to n rows of 16*blocks dimensions. A lane is a
// dimension.
//
//	SI values  DI their scales  R8 probabilities  R10 out  R11 blocks left  R9 bytes of a row of out
//	R13 bytes of a value  R14 bytes of its scales  R12 what to prefetch  R15 bytes of it for each position of a column
//	AX CX BX advance along a column of values: one row of the page per position; DX positions left
func valuesKernel(f *file, s isa) {
	for _, kv := range kvFormats {
		// wide[n] is how many blocks of 16 dimensions are added at once for n rows.
		wide := []int{0, 4, 4, 4, 4, 4, 4, 2, 2}
		if s.halves == 2 {
			wide = []int{0, 4, 2, 1, 1, 1, 1}
		} else if scaled(kv.name) {
			wide[6] = 2 // registers for the scales
		}
		f.function("values"+kv.name+s.name, 0, valuesParams, valuesDoc)
		f.load("v", "SI", "scales", "DI", "p", "R8", "o", "R10", "dim", "R9", "n", "AX", "blocks", "R11", "ahead", "R12")
		f.valueStrides(kv.name, kv.bytes)
		f.nibbleConstants(s, kv.name)
		f.dispatch("AX", len(wide)-1)
		for n := len(wide) - 1; n > 0; n-- {
			f.label(fmt.Sprintf("t%d", n))
			narrow, high, done := fmt.Sprintf("narrow%d", n), fmt.Sprintf("high%d", n), fmt.Sprintf("done%d", n)
			if w := wide[n]; w > 1 {
				f.valuesColumns(s, kv.name, kv.bytes, n, w, fmt.Sprintf("wide%d", n), narrow, fmt.Sprintf("wide%d", n), false)
			}
			if kv.name == "Q4" && wide[n] != 2 { // of pairs one block is left, a low one
				f.valuesColumns(s, kv.name, kv.bytes, n, 1, narrow, done, high, false)
				f.valuesColumns(s, kv.name, kv.bytes, n, 1, high, done, narrow, true)
			} else {
				f.valuesColumns(s, kv.name, kv.bytes, n, 1, narrow, done, narrow, false)
			}
			f.label(done)
			f.ret()
		}
	}
}

// valueStrides computes the bytes of a value and of its scales from its dimensions in R9, which are multiplied by 4.
func (f *file) valueStrides(format string, bytes int) {
	f.ins("LEAQ", "31(R9)", "R14")
	f.ins("SHRQ", "$5", "R14")
	f.ins("ADDQ", "R14", "R14")
	if format == "Q4" { // 16 for 32 dimensions, of the last ones at most 16
		f.ins("MOVQ", "R9", "R13")
		f.ins("ANDQ", "$31", "R13")
		f.ins("MOVQ", "$16", "DX")
		f.ins("CMPQ", "R13", "DX")
		f.ins("CMOVQGT", "DX", "R13")
		f.ins("MOVQ", "R9", "DX")
		f.ins("SHRQ", "$5", "DX")
		f.ins("SHLQ", "$4", "DX")
		f.ins("ADDQ", "DX", "R13")
	} else {
		f.ins("IMUL3Q", imm(bytes), "R9", "R13")
	}
	f.ins("SHLQ", "$2", "R9")
}

// valuesColumns is the loop over columns of w blocks of 16 dimensions, at label here; it ends at label next, and goes
// on at label then. One block of Q4 has the low nibbles of its bytes, or, if high is set, the high ones; of several
// every other one has.
func (f *file) valuesColumns(s isa, format string, bytes, n, w int, here, next, then string, high bool) {
	f.label(here)
	f.ins("CMPQ", "R11", imm(w))
	f.ins("JLT", next)
	f.valuesColumn(s, format, bytes, read, n, w, here, high)
	f.ins("ADDQ", imm(w*64), "R10")
	switch {
	case format != "Q4":
		f.ins("ADDQ", imm(w*16*bytes), "SI")
	case w > 1 || high:
		f.ins("ADDQ", imm((w+1)/2*16), "SI")
	}
	if w > 1 {
		f.ins("ADDQ", imm(w), "DI") // a scale of 2 bytes for 2 blocks
	} else if format == "Q8" { // after every other one: R9 is 64 for each block of the row
		f.ins("MOVQ", "R9", "DX")
		f.ins("SHRQ", "$6", "DX")
		f.ins("SUBQ", "R11", "DX")
		f.ins("ANDQ", "$1", "DX")
		f.ins("SHLQ", "$1", "DX")
		f.ins("ADDQ", "DX", "DI")
	} else if high {
		f.ins("ADDQ", "$2", "DI")
	}
	f.ins("SUBQ", imm(w), "R11")
	f.ins("JMP", then)
}

// valuesColumn adds count positions to one column, of w blocks; its labels begin with name. Where how is keep or kept,
// R12 is where the numbers are kept, or SI, and w is 1.
func (f *file) valuesColumn(s isa, format string, bytes int, how access, n, w int, name string, high bool) {
	vectors := w * s.halves
	acc := func(r, v int) int { return r*vectors + v }
	outs := func(op func(r, v int, mem string)) {
		f.ins("MOVQ", "R10", "AX")
		for r := range n {
			for v := range vectors {
				op(r, v, at("AX", v*s.size()))
			}
			if r < n-1 {
				f.ins("ADDQ", "R9", "AX")
			}
		}
	}

	outs(func(r, v int, mem string) { f.ins("VMOVUPS", mem, s.reg(acc(r, v))) })
	f.ins("MOVQ", "SI", "AX")
	f.ins("MOVQ", "DI", "BX")
	f.ins("MOVQ", "R8", "CX")
	f.ins("MOVQ", f.arg("count"), "DX")
	if how != keep {
		f.aheadStep("R15", w)
	}
	f.label(name + "position")
	if how != kept {
		for i := 0; i < w*16*bytes; i += 64 {
			f.ins("PREFETCHT0", at("AX", i+2048))
		}
	}
	if how != keep {
		f.prefetchAhead("R12", "R15", aheadBytes(format, bytes, w, numbersOf(format)))
	}
	if s.halves == 2 && w == 1 {
		f.position256(format, bytes, how, n, high)
	} else {
		f.position(s, format, bytes, n, w, high)
	}
	f.ins("ADDQ", "R13", "AX")
	f.ins("ADDQ", "R14", "BX")
	f.ins("ADDQ", "$4", "CX")
	f.ins("DECQ", "DX")
	f.ins("JNZ", name+"position")
	outs(func(r, v int, mem string) { f.ins("VMOVUPS", s.reg(acc(r, v)), mem) })
}

// position adds one position to a column of w blocks: a value, and then the sums of all rows.
func (f *file) position(s isa, format string, bytes, n, w int, high bool) {
	vectors := w * s.halves
	acc := func(r, v int) int { return r*vectors + v }
	value, prob := n*vectors, n*vectors+1 // one value and n probabilities
	scale := prob + n                     // of integers; with 512 bits and 4 blocks also the next register
	nibbles := scale + 2
	for r := range n {
		f.ins("VBROADCASTSS", at("CX", 4*page*r), s.reg(prob+r))
	}
	if scaled(format) && s.halves == 1 {
		f.valueScales(w, scale)
		if format == "Q4" && n <= 4 { // what is looked up is the value
			for i := range (w + 1) / 2 {
				f.ins("VMULPS", z(scale+i), z(nibbleTable), z(scale+i))
			}
		}
	}
	for v := range vectors {
		if s.halves == 1 && format == "Q4" {
			table := 0
			if n <= 4 {
				table = scale + v/2 // of values
			}
			switch {
			case v%2 == 1:
				f.highNibbles(table, value, nibbles)
			case high:
				f.ins("VPMOVZXBD", at("AX", 0), z(nibbles))
				f.ins("VPSRLD", "$4", z(nibbles), z(nibbles))
				f.highNibbles(table, value, nibbles)
			default:
				f.lowNibbles(at("AX", v/2*16), table, value, nibbles)
			}
			if table == 0 {
				f.ins("VMULPS", z(scale+v/2), z(value), z(value))
			}
			for r := range n {
				f.ins("VFMADD231PS", z(prob+r), z(value), z(acc(r, v)))
			}
			continue
		}
		if scaled(format) && s.halves == 2 && v%(2*s.halves) == 0 {
			f.ins("VPBROADCASTW", at("BX", v/s.halves), s.half(scale))
			f.ins("VCVTPH2PS", s.half(scale), s.reg(scale))
		}
		mem, odd := at("AX", v*s.lanes()*bytes), high
		if format == "Q4" {
			block := v / s.halves
			mem, odd = at("AX", block/2*16+v%s.halves*8), high || block%2 == 1
		}
		sc := scale
		if s.halves == 1 {
			sc += v / 2
		}
		f.loadKV(s, format, mem, value, sc, odd)
		for r := range n {
			f.ins("VFMADD231PS", s.reg(prob+r), s.reg(value), s.reg(acc(r, v)))
		}
	}
}

// position256 adds one position to a column of one block: its values, and then one row after the other, so that 16
// registers suffice for the sums of 6.
func (f *file) position256(format string, bytes int, how access, n int, high bool) {
	const vectors = 2
	value, prob, scale := n*vectors, n*vectors+2, n*vectors+3
	if scaled(format) {
		f.ins("VPBROADCASTW", at("BX", 0), x(scale))
		f.ins("VCVTPH2PS", x(scale), y(scale))
	}
	for v := range vectors {
		f.loadKV(avx2, format, at("AX", v*8*bytes), value+v, scale, high)
	}
	if how == keep {
		f.keepNumbers(avx2, value, "R12")
	}
	for r := range n {
		f.ins("VBROADCASTSS", at("CX", 4*page*r), y(prob))
		for v := range vectors {
			f.ins("VFMADD231PS", y(prob), y(value+v), y(r*vectors+v))
		}
	}
}

// valueScales loads the scales of w blocks of a position at BX into registers from scale on, one for two blocks.
func (f *file) valueScales(w, scale int) {
	if w < 4 {
		f.ins("VPBROADCASTW", at("BX", 0), y(scale))
		f.ins("VCVTPH2PS", y(scale), z(scale))
		return
	}
	const even, odd = "$0xA0", "$0xF5" // lanes of either kind, twice each
	f.ins("VPBROADCASTD", at("BX", 0), y(scale))
	f.ins("VCVTPH2PS", y(scale), z(scale))
	f.ins("VPERMILPS", odd, z(scale), z(scale+1))
	f.ins("VPERMILPS", even, z(scale), z(scale))
}
