package main

// neonNorms writes the kernels that sum along vectors, RMSNorm and LayerNorm among them, and small elementwise kernels.
func neonNorms(f neonFile) {
	v := &neonVectors{neonFile: f}
	v.masks()

	v.function("sumSquaresNEON", vectorFrame, "x []float32 -> sum float32",
		"for i: lane[i%16] = fma(x[i], x[i], lane[i%16])\nsum = lanes")
	v.sumSquares()
	v.ins("FMOVS", q(0), v.arg("sum"))
	v.done()

	v.function("rmsNormNEON", vectorFrame, "dst, x, w []float32, eps float32",
		"inv = 1 / sqrt(sumSquares(x)/n + eps)\nfor i: dst[i] = (x[i]*inv) * w[i]")
	v.sumSquares()
	v.inverseRoot(spare2)
	v.args("dst_base", "R0", "x_base", "R1", "w_base", "R2", "x_len", "R5")
	v.loop("scale", "R5", 1, []string{"R0", "R1", "R2"}, func() {
		v.load("R1", 0)
		v.load("R2", 1)
		v.do("FMUL4", spare2, 0, 0)
		v.do("FMUL4", 1, 0, 0)
		v.store("R0", 0)
	})
	v.done()

	v.function("layerNormNEON", vectorFrame, "dst, x, w, b []float32, eps float32",
		"mean = lanes(x)/n\nfor i: c = x[i]-mean; lane[i%16] = fma(c, c, lane[i%16])\ninv = 1 / sqrt(lanes/n + eps)\n"+
			"for i: dst[i] = fma((x[i]-mean)*inv, w[i], b[i])")
	v.args("x_base", "R1", "x_len", "R5")
	v.clear(0, 4)
	v.loop("mean", "R5", 0, []string{"R1"}, func() {
		v.load("R1", 1)
		v.do("FADD4", 1, 0, 0)
	})
	v.sum()
	v.divideByLength()
	v.ins("VDUP", vlane(0, 0), v4(int(spare1), "S4"))
	v.args("x_base", "R1", "x_len", "R5")
	v.clear(0, 4)
	v.loop("variance", "R5", 0, []string{"R1"}, func() {
		v.load("R1", 1)
		v.do("FSUB4", spare1, 1, 1)
		v.only(1, 2)
		v.native("VFMLA", "S4", 1, 1, 0)
	})
	v.sum()
	v.inverseRoot(spare2)
	v.args("dst_base", "R0", "x_base", "R1", "w_base", "R2", "b_base", "R3", "x_len", "R5")
	v.loop("scale", "R5", 1, []string{"R0", "R1", "R2", "R3"}, func() {
		v.load("R1", 0)
		v.load("R2", 1)
		v.load("R3", 2)
		v.do("FSUB4", spare1, 0, 0)
		v.do("FMUL4", spare2, 0, 0)
		v.native("VFMLA", "S4", 1, 0, 2)
		v.store("R0", 2)
	})
	v.done()

	v.function("addNEON", vectorFrame, "dst, x []float32", "for i: dst[i] += x[i]")
	v.args("dst_base", "R0", "x_base", "R1", "x_len", "R5")
	v.loop("loop", "R5", 1, []string{"R0", "R1"}, func() {
		v.load("R0", 0)
		v.load("R1", 1)
		v.do("FADD4", 1, 0, 0)
		v.store("R0", 0)
	})
	v.done()

	v.function("divideNEON", vectorFrame, "x []float32, d float32", "for i: x[i] /= d")
	v.ins("FMOVS", v.arg("d"), q(0))
	v.ins("VDUP", vlane(0, 0), v4(int(spare1), "S4"))
	v.args("x_base", "R0", "x_len", "R5")
	v.loop("loop", "R5", 1, []string{"R0"}, func() {
		v.load("R0", 0)
		v.do("FDIV4", spare1, 0, 0)
		v.store("R0", 0)
	})
	v.done()

	v.function("greatestNEON", vectorFrame, "x []float32 -> bits int",
		"bits = max of the bits of |x|: those of Inf are greater than a finite number's, those of NaN greater still")
	v.args("x_base", "R0", "x_len", "R5")
	v.clear(0, 4)
	v.loop("loop", "R5", 0, []string{"R0"}, func() {
		v.load("R0", 1)
		v.native("VSHL", "S4", "$1", 1, 1)
		v.native("VUMAX", "S4", 1, 0, 0)
	})
	for _, i := range []int{1, 2, 3} {
		v.ins("VUMAX", v4(i, "S4"), v4(0, "S4"), v4(0, "S4"))
	}
	v.op("UMAXV4", 0, 0)
	v.ins("FMOVS", q(0), "R0")
	v.ins("UBFX", "$1", "R0", "$31", "R0")
	v.ins("MOVD", "R0", v.arg("bits"))
	v.done()

	v.function("blendNEON", vectorFrame, "dst, x []float32, a, b float32", "for i: dst[i] = fma(dst[i], a, x[i]*b)")
	for _, p := range []struct {
		name string
		reg  one
	}{{"a", spare1}, {"b", spare2}} {
		v.ins("FMOVS", v.arg(p.name), q(0))
		v.ins("VDUP", vlane(0, 0), v4(int(p.reg), "S4"))
	}
	v.args("dst_base", "R0", "x_base", "R1", "x_len", "R5")
	v.loop("loop", "R5", 1, []string{"R0", "R1"}, func() {
		v.load("R0", 0)
		v.load("R1", 1)
		v.do("FMUL4", spare2, 1, 1)
		v.native("VFMLA", "S4", spare1, 0, 1)
		v.store("R0", 1)
	})
	v.done()

	v.function("ropeHalvesNEON", vectorFrame, "x, cos, sin []float32",
		"n = len(cos)\nfor i < n: a, b = x[i], x[i+n]; x[i] = fma(a, cos[i], -(b*sin[i])); x[i+n] = fma(b, cos[i], a*sin[i])")
	v.args("x_base", "R0", "cos_base", "R2", "sin_base", "R3", "cos_len", "R5")
	v.ins("ADD", "R5<<2", "R0", "R1")
	v.loop("loop", "R5", 2, []string{"R0", "R1", "R2", "R3"}, func() {
		v.load("R0", 0)
		v.load("R1", 1)
		v.load("R2", 2)
		v.load("R3", 3)
		v.rope(0, 1, 2, 3)
		v.store("R0", 4)
		v.store("R1", 3)
	})
	v.done()

	v.function("ropeInterleavedNEON", vectorFrame, "x, cos, sin []float32, whole int",
		"for i < 16*whole: a, b = x[2i], x[2i+1]; x[2i] = fma(a, cos[i], -(b*sin[i])); x[2i+1] = fma(b, cos[i], a*sin[i])")
	v.args("x_base", "R0", "cos_base", "R2", "sin_base", "R3", "whole", "R5")
	v.label("loop")
	v.loadVectors("R0", 0, 16, 8)
	v.load("R2", 2)
	v.load("R3", 3)
	for i := range 4 {
		v.ins("VUZP1", v4(17+2*i, "S4"), v4(16+2*i, "S4"), v4(i, "S4"))
		v.ins("VUZP2", v4(17+2*i, "S4"), v4(16+2*i, "S4"), v4(4+i, "S4"))
	}
	v.rope(0, 1, 2, 3)
	for i := range 4 {
		v.ins("VZIP1", v4(12+i, "S4"), v4(16+i, "S4"), v4(0+2*i, "S4"))
		v.ins("VZIP2", v4(12+i, "S4"), v4(16+i, "S4"), v4(1+2*i, "S4"))
	}
	v.storeVectors("R0", 0, 0, 8)
	v.ins("ADD", "$128", "R0")
	v.ins("ADD", "$64", "R2")
	v.ins("ADD", "$64", "R3")
	v.ins("SUB", "$1", "R5")
	v.ins("CBNZ", "R5", "loop")
	v.done()
}

