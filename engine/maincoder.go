package engine

// maincoder is Maincoder 1B: queries and keys are normalized after the rotation.
func maincoder(*loader, *Config) family {
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: pairs},
		attention: attentionParts{norms: perHeadLast},
		feed:      feedParts{gate: gated},
	}
}
