package main

// Q5_1: nibbles and bits as Q5_0; d and m of each block before them.
var q51 = weights{
	name: "q51", doc: `for t < n, r < 16:
	for b < blocks:
		isum := 0
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // 0 to 31
		acc = fma(float(isum), d(b, r)*d[b][t], acc)
		acc = fma(m(b, r), dsum[b][t], acc)`,
	format: "Q5_1",
	layout: layout{per: 1, header: 64, scaleBytes: 2, quants: 320},
	sums:   "dsum", zero: true, min: true, plus: true,
	vec512: parts512{
		constants: fiveBits512,
		before:    beforeFiveBits512,
		unpack:    unpackFiveBits512,
		dual:      true,
		scales:    scalesAndMinimums512,
	},
	vec256: parts256{
		constants: fiveBits256,
		unpack:    unpackFiveBits256,
		dual:      true,
		flat:      true,
		scales:    blockScales256,
		minimums:  blockMinimums256,
	},
	neon: neonFiveBits,
}
