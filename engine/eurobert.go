package engine

// euroBERT is EuroBERT (Boizard et al. 2025, arXiv:2503.05500): Llama's block without its mask.
func euroBERT(*loader, *Config) family {
	return family{norms: normParts{kind: rmsNorm{}}, rope: ropeParts{pairing: halves}, feed: feedParts{gate: gated}}
}

// neoBERT is NeoBERT (Le Breton et al. 2025, arXiv:2502.19587): likewise, rotated in neighbouring pairs, with gates in
// the matrix of the feed-forward's input.
func neoBERT(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}, names: map[string]string{"output_norm": "enc.output_norm"}},
		rope:  ropeParts{pairing: pairs},
		feed:  feedParts{gate: gateInUp},
	}
}
