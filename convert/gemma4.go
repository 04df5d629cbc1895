package convert

import "github.com/specgo/spec/gguf"

// gemma4 converts Gemma 4: as Gemma 3, with other heads in layers without a window, layers at the end that use the keys
// and values of earlier ones, and, in some models, embeddings for each layer, or experts beside the feed-forward.
func gemma4(b *builder) {
	c := b.config
	m := readGemma4(c)
	if *c.err != nil {
		return
	}
	m.writeKeys(b)
	prefix := b.prefix("embed_tokens.weight", "model.", "language_model.model.", "model.language_model.")
	b.matrix("token_embd.weight", prefix+"embed_tokens.weight", b.vocab, m.width)
	b.values("rope_freqs.weight", m.factors)
	if n := m.inputs * m.layers; n > 0 {
		b.matrix("per_layer_token_embd.weight", prefix+"embed_tokens_per_layer.weight", b.vocab, n)
		b.matrix("per_layer_model_proj.weight", prefix+"per_layer_model_projection.weight", n, m.width)
		b.rmsNorm("per_layer_proj_norm", prefix+"per_layer_projection_norm", m.inputs)
	}
	b.blocks(prefix+"layers.%d.", m.layers, func(i int, to, from string) {
		b.gemma4Attention(m, i, to, from)
		b.gemma4FeedForward(m, i, to, from)
	})
	b.rmsNorm("output_norm", prefix+"norm", m.width)
	b.head("lm_head.weight", m.width)
	b.pictures()
}

// gemma4Sizes are those of a Gemma 4.
type gemma4Sizes struct {
	width, layers, heads int
	head, wholeHead      int    // numbers of a head, of layers with a window and without
	kvHeads, wholeKV     int    // likewise heads of keys
	sameValues           bool   // without a window the values are made as the keys are
	windowed             []bool // of each block
	sharing              int    // blocks at the end without keys and values of their own
	feedForward          []uint32
	inputs               int // numbers that a token gives each layer; 0: none
	experts, used, inner int // experts, 0: none; of a token; and the numbers inside one

	windowBase, wholeBase float64
	windowDims            int       // of a head that are rotated
	factors               []float32 // of the frequencies of layers without a window
}

// readGemma4 reads them.
func readGemma4(c *config) (m gemma4Sizes) {
	c.must("hidden_activation", "GGUF's gemma4 has the tanh form of GELU", "gelu_pytorch_tanh")
	c.must("hidden_act", "GGUF's gemma4 has the tanh form of GELU", "gelu_pytorch_tanh")
	c.must("attention_bias", "GGUF's gemma4 has no biases", false)
	c.must("use_bidirectional_attention", "attention to texts is causal here", "vision", false)
	c.must("vocab_size_per_layer_input", "vocab_size says something else", c.number("vocab_size"))
	m.width, m.layers, m.heads = c.integer("hidden_size"), c.layers("num_hidden_layers"), c.integer("num_attention_heads")
	m.head, m.kvHeads = c.integer("head_dim"), c.integer("num_key_value_heads")
	m.wholeHead, m.wholeKV = c.integer("global_head_dim"), m.kvHeads
	m.sameValues = c.boolOr("attention_k_eq_v", false)
	if n := c.integerOr("num_global_key_value_heads", m.kvHeads); m.sameValues {
		m.wholeKV = n
	}
	for _, kv := range []int{m.kvHeads, m.wholeKV} {
		if m.heads%kv != 0 {
			c.fail("num_attention_heads", "%d heads, %d of keys", m.heads, kv)
		}
	}
	if most := int64(max(m.head, m.wholeHead)) * int64(m.heads); most > largest || m.head%2 != 0 || m.wholeHead%2 != 0 {
		c.fail("head_dim", "%d heads of %d and %d numbers: pairs are rotated, and %d numbers are the most in all", m.heads,
			m.head, m.wholeHead, largest)
	}
	m.windowed = c.windowed(m.layers)
	m.sharing = c.whole("num_kv_shared_layers", 0, m.layers-1)
	m.inputs = c.whole("hidden_size_per_layer_input", 0, largest/m.layers)
	inner, double := c.integer("intermediate_size"), c.boolOr("use_double_wide_mlp", false)
	for i := range m.layers {
		n := inner
		if double && i >= m.layers-m.sharing {
			n *= 2
		}
		m.feedForward = append(m.feedForward, uint32(n))
	}
	if c.boolOr("enable_moe_block", false) {
		m.experts, m.used, m.inner = c.integer("num_experts"), c.integer("top_k_experts"), c.integer("moe_intermediate_size")
		if m.used > m.experts {
			c.fail("top_k_experts", "%d of %d experts", m.used, m.experts)
		}
		if m.experts > mostExperts/m.layers {
			c.fail("num_experts", "%d experts in %d blocks, %d are the most in all", m.experts, m.layers, mostExperts)
		}
	}
	for _, key := range []string{"num_experts", "top_k_experts", "moe_intermediate_size"} {
		c.has(key) // of a model without experts nothing
	}
	m.rotation(c)
	return m
}

