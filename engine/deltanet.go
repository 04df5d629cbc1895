package engine

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// qwen35 is Qwen 3.5: gated delta nets, and gated attention in every fourth layer.
func qwen35(l *loader, c *Config) family {
	f := qwen3(l, c)
	l.has("rope.dimension_sections") // for text the positions of all sections are equal
	f.ffnNorm, f.gates = "post_attention_norm", true
	s := l.mambaSizes()
	if l.ok() && s.inner != s.state*s.heads {
		l.fail("ssm.inner_size", ErrValue, "%d, %d heads of %d", s.inner, s.heads, s.state)
	}
	recurrent := l.recurrentLayers()
	f.mixer = func(i int) mixer {
		if !l.ok() || !recurrent(i) {
			return nil
		}
		return l.deltaNet(c, i, s)
	}
	return f
}

// qwen35MoE is Qwen 3.5 with experts: a choice of them, and a further one that a gate decides about.
func qwen35MoE(l *loader, c *Config) family {
	f := qwen35(l, c)
	f.experts = l.experts(c, expertOptions{
		width:  l.integerOr("expert_feed_forward_length", c.FeedForward/max(1, l.integerOr("expert_used_count", 1))),
		shared: l.integerOr("expert_shared_feed_forward_length", c.FeedForward), sharedGate: true, normalize: true,
	})
	if l.ok() && f.experts == nil {
		l.fail("expert_count", ErrValue, "0")
	}
	return f
}

// recurrentLayers says which layers of qwen35 are recurrent: attention.recurrent_layers, or all but every n-th.
func (l *loader) recurrentLayers() func(layer int) bool {
	const key = "attention.recurrent_layers"
	interval := l.integerOr("full_attention_interval", 4)
	if v, ok := l.f.Value(l.arch + "." + key); ok {
		l.keys[key] = true
		list, ok := v.([]bool)
		if !ok || len(list) < l.layers {
			l.fail(key, ErrValue, "expected a bool for each of %d blocks", l.layers)
			return nil
		}
		return func(layer int) bool { return list[layer] }
	}
	if l.ok() && interval < 1 {
		l.fail("full_attention_interval", ErrValue, "%d", interval)
	}
	return func(layer int) bool { return (layer+1)%interval != 0 }
}

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
	m.norm = norm{kind: rmsNorm, eps: c.Epsilon, w: l.vector(n+"ssm_norm.weight", s.state)}
	m.out = l.linear(n+"ssm_out", d, s.inner)
	if !l.ok() {
		return m
	}
	r := &deltaHeads{mambaSizes: s, each: s.heads / s.groups, eps: c.Epsilon, scale: float32(1 / math.Sqrt(float64(s.state)))}
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
	in, out := p.matrix(&p.up, conv+2*s.heads), p.matrix(&p.a, s.inner)
	p.matmul(h, c.HiddenSize, m.qkv.times(qkv), m.gate.times(z), m.alpha.times(alpha), m.beta.times(beta))
	if p.err != nil {
		return
	}
	for i := range p.rows() { // what the recurrence takes: q, k, v, the decay g and beta
		row := in[i*(conv+2*s.heads):][:conv+2*s.heads]
		copy(row, qkv[i*conv:(i+1)*conv])
		for j := range s.heads {
			dt := tensor.Softplus(alpha[i*s.heads+j] + m.dtBias[j])
			row[conv+j] = tensor.Exp(m.a[j] * dt)
			row[conv+s.heads+j] = tensor.Sigmoid(beta[i*s.heads+j])
		}
	}
	p.recur(m.id, out, in)
	p.norm(out, out, m.norm)
	p.gateMul(z, out, silu)
	p.matmul(z, s.inner, m.out.times(y))
}

// deltaHeads is a gated delta net as a recurrence. A unit is a head of queries and keys and the heads of values that use it: head h uses
// h mod NK. Its state is the last taps-1 inputs of the convolution, and [each][S keys][S values].
type deltaHeads struct {
	mambaSizes
	each       int // heads of values
	filters    []float32
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
		input: m.state*(2*m.groups+m.heads) + 2*m.heads, output: m.inner, scratch: 2 * n}
}

func (m *deltaHeads) step(t *tensor.Runtime, unit int, state, in, out []float32, scratch *stepScratch) {
	n, s := m.channels(), m.state
	raw, x := scratch.numbers[:0:n], scratch.numbers[n:2*n]
	raw = m.gather(raw, unit, in)
	history, heads := state[:(m.taps-1)*n], state[(m.taps-1)*n:]
	t.ConvStep(x, history, raw, m.filters[unit*m.taps*n:(unit+1)*m.taps*n])
	tensor.SiLU(x)
	q, k, v := x[:s], x[s:2*s], x[2*s:]
	tensor.L2Norm(q, m.eps)
	tensor.L2Norm(k, m.eps)
	decay, beta := in[len(in)-2*m.heads:], in[len(in)-m.heads:]
	for i := range m.each {
		h := unit + i*m.groups
		var y []float32
		if out != nil {
			y = out[h*s : (h+1)*s]
		}
		t.DeltaStep(y, heads[i*s*s:(i+1)*s*s], q, k, v[i*s:(i+1)*s], decay[h], beta[h], &scratch.step)
		for j := range y {
			y[j] *= m.scale
		}
	}
}
