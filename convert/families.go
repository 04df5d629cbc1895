package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// family says how the models of one class of config.json become a GGUF architecture.
type family struct {
	class string // in config.json's list "architectures"
	arch  string // GGUF's
	build func(b *builder)
}

// families that can be converted.
var families = []family{
	{"LlamaForCausalLM", "llama", func(b *builder) { b.llamaLike(options{interleave: true}) }},
	{"MistralForCausalLM", "llama", func(b *builder) { b.llamaLike(options{interleave: true}) }},
	{"SmolLM3ForCausalLM", "smollm3", smollm3},
	{"GraniteForCausalLM", "granite", granite},
	{"Qwen2ForCausalLM", "qwen2", func(b *builder) { b.llamaLike(options{}) }},
	{"Qwen3ForCausalLM", "qwen3", func(b *builder) { b.llamaLike(options{headNorms: true}) }},
	{"Qwen3Model", "qwen3", func(b *builder) { b.llamaLike(options{headNorms: true}) }}, // saved without the head
	{"Qwen2MoeForCausalLM", "qwen2moe", func(b *builder) { b.qwenMoE(options{}, false) }},
	{"Qwen3MoeForCausalLM", "qwen3moe", func(b *builder) { b.qwenMoE(options{headNorms: true}, true) }},
	{"Qwen3_5MoeForCausalLM", "qwen35moe", qwen35MoE},
	{"Qwen3_5MoeForConditionalGeneration", "qwen35moe", qwen35MoE},
	{"Qwen3NextForCausalLM", "qwen3next", qwen3Next},
	{"Qwen3VLForConditionalGeneration", "qwen3vl", qwen3VL},
	{"Qwen3VLMoeForConditionalGeneration", "qwen3vlmoe", qwen3VLMoE},
	{"Glm4MoeForCausalLM", "glm4moe", glm4MoE},
	{"Glm4MoeLiteForCausalLM", "deepseek2", deepseekV3},
	{"DeepseekV2ForCausalLM", "deepseek2", deepseekV2},
	{"DeepseekV3ForCausalLM", "deepseek2", deepseekV3},
	{"GraniteMoeForCausalLM", "granitemoe", graniteMoE},
	{"GraniteMoeSharedForCausalLM", "granitemoe", graniteMoE},
	{"GraniteSWAForCausalLM", "granite_swa", graniteSWA},
	{"GraniteMoeSWAForCausalLM", "granite_swa", graniteSWA},
	{"GraniteMoeHybridForCausalLM", "granitehybrid", graniteHybrid},
	{"NemotronForCausalLM", "nemotron", nemotron},
	{"NemotronHForCausalLM", "nemotron_h", nemotronH},
	{"FalconH1ForCausalLM", "falcon-h1", falconH1},
	{"MambaForCausalLM", "mamba", mamba},
	{"Mamba2ForCausalLM", "mamba2", mamba2Only},
	{"HunYuanDenseV1ForCausalLM", "hunyuan-dense", hunyuan},
	{"HunYuanMoEV1ForCausalLM", "hunyuan-moe", hunyuanMoE},
	{"InternLM2ForCausalLM", "internlm2", internLM2},
	{"MiniCPMForCausalLM", "minicpm", miniCPM},
	{"ApertusForCausalLM", "apertus", apertus},
	{"ArceeForCausalLM", "arcee", arcee},
	{"BailingMoeV2ForCausalLM", "bailingmoe2", bailingMoE2},
	{"BailingMoeV3ForCausalLM", "bailingmoe3", bailingMoE3},
	{"Ernie4_5_MoeForCausalLM", "ernie4_5-moe", ernieMoE},
	{"MixtralForCausalLM", "llama", mixtral},
	{"Olmo2ForCausalLM", "olmo2", func(b *builder) { b.llamaLike(options{wideNorms: true, postNorms: true}) }},
	{"Olmo3ForCausalLM", "olmo2", func(b *builder) {
		b.config.saysTheta()
		b.llamaLike(options{wideNorms: true, postNorms: true, windows: true})
	}},
	{"OlmoeForCausalLM", "olmoe", olmoe},
	{"Ernie4_5ForCausalLM", "ernie4_5", ernie},
	{"Glm4ForCausalLM", "glm4", glm4},
	{"CohereForCausalLM", "command-r", cohere},
	{"Cohere2ForCausalLM", "cohere2", cohere2},
	{"Lfm2ForCausalLM", "lfm2", lfm2},
	{"Lfm2MoeForCausalLM", "lfm2moe", lfm2MoE},
	{"Qwen3_5ForCausalLM", "qwen35", qwen35},
	{"Qwen3_5ForConditionalGeneration", "qwen35", qwen35},
	{"GemmaForCausalLM", "gemma", gemma1},
	{"Gemma2ForCausalLM", "gemma2", gemma2},
	{"Gemma3ForCausalLM", "gemma3", gemma3},
	{"Gemma3ForConditionalGeneration", "gemma3", gemma3},
	{"GptOssForCausalLM", "gpt-oss", gptOSS},
	{"Gemma4ForCausalLM", "gemma4", gemma4},
	{"Gemma4ForConditionalGeneration", "gemma4", gemma4},
	{"Ministral3ForCausalLM", "mistral3", mistral3},
	{"Mistral3ForConditionalGeneration", "mistral3", mistral3},
	{"MuseGlimmerForConditionalGeneration", "muse-glimmer", museGlimmer},
	{"StableLmForCausalLM", "stablelm", stableLM},
	{"Starcoder2ForCausalLM", "starcoder2", starcoder2},
	{"FalconForCausalLM", "falcon", falcon},
	{"SeedOssForCausalLM", "seed_oss", seedOSS},
	{"Exaone4ForCausalLM", "exaone4", exaone4},
	{"PhiForCausalLM", "phi2", phi2},
	{"Phi3ForCausalLM", "phi3", phi3},
	{"GPT2LMHeadModel", "gpt2", gpt2},
	{"GPTNeoXForCausalLM", "gptneox", gptneox},
	{"GPTJForCausalLM", "gptj", gptj},
	{"CodeGenForCausalLM", "codegen", codegen},
	{"OPTForCausalLM", "opt", opt},
	{"T5ForConditionalGeneration", "t5", t5},
	{"MT5ForConditionalGeneration", "t5", t5},
	{"UMT5ForConditionalGeneration", "t5", t5},
	{"BertModel", "bert", func(b *builder) { bert(b, false) }},
	{"BertForMaskedLM", "bert", func(b *builder) { bert(b, false) }},
	{"BertForSequenceClassification", "bert", func(b *builder) { bert(b, true) }},
	{"RobertaModel", "bert", func(b *builder) { roberta(b, false) }},
	{"RobertaForMaskedLM", "bert", func(b *builder) { roberta(b, false) }},
	{"RobertaForSequenceClassification", "bert", func(b *builder) { roberta(b, true) }},
	{"XLMRobertaModel", "bert", func(b *builder) { roberta(b, false) }},
	{"XLMRobertaForMaskedLM", "bert", func(b *builder) { roberta(b, false) }},
	{"XLMRobertaForSequenceClassification", "bert", func(b *builder) { roberta(b, true) }},
	{"DistilBertModel", "bert", distilBERT},
	{"DistilBertForMaskedLM", "bert", distilBERT},
	{"Gemma3TextModel", "gemma-embedding", gemmaEmbedding},
	{"NomicBertModel", "nomic-bert", nomicBERT},
	{"ModernBertModel", "modern-bert", func(b *builder) { modernBERT(b, false) }},
	{"ModernBertForMaskedLM", "modern-bert", func(b *builder) { modernBERT(b, false) }},
	{"ModernBertForSequenceClassification", "modern-bert", func(b *builder) { modernBERT(b, true) }},
}

