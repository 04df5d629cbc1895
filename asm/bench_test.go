package asm

import (
	"fmt"
	"testing"
)

// eachSetB benchmarks every kernel set of this machine.
func eachSetB(b *testing.B, f func(b *testing.B, k *Kernels)) {
	for _, name := range Available() {
		k, err := Select(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) { f(b, &k) })
	}
}

// BenchmarkMatMul multiplies one panel of 16 x 1024 weights, which stays in the cache, with a tile; bytes are the
// panel's.
func BenchmarkMatMul(b *testing.B) {
	const cols = 1024
	for _, f := range Formats() {
		for _, tokens := range []int{1, 4, 8} {
			b.Run(fmt.Sprintf("%v/t%d", f, tokens), func(b *testing.B) {
				eachSetB(b, func(b *testing.B, k *Kernels) {
					r := newRand(1)
					panel := make([]byte, f.ProductBytes(cols))
					packProduct(f, k.Offset, panel, randomRows(r, f, PanelRows, cols), PanelRows, cols)
					x, _ := newTile(b, k, r, tokens, cols)
					out := make([]float32, tokens*PanelRows)
					b.SetBytes(int64(len(panel)))
					b.ReportAllocs()
					for b.Loop() {
						k.Weights[f].MatMul(panel, x, out, PanelRows, Prefetch{})
					}
				})
			})
		}
	}
}

func BenchmarkVector(b *testing.B) {
	const n = 1024
	x, y, z, c := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n/2)
	normal(newRand(2), x, 1)
	normal(newRand(3), y, 1)
	var tile Tile
	tile.ResizeQuantized(1, n)
	for _, v := range []struct {
		name string
		call func(k *Kernels)
	}{
		{"Quantize", func(k *Kernels) { k.Quantize(x, &tile, 0) }},
		{"RMSNorm", func(k *Kernels) { k.RMSNorm(z, x, y, 1e-5) }},
		{"LayerNorm", func(k *Kernels) { k.LayerNorm(z, x, y, y, 1e-5) }},
		{"SiLUMul", func(k *Kernels) { k.SiLUMul(z, x, y) }},
		{"GELU", func(k *Kernels) { k.GELU(z, x) }},
		{"GELUErf", func(k *Kernels) { k.GELUErf(z, x) }},
		{"RopeHalves", func(k *Kernels) { k.RopeHalves(z, c, c) }},
		{"ExpSum", func(k *Kernels) { copy(z, x); k.ExpSum(z) }},
		{"ArgMax", func(k *Kernels) { k.ArgMax(x) }},
		{"Gumbel", func(k *Kernels) { k.Gumbel(z, 0, 1) }},
	} {
		b.Run(v.name, func(b *testing.B) {
			eachSetB(b, func(b *testing.B, k *Kernels) {
				b.SetBytes(4 * n)
				b.ReportAllocs()
				for b.Loop() {
					v.call(k)
				}
			})
		})
	}
}

// BenchmarkAttention takes one whole page of one head of 64 dimensions; bytes are the page's, K and V.
func BenchmarkAttention(b *testing.B) {
	const dim = 64
	for kv := range kvCount {
		for _, rows := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("%v/r%d", kv, rows), func(b *testing.B) {
				eachSetB(b, func(b *testing.B, set *Kernels) {
					k, v, _, _ := pages(b, newRand(1), kv, dim)
					q, s, o := make([]float32, dim*rows), make([]float32, rows*Page), make([]float32, rows*dim)
					normal(newRand(2), q, 1)
					b.SetBytes(int64(len(k) + len(v)))
					b.ReportAllocs()
					for b.Loop() {
						set.Scores[kv](s, q, k, dim, rows, Page, 0.125, nil)
						clear(o)
						set.Values[kv](o, s, v, dim, rows, 0, Page, nil)
					}
				})
			})
		}
	}
}

// BenchmarkScans: a head of Qwen 3.5 0.8B (128 keys and values), and of Granite 4 H (state 128, 64 numbers), 1 and 4
// tokens at once.
func BenchmarkScans(b *testing.B) {
	r := newRand(1)
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		normal(r, x, 0.01)
		return x
	}
	state, x, out := numbers(128*128), numbers(4*384), make([]float32, 4*128)
	each := []float32{0.9, 0.9, 0.9, 0.9}
	for _, name := range Available() {
		k, err := Select(name)
		if err != nil {
			b.Fatal(err)
		}
		for _, tokens := range []int{1, 4} {
			delta := &DeltaTokens{Out: out, OutStride: 128, Q: x, K: x[128:], V: x[256:], Stride: 384, Decay: each, Beta: each,
				Scale: 1, Tokens: tokens}
			mamba := &Mamba2Tokens{Out: out, OutStride: 64, X: x, B: x[64:], C: x[192:], Stride: 320, Step: each, Decay: each,
				Skip: 1, Tokens: tokens}
			b.Run(fmt.Sprintf("delta/%s/%d", name, tokens), func(b *testing.B) {
				for b.Loop() {
					k.DeltaScan(state, 128, 128, delta)
				}
			})
			b.Run(fmt.Sprintf("mamba2/%s/%d", name, tokens), func(b *testing.B) {
				for b.Loop() {
					k.Mamba2Scan(state[:128*64], 128, 64, mamba)
				}
			})
		}
	}
}
