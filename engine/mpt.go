package engine

// mpt is MPT (MosaicML 2023): ALiBi, clamped queries, keys and values.
func mpt(l *loader, _ *Config) family {
	f := family{
		norms:     normParts{kind: layerNorm{}},
		rope:      ropeParts{alibi: l.floatOr("attention.max_alibi_bias", 0)},
		attention: attentionParts{clamp: l.floatOr("attention.clamp_kqv", 0)},
		feed:      feedParts{activation: l.gelu()},
		ends:      endParts{positions: l.holds("position_embd.weight")},
	}
	if l.holds("blk.0.attn_q_norm.weight") {
		f.attention.norms = perToken
	}
	return f
}
