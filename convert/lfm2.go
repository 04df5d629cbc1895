package convert

import (
	"cmp"
	"fmt"

	"github.com/specgo/spec/gguf"
)

// lfm2 converts LFM 2 without experts.
func lfm2(b *builder) { b.shortConvolutions(nil, 0) }

// lfm2MoE converts LFM 2 with experts behind dense blocks: sigmoids and a bias choose them.
func lfm2MoE(b *builder) {
	c := b.config
	e := b.expertsOf("num_experts")
	e.width, e.router, e.of, e.parts = c.integer("moe_intermediate_size"), "feed_forward.gate", "feed_forward.experts.%d.",
		numberedParts
	e.fused = [2]string{"feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"}
	if c.boolOr("use_expert_bias", true) {
		e.choice = "feed_forward.expert_bias"
	}
	c.must("norm_topk_prob", "GGUF's lfm2moe normalizes the experts' weights", true)
	if scale := c.numberOr("routed_scaling_factor", 1); scale != 1 {
		b.real("expert_weights_scale", scale)
	}
	dense := c.whole("num_dense_layers", 0, mostLayers)
	b.size("expert_feed_forward_length", e.width)
	b.size("leading_dense_block_count", dense)
	b.size("expert_gating_func", gatingSigmoid)
	b.shortConvolutions(e, dense)
}

// shortConvolutions converts blocks with short convolutions, and some with attention. e are the experts behind the
// dense blocks; nil: there are none.
func (b *builder) shortConvolutions(e *experts, dense int) {
	c := b.config
	for _, key := range []string{"block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init", "conv_dim_out",
		"conv_use_xavier_init"} {
		c.has(key) // how it was trained
	}
	width, heads, layers := c.integer("hidden_size"), c.integer("num_attention_heads"), c.layers("num_hidden_layers")
	kvHeads, taps := c.integer("num_key_value_heads"), c.integer("conv_L_cache")
	for _, key := range []string{"block_dim", "conv_dim"} {
		c.must(key, fmt.Sprintf("hidden_size is %d", width), float64(width))
	}
	c.must("num_heads", fmt.Sprintf("num_attention_heads is %d", heads), float64(heads))
	c.must("block_use_swiglu", "GGUF's lfm2 has SwiGLU", true)
	c.must("use_pos_enc", "GGUF's lfm2 rotates", true)
	c.must("conv_bias", "GGUF's lfm2 has no biases", false)
	c.headsDivide("num_attention_heads", heads, width)
	if *c.err == nil && heads%kvHeads != 0 {
		c.fail("num_key_value_heads", "%d for %d heads", kvHeads, heads)
	}
	head, feedForward := width/heads, lfm2FeedForward(c, e == nil)
	whole := lfm2Attention(c, layers)
	if *c.err != nil {
		return
	}
	s := sizes{width: width, heads: heads, kvHeads: kvHeads, head: head, layers: layers, feedForward: feedForward}
	b.blockSizes(c.integer("max_position_embeddings"), width, layers, feedForward, heads)
	b.set("attention.head_count_kv", perBlock(whole, kvHeads, 0))
	b.size("shortconv.l_cache", taps)
	b.real("attention.layer_norm_rms_epsilon", c.number(c.first("norm_eps", "block_norm_eps")))
	if theta := "theta"; c.has(theta) && !c.has("rope_theta") {
		c.values["rope_theta"] = c.values[theta]
	}
	b.rotation(head)

	b.matrix("token_embd.weight", "model.embed_tokens.weight", b.vocab, width)
	b.rmsNorm("token_embd_norm", "model.embedding_norm", width)
	b.blocks(llamaModel.block, layers, func(i int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"operator_norm", width)
		b.rmsNorm(to+"ffn_norm", from+"ffn_norm", width)
		if whole[i] {
			b.unbiased(to+"attn_q", from+"self_attn.q_proj", heads*head, width)
			b.unbiased(to+"attn_k", from+"self_attn.k_proj", kvHeads*head, width)
			b.unbiased(to+"attn_v", from+"self_attn.v_proj", kvHeads*head, width)
			b.headNorms(s, to, from, "self_attn.q_layernorm", "self_attn.k_layernorm")
			b.unbiased(to+"attn_output", from+"self_attn.out_proj", width, heads*head)
		} else {
			b.matrix(to+"shortconv.in_proj.weight", from+"conv.in_proj.weight", 3*width, width)
			b.add(target{name: to + "shortconv.conv.weight", from: from + "conv.conv.weight", rows: width, cols: taps,
				float: true})
			b.matrix(to+"shortconv.out_proj.weight", from+"conv.out_proj.weight", width, width)
		}
		if e != nil && i >= dense {
			b.experts(s, e, to, from)
			return
		}
		b.feedForward(b.unbiased, s, numberedParts, to, from+"feed_forward.")
	})
	if !c.boolOr("tie_embedding", c.boolOr("tie_word_embeddings", true)) {
		c.fail("tie_embedding", "GGUF's lfm2 has one matrix for embedding and output")
	}
	b.skip("lm_head.weight")
}

// lfm2FeedForward is the numbers between gate and down: two thirds of what config.json says, in whole multiples, if it
// says so, or does not and adjusted.
func lfm2FeedForward(c *config, adjusted bool) int {
	n, multiple := c.integer(c.first("block_ff_dim", "intermediate_size")), c.integerOr("block_multiple_of", 256)
	c.has("intermediate_size")
	factor := c.numberOr("block_ffn_dim_multiplier", 1)
	if !c.boolOr("block_auto_adjust_ff_dim", adjusted) {
		return n
	}
	n = int(factor * float64(2*n/3))
	return (n + multiple - 1) / multiple * multiple
}

// lfm2Attention says which blocks attend, the others convolve.
func lfm2Attention(c *config, layers int) []bool {
	whole := make([]bool, layers)
	types := c.texts("layer_types")
	list := c.numbers("full_attn_idxs")
	if n := len(types); cmp.Or(n, layers) != layers || n == 0 && len(list) == 0 {
		c.fail("layer_types", "%d of %d blocks: which of them attend?", n, layers)
		return whole
	}
	for i, t := range types {
		if t != "conv" && t != "full_attention" {
			c.fail("layer_types", "layers of kind %q are not supported", gguf.Printable(t, 40))
		}
		whole[i] = t == "full_attention"
	}
	for _, x := range list {
		i := int(x)
		if float32(i) != x || i < 0 || i >= layers || len(types) > 0 && !whole[i] {
			c.fail("full_attn_idxs", "block %v of %d, or layer_types says otherwise", x, layers)
			return whole
		}
		whole[i] = true
	}
	return whole
}
