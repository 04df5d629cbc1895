package main

// Kernels for whole tiles of eight tokens with SMMLA, the product of two rows of 8 bytes with two columns: of two
// tokens with two rows of the panel. ZIP makes rows of 8 weights of the panel's groups of 4, which is faster from about
// six tokens on. The loops and registers are those of neonnest.go. Float sums are always on the stack: loads are not
// the limit here.
//
//	R23 [quad of rows][pair of tokens][2] float sums, vectors of 2 tokens x 2 rows;
//	then, per pair: what integer sums start from,
//	    scales of activations, what minimums are multiplied with
//	V0..V15 activations [pair][8 weights]  V16..V23 integer sums [pair][2]
const (
	mmPairs  = 4
	mmSums   = 16
	mmOut    = 24 // weights of a group; the next one is unpacking's
	mmSecond = 26 // weights of the next group
	mmRaw    = 27
	mmHigh   = 28
	mmMask   = 29
	mmMask2  = 30
	mmMagic  = 31

	mmStarts = 512 // on the stack
	mmScales = mmStarts + 16*mmPairs
	mmDSum   = mmScales + 16*mmPairs
	mmFrame  = 8 + mmDSum + 16*mmPairs // 8: as in product
)

func neonI8MM(f neonFile) {
	f.tables(false)
	for _, w := range allWeights {
		f.eight(newNeonWeights(w, true))
	}
}

// eight writes a type's kernel.
func (f neonFile) eight(w *neonWeights) {
	frame := mmFrame
	if w.pairs {
		frame = mmFrame2
	}
	f.function(w.name+"I8MM", frame, w.params(), neonDoc(w.weights))
	f.args("w", "R0", "q", "R2", "d", "R3", w.sums, "R4", w.count(), "R5", "tokens", "R7", "out", "R8", "stride", "R9")
	f.strides()
	f.ins("ADD", "$16", "RSP", "R23")
	w.begin(f)
	k := &nest{neonFile: f, plan: plan{Q: 1, loop: true}, w: w, isa: dotprod, T: 8, magic: mmMagic, d: -1}
	k.unpacked = unpacked{mask: mmMask, mask2: mmMask2, raw: mmRaw, high: mmHigh, out: mmOut}
	f.magic(mmMagic)
	f.clear(0, 2)
	for i := 0; i < mmStarts; i += 32 {
		f.ins("FSTPQ", pair(0), at("R23", i))
	}
	if w.start < 0 && !w.pairs {
		for p := range mmPairs {
			f.ins("FMOVQ", q(mmMagic), at("R23", mmStarts+16*p))
		}
	}
	k.walk(func() {
		for k.c = range w.copies {
			if w.pairs {
				k.tileHalves()
			} else {
				k.tile()
			}
			k.advance("R2", "R3", "R4")
		}
	})
	for p := range mmPairs {
		f.ins("ADD", "R9", "R8", "R11")
		for quad := range 4 {
			f.loadVectors("R23", 128*quad+32*p, 0, 2)
			f.ins("VZIP1", v(1, "D2"), v(0, "D2"), v(2, "D2"))
			f.ins("VZIP2", v(1, "D2"), v(0, "D2"), v(3, "D2"))
			f.ins("FMOVQ", q(2), at("R8", 16*quad))
			f.ins("FMOVQ", q(3), at("R11", 16*quad))
		}
		f.ins("ADD", "R9", "R11", "R8")
	}
	f.done()
}

