package asm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The fuzz tests compare every kernel set of this machine with the scalar set. Numbers are drawn from a seed, then
// overwritten with the bytes that the fuzzer found, so that it reaches odd encodings: NaN, Inf, subnormals, greatest
// and least quants.

// noise draws n bytes and lays raw over their beginning.
func noise(r *rand.Rand, n int, raw []byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	copy(b, raw)
	return b
}

// floats draws n numbers of both signs and moderate size, a few of them special.
func floats(r *rand.Rand, n int) []float32 {
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0x1p-149, -0x1p-130, 65504, 1e30, -1e-30}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
		if r.IntN(50) == 0 {
			v[i] = special[r.IntN(len(special))]
		}
	}
	return v
}

func FuzzMatMul(f *testing.F) {
	for i := range 4 * int(formatCount) {
		f.Add(uint64(i), byte(i), byte(i*3), byte(i%7), []byte{byte(i), 0xff, 0x7f, 0x80, 0xfc})
	}
	f.Fuzz(func(t *testing.T, seed uint64, format, tokens, blocks byte, raw []byte) {
		r := newRand(seed)
		fm := Format(format % byte(formatCount))
		n := int(tokens)%TileTokens + 1
		cols := (int(blocks)%24 + 1) * fm.BlockWeights()
		rows := int(seed%PanelRows) + 1
		weights := noise(r, rows*fm.RowBytes(cols), raw)
		x := new(Tile)
		scalar := Scalar()
		if fm.Integer() {
			x.ResizeQuantized(n, cols)
			for i := range n {
				if !scalar.Quantize(floats(r, cols), x, i) {
					t.Fatal("not finite")
				}
			}
		} else {
			x.ResizeFloat(n, cols)
			for i := range n {
				x.SetFloat(i, floats(r, cols))
			}
		}
		stride := PanelRows + int(seed>>8%5)
		var want []float32
		eachSet(t, func(t *testing.T, k, _ *Kernels) {
			panel := make([]byte, fm.ProductBytes(cols))
			packProduct(fm, k.Offset, panel, weights, rows, cols)
			out := make([]float32, (n-1)*stride+PanelRows)
			k.Weights[fm].MatMul(panel, x, out, stride, anyPrefetch(r))
			if want == nil {
				want = out
			}
			wantSame(t, k.Name+" "+fm.String(), out, want)
		})
	})
}

func FuzzAttention(f *testing.F) {
	for i := range 24 {
		f.Add(uint64(i), byte(i), byte([]int{64, 8, 80, 128, 40, 33}[i%6]), byte(i), byte(i*11), []byte{})
	}
	f.Fuzz(func(t *testing.T, seed uint64, kv, dims, nrows, nkeys byte, raw []byte) {
		r := newRand(seed)
		kind := KV(kv % byte(kvCount))
		dim, rows, keys := int(dims)+1, int(nrows)%20+1, int(nkeys)+1
		from := r.IntN(keys)
		k, v := noise(r, KPageBytes(kind, dim), raw), noise(r, VPageBytes(kind, dim), raw)
		q, p, o := floats(r, dim*rows), floats(r, rows*Page), floats(r, rows*dim)
		var scores, values []float32
		eachSet(t, func(t *testing.T, set, _ *Kernels) {
			out := make([]float32, rows*Page)
			set.Scores[kind](out, q, k, dim, rows, keys, 0.125, v)
			for i := range rows { // past the keys anything may stand up to the next multiple of 16
				clear(out[i*Page+keys : i*Page+(keys+15)&^15])
			}
			sum := append([]float32(nil), o...)
			set.Values[kind](sum, p, v, dim, rows, from, keys, k)
			if scores == nil {
				scores, values = out, sum
			}
			wantSame(t, set.Name+" scores "+kind.String(), out, scores)
			wantSame(t, set.Name+" values "+kind.String(), sum, values)
		})
	})
}
