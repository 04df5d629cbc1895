package engine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// mtp is the multi-token-prediction blocks of a model (NextN; DeepSeek-V3, arXiv:2412.19437, section 2.2): those
// after a model's own, each with keys and values of its own. The input at position p is token p and h, the model's
// hidden state at p-1 after the final norm, or, where the model has not been yet, what the block before computed
// there; h is zeros before the first token.
//
//	x = eh_proj [norm(embedding of the token); norm(h)];  x = block(x)
//	h' = norm(x), logits = output h'
//
// The logits of the first block, at the last token that the model has chosen, are those of the first drafted token.
// One block alone goes on with its own h'. Of several blocks the j-th drafts the j-th token and none drafts a further
// one: the row of a token drafted by block j is computed by block j+1. The blocks after it compute no more than keys
// and values there, as they do where the state is the model's. So every block's cache has the same positions, and
// until a draft begins all of its rows are made of the model's own states. llama.cpp runs the blocks of Step 3.5 that
// way.
type mtp struct {
	Head
	c         *Config
	blocks    []mtpBlock
	oneOutput bool // all blocks have the same output matrix
}

type mtpBlock struct {
	tokenAndState
	join       linear // [D][2D]
	block      block
	keys       keeper // the block's attention
	outputNorm norm
	output     linear // [V][D]
}

// keeper is attention that can put keys and values into its cache and compute no more.
type keeper interface{ remember(p *pass, h []float32) }

func (m *mtp) forward(p *pass) {
	x := p.matrix(&p.x, m.c.HiddenSize) // [rows][D]
	if len(m.blocks) > 1 {
		m.chain(p, x)
		return
	}
	b := &m.blocks[0]
	b.input(p, m.c, x)
	if p.layer(0) {
		b.block.forward(p, m.c, x)
	}
}

// input computes x [rows][D], which goes into the block, of the rows' tokens and states.
func (b *mtpBlock) input(p *pass, c *Config, x []float32) {
	d := c.HiddenSize
	for _, f := range p.fed {
		copy(x[f.row*d:(f.row+f.n)*d], f.x)
	}
	p.matmul(b.tokenAndState.input(p, d, x), 2*d, b.join.times(x))
}

func (m *mtp) finalNorm(p *pass, x []float32) []float32 {
	d := m.c.HiddenSize
	for from, to := 0, 0; from < len(p.given); from = to {
		var b *mtpBlock
		to, b = m.run(p, from)
		p.norm(x[from*d:to*d], x[from*d:to*d], b.outputNorm)
	}
	return x
}

func (m *mtp) logits(p *pass, out, x []float32) {
	d, v := m.c.HiddenSize, m.c.Vocab
	if m.oneOutput {
		p.output(out, x, d, output{linear: m.blocks[0].output})
		return
	}
	all := p.projected
	for from, to := 0, 0; from < len(p.given); from = to {
		var b *mtpBlock
		to, b = m.run(p, from)
		p.projected = all[from:to]
		p.output(out[from*v:to*v], x[from*d:to*d], d, output{linear: b.output})
	}
	p.projected = all
}

func (m *mtp) outputs() (list []linear) {
	for i := range m.blocks {
		list = append(list, m.blocks[i].output)
	}
	return list
}

// mtpOf is the kind of the MTP blocks of models of a kind. Of models whose blocks are not known files may have some,
// which are skipped.
func mtpOf(k kind) kind {
	return kind{is: KindMTP, rawStates: k.rawStates, values: k.values, sparse: k.sparse, layers: (*loader).mtpOnly,
		build: func(l *loader, m *Model) network {
			l.onlyLast(m.config.Layers)
			if !k.admits(KindMTP) {
				l.fail("nextn_predict_layers", ErrUnsupported, "MTP blocks of %s models", l.arch)
				return nil
			}
			if k.mtp != nil {
				return k.mtp(l, m)
			}
			return l.mtp(m, &k)
		}}
}

