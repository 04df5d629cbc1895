package convert

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Encoders, which make vectors of texts, and with a classification head scores: BERT (Devlin et al. 2018,
// arXiv:1810.04805), RoBERTa (arXiv:1907.11692) and XLM-R (arXiv:1911.02116), DistilBERT (arXiv:1910.01108), which
// GGUF has as one architecture, nomic-embed-text (arXiv:2402.01613) and ModernBERT (arXiv:2412.13663).

// blockNames are the names of a block's tensors behind prefix, in which %d is the block's number.
type blockNames struct {
	prefix                                                  string
	q, k, v, output, outputNorm, up, down, feedForwardsNorm string
}

var (
	bertNames = blockNames{"encoder.layer.%d.", "attention.self.query", "attention.self.key", "attention.self.value",
		"attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"}
	distilNames = blockNames{"transformer.layer.%d.", "attention.q_lin", "attention.k_lin", "attention.v_lin",
		"attention.out_lin", "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm"}
)

// encoderSizes are the sizes of an encoder.
type encoderSizes struct {
	context, width, layers, feedForward, heads int
	types                                      int     // of tokens; 0: there are none
	before                                     int     // rows of the source's positions that come before position 0's
	epsilon                                    float64 // of the norms
}

// bert converts BERT: vectors, or where scores is set those of a text or pair.
func bert(b *builder, scores bool) {
	s := b.bertSizes()
	prefix := b.bertLike(s, bertNames)
	if !scores {
		b.skipUnder(prefix+"pooler.", "cls.") // of training
		return
	}
	n := b.scores(prefix+"pooler.dense", "classifier", s.width)
	const reason = "GGUF gives both texts of a pair token type 0, and the second one had type 1 in training"
	switch {
	case s.types > 1 && n == 1:
		b.config.fail("type_vocab_size", "%d, and one output: scores of pairs would be wrong: %s", s.types, reason)
	case s.types > 1:
		b.note("type_vocab_size %d: the outputs for one text are the model's, those for a pair are not: %s", s.types, reason)
	}
}

// roberta converts RoBERTa and XLM-R. Their positions are counted from the padding token's id on, so that the first
// one is behind it.
func roberta(b *builder, scores bool) {
	s := b.bertSizes()
	padding := idsOf(b.config, "pad_token_id")
	if len(padding) != 1 {
		b.config.fail("pad_token_id", "an id expected, behind which positions begin")
		return
	}
	s.before = int(padding[0]) + 1
	prefix := b.bertLike(s, bertNames)
	if !scores {
		b.skipUnder(prefix+"pooler.", "lm_head.")
		return
	}
	b.scores("classifier.dense", "classifier.out_proj", s.width)
}

// bertSizes reads the sizes of BERT and what has its configuration.
func (b *builder) bertSizes() encoderSizes {
	c := b.config
	c.must("hidden_act", "GGUF's bert has the exact form of GELU", "gelu")
	c.must("position_embedding_type", "GGUF's bert adds a vector for each position", "absolute")
	c.must("add_cross_attention", "an encoder has none", false)
	for _, key := range []string{"hidden_dropout_prob", "attention_probs_dropout_prob", "directionality", "pooler_fc_size",
		"pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "output_past"} {
		c.has(key) // of training, and of heads that are not converted
	}
	return encoderSizes{context: c.integer("max_position_embeddings"), width: c.integer("hidden_size"),
		layers: c.layers("num_hidden_layers"), feedForward: c.integer("intermediate_size"),
		heads: c.integer("num_attention_heads"), types: c.integerOr("type_vocab_size", 2),
		epsilon: c.numberOr("layer_norm_eps", 1e-12)}
}

// distilBERT converts DistilBERT, which has neither token types nor a pooler.
func distilBERT(b *builder) {
	c := b.config
	c.must("activation", "GGUF's bert has the exact form of GELU", "gelu")
	for _, key := range []string{"sinusoidal_pos_embds", "tie_weights_", "qa_dropout", "seq_classif_dropout"} {
		c.has(key) // positions are in a tensor either way
	}
	b.bertLike(encoderSizes{context: c.integer("max_position_embeddings"), width: c.integer("dim"),
		layers: c.layers("n_layers"), feedForward: c.integer("hidden_dim"), heads: c.integer("n_heads"), epsilon: 1e-12},
		distilNames)
	b.skipUnder("vocab_transform.", "vocab_layer_norm.", "vocab_projector.")
}

// encoder writes the keys of an encoder's shape.
func (b *builder) encoder(s encoderSizes) {
	b.config.headsDivide("num_attention_heads", s.heads, s.width)
	b.config.must("is_decoder", "an encoder is needed", false)
	if s.context <= s.before {
		b.config.fail("max_position_embeddings", "%d, of which %d are before the first position", s.context, s.before)
	}
	b.blockSizes(s.context-s.before, s.width, s.layers, s.feedForward, s.heads)
	b.real("attention.layer_norm_epsilon", s.epsilon)
	b.set("attention.causal", false)
	b.encodes = true
}

// bertLike adds the tensors of an encoder whose norms are behind the sublayers, and returns what their names have in
// front.
func (b *builder) bertLike(s encoderSizes, n blockNames) (prefix string) {
	b.encoder(s)
	prefix = b.prefix("embeddings.word_embeddings.weight", "", "bert.", "roberta.", "distilbert.")
	if *b.config.err != nil {
		return prefix
	}
	b.skip(prefix+"embeddings.position_ids", prefix+"embeddings.token_type_ids")
	b.matrix("token_embd.weight", prefix+"embeddings.word_embeddings.weight", b.vocab, s.width)
	b.typeEmbeddings(s, prefix)
	b.add(target{name: "position_embd.weight", from: prefix + "embeddings.position_embeddings.weight",
		rows: s.context - s.before, cols: s.width, order: behind(s.before), sourceRows: s.context, float: true})
	b.oldNorm("token_embd_norm", prefix+"embeddings.LayerNorm", s.width)
	b.blocks(prefix+n.prefix, s.layers, func(_ int, to, from string) {
		b.full(to+"attn_q", from+n.q, s.width, s.width)
		b.full(to+"attn_k", from+n.k, s.width, s.width)
		b.full(to+"attn_v", from+n.v, s.width, s.width)
		b.full(to+"attn_output", from+n.output, s.width, s.width)
		b.oldNorm(to+"attn_output_norm", from+n.outputNorm, s.width)
		b.full(to+"ffn_up", from+n.up, s.feedForward, s.width)
		b.full(to+"ffn_down", from+n.down, s.width, s.feedForward)
		b.oldNorm(to+"layer_output_norm", from+n.feedForwardsNorm, s.width)
	})
	return prefix
}

// typeEmbeddings adds the embeddings of token types, if there are some.
func (b *builder) typeEmbeddings(s encoderSizes, prefix string) {
	if b.tokenTypes = max(s.types, 1); s.types > 0 {
		b.add(target{name: "token_types.weight", from: prefix + "embeddings.token_type_embeddings.weight", rows: s.types,
			cols: s.width, float: true})
	}
}

// oldNorm is layerNorm, of which the first published files call the weights gamma and the biases beta.
func (b *builder) oldNorm(to, from string, width int) {
	if !b.holds(from + ".gamma") {
		b.layerNorm(to, from, width)
		return
	}
	b.vector(to+".weight", from+".gamma", width, 0)
	b.vector(to+".bias", from+".beta", width, 0)
}

// prefix is what the name of a tensor has in front: the first of others that is there, or the usual one.
func (b *builder) prefix(name, usual string, others ...string) string {
	for _, p := range others {
		if b.holds(p + name) {
			return p
		}
	}
	return usual
}

// skipUnder skips the tensors whose names begin so.
func (b *builder) skipUnder(prefixes ...string) {
	for _, name := range b.weights.names {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				b.skip(name)
			}
		}
	}
}

