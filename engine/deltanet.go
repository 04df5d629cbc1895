package engine

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// deltaNet is a gated delta net (Yang et al. 2024, arXiv:2412.06464).
type deltaNet struct {
	qkv         linear // [S(2NK+NV)][D] before the convolution
	gate        linear // [S*NV][D] z
	alpha, beta linear // [NV][D]
	dtBias, a   []float32
	norm        norm   // over a head
	out         linear // [D][S*NV]
	sizes       mambaSizes
	id          int // of the model's recurrent layers
}

func (l *loader) deltaNet(c *Config, i int, s mambaSizes) *deltaNet {
	n, d, conv := l.block(i), c.HiddenSize, s.state*(2*s.groups+s.heads)
	m := &deltaNet{sizes: s}
	m.qkv = l.linear(n+"attn_qkv", conv, d)
	m.gate = l.linear(n+"attn_gate", s.inner, d)
	m.alpha, m.beta = l.linear(n+"ssm_alpha", s.heads, d), l.linear(n+"ssm_beta", s.heads, d)
	m.dtBias, m.a = l.vector(n+"ssm_dt.bias", s.heads), l.vector(n+"ssm_a", s.heads)
	filters := l.filters(n+"ssm_conv1d.weight", s.taps, conv)
	m.norm = norm{kind: rmsNorm{}, eps: c.Epsilon, w: l.vector(n+"ssm_norm.weight", s.state)}
	m.out = l.linear(n+"ssm_out", d, s.inner)
	if !l.ok() {
		return m
	}
	r := &deltaHeads{mambaSizes: s, each: s.heads / s.groups, eps: c.Epsilon, scale: float32(1 / math.Sqrt(float64(s.state))), dtBias: m.dtBias, a: m.a}
	for u := range s.groups {
		for tap := range s.taps {
			r.filters = r.gather(r.filters, u, filters[tap*conv:(tap+1)*conv])
		}
	}
	m.id = l.recur(i, r)
	return m
}

func (m *deltaNet) forward(p *pass, c *Config, y, h []float32) {
	s := m.sizes
	conv := s.state * (2*s.groups + s.heads)
	qkv, z := p.matrix(&p.q, conv), p.matrix(&p.gate, s.inner)
	alpha, beta := p.matrix(&p.k, s.heads), p.matrix(&p.v, s.heads)
	out := p.matrix(&p.a, s.inner)
	p.matmul(h, c.HiddenSize, m.qkv.times(qkv), m.gate.times(z), m.alpha.times(alpha), m.beta.times(beta))
	p.recur(m.id, out, qkv, alpha, beta)
	p.norm(out, out, m.norm)
	p.gateMul(z, out, silu)
	p.matmul(z, s.inner, m.out.times(y))
}

// deltaHeads is a gated delta net as a recurrence. A unit is a head of queries and keys and the heads of values that use it: head h uses
// h mod NK. Its state is the last taps-1 inputs of the convolution, and [each][S keys][S values]. A token's input is q, k and v before the
// convolution, alpha and beta.
type deltaHeads struct {
	mambaSizes
	each       int // heads of values
	filters    []float32
	dtBias, a  []float32 // [NV]
	eps, scale float32
}

// channels is the number of a unit's channels.
func (m *deltaHeads) channels() int { return (2 + m.each) * m.state }

// gather appends what a unit has of all channels: its queries, keys and values.
func (m *deltaHeads) gather(dst []float32, unit int, all []float32) []float32 {
	head := func(h int) []float32 { return all[h*m.state : (h+1)*m.state] }
	dst = append(append(dst, head(unit)...), head(m.groups+unit)...)
	for i := range m.each {
		dst = append(dst, head(2*m.groups+unit+i*m.groups)...)
	}
	return dst
}

func (m *deltaHeads) shape() recurrentShape {
	n := m.channels()
	return recurrentShape{units: m.groups, state: (m.taps-1)*n + m.each*m.state*m.state,
		inputs: [inputParts]int{m.state * (2*m.groups + m.heads), m.heads, m.heads}, output: m.inner,
		scratch: convolved(n, m.taps) + 2*scanTokens + m.state}
}

func (m *deltaHeads) scan(t *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32, scratch *scanScratch) {
	n, s := m.channels(), m.state
	heads := state[(m.taps-1)*n:]
	x, rest := scratch.convolve(t, in, func(dst []float32, all []float32) []float32 { return m.gather(dst, unit, all) },
		state[:(m.taps-1)*n], m.filters[unit*m.taps*n:(unit+1)*m.taps*n], nil, n)
	for i := range in {
		t.L2Norm(x[i*n:][:s], m.eps)
		t.L2Norm(x[i*n+s:][:s], m.eps)
	}
	decay, beta, discarded := rest[:len(in)], rest[scanTokens:][:len(in)], rest[2*scanTokens:][:s]
	d := &scratch.delta
	for i := range m.each {
		h := unit + i*m.groups
		for j := range in {
			decay[j] = tensor.Exp(m.a[h] * tensor.Softplus(in[j][1][h]+m.dtBias[h]))
			beta[j] = tensor.Sigmoid(in[j][2][h])
		}
		*d = tensor.DeltaTokens{Out: discarded, Q: x, K: x[s:], V: x[(2+i)*s:], Stride: n, Decay: decay, Beta: beta, Scale: m.scale, Tokens: len(in)}
		if out != nil {
			d.Out, d.OutStride = out[h*s:], m.inner
		}
		t.DeltaScan(heads[i*s*s:(i+1)*s*s], s, s, d)
	}
}
