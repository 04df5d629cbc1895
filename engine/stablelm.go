package engine

// stableLM is StableLM 2 and StableLM 3B: part of a head is rotated; the larger one is parallel and normalizes
// queries and keys, each head with weights of its own.
func stableLM(l *loader, _ *Config) family {
	f := family{
		norms: normParts{kind: layerNorm{}, parallel: !l.holds("blk.0.ffn_norm.weight")},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{gate: gated},
		ends:  endParts{output: outputRequired},
	}
	if l.holds("blk.0.attn_q_norm.weight") {
		f.attention.norms = ownHead
	}
	return f
}
