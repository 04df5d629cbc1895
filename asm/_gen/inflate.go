package main

import "fmt"

// Compact panels of types with grids, turned into the panels of their table: package asm's format_grid.go has both. The
// indices of a sub-block's entries become 16-bit numbers, in the bytes of the super-block that get u later. Then two
// rows at a time, r and r+4: 64 bits of nibbles are loaded for each entry, those of entries 2 and 3 shifted by 4.
//
//	AX the compact panel  BX the panel  CX the entries' nibbles  DX indices, then u  SI bits 8 of IQ2_XS
//	DI super-blocks left  R8, R11 indices  R9 scales left  R10 bytes of scales
//	R12 multipliers of IQ2_XS  R13 sub-blocks left
//	Y0 … Y3 rows 0 and 4, 1 and 5, 2 and 6, 3 and 7  Y13 what a sign changes  Y14 bits of signs  Y15 signs of 8 rows
type inflate struct {
	name  string
	doc   string
	sub   int // bytes of a sub-block
	low   int // bytes of its entries
	quads bool
	minus bool
	high  func(f *file, q int) // adds the high bits to the indices of rows 4q … 4q+3, in Y0

	direct []direct // products of one token; see direct.go
}

var inflates = []*inflate{
	{name: "iq2xxs", sub: 128, low: 64, doc: "IQ2_XXS", direct: []direct{{"iq2xxs", false}}},
	{name: "iq2xs", sub: 128, low: 64, doc: "IQ2_XS", high: (*file).high1, direct: []direct{{"iq2xs", true}}},
	{name: "iq2s", sub: 144, low: 64, doc: "IQ2_S", high: (*file).high2, direct: []direct{{"iq2s", true}}},
	{name: "iq1", sub: 96, low: 64, minus: true, doc: "IQ1", high: (*file).high3,
		direct: []direct{{"iq1s", false}, {"iq1m", true}}},
	{name: "iq3xxs", sub: 192, low: 128, quads: true, doc: "IQ3_XXS", direct: []direct{{"iq3xxs", false}}},
}

// inflateKernels writes them all.
func inflateKernels(f *file) {
	for _, v := range inflates {
		f.inflate(v)
	}
	f.inflateTernary()
	f.inflateBits()
	f.inflateCrumbs()
	f.inflateNVFP4(avx2)
}

// inflateTernary writes the kernel of TQ1_0, whose bytes are fractions x/256: a digit is the whole part of 3x/256,
// which is one for x > 85 and one more for x > 170, and 3x without it is what is left. A byte is kept as x-128, of
// which three times is, modulo 256, that of 3x. Digits come as minus themselves. 32 bytes of a group of weights at a
// time.
//
//	AX the compact panel  BX the panel  DI super-blocks left
//	Y0 bytes  Y1, Y3 temporary  Y2 minus a digit  Y4 … Y8 crumbs of digits 0 … 4  Y12 0  Y13 -128  Y14 85-128
//	Y15 170-128
func (f *file) inflateTernary() {
	f.function("tq1InflateAVX2", 0, "dst *byte, panel *byte, supers int",
		"WeightKernels.Inflate of TQ1_0, of super-blocks")
	f.load("dst", "BX", "panel", "AX", "supers", "DI")
	f.ins("VPXOR", y(12), y(12), y(12))
	for i, v := range []uint32{0x80808080, 0xd5d5d5d5, 0x2a2a2a2a} {
		f.ins("VMOVDQU", f.lanes256(v), y(13+i))
	}
	f.label("super")
	for half := 0; half < 64; half += 32 {
		for c := range 3 {
			for i := 3; i >= 0; i-- { // the last group has the high bits
				if half == 0 {
					f.prefetchCompact(256*c+64*i, 64)
				}
				f.ternaryDigits(256*c+64*i+half, func(n int) {
					sum := y(4 + n)
					if i == 3 {
						f.ins("VPSUBB", y(2), y(12), sum)
						return
					}
					f.ins("VPSLLW", "$2", sum, sum)
					f.ins("VPSUBB", y(2), sum, sum)
				})
			}
			for n := range 5 {
				f.ins("VMOVDQU", y(4+n), at("BX", ternaryTo(c, n)+half))
			}
		}
		f.ternaryDigits(768+half, func(n int) {
			switch {
			case n == 0:
				f.ins("VPSUBB", y(2), y(12), y(4))
			case n < 4:
				f.ins("VPSUBB", y(2), y(12), y(2))
				f.ins("VPSLLW", imm(2*n), y(2), y(2))
				f.ins("VPOR", y(2), y(4), y(4))
			}
		})
		f.ins("VMOVDQU", y(4), at("BX", 7*128+64+half))
	}
	f.ins("VMOVDQU", at("AX", 832), y(0)) // d
	f.ins("VMOVDQU", y(0), at("BX", 1024))
	f.ins("ADDQ", "$864", "AX")
	f.ins("ADDQ", "$1088", "BX")
	f.ins("DECQ", "DI")
	f.ins("JNZ", "super")
	f.ret()
}

