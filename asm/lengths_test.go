package asm

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// Every length from one block to 40, of blocks of 256 weights to 10, and some longer ones, with all numbers of rows and
// tokens in turn, from panels at odd addresses: tails are where kernels go wrong.
func TestMatMulEveryLength(t *testing.T) {
	scalar := Scalar()
	names := Available()[1:]
	if len(names) == 0 {
		t.Skip("the scalar kernels alone are here")
	}
	for _, f := range Formats() {
		t.Run(f.String(), func(t *testing.T) {
			r := newRand(20)
			for blocks := 1; blocks <= 70; blocks++ {
				most := 40
				if f.BlockWeights() == 256 {
					most = 10
				}
				if blocks > most && blocks != 17 && blocks != 35 && blocks != 70 && !testkit.IsLong(t) {
					continue
				}
				cols := blocks * f.BlockWeights()
				tokens, rows := 1+(blocks*3)%TileTokens, 1+(blocks*5)%PanelRows
				raw := randomRows(r, f, rows, cols)
				panel := make([]byte, f.ProductBytes(cols))
				packProduct(f, false, panel, raw, rows, cols)
				x, _ := newTile(t, &scalar, r, tokens, cols)
				want := make([]float32, tokens*PanelRows)
				scalar.Weights[f].MatMul(panel, x, want, PanelRows, Prefetch{})
				for _, name := range names {
					k, err := Select(name)
					if err != nil {
						t.Fatal(err)
					}
					odd := tail[byte](t, len(panel)+1)[:len(panel)]
					packProduct(f, k.Offset, odd, raw, rows, cols)
					got := tail[float32](t, len(want))
					k.Weights[f].MatMul(odd, x, got, PanelRows, anyPrefetch(r))
					wantSame(t, fmt.Sprintf("%s, %d blocks, %d tokens", name, blocks, tokens), got, want)
				}
			}
		})
	}
}

// TestLongMatMulEveryLength: every length to 70 blocks.
func TestLongMatMulEveryLength(t *testing.T) {
	testkit.Long(t)
	TestMatMulEveryLength(t)
}

// Columns of floating-point numbers are multiplied in pieces; the sums go on from one to the next.
func TestMatMulLongColumns(t *testing.T) {
	const cols, tokens, rows, stride = 2*8192 + 5, 7, 13, 19
	scalar := Scalar()
	for _, f := range []Format{F32, F16, BF16} {
		r := newRand(23)
		panel := make([]byte, f.ProductBytes(cols))
		packProduct(f, false, panel, randomRows(r, f, rows, cols), rows, cols)
		x, _ := newTile(t, &scalar, r, tokens, cols)
		want := make([]float32, (tokens-1)*stride+PanelRows)
		normal(r, want, 1)
		got := tail[float32](t, len(want))
		start := append([]float32(nil), want...)
		scalar.Weights[f].MatMul(panel, x, want, stride, Prefetch{})
		for _, name := range vectorSets()[1:] {
			k, err := Select(name)
			if err != nil {
				t.Fatal(err)
			}
			copy(got, start)
			k.Weights[f].MatMul(panel, x, got, stride, anyPrefetch(r))
			wantSame(t, fmt.Sprint(name, " ", f), got, want)
		}
	}
}

// Softmaxes of several rows are those of each row, and what lies between the rows stays.
func TestExpSumsEveryShape(t *testing.T) {
	scalar := Scalar()
	r := newRand(22)
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for i := range 80 {
		rows, n := i%19, i*29%(Page+1)
		stride := n + i%3
		from := make([]float32, max(0, rows-1)*stride+n)
		normal(r, from, 40)
		if n > 2 && rows > 2 {
			from[n/2], from[stride], from[stride+1] = nan, inf, float32(math.Copysign(0, -1))
			for j := range n {
				from[2*stride+j] = inf // a row without a number
			}
		}
		want, wantM, wantL := slices.Clone(from), make([]float32, rows), make([]float32, rows)
		scalar.ExpSums(want, stride, n, wantM, wantL)
		for row := range rows {
			one := slices.Clone(from[row*stride:][:n])
			m, l := scalar.ExpSum(one)
			wantSame(t, "a row alone", []float32{wantM[row], wantL[row]}, []float32{m, l})
			wantSame(t, "a row alone", want[row*stride:][:n], one)
		}
		for _, name := range vectorSets()[1:] {
			set, err := Select(name)
			if err != nil {
				t.Fatal(err)
			}
			s, m, l := tail[float32](t, len(from)), tail[float32](t, rows), tail[float32](t, rows)
			copy(s, from)
			set.ExpSums(s, stride, n, m, l)
			what := fmt.Sprintf("%s, %d rows of %d, stride %d", name, rows, n, stride)
			wantSame(t, what, s, want)
			wantSame(t, what, m, wantM)
			wantSame(t, what, l, wantL)
		}
	}
}

// Any number of rows shares a page of keys and values; any number of keys and dimensions.
func TestAttentionEveryShape(t *testing.T) {
	scalar := Scalar()
	if len(Available()) == 1 {
		t.Skip("the scalar kernels alone are here")
	}
	for kv := range kvCount {
		t.Run(kv.String(), func(t *testing.T) {
			r := newRand(21)
			for i := 1; i <= 70; i++ {
				dim, rows, keys := i, 1+i%19, 1+i*37%Page
				if i%7 == 0 {
					dim = 128
				}
				from := r.IntN(keys)
				k, v, _, _ := pages(t, r, kv, dim)
				q, p, start := tail[float32](t, dim*rows), tail[float32](t, (rows-1)*Page+keys), make([]float32, rows*dim)
				normal(r, q, 1)
				normal(r, p, 1)
				normal(r, start, 1)
				wantScores, wantValues := make([]float32, rows*Page), append([]float32(nil), start...)
				scalar.Scores[kv](wantScores, q, k, dim, rows, keys, 0.3, nil)
				scalar.Values[kv](wantValues, p, v, dim, rows, from, keys, nil)
				for _, name := range vectorSets()[1:] {
					set, err := Select(name)
					if err != nil {
						t.Fatal(err)
					}
					what := fmt.Sprintf("%s, dim %d, %d rows, keys %d to %d", name, dim, rows, from, keys)
					scores := tail[float32](t, (rows-1)*Page+(keys+15)&^15)
					set.Scores[kv](scores, q, k, dim, rows, keys, 0.3, v)
					for row := range rows {
						wantSame(t, what, scores[row*Page:][:keys], wantScores[row*Page:][:keys])
					}
					values := tail[float32](t, len(start))
					copy(values, start)
					set.Values[kv](values, p, v, dim, rows, from, keys, k)
					wantSame(t, what, values, wantValues)
				}
			}
		})
	}
}
