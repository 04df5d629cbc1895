package main

import "fmt"

// Compact panels turned into those of products with AVX-512 and VBMI. VPERMI2B looks up 64 entries at once: a table of
// bytes with 4 digits of 2 bits each lies in registers, 128 bytes in two of them, and bits 7, 8 and 9 of the index
// choose between such pairs. VPMULTISHIFTQB then moves each digit to the byte of its weight.
//
// A nibble of IQ2 and IQ3 has 15-n for minus n. So its lower pair of bits is a digit, or the lower two bits of one,
// xor the sign twice; the higher pair is 1 and 0, or 1 and the digit's third bit, xor the sign twice.
//
//	AX the compact panel  BX the panel  CX tables  SI bits 8 of IQ2_XS  R12 which of them
//	DI super-blocks left  R9 scales left  R10 bytes of scales  R13 sub-blocks left
//	Z0 entries  Z1 … Z4 pairs  Z5 … Z8 one weight's  Z9 … Z12 where pairs are  Z13, Z14 masks  Z15 each of 4 bits twice
//	Z16 … Z31 tables  K1, K2, K3 bits 7, 8, 9 of entries
//
// A nibble of IQ1 is twice a digit and 6, less 1 for minus. Its 2,048 entries ascend, so digits 4 … 7 are a step
// function of the index: of 16 entries in a row none has more than two values of them. Of each 16 a table has the first
// and the last value, and the index before the step: 3 look-ups where digits 0 … 3 take 16.
//
//	Z3 bits 8 … 10 of entries and whether minus, of a row  Z9 … Z11 halves of the tables of 16 entries
//	Z12 … Z15 masks and what is added  K4 bits 10 of entries  K5 entries behind the step
type inflate512 struct {
	name, doc string
	sub       int  // bytes of a sub-block
	low       int  // bytes of its entries
	bits      int  // of an entry
	minus     bool // of IQ1: a sign takes 1 off 8 nibbles
}

var inflates512 = []*inflate512{
	{name: "iq2xxs", doc: "IQ2_XXS", sub: 128, low: 64, bits: 8},
	{name: "iq2xs", doc: "IQ2_XS", sub: 128, low: 64, bits: 9},
	{name: "iq2s", doc: "IQ2_S", sub: 144, low: 64, bits: 10},
	{name: "iq3xxs", doc: "IQ3_XXS", sub: 192, low: 128, bits: 8},
	{name: "iq1", doc: "IQ1", sub: 96, low: 64, bits: 11, minus: true},
}

// inflateKernels512 writes them all.
func inflateKernels512(f *file) {
	for _, v := range inflates512 {
		f.inflate512(v)
	}
	f.inflateTernary512()
	f.inflateNarrow512("q1", 1, 0x22222222)
	f.inflateNarrow512("q2", 2, 0x33333333)
}

// inflateNarrow512 writes the kernel of Q1_0 or Q2_0: a nibble is 7 and the bits of mask, of which a weight has so
// many.
//
//	AX bits  BX nibbles  Z0, Z1 of weights 0 … 15 and 16 … 31  Z2, Z3 moved  Z4, Z5 positions  Z13 … Z15 masks and sevens
func (f *file) inflateNarrow512(name string, bits int, mask uint32) {
	f.function(name+"InflateAVX512", 0, "nibbles *byte, quants *byte", "WeightKernels.Inflate of a sub-block")
	f.load("nibbles", "BX", "quants", "AX")
	for i, m := range []uint32{0xf0f0f0f0, mask, 0x77777777} {
		f.ins("VPBROADCASTQ", f.word(m), z(13+i))
	}
	f.prefetchCompact(0, 64*bits)
	f.ins("VMOVDQU64", at("AX", 0), z(0))
	second, high := 0, 16
	if bits == 2 {
		second, high = 1, 0
		f.ins("VMOVDQA64", z(0), z(2))
		for half := range 2 {
			f.ins("VMOVDQU64", f.everySecond(half), z(half))
			f.ins("VPERMI2D", at("AX", 64), z(2), z(half))
		}
	}
	for g := range 4 {
		low := func(j int) int { return bits*(4*g+j) - (2 - bits) }
		f.ins("VPBROADCASTQ", f.shifts(low), z(4))
		f.ins("VPBROADCASTQ", f.shifts(func(j int) int { return low(j) + high - 4 }), z(5))
		f.ins("VPMULTISHIFTQB", z(0), z(4), z(2))
		f.ins("VPMULTISHIFTQB", z(second), z(5), z(3))
		f.ins("VPTERNLOGD", "$0xB8", z(3), z(13), z(2)) // the mask chooses
		f.ins("VPANDD", z(14), z(2), z(2))
		f.ins("VPADDB", z(15), z(2), z(2))
		f.ins("VMOVDQU64", z(2), at("BX", 64*g))
	}
	f.ret()
}