// Classes lists the classes of config.json that can be converted.
func Classes() (names []string) {
	for _, f := range families {
		names = append(names, f.class)
	}
	return names
}

// options are what differs between the families whose tensors have Llama's names.
type options struct {
	interleave bool    // GGUF's rotation turns pairs (2i, 2i+1), the source's pairs (i, i+d/2): rows of q and k move
	headNorms  bool    // norms of q and k, of each head
	sandwich   bool    // a norm before and one behind each sublayer (Gemma 2 and 3)
	postNorms  bool    // norms behind the sublayers only (OLMo 2)
	addToNorms float32 // Gemma stores its norms' weights less 1
	plainEnd   bool    // but not those of the norm behind the blocks
	fused      bool    // one matrix for q, k, v (Phi 3)
	fusedGate  bool    // one matrix for gate and up
	activation string  // "" is silu
	inputs     int     // numbers that q, k and v are made of; 0: the hidden size
	block      bool    // of a head that drafts blocks: tokens see those after them
	wideNorms  bool    // norms of q and k over all heads (OLMo)
	layerNorms bool    // LayerNorm without biases, one for attention and feed-forward, which are parallel (Command R)
	fourNorms  bool    // as sandwich, under other names (GLM 4)
	windows    bool    // layer_types says which layers have a window
	ffnPost    bool    // the norm before the feed-forward has GGUF's name of one behind attention
	experts    *experts
	feed       func(s sizes, to, from string) // adds what is in the place of the feed-forward; nil: nothing is
}

// llamaLike converts a model whose tensors have Llama's names: sizes, rotation, tensors.
func (b *builder) llamaLike(o options) {
	s, ok := b.llamaKeys(o, 0)
	if !ok {
		return
	}
	const embedding = "embed_tokens.weight"
	prefix := b.prefix(embedding, "model.", "model.language_model.", "language_model.model.", "") // of two parts; headless
	b.bare = prefix == ""
	head := b.prefix("lm_head.weight", "", "language_model.") + "lm_head.weight"
	more := o.addToNorms
	if o.plainEnd {
		more = 0
	}
	last := func(to, from string, width int) { b.vector(to+".weight", from+".weight", width, more) }
	b.model(modelNames{prefix + embedding, prefix + "layers.%d.", prefix + "norm", head}, s.width, s.layers,
		last, func(_ int, to, from string) { b.llamaBlock(s, o, to, from) })
}

