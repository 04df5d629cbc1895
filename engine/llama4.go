package engine

import "github.com/specgo/spec/tensor"

// llama4 is Llama 4 (Meta 2025): experts whose weights multiply what goes into them, in every n-th layer; of four
// layers three are rotated and look at a chunk of the positions, and one at all, sharper with the position.
func llama4(l *loader, c *Config) family {
	f := family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs, keys: freqFactors},
		feed:  feedParts{gate: gated},
	}
	const chunk = 8192 // positions
	if n := l.integerOr("attention.sliding_window", chunk); n != chunk {
		l.fail("attention.sliding_window", ErrUnsupported, "%d, these models have chunks of %d", n, chunk)
	}
	f.rope.layers = func(layer int) bool { return (layer+1)%4 != 0 }
	f.attention.window, f.attention.windowed = chunk, f.rope.layers
	f.attention.own = func(b *build, i int) mixer {
		a := b.attention(i)
		if !f.rope.layers(i) {
			return &llama4Tempered{a, chunk}
		}
		a.scores.Window = -chunk
		if f.feed.experts != nil && f.feed.experts.count != 128 { // Maverick has no such norms
			unit := norm{kind: rmsNorm{}, eps: c.Epsilon, w: ones(a.headDim)}
			a.qNorm, a.kNorm, a.normLast = unit, unit, true
		}
		return a
	}
	step, width := l.integer("interleave_moe_layer_step"), l.integerOr("expert_feed_forward_length", c.FeedForward)
	f.feed.experts = l.required(l.experts(c, expertOptions{
		width: width, gating: l.llama4Gating(), shared: width, weighInputs: true,
		dense: func(layer int) bool { return (layer+1)%step != 0 },
	}))
	return f
}

// llama4Gating is the sigmoid of the chosen experts' logits, which expert_gating_func calls a sigmoid.
func (l *loader) llama4Gating() gating {
	if l.has("expert_gating_func") && l.gating(gateSigmoid) != gateSigmoid {
		l.fail("expert_gating_func", ErrUnsupported, "%d", l.gating(gateSigmoid))
	}
	return gateSigmoidChosen
}

// llama4Tempered is sharper far from the beginning: q *= 1 + 0.1 * ln(floor((position+1)/chunk) + 1).
type llama4Tempered struct {
	*attention
	chunk int
}

func (l *llama4Tempered) forward(p *pass, _ *Config, y, h []float32) {
	q, k, v := l.scratch(p)
	p.matmul(h, l.q.w.Cols(), l.q.times(q), l.k.times(k), l.v.times(v))
	s := p.matrix(&p.factors, 1)
	for i, position := range p.positions {
		s[i] = 1 + float32(0.1*tensor.Log(float32(int(position+1)/l.chunk+1)))
	}
	p.mulRows(q, s)
	l.mix(p, y, q, k, v)
}
