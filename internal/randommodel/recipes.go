package randommodel

import (
	"maps"

	"github.com/specgo/spec/gguf"
)

// Recipes are models of every architecture, with every part that it may have in one of them.
func Recipes() map[string]Recipe {
	type keys = map[string]gguf.Value
	used := func(more keys) keys {
		all := keys{"expert_count": uint32(Experts), "expert_used_count": uint32(3)}
		maps.Copy(all, more)
		return all
	}
	yarn := func(more keys) keys {
		all := keys{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4),
			"rope.scaling.original_context_length": uint32(20), "rope.freq_base": float32(50)}
		maps.Copy(all, more)
		return all
	}
	granite := keys{"embedding_scale": float32(3), "residual_scale": float32(0.5), "attention.scale": float32(0.15),
		"logit_scale": float32(2)}
	swa := func(more keys) keys {
		all := keys{"attention.sliding_window": uint32(9),
			"attention.sliding_window_pattern": []bool{false, true, true, false},
			"attention.rope_pattern":           []bool{false, true, false, true}}
		maps.Copy(all, more)
		return all
	}
	all := map[string]Recipe{
		"llama":      {Arch: "llama", Parts: "gate"},
		"gpt2":       {Arch: "gpt2", Parts: "ln fused bias learned", KV: 4},
		"llama yarn": {Arch: "llama", Parts: "gate factors", Keys: yarn(nil)},
		"llama longrope long": {Arch: "llama", Parts: "gate longshort",
			Keys: keys{"rope.scaling.type": "longrope", "rope.scaling.original_context_length": uint32(128)}},
		"llama experts": {Arch: "llama", Parts: "gate experts", Keys: used(nil)},
		"llama experts scaled": {Arch: "llama", Parts: "gate experts",
			Keys: used(keys{"expert_weights_scale": float32(1.5)})},
		"mistral3": {Arch: "mistral3", Parts: "gate untied",
			Keys: yarn(keys{"attention.temperature_scale": float32(0.5), "rope.scaling.yarn_beta_fast": float32(3),
				"rope.scaling.yarn_beta_slow": float32(0.5), "rope.scaling.yarn_log_multiplier": float32(0.3)})},
		"smollm3":         {Arch: "smollm3", Parts: "gate"},
		"ernie4_5":        {Arch: "ernie4_5", Parts: "gate"},
		"ernie4_5 biases": {Arch: "ernie4_5", Parts: "gate bias"},
		"internlm2":       {Arch: "internlm2", Parts: "gate untied fused"},
		"arcee":           {Arch: "arcee", Parts: ""},
		"hunyuan-dense": {Arch: "hunyuan-dense", Parts: "gate qkhead",
			Keys: keys{"rope.scaling.alpha": float32(20)}},
		"exaone":  {Arch: "exaone", Parts: "gate factors"},
		"exaone4": {Arch: "exaone4", Parts: "gate noinput post qkhead factors"},
		"minicpm": {Arch: "minicpm", Parts: "gate"},
		"minicpm with keys": {Arch: "minicpm", Parts: "gate",
			Keys: keys{"embedding_scale": float32(3), "residual_scale": float32(0.5), "logit_scale": float32(2)}},
		"granite": {Arch: "granite", Parts: "gate", Keys: granite},
		"granite without angles": {Arch: "granite", Parts: "gate",
			Keys: keys{"logit_scale": float32(2), "rope.scaling.finetuned": false, "rope.freq_base": float32(100)}},
		"granitemoe": {Arch: "granitemoe", Parts: "gate experts",
			Keys: used(keys{"logit_scale": float32(2), "expert_shared_feed_forward_length": uint32(32)})},
		"granite_swa": {Arch: "granite_swa", Parts: "gate sinks bias", Keys: swa(granite)},
		"granite_swa experts": {Arch: "granite_swa", Parts: "gate sinks experts sharedup2",
			Keys: used(swa(keys{"logit_scale": float32(2), "expert_shared_feed_forward_length": uint32(32),
				"attention.rope_pattern": nil}))},
		"granite_swa experts, one matrix": {Arch: "granite_swa", Parts: "gate sinks experts gateups untied",
			Keys: used(swa(keys{"logit_scale": float32(0.5)}))},
		"muse-glimmer published": {Arch: "muse-glimmer", Parts: "gate attngate post qkhead untied",
			Keys: keys{"attention.sliding_window": uint32(9), "rope.freq_base": float32(500),
				"attention.sliding_window_pattern": []bool{true, true, true, false}, "logit_scale": float32(0.4),
				"final_logit_softcapping": float32(3)}},
		"spark2_5": {Arch: "spark2_5", Parts: "gate headgate fused",
			Keys: keys{"attention.sliding_window": uint32(9), "rope.freq_base": float32(500), "rope.freq_base_swa": float32(60),
				"attention.sliding_window_pattern": []bool{true, true, true, false}, "rope.dimension_count": uint32(4),
				"rope.dimension_count_swa": uint32(12)}},
		"qwen2": {Arch: "qwen2", Parts: "gate qkvbias untied outbias"},
		"qwen2moe": {Arch: "qwen2moe", Parts: "gate experts sharedgate untied",
			Keys: used(keys{"expert_feed_forward_length": uint32(32), "expert_shared_feed_forward_length": uint32(64)})},
		"qwen3": {Arch: "qwen3", Parts: "gate qkhead"},
		"qwen3vl": {Arch: "qwen3vl", Parts: "gate qkhead",
			Keys: keys{"rope.dimension_sections": []int32{3, 3, 2, 0}}},
		"qwen3moe": {Arch: "qwen3moe", Parts: "gate qkhead experts",
			Keys: used(keys{"expert_feed_forward_length": uint32(32)})},
		"gemma": {Arch: "gemma", Parts: "gate"},
		"gemma2": {Arch: "gemma2", Parts: "gate post",
			Keys: keys{"attention.sliding_window": uint32(9), "attn_logit_softcapping": float32(2),
				"final_logit_softcapping": float32(3)}},
		"gemma2 without caps": {Arch: "gemma2", Parts: "gate post"},
		"gemma3": {Arch: "gemma3", Parts: "gate post qkhead", Layers: 7,
			Keys: keys{"attention.sliding_window": uint32(9), "rope.scaling.factor": float32(4),
				"rope.freq_base": float32(1e5)}},
		"gemma3 pattern": {Arch: "gemma3", Parts: "gate post qkhead",
			Keys: keys{"attention.sliding_window": uint32(9), "attention.sliding_window_pattern": uint32(2),
				"final_logit_softcapping": float32(3)}},
		"olmo":  {Arch: "olmo", Parts: "gate plain", Keys: keys{"attention.clamp_kqv": float32(0.5)}},
		"olmo2": {Arch: "olmo2", Parts: "gate noinput post qktoken untied"},
		"olmo2 windows": {Arch: "olmo2", Parts: "gate noinput post qktoken untied",
			Keys: yarn(keys{"attention.sliding_window": uint32(9),
				"attention.sliding_window_pattern": []bool{true, false, true, true}, "rope.scaling.attn_factor": float32(1.2)})},
		"olmo2 pattern": {Arch: "olmo2", Parts: "gate noinput post qktoken untied",
			Keys: keys{"attention.sliding_window": uint32(9),
				"attention.sliding_window_pattern": []bool{true, true, true, false}}},
		"olmoe": {Arch: "olmoe", Parts: "gate qktoken experts untied", KV: 4, Keys: used(nil)},
		"phi2": {Arch: "phi2", Parts: "ln fused bias noffnnorm untied outbias",
			Keys: keys{"rope.dimension_count": uint32(8)}},
		"phi3 short": {Arch: "phi3", Parts: "fused up2 longshort untied",
			Keys: keys{"rope.scaling.attn_factor": float32(1.2), "rope.scaling.original_context_length": uint32(400),
				"attention.sliding_window": uint32(5)}},
		"phi3 long": {Arch: "phi3", Parts: "fused up2 longshort untied",
			Keys: keys{"rope.scaling.original_context_length": uint32(100)}},
		"glm4": {Arch: "glm4", Parts: "post up2 qkvbias", Keys: keys{"rope.dimension_count": uint32(8)}},
		"gptneox": {Arch: "gptneox", Parts: "ln fused bias untied",
			Keys: keys{"use_parallel_residual": true, "rope.dimension_count": uint32(4)}},
		"gptneox sequential": {Arch: "gptneox", Parts: "ln fused bias untied",
			Keys: keys{"use_parallel_residual": false}},
		"gptj": {Arch: "gptj", Parts: "ln ffnbias noffnnorm untied outbias", KV: 4,
			Keys: keys{"rope.dimension_count": uint32(8), "attention.head_count_kv": nil}},
		"codegen": {Arch: "codegen", Parts: "ln ffnbias noffnnorm untied outbias", KV: 4,
			Keys: keys{"attention.head_count_kv": nil}},
		"opt": {Arch: "opt", Parts: "ln bias learned", KV: 4, Keys: keys{"attention.head_count_kv": nil}},
		"opt post-norm": {Arch: "opt", Parts: "ln bias learned nofinal", KV: 4,
			Keys: keys{"attention.head_count_kv": nil, "norm_before": false, "word_embedding_length": uint32(40)}},
		"opt projected": {Arch: "opt", Parts: "ln bias learned", KV: 4,
			Keys:   keys{"norm_before": true, "word_embedding_length": uint32(80)},
			Widths: keys{"word_embedding_length": uint32(80)}},
		"opt without final norm": {Arch: "opt", Parts: "ln bias learned nofinal", KV: 4,
			Keys: keys{"word_embedding_length": uint32(Width)}},
		"starcoder":        {Arch: "starcoder", Parts: "ln fused bias learned", KV: 1},
		"starcoder2":       {Arch: "starcoder2", Parts: "ln bias"},
		"falcon":           {Arch: "falcon", Parts: "ln fused noffnnorm", KV: 1},
		"falcon two norms": {Arch: "falcon", Parts: "ln fused noffnnorm norm2 untied"},
		"mpt": {Arch: "mpt", Parts: "lnw fused", KV: 4,
			Keys: keys{"attention.max_alibi_bias": float32(8), "attention.clamp_kqv": float32(0.7)}},
		"mpt learned": {Arch: "mpt", Parts: "ln fused learned qktoken bias", KV: 4},
		"bloom":       {Arch: "bloom", Parts: "ln fused bias embnorm", KV: 4},
		"stablelm": {Arch: "stablelm", Parts: "ln gate qkvbias untied",
			Keys: keys{"rope.dimension_count": uint32(4)}},
		"stablelm parallel": {Arch: "stablelm", Parts: "ln gate noffnnorm qkown untied",
			Keys: keys{"use_parallel_residual": true}},
		"nemotron":  {Arch: "nemotron", Parts: "ln untied bias", Keys: keys{"rope.dimension_count": uint32(8)}},
		"command-r": {Arch: "command-r", Parts: "lnw gate noffnnorm", Keys: keys{"logit_scale": float32(0.3)}},
		"cohere2": {Arch: "cohere2", Parts: "lnw gate noffnnorm",
			Keys: keys{"logit_scale": float32(0.3), "attention.sliding_window": uint32(9)}},
		"gpt-oss": {Arch: "gpt-oss", Parts: "gate bias ffnpost sinks experts hot untied",
			Keys: used(yarn(keys{"attention.sliding_window": uint32(9), "expert_feed_forward_length": uint32(32)}))},
		"falcon key_length given": {Arch: "falcon", Parts: "ln fused noffnnorm",
			Keys: keys{"attention.key_length": uint32(Dim), "attention.value_length": uint32(Dim)}},
	}
	maps.Copy(all, HybridRecipes())
	return all
}

