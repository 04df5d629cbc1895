package engine

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// assistantTarget is the file of a small random gemma4 model with room for 2000 tokens.
func assistantTarget(tb testing.TB, name string) []byte {
	r := randommodel.Recipes()[name]
	r.Keys = maps.Clone(r.Keys)
	r.Keys["context_length"] = uint32(2000)
	return r.File(tb)
}

// openPair opens a target and a draft head for it.
func openPair(tb testing.TB, rt *Runtime, target []byte, head randommodel.Assistant, weights string) (t, h *Model) {
	tb.Helper()
	t, err := openBytes(tb, rt, target, "target.gguf", Options{Weights: weights})
	if err != nil {
		tb.Fatal(err)
	}
	if h, err = openBytes(tb, rt, head.File(tb), "assistant.gguf", Options{Weights: weights, Target: t}); err != nil {
		tb.Fatal(err)
	}
	return t, h
}

// TestAssistantRefused: what a head's file lacks, has too much of, or contradicts its target in, is refused by name.
func TestAssistantRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target, err := openBytes(t, rt, assistantTarget(t, "gemma4"), "target.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	order := randommodel.Recipes()["gemma4"] // its last layer has a window, which no head expects
	order.Keys, order.Layers = maps.Clone(order.Keys), 5
	order.Keys["attention.shared_kv_layers"] = uint32(1)
	ordered, err := openBytes(t, rt, order.File(t), "ordered.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	llama := openDrawn(t, rt, randommodel.Llama(), Options{})
	elsewhere, err := openBytes(t, newRuntime(t, RuntimeOptions{Threads: 1}), assistantTarget(t, "gemma4"),
		"elsewhere.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := func(k string, v gguf.Value) randommodel.Assistant {
		return randommodel.Assistant{Keys: map[string]gguf.Value{k: v}}
	}
	type refusal struct {
		a      randommodel.Assistant
		target *Model
		want   error
		says   string
	}
	all := map[string]refusal{
		"no target":       {randommodel.Assistant{}, nil, ErrUnsupported, "beside its target"},
		"another target":  {randommodel.Assistant{}, llama, ErrShape, "the target is llama"},
		"another order":   {randommodel.Assistant{}, ordered, ErrUnsupported, "last layer"},
		"another runtime": {randommodel.Assistant{}, elsewhere, ErrUsage, "one runtime"},
		"another width":   {randommodel.Assistant{Width: 96}, target, ErrValue, "embedding_length_out"},
		"no width":        {key("embedding_length_out", nil), target, gguf.ErrMissing, "embedding_length_out"},
		"no NextN":        {key("nextn_predict_layers", nil), target, gguf.ErrMissing, "nextn_predict_layers"},
		"fewer NextN":     {key("nextn_predict_layers", uint32(2)), target, ErrValue, "nextn_predict_layers"},
		"a block too many": {randommodel.Assistant{
			Keys: map[string]gguf.Value{"block_count": uint32(4), "nextn_predict_layers": uint32(4)}}, target,
			ErrValue, "block_count"},
		"no pattern": {key("attention.sliding_window_pattern", nil), target, ErrValue, "sliding_window_pattern"},
		"a short pattern": {key("attention.sliding_window_pattern", []bool{true}), target, ErrValue,
			"sliding_window_pattern"},
		"another pattern": {key("attention.sliding_window_pattern", []bool{true, true, true}), target, ErrValue,
			"attention.head_count_kv"},
		"no window":       {key("attention.sliding_window", nil), target, gguf.ErrMissing, "attention.sliding_window"},
		"a longer window": {key("attention.sliding_window", uint32(10)), target, ErrValue, "attention.sliding_window"},
		"a window of one": {key("attention.sliding_window", uint32(1)), target, ErrValue, "attention.sliding_window"},
		"other heads": {randommodel.Assistant{Heads: []uint32{2, 2, 2}}, target, ErrValue,
			"attention.head_count_kv"},
		"longer keys": {randommodel.Assistant{Dim: 32}, target, ErrValue, "attention.key_length_swa"},
		"values of their own": {key("attention.value_length_swa", uint32(8)), target, ErrUnsupported,
			"attention.value_length_swa"},
		"part that shares": {key("attention.shared_kv_layers", uint32(1)), target, ErrUnsupported,
			"attention.shared_kv_layers"},
		"layer inputs": {key("embedding_length_per_layer_input", uint32(8)), target, ErrUnsupported,
			"embedding_length_per_layer_input"},
		"a cap": {key("final_logit_softcapping", float32(30)), target, ErrUnsupported,
			"final_logit_softcapping"},
		"a scale of scores":  {key("attention.scale", float32(2)), target, ErrUnsupported, "attention.scale"},
		"another vocabulary": {randommodel.Assistant{Vocab: 71}, target, ErrShape, "token_embd.weight"},
		"an output matrix":   {randommodel.Assistant{More: "output.weight"}, target, ErrUnsupported, "output.weight"},
		"keys": {randommodel.Assistant{More: "blk.0.attn_k.weight"}, target, ErrUnsupported,
			"blk.0.attn_k.weight"},
		"a bias": {randommodel.Assistant{More: "nextn.pre_projection.bias"}, target, ErrUnsupported,
			"nextn.pre_projection.bias"},
		"clusters": {randommodel.Assistant{More: "masked_embd_centroids.weight"}, target, ErrUnsupported,
			"masked_embd_centroids.weight"},
		"an order of clusters": {randommodel.Assistant{More: "masked_embd_ordering"}, target, ErrUnsupported,
			"masked_embd_ordering"},
	}
	for _, name := range []string{"token_embd.weight", "output_norm.weight", "rope_freqs.weight",
		"nextn.pre_projection.weight", "nextn.post_projection.weight", "blk.0.attn_norm.weight",
		"blk.1.attn_q.weight", "blk.1.attn_q_norm.weight", "blk.2.attn_output.weight", "blk.0.post_attention_norm.weight",
		"blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
		"blk.0.ffn_down.weight", "blk.1.post_ffw_norm.weight", "blk.2.layer_output_scale.weight"} {
		all["no "+name] = refusal{randommodel.Assistant{Without: name}, target, ErrMissing, name}
	}
	for what, c := range all {
		_, err := openBytes(t, rt, c.a.File(t), "assistant.gguf", Options{Target: c.target})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "assistant.gguf") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// MTP is of no importance: the file has nothing else.
	if m, err := openBytes(t, rt, randommodel.Assistant{}.File(t), "assistant.gguf",
		Options{Target: target, MTP: true}); err != nil || m.Head() == nil {
		t.Errorf("with MTP: %v", err)
	}
	f := readHeader(t, randommodel.Assistant{}.File(t), "assistant.gguf")
	if _, err := Describe(f); !errors.Is(err, ErrUnsupported) {
		t.Errorf("described: %v", err)
	}
	if p, err := PlanMemory(f, Options{Target: target}, Sessions{}); err != nil || p.Weights == 0 {
		t.Errorf("its memory: %+v, %v", p, err)
	}
}

// TestAssistantStreamed: a draft head computes the same with weights that are read from disk, its own or its target's.
func TestAssistantStreamed(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	dir := t.TempDir()
	write := func(name string, file []byte) string {
		if err := os.WriteFile(dir+"/"+name, file, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	whole, streamed := both(t, rt, write("target.gguf", assistantTarget(t, "gemma4")), Options{})
	path := write("assistant.gguf", randommodel.Assistant{}.File(t))
	ids := randomTokens(30, randommodel.Vocab, 3)
	var want []float32
	for i, target := range []*Model{whole, streamed} {
		heads := []*Model{openModel(t, rt, path, Options{Target: target})}
		if i == 1 {
			_, m := both(t, rt, path, Options{Target: target})
			heads = append(heads, m)
		}
		for j, head := range heads {
			s := newSession(t, target, SessionOptions{})
			r := forward(t, target, Batch{{Session: s, Tokens: ids, Hidden: Last, Layers: []int{FinalNorm}}})
			logits, states, _ := chainOf(t, newSession(t, head, SessionOptions{Target: s}), 7,
				slices.Clone(r[0].Hidden.Row(0)), 3)
			got := append(slices.Concat(logits...), slices.Concat(states...)...)
			if want == nil {
				want = got
			}
			sameBits(t, fmt.Sprint("target ", i, ", head ", j), got, want)
		}
	}
}

// TestDescribeFamilies: the header of a file says of every architecture what the model that is loaded from it says.
func TestDescribeFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for name, r := range randommodel.Recipes() {
		file := r.File(t)
		f := readHeader(t, file, name)
		m, err := openBytes(t, rt, file, name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := Describe(f)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if want := m.Describe(); !reflect.DeepEqual(d, want) {
			t.Errorf("%s: %+v, loaded it is %+v", name, d, want)
		}
	}
}
