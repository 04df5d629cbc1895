package main

const q4Doc = `for t < n, r < 16:
	for b < blocks:
		isum := bias[b][t] >> 4         // nibbles are unsigned: the sum of (w-8)*q
		for k < 16: isum += int(w[b][k/4][r][k%4]&15) * int(q[b][t][k])
		for k < 16: isum += int(w[b][k/4][r][k%4]>>4) * int(q[b][t][16+k])
		acc = fma(float(isum), scales[b][r]*d[b][t], acc)`

// Q4_0: nibbles w+8; a byte holds weights k and 16+k.
var q4 = weights{
	name:   "q4",
	doc:    q4Doc,
	format: "Q4_0",
	layout: layout{per: 2, header: 64, scaleBytes: 2, quants: 256},
	sums:   "bias", shift: 4, small: true, whole: true,
	vec512: parts512{
		constants: nibbleMask512,
		unpack:    func(f *file, _, g int) { f.bothNibbles512(at("AX", 64*g)) },
		dual:      true,
		scales:    blockScales512,
	},
	vec256: parts256{
		constants: nibbleMask256,
		unpack:    func(f *file, _ bool, _, g, v, h, reg int) { f.nibbles256(v, at("AX", 64*g+32*h), reg) },
		dual:      true,
		scales:    blockScales256,
	},
	neon: neonNibbles,
}

// bothNibbles512 reads the low nibbles at mem to Z24 and the high ones to Z25; Z31 is their mask.
func (f *file) bothNibbles512(mem string) {
	f.ins("VMOVDQU8", mem, z(25))
	f.ins("VPANDD", z(31), z(25), z(24))
	f.ins("VPSRLW", "$4", z(25), z(25))
	f.ins("VPANDD", z(31), z(25), z(25))
}

// nibbleMask512 fills Z31.
func nibbleMask512(f *file) { f.broadcast512(0x0f0f0f0f, 31) }
