package main

import "math/bits"

// Rows of a page of the cache, which have a number of each position, become columns: what is laid out for scores, for
// values. A kernel takes 16 rows and 64 bytes of each at a time, a cache line.

// turnKinds are what rows consist of. Nibbles are two rows of numbers in one of bytes; see nibblesDoc.
var turnKinds = []struct {
	name   string
	bytes  int // of a number
	stages []string
	doc    string
}{
	{"Words", 2, []string{"WD", "DQ", "QDQ"}, turnDoc(2)},
	{"Bytes", 1, []string{"BW", "WD", "DQ"}, turnDoc(1)},
	{"Nibbles", 1, []string{"BW", "WD", "DQ"}, nibblesDoc},
}

// turned emits the stages that interleave rows, by way of as many other registers. zip puts the interleaved lower (0)
// or upper (1) halves of a and b into dst. It returns the registers in the order of positions.
func turned(rows, others []int, stages []string, zip func(stage string, half, a, b, dst int)) []int {
	var groups [][]int // registers of some rows, in the order of positions
	for _, r := range rows {
		groups = append(groups, []int{r})
	}
	for _, stage := range stages {
		var next [][]int
		free := others
		for i := 0; i < len(groups); i += 2 {
			var both []int
			for k, a := range groups[i] {
				for half := range 2 {
					zip(stage, half, a, groups[i+1][k], free[0])
					both, free = append(both, free[0]), free[1:]
				}
			}
			next = append(next, both)
		}
		groups, rows, others = next, others, rows
	}
	return groups[0]
}

// upFrom are n registers.
func upFrom(first, n int) (list []int) {
	for i := range n {
		list = append(list, first+i)
	}
	return list
}

// turns writes the kernels of 256 bits. The lower lanes are of rows 0 to 7, the upper ones of rows 8 to 15.
//
//	SI rows  R13 blocks of 16  R14 steps  DI columns  R8 R9 R10 R11 1, 3, 5 and 7 times their stride
//	AX R12 BX advance by blocks: rows, how many are left, columns; DX a column
func turns(f *file) {
	for _, kind := range turnKinds {
		row := page * kind.bytes
		f.function("turn"+kind.name+"AVX2", 0, "dst, src *byte, stride, blocks, steps int", kind.doc)
		f.load("src", "SI", "dst", "DI", "stride", "R8", "blocks", "R13", "steps", "R14")
		f.ins("LEAQ", atx("R8", "R8", 2, 0), "R9")
		f.ins("LEAQ", atx("R8", "R8", 4, 0), "R10")
		f.ins("LEAQ", atx("R9", "R8", 4, 0), "R11")
		f.label("step")
		f.ins("MOVQ", "SI", "AX")
		f.ins("MOVQ", "DI", "BX")
		f.ins("MOVQ", "R13", "R12")
		f.label("rows")
		f.ins("MOVQ", "BX", "DX")
		for part := range 4 {
			if kind.name == "Nibbles" {
				f.nibbleRows(16*part, row)
			} else {
				for i := range 8 {
					f.bothLanes(16*part+i*row, 16*part+(i+8)*row, i)
				}
			}
			columns := turned(upFrom(0, 8), upFrom(8, 8), kind.stages, func(stage string, half, a, b, dst int) {
				f.ins("VPUNPCK"+[]string{"L", "H"}[half]+stage, y(b), y(a), y(dst))
			})
			places := []string{"(DX)", atx("DX", "R8", 1, 0), atx("DX", "R8", 2, 0), atx("DX", "R9", 1, 0),
				atx("DX", "R8", 4, 0),
				atx("DX", "R10", 1, 0), atx("DX", "R9", 2, 0), atx("DX", "R11", 1, 0)}
			for i, c := range columns {
				if kind.bytes == 2 { // a position
					f.ins("VMOVDQU", y(c), places[i])
				} else { // two, 8 rows of each in a lane
					f.ins("VEXTRACTI128", "$1", y(c), x(0))
					f.ins("VPUNPCKLQDQ", x(0), x(c), x(1))
					f.ins("VPUNPCKHQDQ", x(0), x(c), x(2))
					f.ins("VMOVDQU", x(1), places[2*i%8])
					f.ins("VMOVDQU", x(2), places[2*i%8+1])
				}
				if i == 7 || kind.bytes == 1 && i == 3 {
					f.ins("LEAQ", atx("DX", "R8", 8, 0), "DX")
				}
			}
		}
		f.ins("ADDQ", imm(16*row), "AX")
		f.ins("ADDQ", imm(16*kind.bytes), "BX")
		f.ins("DECQ", "R12")
		f.ins("JNZ", "rows")
		f.ins("ADDQ", "$64", "SI")
		f.ins("MOVQ", "R8", "DX")
		f.ins("SHLQ", imm(bits.Len(uint(64/kind.bytes))-1), "DX")
		f.ins("ADDQ", "DX", "DI")
		f.ins("DECQ", "R14")
		f.ins("JNZ", "step")
		f.ret()
	}
}

// bothLanes loads 16 bytes of two rows.
func (f *file) bothLanes(low, high, reg int) {
	f.ins("VMOVDQU", at("AX", low), x(reg))
	f.ins("VINSERTI128", "$1", at("AX", high), y(reg), y(reg))
}

// nibbleRows makes rows of bytes, as values have them, of rows of nibbles.
func (f *file) nibbleRows(off, row int) {
	const a, b, t, mask = 8, 9, 10, 11
	f.ins("VMOVDQU", f.lanes256(0x0f0f0f0f), y(mask))
	for i := range 4 {
		f.bothLanes(off+i*row, off+(i+4)*row, a)
		f.bothLanes(off+(i+8)*row, off+(i+12)*row, b)
		f.ins("VPAND", y(mask), y(b), y(t))
		f.ins("VPSLLW", "$4", y(t), y(t))
		f.ins("VPAND", y(mask), y(a), y(2*i))
		f.ins("VPOR", y(t), y(2*i), y(2*i))
		f.ins("VPSRLW", "$4", y(a), y(a))
		f.ins("VPAND", y(mask), y(a), y(a))
		f.ins("VPANDN", y(b), y(mask), y(b))
		f.ins("VPOR", y(a), y(b), y(2*i+1))
	}
}