// llamaKeys reads sizes, windows and rotation of such a model and writes their keys. share is the part of each head
// that is turned; 0: config.json says none, and it is the whole.
func (b *builder) llamaKeys(o options, share float64) (s sizes, ok bool) {
	s, ok = b.llamaSizes(o)
	if !ok || *b.config.err != nil {
		return s, false
	}
	if o.windows {
		b.windows(s.layers)
	} else {
		b.window()
	}
	b.rotation(s.head)
	if share > 0 {
		b.size("rope.dimension_count", int(float64(s.head)*share))
	}
	return s, true
}

// sizes are those of a model whose tensors have Llama's names: of its states, of query heads and those of keys, of the
// numbers of a head, of blocks and of the numbers between gate and down.
type sizes struct{ width, heads, kvHeads, head, layers, feedForward int }

// llamaSizes reads the sizes and writes their keys; ok is false where they are wrong.
func (b *builder) llamaSizes(o options) (s sizes, ok bool) {
	c := b.config
	b.size("context_length", c.integer("max_position_embeddings"))
	s.width, s.heads = c.integer("hidden_size"), c.integer("num_attention_heads")
	s.layers = c.layers("num_hidden_layers")
	if o.experts == nil || c.has("intermediate_size") {
		s.feedForward = c.integer("intermediate_size")
	}
	s.kvHeads = c.integerOr("num_key_value_heads", s.heads)
	if s.width%s.heads != 0 && !c.has("head_dim") || s.heads%s.kvHeads != 0 {
		c.fail("num_attention_heads", "%d heads, %d of keys, for a hidden size of %d", s.heads, s.kvHeads, s.width)
	}
	s.head = c.integerOr("head_dim", s.width/s.heads)
	switch {
	case s.head%2 != 0:
		c.fail(c.first("head_dim", "num_attention_heads"), "heads of %d numbers cannot be rotated in pairs", s.head)
	case int64(s.heads)*int64(s.head) > largest:
		c.fail("num_attention_heads", "%d heads of %d numbers, %d are the most in all", s.heads, s.head, largest)
	}
	if *c.err != nil {
		return s, false
	}
	b.size("embedding_length", s.width)
	b.size("block_count", s.layers)
	if s.feedForward > 0 {
		b.size("feed_forward_length", s.feedForward)
	}
	b.size("attention.head_count", s.heads)
	b.size("attention.head_count_kv", s.kvHeads)
	if c.has("head_dim") {
		b.size("attention.key_length", s.head)
		b.size("attention.value_length", s.head)
	}
	if o.layerNorms {
		b.real("attention.layer_norm_epsilon", c.number("layer_norm_eps"))
	} else {
		b.real("attention.layer_norm_rms_epsilon", c.number("rms_norm_eps"))
	}
	if o.activation == "" {
		c.must("hidden_act", "this architecture's gate is SiLU", "silu")
	}
	c.must("partial_rotary_factor", "only Phi-3 turns a part of each head", 1.0)
	c.must("use_mrope", "a position is one number in this architecture", false)
	if o.block {
		c.must("is_causal", "the tokens of a block see each other", false)
	} else {
		c.must("is_causal", "attention is causal here", true)
	}
	for _, key := range []string{"attention_bias", "mlp_bias", "qkv_bias"} {
		c.has(key) // whether there are biases is told by the tensors
	}
	return s, true
}

// llamaBlock adds the tensors of a block.
func (b *builder) llamaBlock(s sizes, o options, to, from string) {
	inputs := cmp.Or(o.inputs, s.width)
	norm := func(name, source string) { b.vector(to+name+".weight", from+source+".weight", s.width, o.addToNorms) }
	var order rowOrder
	if o.interleave {
		order = interleaved(s.head)
	}
	b.skip(from + "self_attn.rotary_emb.inv_freq")
	if !o.postNorms {
		norm("attn_norm", "input_layernorm")
	}
	if o.fused {
		b.matrix(to+"attn_qkv.weight", from+"self_attn.qkv_proj.weight", (s.heads+2*s.kvHeads)*s.head, inputs)
	} else {
		b.queriesKeysValues(s, inputs, to, from+"self_attn.", order)
	}
	if o.headNorms || o.wideNorms {
		n, m := s.head, s.head
		if o.wideNorms {
			n, m = s.heads*s.head, s.kvHeads*s.head
		}
		b.vector(to+"attn_q_norm.weight", from+"self_attn.q_norm.weight", n, o.addToNorms)
		b.vector(to+"attn_k_norm.weight", from+"self_attn.k_norm.weight", m, o.addToNorms)
	}
	b.linear(to+"attn_output", from+"self_attn.o_proj", s.width, s.heads*s.head, nil)
	switch {
	case o.feed != nil:
		o.feed(s, to, from)
	case o.experts != nil:
		b.experts(s, o.experts, to, from)
	case o.fusedGate:
		b.matrix(to+"ffn_up.weight", from+"mlp.gate_up_proj.weight", 2*s.feedForward, s.width)
		b.linear(to+"ffn_down", from+"mlp.down_proj", s.width, s.feedForward, nil)
	default:
		b.feedForward(b.biased, s, llamaParts, to, from+"mlp.")
	}
	switch {
	case o.sandwich:
		norm("post_attention_norm", "post_attention_layernorm")
		norm("ffn_norm", "pre_feedforward_layernorm")
		norm("post_ffw_norm", "post_feedforward_layernorm")
	case o.postNorms:
		norm("post_attention_norm", "post_attention_layernorm")
		norm("post_ffw_norm", "post_feedforward_layernorm")
	case o.fourNorms:
		norm("post_attention_norm", "post_self_attn_layernorm")
		norm("ffn_norm", "post_attention_layernorm")
		norm("post_ffw_norm", "post_mlp_layernorm")
	case o.layerNorms:
	case o.ffnPost:
		norm("post_attention_norm", "post_attention_layernorm")
	default:
		norm("ffn_norm", "post_attention_layernorm")
	}
}

