package engine

// outputGate is attention whose result is multiplied by gates, which a matrix of their own makes of the block's input
// (Qiu et al. 2025, arXiv:2505.06708): a number for each head, or for each of every head's.
type outputGate struct {
	*attention
	gate linear // [H][D] or [H*d][D]
	act  func(float32) float32
}

// outputGate reads layer i's, b.attn_gate, with so many numbers for each head.
func (b *build) outputGate(i, each int, act func(float32) float32) *outputGate {
	l := &outputGate{attention: b.attention(i), act: act}
	l.gate = b.linear(b.block(i)+"attn_gate", l.heads*each, b.c.HiddenSize)
	return l
}

func (l *outputGate) forward(p *pass, _ *Config, y, h []float32) {
	q, k, v := l.scratch(p)
	a, gates := p.matrix(&p.a, l.heads*l.headDim), p.matrix(&p.gate, l.gate.w.Rows())
	p.matmul(h, l.q.w.Cols(), l.q.times(q), l.k.times(k), l.v.times(v), l.gate.times(gates))
	l.place(p, q, l.heads, l.qNorm)
	l.place(p, k, l.kvHeads, l.kNorm)
	p.attend(a, l.cache, l.scores, q, k, v)
	p.each(gates, l.act)
	if len(gates) == len(a) {
		p.mul(a, gates)
	} else {
		p.mulRows(a, gates)
	}
	p.matmul(a, l.heads*l.headDim, l.o.times(y))
}
