package main

// neonScan is [scan] for NEON: it takes a panel by four registers.
//
//	R0 a row of the state  R1 the first one  R5 rows left  R6 rows  R2 q or c  R3 k or b  R4 the next token's k
//	R7 what to add to R2, R3 and R4 after a token's rows  R8 v or x  R9 out  R10 decay  R11 beta or step  R12 tokens left
//	R13 bytes from v to the next  R14 from out to the next
type neonScan struct{ neonFile }

// The first of the registers of a row, and those of a number for all lanes.
const (
	scanU     = 4 * iota
	scanOut   // sums of the output
	scanNext  // sums of the next token's key
	scanRow   // of the state
	scanDelta // what is added to it
	scanDecay
	scanK     = scanDecay + 1
	scanQ     = scanDecay + 2
	scanNextK = scanDecay + 3
)

// each emits an instruction of the table for four registers each; ones are the same for all.
func (s neonScan) each(op string, ones int, operands ...int) {
	for i := range 4 {
		var list []int
		for j, o := range operands {
			if j >= ones {
				o += i
			}
			list = append(list, o)
		}
		s.op(op, list...)
	}
}

// fma is sum += rows*number, for four registers.
func (s neonScan) fma(number, rows, sum int) {
	for i := range 4 {
		s.ins("VFMLA", v(number, "S4"), v(rows+i, "S4"), v(sum+i, "S4"))
	}
}

// fill fills a register with a number and moves on to the next one.
func (s neonScan) fill(pointer string, reg int) {
	s.ins("VLD1R.P", "4("+pointer+")", "["+v(reg, "S4")+"]")
}

// rows is the loop over the rows of the state.
func (s neonScan) rows(name string, body func()) {
	s.ins("MOVD", "R1", "R0")
	s.ins("MOVD", "R6", "R5")
	s.label(name)
	body()
	s.ins("ADD", "$64", "R0")
	s.ins("SUB", "$1", "R5")
	s.ins("CBNZ", "R5", name)
}

// update is the rows' loop that updates the state and makes the output's sums, and those of the next key.
func (s neonScan) update(name string, next bool) {
	s.clear(scanOut, 4)
	if next {
		s.clear(scanNext, 4)
	}
	s.rows(name, func() {
		s.fill("R2", scanQ)
		s.fill("R3", scanK)
		s.loadVectors("R0", 0, scanRow, 4)
		s.each("FMUL4", 1, scanK, scanU, scanDelta)
		s.fma(scanDecay, scanRow, scanDelta)
		s.storeVectors("R0", 0, scanDelta, 4)
		s.fma(scanQ, scanDelta, scanOut)
		if next {
			s.fill("R4", scanNextK)
			s.fma(scanNextK, scanDelta, scanNext)
		}
	})
	s.ins("ADD", "R7", "R2")
	s.ins("ADD", "R7", "R3")
	if next {
		s.ins("ADD", "R7", "R4")
	}
}

// begin loads the arguments that both recurrences have.
func (s neonScan) begin(q, k, v, decay, beta string) {
	s.args("state", "R1", "keys", "R6", q, "R2", k, "R3", v, "R8", decay, "R10", beta, "R11", "tokens", "R12", "out", "R9",
		"stride", "R13", "outStride", "R14")
	s.ins("SUB", "R6<<2", "R13", "R7")
}

// end moves on to the next token.
func (s neonScan) end() {
	s.ins("ADD", "R13", "R8")
	s.ins("ADD", "R14", "R9")
}

func neonScans(f neonFile) {
	s := neonScan{f}

	f.function("deltaScanNEON", 0, deltaParams, deltaDoc)
	s.begin("q", "k", "v", "decay", "beta")
	f.ins("MOVD", "R3", "R4")
	f.clear(scanNext, 4)
	s.rows("first", func() {
		s.fill("R4", scanNextK)
		f.loadVectors("R0", 0, scanRow, 4)
		s.fma(scanNextK, scanRow, scanNext)
	})
	f.ins("ADD", "R7", "R4")
	f.label("token")
	s.fill("R10", scanDecay)
	s.fill("R11", scanK)
	f.loadVectors("R8", 0, scanRow, 4)
	s.each("FMUL4", 1, scanDecay, scanNext, scanU)
	s.each("FSUB4", 0, scanU, scanRow, scanU)
	s.each("FMUL4", 1, scanK, scanU, scanU)
	f.ins("CMP", "$1", "R12")
	f.ins("BEQ", "last")
	s.update("rows", true)
	s.deltaOut()
	s.end()
	f.ins("SUB", "$1", "R12")
	f.ins("B", "token")
	f.label("last")
	s.update("lastRows", false)
	s.deltaOut()
	f.done()

	f.function("mamba2ScanNEON", 0, mamba2Params, mamba2Doc)
	s.begin("c", "b", "x", "decay", "step")
	f.label("token")
	s.fill("R10", scanDecay)
	s.fill("R11", scanK)
	f.loadVectors("R8", 0, scanRow, 4)
	s.each("FMUL4", 1, scanK, scanRow, scanU)
	s.update("rows", false)
	f.ins("FMOVS", f.arg("skip"), q(scanK))
	f.loadVectors("R8", 0, scanRow, 4)
	s.each("FMLAI", 2, 0, scanK, scanRow, scanOut)
	f.storeVectors("R9", 0, scanOut, 4)
	s.end()
	f.ins("SUB", "$1", "R12")
	f.ins("CBNZ", "R12", "token")
	f.done()

	f.function("convNEON", 0, "out, x, w *float32, sixteens, taps, tokens, rowBytes int", convDoc)
	f.args("out", "R0", "x", "R1", "w", "R2", "sixteens", "R3", "taps", "R4", "tokens", "R5", "rowBytes", "R6")
	f.label("token")
	f.ins("MOVD", "R3", "R7")
	f.ins("MOVD", "ZR", "R8")
	f.label("channels")
	f.ins("ADD", "R8", "R1", "R9")
	f.ins("ADD", "R8", "R2", "R10")
	f.ins("MOVD", "R4", "R11")
	f.clear(0, 4)
	f.label("tap")
	f.loadVectors("R9", 0, 4, 4)
	f.loadVectors("R10", 0, 8, 4)
	for i := range 4 {
		f.ins("VFMLA", v(4+i, "S4"), v(8+i, "S4"), v(i, "S4"))
	}
	f.ins("ADD", "R6", "R9")
	f.ins("ADD", "R6", "R10")
	f.ins("SUB", "$1", "R11")
	f.ins("CBNZ", "R11", "tap")
	f.ins("ADD", "R8", "R0", "R9")
	f.storeVectors("R9", 0, 0, 4)
	f.ins("ADD", "$64", "R8")
	f.ins("SUB", "$1", "R7")
	f.ins("CBNZ", "R7", "channels")
	f.ins("ADD", "R6", "R0")
	f.ins("ADD", "R6", "R1")
	f.ins("SUB", "$1", "R5")
	f.ins("CBNZ", "R5", "token")
	f.done()
}

// deltaOut stores a token's output.
func (s neonScan) deltaOut() {
	s.ins("FMOVS", s.arg("scale"), q(scanK))
	s.each("FMULI", 2, 0, scanK, scanOut, scanOut)
	s.storeVectors("R9", 0, scanOut, 4)
}