// interleaved is the order in which GGUF's pairs (2i, 2i+1) take the source's pairs (i, i+d/2) of each head's d rows,
// an even number.
func interleaved(d int) rowOrder {
	return func(r int) int {
		first := r - r%d
		return first + r%d/2 + r%2*(d/2)
	}
}

// window handles a sliding window that GGUF's architecture has no key for.
func (b *builder) window() {
	c := b.config
	if wholeEvery[b.arch] > 0 {
		return // see layerKinds
	}
	c.must("use_sliding_window", "windows in this architecture are not", false)
	for _, key := range []string{"max_window_layers", "layer_types"} {
		c.has(key)
	}
	for _, t := range c.texts("layer_types") {
		if t != "full_attention" {
			c.fail("layer_types", "layers of kind %q are not supported", gguf.Printable(t, 40))
		}
	}
	if n := c.numberOr("sliding_window", 0); n > 0 && !c.has("use_sliding_window") &&
		n < c.number("max_position_embeddings") {
		b.note("sliding_window %v is left out: GGUF's %s attends to all positions", n, b.arch)
	}
}

// windows writes the windows of models whose layer_types say which layers have one.
func (b *builder) windows(layers int) {
	windowed := b.config.windowed(layers)
	b.size("attention.sliding_window", b.config.integer("sliding_window"))
	b.set("attention.sliding_window_pattern", windowed)
}

// windowed reads which layers have a window.
func (c *config) windowed(layers int) []bool {
	return c.layersOf(layers, "have a window", map[string]bool{"sliding_attention": true, "full_attention": false})
}

// layersOf reads in layer_types which layers are of some kinds of those that there are; do is what an error asks.
func (c *config) layersOf(layers int, do string, kinds map[string]bool) (list []bool) {
	types := c.texts("layer_types")
	if len(types) != layers {
		c.fail("layer_types", "%d of %d blocks: which of them %s?", len(types), layers, do)
	}
	for _, t := range types {
		is, known := kinds[t]
		if !known {
			c.fail("layer_types", "layers of kind %q are not supported", gguf.Printable(t, 40))
		}
		list = append(list, is)
	}
	return list
}

// perBlock is a number of each block: one of those that are of a kind, and another of the others.
func perBlock(is []bool, one, other int) (list []int32) {
	for _, own := range is {
		list = append(list, map[bool]int32{true: int32(one), false: int32(other)}[own])
	}
	return list
}

// thetas are the bases of rotation of classes where config.json does not say, which else are 10000.
var thetas = map[string]float64{"gemma3": 1e6, "gemma-embedding": 1e6, "smollm3": 2e6, "ernie4_5": 5e5,
	"ernie4_5-moe": 5e5, "lfm2": 1e6, "lfm2moe": 1e6, "gpt-oss": 150000, "apertus": 12e6}

// saysTheta fails where config.json does not say the base of rotation: versions of the class assume different ones.
func (c *config) saysTheta() {
	const key = "rope_theta"
	in := c.rotary()
	if full := in.object("full_attention"); full != nil {
		in = full
	}
	if !c.has(key) && (in == nil || !in.has(key)) {
		c.fail(key, "missing: versions of the class assume different ones")
	}
}

// factored are the architectures of llamaLike that have rope_freqs.weight.
var factored = []string{"llama", "granite", "granitemoe", "granite_swa", "apertus", "arcee", "eagle3", "exaone4"}

// rotation writes the keys of RoPE. head is the size of a head.
func (b *builder) rotation(head int) {
	c := b.config
	scaling, base := c.rotary(), c.numberOr("rope_theta", cmp.Or(thetas[b.arch], 10000))
	if full := scaling.object("full_attention"); full != nil { // by kinds of layers
		base = full.numberOr("rope_theta", base)
		if local := scaling.object("sliding_attention"); local != nil {
			b.localRotation(local, base)
		}
		scaling.rest()
		scaling = full
	}
	if scaling != nil {
		base = scaling.numberOr("rope_theta", base)
	}
	b.real("rope.freq_base", base)
	b.size("rope.dimension_count", head)
	if scaling == nil {
		return
	}
	scaling.has("type")
	kind := scaling.text(scaling.first("rope_type", "type"))
	switch kind {
	case "default", "":
	case "linear":
		b.set("rope.scaling.type", "linear")
		b.real("rope.scaling.factor", scaling.number("factor"))
	case "yarn":
		b.set("rope.scaling.type", "yarn")
		b.real("rope.scaling.factor", scaling.number("factor"))
		b.size("rope.scaling.original_context_length", scaling.integer("original_max_position_embeddings"))
		for _, x := range [][2]string{{"beta_fast", "beta_fast"}, {"beta_slow", "beta_slow"},
			{"attention_factor", "attn_factor"}} {
			if scaling.has(x[0]) {
				b.real("rope.scaling.yarn_"+x[1], scaling.positive(x[0]))
			}
		}
		scaling.must("truncate", "the reference truncates", true)
	case "llama3":
		if !slices.Contains(factored, b.arch) {
			scaling.fail(scaling.first("rope_type", "type"), "%q: GGUF's %s has no factors of frequencies", kind, b.arch)
			return
		}
		b.values("rope_freqs.weight", llama3Factors(head, base, scaling.number("factor"), scaling.number("low_freq_factor"),
			scaling.number("high_freq_factor"), scaling.number("original_max_position_embeddings")))
	default:
		scaling.fail("rope_type", "%q is not supported (default, linear, yarn and llama3 are)", gguf.Printable(kind, 40))
	}
	scaling.must("partial_rotary_factor", "only Phi-3 turns a part of each head", 1.0)
	scaling.rest()
}

