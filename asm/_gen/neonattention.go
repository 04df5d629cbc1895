package main

import "fmt"

// cached loads 16 numbers of the cache into four registers as float32; integers are multiplied with the registers that
// scale returns. Of Q4 they are the low or the high nibbles.
func (f neonFile) cached(format, base string, off, reg int, scale func(i int) int, high bool) {
	switch format {
	case "F16":
		f.floats("f16", base, off, reg)
	case "F32":
		f.floats("f32", base, off, reg)
	case "Q8", "Q4":
		f.ins("FMOVQ", at(base, off), q(reg))
		if format == "Q4" {
			if !high {
				f.op("SHLB4", reg, reg)
			}
			f.op("SSHRB4", reg, reg)
		}
		f.op("SXTL8H", reg, reg+2)
		f.op("SXTL8", reg, reg)
		for i := reg; i < reg+4; i += 2 {
			f.op("SXTL4H", i, i+1)
			f.op("SXTL4", i, i)
		}
		for i := range 4 {
			f.op("SCVTF4", reg+i, reg+i)
			f.op("FMUL4", scale(i), reg+i, reg+i)
		}
	}
}

// prefetchAhead is file.prefetchAhead from R3 on, in steps of R4.
func (f neonFile) prefetchAhead(most int) {
	for i := 0; i < most; i += 64 {
		f.ins("PRFM", at("R3", i), "PLDL2KEEP")
	}
	f.ins("ADD", "R4", "R3")
}

// aheadStep is file.aheadStep into R4.
func (f neonFile) aheadStep(w int) {
	f.ins("MOVD", f.arg("step"), "R4")
	if w == 2 {
		f.ins("LSL", "$1", "R4", "R4")
	}
}

// neonScores multiplies n rows of queries with 16*blocks keys. A lane is a position.
//
//	R0 keys  R1 their scales  R2 queries  R8 out  R5 blocks  R6 n  R11 dim  R7 rows*4  V31 scale
//	R12 R13 R14 advance along a column of keys: keys, scales, queries; R15 dimensions left  R16 of this group of 32
//	R3 what to prefetch  R4 bytes of it for each row of a column
func neonScores(f neonFile) {
	const most = 4
	for _, kv := range kvFormats {
		f.function("scores"+kv.name+"NEON", 0, scoresParams, scoresDoc)
		f.args("k", "R0", "scales", "R1", "q", "R2", "out", "R8", "dim", "R11", "n", "R6", "rows", "R7", "blocks", "R5",
			"ahead", "R3")
		f.ins("FMOVS", f.arg("scale"), q(31))
		f.ins("LSL", "$2", "R7", "R7")
		f.choose("R6", most)
		for n := most; n > 0; n-- {
			narrow, done := fmt.Sprintf("narrow%d", n), fmt.Sprintf("done%d", n)
			f.label(fmt.Sprintf("t%d", n))
			if n == 1 { // twice as many sums hide the latency of additions
				f.scoresColumns(kv.name, kv.bytes, n, 2, "wide1", narrow)
			}
			f.scoresColumns(kv.name, kv.bytes, n, 1, narrow, done)
			f.label(done)
			f.done()
		}
	}
}

// scoresColumns is the loop over columns of w blocks of 16 keys, at label here; it ends at label next.
func (f neonFile) scoresColumns(format string, bytes, n, w int, here, next string) {
	quant, dims := scaled(format), 1
	if format == "Q4" {
		dims = 2 // in a row of the page, which has bytes of all positions
	}
	var r registers
	acc, key, query := r.take(4*n*w), r.take(4*w), r.take(2)
	scale := 0 // of integers
	if quant {
		scale = r.take(4 * w)
	}
	f.label(here)
	f.ins("CMP", imm(w), "R5")
	f.ins("BLT", next)
	f.clear(acc, 4*n*w)
	f.ins("MOVD", "R0", "R12")
	f.ins("MOVD", "R2", "R14")
	f.ins("MOVD", "R11", "R15")
	f.aheadStep(w)
	if quant {
		f.ins("MOVD", "R1", "R13")
		f.label(here + "group")
		for i := range w {
			f.floats("f16", "R13", 32*i, scale+4*i)
		}
		f.ins("MOVD", "$32", "R16")
		f.ins("CMP", "R16", "R15")
		f.ins("CSEL", "LT", "R15", "R16", "R16")
		f.ins("SUB", "R16", "R15")
	}
	f.label(here + "dim")
	f.ins("PRFM", at("R12", 2*page*bytes), "PLDL1KEEP") // two columns on
	f.prefetchAhead(aheadBytes(format, bytes, w, 1))
	for d := range dims {
		q, _ := f.words("R14", 0, n, query)
		for i := range w {
			f.cached(format, "R12", 16*bytes*i, key+4*i, func(v int) int { return scale + 4*i + v }, d == 1)
		}
		for row := range n {
			lane, reg := q(row)
			for v := range 4 * w {
				f.op("FMLAI", lane, reg, key+v, acc+4*w*row+v)
			}
		}
		f.ins("ADD", "R7", "R14")
	}
	f.ins("ADD", imm(page*bytes), "R12")
	if quant {
		f.ins("SUB", imm(dims), "R16")
		f.ins("CBNZ", "R16", here+"dim")
		f.ins("ADD", imm(2*page), "R13")
		f.ins("CBNZ", "R15", here+"group")
	} else {
		f.ins("SUB", "$1", "R15")
		f.ins("CBNZ", "R15", here+"dim")
	}
	for row := range n {
		for v := range 4 * w {
			f.op("FMULI", 0, 31, acc+4*w*row+v, acc+4*w*row+v)
		}
		f.ins("ADD", imm(4*page*row), "R8", "R12")
		f.storeVectors("R12", 0, acc+4*w*row, 4*w)
	}
	f.ins("ADD", imm(16*bytes*w), "R0")
	f.ins("ADD", imm(32*w), "R1")
	f.ins("ADD", imm(64*w), "R8")
	f.ins("SUB", imm(w), "R5")
	f.ins("B", here)
}

