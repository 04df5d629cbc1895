package engine

// gptOSS is gpt-oss (OpenAI 2025, arXiv:2508.10925): attention sinks, windows in every other layer, experts with
// biases and a clamped gate.
func gptOSS(l *loader, c *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}, names: map[string]string{"ffn_norm": "post_attention_norm"}},
		rope:  ropeParts{pairing: halves},
		attention: attentionParts{
			window: l.integer("attention.sliding_window"), windowed: l.window(2),
			own: func(b *build, i int) mixer {
				a := b.attention(i)
				a.scores.Sinks = b.vector(b.block(i)+"attn_sinks.weight", a.heads)
				return a
			},
		},
		feed: feedParts{gate: gated, activation: clampedSiLU, experts: l.experts(c, expertOptions{
			width: l.integer("expert_feed_forward_length"), gating: gateSoftmaxChosen,
		})},
		ends: endParts{output: outputRequired},
	}
}
