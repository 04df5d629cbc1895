package engine

// starcoder is SantaCoder and StarCoder (Li et al. 2023, arXiv:2305.06161): gpt2 with one KV head.
var starcoder = gpt2

// starcoder2 is StarCoder 2 (Lozhkov et al. 2024, arXiv:2402.19173).
func starcoder2(l *loader, _ *Config) family {
	return family{
		norms: normParts{kind: layerNorm{}},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{activation: l.gelu()},
	}
}

// codeShell is CodeShell 7B (Xie et al. 2024, arXiv:2403.15747): StarCoder 2's block, without its tied output matrix.
func codeShell(l *loader, c *Config) family {
	f := starcoder2(l, c)
	f.ends.output = outputRequired
	return f
}
