package engine

import "github.com/specgo/spec/tensor"

// decoder is a decoder-only transformer (Vaswani et al. 2017, arXiv:1706.03762, without the encoder). Most architectures are this
// one with other parts left out: a part that a model does not have is a zero value here. doc.go lists them, and family.go reads
// them from a file.
//
// Shapes: D hidden size, H query heads, K KV heads, d head size, F feed-forward size, V vocabulary; rows are the tokens of a round.
type decoder struct {
	c              *Config
	embedding      *tensor.Matrix // [V][D], or [V][W] with projections
	projectIn      *tensor.Matrix // [D][W] makes hidden states of token embeddings; nil: they are
	projectOut     *tensor.Matrix // [W][D] what the output matrix multiplies; nil: hidden states
	embeddingScale float32        // 0: none
	positions      []float32      // [context][D] learned position embeddings
	embeddingNorm  norm
	inputs         *layerInputs // of the layers; nil: none
	blocks         []block
	outputNorm     norm
	output         linear  // [V][D]; the embedding where the two are tied
	logitScale     float32 // 0: none
	logitCap       float32 // 0: none
}

// block is one layer.
type block struct {
	attnNorm      norm // of the attention's input
	mixer         mixer
	attnPostNorm  norm // of the attention's output
	attnAfter     norm // of the residual stream after attention
	ffnAfter      norm // likewise after the feed-forward
	ffnNorm       norm // of the feed-forward's input; in a parallel block without one it reads the attention's
	ffn           feedForward
	experts       *experts       // instead of ffn
	beside        *expertsBeside // beside ffn; nil: none
	ffnPostNorm   norm           // of the feed-forward's output
	parallel      bool           // both sublayers read the block's input
	input         *layerInput    // what a token gives the layer besides the residual stream; nil: nothing
	outputScale   float32        // of the block's output; 0: none
	residualScale float32        // of what is added to the residual stream; 0: none
}

// mixer is the sublayer that moves information from token to token: attention, or a recurrent layer. It computes y [rows][D] of
// h [rows][D], which may be the same memory.
type mixer interface {
	forward(p *pass, c *Config, y, h []float32)
}

// attention is grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245).
type attention struct {
	heads        int    // H: of queries
	kvHeads      int    // K: of keys and values
	headDim      int    // d
	q            linear // [H*d][D]; with gates [H*2d][D]: a head's queries, then its gates
	k, v         linear // [K*d][D]
	o            linear // [D][H*d]
	clamp        float32
	qNorm, kNorm norm // over a head, or over all heads at once
	normLast     bool // after the rotation instead of before
	vNorm        norm // of values
	shared       bool // it has no keys and values of its own: cache and layer are another layer's
	keysAsValues bool // values are the keys before their norm
	gated        bool // the result is multiplied by the sigmoid of gates
	rope         *tensor.RopeTable
	style        tensor.RopeStyle
	temperature  temperature
	cache        int // of the model's caches
	scores       tensor.AttentionOptions
}

// feedForward is act(gate x) ∘ (up x), or act(up x) without a gate, then down.
type feedForward struct {
	gate, up linear // [F][D]
	down     linear // [D][F]
	act      activation
}

// linear is a matrix [rows][cols] and a bias [rows], nil where there is none.
type linear struct {
	w *tensor.Matrix
	b []float32
}

func (m *decoder) forward(p *pass) {
	x := p.matrix(&p.x, m.c.HiddenSize) // [rows][D] the residual stream
	if m.projectIn == nil {
		p.embed(x, m.embedding)
	} else {
		e := p.matrix(&p.up, m.embedding.Cols()) // [rows][W]
		p.embed(e, m.embedding)
		p.matmul(e, m.embedding.Cols(), linear{w: m.projectIn}.times(x))
	}
	p.scale(x, m.embeddingScale)
	if m.positions != nil {
		p.addPositions(x, m.positions)
	}
	p.norm(x, x, m.embeddingNorm)
	if m.inputs != nil {
		m.inputs.forward(p, m.c, x)
	}
	for i := range m.blocks {
		if !p.layer(i) {
			return
		}
		m.blocks[i].forward(p, m.c, x)
	}
}

// forward adds what the block computes to the residual stream x [rows][D].
func (b *block) forward(p *pass, c *Config, x []float32) {
	h := p.matrix(&p.h, c.HiddenSize) // [rows][D] what a sublayer reads
	y := h                            // [rows][D] what it computes, in the same memory where h is not needed any more by then
	if b.parallel || b.experts != nil || b.beside != nil {
		y = p.matrix(&p.y, c.HiddenSize)
	}

	p.norm(h, x, b.attnNorm)
	b.mixer.forward(p, c, y, h)
	if b.parallel { // x + attention(norm(x)) + ffn(norm(x))
		if b.ffnNorm.kind != noNorm {
			p.norm(h, x, b.ffnNorm)
		}
		p.add(x, y)
		b.feed(p, c, y, h)
		p.add(x, y)
		return
	}
	p.norm(y, y, b.attnPostNorm)
	p.scale(y, b.residualScale)
	p.add(x, y)
	p.norm(x, x, b.attnAfter)

	p.norm(h, x, b.ffnNorm)
	b.feed(p, c, y, h)
	if b.beside != nil {
		b.beside.forward(p, c, y, x)
	}
	p.norm(y, y, b.ffnPostNorm)
	p.scale(y, b.residualScale)
	p.add(x, y)
	p.norm(x, x, b.ffnAfter)
	if b.input != nil {
		b.input.forward(p, c, x)
	}
	p.scale(x, b.outputScale)
}

