package engine

// panguEmbedded is openPangu Embedded (arXiv:2505.22375): Llama's block with biases of attention.
func panguEmbedded(l *loader, _ *Config) family {
	l.find("rope_freqs.weight") // the reference takes files with it and does not use it
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{gate: gated},
	}
}
