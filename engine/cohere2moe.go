package engine

// cohere2MoE is cohere2 with experts behind plain layers, which are rotated as well. Files with an epsilon of RMSNorm
// have that norm.
func cohere2MoE(l *loader, c *Config) family {
	f := family{
		norms:  normParts{kind: layerNorm{}, parallel: true},
		rope:   ropeParts{pairing: pairs},
		feed:   feedParts{gate: gated},
		scales: scaleParts{logit: l.float("logit_scale")},
	}
	if l.has(rmsNorm{}.epsilon()) {
		f.norms.kind = rmsNorm{}
	}
	const pattern = "attention.sliding_window_pattern"
	windowed := l.window(0)
	if v, _ := l.f.Value(l.arch + "." + pattern); l.ok() {
		if _, list := v.([]bool); !list { // unlike others' numbers: all but every n-th layer, the first one included
			n := l.integer(pattern)
			windowed = func(layer int) bool { return layer%n != 0 }
		}
	}
	f.attention.window, f.attention.windowed = l.integer("attention.sliding_window"), windowed
	dense := l.leadingDense()
	f.rope.layers = func(layer int) bool { return windowed(layer) || dense(layer) }
	o := l.byKeys(gateSigmoid, expertOptions{
		width: l.integerOr("expert_feed_forward_length", c.FeedForward), dense: dense})
	if o.shared > 0 {
		o.shared = l.integerOr("expert_shared_feed_forward_length", o.shared)
	}
	if f.feed.experts = l.experts(c, o); f.feed.experts != nil && o.shared > 0 {
		f.feed.own = func(b *build, i int) sublayer {
			if n := b.block(i); !dense(i) {
				return &halved{b.expertBlock(f.feed.experts, n)}
			} else {
				return b.feedForward(n, "", b.ffn[i])
			}
		}
	}
	return f
}

// halved is the mean of what the chosen experts give and what the shared one does.
type halved struct{ *experts }

func (e *halved) forward(p *pass, c *Config, y, h []float32) {
	e.experts.forward(p, c, y, h)
	p.scale(y, 0.5)
}
