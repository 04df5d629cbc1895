package convert

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// drawnNames are what Llama's class calls its tensors, the longer names first.
var drawnNames = []string{"token_embd.", "model.embed_tokens.", "output_norm.", "model.norm.",
	"attn_output.", "self_attn.o_proj.", "output.", "lm_head.", "blk.", "model.layers.",
	"attn_norm.", "input_layernorm.", "ffn_norm.", "post_attention_layernorm.",
	"attn_q_norm.", "self_attn.q_norm.", "attn_k_norm.", "self_attn.k_norm.", "attn_q.", "self_attn.q_proj.",
	"attn_k.", "self_attn.k_proj.", "attn_v.", "self_attn.v_proj.", "ffn_gate.", "mlp.gate_proj.",
	"ffn_up.", "mlp.up_proj.", "ffn_down.", "mlp.down_proj.", "ffn_gate_inp.", "mlp.gate.",
	"ffn_gate_inp_shexp.", "mlp.shared_expert_gate.", "ffn_gate_shexp.", "mlp.shared_expert.gate_proj.",
	"ffn_up_shexp.", "mlp.shared_expert.up_proj.", "ffn_down_shexp.", "mlp.shared_expert.down_proj.",
	"ffn_gate_exps.", "mlp.experts.%d.gate_proj.", "ffn_up_exps.", "mlp.experts.%d.up_proj.",
	"ffn_down_exps.", "mlp.experts.%d.down_proj."}

// drawnCase is a class of config.json whose models' tensors have Llama's names, or nearly, and the recipe of a drawn
// file of its architecture.
type drawnCase struct {
	class, recipe string
	names         []string // what is called otherwise, in front of drawnNames
	turned        bool     // rows of q and k are halves that turn with each other
	lessOne       bool     // norms are stored less 1
	config        map[string]any
}

var (
	qwen35Names = []string{"post_attention_norm.", "post_attention_layernorm.", "attn_qkv.", "linear_attn.in_proj_qkv.",
		"attn_gate.", "linear_attn.in_proj_z.", "ssm_alpha.", "linear_attn.in_proj_a.", "ssm_beta.", "linear_attn.in_proj_b.",
		"ssm_conv1d.", "linear_attn.conv1d.", "ssm_dt.bias", "linear_attn.dt_bias", "ssm_a", "linear_attn.A_log",
		"ssm_norm.", "linear_attn.norm.", "ssm_out.", "linear_attn.out_proj."}
	qwen35Config = map[string]any{"linear_num_key_heads": randommodel.Groups,
		"linear_num_value_heads": randommodel.DeltaHeads,
		"linear_key_head_dim":    randommodel.State, "linear_value_head_dim": randommodel.State,
		"linear_conv_kernel_dim": randommodel.Taps, "full_attention_interval": 4, "head_dim": randommodel.Dim,
		"attn_output_gate": true, "mamba_ssm_dtype": "float32", "mtp_use_dedicated_embeddings": false,
		"layer_types": []string{"linear_attention", "linear_attention", "linear_attention", "full_attention"},
		"rope_parameters": map[string]any{"mrope_interleaved": true, "mrope_section": []int{2, 1, 1}, "rope_type": "default",
			"rope_theta": 10000, "partial_rotary_factor": 0.5}, "tie_word_embeddings": true}
)

// mtpNames are what Qwen 3.5 calls its block for multi-token prediction, behind 4 others.
var mtpNames = strings.NewReplacer("model.layers.4.nextn.eh_proj.", "mtp.fc.",
	"model.layers.4.nextn.enorm.", "mtp.pre_fc_norm_embedding.", "model.layers.4.nextn.hnorm.", "mtp.pre_fc_norm_hidden.",
	"model.layers.4.nextn.shared_head_norm.", "mtp.norm.", "model.layers.4.", "mtp.layers.0.")

