package engine

// bitNet is BitNet b1.58 (Ma et al. 2024, arXiv:2402.17764): norms in front of the last matrix of each sublayer, and a
// factor for each matrix.
func bitNet(*loader, *Config) family {
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves},
		attention: attentionParts{own: func(b *build, i int) mixer { return b.bitNetAttention(i) }},
		feed:      feedParts{gate: gated, own: func(b *build, i int) sublayer { return b.bitNetFeedForward(i) }},
		ends:      endParts{output: outputTied},
	}
}

// bitNetAttention is attention with a norm of its result, in front of the output matrix.
type bitNetAttention struct {
	*attention
	norm norm // [H*d]
}

func (b *build) bitNetAttention(i int) *bitNetAttention {
	a := &bitNetAttention{attention: b.attention(i)}
	a.norm = b.norm(b.block(i)+"attn_sub_norm", a.heads*a.headDim)
	return a
}

func (l *bitNetAttention) forward(p *pass, _ *Config, y, h []float32) {
	at := l.attention
	q, k, v := l.scratch(p)
	p.matmul(h, at.q.w.Cols(), at.q.times(q), at.k.times(k), at.v.times(v))
	l.place(p, q, l.heads, l.qNorm)
	l.place(p, k, l.kvHeads, l.kNorm)
	a := p.matrix(&p.a, l.heads*l.headDim)
	p.attend(a, l.cache, l.scores, q, k, v)
	p.norm(a, a, l.norm)
	p.matmul(a, l.heads*l.headDim, at.o.times(y))
}

// bitNetFeedForward reads a feed-forward with a norm in front of the down matrix.
func (b *build) bitNetFeedForward(i int) *feedForward {
	n := b.block(i)
	ffn := b.feedForward(n, "", b.ffn[i])
	ffn.act = bitNetInner{b.norm(n+"ffn_sub_norm", b.ffn[i])}
	return ffn
}

// bitNetInner is norm(silu(gate) ∘ up).
type bitNetInner struct {
	norm norm // [F]
}

func (a bitNetInner) alone(p *pass, x []float32) { p.norm(x, x, a.norm) }

func (a bitNetInner) gated(p *pass, gate, up []float32) {
	p.gateMul(gate, up, silu)
	p.norm(gate, gate, a.norm)
}
