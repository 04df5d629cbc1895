package convert

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/tensor"
)

// laidOut is a drawn case whose tensors are laid out in other ways than Llama's.
type laidOut struct {
	drawnCase
	name  string                      // of the test
	made  randommodel.Recipe          // where Arch is not "", in the place of the recipe by its name
	edit  func(r *randommodel.Recipe) // makes of the recipe one that the class can say
	file  func(t *testing.T, f *gguf.File) *gguf.File
	write func(t *testing.T, f *gguf.File, s *source, x gguf.Tensor, name string) bool
}

// model writes the drawn file in the layout of the class.
func (c laidOut) model(t *testing.T) (s *source, want *gguf.File) {
	t.Helper()
	r := c.made
	if r.Arch == "" {
		r = randommodel.Recipes()[c.recipe]
	}
	r.Keys = maps.Clone(r.Keys)
	if c.edit != nil {
		c.edit(&r)
	}
	want = openedFile(t, r.File(t))
	if c.file != nil {
		want = c.file(t, want)
	}
	var own func(s *source, x gguf.Tensor, name string) bool
	if c.write != nil {
		own = func(s *source, x gguf.Tensor, name string) bool { return c.write(t, want, s, x, name) }
	}
	return c.published(t, r, want, own), want
}

// rewritten is f with other tensors in the place of those of their names.
func rewritten(t *testing.T, f *gguf.File, others ...gguf.TensorSource) *gguf.File {
	t.Helper()
	var list []gguf.TensorSource
	for _, x := range f.Tensors {
		if i := slices.IndexFunc(others, func(o gguf.TensorSource) bool { return o.Name == x.Name }); i >= 0 {
			list = append(list, others[i])
			continue
		}
		raw := rawBytes(t, f, x)
		list = append(list, gguf.TensorSource{Name: x.Name, Type: x.Type, Dims: x.Dims, Write: func(w io.Writer) error {
			_, err := w.Write(raw)
			return err
		}})
	}
	var b bytes.Buffer
	if err := gguf.Write(&b, f.KVs, list); err != nil {
		t.Fatal(err)
	}
	return openedFile(t, b.Bytes())
}

// tensorOf is a tensor of a drawn file that is there.
func tensorOf(t *testing.T, f *gguf.File, name string) gguf.Tensor {
	t.Helper()
	x, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	return x
}

// fourBits makes experts of MXFP4, of any codes and scales that occur.
func fourBits(t *testing.T, f *gguf.File) *gguf.File {
	rng := rand.New(rand.NewPCG(1, 2))
	var others []gguf.TensorSource
	for _, x := range f.Tensors {
		if !strings.HasSuffix(x.Name, "_exps.weight") {
			continue
		}
		raw := make([]byte, x.Elements()/32*17)
		for i := range raw {
			if raw[i] = byte(rng.IntN(256)); i%17 == 0 {
				raw[i] = byte(118 + rng.IntN(8))
			}
		}
		others = append(others, gguf.TensorSource{Name: x.Name, Type: gguf.MXFP4, Dims: x.Dims,
			Write: func(w io.Writer) error {
				_, err := w.Write(raw)
				return err
			}})
	}
	return rewritten(t, f, others...)
}

