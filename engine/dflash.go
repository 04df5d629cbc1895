package engine

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// blockHead is a DFlash head (arXiv:2602.06036): a small transformer that drafts a block of tokens in one pass. Every
// layer looks at keys and values that are made of the target's hidden states at the text's tokens, so that these are
// computed once for a token and stay in the cache:
//
//	g = norm(fc [h_k1; h_k2; …]);  keys and values of every layer are its own products with g
//
// A block is the last token of the text, of which the target has no state yet, and a mask token for each that is to be
// drafted. Its rows go through the layers together. They see the text's keys and values and each other's, in both
// directions. In a layer with a window of w the row at position p sees those from p+1-w on:
//
//	x = the embedding of the tokens;  x = x + attention(norm(x));  x = x + ffn(norm(x)), …
//	logits = output · norm(x), with the target's embedding and output matrix
//
// The logits at a mask are those of the token in its place. Attention and feed-forward are those of Qwen 3.
//
// A DSpark head (DeepSeek 2026) is such a head whose rows are of the next token each, the first one too, and whose
// logits have a part that the token before gives, which is taken to be the likeliest one (see follow):
//
//	logits = output · norm(x) + markov2 · markov1[token before]
//
// Shapes: D hidden size, of the target too, L layers of the target that are read, R rank of what the token before
// gives.
type blockHead struct {
	Head
	c          *Config
	embedding  *tensor.Matrix // [V][D] the target's, or the head's own
	fc         linear         // [D][L*D]
	targetNorm norm           // [D]
	blocks     []block
	keys       []*attention // of the blocks
	outputNorm norm
	output     linear  // [V][D] the target's, or the head's own [W][D]
	ids        []int32 // [W] the target's ids of the tokens that the head knows; nil: all, in order

	before *tensor.Matrix // [V][R] markov1; nil: a DFlash head
	after  linear         // [V][R] markov2
}

// What DFlash files have beside the tensors that are read, and why they are refused.
var blockHeadParts = []struct{ tensor, about string }{
	{"hc_head_fn.weight", "a DSpark head of DeepSeek V4, whose layers are that model's"},
	{"blk.0.attn_conv_base", "a DFlash 2 head: convolutions along the block"},
	{"blk.0.attn_conv_base.weight", "a DFlash 2 head: convolutions along the block"},
	{"selector_predecessor.weight", "a DFlash 2 head: candidates chosen by the one before (selector)"},
}

const (
	// usualBlock is the size of a block where the file does not say it.
	usualBlock = 16
	maskToken  = "tokenizer.ggml.mask_token_id"
	markov1    = "markov_w1.weight" // of a DSpark head
)

func (m *blockHead) forward(p *pass) {
	x := p.matrix(&p.x, m.c.HiddenSize) // [rows][D]
	if !p.block {
		m.read(p, x)
		return
	}
	p.embed(x, m.embedding)
	for i := range m.blocks {
		if !p.layer(i) {
			return
		}
		m.blocks[i].forward(p, m.c, x)
	}
}

// read puts the keys and values of the target's states into the cache.
func (m *blockHead) read(p *pass, g []float32) {
	states := p.matrix(&p.wide, m.targetSize) // [rows][L*D]
	for _, f := range p.fed {
		copy(states[f.row*m.targetSize:], f.x)
	}
	p.matmul(states, m.targetSize, m.fc.times(g))
	p.norm(g, g, m.targetNorm)
	for i := range m.keys {
		if !p.layer(i) {
			return
		}
		m.keys[i].remember(p, g)
	}
}

func (m *blockHead) finalNorm(p *pass, x []float32) []float32 {
	p.norm(x, x, m.outputNorm)
	return x
}

func (m *blockHead) logits(p *pass, out, x []float32) {
	p.output(out, x, m.c.HiddenSize, output{linear: m.output, ids: m.ids})
}

// follow adds to the logits of a DSpark head's blocks what the tokens before give, row after row: before the first one
// is the text's last token, before the others the likeliest token of the row before. Blocks of a round share products.
func (m *blockHead) follow(p *pass) {
	if m.before == nil {
		return
	}
	for index := 0; p.err == nil; index++ {
		rows := p.following[:0]
		for _, r := range p.wanted {
			if r.index == index && p.results[r.segment].Err == nil {
				rows = append(rows, r)
			}
		}
		if p.following = rows; len(rows) == 0 {
			return
		}
		for some := range slices.Chunk(rows, headRows) {
			m.followRows(p, index, some)
		}
	}
}

// followRows is follow for up to headRows rows, each the one of that index of its block.
func (m *blockHead) followRows(p *pass, index int, rows []wantedRow) {
	v, rank := m.c.Vocab, m.before.Cols()
	x, bias := sized(&p.h, len(rows)*rank), sized(&p.logits, len(rows)*v)
	for i, r := range rows {
		token := int(p.tokens[r.row])
		if index > 0 {
			token = tensor.ArgMax(r.s.logits[(index-1)*v : index*v])
		}
		p.fail(panels.Row(m.before, token, x[i*rank:(i+1)*rank]))
	}
	p.projected = rows
	p.output(bias, x, rank, output{linear: m.after})
	p.projected = nil
	for i, r := range rows {
		if p.err != nil {
			return
		}
		row := r.s.logits[index*v : (index+1)*v]
		p.fail(p.t.Add(row, bias[i*v:(i+1)*v]))
		if !p.masks() && !tensor.Finite(row) {
			p.results[r.segment].Err = fmt.Errorf("logits: %w", ErrNotFinite)
		}
	}
}

