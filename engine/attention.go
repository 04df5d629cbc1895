package engine

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// attention is grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245).
type attention struct {
	heads        int    // H: of queries
	kvHeads      int    // K: of keys and values
	headDim      int    // d
	q            linear // [H*d][D]
	k, v         linear // [K*d][D]
	o            linear // [D][H*d]
	clamp        float32
	qNorm, kNorm norm // over a head, or over all heads at once
	normLast     bool // after the rotation instead of before
	rope         *tensor.RopeTable
	style        tensor.RopeStyle
	cache        int // of the model's caches
	scores       tensor.AttentionOptions
}

// forward computes y [rows][D] of h [rows][D]: softmax(q Kᵀ scale) V of every head, every row on its own path.
func (l *attention) forward(p *pass, c *Config, y, h []float32) {
	q, k, v := l.scratch(p)
	p.matmul(h, l.q.w.Cols(), l.q.times(q), l.k.times(k), l.v.times(v))
	l.place(p, q, l.heads, l.qNorm)
	l.place(p, k, l.kvHeads, l.kNorm)
	p.clamp(v, l.clamp)
	l.mix(p, y, q, k, v)
}

// scratch is memory for queries [rows][H][d], keys and values [rows][K][d].
func (l *attention) scratch(p *pass) (q, k, v []float32) {
	q = p.matrix(&p.q, l.heads*l.headDim)
	k = p.matrix(&p.k, l.kvHeads*l.headDim)
	v = p.matrix(&p.v, l.kvHeads*l.headDim)
	return q, k, v
}

// place limits and normalizes queries or keys x [rows][heads][d], and rotates them to their positions.
func (l *attention) place(p *pass, x []float32, heads int, n norm) {
	p.clamp(x, l.clamp)
	if !l.normLast {
		p.norm(x, x, n)
	}
	if l.rope != nil {
		p.rope(l.style, x, heads, l.headDim, l.rope)
	}
	if l.normLast {
		p.norm(x, x, n)
	}
}

// mix computes y [rows][D] of queries, and of the cache, which gets the keys and values first.
func (l *attention) mix(p *pass, y, q, k, v []float32) {
	a := p.matrix(&p.a, l.heads*l.headDim)
	p.attend(a, l.cache, l.scores, q, k, v)
	p.matmul(a, l.heads*l.headDim, l.o.times(y))
}

// remember puts the keys and values of h [rows][D] into the cache, as forward does, and computes no more.
func (l *attention) remember(p *pass, h []float32) {
	_, k, v := l.scratch(p)
	p.matmul(h, l.k.w.Cols(), l.k.times(k), l.v.times(v))
	l.place(p, k, l.kvHeads, l.kNorm)
	p.clamp(v, l.clamp)
	p.remember(l.cache, l.scores.Layer, k, v)
}

// headScale is 1/sqrt(d).
func headScale(d int) float32 { return float32(1 / math.Sqrt(float64(d))) }

// attention reads layer i's.
func (b *build) attention(i int) *attention {
	a := b.heads(i, b.c.HeadDim)
	if !b.ok() {
		return a
	}
	n, d, heads, kvHeads := b.block(i), b.c.HiddenSize, a.heads*a.headDim, a.kvHeads*a.headDim
	if b.holds(n + "attn_qkv.weight") {
		qkv, bias := b.split(n+"attn_qkv.weight", d, heads, kvHeads, kvHeads), b.optional(n+"attn_qkv.bias", heads+2*kvHeads)
		if !b.ok() {
			return a
		}
		a.q.w, a.k.w, a.v.w = qkv[0], qkv[1], qkv[2]
		if bias != nil {
			a.q.b, a.k.b, a.v.b = bias[:heads], bias[heads:heads+kvHeads], bias[heads+kvHeads:]
		}
	} else {
		a.q, a.k, a.v = b.linear(n+"attn_q", heads, d), b.linear(n+"attn_k", kvHeads, d), b.linear(n+"attn_v", kvHeads, d)
	}
	b.finish(a, i)
	return a
}

// heads is attention of layer i with heads of that size, of which nothing has been read.
func (b *build) heads(i, dim int) *attention {
	a := &attention{heads: b.queryHeads[i], kvHeads: b.kvHeads[i], headDim: dim, clamp: b.family.attention.clamp}
	if b.ok() && (a.kvHeads < 1 || a.heads%a.kvHeads != 0) {
		b.fail("attention.head_count_kv", ErrValue, "%d heads cannot share %d KV heads", a.heads, a.kvHeads)
	}
	return a
}

// finish reads what attention of layer i has beside queries, keys and values, and finds it a place in the caches.
func (b *build) finish(a *attention, i int) {
	n, f := b.block(i), &b.family.attention
	a.o = b.linear(n+"attn_output", b.c.HiddenSize, a.heads*a.headDim)
	a.normLast = f.norms == perHeadLast
	switch q, k := n+"attn_q_norm", n+"attn_k_norm"; f.norms {
	case perHead, perHeadLast:
		a.qNorm, a.kNorm = b.norm(q, a.headDim), b.norm(k, a.headDim)
	case perToken:
		a.qNorm, a.kNorm = b.norm(q, a.heads*a.headDim), b.norm(k, a.kvHeads*a.headDim)
	case ownHead:
		a.qNorm, a.kNorm = b.headNorm(q, a.heads), b.headNorm(k, a.kvHeads)
	}
	a.scores = tensor.AttentionOptions{Heads: a.heads, Scale: f.scale, Slopes: b.ropes.slopes}
	if a.scores.Scale == 0 {
		a.scores.Scale = headScale(a.headDim)
	}
	window := f.windowed != nil && f.windowed(i)
	if window {
		a.scores.Window = f.window
	}
	a.cache, a.scores.Layer = b.place(i, a.kvHeads, a.headDim, a.scores.Window)
	if b.rope.layers == nil || b.rope.layers(i) {
		a.style = b.rope.pairing.style()
		if a.rope = b.ropes.full; window {
			a.rope = b.ropes.window
		}
	}
}
