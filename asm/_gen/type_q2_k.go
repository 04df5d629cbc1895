package main

// Q2_K: super-blocks of crumbs of 8 blocks; scales and minimums of 16 weights, nibbles of a byte, 1024; d 1280, dmin
// 1312.
var q2k = weights{
	name: "q2k", doc: `for t < n, r < 16:
	for b < 8*blocks:                       // sc and mn are of 16 weights; half is -32*sum
		isum0, isum1 := 0, 0
		for k < 16: isum0 += w(b, r, k) * int(q[b][t][k])
		for k < 16: isum1 += w(b, r, 16+k) * int(q[b][t][16+k])
		acc = fma(float(sc[b][0][r]*isum0 + sc[b][1][r]*isum1), d[r]*d[b][t], acc)
		u := mn[b][0][r]*sum0[b][t] + mn[b][1][r]*sum1[b][t]
		acc = fma(-float(u), dmin[r]*d[b][t], acc)`,
	format: "Q2_K",
	layout: layout{super: 1344, quants: 1024},
	sums:   "half", zero: true, pairs: true, min: true, fold: 4,
	vec512: parts512{
		constants: func(f *file) {
			f.broadcast512(0x03030303, 31)
			f.broadcast512(0x0000000f, 30)
		},
		super: func(f *file) {
			f.ins("VCVTPH2PS", at("AX", 1280), z(27))
			f.ins("VCVTPH2PS", at("AX", 1312), z(28))
			f.ins("LEAQ", at("AX", 1024), "BX")
		},
		half:   func(f *file, c int) { f.ins("VMOVDQU8", at("AX", 64*c), z(25)) },
		unpack: func(f *file, _, _ int) { f.crumbs512() },
		scales: func(f *file, _ int) {
			for c := range 2 {
				f.ins("VPMOVZXBD", at("BX", 16*c), z(24+c))
				f.ins("VPANDD", z(30), z(24+c), z(24+c))
				f.ins("VCVTDQ2PS", z(24+c), z(24+c))
			}
		},
		minimums: func(f *file, _ int) {
			for c := range 2 {
				f.ins("VPMOVZXBD", at("BX", 16*c), z(24+c))
				f.ins("VPSRLD", "$4", z(24+c), z(24+c))
			}
			f.ins("VPSLLD", "$16", z(25), z(25))
			f.ins("VPORD", z(25), z(24), z(24))
		},
		next: func(f *file, _ int) { f.nextOfSuper(128, 32) },
	},
	vec256: parts256{
		constants: func(f *file, _ bool) { f.ins("VMOVDQU", f.lanes256(0x03030303), y(14)) },
		super:     func(f *file) { f.ins("LEAQ", at("AX", 1024), "BX") },
		next:      func(f *file) { f.nextOfSuper(128, 32) },
		unpack:    func(f *file, _ bool, _, g, _, h, reg int) { f.crumbs256(g, h, reg) },
		scales:    func(f *file, _, h, reg int) { f.ins("VCVTPH2PS", at("R14", 1280+16*h), y(reg)) },
		integers: func(f *file, _, c, reg int) {
			f.ins("VPMOVZXBD", at("BX", 16*c), y(reg))
			f.ins("VPAND", f.lanes256(0x0000000f), y(reg), y(reg))
		},
		minimums: func(f *file, _, c, reg int) {
			f.ins("VPMOVZXBD", at("BX", 16*c), y(reg))
			f.ins("VPSRLD", "$4", y(reg), y(reg))
		},
		factor: func(f *file, h, reg int) { f.ins("VCVTPH2PS", at("R14", 1312+16*h), y(reg)) },
	},
	neon: neonType{dAt: 1280, unpack: (*nest).crumbs, constants: neonMasks(3), masks: 1, order: naturally, raw: 1, fit: 4},
}
