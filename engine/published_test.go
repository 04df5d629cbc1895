package engine

import (
	"maps"
	"slices"
	"testing"

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
	gemma4 := askedFor{arch: "gemma4", layers: 6, keys: randommodel.Recipes()["gemma4"].Keys}
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
	} {
		sameBits(t, name, logits(c[1], name+", published"), logits(c[0], name))
	}
}
