package engine

import (
	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/tensor"
)

// mamba is Mamba (Gu and Dao 2023, arXiv:2312.00752) and Falcon Mamba (arXiv:2410.05355).
func mamba(l *loader, c *Config) family {
	s := l.selectiveSizes(c)
	return family{
		norms: normParts{kind: rmsNorm{}, at: atMixer},
		mixer: func(_ *build, i int) mixer { return l.selective(c, i, s) },
	}
}

// mamba2Only is Mamba-2 (Dao and Gu 2024, arXiv:2405.21060) in every layer.
func mamba2Only(l *loader, c *Config) family {
	s := l.mambaSizes()
	return family{
		norms: normParts{kind: rmsNorm{}, at: atMixer},
		mixer: func(_ *build, i int) mixer { return l.mamba2(c, i, s) },
	}
}

// jamba is Jamba (AI21 2024, arXiv:2403.19887): Mamba in most layers, attention without positions in the others, and
// experts in some.
func jamba(l *loader, c *Config) family {
	s := l.selectiveSizes(c)
	return family{
		norms: normParts{kind: rmsNorm{}},
		feed:  feedParts{gate: gated, experts: l.experts(c, expertOptions{width: c.FeedForward, dense: l.routerless})},
		mixer: func(_ *build, i int) mixer {
			if !l.ok() || l.kvHeads[i] > 0 {
				return nil
			}
			return l.selective(c, i, s)
		},
	}
}

// selectiveSizes are the sizes of a Mamba layer.
type selectiveSizes struct {
	inner, state, rank, taps int
	unit                     bool // the steps, B and C are normalized without weights
}

func (l *loader) selectiveSizes(c *Config) selectiveSizes {
	s := selectiveSizes{
		inner: l.integer("ssm.inner_size"), state: l.integer("ssm.state_size"), rank: l.integer("ssm.time_step_rank"),
		taps: l.integer("ssm.conv_kernel"), unit: l.boolOr("ssm.dt_b_c_rms", false),
	}
	l.integerOr("ssm.group_count", 0) // it says nothing
	if l.ok() && s.inner != 2*c.HiddenSize {
		l.fail("ssm.inner_size", ErrValue, "%d, twice the hidden size is %d", s.inner, 2*c.HiddenSize)
	}
	l.tooLarge("ssm.state_size", s.inner, s.state)
	l.tooLarge("ssm.conv_kernel", s.inner, s.taps)
	return s
}

// selective is a layer with a selective state space.
type selective struct {
	selectiveSizes
	in, gate             linear // [I][D]
	x                    linear // [R+2S][I]: what dt, B and C are made of
	dt                   linear // [I][R]
	dtNorm, bNorm, cNorm norm
	out                  linear // [D][I]
	conv, scan           int    // of the model's recurrent layers
}

func (l *loader) selective(c *Config, i int, s selectiveSizes) *selective {
	n := l.block(i)
	m := &selective{selectiveSizes: s}
	parts := l.split(n+"ssm_in.weight", c.HiddenSize, s.inner, s.inner)
	filters, bias := l.filters(n+"ssm_conv1d.weight", s.taps, s.inner), l.vector(n+"ssm_conv1d.bias", s.inner)
	m.x, m.dt = l.linear(n+"ssm_x", s.rank+2*s.state, s.inner), l.linear(n+"ssm_dt", s.inner, s.rank)
	m.dt.b = l.vector(n+"ssm_dt.bias", s.inner)
	read := func(name string, size int) norm {
		switch {
		case l.holds(n + name + ".weight"):
			return norm{kind: rmsNorm{}, eps: c.Epsilon, w: l.vector(n+name+".weight", size)}
		case s.unit:
			return norm{kind: rmsNorm{}, eps: c.Epsilon, w: ones(size)}
		}
		return norm{}
	}
	m.dtNorm, m.bNorm, m.cNorm = read("ssm_dt_norm", s.rank), read("ssm_b_norm", s.state), read("ssm_c_norm", s.state)
	a, skip := l.floats(n+"ssm_a", s.state, s.inner), l.vector(n+"ssm_d", s.inner)
	m.out = l.linear(n+"ssm_out", c.HiddenSize, s.inner)
	if !l.ok() {
		return m
	}
	m.in, m.gate = parts[0], parts[1]
	m.conv = l.recur(i, recurrent.NewActivated(filters, bias, s.taps, s.inner))
	m.scan = l.recur(i, recurrent.NewSelective(s.inner, s.state, a, skip))
	return m
}

func (m *selective) forward(p *pass, c *Config, y, h []float32) {
	in, z, u := p.matrix(&p.q, m.inner), p.matrix(&p.gate, m.inner), p.matrix(&p.a, m.inner)
	p.matmul(h, c.HiddenSize, m.in.times(in), m.gate.times(z))
	p.recur(m.conv, u, in)
	x := p.matrix(&p.k, m.rank+2*m.state)
	p.matmul(u, m.inner, m.x.times(x))
	dt, bc := p.matrix(&p.v, m.rank), p.matrix(&p.up, 2*m.state)
	b, last := p.matrix(&p.wide, m.state), p.matrix(&p.other, m.state)
	columns(dt, x, m.rank, 0, m.rank+2*m.state)
	columns(b, x, m.state, m.rank, m.rank+2*m.state)
	columns(last, x, m.state, m.rank+m.state, m.rank+2*m.state)
	p.norm(dt, dt, m.dtNorm)
	p.norm(b, b, m.bNorm)
	p.norm(last, last, m.cNorm)
	spread(bc, b, m.state, 0, 2*m.state)
	spread(bc, last, m.state, m.state, 2*m.state)
	p.matmul(dt, m.rank, m.dt.times(in))
	p.each(in, tensor.Softplus)
	p.recur(m.scan, p.matrix(&p.wide, m.inner), u, in, bc)
	out := p.wide
	p.gateMul(z, out, silu)
	p.matmul(z, m.inner, m.out.times(y))
}
