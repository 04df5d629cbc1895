package convert

import (
	"cmp"
	"fmt"
	"slices"
)

// graniteScales writes the keys of Granite's scales.
func (b *builder) graniteScales() {
	c := b.config
	b.real("embedding_scale", c.number("embedding_multiplier"))
	b.real("residual_scale", c.number("residual_multiplier"))
	b.real("attention.scale", c.number("attention_multiplier"))
	b.real("logit_scale", c.number("logits_scaling"))
}

// graniteMoE converts Granite with experts.
func graniteMoE(b *builder) {
	b.config.must("position_embedding_type", "GGUF's granitemoe rotates", "rope")
	b.graniteBlocks(nil)
}

// graniteHybrid converts Granite 4: Mamba-2 or attention in each block, with or without experts, and one that all
// tokens go through. Those that have attention alone are of the other classes' architectures.
func graniteHybrid(b *builder) {
	c := b.config
	recurrent := c.layersOf(c.layers("num_hidden_layers"), "attend", map[string]bool{"attention": false,
		"full_attention": false, "mamba": true, "linear_attention": true}) // the last one since transformers 5
	for _, key := range []string{"init_method", "mamba_d_conv", "mamba_d_state", "mamba_n_groups", "mamba_n_heads",
		"mamba_d_head"} {
		c.has(key) // of training; of layers that there may not be
	}
	c.timeSteps()
	c.must("mamba_conv_bias", "GGUF's granitehybrid has a bias in the convolution", true)
	c.must("mamba_proj_bias", "GGUF's granitehybrid has no biases in projections", false)
	c.must("mamba_expand", "GGUF's granitehybrid has 2", 2.0)
	c.must("normalization_function", "GGUF's granitehybrid has RMSNorm", "rmsnorm")
	if slices.Contains(recurrent, true) {
		b.graniteBlocks(recurrent)
		return
	}
	c.required("position_embedding_type", "models without Mamba-2 have positions in GGUF", "rope")
	if b.become("granite"); c.numberOr("num_local_experts", 0) > 0 {
		b.become("granitemoe")
	}
	b.graniteBlocks(nil)
}

// graniteBlocks converts blocks of Granite, of which some are recurrent; nil: none.
func (b *builder) graniteBlocks(recurrent []bool) {
	c := b.config
	const count, shared = "num_local_experts", "shared_intermediate_size"
	for _, key := range []string{"output_router_logits", "router_aux_loss_coef"} {
		c.has(key) // how experts were trained
	}
	var e *experts
	if c.numberOr(count, 0) > 0 {
		e = b.expertsOf(count)
		e.width = c.integer("intermediate_size")
	} else if c.has("num_experts_per_tok"); c.has(shared) {
		c.has("intermediate_size") // of experts that there are not
		c.values["intermediate_size"] = c.values[shared]
	}
	var sharedWidth int
	if e != nil {
		if sharedWidth = c.whole(shared, 0, largest); sharedWidth > 0 {
			b.size("expert_shared_feed_forward_length", sharedWidth)
		}
	}
	b.graniteScales()
	var m mambaSizes
	if recurrent != nil {
		m = mambaSizes{heads: c.integer("mamba_n_heads"), state: c.integer("mamba_d_state"),
			groups: c.integerOr("mamba_n_groups", 1), taps: c.integer("mamba_d_conv")}
		width := c.integer("hidden_size")
		m.inner = 2 * width
		c.must("mamba_d_head", fmt.Sprintf("%d heads are of %d numbers", m.heads, m.inner), float64(m.inner/m.heads), "auto")
		b.mambaKeys(m, "mamba_n_heads", "mamba_n_groups")
	}
	s, ok := b.llamaSizes(options{})
	if !ok || *c.err != nil {
		return
	}
	turned := recurrent == nil || c.text("position_embedding_type") == "rope"
	if recurrent != nil {
		c.must("position_embedding_type", "positions are turned or not known", "rope", "nope")
		b.set("rope.scaling.finetuned", turned)
		b.set("attention.head_count_kv", perBlock(recurrent, 0, s.kvHeads))
	}
	if turned {
		b.rotation(s.head)
	} else {
		for _, key := range []string{"rope_theta", "rope_scaling", "rope_parameters"} {
			c.has(key) // nothing is turned
		}
	}
	if c.values["tie_word_embeddings"] == nil && !b.holds("lm_head.weight") {
		c.values["tie_word_embeddings"] = true
	}
	b.model(llamaModel, s.width, s.layers, b.rmsNorm, func(i int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"input_layernorm", s.width)
		if recurrent != nil && recurrent[i] {
			b.mamba2(m, s.width, true, to, from+"mamba.")
		} else {
			b.projections(s, to, from+"self_attn.", interleaved(s.head))
		}
		b.rmsNorm(to+"ffn_norm", from+"post_attention_layernorm", s.width)
		switch {
		case e != nil:
			b.matrix(to+"ffn_gate_inp.weight", from+"block_sparse_moe.router.layer.weight", e.count, s.width)
			b.graniteFeedForward(s.width, e.width, e.count, to, "_exps", from+"block_sparse_moe.")
			if sharedWidth > 0 {
				b.graniteFeedForward(s.width, sharedWidth, 0, to, "_shexp", from+"shared_mlp.")
			}
		case c.has(shared):
			b.graniteFeedForward(s.width, s.feedForward, 0, to, "", from+"shared_mlp.")
		default:
			b.feedForward(b.biased, s, llamaParts, to, from+"mlp.")
		}
	})
}

// graniteFeedForward adds a feed-forward whose gate and up are one matrix, or those of all experts of a block. count is
// how many; 0: it is none of them.
func (b *builder) graniteFeedForward(width, inner, count int, to, kind, from string) {
	n := cmp.Or(count, 1)
	b.fits(n, 2*inner)
	b.fits(n, width)
	for i, part := range []string{"gate", "up"} {
		b.add(target{name: to + "ffn_" + part + kind + ".weight", from: from + "input_linear.weight", rows: n * inner,
			cols: width, stack: count, sourceRows: 2 * n * inner, order: partOfEach(2*inner, i*inner, inner)})
	}
	b.add(target{name: to + "ffn_down" + kind + ".weight", from: from + "output_linear.weight", rows: n * width,
		cols: inner, stack: count})
}