// drawnCases: the recipes' sizes are in config, what they have of their own here.
func drawnCases() []drawnCase {
	moe := map[string]any{"num_experts": randommodel.Experts, "num_experts_per_tok": 3, "norm_topk_prob": false,
		"output_router_logits": false, "router_aux_loss_coef": 0.01}
	kinds := func(windowed ...bool) (types []string) {
		for _, w := range windowed {
			types = append(types, map[bool]string{true: "sliding_attention", false: "full_attention"}[w])
		}
		return types
	}
	post := []string{"post_attention_norm.", "post_attention_layernorm.", "post_ffw_norm.", "post_feedforward_layernorm.",
		"ffn_norm.", "pre_feedforward_layernorm."}
	gelu := map[string]any{"hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh", "head_dim": randommodel.Dim,
		"tie_word_embeddings": true}
	return []drawnCase{
		{"MixtralForCausalLM", "llama experts", []string{"ffn_gate_inp.", "block_sparse_moe.gate.",
			"ffn_gate_exps.", "block_sparse_moe.experts.%d.w1.", "ffn_up_exps.", "block_sparse_moe.experts.%d.w3.",
			"ffn_down_exps.", "block_sparse_moe.experts.%d.w2."}, true, false,
			map[string]any{"num_local_experts": randommodel.Experts, "num_experts_per_tok": 3, "tie_word_embeddings": true}},
		{"Qwen2MoeForCausalLM", "qwen2moe", nil, false, false, with(moe, map[string]any{"decoder_sparse_step": 1,
			"mlp_only_layers": []int{}, "use_sliding_window": false})},
		{"Qwen3MoeForCausalLM", "qwen3moe", nil, false, false, with(moe, map[string]any{"norm_topk_prob": true,
			"tie_word_embeddings": true})},
		{"OlmoeForCausalLM", "olmoe", nil, false, false, with(moe, map[string]any{"clip_qkv": nil,
			"num_key_value_heads": 4})},
		{"Olmo2ForCausalLM", "olmo2", post, false, false, nil},
		{"Olmo3ForCausalLM", "olmo2 pattern", post, false, false, map[string]any{"layer_types": kinds()}},
		{"Ernie4_5ForCausalLM", "ernie4_5 biases", nil, false, false, map[string]any{"use_bias": true,
			"tie_word_embeddings": true}},
		{"Glm4ForCausalLM", "glm4", []string{"post_attention_norm.", "post_self_attn_layernorm.", "post_ffw_norm.",
			"post_mlp_layernorm.", "ffn_up.", "mlp.gate_up_proj."}, false, false, map[string]any{"partial_rotary_factor": 0.5,
			"tie_word_embeddings": true}},
		{"CohereForCausalLM", "command-r", nil, false, false, map[string]any{"logit_scale": 0.3, "use_qk_norm": false,
			"tie_word_embeddings": true, "model_max_length": 512, "max_position_embeddings": 64}},
		{"Cohere2ForCausalLM", "cohere2", nil, false, false, map[string]any{"logit_scale": 0.3, "use_qk_norm": false,
			"tie_word_embeddings": true, "rotary_pct": 1.0, "sliding_window_pattern": 4,
			"layer_types": kinds(true, true, true, false), "use_gated_activation": true,
			"position_embedding_type": "rope_gptj", "order_of_interleaved_layers": "local_attn_first"}},
		{"Lfm2ForCausalLM", "lfm2", []string{"token_embd_norm.", "model.embedding_norm.", "attn_norm.", "operator_norm.",
			"ffn_norm.", "ffn_norm.", "shortconv.", "conv.", "attn_output.", "self_attn.out_proj.",
			"attn_q_norm.", "self_attn.q_layernorm.", "attn_k_norm.", "self_attn.k_layernorm.", "ffn_gate.", "feed_forward.w1.",
			"ffn_up.", "feed_forward.w3.", "ffn_down.", "feed_forward.w2."}, false, false, map[string]any{
			"layer_types": []string{"conv", "full_attention", "conv", "full_attention"}, "conv_L_cache": randommodel.Taps,
			"full_attn_idxs": []int{1, 3}, "block_ff_dim": 144, "block_auto_adjust_ff_dim": true, "block_multiple_of": 32,
			"block_ffn_dim_multiplier": 1.0, "num_key_value_heads": 2, "conv_bias": false, "block_dim": 64, "conv_dim": 64,
			"block_use_swiglu": true, "num_heads": 4, "tie_embedding": true, "norm_eps": 1e-6}},
		{"Qwen3_5ForConditionalGeneration", "qwen35", qwen35Names, false, true, qwen35Config},
		{"Qwen3_5ForCausalLM", "qwen35", qwen35Names, false, true, with(qwen35Config, map[string]any{
			"mtp_num_hidden_layers": 1})},
		{"Qwen3_5MoeForConditionalGeneration", "qwen35moe", qwen35Names, false, true, with(with(moe, qwen35Config),
			map[string]any{"norm_topk_prob": true})},
		{"GemmaForCausalLM", "gemma", nil, false, true, gelu},
		{"Gemma3ForConditionalGeneration", "gemma3", post, false, true, gelu},
	}
}