// gptOSSExperts writes experts as gpt-oss publishes them, or as they are saved after training. Gates and what they
// multiply alternate.
func gptOSSExperts(t *testing.T, f *gguf.File, s *source, x gguf.Tensor, name string) bool {
	of, ending, is := strings.Cut(name, "_exps.")
	block, part, _ := strings.Cut(of, "ffn_")
	if !is {
		return false
	}
	if part == "up" {
		return true // with the gate
	}
	both := []gguf.Tensor{x}
	to := block + "mlp.experts.down_proj"
	if part == "gate" {
		both = append(both, tensorOf(t, f, strings.Replace(x.Name, "_gate_", "_up_", 1)))
		to = block + "mlp.experts.gate_up_proj"
	}
	cols, n := int(x.Dims[0]), len(both)
	if ending == "bias" {
		shape := []int{int(x.Dims[1]), n * cols}
		s.tensors[to+"_bias"], s.values[to+"_bias"] = shape, func(i int) float32 {
			expert, at := i/(n*cols), i%(n*cols)
			return floats(t, f, both[at%n])[expert*cols+at/n]
		}
		return true
	}
	rows, experts := int(x.Dims[1]), int(x.Dims[2])
	if x.Type != gguf.MXFP4 {
		values := [][]float32{floats(t, f, both[0]), floats(t, f, both[n-1])}
		s.tensors[to], s.values[to] = []int{experts, cols, n * rows}, func(i int) float32 {
			expert, col, row := i/(n*rows*cols), i/(n*rows)%cols, i%(n*rows)
			return values[row%n][(expert*rows+row/n)*cols+col]
		}
		return true
	}
	var codes, scales []byte
	for expert := range experts {
		for row := range n * rows {
			raw := rawBytes(t, f, both[row%n])[(expert*rows+row/n)*cols/32*17:][:cols/32*17]
			for ; len(raw) > 0; raw = raw[17:] {
				scales = append(scales, raw[0])
				weights := make([]byte, 32)
				for i, b := range raw[1:17] {
					weights[i], weights[16+i] = b&15, b>>4
				}
				for i := 0; i < 32; i += 2 {
					codes = append(codes, weights[i]+16*weights[i+1])
				}
			}
		}
	}
	if s.raw == nil {
		s.raw = map[string]rawTensor{}
	}
	s.raw[to+"_blocks"] = rawTensor{"U8", []int{experts, n * rows, cols / 32, 16}, codes}
	s.raw[to+"_scales"] = rawTensor{"U8", []int{experts, n * rows, cols / 32}, scales}
	return true
}

// withoutFactors leaves out the factors of frequencies, which config.json says.
func withoutFactors(_ *testing.T, _ *gguf.File, _ *source, x gguf.Tensor, _ string) bool {
	return x.Name == "rope_freqs.weight"
}

// gemma4Layout writes experts and the scalars of layers as Gemma 4 has them, and leaves out what config.json says.
func gemma4Layout(t *testing.T, f *gguf.File, s *source, x gguf.Tensor, name string) bool {
	if len(x.Dims) != 3 {
		return withoutFactors(t, f, s, x, name)
	}
	values := floats(t, f, x)
	s.tensors[name] = []int{int(x.Dims[2]), int(x.Dims[1]), int(x.Dims[0])}
	s.values[name] = func(i int) float32 { return values[i] }
	return true
}

// quarterTurned has the factors of heads of 32 numbers of which a quarter is turned.
func quarterTurned(t *testing.T, f *gguf.File) *gguf.File {
	factors := slices.Repeat([]float32{1e30}, randommodel.Dim)
	copy(factors, []float32{1, 1, 1, 1})
	return rewritten(t, f, randommodel.Encoded("rope_freqs.weight", gguf.F32, factors, []uint64{randommodel.Dim}))
}

// falconGroups writes q, k and v as Falcon has them: some heads of q, then one of k and one of v.
func falconGroups(t *testing.T, f *gguf.File, s *source, x gguf.Tensor, name string) bool {
	if !strings.HasSuffix(x.Name, "attn_qkv.weight") {
		return false
	}
	const d = randommodel.Dim
	values, cols, kv := floats(t, f, x), int(x.Dims[0]), int(x.Dims[1])/2/d-randommodel.Heads/2
	var heads []int // of the file, in the source's order
	for g := range kv {
		for q := range randommodel.Heads / kv {
			heads = append(heads, g*randommodel.Heads/kv+q)
		}
		heads = append(heads, randommodel.Heads+g, randommodel.Heads+kv+g)
	}
	s.tensors[name] = []int{int(x.Dims[1]), cols}
	s.values[name] = func(i int) float32 { return values[(heads[i/cols/d]*d+i/cols%d)*cols+i%cols] }
	return true
}

