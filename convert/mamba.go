package convert

import "fmt"

// mambaSizes are those of Mamba-2: numbers between the projections, heads of them, numbers of a state, groups of heads
// that share inputs of the states, and the taps of the convolution.
type mambaSizes struct{ inner, heads, state, groups, taps int }

// mambaKeys checks the sizes and writes their keys. heads and groups are the members for their numbers.
func (b *builder) mambaKeys(m mambaSizes, heads, groups string) {
	if m.inner%m.heads != 0 || m.inner > largest {
		b.config.fail(heads, "%d heads of %d numbers", m.heads, m.inner)
	}
	if m.heads%m.groups != 0 || int64(m.groups)*int64(m.state) > largest {
		b.config.fail(groups, "%d groups of %d heads, states of %d", m.groups, m.heads, m.state)
	}
	b.size("ssm.conv_kernel", m.taps)
	b.size("ssm.inner_size", m.inner)
	b.size("ssm.state_size", m.state)
	b.size("ssm.time_step_rank", m.heads)
	b.size("ssm.group_count", m.groups)
}

// timeSteps reads how steps of time were drawn in training, and checks that they have no bounds.
func (c *config) timeSteps() {
	for _, key := range []string{"time_step_floor", "time_step_max", "time_step_min", "time_step_rank", "chunk_size",
		"mamba_chunk_size", "use_mamba_kernels", "rescale_prenorm_residual", "residual_in_fp32", "num_logits_to_keep"} {
		c.has(key)
	}
	const key = "time_step_limit"
	if !c.has(key) {
		return
	}
	if list, ok := c.values[key].([]any); !ok || len(list) != 2 || fmt.Sprint(list[0]) != "0" &&
		fmt.Sprint(list[0]) != "0.0" || list[1] != infinity {
		c.fail(key, "%v: steps of time are not bounded here", c.values[key])
	}
}

// mamba2 adds the tensors of a Mamba-2 layer with the class's names (Dao and Gu 2024, arXiv:2405.21060).
func (b *builder) mamba2(m mambaSizes, width int, normed bool, to, from string) {
	conv := m.inner + 2*m.groups*m.state
	column := func(row, _ int) int { return row } // of a vector that GGUF has as a matrix of one column
	list := []target{
		{name: "ssm_in.weight", from: "in_proj.weight", rows: m.inner + conv + m.heads, cols: width},
		{name: "ssm_conv1d.weight", from: "conv1d.weight", rows: conv, cols: m.taps, float: true},
		{name: "ssm_conv1d.bias", from: "conv1d.bias", cols: conv, float: true},
		{name: "ssm_dt.bias", from: "dt_bias", cols: m.heads, float: true},
		{name: "ssm_a", from: "A_log", rows: m.heads, cols: 1, sourceRows: 1, sourceCols: m.heads, place: column, float: true,
			decay: true},
		{name: "ssm_d", from: "D", rows: m.heads, cols: 1, sourceRows: 1, sourceCols: m.heads, place: column, float: true},
		{name: "ssm_out.weight", from: "out_proj.weight", rows: width, cols: m.inner},
	}
	if group := m.inner / m.groups; normed {
		list = append(list, target{name: "ssm_norm.weight", from: "norm.weight", rows: m.groups, cols: group, sourceRows: 1,
			sourceCols: m.inner, place: func(row, col int) int { return row*group + col }, float: true})
	}
	b.under(to, from, list...)
}

// manyPositions is the context of models without positions.
const manyPositions = 1 << 20