// publishedModel writes a drawn file in the layout of a class.
func (c drawnCase) publishedModel(t *testing.T) (s *source, want *gguf.File) {
	t.Helper()
	recipe, ok := randommodel.Recipes()[c.recipe]
	if !ok {
		recipe = randommodel.HybridRecipes()[c.recipe]
	}
	if c.config["mtp_num_hidden_layers"] != nil {
		recipe.MTP, recipe.Parts = 1, recipe.Parts+" ends"
	}
	f := openedFile(t, recipe.File(t))
	return c.published(t, recipe, f, nil), f
}

// openedFile is a GGUF file that is in memory.
func openedFile(t *testing.T, file []byte) *gguf.File {
	t.Helper()
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "drawn")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// published writes the file of a recipe in the layout of a class. own reports whether it wrote a tensor, which the
// class calls name; nil: none.
func (c drawnCase) published(t *testing.T, recipe randommodel.Recipe, f *gguf.File,
	own func(s *source, x gguf.Tensor, name string) bool) (s *source) {
	t.Helper()
	s = &source{t: t, dir: t.TempDir(), tensors: map[string][]int{}, values: map[string]func(int) float32{}}
	names := strings.NewReplacer(slices.Concat(c.names, drawnNames)...)
	f.Tensors = slices.DeleteFunc(f.Tensors, func(x gguf.Tensor) bool { // of which published models have the whole's
		return strings.Contains(x.Name, "nextn.embed_tokens") || strings.Contains(x.Name, "nextn.shared_head_head")
	})
	for _, x := range f.Tensors {
		name := names.Replace(x.Name)
		if recipe.MTP > 0 {
			name = mtpNames.Replace(name)
		}
		if own != nil && own(s, x, name) {
			continue
		}
		values, cols, rows := floats(t, f, x), int(x.Dims[0]), 1
		shape := []int{cols}
		if len(x.Dims) > 1 {
			rows = int(x.Dims[1])
			shape = []int{rows, cols}
		}
		switch {
		case strings.HasSuffix(x.Name, "ffn_gate_inp_shexp.weight"):
			shape = []int{1, cols}
		case strings.HasSuffix(x.Name, "shortconv.conv.weight"), strings.HasSuffix(x.Name, "ssm_conv1d.weight"):
			shape = []int{rows, 1, cols}
		}
		switch {
		case len(x.Dims) == 3:
			for k := range int(x.Dims[2]) {
				one := fmt.Sprintf(name, k)
				s.tensors[one], s.values[one] = shape, func(i int) float32 { return values[k*rows*cols+i] }
			}
			continue
		case strings.Contains(x.Name, "ssm_"), strings.Contains(x.Name, "attn_qkv."), strings.Contains(x.Name, "attn_gate."):
			s.values[name] = recipesDelta.grouped(x.Name, values, rows, cols)
		case c.lessOne && strings.Contains(x.Name, "norm"):
			s.values[name] = func(i int) float32 { return values[i] - 1 }
		case c.turned && (strings.Contains(x.Name, "attn_q.") || strings.Contains(x.Name, "attn_k.")):
			const d = randommodel.Dim
			s.values[name] = func(i int) float32 {
				row, col := i/cols, i%cols
				return values[(row/d*d+row%d%(d/2)*2+row%d/(d/2))*cols+col]
			}
		default:
			s.values[name] = func(i int) float32 { return values[i] }
		}
		s.tensors[name] = shape
	}
	return s
}

