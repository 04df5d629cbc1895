package convert

import "fmt"

// internLM2 converts InternLM 2: Llama whose q, k and v are one matrix, in groups of the queries that share keys.
func internLM2(b *builder) {
	c := b.config
	c.has("bias") // whether there are biases is told by the tensors
	c.has("attn_implementation")
	if in := c.rotary(); in != nil && in.text(in.first("rope_type", "type")) == "dynamic" {
		b.note("rope_scaling is left out: up to max_position_embeddings it changes nothing")
		delete(in.values, "type")
		delete(in.values, "factor")
		in.values["rope_type"] = "default"
	}
	s, ok := b.llamaSizes(options{})
	if !ok {
		return
	}
	b.window()
	b.rotation(s.head)
	const embedding = "model.tok_embeddings.weight"
	b.matrix("token_embd.weight", embedding, b.vocab, s.width)
	group := (s.heads/s.kvHeads + 2) * s.head // of queries, a key and a value
	all, turned := s.kvHeads*group, interleaved(s.head)
	queries := group - 2*s.head
	q, k := partOfEach(group, 0, queries), partOfEach(group, queries, s.head)
	v := partOfEach(group, queries+s.head, s.head)
	for i := range s.layers {
		to, from := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		b.vector(to+"attn_norm.weight", from+"attention_norm.weight", s.width, 0)
		for _, p := range []struct {
			name  string
			heads int
			order rowOrder
		}{{"q", s.heads, func(i int) int { return q(turned(i)) }}, {"k", s.kvHeads, func(i int) int { return k(turned(i)) }},
			{"v", s.kvHeads, v}} {
			t := target{name: to + "attn_" + p.name + ".weight", from: from + "attention.wqkv.weight", rows: p.heads * s.head,
				cols: s.width, sourceRows: all, order: p.order}
			b.add(t)
		}
		b.matrix(to+"attn_output.weight", from+"attention.wo.weight", s.width, s.heads*s.head)
		b.vector(to+"ffn_norm.weight", from+"ffn_norm.weight", s.width, 0)
		b.matrix(to+"ffn_gate.weight", from+"feed_forward.w1.weight", s.feedForward, s.width)
		b.matrix(to+"ffn_up.weight", from+"feed_forward.w3.weight", s.feedForward, s.width)
		b.matrix(to+"ffn_down.weight", from+"feed_forward.w2.weight", s.width, s.feedForward)
	}
	b.vector("output_norm.weight", "model.norm.weight", s.width, 0)
	b.head("output.weight", s.width)
}
