package engine

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// TestReferenceFamilies: the models of randommodel's recipes against the reference. Architectures that have none are
// compared with another engine only (TestDrawnFamiliesAnswerLikeAnIndependentEngine), and those that it does not have
// must be here.
func TestReferenceFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	ids := randomTokens(24, randommodel.Vocab, 5)
	tested := map[string]bool{"gpt2": true, "t5": true, "t5encoder": true,
		"qwen4exp": true} // by TestReference, TestT5Reference, TestT5 and TestQwen4exp
	for name, r := range randommodel.Recipes() {
		tested[r.Arch] = true
		file := r.File(t)
		m, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)),
			Options{Name: name, RopeContext: ropeContext})
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
	for _, arch := range withoutIndependentEngine {
		if !tested[arch] {
			t.Errorf("%s has no recipe", arch)
		}
	}
}

// TestBadFamilies: what an architecture does not have, or a key that contradicts it, is refused by name.
func TestBadFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	type keys = map[string]gguf.Value
	all := randommodel.Recipes()
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
		{"llama experts", "", keys{"expert_group_count": uint32(3), "expert_group_used_count": uint32(1),
			"expert_used_count": uint32(3)}, ErrValue, "llama.expert_group_used_count"},
		{"llama experts", "", keys{"expert_group_count": uint32(3), "expert_group_used_count": uint32(4)}, ErrValue,
			"llama.expert_group_used_count"},
		{"llama experts", "", keys{"expert_group_count": uint32(3), "expert_group_used_count": uint32(0)}, ErrValue,
			"llama.expert_group_used_count"},
		{"llama experts", "", keys{"expert_group_count": uint32(4)}, ErrValue, "llama.expert_group_count"},
		{"llama experts", "", keys{"expert_count": uint32(5)}, ErrShape, "blk.0.ffn_gate_inp.weight"},
		{"llama experts", "", keys{"expert_gating_func": uint32(2)}, ErrUnsupported, "llama.expert_gating_func"},
		{"llama experts", "", keys{"expert_weights_norm": false}, ErrUnsupported, "llama.expert_weights_norm"},
		{"llama experts", "sharedgate", nil, ErrUnsupported, "blk.0.ffn_gate_inp_shexp.weight"},
		{"llama experts", "", keys{"expert_count": uint32(0)}, ErrMissing, "blk.0.ffn_gate.weight"},
		{"llama yarn", "", keys{"rope.scaling.original_context_length": uint32(0)}, ErrValue,
			"llama.rope.scaling.original_context_length"},
		{"mistral3", "", keys{"rope.scaling.yarn_beta_fast": float32(0)}, ErrValue, "mistral3.rope.scaling.yarn_beta_fast"},
		{"llama yarn", "", keys{"rope.scaling.yarn_beta_slow": float32(0)}, ErrValue, "llama.rope.scaling.yarn_beta_slow"},
		{"qwen2", "", keys{"rope.scaling.type": "longrope", "rope.scaling.factor": float32(4)}, ErrUnsupported,
			"qwen2.rope.scaling.type"},
		{"olmo2 windows", "", keys{"attention.sliding_window_pattern": []bool{true, false}}, ErrValue,
			"olmo2.attention.sliding_window_pattern"},
		{"olmo2 windows", "", keys{"attention.sliding_window_pattern": "all"}, gguf.ErrType,
			"olmo2.attention.sliding_window_pattern"},
		{"falcon", "", keys{"rope.dimension_count": uint32(18)}, ErrValue, "falcon.rope.dimension_count"},
		{"mpt", "", keys{"attention.scale": float32(0.5)}, ErrUnsupported, "mpt.attention.scale"},
		{"llama yarn", "", keys{"feed_forward_length": []uint32{96, 96, 96}}, ErrValue, "llama.feed_forward_length"},
		{"llama yarn", "", keys{"feed_forward_length": []uint32{96, 0, 96, 96}}, ErrValue, "llama.feed_forward_length"},
		{"llama yarn", "", keys{"feed_forward_length": []uint32{96, 96, 80, 96}}, ErrShape, "blk.2.ffn_gate.weight"},
		{"llama yarn", "", keys{"attention.head_count_kv": []uint32{2, 2, 0, 2}}, ErrValue, "llama.attention.head_count_kv"},
		{"llama yarn", "", keys{"attention.head_count_kv": []uint32{2, 2, 1, 2}}, ErrShape, "blk.2.attn_k.weight"},
		{"gemma4", "", keys{"attention.sliding_window_pattern": uint32(6)}, ErrValue,
			"gemma4.attention.sliding_window_pattern"},
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
		{"qwen35 a list", "", keys{"attention.recurrent_layers": []uint32{1, 0, 1, 1}}, ErrValue,
			"qwen35.attention.recurrent_layers"},
	} {
		r := all[c.recipe]
		r.Parts += " " + c.parts
		r.Keys = maps.Clone(r.Keys)
		if r.Keys == nil {
			r.Keys = keys{}
		}
		maps.Copy(r.Keys, c.keys)
		file := r.File(t)
		_, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), Options{Name: "bad.gguf"})
		if !errors.Is(err, c.want) {
			t.Errorf("%s with %q, %v: %v, expected %v", c.recipe, c.parts, c.keys, err, c.want)
		} else if !strings.Contains(err.Error(), "bad.gguf") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("the message does not name bad.gguf and %s: %v", c.names, err)
		}
	}
}
