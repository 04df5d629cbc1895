package engine

import "github.com/specgo/spec/tensor"

// mistral3 is Ministral 3: YaRN with keys of its own, and attention that gets sharper with the position.
func mistral3(l *loader, c *Config) family {
	scale, original := l.floatOr("attention.temperature_scale", 0), l.originalContext(c)
	f := family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs, keys: freqFactors | longrope | yarnMultiplier},
		feed:  feedParts{gate: gated},
	}
	if scale != 0 {
		f.attention.own = func(b *build, i int) mixer { return &temperedAttention{b.attention(i), scale, original} }
	}
	return f
}

// temperedAttention is sharper far from the beginning: q *= 1 + scale * ln(floor(position/original) + 1).
type temperedAttention struct {
	*attention
	scale    float32
	original int // positions
}

func (l *temperedAttention) forward(p *pass, _ *Config, y, h []float32) {
	q, k, v := l.scratch(p)
	p.matmul(h, l.q.w.Cols(), l.q.times(q), l.k.times(k), l.v.times(v))
	l.place(p, q, l.heads, l.qNorm)
	p.temper(q, l.scale, l.original)
	l.place(p, k, l.kvHeads, l.kNorm)
	l.mix(p, y, q, k, v)
}

// temper multiplies the queries q [rows][H][d] by 1 + scale * ln(floor(position/length) + 1).
func (p *pass) temper(q []float32, scale float32, length int) {
	s := p.matrix(&p.factors, 1)
	for i, position := range p.positions {
		s[i] = 1 + float32(scale*tensor.Log(float32(int(position)/length+1)))
	}
	p.mulRows(q, s)
}
