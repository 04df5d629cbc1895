package convert

import "fmt"

// Families of the papers on speculative decoding: OPT, GPT-J, CodeGen and T5.

// blockSizes writes the keys of a model's shape that all architectures have.
func (b *builder) blockSizes(context, width, layers, feedForward, heads int) {
	b.size("context_length", context)
	b.size("embedding_length", width)
	b.size("block_count", layers)
	b.size("feed_forward_length", feedForward)
	b.size("attention.head_count", heads)
}

// gptSizes reads the sizes of classes whose config.json has GPT-2's members, and writes their keys.
func (b *builder) gptSizes() (context, width, layers, feedForward, heads int) {
	c := b.config
	b.plainWords = true
	context, width = c.integer(c.first("n_positions", "n_ctx")), c.integer("n_embd")
	layers, heads = c.layers("n_layer"), c.integer("n_head")
	feedForward = c.integerOr("n_inner", 4*width)
	c.headsDivide("n_head", heads, width)
	b.blockSizes(context, width, layers, feedForward, heads)
	b.real("attention.layer_norm_epsilon", c.number("layer_norm_epsilon"))
	return context, width, layers, feedForward, heads
}

// layerNorm adds a norm's weights and biases.
func (b *builder) layerNorm(to, from string, width int) {
	b.vector(to+".weight", from+".weight", width, 0)
	b.vector(to+".bias", from+".bias", width, 0)
}

// full adds a matrix and its bias, which must be there.
func (b *builder) full(to, from string, rows, cols int) {
	b.matrix(to+".weight", from+".weight", rows, cols)
	b.vector(to+".bias", from+".bias", rows, 0)
}

// required fails unless a member of config.json is there and one of the given values.
func (c *config) required(key, reason string, allowed ...any) {
	if !c.has(key) {
		c.fail(key, "missing")
	}
	c.must(key, reason, allowed...)
}

// headsDivide checks that heads share a width.
func (c *config) headsDivide(key string, heads, width int) {
	if width%heads != 0 {
		c.fail(key, "%d heads cannot share a hidden size of %d", heads, width)
	}
}

func (b *builder) holds(name string) bool {
	_, ok := b.weights.tensors[name]
	return ok
}

// positionsOffset is how many rows of OPT's position embeddings come before that of position 0.
const positionsOffset = 2

func opt(b *builder) {
	c := b.config
	b.plainWords = true
	context, width := c.integer("max_position_embeddings"), c.integer("hidden_size")
	layers, feedForward, heads := c.layers("num_hidden_layers"), c.integer("ffn_dim"), c.integer("num_attention_heads")
	c.headsDivide("num_attention_heads", heads, width)
	b.blockSizes(context, width, layers, feedForward, heads)
	b.real("attention.layer_norm_epsilon", 1e-5) // the published code's; config.json does not say
	c.required("activation_function", "GGUF's opt has ReLU (Galactica has GELU)", "relu")
	c.must("enable_bias", "GGUF's opt has biases", true)
	c.must("layer_norm_elementwise_affine", "the norms of GGUF's opt have weights", true)
	c.must("tie_word_embeddings", "the embedding of GGUF's opt is its output matrix", true)
	embedding := c.integerOr("word_embed_proj_dim", width)
	if embedding != width {
		b.size("word_embedding_length", embedding)
	}
	before := c.boolOr("do_layer_norm_before", true)
	if !before {
		b.set("norm_before", false)
	}
	removed := c.boolOr("_remove_final_layer_norm", false)
	finalNorm := before && !removed
	for _, key := range []string{"activation_dropout", "layerdrop", "init_std", "prefix"} {
		c.has(key)
	}
	b.addBOS = true

	prefix := b.prefix("embed_tokens.weight", "model.decoder.", "decoder.") // or saved without the head
	b.matrix("token_embd.weight", prefix+"embed_tokens.weight", b.vocab, embedding)
	b.add(target{name: "position_embd.weight", from: prefix + "embed_positions.weight", rows: context, cols: width,
		order: behind(positionsOffset), sourceRows: context + positionsOffset, float: true})
	if embedding != width {
		b.matrix("project_in.weight", prefix+"project_in.weight", width, embedding)
		b.matrix("project_out.weight", prefix+"project_out.weight", embedding, width)
	}
	b.blocks(prefix+"layers.%d.", layers, func(_ int, to, from string) {
		b.layerNorm(to+"attn_norm", from+"self_attn_layer_norm", width)
		for _, p := range [][2]string{{"attn_q", "q_proj"}, {"attn_k", "k_proj"}, {"attn_v", "v_proj"},
			{"attn_output", "out_proj"}} {
			b.full(to+p[0], from+"self_attn."+p[1], width, width)
		}
		b.layerNorm(to+"ffn_norm", from+"final_layer_norm", width)
		b.full(to+"ffn_up", from+"fc1", feedForward, width)
		b.full(to+"ffn_down", from+"fc2", width, feedForward)
	})
	if finalNorm {
		b.layerNorm("output_norm", prefix+"final_layer_norm", width)
	}
	b.skip("lm_head.weight") // the embedding once more
}

