package engine

// openELM is OpenELM (Mehta et al. 2024, arXiv:2404.14619): layers have their own numbers of heads and sizes of the
// feed-forward.
func openELM(*loader, *Config) family {
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves},
		attention: attentionParts{norms: perHead},
		feed:      feedParts{gate: gated},
		ends:      endParts{output: outputTied},
	}
}
