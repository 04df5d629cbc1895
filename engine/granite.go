package engine

// granite is IBM Granite 3 and 4 (dense): scaled embeddings, sublayers, attention and logits.
func granite(l *loader, _ *Config) family {
	f := graniteBlock(l)
	if !l.boolOr("rope.scaling.finetuned", true) {
		f.rope.pairing = none
		l.ignoreKeys("rope.")
	}
	return f
}

// graniteBlock is what all Granites are.
func graniteBlock(l *loader) family {
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: pairs, keys: freqFactors | longrope},
		attention: attentionParts{scale: l.floatOr("attention.scale", 0)},
		feed:      feedParts{gate: gated},
		scales: scaleParts{
			embedding: l.floatOr("embedding_scale", 0),
			residual:  l.floatOr("residual_scale", 0),
			logit:     1 / l.positive("logit_scale", 0),
		},
	}
}

// graniteMoE is granite with experts, and possibly one that every token is sent to.
func graniteMoE(l *loader, c *Config) family {
	f := granite(l, c)
	f.feed.experts = l.experts(c, expertOptions{
		width: c.FeedForward, normalize: true,
		shared: l.integerOr("expert_shared_feed_forward_length", 0),
	})
	return f
}

// graniteHybrid is IBM Granite 4 H: granite with Mamba-2 in the layers without keys and values.
func graniteHybrid(l *loader, c *Config) family {
	f := graniteMoE(l, c)
	s := l.mambaSizes()
	if l.ok() && s.Inner != 2*c.HiddenSize {
		l.fail("ssm.inner_size", ErrValue, "%d, twice the hidden size is %d", s.Inner, 2*c.HiddenSize)
	}
	f.mixer = func(_ *build, i int) mixer {
		if !l.ok() || l.kvHeads[i] > 0 {
			return nil
		}
		return l.mamba2(c, i, s)
	}
	return f
}
