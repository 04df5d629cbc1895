package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// Members of families with recurrent layers, and of Granite's.
var (
	deltaMembers = with(qwenMembers, members{"ssm.conv_kernel": "linear_conv_kernel_dim",
		"ssm.state_size": "linear_key_head_dim", "ssm.group_count": "linear_num_key_heads",
		"ssm.time_step_rank": "linear_num_value_heads", "full_attention_interval": "full_attention_interval"})
	graniteMembers = with(llamaMembers, members{"embedding_scale": "embedding_multiplier",
		"residual_scale": "residual_multiplier", "attention.scale": "attention_multiplier", "logit_scale": "logits_scaling",
		"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok",
		"expert_shared_feed_forward_length": "shared_intermediate_size"})
	graniteHybridMembers = with(graniteMembers, members{"ssm.conv_kernel": "mamba_d_conv",
		"ssm.state_size": "mamba_d_state", "ssm.group_count": "mamba_n_groups", "ssm.time_step_rank": "mamba_n_heads",
		"attention.head_count_kv": ""})
	nemotronHMembers = with(routedMembers, members{"ssm.conv_kernel": "conv_kernel", "ssm.state_size": "ssm_state_size",
		"ssm.group_count": "n_groups", "ssm.time_step_rank": "mamba_num_heads", "attention.head_count_kv": "",
		"feed_forward_length": "", "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
		"expert_shared_feed_forward_length": "moe_shared_expert_intermediate_size", "moe_latent_size": "moe_latent_size"})
	mambaMembers = with(commonMembers, members{"ssm.conv_kernel": "conv_kernel", "ssm.inner_size": "intermediate_size",
		"ssm.state_size": "state_size", "ssm.time_step_rank": "time_step_rank",
		"attention.layer_norm_rms_epsilon": "layer_norm_epsilon"})
	falconMembers = with(llamaMembers, members{"ssm.conv_kernel": "mamba_d_conv", "ssm.inner_size": "mamba_d_ssm",
		"ssm.state_size": "mamba_d_state", "ssm.group_count": "mamba_n_groups", "ssm.time_step_rank": "mamba_n_heads"})
	lfm2Members = with(llamaMembers, members{"attention.layer_norm_rms_epsilon": "norm_eps",
		"attention.head_count_kv": "", "shortconv.l_cache": "conv_L_cache"})
)

// Names of tensors.
var (
	deltaNames = []string{"post_attention_norm.", "post_attention_layernorm.", "ssm_conv1d.", "linear_attn.conv1d.",
		"ssm_dt.bias", "linear_attn.dt_bias", "ssm_alpha.", "linear_attn.in_proj_a.", "ssm_beta.", "linear_attn.in_proj_b.",
		"ssm_ba.", "linear_attn.in_proj_ba.", "ssm_a", "linear_attn.A_log", "ssm_norm.", "linear_attn.norm.",
		"ssm_out.", "linear_attn.out_proj.", "attn_qkv.", "linear_attn.in_proj_qkv.", "attn_gate.", "linear_attn.in_proj_z."}
	// mtpNames are what Qwen 3.5 calls its block for multi-token prediction, behind 4 others.
	mtpNames = strings.NewReplacer("model.layers.4.nextn.eh_proj.", "mtp.fc.",
		"model.layers.4.nextn.enorm.", "mtp.pre_fc_norm_embedding.", "model.layers.4.nextn.hnorm.", "mtp.pre_fc_norm_hidden.",
		"model.layers.4.nextn.shared_head_norm.", "mtp.norm.", "model.layers.4.", "mtp.layers.0.")
	sinkNames    = []string{"attn_sinks.weight", "self_attn.sinks"}
	graniteNames = append([]string{"ffn_gate_inp.", "block_sparse_moe.router.layer."}, mambaNames("mamba.")...)
	backbone     = []string{"blk.", "backbone.layers.", "token_embd.", "backbone.embeddings.", "output_norm.",
		"backbone.norm_f.", "attn_norm.", "norm."}
	nemotronHNames = slices.Concat([]string{"attn_q.", "mixer.q_proj.", "attn_k.", "mixer.k_proj.", "attn_v.",
		"mixer.v_proj.", "attn_output.", "mixer.o_proj.", "ffn_up.", "mixer.up_proj.", "ffn_down.", "mixer.down_proj.",
		"ffn_gate_inp.", "mixer.gate.", "exp_probs_b.bias", "mixer.gate.e_score_correction_bias",
		"ffn_up_exps.", "mixer.experts.%d.up_proj.", "ffn_down_exps.", "mixer.experts.%d.down_proj.",
		"ffn_up_shexp.", "mixer.shared_experts.up_proj.", "ffn_down_shexp.", "mixer.shared_experts.down_proj.",
		"ffn_latent_down.", "mixer.fc1_latent_proj.", "ffn_latent_up.", "mixer.fc2_latent_proj."},
		mambaNames("mixer."), backbone)
	lfm2Names = []string{"token_embd_norm.", "model.embedding_norm.", "attn_norm.", "operator_norm.",
		"ffn_norm.", "ffn_norm.", "shortconv.", "conv.", "attn_output.", "self_attn.out_proj.",
		"attn_q_norm.", "self_attn.q_layernorm.", "attn_k_norm.", "self_attn.k_layernorm.",
		"ffn_gate.", "feed_forward.w1.", "ffn_up.", "feed_forward.w3.", "ffn_down.", "feed_forward.w2.",
		"ffn_gate_inp.", "feed_forward.gate.", "exp_probs_b.bias", "feed_forward.expert_bias",
		"ffn_gate_exps.", "feed_forward.experts.%d.w1.", "ffn_up_exps.", "feed_forward.experts.%d.w3.",
		"ffn_down_exps.", "feed_forward.experts.%d.w2."}
)

