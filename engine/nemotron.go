package engine

// nemotron is Nemotron and Minitron (arXiv:2407.14679).
func nemotron(*loader, *Config) family {
	return family{
		norms: normParts{kind: layerNorm{}},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{activation: reluSquared},
		ends:  endParts{output: outputRequired},
	}
}
