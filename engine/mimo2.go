package engine

import "github.com/specgo/spec/tensor"

// mimo2 is MiMo V2 Flash (Xiaomi): windows with sinks in most layers, which have more keys and values and another
// rotation; values that are smaller than keys; experts that a sigmoid chooses, in the layers with a router.
func mimo2(l *loader, c *Config) family {
	f := family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves, windowBase: 10000, windowUnscaled: true},
		attention: attentionParts{window: l.integer("attention.sliding_window"), windowed: l.windows()},
		feed: feedParts{gate: gated, experts: l.experts(c, expertOptions{
			width: l.integerOr("expert_feed_forward_length", c.FeedForward), gating: gateSigmoid, normalize: true,
			dense: l.routerless,
		})},
		ends: endParts{output: outputRequired},
	}
	scale := l.floatOr("attention.value_scale", 0)
	f.attention.own = func(b *build, i int) mixer { return b.mimo2Attention(i, scale) }
	return f
}

// mimo2Attention is attention with values of another size than keys.
type mimo2Attention struct {
	*attention
	values int     // dv
	scale  float32 // of what it gives; 0: none
}

func (b *build) mimo2Attention(i int, scale float32) *mimo2Attention {
	a := &mimo2Attention{b.heads(i, b.c.HeadDim), b.valueDim, scale}
	if !b.ok() {
		return a
	}
	n, d, f := b.block(i), b.c.HiddenSize, &b.family.attention
	q, k, v := a.heads*a.headDim, a.kvHeads*a.headDim, a.kvHeads*a.values
	if b.holds(n + "attn_qkv.weight") {
		if w := b.split(n+"attn_qkv.weight", d, q, k, v); b.ok() {
			a.q, a.k, a.v = w[0], w[1], w[2]
		}
	} else {
		a.q, a.k, a.v = b.linear(n+"attn_q", q, d), b.linear(n+"attn_k", k, d), b.linear(n+"attn_v", v, d)
	}
	a.o = b.linear(n+"attn_output", d, a.heads*a.values)
	a.scores = tensor.AttentionOptions{Heads: a.heads, Scale: headScale(a.headDim)}
	a.scores.Sinks = b.optional(n+"attn_sinks.weight", a.heads)
	a.style, a.rope = b.rope.pairing.style(), b.ropes.full
	if f.windowed(i) {
		a.scores.Window, a.rope = f.window, b.ropes.window
	}
	a.cache, a.scores.Layer = b.placeValues(i, a.kvHeads, a.headDim, a.values, a.scores.Window)
	return a
}

func (l *mimo2Attention) forward(p *pass, _ *Config, y, h []float32) {
	q, k, v := p.matrix(&p.q, l.heads*l.headDim), p.matrix(&p.k, l.kvHeads*l.headDim), p.matrix(&p.v, l.kvHeads*l.values)
	p.matmul(h, l.q.w.Cols(), l.q.times(q), l.k.times(k), l.v.times(v))
	l.place(p, q, l.heads, l.qNorm)
	l.place(p, k, l.kvHeads, l.kNorm)
	a := p.matrix(&p.a, l.heads*l.values)
	p.attend(a, l.cache, l.scores, q, k, v)
	p.matmul(a, l.heads*l.values, l.o.times(y))
	p.scale(y, l.scale)
}

// remember puts the keys and values of h [rows][D] into the cache, as forward does, and computes no more.
func (l *mimo2Attention) remember(p *pass, h []float32) {
	k, v := p.matrix(&p.k, l.kvHeads*l.headDim), p.matrix(&p.v, l.kvHeads*l.values)
	p.matmul(h, l.k.w.Cols(), l.k.times(k), l.v.times(v))
	l.place(p, k, l.kvHeads, l.kNorm)
	p.remember(l.cache, l.scores.Layer, k, v)
}