// rotary is the object that says how positions are rotated: rope_scaling, or since transformers 5 rope_parameters.
func (c *config) rotary() *config {
	old, p := c.object("rope_scaling"), c.object("rope_parameters")
	if p == nil {
		return old
	}
	if old != nil {
		c.fail("rope_scaling", "stands beside rope_parameters, which is its later form")
	}
	return p
}

// localRotation reads the rotation of layers with a window; base is that of the others.
func (b *builder) localRotation(local *config, base float64) {
	switch b.arch {
	case "gemma3", "gemma-embedding":
		b.real("rope.freq_base_swa", local.numberOr("rope_theta", 10000))
	case "olmo2":
		local.must("rope_theta", "GGUF's olmo2 has one base for all layers", base)
	default:
		local.fail("rope_type", "GGUF's %s has one rotation for all layers", b.arch)
		return
	}
	local.must("rope_type", fmt.Sprintf("layers with a window are not scaled in GGUF's %s", b.arch), "default")
	local.rest()
}

// llama3Factors is what Llama 3.1 divides the angles by: 1 for short waves, factor for long ones, and between them a
// mixture.
func llama3Factors(head int, base, factor, low, high, context float64) []float32 {
	out := make([]float32, head/2)
	for i := range out {
		wave := 2 * math.Pi * math.Pow(base, float64(2*i)/float64(head))
		switch {
		case wave < context/high:
			out[i] = 1
		case wave > context/low:
			out[i] = float32(factor)
		default:
			smooth := (context/wave - low) / (high - low)
			out[i] = float32(1 / (float64((1-smooth)/factor) + smooth))
		}
	}
	return out
}

// smollm3: every fourth block has no rotation; GGUF has no key for it.
func smollm3(b *builder) {
	c := b.config
	c.must("no_rope_layer_interval", "every fourth block is without rotation in GGUF's smollm3", 4.0)
	for i, turned := range c.numbers("no_rope_layers") { // 1 means with rotation
		if want := float32(1); (i+1)%4 == 0 && turned != 0 || (i+1)%4 != 0 && turned != want {
			c.fail("no_rope_layers", "block %d is not as every fourth block without rotation demands", i)
		}
	}
	b.llamaLike(options{interleave: true})
}

func granite(b *builder) {
	b.graniteScales()
	b.llamaLike(options{interleave: true})
}

// gemma is what Gemma 2 and 3 have in common.
func (b *builder) gemma(o options, wholeLayers int) {
	c := b.config
	c.must(c.first("hidden_activation", "hidden_act"), "GGUF's gemma has the tanh form of GELU", "gelu_pytorch_tanh")
	c.has("hidden_act")
	width, heads := c.integer("hidden_size"), c.integer("num_attention_heads")
	scale := float64(c.integerOr("head_dim", width/heads))
	if c.integer("num_hidden_layers") == wholeLayers { // the largest model of each generation
		scale = float64(width) / float64(heads)
	}
	c.must("query_pre_attn_scalar", fmt.Sprintf("GGUF's %s scales by 1/sqrt(%v)", b.arch, scale), scale)
	if b.encodes {
		c.required("use_bidirectional_attention", "GGUF's gemma-embedding attends to later tokens", true)
	} else {
		c.must("use_bidirectional_attention", "attention is causal here", false)
	}
	for _, x := range []struct{ key, from string }{
		{"attn_logit_softcapping", "attn_logit_softcapping"}, {"final_logit_softcapping", "final_logit_softcapping"}} {
		if c.has(x.from) {
			b.real(x.key, c.number(x.from))
		}
	}
	window := c.integer("sliding_window")
	c.must("sliding_window_size", "sliding_window says something else", float64(window))
	b.size("attention.sliding_window", window)
	b.llamaLike(o)
}

// gemma1: config.json of the first files names another form of GELU, which its class does not look at.
func gemma1(b *builder) {
	b.config.must("hidden_act", "GGUF's gemma has the tanh form of GELU", "gelu", "gelu_pytorch_tanh")
	b.config.must("hidden_activation", "GGUF's gemma has the tanh form of GELU", "gelu_pytorch_tanh")
	b.llamaLike(options{addToNorms: 1, activation: "gelu"})
}

