package main

// Q3_K: super-blocks of weights w+4 in three vectors a block: vector i has group 2i in bits 0 to 2 and 2i+1 in bits 3
// to 5; group 6 has bits 6 and 7 of vector 0 and bit 6 of vector 1; group 7 those of vector 2 and bit 7 of vector 1. sc
// 1536, d 1792.
var q3k = weights{
	name: "q3k", doc: `for t < n, r < 16:
	for b < 8*blocks:                       // weights are unsigned: w+4
		isum0, isum1 := half[b][t][0] >> 3, half[b][t][1] >> 3
		for k < 16: isum0 += w(b, r, k) * int(q[b][t][k])
		for k < 16: isum1 += w(b, r, 16+k) * int(q[b][t][16+k])
		acc = fma(float(sc[b][0][r]*isum0 + sc[b][1][r]*isum1), d[r]*d[b][t], acc)`,
	format: "Q3_K",
	layout: layout{super: 1856, quants: 1536},
	sums:   "half", shift: 3, pairs: true, fold: 4,
	vec512: parts512{
		constants: func(f *file) {
			f.broadcast512(0x07070707, 31)
			f.broadcast512(0x04040404, 30)
		},
		super: func(f *file) {
			f.ins("VCVTPH2PS", at("AX", 1792), z(27))
			f.ins("LEAQ", at("AX", 1536), "BX")
		},
		unpack: q3kUnpack512,
		flat:   true,
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
			f.ins("VMOVDQU", f.lanes256(0x07070707), y(14))
			f.ins("VMOVDQU", f.lanes256(0x04040404), y(15))
		},
		super:    func(f *file) { f.ins("LEAQ", at("AX", 1536), "BX") },
		next:     func(f *file) { f.nextOfSuper(192, 32) },
		unpack:   q3kUnpack256,
		scales:   func(f *file, _, h, reg int) { f.ins("VCVTPH2PS", at("R14", 1792+16*h), y(reg)) },
		integers: func(f *file, _, c, reg int) { f.ins("VPMOVSXBD", at("BX", 16*c), y(reg)) },
	},
	neon: neonType{
		dAt:    1792,
		unpack: (*nest).threeBits, constants: neonMasks(7, 4), masks: 2, order: naturally, raw: 1, high: 1, spare: 1, fit: 4,
	},
}

func q3kUnpack512(f *file, _, g int) {
	switch {
	case g > 5: // bits 0 and 1, and bit 2 of the middle vector
		f.ins("VPSRLW", "$6", at("AX", 128*(g-6)), z(24))
		f.ins("VPSRLW", imm(g-2), at("AX", 64), z(25))
		f.ins("VPTERNLOGD", "$0xB8", z(25), z(30), z(24)) // the mask chooses
		f.ins("VPANDD", z(31), z(24), z(24))
	case g%2 == 0:
		f.ins("VPANDD", at("AX", 32*g), z(31), z(24))
	default:
		f.ins("VPSRLW", "$3", at("AX", 64*(g/2)), z(24))
		f.ins("VPANDD", z(31), z(24), z(24))
	}
}

func q3kUnpack256(f *file, _ bool, _, g, _, h, reg int) {
	switch {
	case g > 5:
		f.ins("VMOVDQU", at("AX", 128*(g-6)+32*h), y(reg))
		f.ins("VMOVDQU", at("AX", 64+32*h), y(13))
		f.ins("VPSRLW", "$6", y(reg), y(reg))
		f.ins("VPSRLW", imm(g-2), y(13), y(13))
		f.ins("VPAND", f.lanes256(0x03030303), y(reg), y(reg))
		f.ins("VPAND", y(15), y(13), y(13))
		f.ins("VPOR", y(13), y(reg), y(reg))
	case g%2 == 0:
		f.ins("VPAND", at("AX", 32*g+32*h), y(14), y(reg))
	default:
		f.ins("VMOVDQU", at("AX", 64*(g/2)+32*h), y(reg))
		f.ins("VPSRLW", "$3", y(reg), y(reg))
		f.ins("VPAND", y(14), y(reg), y(reg))
	}
}

// crumbs512 takes the next group, bits 0 and 1, from a vector of 4 groups in Z25 to Z24; Z31 is the mask.
func (f *file) crumbs512() {
	f.ins("VPANDD", z(31), z(25), z(24))
	f.ins("VPSRLW", "$2", z(25), z(25))
}

// crumbs256 reads group g of half h of the rows; Y14 is the mask.
func (f *file) crumbs256(g, h, reg int) {
	f.ins("VMOVDQU", at("AX", 64*(g/4)+32*h), y(reg))
	f.shiftTo(0, 2*(g%4), reg)
	f.ins("VPAND", y(14), y(reg), y(reg))
}
