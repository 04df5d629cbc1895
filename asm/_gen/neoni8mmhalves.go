package main

// SMMLA for types with a scale per 16 weights. The sums of one half are scaled before those of the other half begin, so
// only one half's activations are in registers; all are on the stack, in the order of rows of 8.
//
//	V0..V7 activations [pair][8 weights]  V8..V15 scaled sums [pair][2]  V16..V23 sums [pair][2]
const (
	mmStarts2 = mmDSum + 16*mmPairs // what sums of the second half start from
	mmX       = mmStarts2 + 16*mmPairs
	mmFrame2  = 8 + mmX + 64*mmPairs

	mmScaled = 8
)

// tileHalves multiplies one sub-block.
func (k *nest) tileHalves() {
	w := k.w
	starts := [2]int{mmStarts, mmStarts2}
	for p := range mmPairs {
		k.ins("FMOVQ", at("R4", 16*p), q(mmOut)) // two tokens' two halves
		w.prepare(k, mmOut)
		for half, take := range []string{"VTRN1", "VTRN2"} {
			k.ins(take, v(mmOut, "S4"), v(mmOut, "S4"), v(mmOut+1, "S4"))
			k.ins("FMOVQ", q(mmOut+1), at("R23", starts[half]+16*p))
		}
	}
	k.loadVectors("R3", 0, mmOut, 2)
	k.spread(mmScales)
	for p := range mmPairs {
		for half := range 2 {
			k.rowsOf8(p, half, 0)
			k.ins("FSTPQ", pair(0), at("R23", mmX+32*(mmPairs*half+p)))
		}
	}
	again := k.quads()
	k.loaded = -1
	w.constants(k.neonFile, &k.unpacked)
	for half := range 2 {
		for p := range mmPairs {
			k.ins("FLDPQ", at("R23", mmX+32*(mmPairs*half+p)), pair(2*p))
		}
		if w.start < 0 {
			k.clear(mmSums, 2*mmPairs)
		}
		for i := 0; w.start >= 0 && i < 2*mmPairs; i++ {
			k.ins("FMOVQ", at("R23", starts[half]+16*(i/2)), q(mmSums+i))
		}
		for h := range 2 {
			k.rowsOfWeights(4*half + 2*h)
			for p := range mmPairs {
				k.op("SMMLA", mmOut+1, 2*p+h, mmSums+2*p)
				k.op("SMMLA", mmSecond, 2*p+h, mmSums+2*p+1)
			}
		}
		k.halfScale(half, 0, 1, mmOut, false)
		k.twice(mmOut, mmOut+1)
		scale := []string{"MUL4", "MLA4"}[half]
		for i := range 2 * mmPairs {
			k.op(scale, mmOut+1+i%2, mmSums+i, mmScaled+i)
		}
	}
	const tmp, d, acc, u, dx, sum0, sum1 = mmOut, mmOut + 1, mmOut + 3, mmOut + 4, mmOut + 5, mmOut + 6, mmOut + 7
	const mn0, mn1, dmin = mmSums, mmSums + 2, mmSums + 4
	k.halves("R15", 0, 1, tmp)
	k.twice(tmp, d)
	if w.min {
		for half, to := range []int{mn0, mn1} {
			k.halfScale(half, 0, 1, tmp, true)
			k.twice(tmp, to)
		}
		k.halves("R15", 32, 1, tmp)
		k.twice(tmp, dmin)
	}
	for p := range mmPairs {
		k.ins("FMOVQ", at("R23", mmScales+16*p), q(dx))
		if w.min {
			k.ins("FMOVQ", at("R23", mmStarts+16*p), q(sum0))
			k.ins("FMOVQ", at("R23", mmStarts2+16*p), q(sum1))
		}
		for i := range 2 {
			sum := mmScaled + 2*p + i
			k.op("SCVTF4", sum, sum)
			k.op("FMUL4", dx, d+i, tmp)
			k.ins("FMOVQ", at("R17", 32*p+16*i), q(acc))
			k.ins("VFMLA", v(tmp, "S4"), v(sum, "S4"), v(acc, "S4"))
			if w.min {
				k.op("MUL4", mn0+i, sum0, u)
				k.op("MLA4", mn1+i, sum1, u)
				k.op("SCVTF4", u, u)
				k.op("FMUL4", dx, dmin+i, tmp)
				k.ins("VFMLS", v(tmp, "S4"), v(u, "S4"), v(acc, "S4"))
			}
			k.ins("FMOVQ", q(acc), at("R17", 32*p+16*i))
		}
	}
	again(128, 0)
}
