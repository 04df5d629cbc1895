package engine

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// gemma4 is Gemma 4: as gemma3, with other heads in layers with a window, values that are normalized, layers at the end that use
// the keys and values of earlier ones, and, in some models, embeddings for each layer, or experts beside the feed-forward.
func gemma4(l *loader, c *Config) family {
	f := gemma(l, c)
	f.output, f.qkNorm, f.head, f.valueNorm, f.scale = true, perHead, headOptional, true, 1
	f.factors, f.plainWindow, f.outputScale = true, true, true
	f.window, f.windowed = l.integer("attention.sliding_window"), l.windows()
	f.windowBase, f.windowRope = 10000, true
	f.windowDim = l.integerOr("attention.key_length_swa", c.HeadDim)
	if n := l.integerOr("attention.value_length_swa", f.windowDim); l.ok() && n != f.windowDim {
		l.fail("attention.value_length_swa", ErrUnsupported, "values of %d dimensions, keys of %d", n, f.windowDim)
	}
	f.windowRopeDims = l.integerOr("rope.dimension_count_swa", l.integerOr("rope.dimension_count", c.HeadDim))
	f.sharing = l.integerOr("attention.shared_kv_layers", 0)
	if l.ok() && f.sharing > max(0, l.layers-2) {
		l.fail("attention.shared_kv_layers", ErrValue, "%d of %d layers", f.sharing, l.layers)
	}
	f.layerInput = l.integerOr("embedding_length_per_layer_input", 0)
	f.logitCap = l.floatOr("final_logit_softcapping", 0)
	f.besideFFN = l.experts(c, expertOptions{width: l.integerOr("expert_feed_forward_length", c.FeedForward), normalize: true})
	return f
}

// windows is attention.sliding_window_pattern with one bool per block, which must be there.
func (l *loader) windows() func(layer int) bool {
	const key = "attention.sliding_window_pattern"
	l.keys[key] = true
	v, _ := l.f.Value(l.arch + "." + key)
	list, _ := v.([]bool)
	if l.ok() && len(list) < l.layers {
		l.fail(key, ErrValue, "%d of a bool for each of %d blocks", len(list), l.layers)
	}
	if !l.ok() {
		return func(int) bool { return false }
	}
	return func(layer int) bool { return list[layer] }
}

// layerInputs are numbers that every token gives each layer besides the residual stream: (rms(project(x)/sqrt(D)) + embedding*sqrt(P))/sqrt(2).
type layerInputs struct {
	size      int            // P
	embedding *tensor.Matrix // [V][L*P]
	project   linear         // [L*P][D]
	norm      norm           // [P]
}

// layerInput adds what a layer makes of its numbers u to the residual stream: x + norm(proj(gelu(gate x) ∘ u)).
type layerInput struct {
	gate  linear // [P][D]
	proj  linear // [D][P]
	norm  norm
	layer int
	size  int // P
}

func (l *loader) layerInputs(c *Config, f family) *layerInputs {
	if f.layerInput == 0 {
		return nil
	}
	n := f.layerInput * l.layers
	return &layerInputs{size: f.layerInput, embedding: l.matrix("per_layer_token_embd.weight", c.Vocab, n),
		project: l.linear("per_layer_model_proj", n, c.HiddenSize), norm: l.norm(c, f, "per_layer_proj_norm", f.layerInput)}
}

// forward computes p.inputs [rows][L][P] of the embeddings x [rows][D].
func (in *layerInputs) forward(p *pass, c *Config, x []float32) {
	n := in.project.w.Rows()
	u, made := p.matrix(&p.inputs, n), p.matrix(&p.other, n)
	p.embed(u, in.embedding)
	p.scale(u, float32(math.Sqrt(float64(in.size))))
	p.matmul(x, c.HiddenSize, in.project.times(made))
	p.scale(made, float32(1/math.Sqrt(float64(c.HiddenSize))))
	p.norm(made, made, in.norm)
	p.add(u, made)
	p.scale(u, float32(1/math.Sqrt2))
}

// expertsBeside are experts that read the residual stream beside the feed-forward: norm(ffn(norm(x))) + norm(experts(norm(x))). The
// router reads the normalized residual stream, times 1/sqrt(D) and a factor for each of its numbers.
type expertsBeside struct {
	experts    *experts
	input      norm
	router     norm // its weights are the factors
	ffnOutput  norm
	expertsOut norm
}

// expertsBeside reads those of a block, nil if it has none.
func (l *loader) expertsBeside(c *Config, f family, n string) *expertsBeside {
	if f.besideFFN == nil || !l.holds(n+"ffn_gate_inp.weight") {
		return nil
	}
	d := c.HiddenSize
	f.experts = f.besideFFN
	m := &expertsBeside{experts: l.expertBlock(c, f, n), input: l.norm(c, f, n+"pre_ffw_norm_2", d),
		router:    norm{kind: f.norm, eps: c.Epsilon, w: l.vector(n+"ffn_gate_inp.scale", d)},
		ffnOutput: l.norm(c, f, n+"post_ffw_norm_1", d), expertsOut: l.norm(c, f, n+"post_ffw_norm_2", d)}
	m.experts.downScale = l.optional(n+"ffn_down_exps.scale", f.besideFFN.count)
	return m
}

// forward adds what the experts make of x [rows][D] to the feed-forward's y [rows][D].
func (m *expertsBeside) forward(p *pass, c *Config, y, x []float32) {
	d := c.HiddenSize
	h, by, out := p.matrix(&p.h, d), p.matrix(&p.a, d), p.matrix(&p.other, d)
	p.norm(y, y, m.ffnOutput)
	p.norm(h, x, m.input)
	p.norm(by, x, m.router)
	p.scale(by, float32(1/math.Sqrt(float64(d))))
	m.experts.routed(p, c, out, h, by)
	p.norm(out, out, m.expertsOut)
	p.add(y, out)
}

func (l *loader) layerInput(c *Config, f family, i int) *layerInput {
	n := l.block(i)
	return &layerInput{gate: l.linear(n+"inp_gate", f.layerInput, c.HiddenSize), proj: l.linear(n+"proj", c.HiddenSize, f.layerInput),
		norm: l.norm(c, f, n+"post_norm", c.HiddenSize), layer: i, size: f.layerInput}
}

func (in *layerInput) forward(p *pass, c *Config, x []float32) {
	gate, u, y := p.matrix(&p.gate, in.size), p.matrix(&p.up, in.size), p.matrix(&p.y, c.HiddenSize)
	p.matmul(x, c.HiddenSize, in.gate.times(gate))
	all := len(p.inputs) / p.rows() // of a token
	for i := range p.rows() {
		copy(u[i*in.size:(i+1)*in.size], p.inputs[i*all+in.layer*in.size:])
	}
	p.gateMul(gate, u, gelu)
	p.matmul(gate, in.size, in.proj.times(y))
	p.norm(y, y, in.norm)
	p.add(x, y)
}
