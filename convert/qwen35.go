package convert

import (
	"fmt"

	"github.com/specgo/spec/gguf"
)

// qwen35 converts Qwen 3.5 without experts.
func qwen35(b *builder) {
	b.config.has("mlp_only_layers") // of models with experts
	sections := b.ropeSections()
	b.deltaHybrid(nil, b.config.numberOr("mtp_num_hidden_layers", 0), (*builder).deltaNet)
	b.set("rope.dimension_sections", sections)
}

// qwen35MoE converts Qwen 3.5 with experts.
func qwen35MoE(b *builder) {
	sections := b.ropeSections()
	b.deltaHybrid(b.qwenExperts(true, true), b.config.numberOr("mtp_num_hidden_layers", 0), (*builder).deltaNet)
	b.set("rope.dimension_sections", sections)
}

// deltaHybrid converts models with gated delta nets, gated attention in every n-th block, and a block for multi-token
// prediction where the weights have one: further says how many the model has. e is nil without experts.
func (b *builder) deltaHybrid(e *experts, further float64,
	delta func(b *builder, s sizes, d deltaSizes, to, from string)) {
	c := b.config
	c.must("use_sliding_window", "attention is to all positions here", false)
	c.must("attn_output_gate", fmt.Sprintf("GGUF's %s has gates", b.arch), true)
	c.must("output_gate_type", fmt.Sprintf("GGUF's %s has this gate", b.arch), "swish")
	c.must("mtp_use_dedicated_embeddings", "the block for multi-token prediction has the model's own", false)
	c.has("mamba_ssm_dtype") // states are float32 here
	share := c.partialRotary(0.25)
	s, ok := b.llamaSizes(options{experts: e})
	if !ok {
		return
	}
	interval := c.integerOr("full_attention_interval", 4)
	for i, t := range c.texts("layer_types") {
		if want := map[bool]string{true: "full_attention", false: "linear_attention"}[(i+1)%interval == 0]; t != want {
			c.fail("layer_types", "layer %d is %q, by full_attention_interval %q", i, gguf.Printable(t, 40), want)
		}
	}
	d := b.deltaSizes()
	if *c.err != nil {
		return
	}
	b.rotation(s.head)
	b.size("rope.dimension_count", int(float64(s.head)*share))
	b.size("full_attention_interval", interval)

	prefix := b.prefix("embed_tokens.weight", "model.", "model.language_model.")
	names := modelNames{prefix + "embed_tokens.weight", prefix + "layers.%d.", prefix + "norm", "lm_head.weight"}
	b.model(names, s.width, s.layers, b.rmsNormLessOne, func(i int, to, from string) {
		if (i+1)%interval == 0 {
			b.gatedAttention(s, to, from)
		} else {
			delta(b, s, d, to, from)
		}
		b.postNormed(s, e, to, from)
	})
	b.pictures()
	if further == 0 || !b.holds("mtp.fc.weight") {
		return // models that others trained are saved without it
	} else if further != 1 {
		c.fail("mtp_num_hidden_layers", "%v, there is one in GGUF's %s", further, b.arch)
	}
	b.size("block_count", s.layers+1)
	b.size("nextn_predict_layers", 1)
	to := fmt.Sprintf("blk.%d.", s.layers)
	b.gatedAttention(s, to, "mtp.layers.0.")
	b.postNormed(s, e, to, "mtp.layers.0.")
	to += "nextn."
	b.matrix(to+"eh_proj.weight", "mtp.fc.weight", s.width, 2*s.width)
	b.rmsNormLessOne(to+"enorm", "mtp.pre_fc_norm_embedding", s.width)
	b.rmsNormLessOne(to+"hnorm", "mtp.pre_fc_norm_hidden", s.width)
	b.rmsNormLessOne(to+"shared_head_norm", "mtp.norm", s.width)
}

// postNormed adds what every block of Qwen 3.5 has: norms, which the source stores less 1, and the feed-forward or
// experts.
func (b *builder) postNormed(s sizes, e *experts, to, from string) {
	b.rmsNormLessOne(to+"attn_norm", from+"input_layernorm", s.width)
	b.rmsNormLessOne(to+"post_attention_norm", from+"post_attention_layernorm", s.width)
	if e != nil {
		b.experts(s, e, to, from)
		return
	}
	b.feedForward(b.unbiased, s, llamaParts, to, from+"mlp.")
}

// gatedAttention adds attention whose q has a head's queries and then its gates.
func (b *builder) gatedAttention(s sizes, to, from string) {
	to += "attn_"
	from += "self_attn."
	b.matrix(to+"q.weight", from+"q_proj.weight", 2*s.heads*s.head, s.width)
	b.matrix(to+"k.weight", from+"k_proj.weight", s.kvHeads*s.head, s.width)
	b.matrix(to+"v.weight", from+"v_proj.weight", s.kvHeads*s.head, s.width)
	b.matrix(to+"output.weight", from+"o_proj.weight", s.width, s.heads*s.head)
	b.rmsNormLessOne(to+"q_norm", from+"q_norm", s.head)
	b.rmsNormLessOne(to+"k_norm", from+"k_norm", s.head)
}