// everySecond names the indices of the first or second halves of 16 rows' 8 bytes.
func (f *file) everySecond(half int) string {
	var rows [16]uint32
	for r := range rows {
		rows[r] = uint32(2*r + half)
	}
	return f.once(fmt.Sprintf("halves%d", half), rows[:]...)
}

// shifts names the 8 positions of the bits that VPMULTISHIFTQB moves to the bytes of two rows, byte j of a row.
func (f *file) shifts(of func(j int) int) string {
	var v [2]uint32
	name := "shifts"
	for i := range 8 {
		n := (32*(i/4) + of(i%4)) & 63
		v[i/4] |= uint32(n) << (i % 4 * 8)
	}
	name += fmt.Sprintf("%08x", v[0])
	return f.once(name, v[:]...)
}

// word names 8 bytes of the same 4.
func (f *file) word(v uint32) string { return f.once(fmt.Sprintf("w%08x", v), v, v) }

// pairs512 is the number of pairs of registers of a table.
func (v *inflate512) pairs512() int { return 1 << (v.bits - 7) }

// inflate512 writes the kernel of a type.
func (f *file) inflate512(v *inflate512) {
	doc := fmt.Sprintf("WeightKernels.Inflate of %s: of super-blocks, with scales bytes of s each", v.doc)
	f.function(v.name+"InflateAVX512", 0, "dst *byte, panel *byte, tables *byte, supers int, scales int", doc)
	f.load("dst", "BX", "panel", "AX", "tables", "CX", "supers", "DI", "scales", "R10")
	if v.minus {
		f.constantsIQ1()
	} else {
		f.constants512()
	}
	for i := range 16 {
		switch n := v.pairs512(); {
		case n >= 8: // the second of each pair stays in memory
			f.ins("VMOVDQU64", at("CX", 128*i), z(16+i))
		case i < 4*n:
			f.ins("VMOVDQU64", at("CX", 64*i), z(16+i))
		}
	}
	f.label("super")
	f.ins("MOVQ", "$8", "R13")
	if v.bits == 9 {
		f.ins("LEAQ", at("AX", 8*v.sub), "SI")
		f.ins("LEAQ", f.bits9(), "R12")
	}
	f.label("sub")
	f.prefetchCompact(0, v.sub)
	switch {
	case v.minus:
		f.entriesIQ1(v)
	case v.low == 64:
		f.entries512(v)
	default:
		f.quads512()
	}
	for g := range 4 {
		if v.minus {
			f.nibblesIQ1(g)
		} else {
			f.nibbles512of(v, g)
		}
	}
	f.ins("ADDQ", imm(v.sub), "AX")
	f.ins("ADDQ", "$256", "BX")
	if v.bits == 9 {
		f.ins("ADDQ", "$16", "SI")
		f.ins("CMPQ", "R13", "$5")
		f.ins("JNE", "low")
		f.ins("SUBQ", "$64", "SI")
		f.ins("ADDQ", "$8", "R12")
		f.label("low")
	}
	f.ins("DECQ", "R13")
	f.ins("JNZ", "sub")
	if v.bits == 9 {
		f.ins("ADDQ", "$64", "AX")
	}
	f.inflateScales()
	f.ins("DECQ", "DI")
	f.ins("JNZ", "super")
	f.ret()
}

// constants512 are those of types with a sign per weight.
func (f *file) constants512() {
	f.ins("VPBROADCASTQ", f.word(0xcccccccc), z(13))
	f.ins("VPBROADCASTQ", f.word(0xf0f0f0f0), z(14))
	var twice [16]int
	for i := range twice {
		for j := range 4 {
			twice[i] |= i >> j & 1 * 3 << (2 * j)
		}
	}
	f.ins("VBROADCASTI32X4", f.lookup("twice", twice), z(15))
}

// tablesIQ1 is where the tables of 16 entries are: behind 2,048 bytes of digits 0 … 3.
const tablesIQ1 = 2048

