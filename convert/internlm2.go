package convert

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
	s, ok := b.llamaKeys(options{}, 0)
	if !ok {
		return
	}
	group := (s.heads/s.kvHeads + 2) * s.head // of queries, a key and a value
	all, turned := s.kvHeads*group, interleaved(s.head)
	queries := group - 2*s.head
	q, k := partOfEach(group, 0, queries), partOfEach(group, queries, s.head)
	v := partOfEach(group, queries+s.head, s.head)
	names := llamaModel
	names.embedding, names.head = "model.tok_embeddings.weight", "output.weight"
	b.model(names, s.width, s.layers, b.rmsNorm, func(_ int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"attention_norm", s.width)
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
		b.rmsNorm(to+"ffn_norm", from+"ffn_norm", s.width)
		b.feedForward(b.unbiased, s, numberedParts, to, from+"feed_forward.")
	})
}
