package engine

// talkie is Talkie 1930: Llama's block with norms that have no weights, also of the embeddings and, behind the
// rotation, of queries and keys; a factor for each head's queries; and the normalized embedding, which is added at the
// end of every block once more, with a factor of its own.
func talkie(l *loader, _ *Config) family {
	return family{
		norms: normParts{kind: unweightedRMS{}},
		rope:  ropeParts{pairing: halves},
		attention: attentionParts{own: func(b *build, i int) mixer {
			a := b.attention(i)
			a.kNorm, a.normLast = b.norm("", a.headDim), true
			if a.qNorm = a.kNorm; b.ok() {
				for _, gain := range b.floats(b.block(i)+"attn_q_norm.weight", 1, a.heads) {
					for range a.headDim {
						a.qNorm.own = append(a.qNorm.own, gain)
					}
				}
			}
			return a
		}},
		feed:   feedParts{gate: gated},
		scales: scaleParts{logit: l.positive("logit_scale", 0)},
		ends: endParts{output: outputRequired, start: func(b *build, m *decoder) network {
			m.embedding = b.embedding(b.c)
			return &talkieModel{normalized{m, b.norm("", b.c.HiddenSize)}}
		}},
		end: func(b *build, i int) ending {
			if w := b.vector(b.block(i)+"layer_output_scale.weight", 1); w != nil && w[0] != 0 {
				return talkieEnd(w[0])
			}
			return nil
		},
	}
}

// unweightedRMS is RMSNorm without weights.
type unweightedRMS struct{ rmsNorm }

func (unweightedRMS) read(_ *loader, _ string, n int) (w, b []float32) { return ones(n), nil }

// talkieModel keeps the normalized embeddings for the ends of its blocks.
type talkieModel struct{ normalized }

func (m *talkieModel) forward(p *pass) {
	x := p.matrix(&p.x, m.c.HiddenSize)
	m.embed(p, x)
	p.norm(x, x, m.norm)
	copy(p.matrix(&p.inputs, m.c.HiddenSize), x)
	m.layers(p, x)
}

// talkieEnd is the factor of the embedding that a block adds.
type talkieEnd float32

func (s talkieEnd) forward(p *pass, c *Config, x []float32) {
	y := p.matrix(&p.y, c.HiddenSize)
	copy(y, p.inputs)
	p.scale(y, float32(s))
	p.add(x, y)
}
