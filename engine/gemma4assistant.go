package engine

import (
	"fmt"

	"github.com/specgo/spec/tensor"
)

// assistant is a draft head of Gemma 4. Its blocks are gemma4's with queries only: they attend to keys and values of
// the target, those of its last layer, or, in layers with a window, of its last layer but one. A row is a token t and
// a hidden state h: the target's after the final norm at the token before, or, where the target has not been yet,
// what the head made of the row before.
//
//	x = pre [the target's embedding of t; h];  x = block(x), ...
//	y = norm(x), logits = embedding y, the next h = post y
//
// All rows have the position n of the token after the n that the target's session holds, also those of tokens drafted
// further ahead, and see the keys and values of these n: all, or those that the window of a token at position n
// reaches back to. So rows do not depend on each other, and a session of a head keeps nothing.
//
// Shapes: D hidden size, T the target's, V vocabulary.
type assistant struct {
	Head
	c          *Config
	target     lends
	pre        linear // [D][2T]
	blocks     []block
	outputNorm norm
	output     linear // [V][D] the head's embedding
	post       linear // [T][D]
}

func (m *assistant) forward(p *pass) {
	t := m.targetSize
	p.current = 0
	token := p.matrix(&p.y, t) // [rows][T]
	p.embed(token, m.target.embedding)
	p.scale(token, m.target.embeddingScale)
	both := p.matrix(&p.wide, 2*t) // [rows][2T]
	for i := range p.rows() {
		copy(both[2*i*t:], token[i*t:(i+1)*t])
	}
	for _, f := range p.fed {
		for i := range f.n {
			copy(both[(2*(f.row+i)+1)*t:], f.x[i*t:(i+1)*t])
		}
	}
	x := p.matrix(&p.x, m.c.HiddenSize) // [rows][D]
	p.matmul(both, 2*t, m.pre.times(x))
	for i := range m.blocks {
		if !p.layer(i) {
			return
		}
		m.blocks[i].forward(p, m.c, x)
	}
}

func (m *assistant) finalNorm(p *pass, x []float32) []float32 {
	p.norm(x, x, m.outputNorm)
	return x
}

func (m *assistant) logits(p *pass, out, x []float32) {
	p.output(out, x, m.c.HiddenSize, output{linear: m.output})
}

func (m *assistant) outputs() []linear { return []linear{m.output} }

// next computes the hidden states [n][T] that go in with the next tokens, of the normalized x [n][D].
func (m *assistant) next(p *pass, x []float32) []float32 {
	p.part = p.given // what is not finite fails the segment of its row
	y := p.matrix(&p.y, m.targetSize)
	p.matmul(x, m.c.HiddenSize, m.post.times(y))
	p.part = nil
	return y
}

// borrows checks that t is a session of the target that keeps what the head looks at.
func (m *assistant) borrows(target *Model, t *Session) error {
	switch {
	case t == nil:
		return fmt.Errorf("%w: a draft head that looks at its target's cache needs the target's session", ErrUsage)
	case t.m != target:
		return fmt.Errorf("%w: the session is of another model than the draft head's target", ErrUsage)
	case t.noCache || t.layers != t.m.config.Layers:
		return fmt.Errorf("%w: a draft head looks at its target's cache, and the session keeps none, or not that of all "+
			"layers", ErrUsage)
	}
	return nil
}

// admit checks that the target's session has what the head looks at.
func (m *assistant) admit(g *Segment) error {
	t := g.Session.lender
	if t == nil {
		return fmt.Errorf("%w: no session of the target", ErrUsage)
	}
	switch n := len(t.tokens); {
	case t.closed:
		return fmt.Errorf("the target's session: %w", ErrClosed)
	case g.Parents != nil:
		return fmt.Errorf("%w: a tree, of a draft head whose tokens are independent of each other", ErrUsage)
	case n == 0:
		return fmt.Errorf("%w: the target's session is empty", ErrUsage)
	case t.Restorable(n) < n:
		return fmt.Errorf("%w: the target's session was cut back to %d tokens, and its cache does not reach back so far",
			ErrUsage, n)
	case n >= g.Session.context:
		return fmt.Errorf("%w: the target's session has %d tokens, room for a token after %d", ErrContextFull, n,
			g.Session.context-1)
	}
	return m.Head.admit(g)
}

func (m *assistant) gives(_ *Session, k int) error {
	if k != FinalNorm {
		return fmt.Errorf("%w: hidden states of layer %d wanted, this draft head gives what goes in with the next token "+
			"only (FinalNorm)", ErrUsage, k)
	}
	return nil
}

// assistantLayers is the number of a head's blocks.
func (l *loader) assistantLayers(*Config) int {
	l.layers = l.blockCount("block_count")
	if n := l.integer("nextn_predict_layers"); l.ok() && n != l.layers {
		l.fail("nextn_predict_layers", ErrValue, "%d of %d blocks, all of a draft head's are", n, l.layers)
	}
	l.checkBlocks("block_count", "", l.layers)
	return l.layers
}