// normsOfHeads writes norms that each head has weights of as tensors of one head each.
func normsOfHeads(t *testing.T, f *gguf.File, s *source, x gguf.Tensor, name string) bool {
	if !strings.Contains(x.Name, "_norm.") || len(x.Dims) != 2 {
		return false
	}
	values, n := floats(t, f, x), int(x.Dims[0])
	for h := range int(x.Dims[1]) {
		one := strings.Replace(strings.Replace(name, "_norm.", "_layernorm.norms.%d.", 1), "%d", fmt.Sprint(h), 1)
		s.tensors[one], s.values[one] = []int{n}, func(i int) float32 { return values[h*n+i] }
	}
	return true
}

// laidOutCases: what a class has of its own.
func laidOutCases() []laidOut {
	yarn := func(more map[string]any) map[string]any {
		return with(map[string]any{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 20,
			"rope_theta": 50}, more)
	}
	windows := func(pattern string) (types []string) {
		for _, c := range pattern {
			types = append(types, map[rune]string{'s': "sliding_attention", 'f': "full_attention"}[c])
		}
		return types
	}
	oss := drawnCase{"GptOssForCausalLM", "gpt-oss", []string{"post_attention_norm.", "post_attention_layernorm.",
		"attn_sinks.weight", "self_attn.sinks", "ffn_gate_inp.", "mlp.router.", "ffn_gate_exps.", "ffn_gate_exps.",
		"ffn_up_exps.", "ffn_up_exps.", "ffn_down_exps.", "ffn_down_exps."}, false, false, map[string]any{
		"num_local_experts": randommodel.Experts, "num_experts_per_tok": 3, "experts_per_token": 3,
		"moe_intermediate_size": nil, "rope_theta": nil, "rope_parameters": yarn(map[string]any{"truncate": false}),
		"layer_types": windows("sfsf"), "swiglu_limit": 7.0, "initial_context_length": 4096, "attention_bias": true,
		"router_aux_loss_coef": 0.9, "output_router_logits": false}}
	narrow := func(r *randommodel.Recipe) { r.Keys["feed_forward_length"] = uint32(32) }
	four := oss
	four.config = with(oss.config, map[string]any{"quantization_config": map[string]any{"quant_method": "mxfp4",
		"modules_to_not_convert": []string{"lm_head"}}})

	gemma := drawnCase{"Gemma4ForCausalLM", "gemma4", []string{"per_layer_token_embd.", "model.embed_tokens_per_layer.",
		"per_layer_model_proj.", "model.per_layer_model_projection.", "per_layer_proj_norm.",
		"model.per_layer_projection_norm.", "post_attention_norm.", "post_attention_layernorm.",
		"pre_ffw_norm_2.", "pre_feedforward_layernorm_2.", "post_ffw_norm_1.", "post_feedforward_layernorm_1.",
		"post_ffw_norm_2.", "post_feedforward_layernorm_2.",
		"post_ffw_norm.", "post_feedforward_layernorm.", "ffn_norm.", "pre_feedforward_layernorm.",
		"layer_output_scale.weight", "layer_scalar", "inp_gate.", "per_layer_input_gate.", "proj.", "per_layer_projection.",
		"post_norm.", "post_per_layer_input_norm.", "ffn_gate_inp.scale", "router.scale", "ffn_gate_inp.", "router.proj.",
		"ffn_down_exps.scale", "router.per_expert_scale", "ffn_gate_up_exps.weight", "experts.gate_up_proj",
		"ffn_down_exps.weight", "experts.down_proj"}, false, false, map[string]any{
		"hidden_act": nil, "hidden_activation": "gelu_pytorch_tanh", "num_key_value_heads": 2,
		"num_global_key_value_heads": 1, "attention_k_eq_v": true, "head_dim": randommodel.Dim,
		"global_head_dim": 2 * randommodel.Dim, "intermediate_size": randommodel.Inner, "num_kv_shared_layers": 2,
		"use_double_wide_mlp": true, "hidden_size_per_layer_input": randommodel.LayerInput,
		"vocab_size_per_layer_input": randommodel.Vocab, "layer_types": windows("sssfsf"), "rope_theta": nil,
		"rope_parameters": map[string]any{"full_attention": map[string]any{"rope_type": "proportional",
			"partial_rotary_factor": 0.25, "rope_theta": 1e5},
			"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 500}},
		"rope_local_base_freq": nil, "final_logit_softcapping": 3, "attention_bias": false, "enable_moe_block": false,
		"num_experts":   nil,
		"top_k_experts": nil, "use_bidirectional_attention": "vision", "tie_word_embeddings": true}}
	routed := gemma
	routed.class, routed.recipe = "Gemma4ForConditionalGeneration", "gemma4 experts"
	routed.config = with(gemma.config, map[string]any{"use_double_wide_mlp": false, "hidden_size_per_layer_input": 0,
		"enable_moe_block": true, "num_experts": randommodel.Experts, "top_k_experts": 3})

	ministral := map[string]any{"rope_theta": nil, "rope_parameters": yarn(map[string]any{"type": "yarn",
		"beta_fast": 3, "beta_slow": 0.5, "mscale": 1.0, "mscale_all_dim": 0.3, "llama_4_scaling_beta": 0.5}),
		"sliding_window": nil}
	stable := map[string]any{"partial_rotary_factor": 0.25, "use_qkv_bias": true, "qk_layernorm": false,
		"use_parallel_residual": false, "hidden_dropout": 0.0, "rotary_scaling_factor": 1.0, "use_norm_bias": false}
	bird := []string{"token_embd.", "transformer.word_embeddings.", "blk.", "transformer.h.", "output_norm.",
		"transformer.ln_f.", "attn_norm_2.", "ln_attn.", "attn_qkv.", "self_attention.query_key_value.",
		"attn_output.", "self_attention.dense.", "ffn_up.", "mlp.dense_h_to_4h.", "ffn_down.", "mlp.dense_4h_to_h."}
	falconConfig := map[string]any{"hidden_act": nil, "intermediate_size": nil, "layer_norm_eps": nil,
		"num_key_value_heads": nil, "layer_norm_epsilon": 1e-5, "ffn_hidden_size": randommodel.Inner, "alibi": false,
		"bias": false, "multi_query": true, "parallel_attn": true, "activation": "gelu", "num_kv_heads": 4,
		"new_decoder_architecture": false, "apply_residual_connection_post_layernorm": false,
		"tie_word_embeddings": true}
	newer := with(falconConfig, map[string]any{"new_decoder_architecture": true, "num_kv_heads": 2,
		"tie_word_embeddings": false})
	post := []string{"post_attention_norm.", "post_attention_layernorm."}
	exaone := append([]string{"post_ffw_norm.", "post_feedforward_layernorm."}, post...)
	return []laidOut{
		{drawnCase: oss, name: "gpt-oss", edit: narrow, write: gptOSSExperts},
		{drawnCase: four, name: "gpt-oss, MXFP4", edit: narrow, file: fourBits, write: gptOSSExperts},
		{drawnCase: gemma, name: "gemma4", file: quarterTurned, write: gemma4Layout, edit: func(r *randommodel.Recipe) {
			r.Keys["feed_forward_length"] = []uint32{96, 96, 96, 96, 192, 192}
			r.Keys["rope.freq_base_swa"], r.Keys["rope.dimension_count"] = float32(500), uint32(2*randommodel.Dim)
		}},
		{drawnCase: routed, name: "gemma4, experts", file: quarterTurned, write: gemma4Layout,
			edit: func(r *randommodel.Recipe) {
				r.Keys["feed_forward_length"], r.Keys["rope.freq_base_swa"] = uint32(96), float32(500)
			}},
		{drawnCase: drawnCase{"Ministral3ForCausalLM", "mistral3", nil, true, false, ministral}, name: "ministral3"},
		{drawnCase: drawnCase{"Mistral3ForConditionalGeneration", "mistral3", nil, true, false, ministral},
			name: "mistral3"},
		{drawnCase: drawnCase{"StableLmForCausalLM", "stablelm", nil, false, false, stable}, name: "stablelm"},
		{drawnCase: drawnCase{"StableLmForCausalLM", "stablelm parallel", nil, false, false, with(stable, map[string]any{
			"partial_rotary_factor": 1, "use_qkv_bias": false, "qk_layernorm": true, "use_parallel_residual": true})},
			name: "stablelm, parallel", write: normsOfHeads},
		{drawnCase: drawnCase{"Starcoder2ForCausalLM", "starcoder2", []string{"ffn_up.", "mlp.c_fc.", "ffn_down.",
			"mlp.c_proj."}, false, false, map[string]any{"layer_norm_eps": nil, "norm_epsilon": 1e-5, "use_bias": true,
			"hidden_act": "gelu_pytorch_tanh", "mlp_type": "default", "norm_type": "layer_norm", "embedding_dropout": 0.1,
			"residual_dropout": 0.1, "sliding_window": 4096, "tie_word_embeddings": nil}}, name: "starcoder2"},
		{drawnCase: drawnCase{"PhiForCausalLM", "phi2", []string{"attn_output.", "self_attn.dense.", "ffn_up.", "mlp.fc1.",
			"ffn_down.", "mlp.fc2.", "output_norm.", "model.final_layernorm."}, false, false, map[string]any{
			"hidden_act": "gelu_new", "partial_rotary_factor": 0.5, "qk_layernorm": false}}, name: "phi2",
			edit: func(r *randommodel.Recipe) { r.Parts = strings.Replace(r.Parts, "fused ", "", 1) }},
		{drawnCase: drawnCase{"FalconForCausalLM", "falcon", append([]string{"attn_norm.", "input_layernorm."}, bird...),
			false, false, falconConfig}, name: "falcon", write: falconGroups},
		{drawnCase: drawnCase{"FalconForCausalLM", "falcon two norms", append([]string{"attn_norm.", "ln_mlp."}, bird...),
			false, false, newer}, name: "falcon, two norms", write: falconGroups},
		{drawnCase: drawnCase{"SeedOssForCausalLM", "", post, false, false, map[string]any{"attention_bias": true,
			"attention_out_bias": false, "residual_dropout": 0.1, "head_dim": randommodel.Dim,
			"rope_scaling": map[string]any{"rope_type": "default"}}}, name: "seed_oss",
			made: randommodel.Recipe{Arch: "seed_oss", Parts: "gate qkvbias ffnpost untied"}},
		{drawnCase: drawnCase{"Exaone4ForCausalLM", "exaone4", exaone, false, false, map[string]any{
			"layer_types": windows("ffff"), "sliding_window": nil, "sliding_window_pattern": nil,
			"tie_word_embeddings": true}}, name: "exaone4",
			edit: func(r *randommodel.Recipe) { r.Parts = strings.Replace(r.Parts, " factors", "", 1) }},
		{drawnCase: drawnCase{"Exaone4ForCausalLM", "exaone4", exaone, false, false, map[string]any{
			"layer_types": windows(strings.Repeat("sssf", 16)), "sliding_window_pattern": "LLLG",
			"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0,
				"high_freq_factor": 4.0, "original_max_position_embeddings": 64}, "tie_word_embeddings": true}},
			name: "exaone4, windows", write: withoutFactors,
			edit: func(r *randommodel.Recipe) {
				r.Layers, r.Keys = 64, map[string]gguf.Value{"attention.sliding_window": uint32(9),
					"attention.sliding_window_pattern": slices.Repeat([]bool{true, true, true, false}, 16)}
			},
			file: func(t *testing.T, f *gguf.File) *gguf.File {
				const d = randommodel.Dim
				return rewritten(t, f, randommodel.Encoded("rope_freqs.weight", gguf.F32,
					llama3Factors(d, 10000, 16, 1, 4, 64), []uint64{d / 2}))
			}},
	}
}

