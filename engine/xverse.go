package engine

// xverse is XVERSE 7B, 13B and 65B: Llama's block.
func xverse(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs},
		feed:  feedParts{gate: gated},
		ends:  endParts{output: outputRequired},
	}
}

// orion is Orion 14B: LayerNorm in Llama's block.
func orion(*loader, *Config) family {
	return family{
		norms: normParts{kind: layerNorm{}},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{gate: gated},
		ends:  endParts{output: outputRequired},
	}
}

// refact is Refact 1.6B: ALiBi in Llama's block.
func refact(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{alibi: 8},
		feed:  feedParts{gate: gated},
	}
}