// scores adds a classification head: a layer of the hidden size, and the outputs, of which it returns the number.
func (b *builder) scores(hidden, output string, width int) (n int) {
	cols := width
	if n = 1; b.holds(output + ".weight") {
		n, cols = b.weights.tensors[output+".weight"].rowsCols()
	}
	b.linear("cls", hidden, width, width, nil)
	b.linear("cls.output", output, n, width, nil)
	if cols != width { // refused by finish; of no columns there may be any number of rows
		return n
	}
	b.size("pooling_type", rankPool)
	if labels := b.labels(n); n > 1 {
		b.set("classifier.output_labels", labels)
	}
	for _, key := range []string{"sentence_transformers", "sbert_ce_default_activation_function"} {
		if b.config.has(key) {
			b.note("%s: scores are the head's outputs, to which sentence-transformers applies a function that keeps their "+
				"order", key)
		}
	}
	return n
}

// labels are the names of a head's outputs, as transformers has them where config.json does not name them.
func (b *builder) labels(n int) []string {
	named, _ := b.config.values["id2label"].(map[string]any)
	if named != nil && len(named) != n {
		b.config.fail("id2label", "%d labels, the head has %d outputs", len(named), n)
	}
	labels := make([]string, n)
	for i := range labels {
		label, ok := named[strconv.Itoa(i)].(string)
		if labels[i] = label; !ok && named == nil {
			labels[i] = fmt.Sprintf("LABEL_%d", i)
		} else if !ok {
			b.config.fail("id2label", "output %d has no label", i)
		}
	}
	return labels
}