// TestLaidOutModels: models in the layout of their class become the drawn files that they were, as TestDrawnModels.
func TestLaidOutModels(t *testing.T) {
	for _, c := range laidOutCases() {
		t.Run(c.name, func(t *testing.T) {
			s, want := c.model(t)
			c.becomes(t, s, want)
		})
	}
}

// laidOutCase is the case of that name.
func laidOutCase(t *testing.T, name string) laidOut {
	t.Helper()
	list := laidOutCases()
	i := slices.IndexFunc(list, func(c laidOut) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("no case %s", name)
	}
	return list[i]
}

// inside is a copy of a config.json with another value of a member, of an object inside where its name has a dot.
func inside(config map[string]any, key string, v any) map[string]any {
	config = maps.Clone(config)
	if object, member, is := strings.Cut(key, "."); is {
		in, _ := config[object].(map[string]any)
		config[object] = inside(in, member, v)
	} else {
		config[key] = v
	}
	return config
}

// TestLaidOutRefused: members of config.json that GGUF's architecture has no word for are refused by their names.
func TestLaidOutRefused(t *testing.T) {
	for name, members := range map[string]map[string]any{
		"gpt-oss": {"swiglu_limit": 5.0, "experts_per_token": 2, "num_experts_per_tok": 7, "rope_parameters": nil,
			"layer_types": []string{"full_attention"}, "rope_parameters.rope_type": "dynamic", "hidden_act": "gelu",
			"quantization_config": map[string]any{"quant_method": "gptq"}, "num_local_experts": 1 << 20,
			"sliding_window": nil},
		"gemma4": {"hidden_activation": "silu", "attention_bias": true, "use_bidirectional_attention": "all",
			"vocab_size_per_layer_input": 3, "num_kv_shared_layers": 6, "hidden_size_per_layer_input": -1,
			"layer_types": []string{"full_attention"}, "rope_parameters": nil, "num_attention_heads": 3,
			"rope_parameters.full_attention":    map[string]any{"rope_type": "default", "rope_theta": 3},
			"rope_parameters.sliding_attention": map[string]any{"rope_type": "linear", "rope_theta": 3}, "head_dim": 17,
			"rope_parameters.chunked_attention": map[string]any{"rope_theta": 3}},
		"gemma4, experts": {"top_k_experts": 7, "num_experts": 1 << 20, "moe_intermediate_size": nil},
		"ministral3": {"rope_parameters.mscale": 0.5, "rope_parameters.mscale_all_dim": nil,
			"rope_parameters.beta": 3, "use_sliding_window": true},
		"mistral3": {"quantization_config": map[string]any{"quant_method": "awq"}},
		"stablelm": {"hidden_act": "gelu", "partial_rotary_factor": 1.5, "rotary_scaling_factor": 2.0,
			"rope_scaling": map[string]any{"type": "dynamic"}},
		"starcoder2":        {"mlp_type": "gated", "norm_type": "rms_norm", "hidden_act": "silu"},
		"phi2":              {"qk_layernorm": true, "hidden_act": "silu"},
		"falcon":            {"alibi": true, "bias": true, "parallel_attn": false, "activation": "relu", "ff_factor": 7},
		"falcon, two norms": {"num_ln_in_parallel_attn": 3, "num_kv_heads": 3},
		"seed_oss":          {"hidden_act": "gelu", "layer_types": []string{"sliding_attention"}},
		"exaone4":           {"sliding_window": 4096, "layer_types": []string{"sliding_attention"}},
		"exaone4, windows": {"sliding_window": nil, "sliding_window_pattern": "LG", "layer_types": slices.Repeat(
			[]string{"full_attention"}, 64)},
		"stablelm, parallel": {"qkv_norm": true},
	} {
		c := laidOutCase(t, name)
		s, f := c.model(t)
		s.weights()
		s.bytesOnly(randommodel.Vocab)
		for key, v := range members {
			config := inside(c.configOf(t, f), key, v)
			switch c.class {
			case "Gemma4ForConditionalGeneration":
				config["architectures"] = []string{"Gemma4ForCausalLM"}
			case "Mistral3ForConditionalGeneration": // what is said of both parts stands outside
				config = map[string]any{"architectures": []string{c.class}, "text_config": config, key: v}
			}
			s.file("config.json", config)
			named := strings.TrimPrefix(key, "rope_parameters.")
			if v == nil && key == "rope_parameters" {
				named = "rope_"
			}
			s.refused(fmt.Sprintf("%s, %s %v", name, key, v), []string{"config.json", named})
		}
	}
}