// mambaAlone is what Mamba and Mamba-2 have in common: the keys, and what is no layer.
func (b *builder) mambaAlone(layer func(width int, to, from string)) {
	c := b.config
	width, layers := c.integer("hidden_size"), c.layers("num_hidden_layers")
	c.timeSteps()
	for _, key := range []string{"fused_add_norm", "pad_vocab_size_multiple", "ssm_cfg", "time_step_init_scheme",
		"time_step_scale", "use_mambapy", "use_associative_scan", "norm_before_gate"} {
		c.has(key) // how it was trained or is computed; gates come before norms in the class
	}
	c.must("hidden_act", "this architecture has SiLU", "silu")
	c.must("rms_norm", "this architecture has such norms", true)
	c.must("use_bias", "this architecture has no biases in projections", false)
	c.must("use_conv_bias", "this architecture has a bias in the convolution", true)
	for key, same := range map[string]int{"d_model": width, "n_layer": layers} {
		c.must(key, "hidden_size or num_hidden_layers says something else", float64(same))
	}
	if *c.err != nil {
		return
	}
	b.blockSizes(manyPositions, width, layers, 0, 0)
	b.real("attention.layer_norm_rms_epsilon", c.numberOr("layer_norm_epsilon", 1e-5))
	names := modelNames{"backbone.embeddings.weight", "backbone.layers.%d.", "backbone.norm_f", "lm_head.weight"}
	if old := "backbone.embedding.weight"; b.holds(old) {
		names.embedding = old
	}
	b.model(names, width, layers, b.rmsNorm, func(_ int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"norm", width)
		layer(width, to, from+"mixer.")
	})
}

// mamba converts Mamba (Gu and Dao 2023, arXiv:2312.00752).
func mamba(b *builder) {
	c := b.config
	width, state, taps := c.integer("hidden_size"), c.integer("state_size"), c.integer("conv_kernel")
	inner := c.integerOr("intermediate_size", c.integerOr("expand", 2)*width)
	rank := (width + 15) / 16
	if c.values["time_step_rank"] != "auto" {
		rank = c.integerOr("time_step_rank", rank)
	}
	c.must("d_inner", "intermediate_size says something else", float64(inner))
	c.must("expand", "GGUF's mamba has 2", 2.0)
	if inner != 2*width {
		c.fail("intermediate_size", "%d, in GGUF's mamba it is twice the hidden size of %d", inner, width)
	}
	if c.values["tie_word_embeddings"] == nil {
		c.values["tie_word_embeddings"] = true
	}
	b.size("ssm.conv_kernel", taps)
	b.size("ssm.inner_size", inner)
	b.size("ssm.state_size", state)
	b.size("ssm.time_step_rank", rank)
	b.mambaAlone(func(width int, to, from string) {
		b.under(to, from, []target{
			{name: "ssm_in.weight", from: "in_proj.weight", rows: 2 * inner, cols: width},
			{name: "ssm_conv1d.weight", from: "conv1d.weight", rows: inner, cols: taps, float: true},
			{name: "ssm_conv1d.bias", from: "conv1d.bias", cols: inner, float: true},
			{name: "ssm_x.weight", from: "x_proj.weight", rows: rank + 2*state, cols: inner},
			{name: "ssm_dt.weight", from: "dt_proj.weight", rows: inner, cols: rank},
			{name: "ssm_dt.bias", from: "dt_proj.bias", cols: inner, float: true},
			{name: "ssm_a", from: "A_log", rows: inner, cols: state, float: true, decay: true},
			{name: "ssm_d", from: "D", cols: inner, float: true},
			{name: "ssm_out.weight", from: "out_proj.weight", rows: width, cols: inner},
		}...)
	})
}

// mamba2Only converts Mamba-2.
func mamba2Only(b *builder) {
	c := b.config
	m := mambaSizes{heads: c.integer("num_heads"), state: c.integer("state_size"), groups: c.integerOr("n_groups", 1),
		taps: c.integer("conv_kernel")}
	m.inner = c.product("head_dim", c.integer("head_dim"), m.heads)
	c.must("expand", "num_heads and head_dim say something else", float64(m.inner)/float64(c.integer("hidden_size")))
	c.must("intermediate_size", "num_heads and head_dim say something else", float64(m.inner))
	b.mambaKeys(m, "num_heads", "n_groups")
	b.mambaAlone(func(width int, to, from string) { b.mamba2(m, width, true, to, from) })
}
