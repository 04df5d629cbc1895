package convert

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// Names and members of several dense families.
var (
	postNames = []string{"post_attention_norm.", "post_attention_layernorm.", "post_ffw_norm.",
		"post_feedforward_layernorm."}
	sandwichNames = append([]string{"ffn_norm.", "pre_feedforward_layernorm."}, postNames...)
	birdNames     = []string{"token_embd.", "transformer.word_embeddings.", "blk.", "transformer.h.", "output_norm.",
		"transformer.ln_f.", "attn_norm_2.", "ln_attn.", "attn_qkv.", "self_attention.query_key_value.",
		"attn_output.", "self_attention.dense.", "ffn_up.", "mlp.dense_h_to_4h.", "ffn_down.", "mlp.dense_4h_to_h."}
	hunyuanNames = []string{"attn_q_norm.", "self_attn.query_layernorm.", "attn_k_norm.", "self_attn.key_layernorm.",
		"ffn_gate_inp.", "mlp.gate.wg.", "ffn_gate_shexp.", "mlp.shared_mlp.gate_proj.", "ffn_up_shexp.",
		"mlp.shared_mlp.up_proj.", "ffn_down_shexp.", "mlp.shared_mlp.down_proj."}
	hunyuanConfig = object{"hidden_act": "silu", "use_qk_norm": true, "use_cla": false, "vit_path": nil, "im_start_id": 5,
		"attention_head_dim": 24}
)

