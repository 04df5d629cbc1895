package engine

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/specgo/spec/tensor"
)

// eagle is an EAGLE-3 head (Li et al. 2025, arXiv:2503.01840): one block that continues a target model's hidden
// states. It has its own KV cache. The input at position p is the token at p+1 and g, which is made of the target's
// hidden states at p, or, where the target has not been yet, is what the head computed one step before. What its
// block computes takes the place of g in the next step.
//
//	g = fc [x_k1; x_k2; x_k3]
//	a = [norm(embedding of the token); norm(g)]
//	y = r + attention(a), r = g or norm(g);  y = y + ffn(norm(y))
//	logits = output norm(y), of the tokens that the head knows; those of all others are -Inf
//
// EAGLE-3.1 (arXiv:2605.09992) has two more norms: of the target's states before fc, each by itself (fc_norm) or all as
// one (norm_before_fc), and norm(y) in place of y as the g of the next step (norm_output).
//
// Shapes: D hidden size, T the target's, V vocabulary, W tokens that the head knows.
type eagle struct {
	Head
	c *Config
	tokenAndState
	fc           linear     // [D][3T]
	targetNorm   norm       // of the three states, [T] each, or of all as one [3T]; none in some heads
	normResidual bool       // r = norm(g)
	attention    *attention // q [H*d][2D]; k, v [K*d][2D]
	ffnNorm      norm
	ffn          *feedForward
	outputNorm   norm
	output       linear  // [W][D]
	ids          []int32 // [W] the target's ids of the tokens that the head knows; nil: all, in order
}

func (m *eagle) forward(p *pass) {
	d := m.c.HiddenSize
	g := p.matrix(&p.x, d) // [rows][D]
	m.states(p, g)
	if !p.layer(0) {
		return
	}
	a := m.input(p, d, g)
	h, y := p.matrix(&p.h, d), p.matrix(&p.y, d)
	if m.normResidual {
		copy(g, y) // norm(g), the second half of a
	}
	m.attention.forward(p, m.c, y, a)
	p.add(g, y)
	p.norm(h, g, m.ffnNorm)
	m.ffn.forward(p, m.c, y, h)
	p.add(g, y)
}

// states computes g [rows][D].
func (m *eagle) states(p *pass, g []float32) {
	d, r := m.c.HiddenSize, &p.routing
	r.rows = r.rows[:0]
	for _, f := range p.fed {
		if !f.fromTarget {
			copy(g[f.row*d:(f.row+f.n)*d], f.x)
			continue
		}
		for i := range f.n {
			r.rows = append(r.rows, int32(f.row+i))
		}
	}
	if len(r.rows) == 0 {
		return
	}
	x, at := sized(&r.x, len(r.rows)*m.targetSize), 0
	for _, f := range p.fed {
		if f.fromTarget {
			at += copy(x[at:], f.x)
		}
	}
	p.part = r.rows
	p.norm(x, x, m.targetNorm)
	y := p.matrix(&r.y, d)
	p.matmul(x, m.targetSize, m.fc.times(y))
	p.part = nil
	for i, row := range r.rows {
		copy(g[int(row)*d:(int(row)+1)*d], y[i*d:])
	}
}

func (m *eagle) finalNorm(p *pass, x []float32) []float32 {
	p.norm(x, x, m.outputNorm)
	return x
}

// logits computes out [n][V] of the normalized x [n][D].
func (m *eagle) logits(p *pass, out, x []float32) {
	p.output(out, x, m.c.HiddenSize, output{linear: m.output, ids: m.ids})
}

// outputs is the output matrix, unless its rows are a list of tokens already.
func (m *eagle) outputs() []linear {
	if m.ids != nil {
		return nil
	}
	return []linear{m.output}
}

// eagle reads an EAGLE-3 head. What it shares with its target is target's.
func (l *loader) eagle(model *Model) network {
	c, target := &model.config, model.target
	b := newBuild(l, c, family{
		norms: normParts{kind: rmsNorm{}}, rope: ropeParts{pairing: pairs,
			keys: freqFactors | longrope}, feed: feedParts{gate: gated},
	})
	if l.ok() && c.Layers != 1 {
		l.fail("block_count", ErrUnsupported, "%d blocks of an EAGLE-3 head, there is one", c.Layers)
	}
	d, t := c.HiddenSize, l.integer("target_hidden_size")
	m := &eagle{c: c, normResidual: l.boolOr("norm_before_residual", false)}
	m.Head = Head{TargetLayers: l.targetLayers(), Output: 1, targetSize: 3 * t, stateSize: d}
	if n := len(m.TargetLayers); l.ok() && n != 3 {
		l.fail("target_layers", ErrValue, "%d layers, an EAGLE-3 head reads three", n)
	}
	if l.ok() && target != nil && target.config.StateSize != t {
		l.fail("target_hidden_size", ErrValue, "%d, the target has %d", t, target.config.StateSize)
	}
	if l.ok() && target != nil {
		for _, k := range m.TargetLayers {
			if k > target.config.Layers {
				l.fail("target_layers", ErrValue, "layer %d, the target has %d", k, target.config.Layers)
			}
		}
	}
	if l.holds("token_embd.weight") {
		m.embedding = l.embedding(c)
	} else {
		m.embedding = l.targetEmbedding(c, target)
	}
	if !l.ok() {
		return m
	}
	m.fc = l.matrix("fc.weight", d, m.targetSize)
	together := l.boolOr("norm_before_fc", false)
	switch each := "fc_norm.0.weight"; {
	case together && l.holds(each):
		l.fail("norm_before_fc", ErrValue, "true, and there is a norm for each state (%s)", each)
	case together:
		m.targetNorm = b.norm("enc.output_norm", m.targetSize)
	case l.holds(each):
		m.targetNorm = norm{kind: b.norms.kind, eps: c.Epsilon, w: ones(t), b: make([]float32, t)}
		for i := range m.TargetLayers {
			m.targetNorm.own = append(m.targetNorm.own, l.vector(fmt.Sprintf("fc_norm.%d.weight", i), t)...)
		}
	}
	if l.boolOr("norm_output", false) {
		m.Output = FinalNorm
	}
	n := l.block(0)
	m.tokenNorm, m.stateNorm = b.norm(n+"attn_norm", d), b.norm(n+"attn_norm_2", d)
	m.attention = b.eagleAttention()
	m.ffnNorm = b.norm(n+"ffn_norm", d)
	m.ffn = b.feedForward(n, "", c.FeedForward)
	m.outputNorm = b.norm("output_norm", d)
	m.output, m.ids = l.headOutput(c, target)
	m.masked = m.ids != nil
	return m
}