// deltaSizes are those of a gated delta net: groups of queries and keys, heads of values in all, numbers of each, and
// the taps of the convolution.
type deltaSizes struct{ groups, heads, state, taps int }

// deltaSizes reads them and writes their keys.
func (b *builder) deltaSizes() (d deltaSizes) {
	c := b.config
	d.groups, d.heads = c.integer("linear_num_key_heads"), c.integer("linear_num_value_heads")
	d.state, d.taps = c.integer("linear_key_head_dim"), c.integer("linear_conv_kernel_dim")
	c.required("linear_value_head_dim", fmt.Sprintf("GGUF's %s has values as long as keys", b.arch), float64(d.state))
	if d.heads%d.groups != 0 || int64(d.heads)*int64(d.state) > largest {
		c.fail("linear_num_value_heads", "%d heads of %d numbers for %d of keys", d.heads, d.state, d.groups)
	}
	b.size("ssm.conv_kernel", d.taps)
	b.size("ssm.state_size", d.state)
	b.size("ssm.group_count", d.groups)
	b.size("ssm.time_step_rank", d.heads)
	b.size("ssm.inner_size", d.heads*d.state)
	return d
}

// tiled is where rows of n numbers for each head of values, behind first others, stand in the source: there the heads
// of a group are neighbors, in GGUF's qwen35 the heads of all groups that have the same place in theirs.
func (d deltaSizes) tiled(n, first int) rowOrder {
	return func(i int) int {
		if i < first {
			return i
		}
		head, at := (i-first)/n, (i-first)%n
		return first + (head%d.groups*(d.heads/d.groups)+head/d.groups)*n + at
	}
}

// deltaNet adds a gated delta net.
func (b *builder) deltaNet(s sizes, d deltaSizes, to, from string) {
	inner, keys := d.heads*d.state, 2*d.groups*d.state
	qkv, values, each := d.tiled(d.state, keys), d.tiled(d.state, 0), d.tiled(1, 0)
	b.under(to, from+"linear_attn.", []target{
		{name: "attn_qkv.weight", from: "in_proj_qkv.weight", rows: keys + inner, cols: s.width, order: qkv},
		{name: "attn_gate.weight", from: "in_proj_z.weight", rows: inner, cols: s.width, order: values},
		{name: "ssm_alpha.weight", from: "in_proj_a.weight", rows: d.heads, cols: s.width, order: each},
		{name: "ssm_beta.weight", from: "in_proj_b.weight", rows: d.heads, cols: s.width, order: each},
		{name: "ssm_conv1d.weight", from: "conv1d.weight", rows: keys + inner, cols: d.taps, order: qkv, float: true},
		{name: "ssm_dt.bias", from: "dt_bias", cols: d.heads, order: each, float: true},
		{name: "ssm_a", from: "A_log", cols: d.heads, order: each, float: true, decay: true},
		{name: "ssm_norm.weight", from: "norm.weight", cols: d.state, float: true},
		{name: "ssm_out.weight", from: "out_proj.weight", rows: s.width, cols: inner, columns: values},
	}...)
}

// ropeSections are the shares of a head that positions of text, height, width and others turn.
func (b *builder) ropeSections() []int32 { return b.takeSections([]float32{11, 11, 10}) }

// takeSections takes them out of config.json; list is that of files without them.
func (b *builder) takeSections(list []float32) []int32 {
	if in := b.config.rotary(); in != nil {
		if own := in.numbers("mrope_section"); own != nil {
			list = own
		}
		in.must("mrope_interleaved", fmt.Sprintf("GGUF's %s interleaves them", b.arch), true)
		delete(in.values, "mrope_section")
		delete(in.values, "mrope_interleaved")
		if len(list) != 3 {
			in.fail("mrope_section", "%v, three numbers expected", list)
		}
	}
	sections := make([]int32, 4)
	for i, x := range list[:min(len(list), 3)] {
		sections[i] = int32(x)
	}
	return sections
}

// partialRotary takes the share of a head that is rotated out of config.json; usual is that of files without it.
func (c *config) partialRotary(usual float64) float64 {
	const key = "partial_rotary_factor"
	share := c.numberOr(key, usual)
	delete(c.values, key)
	if in := c.object("rope_parameters"); in != nil {
		share = in.numberOr(key, share)
		delete(in.values, key)
	}
	if !(share > 0 && share <= 1) {
		c.fail(key, "%v, a part of 1 expected", share)
	}
	return share
}
