package engine

// phi2 is Phi-1, 1.5 and 2: attention and feed-forward read the same norm.
func phi2(l *loader, _ *Config) family {
	return family{
		norms: normParts{kind: layerNorm{}, parallel: true},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{activation: l.gelu()},
		ends:  endParts{output: outputRequired, outputBias: true},
	}
}

// phi3 is Phi-3, 3.5 and 4 (Abdin et al. 2024, arXiv:2404.14219): longrope, the gate in the matrix of the
// feed-forward's input. The reference engine runs its windows as full attention.
func phi3(l *loader, _ *Config) family {
	l.has("attention.sliding_window")
	l.has("attention.sliding_window_pattern")
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: halves, keys: longropeOnly},
		feed:  feedParts{gate: gateInUp},
	}
}