// drawnDelta are the sizes of gated delta nets: groups of heads, heads of values in each, and numbers of a state.
type drawnDelta struct{ groups, of, state int }

// recipesDelta are those of the recipes.
var recipesDelta = drawnDelta{randommodel.Groups, randommodel.DeltaHeads / randommodel.Groups, randommodel.State}

// grouped is the tensor of a gated delta net as Qwen 3.5 publishes it: the heads of values that share keys are
// neighbors. The file has the first head of each group, then the second ones.
func (d drawnDelta) grouped(name string, values []float32, rows, cols int) func(i int) float32 {
	groups, of, state := d.groups, d.of, d.state
	place := func(i, n, first int) int { // of a number in the file
		if i < first {
			return i
		}
		head := (i - first) / n
		return first + (head%of*groups+head/of)*n + (i-first)%n
	}
	keys := 2 * groups * state
	at := func(i int) int { return i }
	switch {
	case strings.Contains(name, "attn_qkv."), strings.Contains(name, "conv1d."):
		at = func(i int) int { return place(i/cols, state, keys)*cols + i%cols }
	case strings.Contains(name, "attn_gate."):
		at = func(i int) int { return place(i/cols, state, 0)*cols + i%cols }
	case strings.Contains(name, "ssm_alpha."), strings.Contains(name, "ssm_beta."):
		at = func(i int) int { return place(i/cols, 1, 0)*cols + i%cols }
	case strings.Contains(name, "ssm_dt."):
		at = func(i int) int { return place(i, 1, 0) }
	case strings.HasSuffix(name, "ssm_a"):
		return func(i int) float32 { return float32(math.Log(-float64(values[place(i, 1, 0)]))) }
	case strings.Contains(name, "ssm_out."):
		at = func(i int) int { return i/cols*cols + place(i%cols, state, 0) }
	}
	return func(i int) float32 { return values[at(i)] }
}

// configOf is the config.json of a drawn file.
func (c drawnCase) configOf(t *testing.T, f *gguf.File) map[string]any {
	t.Helper()
	m := map[string]any{"hidden_act": "silu", "vocab_size": randommodel.Vocab, "tie_word_embeddings": false}
	arch := architecture(f)
	for key, member := range map[string]string{"embedding_length": "hidden_size", "block_count": "num_hidden_layers",
		"attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
		"feed_forward_length": "intermediate_size", "context_length": "max_position_embeddings",
		"attention.layer_norm_rms_epsilon": "rms_norm_eps", "attention.layer_norm_epsilon": "layer_norm_eps",
		"rope.freq_base":             "rope_theta",
		"expert_feed_forward_length": "moe_intermediate_size", "rope.freq_base_swa": "rope_local_base_freq",
		"expert_shared_feed_forward_length": "shared_expert_intermediate_size",
		"attention.sliding_window":          "sliding_window"} {
		if v, ok := f.Value(arch + "." + key); ok {
			m[member] = v
		}
	}
	if c.class == "Lfm2ForCausalLM" {
		delete(m, "rms_norm_eps")
		delete(m, "intermediate_size")
		delete(m, "hidden_act")
	}
	if c.config["mtp_num_hidden_layers"] != nil {
		m["num_hidden_layers"] = m["num_hidden_layers"].(uint32) - 1
	}
	m = with(m, c.config)
	if pattern, ok := f.Value(arch + ".attention.sliding_window_pattern"); ok && m["layer_types"] != nil {
		var types []string
		for _, windowed := range pattern.([]bool) {
			types = append(types, map[bool]string{true: "sliding_attention", false: "full_attention"}[windowed])
		}
		m["layer_types"] = types
	}
	m["architectures"] = []string{c.class}
	return m
}

