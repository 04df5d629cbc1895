package main

// The functions that unpack the weights of 32 columns to bytes. Each writes group g, 4 weights of each of 4 rows, of Q
// quads to the registers from out on.

func noConstants(neonFile, *unpacked) {}

// neonMasks sets registers to constants of 16 equal bytes.
func neonMasks(values ...int) func(neonFile, *unpacked) {
	return func(f neonFile, u *unpacked) {
		for i, e := range values {
			f.ins("VMOVI", imm(e), v([]int{u.mask, u.mask2}[i], "B16"))
		}
	}
}

// lookupTable loads a mask for nibbles and the table that maps them to weights.
func lookupTable(name string) func(neonFile, *unpacked) {
	return func(f neonFile, u *unpacked) {
		f.ins("VMOVI", "$15", v(u.mask, "B16"))
		f.ins("MOVD", "$"+name+"<>(SB)", "R22")
		f.ins("FMOVQ", at("R22", 0), q(u.mask2))
	}
}

// load fills Q registers with the vectors of Q quads.
func (k *nest) load(off, reg int) {
	base, at := k.weights("R14", off, 16)
	k.loadVectors(base, at, reg, k.Q)
}

// once loads vectors that serve several groups, unless the registers still hold them, and returns their first register.
// Vectors that serve one group only are loaded to out.
func (k *nest) once(off, out int) int {
	if k.shared() {
		k.load(off, out)
		return out
	}
	if k.loaded != off {
		k.load(off, k.raw)
		k.loaded = off
	}
	return k.raw
}

func (k *nest) bytes8(_, g, out int) { k.load(64*g, out) }

// nibbles4 is for groups 0 … 3 in low nibbles, 4 … 7 in high ones.
func (k *nest) nibbles4(_, g, out int) {
	raw := k.once(g%4*64, out)
	for i := range k.Q {
		if g < 4 {
			k.ins("VAND", v(k.mask, "B16"), v(raw+i, "B16"), v(out+i, "B16"))
		} else {
			k.ins("VUSHR", "$4", v(raw+i, "B16"), v(out+i, "B16"))
		}
	}
}

// pairedNibbles is for two sub-blocks, one in low nibbles and one in high ones.
func (k *nest) pairedNibbles(c, g, out int) {
	k.load(64*g, out)
	for i := range k.Q {
		if c == 0 {
			k.ins("VAND", v(k.mask, "B16"), v(out+i, "B16"), v(out+i, "B16"))
		} else {
			k.ins("VUSHR", "$4", v(out+i, "B16"), v(out+i, "B16"))
		}
	}
}

// lookup is for nibbles that a table maps to weights.
func (k *nest) lookup(c, g, out int) {
	k.nibbles4(c, g, out)
	for i := range k.Q {
		k.ins("VTBL", v(out+i, "B16"), "["+v(k.mask2, "B16")+"]", v(out+i, "B16"))
	}
}

// insert puts the bit of group g, of the vector of bits at off, at bit to of the weights in out.
func (k *nest) insert(g, to, off, out int) {
	if g == 0 {
		k.load(off, k.high)
	}
	spare := k.out + k.Q
	for i := range k.Q {
		bit := k.high + i
		if shift := (g+4)%8 - to; shift > 0 {
			k.ins("VUSHR", imm(shift), v(bit, "B16"), v(spare, "B16"))
			bit = spare
		} else if shift < 0 {
			k.ins("VSHL", imm(-shift), v(bit, "B16"), v(spare, "B16"))
			bit = spare
		}
		k.ins("VBIT", v(k.mask2, "B16"), v(bit, "B16"), v(out+i, "B16"))
	}
}

// fiveBits is for nibbles followed by the fifth bits.
func (k *nest) fiveBits(c, g, out int) {
	k.nibbles4(c, g, out)
	k.insert(g, 4, 256, out)
}

