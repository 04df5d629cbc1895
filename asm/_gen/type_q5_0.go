package main

// Q5_0: nibbles, then a vector of bits 4, of weights w+16.
var q50 = weights{
	name: "q50", doc: `for t < n, r < 16:
	for b < blocks:
		isum := bias[b][t] >> 3
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // weights are unsigned: w+16
		acc = fma(float(isum), d(b, r)*d[b][t], acc)`,
	format: "Q5_0",
	layout: layout{per: 2, header: 64, scaleBytes: 2, quants: 320},
	sums:   "bias", shift: 3, fold: 8,
	vec512: parts512{
		constants: fiveBits512,
		before:    beforeFiveBits512,
		unpack:    unpackFiveBits512,
		dual:      true,
		scales:    blockScales512,
	},
	vec256: parts256{
		constants: fiveBits256,
		unpack:    unpackFiveBits256,
		dual:      true,
		flat:      true,
		scales:    blockScales256,
	},
	neon: neonFiveBits,
}

// fiveBits512 fills Z31 and Z30 with the masks of nibbles and of bit 4.
func fiveBits512(f *file) {
	nibbleMask512(f)
	f.broadcast512(0x10101010, 30)
}

// beforeFiveBits512 reads a block's bits: group 0's are at bit 4 of Z26, those of group 4 at bit 4 of Z15.
func beforeFiveBits512(f *file) {
	f.ins("VMOVDQU8", at("AX", 256), z(26))
	f.ins("VPSLLW", "$4", z(26), z(15))
}

// unpackFiveBits512 reads groups g and g+4, whose bits are at bit 4, and moves the next groups' bits there.
func unpackFiveBits512(f *file, _, g int) {
	f.bothNibbles512(at("AX", 64*g))
	for i, bits := range []int{26, 15} {
		f.ins("VPTERNLOGD", "$0xF8", z(bits), z(30), z(24+i)) // nibbles | (mask & bits)
		f.ins("VPSRLW", "$1", z(bits), z(bits))
	}
}

// fiveBits256 fills Y14 and Y15 with the masks of nibbles and of bit 4.
func fiveBits256(f *file, vnni bool) {
	nibbleMask256(f, vnni)
	f.ins("VMOVDQU", f.lanes256(0x10101010), y(15))
}

// unpackFiveBits256 reads the group of nibble v: bits of groups 0 to 3 begin at bit 4, those of 4 to 7 at bit 0.
func unpackFiveBits256(f *file, _ bool, _, g, v, h, reg int) {
	f.nibbles256(v, at("AX", 64*g+32*h), reg)
	f.ins("VMOVDQU", at("AX", 256+32*h), y(13))
	f.shiftTo(4, g+4*(1-v), 13)
	f.ins("VPAND", y(15), y(13), y(13))
	f.ins("VPOR", y(13), y(reg), y(reg))
}

// shiftTo moves bit from of all bytes to bit to, in a register of 256 bits.
func (f *file) shiftTo(to, from, reg int) {
	switch {
	case to > from:
		f.ins("VPSLLW", imm(to-from), y(reg), y(reg))
	case to < from:
		f.ins("VPSRLW", imm(from-to), y(reg), y(reg))
	}
}
