package engine

// gptNeoX is GPT-NeoX and Pythia (Black et al. 2022, arXiv:2204.06745): a parallel block with a norm for each
// sublayer, or a sequential one.
func gptNeoX(l *loader, _ *Config) family {
	return family{
		norms: normParts{kind: layerNorm{}, parallel: l.bool("use_parallel_residual")},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{activation: l.gelu()},
		ends:  endParts{output: outputRequired},
	}
}
