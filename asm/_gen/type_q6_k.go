package main

const q6kDoc = `for t < n, r < 16:
	for b < 8*supers:                       // weights are unsigned: w+32
		isum0, isum1 := half[b][t][0], half[b][t][1]
		for k < 16: isum0 += w[b][r][k] * int(q[b][t][k])
		for k < 16: isum1 += w[b][r][16+k] * int(q[b][t][16+k])
		acc = fma(float(sc[b][0][r]*isum0 + sc[b][1][r]*isum1), d[r]*d[b][t], acc)`

// Q6_K: super-blocks of weights w+32: nibbles as Q4_K; pairs of bits 2048, block 4n+i of a half n at bits 2i; sc 3072, d 3328.
var q6k = weights{
	name:   "q6k",
	doc:    q6kDoc,
	format: "Q6_K", super: q6kBytes, quants: 2048,
	sums: "half", pairs: true,
	vec512: parts512{
		constants: func(f *file) {
			nibbleMask512(f)
			f.broadcast512(0x30303030, 30)
		},
		super: func(f *file) {
			f.ins("VCVTPH2PS", at("AX", 3328), z(27))
			f.ins("LEAQ", at("AX", 3072), "BX")
			f.ins("MOVQ", "$2048", "R8") // from the block's nibbles to its pairs of bits
		},
		unpack: q6kUnpack512,
		phases: 4,
		scales: func(f *file, _ int) {
			for c := range 2 {
				f.ins("VPMOVSXBD", at("BX", 16*c), z(24+c))
				f.ins("VCVTDQ2PS", z(24+c), z(24+c))
			}
		},
		next: func(f *file, phase int) {
			f.nextNibbles512(phase, 32)
			if phase == 3 {
				f.ins("SUBQ", "$512", "R8")
			}
		},
	},
	vec256: parts256{
		constants: func(f *file, vnni bool) {
			nibbleMask256(f, vnni)
			f.ins("VMOVDQU", f.lanes256(0x30303030), y(15))
		},
		super: func(f *file) {
			f.ins("LEAQ", at("AX", 3072), "BX")
			f.ins("LEAQ", at("AX", 2048), "R12")
		},
		next: func(f *file) {
			f.ins("ADDQ", "$1024", "AX")
			f.ins("ADDQ", "$128", "BX")
			f.ins("ADDQ", "$512", "R12")
		},
		unpack:   q6kUnpack256,
		phases:   4,
		extra:    true,
		scales:   func(f *file, _, h, reg int) { f.ins("VCVTPH2PS", at("R14", 3328+16*h), y(reg)) },
		integers: func(f *file, phase, c, reg int) { f.ins("VPMOVSXBD", at("BX", 32*phase+16*c), y(reg)) },
	},
	neon: neonType{
		copies: 4, dAt: 3328, highAt: 2048,
		unpack: (*nest).sixBits, constants: neonMasks(63), masks: 1, order: naturally, spare: 1, fit: 4,
	},
}

func q6kUnpack512(f *file, phase, g int) {
	f.nibbles512(phase%2, at("AX", 64*g))
	off, v := 64*g, z(25)
	if phase > 1 {
		off -= 512
	}
	high := atx("AX", "R8", 1, off)
	switch phase {
	case 0:
		f.ins("VPSLLW", "$4", high, v)
	case 1:
		f.ins("VPSLLW", "$2", high, v)
	case 2:
		v = high
	case 3:
		f.ins("VPSRLW", "$2", high, v)
	}
	f.ins("VPTERNLOGD", "$0xF8", v, z(30), z(24)) // nibbles | (mask & v)
}

func q6kUnpack256(f *file, _ bool, phase, g, _, h, reg int) {
	f.nibbles256(phase%2, at("AX", 512*(phase/2)+64*g+32*h), reg)
	f.ins("VMOVDQU", at("R12", 64*g+32*h), y(13))
	switch phase {
	case 0:
		f.ins("VPSLLW", "$4", y(13), y(13))
	case 1:
		f.ins("VPSLLW", "$2", y(13), y(13))
	case 3:
		f.ins("VPSRLW", "$2", y(13), y(13))
	}
	f.ins("VPAND", y(15), y(13), y(13))
	f.ins("VPOR", y(13), y(reg), y(reg))
}