// TestExpertsAreCounted: rows of all experts that no number of 32 bits counts are refused before they are multiplied.
func TestExpertsAreCounted(t *testing.T) {
	for name, key := range map[string]string{"gpt-oss": "num_local_experts", "gemma4, experts": "num_experts"} {
		c := laidOutCase(t, name)
		s, f := c.model(t)
		s.weights()
		config := c.configOf(t, f)
		config["architectures"] = []string{strings.Replace(c.class, "ConditionalGeneration", "CausalLM", 1)}
		config[key], config["hidden_size"] = 10000, largest
		s.file("config.json", config)
		s.refused(name, []string{"hidden_size", "10000 experts"})
	}
}

// TestLengthOfSharperAttention: attention that gets sharper with the position goes by a length that YaRN has.
func TestLengthOfSharperAttention(t *testing.T) {
	c := laidOutCase(t, "ministral3")
	s, f := c.model(t)
	s.weights()
	s.bytesOnly(randommodel.Vocab)
	s.file("config.json", inside(c.configOf(t, f), "rope_parameters", map[string]any{"rope_type": "default",
		"rope_theta": 50, "llama_4_scaling_beta": 0.1}))
	s.refused("without YaRN", []string{"rope_parameters.llama_4_scaling_beta", "YaRN"})
}

