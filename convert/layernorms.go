package convert

import "fmt"

// Families whose blocks have LayerNorms with biases, and tensors with Llama's names beside them.

// stableLM converts StableLM 2 and StableLM 3B. The larger ones are parallel, and normalize queries and keys, each head
// with weights of its own.
func stableLM(b *builder) {
	c := b.config
	share := c.partialRotary(0.25)
	parallel, own := c.boolOr("use_parallel_residual", false), c.boolOr("qk_layernorm", false)
	c.has("use_qkv_bias") // whether there are biases is told by the tensors
	c.has("use_norm_bias")
	c.must("rotary_scaling_factor", "GGUF's stablelm does not scale positions", 1.0)
	s, ok := b.llamaKeys(options{layerNorms: true}, share)
	if !ok {
		return
	}
	b.set("use_parallel_residual", parallel)
	b.model(llamaModel, s.width, s.layers, b.layerNorm, func(_ int, to, from string) {
		b.skip(from + "self_attn.rotary_emb.inv_freq")
		b.layerNorm(to+"attn_norm", from+"input_layernorm", s.width)
		b.projections(s, to, from+"self_attn.", nil)
		if own {
			b.ownNorms("q", s.heads, s.head, to, from)
			b.ownNorms("k", s.kvHeads, s.head, to, from)
		}
		if !parallel {
			b.layerNorm(to+"ffn_norm", from+"post_attention_layernorm", s.width)
		}
		b.feedForward(b.unbiased, s, llamaParts, to, from+"mlp.")
	})
}

// ownNorms adds norms of queries (q) or keys (k) with weights of each head.
func (b *builder) ownNorms(of string, heads, head int, to, from string) {
	t := target{name: to + "attn_" + of + "_norm.weight", cols: head, float: true}
	for h := range heads {
		t.experts = append(t.experts, fmt.Sprintf("%sself_attn.%s_layernorm.norms.%d.weight", from, of, h))
	}
	b.add(t)
}

// starcoder2 converts StarCoder 2.
func starcoder2(b *builder) {
	c := b.config
	for _, key := range []string{"embedding_dropout", "residual_dropout", "activation_function", "layer_norm_epsilon",
		"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"} {
		c.has(key) // of training, and of StarCoder 1: the class does not read them
	}
	c.must("scale_attn_weights", "GGUF's starcoder2 scales", true)
	c.has("use_bias") // whether there are biases is told by the tensors
	c.must("mlp_type", "GGUF's starcoder2 has no gates", "default")
	c.must("norm_type", "GGUF's starcoder2 has LayerNorms", "layer_norm")
	c.must("hidden_act", "GGUF's starcoder2 has the tanh form of GELU", "gelu_pytorch_tanh", "gelu_new")
	if key := "norm_epsilon"; c.has(key) {
		c.values["layer_norm_eps"] = c.values[key]
	}
	s, ok := b.llamaKeys(options{layerNorms: true, activation: "gelu"}, 0)
	if !ok {
		return
	}
	b.model(llamaModel, s.width, s.layers, b.layerNorm, func(_ int, to, from string) {
		b.layerNorm(to+"attn_norm", from+"input_layernorm", s.width)
		b.projections(s, to, from+"self_attn.", nil)
		b.layerNorm(to+"ffn_norm", from+"post_attention_layernorm", s.width)
		b.linear(to+"ffn_up", from+"mlp.c_fc", s.feedForward, s.width, nil)
		b.linear(to+"ffn_down", from+"mlp.c_proj", s.width, s.feedForward, nil)
	})
}

