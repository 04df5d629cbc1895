package convert

import (
	"fmt"
	"slices"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// gemma4Names are what Gemma 4's classes call their tensors otherwise.
var gemma4Names = append([]string{"per_layer_token_embd.", "model.embed_tokens_per_layer.",
	"per_layer_model_proj.", "model.per_layer_model_projection.", "per_layer_proj_norm.",
	"model.per_layer_projection_norm.", "pre_ffw_norm_2.", "pre_feedforward_layernorm_2.",
	"post_ffw_norm_1.", "post_feedforward_layernorm_1.", "post_ffw_norm_2.", "post_feedforward_layernorm_2.",
	"layer_output_scale.weight", "layer_scalar", "inp_gate.", "per_layer_input_gate.", "proj.", "per_layer_projection.",
	"post_norm.", "post_per_layer_input_norm.", "ffn_gate_inp.scale", "router.scale", "ffn_gate_inp.", "router.proj.",
	"ffn_down_exps.scale", "router.per_expert_scale", "ffn_gate_up_exps.weight", "experts.gate_up_proj",
	"ffn_down_exps.weight", "experts.down_proj"}, sandwichNames...)

// gemmaLayouts are Gemma's classes.
func gemmaLayouts() []layoutCase {
	four := object{"hidden_act": nil, "hidden_activation": "gelu_pytorch_tanh", "num_key_value_heads": 2,
		"num_global_key_value_heads": 1, "attention_k_eq_v": true, "head_dim": randommodel.Dim,
		"global_head_dim": 2 * randommodel.Dim, "intermediate_size": randommodel.Inner, "num_kv_shared_layers": 2,
		"use_double_wide_mlp": true, "hidden_size_per_layer_input": randommodel.LayerInput,
		"vocab_size_per_layer_input": randommodel.Vocab, "layer_types": windows("sssfsf"), "rope_theta": nil,
		"rope_parameters": object{"full_attention": object{"rope_type": "proportional",
			"partial_rotary_factor": 0.25, "rope_theta": 1e5},
			"sliding_attention": object{"rope_type": "default", "rope_theta": 500}},
		"rope_local_base_freq": nil, "final_logit_softcapping": 3, "attention_bias": false, "enable_moe_block": false,
		"num_experts": nil, "top_k_experts": nil, "use_bidirectional_attention": "vision", "tie_word_embeddings": true}
	return []layoutCase{
		{class: "GemmaForCausalLM", recipe: "gemma", lessOne: true, config: object{"hidden_act": "gelu",
			"hidden_activation": "gelu_pytorch_tanh", "head_dim": randommodel.Dim, "tie_word_embeddings": true}},
		{class: "Gemma3ForConditionalGeneration", recipe: "gemma3", names: sandwichNames, lessOne: true,
			members: with(llamaMembers, members{"attention.layer_norm_rms_epsilon": ""}), // as by default
			config: object{"head_dim": randommodel.Dim, "tie_word_embeddings": true,
				"query_pre_attn_scalar": randommodel.Dim, "rope_scaling": object{"rope_type": "linear", "factor": 4}}},
		{class: "Gemma4ForCausalLM", recipe: "gemma4", names: gemma4Names, file: quarterTurned, lay: layWithoutFactors,
			config: four, edit: func(r *randommodel.Recipe) {
				r.Keys["feed_forward_length"] = []uint32{96, 96, 96, 96, 192, 192}
				r.Keys["rope.freq_base_swa"], r.Keys["rope.dimension_count"] = float32(500), uint32(2*randommodel.Dim)
			},
			refuses: object{"hidden_activation": "silu", "attention_bias": true, "use_bidirectional_attention": "all",
				"vocab_size_per_layer_input": 3, "num_kv_shared_layers": 6, "hidden_size_per_layer_input": -1,
				"layer_types": []string{"full_attention"}, "rope_parameters": naming{nil, "rope_"}, "num_attention_heads": 3,
				"rope_parameters.full_attention":    object{"rope_type": "default", "rope_theta": 3},
				"rope_parameters.sliding_attention": object{"rope_type": "linear", "rope_theta": 3}, "head_dim": 17,
				"rope_parameters.chunked_attention": object{"rope_theta": 3}}},
		{class: "Gemma4ForConditionalGeneration", recipe: "gemma4 experts", names: gemma4Names, file: quarterTurned,
			lay: layWithoutFactors, members: with(llamaMembers, members{
				"expert_feed_forward_length": "moe_intermediate_size"}), config: with(four, object{"use_double_wide_mlp": false,
				"hidden_size_per_layer_input": 0, "enable_moe_block": true, "num_experts": randommodel.Experts,
				"top_k_experts": 3}),
			edit: func(r *randommodel.Recipe) {
				r.Keys["feed_forward_length"], r.Keys["rope.freq_base_swa"] = uint32(96), float32(500)
			},
			refuses: object{"text_config.top_k_experts": 7, "text_config.num_experts": 1 << 20,
				"text_config.moe_intermediate_size": nil}},
	}
}

// quarterTurned has the factors of heads of 32 numbers of which a quarter is turned.
func quarterTurned(t *testing.T, f *gguf.File) *gguf.File {
	factors := slices.Repeat([]float32{1e30}, randommodel.Dim)
	copy(factors, []float32{1, 1, 1, 1})
	return rewritten(t, f, randommodel.Encoded("rope_freqs.weight", gguf.F32, factors, []uint64{randommodel.Dim}))
}

// TestTensorsOfOtherParts: tensors that a class may have and that nothing is computed with are left out; one that
// config.json says is not there is refused.
func TestTensorsOfOtherParts(t *testing.T) {
	c := layoutOf(t, "Gemma4ForCausalLM")
	s, _, want := c.folder(t)
	for i := range 2 { // keys and values of layers that use others'
		of := fmt.Sprintf("model.layers.%d.self_attn.", 4+i)
		s.tensors[of+"k_proj.weight"], s.tensors[of+"v_proj.weight"] = []int{32, 64}, []int{32, 64}
		s.tensors[of+"k_norm.weight"] = []int{16}
	}
	for _, name := range []string{"vision_tower.patch.weight", "audio_tower.layers.0.weight", "embed_vision.weight",
		"embed_audio.weight"} {
		s.tensors["model."+name] = []int{2, 3}
	}
	s.weights()
	c.becomes(t, s, want)
	s.tensors["model.layers.3.self_attn.v_proj.weight"] = []int{32, 64} // the keys are its values
	s.weights()
	s.refused("values beside keys", []string{"model.layers.3.self_attn.v_proj.weight"})
}
