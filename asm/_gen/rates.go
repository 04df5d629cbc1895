package main

import "fmt"

// Loops whose rate bounds every product: nothing but one instruction of multiplications, on registers, with as many
// independent results as hide its latency.

const ratesParams = "n int, a, b, out *byte"

// ratesDoc is the comment of a loop of so many results, each of which is what "one" says.
func ratesDoc(results int, one string) string {
	return fmt.Sprintf("for range n, i < %d: %s\nout = sum over i of r[i]", results, one)
}

// rate writes a loop of one instruction over results vector registers; add makes their sum.
//
//	AX turns left  BX a  CX b  DX out  the two registers behind the results: the vectors at a and b
func (f *file) rate(s isa, name string, results int, one, add string, product func(a, b, result int)) {
	f.function(name+s.name, 0, ratesParams, ratesDoc(results, one))
	f.load("n", "AX", "a", "BX", "b", "CX", "out", "DX")
	for i := range results {
		f.zero(s, i)
	}
	f.ins("VMOVUPS", at("BX", 0), s.reg(results))
	f.ins("VMOVUPS", at("CX", 0), s.reg(results+1))
	f.ins("TESTQ", "AX", "AX")
	f.ins("JEQ", "done")
	f.label("loop")
	for i := range results {
		product(results, results+1, i)
	}
	f.ins("SUBQ", "$1", "AX")
	f.ins("JNE", "loop")
	f.label("done")
	for i := 1; i < results; i++ {
		f.ins(add, s.reg(i), s.reg(0), s.reg(0))
	}
	f.ins("VMOVUPS", s.reg(0), at("DX", 0))
	f.ret()
}

// Results of a loop, of 16 and of 32 registers.
const (
	rateResults256 = 12
	rateResults512 = 24
)

const (
	fmaRateDoc = "r[i] = fma(a, b, r[i])"
	dotRateDoc = "r[i] = r[i] + sums of 4 unsigned bytes of a times signed ones of b"
)

func ratesAVX2(f *file) {
	f.rate(avx2, "rateFMA", rateResults256, fmaRateDoc, "VADDPS",
		func(a, b, r int) { f.ins("VFMADD231PS", y(a), y(b), y(r)) })
	f.rate(avx2, "rateBytes", rateResults256, "r[i] = sums of 2 unsigned bytes of a times signed ones of b", "VPADDW",
		func(a, b, r int) { f.ins("VPMADDUBSW", y(b), y(a), y(r)) })
	f.rate(avx2, "rateWords", rateResults256, "r[i] = sums of 2 16-bit numbers of a times those of b", "VPADDD",
		func(a, b, r int) { f.ins("VPMADDWD", y(b), y(a), y(r)) })
}

func ratesAVXVNNI(f *file) {
	f.rate(isa{"AVXVNNI", 2, y}, "rateDot", rateResults256, dotRateDoc, "VPADDD",
		func(a, b, r int) { f.dpbusd256(b, a, r) })
}

func ratesAVX512(f *file) {
	f.rate(avx512, "rateFMA", rateResults512, fmaRateDoc, "VADDPS",
		func(a, b, r int) { f.ins("VFMADD231PS", z(a), z(b), z(r)) })
	f.rate(avx512, "rateDot", rateResults512, dotRateDoc, "VPADDD",
		func(a, b, r int) { f.ins("VPDPBUSD", z(b), z(a), z(r)) })
}

// ratesAMX is the tile unit's loop, with the shapes of tileamx.go: 16 tokens, 32 columns, 16 rows. All rows of a tile
// are the same, because they are read 0 bytes apart; so are those of the sums, which are written to one place.
//
//	AX turns left  BX a  CX b  DX out  SI configuration  R8 0
func ratesAMX(f *file) {
	const results = 4
	f.function("rateTilesAMX", 0, "n int, a, b, out, config *byte",
		ratesDoc(results, "r[i] = r[i] + 8 times the sums of 4 signed bytes of a (the same in each of 16 rows) times those "+
			"of b"))
	f.load("n", "AX", "a", "BX", "b", "CX", "out", "DX", "config", "SI")
	f.ins("XORQ", "R8", "R8")
	f.ldtilecfg("SI")
	for i := range results {
		f.tilezero(i)
	}
	for i := range 2 {
		f.tileload(results+i, "BX", "R8", 0)
		f.tileload(results+2+i, "CX", "R8", 0)
	}
	f.ins("TESTQ", "AX", "AX")
	f.ins("JEQ", "done")
	f.label("loop")
	for i := range results {
		f.tdpbssd(i, results+i/2, results+2+i%2)
	}
	f.ins("SUBQ", "$1", "AX")
	f.ins("JNE", "loop")
	f.label("done")
	f.zero(avx512, 0)
	for i := range results {
		f.tilestore(i, "DX", "R8", 0)
		f.ins("VPADDD", at("DX", 0), z(0), z(0))
	}
	f.ins("VMOVUPS", z(0), at("DX", 0))
	f.tilerelease()
	f.ret()
}
