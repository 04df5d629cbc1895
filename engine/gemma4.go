package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/specgo/spec/tensor"
)

// gemma4 is Gemma 4: as gemma3, with other heads in layers with a window, values that are normalized, layers at the
// end that use the keys and values of earlier ones, and, in some models, embeddings for each layer, or experts beside
// the feed-forward.
func gemma4(l *loader, c *Config) family {
	f := gemma(l, c)
	f.norms.at, f.ends.output = atBoth, outputOptional
	f.rope.keys = freqFactors
	w := l.gemma4Windows(c)
	sharing := l.integerOr("attention.shared_kv_layers", 0)
	if l.ok() && sharing > max(0, l.layers-2) {
		l.fail("attention.shared_kv_layers", ErrValue, "%d of %d layers", sharing, l.layers)
	}
	size := l.integerOr("embedding_length_per_layer_input", 0)
	f.scales.logitCap = l.floatOr("final_logit_softcapping", 0)
	routed := l.experts(c, expertOptions{width: l.integerOr("expert_feed_forward_length", c.FeedForward), normalize: true})
	f.attention.own = func(b *build, i int) mixer { return b.gemma4Attention(i, w, sharing) }
	f.ends.start = func(b *build, m *decoder) network {
		w.rotate(b)
		m.embedding = b.embedding(c)
		if size == 0 {
			return m
		}
		return &layered{m, b.layerInputs(size)}
	}
	f.feed.own = func(b *build, i int) sublayer {
		n := b.block(i)
		if routed == nil || !b.holds(n+"ffn_gate_inp.weight") {
			return b.feedForward(n, "", b.ffn[i])
		}
		return b.expertsBeside(routed, i)
	}
	f.end = func(b *build, i int) ending { return b.gemma4End(i, size) }
	return f
}

// gemma4Windows are the layers with a window: their heads have another size than those of the others, and are rotated
// otherwise.
type gemma4Windows struct {
	size    int // positions
	layers  func(layer int) bool
	headDim int
	dims    int // of a head that are rotated
	angles  *tensor.RopeTable
}

func (l *loader) gemma4Windows(c *Config) *gemma4Windows {
	w := &gemma4Windows{size: l.integer("attention.sliding_window"), layers: l.windows()}
	w.headDim = l.integerOr("attention.key_length_swa", c.HeadDim)
	if n := l.integerOr("attention.value_length_swa", w.headDim); l.ok() && n != w.headDim {
		l.fail("attention.value_length_swa", ErrUnsupported, "values of %d dimensions, keys of %d", n, w.headDim)
	}
	w.dims = l.windowDims(c)
	return w
}

// rotate makes the angles: without scaling, and without factors.
func (w *gemma4Windows) rotate(b *build) {
	o := unscaled(b.ropes.options)
	o.Base, o.Factors = float64(b.floatOr("rope.freq_base_swa", 10000)), nil
	if o.Dims = w.dims; o.Dims < 2 || o.Dims > max(w.headDim, 2) || o.Dims%2 != 0 {
		b.fail("rope.dimension_count_swa", ErrValue, "%d of a head's %d dimensions", o.Dims, w.headDim)
	}
	if b.ok() {
		w.angles = b.ropeTable(o, "rope_freqs.weight")
	}
}

// windows is attention.sliding_window_pattern with one bool per block, or a number that is not 0, which must be there.
func (l *loader) windows() func(layer int) bool { return l.flags("attention.sliding_window_pattern") }

// flags is a hyperparameter of such a form.
func (l *loader) flags(key string) func(layer int) bool {
	l.keys[key] = true
	v, _ := l.f.Value(l.arch + "." + key)
	list, _ := v.([]bool)
	if numbers, err := l.f.Int32s(l.arch + "." + key); err == nil {
		for _, n := range numbers {
			list = append(list, n != 0)
		}
	}
	if l.ok() && len(list) < l.layers {
		l.fail(key, ErrValue, "%d of a bool for each of %d blocks", len(list), l.layers)
	}
	if !l.ok() {
		return func(int) bool { return false }
	}
	return func(layer int) bool { return list[l.first+layer] }
}

// gemma4Attention has normalized values; they may be the keys before their norm.
type gemma4Attention struct {
	*attention
	vNorm        norm
	keysAsValues bool
}

