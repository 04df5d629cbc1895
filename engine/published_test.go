package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// and is a with more keys and tensors.
func (a askedFor) and(keys modelKeys, also ...string) askedFor {
	all := maps.Clone(a.keys)
	if all == nil {
		all = modelKeys{}
	}
	maps.Copy(all, keys)
	a.keys, a.also = all, append(slices.Clone(a.also), also...)
	return a
}

// TestPublishedFilesHaveMore: what the published files of a family have, and no part of the model is made of, changes
// no bit.
func TestPublishedFilesHaveMore(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	all, ids := askedModels(), randomTokens(25, randommodel.Vocab, 5)
	logits := func(a askedFor, name string) []float32 {
		t.Helper()
		m, err := openBytes(t, rt, a.file(t, name), name+".gguf", Options{})
		if err != nil {
			t.Fatal(err)
		}
		return eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
	}
	gemma4 := askedFor{arch: "gemma4", layers: 6, keys: randommodel.Recipes()["gemma4"].Keys, uneven: true}
	latent := all["mistral4"].and(modelKeys{"rope.scaling.yarn_log_multiplier": float32(0.1)})
	for name, c := range map[string][2]askedFor{
		// Gemma 4 E2B and E4B
		"keys and values of layers that use another's": {gemma4, gemma4.and(nil,
			"blk.4.attn_k.weight", "blk.4.attn_v.weight", "blk.4.attn_k_norm.weight",
			"blk.5.attn_k.weight", "blk.5.attn_v.weight", "blk.5.attn_k_norm.weight")},
		// Nemotron Nano 2 and 3
		"positions of a model without": {all["nemotron_h"], all["nemotron_h"].and(modelKeys{
			"rope.dimension_count": uint32(84), "rope.freq_base": float32(1e4), "rope.scaling.finetuned": false})},
		"the like with experts": {all["nemotron_h_moe"], all["nemotron_h_moe"].and(modelKeys{
			"rope.dimension_count": uint32(84)})},
		"one expert": {askedFor{arch: "hunyuan-dense"}, askedFor{arch: "hunyuan-dense"}.and(modelKeys{
			"expert_count": uint32(1), "expert_used_count": uint32(1)})},
		"the magnitude that follows": {latent, latent.and(modelKeys{yarnMagnitude: float32(1)})},
		// GLM-5.2 of Unsloth
		"copies of an index": {all["glm-dsa"], all["glm-dsa"].and(nil,
			"blk.1.indexer.attn_k.weight", "blk.1.indexer.attn_q_b.weight", "blk.1.indexer.k_norm.bias",
			"blk.1.indexer.k_norm.weight", "blk.1.indexer.proj.weight", "blk.3.indexer.k_norm.weight")},
		// converters that write what config.json says, whatever the model is
		"experts that are not there": {all["maincoder"], all["maincoder"].and(modelKeys{"expert_gating_func": uint32(2),
			"expert_group_count": uint32(1), "expert_group_used_count": uint32(1), "expert_weights_norm": true})},
		// Ollama's converter
		"the size of a head, again": {all["maincoder"], all["maincoder"].and(modelKeys{"attention.head_dim": uint32(16)})},
	} {
		sameBits(t, name, logits(c[1], name+", published"), logits(c[0], name))
	}
}

