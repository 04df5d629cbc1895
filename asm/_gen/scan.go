package main

const (
	deltaParams = "state *float32, keys int, q, k, v *float32, stride int, decay, beta *float32, scale float32, tokens " +
		"int, out *float32, outStride int"
	mamba2Params = "state *float32, keys int, x, b, c *float32, stride int, step, decay *float32, skip float32, tokens " +
		"int, out *float32, outStride int"

	deltaDoc = `panels of state are [keys][16]; strides are bytes
for t < tokens:
  u[j] = sum over i of k[t][i]*state[i][j]
  u[j] = (v[t][j] - u[j]*decay[t])*beta[t]
  state[i][j] = fma(state[i][j], decay[t], u[j]*k[t][i])
  out[t][j] = (sum over i of q[t][i]*state[i][j])*scale`
	mamba2Doc = `panels of state are [keys][16]; strides are bytes
for t < tokens:
  state[i][j] = fma(state[i][j], decay[t], (x[t][j]*step[t])*b[t][i])
  out[t][j] = fma(skip, x[t][j], sum over i of c[t][i]*state[i][j])`
	convDoc = "for t < tokens, c < 16*sixteens: out[t][c] = sum over i < taps of w[i][c]*x[t+i][c]; rows are rowBytes"
)

// scan writes the kernels of recurrent layers, which compute the tokens of one head for as many columns of the state as
// registers hold: with 512 bits 4 panels, one register each; with 256 bits one panel, in two registers. A row of the
// state is read once for each token: it is updated, added to the output's sums, and, in a delta net, to the sums of the
// next token's key.
//
//	AX a row of the state, R9 the same two panels on  BX the first row  R8 bytes of a panel  DI rows left
//	CX q or c  DX k or b  SI the next token's k  R12 v or x  R10 out  R13 decay  R14 beta or step  R11 tokens left
//	R15 what to add to CX, DX and SI after a token's rows
type scan struct {
	*file
	isa
	n int // registers of a row
}

// Registers: each of the first five is n in a row.
func (s scan) u(i int) string     { return s.reg(i) }
func (s scan) out(i int) string   { return s.reg(s.n + i) }
func (s scan) next(i int) string  { return s.reg(2*s.n + i) }
func (s scan) row(i int) string   { return s.reg(3*s.n + i) }
func (s scan) delta(i int) string { return s.reg(4*s.n + i) }
func (s scan) one(i int) string   { return s.reg(5*s.n + i) } // a number for all lanes: 0 decay, 1 k, 2 q, 3 the next k

// state is the memory of register i of a row.
func (s scan) state(i int) string {
	switch {
	case s.halves == 2:
		return at("AX", 32*i)
	case i%2 == 1:
		return atx([]string{"AX", "R9"}[i/2], "R8", 1, 0)
	}
	return at([]string{"AX", "R9"}[i/2], 0)
}

// each emits an instruction for all registers of a row.
func (s scan) each(op string, operands ...func(i int) string) {
	for i := range s.n {
		var list []string
		for _, o := range operands {
			list = append(list, o(i))
		}
		s.ins(op, list...)
	}
}

// fixed is the same operand for all registers of a row.
func fixed(operand string) func(int) string { return func(int) string { return operand } }

// column is the memory of register i of a token's row of columns.
func column(s isa, base string) func(int) string {
	return func(i int) string { return at(base, i*s.size()) }
}

func (s scan) clear(first int) {
	for i := range s.n {
		s.zero(s.isa, first*s.n+i)
	}
}

// rows is the loop over the rows of the state: body uses k of the row.
func (s scan) rows(name string, pointers []string, body func()) {
	s.ins("MOVQ", "BX", "AX")
	if s.halves == 1 {
		s.ins("LEAQ", atx("BX", "R8", 2, 0), "R9")
	}
	s.ins("MOVQ", s.arg("keys"), "DI")
	s.label(name)
	body()
	s.ins("ADDQ", "$64", "AX")
	if s.halves == 1 {
		s.ins("ADDQ", "$64", "R9")
	}
	for _, p := range pointers {
		s.ins("ADDQ", "$4", p)
	}
	s.ins("DECQ", "DI")
	s.ins("JNZ", name)
}

// update is the rows' loop that updates the state and makes the output's sums, and those of the next key.
func (s scan) update(name string, next bool) {
	pointers := []string{"CX", "DX"}
	s.clear(1)
	if next {
		pointers = append(pointers, "SI")
		s.clear(2)
	}
	s.rows(name, pointers, func() {
		for i, p := range pointers {
			s.ins("VBROADCASTSS", at(p, 0), s.one([]int{2, 1, 3}[i]))
		}
		s.each("VMOVUPS", s.state, s.row)
		s.each("VMULPS", fixed(s.one(1)), s.u, s.delta)
		s.each("VFMADD213PS", s.delta, fixed(s.one(0)), s.row)
		s.each("VMOVUPS", s.row, s.state)
		s.each("VFMADD231PS", s.row, fixed(s.one(2)), s.out)
		if next {
			s.each("VFMADD231PS", s.row, fixed(s.one(3)), s.next)
		}
	})
	for _, p := range pointers {
		s.ins("ADDQ", "R15", p)
	}
}

