package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
)

// recipe is a small random model of an architecture: the parts that its file has, by the words of recipe.file, and its keys.
type recipe struct {
	arch, parts string
	keys        map[string]gguf.Value // without the prefix
	widths      map[string]gguf.Value // the keys that the tensors of experts and embeddings follow; nil: keys
	layers      int                   // 0: 4
	mtp         int                   // blocks for multi-token prediction after them
	kv          int                   // 0: 2
}

const (
	recipeWidth, recipeHeads, recipeDim, recipeInner, recipeVocab = 64, 4, 16, 96, 70
	recipeExperts                                                 = 6
)

// file is the GGUF file.
func (r recipe) file(tb testing.TB) []byte {
	tb.Helper()
	words := strings.Fields(r.parts)
	has := func(word string) bool { return slices.Contains(words, word) }
	layers, kv := r.layers, r.kv
	if layers == 0 {
		layers = 4
	}
	if kv == 0 {
		kv = 2
	}
	own := layers
	layers += r.mtp
	keys := map[string]gguf.Value{
		"context_length": uint32(512), "embedding_length": uint32(recipeWidth), "block_count": uint32(layers), "feed_forward_length": uint32(recipeInner),
		"attention.head_count": uint32(recipeHeads), "attention.head_count_kv": uint32(kv), "vocab_size": uint32(recipeVocab),
	}
	if has("ln") || has("lnw") || has("plain") {
		keys["attention.layer_norm_epsilon"] = float32(1e-5)
	} else {
		keys["attention.layer_norm_rms_epsilon"] = float32(1e-6)
	}
	if r.mtp > 0 {
		keys["nextn_predict_layers"] = uint32(r.mtp)
	}
	maps.Copy(keys, r.keys)
	kvs := []gguf.KV{{Key: "general.architecture", Value: r.arch}}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if keys[k] == nil {
			continue
		}
		kvs = append(kvs, gguf.KV{Key: r.arch + "." + k, Value: keys[k]})
	}
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float64, dims ...int) { // columns first
		tensors = append(tensors, randomTensor(9, name, mean, spread, dims...))
	}
	matrix := func(name string, bias bool, rows, cols int, more ...int) {
		spread := 1.3 / math.Sqrt(float64(cols))
		if has("hot") && strings.Contains(name, "ffn_") { // activations beyond the limits of a clamped gate
			spread *= 3
		}
		add(name+".weight", 0, spread, append([]int{cols, rows}, more...)...)
		if bias {
			add(name+".bias", 0, 0.3, append([]int{rows}, more...)...)
		}
	}
	norm := func(name string, n ...int) {
		if has("plain") {
			return
		}
		if add(name+".weight", 1, 0.3, n...); has("ln") && !strings.HasSuffix(name, "_q_norm") && !strings.HasSuffix(name, "_k_norm") {
			add(name+".bias", 0, 0.3, n...)
		}
	}
	widths := r.keys
	if r.widths != nil {
		widths = r.widths
	}
	if w, ok := widths["word_embedding_length"].(uint32); ok && int(w) != recipeWidth {
		add("token_embd.weight", 0, 0.7, int(w), recipeVocab)
		matrix("project_in", false, recipeWidth, int(w))
		matrix("project_out", false, int(w), recipeWidth)
	} else {
		add("token_embd.weight", 0, 0.7, recipeWidth, recipeVocab)
	}
	if has("learned") {
		add("position_embd.weight", 0, 0.3, recipeWidth, 512)
	}
	if has("embnorm") {
		norm("token_embd_norm", recipeWidth)
	}
	if has("factors") {
		add("rope_freqs.weight", 2, 0.4, recipeDim/2)
	}
	if has("longshort") {
		add("rope_factors_long.weight", 2, 0.4, recipeDim/2)
		add("rope_factors_short.weight", 3, 0.4, recipeDim/2)
	}
	if has("gemma4") {
		add("rope_freqs.weight", 2, 0.4, recipeDim)
	}
	if has("gemma4") && !has("beside") {
		add("per_layer_token_embd.weight", 0, 0.5, recipeLayerInput*layers, recipeVocab)
		matrix("per_layer_model_proj", false, recipeLayerInput*layers, recipeWidth)
		norm("per_layer_proj_norm", recipeLayerInput)
	}
	for i := range layers {
		b := fmt.Sprintf("blk.%d.", i)
		if !has("noinput") {
			norm(b+"attn_norm", recipeWidth)
		}
		if has("norm2") {
			norm(b+"attn_norm_2", recipeWidth)
		}
		q, k := recipeHeads*recipeDim, kv*recipeDim
		recurrent := (has("shortconv") || has("mamba")) && i%2 == 0 && !has("beside")
		if has("delta") {
			recurrent = (i+1)%4 != 0
			if list, ok := r.keys["attention.recurrent_layers"].([]bool); ok && i < len(list) {
				recurrent = list[i]
			}
		}
		if i >= own {
			recurrent = false
			matrix(b+"nextn.eh_proj", false, recipeWidth, 2*recipeWidth)
			norm(b+"nextn.enorm", recipeWidth)
			norm(b+"nextn.hnorm", recipeWidth)
			if has("ends") {
				add(b+"nextn.embed_tokens.weight", 0, 0.7, recipeWidth, recipeVocab)
				matrix(b+"nextn.shared_head_head", false, recipeVocab, recipeWidth)
				norm(b+"nextn.shared_head_norm", recipeWidth)
			}
		}
		if has("shortconv") && recurrent {
			matrix(b+"shortconv.in_proj", false, 3*recipeWidth, recipeWidth)
			add(b+"shortconv.conv.weight", 0, 0.7, recipeTaps, recipeWidth)
			matrix(b+"shortconv.out_proj", false, recipeWidth, recipeWidth)
		}
		if has("mamba") && (recurrent || has("beside")) {
			conv := recipeMambaInner + 2*recipeGroups*recipeState
			matrix(b+"ssm_in", false, recipeMambaInner+conv+recipeMambaHeads, recipeWidth)
			add(b+"ssm_conv1d.weight", 0, 0.7, recipeTaps, conv)
			add(b+"ssm_conv1d.bias", 0, 0.3, conv)
			add(b+"ssm_dt.bias", 0, 0.7, recipeMambaHeads)
			add(b+"ssm_a", -0.5, 0.1, 1, recipeMambaHeads)
			add(b+"ssm_d", 0, 1, 1, recipeMambaHeads)
			if has("mambanorm") {
				add(b+"ssm_norm.weight", 1, 0.3, recipeMambaInner/recipeGroups, recipeGroups)
			}
			matrix(b+"ssm_out", false, recipeWidth, recipeMambaInner)
		}
		if has("delta") && recurrent {
			conv, values := recipeState*(2*recipeGroups+recipeDeltaHeads), recipeState*recipeDeltaHeads
			matrix(b+"attn_qkv", false, conv, recipeWidth)
			matrix(b+"attn_gate", false, values, recipeWidth)
			matrix(b+"ssm_alpha", false, recipeDeltaHeads, recipeWidth)
			matrix(b+"ssm_beta", false, recipeDeltaHeads, recipeWidth)
			add(b+"ssm_conv1d.weight", 0, 0.7, recipeTaps, conv)
			add(b+"ssm_dt.bias", 0, 0.7, recipeDeltaHeads)
			add(b+"ssm_a", -0.5, 0.1, recipeDeltaHeads)
			add(b+"ssm_norm.weight", 1, 0.3, recipeState)
			matrix(b+"ssm_out", false, recipeWidth, values)
		}
		inner := recipeInner
		if has("gemma4") {
			dim, kv := 2*recipeDim, 1
			if i != 3 && i != 5 {
				dim, kv = recipeDim, 2
			}
			if q, k = recipeHeads*dim, kv*dim; i > 3 {
				inner = 64
			}
			if norm(b+"attn_q_norm", dim); i < 4 {
				norm(b+"attn_k_norm", dim)
				matrix(b+"attn_k", false, k, recipeWidth)
			}
			if i < 3 {
				matrix(b+"attn_v", false, k, recipeWidth)
			}
			if !has("beside") {
				matrix(b+"inp_gate", false, recipeLayerInput, recipeWidth)
				matrix(b+"proj", false, recipeWidth, recipeLayerInput)
				norm(b+"post_norm", recipeWidth)
			}
			add(b+"layer_output_scale.weight", 0.8, 0.1, 1)
		}
		switch {
		case recurrent:
		case has("gemma4"):
			matrix(b+"attn_q", false, q, recipeWidth)
		case has("gates"):
			matrix(b+"attn_q", false, 2*q, recipeWidth)
			matrix(b+"attn_k", false, k, recipeWidth)
			matrix(b+"attn_v", false, k, recipeWidth)
		case has("fused"):
			matrix(b+"attn_qkv", has("bias"), q+2*k, recipeWidth)
		default:
			matrix(b+"attn_q", has("bias") || has("qkvbias"), q, recipeWidth)
			matrix(b+"attn_k", has("bias") || has("qkvbias"), k, recipeWidth)
			matrix(b+"attn_v", has("bias") || has("qkvbias"), k, recipeWidth)
		}
		if !recurrent {
			matrix(b+"attn_output", has("bias"), recipeWidth, q)
		}
		switch {
		case recurrent:
		case has("qkhead"):
			norm(b+"attn_q_norm", recipeDim)
			norm(b+"attn_k_norm", recipeDim)
		case has("qktoken"):
			norm(b+"attn_q_norm", q)
			norm(b+"attn_k_norm", k)
		case has("qkown"):
			norm(b+"attn_q_norm", recipeDim, recipeHeads)
			norm(b+"attn_k_norm", recipeDim, kv)
		}
		if has("sinks") {
			add(b+"attn_sinks.weight", 0, 2, recipeHeads)
		}
		if has("barenorm") {
			add(b+"ffn_norm", 1, 0.3, recipeWidth)
		}
		switch {
		case has("ffnpost"):
			norm(b+"post_attention_norm", recipeWidth)
		case has("post"):
			norm(b+"post_attention_norm", recipeWidth)
			norm(b+"post_ffw_norm", recipeWidth)
		}
		if !has("noinput") && !has("noffnnorm") && !has("ffnpost") && !has("barenorm") {
			norm(b+"ffn_norm", recipeWidth)
		}
		feedForward := func(suffix string, inner int, n ...int) {
			if has("gate") {
				matrix(b+"ffn_gate"+suffix, has("bias"), inner, recipeWidth, n...)
			}
			up := inner
			if has("up2") {
				up *= 2
			}
			if has("gateups") && suffix == "_exps" {
				tensors = tensors[:len(tensors)-1] // without the gate
				matrix(b+"ffn_gate_up_exps", false, 2*inner, recipeWidth, n...)
				matrix(b+"ffn_down_exps", false, recipeWidth, inner, n...)
				return
			}
			matrix(b+"ffn_up"+suffix, has("bias") || has("ffnbias"), up, recipeWidth, n...)
			matrix(b+"ffn_down"+suffix, has("bias") || has("ffnbias"), recipeWidth, inner, n...)
		}
		if n, ok := r.keys["leading_dense_block_count"].(uint32); !has("experts") || ok && i < int(n) {
			feedForward("", inner)
			continue
		}
		if has("gemma4") {
			feedForward("", inner)
			norm(b+"pre_ffw_norm_2", recipeWidth)
			norm(b+"post_ffw_norm_1", recipeWidth)
			norm(b+"post_ffw_norm_2", recipeWidth)
			add(b+"ffn_gate_inp.scale", 8, 3, recipeWidth)
			add(b+"ffn_down_exps.scale", 1.5, 0.5, recipeExperts)
		}
		if n, ok := widths["expert_feed_forward_length"]; ok {
			inner = int(n.(uint32))
		}
		matrix(b+"ffn_gate_inp", has("bias"), recipeExperts, recipeWidth)
		if has("choice") {
			add(b+"exp_probs_b.bias", 0, 0.2, recipeExperts)
		}
		feedForward("_exps", inner, recipeExperts)
		if n, ok := widths["expert_shared_feed_forward_length"]; ok {
			feedForward("_shexp", int(n.(uint32)))
		}
		if has("sharedgate") {
			add(b+"ffn_gate_inp_shexp.weight", 0, 0.3, recipeWidth)
		}
	}
	switch {
	case has("nofinal"):
	case has("embfinal"):
		norm("token_embd_norm", recipeWidth)
	default:
		norm("output_norm", recipeWidth)
	}
	if has("untied") {
		matrix("output", has("outbias"), recipeVocab, recipeWidth)
	}
	return fileBytes(tb, kvs, tensors)
}

