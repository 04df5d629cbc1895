package engine

import "errors"

// feedForward is act(gate x) ∘ (up x), or act(up x) without a gate, then down.
type feedForward struct {
	gate, up linear // [F][D]
	down     linear // [D][F]
	act      activation
}

// forward computes y [rows][D] of h [rows][D].
func (l *feedForward) forward(p *pass, _ *Config, y, h []float32) {
	d, f := l.up.w.Cols(), l.up.w.Rows()
	up := p.matrix(&p.up, f)
	if l.gate.w == nil {
		p.matmul(h, d, l.up.times(up))
		l.act.alone(p, up)
		p.matmul(up, f, l.down.times(y))
		return
	}
	gate := p.matrix(&p.gate, f)
	p.matmul(h, d, l.gate.times(gate), l.up.times(up))
	l.act.gated(p, gate, up)
	p.matmul(gate, f, l.down.times(y))
}

// activation is the nonlinearity of a feed-forward. One with numbers of its own is in its family's file.
type activation interface {
	alone(p *pass, x []float32)        // x = act(x), of a feed-forward without a gate
	gated(p *pass, gate, up []float32) // gate = act(gate) ∘ up
}

// function is an activation without numbers of its own.
type function uint8

const (
	silu        function = iota // Shazeer 2020, arXiv:2002.05202 (with a gate: SwiGLU)
	gelu                        // the tanh form (with a gate: GEGLU)
	geluErf                     // the exact form; gelu.go says which one a family has
	reluSquared                 // So et al. 2021, arXiv:2109.08668
	clampedSiLU                 // gpt-oss, with a gate only
	relu                        // Nair and Hinton 2010
)

func (act function) alone(p *pass, x []float32)        { p.activate(x, act) }
func (act function) gated(p *pass, gate, up []float32) { p.gateMul(gate, up, act) }

// activate is x = act(x).
func (p *pass) activate(x []float32, act function) {
	switch {
	case p.err != nil:
	case act == gelu:
		p.fail(p.t.GELU(x, x))
	case act == geluErf:
		p.fail(p.t.GELUErf(x, x))
	case act == reluSquared:
		p.fail(p.t.ReLUSquared(x))
	case act == relu:
		p.fail(p.t.ReLU(x))
	default:
		p.fail(errors.New("an activation that needs a gate"))
	}
}

// gateMul is gate = act(gate) ∘ up.
func (p *pass) gateMul(gate, up []float32, act function) {
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
