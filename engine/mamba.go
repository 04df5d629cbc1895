package engine

import "github.com/specgo/spec/engine/internal/recurrent"

// mambaSizes reads the hyperparameters of Mamba-2 and gated delta nets.
func (l *loader) mambaSizes() recurrent.HeadSizes {
	s := recurrent.HeadSizes{
		Inner: l.integer("ssm.inner_size"), State: l.integer("ssm.state_size"), Heads: l.integer("ssm.time_step_rank"),
		Groups: l.integer("ssm.group_count"), Taps: l.integer("ssm.conv_kernel"),
	}
	switch {
	case !l.ok():
	case s.Inner%s.Heads != 0:
		l.fail("ssm.time_step_rank", ErrValue, "%d numbers cannot be shared by %d heads", s.Inner, s.Heads)
	case s.Heads%s.Groups != 0:
		l.fail("ssm.group_count", ErrValue, "%d heads cannot be shared by %d groups", s.Heads, s.Groups)
	}
	l.tooLarge("ssm.state_size", s.Inner, s.State)
	l.tooLarge("ssm.conv_kernel", s.Inner+2*s.Groups*s.State, s.Taps)
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

func (l *loader) mamba2(c *Config, i int, s recurrent.HeadSizes) *mamba2 {
	n, conv := l.block(i), s.Inner+2*s.Groups*s.State
	m := &mamba2{inner: s.Inner, width: conv + s.Heads}
	parts := l.split(n+"ssm_in.weight", c.HiddenSize, s.Inner, m.width)
	filters := l.filters(n+"ssm_conv1d.weight", s.Taps, conv)
	bias := l.vector(n+"ssm_conv1d.bias", conv)
	dtBias := l.vector(n+"ssm_dt.bias", s.Heads)
	a := l.floats(n+"ssm_a", 1, s.Heads)
	skip := l.floats(n+"ssm_d", 1, s.Heads)
	if l.holds(n + "ssm_norm.weight") {
		group := s.Inner / s.Groups
		m.norm = norm{kind: rmsNorm{}, eps: c.Epsilon, w: ones(group), own: l.floats(n+"ssm_norm.weight", group, s.Groups)}
	}
	m.out = l.linear(n+"ssm_out", c.HiddenSize, s.Inner)
	if !l.ok() {
		return m
	}
	m.gate, m.in = parts[0], parts[1]
	m.id = l.recur(i, recurrent.NewMamba2(s, filters, bias, dtBias, a, skip))
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
