package main

import "math"

// gumbel writes the kernels of Gumbel noise, which sampling adds to logits.
func gumbel(f *file) {
	v := newVectors(f, avx2)
	f.table("iota", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	for _, c := range []struct {
		name string
		v    float64
	}{
		{"half", 0.5}, {"minusHalf", -0.5}, {"one", 1}, {"minusOne", -1}, {"two", 2}, {"unit", 0x1p-32},
		{"near", 1 - math.Sqrt2/2},
		{"ln2Hi", 0.693359375}, {"ln2Lo", -2.12194440e-4},
		{"log0", 7.0376836292e-2}, {"log1", -1.1514610310e-1}, {"log2", 1.1676998740e-1}, {"log3", -1.2420140846e-1},
		{"log4", 1.4249322787e-1}, {"log5", -1.6668057665e-1}, {"log6", 2.0000714765e-1}, {"log7", -2.4999993993e-1},
		{"log8", 3.3333331174e-1},
	} {
		v.define(c.name, c.v)
	}
	v.defineBits("sixteen", 16)
	v.defineBits("mix1", 0x7feb352d)
	v.defineBits("mix2", 0x846ca68b)
	v.defineBits("signBit", 1<<31)
	v.defineBits("rootHalf", 0x3f3504f3)

	v.function("maxHashAVX2", 0, "n int, first, key0, key1 uint32 -> most int",
		"most = max of hashOf(key1<<32|key0, first+i), i < n")
	v.ins("MOVQ", v.arg("n"), "DI")
	v.ids(2)
	v.clear(3)
	v.loop("loop", "DI", nil, func() {
		v.hash(2, 0, 1)
		if v.tail {
			v.do("VPAND", maskReg, 0, 0)
		}
		v.do("VPMAXUD", 0, 3, 3)
	})
	v.do("VMOVDQA", 3, 0)
	v.reduce("VPMAXUD")
	v.ins("VMOVD", x(0), "AX")
	v.ins("MOVQ", "AX", v.arg("most"))
	v.ret()

	v.function("gumbelAVX2", 0, "dst []float32, first, key0, key1 uint32", "for i: dst[i] = Noise(key1<<32|key0, first+i)")
	v.file.load("dst_base", "AX", "dst_len", "DI")
	v.ids(5)
	v.loop("loop", "DI", []string{"AX"}, func() {
		const a, e, z, p, t, id, u = 0, 1, 2, 3, 4, 5, 6
		v.hash(id, a, t)
		v.do("VPSRAD", "$31", a, t) // flip
		v.do("VPXOR", t, a, a)
		v.do("VCVTDQ2PS", a, a)
		v.do("VADDPS", "half", a, a)
		v.do("VMULPS", "unit", a, a) // w
		v.logParts(a, e, z)
		// near 1: log(1-w), either of f = -w or of f = 1-2w, e = -1
		v.do("VXORPS", "signBit", a, p)
		v.set("one", u)
		v.do("VFNMADD231PS", "two", a, u)
		for h := range 2 {
			v.ins("VCMPPS", "$1", v.constants["near"], v.operand(a, h), v.operand(a, h))
		}
		v.do("VBLENDVPS", a, p, u, p)
		v.set("minusOne", u)
		v.do("VANDNPS", u, a, u)
		v.do("VBLENDVPS", t, p, z, a)
		v.do("VBLENDVPS", t, u, e, e)
		v.logReduced(a, e, z, p)
		v.do("VXORPS", "signBit", a, a)
		v.logParts(a, e, z)
		v.do("VMOVAPS", z, a)
		v.logReduced(a, e, z, p)
		v.do("VXORPS", "signBit", a, a)
		v.store(a, "AX")
	})
	v.ret()
}

// ids fills a register with the first 16 token ids.
func (v *vectors) ids(id int) {
	for h := range 2 {
		v.ins("VBROADCASTSS", v.arg("first"), v.operand(id, h))
		v.ins("VPADDD", []string{"iota<>(SB)", "iota<>+32(SB)"}[h], v.operand(id, h), v.operand(id, h))
	}
}

// hash computes the hashes of 16 token ids and advances to the next ids.
func (v *vectors) hash(id, a, t int) {
	v.do("VMOVDQA", id, a)
	v.do("VPADDD", "sixteen", id, id)
	for _, key := range []string{"key0", "key1"} {
		v.ins("VBROADCASTSS", v.arg(key), y(2*t))
		for h := range 2 {
			v.ins("VPXOR", y(2*t), v.operand(a, h), v.operand(a, h))
		}
		for i, shift := range []string{"$16", "$15", "$16"} {
			v.do("VPSRLD", shift, a, t)
			v.do("VPXOR", t, a, a)
			if i < 2 {
				v.do("VPMULLD", []string{"mix1", "mix2"}[i], a, a)
			}
		}
	}
}

// logParts splits a normal, positive a = (1+f) * 2^e with 1+f in [sqrt(1/2), sqrt(2)).
func (v *vectors) logParts(a, e, f int) {
	v.do("VPSUBD", "rootHalf", a, e)
	v.do("VPSRAD", "$23", e, e)
	v.do("VPSLLD", "$23", e, f)
	v.do("VPSUBD", f, a, f)
	v.do("VCVTDQ2PS", e, e)
	v.do("VSUBPS", "one", f, f)
}

// logReduced is the function of that name in package asm; the result is in f.
func (v *vectors) logReduced(f, e, z, p int) {
	v.do("VMULPS", f, f, z)
	v.set("log0", p)
	for _, c := range []string{"log1", "log2", "log3", "log4", "log5", "log6", "log7", "log8"} {
		v.do("VFMADD213PS", c, f, p)
	}
	v.do("VMULPS", f, p, p)
	v.do("VMULPS", z, p, p)
	v.do("VFMADD231PS", "ln2Lo", e, p)
	v.do("VFMADD231PS", "minusHalf", z, p)
	v.do("VADDPS", p, f, f)
	v.do("VFMADD231PS", "ln2Hi", e, f)
}