// targetLayers are the layers of the target whose states a head reads.
func (l *loader) targetLayers() (layers []int) {
	const key = "target_layers"
	l.keys[key] = true
	list, err := l.f.Uint32s(l.arch + "." + key)
	if err != nil {
		l.fail(key, ErrValue, "not there, or no array of layers")
	}
	for _, k := range list {
		if k > largest {
			l.fail(key, ErrValue, "layer %d", k)
		}
		layers = append(layers, int(min(k, largest)))
	}
	return layers
}

// targetEmbedding is the embedding of a head that has none of its own.
func (l *loader) targetEmbedding(c *Config, target *Model) *tensor.Matrix {
	wrong := func(kind error, format string, args ...any) *tensor.Matrix {
		l.bad("token_embd.weight", kind, format, args...)
		return nil
	}
	if target == nil {
		return wrong(ErrMissing, "not in the file: the head shares it with its target, which is not given")
	}
	// A head normalizes embeddings, so it takes those of the matrix, whatever factor the target multiplies them by.
	lent := target.lends()
	if !lent.embeds {
		return wrong(ErrUnsupported, "not in the file, and a %s model's embeddings are not plain", target.config.Architecture)
	}
	if c.Vocab == 0 {
		c.Vocab = target.config.Vocab
	}
	if target.config.HiddenSize != c.HiddenSize || target.config.Vocab != c.Vocab {
		return wrong(ErrShape, "not in the file, and the target's are %d of %d numbers, expected %d of %d",
			target.config.Vocab, target.config.HiddenSize, c.Vocab, c.HiddenSize)
	}
	return lent.embedding
}

// eagleAttention is attention that reads 2D numbers.
func (b *build) eagleAttention() *attention {
	a, n, d := b.heads(0, b.c.HeadDim), b.block(0), b.c.HiddenSize
	a.q, a.k = b.linear(n+"attn_q", a.heads*a.headDim, 2*d), b.linear(n+"attn_k", a.kvHeads*a.headDim, 2*d)
	a.v = b.linear(n+"attn_v", a.kvHeads*a.headDim, 2*d)
	b.finish(a, 0)
	return a
}

// headOutput reads the output matrix [W][D] of a draft head and the tokens [W] that its rows are, or takes the
// target's.
func (l *loader) headOutput(c *Config, target *Model) (out linear, ids []int32) {
	const name, list = "output.weight", "d2t"
	t, ok := l.f.Tensor(name)
	if !ok {
		lent := target.lends()
		switch {
		case l.holds(list):
			l.bad(name, ErrMissing, "not in the file, but %q is", list)
		case !lent.projects || target.config.HiddenSize != c.HiddenSize || target.config.Vocab != c.Vocab:
			l.bad(name, ErrMissing, "not in the file: the head shares it with its target, which is not given or has another "+
				"shape")
		default:
			return lent.output, nil // with its bias, where there is one
		}
		return out, nil
	}
	w := c.Vocab
	if l.holds(list) && len(t.Dims) == 2 && t.Dims[1] <= uint64(c.Vocab) {
		w = int(t.Dims[1])
	}
	out = l.matrix(name, w, c.HiddenSize)
	if !l.holds(list) {
		return out, nil
	}
	known := make([]bool, c.Vocab)
	for i, id := range l.integers(list, w) {
		if id < 0 || id >= int64(c.Vocab) || known[id] {
			l.bad(list, ErrValue, "element %d is %d, of a vocabulary of %d, or there twice", i, id, c.Vocab)
			return out, nil
		}
		known[id] = true
		ids = append(ids, int32(id))
	}
	return out, ids
}

// integers reads a vector of type I64.
func (l *loader) integers(name string, n int) []int64 {
	t, ok := l.find(name)
	if !l.ok() {
		return nil
	}
	switch {
	case !ok:
		l.bad(name, ErrMissing, "not in the file")
	case t.Type.String() != "I64":
		l.bad(name, ErrWeightType, "%v, expected I64", t.Type)
	case t.Elements() != uint64(n) || n > math.MaxInt/8:
		l.bad(name, ErrShape, "%d, expected %d", t.Dims, n)
	}
	if !l.ok() {
		return nil
	}
	raw := make([]byte, 8*n)
	if k, err := l.progress.ReadAt(raw, t.Offset); k < len(raw) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		l.keep(fmt.Errorf("%s: tensor %q: %w", l.f.Name, name, err))
		return nil
	}
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	return all
}
