package main

import (
	"math"
)

// Registers of constants of neonGumbel.
const (
	logA    one = 20 + iota // c0 to c3
	logB                    // c4 to c7
	logC                    // c8, ln2lo, ln2hi, -1/2
	logUnit                 // 1
	mixA                    // the factors of mix32
	mixB
	keyLow
	keyHigh
	rootHalf // the bits of sqrt(1/2)
	half
	scale32 // 2^-32
	low     // 1-sqrt(1/2)
)

const gumbelDoc = `for i < 16*whole: dst[i] = Noise(key, first+i)`

// neonGumbel writes the kernels of Gumbel noise: an integer hash, and the logarithm of a logarithm.
func neonGumbel(f neonFile) {
	v := &neonVectors{neonFile: f}
	words := []uint32{}
	floats := func(x ...float64) {
		for _, e := range x {
			words = append(words, math.Float32bits(float32(e)))
		}
	}
	four := func(w uint32) { words = append(words, w, w, w, w) }
	floats(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1)
	floats(1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1)
	floats(3.3333331174e-1, -2.12194440e-4, 0.693359375, -0.5)
	floats(1, 1, 1, 1)
	four(0x7feb352d)
	four(0x846ca68b)
	four(0)
	four(0)
	four(0x3f3504f3)
	floats(0.5, 0.5, 0.5, 0.5)
	floats(0x1p-32, 0x1p-32, 0x1p-32, 0x1p-32)
	floats(1-math.Sqrt2/2, 1-math.Sqrt2/2, 1-math.Sqrt2/2, 1-math.Sqrt2/2)
	for i := range uint32(16) {
		words = append(words, i)
	}
	v.textf("\n// The polynomial of log, ln2lo, ln2hi, -1/2; 1; factors; room for the key; sqrt(1/2); 1/2; 2^-32; " +
		"1-sqrt(1/2); 0 to 15.\n")
	for i := 0; i < len(words); i += 2 {
		v.textf("DATA noise<>+%d(SB)/8, $0x%08x%08x\n", 4*i, words[i+1], words[i])
	}
	v.textf("GLOBL noise<>(SB), RODATA|NOPTR, $%d\n", 4*len(words))

	v.function("maxHashNEON", 0, "first, key uint64, whole int -> most int",
		"most = max of hashOf(key, first+i), i < 16*whole")
	v.args("first", "R1", "key", "R2", "whole", "R5")
	v.noiseConstants()
	v.clear(12, 4)
	v.label("loop")
	v.hash()
	v.native("VUMAX", "S4", 0, 3, 3)
	v.ins("ADD", "$16", "R1")
	v.ins("SUB", "$1", "R5")
	v.ins("CBNZ", "R5", "loop")
	for _, i := range []int{13, 14, 15} {
		v.ins("VUMAX", v4(i, "S4"), v4(12, "S4"), v4(12, "S4"))
	}
	v.op("UMAXV4", 12, 0)
	v.ins("FMOVS", q(0), "R0")
	v.ins("MOVD", "R0", v.arg("most"))
	v.done()

	v.function("gumbelNEON", 0, "dst *float32, first, key uint64, whole int", gumbelDoc)
	v.args("dst", "R0", "first", "R1", "key", "R2", "whole", "R5")
	v.noiseConstants()
	v.label("loop")
	v.hash()

	const w, flip, e, f1, t = 0, 1, 2, 3, 4
	v.do("SSHR4", 31, w, flip)
	v.native("VEOR", "B16", flip, w, w)
	v.do("SCVTF4", w, w)
	v.do("FADD4", half, w, w)
	v.do("FMUL4", scale32, w, w)
	v.split(w, e, f1) // right where h < 2^31
	v.do("FADD4", w, w, t)
	v.do("FSUB4", t, logUnit, t)
	v.native("VBIT", "B16", flip, t, f1)
	v.do("FNEG4", logUnit, t)
	v.native("VBIT", "B16", flip, t, e)
	v.do("FCMGT4", w, low, t)
	v.native("VAND", "B16", flip, t, t)
	v.do("FNEG4", w, w)
	v.native("VBIT", "B16", t, w, f1)
	v.native("VEOR", "B16", w, w, w)
	v.native("VBIT", "B16", t, w, e)
	v.logReduced(f1, e, 0, 1, 4)
	v.do("FNEG4", f1, w)
	v.split(w, e, f1)
	v.logReduced(f1, e, 0, 1, 4)
	v.do("FNEG4", f1, f1)
	v.store("R0", f1)
	v.ins("ADD", "$64", "R0")
	v.ins("ADD", "$16", "R1")
	v.ins("SUB", "$1", "R5")
	v.ins("CBNZ", "R5", "loop")
	v.done()
}

// noiseConstants loads the constants; R2 holds the key.
func (v *neonVectors) noiseConstants() {
	v.ins("MOVD", "$noise<>(SB)", "R11")
	v.loadVectors("R11", 0, int(logA), 12)
	v.ins("ADD", "$192", "R11")
	v.ins("VDUP", "R2", v4(int(keyLow), "S4"))
	v.ins("LSR", "$32", "R2", "R2")
	v.ins("VDUP", "R2", v4(int(keyHigh), "S4"))
}

// hash makes, in virtual register 0, the hashes of the 16 token ids from R1 on.
func (v *neonVectors) hash() {
	v.load("R11", 0)
	v.ins("VDUP", "R1", v4(4, "S4"))
	v.native("VADD", "S4", one(4), 0, 0)
	v.native("VEOR", "B16", keyLow, 0, 0)
	v.mix32(0, 1)
	v.native("VEOR", "B16", keyHigh, 0, 0)
	v.mix32(0, 1)
}

// mix32 is the hash of noise.go, in place.
func (v *neonVectors) mix32(x, t int) {
	for i, shift := range []string{"$16", "$15", "$16"} {
		v.native("VUSHR", "S4", shift, x, t)
		v.native("VEOR", "B16", t, x, x)
		if i < 2 {
			v.do("MUL4", []one{mixA, mixB}[i], x, x)
		}
	}
}

// split is the start of Log32 of normal numbers: w = (1+f) * 2^e.
func (v *neonVectors) split(w, e, f int) {
	v.native("VSUB", "S4", rootHalf, w, e)
	v.do("SSHR4", 23, e, e)
	v.native("VSHL", "S4", "$23", e, f)
	v.native("VSUB", "S4", f, w, f)
	v.do("FSUB4", logUnit, f, f)
	v.do("SCVTF4", e, e)
}

// logReduced replaces f by the logarithm of (1+f) * 2^e; p, z and t are used.
func (v *neonVectors) logReduced(f, e, p, z, t int) {
	v.do("FMUL4", f, f, z)
	v.dup(logA, 1, p)
	v.do("FMLAI", 0, logA, f, p)
	for i := 2; i <= 8; i++ {
		v.dup(logA+one(i/4), i%4, t)
		v.native("VFMLA", "S4", f, p, t)
		p, t = t, p
	}
	v.do("FMUL4", f, p, p)
	v.do("FMUL4", z, p, p)
	v.do("FMLAI", 1, logC, e, p)
	v.do("FMLAI", 3, logC, z, p)
	v.do("FADD4", p, f, f)
	v.do("FMLAI", 2, logC, e, f)
}
