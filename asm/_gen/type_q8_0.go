package main

const q8Doc = `for t < n, r < 16:
	for b < blocks:
		isum := bias[b][t]              // w is unsigned here: the sum of (w-128)*q
		for k < 32: isum += int(w[b][k/4][r][k%4]) * int(q[b][t][k])
		acc = fma(float(isum), scales[b][r]*d[b][t], acc)`

const q8SignedDoc = `for t < n, r < 16:
	for b < blocks:
		isum := 0
		for k < 32: isum += int(int8(w[b][k/4][r][k%4])) * int(q[b][t][k])
		acc = fma(float(isum), scales[b][r]*d[b][t], acc)`

// Q8_0: a byte a weight, w+128, for AVX2 w itself.
var q8 = weights{
	name:      "q8",
	doc:       q8Doc,
	signedDoc: q8SignedDoc,
	format:    "Q8_0",
	layout:    layout{per: 2, header: 64, scaleBytes: 2, quants: 512},
	sums:      "bias", signed: true, whole: true,
	vec512: parts512{
		unpack: func(f *file, _, g int) { f.ins("VMOVDQU8", at("AX", 64*g), z(24)) },
		scales: blockScales512,
	},
	vec256: parts256{
		constants: func(f *file, vnni bool) {
			if !vnni {
				f.ins("VMOVDQU", ones, y(15))
			}
		},
		unpack: func(f *file, _ bool, _, g, _, h, reg int) { f.ins("VMOVDQU", at("AX", 64*g+32*h), y(reg)) },
		scales: blockScales256,
	},
	neon: neonType{unpack: (*nest).bytes8, constants: noConstants, order: naturally, fromZero: true, fit: 2},
}
