package main

// Products of two panels with 8 tokens, for prefill. A panel by itself loads an activation for each VPDPBUSD, and two
// loads a cycle are the limit; here a load serves two. All float sums stay in registers, so that the integer sums of 4
// tokens at a time are what there is room for:
//
//	Z0..3, Z4..7 the panels' integer sums  Z8, Z9 weights  Z10, Z11 activations  Z12, Z13 scales  Z14 scratch  Z15 mask
//	Z16..23, Z24..31 float sums
//
// Other registers are as for one panel, but R8 is the bytes from a panel to the next, R9 what to add for the second
// one's scales.
const pairParams = "w *byte, panel int, q *int8, d *float32, bias *int32, blocks int, out *float32, stride" +
	prefetchParams

const pairTokens = 8

// pair512 writes a loop over DI pairs of blocks. block multiplies the weights of one with 4 activations from CX+off on.
func (f *file) pair512(w *weights, block func(off, line int)) {
	f.load("w", "AX", "panel", "R8", "q", "CX", "d", "DX", "bias", "SI", "blocks", "DI")
	f.load("prefetch", "R15")
	f.ins("ADDQ", "AX", "R15")
	f.beginRun(w)
	f.ins("MOVQ", imm(4*pairTokens), "R13")
	for i := 16; i < 32; i++ {
		f.ins("VPXORD", z(i), z(i), z(i))
	}
	groups := w.quants / 64
	f.label("loop")
	f.ins("LEAQ", "(R8)(BX*1)", "R9")
	for first := 0; first < pairTokens; first += 4 {
		for t := range 4 {
			bias := at("SI", 4*(first+t))
			if w.shift == 0 {
				f.ins("VPBROADCASTD", bias, z(t))
			} else {
				f.ins("VPSRAD.BCST", imm(w.shift), bias, z(t))
			}
			f.ins("VMOVDQA64", z(t), z(4+t))
		}
		line := first / 4 * (groups + 1)
		block(32*first, line)
		f.prefetchLine(line + groups)
		f.ins("VCVTPH2PS", "(AX)(BX*1)", z(12))
		f.ins("VCVTPH2PS", "(AX)(R9*1)", z(13))
		for t := range 4 {
			for p := range 2 {
				f.ins("VCVTDQ2PS", z(4*p+t), z(4*p+t))
				f.ins("VMULPS.BCST", at("DX", 4*(first+t)), z(12+p), z(14))
				f.ins("VFMADD231PS", z(14), z(4*p+t), z(16+8*p+first+t))
			}
		}
	}
	f.nextBlock(w)
	f.nextActivations(w)
	f.prefetchNext()
	f.ins("DECQ", "DI")
	f.ins("JNZ", "loop")
	f.load("out", "R10", "stride", "R11")
	for t := range pairTokens {
		f.ins("VMOVUPS", z(16+t), at("R10", 0))
		f.ins("VMOVUPS", z(24+t), at("R10", 64))
		f.ins("LEAQ", "(R10)(R11*4)", "R10")
	}
	f.ret()
}

// pairDots multiplies the weights in Z8 and Z9 with 4 activations.
func (f *file) pairDots(off int) {
	for t := range 4 {
		x := 10 + t&1
		f.ins("VPBROADCASTD", at("CX", 32*t+off), z(x))
		f.ins("VPDPBUSD", z(x), z(8), z(t))
		f.ins("VPDPBUSD", z(x), z(9), z(4+t))
	}
}

func q8Pair512(f *file) {

	f.function("q8PairAVX512", 0, pairParams, pairDoc)
	f.pair512(&q8, func(off, line int) {
		for g := range 8 {
			f.ins("VMOVDQU8", at("AX", 64*g), z(8))
			f.ins("VMOVDQU8", atx("AX", "R8", 1, 64*g), z(9))
			f.prefetchLine(line + g)
			f.pairDots(off + 4*g)
		}
	})
}

func q4Pair512(f *file) {
	f.function("q4PairAVX512", 0, pairParams, pairDoc)
	f.broadcast512(0x0f0f0f0f, 15)
	f.pair512(&q4, func(off, line int) {
		for g := range 4 {
			f.prefetchLine(line + g)
			for nibble := range 2 {
				for p, mem := range []string{at("AX", 64*g), atx("AX", "R8", 1, 64*g)} {
					if nibble == 0 {
						f.ins("VPANDD", mem, z(15), z(8+p))
						continue
					}
					f.ins("VPSRLW", "$4", mem, z(8+p))
					f.ins("VPANDD", z(15), z(8+p), z(8+p))
				}
				f.pairDots(off + 16*nibble + 4*g)
			}
		}
	})
}