// TestOllamasNames: keys of Ollama's converter say what llama.cpp's say by other names, bit for bit.
func TestOllamasNames(t *testing.T) {
	rt, ids := newRuntime(t, RuntimeOptions{Threads: 1}), randomTokens(25, randommodel.Vocab, 5)
	gemma3 := askedFor{arch: "gemma3", layers: 6, keys: modelKeys{"attention.sliding_window": uint32(9)}}
	mellum := askedModels()["mellum"]
	for name, c := range map[string]struct {
		a           askedFor
		keys, names modelKeys
	}{
		"bases of angles": {gemma3, modelKeys{"rope.freq_base": float32(300), "rope.freq_base_swa": float32(20)},
			modelKeys{"rope.global.freq_base": float32(300), "rope.local.freq_base": float32(20)}},
		"numbers of YaRN": {mellum, modelKeys{"rope.scaling.yarn_beta_fast": float32(8),
			"rope.scaling.yarn_beta_slow": float32(0.1)}, modelKeys{"rope.scaling.beta_fast": float32(8),
			"rope.scaling.beta_slow": float32(0.1)}},
	} {
		var logits [3][]float32
		for i, keys := range []modelKeys{nil, c.keys, c.names} {
			m, err := openBytes(t, rt, c.a.and(keys).file(t, fmt.Sprint(name, i)), name+".gguf", Options{})
			if err != nil {
				t.Fatal(err)
			}
			logits[i] = eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
		}
		sameBits(t, name, logits[2], logits[1])
		if slices.Equal(logits[0], logits[1]) {
			t.Errorf("%s: without the keys the logits are the same", name)
		}
	}
}

// TestWholeFloats: the files of Gemma 3n's first week have a number of layers as a float.
func TestWholeFloats(t *testing.T) {
	const key = "attention.shared_kv_layers"
	a := askedModels()["gemma3n"]
	tensors := a.tensors(t, "gemma3n")
	for _, c := range []struct {
		v  gguf.Value
		ok bool
	}{{uint32(2), true}, {float32(2), true}, {float32(2.5), false}, {float32(-2), false}, {"2", false},
		{float32(math.NaN()), false}, {float32(math.Inf(1)), false}} {
		more := a.and(modelKeys{key: c.v})
		_, err := Describe(headerOf(t, more.kvs(more.all()), tensors, "floats.gguf"))
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), `"gemma3n.`+key) {
			t.Errorf("%T %v: %v", c.v, c.v, err)
		}
	}
}

// TestExpertsThatNobodyAsksFor: a family without experts refuses them, and what is said of them.
func TestExpertsThatNobodyAsksFor(t *testing.T) {
	a := askedModels()["maincoder"]
	tensors := a.tensors(t, "maincoder")
	for _, keys := range []modelKeys{{"expert_count": uint32(1)}, {"expert_count": uint32(2)},
		{"expert_count": uint32(8), "expert_group_count": uint32(1)}} {
		more := a.and(keys)
		_, err := Describe(headerOf(t, more.kvs(more.all()), tensors, "experts.gguf"))
		if err == nil || !strings.Contains(err.Error(), `"maincoder.expert_`) {
			t.Errorf("%v: %v", keys, err)
		}
	}
}

// TestBlocksThatWereLeftOut: a file whose keys count MTP blocks that it does not have is the model without them.
func TestBlocksThatWereLeftOut(t *testing.T) {
	a := askedModels()["qwen3next"]
	keys := a.all()
	blocks := keys["block_count"].(uint32)
	open := func(more uint32, o Options) (*Model, error) {
		keys["block_count"], keys["nextn_predict_layers"] = blocks+more, more
		return header(headerOf(t, a.kvs(keys), a.tensors(t, "qwen3next"), "cut.gguf"), o)
	}
	for _, more := range []uint32{0, 1, 3} {
		m, err := open(more, Options{})
		if err != nil {
			t.Fatal(more, err)
		}
		if m.HasMTP() || m.config.Layers != int(blocks) {
			t.Errorf("%d more: MTP %v, %d layers", more, m.HasMTP(), m.config.Layers)
		}
	}
	target, _ := open(0, Options{})
	if _, err := open(1, Options{MTP: true, Target: target}); err == nil || !strings.Contains(err.Error(), "blk.4.") {
		t.Errorf("its MTP blocks: %v", err)
	}
	keys["nextn_predict_layers"] = uint32(1)
	keys["block_count"] = blocks + 2
	_, err := Describe(headerOf(t, a.kvs(keys), a.tensors(t, "qwen3next"), "cut.gguf"))
	if err == nil || !strings.Contains(err.Error(), "block_count") {
		t.Errorf("a layer less: %v", err)
	}
}

