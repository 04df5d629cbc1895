package convert

// graniteSWA converts Granite with windows, with or without experts and one that all tokens go through. It has sinks in
// every layer.
func graniteSWA(b *builder) {
	c := b.config
	const count, shared = "num_local_experts", "shared_intermediate_size"
	for _, key := range []string{"output_router_logits", "router_aux_loss_coef"} {
		c.has(key) // how experts were trained
	}
	var e *experts
	var sharedWidth int
	if c.numberOr(count, 0) > 0 {
		e = b.expertsOf(count)
		e.width = c.integer("intermediate_size")
		if sharedWidth = c.whole(shared, 0, largest); sharedWidth > 0 {
			b.size("expert_shared_feed_forward_length", sharedWidth)
		}
	}
	b.graniteScales()
	b.llamaLike(options{interleave: true, windows: true, feed: func(s sizes, to, from string) {
		b.vector(to+"attn_sinks.weight", from+"self_attn.sinks", s.heads, 0)
		if e == nil {
			b.feedForward(b.unbiased, s, llamaParts, to, from+"mlp.")
			return
		}
		b.matrix(to+"ffn_gate_inp.weight", from+"block_sparse_moe.router.layer.weight", e.count, s.width)
		b.graniteFeedForward(s.width, e.width, e.count, to, "_exps", from+"block_sparse_moe.")
		if sharedWidth > 0 { // of which GGUF's architecture has gate and up in one matrix
			b.matrix(to+"ffn_up_shexp.weight", from+"shared_mlp.input_linear.weight", 2*sharedWidth, s.width)
			b.matrix(to+"ffn_down_shexp.weight", from+"shared_mlp.output_linear.weight", s.width, sharedWidth)
		}
	}})
	if turned := b.turnedLayers(); turned != nil {
		b.set("attention.rope_pattern", turned)
	}
}
