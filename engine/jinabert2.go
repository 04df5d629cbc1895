package engine

// jinaBERT2 is jina-embeddings-v2 (Günther et al. 2023, arXiv:2310.19923), its model for code, and jina-reranker-v1:
// ALiBi by distance to both sides instead of positions, a gate.
func jinaBERT2(l *loader, c *Config) family {
	f := postNorm(typesOptional)
	f.rope.alibi, f.feed.activation = 8, l.gelu()
	first := l.block(0)
	if up, ok := l.f.Tensor(first + "ffn_up.weight"); l.holds(first + "ffn_gate.weight") {
		f.feed.gate = gated
	} else if ok && len(up.Dims) == 2 && up.Dims[1] == 2*uint64(c.FeedForward) {
		f.feed.gate = gateInUp
	}
	if l.holds(first + "attn_q_norm.weight") {
		f.attention.norms = perToken
	}
	if l.holds(first + "attn_norm_2.weight") {
		f.norms.names["attn_norm"] = "attn_norm_2"
		f.attention.own = func(b *build, i int) mixer {
			return &againAdded{b.attention(i), b.norm(b.block(i)+"attn_output_norm", b.c.HiddenSize)}
		}
	}
	return f
}

// againAdded is attention in a block that adds its input once more: y = LN(h + attention(h)), and the block makes
// LN(h + y) of it.
type againAdded struct {
	attention *attention
	norm      norm
}

func (l *againAdded) forward(p *pass, c *Config, y, h []float32) {
	x := p.matrix(&p.other, c.HiddenSize) // y may be the same memory as h
	copy(x, h)
	l.attention.forward(p, c, y, h)
	p.add(y, x)
	p.norm(y, y, l.norm)
}
