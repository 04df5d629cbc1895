package engine

import "fmt"

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

// factor reads name.scale, of what a matrix gives; 0: none.
func (l *loader) factor(name string) float32 {
	w := l.optional(name+".scale", 1)
	if w == nil || !l.ok() {
		return 0
	}
	if w[0] == 0 {
		l.keep(fmt.Errorf("%s: tensor %q: %w: 0", l.f.Name, name+".scale", ErrDamaged))
	}
	return w[0]
}

// bitNetAttention is attention with a norm of its result, in front of the output matrix.
type bitNetAttention struct {
	*attention
	norm       norm // [H*d]
	q, k, v, o float32
}

func (b *build) bitNetAttention(i int) *bitNetAttention {
	n := b.block(i)
	a := &bitNetAttention{attention: b.attention(i), q: b.factor(n + "attn_q"), k: b.factor(n + "attn_k"),
		v: b.factor(n + "attn_v"), o: b.factor(n + "attn_output")}
	a.norm = b.norm(n+"attn_sub_norm", a.heads*a.headDim)
	return a
}

func (l *bitNetAttention) forward(p *pass, _ *Config, y, h []float32) {
	at := l.attention
	q, k, v := l.scratch(p)
	p.matmul(h, at.q.w.Cols(), at.q.times(q), at.k.times(k), at.v.times(v))
	p.scale(q, l.q)
	p.scale(k, l.k)
	p.scale(v, l.v)
	l.place(p, q, l.heads, l.qNorm)
	l.place(p, k, l.kvHeads, l.kNorm)
	a := p.matrix(&p.a, l.heads*l.headDim)
	p.attend(a, l.cache, l.scores, q, k, v)
	p.norm(a, a, l.norm)
	p.matmul(a, l.heads*l.headDim, at.o.times(y))
	p.scale(y, l.o)
}

// bitNetFeedForward is a feed-forward with a norm in front of the down matrix, and factors.
type bitNetFeedForward struct {
	*feedForward
	factor float32 // of what it gives
}

func (b *build) bitNetFeedForward(i int) *bitNetFeedForward {
	n := b.block(i)
	ffn := b.feedForward(n, "", b.ffn[i])
	ffn.act = bitNetInner{b.factor(n + "ffn_gate"), b.factor(n + "ffn_up"), b.norm(n+"ffn_sub_norm", b.ffn[i])}
	return &bitNetFeedForward{ffn, b.factor(n + "ffn_down")}
}

func (l *bitNetFeedForward) forward(p *pass, c *Config, y, h []float32) {
	l.feedForward.forward(p, c, y, h)
	p.scale(y, l.factor)
}

// bitNetInner is norm(silu(gate) ∘ up), each with its factor.
type bitNetInner struct {
	gate, up float32
	norm     norm // [F]
}

func (a bitNetInner) alone(p *pass, x []float32) {
	p.scale(x, a.up)
	p.norm(x, x, a.norm)
}

func (a bitNetInner) gated(p *pass, gate, up []float32) {
	p.scale(gate, a.gate)
	p.scale(up, a.up)
	p.gateMul(gate, up, silu)
	p.norm(gate, gate, a.norm)
}