// nomicBERT converts nomic-embed-text v1 and v1.5. Their own code scales the rotation of longer texts than they were
// trained with; GGUF's context ends there.
func nomicBERT(b *builder) {
	c := b.config
	s := encoderSizes{context: min(c.integer("n_positions"), c.integerOr("max_trained_positions", largest)),
		width: c.integer("n_embd"), layers: c.layers("n_layer"), feedForward: c.integer("n_inner"),
		heads: c.integer("n_head"), types: c.integerOr("type_vocab_size", 2), epsilon: c.number("layer_norm_epsilon")}
	b.encoder(s)
	c.required("activation_function", "GGUF's nomic-bert has a gate with SiLU", "swiglu")
	for _, key := range []string{"causal", "prenorm", "parallel_block", "use_rms_norm", "mlp_fc1_bias", "mlp_fc2_bias",
		"qkv_proj_bias", "rotary_emb_interleaved", "scale_attn_by_inverse_layer_idx"} {
		c.must(key, "GGUF's nomic-bert has no such form", false)
	}
	c.must("scale_attn_weights", "GGUF's nomic-bert scales", true)
	c.must("rotary_emb_fraction", "GGUF's nomic-bert turns whole heads", 1.0)
	for _, key := range []string{"rotary_scaling_factor", "rotary_emb_scale_base"} {
		c.must(key, "GGUF's nomic-bert rotates without scaling")
	}
	for _, key := range []string{"dense_seq_output", "fused_bias_fc", "fused_dropout_add_ln", "pad_vocab_size_multiple",
		"parallel_block_tied_norm", "reorder_and_upcast_attn", "use_flash_attn", "use_xentropy"} {
		c.has(key) // how the published code computes the same
	}
	b.real("rope.freq_base", c.number("rotary_emb_base"))
	if *c.err != nil {
		return
	}
	b.matrix("token_embd.weight", "embeddings.word_embeddings.weight", b.vocab, s.width)
	b.typeEmbeddings(s, "")
	b.layerNorm("token_embd_norm", "emb_ln", s.width)
	b.blocks("encoder.layers.%d.", s.layers, func(_ int, to, from string) {
		b.matrix(to+"attn_qkv.weight", from+"attn.Wqkv.weight", 3*s.width, s.width)
		b.matrix(to+"attn_output.weight", from+"attn.out_proj.weight", s.width, s.width)
		b.layerNorm(to+"attn_output_norm", from+"norm1", s.width)
		b.matrix(to+"ffn_up.weight", from+"mlp.fc11.weight", s.feedForward, s.width)
		b.matrix(to+"ffn_gate.weight", from+"mlp.fc12.weight", s.feedForward, s.width)
		b.matrix(to+"ffn_down.weight", from+"mlp.fc2.weight", s.width, s.feedForward)
		b.layerNorm(to+"layer_output_norm", from+"norm2", s.width)
	})
}