func (l *gemma4Attention) forward(p *pass, _ *Config, y, h []float32) {
	q, k, v := l.scratch(p)
	if l.keysAsValues {
		p.matmul(h, l.q.w.Cols(), l.q.times(q), l.k.times(k))
		copy(v, k)
	} else {
		p.matmul(h, l.q.w.Cols(), l.q.times(q), l.k.times(k), l.v.times(v))
	}
	l.place(p, q, l.heads, l.qNorm)
	l.place(p, k, l.kvHeads, l.kNorm)
	p.norm(v, v, l.vNorm)
	l.mix(p, y, q, k, v)
}

// borrowing is attention without keys and values of its own: its cache and layer are another layer's.
type borrowing struct{ *attention }

func (l *borrowing) forward(p *pass, _ *Config, y, h []float32) {
	q := p.matrix(&p.q, l.heads*l.headDim)
	p.matmul(h, l.q.w.Cols(), l.q.times(q))
	l.place(p, q, l.heads, l.qNorm)
	l.mix(p, y, q, nil, nil)
}

// gemma4Keys is the attention of a layer of gemma4, which says where its keys and values are.
func gemma4Keys(m mixer) *attention {
	switch m := m.(type) {
	case *gemma4Attention:
		return m.attention
	case *borrowing:
		return m.attention
	}
	return nil
}

// gemma4Attention reads layer i's. The last layers, as many as sharing says, use the keys and values of the last ones
// before them.
func (b *build) gemma4Attention(i int, w *gemma4Windows, sharing int) mixer {
	dim, window, angles := b.c.HeadDim, 0, b.ropes.full
	if w.layers(i) {
		dim, window, angles = w.headDim, w.size, w.angles
	}
	a, n, d := b.heads(i, dim), b.block(i), b.c.HiddenSize
	if !b.ok() {
		return a
	}
	a.rope, a.style = angles, tensor.RopeHalves
	a.scores = tensor.AttentionOptions{Heads: a.heads, Scale: 1, Window: window}
	heads, kvHeads := a.heads*dim, a.kvHeads*dim
	a.q = b.linear(n+"attn_q", heads, d)
	if i >= b.layers-sharing {
		b.unused(n, map[string][]int{"attn_k": {d, kvHeads}, "attn_v": {d, kvHeads}, "attn_k_norm": {dim}})
		a.o, a.qNorm = b.linear(n+"attn_output", d, heads), b.norm(n+"attn_q_norm", dim)
		a.cache, a.scores.Layer = b.source(i, b.layers-sharing-1, a)
		return &borrowing{a}
	}
	l := &gemma4Attention{attention: a, vNorm: norm{kind: rmsNorm{}, eps: b.c.Epsilon, w: ones(dim)}}
	a.k = b.linear(n+"attn_k", kvHeads, d)
	if l.keysAsValues = !b.holds(n + "attn_v.weight"); !l.keysAsValues {
		a.v = b.linear(n+"attn_v", kvHeads, d)
	}
	a.o = b.linear(n+"attn_output", d, heads)
	a.qNorm, a.kNorm = b.norm(n+"attn_q_norm", dim), b.norm(n+"attn_k_norm", dim)
	a.cache, a.scores.Layer = b.place(i, a.kvHeads, dim, window)
	return l
}

// unused notes tensors of a block that may be in the files and that nothing is computed with: the keys and values of
// layers that use another's, which the published files of Gemma 3n and of Gemma 4 E2B and E4B have.
func (l *loader) unused(block string, dims map[string][]int) {
	for name, d := range dims {
		if name = block + name; l.holds(name + ".weight") {
			l.tensor(name+".weight", d...)
			l.find(name + ".scale")
			l.find(name + ".input_scale")
		}
	}
}

// source is where layer i finds the keys and values that it shares: those of the last layer of its kind that has some
// of its own: last, or the one before it, which has a window.
func (l *loader) source(i, last int, a *attention) (at, number int) {
	if a.scores.Window > 0 {
		last--
	}
	for at, c := range l.caches {
		if j := slices.Index(c.layers, last); j >= 0 && c.heads == a.kvHeads && c.headDim == a.headDim &&
			c.window == a.scores.Window {
			return at, j
		}
	}
	if l.ok() {
		l.fail("attention.shared_kv_layers", ErrValue,
			"layer %d cannot use the keys and values of layer %d, which is of another kind", i, last)
	}
	return 0, 0
}

// layered is a decoder whose layers have inputs of their own.
type layered struct {
	*decoder
	inputs *layerInputs
}

func (m *layered) forward(p *pass) {
	x := p.matrix(&p.x, m.c.HiddenSize)
	m.embed(p, x)
	m.inputs.forward(p, m.c, x)
	m.layers(p, x)
}

