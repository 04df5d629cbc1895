package engine

import "github.com/specgo/spec/tensor"

// decoder is a decoder-only transformer (Vaswani et al. 2017, arXiv:1706.03762, without the encoder). Most
// architectures are this one with other parts left out: a part that a model does not have is a zero value here.
// doc.go lists them; family.go says which there are.
//
// Shapes: D hidden size, H query heads, K KV heads, d head size, F feed-forward size, V vocabulary; rows are the
// tokens of a round.
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
	attnPostNorm  norm     // of the attention's output
	attnAfter     norm     // of the residual stream after attention
	ffnNorm       norm     // of the feed-forward's input; in a parallel block without one it reads the attention's
	feed          sublayer // nil: the block has but one sublayer, the mixer
	ffnPostNorm   norm     // of the feed-forward's output
	ffnAfter      norm     // of the residual stream after the feed-forward
	parallel      bool     // both sublayers read the block's input
	apart         bool     // sublayers write other memory than they read
	residualScale float32  // of what is added to the residual stream; 0: none
	end           ending   // what one family does then; nil: nothing
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
	y := h                            // [rows][D] what it computes, in the same memory where h is not needed then
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
	if b.feed == nil {
		return
	}

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

func (m *decoder) finalNorm(p *pass, x []float32) []float32 {
	p.norm(x, x, m.outputNorm)
	return x
}

// logits computes out [n][V] of the normalized x [n][D].
func (m *decoder) logits(p *pass, out, x []float32) {
	p.output(out, x, m.c.HiddenSize, output{linear: m.output, scale: m.logitScale, cap: m.logitCap})
}

func (m *decoder) outputs() []linear { return []linear{m.output} }

// lends is what the model shares with draft heads.
func (m *decoder) lends() lends {
	return lends{
		embeds: m.positions == nil, embedding: m.embedding, embeddingScale: m.embeddingScale,
		blocks: m.blocks, outputNorm: m.outputNorm, projects: true, output: m.output,
	}
}

// lends is what a model shares with draft heads; the zero value is nothing.
type lends struct {
	embeds         bool // it has embeddings that are nothing but rows of a matrix
	embedding      *tensor.Matrix
	embeddingScale float32

	blocks     []block
	outputNorm norm
	projects   bool   // it has an output matrix that reads hidden states
	output     linear // of it
}

// lends is what the model shares with draft heads.
func (m *Model) lends() lends {
	if m == nil {
		return lends{}
	}
	if lender, ok := m.net.(interface{ lends() lends }); ok {
		return lender.lends()
	}
	return lends{}
}
