package main

// neonRate is file.rate for arm64; add makes the sum of the results.
//
//	R0 turns left  R1 a  R2 b  R8 out  the two registers behind the results: the vectors at a and b
func (f neonFile) rate(name, one string, product func(a, b, result int), add func(from, to int)) {
	const results = 24
	f.function(name, 0, ratesParams, ratesDoc(results, one))
	f.args("n", "R0", "a", "R1", "b", "R2", "out", "R8")
	f.clear(0, results)
	f.loadVectors("R1", 0, results, 1)
	f.loadVectors("R2", 0, results+1, 1)
	f.ins("CBZ", "R0", "done")
	f.label("loop")
	for i := range results {
		product(results, results+1, i)
	}
	f.ins("SUB", "$1", "R0")
	f.ins("CBNZ", "R0", "loop")
	f.label("done")
	for i := 1; i < results; i++ {
		add(i, 0)
	}
	f.storeVectors("R8", 0, 0, 1)
	f.done()
}

// addIntegers adds vectors of integers of an arrangement.
func (f neonFile) addIntegers(arrangement string) func(from, to int) {
	return func(from, to int) { f.ins("VADD", v(from, arrangement), v(to, arrangement), v(to, arrangement)) }
}

func neonRates(f neonFile) {
	f.rate("rateFMANEON", "r[i] = fma(a, b[0], r[i])",
		func(a, b, r int) { f.op("FMLAI", 0, b, a, r) }, func(from, to int) { f.op("FADD4", from, to, to) })
	f.rate("rateBytesNEON", "r[i] = 8 signed bytes of a times those of b",
		func(a, b, r int) { f.op("SMULL", b, a, r) }, f.addIntegers("H8"))
}

func neonRatesDotprod(f neonFile) {
	f.rate("rateDotDotprod", "r[i] = r[i] + sums of 4 signed bytes of a times b[0:4]",
		func(a, b, r int) { f.op("SDOT", 0, b, a, r) }, f.addIntegers("S4"))
}

func neonRatesI8MM(f neonFile) {
	f.rate("rateMatrixI8MM", "r[i] = r[i] + 2 x 2 sums of 8 signed bytes, rows of a times rows of b",
		func(a, b, r int) { f.op("SMMLA", b, a, r) }, f.addIntegers("S4"))
}

// neonStream writes stream's loop: n is a multiple of 256.
//
//	R0 b  R1 n  R2 distance  R3 sum  R4 where to prefetch
func neonStream(f neonFile) {
	f.function("sumNEON", 0, "b *byte, n, distance int, sum *uint64", streamDoc)
	f.args("b", "R0", "n", "R1", "distance", "R2", "sum", "R3")
	f.clear(0, 8)
	f.ins("CBZ", "R2", "plain")
	for _, loop := range []string{"prefetch", "plain"} {
		f.label(loop)
		if loop == "prefetch" {
			f.ins("ADD", "R0", "R2", "R4")
			for off := 0; off < 256; off += 64 {
				f.ins("PRFM", at("R4", off), "PLDL1KEEP")
			}
		}
		for off := 0; off < 256; off += 128 {
			f.loadVectors("R0", off, 8, 8)
			for i := range 8 {
				f.ins("VADD", v(8+i, "D2"), v(i, "D2"), v(i, "D2"))
			}
		}
		f.ins("ADD", "$256", "R0")
		f.ins("SUB", "$256", "R1")
		f.ins("CBNZ", "R1", loop)
		if loop == "prefetch" {
			f.ins("B", "done")
		}
	}
	f.label("done")
	for i := 1; i < 8; i++ {
		f.ins("VADD", v(i, "D2"), v(0, "D2"), v(0, "D2"))
	}
	f.ins("VMOV", "V0.D[0]", "R4")
	f.ins("VMOV", "V0.D[1]", "R5")
	f.ins("ADD", "R5", "R4", "R4")
	f.ins("MOVD", at("R3", 0), "R5")
	f.ins("ADD", "R5", "R4", "R4")
	f.ins("MOVD", "R4", at("R3", 0))
	f.done()
}