// ternaryTo is where the crumbs of digit n of the c-th four groups go.
func ternaryTo(c, n int) int {
	if c == 2 { // halves of sub-blocks 5, 6 and 7
		return 5*128 + 64*n
	}
	return 128*n + 64*c
}

// ternaryDigits gives use the digits 0 … 4 of 32 bytes, as minus themselves in Y2.
func (f *file) ternaryDigits(from int, use func(n int)) {
	f.ins("VPXOR", at("AX", from), y(13), y(0))
	for n := range 5 {
		f.ins("VPCMPGTB", y(14), y(0), y(2))
		f.ins("VPCMPGTB", y(15), y(0), y(3))
		f.ins("VPADDB", y(3), y(2), y(2))
		if n < 4 {
			f.ins("VPADDB", y(0), y(0), y(1))
			f.ins("VPADDB", y(1), y(0), y(0))
		}
		use(n)
	}
}

// inflateBits writes the kernel of Q1_0: a nibble is 7, or 9 where the bit is set. 8 rows at a time.
//
//	AX bits  BX nibbles  Y0 4 bytes of 8 rows  Y1 … Y4 byte 0 … 3 of each row, four times  Y5, Y6 low and high nibbles
//	Y7, Y8 a bit for each byte  Y9, Y10 what a set bit adds  Y11 sevens  Y12 … Y15 where bytes are
func (f *file) inflateBits() {
	f.function("q1InflateAVX2", 0, "nibbles *byte, quants *byte", "WeightKernels.Inflate of a sub-block")
	f.load("nibbles", "BX", "quants", "AX")
	for i, v := range []uint32{0x08040201, 0x80402010, 0x02020202, 0x20202020, 0x77777777} {
		f.ins("VMOVDQU", f.lanes256(v), y(7+i))
	}
	for k := range 4 {
		f.ins("VMOVDQU", f.bytes256(fmt.Sprintf("each%d", k), func(i int) int { return i%16&^3 + k }), y(12+k))
	}
	f.prefetchCompact(0, 64)
	for half := range 2 {
		f.ins("VMOVDQU", at("AX", 32*half), y(0))
		for k := range 4 {
			f.ins("VPSHUFB", y(12+k), y(0), y(1+k))
		}
		for g := range 4 {
			bit := y(7 + g%2)
			for n := range 2 { // weights 4g … and 16+4g …
				f.ins("VPAND", bit, y(1+2*n+g/2), y(5+n))
				f.ins("VPCMPEQB", bit, y(5+n), y(5+n))
				f.ins("VPAND", y(9+n), y(5+n), y(5+n))
			}
			f.ins("VPOR", y(6), y(5), y(5))
			f.ins("VPADDB", y(11), y(5), y(5))
			f.ins("VMOVDQU", y(5), at("BX", 64*g+32*half))
		}
	}
	f.ret()
}

