package engine

// ernie45 is ERNIE 4.5 (dense): llama without options.
func ernie45(*loader, *Config) family {
	return family{norms: normParts{kind: rmsNorm{}}, rope: ropeParts{pairing: pairs}, feed: feedParts{gate: gated}}
}
