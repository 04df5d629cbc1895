package engine

import (
	"fmt"
	"math"

	"github.com/specgo/spec/tensor"
)

// llama is the architecture of Llama, Mistral, SmolLM and others (Touvron et al. 2023,
// arXiv:2302.13971): RMSNorm before every sublayer, rotary positions, grouped-query attention, a
// gated feed-forward.
type llama struct {
	c         *Config
	embedding *tensor.Matrix // [vocabulary][hidden size]
	layers    []llamaLayer
	norm      []float32 // [hidden size]
	rope      *tensor.RopeTable
}

type llamaLayer struct {
	attnNorm       []float32      // [hidden size]
	q              *tensor.Matrix // [heads * head size][hidden size]
	k, v           *tensor.Matrix // [KV heads * head size][hidden size]
	o              *tensor.Matrix // [hidden size][heads * head size]
	bq, bk, bv, bo []float32      // biases; nil where the model has none
	ffnNorm        []float32      // [hidden size]
	gate, up       *tensor.Matrix // [feed-forward][hidden size]
	down           *tensor.Matrix // [hidden size][feed-forward]
	bgate, bup     []float32      // biases; nil where the model has none
	bdown          []float32
}

func (m *llama) forward(p *pass) {
	var (
		c     = m.c
		x     = p.matrix(&p.x, c.HiddenSize)        // [rows][hidden size] the residual stream
		h     = p.matrix(&p.h, c.HiddenSize)        // [rows][hidden size] what a sublayer reads and writes
		q     = p.matrix(&p.q, c.Heads*c.HeadDim)   // [rows][heads][head size]
		k     = p.matrix(&p.k, c.KVHeads*c.HeadDim) // [rows][KV heads][head size]
		v     = p.matrix(&p.v, c.KVHeads*c.HeadDim)
		a     = p.matrix(&p.a, c.Heads*c.HeadDim)
		gate  = p.matrix(&p.gate, c.FeedForward) // [rows][feed-forward]
		up    = p.matrix(&p.up, c.FeedForward)
		scale = float32(1 / math.Sqrt(float64(c.HeadDim)))
	)
	p.embed(x, m.embedding)
	for i := range m.layers {
		if !p.layer(i) {
			return
		}
		l := &m.layers[i]

		p.rmsNorm(h, x, l.attnNorm, c.Epsilon)
		p.matmul(h, c.HiddenSize, product{l.q, l.bq, q}, product{l.k, l.bk, k}, product{l.v, l.bv, v})
		p.rope(q, c.Heads, c.HeadDim, m.rope)
		p.rope(k, c.KVHeads, c.HeadDim, m.rope)
		p.attend(a, i, c.Heads, scale, q, k, v)
		p.matmul(a, c.Heads*c.HeadDim, product{l.o, l.bo, h})
		p.add(x, h)

		p.rmsNorm(h, x, l.ffnNorm, c.Epsilon)
		p.matmul(h, c.HiddenSize, product{l.gate, l.bgate, gate}, product{l.up, l.bup, up})
		p.siluMul(gate, gate, up)
		p.matmul(gate, c.FeedForward, product{l.down, l.bdown, h})
		p.add(x, h)
	}
}

func (m *llama) finalNorm(p *pass, x []float32) { p.rmsNorm(x, x, m.norm, m.c.Epsilon) }