// inflateCrumbs writes the kernel of Q2_0: a nibble is 7 and a pair of bits. Of a byte b in the high half of a word of
// 16 bits, (b&15)*65 has bits 0, 1 in its low byte and 2, 3 in its high one, and so has (b>>4)*65 the other four: both
// are high halves of a product. 8 rows at a time.
//
//	AX pairs of bits  BX nibbles  Y0, Y1 8 bytes of 8 rows  Y2, Y3 bytes 0 … 3 and 4 … 7 of each row
//	Y4, Y5 low and high nibbles  Y8 masks  Y9 factors  Y10 pairs  Y11 sevens  Y12 … Y15 where bytes are
func (f *file) inflateCrumbs() {
	f.function("q2InflateAVX2", 0, "nibbles *byte, quants *byte", "WeightKernels.Inflate of a sub-block")
	f.load("nibbles", "BX", "quants", "AX")
	for i, v := range []uint32{0xf0000f00, 0x04104100, 0x03030303, 0x77777777} {
		f.ins("VMOVDQU", f.lanes256(v), y(8+i))
	}
	for k := range 4 {
		f.ins("VMOVDQU", f.bytes256(fmt.Sprintf("twice%d", k), func(i int) int {
			if i%2 == 0 {
				return 0x80
			}
			return i%16&^3 + k
		}), y(12+k))
	}
	f.prefetchCompact(0, 128)
	for half := range 2 {
		from := 64 * half
		for i := range 2 { // rows 0, 1, 4, 5 and 2, 3, 6, 7, their bytes 0 … 3 before the others
			f.ins("VMOVDQU", at("AX", from+16*i), x(i))
			f.ins("VINSERTI128", "$1", at("AX", from+32+16*i), y(i), y(i))
			f.ins("VPSHUFD", "$0xD8", y(i), y(i))
		}
		f.ins("VPUNPCKLQDQ", y(1), y(0), y(2))
		f.ins("VPUNPCKHQDQ", y(1), y(0), y(3))
		for g := range 4 {
			for n := range 2 {
				f.ins("VPSHUFB", y(12+g), y(2+n), y(4+n))
				f.ins("VPAND", y(8), y(4+n), y(4+n))
				f.ins("VPMULHUW", y(9), y(4+n), y(4+n))
				f.ins("VPAND", y(10), y(4+n), y(4+n))
			}
			f.ins("VPSLLW", "$4", y(5), y(5))
			f.ins("VPOR", y(5), y(4), y(4))
			f.ins("VPADDB", y(11), y(4), y(4))
			f.ins("VMOVDQU", y(4), at("BX", 64*g+32*half))
		}
	}
	f.ret()
}

// bytes256 names 32 bytes.
func (f *file) bytes256(name string, of func(i int) int) string {
	var v [8]uint32
	for i := range 32 {
		v[i/4] |= uint32(uint8(of(i))) << (i % 4 * 8)
	}
	return f.once(name, v[:]...)
}

// words256of names 16 numbers of 16 bits that repeat 4.
func (f *file) words256of(name string, w [4]int) string {
	return f.bytes256(name, func(i int) int { return w[i/2%4] >> (i % 2 * 8) })
}

// rowBytes spreads byte r of 16 to the 4 words of row r, of rows 4q … 4q+3.
func (f *file) rowBytes(q int) string {
	return f.bytes256(fmt.Sprintf("rows%d", q), func(i int) int {
		if i%2 == 1 {
			return 0x80
		}
		return 4*q + i/8
	})
}

func (f *file) high1(q int) {
	if q == 0 {
		f.ins("VBROADCASTI128", at("SI", 0), y(1))
	}
	f.ins("VPSHUFB", f.rowBytes(q), y(1), y(2))
	f.ins("VPMULLW", at("R12", 0), y(2), y(2))
	f.ins("VPAND", f.words256of("bit8", [4]int{0x100, 0x100, 0x100, 0x100}), y(2), y(2))
	f.ins("VPOR", y(2), y(0), y(0))
}

func (f *file) high2(q int) {
	if q == 0 {
		f.ins("VBROADCASTI128", at("AX", 128), y(1))
	}
	f.ins("VPSHUFB", f.rowBytes(q), y(1), y(2))
	f.ins("VPMULLW", f.words256of("pairs", [4]int{256, 64, 16, 4}), y(2), y(2))
	f.ins("VPAND", f.words256of("bits89", [4]int{0x300, 0x300, 0x300, 0x300}), y(2), y(2))
	f.ins("VPOR", y(2), y(0), y(0))
}

func (f *file) high3(q int) {
	if q%2 == 0 {
		f.ins("VBROADCASTI128", at("AX", 64+8*q), y(1))
	}
	f.ins("VPSHUFB", f.bytes256(fmt.Sprintf("rowWords%d", q%2), func(i int) int { return q%2*8 + i/8*2 + i%2 }), y(1),
		y(2))
	f.ins("VPSRLW", "$4", y(2), y(3)) // bits 12 … 14
	f.ins("VPMULLW", f.words256of("nibbles0", [4]int{256, 16, 1, 0}), y(2), y(2))
	f.ins("VPAND", f.words256of("bits012", [4]int{0x700, 0x700, 0x700, 0}), y(2), y(2))
	f.ins("VPAND", f.words256of("bits3", [4]int{0, 0, 0, 0x700}), y(3), y(3))
	f.ins("VPOR", y(2), y(0), y(0))
	f.ins("VPOR", y(3), y(0), y(0))
}

