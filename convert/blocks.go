package convert

import "fmt"

// modelNames are what the source calls the tensors around a model's blocks, and what names of a block's tensors have in
// front, in which %d is the block's number.
type modelNames struct{ embedding, block, norm, head string }

// llamaModel are Llama's.
var llamaModel = modelNames{"model.embed_tokens.weight", "model.layers.%d.", "model.norm", "lm_head.weight"}

// norm adds the tensors of a norm, whose names are without ending.
type norm func(to, from string, width int)

// block adds the tensors of block i. Their names begin with to in GGUF, and with from in the source.
type block func(i int, to, from string)

// model adds the tensors of a model: its embedding, n blocks, the last norm and the output matrix.
func (b *builder) model(names modelNames, width, n int, last norm, one block) {
	b.matrix("token_embd.weight", names.embedding, b.vocab, width)
	b.blocks(names.block, n, one)
	last("output_norm", names.norm, width)
	b.head(names.head, width)
}

// blocks adds the tensors of n blocks alone. name is as in modelNames.
func (b *builder) blocks(name string, n int, one block) {
	for i := range n {
		one(i, fmt.Sprintf("blk.%d.", i), fmt.Sprintf(name, i))
	}
}

// rmsNorm adds a norm's weights.
func (b *builder) rmsNorm(to, from string, width int) {
	b.vector(to+".weight", from+".weight", width, 0)
}

// rmsNormLessOne adds those of a norm that the source stores less 1.
func (b *builder) rmsNormLessOne(to, from string, width int) {
	b.vector(to+".weight", from+".weight", width, 1)
}

// adder adds a matrix by names without endings, and its bias: none ([builder.unbiased]), the one that the source may
// have ([builder.biased]), or the one that it must have ([builder.full]).
type adder func(to, from string, rows, cols int)

func (b *builder) unbiased(to, from string, rows, cols int) {
	b.matrix(to+".weight", from+".weight", rows, cols)
}

func (b *builder) biased(to, from string, rows, cols int) { b.linear(to, from, rows, cols, nil) }

// Names of a feed-forward's matrices: gate, up and down. "" is where there is no gate.
var (
	llamaParts    = [3]string{"gate_proj", "up_proj", "down_proj"}
	plainParts    = [3]string{"", "up_proj", "down_proj"}
	numberedParts = [3]string{"w1", "w3", "w2"}
)

// feedForward adds the matrices of a feed-forward. parts are their names behind from.
func (b *builder) feedForward(add adder, s sizes, parts [3]string, to, from string) {
	if parts[0] != "" {
		add(to+"ffn_gate", from+parts[0], s.feedForward, s.width)
	}
	add(to+"ffn_up", from+parts[1], s.feedForward, s.width)
	add(to+"ffn_down", from+parts[2], s.width, s.feedForward)
}

// under adds tensors whose names begin with to in GGUF, and with from in the source.
func (b *builder) under(to, from string, list ...target) {
	for _, t := range list {
		t.name, t.from = to+t.name, from+t.from
		b.add(t)
	}
}
