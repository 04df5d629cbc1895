package engine

// opt is OPT (Zhang et al. 2022, arXiv:2205.01068). The model of 350 million parameters normalizes the residual
// stream after each sublayer, and its token embeddings are smaller than hidden states.
func opt(l *loader, c *Config) family {
	f := family{
		norms: normParts{kind: layerNorm{}},
		feed:  feedParts{activation: relu},
		ends:  endParts{positions: true, output: outputTied},
	}
	if l.has("word_embedding_length") {
		if width := l.integer("word_embedding_length"); width != c.HiddenSize {
			f.ends.start = func(b *build, m *decoder) network { return b.narrowOPT(m, width) }
		}
	}
	before := l.boolOr("norm_before", true)
	if !before {
		f.norms.at = atResidual
	}
	if !before || !l.holds("output_norm.weight") {
		f.norms.names = map[string]string{"output_norm": ""}
	}
	return f
}

// narrowOPT is OPT with token embeddings of W numbers. The output matrix, which is the embedding, reads as many.
type narrowOPT struct {
	*decoder
	in, out linear // [D][W], [W][D]
}

func (b *build) narrowOPT(m *decoder, width int) *narrowOPT {
	m.embedding = b.embeddingOf(b.c, width)
	in := b.matrix("project_in.weight", b.c.HiddenSize, width)
	return &narrowOPT{m, in, b.matrix("project_out.weight", width, b.c.HiddenSize)}
}

func (m *narrowOPT) forward(p *pass) {
	width := m.in.w.Cols()
	x, e := p.matrix(&p.x, m.c.HiddenSize), p.matrix(&p.up, width) // [rows][D], [rows][W]
	p.embed(e, m.embedding)
	p.matmul(e, width, m.in.times(x))
	p.addPositions(x, m.positions)
	m.layers(p, x)
}

// logits computes out [n][V] of the normalized x [n][D].
func (m *narrowOPT) logits(p *pass, out, x []float32) {
	width := m.out.w.Rows()
	e := sized(&p.up, len(x)/m.c.HiddenSize*width) // [n][W]
	p.matmul(x, m.c.HiddenSize, m.out.times(e))
	p.output(out, e, width, output{linear: m.output})
}

// lends is nothing: no draft head has such embeddings.
func (m *narrowOPT) lends() lends { return lends{} }
