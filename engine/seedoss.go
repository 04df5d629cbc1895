package engine

// seedOSS is Seed-OSS (ByteDance 2025): Llama's block, with biases of queries, keys and values.
func seedOSS(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}, names: map[string]string{"ffn_norm": "post_attention_norm"}},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{gate: gated},
	}
}
