package engine

// textEncoder is an encoder alone (Devlin et al. 2018, arXiv:1810.04805): every token sees all of its text. Its blocks
// are those of decoders; what comes after the last one is in vectors.go.
type textEncoder struct {
	*decoder
	types []float32 // [D] added to every embedding: type 0; nil: none
	norm  norm      // of the embeddings; the zero value does nothing
}

// forward computes p.x [rows][D] of texts.
func (m *textEncoder) forward(p *pass) {
	x := p.matrix(&p.x, m.c.HiddenSize)
	p.embed(x, m.embedding)
	p.scale(x, m.embeddingScale)
	p.addToRows(x, m.types)
	if m.positions != nil {
		p.addPositions(x, m.positions)
	}
	p.norm(x, x, m.norm)
	m.layers(p, x)
}

// lends is nothing: draft heads are for models that write.
func (m *textEncoder) lends() lends { return lends{} }

// outputs is nothing: it writes no text.
func (m *textEncoder) outputs() []linear { return nil }

// addToRows adds y to every row of x; nil adds nothing.
func (p *pass) addToRows(x, y []float32) {
	for i := 0; len(y) > 0 && i < len(x) && p.err == nil; i += len(y) {
		p.fail(p.t.Add(x[i:i+len(y)], y))
	}
}

// encoderLayers reads the number of an encoder's blocks and returns the decoder's: none.
func (l *loader) encoderLayers(c *Config) int {
	c.EncoderLayers = l.blockCount("block_count")
	l.layers = c.EncoderLayers
	l.checkBlocks("block_count", "", c.EncoderLayers)
	return 0
}

// textEncoder reads an encoder. A mask that the file asks for is not there: the published models have none.
func (l *loader) textEncoder(c *Config, f family) network {
	f.attention.both = true
	b := newBuild(l, c, f)
	m := &textEncoder{decoder: &decoder{c: c, embeddingScale: f.scales.embedding}}
	m.embedding = l.embeddingOf(c, c.HiddenSize)
	if f.ends.tokenTypes != noTypes {
		m.types = l.tokenType(c, f.ends.tokenTypes)
	}
	if f.ends.positions {
		m.positions = l.floats("position_embd.weight", c.HiddenSize, c.Context)
	}
	if f.ends.embeddingNorm {
		m.norm = b.norm("token_embd_norm", c.HiddenSize)
	}
	for i := 0; i < c.EncoderLayers && l.ok(); i++ {
		m.blocks = append(m.blocks, b.decoderBlock(i))
	}
	if name := b.called("output_norm"); name != "" {
		m.outputNorm = b.norm(name, c.HiddenSize)
	}
	return m
}

// typeKey says whether a file must say how many token types there are.
type typeKey uint8

const (
	noTypes       typeKey = iota // there are none
	typesOptional                // token_types.weight may be there
	typesCounted                 // likewise, and tokenizer.ggml.token_type_count must be
)

// tokenType reads the embedding of token type 0, which every token has, those of a second text too; nil without types.
func (l *loader) tokenType(c *Config, k typeKey) []float32 {
	const name, key = "token_types.weight", "tokenizer.ggml.token_type_count"
	count := uint32(0)
	if l.f.Has(key) {
		var err error
		count, err = l.f.Uint32(key)
		l.keep(err)
	}
	if l.ok() && k == typesCounted && count == 0 {
		l.failKey(key, ErrValue, "0 token types")
	}
	if !l.holds(name) || !l.ok() {
		return nil
	}
	if count == 0 || count > largest {
		l.failKey(key, ErrValue, "%d token types", count)
		return nil
	}
	types := l.floats(name, c.HiddenSize, int(count))
	if !l.ok() {
		return nil
	}
	return types[:c.HiddenSize]
}
