package main

// transpose writes the kernel that turns 8 rows into columns, 8 columns at a time. Lanes of what is loaded are rows i
// and i+4, so that no shuffle crosses lanes.
//
//	R8 R9 R10 R11 R12 R13 AX BX rows, the last of them again where there are fewer  DX bytes of a row so far
//	DI a column of dst  SI its stride in bytes  CX columns left
func transpose(f *file) {
	rows := []string{"R8", "R9", "R10", "R11", "R12", "R13", "AX", "BX"}
	f.function("transposeAVX2", 0, "dst, src *float32, dstStride, srcStride, rows, cols int",
		"for c < cols, r < 8: dst[c*dstStride+r] = src[min(r, rows-1)*srcStride+c]\n"+
			"cols is a multiple of 8, and columns ascend: the next one may overwrite what is beyond the rows")
	f.load("src", rows[0], "srcStride", "DI", "rows", "CX")
	f.ins("SHLQ", "$2", "DI")
	for i := 1; i < 8; i++ {
		f.ins("LEAQ", atx(rows[i-1], "DI", 1, 0), rows[i])
		f.ins("CMPQ", "CX", imm(i))
		f.ins("CMOVQLE", rows[i-1], rows[i])
	}
	f.load("dst", "DI", "dstStride", "SI", "cols", "CX")
	f.ins("SHLQ", "$2", "SI")
	f.ins("XORQ", "DX", "DX")
	f.label("loop")
	for half := range 2 {
		for i := range 4 {
			f.ins("VMOVUPS", atx(rows[i], "DX", 1, 16*half), x(i))
			f.ins("VINSERTF128", "$1", atx(rows[i+4], "DX", 1, 16*half), y(i), y(i))
		}
		f.ins("VPUNPCKLDQ", y(1), y(0), y(4)) // columns 0 0 1 1 of rows 0 and 1
		f.ins("VPUNPCKHDQ", y(1), y(0), y(5)) // columns 2 2 3 3
		f.ins("VPUNPCKLDQ", y(3), y(2), y(6)) // of rows 2 and 3
		f.ins("VPUNPCKHDQ", y(3), y(2), y(7))
		for i := range 2 {
			for _, part := range []string{"L", "H"} {
				f.ins("VPUNPCK"+part+"QDQ", y(6+i), y(4+i), y(8))
				f.ins("VMOVUPS", y(8), "(DI)")
				f.ins("ADDQ", "SI", "DI")
			}
		}
	}
	f.ins("ADDQ", "$32", "DX")
	f.ins("SUBQ", "$8", "CX")
	f.ins("JGT", "loop")
	f.ret()
}
