package engine

import "math"

// bailingMoE is Ling 1 (Ling Team 2025, arXiv:2503.05139): experts in all layers, and some that every token is sent to.
func bailingMoE(l *loader, c *Config) family {
	c.HeadDim = l.integerOr("rope.dimension_count", c.HeadDim)
	l.leadingDense() // it says nothing
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs},
		feed: feedParts{gate: gated, experts: l.experts(c, l.byKeys(gateSoftmax, expertOptions{
			width: l.integerOr("expert_feed_forward_length", c.FeedForward),
		}))},
		ends: endParts{output: outputRequired},
	}
}

// bailingMoE2 is Ling 2 and Ring 2 (Ling Team 2025, arXiv:2510.22115): normalized queries and keys, groups of experts
// behind plain layers.
func bailingMoE2(l *loader, c *Config) family {
	f := qwen3(l, c)
	f.ends.output = outputRequired
	width := l.integerOr("expert_feed_forward_length", c.FeedForward)
	o := l.byKeys(0, expertOptions{width: width, dense: l.leadingDense()})
	o.shared = l.integerOr("expert_shared_count", 0) * l.integerOr("expert_shared_feed_forward_length", width)
	f.feed.experts = l.experts(c, o)
	return f
}

// bailingMoE3 is Ling 3 (Ling Team 2026): Kimi delta attention whose decays have a floor, and latent attention with
// gates of heads in the layers with KV heads; experts behind plain layers, with limits of their activations.
func bailingMoE3(l *loader, c *Config) family {
	f := family{
		norms: normParts{kind: rmsNorm{}, names: map[string]string{"nextn.shared_head_norm": "layer_output_norm"}},
		rope:  ropeParts{pairing: pairs},
		feed:  feedParts{gate: gated},
	}
	width := l.integer("expert_feed_forward_length")
	o := expertOptions{width: width, mustChoose: true, dense: l.leadingDense()}
	if o.shared = l.integerOr("expert_shared_feed_forward_length", 0); o.shared == 0 { // of all together
		o.shared = width * max(1, l.integerOr("expert_shared_count", 0))
	}
	if f.feed.experts = l.experts(c, l.byKeys(0, o)); l.ok() && f.feed.experts == nil {
		l.fail("expert_count", ErrValue, "0")
	}
	l.limitFeeds(&f)
	if l.has("attention.value_length") { // that of Kimi delta attention, though the key's length is that of a latent
		l.valueDim = l.integer("attention.kv_lora_rank")
	}
	s, form := l.latentSizes(c), l.kimiForm(c)
	s.qRank = l.integerOr("attention.q_lora_rank", 0)
	form.whole, form.floor = true, l.decayFloor()
	if l.ok() && l.first > 0 && c.Layers > 1 {
		l.fail("nextn_predict_layers", ErrUnsupported, "%d MTP blocks of a %s model", c.Layers, l.arch)
	}
	f.mixer = func(_ *build, i int) mixer {
		if !l.ok() || l.kvHeads[i] > 0 {
			return nil
		}
		return l.kimiDelta(c, i, form)
	}
	f.attention.own = func(b *build, i int) mixer {
		a := b.newLatentAttention(i, s, headScale(s.nope+s.rot), b.ropes.full)
		a.gate = b.linear(b.block(i)+"attn_gate", s.heads, c.HiddenSize)
		return a
	}
	return f
}

// decayFloor is the floor of the logarithms of decays.
func (l *loader) decayFloor() float32 {
	const safe, key = "kda.safe_gate", "kda.gate_lower_bound"
	if !l.boolOr(safe, true) {
		l.fail(safe, ErrUnsupported, "false")
	}
	l.keys[key] = true
	x, err := l.f.Float32(l.arch + "." + key)
	l.keep(err)
	if l.ok() && !(x < 0 && x >= -math.MaxFloat32) {
		l.fail(key, ErrValue, "%v", x)
	}
	return x
}
