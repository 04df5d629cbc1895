package main

// IQ4_NL: nibbles as Q4_0, which choose a weight from a table.
var iq4nl = weights{
	name: "iq4nl", doc: `for t < n, r < 16:
	for b < blocks:
		isum := bias[b][t]
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // weights are unsigned: w+128
		acc = fma(float(isum), d(b, r)*d[b][t], acc)`,
	signedDoc: `for t < n, r < 16:
	for b < blocks:
		isum := 0
		for k < 32: isum += w(b, r, k) * int(q[b][t][k])  // -127 to 113
		acc = fma(float(isum), d(b, r)*d[b][t], acc)`,
	format: "IQ4_NL",
	layout: layout{per: 2, header: 64, scaleBytes: 2, quants: 256},
	sums:   "bias", signed: true,
	vec512: parts512{
		constants: iq4Table512,
		unpack:    func(f *file, _, g int) { f.lookup512(at("AX", 64*g)) },
		dual:      true,
		scales:    blockScales512,
	},
	vec256: parts256{
		constants: iq4Constants256,
		before:    iq4Table256,
		unpack:    iq4Unpack256,
		dual:      true,
		scales:    blockScales256,
	},
	neon: neonLookup(iq4Table, 2),
}

var iq4Weights = [16]int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// plus adds a number to all weights of a table.
func plus(table [16]int, n int) [16]int {
	for i := range table {
		table[i] += n
	}
	return table
}

// iq4Table512 fills Z31 with the mask of nibbles and Z30 with the weights plus 128.
func iq4Table512(f *file) {
	nibbleMask512(f)
	f.ins("VBROADCASTI32X4", f.lookup("iq4unsigned", plus(iq4Weights, 128)), z(30))
}

// lookup512 reads what the nibbles at mem stand for: the low ones to Z24, the high ones to Z25; Z30 is the table.
func (f *file) lookup512(mem string) {
	f.bothNibbles512(mem)
	f.ins("VPSHUFB", z(24), z(30), z(24))
	f.ins("VPSHUFB", z(25), z(30), z(25))
}

// iq4Constants256 fills Y14 with the mask of nibbles and Y15 with the weights plus 128, or without VNNI Y15 with ones.
func iq4Constants256(f *file, vnni bool) {
	if !vnni {
		f.ins("VMOVDQU", ones, y(15))
		return
	}
	nibbleMask256(f, vnni)
	f.ins("VBROADCASTI128", f.lookup("iq4unsigned", plus(iq4Weights, 128)), y(15))
}

// iq4Table256 fills Y12 with the weights for signed products, which need all other registers.
func iq4Table256(f *file, vnni bool) {
	if !vnni {
		f.ins("VBROADCASTI128", f.lookup("iq4signed", iq4Weights), y(12))
	}
}

func iq4Unpack256(f *file, vnni bool, _, g, v, h, reg int) {
	mem := at("AX", 64*g+32*h)
	if vnni {
		f.nibbles256(v, mem, reg)
		f.ins("VPSHUFB", y(reg), y(15), y(reg))
		return
	}
	f.nibblesOf256(mem, v, 12, reg)
}

// nibblesOf256 looks up the nibbles v at mem in the table in a register.
func (f *file) nibblesOf256(mem string, v, table, reg int) {
	f.ins("VMOVDQU", mem, y(reg))
	if v == 1 {
		f.ins("VPSRLW", "$4", y(reg), y(reg))
	}
	f.ins("VPAND", "nibbles<>(SB)", y(reg), y(reg))
	f.ins("VPSHUFB", y(reg), y(table), y(reg))
}
