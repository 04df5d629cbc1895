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

// assistantFile is a small random draft head for gemma4 targets of the recipes' shape: two blocks with a window and one without.
type assistantFile struct {
	keys        map[string]gguf.Value // replaced, added; nil values are left out
	without     string                // a tensor
	more        string                // a tensor [assistantWidth]
	width       int                   // of the target; 0: recipeWidth
	vocab       int                   // 0: recipeVocab
	heads       []uint32              // of the target's keys and values, for each block; nil: 2, 1, 2
	dim         int                   // of heads in blocks with a window; 0: recipeDim
	ropeFactors float64               // mean of rope_freqs
}

func (a assistantFile) bytes(tb testing.TB) []byte {
	return randommodel.Assistant{Keys: a.keys, Without: a.without, More: a.more, Width: a.width, Vocab: a.vocab, Heads: a.heads, Dim: a.dim, RopeFactors: a.ropeFactors}.File(tb)
}

func (a assistantFile) open(tb testing.TB, rt *Runtime, o Options) (*Model, error) {
	tb.Helper()
	return openBytes(tb, rt, a.bytes(tb), "assistant.gguf", o)
}

// assistantTarget is the file of a small random gemma4 model with room for 2000 tokens.
func assistantTarget(tb testing.TB, name string) []byte {
	r := recipes()[name]
	r.keys = maps.Clone(r.keys)
	r.keys["context_length"] = uint32(2000)
	return r.file(tb)
}

// openPair opens a target and a draft head for it.
func openPair(tb testing.TB, rt *Runtime, target []byte, head assistantFile, weights string) (t, h *Model) {
	tb.Helper()
	t, err := openBytes(tb, rt, target, "target.gguf", Options{Weights: weights})
	if err != nil {
		tb.Fatal(err)
	}
	if h, err = head.open(tb, rt, Options{Weights: weights, Target: t}); err != nil {
		tb.Fatal(err)
	}
	return t, h
}

