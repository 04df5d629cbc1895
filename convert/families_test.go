package convert

import (
	"fmt"
	"maps"
	"testing"
)

// block copies the tensors of block 0 to more blocks.
func (s *source) blocks(config map[string]any, n int) {
	config["num_hidden_layers"] = n
	for name, shape := range maps.Clone(s.tensors) {
		var rest string
		if _, err := fmt.Sscanf(name, "model.layers.0.%s", &rest); err != nil {
			continue
		}
		for i := 1; i < n; i++ {
			s.tensors[fmt.Sprintf("model.layers.%d.%s", i, rest)] = shape
		}
	}
}

// TestFamiliesRun: what is converted of each class whose tensors have Llama's names, and of GPT-2, has every tensor and
// key that the engine needs, and none too many.
func TestFamiliesRun(t *testing.T) {
	const layer = "model.layers.0."
	norms := func(s *source, shape int, names ...string) {
		for _, name := range names {
			s.tensors[layer+name+".weight"] = []int{shape}
		}
	}
	for class, change := range map[string]func(s *source, config map[string]any){
		"LlamaForCausalLM": func(s *source, config map[string]any) {
			config["attention_bias"], config["mlp_bias"] = true, true
			for name, rows := range map[string]int{"self_attn.q": 8, "self_attn.k": 4, "self_attn.v": 4, "self_attn.o": 8,
				"mlp.gate": 6, "mlp.up": 6, "mlp.down": 8} {
				s.tensors[layer+name+"_proj.bias"] = []int{rows}
			}
		},
		"MistralForCausalLM": func(s *source, config map[string]any) { config["sliding_window"] = nil },
		"SmolLM3ForCausalLM": func(s *source, config map[string]any) {
			config["no_rope_layers"], config["no_rope_layer_interval"] = []int{1, 1, 1, 0}, 4
			config["layer_types"], config["use_sliding_window"] = []string{"full_attention", "full_attention",
				"full_attention", "full_attention"}, false
			s.blocks(config, 4)
		},
		"GraniteForCausalLM": func(s *source, config map[string]any) {
			maps.Copy(config, map[string]any{"embedding_multiplier": 12.0, "residual_multiplier": 0.22,
				"attention_multiplier": 0.5, "logits_scaling": 8.0})
		},
		"Qwen2ForCausalLM": func(s *source, config map[string]any) {
			for name, rows := range map[string]int{"q": 8, "k": 4, "v": 4} {
				s.tensors[layer+"self_attn."+name+"_proj.bias"] = []int{rows}
			}
		},
		"Qwen3ForCausalLM": func(s *source, config map[string]any) {
			norms(s, 4, "self_attn.q_norm", "self_attn.k_norm")
		},
		"Olmo2ForCausalLM": func(s *source, config map[string]any) {
			delete(s.tensors, layer+"input_layernorm.weight")
			norms(s, 8, "self_attn.q_norm", "post_feedforward_layernorm")
			norms(s, 4, "self_attn.k_norm")
		},
		"Gemma2ForCausalLM": func(s *source, config map[string]any) {
			norms(s, 8, "pre_feedforward_layernorm", "post_feedforward_layernorm")
			delete(config, "hidden_act")
			delete(s.tensors, "lm_head.weight")
			maps.Copy(config, map[string]any{"hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0,
				"final_logit_softcapping": 30.0, "sliding_window": 16, "head_dim": 4, "query_pre_attn_scalar": 4,
				"tie_word_embeddings": true})
		},
		"GPT2LMHeadModel": func(s *source, config map[string]any) {
			clear(s.tensors)
			clear(config)
			maps.Copy(config, map[string]any{"architectures": []string{"GPT2LMHeadModel"}, "n_embd": 8, "n_layer": 1,
				"n_head": 2, "n_positions": 32, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
				"vocab_size": 260})
			for _, norm := range []string{"h.0.ln_1", "h.0.ln_2", "ln_f"} {
				s.tensors[norm+".weight"], s.tensors[norm+".bias"] = []int{8}, []int{8}
			}
			for name, shape := range map[string][]int{"attn.c_attn": {8, 24}, "attn.c_proj": {8, 8}, "mlp.c_fc": {8, 32},
				"mlp.c_proj": {32, 8}} {
				s.tensors["h.0."+name+".weight"], s.tensors["h.0."+name+".bias"] = shape, shape[1:]
			}
			s.tensors["wte.weight"], s.tensors["wpe.weight"] = []int{260, 8}, []int{32, 8}
		},
	} {
		t.Run(class, func(t *testing.T) {
			s, config := llamaSource(t, class)
			change(s, config)
			for name := range s.tensors {
				s.values[name] = func(i int) float32 { return float32((i*37)%64-32) / 64 }
			}
			s.file("config.json", config)
			s.weights()
			_, raw := converted(t, s.dir, Options{Type: "f32"})
			runs(t, raw)
		})
	}
}
