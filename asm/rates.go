package asm

// Rate is a loop of one multiplying instruction of a kernel set, on registers: how fast it runs bounds every product
// that the set's kernels make with it. It serves to measure that bound.
type Rate struct {
	Instruction string // as the processor's manual has it
	Float       bool   // it multiplies float32 numbers; else bytes or 16-bit integers

	// Products is how many products of a weight and an activation, with their additions, a turn makes.
	Products int

	// Run makes n turns with the vectors a and b, and writes what they give to the first bytes of out.
	Run func(n int, a, b, out *[64]byte)
}

// Rates lists the loops of this set. A product of integer or of float weights takes an instruction of one of them; the
// set scalar has none.
func (k *Kernels) Rates() []Rate { return ratesOf(k.Name) }

// rateLoop is a loop of assembly; see stubs_*.go.
type rateLoop func(n int, a, b, out *byte)

func rateOf(instruction string, float bool, products int, loop rateLoop) Rate {
	return Rate{instruction, float, products, func(n int, a, b, out *[64]byte) { loop(n, &a[0], &b[0], &out[0]) }}
}
