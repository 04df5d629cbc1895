package engine

import (
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// askedFor is a small random model of an architecture whose file has the tensors that its family asks the loader for,
// in the shapes that it asks for, and no others: there is nothing to say of it but its keys. What another engine
// computes of such a file, which refuses it for a tensor more or less or of another shape, shows that the family asks
// for the right ones.
type askedFor struct {
	arch   string
	layers int                   // 0: 4
	keys   map[string]gguf.Value // without the prefix; nil values are left out
	plain  map[string]gguf.Value // keys of the file that have no prefix
	also   []string              // tensors that need not be there; "blk.*." in front: of every block
	uneven bool                  // blocks may have, and need not, what those before them must have
}

type modelKeys = map[string]gguf.Value

// all are the keys of the file, without the prefix.
func (a askedFor) all() modelKeys {
	keys := modelKeys{
		"context_length": uint32(512), "embedding_length": uint32(64),
		"block_count":         uint32(max(a.layers, 4*(1-min(a.layers, 1)))),
		"feed_forward_length": uint32(96), "attention.head_count": uint32(4), "attention.head_count_kv": uint32(2),
		"vocab_size":                       uint32(randommodel.Vocab),
		"attention.layer_norm_rms_epsilon": float32(1e-6),
	}
	maps.Copy(keys, a.keys)
	maps.DeleteFunc(keys, func(_ string, v gguf.Value) bool { return v == nil })
	return keys
}

// kvs are keys as a file has them.
func (a askedFor) kvs(keys modelKeys) []gguf.KV {
	list := []gguf.KV{{Key: "general.architecture", Value: a.arch}}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		list = append(list, gguf.KV{Key: a.arch + "." + k, Value: keys[k]})
	}
	for _, k := range slices.Sorted(maps.Keys(a.plain)) {
		list = append(list, gguf.KV{Key: k, Value: a.plain[k]})
	}
	return list
}

// wrongTensor is how a loader complains of a tensor that is missing or has another shape, which it names.
var wrongTensor = regexp.MustCompile(`tensor "([^"]+)": (not in the file|\[[\d ]*\], expected \[([\d ]+)\])`)

// unasked is how it complains of a tensor that it did not ask for.
var unasked = regexp.MustCompile(`tensor "([^"]+)": an unknown part`)

// manyLayers is more than most of the models have.
const manyLayers = 10

// askedTensors are those of models that have been drawn.
var askedTensors sync.Map // of a model's name: []gguf.TensorSource

// tensors are the tensors that the family asks for.
func (a askedFor) tensors(tb testing.TB, name string) []gguf.TensorSource {
	tb.Helper()
	if known, ok := askedTensors.Load(name); ok {
		return known.([]gguf.TensorSource)
	}
	dims, err := a.shapes(tb, name, a.kvs(a.all()), int(a.all()["block_count"].(uint32)))
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	var list []gguf.TensorSource
	for _, t := range slices.Sorted(maps.Keys(dims)) {
		mean, spread := distribution(t, dims[t])
		if strings.HasSuffix(t, loraB) {
			list = append(list, behindZeros(t, spread, dims[t]))
			continue
		}
		list = append(list, randommodel.Tensor(9, t, mean, spread, dims[t]...))
	}
	askedTensors.Store(name, list)
	return list
}

// shapes are those of the tensors that the family asks for where the file has these keys. The error is one of a key.
func (a askedFor) shapes(tb testing.TB, name string, kvs []gguf.KV, layers int) (map[string][]int, error) {
	tb.Helper()
	first, last := "blk.0.attn_norm.weight", fmt.Sprintf("blk.%d.attn_output.weight", layers-1)
	dims, guessed := map[string][]int{first: {1}, last: {1}}, map[string]int{first: -1, last: -1} // guessed of a block
	for _, also := range a.also {
		if rest, ok := strings.CutPrefix(also, "blk.*."); ok {
			for i := range layers {
				dims[fmt.Sprintf("blk.%d.%s", i, rest)] = []int{1}
			}
		} else {
			dims[also] = []int{1}
		}
	}
	for {
		var empty []gguf.TensorSource
		for _, t := range slices.Sorted(maps.Keys(dims)) {
			empty = append(empty, gguf.TensorSource{Name: t, Type: gguf.F32, Dims: unsigned(dims[t])})
		}
		file := headerOf(tb, kvs, empty, name)
		model, err := header(file, Options{})
		if err == nil && model.HasMTP() {
			_, err = header(file, Options{MTP: true, Target: model})
		}
		if err == nil {
			return dims, nil
		}
		if m := unasked.FindStringSubmatch(err.Error()); m != nil && guessed[m[1]] != 0 {
			block, of := blockOf(m[1]), guessed[m[1]] // the two are not alike
			maps.DeleteFunc(dims, func(t string, _ []int) bool { return blockOf(t) == block && guessed[t] == of })
			continue
		}
		m := wrongTensor.FindStringSubmatch(err.Error())
		if m == nil || len(dims) > 2000 {
			return nil, err
		}
		d := []int{1}
		if m[3] != "" {
			d = nil
			for _, n := range strings.Fields(m[3]) {
				k, _ := strconv.Atoi(n)
				d = append(d, k)
			}
			if slices.Equal(d, dims[m[1]]) {
				return nil, err
			}
		}
		dims[m[1]] = d
		if i, ok := blockIndex(m[1]); ok && !a.uneven { // the blocks behind it are likely to ask for the same
			for j := i + 1; j < layers; j++ {
				like := strings.Replace(m[1], fmt.Sprintf("blk.%d.", i), fmt.Sprintf("blk.%d.", j), 1)
				if dims[like] == nil {
					guessed[like] = i + 1
				}
				dims[like] = d
			}
		}
	}
}

