package recurrent

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// KimiDelta is Kimi delta attention (arXiv:2510.26692) as a recurrence: a gated delta net with a decay for each number
// of a key. A unit is a head. Its state is the last taps-1 inputs of the convolution, and [S keys][S values]. A
// token's input is q, k and v before the convolution, what the decays are made of, and beta.
//
// What a number of a key decays by is exp(A softplus(x + bias)) or, with a floor below 0 of the exponents,
// exp(floor sigmoid(A (x + bias))).
type KimiDelta struct {
	KimiSizes
	filters    []float32 // [H][Taps][3S]
	bias, a    []float32 // [H*S], [H]
	eps, scale float32
	floor      float32 // 0: none
}

// KimiSizes are those of Kimi delta attention.
type KimiSizes struct {
	Heads int // H
	Size  int // S, of a head
	Taps  int // of the convolution
}

// NewKimiDelta makes the recurrence of the floor, the filters of queries, keys and values, each [H*S][taps], biases of
// the decays [H*S] and A [H].
func NewKimiDelta(s KimiSizes, eps, floor float32, filters [3][]float32, bias, a []float32) *KimiDelta {
	m := &KimiDelta{KimiSizes: s, bias: bias, a: a, eps: eps, floor: floor,
		scale: float32(1 / math.Sqrt(float64(s.Size)))}
	for h := range s.Heads {
		for tap := range s.Taps {
			for _, f := range filters {
				for i := range s.Size {
					m.filters = append(m.filters, f[(h*s.Size+i)*s.Taps+tap])
				}
			}
		}
	}
	return m
}

func (m *KimiDelta) shape() sizes {
	return sizes{units: m.Heads, state: (m.Taps-1)*3*m.Size + m.Size*m.Size,
		inputs: [inputParts]int{3 * m.Heads * m.Size, m.Heads * m.Size, m.Heads}, output: m.Heads * m.Size,
		scratch: convolved(3*m.Size, m.Taps) + m.Size + 1}
}

func (m *KimiDelta) scan(t *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32,
	scratch *scanScratch) {
	s, n := m.Size, 3*m.Size
	keep := state[(m.Taps-1)*n:]
	gather := func(dst, all []float32) []float32 {
		for part := range 3 {
			dst = append(dst, all[(part*m.Heads+unit)*s:][:s]...)
		}
		return dst
	}
	x, rest := scratch.convolve(t, in, gather, state[:(m.Taps-1)*n], m.filters[unit*m.Taps*n:(unit+1)*m.Taps*n], nil, n)
	discarded, beta := rest[:s], rest[s:s+1]
	for i := range in {
		row := x[i*n : (i+1)*n]
		t.L2Norm(row[:s], m.eps)
		t.L2Norm(row[s:2*s], m.eps)
		for key := range s { // the decays of the keys, before what the kernel does without one
			at := unit*s + key
			tensor.DecayKey(keep, s, s, key, m.decay(unit, in[i][1][at]+m.bias[at]))
		}
		beta[0] = tensor.Sigmoid(in[i][2][unit])
		d := &scratch.delta
		*d = tensor.DeltaTokens{Out: discarded, Q: row, K: row[s:], V: row[2*s:], Stride: n, Decay: undecayed,
			Beta: beta, Scale: m.scale, Tokens: 1}
		if out != nil {
			d.Out, d.OutStride = out[i*m.Heads*s+unit*s:], m.Heads*s
		}
		t.DeltaScan(keep, s, s, d)
	}
}

// decay is what a number of a head's keys decays by, of x + bias.
func (m *KimiDelta) decay(head int, x float32) float32 {
	if m.floor < 0 {
		return tensor.Exp(m.floor * tensor.Sigmoid(m.a[head]*x))
	}
	return tensor.Exp(m.a[head] * tensor.Softplus(x))
}

// undecayed is the decay of a state that has decayed already.
var undecayed = []float32{1}
