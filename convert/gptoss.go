package convert

// gptOSS converts gpt-oss. Its experts are published as MXFP4, and saved after training as matrices [inputs][outputs];
// in both gates and what they multiply are every second row.
func gptOSS(b *builder) {
	c := b.config
	c.must("swiglu_limit", "GGUF's gpt-oss limits what goes into the gate to 7", 7.0)
	c.must("experts_per_token", "num_experts_per_tok says something else", c.number("num_experts_per_tok"))
	c.has("initial_context_length") // that of before the positions were scaled, which rope_scaling says
	if scaling := c.rotary(); scaling != nil {
		if !scaling.boolOr("truncate", true) {
			b.note("rope_scaling.truncate false: GGUF's gpt-oss has the ends of YaRN's ramp at whole pairs")
		}
		delete(scaling.values, "truncate")
	} else {
		c.fail("rope_scaling", "missing: positions of gpt-oss are scaled")
	}
	b.layerKinds(wholeEvery[b.arch])
	b.size("attention.sliding_window", c.integer("sliding_window"))
	e := b.expertsOf("num_local_experts")
	e.width = c.integer("intermediate_size")
	b.size("expert_feed_forward_length", e.width)
	b.llamaLike(options{ffnPost: true, feed: func(s sizes, to, from string) {
		b.vector(to+"attn_sinks.weight", from+"self_attn.sinks", s.heads, 0)
		b.linear(to+"ffn_gate_inp", from+"mlp.router", e.count, s.width, nil)
		b.fits(e.count, 2*e.width)
		b.fits(e.count, s.width)
		from += "mlp.experts."
		for i, part := range []string{"gate", "up"} {
			b.everySecond(2, i, target{name: to + "ffn_" + part + "_exps", from: from + "gate_up_proj", rows: e.width,
				cols: s.width, stack: e.count})
		}
		b.everySecond(1, 0, target{name: to + "ffn_down_exps", from: from + "down_proj", rows: s.width, cols: e.width,
			stack: e.count})
	}})
}

// everySecond adds the matrices of experts, MXFP4 or numbers, and their biases: of n rows that follow one another, 1 or
// 2, that with the number first. t has the rows of one expert, and names without endings.
func (b *builder) everySecond(n, first int, t target) {
	rows, cols := t.rows, t.cols
	bias := target{name: t.name + ".bias", from: t.from + "_bias", rows: t.stack, cols: rows, float: true,
		sourceRows: t.stack, sourceCols: n * rows,
		place: func(row, col int) int { return (row*rows+col)*n + first }}
	t.name, t.rows = t.name+".weight", t.stack*rows
	if blocks := t.from + "_blocks"; b.holds(blocks) {
		t.from, t.codeScales, t.sourceRows = blocks, t.from+"_scales", n*t.rows
		t.order = func(i int) int { return i*n + first }
	} else {
		t.sourceRows, t.sourceCols = t.stack*cols, n*rows
		t.place = func(row, col int) int { return ((row/rows*cols+col)*rows+row%rows)*n + first }
	}
	b.add(t)
	b.add(bias)
}
