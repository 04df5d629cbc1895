package engine

import "github.com/specgo/spec/engine/internal/recurrent"

// shortConv is a gated short convolution: out(C ∘ conv(B ∘ X)), a causal filter for each channel.
type shortConv struct {
	b, c, x linear // [D][D]
	out     linear // [D][D]
	id      int    // of the model's recurrent layers
}

func (l *loader) shortConv(c *Config, i, taps int) *shortConv {
	n, d := l.block(i)+"shortconv.", c.HiddenSize
	s := &shortConv{}
	parts := l.split(n+"in_proj.weight", d, d, d, d)
	bias := l.optional(n+"in_proj.bias", 3*d)
	w := l.filters(n+"conv.weight", taps, d)
	s.out = l.linear(n+"out_proj", d, d)
	if !l.ok() {
		return s
	}
	s.b, s.c, s.x = parts[0], parts[1], parts[2]
	if bias != nil {
		s.b.b, s.c.b, s.x.b = bias[:d], bias[d:2*d], bias[2*d:]
	}
	s.id = l.recur(i, recurrent.NewConvolution(w, taps, d))
	return s
}

func (s *shortConv) forward(p *pass, c *Config, y, h []float32) {
	b, gate, x := p.matrix(&p.q, c.HiddenSize), p.matrix(&p.k, c.HiddenSize), p.matrix(&p.v, c.HiddenSize)
	out := p.matrix(&p.a, c.HiddenSize)
	p.matmul(h, c.HiddenSize, s.b.times(b), s.c.times(gate), s.x.times(x))
	p.mul(b, x)
	p.recur(s.id, out, b)
	p.mul(out, gate)
	p.matmul(out, c.HiddenSize, s.out.times(y))
}

// filters reads the filters of a causal convolution, [channels][taps] in the file, as [taps][channels].
func (l *loader) filters(name string, taps, channels int) []float32 {
	x := l.floats(name, taps, channels)
	if !l.ok() {
		return nil
	}
	w := make([]float32, len(x))
	for i, v := range x {
		w[i%taps*channels+i/taps] = v
	}
	return w
}
