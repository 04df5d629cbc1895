package engine

// commandR is Command R: a parallel block, scaled logits. The models of 64 and more blocks normalize queries and keys.
func commandR(l *loader, c *Config) family {
	f := family{
		norms:  normParts{kind: layerNorm{}, parallel: true},
		rope:   ropeParts{pairing: pairs},
		feed:   feedParts{gate: gated},
		scales: scaleParts{logit: l.floatOr("logit_scale", 0)},
		ends:   endParts{output: outputTied},
	}
	if c.Layers >= 64 {
		f.attention.norms = ownHead
	}
	return f
}

// cohere2 is Command R7B and Aya: as commandR, with windows in three of four layers; only these are rotated.
func cohere2(l *loader, _ *Config) family {
	f := family{
		norms:  normParts{kind: layerNorm{}, parallel: true},
		rope:   ropeParts{pairing: pairs},
		feed:   feedParts{gate: gated},
		scales: scaleParts{logit: l.float("logit_scale")},
		ends:   endParts{output: outputTied},
	}
	f.attention.window, f.attention.windowed = l.integer("attention.sliding_window"), l.window(4)
	f.rope.layers = f.attention.windowed
	return f
}
