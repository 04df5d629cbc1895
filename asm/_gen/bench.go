package main

// cycles writes the ruler of the benchmarks.
func cycles(f *file) {
	f.function("spinCycles", 0, "n int", `for n > 0: n--  // one cycle each: a chain of additions`)
	f.load("n", "AX")
	f.label("loop")
	for range 8 {
		f.ins("ADDQ", "BX", "CX")
	}
	f.ins("SUBQ", "$8", "AX")
	f.ins("JGT", "loop")
	f.ret()
}
