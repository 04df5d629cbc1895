package recurrent

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// DeltaNet is a gated delta net as a recurrence. A unit is a head of queries and keys and the heads of values that
// use it: head h uses h mod NK, or, where those of a unit are neighbours, h div (NV/NK). Its state is the last taps-1
// inputs of the convolution, and [each][S keys][S values]. A token's input is q, k and v before the convolution, alpha
// and beta.
type DeltaNet struct {
	HeadSizes
	each       int  // heads of values
	neighbours bool // those of a unit are
	filters    []float32
	dtBias, a  []float32 // [NV]
	eps, scale float32
}

// NewDeltaNet makes the recurrence of filters [taps][channels], biases of the steps and A [NV].
func NewDeltaNet(s HeadSizes, neighbours bool, eps float32, filters, dtBias, a []float32) *DeltaNet {
	m := &DeltaNet{HeadSizes: s, each: s.Heads / s.Groups, neighbours: neighbours, eps: eps,
		scale:  float32(1 / math.Sqrt(float64(s.State))),
		dtBias: dtBias, a: a}
	conv := s.State * (2*s.Groups + s.Heads)
	for u := range s.Groups {
		for tap := range s.Taps {
			m.filters = m.gather(m.filters, u, filters[tap*conv:(tap+1)*conv])
		}
	}
	return m
}

// channels is the number of a unit's channels.
func (m *DeltaNet) channels() int { return (2 + m.each) * m.State }

// gather appends what a unit has of all channels: its queries, keys and values.
func (m *DeltaNet) gather(dst []float32, unit int, all []float32) []float32 {
	head := func(h int) []float32 { return all[h*m.State : (h+1)*m.State] }
	dst = append(append(dst, head(unit)...), head(m.Groups+unit)...)
	for i := range m.each {
		dst = append(dst, head(2*m.Groups+m.value(unit, i))...)
	}
	return dst
}

// value is the i-th of a unit's heads of values.
func (m *DeltaNet) value(unit, i int) int {
	if m.neighbours {
		return unit*m.each + i
	}
	return unit + i*m.Groups
}

func (m *DeltaNet) shape() sizes {
	n := m.channels()
	return sizes{units: m.Groups, state: (m.Taps-1)*n + m.each*m.State*m.State,
		inputs: [inputParts]int{m.State * (2*m.Groups + m.Heads), m.Heads, m.Heads}, output: m.Inner,
		scratch: convolved(n, m.Taps) + 2*scanTokens + m.State}
}

func (m *DeltaNet) scan(t *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32,
	scratch *scanScratch) {
	n, s := m.channels(), m.State
	heads := state[(m.Taps-1)*n:]
	x, rest := scratch.convolve(t, in, func(dst []float32, all []float32) []float32 { return m.gather(dst, unit, all) },
		state[:(m.Taps-1)*n], m.filters[unit*m.Taps*n:(unit+1)*m.Taps*n], nil, n)
	for i := range in {
		t.L2Norm(x[i*n:][:s], m.eps)
		t.L2Norm(x[i*n+s:][:s], m.eps)
	}
	decay, beta, discarded := rest[:len(in)], rest[scanTokens:][:len(in)], rest[2*scanTokens:][:s]
	d := &scratch.delta
	for i := range m.each {
		h := m.value(unit, i)
		for j := range in {
			decay[j] = tensor.Exp(m.a[h] * tensor.Softplus(in[j][1][h]+m.dtBias[h]))
			beta[j] = tensor.Sigmoid(in[j][2][h])
		}
		*d = tensor.DeltaTokens{Out: discarded, Q: x, K: x[s:], V: x[(2+i)*s:], Stride: n, Decay: decay, Beta: beta,
			Scale: m.scale, Tokens: len(in)}
		if out != nil {
			d.Out, d.OutStride = out[h*s:], m.Inner
		}
		t.DeltaScan(heads[i*s*s:(i+1)*s*s], s, s, d)
	}
}
