package engine

import "github.com/specgo/spec/tensor"

// decoder is a decoder-only transformer (Vaswani et al. 2017, arXiv:1706.03762, without the encoder). Most architectures are this
// one with other parts left out: a part that a model does not have is a zero value here. doc.go lists them; family.go says which
// there are.
//
// Shapes: D hidden size, H query heads, K KV heads, d head size, F feed-forward size, V vocabulary; rows are the tokens of a round.
type decoder struct {
	c              *Config
	embedding      *tensor.Matrix // [V][D]
	embeddingScale float32        // 0: none
	positions      []float32      // [context][D] learned position embeddings
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
	ffnNorm       norm // of the feed-forward's input; in a parallel block without one it reads the attention's
	feed          sublayer
	ffnPostNorm   norm    // of the feed-forward's output
	ffnAfter      norm    // of the residual stream after the feed-forward
	parallel      bool    // both sublayers read the block's input
	apart         bool    // sublayers write other memory than they read
	residualScale float32 // of what is added to the residual stream; 0: none
	end           ending  // what one family does then; nil: nothing
}

// sublayer computes y [rows][D] of h [rows][D], which may be the same memory unless block.apart says otherwise.
type sublayer interface {
	forward(p *pass, c *Config, y, h []float32)
}

// mixer is the sublayer that moves information from token to token: attention, or a recurrent layer.
type mixer interface{ sublayer }

// ending changes the residual stream x [rows][D] at the end of a block.
type ending interface {
	forward(p *pass, c *Config, x []float32)
}

// linear is a matrix [rows][cols] and a bias [rows], nil where there is none.
type linear struct {
	w *tensor.Matrix
	b []float32
}

func (m *decoder) forward(p *pass) {
	x := p.matrix(&p.x, m.c.HiddenSize) // [rows][D] the residual stream
	m.embed(p, x)
	m.layers(p, x)
}

// embed makes x [rows][D] of the tokens.
func (m *decoder) embed(p *pass, x []float32) {
	p.embed(x, m.embedding)
	p.scale(x, m.embeddingScale)
	if m.positions != nil {
		p.addPositions(x, m.positions)
	}
}

// layers takes x [rows][D] through the blocks.
func (m *decoder) layers(p *pass, x []float32) {
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
	if b.apart {
		y = p.matrix(&p.y, c.HiddenSize)
	}

	p.norm(h, x, b.attnNorm)
	b.mixer.forward(p, c, y, h)
	if b.parallel { // x + attention(norm(x)) + ffn(norm(x))
		if b.ffnNorm.kind != nil {
			p.norm(h, x, b.ffnNorm)
		}
		p.add(x, y)
		b.feed.forward(p, c, y, h)
		p.add(x, y)
		return
	}
	p.norm(y, y, b.attnPostNorm)
	p.scale(y, b.residualScale)
	p.add(x, y)
	p.norm(x, x, b.attnAfter)

	p.norm(h, x, b.ffnNorm)
	b.feed.forward(p, c, y, h)
	p.norm(y, y, b.ffnPostNorm)
	p.scale(y, b.residualScale)
	p.add(x, y)
	p.norm(x, x, b.ffnAfter)
	if b.end != nil {
		b.end.forward(p, c, x)
	}
}

func (m *decoder) finalNorm(p *pass, x []float32) { p.norm(x, x, m.outputNorm) }

// logits computes out [n][V] of the normalized x [n][D].
func (m *decoder) logits(p *pass, out, x []float32) {
	p.matmul(x, m.c.HiddenSize, m.output.times(out))
	m.limit(p, out)
}

// limit scales and caps logits.
func (m *decoder) limit(p *pass, out []float32) {
	p.scale(out, m.logitScale)
	p.cap(out, m.logitCap)
}

// lends is what the model shares with draft heads.
func (m *decoder) lends() lends {
	return lends{
		embeds: m.positions == nil, embedding: m.embedding, embeddingScale: m.embeddingScale,
		blocks: m.blocks, outputNorm: m.outputNorm, projects: true, output: m.output,
	}
}

