package main

const q6kDoc = `for t < n, r < 16:
	for b < 8*blocks:                       // weights are unsigned: w+32
		isum0, isum1 := half[b][t][0], half[b][t][1]
		for k < 16: isum0 += w(b, r, k) * int(q[b][t][k])
		for k < 16: isum1 += w(b, r, 16+k) * int(q[b][t][16+k])
		acc = fma(float(sc[b][0][r]*isum0 + sc[b][1][r]*isum1), d[r]*d[b][t], acc)`

// Q6_K: super-blocks of weights w+32: nibbles, then crumbs of bits 4 and 5, of 8 blocks; sc 3072, d 3328. The crumbs of
// group 4c+i are at bits (2i+4)%8 of vector c.
var q6k = weights{
	name:   "q6k",
	doc:    q6kDoc,
	format: "Q6_K",
	layout: layout{super: 3392, quants: 3072},
	sums:   "half", pairs: true, fold: 4,
	vec512: parts512{
		constants: func(f *file) {
			nibbleMask512(f)
			f.broadcast512(0x30303030, 30)
		},
		super: func(f *file) {
			f.ins("VCVTPH2PS", at("AX", 3328), z(27))
			f.ins("LEAQ", at("AX", 3072), "BX")
		},
		half:   func(f *file, c int) { f.ins("VMOVDQU8", at("AX", 256+64*c), z(26)) },
		unpack: q6kUnpack512,
		scales: func(f *file, _ int) {
			for c := range 2 {
				f.ins("VPMOVSXBD", at("BX", 16*c), z(24+c))
				f.ins("VCVTDQ2PS", z(24+c), z(24+c))
			}
		},
		next: func(f *file, _ int) { f.nextOfSuper(384, 32) },
	},
	vec256: parts256{
		constants: func(f *file, vnni bool) {
			nibbleMask256(f, vnni)
			f.ins("VMOVDQU", f.lanes256(0x30303030), y(15))
		},
		super:    func(f *file) { f.ins("LEAQ", at("AX", 3072), "BX") },
		next:     func(f *file) { f.nextOfSuper(384, 32) },
		unpack:   q6kUnpack256,
		scales:   func(f *file, _, h, reg int) { f.ins("VCVTPH2PS", at("R14", 3328+16*h), y(reg)) },
		integers: func(f *file, _, c, reg int) { f.ins("VPMOVSXBD", at("BX", 16*c), y(reg)) },
	},
	neon: neonType{
		dAt:    3328,
		unpack: (*nest).sixBits, constants: neonMasks(15, 48), masks: 2, order: naturally, raw: 1, high: 1, spare: 1, fit: 4,
		plain: &neonType{
			dAt:    3328,
			unpack: (*nest).sixBitsShifted, constants: neonMasks(63), masks: 1, order: naturally, spare: 2, fit: 4,
		},
	},
}

// q6kUnpack512 takes the crumbs from Z26: those of an even group are at bits 4 and 5, those of the next one two bits
// higher, and then a shift of 4 brings the next two there.
func q6kUnpack512(f *file, _, g int) {
	f.nibbles512(g/4, at("AX", 64*(g%4)))
	crumbs := z(26)
	if g%2 == 1 {
		crumbs = z(25)
		f.ins("VPSRLW", "$2", z(26), crumbs)
	}
	f.ins("VPTERNLOGD", "$0xF8", crumbs, z(30), z(24)) // nibbles | (mask & crumbs)
	if g%4 == 1 {
		f.ins("VPSLLW", "$4", z(26), z(26))
	}
}

func q6kUnpack256(f *file, vnni bool, _, g, _, h, reg int) {
	crumbs := 6 + h
	if vnni {
		crumbs = 9 // sums take the others
	}
	if g%4 == 0 {
		f.ins("VMOVDQU", at("AX", 256+16*g+32*h), y(crumbs))
	}
	f.nibbles256(g/4, at("AX", 64*(g%4)+32*h), reg)
	switch g % 4 {
	case 0:
		f.ins("VPAND", y(15), y(crumbs), y(13))
	case 1:
		f.ins("VPSRLW", "$2", y(crumbs), y(13))
	case 2:
		f.ins("VPSLLW", "$4", y(crumbs), y(13))
	case 3:
		f.ins("VPSLLW", "$2", y(crumbs), y(13))
	}
	if g%4 > 0 {
		f.ins("VPAND", y(15), y(13), y(13))
	}
	f.ins("VPOR", y(13), y(reg), y(reg))
}