// tile multiplies one sub-block.
func (k *nest) tile() {
	w := k.w
	if w.sumsUsed() {
		k.loadVectors("R4", 0, mmOut, 2)
		for i := mmOut; i < mmOut+2; i++ {
			w.prepare(k, i)
		}
		if w.start >= 0 {
			k.spread(mmStarts)
		} else {
			k.spread(mmDSum)
		}
	}
	k.loadVectors("R3", 0, mmOut, 2)
	k.spread(mmScales)
	for p := range mmPairs {
		for half := range 2 {
			k.rowsOf8(p, half, 4*p+2*half)
		}
	}
	again := k.quads()
	k.loaded = -1
	w.constants(k.neonFile, &k.unpacked) // scaling takes their registers
	for i := range 2 * mmPairs {
		k.ins("FMOVQ", at("R23", mmStarts+16*(i/2)), q(mmSums+i))
	}
	for h := range 4 {
		k.rowsOfWeights(2 * h)
		for p := range mmPairs {
			k.op("SMMLA", mmOut+1, 4*p+h, mmSums+2*p)
			k.op("SMMLA", mmSecond, 4*p+h, mmSums+2*p+1)
		}
	}
	k.scaleTile()
	again(128, 0)
}

// scaleTile scales and adds the sums of one quad of rows.
func (k *nest) scaleTile() {
	const dw, dw2, m, m2, dx = mmOut + 1, mmOut + 2, mmOut + 4, mmOut + 5, mmOut + 6
	k.weightScales(0, 1, mmOut, dw)
	switch k.w.minimum {
	case minimumBlock:
		k.halves("R15", 32, 1, m)
		k.twice(m, m)
	case minimumK:
		k.scaled(32, minimumsAt, false, 0, 1, m, dw)
		k.twice(m, m)
	}
	k.twice(mmOut, dw)
	const tmp, acc = mmOut, mmRaw
	for p := range mmPairs {
		k.ins("FMOVQ", at("R23", mmScales+16*p), q(dx))
		for i := range 2 {
			sum := mmSums + 2*p + i
			k.toFloat(sum)
			k.op("FMUL4", dx, dw+i, tmp)
			k.ins("FMOVQ", at("R17", 32*p+16*i), q(acc))
			k.ins("VFMLA", v(tmp, "S4"), v(sum, "S4"), v(acc, "S4"))
			if k.w.minimum != noMinimum {
				add := "VFMLA"
				if k.w.minimum == minimumK {
					add = "VFMLS"
				}
				k.ins("FMOVQ", at("R23", mmDSum+16*p), q(tmp))
				k.ins(add, v(tmp, "S4"), v(m+i, "S4"), v(acc, "S4"))
			}
			k.ins("FMOVQ", q(acc), at("R17", 32*p+16*i))
		}
	}
}

// rowsOf8 makes two vectors, from reg on, of 16 activations of a pair of tokens: 8 of each, and the next 8 of each.
func (k *nest) rowsOf8(p, half, reg int) {
	for t := range 2 {
		k.ins("FMOVQ", at("R2", 32*(2*p+t)+16*half), q(mmOut+t))
	}
	for i, zip := range []string{"VZIP1", "VZIP2"} {
		k.ins(zip, v(mmOut+1, "D2"), v(mmOut, "D2"), v(reg+i, "D2"))
	}
}

// rowsOfWeights makes two vectors of groups g and g+1 of a quad: 8 weights of each of two rows, and of the other two.
func (k *nest) rowsOfWeights(g int) {
	k.w.unpack(k, k.c, g, mmOut)
	k.w.unpack(k, k.c, g+1, mmSecond)
	k.ins("VZIP1", v(mmSecond, "S4"), v(mmOut, "S4"), v(mmOut+1, "S4"))
	k.ins("VZIP2", v(mmSecond, "S4"), v(mmOut, "S4"), v(mmSecond, "S4"))
}

// twice makes two vectors of four rows' numbers: the first two twice, and the last two.
func (k *nest) twice(from, to int) {
	k.ins("VZIP2", v(from, "D2"), v(from, "D2"), v(to+1, "D2"))
	k.ins("VZIP1", v(from, "D2"), v(from, "D2"), v(to, "D2"))
}

// spread stores the numbers of eight tokens, in two registers, as a vector for each pair of them: a, a, b, b.
func (k *nest) spread(off int) {
	for p := range mmPairs {
		from := mmOut + p/2
		k.ins([]string{"VZIP1", "VZIP2"}[p%2], v(from, "S4"), v(from, "S4"), v(mmRaw, "S4"))
		k.ins("FMOVQ", q(mmRaw), at("R23", off+16*p))
	}
}
