package engine

import (
	"github.com/specgo/spec/tensor"
)

// mambaSizes are the hyperparameters of Mamba-2. A head has inner/heads numbers; heads/groups heads share b and c.
type mambaSizes struct {
	inner  int // I
	state  int // S: of each number of a head
	heads  int // N
	groups int // G
	taps   int // of the convolution
}

func (l *loader) mambaSizes() mambaSizes {
	s := mambaSizes{l.integer("ssm.inner_size"), l.integer("ssm.state_size"), l.integer("ssm.time_step_rank"), l.integer("ssm.group_count"), l.integer("ssm.conv_kernel")}
	switch {
	case !l.ok():
	case s.inner%s.heads != 0:
		l.fail("ssm.time_step_rank", ErrValue, "%d numbers cannot be shared by %d heads", s.inner, s.heads)
	case s.heads%s.groups != 0:
		l.fail("ssm.group_count", ErrValue, "%d heads cannot be shared by %d groups", s.heads, s.groups)
	}
	l.tooLarge("ssm.state_size", s.inner, s.state)
	l.tooLarge("ssm.conv_kernel", s.inner+2*s.groups*s.state, s.taps)
	return s
}

// tooLarge refuses a state of so many numbers that it cannot be meant: a session has several of each layer.
func (l *loader) tooLarge(key string, a, b int) {
	if l.ok() && (a > largest || a*b > largest) {
		l.fail(key, ErrValue, "a state of %d times %d numbers", a, b)
	}
}

// mamba2 is a Mamba-2 layer (Dao and Gu 2024, arXiv:2405.21060).
type mamba2 struct {
	gate  linear // [I][D] z
	in    linear // [I+2GS+N][D] x, b, c before the convolution, and dt
	norm  norm   // over a group; or none
	out   linear // [D][I]
	inner int
	width int // I+2GS+N
	id    int // of the model's recurrent layers
}

func (l *loader) mamba2(c *Config, i int, s mambaSizes) *mamba2 {
	n, conv := l.block(i), s.inner+2*s.groups*s.state
	m := &mamba2{inner: s.inner, width: conv + s.heads}
	parts := l.split(n+"ssm_in.weight", c.HiddenSize, s.inner, m.width)
	r := &mambaHeads{mambaSizes: s, dim: s.inner / s.heads}
	filters := l.filters(n+"ssm_conv1d.weight", s.taps, conv)
	bias := l.vector(n+"ssm_conv1d.bias", conv)
	r.dtBias = l.vector(n+"ssm_dt.bias", s.heads)
	r.a = l.floats(n+"ssm_a", 1, s.heads)
	r.skip = l.floats(n+"ssm_d", 1, s.heads)
	if l.holds(n + "ssm_norm.weight") {
		group := s.inner / s.groups
		m.norm = norm{kind: rmsNorm{}, eps: c.Epsilon, w: ones(group), own: l.floats(n+"ssm_norm.weight", group, s.groups)}
	}
	m.out = l.linear(n+"ssm_out", c.HiddenSize, s.inner)
	if !l.ok() {
		return m
	}
	m.gate.w, m.in.w = parts[0], parts[1]
	r.arrange(filters, bias)
	m.id = l.recur(i, r)
	return m
}

func (m *mamba2) forward(p *pass, c *Config, y, h []float32) {
	z, in, out := p.matrix(&p.gate, m.inner), p.matrix(&p.q, m.width), p.matrix(&p.a, m.inner)
	p.matmul(h, c.HiddenSize, m.gate.times(z), m.in.times(in))
	p.recur(m.id, out, in)
	p.gateMul(z, out, silu)
	p.norm(z, z, m.norm)
	p.matmul(z, m.inner, m.out.times(y))
}

// mambaHeads is Mamba-2 as a recurrence. A unit is a few heads of a group; it has the convolution of its x and of the group's b and c.
// Its state is the last taps-1 inputs of the convolution, and [each][S][dim].
type mambaHeads struct {
	mambaSizes
	dim             int // P = I/N
	each            int // heads of a unit
	filters, biases []float32
	dtBias, a, skip []float32 // [N]
}

// unitHeads is how many heads a unit has at most: they share the convolution of b and c.
const unitHeads = 8

// arrange cuts the filters [taps][channels] and biases of the convolution into units.
func (m *mambaHeads) arrange(filters, biases []float32) {
	m.each = 1
	for n := unitHeads; n > 1; n /= 2 {
		if m.heads/m.groups%n == 0 && m.heads/n >= min(m.heads, 4) {
			m.each = n
			break
		}
	}
	channels := m.inner + 2*m.groups*m.state
	for u := range m.heads / m.each {
		for tap := range m.taps {
			m.filters = m.gather(m.filters, u, filters[tap*channels:(tap+1)*channels])
		}
		m.biases = m.gather(m.biases, u, biases)
	}
}

// channels is the number of a unit's channels.
func (m *mambaHeads) channels() int { return m.each*m.dim + 2*m.state }

// gather appends what a unit has of all channels: its heads' x, its group's b and c.
func (m *mambaHeads) gather(dst []float32, unit int, all []float32) []float32 {
	n, group := m.each*m.dim, unit*m.each/(m.heads/m.groups)
	dst = append(dst, all[unit*n:(unit+1)*n]...)
	b := all[m.inner+group*m.state:]
	c := all[m.inner+(m.groups+group)*m.state:]
	return append(append(dst, b[:m.state]...), c[:m.state]...)
}

func (m *mambaHeads) shape() recurrentShape {
	n := m.channels()
	return recurrentShape{units: m.heads / m.each, state: (m.taps-1)*n + m.each*m.state*m.dim,
		inputs: [inputParts]int{m.inner + 2*m.groups*m.state + m.heads}, output: m.inner, scratch: convolved(n, m.taps) + 2*scanTokens + m.dim}
}

func (m *mambaHeads) scan(t *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32, scratch *scanScratch) {
	n := m.channels()
	heads := state[(m.taps-1)*n:]
	x, rest := scratch.convolve(t, in, func(dst []float32, all []float32) []float32 { return m.gather(dst, unit, all) },
		state[:(m.taps-1)*n], m.filters[unit*m.taps*n:(unit+1)*m.taps*n], m.biases[unit*n:(unit+1)*n], n)
	step, decay, discarded := rest[:len(in)], rest[scanTokens:][:len(in)], rest[2*scanTokens:][:m.dim]
	d := &scratch.mamba
	for i := range m.each {
		h := unit*m.each + i
		for j := range in {
			dt := in[j][0][len(in[j][0])-m.heads+h]
			step[j] = tensor.Softplus(dt + m.dtBias[h])
			decay[j] = tensor.Exp(step[j] * m.a[h])
		}
		*d = tensor.Mamba2Tokens{Out: discarded, X: x[i*m.dim:], B: x[m.each*m.dim:], C: x[m.each*m.dim+m.state:], Stride: n,
			Step: step, Decay: decay, Skip: m.skip[h], Tokens: len(in)}
		if out != nil {
			d.Out, d.OutStride = out[h*m.dim:], m.inner
		}
		t.Mamba2Scan(heads[i*m.state*m.dim:(i+1)*m.state*m.dim], m.state, m.dim, d)
	}
}