// mambaNames are those of Mamba's layers behind a prefix.
func mambaNames(prefix string) []string {
	return []string{"ssm_in.", prefix + "in_proj.", "ssm_conv1d.", prefix + "conv1d.", "ssm_dt.bias", prefix + "dt_bias",
		"ssm_a", prefix + "A_log", "ssm_d", prefix + "D", "ssm_norm.", prefix + "norm.", "ssm_out.", prefix + "out_proj."}
}

// recurrentLayouts are classes with recurrent layers, and all of Granite's.
func recurrentLayouts() []layoutCase {
	three := []string{"linear_attention", "linear_attention", "linear_attention", "full_attention"}
	two := []string{"conv", "full_attention", "conv", "full_attention"}
	qwen35 := with(tied, object{"linear_value_head_dim": randommodel.State, "full_attention_interval": 4,
		"head_dim": randommodel.Dim, "attn_output_gate": true, "mamba_ssm_dtype": "float32",
		"mtp_use_dedicated_embeddings": false, "layer_types": three, "mlp_only_layers": []int{},
		"rope_parameters": object{"mrope_interleaved": true, "mrope_section": []int{2, 1, 1}, "rope_type": "default",
			"rope_theta": 10000, "partial_rotary_factor": 0.5}})
	delta := with(plain, object{"linear_value_head_dim": 16, "mlp_only_layers": []int{}, "router_aux_loss_coef": 0.001})
	scaled := object{"embedding_multiplier": 12, "residual_multiplier": 0.22, "attention_multiplier": 0.25}
	hybrid := with(tied, object{"layer_types": []string{"mamba", "attention", "mamba", "attention"},
		"mamba_d_head": 32, "mamba_expand": 2, "mamba_conv_bias": true, "mamba_proj_bias": false, "mamba_chunk_size": 256,
		"num_key_value_heads": 2, "init_method": "mup", "normalization_function": "rmsnorm", "rope_theta": 10000,
		"position_embedding_type": "nope", "time_step_limit": []any{0.0, "Infinity"}})
	without := object{"num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 96}
	nemotronH := object{"tie_word_embeddings": false, "hybrid_override_pattern": "M-M*-", "mamba_head_dim": 16,
		"num_key_value_heads": 2, "intermediate_size": 96, "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu",
		"expand": 2, "time_step_limit": []any{0.0, "Infinity"}, "use_conv_bias": true, "mamba_proj_bias": false,
		"use_bias": false, "sliding_window": nil, "time_step_rank": 256, "chunk_size": 128}
	nemotronE := with(nemotronH, object{"hybrid_override_pattern": "MEM*E", "topk_group": 1})
	mambas := object{"hidden_act": "silu", "use_bias": false, "use_conv_bias": true, "expand": 2, "rms_norm": true,
		"time_step_limit": []any{0.0, "Infinity"}}
	return []layoutCase{
		{class: "Lfm2ForCausalLM", recipe: "lfm2", names: lfm2Names,
			members: with(lfm2Members, members{"feed_forward_length": ""}), config: object{"layer_types": two,
				"full_attn_idxs": []int{1, 3}, "block_ff_dim": 144, "block_auto_adjust_ff_dim": true, "block_multiple_of": 32,
				"block_ffn_dim_multiplier": 1.0, "num_key_value_heads": 2, "conv_bias": false, "block_dim": 64, "conv_dim": 64,
				"block_use_swiglu": true, "num_heads": 4, "tie_embedding": true, "tie_word_embeddings": false}},
		{class: "Lfm2MoeForCausalLM", recipe: "lfm2moe", names: lfm2Names, members: with(lfm2Members, members{
			"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok",
			"expert_feed_forward_length": "moe_intermediate_size", "leading_dense_block_count": "num_dense_layers"}),
			config: object{"layer_types": two, "num_key_value_heads": 2, "conv_bias": false, "norm_topk_prob": true,
				"use_expert_bias": true, "routed_scaling_factor": 1.0, "tie_embedding": true},
			refuses: object{"norm_topk_prob": false, "conv_bias": true, "num_dense_layers": -1}},
		{class: "Qwen3_5ForConditionalGeneration", recipe: "qwen35", names: deltaNames, lessOne: true,
			members: deltaMembers, lay: recipesDelta.layGrouped, config: qwen35},
		{class: "Qwen3_5ForCausalLM", recipe: "qwen35", names: deltaNames, after: mtpNames, lessOne: true,
			members: deltaMembers, lay: recipesDelta.layGrouped, config: with(qwen35, object{"mtp_num_hidden_layers": 1}),
			edit: func(r *randommodel.Recipe) { r.MTP, r.Parts = 1, r.Parts+" ends" },
			file: func(t *testing.T, f *gguf.File) *gguf.File { // published models have the whole's in their place
				return rewritten(t, f, gguf.TensorSource{Name: "blk.4.nextn.embed_tokens.weight"},
					gguf.TensorSource{Name: "blk.4.nextn.shared_head_head.weight"})
			}},
		{class: "Qwen3_5MoeForConditionalGeneration", recipe: "qwen35moe", names: deltaNames, lessOne: true,
			members: deltaMembers, lay: recipesDelta.layGrouped,
			config: with(moe, qwen35, object{"norm_topk_prob": true})},
		{class: "Qwen3_5MoeForCausalLM", shared: "qwen35moe", names: deltaNames, after: mtpNames, lessOne: true,
			members: with(deltaMembers, members{"nextn_predict_layers": "mtp_num_hidden_layers"}),
			lay: func(l *laid, x gguf.Tensor) bool {
				return layStacked(l, x) || drawnDelta{2, 2, 16}.layGrouped(l, x)
			},
			config: with(delta, object{"layer_types": three, "rope_parameters": object{"rope_type": "default",
				"mrope_interleaved": true, "mrope_section": []int{3, 3, 2}, "rope_theta": 1e7, "partial_rotary_factor": 0.5}}),
			refuses: object{"decoder_sparse_step": 2, "mlp_only_layers": []int{1}, "mtp_num_hidden_layers": 2,
				"linear_num_value_heads": 3, "num_experts_per_tok": 9}},
		{class: "Qwen3NextForCausalLM", shared: "qwen3next", names: deltaNames, after: mtpNames, lessOne: true,
			members: deltaMembers, lay: drawnDelta{2, 2, 16}.layNext, config: with(delta, object{
				"partial_rotary_factor": 0.25, "decoder_sparse_step": 1, "norm_topk_prob": true, "rope_scaling": nil,
				"use_sliding_window": false}),
			refuses: object{"use_sliding_window": true,
				"norm_topk_prob": false, "linear_value_head_dim": 8, "attn_output_gate": false}},

		{class: "GraniteMoeForCausalLM", recipe: "granitemoe", names: graniteNames, members: graniteMembers,
			turned: true, lay: layGranite, config: with(tied, scaled)},
		{class: "GraniteSWAForCausalLM", recipe: "granite_swa", names: sinkNames, members: graniteMembers, turned: true,
			edit: func(r *randommodel.Recipe) { // biases of queries and keys are not turned in this harness
				r.Parts = strings.ReplaceAll(r.Parts, " bias", "")
			},
			config: with(tied, object{"layer_types": windows("fssf"), "layer_rope_theta": []float64{0, 10000, 0, 10000}}),
			refuses: object{"layer_rope_theta": []float64{0, 500, 0, 10000}, "layer_types": windows("fss"),
				"sliding_window": nil}},
		{class: "GraniteMoeSWAForCausalLM", recipe: "granite_swa experts", members: graniteMembers, turned: true,
			names: slices.Concat([]string{"ffn_up_shexp.", "shared_mlp.input_linear."}, sinkNames, graniteNames),
			lay: func(l *laid, x gguf.Tensor) bool {
				return !strings.HasSuffix(x.Name, "ffn_up_shexp.weight") && layGranite(l, x)
			},
			config: with(tied, scaled, object{"layer_types": windows("fssf")})},
		{class: "GraniteMoeHybridForCausalLM", recipe: "granitehybrid", names: graniteNames, turned: true,
			members: graniteHybridMembers, lay: layGranite, config: with(hybrid, without, object{"attention_multiplier": 0.25}),
			refuses: object{"layer_types": []string{"mamba"}, "mamba_conv_bias": false, "mamba_proj_bias": true,
				"mamba_expand": 3, "mamba_d_head": 8, "normalization_function": "layernorm", "time_step_limit": []float64{0, 1},
				"position_embedding_type": "alibi"}},
		{class: "GraniteMoeHybridForCausalLM", kind: "of transformers 5", recipe: "granitehybrid", names: graniteNames,
			turned: true, members: graniteHybridMembers, lay: layGranite, config: with(hybrid, without, object{
				"attention_multiplier": 0.25, "layer_types": []string{"linear_attention", "full_attention", "linear_attention",
					"full_attention"}})},
		{class: "GraniteMoeHybridForCausalLM", kind: "shared and routed", shared: "granitehybrid-moe", names: graniteNames,
			turned: true, members: graniteHybridMembers, lay: layGranite, config: with(hybrid, object{
				"mamba_d_head": 16, "layer_types": []string{"mamba", "attention", "mamba"}})},
		{class: "GraniteMoeHybridForCausalLM", kind: "positions", recipe: "granitehybrid experts", names: graniteNames,
			turned: true, members: graniteHybridMembers, lay: layGranite, config: with(hybrid, scaled, object{
				"position_embedding_type": "rope"})},
		{class: "GraniteMoeHybridForCausalLM", kind: "attention alone", recipe: "granite", names: graniteNames,
			turned: true, members: graniteMembers, lay: layGranite, config: with(hybrid, without, object{
				"position_embedding_type": "rope",
				"layer_types":             []string{"attention", "attention", "attention", "attention"}})},
		{class: "NemotronHForCausalLM", shared: "nemotron-h", names: nemotronHNames, members: nemotronHMembers,
			turned: true, config: nemotronH, refuses: object{"hybrid_override_pattern": "M-MX-", "mlp_hidden_act": "silu",
				"head_dim": 15, "sliding_window": 4, "n_groups": 5, "num_attention_heads": 5}},
		{class: "NemotronHForCausalLM", kind: "experts", shared: "nemotron-h-moe", names: nemotronHNames,
			members: nemotronHMembers, turned: true, config: nemotronE},
		{class: "NemotronHForCausalLM", kind: "latent experts", shared: "nemotron-h-moe-latent", names: nemotronHNames,
			members: nemotronHMembers, turned: true, config: nemotronE, apart: []string{"feed_forward_length"}},
		{class: "FalconH1ForCausalLM", recipe: "falcon-h1", names: append([]string{"ffn_norm",
			"pre_ff_layernorm.weight", "output_norm.", "model.final_layernorm.", "ffn_gate.", "feed_forward.gate_proj.",
			"ffn_up.", "feed_forward.up_proj.", "ffn_down.", "feed_forward.down_proj."}, mambaNames("mamba.")...),
			members: falconMembers, lay: layFalconH1, config: with(tied, falconMultipliers, object{
				"mamba_d_head": 32, "mamba_rms_norm": false, "mamba_norm_before_gate": true, "mamba_use_mlp": true,
				"projectors_bias": false, "mamba_conv_bias": true, "rope_theta": 10000}),
			refuses: object{"attn_layer_indices": []int{1}, "mlp_multipliers": []float64{1}, "attention_bias": true,
				"mamba_use_mlp": false, "ssm_multipliers": []float64{1, 2}}},
		{class: "MambaForCausalLM", shared: "mamba", names: slices.Concat([]string{"ssm_x.", "mixer.x_proj.", "ssm_dt.",
			"mixer.dt_proj."}, mambaNames("mixer."), backbone), members: mambaMembers, apart: []string{"context_length"},
			config:  with(mambas, object{"d_model": 64, "d_inner": 128, "time_step_min": 0.001}),
			refuses: object{"d_inner": 5, "expand": 3, "use_bias": true, "hidden_act": "gelu", "d_model": 5}},
		{class: "Mamba2ForCausalLM", shared: "mamba2", names: append(mambaNames("mixer."), backbone...),
			apart: []string{"context_length"}, members: with(mambaMembers, members{"ssm.inner_size": "",
				"ssm.time_step_rank": "num_heads", "ssm.group_count": "n_groups"}), config: with(mambas, object{
				"tie_word_embeddings": false, "head_dim": 16, "norm_before_gate": true, "chunk_size": 256,
				"intermediate_size": 128}),
			refuses: object{"n_groups": 3, "expand": 3, "rms_norm": false, "intermediate_size": 5}},
	}
}

// drawnDelta are the sizes of gated delta nets: groups of heads, heads of values in each, and numbers of a state.
type drawnDelta struct{ groups, of, state int }

// recipesDelta are those of the recipes.
var recipesDelta = drawnDelta{randommodel.Groups, randommodel.DeltaHeads / randommodel.Groups, randommodel.State}

// layGrouped writes the delta nets of Qwen 3.5.
func (d drawnDelta) layGrouped(l *laid, x gguf.Tensor) bool {
	if strings.Contains(x.Name, "ssm_norm") || !strings.Contains(x.Name, "ssm_") &&
		!strings.Contains(x.Name, "attn_qkv.") && !strings.Contains(x.Name, "attn_gate.") {
		return false
	}
	cols, rows, _ := dimsOf(x)
	shape := []int{rows, cols}
	if len(x.Dims) == 1 {
		shape = []int{cols}
	} else if strings.Contains(x.Name, "ssm_conv1d") {
		shape = []int{rows, 1, cols}
	}
	l.put(l.name(x.Name), shape, d.grouped(x.Name, l.of(x.Name), rows, cols))
	return true
}

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

// layNext writes the inputs of Qwen3-Next's delta nets: of each head of keys q, k, v and z.
func (d drawnDelta) layNext(l *laid, x gguf.Tensor) bool {
	block, is := strings.CutSuffix(x.Name, "attn_qkv.weight")
	if !is {
		return strings.HasSuffix(x.Name, "attn_gate.weight")
	}
	qkv, gate := l.of(x.Name), l.of(block+"attn_gate.weight")
	cols, values := int(x.Dims[0]), d.of*d.state
	each := 2*d.state + 2*values
	l.put(l.name(block)+"linear_attn.in_proj_qkvz.weight", []int{d.groups * each, cols}, func(i int) float32 {
		head, at, col := i/cols/each, i/cols%each, i%cols
		switch {
		case at < d.state:
			return qkv[(head*d.state+at)*cols+col]
		case at < 2*d.state:
			return qkv[(d.groups*d.state+head*d.state+at-d.state)*cols+col]
		case at < 2*d.state+values:
			return qkv[(2*d.groups*d.state+head*values+at-2*d.state)*cols+col]
		}
		return gate[(head*values+at-2*d.state-values)*cols+col]
	})
	return true
}

// layGranite writes experts, and gates with ups.
func layGranite(l *laid, x gguf.Tensor) bool {
	cols, rows, n := dimsOf(x)
	for _, kind := range []struct{ end, name string }{{"_exps.weight", "block_sparse_moe."},
		{"_shexp.weight", "shared_mlp."}, {".weight", "shared_mlp."}} {
		in, shape := []int{2 * rows, cols}, []int{rows, cols}
		if kind.end == "_exps.weight" {
			in, shape = append([]int{n}, in...), append([]int{n}, shape...)
		}
		if block, is := strings.CutSuffix(x.Name, "ffn_gate"+kind.end); is {
			l.inPair(x.Name, block+"ffn_up"+kind.end, l.name(block)+kind.name+"input_linear.weight", in...)
			return true
		}
		if block, is := strings.CutSuffix(x.Name, "ffn_down"+kind.end); is {
			values := l.of(x.Name)
			l.put(l.name(block)+kind.name+"output_linear.weight", shape, func(i int) float32 { return values[i] })
			return true
		}
		if strings.HasSuffix(x.Name, "ffn_up"+kind.end) {
			return true
		}
	}
	return false
}

// falconMultipliers divide what the class multiplies; powers of 2 are exact.
var falconMultipliers = map[string]any{"attention_in_multiplier": 2, "attention_out_multiplier": 0.5,
	"key_multiplier": 0.25, "ssm_in_multiplier": 4, "ssm_out_multiplier": 0.125, "embedding_multiplier": 8,
	"lm_head_multiplier": 8, "mlp_multipliers": []float64{0.5, 16}, "ssm_multipliers": []float64{2, 4, 8, 16, 32}}

// layFalconH1 divides by falconMultipliers.
func layFalconH1(l *laid, x gguf.Tensor) bool {
	const inner, states = randommodel.MambaInner, randommodel.Groups * randommodel.State
	cols, rows, _ := dimsOf(x)
	values := l.of(x.Name)
	for end, by := range map[string]float32{"token_embd.weight": 8, "attn_q.weight": 2, "attn_k.weight": 0.5,
		"attn_v.weight": 2, "attn_output.weight": 0.5, "ffn_gate.weight": 0.5, "ffn_down.weight": 16,
		"ssm_out.weight": 0.125} {
		if strings.HasSuffix(x.Name, end) {
			l.put(l.name(x.Name), []int{rows, cols}, func(i int) float32 { return values[i] / by })
			return true
		}
	}
	if !strings.HasSuffix(x.Name, "ssm_in.weight") {
		return false
	}
	l.put(l.name(x.Name), []int{rows, cols}, func(i int) float32 {
		zone, ends := 0, []int{inner, 2 * inner, 2*inner + states, 2*inner + 2*states, rows}
		for i/cols >= ends[zone] {
			zone++
		}
		return values[i] / 4 / float32(int(2)<<zone)
	})
	return true
}

// loraOf is the file of an adapter of a matrix of base, of rank 2; element i of a and of b is i where they are nil.
func loraOf(t *testing.T, base *source, matrix string, cols, rows int, a, b func(i int) float32) *gguf.File {
	t.Helper()
	name := "base_model.model.model.layers." + matrix
	l := &laid{source: &source{t: t, dir: t.TempDir(), tensors: map[string][]int{},
		values: map[string]func(int) float32{}}}
	l.put(name+".lora_A.weight", []int{2, cols}, a)
	l.put(name+".lora_B.weight", []int{rows, 2}, b)
	l.file(AdapterConfig, object{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none"})
	l.weights()
	l.adapterWeights()
	m, err := OpenAdapter(l.dir, base.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	f, _ := inMemory(t, m, Options{Type: "f32"})
	return f
}

// TestAdapterOfFactors: an adapter of a matrix that GGUF has multiplied is multiplied too.
func TestAdapterOfFactors(t *testing.T) {
	base, _, _ := layoutOf(t, "FalconH1ForCausalLM").folder(t)
	rows := randommodel.MambaInner*2 + 2*randommodel.Groups*randommodel.State + randommodel.MambaHeads
	got := loraOf(t, base, "1.mamba.in_proj", randommodel.Width, rows, nil, func(int) float32 { return 1 })
	values := floats(t, got, tensorOf(t, got, "blk.1.ssm_in.weight.lora_b"))
	for row, want := range map[int]float32{0: 8, randommodel.MambaInner: 16, rows - 1: 128} {
		if values[row*2] != want {
			t.Errorf("row %d: %v, want %v", row, values[row*2], want)
		}
	}
}

// TestAdapterOfColumns: an adapter of a matrix whose columns move has its own moved alike.
func TestAdapterOfColumns(t *testing.T) {
	base, _, _ := layoutOf(t, "Qwen3_5ForCausalLM").folder(t)
	const inner = randommodel.State * randommodel.DeltaHeads
	want := make([]float32, 2*inner)
	for i := range want {
		want[i] = float32(i)
	}
	got := loraOf(t, base, "0.linear_attn.out_proj", inner, randommodel.Width,
		recipesDelta.grouped("ssm_out.", want, 2, inner), nil)
	if x := tensorOf(t, got, "blk.0.ssm_out.weight.lora_a"); !slices.Equal(floats(t, got, x), want) {
		t.Errorf("%v: the columns are not those of the matrix", x)
	}
}

// TestGraniteWithoutPositions: attention alone without positions is no model that GGUF has.
func TestGraniteWithoutPositions(t *testing.T) {
	s, config, _ := layoutOf(t, "GraniteMoeHybridForCausalLM, attention alone").folder(t)
	for _, kind := range []any{"nope", nil} {
		s.writeConfig(inside(config, "position_embedding_type", kind))
		s.refused(fmt.Sprint(kind), []string{"position_embedding_type"})
	}
}

// TestBlocksLeftOut: blocks for multi-token prediction that GGUF has no place for are left out, and that is told.
func TestBlocksLeftOut(t *testing.T) {
	for class, name := range map[string]string{"NemotronHForCausalLM": "mtp.layers.0.mixer.in_proj.weight",
		"Ernie4_5_MoeForCausalLM": "model.mtp_block.0.mlp.up_proj.weight"} {
		s, _, want := layoutOf(t, class).folder(t)
		s.tensors[name] = []int{3, 4}
		s.weights()
		m, err := Open(s.dir)
		if err != nil {
			t.Fatal(class, err)
		}
		m.Close()
		if notes := fmt.Sprint(m.Notes); !strings.Contains(notes, "multi-token prediction are left out (1 tensors)") ||
			m.Tensors() != len(want.Tensors) {
			t.Errorf("%s: %s, %d tensors, want %d", class, notes, m.Tensors(), len(want.Tensors))
		}
	}
}

// TestRowsOfNemotronH: rows of q and k are in the order of pairs, as llama.cpp's converter puts them, though nothing is
// turned; those of v are not.
func TestRowsOfNemotronH(t *testing.T) {
	s, config, _ := layoutOf(t, "NemotronHForCausalLM").folder(t)
	for _, part := range []string{"q", "k", "v"} {
		name := "backbone.layers.3.mixer." + part + "_proj.weight"
		cols := s.tensors[name][1]
		s.values[name] = func(i int) float32 { return float32(i / cols) }
	}
	s.weights()
	d := int(config["head_dim"].(uint32))
	f, _ := converted(t, s.dir, Options{Type: "f32"})
	for _, part := range []string{"q", "k", "v"} {
		x := tensorOf(t, f, "blk.3.attn_"+part+".weight")
		values, cols := floats(t, f, x), int(x.Dims[0])
		for row := range int(x.Dims[1]) {
			want := row
			if part != "v" {
				want = row/d*d + row%d/2 + row%2*d/2
			}
			if got := values[row*cols]; got != float32(want) {
				t.Fatalf("row %d of %s is row %v of the source, want %d", row, part, got, want)
			}
		}
	}
}

// TestFeedForwardOfLFM2: what config.json does not say of the numbers between gate and down is as the classes have it.
func TestFeedForwardOfLFM2(t *testing.T) {
	for _, c := range []struct {
		members  object
		adjusted bool
		want     int
	}{
		{object{"intermediate_size": 12288}, true, 8192},
		{object{"block_ff_dim": 6912, "intermediate_size": 1}, true, 4608},
		{object{"intermediate_size": 1000, "block_multiple_of": 100}, true, 700},
		{object{"intermediate_size": 12288, "block_auto_adjust_ff_dim": false}, true, 12288},
		{object{"intermediate_size": 7168}, false, 7168}, // with experts
	} {
		s := &source{t: t, dir: t.TempDir()}
		s.writeConfig(c.members)
		config, err := readConfig(s.dir + "/config.json")
		if err != nil {
			t.Fatal(err)
		}
		if got := lfm2FeedForward(config, c.adjusted); got != c.want || *config.err != nil {
			t.Errorf("%v: %d, %v, want %d", c.members, got, *config.err, c.want)
		}
	}
}
