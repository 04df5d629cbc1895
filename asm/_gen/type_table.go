package main

// The types whose weights are indices of a table of signed numbers q: one kernel for all with a scale per 32 weights,
// one for all with a scale per 16. Super-blocks of nibbles as IQ4_NL; u at 2048, then d. table has the unsigned numbers
// that the nibbles stand for, then q.
var table32 = weights{
	name: "table32", doc: `for t < n, r < 16:
	for b < 8*blocks:                       // d is the super-block's
		isum := bias[b][t]
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // weights are unsigned: table[nibble], w+128
		acc = fma(float(isum), (d[r]*float(u[b][r])) * d[b][t], acc)`,
	signedDoc: `for t < n, r < 16:
	for b < 8*blocks:                       // d is the super-block's
		isum := 0
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // table[16+nibble], -127 to 127
		acc = fma(float(isum), (d[r]*float(u[b][r])) * d[b][t], acc)`,
	format: "IQ4_XS", also: []string{"IQ3_S", "IQ3_XXS", "IQ2_XXS", "IQ1_S"}, table: true,
	layout: layout{super: 2240, quants: 2048},
	sums:   "bias", signed: true,
	vec512: parts512{
		constants: table512,
		super: func(f *file) {
			f.ins("VCVTPH2PS", at("AX", 2176), z(12))
			f.ins("LEAQ", at("AX", 2048), "BX")
		},
		unpack: func(f *file, _, g int) { f.lookup512(at("AX", 64*g)) },
		dual:   true,
		scales: func(f *file, _ int) {
			f.ins("VPMOVSXBD", at("BX", 0), z(8))
			f.ins("VCVTDQ2PS", z(8), z(8))
			f.ins("VMULPS", z(12), z(8), z(8))
		},
		next: func(f *file, _ int) { f.nextOfSuper(256, 16) },
	},
	vec256: parts256{
		constants: func(f *file, vnni bool) {
			if !vnni {
				f.ins("VMOVDQU", ones, y(15))
				return
			}
			table256(f, vnni)
		},
		super: func(f *file) {
			f.ins("LEAQ", at("AX", 2048), "BX")
			f.load("table", "R12")
		},
		next: func(f *file) { f.nextOfSuper(256, 16) },
		before: func(f *file, vnni bool) {
			if !vnni {
				f.ins("VBROADCASTI128", at("R12", 16), y(12))
			}
		},
		unpack: iq4Unpack256,
		dual:   true,
		scales: func(f *file, _, h, reg int) { f.scale256K("VPMOVSXBD", 2176+16*h, 8*h, reg) },
	},
	neon: neonTable(byNibbles, 2).at(2176),
}

// raised32 is table32 for numbers of at most 63, with AVX2 alone: plus 64 they are unsigned, and a product needs
// neither their sign nor |w|.
var raised32 = func() weights {
	w := table32.only("raised32", "IQ3_XXS", "IQ2_XXS", "IQ1_S")
	w.raised, w.shift = true, 1
	w.signedDoc = `for t < n, r < 16:
	for b < 8*blocks:                       // d is the super-block's
		isum := bias[b][t] >> 1
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // weights are unsigned: table[16+nibble]+64
		acc = fma(float(isum), (d[r]*float(u[b][r])) * d[b][t], acc)`
	w.vec256.constants = func(f *file, _ bool) {
		f.ins("VMOVDQU", ones, y(15))
		f.load("table", "R9")
		f.ins("VBROADCASTI128", at("R9", 16), y(14))
		f.ins("VPADDB", f.lanes256(0x40404040), y(14), y(14))
	}
	w.vec256.super = func(f *file) { f.ins("LEAQ", at("AX", 2048), "BX") }
	w.vec256.before = nil
	w.vec256.unpack = func(f *file, _ bool, _, g, v, h, reg int) { f.nibblesOf256(at("AX", 64*g+32*h), v, 14, reg) }
	return w
}()

// only is a table type for some formats.
func (w weights) only(name, format string, also ...string) weights {
	w.name, w.format, w.also = name, format, also
	return w
}

var table16 = weights{
	name: "table16", doc: `for t < n, r < 16:
	for b < 8*blocks:                       // weights are unsigned: table[nibble], w+64
		isum0, isum1 := 2*half[b][t][0], 2*half[b][t][1]
		for k < 16: isum0 += w(b, r, k) * int(q[b][t][k])
		for k < 16: isum1 += w(b, r, 16+k) * int(q[b][t][16+k])
		acc = fma(float(u[b][0][r]*isum0 + u[b][1][r]*isum1), d[r]*d[b][t], acc)`,
	format: "IQ2_S", also: []string{"IQ2_XS", "IQ1_M"}, table: true,
	layout: layout{super: 2368, quants: 2048},
	sums:   "half", shift: -1, pairs: true, apart: true, fold: 1,
	vec512: parts512{
		constants: table512,
		super: func(f *file) {
			f.ins("VCVTPH2PS", at("AX", 2304), z(27))
			f.ins("LEAQ", at("AX", 2048), "BX")
		},
		unpack: func(f *file, _, g int) {
			f.nibbles512(g/4, at("AX", 64*(g%4)))
			f.ins("VPSHUFB", z(24), z(30), z(24))
		},
		scales: func(f *file, _ int) {
			for c := range 2 {
				f.ins("VPMOVSXBD", at("BX", 16*c), z(24+c))
				f.ins("VCVTDQ2PS", z(24+c), z(24+c))
			}
		},
		next: func(f *file, _ int) { f.nextOfSuper(256, 32) },
	},
	vec256: parts256{
		constants: table256,
		super:     func(f *file) { f.ins("LEAQ", at("AX", 2048), "BX") },
		next:      func(f *file) { f.nextOfSuper(256, 32) },
		unpack: func(f *file, _ bool, _, g, _, h, reg int) {
			f.nibbles256(g/4, at("AX", 64*(g%4)+32*h), reg)
			f.ins("VPSHUFB", y(reg), y(15), y(reg))
		},
		scales:   func(f *file, _, h, reg int) { f.ins("VCVTPH2PS", at("R14", 2304+16*h), y(reg)) },
		integers: func(f *file, _, c, reg int) { f.ins("VPMOVSXBD", at("BX", 16*c), y(reg)) },
	},
	neon: neonTable(naturally, 4).at(2304),
}

// table512 fills Z31 with the mask of nibbles and Z30 with the unsigned numbers of the table.
func table512(f *file) {
	nibbleMask512(f)
	f.load("table", "R9")
	f.ins("VBROADCASTI32X4", at("R9", 0), z(30))
}

// table256 fills Y14 with the mask of nibbles and Y15 with the unsigned numbers of the table.
func table256(f *file, vnni bool) {
	nibbleMask256(f, vnni)
	f.load("table", "R9")
	f.ins("VBROADCASTI128", at("R9", 0), y(15))
}

// neonTable is for nibbles that the kernel's table maps to signed weights.
func neonTable(order []int, fit int) neonType {
	return neonType{
		unpack: (*nest).lookup, constants: givenTable, masks: 2, order: order, raw: 1, fromZero: true, fit: fit,
	}
}

// givenTable loads a mask for nibbles and the signed numbers of the kernel's table.
func givenTable(f neonFile, u *unpacked) {
	f.ins("VMOVI", "$15", v(u.mask, "B16"))
	f.args("table", "R22")
	f.ins("FMOVQ", at("R22", 16), q(u.mask2))
}
