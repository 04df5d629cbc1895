package engine

// hunyuanDense is Hunyuan (dense): queries and keys are normalized after the rotation.
func hunyuanDense(*loader, *Config) family {
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves, keys: alphaKey},
		attention: attentionParts{norms: perHeadLast},
		feed:      feedParts{gate: gated},
	}
}