func (f *file) constantsIQ1() {
	for i, m := range []uint32{0x55555555, 0x66666666, 0xf0f0f0f0, 0x88888888} {
		f.ins("VPBROADCASTQ", f.word(m), z(12+i))
	}
	for i := range 3 {
		f.ins("VMOVDQU64", at("CX", tablesIQ1+128*i), z(9+i))
	}
}

// entriesIQ1 makes Z1 and Z2 of 64 entries' digits 0 … 3 and 4 … 7, and Z4 and Z3 of what is 1 unless minus: bits 0
// and 4 of each byte of a row, of entries 0 and 2, and of entries 1 and 3.
func (f *file) entriesIQ1(v *inflate512) {
	shifted := func(position, source string, reg int) {
		f.ins("VPBROADCASTQ", position, z(8))
		f.ins("VPMULTISHIFTQB", source, z(8), z(reg))
	}
	f.ins("VMOVDQU64", at("AX", 0), z(0))
	f.ins("VPMOVB2M", z(0), "K1")
	f.ins("VPMOVZXWD", at("AX", 64), z(3))
	shifted(f.shifts(func(j int) int { return 4*j - 4 }), z(3), 5)
	f.ins("VPADDB", z(5), z(5), z(6))
	f.ins("VPMOVB2M", z(6), "K4")
	for _, k := range []string{"K3", "K2"} {
		f.ins("VPADDB", z(6), z(6), z(6))
		f.ins("VPMOVB2M", z(6), k)
	}
	shifted(f.shifts(func(j int) int { return 8*j + 4 }), z(0), 2)
	f.ins("VPTERNLOGD", "$0xB8", z(5), z(14), z(2)) // the mask chooses: which 16 entries, and a bit that look-ups ignore
	f.ins("VMOVDQA64", z(2), z(5))
	f.ins("VMOVDQA64", z(2), z(6))
	for i, reg := range []int{2, 5, 6} {
		f.ins("VPERMI2B", at("CX", tablesIQ1+128*i+64), z(9+i), z(reg))
	}
	f.ins("VPSUBB", z(0), z(6), z(6))
	f.ins("VPMOVB2M", z(6), "K5")
	f.ins("VMOVDQU8", z(5), "K5", z(2))
	f.lookup512of(v, 1, 5, 0, v.pairs512())

	f.ins("VPANDND", z(15), z(3), z(3))
	shifted(f.shifts(func(int) int { return 3 }), z(3), 4)
	shifted(f.shifts(func(int) int { return 7 }), z(3), 5)
	shifted(f.shifts(func(int) int { return 11 }), z(3), 3)
	f.ins("VPTERNLOGD", "$0xB8", z(5), z(14), z(4))
	f.ins("VPTERNLOGD", "$0xE2", z(5), z(14), z(3))
}

// nibblesIQ1 writes 8 weights of each row: 4g … 4g+3 and 16+4g ….
func (f *file) nibblesIQ1(g int) {
	if g%2 == 0 { // else they are those of the group before
		f.ins("VPBROADCASTQ", f.shifts(func(j int) int { return 4*g + 2*j - 1 }), z(5))
		f.ins("VPBROADCASTQ", f.shifts(func(j int) int { return 4*g + 2*j + 11 }), z(6))
	}
	f.ins("VPMULTISHIFTQB", z(1+g%2), z(5), z(7))
	f.ins("VPMULTISHIFTQB", z(1+g%2), z(6), z(8))
	f.ins("VPTERNLOGD", "$0xB8", z(8), z(14), z(7))
	f.ins("VPTERNLOGD", "$0xEA", z(4-g/2), z(13), z(7)) // twice the digits, and 1 unless minus
	f.ins("VPADDB", z(12), z(7), z(7))
	f.ins("VMOVDQU64", z(7), at("BX", 64*g))
}

// prefetchCompact prefetches the lines of n bytes of compact panels some way ahead: memory would be idle while a panel
// is inflated. Products prefetch the rest.
func (f *file) prefetchCompact(from, n int) {
	for at0 := from; at0 < from+n; at0 += 64 {
		f.ins("PREFETCHT0", at("AX", compactDistance+at0))
	}
}

// compactDistance is how far ahead: asm.InflateDistance.
const compactDistance = 4096

