package engine

import (
	"fmt"

	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/tensor"
)

// qwen4exp reads Qwen 3.8 Flash Next (Qwen 2026): Qwen 3.5 with experts, and with several residual streams in the place
// of norms, an index of blocks before attention, and n-grams of tokens in one layer.
func (l *loader) qwen4exp(model *Model) network {
	c := &model.config
	s := l.streamSizes(c)
	b := newBuild(l, c, l.qwen4expParts(c))
	grams := l.ngrams(c, s)
	m := &streamed{decoder: &decoder{c: c}, streamSizes: s}
	m.embedding = l.embedding(c)
	for i := 0; i < c.Layers && l.ok(); i++ {
		var begin ending
		if g := grams(b, i); g != nil {
			begin = g
		}
		block := b.streamBlock(i, s)
		block.begin = begin
		m.layer = append(m.layer, block)
	}
	m.end = b.streamMixer("output_hc_", s, false)
	m.output = linear{w: m.embedding}
	if l.holds("output.weight") {
		m.output = l.matrix("output.weight", c.Vocab, c.HiddenSize)
	}
	return m
}

// qwen4expParts are the parts of a layer.
func (l *loader) qwen4expParts(c *Config) family {
	f := deltaHybrid(l, c, func(i int, s recurrent.HeadSizes) mixer { return &sigmoidDeltaNet{l.deltaNet(c, i, s)} })
	l.gatedExperts(c, &f)
	x := l.meanIndexes()
	f.attention.own = func(b *build, i int) mixer {
		a := b.gatedAttention(i)
		if index := b.meanIndex(i, x); index != nil {
			return &blockAttention{a, index}
		}
		return a
	}
	return f
}

// sigmoidDeltaNet is a gated delta net whose gates are sigmoids.
type sigmoidDeltaNet struct{ *deltaNet }

func (m *sigmoidDeltaNet) forward(p *pass, c *Config, y, h []float32) {
	qkv, z, alpha, beta := m.inputs(p, c, h)
	out := m.scan(p, qkv, alpha, beta)
	p.sigmoidMul(out, z)
	p.matmul(out, m.sizes.Inner, m.out.times(y))
}

// blockAttention is gated attention to the blocks of positions that an index chooses.
type blockAttention struct {
	*gatedAttention
	index *meanIndex
}

func (l *blockAttention) forward(p *pass, _ *Config, y, h []float32) {
	l.index.choose(p, h)
	o := l.scores
	o.Only = &p.choice
	l.attend(p, y, h, o)
}

// meanIndex chooses blocks of positions: those whose mean keys score highest by its own queries. h is the layer's
// input; the first numbers of queries and of blocks' keys are rotated.
type meanIndex struct {
	queries linear // [heads*size][D]
	key     linear // [size][D] of a position; the cache has it as it is
	norm    norm   // of queries, over a head
	size    int
	cache   int // of keys alone
	options tensor.BlockChoice
}

// meanIndexes are the keys of a family whose layers have such indexes.
type meanIndexes struct {
	heads, size, top int
	ratios           []int // [blocks of the file] positions of a block; 0: the layer looks at all positions
}

func (l *loader) meanIndexes() *meanIndexes {
	const heads, size, ratios = "attention.indexer.head_count", "attention.indexer.key_length", "attention.compress_ratios"
	x := &meanIndexes{heads: l.integer(heads), size: l.integer(size), top: l.integer("attention.indexer.top_k")}
	l.tooLarge(heads, x.heads, x.size)
	l.keys[ratios] = true
	list, err := l.f.Uint32s(l.arch + "." + ratios)
	if l.keep(err); l.ok() && len(list) < l.layers {
		l.fail(ratios, ErrValue, "%d numbers for %d blocks", len(list), l.layers)
	}
	for _, n := range list {
		switch {
		case !l.ok() || n == 0:
		case n > KVPage || KVPage%n != 0:
			l.fail(ratios, ErrUnsupported, "blocks of %d positions, which do not divide %d", n, KVPage)
		case x.top%int(n) != 0:
			l.fail("attention.indexer.top_k", ErrValue, "%d positions in blocks of %d", x.top, n)
		}
		x.ratios = append(x.ratios, int(min(n, KVPage)))
	}
	return x
}

// meanIndex reads layer i's; nil if the layer looks at all positions, whose index is not used.
func (b *build) meanIndex(i int, x *meanIndexes) *meanIndex {
	if !b.ok() {
		return nil
	}
	n, d, ratio := b.block(i)+"indexer.", b.c.HiddenSize, x.ratios[b.first+i]
	if ratio == 0 {
		for _, name := range []string{"q_proj", "k_proj", "q_norm", "k_norm"} {
			b.find(n + name + ".weight")
		}
		return nil
	}
	if b.c.RopeDims > x.size {
		b.fail("attention.indexer.key_length", ErrValue, "%d numbers, of which %d are rotated", x.size, b.c.RopeDims)
	}
	a := &meanIndex{size: x.size, queries: b.linear(n+"q_proj", x.heads*x.size, d), key: b.linear(n+"k_proj", x.size, d),
		norm: b.norm(n+"q_norm", x.size)}
	a.options = tensor.BlockChoice{Heads: x.heads, Size: ratio, Top: x.top / ratio, Eps: b.c.Epsilon,
		Norm: b.vector(n+"k_norm.weight", x.size), Rope: b.ropes.full}
	a.cache, a.options.Layer = b.placeKeys(i, x.size, 0)
	return a
}

