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
