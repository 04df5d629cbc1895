package engine

// falcon is Falcon (Almazrouei et al. 2023, arXiv:2311.16867): a parallel block; the larger models have a norm for
// attention, attn_norm_2, beside that of the feed-forward, attn_norm.
func falcon(l *loader, _ *Config) family {
	return family{
		norms: normParts{kind: layerNorm{}, parallel: true},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{activation: l.gelu()},
	}
}
