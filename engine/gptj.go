package engine

// gptJ is GPT-J (Wang and Komatsuzaki 2021) and CodeGen (Nijkamp et al. 2022, arXiv:2203.13474): a parallel block, in
// which one norm feeds both sublayers.
func gptJ(l *loader, _ *Config) family {
	if name := l.block(0) + "attn_qkv.weight"; l.holds(name) { // CodeGen has them fused in groups of q, v, k
		l.bad(name, ErrUnsupported, "queries, keys and values in one matrix")
	}
	return family{
		norms: normParts{kind: layerNorm{}, parallel: true},
		rope:  ropeParts{pairing: pairs},
		feed:  feedParts{activation: l.gelu()},
		ends:  endParts{output: outputRequired, outputBias: true},
	}
}