// TestAssistantRefused: what a head's file lacks, has too much of, or contradicts its target in, is refused by name.
func TestAssistantRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	target, err := openBytes(t, rt, assistantTarget(t, "gemma4"), "target.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	order := recipes()["gemma4"] // its last layer has a window, which no head expects
	order.keys, order.layers = maps.Clone(order.keys), 5
	order.keys["attention.shared_kv_layers"] = uint32(1)
	ordered, err := openBytes(t, rt, order.file(t), "ordered.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	llama := smallLlama().open(t, rt, Options{})
	elsewhere, err := openBytes(t, newRuntime(t, RuntimeOptions{}), assistantTarget(t, "gemma4"), "elsewhere.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := func(k string, v gguf.Value) assistantFile { return assistantFile{keys: map[string]gguf.Value{k: v}} }
	type refusal struct {
		a      assistantFile
		target *Model
		want   error
		says   string
	}
	all := map[string]refusal{
		"no target":            {assistantFile{}, nil, ErrUnsupported, "beside its target"},
		"another target":       {assistantFile{}, llama, ErrShape, "the target is llama"},
		"another order":        {assistantFile{}, ordered, ErrUnsupported, "last layer"},
		"another runtime":      {assistantFile{}, elsewhere, ErrUsage, "one runtime"},
		"another width":        {assistantFile{width: 96}, target, ErrValue, "embedding_length_out"},
		"no width":             {key("embedding_length_out", nil), target, gguf.ErrMissing, "embedding_length_out"},
		"no NextN":             {key("nextn_predict_layers", nil), target, gguf.ErrMissing, "nextn_predict_layers"},
		"fewer NextN":          {key("nextn_predict_layers", uint32(2)), target, ErrValue, "nextn_predict_layers"},
		"a block too many":     {assistantFile{keys: map[string]gguf.Value{"block_count": uint32(4), "nextn_predict_layers": uint32(4)}}, target, ErrValue, "block_count"},
		"no pattern":           {key("attention.sliding_window_pattern", nil), target, ErrValue, "sliding_window_pattern"},
		"a short pattern":      {key("attention.sliding_window_pattern", []bool{true}), target, ErrValue, "sliding_window_pattern"},
		"another pattern":      {key("attention.sliding_window_pattern", []bool{true, true, true}), target, ErrValue, "attention.head_count_kv"},
		"no window":            {key("attention.sliding_window", nil), target, gguf.ErrMissing, "attention.sliding_window"},
		"a longer window":      {key("attention.sliding_window", uint32(10)), target, ErrValue, "attention.sliding_window"},
		"a window of one":      {key("attention.sliding_window", uint32(1)), target, ErrValue, "attention.sliding_window"},
		"other heads":          {assistantFile{heads: []uint32{2, 2, 2}}, target, ErrValue, "attention.head_count_kv"},
		"longer keys":          {assistantFile{dim: 32}, target, ErrValue, "attention.key_length_swa"},
		"values of their own":  {key("attention.value_length_swa", uint32(8)), target, ErrUnsupported, "attention.value_length_swa"},
		"part that shares":     {key("attention.shared_kv_layers", uint32(1)), target, ErrUnsupported, "attention.shared_kv_layers"},
		"layer inputs":         {key("embedding_length_per_layer_input", uint32(8)), target, ErrUnsupported, "embedding_length_per_layer_input"},
		"a cap":                {key("final_logit_softcapping", float32(30)), target, ErrUnsupported, "final_logit_softcapping"},
		"a scale of scores":    {key("attention.scale", float32(2)), target, ErrUnsupported, "attention.scale"},
		"another vocabulary":   {assistantFile{vocab: 71}, target, ErrShape, "token_embd.weight"},
		"an output matrix":     {assistantFile{more: "output.weight"}, target, ErrUnsupported, "output.weight"},
		"keys":                 {assistantFile{more: "blk.0.attn_k.weight"}, target, ErrUnsupported, "blk.0.attn_k.weight"},
		"a bias":               {assistantFile{more: "nextn.pre_projection.bias"}, target, ErrUnsupported, "nextn.pre_projection.bias"},
		"clusters":             {assistantFile{more: "masked_embd_centroids.weight"}, target, ErrUnsupported, "masked_embd_centroids.weight"},
		"an order of clusters": {assistantFile{more: "masked_embd_ordering"}, target, ErrUnsupported, "masked_embd_ordering"},
	}
	for _, name := range []string{"token_embd.weight", "output_norm.weight", "rope_freqs.weight", "nextn.pre_projection.weight", "nextn.post_projection.weight", "blk.0.attn_norm.weight",
		"blk.1.attn_q.weight", "blk.1.attn_q_norm.weight", "blk.2.attn_output.weight", "blk.0.post_attention_norm.weight", "blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
		"blk.0.ffn_down.weight", "blk.1.post_ffw_norm.weight", "blk.2.layer_output_scale.weight"} {
		all["no "+name] = refusal{assistantFile{without: name}, target, ErrMissing, name}
	}
	for what, c := range all {
		_, err := c.a.open(t, rt, Options{Target: c.target})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "assistant.gguf") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// MTP is of no importance: the file has nothing else.
	if m, err := (assistantFile{}).open(t, rt, Options{Target: target, MTP: true}); err != nil || m.Head() == nil {
		t.Errorf("with MTP: %v", err)
	}
	f := readHeader(t, assistantFile{}.bytes(t), "assistant.gguf")
	if _, err := Describe(f); !errors.Is(err, ErrUnsupported) {
		t.Errorf("described: %v", err)
	}
	if p, err := PlanMemory(f, Options{Target: target}); err != nil || p.Weights == 0 {
		t.Errorf("its memory: %+v, %v", p, err)
	}
}

// TestAssistantStreamed: a draft head computes the same with weights that are read from disk, its own or its target's.
func TestAssistantStreamed(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	dir := t.TempDir()
	write := func(name string, file []byte) string {
		if err := os.WriteFile(dir+"/"+name, file, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	whole, streamed := both(t, rt, write("target.gguf", assistantTarget(t, "gemma4")), Options{})
	path := write("assistant.gguf", assistantFile{}.bytes(t))
	ids := randomTokens(30, recipeVocab, 3)
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
			logits, states, _ := chainOf(t, newSession(t, head, SessionOptions{Target: s}), 7, slices.Clone(r[0].Hidden.Row(0)), 3)
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
	rt := newRuntime(t, RuntimeOptions{})
	for name, r := range recipes() {
		file := r.file(t)
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