func gemma2(b *builder) {
	c := b.config
	for _, key := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
		if !c.has(key) {
			c.fail(key, "missing: GGUF's gemma2 assumes a cap")
		}
	}
	b.layerKinds(2)
	b.gemma(options{sandwich: true, addToNorms: 1, activation: "gelu"}, 46)
}

func gemma3(b *builder) {
	c := b.config
	if c.has("attn_logit_softcapping") {
		c.fail("attn_logit_softcapping", "GGUF's %s has none", b.arch)
	}
	b.layerKinds(c.integerOr(c.first("sliding_window_pattern", "_sliding_window_pattern"), 6))
	b.real("rope.freq_base_swa", c.numberOr("rope_local_base_freq", 10000))
	b.gemma(options{sandwich: true, headNorms: true, addToNorms: 1, activation: "gelu"}, 62)
	b.pictures()
}

// pictures leaves out the tensors that read pictures and sound.
func (b *builder) pictures() {
	n := 0
	for _, name := range b.weights.names {
		part := strings.TrimPrefix(name, "model.")
		for _, prefix := range []string{"vision_tower.", "multi_modal_projector.", "visual.", "audio_tower.",
			"embed_vision.", "embed_audio.", "vision_adapter.", "vision_projection."} {
			if strings.HasPrefix(part, prefix) {
				b.skip(name)
				n++
			}
		}
	}
	if n > 0 {
		b.note("the model is converted for texts: what reads pictures and sound is left out (%d tensors)", n)
	}
}

// textParts are the classes of models that read pictures too, and what their object for texts has by default where
// published files leave it out.
var textParts = map[string]map[string]any{
	"Qwen3_5ForConditionalGeneration":    {},
	"Qwen3_5MoeForConditionalGeneration": {},
	"Qwen3VLForConditionalGeneration":    {},
	"Qwen3VLMoeForConditionalGeneration": {},
	"Gemma4ForConditionalGeneration":     {},
	"Mistral3ForConditionalGeneration":   {},

	"MuseGlimmerForConditionalGeneration": {},
	"Gemma3ForConditionalGeneration": {"vocab_size": json.Number("262208"), "num_attention_heads": json.Number("8"),
		"num_key_value_heads": json.Number("4"), "head_dim": json.Number("256"), "rms_norm_eps": json.Number("1e-6"),
		"max_position_embeddings": json.Number("131072"), "query_pre_attn_scalar": json.Number("256"),
		"hidden_activation": "gelu_pytorch_tanh"},
}

// textPart is the object for texts of a model that reads pictures too.
func (c *config) textPart(absent map[string]any) *config {
	text := c.object("text_config")
	if text == nil {
		c.fail("text_config", "missing")
		return c
	}
	for _, key := range []string{"vision_config", "boi_token_index", "eoi_token_index", "image_token_index",
		"mm_tokens_per_image", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id",
		"boi_token_id", "eoi_token_id", "vision_soft_tokens_per_image", "multimodal_projector_bias", "projector_hidden_act",
		"spatial_merge_size", "vision_feature_layer", "audio_config", "audio_token_id", "boa_token_id", "eoa_token_id",
		"eoa_token_index", "out_hidden_size", "projector_hidden_size"} {
		c.has(key) // of pictures and sound
	}
	const quantization = "quantization_config"
	c.has(quantization) // of the part for texts too
	c.rest()
	for _, key := range []string{"eos_token_id", "bos_token_id", "pad_token_id", "tie_word_embeddings", quantization} {
		if text.values[key] == nil {
			text.values[key] = c.values[key]
		}
	}
	for key, v := range absent {
		if text.values[key] == nil {
			text.values[key] = v
		}
	}
	return text
}

// wholeEvery says of which architectures all layers but every n-th have a window.
var wholeEvery = map[string]int{"gemma2": 2, "gemma3": 6, "gemma-embedding": 6, "cohere2": 4, "gpt-oss": 2}

// layerKinds checks that the windowed layers are all but every pattern-th, as the architecture's default says.
func (b *builder) layerKinds(pattern int) {
	standard := wholeEvery[b.arch]
	if pattern != standard {
		b.config.fail("sliding_window_pattern", "%d is not supported: GGUF's %s has %d", pattern, b.arch, standard)
	}
	for i, t := range b.config.texts("layer_types") {
		want := "sliding_attention"
		if i%pattern == pattern-1 {
			want = "full_attention"
		}
		if t != want {
			b.config.fail("layer_types", "layer %d is %q, GGUF's %s has %q there", i, gguf.Printable(t, 40), b.arch, want)
		}
	}
}