// denseLayouts are classes whose blocks are attention and one feed-forward network.
func denseLayouts() []layoutCase {
	cohere := with(tied, object{"logit_scale": 0.3, "use_qk_norm": false})
	ministral := with(plain, object{"rope_theta": nil, "rope_parameters": yarnOf(object{"type": "yarn",
		"beta_fast": 3, "beta_slow": 0.5, "mscale": 1.0, "mscale_all_dim": 0.3, "llama_4_scaling_beta": 0.5,
		"max_position_embeddings": 512}), "sliding_window": nil, "model_type": "ministral3"})
	stable := with(plain, object{"partial_rotary_factor": 0.25, "use_qkv_bias": true, "qk_layernorm": false,
		"use_parallel_residual": false, "hidden_dropout": 0.0, "rotary_scaling_factor": 1.0, "use_norm_bias": false})
	falcon := object{"hidden_act": nil, "intermediate_size": nil, "layer_norm_eps": nil,
		"num_key_value_heads": nil, "layer_norm_epsilon": 1e-5, "ffn_hidden_size": randommodel.Inner, "alibi": false,
		"bias": false, "multi_query": true, "parallel_attn": true, "activation": "gelu", "num_kv_heads": 4,
		"new_decoder_architecture": false, "apply_residual_connection_post_layernorm": false,
		"tie_word_embeddings": true}
	muse := object{"hidden_activation": "silu", "tie_word_embeddings": false, "head_dim": randommodel.Dim,
		"rope_theta": nil, "rope_parameters": object{"rope_type": "default", "rope_theta": 500},
		"layer_types": windows("sssf"), "layer_rope_theta": []float64{500, 500, 500, 0}, "qk_scale_factor": 3.875,
		"post_norm_eps": 1e-8, "output_multiplier": 0.4, "final_logit_softcapping": 3, "attention_bias": false}
	return []layoutCase{
		{class: "Olmo2ForCausalLM", recipe: "olmo2", names: sandwichNames, config: plain},
		{class: "Olmo3ForCausalLM", recipe: "olmo2 pattern", names: sandwichNames,
			config: with(plain, object{"layer_types": windows("sssf"), "rope_theta": 10000})},
		{class: "MuseGlimmerForConditionalGeneration", recipe: "muse-glimmer published", turned: true, lessOne: true,
			names: append([]string{"attn_gate.", "self_attn.gate_proj."}, sandwichNames...), config: muse, lay: layMuse,
			file: museScaled, refuses: object{"text_config.hidden_activation": "gelu", "text_config.post_norm_eps": 1e-5,
				"text_config.qk_scale_factor": nil, "text_config.output_multiplier": nil,
				"text_config.layer_types":      naming{windows("ssss"), "layer_rope_theta"},
				"text_config.layer_rope_theta": []float64{500, 500, 500, 500}}},
		{class: "Ernie4_5ForCausalLM", recipe: "ernie4_5 biases", config: with(tied, object{"use_bias": true})},
		{class: "Glm4ForCausalLM", recipe: "glm4", names: []string{"post_attention_norm.", "post_self_attn_layernorm.",
			"post_ffw_norm.", "post_mlp_layernorm.", "ffn_up.", "mlp.gate_up_proj."},
			config: with(tied, object{"partial_rotary_factor": 0.5})},
		{class: "CohereForCausalLM", recipe: "command-r",
			config: with(cohere, object{"model_max_length": 512, "max_position_embeddings": 64})},
		{class: "Cohere2ForCausalLM", recipe: "cohere2", config: with(cohere, object{"rotary_pct": 1.0,
			"sliding_window_pattern": 4, "layer_types": windows("sssf"), "use_gated_activation": true,
			"position_embedding_type": "rope_gptj", "order_of_interleaved_layers": "local_attn_first"})},
		{class: "Ministral3ForCausalLM", recipe: "mistral3", turned: true, config: ministral,
			refuses: object{"rope_parameters.mscale": 0.5, "rope_parameters.mscale_all_dim": nil,
				"rope_parameters.beta": 3, "use_sliding_window": true, "rope_parameters": nil,
				"rope_parameters.max_position_embeddings": 9}},
		{class: "Mistral3ForConditionalGeneration", recipe: "mistral3", turned: true, config: ministral,
			refuses: object{"quantization_config": object{"quant_method": "awq"}}},
		{class: "StableLmForCausalLM", recipe: "stablelm", config: stable,
			refuses: object{"hidden_act": "gelu", "partial_rotary_factor": 1.5, "rotary_scaling_factor": 2.0,
				"rope_scaling": object{"type": "dynamic"}}},
		{class: "StableLmForCausalLM", kind: "parallel", recipe: "stablelm parallel", lay: layNormsOfHeads,
			config: with(stable, object{"partial_rotary_factor": 1, "use_qkv_bias": false, "qk_layernorm": true,
				"use_parallel_residual": true}),
			refuses: object{"qkv_norm": true}},
		{class: "Starcoder2ForCausalLM", recipe: "starcoder2", names: []string{"ffn_up.", "mlp.c_fc.", "ffn_down.",
			"mlp.c_proj."}, config: object{"layer_norm_eps": nil, "norm_epsilon": 1e-5, "use_bias": true,
			"hidden_act": "gelu_pytorch_tanh", "mlp_type": "default", "norm_type": "layer_norm", "embedding_dropout": 0.1,
			"residual_dropout": 0.1, "sliding_window": 4096, "tie_word_embeddings": nil, "activation_function": "gelu",
			"layer_norm_epsilon": 1e-5, "attention_softmax_in_fp32": true, "scale_attention_softmax_in_fp32": true,
			"scale_attn_weights": true},
			refuses: object{"scale_attn_weights": false, "mlp_type": "gated", "norm_type": "rms_norm", "hidden_act": "silu"}},
		{class: "PhiForCausalLM", recipe: "phi2", names: []string{"attn_output.", "self_attn.dense.", "ffn_up.", "mlp.fc1.",
			"ffn_down.", "mlp.fc2.", "output_norm.", "model.final_layernorm."}, config: with(plain, object{
			"hidden_act": "gelu_new", "partial_rotary_factor": 0.5, "qk_layernorm": false}),
			edit:    func(r *randommodel.Recipe) { r.Parts = strings.Replace(r.Parts, "fused ", "", 1) },
			refuses: object{"qk_layernorm": true, "hidden_act": "silu"}},
		{class: "FalconForCausalLM", recipe: "falcon", lay: layHeadsInGroups, config: falcon,
			names:   append([]string{"attn_norm.", "input_layernorm."}, birdNames...),
			refuses: object{"alibi": true, "bias": true, "parallel_attn": false, "activation": "relu", "ff_factor": 7}},
		{class: "FalconForCausalLM", kind: "two norms", recipe: "falcon two norms", lay: layHeadsInGroups,
			names:   append([]string{"attn_norm.", "ln_mlp."}, birdNames...),
			config:  with(falcon, object{"new_decoder_architecture": true, "num_kv_heads": 2, "tie_word_embeddings": false}),
			refuses: object{"num_ln_in_parallel_attn": 3, "num_kv_heads": 3}},
		{class: "SeedOssForCausalLM", names: postNames, config: with(plain, object{"attention_bias": true,
			"attention_out_bias": false, "residual_dropout": 0.1, "head_dim": randommodel.Dim,
			"rope_scaling": object{"rope_type": "default"}}),
			edit: func(r *randommodel.Recipe) {
				*r = randommodel.Recipe{Arch: "seed_oss", Parts: "gate qkvbias ffnpost untied"}
			},
			refuses: object{"hidden_act": "gelu", "layer_types": []string{"sliding_attention"}}},
		{class: "Exaone4ForCausalLM", recipe: "exaone4", names: postNames, config: with(tied, object{
			"layer_types": windows("ffff"), "sliding_window": nil, "sliding_window_pattern": nil}),
			edit:    func(r *randommodel.Recipe) { r.Parts = strings.Replace(r.Parts, " factors", "", 1) },
			refuses: object{"sliding_window": 4096, "layer_types": []string{"sliding_attention"}}},
		{class: "Exaone4ForCausalLM", kind: "windows", recipe: "exaone4", names: postNames, lay: layWithoutFactors,
			config: with(tied, object{"layer_types": windows(strings.Repeat("sssf", 16)), "sliding_window_pattern": "LLLG",
				"rope_scaling": object{"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0,
					"high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
			edit: func(r *randommodel.Recipe) {
				r.Layers, r.Keys = 64, map[string]gguf.Value{"attention.sliding_window": uint32(9),
					"attention.sliding_window_pattern": slices.Repeat([]bool{true, true, true, false}, 16)}
			},
			file: func(t *testing.T, f *gguf.File) *gguf.File {
				const d = randommodel.Dim
				return rewritten(t, f, randommodel.Encoded("rope_freqs.weight", gguf.F32,
					llama3Factors(d, 10000, 16, 1, 4, 64), []uint64{d / 2}))
			},
			refuses: object{"sliding_window": nil, "sliding_window_pattern": "LG",
				"layer_types": slices.Repeat([]string{"full_attention"}, 64)}},
		{class: "NemotronForCausalLM", recipe: "nemotron", lessOne: true, members: with(llamaMembers, members{
			"attention.layer_norm_epsilon": "norm_eps"}), config: with(plain, object{"hidden_act": "relu2",
			"partial_rotary_factor": 0.5, "mlp_bias": true, "attention_bias": true, "kv_channels": randommodel.Dim,
			"rope_percent": 0.5}),
			refuses: object{"hidden_act": "silu", "tie_word_embeddings": true, "kv_channels": 5, "rope_percent": 1.0}},
		{class: "HunYuanDenseV1ForCausalLM", shared: "hunyuan-dense", names: hunyuanNames,
			apart: []string{"rope.freq_base", "rope.scaling.alpha"}, config: with(hunyuanConfig, tied, object{
				"rope_scaling": object{"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32,
					"beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.0}}),
			refuses: object{"num_experts": 2, "use_cla": true, "use_qk_norm": false}},
		{class: "InternLM2ForCausalLM", shared: "internlm2", names: []string{"token_embd.", "model.tok_embeddings.",
			"output.", "output.", "output_norm.", "model.norm.", "attn_output.", "attention.wo.", "attn_norm.",
			"attention_norm.", "ffn_norm.", "ffn_norm.", "ffn_gate.", "feed_forward.w1.", "ffn_up.", "feed_forward.w3.",
			"ffn_down.", "feed_forward.w2."}, lay: layWQKV, config: with(plain, object{
			"bias": false, "rope_scaling": object{"type": "dynamic", "factor": 2.0}}),
			refuses: object{"rope_scaling": object{"type": "ntk"}}},
		{class: "MiniCPMForCausalLM", recipe: "minicpm with keys", turned: true, members: with(llamaMembers, members{
			"embedding_scale": "scale_emb"}), config: object{"hidden_act": "silu", "scale_depth": 1.0, "dim_model_base": 32},
			refuses: object{"num_experts": 8, "dim_model_base": 0}},
		{class: "ApertusForCausalLM", shared: "apertus", names: []string{"attn_norm.", "attention_layernorm.", "ffn_norm.",
			"feedforward_layernorm."}, lay: layNumbers, apart: []string{"rope_freqs.weight"}, config: with(plain, object{
			"hidden_act": "xielu", "qk_norm": true, "post_norm": false, "mlp_bias": false, "rope_scaling": object{
				"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
				"original_max_position_embeddings": 8192}}),
			refuses: object{"hidden_act": "gelu", "qk_norm": false, "post_norm": true}},
		{class: "ArceeForCausalLM", recipe: "arcee", turned: true, config: with(tied, object{"hidden_act": "relu2",
			"mlp_bias": false, "attention_bias": false}), refuses: object{"hidden_act": "silu"}},
		{class: "Qwen3VLForConditionalGeneration", recipe: "qwen3vl", config: with(tied, object{"rope_theta": 10000,
			"rope_scaling": object{"mrope_interleaved": true, "mrope_section": []int{3, 3, 2}, "rope_type": "default"}})},
	}
}

// layHeadsInGroups writes q, k and v as Falcon has them: some heads of q, then one of k and one of v.
func layHeadsInGroups(l *laid, x gguf.Tensor) bool {
	if !strings.HasSuffix(x.Name, "attn_qkv.weight") {
		return false
	}
	const d = randommodel.Dim
	cols, rows, _ := dimsOf(x)
	values, kv := l.of(x.Name), rows/2/d-randommodel.Heads/2
	var heads []int // of the file, in the source's order
	for g := range kv {
		for q := range randommodel.Heads / kv {
			heads = append(heads, g*randommodel.Heads/kv+q)
		}
		heads = append(heads, randommodel.Heads+g, randommodel.Heads+kv+g)
	}
	l.put(l.name(x.Name), []int{rows, cols}, func(i int) float32 {
		return values[(heads[i/cols/d]*d+i/cols%d)*cols+i%cols]
	})
	return true
}

// layNormsOfHeads writes norms that each head has weights of as tensors of one head each.
func layNormsOfHeads(l *laid, x gguf.Tensor) bool {
	if !strings.Contains(x.Name, "_norm.") || len(x.Dims) != 2 {
		return false
	}
	values, n := l.of(x.Name), int(x.Dims[0])
	for h := range int(x.Dims[1]) {
		one := strings.Replace(l.name(x.Name), "_norm.", fmt.Sprintf("_layernorm.norms.%d.", h), 1)
		l.put(one, []int{n}, func(i int) float32 { return values[h*n+i] })
	}
	return true
}

// layWQKV writes q, k and v of InternLM 2 as one matrix: of each head of keys its queries, its key and its value.
func layWQKV(l *laid, x gguf.Tensor) bool {
	block, is := strings.CutSuffix(x.Name, "attn_q.weight")
	if !is {
		return strings.HasSuffix(x.Name, "attn_k.weight") || strings.HasSuffix(x.Name, "attn_v.weight")
	}
	const d, kv = 16, 2
	cols, rows, _ := dimsOf(x)
	q, k, v := l.of(x.Name), l.of(block+"attn_k.weight"), l.of(block+"attn_v.weight")
	queries := rows / kv
	turned := func(row int) int { return row/d*d + row%d%(d/2)*2 + row%d/(d/2) }
	l.put(l.name(block)+"attention.wqkv.weight", []int{rows + 2*kv*d, cols}, func(i int) float32 {
		group, at, col := i/cols/(queries+2*d), i/cols%(queries+2*d), i%cols
		switch {
		case at < queries:
			return q[turned(group*queries+at)*cols+col]
		case at < queries+d:
			return k[turned(group*d+at-queries)*cols+col]
		}
		return v[(group*d+at-queries-d)*cols+col]
	})
	return true
}

// layNumbers writes the numbers of Apertus' activation, which are keys.
func layNumbers(l *laid, x gguf.Tensor) bool {
	if block, is := strings.CutSuffix(x.Name, "attn_norm.weight"); is {
		for _, name := range []string{"alpha_n", "alpha_p", "beta", "eps"} {
			list, err := l.f.Float32s("xielu." + name)
			if err != nil {
				l.t.Fatal(err)
			}
			at := int(block[len("blk.")] - '0')
			l.put(l.name(block)+"mlp.act_fn."+name, []int{1}, func(int) float32 { return list[at] })
		}
	}
	return x.Name == "rope_freqs.weight"
}

// TestLengthOfSharperAttention: attention that gets sharper with the position goes by a length that YaRN has.
func TestLengthOfSharperAttention(t *testing.T) {
	s, config, _ := layoutOf(t, "Ministral3ForCausalLM").folder(t)
	s.writeConfig(inside(config, "rope_parameters", object{"rope_type": "default", "rope_theta": 50,
		"llama_4_scaling_beta": 0.1}))
	s.refused("without YaRN", []string{"rope_parameters.llama_4_scaling_beta", "YaRN"})
}

// layMuse: Muse Glimmer's norms of queries and keys have no weights, and those of the norm behind the blocks are as
// they are.
func layMuse(l *laid, x gguf.Tensor) bool {
	if x.Name == "output_norm.weight" {
		values := l.of(x.Name)
		l.put(l.name(x.Name), []int{len(values)}, func(i int) float32 { return values[i] })
		return true
	}
	return strings.HasSuffix(x.Name, "_q_norm.weight") || strings.HasSuffix(x.Name, "_k_norm.weight")
}

// museScaled has Muse Glimmer's factor of queries in their norms.
func museScaled(t *testing.T, f *gguf.File) *gguf.File {
	var norms []gguf.TensorSource
	for i := range 4 {
		for name, factor := range map[string]float32{"q": 3.875, "k": 1} {
			norms = append(norms, randommodel.Encoded(fmt.Sprintf("blk.%d.attn_%s_norm.weight", i, name), gguf.F32,
				slices.Repeat([]float32{factor}, randommodel.Dim), []uint64{randommodel.Dim}))
		}
	}
	return rewritten(t, f, norms...)
}