// feed computes y [rows][D] of h [rows][D]: the feed-forward, or the experts.
func (b *block) feed(p *pass, c *Config, y, h []float32) {
	if b.experts != nil {
		b.experts.forward(p, c, y, h)
	} else {
		b.ffn.forward(p, c, y, h)
	}
}

// forward computes y [rows][D] of h [rows][D]: softmax(q Kᵀ scale) V of every head, every row on its own path.
func (l *attention) forward(p *pass, c *Config, y, h []float32) {
	q := p.matrix(&p.q, l.heads*l.headDim)   // [rows][H][d]
	k := p.matrix(&p.k, l.kvHeads*l.headDim) // [rows][K][d]
	v := p.matrix(&p.v, l.kvHeads*l.headDim)
	a := p.matrix(&p.a, l.heads*l.headDim)
	gates := p.gate[:0]

	switch {
	case l.shared:
		p.matmul(h, l.q.w.Cols(), l.q.times(q))
	case l.keysAsValues:
		p.matmul(h, l.q.w.Cols(), l.q.times(q), l.k.times(k))
		copy(v, k)
	case l.gated:
		both := p.matrix(&p.up, 2*l.heads*l.headDim) // [rows][H][2][d]
		gates = p.matrix(&p.gate, l.heads*l.headDim)
		p.matmul(h, l.q.w.Cols(), l.q.times(both), l.k.times(k), l.v.times(v))
		p.unzip(q, gates, both, l.headDim)
	default:
		p.matmul(h, l.q.w.Cols(), l.q.times(q), l.k.times(k), l.v.times(v))
	}
	if l.clamp > 0 {
		p.clamp(q, l.clamp)
		p.clamp(k, l.clamp)
		p.clamp(v, l.clamp)
	}
	if !l.normLast {
		p.norm(q, q, l.qNorm)
		p.norm(k, k, l.kNorm)
	}
	if l.rope != nil {
		p.rope(q, l.heads, l.headDim, l)
		if !l.shared {
			p.rope(k, l.kvHeads, l.headDim, l)
		}
	}
	if l.normLast {
		p.norm(q, q, l.qNorm)
		p.norm(k, k, l.kNorm)
	}
	p.norm(v, v, l.vNorm)
	p.temper(q, l.temperature)
	if l.shared {
		k, v = nil, nil
	}
	p.attend(a, l.cache, l.scores, q, k, v)
	if l.gated {
		p.sigmoidMul(a, gates)
	}
	p.matmul(a, l.heads*l.headDim, l.o.times(y))
}

// remember computes the keys and values of h [rows][D], as forward does, and puts them into the cache. The layer has some of its own.
func (l *attention) remember(p *pass, h []float32) {
	k := p.matrix(&p.k, l.kvHeads*l.headDim) // [rows][K][d]
	v := p.matrix(&p.v, l.kvHeads*l.headDim)
	if l.keysAsValues {
		p.matmul(h, l.k.w.Cols(), l.k.times(k))
		copy(v, k)
	} else {
		p.matmul(h, l.k.w.Cols(), l.k.times(k), l.v.times(v))
	}
	if l.clamp > 0 {
		p.clamp(k, l.clamp)
		p.clamp(v, l.clamp)
	}
	if !l.normLast {
		p.norm(k, k, l.kNorm)
	}
	if l.rope != nil {
		p.rope(k, l.kvHeads, l.headDim, l)
	}
	if l.normLast {
		p.norm(k, k, l.kNorm)
	}
	p.norm(v, v, l.vNorm)
	if p.err == nil {
		p.fail(p.t.StoreKV(l.scores.Layer, k, v, p.segments[l.cache]))
	}
}

// forward computes y [rows][D] of h [rows][D].
func (l *feedForward) forward(p *pass, c *Config, y, h []float32) {
	f := l.up.w.Rows()
	up := p.matrix(&p.up, f)
	if l.gate.w == nil {
		p.matmul(h, c.HiddenSize, l.up.times(up))
		p.activate(up, l.act)
		p.matmul(up, f, l.down.times(y))
		return
	}
	gate := p.matrix(&p.gate, f)
	p.matmul(h, c.HiddenSize, l.gate.times(gate), l.up.times(up))
	p.gateMul(gate, up, l.act)
	p.matmul(gate, f, l.down.times(y))
}

func (m *decoder) finalNorm(p *pass, x []float32) { p.norm(x, x, m.outputNorm) }

// logits computes out [n][V] of the normalized x [n][D].
func (m *decoder) logits(p *pass, out, x []float32) {
	cols := m.c.HiddenSize
	if m.projectOut != nil {
		e := sized(&p.up, len(x)/cols*m.projectOut.Rows()) // [n][W]
		p.matmul(x, cols, linear{w: m.projectOut}.times(e))
		x, cols = e, m.projectOut.Rows()
	}
	p.matmul(x, cols, m.output.times(out))
	p.scale(out, m.logitScale)
	p.cap(out, m.logitCap)
}
