package engine

import "github.com/specgo/spec/engine/internal/recurrent"

// deltaNet is a gated delta net (Yang et al. 2024, arXiv:2412.06464).
type deltaNet struct {
	qkv         linear // [S(2NK+NV)][D] before the convolution
	gate        linear // [S*NV][D] z
	alpha, beta linear // [NV][D]
	norm        norm   // over a head
	out         linear // [D][S*NV]
	sizes       recurrent.HeadSizes
	id          int // of the model's recurrent layers
}

func (l *loader) deltaNet(c *Config, i int, s recurrent.HeadSizes) *deltaNet {
	n, d, conv := l.block(i), c.HiddenSize, s.State*(2*s.Groups+s.Heads)
	m := &deltaNet{sizes: s}
	m.qkv = l.linear(n+"attn_qkv", conv, d)
	m.gate = l.linear(n+"attn_gate", s.Inner, d)
	m.alpha, m.beta = l.linear(n+"ssm_alpha", s.Heads, d), l.linear(n+"ssm_beta", s.Heads, d)
	l.finishDeltaNet(m, c, i, false)
	return m
}

// finishDeltaNet reads what comes after the matrices of layer i's inputs.
func (l *loader) finishDeltaNet(m *deltaNet, c *Config, i int, neighbours bool) {
	n, s := l.block(i), m.sizes
	dtBias, a := l.vector(n+"ssm_dt.bias", s.Heads), l.vector(n+"ssm_a", s.Heads)
	filters := l.filters(n+"ssm_conv1d.weight", s.Taps, s.State*(2*s.Groups+s.Heads))
	m.norm = norm{kind: rmsNorm{}, eps: c.Epsilon, w: l.vector(n+"ssm_norm.weight", s.State)}
	m.out = l.linear(n+"ssm_out", c.HiddenSize, s.Inner)
	if l.ok() {
		m.id = l.recur(i, recurrent.NewDeltaNet(s, neighbours, c.Epsilon, filters, dtBias, a))
	}
}

func (m *deltaNet) forward(p *pass, c *Config, y, h []float32) {
	qkv, z, alpha, beta := m.inputs(p, c, h)
	m.finish(p, y, qkv, z, alpha, beta)
}

// inputs is what the matrices make of the block's input.
func (m *deltaNet) inputs(p *pass, c *Config, h []float32) (qkv, z, alpha, beta []float32) {
	s := m.sizes
	qkv, z = p.matrix(&p.q, s.State*(2*s.Groups+s.Heads)), p.matrix(&p.gate, s.Inner)
	alpha, beta = p.matrix(&p.k, s.Heads), p.matrix(&p.v, s.Heads)
	p.matmul(h, c.HiddenSize, m.qkv.times(qkv), m.gate.times(z), m.alpha.times(alpha), m.beta.times(beta))
	return qkv, z, alpha, beta
}

// finish computes y of what the matrices have made of the block's input.
func (m *deltaNet) finish(p *pass, y, qkv, z, alpha, beta []float32) {
	out := m.scan(p, qkv, alpha, beta)
	p.gateMul(z, out, silu)
	p.matmul(z, m.sizes.Inner, m.out.times(y))
}

// scan is what the recurrence makes of its inputs, normalized.
func (m *deltaNet) scan(p *pass, qkv, alpha, beta []float32) []float32 {
	out := p.matrix(&p.a, m.sizes.Inner)
	p.recur(m.id, out, qkv, alpha, beta)
	p.norm(out, out, m.norm)
	return out
}