// rope rotates pairs: virtual register 4 = fma(a, cos, -(b*sin)), sin = fma(b, cos, a*sin).
func (v *neonVectors) rope(a, b, cos, sin int) {
	v.do("FMUL4", sin, b, 4)
	v.do("FNEG4", 4, 4)
	v.native("VFMLA", "S4", cos, a, 4)
	v.do("FMUL4", sin, a, sin)
	v.native("VFMLA", "S4", cos, b, sin)
}

// sumSquares leaves the sum of the squares of x in V0.
func (v *neonVectors) sumSquares() {
	v.args("x_base", "R1", "x_len", "R5")
	v.clear(0, 4)
	v.loop("squares", "R5", 0, []string{"R1"}, func() {
		v.load("R1", 1)
		v.native("VFMLA", "S4", 1, 1, 0)
	})
	v.sum()
}

// divideByLength divides V0 by len(x).
func (v *neonVectors) divideByLength() {
	v.args("x_len", "R5")
	v.ins("SCVTFS", "R5", q(1))
	v.ins("FDIVS", q(1), q(0), q(0))
}

// inverseRoot fills a register with 1 / sqrt(sum/len(x) + eps), the sum being in V0.
func (v *neonVectors) inverseRoot(reg one) {
	v.divideByLength()
	v.ins("FMOVS", v.arg("eps"), q(1))
	v.ins("FADDS", q(1), q(0), q(0))
	v.ins("FSQRTS", q(0), q(0))
	v.ins("FMOVS", "$1.0", q(1))
	v.ins("FDIVS", q(0), q(1), q(0))
	v.ins("VDUP", vlane(0, 0), v4(int(reg), "S4"))
}
