package engine

import (
	"fmt"
	"math"

	"github.com/specgo/spec/tensor"
)

// t5 is T5 (Raffel et al. 2020, arXiv:1910.10683), an encoder-decoder transformer (Vaswani et al. 2017,
// arXiv:1706.03762), and the models of its kind: T5 1.1, Flan-T5, mT5, UMT5. Attention is not divided by sqrt(d), its
// positions are biases by distance (tensor.RelativeBias), norms are root mean squares, and no linear map has a bias.
//
// Shapes: D hidden size, H heads, d head size (H*d need not be D), F feed-forward size, V vocabulary; rows are
// tokens: of the decoder in forward, of the encoder's input in encode.
type t5 struct {
	c           *Config
	embedding   *tensor.Matrix // [V][D] of encoder and decoder
	encoder     []t5Block
	encoderNorm norm
	decoder     []t5Block
	decoderNorm norm
	output      linear  // [V][D]; the embedding where the two are tied
	logitScale  float32 // D^-1/2 where they are tied; 0: none
}

// t5Block is a layer of the encoder, which has no cross-attention, or of the decoder.
type t5Block struct {
	norm      norm
	attention t5Attention
	crossNorm norm
	cross     t5Attention
	ffnNorm   norm
	ffn       *feedForward
}

// t5Attention is attention among the rows, or cross-attention from them to the encoder's states. scores.Layer is that
// of the cache.
type t5Attention struct {
	q, k, v linear // [H*d][D]
	o       linear // [D][H*d]
	scores  tensor.AttentionOptions
}

// forward takes the decoder's tokens through its layers.
func (m *t5) forward(p *pass) {
	x := p.matrix(&p.x, m.c.HiddenSize) // [rows][D] the residual stream
	p.embed(x, m.embedding)
	for i := range m.decoder {
		if !p.layer(i) {
			return
		}
		m.decoder[i].decode(p, m.c, x)
	}
}

// decode adds what the decoder's block computes to the residual stream x [rows][D].
func (b *t5Block) decode(p *pass, c *Config, x []float32) {
	h := p.matrix(&p.h, c.HiddenSize) // [rows][D] what a sublayer reads, then what it computes
	width := b.attention.scores.Heads * c.HeadDim
	// [rows][H][d]
	q, k, v, a := p.matrix(&p.q, width), p.matrix(&p.k, width), p.matrix(&p.v, width), p.matrix(&p.a, width)

	p.norm(h, x, b.norm)
	p.matmul(h, c.HiddenSize, b.attention.q.times(q), b.attention.k.times(k), b.attention.v.times(v))
	p.attend(a, 0, b.attention.scores, q, k, v)
	p.matmul(a, width, b.attention.o.times(h))
	p.add(x, h)

	p.norm(h, x, b.crossNorm)
	p.matmul(h, c.HiddenSize, b.cross.q.times(q))
	p.attendInput(a, b.cross.scores, q)
	p.matmul(a, width, b.cross.o.times(h))
	p.add(x, h)

	p.norm(h, x, b.ffnNorm)
	b.ffn.forward(p, c, h, h)
	p.add(x, h)
}

func (m *t5) finalNorm(p *pass, x []float32) []float32 {
	p.norm(x, x, m.decoderNorm)
	return x
}

// logits computes out [n][V] of the normalized x [n][D].
func (m *t5) logits(p *pass, out, x []float32) {
	p.output(out, x, m.c.HiddenSize, output{linear: m.output, scale: m.logitScale})
}

func (m *t5) outputs() []linear { return []linear{m.output} }

// encode computes the encoder's states [len(ids)][D] of an input. Every position sees all others, so that each layer
// takes the whole input before the next one begins.
func (m *t5) encode(p *pass, ids []int32) (states []float32, err error) {
	c := m.c
	d, width := c.HiddenSize, c.Heads*c.HeadDim
	x, q := make([]float32, len(ids)*d), make([]float32, len(ids)*width) // [n][D] the residual stream, [n][H][d]
	// Keys and values of one layer, as they are: the session's storage is for the decoder's.
	kv, err := tensor.NewKV(tensor.KVShape{Layers: 1, Heads: c.Heads, HeadDim: c.HeadDim, Type: tensor.KVF32,
		Context: len(ids)})
	if err != nil {
		return nil, err
	}
	defer kv.Close()
	if err := kv.Grow(len(ids)); err != nil {
		return nil, err
	}
	for r := range p.rounds(ids) {
		p.embed(r.of(x, d), m.embedding)
	}
	for i := range m.encoder {
		b := &m.encoder[i]
		p.current = i
		for r := range p.rounds(ids) {
			h, k, v := p.matrix(&p.h, d), p.matrix(&p.k, width), p.matrix(&p.v, width)
			p.norm(h, r.of(x, d), b.norm)
			p.matmul(h, d, b.attention.q.times(r.of(q, width)), b.attention.k.times(k), b.attention.v.times(v))
			p.store(0, k, v, r.segment(kv))
		}
		for r := range p.rounds(ids) {
			h, a, x := p.matrix(&p.h, d), p.matrix(&p.a, width), r.of(x, d)
			p.attendTo(a, b.attention.scores, r.of(q, width), r.segment(kv))
			p.matmul(a, width, b.attention.o.times(h))
			p.add(x, h)

			p.norm(h, x, b.ffnNorm)
			b.ffn.forward(p, c, h, h)
			p.add(x, h)
		}
	}
	for r := range p.rounds(ids) {
		p.norm(r.of(x, d), r.of(x, d), m.encoderNorm)
	}
	return x, nil
}

