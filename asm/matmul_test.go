package asm

import (
	"fmt"
	"math"
	"testing"
)

// TestMatMul holds the scalar kernels against the numeric specification, read literally from the file's bytes, and
// against arithmetic in float64.
func TestMatMul(t *testing.T) {
	r := newRand(6)
	k := Scalar()
	for _, f := range Formats() {
		for tokens := 1; tokens <= TileTokens; tokens++ {
			cols := []int{1, 2, 3}[tokens%3] * max(f.BlockWeights(), 32)
			rows := 16 - tokens%4
			raw := randomRows(r, f, rows, cols)
			panel := make([]byte, f.ProductBytes(cols))
			packProduct(f, false, panel, raw, rows, cols)
			x, v := newTile(t, &k, r, tokens, cols)
			const stride = 19
			out := tail[float32](t, (tokens-1)*stride+PanelRows)
			for i := range out {
				out[i] = float32(math.NaN())
			}
			k.Weights[f].MatMul(panel, x, out, stride, Prefetch{})
			decoded, quantized := literalRows(f, raw, rows), literalTokens(v, tokens)
			for i := range tokens {
				for row := range rows {
					got := out[i*stride+row]
					want := literalDot(f, decoded[row], quantized[i])
					if !same(got, want) {
						t.Fatalf("%v: %d tokens, token %d, row %d: %b, want %b", f, tokens, i, row, got, want)
					}
					w := decoded[row].w
					var exact, size float64
					for c := range w {
						e := v[i*cols+c]
						if f.Integer() {
							b := c/BlockSize*tokens + i
							e = float32(x.Q[b*BlockSize+c%BlockSize]) * x.D[b]
						}
						exact += float64(w[c]) * float64(e)
						size += math.Abs(float64(w[c]) * float64(e))
					}
					if math.Abs(float64(got)-exact) > 2e-6*size {
						t.Fatalf("%v: token %d, row %d: %g, in float64 %g", f, i, row, got, exact)
					}
				}
				for row := rows; row < PanelRows; row++ {
					if out[i*stride+row] != 0 {
						t.Fatalf("%v: a padding row gives %g", f, out[i*stride+row])
					}
				}
			}
		}
	}
}

// TestMatMulPanels: several panels at once are as each by itself, and nothing else is written.
func TestMatMulPanels(t *testing.T) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		r := newRand(31)
		for _, f := range Formats() {
			several := k.Weights[f].MatMulPanels
			if several == nil {
				continue
			}
			for tokens := 1; tokens <= k.Weights[f].PanelsTokens; tokens++ {
				for count := 1; count <= 9; count++ {
					cols := []int{2, 3, 64, 300, sideTestColumns}[(count+tokens)%5]
					size := f.PanelBytes(cols)
					panels := tail[byte](t, count*size)
					for p := range count {
						Pack(f, k.Offset, panels[p*size:][:size], randomRows(r, f, PanelRows, cols), PanelRows, cols)
					}
					x, _ := newTile(t, k, r, tokens, cols)
					stride := count*PanelRows + 3
					got, want := tail[float32](t, (tokens-1)*stride+count*PanelRows), make([]float32, tokens*stride)
					for i := range got {
						got[i] = 7
					}
					several(panels, count, x, got, stride, Prefetch{From: 8 << 10})
					for p := range count {
						scalar.Weights[f].MatMul(panels[p*size:][:size], x, want[p*PanelRows:], stride, Prefetch{})
					}
					for i := range tokens {
						for row := range stride {
							switch at := i*stride + row; {
							case row < count*PanelRows && !same(got[at], want[at]):
								t.Fatalf("%v, %d tokens, %d panels of %d columns: row %d is %g, want %g", f, tokens, count, cols, row,
									got[at], want[at])
							case row >= count*PanelRows && at < len(got) && got[at] != 7:
								t.Fatalf("%v: writes between tokens", f)
							}
						}
					}
				}
			}
		}
	})
}

// sideTestColumns is more than a kernel of several panels multiplies in one call, and than is prefetched.
const sideTestColumns = 2*2048 + 130

func literalQuantize(x []float32) (q []int, d float32) {
	var amax float32
	for _, e := range x {
		amax = max(amax, float32(math.Abs(float64(e))))
	}
	q = make([]int, len(x))
	if amax < 0x1p-100 {
		return q, 0
	}
	inv := 127 / amax
	for i, e := range x {
		q[i] = int(min(max(math.RoundToEven(float64(e*inv)), -127), 127))
	}
	return q, amax / 127
}

func TestQuantize(t *testing.T) {
	r := newRand(7)
	const cols = 96
	for _, scale := range []float64{1, 0x1p-99, 0x1p-101, 0x1p-140, 1e37} {
		var x Tile
		x.ResizeQuantized(3, cols)
		v := make([]float32, cols)
		for i := range 3 {
			normal(r, v, scale)
			v[5], v[6] = v[4]/2, -v[4]*3/2 // likely halves
			if !quantize(v, &x, i) {
				t.Fatal("refused")
			}
			for b := range cols / BlockSize {
				q, d := literalQuantize(v[b*BlockSize:][:BlockSize])
				at := b*3 + i
				var s [2]int
				for k, e := range q {
					if int(x.Q[at*BlockSize+k]) != e {
						t.Fatalf("block %d, element %d: %d, want %d", b, k, x.Q[at*BlockSize+k], e)
					}
					s[k/16] += e
				}
				got := fmt.Sprint(x.D[at], x.Bias[at], x.DSum[at], x.Half[2*at], x.Half[2*at+1])
				if want := fmt.Sprint(d, -128*(s[0]+s[1]), d*float32(s[0]+s[1]), -32*s[0], -32*s[1]); got != want {
					t.Fatalf("block %d: D Bias DSum Half %s, want %s", b, got, want)
				}
			}
		}
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			for at := range cols {
				w := make([]float32, cols)
				w[at] = float32(bad)
				if quantize(w, &x, 1) {
					t.Fatalf("%g at %d accepted", bad, at)
				}
			}
		}
	}
}