// TestLaidOutTensors: tensors that a class may have and that nothing is computed with are left out; one that is not
// known is refused, and so is one that config.json promises.
func TestLaidOutTensors(t *testing.T) {
	c := laidOutCase(t, "gemma4")
	s, want := c.model(t)
	for i := range 2 { // keys and values of layers that use others'
		of := fmt.Sprintf("model.layers.%d.self_attn.", 4+i)
		s.tensors[of+"k_proj.weight"], s.tensors[of+"v_proj.weight"] = []int{32, 64}, []int{32, 64}
		s.tensors[of+"k_norm.weight"] = []int{16}
	}
	for _, name := range []string{"vision_tower.patch.weight", "audio_tower.layers.0.weight", "embed_vision.weight",
		"embed_audio.weight"} {
		s.tensors["model."+name] = []int{2, 3}
	}
	c.becomes(t, s, want)
	s.tensors["model.layers.3.self_attn.v_proj.weight"] = []int{32, 64} // the keys are its values
	s.weights()
	s.refused("values beside keys", []string{"model.layers.3.self_attn.v_proj.weight"})

	four := laidOutCase(t, "gpt-oss, MXFP4")
	const gates = "model.layers.0.mlp.experts.gate_up_proj"
	for name, change := range map[string]func(s *source) []string{
		"no scales": func(s *source) []string {
			delete(s.raw, gates+"_scales")
			return []string{gates + "_scales", "missing"}
		},
		"floats": func(s *source) []string {
			x := s.raw[gates+"_scales"]
			x.dtype = "F8_E8M0"
			s.raw[gates+"_scales"] = x
			return []string{gates + "_scales", "F8_E8M0"}
		},
		"another shape": func(s *source) []string {
			x := s.raw[gates+"_blocks"]
			x.shape = append(slices.Clone(x.shape[:2]), x.shape[3], x.shape[2])
			s.raw[gates+"_blocks"] = x
			return []string{gates + "_blocks", "[6 64 16 2]", "[6 64 2 16]"}
		},
		"both": func(s *source) []string {
			s.tensors[gates] = []int{6, 64, 64}
			return []string{gates}
		},
	} {
		s, f := four.model(t)
		want := change(s)
		s.file("config.json", four.configOf(t, f))
		s.weights()
		s.bytesOnly(randommodel.Vocab)
		s.refused(name, want)
	}
	s, f := four.model(t)
	s.raw[gates+"_scales"].raw[100] = 255
	s.file("config.json", four.configOf(t, f))
	s.weights()
	s.bytesOnly(randommodel.Vocab)
	m, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = m.Write(t.Context(), io.Discard, Options{})
	if err == nil || !strings.Contains(err.Error(), "expert 0, row 50") {
		t.Errorf("a scale that is not a number: %v", err)
	}
}