// bits9 names two times 8 positions: of bits 8 of entries that are low nibbles, and that are high ones. They become the
// highest bits of bytes.
func (f *file) bits9() string {
	var v [4]uint32
	for i := range 16 {
		n := 32*(i/4%2) + i%4 + i/8*4 - 7
		v[i/4] |= uint32(n&63) << (i % 4 * 8)
	}
	return f.once("bits9", v[:]...)
}

// entries512 makes pairs of 64 entries of 8 weights: Z1 and Z3 of their weights 0 … 3, Z2 and Z4 of 4 … 7.
func (f *file) entries512(v *inflate512) {
	f.ins("VMOVDQU64", at("AX", 0), z(0))
	f.ins("VPMOVB2M", z(0), "K1")
	switch v.bits {
	case 9:
		f.ins("VPMOVZXBD", at("SI", 0), z(5))
		f.ins("VPBROADCASTQ", at("R12", 0), z(6))
		f.ins("VPMULTISHIFTQB", z(5), z(6), z(5))
		f.ins("VPMOVB2M", z(5), "K2")
	case 10:
		f.ins("VPMOVZXBD", at("AX", 128), z(5))
		for b := range 2 {
			f.ins("VPBROADCASTQ", f.shifts(func(j int) int { return 2*j + b - 7 }), z(6))
			f.ins("VPMULTISHIFTQB", z(5), z(6), z(6))
			f.ins("VPMOVB2M", z(6), fmt.Sprintf("K%d", 2+b))
		}
	}
	n := v.pairs512()
	for half := range 2 {
		f.lookup512of(v, 1+half, 5, half*n, n)
		f.signs512(func(j int) int { return 8*j + 4*half }, 1+half, 3+half)
		f.ins("VPXORD.BCST", f.word(0xaaaaaaaa), z(3+half), z(3+half))
	}
}

// quads512 makes pairs of 128 entries of 4 weights: Z1 and Z3 of a row's entries 0 … 3, Z2 and Z4 of 4 … 7.
func (f *file) quads512() {
	for half := range 2 {
		f.ins("VMOVDQU64", at("AX", 0), z(5))
		f.ins("VMOVDQU64", f.everySecond(half), z(0))
		f.ins("VPERMI2D", at("AX", 64), z(5), z(0))
		f.ins("VPMOVB2M", z(0), "K1")
		v := &inflate512{bits: 8}
		f.lookup512of(v, 1+half, 5, 0, 2)
		f.lookup512of(v, 3+half, 5, 2, 2)
		f.ins("VPBROADCASTQ", f.shifts(func(j int) int { return 16*half + 4*j }), z(5))
		f.ins("VPMULTISHIFTQB", at("AX", 128), z(5), z(5))
		f.ins("VPERMB", z(15), z(5), z(5))
		f.ins("VPXORD", z(5), z(1+half), z(1+half))
		f.ins("VPXORD", z(5), z(3+half), z(3+half))
	}
}

// signs512 xors each of 4 signs twice to the digits in reg, and leaves them in to.
func (f *file) signs512(position func(j int) int, reg, to int) {
	f.ins("VPBROADCASTQ", f.shifts(position), z(5))
	f.ins("VPMULTISHIFTQB", at("AX", 64), z(5), z(5))
	f.ins("VPERMB", z(15), z(5), z(to))
	f.ins("VPXORD", z(to), z(reg), z(reg))
}

// lookup512of looks entries up in n pairs of registers, the first one's number from; registers from temp on are used.
func (f *file) lookup512of(v *inflate512, reg, temp, from, n int) {
	if n == 1 {
		f.ins("VMOVDQA64", z(0), z(reg))
		if v.pairs512() >= 8 {
			f.ins("VPERMI2B", at("CX", 128*from+64), z(16+from), z(reg))
		} else {
			f.ins("VPERMI2B", z(17+2*from), z(16+2*from), z(reg))
		}
		return
	}
	f.lookup512of(v, reg, temp, from, n/2)
	f.lookup512of(v, temp, temp+1, from+n/2, n/2)
	mask := map[int]string{2: "K1", 4: "K2", 8: "K3", 16: "K4"}[n]
	f.ins("VMOVDQU8", z(temp), mask, z(reg))
}