func gptj(b *builder) { b.gptj(false) }

func codegen(b *builder) { b.gptj(true) }

// codegenGroups is how many groups CodeGen's fused queries, values and keys are in, whatever the size of the model.
const codegenGroups = 4

// gptj converts GPT-J and CodeGen. CodeGen has one matrix of queries, values and keys, in groups.
func (b *builder) gptj(fused bool) {
	c := b.config
	_, width, layers, feedForward, heads := b.gptSizes()
	rotary := c.integerOr("rotary_dim", width/heads)
	if rotary%2 != 0 || rotary > width/heads {
		c.fail("rotary_dim", "%d of a head's %d numbers cannot be rotated in pairs", rotary, width/heads)
	}
	b.size("rope.dimension_count", rotary)
	if fused && heads%codegenGroups != 0 {
		c.fail("n_head", "%d heads do not divide into the %d groups of CodeGen's qkv_proj", heads, codegenGroups)
	}
	c.required("activation_function", fmt.Sprintf("GGUF's %s has the tanh form of GELU", b.arch), "gelu_new",
		"gelu_pytorch_tanh")
	c.must("scale_attn_weights", fmt.Sprintf("GGUF's %s scales", b.arch), true)
	c.must("rotary", fmt.Sprintf("GGUF's %s rotates", b.arch), true)
	c.must("tie_word_embeddings", fmt.Sprintf("GGUF's %s has an output matrix", b.arch), false)

	b.matrix("token_embd.weight", "transformer.wte.weight", b.vocab, width)
	b.blocks("transformer.h.%d.", layers, func(_ int, to, from string) {
		b.skip(from+"attn.bias", from+"attn.masked_bias", from+"attn.causal_mask")
		b.layerNorm(to+"attn_norm", from+"ln_1", width)
		for part, name := range []string{"q", "v", "k"} {
			t := target{name: to + "attn_" + name + ".weight", from: from + "attn." + name + "_proj.weight", rows: width,
				cols: width}
			if fused {
				t.from, t.sourceRows, t.order = from+"attn.qkv_proj.weight", 3*width, groupRows(width, part)
			}
			b.add(t)
		}
		b.matrix(to+"attn_output.weight", from+"attn.out_proj.weight", width, width)
		b.full(to+"ffn_up", from+"mlp.fc_in", feedForward, width)
		b.full(to+"ffn_down", from+"mlp.fc_out", width, feedForward)
	})
	b.layerNorm("output_norm", "transformer.ln_f", width)
	b.full("output", "lm_head", b.vocab, width)
}

// groupRows is which rows of CodeGen's fused matrix are the queries (part 0), values (1) or keys (2): each group has
// a quarter of them, in this order.
func groupRows(width, part int) rowOrder {
	n := width / codegenGroups
	return func(i int) int { return (3*(i/n)+part)*n + i%n }
}

// farthestDistance is the distance from which on all positions share the last bucket of T5's position bias. GGUF has
// no key for it.
const farthestDistance = 128.0