// layerInputs are numbers that every token gives each layer besides the residual stream: (rms(project(x)/sqrt(D)) +
// embedding*sqrt(P))/sqrt(2).
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

func (b *build) layerInputs(size int) *layerInputs {
	n := size * b.layers
	// The projection is not converted, as routers are not: it is small, and every layer reads what it makes.
	return &layerInputs{
		size: size, embedding: b.lookup("per_layer_token_embd.weight", b.c.Vocab, n),
		project: linear{w: b.exact("per_layer_model_proj.weight", n, b.c.HiddenSize)},
		norm:    b.norm("per_layer_proj_norm", size),
	}
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

// expertsBeside is a feed-forward and experts that read the residual stream x: norm(ffn(norm(x))) +
// norm(experts(norm(x))). The router reads the normalized residual stream, times 1/sqrt(D) and a factor for each of
// its numbers.
type expertsBeside struct {
	ffn        *feedForward
	experts    *experts
	input      norm
	router     norm // its weights are the factors
	ffnOutput  norm
	expertsOut norm
}

// expertsBeside reads those of layer i.
func (b *build) expertsBeside(o *expertOptions, i int) *expertsBeside {
	n, d := b.block(i), b.c.HiddenSize
	m := &expertsBeside{
		experts: b.expertBlock(o, n), input: b.norm(n+"pre_ffw_norm_2", d),
		router:    norm{kind: rmsNorm{}, eps: b.c.Epsilon, w: b.vector(n+"ffn_gate_inp.scale", d)},
		ffnOutput: b.norm(n+"post_ffw_norm_1", d), expertsOut: b.norm(n+"post_ffw_norm_2", d),
	}
	m.ffn = b.feedForward(n, "", b.ffn[i])
	return m
}

// forward computes y [rows][D] of h [rows][D], the normalized residual stream p.x.
func (m *expertsBeside) forward(p *pass, c *Config, y, h []float32) {
	d := c.HiddenSize
	m.ffn.forward(p, c, y, h)
	p.norm(y, y, m.ffnOutput)
	x, by, out := p.matrix(&p.x, d), p.matrix(&p.a, d), p.matrix(&p.other, d)
	p.norm(h, x, m.input)
	p.norm(by, x, m.router)
	p.scale(by, float32(1/math.Sqrt(float64(d))))
	m.experts.route(p, by)
	m.experts.send(p, out, h)
	p.norm(out, out, m.expertsOut)
	p.add(y, out)
}

// gemma4End is what the end of a block adds to the residual stream of what the token gives the layer, and a factor of
// all.
type gemma4End struct {
	input *layerInput // nil: nothing
	scale float32     // 0: none
}

func (e *gemma4End) forward(p *pass, c *Config, x []float32) {
	if e.input != nil {
		e.input.forward(p, c, x)
	}
	p.scale(x, e.scale)
}

// gemma4End reads that of layer i, whose input has so many numbers.
func (b *build) gemma4End(i, size int) *gemma4End {
	e := &gemma4End{}
	if size > 0 {
		e.input = b.layerInput(i, size)
	}
	name := b.block(i) + "layer_output_scale.weight"
	if w := b.optional(name, 1); w != nil {
		if e.scale = w[0]; b.ok() && e.scale == 0 {
			b.keep(fmt.Errorf("%s: tensor %q: %w: 0", b.f.Name, name, ErrDamaged))
		}
	}
	return e
}

func (b *build) layerInput(i, size int) *layerInput {
	n, d := b.block(i), b.c.HiddenSize
	return &layerInput{
		gate: b.linear(n+"inp_gate", size, d), proj: b.linear(n+"proj", d, size),
		norm: b.norm(n+"post_norm", d), layer: i, size: size,
	}
}

func (in *layerInput) forward(p *pass, c *Config, x []float32) {
	y := p.matrix(&p.y, c.HiddenSize)
	in.make(p, c, y, x)
	p.add(x, y)
}

// make computes y [rows][D], which forward adds.
func (in *layerInput) make(p *pass, c *Config, y, x []float32) {
	gate, u := p.matrix(&p.gate, in.size), p.matrix(&p.up, in.size)
	p.matmul(x, c.HiddenSize, in.gate.times(gate))
	all := len(p.inputs) / p.rows() // of a token
	for i := range p.rows() {
		copy(u[i*in.size:(i+1)*in.size], p.inputs[i*all+in.layer*in.size:])
	}
	p.gateMul(gate, u, gelu)
	p.matmul(gate, in.size, in.proj.times(y))
	p.norm(y, y, in.norm)
}
