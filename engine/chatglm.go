package engine

// chatGLM is ChatGLM 3 and GLM-4 9B of 2024 (GLM Team 2024, arXiv:2406.12793): half of a head is rotated.
func chatGLM(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs},
		feed:  feedParts{gate: gateInUp},
	}
}
