package main

// TQ2_0 and TQ1_0: super-blocks of crumbs of 8 blocks; d 1024.
var tq = weights{
	name: "tq", doc: `for t < n, r < 16:
	for b < 8*blocks:                       // d is the super-block's
		isum := bias[b][t] >> 7
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // weights are unsigned: w+1
		acc = fma(float(isum), d[r] * d[b][t], acc)`,
	format: "TQ2_0",
	layout: layout{super: 1088, quants: 1024}, also: []string{"TQ1_0"},
	sums: "bias", shift: 7, small: true,
	vec512: parts512{
		constants: func(f *file) { f.broadcast512(0x03030303, 31) },
		super:     func(f *file) { f.ins("VCVTPH2PS", at("AX", 1024), z(12)) },
		unpack: func(f *file, _, g int) {
			if g%4 == 0 {
				f.ins("VMOVDQU8", at("AX", 16*g), z(25))
			}
			f.crumbs512()
		},
		flat:   true,
		scales: func(f *file, _ int) { f.ins("VMOVAPS", z(12), z(8)) },
		next:   func(f *file, _ int) { f.ins("ADDQ", "$128", "AX") },
	},
	vec256: parts256{
		constants: func(f *file, _ bool) { f.ins("VMOVDQU", f.lanes256(0x03030303), y(14)) },
		super:     func(*file) {},
		next:      func(f *file) { f.ins("ADDQ", "$128", "AX") },
		unpack: func(f *file, _ bool, _, g, _, h, reg int) {
			f.ins("VMOVDQU", at("AX", 64*(g/4)+32*h), y(reg))
			f.shiftTo(0, 2*(g%4), reg)
			f.ins("VPAND", y(14), y(reg), y(reg))
		},
		flat:   true,
		scales: func(f *file, _, h, reg int) { f.ins("VCVTPH2PS", at("R14", 1024+16*h), y(reg)) },
	},
	neon: neonType{dAt: 1024, alone: true, unpack: (*nest).crumbs, constants: neonMasks(3), masks: 1, order: naturally,
		raw: 1, fit: 8},
}
