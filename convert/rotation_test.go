package convert

import (
	"maps"
	"math"
	"testing"

	"github.com/specgo/spec/gguf"
)

// gemma3Source is a Gemma 3 of one block with a window.
func gemma3Source(t *testing.T) (*source, map[string]any) {
	s, config := llamaSource(t, "Gemma3ForCausalLM")
	delete(s.tensors, "lm_head.weight")
	for _, name := range []string{"pre_feedforward_layernorm", "post_feedforward_layernorm"} {
		s.tensors["model.layers.0."+name+".weight"] = []int{8}
	}
	for _, name := range []string{"q_norm", "k_norm"} {
		s.tensors["model.layers.0.self_attn."+name+".weight"] = []int{4}
	}
	delete(config, "hidden_act")
	maps.Copy(config, map[string]any{"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 16, "head_dim": 4,
		"query_pre_attn_scalar": 4, "layer_types": []string{"sliding_attention"}, "tie_word_embeddings": true})
	return s, config
}

// phi3Source is a Phi-3 of one block.
func phi3Source(t *testing.T) (*source, map[string]any) {
	s, config := llamaSource(t, "Phi3ForCausalLM")
	const block = "model.layers.0."
	for _, name := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj",
		"mlp.up_proj"} {
		delete(s.tensors, block+name+".weight")
	}
	s.tensors[block+"self_attn.qkv_proj.weight"], s.tensors[block+"mlp.gate_up_proj.weight"] = []int{16, 8}, []int{12, 8}
	return s, config
}

// olmo3Source is OLMo 3 in the layout of its class.
func olmo3Source(t *testing.T) (*source, map[string]any) {
	s, config, _ := layoutOf(t, "Olmo3ForCausalLM").folder(t)
	return s, config
}

