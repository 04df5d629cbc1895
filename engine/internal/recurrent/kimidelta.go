package recurrent

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// KimiDelta is Kimi delta attention (arXiv:2510.26692) as a recurrence: a gated delta net with a decay for each number
// of a key. A unit is a head. Its state is the last taps-1 inputs of the convolution, and [S keys][S values]. A
// token's input is q, k and v before the convolution, what the decays are made of, and beta.
type KimiDelta struct {
	heads, size, taps int
	filters           []float32 // [H][taps][3S]
	bias, a           []float32 // [H*S], [H]
	eps, scale        float32
}

// NewKimiDelta makes the recurrence of the filters of queries, keys and values, each [H*S][taps], biases of the decays
// [H*S] and A [H].
func NewKimiDelta(heads, size, taps int, eps float32, filters [3][]float32, bias, a []float32) *KimiDelta {
	m := &KimiDelta{heads: heads, size: size, taps: taps, bias: bias, a: a, eps: eps,
		scale: float32(1 / math.Sqrt(float64(size)))}
	for h := range heads {
		for tap := range taps {
			for _, f := range filters {
				for i := range size {
					m.filters = append(m.filters, f[(h*size+i)*taps+tap])
				}
			}
		}
	}
	return m
}

func (m *KimiDelta) shape() sizes {
	return sizes{units: m.heads, state: (m.taps-1)*3*m.size + m.size*m.size,
		inputs: [inputParts]int{3 * m.heads * m.size, m.heads * m.size, m.heads}, output: m.heads * m.size,
		scratch: convolved(3*m.size, m.taps) + m.size + 1}
}

func (m *KimiDelta) scan(t *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32,
	scratch *scanScratch) {
	s, n := m.size, 3*m.size
	keep := state[(m.taps-1)*n:]
	gather := func(dst, all []float32) []float32 {
		for part := range 3 {
			dst = append(dst, all[(part*m.heads+unit)*s:][:s]...)
		}
		return dst
	}
	x, rest := scratch.convolve(t, in, gather, state[:(m.taps-1)*n], m.filters[unit*m.taps*n:(unit+1)*m.taps*n], nil, n)
	discarded, beta := rest[:s], rest[s:s+1]
	for i := range in {
		row := x[i*n : (i+1)*n]
		t.L2Norm(row[:s], m.eps)
		t.L2Norm(row[s:2*s], m.eps)
		for key := range s { // the decays of the keys, before what the kernel does without one
			at := unit*s + key
			tensor.DecayKey(keep, s, s, key, tensor.Exp(m.a[unit]*tensor.Softplus(in[i][1][at]+m.bias[at])))
		}
		beta[0] = tensor.Sigmoid(in[i][2][unit])
		d := &scratch.delta
		*d = tensor.DeltaTokens{Out: discarded, Q: row, K: row[s:], V: row[2*s:], Stride: n, Decay: undecayed,
			Beta: beta, Scale: m.scale, Tokens: 1}
		if out != nil {
			d.Out, d.OutStride = out[i*m.heads*s+unit*s:], m.heads*s
		}
		t.DeltaScan(keep, s, s, d)
	}
}

// undecayed is the decay of a state that has decayed already.
var undecayed = []float32{1}
