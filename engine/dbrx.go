package engine

// dbrx is DBRX (Databricks 2024): LayerNorm without biases, clamped queries, keys and values, experts everywhere.
func dbrx(l *loader, c *Config) family {
	return family{
		norms:     normParts{kind: layerNorm{}, names: map[string]string{"ffn_norm": "attn_output_norm"}},
		rope:      ropeParts{pairing: halves},
		attention: attentionParts{clamp: l.positive("attention.clamp_kqv", 0)},
		feed: feedParts{gate: gated,
			experts: l.required(l.experts(c, expertOptions{width: c.FeedForward, normalize: true}))},
		ends: endParts{output: outputRequired},
	}
}

// required refuses a file without experts.
func (l *loader) required(o *expertOptions) *expertOptions {
	if o == nil && l.ok() {
		l.fail("expert_count", ErrMissing, "a %s model without experts", l.arch)
	}
	return o
}
