package main

const q4kDoc = `for t < n, r < 16:
	for b < 8*supers:                       // d, dmin are the super-block's
		isum := 0
		for k < 32: isum += nibble(w[b][k/4][r][k%4]) * int(q[b][t][k])
		acc = fma(float(isum), (d[r]*float(sc[b][r])) * d[b][t], acc)
		acc = fma(-(dmin[r]*float(mn[b][r])), dsum[b][t], acc)`

// Q4_K: super-blocks of nibbles: low ones of a byte are of an even block, high ones of the next; then d 2048, dmin
// 2080, sc 2112, mn 2240.
var q4k = weights{
	name:   "q4k",
	doc:    q4kDoc,
	format: "Q4_K",
	layout: layout{super: 2368, quants: 2048},
	sums:   "dsum", zero: true, min: true, small: true, whole: true,
	vec512: parts512{
		constants: nibbleMask512,
		super:     func(f *file) { f.super512K(2048) },
		unpack:    func(f *file, phase, g int) { f.nibbles512(phase, at("AX", 64*g)) },
		phases:    2,
		scales:    func(f *file, _ int) { f.scales512K() },
		next:      func(f *file, phase int) { f.nextNibbles512(phase, 16) },
	},
	vec256: parts256{
		constants: nibbleMask256,
		super:     func(f *file) { f.ins("LEAQ", at("AX", 2112), "BX") },
		next: func(f *file) {
			f.ins("ADDQ", "$512", "AX")
			f.ins("ADDQ", "$32", "BX")
		},
		unpack:   func(f *file, _ bool, phase, g, _, h, reg int) { f.nibbles256(phase, at("AX", 64*g+32*h), reg) },
		phases:   2,
		scales:   func(f *file, phase, h, reg int) { f.scale256K("VPMOVZXBD", 2048+16*h, 16*phase+8*h, reg) },
		minimums: func(f *file, phase, h, reg int) { f.scale256K("VPMOVZXBD", 2080+16*h, 128+16*phase+8*h, reg) },
	},
	neon: neonType{
		copies: 2, dAt: 2048,
		unpack: (*nest).pairedNibbles, constants: neonMasks(15), masks: 1, order: naturally, fit: 8,
	},
}

// super512K reads d and dmin at offset to Z12 and Z13, and points BX at the scales behind them.
func (f *file) super512K(offset int) {
	f.ins("VCVTPH2PS", at("AX", offset), z(12))
	f.ins("VCVTPH2PS", at("AX", offset+32), z(13))
	f.ins("LEAQ", at("AX", offset+64), "BX")
}

// scales512K makes Z8 = d*sc and Z9 = dmin*mn.
func (f *file) scales512K() {
	for i := range 2 {
		f.ins("VPMOVZXBD", at("BX", 128*i), z(8+i))
		f.ins("VCVTDQ2PS", z(8+i), z(8+i))
		f.ins("VMULPS", z(12+i), z(8+i), z(8+i))
	}
}

// nibbles512 reads the low (0) or high (1) nibbles at mem to Z24; Z31 is their mask.
func (f *file) nibbles512(nibble int, mem string) {
	if nibble == 0 {
		f.ins("VPANDD", mem, z(31), z(24))
		return
	}
	f.ins("VPSRLW", "$4", mem, z(24))
	f.ins("VPANDD", z(31), z(24), z(24))
}

// nextNibbles512 goes on to the next block: the high nibbles after the low ones, then the next 512 bytes; its scales
// are some bytes further.
func (f *file) nextNibbles512(phase, scales int) {
	f.ins("ADDQ", imm(scales), "BX")
	if phase%2 == 1 {
		f.ins("ADDQ", "$512", "AX")
	}
}

// scale256K is the product of a super-block's number, at R14+super, and a block's, a byte at BX+block. Y11 is used.
func (f *file) scale256K(widen string, super, block, reg int) {
	f.ins("VCVTPH2PS", at("R14", super), y(11))
	f.ins(widen, at("BX", block), y(reg))
	f.ins("VCVTDQ2PS", y(reg), y(reg))
	f.ins("VMULPS", y(11), y(reg), y(reg))
}
