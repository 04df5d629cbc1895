package main

// IQ3_S with AVX2 alone, which has no product of 32-bit sums: its table is -15, -13 … 15, so that a nibble n stands for
// 2n-15, and no table is looked up. The panel is that of table32. The products with nibbles fit into 16 bits.
var odd32 = weights{
	name: "odd32", doc: `for t < n, r < 16:
	for b < 8*blocks:                       // d is the super-block's
		isum := 0
		for k < 32: isum += (2*nibble(w[b][k/4][r][k%4]) - 15) * int(q[b][t][k])
		acc = fma(float(isum), (d[r]*float(u[b][r])) * d[b][t], acc)`,
	format: "IQ3_S",
	layout: layout{super: 2240, quants: 2048},
	sums:   "bias", small: true, odd: true, whole: true,
	vec256: parts256{
		constants: nibbleMask256,
		super:     func(f *file) { f.ins("LEAQ", at("AX", 2048), "BX") },
		next:      func(f *file) { f.nextOfSuper(256, 16) },
		unpack:    func(f *file, _ bool, _, g, v, h, reg int) { f.nibbles256(v, at("AX", 64*g+32*h), reg) },
		dual:      true,
		scales:    func(f *file, _, h, reg int) { f.scale256K("VPMOVSXBD", 2176+16*h, 8*h, reg) },
	},
}
