package convert

import (
	"fmt"
	"math"
	"strings"
)

// hunyuan converts Hunyuan without experts: norms of queries and keys behind the rotation.
func hunyuan(b *builder) {
	b.config.must("num_experts", "the class has no experts", 1.0)
	b.hunyuanBlocks(nil)
}

// hunyuanMoE converts Hunyuan A13B: experts, and one that all tokens go through. Numbers of experts are lists of the
// blocks in config.json.
func hunyuanMoE(b *builder) {
	c := b.config
	for _, key := range []string{"moe_topk", "moe_intermediate_size", "num_shared_expert"} {
		c.ofBlocks(key)
	}
	for _, key := range []string{"capacity_factor", "moe_drop_tokens", "moe_random_routing_dropped_token"} {
		c.has(key) // how it was trained
	}
	c.must("norm_topk_prob", "GGUF's hunyuan-moe normalizes the experts' weights", true)
	c.must("routed_scaling_factor", "GGUF's hunyuan-moe does not scale them", 1.0)
	c.must("group_limited_greedy", "GGUF's hunyuan-moe has no groups", false)
	c.must("use_mixed_mlp_moe", "GGUF's hunyuan-moe has one expert that all tokens go through", true)
	c.must("moe_layer_num_skipped", "every block has experts here", 0.0)
	e := b.expertsOf("num_experts")
	e.width, e.router, e.sharedOf = c.integer("moe_intermediate_size"), "mlp.gate.wg", "mlp.shared_mlp"
	shared, width := c.integer("num_shared_expert"), c.integer("intermediate_size")
	e.shared = c.product("num_shared_expert", shared, width)
	b.size("expert_feed_forward_length", e.width)
	b.size("expert_shared_feed_forward_length", e.shared)
	b.size("expert_shared_count", shared)
	if *c.err == nil && e.width != width { // the experts' in GGUF
		c.fail("moe_intermediate_size", "%d, in GGUF's hunyuan-moe it is intermediate_size, %d", e.width, width)
	}
	b.hunyuanBlocks(e)
}

// ofBlocks makes a list of one number for each block, which are all the same, this number.
func (c *config) ofBlocks(key string) {
	list, ok := c.values[key].([]any)
	if !ok {
		return
	}
	for _, x := range list {
		if x != list[0] {
			c.fail(key, "%v: blocks differ", list)
			return
		}
	}
	if len(list) > 0 {
		c.values[key] = list[0]
	}
}

// hunyuanBlocks converts what both have in common. e is nil without experts.
func (b *builder) hunyuanBlocks(e *experts) {
	c := b.config
	for key := range c.values {
		for _, prefix := range []string{"vit_", "im_", "image_", "text_", "video_", "anyres_", "mask_init"} {
			if strings.HasPrefix(key, prefix) {
				c.has(key) // of pictures
			}
		}
	}
	for _, key := range []string{"attention_head_dim", "cla_share_factor", "class_num", "dense_list", "eod_token_id",
		"group_limited_greedy", "num_media_embeds", "org_vocab_size", "pad_id", "pool_type", "skip_cls_token", "moe_topk",
		"num_shared_expert", "moe_intermediate_size", "enable_lm_head_fp32", "norm_topk_prob", "routed_scaling_factor",
		"use_mixed_mlp_moe", "moe_layer_num_skipped", "eod_id", "pad_token_id"} {
		c.has(key) // of other classes, or of those with experts, which asked for them
	}
	for _, key := range []string{"use_cla", "use_mla", "add_classification_head", "position_embedding_xdrope"} {
		c.must(key, fmt.Sprintf("GGUF's %s has none", b.arch), false)
	}
	for _, key := range []string{"use_qk_norm", "qk_norm", "use_rotary_pos_emb"} {
		c.must(key, fmt.Sprintf("so is GGUF's %s", b.arch), true)
	}
	c.must("norm_type", "this architecture has RMSNorm", "rms", "hf_rms", "fused")
	s, ok := b.llamaSizes(options{})
	if !ok {
		return
	}
	b.window()
	b.alphaRotation(s.head)
	b.model(llamaModel, s.width, s.layers, b.rmsNorm, func(i int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"input_layernorm", s.width)
		b.projections(s, to, from+"self_attn.", nil)
		b.headNorms(s, to, from, "self_attn.query_layernorm", "self_attn.key_layernorm")
		b.rmsNorm(to+"ffn_norm", from+"post_attention_layernorm", s.width)
		b.denseOr(s, e, 0, i, to, from)
	})
}

// alphaRotation writes the keys of a rotation whose base config.json's alpha enlarges for all positions.
func (b *builder) alphaRotation(head int) {
	c := b.config
	in := c.rotary()
	if in == nil || in.text(in.first("rope_type", "type")) != "dynamic" {
		b.rotation(head)
		return
	}
	base := in.numberOr("rope_theta", c.numberOr("rope_theta", 10000))
	for _, key := range []string{"beta_fast", "beta_slow", "mscale", "mscale_all_dim", "type"} {
		in.has(key) // of YaRN
	}
	in.must("factor", "alpha says how positions are stretched", 1.0)
	alpha := in.positive("alpha")
	if in.rest(); head < 4 {
		c.fail("head_dim", "%d numbers of a head", head)
		return
	}
	b.real("rope.freq_base", base*math.Pow(alpha, float64(head)/float64(head-2)))
	b.size("rope.dimension_count", head)
}