// HybridRecipes are models with recurrent layers.
func HybridRecipes() map[string]Recipe {
	type keys = map[string]gguf.Value
	kv := []uint32{0, 2, 0, 2}
	mamba := func(more keys) keys {
		all := keys{"ssm.conv_kernel": uint32(Taps), "ssm.inner_size": uint32(MambaInner), "ssm.state_size": uint32(State),
			"ssm.time_step_rank": uint32(MambaHeads), "ssm.group_count": uint32(Groups)}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	delta := keys{"ssm.inner_size": uint32(State * DeltaHeads), "ssm.time_step_rank": uint32(DeltaHeads),
		"rope.dimension_count":    uint32(8),
		"rope.dimension_sections": []int32{2, 1, 1, 0}}
	deltaList := mamba(delta)
	deltaList["attention.recurrent_layers"] = []bool{true, false, true, true}
	granite := keys{"attention.head_count_kv": kv, "embedding_scale": float32(3), "residual_scale": float32(0.5),
		"logit_scale": float32(2), "rope.scaling.finetuned": false}
	gemma4 := keys{"attention.head_count_kv": []uint32{2, 2, 2, 1, 2, 1},
		"feed_forward_length": []uint32{96, 96, 96, 96, 64, 64}, "attention.sliding_window": uint32(9),
		"attention.sliding_window_pattern": []bool{true, true, true, false, true, false},
		"attention.shared_kv_layers":       uint32(2), "attention.key_length": uint32(2 * Dim),
		"attention.value_length": uint32(2 * Dim), "attention.key_length_swa": uint32(Dim),
		"attention.value_length_swa": uint32(Dim), "rope.dimension_count_swa": uint32(Dim),
		"embedding_length_per_layer_input": uint32(LayerInput), "final_logit_softcapping": float32(3),
		"rope.freq_base": float32(1e5)}
	used := func(all keys, more keys) keys {
		all = maps.Clone(all)
		all["expert_count"], all["expert_used_count"], all["expert_feed_forward_length"] = uint32(Experts), uint32(3),
			uint32(32)
		maps.Copy(all, more)
		return all
	}
	return map[string]Recipe{
		"gemma4 experts": {Arch: "gemma4", Parts: "gate post gemma4 experts beside gateups", Layers: 6,
			Keys: used(gemma4, keys{"embedding_length_per_layer_input": uint32(0)})},
		"gemma4 experts, two matrices": {Arch: "gemma4", Parts: "gate post gemma4 experts beside", Layers: 6,
			Keys: used(gemma4, keys{"embedding_length_per_layer_input": uint32(0)})},
		"qwen35moe": {Arch: "qwen35moe", Parts: "gate qkhead delta ffnpost gates experts sharedgate",
			Keys: used(mamba(delta), keys{"expert_shared_feed_forward_length": uint32(64)})},
		"qwen35moe gates and ups": {Arch: "qwen35moe",
			Parts: "gate qkhead delta ffnpost gates experts sharedgate gateups untied",
			Keys:  used(deltaList, keys{"expert_shared_feed_forward_length": uint32(32), "feed_forward_length": nil})},
		"gemma4": {Arch: "gemma4", Parts: "gate post gemma4", Layers: 6, Keys: gemma4},
		"lfm2": {Arch: "lfm2", Parts: "gate qkhead shortconv embfinal",
			Keys: keys{"attention.head_count_kv": kv, "shortconv.l_cache": uint32(Taps)}},
		"lfm2 windows": {Arch: "lfm2", Parts: "gate qkhead shortconv embfinal",
			Keys: keys{"attention.head_count_kv": kv, "shortconv.l_cache": uint32(Taps), "attention.sliding_window": uint32(9)}},
		"lfm2moe": {Arch: "lfm2moe", Parts: "gate qkhead shortconv embfinal experts choice",
			Keys: keys{"attention.head_count_kv": kv, "shortconv.l_cache": uint32(Taps),
				"leading_dense_block_count": uint32(1), "expert_count": uint32(Experts), "expert_used_count": uint32(3),
				"expert_gating_func": uint32(2), "expert_feed_forward_length": uint32(32)}},
		"granitehybrid": {Arch: "granitehybrid", Parts: "gate mamba mambanorm", Keys: mamba(granite)},
		"granitehybrid experts": {Arch: "granitehybrid", Parts: "gate mamba mambanorm experts",
			Keys: mamba(keys{"attention.head_count_kv": kv, "logit_scale": float32(2),
				"expert_count": uint32(Experts), "expert_used_count": uint32(3), "expert_shared_feed_forward_length": uint32(32)})},
		"falcon-h1":     {Arch: "falcon-h1", Parts: "gate mamba beside barenorm", Keys: mamba(nil)},
		"qwen35":        {Arch: "qwen35", Parts: "gate qkhead delta ffnpost gates", Keys: mamba(delta)},
		"qwen35 a list": {Arch: "qwen35", Parts: "gate qkhead delta ffnpost gates untied", Keys: deltaList},
	}
}