// recipes are models of every architecture, with every part that it may have in one of them.
func recipes() map[string]recipe {
	type keys = map[string]gguf.Value
	used := func(more keys) keys {
		all := keys{"expert_count": uint32(recipeExperts), "expert_used_count": uint32(3)}
		maps.Copy(all, more)
		return all
	}
	yarn := func(more keys) keys {
		all := keys{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(20), "rope.freq_base": float32(50)}
		maps.Copy(all, more)
		return all
	}
	granite := keys{"embedding_scale": float32(3), "residual_scale": float32(0.5), "attention.scale": float32(0.15), "logit_scale": float32(2)}
	all := map[string]recipe{
		"llama yarn":              {arch: "llama", parts: "gate factors", keys: yarn(nil)},
		"llama longrope long":     {arch: "llama", parts: "gate longshort", keys: keys{"rope.scaling.type": "longrope", "rope.scaling.original_context_length": uint32(128)}},
		"llama experts":           {arch: "llama", parts: "gate experts", keys: used(keys{"expert_weights_scale": float32(1.5)})},
		"mistral3":                {arch: "mistral3", parts: "gate untied", keys: yarn(keys{"attention.temperature_scale": float32(0.5), "rope.scaling.yarn_beta_fast": float32(3), "rope.scaling.yarn_beta_slow": float32(0.5), "rope.scaling.yarn_log_multiplier": float32(0.3)})},
		"smollm3":                 {arch: "smollm3", parts: "gate"},
		"ernie4_5":                {arch: "ernie4_5", parts: "gate bias"},
		"internlm2":               {arch: "internlm2", parts: "gate untied fused"},
		"arcee":                   {arch: "arcee", parts: ""},
		"hunyuan-dense":           {arch: "hunyuan-dense", parts: "gate qkhead", keys: keys{"rope.scaling.alpha": float32(20)}},
		"exaone":                  {arch: "exaone", parts: "gate factors"},
		"exaone4":                 {arch: "exaone4", parts: "gate noinput post qkhead factors"},
		"minicpm":                 {arch: "minicpm", parts: "gate"},
		"minicpm with keys":       {arch: "minicpm", parts: "gate", keys: keys{"embedding_scale": float32(3), "residual_scale": float32(0.5), "logit_scale": float32(2)}},
		"granite":                 {arch: "granite", parts: "gate", keys: granite},
		"granite without angles":  {arch: "granite", parts: "gate", keys: keys{"logit_scale": float32(2), "rope.scaling.finetuned": false, "rope.freq_base": float32(100)}},
		"granitemoe":              {arch: "granitemoe", parts: "gate experts", keys: used(keys{"logit_scale": float32(2), "expert_shared_feed_forward_length": uint32(32)})},
		"qwen2":                   {arch: "qwen2", parts: "gate qkvbias untied outbias"},
		"qwen2moe":                {arch: "qwen2moe", parts: "gate experts sharedgate untied", keys: used(keys{"expert_feed_forward_length": uint32(32), "expert_shared_feed_forward_length": uint32(64)})},
		"qwen3":                   {arch: "qwen3", parts: "gate qkhead"},
		"qwen3vl":                 {arch: "qwen3vl", parts: "gate qkhead", keys: keys{"rope.dimension_sections": []int32{4, 2, 2, 0}}},
		"qwen3moe":                {arch: "qwen3moe", parts: "gate qkhead experts", keys: used(keys{"expert_feed_forward_length": uint32(32)})},
		"gemma":                   {arch: "gemma", parts: "gate"},
		"gemma2":                  {arch: "gemma2", parts: "gate post", keys: keys{"attention.sliding_window": uint32(9), "attn_logit_softcapping": float32(2), "final_logit_softcapping": float32(3)}},
		"gemma2 without caps":     {arch: "gemma2", parts: "gate post"},
		"gemma3":                  {arch: "gemma3", parts: "gate post qkhead", layers: 7, keys: keys{"attention.sliding_window": uint32(9), "rope.scaling.factor": float32(4), "rope.freq_base": float32(1e5)}},
		"gemma3 pattern":          {arch: "gemma3", parts: "gate post qkhead", keys: keys{"attention.sliding_window": uint32(9), "attention.sliding_window_pattern": uint32(2), "final_logit_softcapping": float32(3)}},
		"olmo":                    {arch: "olmo", parts: "gate plain", keys: keys{"attention.clamp_kqv": float32(0.5)}},
		"olmo2":                   {arch: "olmo2", parts: "gate noinput post qktoken untied"},
		"olmo2 windows":           {arch: "olmo2", parts: "gate noinput post qktoken untied", keys: yarn(keys{"attention.sliding_window": uint32(9), "attention.sliding_window_pattern": []bool{true, false, true, true}, "rope.scaling.attn_factor": float32(1.2)})},
		"olmoe":                   {arch: "olmoe", parts: "gate qktoken experts", keys: used(nil)},
		"phi2":                    {arch: "phi2", parts: "ln fused bias noffnnorm untied outbias", keys: keys{"rope.dimension_count": uint32(8)}},
		"phi3 short":              {arch: "phi3", parts: "fused up2 longshort untied", keys: keys{"rope.scaling.attn_factor": float32(1.2), "rope.scaling.original_context_length": uint32(400), "attention.sliding_window": uint32(5)}},
		"phi3 long":               {arch: "phi3", parts: "fused up2 longshort untied", keys: keys{"rope.scaling.original_context_length": uint32(100)}},
		"glm4":                    {arch: "glm4", parts: "post up2 qkvbias", keys: keys{"rope.dimension_count": uint32(8)}},
		"gptneox":                 {arch: "gptneox", parts: "ln fused bias untied", keys: keys{"use_parallel_residual": true, "rope.dimension_count": uint32(4)}},
		"gptneox sequential":      {arch: "gptneox", parts: "ln fused bias untied", keys: keys{"use_parallel_residual": false}},
		"gptj":                    {arch: "gptj", parts: "ln ffnbias noffnnorm untied outbias", kv: 4, keys: keys{"rope.dimension_count": uint32(8), "attention.head_count_kv": nil}},
		"codegen":                 {arch: "codegen", parts: "ln ffnbias noffnnorm untied outbias", kv: 4, keys: keys{"attention.head_count_kv": nil}},
		"opt":                     {arch: "opt", parts: "ln bias learned", kv: 4, keys: keys{"attention.head_count_kv": nil}},
		"opt post-norm":           {arch: "opt", parts: "ln bias learned nofinal", kv: 4, keys: keys{"attention.head_count_kv": nil, "norm_before": false, "word_embedding_length": uint32(40)}},
		"opt projected":           {arch: "opt", parts: "ln bias learned", kv: 4, keys: keys{"norm_before": true, "word_embedding_length": uint32(80)}, widths: keys{"word_embedding_length": uint32(80)}},
		"opt without final norm":  {arch: "opt", parts: "ln bias learned nofinal", kv: 4, keys: keys{"word_embedding_length": uint32(recipeWidth)}},
		"starcoder":               {arch: "starcoder", parts: "ln fused bias learned", kv: 1},
		"starcoder2":              {arch: "starcoder2", parts: "ln bias"},
		"falcon":                  {arch: "falcon", parts: "ln fused noffnnorm", kv: 1},
		"falcon two norms":        {arch: "falcon", parts: "ln fused noffnnorm norm2 untied"},
		"mpt":                     {arch: "mpt", parts: "lnw fused", kv: 4, keys: keys{"attention.max_alibi_bias": float32(8), "attention.clamp_kqv": float32(0.7)}},
		"mpt learned":             {arch: "mpt", parts: "ln fused learned qktoken bias", kv: 4},
		"bloom":                   {arch: "bloom", parts: "ln fused bias embnorm", kv: 4},
		"stablelm":                {arch: "stablelm", parts: "ln gate qkvbias untied", keys: keys{"rope.dimension_count": uint32(4)}},
		"stablelm parallel":       {arch: "stablelm", parts: "ln gate noffnnorm qkown untied", keys: keys{"use_parallel_residual": true}},
		"nemotron":                {arch: "nemotron", parts: "ln untied bias", keys: keys{"rope.dimension_count": uint32(8)}},
		"command-r":               {arch: "command-r", parts: "lnw gate noffnnorm", keys: keys{"logit_scale": float32(0.3)}},
		"cohere2":                 {arch: "cohere2", parts: "lnw gate noffnnorm", keys: keys{"logit_scale": float32(0.3), "attention.sliding_window": uint32(9)}},
		"gpt-oss":                 {arch: "gpt-oss", parts: "gate bias ffnpost sinks experts hot untied", keys: used(yarn(keys{"attention.sliding_window": uint32(9), "expert_feed_forward_length": uint32(32)}))},
		"falcon key_length given": {arch: "falcon", parts: "ln fused noffnnorm", keys: keys{"attention.key_length": uint32(recipeDim), "attention.value_length": uint32(recipeDim)}},
	}
	maps.Copy(all, hybridRecipes())
	return all
}

