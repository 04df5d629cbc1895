package engine

import "errors"

// feedForward is act(gate x) ∘ (up x), or act(up x) without a gate, then down.
type feedForward struct {
	gate, up linear // [F][D]
	down     linear // [D][F]
	act      activation
}

// forward computes y [rows][D] of h [rows][D].
func (l *feedForward) forward(p *pass, c *Config, y, h []float32) {
	f := l.up.w.Rows()
	up := p.matrix(&p.up, f)
	if l.gate.w == nil {
		p.matmul(h, c.HiddenSize, l.up.times(up))
		p.activate(up, l.act)
		p.matmul(up, f, l.down.times(y))
		return
	}
	gate := p.matrix(&p.gate, f)
	p.matmul(h, c.HiddenSize, l.gate.times(gate), l.up.times(up))
	p.gateMul(gate, up, l.act)
	p.matmul(gate, f, l.down.times(y))
}

// activation is the nonlinearity of a feed-forward.
type activation uint8

const (
	silu        activation = iota // Shazeer 2020, arXiv:2002.05202 (with a gate: SwiGLU)
	gelu                          // the tanh form (with a gate: GEGLU)
	reluSquared                   // So et al. 2021, arXiv:2109.08668
	clampedSiLU                   // gpt-oss, with a gate only
	relu                          // Nair and Hinton 2010
)

// activate is x = act(x).
func (p *pass) activate(x []float32, act activation) {
	switch {
	case p.err != nil:
	case act == gelu:
		p.fail(p.t.GELU(x, x))
	case act == reluSquared:
		p.fail(p.t.ReLUSquared(x))
	case act == relu:
		p.fail(p.t.ReLU(x))
	default:
		p.fail(errors.New("an activation that needs a gate"))
	}
}

// gateMul is gate = act(gate) ∘ up.
func (p *pass) gateMul(gate, up []float32, act activation) {
	if p.err != nil {
		return
	}
	if act == silu {
		p.fail(p.t.SiLUMul(gate, gate, up))
		return
	}
	if act == clampedSiLU {
		p.fail(p.t.ClampedSwiGLU(gate, up, 1.702, 7))
		return
	}
	if p.activate(gate, act); p.err == nil {
		p.fail(p.t.Mul(gate, up))
	}
}