// rotation reads how heads are rotated. Without a window it is a share of the pairs, which stand at the beginning of
// each half: GGUF says so by factors that leave the others where they are.
func (m *gemma4Sizes) rotation(c *config) {
	in := c.object("rope_parameters")
	whole, window := in.object("full_attention"), in.object("sliding_attention")
	if whole == nil || window == nil {
		c.fail("rope_parameters", "full_attention and sliding_attention expected")
		return
	}
	in.rest()
	whole.required("rope_type", "GGUF's gemma4 turns a share of the pairs of a head", "proportional")
	whole.must("factor", "GGUF's gemma4 does not scale positions", 1.0)
	window.must("rope_type", "layers with a window are not scaled in GGUF's gemma4", "default")
	m.wholeBase, m.windowBase = whole.positive("rope_theta"), window.positive("rope_theta")
	const key = "partial_rotary_factor"
	share, windowShare := whole.numberOr(key, 1), window.numberOr(key, 1)
	if !(share > 0 && share <= 1 && windowShare > 0 && windowShare <= 1) {
		whole.fail(key, "%v and %v, parts of 1 expected", share, windowShare)
		return
	}
	m.windowDims = int(float64(m.head) * windowShare)
	turned := int(float64(m.wholeHead) * share / 2)
	m.factors = make([]float32, m.wholeHead/2)
	for i := range m.factors {
		m.factors[i] = 1
		if i >= turned {
			m.factors[i] = 1e30
		}
	}
	whole.rest()
	window.rest()
}

// oneOrEach is the number that all of a list are, or the list.
func oneOrEach(list []uint32) gguf.Value {
	for _, n := range list {
		if n != list[0] {
			return list
		}
	}
	return list[0]
}

// writeKeys writes the keys.
func (m *gemma4Sizes) writeKeys(b *builder) {
	c := b.config
	b.size("context_length", c.integer("max_position_embeddings"))
	b.size("embedding_length", m.width)
	b.size("block_count", m.layers)
	b.set("feed_forward_length", oneOrEach(m.feedForward))
	b.size("attention.head_count", m.heads)
	var kv []uint32
	for _, windowed := range m.windowed {
		n := m.wholeKV
		if windowed {
			n = m.kvHeads
		}
		kv = append(kv, uint32(n))
	}
	b.set("attention.head_count_kv", oneOrEach(kv))
	b.size("attention.key_length", m.wholeHead)
	b.size("attention.value_length", m.wholeHead)
	b.size("attention.key_length_swa", m.head)
	b.size("attention.value_length_swa", m.head)
	b.real("attention.layer_norm_rms_epsilon", c.number("rms_norm_eps"))
	b.size("attention.sliding_window", c.integer("sliding_window"))
	b.set("attention.sliding_window_pattern", m.windowed)
	b.size("attention.shared_kv_layers", m.sharing)
	b.size("embedding_length_per_layer_input", m.inputs)
	b.size("rope.dimension_count", m.wholeHead)
	b.size("rope.dimension_count_swa", m.windowDims)
	b.real("rope.freq_base", m.wholeBase)
	b.real("rope.freq_base_swa", m.windowBase)
	if c.has("final_logit_softcapping") {
		b.real("final_logit_softcapping", c.number("final_logit_softcapping"))
	}
	if m.experts > 0 {
		b.size("expert_count", m.experts)
		b.size("expert_used_count", m.used)
		b.size("expert_feed_forward_length", m.inner)
	}
}

