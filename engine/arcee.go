package engine

// arcee is Arcee AFM: a feed-forward without a gate.
func arcee(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs, keys: freqFactors},
		feed:  feedParts{activation: reluSquared},
	}
}
