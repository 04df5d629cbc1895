package engine

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// index is the lightning indexer of DeepSeek sparse attention (DeepSeek-V3.2-Exp 2025, section 2): of the positions
// that a token could see, its layer looks at those whose keys score highest. a is what the layer's own queries are made
// of, h the layer's input; the first n numbers of queries and of the key are rotated.
//
//	q = Wq a of every index head, k = norm(Wk h),  score = Σ_heads w max(0, q·k),  w = Ww h / sqrt(heads · size)
//
// The published form also turns q and k by one orthogonal matrix, for numbers of 8 bits: q·k stays what it is.
type index struct {
	queries linear // [heads*size][Rq]
	key     linear // [size][D]
	norm    norm   // LayerNorm
	weights linear // [heads][D]
	size    int
	scale   float32
	rope    *tensor.RopeTable
	style   tensor.RopeStyle
	cache   int // of keys alone
	options tensor.ChoiceOptions
}

// indexed are the keys of a family whose layers have indexes.
type indexed struct {
	heads, size, top int
	rotation         rotation
	eps              float32              // of the key's norm
	own              func(layer int) bool // layers with an index; the others look where that of the layer before looked
}

// deepseek32 is DeepSeek V3.2: deepseek2 with an index in every layer.
func deepseek32(l *loader, c *Config) family {
	return latentFamily(l, c, latentForm{reduced: true, indexed: l.indexed(halves, 1e-6)})
}

// glmDSA is GLM-5: likewise, and layers may look where one before them looked.
func glmDSA(l *loader, c *Config) family {
	x := l.indexed(pairs, 0)
	if key := "attention.indexer.types"; l.has(key) {
		x.own = l.flags(key)
	} else if c.Context >= 1<<20 { // GLM-5.2, whose files do not say so
		x.own = func(layer int) bool { return layer < 3 || layer%4 == 2 }
	}
	if l.ok() && !x.own(0) {
		l.fail("attention.indexer.types", ErrValue, "false of the first block, whose index no other one has")
	}
	return latentFamily(l, c, latentForm{absent: gateSigmoid, plain: true, indexed: x})
}

func (l *loader) indexed(r rotation, eps float32) *indexed {
	const heads, size = "attention.indexer.head_count", "attention.indexer.key_length"
	x := &indexed{heads: l.integer(heads), size: l.integer(size), top: l.integer("attention.indexer.top_k"), rotation: r,
		eps: eps, own: func(int) bool { return true }}
	l.tooLarge(heads, x.heads, x.size)
	return x
}

// index reads layer i's; nil if it has none. MTP blocks look at every position.
func (b *build) index(i int, s latentSizes, x *indexed, angles *tensor.RopeTable) *index {
	n, d := b.block(i)+"indexer.", b.c.HiddenSize
	if b.first > 0 || !x.own(i) { // some files have a copy in layers that use another's
		for _, name := range []string{"attn_q_b.weight", "attn_k.weight", "k_norm.weight", "k_norm.bias", "proj.weight"} {
			b.find(n + name) // not read
		}
		return nil
	}
	if b.ok() && (s.rot > x.size || s.qRank == 0) {
		b.fail("attention.indexer.key_length", ErrValue, "%d, of which %d are rotated; queries of rank %d", x.size, s.rot,
			s.qRank)
	}
	a := &index{size: x.size, scale: float32(1 / math.Sqrt(float64(x.heads*x.size))), rope: angles,
		style: x.rotation.style()}
	a.queries, a.key = b.linear(n+"attn_q_b", x.heads*x.size, s.qRank), b.linear(n+"attn_k", x.size, d)
	a.norm = norm{kind: layerNorm{}, eps: x.eps, w: b.vector(n+"k_norm.weight", x.size),
		b: b.vector(n+"k_norm.bias", x.size)}
	a.weights = b.linear(n+"proj", x.heads, d)
	a.options = tensor.ChoiceOptions{Heads: x.heads, Top: x.top}
	a.cache, a.options.Layer = b.placeKeys(i, x.size, 0)
	return a
}

// choose chooses what the rows of the round look at, from this layer on.
func (x *index) choose(p *pass, h, a []float32) {
	q, k, w := p.matrix(&p.other, x.options.Heads*x.size), p.matrix(&p.up, x.size), p.matrix(&p.wide, x.options.Heads)
	p.matmul(a, x.queries.w.Cols(), x.queries.times(q))
	p.matmul(h, x.key.w.Cols(), x.key.times(k), x.weights.times(w))
	p.norm(k, k, x.norm)
	p.rope(x.style, q, x.options.Heads, x.size, x.rope)
	p.rope(x.style, k, 1, x.size, x.rope)
	p.scale(w, x.scale)
	p.remember(x.cache, x.options.Layer, k, nil)
	if p.err == nil {
		p.fail(p.t.Choose(&p.choice, q, w, x.options, p.segments[x.cache]))
	}
}
