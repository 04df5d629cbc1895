package main

// Q5_K: super-blocks of nibbles and bits as Q5_0, of 8 blocks; d 2560, dmin 2592, sc 2624, mn 2752.
var q5k = weights{
	name: "q5k", doc: `for t < n, r < 16:
	for b < 8*blocks:                       // d, dmin are the super-block's
		isum := 0
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // 0 to 31
		acc = fma(float(isum), (d[r]*float(sc[b][r])) * d[b][t], acc)
		acc = fma(-(dmin[r]*float(mn[b][r])), dsum[b][t], acc)`,
	format: "Q5_K",
	layout: layout{super: 2880, quants: 2560},
	sums:   "dsum", zero: true, min: true, fold: 4,
	vec512: parts512{
		constants: fiveBits512,
		super:     func(f *file) { f.super512K(2560) },
		before:    beforeFiveBits512,
		unpack:    unpackFiveBits512,
		dual:      true,
		scales:    func(f *file, _ int) { f.scales512K() },
		next:      func(f *file, _ int) { f.nextOfSuper(320, 16) },
	},
	vec256: parts256{
		constants: fiveBits256,
		super:     func(f *file) { f.ins("LEAQ", at("AX", 2624), "BX") },
		next:      func(f *file) { f.nextOfSuper(320, 16) },
		unpack:    unpackFiveBits256,
		dual:      true,
		flat:      true,
		scales:    func(f *file, _, h, reg int) { f.scale256K("VPMOVZXBD", 2560+16*h, 8*h, reg) },
		minimums:  func(f *file, _, h, reg int) { f.scale256K("VPMOVZXBD", 2592+16*h, 128+8*h, reg) },
	},
	neon: neonFiveBits.at(2560),
}

// nextOfSuper goes on to the next block: some bytes of quants and of scales further.
func (f *file) nextOfSuper(quants, scales int) {
	f.ins("ADDQ", imm(quants), "AX")
	f.ins("ADDQ", imm(scales), "BX")
}