func (m *blockHead) outputs() []linear {
	switch {
	case m.ids != nil:
		return nil
	case m.before != nil:
		return []linear{m.output, m.after}
	}
	return []linear{m.output}
}

// admit checks that a segment is the target's states, or a block.
func (m *blockHead) admit(g *Segment) error {
	if !g.FromTarget {
		if n := len(g.Tokens); n < 1 || n > m.Block {
			return fmt.Errorf("%w: a block of %d tokens, at most %d", ErrUsage, n, m.Block)
		}
		for i := range g.Tokens {
			if len(g.Parents) != len(g.Tokens) || int(g.Parents[i]) != i-1 {
				return fmt.Errorf("%w: a block is a tree of one path", ErrUsage)
			}
		}
		if len(g.States) > 0 {
			return fmt.Errorf("%w: a block takes no hidden states", ErrUsage)
		}
		if n := len(g.Tokens); m.Chained && g.Logits != None && g.Logits != All && int(g.Logits) < n {
			return fmt.Errorf("%w: the logits of %d tokens of a chained block of %d: of all or none", ErrUsage, g.Logits, n)
		}
		return nil
	}
	if g.Parents != nil || g.Logits != None || g.Hidden != None {
		return fmt.Errorf("%w: of the target's states a block head makes keys and values of a chain, and gives nothing",
			ErrUsage)
	}
	return m.Head.admit(g)
}

// blockHead reads a DFlash head. What it has no embedding or output matrix of its own for, it shares with its target.
func (l *loader) blockHead(model *Model) network {
	c, target := &model.config, model.target
	m := &blockHead{c: c}
	if target == nil {
		l.failKey("general.architecture", ErrUnsupported, "%q: a draft head, which is given beside its target", l.arch)
		return m
	}
	for _, part := range blockHeadParts {
		if _, ok := l.f.Tensor(part.tensor); ok && l.ok() {
			l.bad(part.tensor, ErrUnsupported, "%s", part.about)
		}
	}
	b := newBuild(l, c, qwen3VL(l, c)) // of one rotation, windows or not
	if b.family.attention.window = l.integerOr("attention.sliding_window", 0); b.family.attention.window > 0 {
		b.family.attention.windowed = l.blockWindows()
	}
	d := c.HiddenSize
	m.Head = Head{TargetLayers: l.targetLayers(), FirstToken: true, Block: l.integerOr("block_size", usualBlock),
		Mask: l.maskToken(), stateSize: d}
	m.targetSize, m.Longest = len(m.TargetLayers)*d, m.Block-1
	t, chained := l.f.Tensor(markov1)
	if chained {
		m.Chained, m.Longest = true, m.Block
	}
	if !l.ok() {
		return m
	}
	if m.Block < 2 || m.Block > maxTree {
		l.fail("block_size", ErrValue, "%d, a block has 2 to %d tokens", m.Block, maxTree)
	}
	if target.config.StateSize != d {
		l.fail("embedding_length", ErrValue, "%d, the target has %d", d, target.config.StateSize)
	}
	if len(m.TargetLayers) == 0 {
		l.fail("target_layers", ErrValue, "no layers")
	}
	for _, k := range m.TargetLayers {
		if k >= target.config.Layers { // of the state after the last layer there are two, before and after the norm
			l.fail("target_layers", ErrValue, "layer %d, the target has 0 to %d", k, target.config.Layers-1)
		}
	}
	if l.holds("token_embd.weight") {
		m.embedding = l.embedding(c)
	} else {
		m.embedding = l.targetEmbedding(c, target)
	}
	if l.ok() && int(m.Mask) >= c.Vocab {
		l.failKey(maskToken, ErrValue, "%d of a vocabulary of %d", m.Mask, c.Vocab)
	}
	if !l.ok() {
		return m
	}
	m.output, m.ids = l.headOutput(c, target)
	m.masked = m.ids != nil
	m.fc, m.targetNorm = l.matrix("fc.weight", d, m.targetSize), b.norm("enc.output_norm", d)
	for i := 0; i < c.Layers && l.ok(); i++ {
		x := b.decoderBlock(i)
		a, _ := x.mixer.(*attention) // it is
		m.blocks, m.keys = append(m.blocks, x), append(m.keys, a)
	}
	m.outputNorm = b.norm("output_norm", d)
	if chained && l.ok() {
		rank := int(min(t.Dims[0], largest))
		m.before, m.after = l.lookup(markov1, c.Vocab, rank), l.matrix("markov_w2.weight", c.Vocab, rank)
		l.find("conf_proj.weight") // how likely it takes a token to be accepted; schedules measure that
		l.find("conf_proj.bias")
	}
	return m
}

// blockWindows are the layers with a window: attention.sliding_window_pattern, which must be there, one bool or number
// per block, or a number for all. Of numbers 0 is none.
func (l *loader) blockWindows() func(layer int) bool {
	const key = "attention.sliding_window_pattern"
	v, _ := l.f.Value(l.arch + "." + key)
	kind, _, n, _ := gguf.TypeOf(v)
	if kind != gguf.ValueArray {
		l.keys[key] = true
		all, err := l.f.Uint32(l.arch + "." + key)
		l.keep(err)
		return func(int) bool { return all != 0 }
	}
	if l.ok() && n > l.layers {
		l.fail(key, ErrValue, "%d values for %d blocks", n, l.layers)
	}
	return l.flags(key)
}

// maskToken is the token that stands for those that are to be drafted.
func (l *loader) maskToken() int32 {
	id, err := l.f.Uint32(maskToken)
	if err != nil {
		l.keep(err)
	}
	return int32(min(id, largest))
}
