package main

// norms writes the kernels that sum along vectors, RMSNorm and LayerNorm among them, and small elementwise kernels.
func norms(f *file, s isa) {
	v := newVectors(f, s)
	v.define("one", 1)

	v.function("sumSquares"+s.name, 0, "x []float32 -> sum float32",
		"for i: lane[i%16] = fma(x[i], x[i], lane[i%16])\nsum = lanes")
	v.sumSquares()
	v.ins("VMOVSS", x(0), v.arg("sum"))
	v.ret()

	v.function("rmsNorm"+s.name, 0, "dst, x, w []float32, eps float32",
		"inv = 1 / sqrt(sumSquares(x)/n + eps)\nfor i: dst[i] = (x[i]*inv) * w[i]")
	v.sumSquares()
	v.inverseRoot()
	v.fill(x(0), 4)
	v.file.load("dst_base", "AX", "x_base", "BX", "w_base", "CX", "x_len", "DI")
	v.loop("scale", "DI", []string{"AX", "BX", "CX"}, func() {
		v.load("BX", 0)
		v.load("CX", 1)
		v.do("VMULPS", 4, 0, 0)
		v.do("VMULPS", 1, 0, 0)
		v.store(0, "AX")
	})
	v.ret()

	v.function("layerNorm"+s.name, 0, "dst, x, w, b []float32, eps float32",
		"mean = lanes(x)/n\nfor i: c = x[i]-mean; lane[i%16] = fma(c, c, lane[i%16])\ninv = 1 / sqrt(lanes/n + eps)\n"+
			"for i: dst[i] = fma((x[i]-mean)*inv, w[i], b[i])")
	v.file.load("x_base", "BX", "x_len", "DI")
	v.clear(0)
	v.loop("mean", "DI", []string{"BX"}, func() {
		v.load("BX", 1)
		v.do("VADDPS", 1, 0, 0)
	})
	v.reduce("VADDPS")
	v.ins("VXORPS", x(1), x(1), x(1))
	v.ins("VCVTSI2SSQ", v.arg("x_len"), x(1), x(1))
	v.ins("VDIVSS", x(1), x(0), x(0))
	v.fill(x(0), 5)
	v.file.load("x_base", "BX", "x_len", "DI")
	v.clear(0)
	v.loop("variance", "DI", []string{"BX"}, func() {
		v.load("BX", 1)
		v.do("VSUBPS", 5, 1, 1)
		v.only(1)
		v.do("VFMADD231PS", 1, 1, 0)
	})
	v.reduce("VADDPS")
	v.inverseRoot()
	v.fill(x(0), 4)
	v.file.load("dst_base", "AX", "x_base", "BX", "w_base", "CX", "b_base", "DX", "x_len", "DI")
	v.loop("scale", "DI", []string{"AX", "BX", "CX", "DX"}, func() {
		v.load("BX", 0)
		v.load("CX", 1)
		v.load("DX", 2)
		v.do("VSUBPS", 5, 0, 0)
		v.do("VMULPS", 4, 0, 0)
		v.do("VFMADD213PS", 2, 1, 0)
		v.store(0, "AX")
	})
	v.ret()

	v.function("add"+s.name, 0, "dst, x []float32", "for i: dst[i] += x[i]")
	v.file.load("dst_base", "AX", "x_base", "BX", "x_len", "DI")
	v.loop("loop", "DI", []string{"AX", "BX"}, func() {
		v.load("AX", 0)
		v.load("BX", 1)
		v.do("VADDPS", 1, 0, 0)
		v.store(0, "AX")
	})
	v.ret()

	v.function("divide"+s.name, 0, "x []float32, d float32", "for i: x[i] /= d")
	v.fill(v.arg("d"), 1)
	v.file.load("x_base", "AX", "x_len", "DI")
	v.loop("loop", "DI", []string{"AX"}, func() {
		v.load("AX", 0)
		v.do("VDIVPS", 1, 0, 0)
		v.store(0, "AX")
	})
	v.ret()

	v.defineBits("magnitude", 1<<31-1)
	v.function("greatest"+s.name, 0, "x []float32 -> bits int",
		"bits = max of the bits of |x|: those of Inf are greater than a finite number's, those of NaN greater still")
	v.file.load("x_base", "AX", "x_len", "DI")
	v.clear(0)
	v.loop("loop", "DI", []string{"AX"}, func() {
		v.load("AX", 1)
		v.do("VPAND", "magnitude", 1, 1)
		v.do("VPMAXSD", 1, 0, 0)
	})
	v.reduce("VPMAXSD")
	v.ins("VMOVD", x(0), "AX")
	v.ins("MOVQ", "AX", v.arg("bits"))
	v.ret()

	v.function("blend"+s.name, 0, "dst, x []float32, a, b float32", "for i: dst[i] = fma(dst[i], a, x[i]*b)")
	v.ins("VMOVSS", v.arg("a"), x(4))
	v.fill(x(4), 2)
	v.ins("VMOVSS", v.arg("b"), x(6))
	v.fill(x(6), 3)
	v.file.load("dst_base", "AX", "x_base", "BX", "x_len", "DI")
	v.loop("loop", "DI", []string{"AX", "BX"}, func() {
		v.load("AX", 0)
		v.load("BX", 1)
		v.do("VMULPS", 3, 1, 1)
		v.do("VFMADD213PS", 1, 2, 0)
		v.store(0, "AX")
	})
	v.ret()

	v.function("ropeHalves"+s.name, 0, "x, cos, sin []float32",
		"n = len(cos)\nfor i < n: a, b = x[i], x[i+n]; x[i] = fma(a, cos[i], -(b*sin[i])); x[i+n] = fma(b, cos[i], a*sin[i])")
	v.file.load("x_base", "AX", "cos_base", "CX", "sin_base", "DX", "cos_len", "DI")
	v.ins("LEAQ", atx("AX", "DI", 4, 0), "BX")
	v.loop("loop", "DI", []string{"AX", "BX", "CX", "DX"}, func() {
		const a, b, cos, sin, t = 0, 1, 2, 3, 4
		v.load("AX", a)
		v.load("BX", b)
		v.load("CX", cos)
		v.load("DX", sin)
		v.do("VMULPS", b, sin, t)
		v.do("VMULPS", a, sin, sin)
		v.do("VFMSUB213PS", t, cos, a)
		v.do("VFMADD213PS", sin, cos, b)
		v.store(a, "AX")
		v.store(b, "BX")
	})
	v.ret()
}

// sumSquares leaves the sum of the squares of x in X0.
func (v *vectors) sumSquares() {
	v.file.load("x_base", "BX", "x_len", "DI")
	v.clear(0)
	v.loop("squares", "DI", []string{"BX"}, func() {
		v.load("BX", 1)
		v.do("VFMADD231PS", 1, 1, 0)
	})
	v.reduce("VADDPS")
}

// inverseRoot turns the sum in X0 into 1 / sqrt(sum/len(x) + eps).
func (v *vectors) inverseRoot() {
	v.ins("VXORPS", x(1), x(1), x(1))
	v.ins("VCVTSI2SSQ", v.arg("x_len"), x(1), x(1))
	v.ins("VDIVSS", x(1), x(0), x(0))
	v.ins("VADDSS", v.arg("eps"), x(0), x(0))
	v.ins("VSQRTSS", x(0), x(0), x(0))
	v.ins("VMOVSS", v.constants["one"], x(1))
	v.ins("VDIVSS", x(0), x(1), x(0))
}
