package main

// Q3_K: super-blocks of weights w+4: crumbs, then a vector of bits 2, of 8 blocks; sc 1536, d 1792.
var q3k = weights{
	name: "q3k", doc: `for t < n, r < 16:
	for b < 8*blocks:                       // weights are unsigned: w+4
		isum0, isum1 := half[b][t][0] >> 3, half[b][t][1] >> 3
		for k < 16: isum0 += w(b, r, k) * int(q[b][t][k])
		for k < 16: isum1 += w(b, r, 16+k) * int(q[b][t][16+k])
		acc = fma(float(sc[b][0][r]*isum0 + sc[b][1][r]*isum1), d[r]*d[b][t], acc)`,
	format: "Q3_K", super: 1856, quants: 1536,
	sums: "half", shift: 3, pairs: true,
	vec512: parts512{
		constants: func(f *file) {
			f.broadcast512(0x03030303, 31)
			f.broadcast512(0x04040404, 30)
		},
		super: func(f *file) {
			f.ins("VCVTPH2PS", at("AX", 1792), z(27))
			f.ins("LEAQ", at("AX", 1536), "BX")
		},
		before: func(f *file) { f.ins("VMOVDQU8", at("AX", 128), z(26)) },
		half: func(f *file, c int) { // the bits of group 4*c move to bit 2
			f.ins("VMOVDQU8", at("AX", 64*c), z(25))
			f.ins([]string{"VPSRLW", "VPSLLW"}[c], "$2", z(26), z(28))
		},
		unpack: func(f *file, _, _ int) {
			f.crumbs512()
			f.ins("VPTERNLOGD", "$0xF8", z(28), z(30), z(24)) // crumbs | (mask & bits)
			f.ins("VPSRLW", "$1", z(28), z(28))
		},
		scales: func(f *file, _ int) {
			for c := range 2 {
				f.ins("VPMOVSXBD", at("BX", 16*c), z(24+c))
				f.ins("VCVTDQ2PS", z(24+c), z(24+c))
			}
		},
		next: func(f *file, _ int) { f.nextOfSuper(192, 32) },
	},
	vec256: parts256{
		constants: func(f *file, _ bool) {
			f.ins("VMOVDQU", f.lanes256(0x03030303), y(14))
			f.ins("VMOVDQU", f.lanes256(0x04040404), y(15))
		},
		super: func(f *file) { f.ins("LEAQ", at("AX", 1536), "BX") },
		next:  func(f *file) { f.nextOfSuper(192, 32) },
		unpack: func(f *file, _ bool, _, g, _, _, reg int) {
			f.crumbs256(g, reg)
			f.ins("VMOVDQU", at("AX", 128), y(13))
			f.shiftTo(2, (g+4)%8, 13)
			f.ins("VPAND", y(15), y(13), y(13))
			f.ins("VPOR", y(13), y(reg), y(reg))
		},
		scales:   func(f *file, _, h, reg int) { f.ins("VCVTPH2PS", at("R14", 1792+16*h), y(reg)) },
		integers: func(f *file, _, c, reg int) { f.ins("VPMOVSXBD", at("BX", 16*c), y(reg)) },
	},
	neon: neonType{
		dAt:    1792,
		unpack: (*nest).threeBits, constants: neonMasks(3, 4), masks: 2, order: naturally, raw: 1, high: 1, spare: 1, fit: 4,
	},
}

// crumbs512 takes the next group, bits 0 and 1, from a vector of 4 groups in Z25 to Z24; Z31 is the mask.
func (f *file) crumbs512() {
	f.ins("VPANDD", z(31), z(25), z(24))
	f.ins("VPSRLW", "$2", z(25), z(25))
}

// crumbs256 reads group g of one half of the rows; Y14 is the mask.
func (f *file) crumbs256(g, reg int) {
	f.ins("VMOVDQU", at("AX", 64*(g/4)), y(reg))
	f.shiftTo(0, 2*(g%4), reg)
	f.ins("VPAND", y(14), y(reg), y(reg))
}
