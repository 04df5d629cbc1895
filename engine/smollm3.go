package engine

// smollm3 is SmolLM 3: every fourth layer is not rotated.
func smollm3(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs, layers: func(i int) bool { return (i+1)%4 != 0 }},
		feed:  feedParts{gate: gated},
	}
}
