package randommodel

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
)

// Recipe is a small random model of an architecture: the parts that its file has, by the words of Recipe.File, and
// its keys.
type Recipe struct {
	Arch, Parts string
	Keys        map[string]gguf.Value // without the prefix
	Widths      map[string]gguf.Value // the keys that the tensors of experts and embeddings follow; nil: keys
	Layers      int                   // 0: 4
	MTP         int                   // blocks for multi-token prediction after them
	KV          int                   // 0: 2
}

// Sizes of the recipes' models.
const (
	Width, Heads, Dim, Inner, Vocab = 64, 4, 16, 96, 70
	Experts                         = 6
	Taps, State, Groups             = 3, 8, 2
	MambaHeads, MambaInner          = 4, 128
	DeltaHeads                      = 6
	LayerInput                      = 8 // of gemma4
)

// File is the GGUF file.
func (r Recipe) File(tb testing.TB) []byte {
	tb.Helper()
	words := strings.Fields(r.Parts)
	has := func(word string) bool { return slices.Contains(words, word) }
	layers, kv := r.Layers, r.KV
	if layers == 0 {
		layers = 4
	}
	if kv == 0 {
		kv = 2
	}
	own := layers
	layers += r.MTP
	keys := map[string]gguf.Value{
		"context_length": uint32(512), "embedding_length": uint32(Width), "block_count": uint32(layers),
		"feed_forward_length":  uint32(Inner),
		"attention.head_count": uint32(Heads), "attention.head_count_kv": uint32(kv), "vocab_size": uint32(Vocab),
	}
	if has("ln") || has("lnw") || has("plain") {
		keys["attention.layer_norm_epsilon"] = float32(1e-5)
	} else {
		keys["attention.layer_norm_rms_epsilon"] = float32(1e-6)
	}
	if r.MTP > 0 {
		keys["nextn_predict_layers"] = uint32(r.MTP)
	}
	maps.Copy(keys, r.Keys)
	kvs := []gguf.KV{{Key: "general.architecture", Value: r.Arch}}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if keys[k] == nil {
			continue
		}
		kvs = append(kvs, gguf.KV{Key: r.Arch + "." + k, Value: keys[k]})
	}
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float64, dims ...int) { // columns first
		tensors = append(tensors, Tensor(9, name, mean, spread, dims...))
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
		if add(name+".weight", 1, 0.3, n...); has("ln") && !strings.HasSuffix(name, "_q_norm") &&
			!strings.HasSuffix(name, "_k_norm") {
			add(name+".bias", 0, 0.3, n...)
		}
	}
	widths := r.Keys
	if r.Widths != nil {
		widths = r.Widths
	}
	if w, ok := widths["word_embedding_length"].(uint32); ok && int(w) != Width {
		add("token_embd.weight", 0, 0.7, int(w), Vocab)
		matrix("project_in", false, Width, int(w))
		matrix("project_out", false, int(w), Width)
	} else {
		add("token_embd.weight", 0, 0.7, Width, Vocab)
	}
	if has("learned") {
		add("position_embd.weight", 0, 0.3, Width, 512)
	}
	if has("embnorm") {
		norm("token_embd_norm", Width)
	}
	if has("factors") {
		add("rope_freqs.weight", 2, 0.4, Dim/2)
	}
	if has("longshort") {
		add("rope_factors_long.weight", 2, 0.4, Dim/2)
		add("rope_factors_short.weight", 3, 0.4, Dim/2)
	}
	if has("gemma4") {
		add("rope_freqs.weight", 2, 0.4, Dim)
	}
	if has("gemma4") && !has("beside") {
		add("per_layer_token_embd.weight", 0, 0.5, LayerInput*layers, Vocab)
		matrix("per_layer_model_proj", false, LayerInput*layers, Width)
		norm("per_layer_proj_norm", LayerInput)
	}
	for i := range layers {
		b := fmt.Sprintf("blk.%d.", i)
		if !has("noinput") {
			norm(b+"attn_norm", Width)
		}
		if has("norm2") {
			norm(b+"attn_norm_2", Width)
		}
		q, k := Heads*Dim, kv*Dim
		recurrent := (has("shortconv") || has("mamba")) && i%2 == 0 && !has("beside")
		if has("delta") {
			recurrent = (i+1)%4 != 0
			if list, ok := r.Keys["attention.recurrent_layers"].([]bool); ok && i < len(list) {
				recurrent = list[i]
			}
		}
		if i >= own {
			recurrent = false
			matrix(b+"nextn.eh_proj", false, Width, 2*Width)
			norm(b+"nextn.enorm", Width)
			norm(b+"nextn.hnorm", Width)
			if has("ends") {
				add(b+"nextn.embed_tokens.weight", 0, 0.7, Width, Vocab)
				matrix(b+"nextn.shared_head_head", false, Vocab, Width)
				norm(b+"nextn.shared_head_norm", Width)
			}
		}
		if has("shortconv") && recurrent {
			matrix(b+"shortconv.in_proj", false, 3*Width, Width)
			add(b+"shortconv.conv.weight", 0, 0.7, Taps, Width)
			matrix(b+"shortconv.out_proj", false, Width, Width)
		}
		if has("mamba") && (recurrent || has("beside")) {
			conv := MambaInner + 2*Groups*State
			matrix(b+"ssm_in", false, MambaInner+conv+MambaHeads, Width)
			add(b+"ssm_conv1d.weight", 0, 0.7, Taps, conv)
			add(b+"ssm_conv1d.bias", 0, 0.3, conv)
			add(b+"ssm_dt.bias", 0, 0.7, MambaHeads)
			add(b+"ssm_a", -0.5, 0.1, 1, MambaHeads)
			add(b+"ssm_d", 0, 1, 1, MambaHeads)
			if has("mambanorm") {
				add(b+"ssm_norm.weight", 1, 0.3, MambaInner/Groups, Groups)
			}
			matrix(b+"ssm_out", false, Width, MambaInner)
		}
		if has("delta") && recurrent {
			conv, values := State*(2*Groups+DeltaHeads), State*DeltaHeads
			matrix(b+"attn_qkv", false, conv, Width)
			matrix(b+"attn_gate", false, values, Width)
			matrix(b+"ssm_alpha", false, DeltaHeads, Width)
			matrix(b+"ssm_beta", false, DeltaHeads, Width)
			add(b+"ssm_conv1d.weight", 0, 0.7, Taps, conv)
			add(b+"ssm_dt.bias", 0, 0.7, DeltaHeads)
			add(b+"ssm_a", -0.5, 0.1, DeltaHeads)
			add(b+"ssm_norm.weight", 1, 0.3, State)
			matrix(b+"ssm_out", false, Width, values)
		}
		inner := Inner
		if has("gemma4") {
			dim, kv := 2*Dim, 1
			if i != 3 && i != 5 {
				dim, kv = Dim, 2
			}
			q, k = Heads*dim, kv*dim
			if list, ok := keys["feed_forward_length"].([]uint32); ok && i < len(list) {
				inner = int(list[i])
			}
			if norm(b+"attn_q_norm", dim); i < 4 {
				norm(b+"attn_k_norm", dim)
				matrix(b+"attn_k", false, k, Width)
			}
			if i < 3 {
				matrix(b+"attn_v", false, k, Width)
			}
			if !has("beside") {
				matrix(b+"inp_gate", false, LayerInput, Width)
				matrix(b+"proj", false, Width, LayerInput)
				norm(b+"post_norm", Width)
			}
			add(b+"layer_output_scale.weight", 0.8, 0.1, 1)
		}
		switch {
		case recurrent:
		case has("gemma4"):
			matrix(b+"attn_q", false, q, Width)
		case has("gates"):
			matrix(b+"attn_q", false, 2*q, Width)
			matrix(b+"attn_k", false, k, Width)
			matrix(b+"attn_v", false, k, Width)
		case has("fused"):
			matrix(b+"attn_qkv", has("bias"), q+2*k, Width)
		default:
			matrix(b+"attn_q", has("bias") || has("qkvbias"), q, Width)
			matrix(b+"attn_k", has("bias") || has("qkvbias"), k, Width)
			matrix(b+"attn_v", has("bias") || has("qkvbias"), k, Width)
		}
		if has("attngate") {
			matrix(b+"attn_gate", false, q, Width)
		}
		if has("headgate") {
			matrix(b+"attn_gate", false, q/Dim, Width)
		}
		if !recurrent {
			matrix(b+"attn_output", has("bias"), Width, q)
		}
		switch {
		case recurrent:
		case has("qkhead"):
			norm(b+"attn_q_norm", Dim)
			norm(b+"attn_k_norm", Dim)
		case has("qktoken"):
			norm(b+"attn_q_norm", q)
			norm(b+"attn_k_norm", k)
		case has("qkown"):
			norm(b+"attn_q_norm", Dim, Heads)
			norm(b+"attn_k_norm", Dim, kv)
		}
		if has("sinks") {
			add(b+"attn_sinks.weight", 0, 2, Heads)
		}
		if has("barenorm") {
			add(b+"ffn_norm", 1, 0.3, Width)
		}
		switch {
		case has("ffnpost"):
			norm(b+"post_attention_norm", Width)
		case has("post"):
			norm(b+"post_attention_norm", Width)
			norm(b+"post_ffw_norm", Width)
		}
		if !has("noinput") && !has("noffnnorm") && !has("ffnpost") && !has("barenorm") {
			norm(b+"ffn_norm", Width)
		}
		feedForward := func(suffix string, inner int, n ...int) {
			if has("gate") && !(has("sharedup2") && suffix == "_shexp") {
				matrix(b+"ffn_gate"+suffix, has("bias"), inner, Width, n...)
			}
			up := inner
			if has("up2") || has("sharedup2") && suffix == "_shexp" {
				up *= 2
			}
			if has("gateups") && suffix == "_exps" {
				tensors = tensors[:len(tensors)-1] // without the gate
				matrix(b+"ffn_gate_up_exps", false, 2*inner, Width, n...)
				matrix(b+"ffn_down_exps", false, Width, inner, n...)
				return
			}
			matrix(b+"ffn_up"+suffix, has("bias") || has("ffnbias"), up, Width, n...)
			matrix(b+"ffn_down"+suffix, has("bias") || has("ffnbias"), Width, inner, n...)
		}
		if n, ok := r.Keys["leading_dense_block_count"].(uint32); !has("experts") || ok && i < int(n) {
			feedForward("", inner)
			continue
		}
		if has("gemma4") {
			feedForward("", inner)
			norm(b+"pre_ffw_norm_2", Width)
			norm(b+"post_ffw_norm_1", Width)
			norm(b+"post_ffw_norm_2", Width)
			add(b+"ffn_gate_inp.scale", 8, 3, Width)
			add(b+"ffn_down_exps.scale", 1.5, 0.5, Experts)
		}
		if n, ok := widths["expert_feed_forward_length"]; ok {
			inner = int(n.(uint32))
		}
		matrix(b+"ffn_gate_inp", has("bias"), Experts, Width)
		if has("choice") {
			add(b+"exp_probs_b.bias", 0, 0.2, Experts)
		}
		feedForward("_exps", inner, Experts)
		if n, ok := widths["expert_shared_feed_forward_length"]; ok {
			feedForward("_shexp", int(n.(uint32)))
		}
		if has("sharedgate") {
			add(b+"ffn_gate_inp_shexp.weight", 0, 0.3, Width)
		}
	}
	switch {
	case has("nofinal"):
	case has("embfinal"):
		norm("token_embd_norm", Width)
	default:
		norm("output_norm", Width)
	}
	if has("untied") {
		matrix("output", has("outbias"), Vocab, Width)
	}
	return Bytes(tb, kvs, tensors)
}