// begin loads the arguments that both recurrences have.
func (s scan) begin(q, k, v, decay, beta string) {
	s.load("state", "BX", "keys", "DI", q, "CX", k, "DX", v, "R12", decay, "R13", beta, "R14", "tokens", "R11", "out",
		"R10", "stride", "R15")
	s.ins("MOVQ", "DI", "R8")
	s.ins("SHLQ", "$2", "DI")
	s.ins("SUBQ", "DI", "R15")
	s.ins("SHLQ", "$6", "R8")
}

// end moves on to the next token.
func (s scan) end() {
	s.ins("ADDQ", "$4", "R13")
	s.ins("ADDQ", "$4", "R14")
	s.ins("ADDQ", s.arg("stride"), "R12")
	s.ins("ADDQ", s.arg("outStride"), "R10")
}

func scans(f *file, isa isa) {
	s := scan{f, isa, 4 / isa.halves}

	f.function("deltaScan"+isa.name, 0, deltaParams, deltaDoc)
	s.begin("q", "k", "v", "decay", "beta")
	f.ins("MOVQ", "DX", "SI")
	s.clear(2)
	s.rows("first", []string{"SI"}, func() {
		f.ins("VBROADCASTSS", "(SI)", s.one(3))
		for i := range s.n {
			f.ins("VFMADD231PS", s.state(i), s.one(3), s.next(i))
		}
	})
	f.ins("ADDQ", "R15", "SI")
	f.label("token")
	f.ins("VBROADCASTSS", "(R13)", s.one(0))
	f.ins("VBROADCASTSS", "(R14)", s.one(1))
	s.each("VMULPS", fixed(s.one(0)), s.next, s.u)
	s.each("VMOVUPS", column(isa, "R12"), s.row)
	s.each("VSUBPS", s.u, s.row, s.u)
	s.each("VMULPS", fixed(s.one(1)), s.u, s.u)
	f.ins("CMPQ", "R11", "$1")
	f.ins("JEQ", "last")
	s.update("rows", true)
	s.deltaOut()
	s.end()
	f.ins("DECQ", "R11")
	f.ins("JMP", "token")
	f.label("last")
	s.update("lastRows", false)
	s.deltaOut()
	f.ret()

	f.function("mamba2Scan"+isa.name, 0, mamba2Params, mamba2Doc)
	s.begin("c", "b", "x", "decay", "step")
	f.label("token")
	f.ins("VBROADCASTSS", "(R13)", s.one(0))
	f.ins("VBROADCASTSS", "(R14)", s.one(1))
	for i := range s.n {
		f.ins("VMULPS", column(isa, "R12")(i), s.one(1), s.u(i))
	}
	s.update("rows", false)
	f.ins("VBROADCASTSS", f.arg("skip"), s.one(1))
	for i := range s.n {
		f.ins("VFMADD231PS", column(isa, "R12")(i), s.one(1), s.out(i))
	}
	s.each("VMOVUPS", s.out, column(isa, "R10"))
	s.end()
	f.ins("DECQ", "R11")
	f.ins("JNZ", "token")
	f.ret()

	if isa.halves == 1 {
		return // the convolution is the 256-bit one in all sets
	}
	f.function("conv"+isa.name, 0, "out, x, w *float32, sixteens, taps, tokens, rowBytes int", convDoc)
	f.load("out", "AX", "x", "BX", "w", "CX", "tokens", "R8", "rowBytes", "DI")
	f.label("token")
	f.load("sixteens", "R13")
	f.ins("XORQ", "R9", "R9")
	f.label("channels")
	f.ins("LEAQ", atx("BX", "R9", 1, 0), "R10")
	f.ins("LEAQ", atx("CX", "R9", 1, 0), "R11")
	f.load("taps", "R12")
	f.zero(isa, 0)
	f.zero(isa, 1)
	f.label("tap")
	for i := range 2 {
		f.ins("VMOVUPS", at("R10", 32*i), y(2+i))
		f.ins("VFMADD231PS", at("R11", 32*i), y(2+i), y(i))
	}
	f.ins("ADDQ", "DI", "R10")
	f.ins("ADDQ", "DI", "R11")
	f.ins("DECQ", "R12")
	f.ins("JNZ", "tap")
	for i := range 2 {
		f.ins("VMOVUPS", y(i), atx("AX", "R9", 1, 32*i))
	}
	f.ins("ADDQ", "$64", "R9")
	f.ins("DECQ", "R13")
	f.ins("JNZ", "channels")
	f.ins("ADDQ", "DI", "AX")
	f.ins("ADDQ", "DI", "BX")
	f.ins("DECQ", "R8")
	f.ins("JNZ", "token")
	f.ret()
}

// deltaOut stores a token's output.
func (s scan) deltaOut() {
	s.ins("VBROADCASTSS", s.arg("scale"), s.one(1))
	s.each("VMULPS", fixed(s.one(1)), s.out, s.out)
	s.each("VMOVUPS", s.out, column(s.isa, "R10"))
}