func phi3(b *builder) {
	c := b.config
	width, heads := c.integer("hidden_size"), c.integer("num_attention_heads")
	head := c.integerOr("head_dim", width/heads)
	original := c.integerOr("original_max_position_embeddings", 0)
	partial := c.numberOr("partial_rotary_factor", 1)
	scaling := c.rotary()
	if scaling != nil {
		inside := scaling.integerOr("original_max_position_embeddings", 0)
		original = cmp.Or(original, inside) // as transformers has it
		partial = scaling.numberOr("partial_rotary_factor", partial)
	}
	turned := int(float64(head) * partial)
	for _, key := range []string{"partial_rotary_factor", "rope_parameters", "rope_scaling"} {
		delete(c.values, key)
	}
	if n := c.numberOr("sliding_window", 0); n > 0 && n < c.number("max_position_embeddings") {
		b.note("sliding_window %v is left out: GGUF's phi3 attends to all positions", n)
	}
	delete(c.values, "sliding_window")
	c.must("full_attn_mod", "every layer is like the others in GGUF's phi3", 1.0)
	c.must("interpolate_factor", "positions are not interpolated in GGUF's phi3", 1.0)
	c.must("lm_head_bias", "GGUF's phi3 has none", false)
	b.llamaLike(options{fused: true, fusedGate: true})
	b.size("rope.dimension_count", turned)
	if scaling == nil {
		return
	}
	if scaling.has("rope_theta") {
		b.real("rope.freq_base", scaling.number("rope_theta"))
	}
	kind := scaling.text(scaling.first("type", "rope_type"))
	if kind == "default" {
		scaling.rest()
		return
	}
	if kind != "longrope" && kind != "su" {
		scaling.fail("type", "%q is not supported (longrope is)", gguf.Printable(kind, 40))
		return
	}
	if original == 0 {
		c.fail("original_max_position_embeddings", "missing, and rope_scaling is %q", kind)
		return
	}
	b.size("rope.scaling.original_context_length", original)
	long, short := scaling.numbers("long_factor"), scaling.numbers("short_factor")
	if len(long) != turned/2 || len(short) != turned/2 {
		scaling.fail("long_factor", "%d and %d factors for %d pairs", len(long), len(short), turned/2)
		return
	}
	b.values("rope_factors_long.weight", long)
	b.values("rope_factors_short.weight", short)
	ratio := float64(c.integer("max_position_embeddings")) / float64(original)
	scaling.must("factor", "the two context lengths say something else", ratio)
	switch {
	case scaling.has("attention_factor"):
		b.real("rope.scaling.attn_factor", scaling.positive("attention_factor"))
	case ratio > 1:
		b.real("rope.scaling.attn_factor", math.Sqrt(1+math.Log(ratio)/math.Log(float64(original))))
	}
	scaling.rest()
}

func gpt2(b *builder) {
	c := b.config
	context, width, layers, feedForward, _ := b.gptSizes()
	c.must("activation_function", "GGUF's gpt2 has the tanh form of GELU", "gelu_new", "gelu_pytorch_tanh")
	c.must("scale_attn_weights", "GGUF's gpt2 scales", true)
	c.must("scale_attn_by_inverse_layer_idx", "GGUF's gpt2 does not", false)
	c.must("reorder_and_upcast_attn", "", false, true)
	c.must("add_cross_attention", "GGUF's gpt2 has none", false)

	prefix := "transformer."
	if b.bare = b.holds("wte.weight"); b.bare {
		prefix = ""
	}
	// The source's matrices are [inputs][outputs].
	linear := func(to, from string, rows, cols int) {
		b.add(target{name: to + ".weight", from: from + ".weight", rows: rows, cols: cols, transpose: true})
		b.vector(to+".bias", from+".bias", rows, 0)
	}
	b.matrix("token_embd.weight", prefix+"wte.weight", b.vocab, width)
	b.add(target{name: "position_embd.weight", from: prefix + "wpe.weight", rows: context, cols: width, float: true})
	b.blocks(prefix+"h.%d.", layers, func(_ int, to, from string) {
		b.skip(from+"attn.bias", from+"attn.masked_bias")
		b.layerNorm(to+"attn_norm", from+"ln_1", width)
		linear(to+"attn_qkv", from+"attn.c_attn", 3*width, width)
		linear(to+"attn_output", from+"attn.c_proj", width, width)
		b.layerNorm(to+"ffn_norm", from+"ln_2", width)
		linear(to+"ffn_up", from+"mlp.c_fc", feedForward, width)
		linear(to+"ffn_down", from+"mlp.c_proj", width, feedForward)
	})
	b.layerNorm("output_norm", prefix+"ln_f", width)
	b.head("lm_head.weight", width)
}