// build reads the weights of a model whose parts a family says.
type build struct {
	*loader
	family
	c     *Config
	ropes ropes
}

// newBuild reads what the layers have in common.
func newBuild(l *loader, c *Config, f family) *build {
	c.Epsilon = l.float(f.norms.kind.epsilon())
	return &build{loader: l, family: f, c: c, ropes: l.ropes(c, &f)}
}

// decoder reads a decoder.
func (l *loader) decoder(c *Config, f family) network {
	b := newBuild(l, c, f)
	m := &decoder{c: c, embeddingScale: f.scales.embedding, logitScale: f.scales.logit, logitCap: f.scales.logitCap}
	var net network = m
	if f.ends.start != nil {
		net = f.ends.start(b, m)
	} else {
		m.embedding = l.embedding(c)
	}
	if f.ends.positions {
		m.positions = l.floats("position_embd.weight", c.HiddenSize, c.Context)
	}
	for i := 0; i < c.Layers && l.ok(); i++ {
		m.blocks = append(m.blocks, b.decoderBlock(i))
	}
	if name := b.called("output_norm"); name != "" {
		m.outputNorm = b.norm(name, c.HiddenSize)
	}
	m.output = linear{w: m.embedding}
	if f.ends.output == outputRequired || f.ends.output == outputOptional && l.holds("output.weight") {
		m.output.w = l.matrix("output.weight", c.Vocab, c.HiddenSize)
	}
	if f.ends.outputBias {
		m.output.b = l.optional("output.bias", c.Vocab)
	}
	return net
}

// called is what the file calls a norm.
func (b *build) called(name string) string {
	if other, ok := b.norms.names[name]; ok {
		return other
	}
	return name
}

// decoderBlock reads layer i.
func (b *build) decoderBlock(i int) block {
	n, d, f := b.block(i), b.c.HiddenSize, &b.norms
	block := block{parallel: f.parallel, residualScale: b.scales.residual}
	attnNorm, ffnNorm := n+"attn_norm", n+b.called("ffn_norm")
	switch f.at {
	case atInputs, atBoth:
		block.attnNorm = b.norm(attnNorm, d)
		if !f.parallel || b.holds(ffnNorm+".weight") {
			block.ffnNorm = b.norm(ffnNorm, d)
		}
		if second := n + "attn_norm_2"; f.parallel && b.holds(second+".weight") {
			block.attnNorm, block.ffnNorm = b.norm(second, d), block.attnNorm
		}
	case atResidual:
		block.attnAfter, block.ffnAfter = b.norm(attnNorm, d), b.norm(ffnNorm, d)
	}
	if f.at == atOutputs || f.at == atBoth {
		block.attnPostNorm, block.ffnPostNorm = b.norm(n+"post_attention_norm", d), b.norm(n+"post_ffw_norm", d)
	}
	if b.mixer != nil {
		block.mixer = b.mixer(b, i)
	}
	switch {
	case block.mixer != nil:
	case b.family.attention.own != nil:
		block.mixer = b.family.attention.own(b, i)
	default:
		block.mixer = b.attention(i)
	}
	if b.end != nil {
		block.end = b.end(b, i)
	}
	switch {
	case b.feed.own != nil:
		block.feed = b.feed.own(b, i)
	case b.feed.experts != nil:
		block.feed = b.expertBlock(b.feed.experts, n)
	default:
		block.feed = b.feedForward(n, "", b.ffn[i])
	}
	_, plain := block.feed.(*feedForward)
	block.apart = f.parallel || !plain
	return block
}

// linear reads name.weight [rows][cols] and, if there, name.bias [rows].
func (l *loader) linear(name string, rows, cols int) linear {
	return linear{l.matrix(name+".weight", rows, cols), l.optional(name+".bias", rows)}
}
