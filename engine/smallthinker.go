package engine

// smallThinker is SmallThinker (Song et al. 2025, arXiv:2507.20984): experts that the block's input chooses, before
// attention; windows in three of four layers, which alone are rotated.
func smallThinker(l *loader, c *Config) family {
	f := family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: halves},
		feed: feedParts{gate: gated, activation: relu, experts: l.experts(c, expertOptions{
			width: l.integerOr("expert_feed_forward_length", c.FeedForward), gating: l.gating(0), normalize: true,
		})},
	}
	const window = 4096 // of the published models, which the reference takes whatever the key says
	if n := l.integerOr("attention.sliding_window", 0); n > 0 {
		if n != window {
			l.fail("attention.sliding_window", ErrUnsupported, "%d, these models have %d", n, window)
		}
		f.attention.window, f.attention.windowed = window, func(layer int) bool { return layer%4 != 0 }
		f.rope.layers = f.attention.windowed
	}
	if o := f.feed.experts; o != nil {
		routed := map[int]*experts{}
		f.attention.own = func(b *build, i int) mixer {
			routed[i] = b.expertBlock(o, b.block(i))
			return &routingAhead{b.attention(i), routed[i]}
		}
		f.feed.own = func(_ *build, i int) sublayer { return &routedBefore{routed[i]} }
	}
	return f
}

// routingAhead is attention, before which the residual stream chooses the layer's experts.
type routingAhead struct {
	*attention
	experts *experts
}

func (m *routingAhead) forward(p *pass, c *Config, y, h []float32) {
	m.experts.route(p, p.matrix(&p.x, c.HiddenSize))
	m.attention.forward(p, c, y, h)
}

// routedBefore is experts that have been chosen.
type routedBefore struct{ *experts }

func (e *routedBefore) forward(p *pass, _ *Config, y, h []float32) { e.send(p, y, h) }