func gptneox(b *builder) {
	c := b.config
	width, heads := c.integer("hidden_size"), c.integer("num_attention_heads")
	layers, feedForward := c.layers("num_hidden_layers"), c.integer("intermediate_size")
	c.headsDivide("num_attention_heads", heads, width)
	if *c.err != nil {
		return
	}
	b.blockSizes(c.integer("max_position_embeddings"), width, layers, feedForward, heads)
	b.real("attention.layer_norm_epsilon", c.number("layer_norm_eps"))
	b.set("use_parallel_residual", c.boolOr("use_parallel_residual", true))
	head := width / heads
	rotary := c.object("rope_parameters")
	if rotary == nil {
		rotary = c
	}
	rotary.must("rope_type", "GPT-NeoX is converted without scaling", "default")
	b.size("rope.dimension_count", int(float64(head)*rotary.numberOr(
		rotary.first("rotary_pct", "partial_rotary_factor"), 0.25)))
	b.real("rope.freq_base", rotary.numberOr(rotary.first("rotary_emb_base", "rope_theta"), 10000))
	if rotary != c {
		rotary.rest()
	}
	c.must("rope_scaling", "GPT-NeoX is converted without it")
	c.must("attention_bias", "GGUF's gptneox has biases", true)
	c.must("hidden_act", "GGUF's gptneox has GELU", "gelu", "gelu_new", "gelu_pytorch_tanh")
	if c.text("hidden_act") != "gelu" {
		b.note("hidden_act %q: GGUF's gptneox has the exact form of GELU, which differs by at most 0.0005",
			c.text("hidden_act"))
	}
	order := func(r int) int { // the source has q, k and v of each head together
		return (3*(r%width/head)+r/width)*head + r%head
	}
	names := modelNames{"gpt_neox.embed_in.weight", "gpt_neox.layers.%d.", "gpt_neox.final_layer_norm",
		"embed_out.weight"}
	b.model(names, width, layers, b.layerNorm, func(_ int, to, from string) {
		b.skip(from+"attention.bias", from+"attention.masked_bias", from+"attention.rotary_emb.inv_freq")
		b.layerNorm(to+"attn_norm", from+"input_layernorm", width)
		b.linear(to+"attn_qkv", from+"attention.query_key_value", 3*width, width, order)
		b.linear(to+"attn_output", from+"attention.dense", width, width, nil)
		b.layerNorm(to+"ffn_norm", from+"post_attention_layernorm", width)
		b.linear(to+"ffn_up", from+"mlp.dense_h_to_4h", feedForward, width, nil)
		b.linear(to+"ffn_down", from+"mlp.dense_4h_to_h", width, feedForward, nil)
	})
}

// readFamily reads the config.json of a folder and finds its family, as textFamily does.
func readFamily(dir string) (*config, family, error) {
	c, err := readConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, family{}, err
	}
	return textFamily(c)
}

// textFamily finds the family of a config.json. Of a model of several parts it returns the object of the one for texts.
func textFamily(c *config) (*config, family, error) {
	f, err := familyOf(c)
	if absent, parts := textParts[f.class]; err == nil && parts {
		c = c.textPart(absent)
		err = *c.err
	}
	if err == nil && f.arch != "t5" {
		c.must("is_encoder_decoder", "models of this class have no encoder", false)
		c.must("tie_encoder_decoder", "models of this class have no encoder", false)
	}
	return c, f, err
}

// familyOf finds the family of a config.json.
func familyOf(c *config) (family, error) {
	if _, ok := headFamily(c); ok {
		return family{}, fmt.Errorf("%s: architectures: %w", c.file, ErrHead)
	}
	classes := c.texts("architectures")
	for _, class := range classes {
		if i := slices.IndexFunc(families, func(f family) bool { return f.class == class }); i >= 0 {
			return families[i], nil
		}
	}
	what := "no class is named"
	if len(classes) > 0 {
		what = gguf.Printable(strings.Join(classes, ", "), 80) + " cannot be converted"
	}
	return family{}, fmt.Errorf("%s: architectures: %s; these can: %s", c.file, what, strings.Join(Classes(), ", "))
}

// glm4: the source turns pairs (2i, 2i+1) of a part of each head, as GGUF's does.
func glm4(b *builder) {
	share := b.config.partialRotary(0.5)
	b.llamaLike(options{fusedGate: true, fourNorms: true})
	b.size("rope.dimension_count", int(float64(b.sizeOf("rope.dimension_count"))*share))
}

// cohere: the source turns pairs (2i, 2i+1), as GGUF's does.
func cohere(b *builder) {
	c := b.config
	c.must("use_qk_norm", "GGUF's command-r has norms of queries and keys by its number of blocks", false)
	b.real("logit_scale", c.number("logit_scale"))
	if c.has("model_max_length") { // of which max_position_embeddings is a part
		c.values["max_position_embeddings"] = c.values["model_max_length"]
	}
	b.llamaLike(options{layerNorms: true})
	if b.sizeOf("block_count") >= 64 {
		c.fail("num_hidden_layers", "GGUF's command-r has norms of queries and keys from 64 blocks on")
	}
}

func cohere2(b *builder) {
	c := b.config
	for _, key := range []string{"use_gated_activation", "use_embedding_sharing", "use_parallel_block"} {
		c.must(key, "so is GGUF's cohere2", true)
	}
	c.has("use_parallel_embedding") // how it was trained
	c.must("use_qk_norm", "GGUF's cohere2 has no norms of queries and keys", false)
	c.must("rotary_pct", "GGUF's cohere2 turns whole heads", 1.0)
	c.must("position_embedding_type", "GGUF's cohere2 rotates", "rope_gptj")
	c.must("order_of_interleaved_layers", "GGUF's cohere2 has windows first", "local_attn_first")
	c.must("layer_switch", "every fourth block attends to all in GGUF's cohere2", 4.0)
	b.layerKinds(c.integerOr(c.first("sliding_window_pattern", "_sliding_window_pattern"), 4))
	b.size("attention.sliding_window", c.integer("sliding_window"))
	b.real("logit_scale", c.number("logit_scale"))
	b.llamaLike(options{layerNorms: true})
}
