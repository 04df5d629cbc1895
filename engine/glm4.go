package engine

// glm4 is GLM-4 9B: norms before and after the sublayers.
func glm4(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}, at: atBoth},
		rope:  ropeParts{pairing: pairs},
		feed:  feedParts{gate: gateInUp},
	}
}