// nibbles512of writes 8 weights of each row: 4g … 4g+3 and 16+4g ….
func (f *file) nibbles512of(v *inflate512, g int) {
	low, high, first, second := g, g, 1, 2 // entries and their registers
	if v.low == 64 {
		low, high, first, second = g/2, 2+g/2, 1+g%2, 1+g%2
	}
	parts := []struct{ reg, at int }{
		{first, 8 * low}, {2 + first, 8*low - 2}, {second, 8*high - 4}, {2 + second, 8*high - 6},
	}
	for i, p := range parts {
		if v.low != 64 || g%2 == 0 { // else they are those of the group before
			f.ins("VPBROADCASTQ", f.shifts(func(j int) int { return p.at + 2*j }), z(9+i))
		}
		f.ins("VPMULTISHIFTQB", z(p.reg), z(9+i), z(5+i))
	}
	f.ins("VPTERNLOGD", "$0xB8", z(6), z(13), z(5)) // the mask chooses
	f.ins("VPTERNLOGD", "$0xB8", z(8), z(13), z(7))
	f.ins("VPTERNLOGD", "$0xB8", z(7), z(14), z(5))
	f.ins("VMOVDQU64", z(5), at("BX", 64*g))
}

// inflateTernary512 writes the kernel of TQ1_0. tables has of each byte its digits 0 … 3 as crumbs, then digit 4 four
// times. Crumbs of 4 vectors are transposed.
//
//	AX the compact panel  BX the panel  CX tables  DI super-blocks left
//	Z0 bytes  Z1 … Z4 digits 0 … 3 of 4 groups  Z5 digits 4  Z6 … Z9 shifted  Z12 … Z15 masks  Z16 … Z23 tables
func (f *file) inflateTernary512() {
	f.function("tq1InflateAVX512", 0, "dst *byte, panel *byte, tables *byte, supers int",
		"WeightKernels.Inflate of TQ1_0, of super-blocks")
	f.load("dst", "BX", "panel", "AX", "tables", "CX", "supers", "DI")
	for i, m := range []uint32{0xcccccccc, 0xf0f0f0f0, 0x0c0c0c0c, 0xc0c0c0c0} {
		f.ins("VPBROADCASTQ", f.word(m), z(12+i))
	}
	for i := range 8 {
		f.ins("VMOVDQU64", at("CX", 64*i), z(16+i))
	}
	v := &inflate512{bits: 8}
	bytes := func(from int) {
		f.ins("VMOVDQU64", at("AX", from), z(0))
		f.ins("VPMOVB2M", z(0), "K1")
	}
	f.label("super")
	for c := range 3 {
		for i := range 4 {
			f.prefetchCompact(256*c+64*i, 64)
			bytes(256*c + 64*i)
			f.lookup512of(v, 1+i, 10, 0, 2)
			if i == 0 {
				f.lookup512of(v, 5, 10, 2, 2)
				continue
			}
			f.lookup512of(v, 6, 10, 2, 2)
			f.ins("VPTERNLOGD", "$0xB8", z(6), z([]int{14, 13, 15}[i-1]), z(5))
		}
		f.transpose512(2, 12, 1, 2)
		f.transpose512(2, 12, 3, 4)
		f.transpose512(4, 13, 1, 3)
		f.transpose512(4, 13, 2, 4)
		for n := range 5 {
			to := 128*n + 64*c
			if c == 2 { // halves of sub-blocks 5, 6 and 7
				to = 5*128 + 64*n
			}
			f.ins("VMOVDQU64", z(1+n), at("BX", to))
		}
	}
	bytes(768)
	f.lookup512of(v, 1, 10, 0, 2)
	f.ins("VMOVDQU64", z(1), at("BX", 7*128+64))
	f.ins("VMOVDQU", at("AX", 832), y(0)) // d
	f.ins("VMOVDQU", y(0), at("BX", 1024))
	f.ins("ADDQ", "$864", "AX")
	f.ins("ADDQ", "$1088", "BX")
	f.ins("DECQ", "DI")
	f.ins("JNZ", "super")
	f.ret()
}

// transpose512 exchanges the bits of a's mask with those of b below them.
func (f *file) transpose512(bits, mask, a, b int) {
	f.ins("VPSLLW", imm(bits), z(b), z(6))
	f.ins("VPSRLW", imm(bits), z(a), z(7))
	f.ins("VPTERNLOGD", "$0xB8", z(6), z(mask), z(a))
	f.ins("VPTERNLOGD", "$0xE2", z(7), z(mask), z(b)) // the mask keeps
}
