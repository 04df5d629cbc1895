package main

// IQ4_XS: super-blocks of nibbles as IQ4_NL; ls 2048, d 2176.
var iq4xs = weights{
	name: "iq4xs", doc: `for t < n, r < 16:
	for b < 8*blocks:                       // d is the super-block's
		isum := bias[b][t]
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // weights are unsigned: w+128
		acc = fma(float(isum), (d[r]*float(ls[b][r])) * d[b][t], acc)`,
	signedDoc: `for t < n, r < 16:
	for b < 8*blocks:                       // d is the super-block's
		isum := 0
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // -127 to 113
		acc = fma(float(isum), (d[r]*float(ls[b][r])) * d[b][t], acc)`,
	format: "IQ4_XS", super: 2240, quants: 2048,
	sums: "bias", signed: true,
	vec512: parts512{
		constants: iq4Table512,
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
		constants: iq4Constants256,
		super:     func(f *file) { f.ins("LEAQ", at("AX", 2048), "BX") },
		next:      func(f *file) { f.nextOfSuper(256, 16) },
		before:    iq4Table256,
		unpack:    iq4Unpack256,
		dual:      true,
		scales:    func(f *file, _, h, reg int) { f.scale256K("VPMOVSXBD", 2176+16*h, 8*h, reg) },
	},
	neon: neonLookup(iq4Table, 2).at(2176),
}
