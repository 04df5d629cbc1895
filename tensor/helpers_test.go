package tensor

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/specgo/spec/asm"
)

// runtimeOf makes a Runtime of so many threads that is closed with the test.
func runtimeOf(t testing.TB, threads int) *Runtime {
	t.Helper()
	return runtimeWith(t, Options{Threads: threads})
}

func runtimeWith(t testing.TB, o Options) *Runtime {
	t.Helper()
	rt, err := NewRuntime(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	return rt
}

// ok stops the test at an error.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// normal gives n numbers of a standard normal distribution, the same for the same seed.
func normal(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// rawRows gives rows of random weights as GGUF bytes, for every type.
func rawRows(t testing.TB, f Type, seed uint64, rows, cols int) []byte {
	t.Helper()
	raw := make([]byte, rows*f.RowBytes(cols))
	if f.BlockWeights() < asm.SuperBlock && encodable(f) { // super-blocks can hold more than is encoded
		x := normal(seed, rows*cols)
		for i := range rows {
			ok(t, Encode(f, raw[i*f.RowBytes(cols):][:f.RowBytes(cols)], x[i*cols:][:cols]))
		}
		return raw
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	for b := 0; b < len(raw); b += f.BlockBytes() { // scales of an ordinary size: 2^-9 and a bit
		for _, at := range f.Scales() {
			raw[b+at+1] = 0x18
		}
		switch f {
		case MXFP4:
			raw[b] = 119
		case IQ1_M: // the highest 4 bits of 4 numbers
			raw[b+53], raw[b+55] = raw[b+53]&15|0x80, raw[b+55]&15|0x10
		}
	}
	return raw
}

// sameBits fails unless the numbers are the same, bit for bit.
func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: number %d is %x (%v), want %x (%v)", what, i, math.Float32bits(got[i]), got[i],
				math.Float32bits(want[i]), want[i])
		}
	}
}

// near fails unless the numbers differ by at most tolerance.
func near(t testing.TB, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) <= tolerance) {
			t.Fatalf("%s: number %d is %v, want %v within %v", what, i, got[i], want[i], tolerance)
		}
	}
}
