package engine

// internLM2 is InternLM 2 (Cai et al. 2024, arXiv:2403.17297): llama without options.
func internLM2(*loader, *Config) family {
	return family{norms: normParts{kind: rmsNorm{}}, rope: ropeParts{pairing: pairs}, feed: feedParts{gate: gated}}
}
