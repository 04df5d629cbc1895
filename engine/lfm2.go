package engine

// lfm2 is LFM 2 (Liquid AI 2025, arXiv:2511.23404): short convolutions in the layers without keys and values.
func lfm2(l *loader, c *Config) family {
	f := family{
		norms:     normParts{kind: rmsNorm{}, names: map[string]string{"output_norm": "token_embd_norm"}},
		rope:      ropeParts{pairing: halves},
		attention: attentionParts{norms: perHead},
		feed:      feedParts{gate: gated},
	}
	if f.attention.window = l.integerOr("attention.sliding_window", 0); f.attention.window > 0 {
		f.attention.windowed = func(int) bool { return true }
	}
	taps := l.integer("shortconv.l_cache")
	if l.ok() && taps < 2 {
		l.fail("shortconv.l_cache", ErrValue, "%d", taps)
	}
	l.tooLarge("shortconv.l_cache", c.HiddenSize, taps)
	f.mixer = func(_ *build, i int) mixer {
		if !l.ok() || l.kvHeads[i] > 0 {
			return nil
		}
		return l.shortConv(c, i, taps)
	}
	return f
}

// lfm2MoE is LFM 2 with experts.
func lfm2MoE(l *loader, c *Config) family {
	f := lfm2(l, c)
	f.feed.experts = l.experts(c, expertOptions{
		width: l.integerOr("expert_feed_forward_length", c.FeedForward), gating: gateSigmoid, normalize: true,
		dense: l.leadingDense(),
	})
	return f
}