// inflate writes the kernel of a type.
func (f *file) inflate(v *inflate) {
	entries := "octets *uint64"
	if v.quads {
		entries = "quads *uint32"
	}
	doc := fmt.Sprintf("WeightKernels.Inflate of %s: of super-blocks, with scales bytes of s each", v.doc)
	f.function(v.name+"InflateAVX2", 0, "dst *byte, panel *byte, "+entries+", supers int, scales int", doc)
	table := "octets"
	if v.quads {
		table = "quads"
	}
	f.load("dst", "BX", "panel", "AX", table, "CX", "supers", "DI", "scales", "R10")
	f.signBits(v)
	if !v.minus {
		f.ins("VMOVDQU", f.lanes256(0x0f0f0f0f), y(13))
	}
	f.label("super")
	f.ins("LEAQ", at("BX", 2048), "DX")
	f.ins("MOVQ", "$8", "R13")
	f.firstHigh(v)
	f.label("sub")
	f.prefetchCompact(0, v.sub)
	f.inflateIndices(v)
	for half := range 2 {
		f.inflateRows(v, half)
	}
	f.ins("ADDQ", imm(v.sub), "AX")
	f.ins("ADDQ", "$256", "BX")
	f.nextHigh(v)
	f.ins("DECQ", "R13")
	f.ins("JNZ", "sub")
	if v.name == "iq2xs" {
		f.ins("ADDQ", "$64", "AX")
	}
	f.inflateScales()
	f.ins("DECQ", "DI")
	f.ins("JNZ", "super")
	f.ret()
}

// signBits fills Y14 with the bit of each weight's sign.
func (f *file) signBits(v *inflate) {
	if v.minus {
		bits := [2]int{8, 128}
		f.ins("VMOVDQU", f.bytes256("signs3and7", func(i int) int { return bits[i/8%2] }), y(14))
		return
	}
	f.ins("VMOVDQU", f.bytes256("signs", func(i int) int { return 1 << (i % 8) }), y(14))
}

// firstHigh points SI and R12 to bits 8 of the first sub-block, of IQ2_XS.
func (f *file) firstHigh(v *inflate) {
	if v.name == "iq2xs" {
		f.words256of("oneLow", [4]int{256, 128, 64, 32})
		f.ins("LEAQ", at("AX", 8*v.sub), "SI")
		f.ins("LEAQ", "oneLow<>(SB)", "R12")
	}
}

// nextHigh moves them on, before R13 is counted down.
func (f *file) nextHigh(v *inflate) {
	if v.name != "iq2xs" {
		return
	}
	f.ins("ADDQ", "$16", "SI")
	f.ins("CMPQ", "R13", "$5")
	f.ins("JNE", "low")
	f.words256of("oneHigh", [4]int{16, 8, 4, 2})
	f.ins("SUBQ", "$64", "SI")
	f.ins("LEAQ", "oneHigh<>(SB)", "R12")
	f.label("low")
}

// inflateIndices writes the indices of a sub-block.
func (f *file) inflateIndices(v *inflate) {
	if v.quads {
		return
	}
	for q := range 4 {
		f.ins("VPMOVZXBW", at("AX", 16*q), y(0))
		if v.high != nil {
			v.high(f, q)
		}
		f.ins("VMOVDQU", y(0), at("DX", 32*q))
	}
}

// inflateRows writes 8 rows of a sub-block.
func (f *file) inflateRows(v *inflate, half int) {
	f.signsOf(v, half)
	for i := range 4 {
		for part := range 2 { // entries 0 and 1, 2 and 3
			reg := 4 + 4*part
			f.inflateEntries(v, 8*half+i, part, reg)
			f.signMask(v, i, part)
			if v.minus {
				f.ins("VPADDB", y(12), y(reg), y(reg))
			} else {
				f.ins("VPAND", y(13), y(12), y(12))
				f.ins("VPXOR", y(12), y(reg), y(reg))
			}
		}
		f.ins("VPSLLQ", "$4", y(8), y(8))
		f.ins("VPOR", y(8), y(4), y(i))
	}
	f.ins("VPUNPCKLDQ", y(1), y(0), y(4))
	f.ins("VPUNPCKHDQ", y(1), y(0), y(5))
	f.ins("VPUNPCKLDQ", y(3), y(2), y(6))
	f.ins("VPUNPCKHDQ", y(3), y(2), y(7))
	for h := range 4 {
		f.ins([]string{"VPUNPCKLQDQ", "VPUNPCKHQDQ"}[h%2], y(6+h/2), y(4+h/2), y(8+h))
		f.ins("VMOVDQU", y(8+h), at("BX", 64*h+32*half))
	}
}