// cross stores the keys and values that the first layers of the decoder look at in kv, of the encoder's states
// [len(ids)][D].
func (m *t5) cross(p *pass, ids []int32, states []float32, layers int, kv *tensor.KV) {
	c := m.c
	width := c.Heads * c.HeadDim
	for i := range m.decoder[:layers] {
		b := &m.decoder[i]
		p.current = i
		for r := range p.rounds(ids) {
			k, v := p.matrix(&p.k, width), p.matrix(&p.v, width)
			p.matmul(r.of(states, c.HiddenSize), c.HiddenSize, b.cross.k.times(k), b.cross.v.times(v))
			p.store(i, k, v, r.segment(kv))
		}
	}
}

// t5EncoderLayers reads the number of blocks of an encoder alone, whose tensors have the same names, and returns the
// decoder's: none.
func (l *loader) t5EncoderLayers(c *Config) int {
	c.EncoderLayers = l.blockCount("block_count")
	l.layers = c.EncoderLayers
	l.checkBlocks("block_count", "enc.", c.EncoderLayers)
	return 0
}

// t5Layers reads the numbers of blocks and returns the decoder's. It may have more or fewer than the encoder.
func (l *loader) t5Layers(c *Config) int {
	l.t5EncoderLayers(c)
	if l.has("decoder_block_count") {
		l.layers = l.blockCount("decoder_block_count")
	}
	l.checkBlocks("decoder_block_count", "dec.", l.layers)
	return l.layers
}

// t5 reads the weights of a model, or of an encoder alone.
func (l *loader) t5(model *Model) network {
	c, alone := &model.config, model.kind.is == KindEncoder
	m := &t5{c: c, embedding: l.embedding(c)}
	if key := "decoder_start_token_id"; !alone && l.has(key) {
		if model.start = int32(l.integerOr(key, 0)); l.ok() && int(model.start) >= c.Vocab {
			l.fail(key, ErrValue, "%d of %d tokens", model.start, c.Vocab)
		}
	} else if model.tokenizer != nil {
		model.start = model.tokenizer.BOS()
	}
	c.Epsilon = l.float("attention.layer_norm_rms_epsilon")
	buckets := l.integer("attention.relative_buckets_count")
	if l.ok() && (buckets < tensor.MinRelativeBuckets || buckets > tensor.MaxRelativeBuckets || buckets%2 != 0) {
		l.fail("attention.relative_buckets_count", ErrUnsupported, "%d, which is not an even number from %d to %d", buckets,
			tensor.MinRelativeBuckets, tensor.MaxRelativeBuckets)
	}
	if l.ok() && c.KVHeads != c.Heads {
		l.fail("attention.head_count_kv", ErrUnsupported, "%d heads of keys and values, %d of queries", c.KVHeads, c.Heads)
	}
	for i := 0; i < c.EncoderLayers && l.ok(); i++ {
		m.encoder = append(m.encoder, l.t5Block(c, "enc.", i, buckets))
	}
	m.encoderNorm = l.rms(c, "enc.output_norm")
	if alone {
		return m
	}
	for i := 0; i < c.Layers && l.ok(); i++ {
		m.decoder = append(m.decoder, l.t5Block(c, "dec.", i, buckets))
	}
	m.decoderNorm = l.rms(c, "dec.output_norm")
	if m.output.w = m.embedding; l.holds("output.weight") {
		m.output = l.matrix("output.weight", c.Vocab, c.HiddenSize)
	} else { // the published T5 1.0; no key says so
		m.logitScale = float32(1 / math.Sqrt(float64(c.HiddenSize)))
	}
	return m
}

// t5Block reads layer i of a stack, "enc." or "dec.".
func (l *loader) t5Block(c *Config, stack string, i, buckets int) t5Block {
	n, decodes := fmt.Sprintf("%sblk.%d.", stack, i), stack == "dec."
	b := t5Block{norm: l.rms(c, n+"attn_norm"), attention: l.t5Attention(c, n+"attn"), ffnNorm: l.rms(c, n+"ffn_norm")}
	bias := n + "attn_rel_b.weight"
	if !l.holds(bias) { // T5 has it in its first layers only, UMT5 in all
		bias = stack + "blk.0.attn_rel_b.weight"
	}
	if w := l.floats(bias, c.Heads, buckets); l.ok() {
		b.attention.scores.Bias = tensor.RelativeBias(w, c.Heads, buckets, !decodes)
	}
	if decodes {
		_, b.attention.scores.Layer = l.place(i, c.Heads, c.HeadDim, 0)
		b.crossNorm = l.rms(c, n+"cross_attn_norm")
		b.cross = l.t5Attention(c, n+"cross_attn")
		b.cross.scores.Layer = i
		// old conversions have it; the published model has no such thing, the reference does not use it
		l.find(n + "cross_attn_rel_b.weight")
	}
	feed := feedParts{activation: relu}
	if l.holds(n + "ffn_gate.weight") {
		feed = feedParts{activation: l.gelu(), gate: gated}
	}
	b.ffn = (&build{loader: l, family: family{feed: feed}, c: c}).feedForward(n, "", c.FeedForward)
	return b
}

func (l *loader) t5Attention(c *Config, name string) t5Attention {
	d, width := c.HiddenSize, c.Heads*c.HeadDim
	matrix := func(part string, rows, cols int) linear { return l.matrix(name+part+".weight", rows, cols) }
	return t5Attention{
		q: matrix("_q", width, d), k: matrix("_k", width, d), v: matrix("_v", width, d), o: matrix("_o", d, width),
		scores: tensor.AttentionOptions{Heads: c.Heads, Scale: 1},
	}
}

// rms reads an RMSNorm of the hidden size.
func (l *loader) rms(c *Config, name string) norm {
	return norm{kind: rmsNorm{}, eps: c.Epsilon, w: l.vector(name+".weight", c.HiddenSize)}
}
