package engine

// qwen35 is Qwen 3.5: gated delta nets, and gated attention in every fourth layer.
func qwen35(l *loader, c *Config) family {
	f := qwen3(l, c)
	l.has("rope.dimension_sections") // for text the positions of all sections are equal
	f.ffnNorm, f.gates = "post_attention_norm", true
	s := l.mambaSizes()
	if l.ok() && s.inner != s.state*s.heads {
		l.fail("ssm.inner_size", ErrValue, "%d, %d heads of %d", s.inner, s.heads, s.state)
	}
	recurrent := l.recurrentLayers()
	f.mixer = func(i int) mixer {
		if !l.ok() || !recurrent(i) {
			return nil
		}
		return l.deltaNet(c, i, s)
	}
	return f
}

// qwen35MoE is Qwen 3.5 with experts: a choice of them, and a further one that a gate decides about.
func qwen35MoE(l *loader, c *Config) family {
	f := qwen35(l, c)
	f.experts = l.experts(c, expertOptions{
		width:  l.integerOr("expert_feed_forward_length", c.FeedForward/max(1, l.integerOr("expert_used_count", 1))),
		shared: l.integerOr("expert_shared_feed_forward_length", c.FeedForward), sharedGate: true, normalize: true,
	})
	if l.ok() && f.experts == nil {
		l.fail("expert_count", ErrValue, "0")
	}
	return f
}

// recurrentLayers says which layers of qwen35 are recurrent: attention.recurrent_layers, or all but every n-th.
func (l *loader) recurrentLayers() func(layer int) bool {
	const key = "attention.recurrent_layers"
	interval := l.integerOr("full_attention_interval", 4)
	if v, ok := l.f.Value(l.arch + "." + key); ok {
		l.keys[key] = true
		list, ok := v.([]bool)
		if !ok || len(list) < l.layers {
			l.fail(key, ErrValue, "expected a bool for each of %d blocks", l.layers)
			return nil
		}
		return func(layer int) bool { return list[layer] }
	}
	if l.ok() && interval < 1 {
		l.fail("full_attention_interval", ErrValue, "%d", interval)
	}
	return func(layer int) bool { return (layer+1)%interval != 0 }
}