// choose chooses what the rows of the round look at.
func (x *meanIndex) choose(p *pass, h []float32) {
	q, k := p.matrix(&p.other, x.options.Heads*x.size), p.matrix(&p.up, x.size)
	p.matmul(h, x.key.w.Cols(), x.queries.times(q), x.key.times(k))
	p.norm(q, q, x.norm)
	p.rope(tensor.RopeHalves, q, x.options.Heads, x.size, x.options.Rope)
	p.remember(x.cache, x.options.Layer, k, nil)
	if p.err == nil {
		p.fail(p.t.ChooseBlocks(&p.choice, q, x.options, p.segments[x.cache]))
	}
}

// streamHead is the MTP block of such a model, which has the model's streams: x of stream s is eh_proj [norm(embedding
// of the token); norm(h)_s], with h the streams at the position before. That norm is over all of them at once, as in
// vLLM; llama.cpp normalizes each by itself. The block looks at all positions.
type streamHead struct {
	Head
	streamSizes
	c                    *Config
	embedding            *tensor.Matrix // [V][D]
	tokenNorm, stateNorm norm           // [D], [S*D]
	join                 linear         // [D][2D]
	block                streamBlock
	end                  *streamMixer
	output               linear
}

// qwen4expHead reads the MTP block of a model's file, or of a file of its own.
func (l *loader) qwen4expHead(model *Model) network {
	c, target := &model.config, model.target
	s := l.streamSizes(c)
	b := newBuild(l, c, l.qwen4expParts(c))
	b.mixer = nil
	l.ignoreKeys("ple.")
	l.ignoreKeys("embedding_length_per_layer_input")
	if l.belongs(c, target); l.ok() && c.Layers > 1 {
		l.fail("nextn_predict_layers", ErrUnsupported, "%d MTP blocks, in these models there is one", c.Layers)
	}
	if !l.ok() {
		return nil
	}
	m, d, n := &streamHead{c: c, streamSizes: s}, c.HiddenSize, b.block(0)
	m.Head = Head{TargetLayers: []int{l.first}, Output: c.Layers, FirstToken: true, targetSize: s.width(),
		stateSize: s.width()}
	lent := target.lends()
	switch own := n + "nextn.embed_tokens.weight"; {
	case l.holds(own):
		m.embedding = l.lookup(own, c.Vocab, d)
	case l.alone && l.holds("token_embd.weight"):
		m.embedding = l.embedding(c)
	default:
		m.embedding = l.targetEmbedding(c, target)
	}
	m.tokenNorm, m.stateNorm = b.norm(n+"nextn.enorm", d), b.norm(n+"nextn.hnorm", s.width())
	m.join = l.matrix(n+"nextn.eh_proj.weight", d, 2*d)
	m.block = b.streamBlock(0, s)
	m.end = b.streamMixer(n+"nextn.hc_head_", s, false)
	switch own := n + "nextn.shared_head_head.weight"; {
	case l.holds(own):
		m.output = l.matrix(own, c.Vocab, d)
	case l.alone && l.holds("output.weight"):
		m.output = l.matrix("output.weight", c.Vocab, d)
	case lent.projects:
		m.output = lent.output
	case l.ok():
		l.bad("output.weight", ErrMissing, "not in the file: the head shares it with its target, which is not given")
	}
	return m
}

func (m *streamHead) forward(p *pass) {
	d, x := m.size, p.matrix(&p.x, m.width())
	for _, f := range p.fed {
		copy(x[f.row*m.width():(f.row+f.n)*m.width()], f.x)
	}
	token, state := p.matrix(&p.h, d), p.matrix(&p.wide, m.width())
	p.embed(token, m.embedding)
	p.norm(token, token, m.tokenNorm)
	p.norm(state, x, m.stateNorm)
	both := p.matrix(&p.gate, 2*m.width()) // [rows][S][2D]
	each := sized(&p.routing.rows, p.rows()*m.count)
	for i := range each {
		copy(both[2*i*d:], token[i/m.count*d:][:d])
		copy(both[(2*i+1)*d:], state[i*d:(i+1)*d])
		each[i] = int32(i / m.count)
	}
	p.part = each
	p.matmul(both, 2*d, m.join.times(x))
	p.part = nil
	if p.layer(0) {
		m.block.forward(p, m.c, x)
	}
}

func (m *streamHead) finalNorm(p *pass, x []float32) []float32 { return m.end.given(p, x) }

func (m *streamHead) logits(p *pass, out, x []float32) {
	p.output(out, x, m.size, output{linear: m.output})
}

func (m *streamHead) outputs() []linear { return []linear{m.output} }

// gives checks that the states are those of a layer: those after the mixer at the end are of another size.
func (m *streamHead) gives(_ *Session, k int) error {
	if k == FinalNorm {
		return fmt.Errorf("%w: hidden states after the final norm wanted, an MTP block with several streams gives those of "+
			"its layers", ErrUsage)
	}
	return nil
}
