package convert

// ernieMoE converts ERNIE 4.5 with experts behind dense blocks: the softmax's weights, and a bias that helps to choose.
// The source turns pairs (2i, 2i+1), as GGUF's does.
func ernieMoE(b *builder) {
	c := b.config
	for _, key := range []string{"moe_capacity", "moe_norm_min", "num_nextn_predict_layers", "use_bias"} {
		c.has(key) // of training; so small that it says nothing; left out; whether there are biases is told by the tensors
	}
	c.must("moe_gate", "the best experts are used", "topk")
	c.must("moe_gate_act", "GGUF's ernie4_5-moe has a softmax", "softmax")
	c.must("moe_use_aux_free", "GGUF's ernie4_5-moe has a bias for the choice", true)
	c.must("use_rmsnorm", "GGUF's ernie4_5-moe has RMSNorm", true)
	c.must("moe_layer_interval", "every block behind the dense ones has experts", 1.0)
	layers := c.layers("num_hidden_layers")
	c.must("moe_layer_end_index", "every block behind the dense ones has experts", float64(layers-1), -1.0)
	e, dense := b.routedExperts(gatingSoftmax)
	e.choice = "mlp.moe_statics.e_score_correction_bias"
	if e.shared > 0 {
		b.size("expert_shared_feed_forward_length", e.shared)
	}
	b.size("interleave_moe_layer_step", 1)
	s, ok := b.llamaKeys(options{}, 0)
	if !ok {
		return
	}
	b.model(llamaModel, s.width, s.layers, b.rmsNorm, func(i int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"input_layernorm", s.width)
		b.projections(s, to, from+"self_attn.", nil)
		b.rmsNorm(to+"ffn_norm", from+"post_attention_layernorm", s.width)
		b.denseOr(s, e, dense, i, to, from)
	})
	b.leaveOut("model.mtp_", "blocks for multi-token prediction are")
}
