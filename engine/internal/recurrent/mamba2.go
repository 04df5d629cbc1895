package recurrent

import "github.com/specgo/spec/tensor"

// HeadSizes are the sizes of heads of Mamba-2 or a gated delta net. A head has Inner/Heads numbers; Heads/Groups
// heads share what a group has.
type HeadSizes struct {
	Inner  int // I
	State  int // S: of each number of a head
	Heads  int // N
	Groups int // G
	Taps   int // of the convolution
}

// Mamba2 is Mamba-2 as a recurrence. A unit is a few heads of a group; it has the convolution of its x and of the
// group's b and c. Its state is the last taps-1 inputs of the convolution, and [each][S][dim].
type Mamba2 struct {
	HeadSizes
	dim             int // P = I/N
	each            int // heads of a unit
	filters, biases []float32
	dtBias, a, skip []float32 // [N]
}

// unitHeads is how many heads a unit has at most: they share the convolution of b and c.
const unitHeads = 8

// NewMamba2 makes the recurrence of filters [taps][channels] and biases of the convolution, biases of the steps, A
// and D [N].
func NewMamba2(s HeadSizes, filters, biases, dtBias, a, skip []float32) *Mamba2 {
	m := &Mamba2{HeadSizes: s, dim: s.Inner / s.Heads, each: 1, dtBias: dtBias, a: a, skip: skip}
	for n := unitHeads; n > 1; n /= 2 {
		if m.Heads/m.Groups%n == 0 && m.Heads/n >= min(m.Heads, 4) {
			m.each = n
			break
		}
	}
	channels := m.Inner + 2*m.Groups*m.State
	for u := range m.Heads / m.each {
		for tap := range m.Taps {
			m.filters = m.gather(m.filters, u, filters[tap*channels:(tap+1)*channels])
		}
		m.biases = m.gather(m.biases, u, biases)
	}
	return m
}

// channels is the number of a unit's channels.
func (m *Mamba2) channels() int { return m.each*m.dim + 2*m.State }

// gather appends what a unit has of all channels: its heads' x, its group's b and c.
func (m *Mamba2) gather(dst []float32, unit int, all []float32) []float32 {
	n, group := m.each*m.dim, unit*m.each/(m.Heads/m.Groups)
	dst = append(dst, all[unit*n:(unit+1)*n]...)
	b := all[m.Inner+group*m.State:]
	c := all[m.Inner+(m.Groups+group)*m.State:]
	return append(append(dst, b[:m.State]...), c[:m.State]...)
}

func (m *Mamba2) shape() sizes {
	n := m.channels()
	return sizes{units: m.Heads / m.each, state: (m.Taps-1)*n + m.each*m.State*m.dim,
		inputs: [inputParts]int{m.Inner + 2*m.Groups*m.State + m.Heads}, output: m.Inner, scratch: convolved(n,
			m.Taps) + 2*scanTokens + m.dim}
}

func (m *Mamba2) scan(t *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32,
	scratch *scanScratch) {
	n := m.channels()
	heads := state[(m.Taps-1)*n:]
	x, rest := scratch.convolve(t, in, func(dst []float32, all []float32) []float32 { return m.gather(dst, unit, all) },
		state[:(m.Taps-1)*n], m.filters[unit*m.Taps*n:(unit+1)*m.Taps*n], m.biases[unit*n:(unit+1)*n], n)
	step, decay, discarded := rest[:len(in)], rest[scanTokens:][:len(in)], rest[2*scanTokens:][:m.dim]
	d := &scratch.mamba
	for i := range m.each {
		h := unit*m.each + i
		for j := range in {
			dt := in[j][0][len(in[j][0])-m.Heads+h]
			step[j] = tensor.Softplus(dt + m.dtBias[h])
			decay[j] = tensor.Exp(step[j] * m.a[h])
		}
		*d = tensor.Mamba2Tokens{Out: discarded, X: x[i*m.dim:], B: x[m.each*m.dim:], C: x[m.each*m.dim+m.State:], Stride: n,
			Step: step, Decay: decay, Skip: m.skip[h], Tokens: len(in)}
		if out != nil {
			d.Out, d.OutStride = out[h*m.dim:], m.Inner
		}
		t.Mamba2Scan(heads[i*m.State*m.dim:(i+1)*m.State*m.dim], m.State, m.dim, d)
	}
}
