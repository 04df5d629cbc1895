package engine

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// gpt2 is the architecture of GPT-2 (Radford et al. 2019): LayerNorm before every sublayer, learned
// positions, a bias on every matrix, GELU in its tanh form, the embedding for a head.
type gpt2 struct {
	c         *Config
	embedding *tensor.Matrix // [vocabulary][width]
	places    []float32      // [context][width] embeddings of positions
	layers    []gpt2Layer
	norm      norm
}

// norm is the weights of a LayerNorm, [width] each.
type norm struct{ w, b []float32 }

type gpt2Layer struct {
	attnNorm   norm
	q, k, v    *tensor.Matrix // [width][width] each; one matrix in the file
	bq, bk, bv []float32
	o          *tensor.Matrix // [width][width]
	bo         []float32
	ffnNorm    norm
	up         *tensor.Matrix // [feed-forward][width]
	bup        []float32
	down       *tensor.Matrix // [width][feed-forward]
	bdown      []float32
}

func (m *gpt2) forward(p *pass) {
	var (
		c     = m.c
		x     = p.matrix(&p.x, c.Width) // [rows][width] the residual stream
		h     = p.matrix(&p.h, c.Width) // [rows][width] what a sublayer reads and writes
		q     = p.matrix(&p.q, c.Width) // [rows][heads][head size]
		k     = p.matrix(&p.k, c.Width)
		v     = p.matrix(&p.v, c.Width)
		a     = p.matrix(&p.a, c.Width)
		up    = p.matrix(&p.up, c.FeedForward) // [rows][feed-forward]
		scale = float32(1 / math.Sqrt(float64(c.HeadDim)))
	)
	p.embed(x, m.embedding)
	p.place(x, m.places)
	for i := range m.layers {
		if !p.layer(i) {
			return
		}
		l := &m.layers[i]

		p.layerNorm(h, x, l.attnNorm, c.Epsilon)
		p.matmul(h, c.Width, product{l.q, l.bq, q}, product{l.k, l.bk, k}, product{l.v, l.bv, v})
		p.attend(a, i, c.Heads, scale, q, k, v)
		p.matmul(a, c.Width, product{l.o, l.bo, h})
		p.add(x, h)

		p.layerNorm(h, x, l.ffnNorm, c.Epsilon)
		p.matmul(h, c.Width, product{l.up, l.bup, up})
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
	if l.ok() && c.Heads*c.HeadDim != c.Width {
		l.fail("attention.key_length", ErrUnsupported, "%d heads of %d for an embedding of %d", c.Heads, c.HeadDim, c.Width)
	}
	layerNorm := func(name string) norm {
		return norm{l.vector(name+".weight", c.Width), l.vector(name+".bias", c.Width)}
	}
	m := &gpt2{c: c}
	m.embedding = l.embedding(c)
	m.places = l.floats("position_embd.weight", c.Width, c.Context)
	for i := 0; i < c.Layers && l.ok(); i++ {
		b := l.block(i)
		qkv := l.split(b+"attn_qkv.weight", c.Width, c.Width, c.Width, c.Width)
		bias := l.vector(b+"attn_qkv.bias", 3*c.Width)
		if !l.ok() {
			break
		}
		m.layers = append(m.layers, gpt2Layer{
			attnNorm: layerNorm(b + "attn_norm"),
			q:        qkv[0],
			k:        qkv[1],
			v:        qkv[2],
			bq:       bias[:c.Width],
			bk:       bias[c.Width : 2*c.Width],
			bv:       bias[2*c.Width:],
			o:        l.matrix(b+"attn_output.weight", c.Width, c.Width),
			bo:       l.vector(b+"attn_output.bias", c.Width),
			ffnNorm:  layerNorm(b + "ffn_norm"),
			up:       l.matrix(b+"ffn_up.weight", c.FeedForward, c.Width),
			bup:      l.vector(b+"ffn_up.bias", c.FeedForward),
			down:     l.matrix(b+"ffn_down.weight", c.Width, c.FeedForward),
			bdown:    l.vector(b+"ffn_down.bias", c.Width),
		})
	}
	m.norm = layerNorm("output_norm")
	return m, l.head(c, m.embedding)
}