// TestStacksReadWhole: experts of a tensor whose elements are not in order are read together, and found where they are.
func TestStacksReadWhole(t *testing.T) {
	const experts, rows, cols = 3, 2, 4
	b := &builder{weights: &weights{}, used: map[string]bool{}}
	b.everySecond(2, 1, target{name: "up", from: "both", rows: rows, cols: cols, stack: experts})
	x := make([]float32, experts*cols*2*rows)
	for i := range x {
		x[i] = float32(i)
	}
	var whole, parts bytes.Buffer
	one := b.targets[0]
	if err := one.rowsOf(t.Context(), &whole, x, tensor.F32); err != nil {
		t.Fatal(err)
	}
	one.rows /= experts
	for k := range experts {
		if err := one.rowsOf(t.Context(), &parts, x[k*cols*2*rows:][:cols*2*rows], tensor.F32); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(whole.Bytes(), parts.Bytes()) {
		t.Error("together they are other numbers than one by one")
	}
}

// TestFourBitsStay: experts of MXFP4 stay what they are whatever type is asked for, which the others have.
func TestFourBitsStay(t *testing.T) {
	c := laidOutCase(t, "gpt-oss, MXFP4")
	s, want := c.model(t)
	s.file("config.json", c.configOf(t, want))
	s.weights()
	s.bytesOnly(randommodel.Vocab)
	for _, typ := range []string{"f16", "bf16", "q8_0", "q4_k"} {
		got, _ := converted(t, s.dir, Options{Type: typ})
		const name = "blk.1.ffn_up_exps.weight"
		if x := tensorOf(t, got, name); x.Type != gguf.MXFP4 ||
			!bytes.Equal(rawBytes(t, got, x), rawBytes(t, want, tensorOf(t, want, name))) {
			t.Errorf("%s: %v", typ, x.Type)
		}
		if x := tensorOf(t, got, "blk.1.attn_q.weight"); typ != "q4_k" && !strings.EqualFold(x.Type.String(), typ) {
			t.Errorf("attention is %v, want %s", x.Type, typ)
		}
		if n, err := got.Uint32("general.file_type"); n != 38 || err != nil {
			t.Errorf("%s: file type %d, %v", typ, n, err)
		}
	}
}

// TestLongLaidOutHostile: whatever number or kind a member of config.json is, a folder is converted or refused, each of
// which is tried for each member.
func TestLongLaidOutHostile(t *testing.T) {
	testkit.Long(t)
	for _, c := range laidOutCases() {
		s, f := c.model(t)
		config := c.configOf(t, f)
		s.weights()
		s.bytesOnly(randommodel.Vocab)
		for key := range config {
			for _, v := range []any{nil, -1, 0, 0.5, 1, 3, 1 << 24, 1 << 25, 1e300, "x", []int{}, []string{"x"}, true,
				map[string]any{}} {
				s.file("config.json", inside(config, key, v))
				if m, err := Open(s.dir); err == nil {
					m.Close()
				}
			}
		}
	}
}
