package main

// MXFP4: nibbles as Q4_0, which choose a weight from a table, and the powers of two of 4 blocks before them.
var mxfp4 = weights{
	name: "mxfp4", doc: `for t < n, r < 16:
	for b < blocks:
		isum := bias[b][t] >> 3
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // weights are unsigned: w+16
		acc = fma(float(isum), power(e[b][r])*d[b][t], acc)`,
	format: "MXFP4",
	layout: layout{per: 4, header: 64, scaleBytes: 1, quants: 256},
	sums:   "bias", shift: 3,
	vec512: parts512{
		constants: func(f *file) {
			nibbleMask512(f)
			f.ins("VBROADCASTI32X4", f.lookup("mxfp4", plus(mxfp4Weights, 16)), z(30))
			f.broadcast512(powerNormal, 29)
			f.broadcast512(powerLeast, 28)
		},
		unpack: func(f *file, _, g int) { f.lookup512(at("AX", 64*g)) },
		dual:   true,
		scales: func(f *file, _ int) {
			f.ins("VPMOVZXBD", blockScales(0), z(8))
			f.ins("VPSLLD", "$21", z(8), z(9))
			f.ins("VPSLLD", "$23", z(8), z(8))
			f.ins("VPADDD", z(28), z(9), z(9))
			f.ins("VPSUBD", z(29), z(8), z(8))
			f.ins("VPMAXSD", z(9), z(8), z(8))
		},
	},
	vec256: parts256{
		constants: func(f *file, vnni bool) {
			nibbleMask256(f, vnni)
			f.ins("VBROADCASTI128", f.lookup("mxfp4", plus(mxfp4Weights, 16)), y(15))
		},
		unpack: func(f *file, _ bool, _, g, v, h, reg int) {
			f.nibbles256(v, at("AX", 64*g+32*h), reg)
			f.ins("VPSHUFB", y(reg), y(15), y(reg))
		},
		dual: true,
		scales: func(f *file, _, h, reg int) {
			f.ins("VPMOVZXBD", blockScales(8*h), y(reg))
			f.ins("VPSLLD", "$21", y(reg), y(11))
			f.ins("VPSLLD", "$23", y(reg), y(reg))
			f.ins("VPADDD", f.lanes256(powerLeast), y(11), y(11))
			f.ins("VPSUBD", f.lanes256(powerNormal), y(reg), y(reg))
			f.ins("VPMAXSD", y(11), y(reg), y(reg))
		},
	},
	neon: neonLookup(mxfp4Table, 8),
}

var mxfp4Weights = [16]int{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// 2^(e-128) as bits is the greater of e<<23 - powerNormal and, for the subnormal ones, e<<21 + powerLeast.
const powerNormal, powerLeast = 0x00800000, 0x00200000
