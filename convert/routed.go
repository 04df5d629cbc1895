package convert

import (
	"fmt"
	"math"
)

// whole is a whole number from 0 to most; absent where there is none.
func (c *config) whole(key string, absent, most int) int {
	x := c.numberOr(key, float64(absent))
	if x != math.Trunc(x) || x < 0 || x > float64(most) {
		c.fail(key, "a whole number from 0 to %d expected, not %v", most, x)
		return 0
	}
	return int(x)
}

// Numbers of the key expert_gating_func: how a router's outputs become weights.
const gatingSoftmax, gatingSigmoid = 1, 2

// routedExperts reads experts as DeepSeek's classes describe them (arXiv:2412.19437): behind some dense blocks, with
// weights of a softmax or sigmoids, which may be normalized and are scaled, in groups. Those that all tokens go through
// are one of several times the width.
func (b *builder) routedExperts(gating int) (e *experts, dense int) {
	c := b.config
	e = b.expertsOf(c.first("n_routed_experts", "num_experts", "moe_num_experts"))
	e.width = c.integer("moe_intermediate_size")
	b.size("expert_feed_forward_length", e.width)
	e.sharedOf, e.choice = "mlp.shared_experts", "mlp.gate.e_score_correction_bias"
	if gating == gatingSoftmax {
		e.choice = ""
	}
	of := c.first("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
	shared := c.whole(of, 0, e.count)
	e.shared = c.product(of, shared, e.width)
	b.size("expert_shared_count", shared)
	dense = c.whole(c.first("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"), 0, mostLayers)
	b.size("leading_dense_block_count", dense)
	b.size("expert_gating_func", gating)
	return e, dense
}

// routing reads what is done with the weights of routedExperts, and their groups. normalized is what holds where
// config.json does not say.
func (b *builder) routing(e *experts, normalized bool) {
	c := b.config
	b.set("expert_weights_norm", c.boolOr("norm_topk_prob", normalized))
	b.real("expert_weights_scale", c.numberOr("routed_scaling_factor", 1))
	groups := c.whole("n_group", 1, e.count)
	used := c.whole("topk_group", 1, max(groups, 1))
	if *c.err != nil || !c.has("n_group") {
		return
	}
	if groups < 1 || e.count%groups != 0 || used < 1 {
		c.fail("n_group", "%d groups of %d experts, of which a token uses %d", groups, e.count, used)
	}
	b.size("expert_group_count", groups)
	b.size("expert_group_used_count", used)
}

// denseOr adds the feed-forward of block i, or its experts behind the dense blocks.
func (b *builder) denseOr(s sizes, e *experts, dense, i int, to, from string) {
	if e != nil && i >= dense {
		b.experts(s, e, to, from)
		return
	}
	b.feedForward(b.biased, s, llamaParts, to, from+"mlp.")
}

// projections adds attention's matrices with Llama's names behind from; rows of q and k are in an order.
func (b *builder) projections(s sizes, to, from string, order rowOrder) {
	b.queriesKeysValues(s, s.width, to, from, order)
	b.linear(to+"attn_output", from+"o_proj", s.width, s.heads*s.head, nil)
}

// queriesKeysValues adds the matrices that make these of so many inputs.
func (b *builder) queriesKeysValues(s sizes, inputs int, to, from string, order rowOrder) {
	b.linear(to+"attn_q", from+"q_proj", s.heads*s.head, inputs, order)
	b.linear(to+"attn_k", from+"k_proj", s.kvHeads*s.head, inputs, order)
	b.linear(to+"attn_v", from+"v_proj", s.kvHeads*s.head, inputs, nil)
}

// norms of queries and keys, of each head.
func (b *builder) headNorms(s sizes, to, from, q, k string) {
	b.rmsNorm(to+"attn_q_norm", from+q, s.head)
	b.rmsNorm(to+"attn_k_norm", from+k, s.head)
}

// furtherBlocks is how many blocks for multi-token prediction stand behind the model's own layers in the weights:
// models that others trained are saved without it. Each has the parts that nextn adds.
func (b *builder) furtherBlocks(layers int) int {
	const key = "num_nextn_predict_layers"
	n := b.config.whole(key, 0, mostLayers)
	if n == 0 || !b.holds(fmt.Sprintf("model.layers.%d.eh_proj.weight", layers)) {
		return 0
	}
	if n != 1 {
		b.config.fail(key, "%d, one is known here", n)
		return 0
	}
	b.size("block_count", layers+1)
	b.size("nextn_predict_layers", 1)
	return 1
}

// nextn adds what such a block has beside those of the others.
func (b *builder) nextn(s sizes, to, from string) {
	to += "nextn."
	b.matrix(to+"eh_proj.weight", from+"eh_proj.weight", s.width, 2*s.width)
	b.rmsNorm(to+"enorm", from+"enorm", s.width)
	b.rmsNorm(to+"hnorm", from+"hnorm", s.width)
	if norm := from + "shared_head.norm"; b.holds(norm + ".weight") {
		b.rmsNorm(to+"shared_head_norm", norm, s.width)
	}
	for _, own := range [][2]string{{"embed_tokens", "embed_tokens"}, {"shared_head_head", "shared_head.head"}} {
		if b.holds(from + own[1] + ".weight") {
			b.matrix(to+own[0]+".weight", from+own[1]+".weight", b.vocab, s.width)
		}
	}
}