// TestRotation: what config.json says of rotated positions, in its form since transformers 5 and before, and keys that
// change nothing.
func TestRotation(t *testing.T) {
	longrope := map[string]any{"rope_type": "longrope", "long_factor": []float64{2}, "short_factor": []float64{1},
		"original_max_position_embeddings": 16, "rope_theta": 7000.0, "partial_rotary_factor": 0.5}
	for name, c := range map[string]struct {
		source func(t *testing.T) (*source, map[string]any)
		set    map[string]any // nil: without
		want   map[string]gguf.Value
	}{
		"gemma3, by layers": {gemma3Source, map[string]any{"rope_theta": nil, "rope_parameters": map[string]any{
			"full_attention":    map[string]any{"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
			"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 20000.0}}, "sliding_window_size": 16},
			map[string]gguf.Value{"gemma3.rope.freq_base": float32(1e6), "gemma3.rope.freq_base_swa": float32(20000),
				"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": float32(8)}},
		"gemma3": {gemma3Source, map[string]any{"rope_local_base_freq": 300.0, "unsloth_fixed": true},
			map[string]gguf.Value{"gemma3.rope.freq_base": float32(5000), "gemma3.rope.freq_base_swa": float32(300)}},
		"gemma3, not said": {gemma3Source, map[string]any{"rope_theta": nil},
			map[string]gguf.Value{"gemma3.rope.freq_base": float32(1e6), "gemma3.rope.freq_base_swa": float32(10000)}},
		"phi3": {phi3Source, map[string]any{"rope_theta": nil, "rope_parameters": longrope, "lm_head_bias": false,
			"full_attn_mod": 1, "interpolate_factor": 1},
			map[string]gguf.Value{"phi3.rope.freq_base": float32(7000), "phi3.rope.dimension_count": uint32(2),
				"phi3.rope.scaling.original_context_length": uint32(16),
				"phi3.rope.scaling.attn_factor":             float32(math.Sqrt(1.25))}},
		"phi3, its magnitude": {phi3Source, map[string]any{"original_max_position_embeddings": 8,
			"rope_scaling": map[string]any{"type": "longrope", "factor": 4, "attention_factor": 1.25,
				"long_factor": []float64{2, 3}, "short_factor": []float64{1, 1}}},
			map[string]gguf.Value{"phi3.rope.scaling.attn_factor": float32(1.25),
				"phi3.rope.scaling.original_context_length": uint32(8)}},
		"phi3, not scaled": {phi3Source, map[string]any{"rope_parameters": map[string]any{"rope_type": "default",
			"rope_theta": 600.0}}, map[string]gguf.Value{"phi3.rope.freq_base": float32(600),
			"phi3.rope.dimension_count": uint32(4), "phi3.rope.scaling.attn_factor": nil}},
		"olmo3, by layers": {olmo3Source, map[string]any{"rope_theta": nil, "rope_parameters": map[string]any{
			"full_attention": map[string]any{"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64,
				"rope_theta": 5e5, "attention_factor": 1.25},
			"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 5e5}}},
			map[string]gguf.Value{"olmo2.rope.freq_base": float32(5e5), "olmo2.rope.freq_base_swa": nil,
				"olmo2.rope.scaling.type": "yarn", "olmo2.rope.scaling.yarn_attn_factor": float32(1.25)}},
		"yarn": {func(t *testing.T) (*source, map[string]any) { return llamaSource(t, "LlamaForCausalLM") },
			map[string]any{"use_mrope": false, "rope_parameters": map[string]any{"rope_type": "yarn", "factor": 4.0,
				"original_max_position_embeddings": 8, "rope_theta": 900.0, "beta_fast": 16, "beta_slow": 2,
				"attention_factor": 1.5}},
			map[string]gguf.Value{"llama.rope.freq_base": float32(900), "llama.rope.scaling.type": "yarn",
				"llama.rope.scaling.yarn_beta_fast": float32(16), "llama.rope.scaling.yarn_beta_slow": float32(2),
				"llama.rope.scaling.yarn_attn_factor": float32(1.5)}},
	} {
		t.Run(name, func(t *testing.T) {
			s, config := c.source(t)
			maps.Copy(config, c.set)
			s.file("config.json", config)
			s.weights()
			f, raw := converted(t, s.dir, Options{Type: "f32"})
			for key, want := range c.want {
				if got, _ := f.Value(key); got != want {
					t.Errorf("%s is %v, want %v", key, got, want)
				}
			}
			runs(t, raw)
		})
	}
}

// TestRotationRefused: what is not converted is refused by name.
func TestRotationRefused(t *testing.T) {
	local := map[string]any{"full_attention": map[string]any{"rope_type": "default", "rope_theta": 900.0},
		"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 90.0}}
	linear := map[string]any{"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
	for _, c := range []struct {
		class string
		set   map[string]any
		want  string
	}{
		{"Qwen2ForCausalLM", map[string]any{"rope_parameters": local}, "rope_parameters.sliding_attention.rope_type"},
		{"Qwen2ForCausalLM", map[string]any{"use_mrope": true}, "use_mrope"},
		{"Qwen2ForCausalLM", map[string]any{"rope_parameters": linear, "rope_scaling": linear}, "rope_scaling"},
		{"Qwen2ForCausalLM", map[string]any{"rope_parameters": linear}, "rope_parameters.partial_rotary_factor"},
		{"Qwen2ForCausalLM", map[string]any{"rope_scaling": map[string]any{"type": "llama3", "factor": 8.0,
			"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8}},
			"rope_scaling.type: \"llama3\": GGUF's qwen2"},
		{"LlamaForCausalLM", map[string]any{"rope_scaling": map[string]any{"type": "yarn", "factor": 2.0,
			"original_max_position_embeddings": 8, "beta_fast": 0}}, "rope_scaling.beta_fast"},
		{"GPTNeoXForCausalLM", map[string]any{"rope_parameters": linear, "layer_norm_eps": 1e-5},
			"rope_parameters.rope_type"},
		{"GPTNeoXForCausalLM", map[string]any{"rope_parameters": map[string]any{"rope_theta": 1.0, "factor": 2.0},
			"layer_norm_eps": 1e-5}, "rope_parameters.factor"},
		{"Phi3ForCausalLM", map[string]any{"full_attn_mod": 2}, "full_attn_mod"},
		{"Phi3ForCausalLM", map[string]any{"original_max_position_embeddings": 8, "rope_scaling": map[string]any{
			"type": "longrope", "factor": 3, "long_factor": []float64{2, 3}, "short_factor": []float64{1, 1}}},
			"rope_scaling.factor"},
	} {
		s, config := llamaSource(t, c.class)
		maps.Copy(config, c.set)
		s.file("config.json", config)
		s.weights()
		s.refused(c.class, []string{"config.json", c.want})
	}
}

// TestRotationByLayers: OLMo 3's layers with a window have the others' base, without scaling.
func TestRotationByLayers(t *testing.T) {
	s, config := olmo3Source(t)
	for name, local := range map[string]object{"rope_theta": {"rope_type": "default", "rope_theta": 4e5},
		"rope_type": {"rope_type": "linear", "factor": 2, "rope_theta": 5e5}} {
		s.writeConfig(inside(config, "rope_parameters", object{"sliding_attention": local,
			"full_attention": object{"rope_type": "default", "rope_theta": 5e5}}))
		s.refused(name, []string{"rope_parameters.sliding_attention." + name})
	}
}

// TestBasesNotSaid: where config.json does not say the base of rotation it is the class's own, or refused where
// versions of the class differ.
func TestBasesNotSaid(t *testing.T) {
	for class, want := range map[string]float32{"LlamaForCausalLM": 10000, "MixtralForCausalLM": 1e6,
		"Ernie4_5ForCausalLM": 5e5, "Ernie4_5_MoeForCausalLM": 5e5, "Lfm2ForCausalLM": 1e6, "Lfm2MoeForCausalLM": 1e6,
		"ApertusForCausalLM": 12e6, "Qwen3MoeForCausalLM": 10000, "Olmo2ForCausalLM": 10000,
		"Olmo3ForCausalLM": 0, "Qwen3VLForConditionalGeneration": 0, "Qwen3VLMoeForConditionalGeneration": 0,
		"FalconH1ForCausalLM": 0, "BailingMoeV2ForCausalLM": 0} {
		var s *source
		var config object
		if class == "LlamaForCausalLM" {
			s, config = llamaSource(t, class)
			s.weights()
		} else {
			s, config, _ = layoutOf(t, class).folder(t)
		}
		in, parts := config["text_config"].(object)
		if !parts {
			in = config
		}
		delete(in, "rope_theta")
		if s.writeConfig(config); want == 0 {
			s.refused(class, []string{"config.json", "rope_theta", "missing"})
			continue
		}
		f, _ := converted(t, s.dir, Options{Type: "f32"})
		if got, err := f.Float32(architecture(f) + ".rope.freq_base"); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", class, got, err, want)
		}
	}
}
