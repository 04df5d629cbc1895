package engine

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// mtp is a multi-token-prediction block (NextN; DeepSeek-V3, arXiv:2412.19437, section 2.2): the block after a model's own, with a KV cache
// of its own. The input at position p is token p and h, the model's hidden state at p-1 after the final norm, or, where the model has
// not been yet, what the block's own norm gave one step before; h is zeros before the first token.
//
//	x = eh_proj [norm(embedding of the token); norm(h)];  x = block(x)
//	h' = norm(x), logits = output h'
type mtp struct {
	c          *Config
	embedding  *tensor.Matrix // [V][D]
	tokenNorm  norm
	stateNorm  norm
	join       linear // [D][2D]
	block      block
	outputNorm norm
	output     linear // [V][D]
}

func (m *mtp) forward(p *pass) {
	d := m.c.HiddenSize
	x := p.matrix(&p.x, d) // [rows][D]
	for _, f := range p.fed {
		copy(x[f.row*d:(f.row+f.n)*d], f.x)
	}
	token, state := p.matrix(&p.h, d), p.matrix(&p.y, d)
	p.embed(token, m.embedding)
	p.norm(token, token, m.tokenNorm)
	p.norm(state, x, m.stateNorm)
	both := p.matrix(&p.wide, 2*d) // [rows][2D]
	for i := range p.rows() {
		copy(both[2*i*d:], token[i*d:(i+1)*d])
		copy(both[(2*i+1)*d:], state[i*d:(i+1)*d])
	}
	p.matmul(both, 2*d, m.join.times(x))
	if p.layer(0) {
		m.block.forward(p, m.c, x)
	}
}

func (m *mtp) finalNorm(p *pass, x []float32) { p.norm(x, x, m.outputNorm) }

func (m *mtp) logits(p *pass, out, x []float32) { p.matmul(x, m.c.HiddenSize, m.output.times(out)) }

// withMTP are the architectures whose MTP blocks are known. Of others files may have some, which are skipped.
var withMTP = []string{"qwen35", "qwen35moe"}

// mtp reads the one MTP block of a model's file, or of a file that has nothing but the block, the embeddings and what makes logits. f is
// the model's family, whose blocks with attention it has.
func (l *loader) mtp(c *Config, f family, target *Model) *mtp {
	if !slices.Contains(withMTP, l.arch) {
		l.fail("nextn_predict_layers", ErrUnsupported, "MTP blocks of %s models", l.arch)
		return nil
	}
	if target != nil && (target.config.Architecture != l.arch || target.config.HiddenSize != c.HiddenSize) {
		l.keep(fmt.Errorf("%s: %w: an MTP block for %s models with a hidden size of %d, the target is %s with %d", l.f.Name, ErrShape, l.arch, c.HiddenSize, target.config.Architecture, target.config.HiddenSize))
		return nil
	}
	eps := "attention.layer_norm_rms_epsilon"
	c.Epsilon = l.float(eps)
	f.mixer = nil
	m, d := &mtp{c: c}, c.HiddenSize
	ropes := l.ropes(c, f)
	if l.alone {
		m.embedding = l.embedding(c)
	} else {
		m.embedding = l.targetEmbedding(c, target)
	}
	if !l.ok() {
		return m
	}
	n := l.block(0)
	m.tokenNorm, m.stateNorm = l.norm(c, f, n+"nextn.enorm", d), l.norm(c, f, n+"nextn.hnorm", d)
	m.join = linear{w: l.matrix(n+"nextn.eh_proj.weight", d, 2*d)}
	if l.holds(n + "nextn.embed_tokens.weight") {
		m.embedding = l.matrix(n+"nextn.embed_tokens.weight", c.Vocab, d)
	}
	m.block = l.decoderBlock(c, f, 0, ropes)
	if l.alone {
		m.outputNorm, m.output = l.norm(c, f, "output_norm", d), linear{w: m.embedding}
		if l.holds("output.weight") {
			m.output.w = l.matrix("output.weight", c.Vocab, d)
		}
	} else {
		net := target.net.(*decoder) // by targetEmbedding
		m.outputNorm, m.output = net.outputNorm, linear{w: net.output.w}
	}
	if l.holds(n + "nextn.shared_head_norm.weight") {
		m.outputNorm = l.norm(c, f, n+"nextn.shared_head_norm", d)
	}
	if l.holds(n + "nextn.shared_head_head.weight") {
		m.output.w = l.matrix(n+"nextn.shared_head_head.weight", c.Vocab, d)
	}
	return m
}

// HasMTP reports whether the model's file has an MTP block that [Options].MTP loads.
func (m *Model) HasMTP() bool {
	v, _ := m.metadata[m.config.Architecture+".nextn_predict_layers"]
	return slices.Contains(withMTP, m.config.Architecture) && m.head == nil && fmt.Sprint(v) == "1"
}

// MTPAlone reports whether a file has multi-token-prediction blocks without the model that they belong to: it is a draft head.
func MTPAlone(f *gguf.File) bool {
	arch, err := f.String("general.architecture")
	if err != nil {
		return false
	}
	_, model := f.Tensor("blk.0.attn_norm.weight")
	n, err := f.Uint32(arch + ".nextn_predict_layers")
	blocks, err2 := f.Uint32(arch + ".block_count")
	return !model && err == nil && err2 == nil && n > 0 && n < blocks
}

// mtpOnly makes the loader read the MTP block as if it were the model's only one. It returns its number of layers.
func (l *loader) mtpOnly() int {
	blocks, n := l.integer("block_count"), l.integerOr("nextn_predict_layers", 0)
	switch {
	case !l.ok():
	case n == 0:
		l.keep(fmt.Errorf("%s: %w: no MTP block in the file", l.f.Name, ErrUnsupported))
	case n > 1:
		l.fail("nextn_predict_layers", ErrUnsupported, "%d MTP blocks, of which each would draft another token: one is", n)
	case blocks < 2:
		l.fail("nextn_predict_layers", ErrValue, "%d of %d blocks", n, blocks)
	}
	l.first, l.layers = blocks-1, blocks
	return 1
}

// onlyLast keeps the last of the hyperparameters that are there for every layer.
func (l *loader) onlyLast() {
	for _, list := range []*[]int{&l.queryHeads, &l.kvHeads, &l.ffn} {
		*list = slices.Clone((*list)[max(0, len(*list)-1):])
	}
}