// TestReferenceFamilies: every architecture against the reference, on random models.
func TestReferenceFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	ids := randomTokens(30, recipeVocab, 5)
	tested := map[string]bool{"gpt2": true, "t5": true, "t5encoder": true} // by TestReference, TestT5Reference and TestT5
	for name, r := range recipes() {
		tested[r.arch] = true
		file := r.file(t)
		m, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), Options{Name: name, RopeContext: ropeContext})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), ids, nil, All)
		if d := difference(t, got, newReference(t, file).logits(ids)); !(d < 1e-4) {
			t.Errorf("%s: the logits are off by %.2g of their root mean square", name, d)
		}
		m.Close()
	}
	for _, arch := range Architectures() {
		if !tested[arch] {
			t.Errorf("%s has no recipe", arch)
		}
	}
}

// TestBadFamilies: what an architecture does not have, or a key that contradicts it, is refused by name.
func TestBadFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	type keys = map[string]gguf.Value
	all := recipes()
	for _, c := range []struct {
		recipe string
		parts  string // added
		keys   keys   // changed; nil values are left out
		want   error
		names  string
	}{
		{"qwen3", "factors", nil, ErrUnsupported, "rope_freqs.weight"},
		{"qwen3", "sinks", nil, ErrUnsupported, "blk.0.attn_sinks.weight"},
		{"qwen3", "", keys{"attention.sliding_window": uint32(8)}, ErrUnsupported, "qwen3.attention.sliding_window"},
		{"qwen3", "", keys{"attention.value_length": uint32(8)}, ErrUnsupported, "qwen3.attention.value_length"},
		{"qwen2", "qkhead", nil, ErrUnsupported, "blk.0.attn_q_norm.weight"},
		{"gemma", "untied", nil, ErrUnsupported, "output.weight"},
		{"gemma2", "qkhead", nil, ErrUnsupported, "blk.0.attn_q_norm.weight"},
		{"gemma3", "", keys{"attn_logit_softcapping": float32(50)}, ErrUnsupported, "gemma3.attn_logit_softcapping"},
		{"cohere2", "", keys{"attention.sliding_window": nil}, gguf.ErrMissing, "cohere2.attention.sliding_window"},
		{"cohere2", "", keys{"logit_scale": nil}, gguf.ErrMissing, "cohere2.logit_scale"},
		{"granite", "", keys{"logit_scale": float32(0)}, ErrValue, "granite.logit_scale"},
		{"granite", "", keys{"logit_scale": nil}, gguf.ErrMissing, "granite.logit_scale"},
		{"gptneox", "", keys{"use_parallel_residual": nil}, gguf.ErrMissing, "gptneox.use_parallel_residual"},
		{"llama experts", "", keys{"expert_used_count": uint32(7)}, ErrValue, "llama.expert_used_count"},
		{"llama experts", "", keys{"expert_used_count": uint32(0)}, ErrValue, "llama.expert_used_count"},
		{"llama experts", "", keys{"expert_count": uint32(1 << 20)}, ErrValue, "llama.expert_count"},
		{"llama experts", "", keys{"expert_count": uint32(5)}, ErrShape, "blk.0.ffn_gate_inp.weight"},
		{"llama experts", "", keys{"expert_gating_func": uint32(2)}, ErrUnsupported, "llama.expert_gating_func"},
		{"llama experts", "", keys{"expert_weights_norm": false}, ErrUnsupported, "llama.expert_weights_norm"},
		{"llama experts", "sharedgate", nil, ErrUnsupported, "blk.0.ffn_gate_inp_shexp.weight"},
		{"llama experts", "", keys{"expert_count": uint32(0)}, ErrMissing, "blk.0.ffn_gate.weight"},
		{"llama yarn", "", keys{"rope.scaling.original_context_length": uint32(0)}, ErrValue, "llama.rope.scaling.original_context_length"},
		{"mistral3", "", keys{"rope.scaling.yarn_beta_fast": float32(0)}, ErrValue, "mistral3.rope.scaling.yarn_beta_fast"},
		{"qwen2", "", keys{"rope.scaling.type": "longrope", "rope.scaling.factor": float32(4)}, ErrUnsupported, "qwen2.rope.scaling.type"},
		{"olmo2 windows", "", keys{"attention.sliding_window_pattern": []bool{true, false}}, ErrValue, "olmo2.attention.sliding_window_pattern"},
		{"olmo2 windows", "", keys{"attention.sliding_window_pattern": "all"}, gguf.ErrType, "olmo2.attention.sliding_window_pattern"},
		{"falcon", "", keys{"rope.dimension_count": uint32(18)}, ErrValue, "falcon.rope.dimension_count"},
		{"mpt", "", keys{"attention.scale": float32(0.5)}, ErrUnsupported, "mpt.attention.scale"},
		{"llama yarn", "", keys{"feed_forward_length": []uint32{96, 96, 96}}, ErrValue, "llama.feed_forward_length"},
		{"llama yarn", "", keys{"feed_forward_length": []uint32{96, 0, 96, 96}}, ErrValue, "llama.feed_forward_length"},
		{"llama yarn", "", keys{"feed_forward_length": []uint32{96, 96, 80, 96}}, ErrShape, "blk.2.ffn_gate.weight"},
		{"llama yarn", "", keys{"attention.head_count_kv": []uint32{2, 2, 0, 2}}, ErrValue, "llama.attention.head_count_kv"},
		{"llama yarn", "", keys{"attention.head_count_kv": []uint32{2, 2, 1, 2}}, ErrShape, "blk.2.attn_k.weight"},
		{"gemma4", "", keys{"attention.sliding_window_pattern": uint32(6)}, ErrValue, "gemma4.attention.sliding_window_pattern"},
		{"gemma4", "", keys{"attention.shared_kv_layers": uint32(5)}, ErrValue, "gemma4.attention.shared_kv_layers"},
		{"gemma4", "", keys{"attention.shared_kv_layers": uint32(3)}, ErrValue, "gemma4.attention.shared_kv_layers"},
		{"gemma4", "", keys{"attention.shared_kv_layers": uint32(1)}, ErrMissing, "blk.4.attn_k.weight"},
		{"gemma4", "", keys{"attention.value_length_swa": uint32(8)}, ErrUnsupported, "gemma4.attention.value_length_swa"},
		{"gemma4", "", keys{"rope.dimension_count_swa": uint32(18)}, ErrValue, "gemma4.rope.dimension_count_swa"},
		{"gemma4", "", keys{"embedding_length_per_layer_input": nil}, ErrUnsupported, "per_layer_"},
		{"gemma4", "", keys{"embedding_length_per_layer_input": uint32(4)}, ErrShape, "per_layer_token_embd.weight"},
		{"gemma4 experts", "", keys{"expert_used_count": uint32(9)}, ErrValue, "gemma4.expert_used_count"},
		{"gemma4 experts", "", keys{"expert_count": uint32(0)}, ErrUnsupported, "blk.0."},
		{"qwen35moe", "", keys{"expert_count": uint32(0)}, ErrValue, "qwen35moe.expert_count"},
		{"lfm2", "", keys{"shortconv.l_cache": nil}, gguf.ErrMissing, "lfm2.shortconv.l_cache"},
		{"lfm2", "", keys{"shortconv.l_cache": uint32(1)}, ErrValue, "lfm2.shortconv.l_cache"},
		{"lfm2", "", keys{"shortconv.l_cache": uint32(4)}, ErrShape, "blk.0.shortconv.conv.weight"},
		{"lfm2", "", keys{"attention.head_count_kv": []uint32{0, 0, 0, 0}}, ErrValue, "lfm2.attention.head_count_kv"},
		{"lfm2", "", keys{"attention.head_count_kv": []uint32{0, 2, 2, 2}}, ErrMissing, "blk.2.attn_q.weight"},
		{"granitehybrid", "", keys{"ssm.inner_size": uint32(64)}, ErrValue, "granitehybrid.ssm.inner_size"},
		{"granitehybrid", "", keys{"ssm.time_step_rank": uint32(3)}, ErrValue, "granitehybrid.ssm.time_step_rank"},
		{"granitehybrid", "", keys{"ssm.group_count": uint32(3)}, ErrValue, "granitehybrid.ssm.group_count"},
		{"granitehybrid", "", keys{"ssm.state_size": uint32(1 << 24)}, ErrValue, "granitehybrid.ssm.state_size"},
		{"granitehybrid", "", keys{"ssm.dt_b_c_rms": true}, ErrUnsupported, "granitehybrid.ssm.dt_b_c_rms"},
		{"opt projected", "", keys{"word_embedding_length": nil}, ErrShape, "token_embd.weight"},
		{"opt", "untied", nil, ErrUnsupported, "output.weight"},
		{"opt", "", keys{"rope.freq_base": float32(500)}, ErrUnsupported, "opt.rope.freq_base"},
		{"gptj", "", keys{"rope.dimension_count": uint32(18)}, ErrValue, "gptj.rope.dimension_count"},
		{"codegen", "fused", nil, ErrUnsupported, "blk.0.attn_qkv.weight"},
		{"opt post-norm", "", keys{"norm_before": "no"}, gguf.ErrType, "opt.norm_before"},
		{"qwen35", "", keys{"ssm.inner_size": uint32(40)}, ErrValue, "qwen35.ssm."},
		{"qwen35", "", keys{"full_attention_interval": uint32(0)}, ErrValue, "qwen35.full_attention_interval"},
		{"qwen35", "", keys{"full_attention_interval": uint32(2)}, ErrMissing, "blk.1.attn_q.weight"},
		{"qwen35 a list", "", keys{"attention.recurrent_layers": []uint32{1, 0, 1, 1}}, ErrValue, "qwen35.attention.recurrent_layers"},
	} {
		r := all[c.recipe]
		r.parts += " " + c.parts
		r.keys = maps.Clone(r.keys)
		if r.keys == nil {
			r.keys = keys{}
		}
		maps.Copy(r.keys, c.keys)
		file := r.file(t)
		_, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), Options{Name: "bad.gguf"})
		if !errors.Is(err, c.want) {
			t.Errorf("%s with %q, %v: %v, expected %v", c.recipe, c.parts, c.keys, err, c.want)
		} else if !strings.Contains(err.Error(), "bad.gguf") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("the message does not name bad.gguf and %s: %v", c.names, err)
		}
	}
}