// headerOf is the header of a file whose tensors are not written.
func headerOf(tb testing.TB, kvs []gguf.KV, tensors []gguf.TensorSource, name string) *gguf.File {
	tb.Helper()
	empty := slices.Clone(tensors)
	for i, t := range tensors {
		size, err := t.Type.Size(t.Dims...)
		if err != nil {
			tb.Fatal(err)
		}
		empty[i].Write = func(w io.Writer) error {
			for left := size; left > 0; left -= min(left, int64(len(nothing))) {
				if _, err := w.Write(nothing[:min(left, int64(len(nothing)))]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	f := hollow{head: make([]byte, 0, maxHeader)}
	if err := gguf.Write(&f, kvs, empty); err != nil {
		tb.Fatal(err)
	}
	file, err := gguf.Open(&f, f.size, name)
	if err != nil {
		tb.Fatal(err)
	}
	return file
}

var nothing [16 << 20]byte

const maxHeader = 96 << 10 // bytes, more than any header here has

// hollow is a file that keeps its first bytes; what follows is zeros.
type hollow struct {
	head []byte
	size int64
}

func (f *hollow) Write(p []byte) (int, error) {
	f.head = append(f.head, p[:min(len(p), maxHeader-len(f.head))]...)
	f.size += int64(len(p))
	return len(p), nil
}

func (f *hollow) ReadAt(p []byte, at int64) (int, error) {
	clear(p)
	if at < int64(len(f.head)) {
		copy(p, f.head[at:])
	}
	if left := f.size - at; left < int64(len(p)) {
		return int(max(left, 0)), io.EOF
	}
	return len(p), nil
}

func unsigned(dims []int) (all []uint64) {
	for _, d := range dims {
		all = append(all, uint64(d))
	}
	return all
}

// distribution is the mean and the spread of a tensor's numbers.
func distribution(name string, dims []int) (mean, spread float64) {
	switch {
	case strings.HasSuffix(name, "norm.weight") || strings.HasSuffix(name, "norm_2.weight"):
		return 1, 0.3
	case strings.HasSuffix(name, "exp_probs_b.bias") || strings.HasSuffix(name, "exp_probs_b"):
		return 0, 0.2
	case strings.HasSuffix(name, ".bias"):
		return 0, 0.3
	case strings.HasSuffix(name, "ssm_a"):
		return -0.5, 0.1
	case strings.HasSuffix(name, "rope_freqs.weight"):
		return 2, 0.4
	case name == "token_embd.weight" || strings.Contains(name, "conv1d"):
		return 0, 0.7
	case strings.HasSuffix(name, "_coef.weight"): // of streams that add to each other, block after block
		return 0, 0.1
	case len(dims) == 1:
		return 0, 1
	}
	return 0, 1.3 / math.Sqrt(float64(dims[0]))
}

// behindZeros are matrices of which the first is zero, as that of positions without an adapter is.
func behindZeros(name string, spread float64, dims []int) gguf.TensorSource {
	seed, left := uint64(0), dims[0]*dims[1]
	for _, c := range []byte(name) {
		seed = seed*257 + uint64(c)
	}
	rng := rand.New(rand.NewPCG(9, seed))
	return randommodel.Drawn(name, func() float32 {
		if left--; left >= 0 {
			return 0
		}
		return float32(spread * rng.NormFloat64())
	}, dims...)
}

// file is the GGUF file.
func (a askedFor) file(tb testing.TB, name string) []byte {
	tb.Helper()
	return randommodel.Bytes(tb, a.kvs(a.all()), a.tensors(tb, name))
}

// askedModels are those of architectures that randommodel has no recipe for.
func askedModels() map[string]askedFor {
	experts := func(more modelKeys) modelKeys {
		keys := modelKeys{"expert_count": uint32(8), "expert_used_count": uint32(3),
			"expert_feed_forward_length": uint32(32)}
		maps.Copy(keys, more)
		return keys
	}
	routed := func(more modelKeys) modelKeys { // as most families of 2025 have them
		keys := experts(modelKeys{"expert_gating_func": uint32(2), "expert_weights_norm": true,
			"expert_weights_scale": float32(1.5),
			"expert_shared_count":  uint32(2), "leading_dense_block_count": uint32(1)})
		maps.Copy(keys, more)
		return keys
	}
	yarn := func(keys modelKeys) modelKeys {
		maps.Copy(keys, modelKeys{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4),
			"rope.scaling.original_context_length": uint32(20), "rope.freq_base": float32(50)})
		return keys
	}
	latent := func(keys modelKeys) modelKeys { // latent attention as files of 2025 have it
		if _, ok := keys["attention.head_count_kv"]; !ok {
			keys["attention.head_count_kv"] = uint32(1)
		}
		maps.Copy(keys, modelKeys{"attention.kv_lora_rank": uint32(24),
			"rope.dimension_count": uint32(8),
			"attention.key_length": uint32(32), "attention.value_length": uint32(24),
			"attention.key_length_mla":   uint32(24),
			"attention.value_length_mla": uint32(20)})
		return keys
	}
	// the other engine wants an index head of twice the numbers that are rotated
	indexed := func(keys modelKeys) modelKeys {
		maps.Copy(keys, latent(modelKeys{"attention.q_lora_rank": uint32(40), "attention.indexer.key_length": uint32(64)}))
		keys["rope.dimension_count"], keys["attention.key_length"] = uint32(32), uint32(56)
		keys["attention.key_length_mla"] = uint32(48)
		return keys
	}
	ssm := func(keys modelKeys) modelKeys {
		all := modelKeys{"ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(96), "ssm.state_size": uint32(16),
			"ssm.time_step_rank": uint32(6), "ssm.group_count": uint32(2)}
		maps.Copy(all, keys)
		return all
	}
	selective := func(keys modelKeys) modelKeys {
		all := modelKeys{"ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(128), "ssm.state_size": uint32(8),
			"ssm.time_step_rank": uint32(6)}
		maps.Copy(all, keys)
		return all
	}
	narrow := func(keys modelKeys) modelKeys { // of models with many layers
		maps.Copy(keys, modelKeys{"embedding_length": uint32(32), "attention.head_count_kv": uint32(4),
			"feed_forward_length": uint32(48)})
		return keys
	}
	ling3 := func(more modelKeys) modelKeys {
		keys := routed(latent(modelKeys{"attention.head_count_kv": nil, "kda.head_dim": uint32(16),
			"kda.safe_gate": true, "kda.gate_lower_bound": float32(-0.75), "ssm.conv_kernel": uint32(4),
			"rope.freq_base": float32(50), "expert_shared_count": uint32(1),
			"expert_shared_feed_forward_length": uint32(48)}))
		keys["attention.value_length"] = uint32(16) // that of Kimi delta attention: so do the files that there are
		maps.Copy(keys, more)
		return keys
	}
	const choice, choice1, choice2, choice3 = "blk.*.exp_probs_b.bias", "blk.1.exp_probs_b.bias",
		"blk.2.exp_probs_b.bias", "blk.3.exp_probs_b.bias"
	return map[string]askedFor{
		"seed_oss": {arch: "seed_oss", keys: modelKeys{
			"attention.key_length": uint32(24), "attention.value_length": uint32(24)},
			also: []string{"blk.*.attn_q.bias", "blk.*.attn_k.bias", "blk.*.attn_v.bias", "output.weight"}},
		"glm4moe": {arch: "glm4moe", keys: routed(modelKeys{"rope.dimension_count": uint32(8),
			"expert_gating_func": nil}),
			also: []string{"blk.*.attn_q_norm.weight", "blk.*.attn_k_norm.weight"}},
		"dots1": {arch: "dots1", keys: routed(modelKeys{"attention.head_count_kv": uint32(4)})},
		"hunyuan-moe": {arch: "hunyuan-moe", keys: experts(modelKeys{"expert_feed_forward_length": uint32(96),
			"expert_shared_feed_forward_length": uint32(32)})},
		"ernie4_5-moe": {arch: "ernie4_5-moe", keys: experts(
			modelKeys{"interleave_moe_layer_step": uint32(1), "leading_dense_block_count": uint32(0),
				"expert_shared_feed_forward_length": uint32(64)}), also: []string{choice}},
		"bailingmoe": {arch: "bailingmoe", keys: routed(modelKeys{"leading_dense_block_count": nil,
			"expert_gating_func":   nil,
			"rope.dimension_count": uint32(24), "attention.key_length": uint32(24),
			"attention.value_length": uint32(24)})},
		"bailingmoe2": {arch: "bailingmoe2", keys: routed(
			modelKeys{"leading_dense_block_count": uint32(0), "expert_group_count": uint32(4),
				"expert_group_used_count": uint32(2),
				"rope.dimension_count":    uint32(8)}), also: []string{choice, "blk.*.attn_qkv.weight"}},
		"deepseek": {arch: "deepseek", keys: routed(modelKeys{"expert_weights_norm": nil,
			"expert_gating_func": nil})},
		"qwen3vlmoe": {arch: "qwen3vlmoe", keys: experts(modelKeys{"rope.dimension_sections": []int32{3, 3, 2, 0}})},
		"qwen2vl": {arch: "qwen2vl", keys: modelKeys{
			"rope.dimension_sections": []int32{3, 3, 2, 0}, "attention.layer_norm_rms_epsilon": float32(1e-12)},
			also: []string{"blk.*.attn_k.bias"}},
		"minimax-m2": {arch: "minimax-m2", keys: experts(
			modelKeys{"expert_feed_forward_length": uint32(96), "expert_gating_func": uint32(2),
				"rope.dimension_count": uint32(8)})},
		"mellum": {arch: "mellum", keys: yarn(experts(modelKeys{"attention.sliding_window": uint32(9),
			"attention.sliding_window_pattern": []bool{true, false, true, true}}))},
		"chatglm": {arch: "chatglm", keys: modelKeys{"rope.dimension_count": uint32(8)},
			also: []string{"blk.*.attn_qkv.weight", "blk.*.attn_qkv.bias"}},
		"maincoder": {arch: "maincoder"},
		"pangu-embedded": {arch: "pangu-embedded",
			also: []string{"blk.*.attn_q.bias", "blk.*.attn_k.bias", "blk.*.attn_v.bias", "blk.*.attn_output.bias"}},
		"hy_v3": {arch: "hy_v3", uneven: true, keys: experts(
			modelKeys{"expert_weights_norm": true, "expert_weights_scale": float32(1.5)}),
			also: []string{"blk.2.ffn_gate_inp.weight", "blk.2.exp_probs_b", "blk.3.ffn_gate_inp.weight"}},
		"exaone-moe": {arch: "exaone-moe", keys: routed(
			modelKeys{"attention.sliding_window": uint32(9), "expert_shared_feed_forward_length": uint32(24),
				"leading_dense_block_count": uint32(0)}),
			also: []string{choice, "rope_freqs.weight"}},
		"afmoe": {arch: "afmoe", keys: routed(
			modelKeys{"attention.sliding_window": uint32(9), "expert_gating_func": nil})},
		"muse-glimmer": {arch: "muse-glimmer", layers: 5, keys: modelKeys{"attention.sliding_window": uint32(9),
			"attention.sliding_window_pattern": []bool{true, false, true, true, false},
			"attention.key_length":             uint32(24), "attention.value_length": uint32(24),
			"attention.layer_norm_rms_epsilon": float32(0.02), "rope.freq_base": float32(300),
			"logit_scale": float32(0.7), "final_logit_softcapping": float32(1.5)}},
		"muse-glimmer period": {arch: "muse-glimmer", keys: modelKeys{"attention.sliding_window": uint32(7),
			"attention.sliding_window_pattern": uint32(2), "attention.head_count_kv": uint32(1),
			"rope.freq_base_swa": float32(80), "logit_scale": float32(0.2)},
			also: []string{"blk.*.attn_qkv.weight"}},
		"spark2_5 apart": {arch: "spark2_5", keys: modelKeys{"attention.sliding_window": uint32(7),
			"attention.sliding_window_pattern": []bool{true, false, true, true}, "attention.head_count_kv": uint32(2),
			"rope.dimension_count": uint32(8), "rope.dimension_count_swa": uint32(16),
			"attention.key_length": uint32(24), "attention.value_length": uint32(24), "rope.freq_base_swa": float32(80)},
			also: []string{"output.weight"}},
		"talkie": {arch: "talkie", keys: modelKeys{"logit_scale": float32(0.7)},
			also: []string{"blk.*.attn_output.scale", "blk.*.ffn_down.scale"}},
		"baichuan 7b": {arch: "baichuan", layers: 32, keys: narrow(modelKeys{"rope.dimension_count": uint32(8)})},
		"baichuan 13b": {arch: "baichuan", layers: 40, keys: narrow(modelKeys{"rope.dimension_count": uint32(8)}),
			also: []string{"blk.*.attn_qkv.weight"}},
		"graniteswitch": {arch: "graniteswitch", keys: modelKeys{"embedding_scale": float32(3),
			"residual_scale": float32(0.5), "attention.scale": float32(0.15), "logit_scale": float32(2),
			"adapters.count": uint32(3), "adapters.lora_rank": uint32(12), "adapters.router_gain": float32(12),
			"adapters.token_ids_activate":   []int32{33, 60, 68},
			"adapters.token_ids_substitute": []int32{5, 60, 12}},
			also: []string{"blk.*.attn_qkv.weight"}},
		"laguna": {arch: "laguna", uneven: true, keys: yarn(
			routed(modelKeys{"attention.sliding_window": uint32(9), "attention.head_count": []uint32{4, 6, 6, 6},
				"attention.key_length": uint32(16), "attention.value_length": uint32(16),
				"rope.dimension_count":     uint32(8),
				"rope.dimension_count_swa": uint32(16), "rope.freq_base_swa": float32(30), "expert_gating_func": nil,
				"expert_shared_feed_forward_length": uint32(24)}))},
		"smallthinker": {arch: "smallthinker", layers: 5,
			keys: experts(modelKeys{"attention.sliding_window": uint32(4096), "expert_gating_func": uint32(2)})},
		"cohere2moe": {arch: "cohere2moe", layers: 5,
			keys: routed(modelKeys{"attention.sliding_window": uint32(9),
				"attention.sliding_window_pattern": []bool{false, true, true, true, false},
				"logit_scale":                      float32(0.3), "attention.layer_norm_rms_epsilon": nil,
				"attention.layer_norm_epsilon": float32(1e-5),
				"expert_weights_scale":         nil})},
		"cohere2moe number": {arch: "cohere2moe",
			keys: routed(modelKeys{"attention.sliding_window": uint32(9),
				"attention.sliding_window_pattern": uint32(3),
				"logit_scale":                      float32(0.3), "expert_shared_count": nil})},
		"llama4": {arch: "llama4", keys: experts(modelKeys{"interleave_moe_layer_step": uint32(2)}),
			also: []string{"rope_freqs.weight"}},
		"apertus": {arch: "apertus", also: []string{"rope_freqs.weight"},
			plain: modelKeys{"xielu.alpha_n": []float32{0.3, -0.4, 0.1, 0}, "xielu.alpha_p": []float32{0.8, -0.2, 0,
				1},
				"xielu.beta": []float32{0.5, 0.6, 0.4, 0.5}, "xielu.eps": []float32{-1e-6, -1e-6, -1e-6, -1e-6}}},
		"step35": {arch: "step35", uneven: true, keys: routed(
			modelKeys{"attention.head_count": []uint32{4, 6, 6, 4}, "attention.head_count_kv": []uint32{2, 3, 3, 2},
				"attention.key_length": uint32(16), "attention.value_length": uint32(16),
				"attention.sliding_window": uint32(9), "attention.sliding_window_pattern": []bool{false, true, true,
					false},
				"expert_gating_func": nil, "expert_shared_count": nil,
				"expert_shared_feed_forward_length": uint32(24),
				"rope.freq_base":                    float32(300), "swiglu_clamp_exp": []float32{0, 0.5, 0, 0.75},
				"swiglu_clamp_shexp": []float32{0, 0, 0.6, 0.5}}),
			also: []string{"rope_freqs.weight", "blk.1.ffn_gate_inp.weight", "blk.2.ffn_gate_inp.weight",
				"blk.3.ffn_gate_inp.weight", "blk.1.exp_probs_b.bias", "blk.3.exp_probs_b.bias",
				"blk.*.attn_gate.weight",
				"blk.*.attn_q_norm.weight"}},
		"deepseek2": {arch: "deepseek2", keys: yarn(
			routed(latent(modelKeys{"attention.q_lora_rank": uint32(40), "expert_group_count": uint32(4),
				"expert_group_used_count": uint32(2), "rope.scaling.yarn_log_multiplier": float32(0.1)}))),
			also: []string{choice1, choice2, choice3}},
		"deepseek2 old": {arch: "deepseek2", keys: yarn(
			routed(modelKeys{"attention.head_count_kv": uint32(4), "attention.key_length": uint32(24),
				"attention.value_length": uint32(20), "attention.kv_lora_rank": uint32(24),
				"attention.q_lora_rank": uint32(40),
				"rope.dimension_count":  uint32(8)})),
			also: []string{"blk.*.attn_kv_b.weight"}},
		"deepseek32": {arch: "deepseek32", uneven: true, keys: yarn(
			routed(indexed(modelKeys{"attention.indexer.head_count": uint32(12), "attention.indexer.top_k": uint32(9),
				"rope.scaling.yarn_log_multiplier": float32(0.07)}))),
			also: []string{choice1}},
		"glm-dsa": {arch: "glm-dsa", uneven: true, keys: routed(indexed(modelKeys{"expert_gating_func": nil,
			"attention.indexer.head_count": uint32(10), "attention.indexer.top_k": uint32(7),
			"attention.indexer.types": []bool{true, false, true, false}})),
			also: []string{choice1, choice2}},
		"xverse": {arch: "xverse"},
		"orion": {arch: "orion", keys: modelKeys{"attention.layer_norm_rms_epsilon": nil,
			"attention.layer_norm_epsilon": float32(1e-5)},
			also: []string{"output_norm.bias", "blk.*.attn_norm.bias", "blk.*.ffn_norm.bias"}},
		"refact": {arch: "refact", keys: modelKeys{"attention.head_count": uint32(6), "attention.head_count_kv": uint32(1),
			"attention.key_length": uint32(16), "attention.value_length": uint32(16)}},
		"qwen": {arch: "qwen", keys: modelKeys{"attention.head_count_kv": uint32(4)},
			also: []string{"blk.*.attn_qkv.weight", "blk.*.attn_qkv.bias"}},
		"dbrx": {arch: "dbrx", keys: modelKeys{"attention.layer_norm_rms_epsilon": nil, "expert_count": uint32(8),
			"expert_used_count": uint32(3), "attention.layer_norm_epsilon": float32(1e-5), "attention.clamp_kqv": float32(0.8)},
			also: []string{"blk.*.attn_qkv.weight"}},
		"deci": {arch: "deci", layers: 5, keys: modelKeys{"attention.head_count": []uint32{4, 0, 4, 4, 4},
			"attention.head_count_kv": []uint32{2, 0, 0, 4, 1}, "feed_forward_length": []uint32{96, 64, 128, 32, 96},
			"attention.key_length": uint32(16), "attention.value_length": uint32(16)},
			also: []string{"rope_freqs.weight"}},
		"jais": {arch: "jais", keys: modelKeys{"attention.layer_norm_rms_epsilon": nil,
			"attention.layer_norm_epsilon": float32(1e-5), "attention.max_alibi_bias": float32(8),
			"attention.head_count_kv": uint32(4)},
			also: []string{"blk.*.attn_qkv.weight", "blk.*.attn_qkv.bias", "blk.*.attn_output.bias", "blk.*.ffn_up.bias",
				"blk.*.ffn_gate.bias", "blk.*.ffn_down.bias", "output_norm.bias", "blk.*.attn_norm.bias", "blk.*.ffn_norm.bias"}},
		"jais2": {arch: "jais2", keys: modelKeys{"attention.layer_norm_rms_epsilon": nil,
			"attention.layer_norm_epsilon": float32(1e-5), "attention.head_count_kv": uint32(4),
			"rope.dimension_count": uint32(16)},
			also: []string{"output.weight", "output_norm.bias", "blk.*.attn_norm.bias", "blk.*.ffn_norm.bias",
				"blk.*.attn_q.bias", "blk.*.attn_k.bias", "blk.*.attn_v.bias", "blk.*.attn_output.bias",
				"blk.*.ffn_up.bias", "blk.*.ffn_down.bias"}},
		"codeshell": {arch: "codeshell", keys: modelKeys{"attention.layer_norm_rms_epsilon": nil,
			"attention.layer_norm_epsilon": float32(1e-5), "rope.freq_base": float32(10000),
			"rope.scaling.type": "linear", "rope.scaling.factor": float32(1)},
			also: []string{"output_norm.bias", "blk.*.attn_norm.bias", "blk.*.ffn_norm.bias", "blk.*.attn_qkv.weight",
				"blk.*.attn_qkv.bias", "blk.*.attn_output.bias", "blk.*.ffn_up.bias", "blk.*.ffn_down.bias"}},
		"openelm": {arch: "openelm", keys: modelKeys{"attention.head_count": []uint32{4, 2, 6, 4},
			"attention.head_count_kv": []uint32{2, 1, 3, 4}, "feed_forward_length": []uint32{96, 64, 128, 32},
			"attention.key_length": uint32(16), "attention.value_length": uint32(16)},
			also: []string{"blk.*.attn_qkv.weight"}},
		"plamo": {arch: "plamo"},
		"plm": {arch: "plm", keys: modelKeys{"attention.head_count_kv": uint32(4), "attention.key_length": uint32(24),
			"attention.value_length": uint32(20), "attention.kv_lora_rank": uint32(24), "rope.dimension_count": uint32(8)},
			also: []string{"blk.*.attn_kv_b.weight", "blk.*.attn_q.weight"}},
		"mistral4": {arch: "mistral4", keys: yarn(
			routed(latent(modelKeys{"attention.q_lora_rank": uint32(40), "leading_dense_block_count": uint32(0),
				"expert_gating_func": uint32(1), "rope.scaling.yarn_log_multiplier": float32(0.05),
				"attention.temperature_scale": float32(0.3), "attention.temperature_length": uint32(7)}))),
			also: []string{"blk.*.ffn_gate_up_exps.weight"}},
		"minicpm3": {arch: "minicpm3", keys: modelKeys{
			"attention.head_count_kv": uint32(4), "attention.key_length": uint32(24),
			"attention.value_length": uint32(20),
			"attention.kv_lora_rank": uint32(24), "attention.q_lora_rank": uint32(40),
			"rope.dimension_count":                 uint32(8),
			"rope.scaling.original_context_length": uint32(128), "rope.scaling.type": "longrope",
			"rope.scaling.attn_factor": float32(1.2)},
			also: []string{"blk.*.attn_kv_b.weight", "rope_factors_long.weight", "rope_factors_short.weight"}},
		"mimo2": {arch: "mimo2", uneven: true, keys: experts(modelKeys{
			"attention.head_count_kv": []uint32{1, 2, 2, 1}, "attention.key_length": uint32(24),
			"attention.value_length": uint32(16), "rope.dimension_count": uint32(8), "rope.freq_base": float32(300),
			"attention.value_scale":    float32(0.7),
			"attention.sliding_window": uint32(9), "attention.sliding_window_pattern": []int32{0, 1, 1, 0}}),
			also: []string{"blk.1.attn_sinks.weight", "blk.2.attn_sinks.weight", "blk.1.ffn_gate_inp.weight",
				"blk.2.ffn_gate_inp.weight", choice1, "blk.2.attn_qkv.weight"}},
		"qwen3next": {arch: "qwen3next", keys: ssm(experts(modelKeys{"ssm.inner_size": uint32(96),
			"ssm.time_step_rank": uint32(6), "ssm.state_size": uint32(16), "rope.dimension_count": uint32(8),
			"expert_shared_feed_forward_length": uint32(24), "feed_forward_length": nil}))},
		"qwen3next old": {arch: "qwen3next", keys: ssm(experts(modelKeys{"ssm.inner_size": uint32(96),
			"ssm.time_step_rank": uint32(6), "ssm.state_size": uint32(16), "rope.dimension_count": uint32(8),
			"expert_shared_feed_forward_length": uint32(24), "full_attention_interval": uint32(2)})),
			also: []string{"blk.0.ssm_in.weight", "blk.2.ssm_in.weight"}},
		"qwen4exp": {arch: "qwen4exp", keys: qwen4expKeys(), also: []string{"per_layer_token_embd.weight"}},
		"nemotron_h": {arch: "nemotron_h", layers: 5, keys: ssm(modelKeys{"feed_forward_length": []uint32{0, 96, 0,
			0, 96}, "attention.head_count_kv": []uint32{0, 0, 0, 2, 0}}),
			also: []string{"blk.0.ssm_norm.weight", "blk.2.ssm_norm.weight"}},
		"nemotron_h_moe": {arch: "nemotron_h_moe", layers: 5,
			keys: ssm(routed(modelKeys{"feed_forward_length": []uint32{0, 16, 0, 0, 16},
				"attention.head_count_kv": []uint32{0, 0, 0, 2, 0}, "expert_gating_func": nil,
				"leading_dense_block_count":         nil,
				"expert_shared_feed_forward_length": uint32(40), "moe_latent_size": uint32(32)})),
			also: []string{"blk.0.ssm_norm.weight", "blk.2.ssm_norm.weight", "blk.1.ffn_gate_inp.weight",
				"blk.4.ffn_gate_inp.weight"}},
		"mamba": {arch: "mamba", layers: 3, keys: selective(modelKeys{"feed_forward_length": uint32(0),
			"attention.head_count": uint32(0), "attention.head_count_kv": nil, "ssm.dt_b_c_rms": true})},
		"mamba2": {arch: "mamba2", layers: 2, keys: ssm(modelKeys{"feed_forward_length": uint32(0),
			"attention.head_count": uint32(0), "attention.head_count_kv": nil}),
			also: []string{"blk.*.ssm_norm.weight"}},
		"jamba": {arch: "jamba", uneven: true, keys: selective(modelKeys{"attention.head_count_kv": []uint32{0, 2, 0, 0},
			"expert_count": uint32(4), "expert_used_count": uint32(2)}),
			also: []string{"blk.0.ssm_dt_norm.weight", "blk.0.ssm_b_norm.weight", "blk.0.ssm_c_norm.weight",
				"blk.2.ssm_dt_norm.weight", "blk.2.ssm_b_norm.weight", "blk.2.ssm_c_norm.weight",
				"blk.3.ssm_dt_norm.weight", "blk.3.ssm_b_norm.weight", "blk.3.ssm_c_norm.weight",
				"blk.1.ffn_gate_inp.weight", "blk.2.ffn_gate_inp.weight"}},
		"kimi-linear": {arch: "kimi-linear", keys: routed(latent(modelKeys{"attention.head_count_kv": []uint32{0, 0,
			1, 0}, "kda.head_dim": uint32(16), "ssm.conv_kernel": uint32(4), "expert_weights_norm": nil})),
			also: []string{"blk.2.attn_q.weight"}},
		"bailingmoe3": {arch: "bailingmoe3", layers: 5, uneven: true, keys: ling3(modelKeys{"nextn_predict_layers": uint32(1),
			"attention.head_count_kv": []uint32{0, 0, 1, 0, 1}, "attention.q_lora_rank": uint32(40),
			"expert_group_count": uint32(4), "expert_group_used_count": uint32(2),
			"swiglu_clamp_exp": []float32{0, 0.5, 0, 0.75, 0.6}, "swiglu_clamp_shexp": []float32{0.4, 0, 0.6, 0.5, 0.7}}),
			also: []string{"blk.0.attn_norm.weight"}}, // without it the MTP block is a file of its own
		"bailingmoe3 without low ranks": {arch: "bailingmoe3", uneven: true, keys: yarn(ling3(modelKeys{
			"attention.head_count_kv": []uint32{0, 1, 0, 1}, "expert_shared_feed_forward_length": nil,
			"expert_shared_count": uint32(2), "kda.safe_gate": nil}))},
		"gemma3n": {arch: "gemma3n", layers: 22, keys: modelKeys{"attention.sliding_window": uint32(9),
			"embedding_length": uint32(32), "attention.head_count": uint32(2),
			"attention.head_count_kv": uint32(1), "feed_forward_length": uint32(64), "rope.freq_base": float32(1e5)},
			also: []string{"blk.*.attn_k.weight", "blk.*.attn_v.weight", "blk.*.attn_k_norm.weight"}},
		"bitnet": {arch: "bitnet", also: []string{"blk.*.attn_q.scale", "blk.*.attn_k.scale", "blk.*.attn_v.scale",
			"blk.*.attn_output.scale", "blk.*.ffn_gate.scale", "blk.*.ffn_up.scale", "blk.*.ffn_down.scale"}},
		"rwkv7": {arch: "rwkv7", layers: 2,
			keys: modelKeys{"embedding_length": uint32(128), "attention.head_count": uint32(0),
				"attention.head_count_kv": nil, "attention.layer_norm_rms_epsilon": nil,
				"attention.layer_norm_epsilon": float32(1e-5),
				"wkv.head_size":                uint32(64), "attention.decay_lora_rank": uint32(12),
				"attention.iclr_lora_rank":               uint32(10),
				"attention.value_residual_mix_lora_rank": uint32(8), "attention.gate_lora_rank": uint32(20),
				"token_shift_count": uint32(2)},
			also: []string{"token_embd_norm.bias", "output_norm.bias", "blk.*.attn_norm.bias", "blk.*.attn_norm_2.bias"}},
		"nanbeige": {arch: "nanbeige", layers: 2, keys: modelKeys{"num_loops": uint32(3)}},
	}
}

// TestAskedModelsRefuseWhatTheyDoNotAskFor: a tensor or a key more, or a tensor less, is an error that names it.
func TestAskedModelsRefuseWhatTheyDoNotAskFor(t *testing.T) {
	all := askedModels()
	for i, name := range slices.Sorted(maps.Keys(all)) {
		a := all[name]
		kvs, tensors := a.kvs(a.all()), a.tensors(t, name)
		describe := func(kvs []gguf.KV, tensors []gguf.TensorSource) string {
			_, err := Describe(headerOf(t, kvs, tensors, "more.gguf"))
			return fmt.Sprint(err)
		}
		norm := tensors[slices.IndexFunc(tensors, func(s gguf.TensorSource) bool { // not every block has one
			return strings.HasSuffix(s.Name, "attn_norm.weight") && !strings.HasPrefix(s.Name, "blk.0.") ||
				name == "talkie" && strings.HasSuffix(s.Name, "norm.weight")
		})].Name
		for j, named := range []string{
			"blk.1.attn_mystery.weight", "mystery.weight", "attention.mystery", "mystery_scale", "ssm.mystery", norm,
		} {
			if !testkit.IsLong(t) && (i+j)%3 != 0 {
				continue
			}
			var err string
			switch {
			case named == norm:
				err = describe(kvs, slices.DeleteFunc(slices.Clone(tensors),
					func(s gguf.TensorSource) bool { return s.Name == norm }))
			case strings.HasSuffix(named, ".weight"):
				err = describe(kvs, append(slices.Clone(tensors), randommodel.Tensor(1, named, 0, 1, 4)))
			default:
				err = describe(append(slices.Clone(kvs), gguf.KV{Key: a.arch + "." + named, Value: float32(3)}), tensors)
			}
			if !strings.Contains(err, "more.gguf") || !strings.Contains(err, named) {
				t.Errorf("%s with another %s: %s", name, named, err)
			}
		}
	}
}

// TestLongAskedModelsRefuseWhatTheyDoNotAskFor: each of these for every model.
func TestLongAskedModelsRefuseWhatTheyDoNotAskFor(t *testing.T) {
	testkit.Long(t)
	TestAskedModelsRefuseWhatTheyDoNotAskFor(t)
}

// TestAskedModelsOneAnswer: promise P1 for every one of them: however the sequence is cut, whatever shares the pass,
// with trees, forks, other kernels and thread counts, and with weights read from disk.
func TestAskedModelsOneAnswer(t *testing.T) {
	one, two := newRuntime(t, RuntimeOptions{Threads: 1}), newRuntime(t, RuntimeOptions{Threads: 2})
	scalar := newRuntime(t, RuntimeOptions{Threads: 1, SIMD: "scalar"})
	all := askedModels()
	for i, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			file := written(t, all[name].file(t, name))
			o := Options{RopeContext: 256, Weights: []string{"", "q8_0"}[i%2]}
			rt := one
			if i%4 == 0 {
				rt = two
			}
			whole := openModel(t, rt, file, o)
			ids := randomTokens(290, whole.config.Vocab, 4)
			if whole.config.Layers > manyLayers || !testkit.IsLong(t) && i%10 != 0 { // every tenth has more than one page
				ids = ids[:70]
			}
			want := eval(t, newSession(t, whole, SessionOptions{}), ids, nil, All)
			sameBits(t, "scalar kernels", eval(t, newSession(t, openModel(t, scalar, file, o), SessionOptions{}),
				ids[:20], nil,
				All), want[:20*whole.config.Vocab])
			for j, way := range ways {
				if testkit.IsLong(t) || (i+j)%len(ways) == 0 {
					sameBits(t, way.name, way.feed(t, whole, SessionOptions{}, ids), want)
				}
			}
			if i%5 != 0 && !testkit.IsLong(t) { // from disk
				return
			}
			o.Memory, o.Cache = planOf(t, file, o).Least, t.TempDir()
			m := openModel(t, rt, file, o)
			if !m.Memory().Streams() {
				t.Fatal("all weights are in memory")
			}
			s := newSession(t, m, SessionOptions{})
			var got []float32
			for from := 0; from < len(ids); from += 70 {
				got = append(got, eval(t, s, ids[from:min(from+70, len(ids))], nil, All)...)
			}
			sameBits(t, "from disk", got, want)
		})
	}
}

// TestLongAskedModelsOneAnswer: every one of them fed in every way, and read from disk.
func TestLongAskedModelsOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestAskedModelsOneAnswer(t)
}