func t5(b *builder) {
	c := b.config
	width, head, heads := c.integer("d_model"), c.integer("d_kv"), c.integer("num_heads")
	feedForward, encoders := c.integer("d_ff"), c.layers("num_layers")
	decoders := encoders
	if c.has("num_decoder_layers") {
		decoders = c.layers("num_decoder_layers")
	}
	b.blockSizes(c.integerOr("n_positions", 512), width, encoders, feedForward, heads)
	b.size("decoder_block_count", decoders)
	b.size("attention.key_length", head)
	b.size("attention.value_length", head)
	epsilon := c.number("layer_norm_epsilon")
	b.real("attention.layer_norm_epsilon", epsilon)
	b.real("attention.layer_norm_rms_epsilon", epsilon)
	buckets := c.integer("relative_attention_num_buckets")
	b.size("attention.relative_buckets_count", buckets)
	c.must("relative_attention_max_distance", "GGUF's t5 has 128", farthestDistance)
	c.must("is_encoder_decoder", "an encoder and a decoder are needed", true)
	if start := c.number("decoder_start_token_id"); start < 0 || start >= float64(b.vocab) ||
		start != float64(int(start)) {
		c.fail("decoder_start_token_id", "%v, the vocabulary has %d tokens", start, b.vocab)
	} else {
		b.size("decoder_start_token_id", int(start))
	}
	c.must("feed_forward_proj", "GGUF's t5 has ReLU, or a gate with the tanh form of GELU", "relu", "gated-gelu")
	gated := c.text("feed_forward_proj") == "gated-gelu"
	c.must("is_gated_act", "feed_forward_proj says something else", gated)
	if gated {
		c.must("dense_act_fn", "GGUF's t5 has the tanh form of GELU", "gelu_new")
	} else {
		c.must("dense_act_fn", "feed_forward_proj says something else", "relu")
	}
	tied := c.boolOr("tie_word_embeddings", true)
	c.must("scale_decoder_outputs", "GGUF's t5 scales the output of a model whose embedding is its output matrix, and "+
		"no other", tied)
	for _, key := range []string{"dropout_rate", "initializer_factor", "output_past"} {
		c.has(key)
	}
	b.unigram = true

	embedding := ""
	for _, name := range []string{"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"} {
		if b.skip(name); embedding == "" && b.holds(name) {
			embedding = name
		}
	}
	if embedding == "" {
		embedding = "shared.weight"
	}
	b.matrix("token_embd.weight", embedding, b.vocab, width)
	s, parts := sizes{width: width, feedForward: feedForward}, [3]string{"", "wi", "wo"}
	if gated {
		parts = [3]string{"wi_0", "wi_1", "wo"}
	}
	stack := func(to, from string, layers int, cross bool) {
		for i := range layers {
			to, from := fmt.Sprintf("%s.blk.%d.", to, i), fmt.Sprintf("%s.block.%d.layer.", from, i)
			attention := func(to, from string) {
				for _, p := range []string{"q", "k", "v"} {
					b.matrix(to+"_"+p+".weight", from+"."+p+".weight", heads*head, width)
				}
				b.matrix(to+"_o.weight", from+".o.weight", width, heads*head)
			}
			b.rmsNorm(to+"attn_norm", from+"0.layer_norm", width)
			attention(to+"attn", from+"0.SelfAttention")
			if bias := from + "0.SelfAttention.relative_attention_bias.weight"; i == 0 || b.holds(bias) {
				b.add(target{name: to + "attn_rel_b.weight", from: bias, rows: buckets, cols: heads, float: true})
			}
			last := 1
			if cross {
				last = 2
				b.rmsNorm(to+"cross_attn_norm", from+"1.layer_norm", width)
				attention(to+"cross_attn", from+"1.EncDecAttention")
				// the first published files have one that nothing reads
				b.skip(from + "1.EncDecAttention.relative_attention_bias.weight")
			}
			ffn := fmt.Sprintf("%s%d.", from, last)
			b.feedForward(b.unbiased, s, parts, to, ffn+"DenseReluDense.")
			b.rmsNorm(to+"ffn_norm", ffn+"layer_norm", width)
		}
		b.rmsNorm(to+".output_norm", from+".final_layer_norm", width)
	}
	stack("enc", "encoder", encoders, false)
	stack("dec", "decoder", decoders, true)
	if tied {
		b.skip("lm_head.weight") // the embedding once more
	} else {
		b.matrix("output.weight", "lm_head.weight", b.vocab, width)
	}
}