// crumbs is for weights of 2 bits, four groups in a vector.
func (k *nest) crumbs(_, g, out int) {
	raw := k.once(g/4*64, out)
	for i := range k.Q {
		from := raw + i
		if g%4 > 0 {
			k.ins("VUSHR", imm(g%4*2), v(from, "B16"), v(out+i, "B16"))
			from = out + i
		}
		if g%4 < 3 {
			k.ins("VAND", v(k.mask, "B16"), v(from, "B16"), v(out+i, "B16"))
		}
	}
}

// threeBits is for weights of 3 bits: two groups in each of three vectors, and two more groups in the vectors'
// remaining bits.
func (k *nest) threeBits(_, g, out int) {
	if g > 5 {
		raw := k.once(128*(g-6), out)
		if g == 6 {
			k.load(64, k.high)
		}
		spare := k.out + k.Q
		for i := range k.Q {
			k.ins("VUSHR", "$6", v(raw+i, "B16"), v(out+i, "B16"))
			k.ins("VUSHR", imm(g-2), v(k.high+i, "B16"), v(spare, "B16"))
			k.ins("VBIT", v(k.mask2, "B16"), v(spare, "B16"), v(out+i, "B16"))
		}
		return
	}
	raw := k.once(64*(g/2), out)
	for i := range k.Q {
		from := raw + i
		if g%2 == 1 {
			k.ins("VUSHR", "$3", v(from, "B16"), v(out+i, "B16"))
			from = out + i
		}
		k.ins("VAND", v(k.mask, "B16"), v(from, "B16"), v(out+i, "B16"))
	}
}

// sixBits is nibbles and, behind them, bits 4 and 5: crumbs of which those of a vector's first group are at their
// place.
func (k *nest) sixBits(_, g, out int) {
	if g == 0 {
		k.load(0, k.raw)
	}
	if g%4 == 0 {
		k.load(256+16*g, k.high)
	}
	spare := k.out + k.Q
	for i := range k.Q {
		if g < 4 {
			k.ins("VAND", v(k.mask, "B16"), v(k.raw+i, "B16"), v(out+i, "B16"))
		} else {
			k.ins("VUSHR", "$4", v(k.raw+i, "B16"), v(out+i, "B16"))
		}
	}
	if g < 7 {
		k.load(64*((g+1)%4), k.raw) // the next group's, early
	}
	for i := range k.Q {
		crumbs := k.high + i
		if g%4 > 0 {
			op, shift := []string{"", "VUSHR", "VSHL", "VSHL"}[g%4], []int{0, 2, 4, 2}[g%4]
			k.ins(op, imm(shift), v(crumbs, "B16"), v(spare, "B16"))
			crumbs = spare
		}
		k.ins("VBIT", v(k.mask2, "B16"), v(crumbs, "B16"), v(out+i, "B16"))
	}
}

// sixBitsShifted is sixBits for cores where VBIT is slow, with fewer registers. Quads are unpacked side by side.
func (k *nest) sixBitsShifted(_, g, out int) {
	high, n := k.out+k.Q, min(k.Q, k.w.spare)
	for first := 0; first < k.Q; first += n {
		for j := range n {
			k.ins("FMOVQ", at(k.weights("R14", 64*(g%4)+16*(first+j), 16)), q(out+first+j))
			k.ins("FMOVQ", at(k.weights("R14", 256+64*(g/4)+16*(first+j), 16)), q(high+j))
		}
		for j := range n {
			if g > 3 {
				k.ins("VUSHR", "$4", v(out+first+j, "B16"), v(out+first+j, "B16"))
			}
			if shift := (2*g + 4) % 8; shift > 0 {
				k.ins("VUSHR", imm(shift), v(high+j, "B16"), v(high+j, "B16"))
			}
		}
		for j := range n {
			k.ins("VSLI", "$4", v(high+j, "B16"), v(out+first+j, "B16"))
			if g%4 != 1 {
				k.ins("VAND", v(k.mask, "B16"), v(out+first+j, "B16"), v(out+first+j, "B16"))
			}
		}
	}
}
