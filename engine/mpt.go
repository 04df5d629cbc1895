package engine

// mpt is MPT (MosaicML 2023): ALiBi, clamped queries, keys and values.
func mpt(l *loader, _ *Config) family {
	f := family{
		norm: layerNorm, positions: l.holds("position_embd.weight"), activation: gelu,
		alibi: l.floatOr("attention.max_alibi_bias", 0), clamp: l.floatOr("attention.clamp_kqv", 0),
	}
	if l.holds("blk.0.attn_q_norm.weight") {
		f.qkNorm = perToken
	}
	return f
}
