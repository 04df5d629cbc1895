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

// jais2 is Jais 2 8B and 70B: Nemotron's block, with biases and, as a rule, an output matrix of its own.
func jais2(l *loader, c *Config) family {
	f := nemotron(l, c)
	f.ends = endParts{}
	return f
}