// TestDrawnModels: models in the layout of their class become the drawn files that they were, of which the engine's
// tests compare what is computed with another computation.
func TestDrawnModels(t *testing.T) {
	for _, c := range drawnCases() {
		t.Run(c.class, func(t *testing.T) {
			s, want := c.publishedModel(t)
			c.becomes(t, s, want)
		})
	}
}

// becomes converts a model in the layout of its class, and compares the file with the drawn one.
func (c drawnCase) becomes(t *testing.T, s *source, want *gguf.File) {
	t.Helper()
	config := c.configOf(t, want)
	if strings.HasSuffix(c.class, "ForConditionalGeneration") {
		config = s.withPictures(c.class, config)
	}
	s.file("config.json", config)
	s.weights()
	s.bytesOnly(randommodel.Vocab)
	got, file := converted(t, s.dir, Options{Type: "f32"})
	if len(got.Tensors) != len(want.Tensors) {
		t.Errorf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for _, w := range want.Tensors {
		g, ok := got.Tensor(w.Name)
		if !ok || g.Type != w.Type || !slices.Equal(g.Dims, w.Dims) {
			t.Errorf("%s: %v %v, want %v %v", w.Name, g.Type, g.Dims, w.Type, w.Dims)
			continue
		}
		if bytes.Equal(rawBytes(t, got, g), rawBytes(t, want, w)) {
			continue
		}
		if w.Type != gguf.F32 {
			t.Errorf("%s: other bytes", w.Name)
			continue
		}
		a, b := floats(t, got, g), floats(t, want, w)
		for i := range a {
			if a[i] != b[i] && !(c.lessOne && math.Abs(float64(a[i]-b[i])) < 1e-6) {
				t.Errorf("%s: element %d is %v, want %v", w.Name, i, a[i], b[i])
				break
			}
		}
	}
	for _, kv := range want.KVs {
		if g, _ := got.Value(kv.Key); fmt.Sprint(g) != fmt.Sprint(kv.Value) {
			t.Errorf("%s = %v, want %v", kv.Key, g, kv.Value)
		}
	}
	eos, err := got.Uint32("tokenizer.ggml.eos_token_id")
	if config["vision_config"] != nil && (err != nil || eos != 65) {
		t.Errorf("eos_token_id of both parts: %d, %v", eos, err)
	}
	runs(t, file)
}

// withPictures makes a model one that reads pictures too, with such tensors and the object for texts in config.json.
func (s *source) withPictures(class string, config map[string]any) map[string]any {
	from, to, more := "model.", "model.language_model.", "model.visual.patch.weight"
	if class == "Mistral3ForConditionalGeneration" {
		from, to, more = "", "language_model.", "vision_tower.patch.weight"
	}
	if class == "Gemma3ForConditionalGeneration" {
		from, to, more = "", "language_model.", "vision_tower.patch.weight"
		config["query_pre_attn_scalar"] = randommodel.Dim
		config["rope_scaling"] = map[string]any{"rope_type": "linear", "factor": 4}
		for _, byDefault := range []string{"hidden_act", "hidden_activation", "rms_norm_eps"} {
			delete(config, byDefault)
		}
	}
	for name, shape := range maps.Clone(s.tensors) {
		if !strings.HasPrefix(name, from) {
			continue // the output matrix
		}
		delete(s.tensors, name)
		renamed := to + strings.TrimPrefix(name, from)
		s.tensors[renamed], s.values[renamed] = shape, s.values[name]
	}
	s.tensors[more] = []int{3, 4, 5}
	return map[string]any{"architectures": []string{class}, "text_config": config, "image_token_index": 9,
		"image_token_id": 9, "eos_token_id": 65, "vision_config": map[string]any{"hidden_size": 3}}
}

// bytesOnly writes a tokenizer of n single bytes.
func (s *source) bytesOnly(n int) {
	vocab := map[string]int{}
	for b := range n {
		vocab[string(byteCharacter(b))] = b
	}
	s.file("tokenizer.json", map[string]any{
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{}}})
}

