package convert

// falconH1 converts Falcon-H1: attention and Mamba-2 side by side in every block. The class multiplies what its
// matrices give by numbers of config.json; GGUF's falcon-h1 has them in the matrices.
func falconH1(b *builder) {
	c := b.config
	c.saysTheta()
	c.timeSteps()
	for _, key := range []string{"mamba_expand", "mlp_expansion_factor"} {
		c.has(key) // other members say what the sizes are
	}
	c.must("attn_layer_indices", "every block attends in GGUF's falcon-h1") // whatever it says
	c.must("mamba_conv_bias", "GGUF's falcon-h1 has a bias in the convolution", true)
	for _, key := range []string{"mamba_proj_bias", "projectors_bias", "mlp_bias", "attention_bias"} {
		c.must(key, "GGUF's falcon-h1 has no biases there", false)
	}
	c.must("mamba_use_mlp", "GGUF's falcon-h1 has a feed-forward", true)
	normed := c.boolOr("mamba_rms_norm", false)
	if before := c.boolOr("mamba_norm_before_gate", true); normed && before {
		c.fail("mamba_norm_before_gate", "GGUF's falcon-h1 has gates before norms")
	}
	m := mambaSizes{inner: c.integer("mamba_d_ssm"), heads: c.integer("mamba_n_heads"), state: c.integer("mamba_d_state"),
		groups: c.integerOr("mamba_n_groups", 1), taps: c.integer("mamba_d_conv")}
	c.must("mamba_d_head", "mamba_d_ssm and mamba_n_heads say something else", float64(m.inner)/float64(m.heads), "auto")
	b.mambaKeys(m, "mamba_n_heads", "mamba_n_groups")
	in, out, key := c.numberOr("attention_in_multiplier", 1), c.numberOr("attention_out_multiplier", 1),
		c.numberOr("key_multiplier", 1)
	mambaIn, mambaOut := c.numberOr("ssm_in_multiplier", 1), c.numberOr("ssm_out_multiplier", 1)
	zones, feed := c.multipliers("ssm_multipliers", 5), c.multipliers("mlp_multipliers", 2)
	embedding, last := c.numberOr("embedding_multiplier", 1), c.numberOr("lm_head_multiplier", 1)
	s, ok := b.llamaKeys(options{}, 0)
	if !ok {
		return
	}

	b.matrix("token_embd.weight", "model.embed_tokens.weight", b.vocab, s.width)
	b.times(embedding)
	b.blocks(llamaModel.block, s.layers, func(_ int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"input_layernorm", s.width)
		for _, p := range []struct {
			to, from   string
			rows, cols int
			by         float64
		}{
			{"attn_q", "self_attn.q_proj", s.heads * s.head, s.width, in},
			{"attn_k", "self_attn.k_proj", s.kvHeads * s.head, s.width, in * key},
			{"attn_v", "self_attn.v_proj", s.kvHeads * s.head, s.width, in},
			{"attn_output", "self_attn.o_proj", s.width, s.heads * s.head, out},
			{"ffn_gate", "feed_forward.gate_proj", s.feedForward, s.width, feed[0]},
			{"ffn_up", "feed_forward.up_proj", s.feedForward, s.width, 1},
			{"ffn_down", "feed_forward.down_proj", s.width, s.feedForward, feed[1]},
		} {
			b.matrix(to+p.to+".weight", from+p.from+".weight", p.rows, p.cols)
			b.times(p.by)
		}
		at := len(b.targets)
		b.mamba2(m, s.width, normed, to, from+"mamba.")
		for j := range b.targets[at:] {
			switch t := &b.targets[at+j]; t.name {
			case to + "ssm_in.weight":
				t.factor = func(row int) float32 { return float32(mambaIn * zones[m.zone(row)]) }
			case to + "ssm_out.weight":
				t.factor = func(int) float32 { return float32(mambaOut) }
			}
		}
		b.vector(to+"ffn_norm", from+"pre_ff_layernorm.weight", s.width, 0) // without .weight in GGUF
	})
	b.rmsNorm("output_norm", "model.final_layernorm", s.width)
	if tied := c.boolOr("tie_word_embeddings", false); !tied || last != embedding {
		from := map[bool]string{true: "model.embed_tokens.weight", false: "lm_head.weight"}[tied]
		b.matrix("output.weight", from, b.vocab, s.width)
		b.times(last)
	}
	b.skip("lm_head.weight")
}

// times multiplies the tensor that was added last.
func (b *builder) times(by float64) {
	if by != 1 {
		b.targets[len(b.targets)-1].factor = func(int) float32 { return float32(by) }
	}
}

// zone is the part of ssm_in that a row is of: z, x, b, c or dt.
func (m mambaSizes) zone(row int) int {
	for i, rows := range []int{m.inner, m.inner, m.groups * m.state, m.groups * m.state} {
		if row < rows {
			return i
		}
		row -= rows
	}
	return 4
}

// multipliers are n numbers; ones where they are not there.
func (c *config) multipliers(key string, n int) []float64 {
	list := make([]float64, n)
	given := c.numbers(key)
	if given != nil && len(given) != n {
		c.fail(key, "%d numbers, %d expected", len(given), n)
	}
	for i := range list {
		if list[i] = 1; i < len(given) {
			list[i] = float64(given[i])
		}
	}
	return list
}
