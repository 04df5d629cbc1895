package main

import "fmt"

// With 256 bits a page of keys or values is read by 6 rows at a time, and its integers become float32 anew for each 6.
// Where more rows share a page, the first of them keep what they have made of 16 keys, or of 16 dimensions of the
// values, in 16 KB of the L1 cache, and the others multiply from there. For F16 and F32 that gains nothing: loading
// them takes no unit that multiplies.

// access is where a loop has the numbers of the cache from.
type access int

const (
	read access = iota // the page
	keep               // the page; they are kept as float32, 16 after 16
	kept               // what was kept
)

// The rows of the kernels that keep, and of those that multiply what was kept: a part of more than mostRows256 rows,
// which are divided into as few parts as suffice, has at least half of them.
const mostRows256, leastRows256 = 6, 3

// keepNumbers keeps the 16 numbers in two registers from reg on.
func (f *file) keepNumbers(s isa, reg int, to string) {
	for v := range s.halves {
		f.ins("VMOVUPS", s.reg(reg+v), at(to, v*s.size()))
	}
	f.ins("ADDQ", "$64", to)
}

// keptRows writes body for each number of rows from least on, which register AX has.
func (f *file) keptRows(least int, body func(n int)) {
	for n := mostRows256; n > least; n-- {
		f.ins("CMPQ", "AX", imm(n))
		f.ins("JEQ", fmt.Sprintf("t%d", n))
	}
	for n := least; n <= mostRows256; n++ {
		f.label(fmt.Sprintf("t%d", n))
		body(n)
		f.ret()
	}
}

// scoresKept writes the kernels of scores that keep keys, and the one that multiplies them. Registers are those of
// scoresKernel, but R14, where keys are kept.
func scoresKept(f *file) {
	for _, kv := range kvFormats {
		if !scaled(kv.name) {
			continue
		}
		f.function("scoresKeep"+kv.name+"AVX2", 0, scoresKeepParams, scoresKeepDoc)
		f.load("k", "SI", "scales", "DI", "q", "R8", "out", "R10", "dim", "R12", "n", "AX", "rows", "R9", "blocks", "R11",
			"kept", "R14")
		f.ins("SHLQ", "$2", "R9")
		f.keptRows(leastRows256+1, func(n int) {
			f.scoresColumns(avx2, kv.name, kv.bytes, keep, n, 1, fmt.Sprintf("keys%d", n), fmt.Sprintf("done%d", n))
			f.label(fmt.Sprintf("done%d", n))
		})
	}
	f.function("scoresKeptAVX2", 0, scoresKeptParams, scoresKeptDoc)
	f.load("kept", "SI", "q", "R8", "out", "R10", "dim", "R12", "n", "AX", "rows", "R9", "blocks", "R11", "ahead", "R14")
	f.ins("SHLQ", "$2", "R9")
	f.keptRows(leastRows256, func(n int) {
		f.scoresColumns(avx2, "F32", 4, kept, n, 1, fmt.Sprintf("keys%d", n), fmt.Sprintf("done%d", n))
		f.label(fmt.Sprintf("done%d", n))
	})
}

// valuesKept writes the kernels of values that keep them, and the one that multiplies them, each of one column.
// Registers are those of valuesKernel, but R12, where values are kept.
func valuesKept(f *file) {
	for _, kv := range kvFormats {
		if !scaled(kv.name) {
			continue
		}
		f.function("valuesKeep"+kv.name+"AVX2", 0, valuesKeepParams, valuesKeepDoc)
		f.load("v", "SI", "scales", "DI", "p", "R8", "o", "R10", "dim", "R9", "n", "AX", "block", "R11", "kept", "R12")
		f.valueStrides(kv.name, kv.bytes)
		f.keptRows(leastRows256+1, func(n int) {
			high := fmt.Sprintf("high%d", n)
			if kv.name == "Q4" {
				f.ins("TESTQ", "$1", "R11")
				f.ins("JNZ", high)
			}
			f.valuesColumn(avx2, kv.name, kv.bytes, keep, n, 1, fmt.Sprintf("values%d", n), false)
			if kv.name == "Q4" {
				f.ret()
				f.label(high)
				f.valuesColumn(avx2, kv.name, kv.bytes, keep, n, 1, high, true)
			}
		})
	}
	f.function("valuesKeptAVX2", 0, valuesKeptParams, valuesKeptDoc)
	f.load("kept", "SI", "p", "R8", "o", "R10", "dim", "R9", "n", "AX", "ahead", "R12")
	f.ins("SHLQ", "$2", "R9")
	f.ins("MOVQ", "$64", "R13")
	f.keptRows(leastRows256, func(n int) {
		f.valuesColumn(avx2, "F32", 4, kept, n, 1, fmt.Sprintf("values%d", n), false)
	})
}
