package main

// cycles writes a loop of known duration, n cycles, by which the benchmarks measure the clock frequency.
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