// TestTypesOfExperts: experts have the type that is asked for, and what chooses them stays float32.
func TestTypesOfExperts(t *testing.T) {
	c := drawnCases()[1]
	s, f := c.publishedModel(t)
	s.file("config.json", c.configOf(t, f))
	s.weights()
	s.bytesOnly(randommodel.Vocab)
	got, _ := converted(t, s.dir, Options{Type: "q8_0"})
	for name, want := range map[string]string{"ffn_gate_inp": "F32", "ffn_gate_inp_shexp": "F32", "ffn_gate_exps": "Q8_0",
		"ffn_down_exps": "Q8_0", "ffn_up_shexp": "Q8_0"} {
		if x, _ := got.Tensor("blk.0." + name + ".weight"); x.Type.String() != want {
			t.Errorf("%s is %v, want %s", name, x.Type, want)
		}
	}
}

// TestAdapterOfColumns: an adapter of a matrix whose columns move has its own moved alike.
func TestAdapterOfColumns(t *testing.T) {
	c := drawnCase{class: "Qwen3_5ForCausalLM", recipe: "qwen35", names: qwen35Names, config: qwen35Config}
	base, f := c.publishedModel(t)
	base.file("config.json", c.configOf(t, f))
	const rank, inner = 2, randommodel.State * randommodel.DeltaHeads
	want := make([]float32, rank*inner)
	for i := range want {
		want[i] = float32(i)
	}
	name := "base_model.model.model.layers.0.linear_attn.out_proj"
	s := &source{t: t, dir: t.TempDir(), tensors: map[string][]int{name + ".lora_A.weight": {rank, inner},
		name + ".lora_B.weight": {randommodel.Width, rank}},
		values: map[string]func(int) float32{name + ".lora_A.weight": recipesDelta.grouped("ssm_out.", want, rank, inner)}}
	s.file(AdapterConfig, map[string]any{"peft_type": "LORA", "r": rank, "lora_alpha": 4, "bias": "none"})
	s.weights()
	s.adapterWeights()
	m, err := OpenAdapter(s.dir, base.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var b bytes.Buffer
	if err := m.Write(t.Context(), &b, Options{Type: "f32"}); err != nil {
		t.Fatal(err)
	}
	got, err := gguf.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), "adapter")
	if err != nil {
		t.Fatal(err)
	}
	if x, ok := got.Tensor("blk.0.ssm_out.weight.lora_a"); !ok || !slices.Equal(floats(t, got, x), want) {
		t.Errorf("%v: the columns are not those of the matrix", x)
	}
}

func TestExpertsRefused(t *testing.T) {
	for _, c := range drawnCases()[:4] {
		s, f := c.publishedModel(t)
		s.weights()
		s.bytesOnly(randommodel.Vocab)
		for key, v := range map[string]any{"num_experts_per_tok": 7, "norm_topk_prob": c.class != "Qwen3MoeForCausalLM",
			"decoder_sparse_step": 2, "mlp_only_layers": []int{1}, "num_experts": 5, "num_local_experts": 1 << 20,
			"clip_qkv": 8.0} {
			config := c.configOf(t, f)
			if _, has := config[key]; !has {
				continue
			}
			config[key] = v
			s.file("config.json", config)
			name := key
			if key == "num_experts" { // too few
				name = "mlp.gate.weight: shape [6 64]"
			}
			s.refused(c.class+", "+key, []string{name})
		}
	}
}
