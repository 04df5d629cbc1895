package main

// Products of one token with a compact panel of a type with a grid, AVX2: without the panel of the table. Weights come
// row by row, as magnitudes with the signs of the activations changed (IQ1: as weights plus 16), and the sums of 8 rows
// are added up across registers at the end of a sub-block.
//
// Registers as in inflate.go, but
//
//	AX the compact panel  BX u of the sub-block  DX indices, in local memory with what is below  R14 quants
//	R15 4 times the number of the sub-block
//	Y0 … Y3 sums of two rows, then of 8  Y10, Y11 activations 0 … 15 and 16 … 31, twice
type direct struct {
	name  string
	pairs bool // a scale for each 16 weights
}

// Local memory on a boundary of 32 bytes: u of a super-block, d, then from directIndices on indices and the float sums.
const (
	directIndices = 256 + 64
	directSums    = 128 // behind the indices
	directFrame   = directIndices + directSums + 64 + 32
)

// directKernels writes them all.
func directKernels(f *file) {
	f.constant("ones", 0x00010001)
	for _, v := range inflates {
		for _, d := range v.direct {
			f.direct(d, v)
		}
	}
}

func (f *file) direct(d direct, v *inflate) {
	sums, entries := "bias", "octets"
	if d.pairs {
		sums = "half"
	}
	kind := "*uint64"
	if v.quads {
		entries, kind = "quads", "*uint32"
	}
	f.function(d.name+"DirectAVX2", directFrame, "panel *byte, "+entries+" "+kind+", q *int8, d *float32, "+sums+
		" *int32, supers int, out *float32", "WeightKernels.MatMulCompact of "+d.name+", of super-blocks")
	f.load("panel", "AX", entries, "CX", "q", "R14", "supers", "DI")
	f.ins("LEAQ", at("SP", 31), "DX")
	f.ins("ANDQ", "$-32", "DX")
	f.ins("ADDQ", imm(directIndices), "DX")
	f.ins("XORQ", "R15", "R15")
	f.zero(avx2, 0)
	for h := range 2 {
		f.ins("VMOVDQA", y(0), at("DX", directSums+32*h))
	}
	f.signBits(v)
	// the bytes of a super-block: those of sub-blocks, of bits 8 of IQ2_XS, of nibbles of u, and of d
	scales, behind := 64, 0
	if d.pairs {
		scales = 128
	}
	if v.name == "iq2xs" {
		behind = 64
	}
	f.ins("MOVQ", imm(scales), "R10")
	f.label("super")
	f.ins("LEAQ", at("DX", -directIndices), "BX")
	f.ins("ADDQ", imm(8*v.sub+behind), "AX")
	f.inflateScales()
	f.ins("SUBQ", imm(8*v.sub+behind+scales+32), "AX")
	f.ins("LEAQ", at("DX", -directIndices), "BX")
	f.ins("MOVQ", "$8", "R13")
	f.firstHigh(v)
	f.label("sub")
	f.prefetchCompact(0, v.sub)
	f.inflateIndices(v)
	for half := range 2 {
		f.directRows(d, v, half, at("DX", 2*scales-directIndices+16*half))
	}
	f.ins("ADDQ", imm(v.sub), "AX")
	f.ins("ADDQ", imm(scales/4), "BX")
	f.ins("ADDQ", "$32", "R14")
	f.ins("ADDQ", "$4", "R15")
	f.nextHigh(v)
	f.ins("DECQ", "R13")
	f.ins("JNZ", "sub")
	f.ins("ADDQ", imm(behind+scales+32), "AX")
	f.ins("DECQ", "DI")
	f.ins("JNZ", "super")
	f.load("out", "R10")
	for h := range 2 {
		f.ins("VMOVDQA", at("DX", directSums+32*h), y(0))
		f.ins("VMOVUPS", y(0), at("R10", 32*h))
	}
	f.ret()
}