// signsOf reads the signs of 8 rows to Y15.
func (f *file) signsOf(v *inflate, half int) {
	if v.minus {
		f.ins("VBROADCASTI128", at("AX", v.low+16*half), y(15))
		return
	}
	f.ins("VMOVDQU", at("AX", v.low+32*half), y(15))
}

// signMask fills the bytes of Y12 of weights of rows i and 4+i with a sign.
func (f *file) signMask(v *inflate, i, part int) {
	f.ins("VPSHUFB", f.signPattern(v, i, part), y(15), y(12))
	f.ins("VPAND", y(14), y(12), y(12))
	f.ins("VPCMPEQB", y(14), y(12), y(12))
}

// signPattern spreads the signs of two entries of rows i and 4+i to the bytes of their weights.
func (f *file) signPattern(v *inflate, i, part int) string {
	if v.minus {
		return f.bytes256(fmt.Sprintf("minus%d%d", i, part), func(k int) int { return k/16*8 + 2*i + part })
	}
	return f.bytes256(fmt.Sprintf("signs%d%d", i, part), func(k int) int { return 4*i + 2*part + k/8%2 })
}

// inflateEntries loads 128 bits of nibbles of rows r and r+4; 2 registers are used. Loads are the limit: one has two
// indices, and entries but the first are taken from 16 bytes that begin so far before them as they belong, so that an
// instruction loads and blends them.
func (f *file) inflateEntries(v *inflate, r, part, reg int) {
	for row := range 2 {
		if v.quads {
			for k := 0; k < 4; k += 2 {
				f.ins("MOVWLZX", at("AX", 8*(r+4*row)+4*part+k), "R8")
				f.ins("MOVBLZX", "R8", "R11")
				f.ins("SHRL", "$8", "R8")
				f.inflateEntry("R11", 4, k, reg+row)
				f.inflateEntry("R8", 4, k+1, reg+row)
			}
			continue
		}
		f.ins("MOVL", at("DX", 8*(r+4*row)+4*part), "R8")
		f.ins("MOVWLZX", "R8", "R11")
		f.ins("SHRL", "$16", "R8")
		f.inflateEntry("R11", 8, 0, reg+row)
		f.inflateEntry("R8", 8, 1, reg+row)
	}
	f.ins("VINSERTI128", "$1", x(reg+1), y(reg), y(reg))
}

// inflateEntry loads the entry of an index, of size bytes, as the k-th.
func (f *file) inflateEntry(index string, size, k, reg int) {
	if k == 0 {
		f.ins(map[int]string{4: "VMOVD", 8: "VMOVQ"}[size], atx("CX", index, size, 0), x(reg))
		return
	}
	lanes := (1<<(size/4) - 1) << (size / 4 * k)
	f.ins("VPBLENDD", imm(lanes), atx("CX", index, size, -size*k), x(reg), x(reg))
}

// inflateScales writes u, and copies d, of a super-block.
func (f *file) inflateScales() {
	f.ins("VMOVDQU", f.lanes256(0x0f0f0f0f), y(2))
	f.ins("VMOVDQU", f.lanes256(0x01010101), y(3))
	f.ins("MOVQ", "R10", "R9")
	f.label("scales")
	f.ins("VMOVDQU", at("AX", 0), y(0))
	f.ins("VPSRLW", "$4", y(0), y(1))
	for h := range 2 {
		f.ins("VPAND", y(2), y(h), y(h))
		f.ins("VPADDB", y(h), y(h), y(h))
		f.ins("VPADDB", y(3), y(h), y(h))
	}
	f.ins("VMOVDQU", y(0), at("BX", 0))
	f.ins("VMOVDQU", y(1), atx("BX", "R10", 1, 0))
	f.ins("ADDQ", "$32", "AX")
	f.ins("ADDQ", "$32", "BX")
	f.ins("SUBQ", "$32", "R9")
	f.ins("JNZ", "scales")
	f.ins("VMOVDQU", at("AX", 0), y(0))
	f.ins("VMOVDQU", y(0), atx("BX", "R10", 1, 0))
	f.ins("ADDQ", "$32", "AX")
	f.ins("ADDQ", "R10", "BX")
	f.ins("ADDQ", "$64", "BX")
}