// mtp reads the MTP blocks of a model's file, or of a file that has nothing but the blocks, the embeddings and what
// makes logits. They are blocks with attention of the model's kind.
func (l *loader) mtp(model *Model, k *kind) network {
	c, target := &model.config, model.target
	f := k.family(l, c)
	if l.belongs(c, target); !l.ok() {
		return nil
	}
	f.mixer = nil
	m, d, b := &mtp{c: c, oneOutput: true}, c.HiddenSize, newBuild(l, c, f)
	m.Head = Head{TargetLayers: []int{FinalNorm}, Output: FinalNorm, FirstToken: true, targetSize: d, stateSize: d}
	if k.rawStates {
		m.TargetLayers, m.Output = []int{l.first}, c.Layers
	}
	if c.Layers > 1 {
		m.Longest = c.Layers
	}
	var embedding *tensor.Matrix
	if l.alone {
		embedding = l.embedding(c)
	} else {
		embedding = l.targetEmbedding(c, target)
	}
	var outputNorm norm
	var output linear
	for i := 0; i < c.Layers && l.ok(); i++ {
		n := l.block(i)
		x := mtpBlock{tokenAndState: tokenAndState{embedding: embedding}}
		x.tokenNorm, x.stateNorm = b.norm(n+"nextn.enorm", d), b.norm(n+"nextn.hnorm", d)
		x.join = l.matrix(n+"nextn.eh_proj.weight", d, 2*d)
		if l.holds(n + "nextn.embed_tokens.weight") {
			x.embedding = l.lookup(n+"nextn.embed_tokens.weight", c.Vocab, d)
		}
		x.block = b.decoderBlock(i)
		x.keys, _ = x.block.mixer.(keeper) // it is: no mixer but attention
		switch {
		case i > 0:
		case l.alone:
			outputNorm, output = b.norm("output_norm", d), linear{w: embedding}
			if l.holds("output.weight") {
				output = l.matrix("output.weight", c.Vocab, d)
			}
		default:
			lent := target.lends()
			outputNorm, output = lent.outputNorm, linear{w: lent.output.w, scale: lent.output.scale}
		}
		x.outputNorm, x.output = outputNorm, output
		const own = "nextn.shared_head_norm" // always there in families that call it otherwise
		if name := b.called(own); name != own || l.holds(n+name+".weight") {
			x.outputNorm = b.norm(n+name, d)
		}
		if l.holds(n + "nextn.shared_head_head.weight") {
			x.output = l.matrix(n+"nextn.shared_head_head.weight", c.Vocab, d)
		}
		m.blocks = append(m.blocks, x)
		m.oneOutput = m.oneOutput && x.output.w == m.blocks[0].output.w
	}
	return m
}

// belongs refuses a target that MTP blocks are not for.
func (l *loader) belongs(c *Config, target *Model) {
	if target != nil && (target.config.Architecture != l.arch || target.config.HiddenSize != c.HiddenSize ||
		target.config.StateSize != c.StateSize) {
		l.keep(fmt.Errorf("%s: %w: an MTP block for %s models with states of %d numbers, the target is %s with %d", l.f.Name,
			ErrShape, l.arch, c.StateSize, target.config.Architecture, target.config.StateSize))
	}
}

// HasMTP reports whether the model's file has MTP blocks that [Options].MTP loads.
func (m *Model) HasMTP() bool {
	v, _ := m.metadata[m.config.Architecture+".nextn_predict_layers"]
	n, err := strconv.Atoi(fmt.Sprint(v))
	return m.kind.admits(KindMTP) && m.more && err == nil && n > 0
}

// mtpAlone reports whether a file of an architecture has multi-token-prediction blocks without the model that they
// belong to: it is a draft head.
func mtpAlone(f *gguf.File, arch string) bool {
	_, model := f.Tensor("blk.0.attn_norm.weight")
	_, streams := f.Tensor("blk.0.hc_attn_norm.weight")
	n, err := f.Uint32(arch + ".nextn_predict_layers")
	blocks, err2 := f.Uint32(arch + ".block_count")
	return !model && !streams && err == nil && err2 == nil && n > 0 && n < blocks
}

// mtpOnly makes the loader read the MTP blocks as if they were the model's only ones. It returns their number.
func (l *loader) mtpOnly(*Config) int {
	l.alone = mtpAlone(l.f, l.arch)
	blocks, n := l.blockCount("block_count"), l.integerOr("nextn_predict_layers", 0)
	switch {
	case !l.ok():
		n = 1
	case n == 0:
		l.keep(fmt.Errorf("%s: %w: no MTP block in the file", l.f.Name, ErrUnsupported))
		n = 1
	case n >= blocks:
		l.fail("nextn_predict_layers", ErrValue, "%d of %d blocks", n, blocks)
		n = 1
	}
	l.first, l.layers = blocks-n, blocks
	return n
}

// onlyLast keeps the last n of the hyperparameters that are there for every layer.
func (l *loader) onlyLast(n int) {
	for _, list := range []*[]int{&l.queryHeads, &l.kvHeads, &l.ffn} {
		*list = slices.Clone((*list)[max(0, len(*list)-n):])
	}
}
