package asm

import (
	"fmt"
	"testing"
)

// scanNumbers fills x for a scan: ordinary numbers, or, in some rounds, of all kinds.
func scanNumbers(t *testing.T, round, n int) []float32 {
	x := tail[float32](t, n)
	if r := newRand(uint64(30 + round + n)); round%5 == 4 {
		wild(r, x)
	} else {
		normal(r, x, 0.5)
	}
	return x
}

// TestScans: the recurrences of all sets have the bits of the scalar ones, for heads of every number of values to
// past nine panels, any number of keys and 1 to 7 tokens, with rows of any distance; they touch nothing beside their
// operands. Several tokens at once are the same as one after the other.
func TestScans(t *testing.T) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		for values := 1; values <= 150; values++ {
			if k.Name == scalar.Name && values%5 > 0 { // against itself: several tokens at once
				continue
			}
			keys, tokens := 1+values*7%37, 1+values%7
			if values%32 == 0 {
				keys = 128
			}
			stride, outStride := max(keys, values)+values%3, values+values%2
			if values%11 == 0 {
				outStride = 0
			}
			what := fmt.Sprintf("%d values, %d keys, %d tokens", values, keys, tokens)
			start := scanNumbers(t, values, keys*values)
			rows := (tokens - 1) * stride
			q, key, v := scanNumbers(t, values, rows+keys), scanNumbers(t, values, rows+keys),
				scanNumbers(t, values, rows+values)
			decay, beta := scanNumbers(t, values, tokens), scanNumbers(t, values, tokens)

			run := func(k *Kernels, delta bool, pieces int) (state, out []float32) {
				state, out = tail[float32](t, len(start)), tail[float32](t, (tokens-1)*outStride+values)
				copy(state, start)
				for i := range out {
					out[i] = 7
				}
				for at := 0; at < tokens; at += pieces {
					n, row := min(pieces, tokens-at), at*stride
					if delta {
						k.DeltaScan(state, keys, values, &DeltaTokens{
							Out: out[at*outStride:], OutStride: outStride, Q: q[row:], K: key[row:], V: v[row:], Stride: stride,
							Decay: decay[at:], Beta: beta[at:], Scale: 0.3, Tokens: n})
					} else {
						k.Mamba2Scan(state, keys, values, &Mamba2Tokens{
							Out: out[at*outStride:], OutStride: outStride, X: v[row:], B: key[row:], C: q[row:], Stride: stride,
							Step: beta[at:], Decay: decay[at:], Skip: -1.7, Tokens: n})
					}
				}
				return state, out
			}
			for _, delta := range []bool{true, false} {
				wantState, wantOut := run(scalar, delta, 1)
				for _, pieces := range []int{tokens, 2, 1} {
					state, out := run(k, delta, pieces)
					rule := fmt.Sprintf("%s, %d at once, delta %v", what, pieces, delta)
					wantSame(t, rule+", state", state, wantState)
					wantSame(t, rule+", out", out, wantOut)
				}
			}
		}
	})
}

// TestScanRules: the scalar scans are their formulas, one rounding for each operation, with sums ascending.
func TestScanRules(t *testing.T) {
	const keys, values, tokens = 5, 19, 3
	r := newRand(31)
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		normal(r, x, 1)
		return x
	}
	start, q, key, v, decay, beta := numbers(keys*values), numbers(tokens*keys), numbers(tokens*keys),
		numbers(tokens*values), numbers(tokens), numbers(tokens)
	place := func(i, j int) int { // of state[i][j] in panels
		panel := j / PanelRows * PanelRows
		return panel*keys + i*min(PanelRows, values-panel) + j - panel
	}
	for _, delta := range []bool{true, false} {
		want, wantOut := append([]float32(nil), start...), make([]float32, tokens*values)
		for t := range tokens {
			for j := range values {
				u := float32(0)
				if delta {
					for i := range keys {
						u = exactFMA(key[t*keys+i], want[place(i, j)], u)
					}
					u = (v[t*values+j] - float32(u*decay[t])) * beta[t]
				} else {
					u = v[t*values+j] * beta[t]
				}
				sum := float32(0)
				for i := range keys {
					want[place(i, j)] = exactFMA(want[place(i, j)], decay[t], float32(u*key[t*keys+i]))
					sum = exactFMA(q[t*keys+i], want[place(i, j)], sum)
				}
				if delta {
					sum *= 0.3
				} else {
					sum = exactFMA(-1.7, v[t*values+j], sum)
				}
				wantOut[t*values+j] = sum
			}
		}
		scalar := Scalar()
		got, out := append([]float32(nil), start...), make([]float32, tokens*values)
		for i := range tokens { // strides differ: token by token
			if delta {
				scalar.DeltaScan(got, keys, values, &DeltaTokens{
					Out: out[i*values:], Q: q[i*keys:], K: key[i*keys:], V: v[i*values:], Decay: decay[i:], Beta: beta[i:],
					Scale: 0.3, Tokens: 1})
			} else {
				scalar.Mamba2Scan(got, keys, values, &Mamba2Tokens{
					Out: out[i*values:], X: v[i*values:], B: key[i*keys:], C: q[i*keys:], Step: beta[i:], Decay: decay[i:],
					Skip: -1.7, Tokens: 1})
			}
		}
		wantSame(t, fmt.Sprint("state, delta ", delta), got, want)
		wantSame(t, fmt.Sprint("out, delta ", delta), out, wantOut)
	}
}

// TestConv: every number of channels, 1 to 5 taps, 1 to 4 tokens.
func TestConv(t *testing.T) {
	eachSet(t, func(t *testing.T, k, _ *Kernels) {
		for channels := 1; channels <= 70; channels++ {
			taps, tokens := 1+channels%5, 1+channels%4
			x, w := scanNumbers(t, channels, (taps-1+tokens)*channels), scanNumbers(t, channels, taps*channels)
			want, got := make([]float32, tokens*channels), tail[float32](t, tokens*channels)
			for i := range want {
				for tap := range taps {
					want[i] = FMA(w[tap*channels+i%channels], x[tap*channels+i], want[i])
				}
			}
			k.Conv(got, x, w, channels)
			wantSame(t, fmt.Sprintf("%d channels, %d taps, %d tokens", channels, taps, tokens), got, want)
		}
	})
}