// loadLlama reads the hyperparameters and the weights of a llama file.
func loadLlama(l *loader, c *Config) (network, *tensor.Matrix) {
	c.Epsilon = l.float("attention.layer_norm_rms_epsilon")
	if n := l.integerOr("expert_count", 0); n > 0 {
		l.fail("expert_count", ErrUnsupported, "mixture of %d experts", n)
	}
	heads, kvHeads := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim

	m := &llama{c: c}
	m.rope = l.rope(c)
	m.embedding = l.embedding(c)
	for i := 0; i < c.Layers && l.ok(); i++ {
		b := l.block(i)
		m.layers = append(m.layers, llamaLayer{
			attnNorm: l.vector(b+"attn_norm.weight", c.HiddenSize),
			q:        l.matrix(b+"attn_q.weight", heads, c.HiddenSize),
			k:        l.matrix(b+"attn_k.weight", kvHeads, c.HiddenSize),
			v:        l.matrix(b+"attn_v.weight", kvHeads, c.HiddenSize),
			o:        l.matrix(b+"attn_output.weight", c.HiddenSize, heads),
			bq:       l.optional(b+"attn_q.bias", heads),
			bk:       l.optional(b+"attn_k.bias", kvHeads),
			bv:       l.optional(b+"attn_v.bias", kvHeads),
			bo:       l.optional(b+"attn_output.bias", c.HiddenSize),
			ffnNorm:  l.vector(b+"ffn_norm.weight", c.HiddenSize),
			gate:     l.matrix(b+"ffn_gate.weight", c.FeedForward, c.HiddenSize),
			up:       l.matrix(b+"ffn_up.weight", c.FeedForward, c.HiddenSize),
			down:     l.matrix(b+"ffn_down.weight", c.HiddenSize, c.FeedForward),
			bgate:    l.optional(b+"ffn_gate.bias", c.FeedForward),
			bup:      l.optional(b+"ffn_up.bias", c.FeedForward),
			bdown:    l.optional(b+"ffn_down.bias", c.HiddenSize),
		})
	}
	m.norm = l.vector("output_norm.weight", c.HiddenSize)
	return m, l.head(c, m.embedding)
}

// rope makes the table of rotations: rope.dimension_count numbers of each head are rotated, by angles
// position * base^(-2i/n), divided by the factors of rope_freqs.weight (Llama 3.1's long contexts)
// and by the factor of linear scaling.
func (l *loader) rope(c *Config) *tensor.RopeTable {
	c.RopeDims = l.integerOr("rope.dimension_count", c.HeadDim)
	c.RopeBase = l.floatOr("rope.freq_base", 10000)
	if c.RopeDims < 2 || c.RopeDims > c.HeadDim || c.RopeDims%2 != 0 {
		l.fail("rope.dimension_count", ErrValue, "%d of a head's %d dimensions", c.RopeDims, c.HeadDim)
	}
	o := tensor.RopeOptions{Dims: c.RopeDims, Base: float64(c.RopeBase), Scale: 1 / float64(l.ropeFactor())}
	if o.Magnitude = float64(l.floatOr("rope.scaling.attn_factor", 1)); o.Magnitude == 0 {
		l.fail("rope.scaling.attn_factor", ErrValue, "%v", o.Magnitude)
	}
	if !l.ok() {
		return nil
	}
	if _, err := tensor.NewRopeTable(o); err != nil {
		l.fail("rope.freq_base", ErrValue, "%v, %v", c.RopeBase, err)
		return nil
	}
	const factors = "rope_freqs.weight"
	if o.Factors = l.optional(factors, c.RopeDims/2); !l.ok() {
		return nil
	}
	table, err := tensor.NewRopeTable(o)
	if err != nil {
		l.keep(fmt.Errorf("%s: tensor %q: %w: %w", l.f.Name, factors, ErrDamaged, err))
	}
	return table
}

// ropeFactor is what positions are divided by: rope.scaling.factor, or rope.scale_linear in files of 2023. A factor without a
// type is linear; 0 says that there is none.
func (l *loader) ropeFactor() float32 {
	key := "rope.scaling.factor"
	factor, old := l.floatOr(key, 0), l.floatOr("rope.scale_linear", 0)
	if factor == 0 && old != 0 {
		factor, key = old, "rope.scale_linear"
	}
	switch kind := l.stringOr("rope.scaling.type", "linear"); {
	case kind != "none" && kind != "linear":
		l.fail("rope.scaling.type", ErrUnsupported, "%q", kind)
		return 1
	case kind == "none" || factor == 0:
		return 1
	case factor < 1e-3 || factor > 1e6:
		l.fail(key, ErrValue, "%v", factor)
		return 1
	}
	return factor
}
