package convert

// qwen3Next converts Qwen3-Next: as Qwen 3.5 with experts, but that the matrices of a delta net's inputs are two, and
// that heads of values which share keys are neighbors. config.json does not say that the weights have a block for
// multi-token prediction.
func qwen3Next(b *builder) {
	b.deltaHybrid(b.qwenExperts(true, true), b.config.numberOr("mtp_num_hidden_layers", 1), (*builder).nextDeltaNet)
}

// nextDeltaNet adds such a delta net. The source has for each head of keys its q [S] and k [S], and of the r heads of
// values that share them v [r][S] and z [r][S]; GGUF's qwen3next has q, k and v of all heads, and z of all heads.
func (b *builder) nextDeltaNet(s sizes, d deltaSizes, to, from string) {
	inner, keys, values := d.heads*d.state, d.groups*d.state, d.heads/d.groups*d.state // of all heads, and of one of keys
	each, all := 2*d.state+2*values, 2*keys+2*inner
	q, k := partOfEach(each, 0, d.state), partOfEach(each, d.state, d.state)
	v, z := partOfEach(each, 2*d.state, values), partOfEach(each, 2*d.state+values, values)
	qkv := func(i int) int {
		switch {
		case i < keys:
			return q(i)
		case i < 2*keys:
			return k(i - keys)
		}
		return v(i - 2*keys)
	}
	const in = "in_proj_qkvz.weight"
	b.under(to, from+"linear_attn.", []target{
		{name: "attn_qkv.weight", from: in, rows: 2*keys + inner, sourceRows: all, cols: s.width, order: qkv},
		{name: "attn_gate.weight", from: in, rows: inner, sourceRows: all, cols: s.width, order: z},
		{name: "ssm_ba.weight", from: "in_proj_ba.weight", rows: 2 * d.heads, cols: s.width},
		{name: "ssm_conv1d.weight", from: "conv1d.weight", rows: 2*keys + inner, cols: d.taps, float: true},
		{name: "ssm_dt.bias", from: "dt_bias", cols: d.heads, float: true},
		{name: "ssm_a", from: "A_log", cols: d.heads, float: true, decay: true},
		{name: "ssm_norm.weight", from: "norm.weight", cols: d.state, float: true},
		{name: "ssm_out.weight", from: "out_proj.weight", rows: s.width, cols: inner},
	}...)
}
