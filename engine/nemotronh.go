package engine

// nemotronH is Nemotron-H (NVIDIA 2025, arXiv:2504.03624): every block has one sublayer: Mamba-2, attention without
// positions, or a feed-forward. The keys of a layer's KV heads and feed-forward say which.
func nemotronH(l *loader, c *Config) family {
	f := family{
		norms: normParts{kind: rmsNorm{}, at: atMixer},
		feed:  feedParts{activation: reluSquared},
	}
	l.ignoreKeys("rope.") // nothing is rotated; the converter writes them all the same
	s := l.mambaSizes()
	f.mixer = func(b *build, i int) mixer {
		switch {
		case !l.ok() || l.ffn[i] == 0 && l.kvHeads[i] > 0:
			return nil
		case l.ffn[i] == 0:
			return l.mamba2(c, i, s)
		case b.feed.own != nil:
			return b.feed.own(b, i)
		}
		return b.feedForward(b.block(i), "", l.ffn[i])
	}
	return f
}

// nemotronHMoE is nemotronH with experts in place of feed-forwards, in Nemotron 3 Super of fewer numbers than the
// hidden size.
func nemotronHMoE(l *loader, c *Config) family {
	f := nemotronH(l, c)
	latent := l.integerOr("moe_latent_size", 0)
	o := l.byKeys(gateSigmoid, expertOptions{
		width: l.integerOr("expert_feed_forward_length", c.FeedForward), inputs: latent, mustChoose: true,
	})
	if o.gating != gateSigmoid {
		l.fail("expert_gating_func", ErrUnsupported, "%d", o.gating)
	}
	o.shared = l.integerOr("expert_shared_feed_forward_length", 0) // of all shared ones
	routed := l.experts(c, o)
	f.feed.own = func(b *build, i int) sublayer {
		n := b.block(i)
		if routed == nil || !b.holds(n+"ffn_gate_inp.weight") {
			return b.feedForward(n, "", l.ffn[i])
		}
		e := b.expertBlock(routed, n)
		if latent == 0 {
			return e
		}
		m := &latentExperts{experts: e, shared: e.shared}
		e.shared = nil
		m.down, m.up = b.linear(n+"ffn_latent_down", latent, c.HiddenSize), b.linear(n+"ffn_latent_up", c.HiddenSize, latent)
		return m
	}
	return f
}

// latentExperts are experts that see fewer numbers than the router and the shared expert do.
type latentExperts struct {
	experts  *experts
	shared   *feedForward // nil: none
	down, up linear       // [Dl][D], [D][Dl]
}

func (m *latentExperts) forward(p *pass, c *Config, y, h []float32) {
	d, size := c.HiddenSize, m.down.w.Rows()
	x, out := p.matrix(&p.q, size), p.matrix(&p.k, size)
	p.matmul(h, d, m.down.times(x))
	m.experts.route(p, h)
	m.experts.send(p, out, x)
	p.matmul(out, size, m.up.times(y))
	if m.shared != nil {
		more := p.matrix(&p.other, d)
		m.shared.forward(p, c, more, h)
		p.add(y, more)
	}
}
