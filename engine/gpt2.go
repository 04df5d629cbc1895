package engine

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// gpt2 is the architecture of GPT-2 (Radford et al. 2019): LayerNorm before every sublayer, learned
// positions, a bias on every matrix, GELU in its tanh form, the embedding for a head.
type gpt2 struct {
	c         *Config
	embedding *tensor.Matrix // [vocabulary][hidden size]
	positions []float32      // [context][hidden size] position embeddings
	layers    []gpt2Layer
	norm      norm
}

// norm is the weights of a LayerNorm, [hidden size] each.
type norm struct{ w, b []float32 }

type gpt2Layer struct {
	attnNorm   norm
	q, k, v    *tensor.Matrix // [hidden size][hidden size] each; one matrix in the file
	bq, bk, bv []float32
	o          *tensor.Matrix // [hidden size][hidden size]
	bo         []float32
	ffnNorm    norm
	up         *tensor.Matrix // [feed-forward][hidden size]
	bup        []float32
	down       *tensor.Matrix // [hidden size][feed-forward]
	bdown      []float32
}

func (m *gpt2) forward(p *pass) {
	var (
		c     = m.c
		x     = p.matrix(&p.x, c.HiddenSize) // [rows][hidden size] the residual stream
		h     = p.matrix(&p.h, c.HiddenSize) // [rows][hidden size] what a sublayer reads and writes
		q     = p.matrix(&p.q, c.HiddenSize) // [rows][heads][head size]
		k     = p.matrix(&p.k, c.HiddenSize)
		v     = p.matrix(&p.v, c.HiddenSize)
		a     = p.matrix(&p.a, c.HiddenSize)
		up    = p.matrix(&p.up, c.FeedForward) // [rows][feed-forward]
		scale = float32(1 / math.Sqrt(float64(c.HeadDim)))
	)
	p.embed(x, m.embedding)
	p.addPositions(x, m.positions)
	for i := range m.layers {
		if !p.layer(i) {
			return
		}
		l := &m.layers[i]

		p.layerNorm(h, x, l.attnNorm, c.Epsilon)
		p.matmul(h, c.HiddenSize, product{l.q, l.bq, q}, product{l.k, l.bk, k}, product{l.v, l.bv, v})
		p.attend(a, i, c.Heads, scale, q, k, v)
		p.matmul(a, c.HiddenSize, product{l.o, l.bo, h})
		p.add(x, h)

		p.layerNorm(h, x, l.ffnNorm, c.Epsilon)
		p.matmul(h, c.HiddenSize, product{l.up, l.bup, up})
		p.gelu(up, up)
		p.matmul(up, c.FeedForward, product{l.down, l.bdown, h})
		p.add(x, h)
	}
}

func (m *gpt2) finalNorm(p *pass, x []float32) { p.layerNorm(x, x, m.norm, m.c.Epsilon) }

// loadGPT2 reads the hyperparameters and the weights of a gpt2 file.
func loadGPT2(l *loader, c *Config) (network, *tensor.Matrix) {
	c.Epsilon = l.float("attention.layer_norm_epsilon")
	if c.KVHeads != c.Heads {
		l.fail("attention.head_count_kv", ErrUnsupported, "%d KV heads for %d heads", c.KVHeads, c.Heads)
	}
	if l.ok() && c.Heads*c.HeadDim != c.HiddenSize {
		l.fail("attention.key_length", ErrUnsupported, "%d heads of %d for an embedding of %d", c.Heads, c.HeadDim, c.HiddenSize)
	}
	layerNorm := func(name string) norm {
		return norm{l.vector(name+".weight", c.HiddenSize), l.vector(name+".bias", c.HiddenSize)}
	}
	m := &gpt2{c: c}
	m.embedding = l.embedding(c)
	m.positions = l.floats("position_embd.weight", c.HiddenSize, c.Context)
	for i := 0; i < c.Layers && l.ok(); i++ {
		b := l.block(i)
		qkv := l.split(b+"attn_qkv.weight", c.HiddenSize, c.HiddenSize, c.HiddenSize, c.HiddenSize)
		bias := l.vector(b+"attn_qkv.bias", 3*c.HiddenSize)
		if !l.ok() {
			break
		}
		m.layers = append(m.layers, gpt2Layer{
			attnNorm: layerNorm(b + "attn_norm"),
			q:        qkv[0],
			k:        qkv[1],
			v:        qkv[2],
			bq:       bias[:c.HiddenSize],
			bk:       bias[c.HiddenSize : 2*c.HiddenSize],
			bv:       bias[2*c.HiddenSize:],
			o:        l.matrix(b+"attn_output.weight", c.HiddenSize, c.HiddenSize),
			bo:       l.vector(b+"attn_output.bias", c.HiddenSize),
			ffnNorm:  layerNorm(b + "ffn_norm"),
			up:       l.matrix(b+"ffn_up.weight", c.FeedForward, c.HiddenSize),
			bup:      l.vector(b+"ffn_up.bias", c.FeedForward),
			down:     l.matrix(b+"ffn_down.weight", c.HiddenSize, c.FeedForward),
			bdown:    l.vector(b+"ffn_down.bias", c.HiddenSize),
		})
	}
	m.norm = layerNorm("output_norm")
	return m, l.head(c, m.embedding)
}