// neonValues adds count values, weighted by n rows of probabilities, to n rows of 16*blocks dimensions. A lane is a
// dimension.
//
//	R0 values  R1 their scales  R2 probabilities  R8 out  R5 blocks left  R6 n  R9 bytes of a row of out  R11 count
//	R7 bytes of a value  R10 bytes of its scales  R16 what to add to R1 after a single block: 0, then 2, …
//	R12 R13 R14 advance along a column of values: values, scales, probabilities; R15 positions left
//	R3 what to prefetch  R4 bytes of it for each position of a column
func neonValues(f neonFile) {
	const most = 4
	for _, kv := range kvFormats {
		f.function("values"+kv.name+"NEON", 0, valuesParams, valuesDoc)
		f.args("v", "R0", "scales", "R1", "p", "R2", "o", "R8", "dim", "R9", "n", "R6", "count", "R11", "blocks", "R5",
			"ahead", "R3")
		f.ins("ADD", "$31", "R9", "R10")
		f.ins("LSR", "$5", "R10", "R10")
		f.ins("LSL", "$1", "R10", "R10")
		if kv.name == "Q4" { // 16 for 32 dimensions, of the last ones at most 16
			f.ins("AND", "$31", "R9", "R7")
			f.ins("MOVD", "$16", "R12")
			f.ins("CMP", "R12", "R7")
			f.ins("CSEL", "GT", "R12", "R7", "R7")
			f.ins("LSR", "$5", "R9", "R12")
			f.ins("ADD", "R12<<4", "R7")
		} else {
			f.ins("MOVD", imm(kv.bytes), "R7")
			f.ins("MUL", "R7", "R9", "R7")
		}
		f.ins("LSL", "$2", "R9", "R9")
		f.ins("MOVD", "ZR", "R16")
		f.choose("R6", most)
		for n := most; n > 0; n-- {
			narrow, high, done := fmt.Sprintf("narrow%d", n), fmt.Sprintf("high%d", n), fmt.Sprintf("done%d", n)
			f.label(fmt.Sprintf("t%d", n))
			if n <= 2 {
				f.valuesColumns(kv.name, kv.bytes, n, 2, fmt.Sprintf("wide%d", n), narrow, fmt.Sprintf("wide%d", n), false)
			}
			if kv.name == "Q4" && n > 2 { // of pairs one block is left, a low one
				f.valuesColumns(kv.name, kv.bytes, n, 1, narrow, done, high, false)
				f.valuesColumns(kv.name, kv.bytes, n, 1, high, done, narrow, true)
			} else {
				f.valuesColumns(kv.name, kv.bytes, n, 1, narrow, done, narrow, false)
			}
			f.label(done)
			f.done()
		}
	}
}

// valuesColumns is file.valuesColumns for arm64.
func (f neonFile) valuesColumns(format string, bytes, n, w int, here, next, then string, high bool) {
	var r registers
	acc, value, prob, scale := r.take(4*n*w), r.take(4), r.take(n), r.take(1)
	outs := func(each func(base string, off, first, n int)) {
		f.ins("MOVD", "R8", "R12")
		for row := range n {
			each("R12", 0, acc+4*w*row, 4*w)
			f.ins("ADD", "R9", "R12")
		}
	}
	f.label(here)
	f.ins("CMP", imm(w), "R5")
	f.ins("BLT", next)
	outs(f.loadVectors)
	f.ins("MOVD", "R0", "R12")
	f.ins("MOVD", "R1", "R13")
	f.ins("MOVD", "R2", "R14")
	f.ins("MOVD", "R11", "R15")
	f.aheadStep(w)
	f.label(here + "position")
	f.ins("PRFM", at("R12", 2048), "PLDL1KEEP")
	f.prefetchAhead(aheadBytes(format, bytes, w, numbersOf(format)))
	for row := range n {
		f.ins("FMOVS", at("R14", 4*page*row), q(prob+row))
	}
	if scaled(format) { // the same 32 dimensions for both blocks
		f.ins("MOVHU", at("R13", 0), "R17")
		f.ins("VDUP", "R17", v(scale, "H8"))
		f.op("FCVTL", scale, scale)
	}
	for i := range w {
		off := 16 * bytes * i
		if format == "Q4" { // both blocks are of the same bytes
			off = 0
		}
		f.cached(format, "R12", off, value, func(int) int { return scale }, high || i == 1)
		for row := range n {
			for v := range 4 {
				f.op("FMLAI", 0, prob+row, value+v, acc+4*(w*row+i)+v)
			}
		}
	}
	f.ins("ADD", "R7", "R12")
	f.ins("ADD", "R10", "R13")
	f.ins("ADD", "$4", "R14")
	f.ins("SUB", "$1", "R15")
	f.ins("CBNZ", "R15", here+"position")
	outs(f.storeVectors)
	f.ins("ADD", imm(64*w), "R8")
	switch {
	case format != "Q4":
		f.ins("ADD", imm(16*bytes*w), "R0")
	case w == 2 || high:
		f.ins("ADD", "$16", "R0")
	}
	switch {
	case w == 2 || high:
		f.ins("ADD", "$2", "R1")
	case format != "Q4":
		f.ins("ADD", "R16", "R1")
		f.ins("EOR", "$2", "R16", "R16")
	}
	f.ins("SUB", imm(w), "R5")
	f.ins("B", then)
}
