package main

// Kernels for whole tiles of eight tokens with SMMLA, the product of two rows of 8 bytes with two columns: of two tokens with two
// rows of the panel. ZIP makes rows of 8 weights of the panel's groups of 4, which pays from about six tokens on.
//
//	R0 weights  R1 scales  R2 activations  R3 their scales  R4 bias  R5 blocks  R7 tokens*4  R8 out  R9 stride  R10 tokens*32
//	R11 what to skip after a block
//	R13 on the stack, because loads cost nothing here: [pair of tokens][quad of rows][2] float sums, vectors of 2 tokens x 2 rows;
//	    512: what integer sums start from, [pair]; 576: scales of activations, [pair]
//	V0..V15 activations [pair][8 weights]  V16..V23 integer sums [pair][2]  V31 3<<22
const (
	mmSums   = 16
	mmW      = 24 // and the next two
	mmScales = 27 // of two rows, twice; and of the other two
	mmTmp    = 29
	mmDx     = 30
	mmMagic  = 31
)

func neonI8MM(f neonFile) {
	f.eight("q8I8MM", q8SignedDoc, 512, false)
	f.eight("q4I8MM", q4Doc, 256, true)
}

func (f neonFile) eight(name, doc string, blockBytes int, nibbles bool) {
	const pairs = 4
	f.function(name, 8+512+64+64, blockParams, doc)
	f.blockArgs()
	f.ins("ADD", "$16", "RSP", "R13")
	f.magic(mmMagic)
	f.clear(0, 2)
	for i := 0; i < 512; i += 32 {
		f.ins("FSTPQ", pair(0), at("R13", i))
	}
	if !nibbles {
		for p := range pairs {
			f.ins("FMOVQ", q(mmMagic), at("R13", 512+16*p))
		}
	}
	f.label("loop")
	f.prefetch(0, blockBytes)
	if nibbles {
		f.loadVectors("R4", 0, mmW, 2)
		for i := mmW; i < mmW+2; i++ {
			f.op("SSHR4", 4, i, i)
			f.ins("VADD", v(mmMagic, "S4"), v(i, "S4"), v(i, "S4"))
		}
		f.spread(512)
	}
	f.loadVectors("R3", 0, mmW, 2)
	f.spread(576)
	for p := range pairs {
		for half := range 2 {
			for t := range 2 {
				f.ins("FMOVQ", at("R2", 32*(2*p+t)+16*half), q(mmW+t))
			}
			for i, zip := range []string{"VZIP1", "VZIP2"} {
				f.ins(zip, v(mmW+1, "D2"), v(mmW, "D2"), v(4*p+2*half+i, "D2"))
			}
		}
	}
	for quad := range 4 {
		for i := range 8 {
			f.ins("FMOVQ", at("R13", 512+16*(i/2)), q(mmSums+i))
		}
		if nibbles { // the mask, for now
			f.ins("VMOVI", "$15", v(mmTmp, "B16"))
		}
		for h := range 4 {
			for g := range 2 {
				if nibbles {
					f.nibbles((2*h+g)%4*64+16*quad, 1, h >= 2, mmTmp, mmW+g)
				} else {
					f.ins("FMOVQ", at("R0", 64*(2*h+g)+16*quad), q(mmW+g))
				}
			}
			f.ins("VZIP1", v(mmW+1, "S4"), v(mmW, "S4"), v(mmW+2, "S4"))
			f.ins("VZIP2", v(mmW+1, "S4"), v(mmW, "S4"), v(mmW+1, "S4"))
			for p := range pairs {
				f.op("SMMLA", mmW+2, 4*p+h, mmSums+2*p)
				f.op("SMMLA", mmW+1, 4*p+h, mmSums+2*p+1)
			}
		}
		f.halves("R1", 8*quad, 1, mmW)
		f.ins("VZIP1", v(mmW, "D2"), v(mmW, "D2"), v(mmScales, "D2"))
		f.ins("VZIP2", v(mmW, "D2"), v(mmW, "D2"), v(mmScales+1, "D2"))
		for p := range pairs {
			f.ins("FMOVQ", at("R13", 576+16*p), q(mmDx))
			for i := range 2 {
				sum, off := mmSums+2*p+i, 32*(4*p+quad)+16*i
				f.op("FSUB4", mmMagic, sum, sum)
				f.op("FMUL4", mmDx, mmScales+i, mmTmp)
				f.ins("FMOVQ", at("R13", off), q(mmW))
				f.ins("VFMLA", v(mmTmp, "S4"), v(sum, "S4"), v(mmW, "S4"))
				f.ins("FMOVQ", q(mmW), at("R13", off))
			}
		}
	}
	f.nextNEON(blockBytes, "loop")
	for p := range pairs {
		f.ins("ADD", "R9", "R8", "R11")
		for quad := range 4 {
			f.loadVectors("R13", 32*(4*p+quad), 0, 2)
			f.ins("VZIP1", v(1, "D2"), v(0, "D2"), v(2, "D2"))
			f.ins("VZIP2", v(1, "D2"), v(0, "D2"), v(3, "D2"))
			f.ins("FMOVQ", q(2), at("R8", 16*quad))
			f.ins("FMOVQ", q(3), at("R11", 16*quad))
		}
		f.ins("ADD", "R9", "R11", "R8")
	}
	f.done()
}

// spread stores the numbers of eight tokens as a vector for each pair of them: a, a, b, b.
func (f neonFile) spread(off int) {
	for p := range 4 {
		from := mmW + p/2
		f.ins([]string{"VZIP1", "VZIP2"}[p%2], v(from, "S4"), v(from, "S4"), v(mmTmp, "S4"))
		f.ins("FMOVQ", q(mmTmp), at("R13", off+16*p))
	}
}
