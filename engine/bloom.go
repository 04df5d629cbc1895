package engine

// bloom is BLOOM (Le Scao et al. 2022, arXiv:2211.05100): ALiBi, normalized embeddings.
func bloom(l *loader, _ *Config) family {
	return family{
		norms: normParts{kind: layerNorm{}},
		rope:  ropeParts{alibi: 8},
		feed:  feedParts{activation: l.gelu()},
		ends: endParts{start: func(b *build, m *decoder) network {
			m.embedding = b.embedding(b.c)
			return &normalized{m, b.norm("token_embd_norm", b.c.HiddenSize)}
		}},
	}
}

// normalized is a decoder with normalized embeddings.
type normalized struct {
	*decoder
	norm norm
}

func (m *normalized) forward(p *pass) {
	x := p.matrix(&p.x, m.c.HiddenSize)
	m.embed(p, x)
	p.norm(x, x, m.norm)
	m.layers(p, x)
}

// lends is what the decoder lends, but for the embeddings, which are not what the matrix holds.
func (m *normalized) lends() lends {
	l := m.decoder.lends()
	l.embeds = false
	return l
}
