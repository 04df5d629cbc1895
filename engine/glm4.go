package engine

// glm4 is GLM-4 9B: norms before and after the sublayers. The language model of GLM-4.1 V is turned by halves.
func glm4(l *loader, _ *Config) family {
	f := family{
		norms: normParts{kind: rmsNorm{}, at: atBoth},
		rope:  ropeParts{pairing: pairs},
		feed:  feedParts{gate: gateInUp},
	}
	if l.sections() {
		f.rope.pairing = halves
	}
	return f
}

// glm4MoE is GLM-4.5 to 4.7 (GLM-4.5 Team 2025, arXiv:2508.06471): experts that a sigmoid and a bias choose, behind
// plain layers. The large models normalize queries and keys.
func glm4MoE(l *loader, c *Config) family {
	l.sections() // for text they say nothing
	f := family{
		norms: normParts{kind: rmsNorm{}, names: map[string]string{"ffn_norm": "post_attention_norm"}},
		rope:  ropeParts{pairing: halves},
		feed: feedParts{gate: gated, experts: l.experts(c, l.byKeys(gateSigmoid, expertOptions{
			width: l.integerOr("expert_feed_forward_length", c.FeedForward), mustChoose: true, dense: l.leadingDense(),
		}))},
	}
	if l.holds("blk.0.attn_q_norm.weight") {
		f.attention.norms = perHead
	}
	return f
}

// sections reports whether the positions of text, images and time turn parts of a head of their own:
// rope.dimension_sections. For text these positions are equal.
func (l *loader) sections() bool {
	const key = "rope.dimension_sections"
	v, _ := l.f.Value(l.arch + "." + key)
	if !l.has(key) {
		return false
	}
	list, ok := v.([]int32)
	if l.ok() && !ok {
		l.fail(key, ErrValue, "%v", v)
	}
	if l.ok() && len(list) > 3 && list[3] != 0 {
		l.fail(key, ErrUnsupported, "%d: positions of a fourth kind, which text does not have", list)
	}
	return len(list) > 1 && list[0] > 0 && list[1] > 0
}