// modernBERT converts ModernBERT: vectors, or where scores is set those of a text or pair.
func modernBERT(b *builder, scores bool) {
	c := b.config
	s := encoderSizes{context: c.integer("max_position_embeddings"), width: c.integer("hidden_size"),
		layers: c.layers("num_hidden_layers"), feedForward: c.integer("intermediate_size"),
		heads: c.integer("num_attention_heads"), epsilon: c.number("norm_eps")}
	b.encoder(s)
	c.must("layer_norm_eps", "norm_eps says something else", s.epsilon)
	c.must("hidden_activation", "GGUF's modern-bert has a gate with the exact form of GELU, or SiLU", "gelu", "silu")
	if act := c.text("hidden_activation"); act == "silu" {
		b.set("hidden_activation", act)
	}
	for _, key := range []string{"attention_bias", "mlp_bias", "norm_bias", "classifier_bias"} {
		c.must(key, "GGUF's modern-bert has no biases", false)
	}
	for _, key := range []string{"position_embedding_type", "embedding_dropout", "mlp_dropout", "decoder_bias",
		"deterministic_flash_attn", "initializer_cutoff_factor", "reference_compile", "repad_logits_with_grad",
		"sparse_pred_ignore_index", "sparse_prediction", "cls_token_id"} {
		c.has(key) // of training, of heads that are not converted, and how the published code computes the same
	}
	every := b.wholeLayers(s.layers)
	b.size("attention.sliding_window", c.integer("local_attention"))
	b.size("attention.sliding_window_pattern", every)
	whole, local := 160000.0, 10000.0
	if p := c.object("rope_parameters"); p != nil { // since transformers 5
		whole, local = rotationBase(p.object("full_attention"), whole), rotationBase(p.object("sliding_attention"), local)
		p.rest()
		c.must("global_rope_theta", "rope_parameters says something else", whole)
		c.must("local_rope_theta", "rope_parameters says something else", local)
	}
	b.real("rope.freq_base", c.numberOr("global_rope_theta", whole))
	b.real("rope.freq_base_swa", c.numberOr("local_rope_theta", local))
	if *c.err != nil {
		return
	}
	prefix := b.prefix("embeddings.tok_embeddings.weight", "", "model.")
	b.matrix("token_embd.weight", prefix+"embeddings.tok_embeddings.weight", b.vocab, s.width)
	b.rmsNorm("token_embd_norm", prefix+"embeddings.norm", s.width)
	b.blocks(prefix+"layers.%d.", s.layers, func(i int, to, from string) {
		if i > 0 { // the embedding's norm is the first one
			b.rmsNorm(to+"attn_norm", from+"attn_norm", s.width)
		}
		b.matrix(to+"attn_qkv.weight", from+"attn.Wqkv.weight", 3*s.width, s.width)
		b.matrix(to+"attn_output.weight", from+"attn.Wo.weight", s.width, s.width)
		b.rmsNorm(to+"ffn_norm", from+"mlp_norm", s.width)
		b.matrix(to+"ffn_up.weight", from+"mlp.Wi.weight", 2*s.feedForward, s.width)
		b.matrix(to+"ffn_down.weight", from+"mlp.Wo.weight", s.width, s.feedForward)
	})
	b.rmsNorm("output_norm", prefix+"final_norm", s.width)
	pooled := c.text("classifier_pooling")
	c.has("classifier_activation")
	if !scores {
		b.skipUnder("head.", "decoder.")
		return
	}
	if pooled != "mean" {
		c.fail("classifier_pooling", "GGUF's modern-bert scores the mean of the tokens")
	}
	c.must("classifier_activation", "GGUF's modern-bert has the exact form of GELU", "gelu")
	b.scores("head.dense", "classifier", s.width)
	b.rmsNorm("cls.norm", "head.norm", s.width)
}

// gemmaEmbedding converts EmbeddingGemma (Schechter Vera et al. 2025, arXiv:2509.20354): Gemma 3 that attends to later
// tokens, too.
func gemmaEmbedding(b *builder) {
	b.encodes, b.vectorSize = true, b.config.integer("hidden_size")
	if b.config.has("final_logit_softcapping") {
		b.config.fail("final_logit_softcapping", "GGUF's gemma-embedding has no logits")
	}
	gemma3(b)
}

// wholeLayers is the period of ModernBERT's layers without a window, of which the first layer is one.
func (b *builder) wholeLayers(layers int) int {
	c := b.config
	every := c.integerOr("global_attn_every_n_layers", 3)
	kinds := c.texts("layer_types")
	for i, kind := range kinds {
		want := "sliding_attention"
		if i%every == 0 {
			want = "full_attention"
		}
		if kind != want || len(kinds) != layers {
			c.fail("layer_types", "GGUF's modern-bert has windows in all layers but each %dth of %d", every, layers)
			break
		}
	}
	return every
}

// rotationBase is the base of a kind of layers' rotation.
func rotationBase(kind *config, absent float64) float64 {
	if kind == nil {
		return absent
	}
	kind.must("rope_type", "GGUF's modern-bert does not scale", "default")
	base := kind.numberOr("rope_theta", absent)
	kind.rest()
	return base
}

// limitFiles are names that sentence-transformers looks for, in its order, for the settings of texts.
var limitFiles = []string{"sentence_bert_config.json", "sentence_roberta_config.json",
	"sentence_distilbert_config.json", "sentence_camembert_config.json", "sentence_albert_config.json",
	"sentence_xlm-roberta_config.json", "sentence_xlnet_config.json"}

// limits reads what sentence-transformers does to a text before the tokenizer.
func (b *builder) limits(dir string) error {
	var said struct {
		Longest int  `json:"max_seq_length"`
		Lower   bool `json:"do_lower_case"`
	}
	for _, name := range limitFiles {
		file := filepath.Join(dir, name)
		there, err := optionalJSON(file, &said)
		if err != nil {
			return err
		}
		if said.Lower {
			b.lowers = file
		}
		if there {
			break
		}
	}
	if said.Longest > 0 {
		b.note("sentence-transformers cuts texts to %d tokens (max_seq_length): GGUF has no key for it, and longer texts "+
			"are read up to the context length", said.Longest)
	}
	return nil
}