// directRows multiplies 8 rows of a sub-block; scales is the memory of their d.
func (f *file) directRows(d direct, v *inflate, half int, scales string) {
	f.signsOf(v, half)
	f.ins("VBROADCASTI128", at("R14", 0), y(10))
	f.ins("VBROADCASTI128", at("R14", 16), y(11))
	for i := range 4 {
		for part := range 2 {
			reg := 4 + 4*part
			f.inflateEntries(v, 8*half+i, part, reg)
			f.signMask(v, i, part)
			if v.minus {
				f.ins("VPADDB", y(12), y(reg), y(reg))
				f.ins("VPADDB", y(12), y(reg), y(reg))
				f.ins("VPMADDUBSW", y(10+part), y(reg), y(reg))
			} else {
				f.ins("VPXOR", y(12), y(10+part), y(13))
				f.ins("VPSUBB", y(12), y(13), y(13))
				f.ins("VPMADDUBSW", y(13), y(reg), y(reg))
			}
		}
		if !d.pairs {
			f.ins("VPADDW", y(8), y(4), y(4))
			f.ins("VPMADDWD", ones, y(4), y(i))
			continue
		}
		to := [4][2]int{{0, 2}, {1, 3}, {1, 3}, {6, 7}}[i]
		f.ins("VPMADDWD", ones, y(4), y(to[0]))
		f.ins("VPMADDWD", ones, y(8), y(to[1]))
		if i == 1 {
			f.ins("VPHADDD", y(1), y(0), y(0))
			f.ins("VPHADDD", y(3), y(2), y(2))
		}
	}
	if d.pairs {
		f.ins("VPHADDD", y(6), y(1), y(1))
		f.ins("VPHADDD", y(7), y(3), y(3))
		f.ins("VPHADDD", y(1), y(0), y(0))
		f.ins("VPHADDD", y(3), y(2), y(2))
	} else {
		f.ins("VPHADDD", y(1), y(0), y(0))
		f.ins("VPHADDD", y(3), y(2), y(2))
		f.ins("VPHADDD", y(2), y(0), y(0))
	}
	if v.minus { // weights are 16 too great
		f.directBias(d)
	}
	f.ins("VCVTPH2PS", scales, y(5))
	f.ins("VPMOVSXBD", at("BX", 8*half), y(4))
	if d.pairs {
		f.ins("VPMOVSXBD", at("BX", 16+8*half), y(6))
		f.ins("VPMULLD", y(4), y(0), y(0))
		f.ins("VPMULLD", y(6), y(2), y(2))
		f.ins("VPADDD", y(2), y(0), y(0))
	} else {
		f.ins("VCVTDQ2PS", y(4), y(4))
		f.ins("VMULPS", y(5), y(4), y(5))
	}
	f.load("d", "R9")
	f.ins("VBROADCASTSS", atx("R9", "R15", 1, 0), y(6))
	f.ins("VMULPS", y(6), y(5), y(5))
	f.ins("VCVTDQ2PS", y(0), y(0))
	f.ins("VFMADD213PS", at("DX", directSums+32*half), y(5), y(0))
	f.ins("VMOVUPS", y(0), at("DX", directSums+32*half))
}

// directBias takes 16 times the sums of the activations away.
func (f *file) directBias(d direct) {
	if !d.pairs {
		f.load("bias", "R9")
		f.ins("VPBROADCASTD", atx("R9", "R15", 1, 0), y(4))
		f.ins("VPSRAD", "$3", y(4), y(4))
		f.ins("VPADDD", y(4), y(0), y(0))
		return
	}
	f.load("half", "R9")
	for c := range 2 {
		f.ins("VPBROADCASTD", atx("R9", "R15", 2, 4*c), y(4))
		f.ins("VPSRAD", "$1", y(4), y(4))
		f.ins("VPADDD", y(4), y(2*c), y(2*c))
	}
}