// phi2 converts Phi-1, 1.5 and 2, whose attention and feed-forward read the same norm.
func phi2(b *builder) {
	c := b.config
	share := c.partialRotary(0.5)
	c.must("qk_layernorm", "GGUF's phi2 has no norms of queries and keys", false)
	c.must("hidden_act", "GGUF's phi2 has the tanh form of GELU", "gelu_new", "gelu_pytorch_tanh")
	s, ok := b.llamaKeys(options{layerNorms: true, activation: "gelu"}, share)
	if !ok {
		return
	}
	names := llamaModel
	names.norm = "model.final_layernorm"
	b.model(names, s.width, s.layers, b.layerNorm, func(_ int, to, from string) {
		b.layerNorm(to+"attn_norm", from+"input_layernorm", s.width)
		b.queriesKeysValues(s, s.width, to, from+"self_attn.", nil)
		b.linear(to+"attn_output", from+"self_attn.dense", s.width, s.heads*s.head, nil)
		b.linear(to+"ffn_up", from+"mlp.fc1", s.feedForward, s.width, nil)
		b.linear(to+"ffn_down", from+"mlp.fc2", s.width, s.feedForward, nil)
	})
	b.vector("output.bias", "lm_head.bias", b.vocab, 0)
}

// falcon converts Falcon. The source has groups of some heads of queries, then one of keys and one of values.
func falcon(b *builder) {
	c := b.config
	width, heads := c.integer("hidden_size"), c.integer(c.first("num_attention_heads", "n_head"))
	layers := c.layers(c.first("num_hidden_layers", "n_layer"))
	c.headsDivide("num_attention_heads", heads, width)
	kvHeads, newer := c.integerOr("num_kv_heads", heads), c.boolOr("new_decoder_architecture", false)
	if c.boolOr("multi_query", true) && !newer {
		kvHeads = 1
	}
	if *c.err == nil && heads%kvHeads != 0 {
		c.fail("num_kv_heads", "%d for %d heads", kvHeads, heads)
	}
	inner := c.integerOr("ffn_hidden_size", 4*width)
	c.must("ff_factor", "ffn_hidden_size says something else", float64(inner)/float64(width))
	c.must("alibi", "GGUF's falcon rotates", false)
	c.must("bias", "GGUF's falcon has no biases", false)
	c.must("parallel_attn", "GGUF's falcon is parallel", true)
	c.must("apply_residual_connection_post_layernorm", "GGUF's falcon does not", false)
	c.must("activation", "GGUF's falcon has the exact form of GELU", "gelu")
	norms := 1
	if newer {
		norms = 2
	}
	if norms = c.integerOr("num_ln_in_parallel_attn", norms); norms > 2 {
		c.fail("num_ln_in_parallel_attn", "%d, one or two expected", norms)
	}
	if *c.err != nil {
		return
	}
	head := width / heads
	b.blockSizes(c.integerOr("max_position_embeddings", 2048), width, layers, inner, heads)
	b.size("attention.head_count_kv", kvHeads)
	b.real("attention.layer_norm_epsilon", c.number("layer_norm_epsilon"))
	b.rotation(head)
	each := heads/kvHeads + 2 // heads of a group
	order := func(r int) int {
		switch h, at := r/head, r%head; {
		case h < heads:
			return (h/(each-2)*each+h%(each-2))*head + at
		default: // keys of all groups, then values
			h -= heads
			return (h%kvHeads*each+each-2+h/kvHeads)*head + at
		}
	}
	names := modelNames{"transformer.word_embeddings.weight", "transformer.h.%d.", "transformer.ln_f", "lm_head.weight"}
	b.model(names, width, layers, b.layerNorm, func(_ int, to, from string) {
		b.skip(from + "self_attention.rotary_emb.inv_freq")
		if norms == 2 {
			b.layerNorm(to+"attn_norm_2", from+"ln_attn", width)
			b.layerNorm(to+"attn_norm", from+"ln_mlp", width)
		} else {
			b.layerNorm(to+"attn_norm", from+"input_layernorm", width)
		}
		b.linear(to+"attn_qkv", from+"self_attention.query_key_value", (heads+2*kvHeads)*head, width, order)
		b.linear(to+"attn_output", from+"self_attention.dense", width, width, nil)
		b.linear(to+"ffn_up", from+"mlp.dense_h_to_4h", inner, width, nil)
		b.linear(to+"ffn_down", from+"mlp.dense_4h_to_h", width, inner, nil)
	})
}