// TestWindowsOfLaguna: Laguna M.1 has no windows; a number says after how many layers comes one without.
func TestWindowsOfLaguna(t *testing.T) {
	rt, laguna := newRuntime(t, RuntimeOptions{Threads: 1}), askedModels()["laguna"]
	without := modelKeys{"attention.sliding_window": nil, "rope.dimension_count_swa": nil, "rope.freq_base_swa": nil}
	const pattern = "attention.sliding_window_pattern"
	for name, c := range map[string]struct {
		keys     modelKeys
		windowed []int // layers
	}{
		"as published": {nil, []int{1, 2, 3}},
		"none":         {without, nil},
		"every second": {modelKeys{pattern: uint32(2)}, []int{1, 3}},
		"one by one":   {modelKeys{pattern: []bool{true, false, true, false}}, []int{0, 2}},
		"zero is none": {modelKeys{"attention.sliding_window": uint32(0), "rope.dimension_count_swa": nil,
			"rope.freq_base_swa": nil}, nil},
		"all but first": {modelKeys{pattern: uint32(5)}, []int{1, 2, 3}},
	} {
		m, err := openBytes(t, rt, laguna.and(c.keys).file(t, "laguna "+name), "laguna.gguf", Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var windowed []int
		for _, cache := range m.caches {
			if cache.window > 0 {
				windowed = append(windowed, cache.layers...)
			}
		}
		if slices.Sort(windowed); !slices.Equal(windowed, c.windowed) {
			t.Errorf("%s: windows in layers %d, expected %d", name, windowed, c.windowed)
		}
	}
}

// TestKeysThatMustSaySomething: a file that does not say what its model is, or says what no such model is, is refused
// by the key.
func TestKeysThatMustSaySomething(t *testing.T) {
	all := askedModels()
	for _, c := range []struct {
		a    askedFor
		more modelKeys
		key  string
	}{
		{all["maincoder"], modelKeys{"attention.head_dim": uint32(24)}, "maincoder.attention.head_dim"},
		{all["mellum"], modelKeys{"attention.sliding_window_pattern": nil}, "mellum.attention.sliding_window_pattern"},
		{all["llama4"], modelKeys{"expert_count": nil, "expert_used_count": nil, "expert_feed_forward_length": nil},
			"llama4.expert_count"},
		{askedFor{arch: "hunyuan-dense"}, modelKeys{"expert_count": uint32(2)}, "hunyuan-dense.expert_count"},
		{askedFor{arch: "muse-glimmer"}, modelKeys{"attention.sliding_window": uint32(9), "logit_scale": float32(1)},
			"muse-glimmer.attention.sliding_window_pattern"},
		{all["muse-glimmer"], modelKeys{"logit_scale": nil}, "muse-glimmer.logit_scale"},
		{all["muse-glimmer"], modelKeys{"rope.scaling.factor": float32(4)}, "muse-glimmer.rope.scaling.factor"},
		{askedFor{arch: "baichuan"}, nil, "baichuan.block_count"},
		{all["baichuan 7b"], modelKeys{"vocab_size": uint32(125696)}, "general.architecture"},
		{all["mistral4"], modelKeys{yarnMagnitude: float32(1)}, "mistral4." + yarnMagnitude},
		{all["qwen3vlmoe"], modelKeys{"rope.dimension_sections": []int32{3, 3, 1, 1}}, "qwen3vlmoe.rope.dimension_sections"},
		{all["mistral4"], modelKeys{yarnMagnitude: float32(1.5), "rope.scaling.yarn_log_multiplier": float32(0.1)},
			"mistral4." + yarnMagnitude},
	} {
		a := c.a.and(c.more)
		_, err := Describe(headerOf(t, a.kvs(a.all()), []gguf.TensorSource{
			randommodel.Tensor(1, fmt.Sprintf("blk.%d.attn_norm.weight", a.all()["block_count"].(uint32)-1), 1, 0,
				randommodel.Width)}, "said.gguf"))
		if err == nil || !strings.Contains(err.Error(), "said.gguf") || !strings.Contains(err.Error(), `"`+c.key+`"`) {
			t.Errorf("%s: %v", c.key, err)
		}
	}
}
