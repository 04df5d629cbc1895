package main

const streamDoc = `for i = 0; i < n; i += 8: *sum += the 64-bit word at b+i
if distance > 0: prefetch the bytes at b+i+distance`

// stream writes the loop that measures reading: n is a multiple of 256, the sums are in four registers.
//
//	AX b  CX n  DX distance  BX sum
func stream(f *file, s isa) {
	f.function("sum"+s.name, 0, "b *byte, n, distance int, sum *uint64", streamDoc)
	f.load("b", "AX", "n", "CX", "distance", "DX", "sum", "BX")
	for i := range 4 {
		f.zero(s, i)
	}
	f.ins("TESTQ", "DX", "DX")
	f.ins("JEQ", "plain")
	for _, loop := range []string{"prefetch", "plain"} {
		f.label(loop)
		for off := 0; off < 256; off += s.size() {
			if off%64 == 0 && loop == "prefetch" {
				f.ins("PREFETCHT0", atx("AX", "DX", 1, off))
			}
			acc := s.reg(off / s.size() % 4)
			f.ins("VPADDQ", at("AX", off), acc, acc)
		}
		f.ins("ADDQ", "$256", "AX")
		f.ins("SUBQ", "$256", "CX")
		f.ins("JNE", loop)
		if loop == "prefetch" {
			f.ins("JMP", "done")
		}
	}
	f.label("done")
	for i := 1; i < 4; i++ {
		f.ins("VPADDQ", s.reg(i), s.reg(0), s.reg(0))
	}
	if s.halves == 1 {
		f.ins("VEXTRACTI64X4", "$1", z(0), y(1))
		f.ins("VPADDQ", y(1), y(0), y(0))
	}
	f.ins("VEXTRACTI128", "$1", y(0), x(1))
	f.ins("VPADDQ", x(1), x(0), x(0))
	f.ins("VPSRLDQ", "$8", x(0), x(1))
	f.ins("VPADDQ", x(1), x(0), x(0))
	f.ins("VMOVQ", x(0), "AX")
	f.ins("ADDQ", "AX", "(BX)")
	f.ret()
}
