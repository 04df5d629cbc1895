package asm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 42)) }

// cases is how many of n random cases are tried: with -short, as on emulated processors, an eighth of them. What is
// to be found there is how a compiler or a processor rounds, which many of the cases show.
func cases(n int) int {
	if testing.Short() {
		n /= 8
	}
	return n
}

// anyPrefetch is something for a kernel to prefetch: nothing, nearby, or where no memory is. Results do not depend on
// it.
func anyPrefetch(r *rand.Rand) Prefetch {
	return []Prefetch{
		{},
		{From: 1 << 12, Step: r.IntN(1 << 12)},
		{From: -1 << 12, Step: r.IntN(1 << 12)},
		{From: r.Int() - r.Int(), Step: r.IntN(1 << 30)},
	}[r.IntN(4)]
}

// same compares bits, all NaN being equal.
func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func wantSame(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !same(got[i], want[i]) {
			t.Fatalf("%s: element %d of %d: %g (%#08x), want %g (%#08x)", what, i, len(got),
				got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// normal fills x with normally distributed numbers.
func normal(r *rand.Rand, x []float32, scale float64) {
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
}

// wild fills x with numbers of all kinds: any bits, small integers, zeros, infinities, NaN.
func wild(r *rand.Rand, x []float32) {
	for i := range x {
		switch r.IntN(4) {
		case 0:
			x[i] = math.Float32frombits(r.Uint32())
		case 1:
			x[i] = float32(r.IntN(9) - 4)
		case 2:
			x[i] = float32(r.NormFloat64() * 40)
		case 3:
			specials := []uint32{0, 1 << 31, 1, 0x80000001, 0x007fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
				0x7fc00000}
			x[i] = math.Float32frombits(specials[r.IntN(len(specials))])
		}
	}
}

// exactFMA is x*y+z by exact arithmetic, for finite arguments.
func exactFMA(x, y, z float32) float32 {
	b := func(v float32) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(float64(v)) }
	p := b(x)
	p.Mul(p, b(y))
	f, _ := p.Add(p, b(z)).Float32()
	return f
}

// randomRow makes one valid GGUF row of random bytes, with scales of an ordinary size and both signs.
func randomRow(r *rand.Rand, f Format, cols int) []byte {
	row := make([]byte, f.RowBytes(cols))
	for i := range row {
		row[i] = byte(r.Uint32())
	}
	for at := 0; at < len(row); at += f.BlockBytes() {
		switch f {
		case F32:
			le.PutUint32(row[at:], math.Float32bits(float32(r.NormFloat64())))
		case F16:
			le.PutUint16(row[at:], ToF16(float32(r.NormFloat64()*0.01)))
		case BF16:
			le.PutUint16(row[at:], ToBF16(float32(r.NormFloat64())))
		default:
			setScales(f, row[at:][:f.BlockBytes()], float32(r.NormFloat64()*0.01))
		}
	}
	return row
}

// setScales makes the scales of all blocks of a row scale, scale/2, …; the powers of MXFP4 are the nearest above its
// magnitude.
func setScales(f Format, row []byte, scale float32) {
	for at := 0; at < len(row); at += f.BlockBytes() {
		for i, offset := range f.Scales() {
			le.PutUint16(row[at+offset:], ToF16(scale/float32(1+i)))
		}
		switch f {
		case MXFP4:
			_, e := math.Frexp(float64(scale))
			row[at] = byte(128 + e)
		case IQ1_M: // the highest 4 bits of 4 numbers
			for i := range 4 {
				v := row[at+49+2*i:]
				v[0] = v[0]&15 | byte(ToF16(scale)>>(4*i)&15<<4)
			}
		}
	}
}

// randomRows makes rows GGUF rows, one after the other.
func randomRows(r *rand.Rand, f Format, rows, cols int) []byte {
	var raw []byte
	for range rows {
		raw = append(raw, randomRow(r, f, cols)...)
	}
	return raw
}

// newTile makes both forms of a tile of random tokens with a kernel set's own slices, all ending at unreadable pages,
// and returns the activations.
func newTile(t testing.TB, k *Kernels, r *rand.Rand, tokens, cols int) (*Tile, []float32) {
	n := tokens * cols / BlockSize
	x := &Tile{
		Q:    tail[int8](t, n*BlockSize),
		D:    tail[float32](t, n),
		Bias: tail[int32](t, n),
		DSum: tail[float32](t, n),
		Half: tail[int32](t, 2*n),
		F:    tail[float32](t, tokens*cols),
	}
	x.ResizeFloat(tokens, cols)
	if cols%BlockSize == 0 {
		x.ResizeQuantized(tokens, cols)
	}
	v := tail[float32](t, tokens*cols)
	normal(r, v, 1)
	for i := range tokens {
		row := v[i*cols:][:cols]
		if i == 1 && cols >= BlockSize {
			clear(row[:BlockSize])
		}
		x.SetFloat(i, row)
		if cols%BlockSize == 0 && !k.Quantize(row, x, i) {
			t.Fatal("Quantize refuses finite numbers")
		}
	}
	return x, v
}

// SetFloat stores the activations of token t.
func (x *Tile) SetFloat(t int, v []float32) { transpose(x.F[t:], x.Tokens, v, x.Cols, 1, x.Cols) }

// dirtyStack leaves numbers where the next call's local memory will be, so that a kernel that forgets to clear its own
// is noticed.
//
//go:noinline
func dirtyStack() (sum int) {
	var mem [4096]int8
	for i := range mem {
		mem[i] = int8(i%7 + 0x41)
	}
	for i := range mem {
		sum += int(mem[(i*31)%len(mem)])
	}
	return sum
}

// packProduct is Pack of a panel as products take it: a compact one is inflated by the scalar set.
func packProduct(f Format, offset bool, panel, raw []byte, rows, cols int) {
	inflate := formats[f].inflate
	if inflate == nil {
		Pack(f, offset, panel, raw, rows, cols)
		return
	}
	compact := make([]byte, f.PanelBytes(cols))
	Pack(f, offset, compact, raw, rows, cols)
	inflate(panel, compact, cols)
}