// gemma4Attention adds the attention of block i. Blocks without keys and values of their own may have tensors for them.
func (b *builder) gemma4Attention(m gemma4Sizes, i int, to, from string) {
	b.rmsNorm(to+"attn_norm", from+"input_layernorm", m.width)
	b.rmsNorm(to+"post_attention_norm", from+"post_attention_layernorm", m.width)
	to += "attn_"
	from += "self_attn."
	head, kvHeads := m.wholeHead, m.wholeKV
	if m.windowed[i] {
		head, kvHeads = m.head, m.kvHeads
	}
	b.matrix(to+"q.weight", from+"q_proj.weight", m.heads*head, m.width)
	b.rmsNorm(to+"q_norm", from+"q_norm", head)
	b.matrix(to+"output.weight", from+"o_proj.weight", m.width, m.heads*head)
	if i >= m.layers-m.sharing {
		b.skip(from+"k_proj.weight", from+"v_proj.weight", from+"k_norm.weight")
		return
	}
	b.matrix(to+"k.weight", from+"k_proj.weight", kvHeads*head, m.width)
	b.rmsNorm(to+"k_norm", from+"k_norm", head)
	if m.windowed[i] || !m.sameValues {
		b.matrix(to+"v.weight", from+"v_proj.weight", kvHeads*head, m.width)
	}
}

// gemma4FeedForward adds the rest of block i.
func (b *builder) gemma4FeedForward(m gemma4Sizes, i int, to, from string) {
	norm := func(name, source string) { b.vector(to+name+".weight", from+source+".weight", m.width, 0) }
	norm("ffn_norm", "pre_feedforward_layernorm")
	norm("post_ffw_norm", "post_feedforward_layernorm")
	s := sizes{width: m.width, feedForward: int(m.feedForward[i])}
	b.feedForward(b.unbiased, s, llamaParts, to, from+"mlp.")
	b.vector(to+"layer_output_scale.weight", from+"layer_scalar", 1, 0)
	if m.inputs > 0 {
		b.matrix(to+"inp_gate.weight", from+"per_layer_input_gate.weight", m.inputs, m.width)
		b.matrix(to+"proj.weight", from+"per_layer_projection.weight", m.width, m.inputs)
		norm("post_norm", "post_per_layer_input_norm")
	}
	if m.experts == 0 {
		return
	}
	b.fits(m.experts, 2*m.inner)
	b.fits(m.experts, m.width)
	norm("pre_ffw_norm_2", "pre_feedforward_layernorm_2")
	norm("post_ffw_norm_1", "post_feedforward_layernorm_1")
	norm("post_ffw_norm_2", "post_feedforward_layernorm_2")
	b.matrix(to+"ffn_gate_inp.weight", from+"router.proj.weight", m.experts, m.width)
	b.vector(to+"ffn_gate_inp.scale", from+"router.scale", m.width, 0)
	b.add(target{name: to + "ffn_gate_up_exps.weight", from: from + "experts.gate_up_proj",
		rows: m.experts * 2 * m.inner, cols: m.width, stack: m.experts})
	b.add(target{name: to + "ffn_down_exps.weight", from: from + "experts.down_proj", rows: m.experts * m.width,
		cols: m.inner, stack: m.experts})
	b.vector(to+"ffn_down_exps.scale", from+"router.per_expert_scale", m.experts, 0)
}
