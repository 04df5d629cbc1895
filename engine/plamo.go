package engine

// plamo is PLaMo 13B: attention and the feed-forward read the same norm.
func plamo(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}, parallel: true},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{gate: gated},
		ends:  endParts{output: outputRequired},
	}
}
