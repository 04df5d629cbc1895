package main

// Q4_1: nibbles; d and m of each block before them.
var q41 = weights{
	name: "q41", doc: `for t < n, r < 16:
	for b < blocks:
		isum := 0
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // 0 to 15
		acc = fma(float(isum), d(b, r)*d[b][t], acc)
		acc = fma(m(b, r), dsum[b][t], acc)`,
	format: "Q4_1",
	layout: layout{per: 1, header: 64, scaleBytes: 2, quants: 256},
	sums:   "dsum", zero: true, min: true, plus: true, small: true,
	vec512: parts512{
		constants: nibbleMask512,
		unpack:    func(f *file, _, g int) { f.bothNibbles512(at("AX", 64*g)) },
		dual:      true,
		scales:    scalesAndMinimums512,
	},
	vec256: parts256{
		constants: nibbleMask256,
		unpack:    func(f *file, _ bool, _, g, v, h, reg int) { f.nibbles256(v, at("AX", 64*g+32*h), reg) },
		dual:      true,
		scales:    blockScales256,
		minimums:  blockMinimums256,
	},
	neon: neonNibbles,
}

// scalesAndMinimums512 reads float16 d to Z8 and m, which lies behind it, to Z9.
func scalesAndMinimums512(f *file, _ int) {
	f.ins("VCVTPH2PS", blockScales(0), z(8))
	f.ins("VCVTPH2PS", blockScales(32), z(9))
}

func blockMinimums256(f *file, _, h, reg int) { f.ins("VCVTPH2PS", blockScales(32+16*h), y(reg)) }