// assistant reads a draft head of Gemma 4. It shares its target's embedding.
func (l *loader) assistant(model *Model) network {
	c, target := &model.config, model.target
	t := l.integer("embedding_length_out")
	m := &assistant{c: c}
	m.Head = Head{TargetLayers: []int{FinalNorm}, Output: FinalNorm, SharesCache: true, targetSize: t, stateSize: t}
	full, windowed := l.lenders(t, target)
	f := gemma(l, c)
	f.rope.keys = freqFactors
	w := l.gemma4Windows(c)
	if n := l.integerOr("attention.shared_kv_layers", c.Layers); l.ok() && n != 0 && n != c.Layers {
		l.fail("attention.shared_kv_layers", ErrUnsupported,
			"%d of %d blocks: none of a draft head's has keys and values of its own", n, c.Layers)
	}
	for _, name := range []string{"masked_embd_centroids.weight", "masked_embd_ordering"} {
		if l.ok() && l.holds(name) {
			l.keep(fmt.Errorf("%s: tensor %q: %w: an output matrix in clusters; the file does not say how many of them a "+
				"token reads", l.f.Name, name, ErrUnsupported))
		}
	}
	b := newBuild(l, c, f)
	w.rotate(b)
	if !l.ok() {
		return m
	}
	if c.Vocab == 0 {
		c.Vocab = target.config.Vocab
	}
	m.target = target.lends()
	m.output.w = l.embedding(c)
	if l.ok() && c.Vocab != target.config.Vocab {
		l.bad("token_embd.weight", ErrShape, "%d tokens, the target has %d", c.Vocab, target.config.Vocab)
	}
	m.pre = l.matrix("nextn.pre_projection.weight", c.HiddenSize, 2*t)
	m.post = l.matrix("nextn.post_projection.weight", t, c.HiddenSize)
	for i := 0; i < c.Layers && l.ok(); i++ {
		from := full
		if w.layers(i) {
			from = windowed
		}
		m.blocks = append(m.blocks, b.assistantBlock(i, w, from))
	}
	m.outputNorm = b.norm("output_norm", c.HiddenSize)
	return m
}

// lenders are the attentions of a target with hidden states of t numbers whose keys and values a head looks at: that
// of the last layer, and that of the one before, which has a window.
func (l *loader) lenders(t int, target *Model) (full, windowed *attention) {
	const key = "general.architecture"
	wrong := func(kind error, format string, args ...any) (full, windowed *attention) {
		l.keep(fmt.Errorf("%s: key %q: %w: %s", l.f.Name, key, kind, fmt.Sprintf(format, args...)))
		return nil, nil
	}
	if target == nil {
		return wrong(ErrUnsupported, "%q: a draft head, which is given beside its target", l.arch)
	}
	blocks := target.lends().blocks
	if !target.kind.admits(KindAssistant) || len(blocks) < 2 {
		return wrong(ErrShape, "%q drafts for gemma4 models, the target is %s", l.arch, target.config.Architecture)
	}
	if l.t != nil && target.rt.t != l.t {
		return wrong(ErrUsage, "a draft head and its target have one runtime")
	}
	if l.ok() && target.config.HiddenSize != t {
		l.fail("embedding_length_out", ErrValue, "%d, the target has a hidden size of %d", t, target.config.HiddenSize)
	}
	n := len(blocks)
	full, windowed = gemma4Keys(blocks[n-1].mixer), gemma4Keys(blocks[n-2].mixer)
	if full.scores.Window > 0 || windowed.scores.Window == 0 {
		return wrong(ErrUnsupported, "a head looks at the target's last layer without and its last but one with a window, "+
			"and this target's are others")
	}
	return full, windowed
}

// assistantBlock reads block i, which looks at the keys and values of from.
func (b *build) assistantBlock(i int, w *gemma4Windows, from *attention) block {
	n, d, heads, dim := b.block(i), b.c.HiddenSize, b.queryHeads[i], b.c.HeadDim
	key, angles, window := "attention.key_length", b.ropes.full, 0
	if w.layers(i) {
		// Of the positions that a token's window has, its own is not there.
		key, angles, window, dim = "attention.key_length_swa", w.angles, w.size-1, w.headDim
	}
	switch {
	case !b.ok():
	case dim != from.headDim:
		b.fail(key, ErrValue, "%d, the target's keys have %d dimensions", dim, from.headDim)
	case b.kvHeads[i] != from.kvHeads || heads%from.kvHeads != 0:
		b.fail("attention.head_count_kv", ErrValue, "%d of block %d, which has %d heads; the target's keys have %d",
			b.kvHeads[i], i, heads, from.kvHeads)
	case w.layers(i) && (window < 1 || w.size > from.scores.Window):
		b.fail("attention.sliding_window", ErrValue, "%d, the target's is %d", w.size, from.scores.Window)
	case !w.layers(i) && b.c.RopeFactors == "":
		b.bad("rope_freqs.weight", ErrMissing, "not in the file")
	}
	block := block{
		attnNorm: b.norm(n+"attn_norm", d), attnPostNorm: b.norm(n+"post_attention_norm", d),
		ffnNorm: b.norm(n+"ffn_norm", d), ffnPostNorm: b.norm(n+"post_ffw_norm", d),
		feed: b.feedForward(n, "", b.ffn[i]),
	}
	block.mixer = &borrowing{&attention{
		heads: heads, kvHeads: from.kvHeads, headDim: dim, cache: from.cache, rope: angles, style: tensor.RopeHalves,
		q: b.matrix(n+"attn_q.weight", heads*dim, d), o: b.matrix(n+"attn_output.weight", d, heads*dim),
		qNorm:  b.norm(n+"attn_q_norm", dim),
		scores: tensor.AttentionOptions{Layer: from.scores.Layer, Heads: heads, Scale: 1, Window: window},
	}}
	block.end = b.gemma4End(i, 0)
	if name := n + "layer_output_scale.weight"; b.ok() && !b.holds(name) {
		b.bad(name, ErrMissing, "not in the file")
	}
	return block
}
