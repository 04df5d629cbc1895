package convert

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
)

// rankerSource is a Qwen 3 of one block, with the tokens "yes" (261) and "no" (262), in a folder of that name.
func rankerSource(t *testing.T, folder string, tied bool) (*source, map[string]any) {
	s, config := llamaSource(t, "Qwen3ForCausalLM")
	dir := filepath.Join(t.TempDir(), folder)
	if err := os.Rename(s.dir, dir); err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	s.edit("tokenizer.json", func(m map[string]any) {
		model := m["model"].(map[string]any)
		vocab := model["vocab"].(map[string]any)
		vocab["ye"], vocab["yes"], vocab["no"] = 260, 261, 262
		model["merges"] = []any{[]string{"Ġ", "a"}, []string{"y", "e"}, []string{"ye", "s"}, []string{"n", "o"}}
	})
	config["vocab_size"], config["max_position_embeddings"], config["tie_word_embeddings"] = 264, 1024, tied
	s.tensors["model.embed_tokens.weight"], s.tensors["lm_head.weight"] = []int{264, 8}, []int{264, 8}
	s.tensors["model.layers.0.self_attn.q_norm.weight"] = []int{4}
	s.tensors["model.layers.0.self_attn.k_norm.weight"] = []int{4}
	if tied {
		delete(s.tensors, "lm_head.weight")
	}
	for name := range s.tensors {
		s.values[name] = func(i int) float32 { return float32(math.Sin(float64(1+i) * (1 + float64(len(name))/7))) }
	}
	s.file("config.json", config)
	s.weights()
	return s, config
}

// opened is a converted model in the engine.
func opened(t *testing.T, file []byte) *engine.Model {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	m, err := engine.New(t.Context(), rt, bytes.NewReader(file), int64(len(file)), engine.Options{Name: "converted"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// TestReranker: a Qwen3-Reranker's score is the probability of "yes" beside "no" that the same folder has as a
// language model, of the prompt in its model card.
func TestReranker(t *testing.T) {
	for _, tied := range []bool{true, false} {
		s, _ := rankerSource(t, "language-model", tied)
		f, raw := converted(t, s.dir, Options{Type: "f32"})
		keysAre(t, "a language model", f, map[string]gguf.Value{"qwen3.pooling_type": nil,
			"tokenizer.chat_template.rerank": nil})
		writes := opened(t, raw)

		s, _ = rankerSource(t, "Qwen3-Reranker-0.6B", tied)
		f, raw = converted(t, s.dir, Options{Type: "f16"})
		keysAre(t, "a reranker", f, map[string]gguf.Value{"qwen3.pooling_type": 4,
			"qwen3.classifier.output_labels": []string{"yes", "no"},
			"tokenizer.chat_templates":       []string{"rerank", "tool_use"}, "tokenizer.chat_template": "{{ messages }}"})
		head, _ := f.Tensor("cls.output.weight")
		if _, ok := f.Tensor("output.weight"); ok || head.Type != gguf.F32 || !slices.Equal(head.Dims, []uint64{8, 2}) {
			t.Errorf("an output matrix: %v; the head is %v of %v", ok, head.Dims, head.Type)
		}
		_, raw = converted(t, s.dir, Options{Type: "f32"})
		ranks := opened(t, raw)
		if p, said := ranks.Pooling(); !said || p != engine.PoolRank || !ranks.Ranks() {
			t.Errorf("pooling %v, %v", p, said)
		}
		for _, pair := range [][2]string{{"which cat?", "a cat sat"}, {"", "yes"}, {"{document}", "<Query>: no\n"}} {
			ids, err := ranks.RankTokens(pair[0], pair[1])
			if err != nil {
				t.Fatal(err)
			}
			if got, want := ranks.Tokenizer().Decode(ids), "<|im_start|>system\nJudge whether the Document meets the "+
				"requirements based on the Query and the Instruct provided. Note that the answer can only be \"yes\" or "+
				"\"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "+
				"answer the query\n<Query>: "+pair[0]+"\n<Document>: "+pair[1]+"<|im_end|>\n<|im_start|>assistant\n<think>\n\n"+
				"</think>\n\n"; got != want {
				t.Errorf("it is asked %q, want %q", got, want)
			}
			text, err := writes.NewSession(engine.SessionOptions{KV: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			defer text.Close()
			out, err := text.Eval(t.Context(), ids, nil, engine.Last)
			if err != nil {
				t.Fatal(err)
			}
			yes, no := float64(out.Row(0)[261]), float64(out.Row(0)[262])
			want := 1 / (1 + math.Exp(no-yes))
			got, err := ranks.Rank(t.Context(), pair[0], []string{pair[1]})
			if err != nil || got[0].Err != nil {
				t.Fatal(err, got)
			}
			if d := math.Abs(float64(got[0].Data[0]) - want); !(d < 1e-5) || math.Abs(yes-no) < 1e-2 {
				t.Errorf("tied %v, %q: scores %v, the logits %v and %v give %v", tied, pair, got[0].Data, yes, no, want)
			}
		}
	}
}

// TestWhatIsAReranker: the folder's name, its model card or a module of sentence-transformers say so, and what a score
// cannot be made of is refused.
func TestWhatIsAReranker(t *testing.T) {
	const module, card = "1_LogitScore", "---\n# a comment\ntags: []\n---\n<p>\n\n# Qwen3-Reranker-4B\n"
	scores := func(yes, no any) map[string]any { return map[string]any{"true_token_id": yes, "false_token_id": no} }
	asks := map[string]any{"tokenizer_config.json": map[string]any{"chat_template": "{# Judge whether " +
		"the Document meets the requirements based on the Query and the Instruct provided. #}"}}
	withoutNo := func(s *source, _ map[string]any) {
		s.edit("tokenizer.json", func(m map[string]any) {
			model := m["model"].(map[string]any)
			delete(model["vocab"].(map[string]any), "no")
			model["merges"] = model["merges"].([]any)[:3]
		})
	}
	withoutHead := func(s *source, config map[string]any) { // as sentence-transformers saves a model
		config["tie_word_embeddings"] = false
		for name, shape := range maps.Clone(s.tensors) {
			delete(s.tensors, name)
			s.tensors[strings.TrimPrefix(name, "model.")] = shape
		}
	}
	pooled := map[string]any{"modules.json": modules("1_Pooling", ""),
		"1_Pooling/config.json": map[string]any{"pooling_mode": "lasttoken"}}
	for name, c := range map[string]struct {
		folder string
		scores map[string]any // of a module
		files  map[string]any
		change func(s *source, config map[string]any)
		ranks  bool
		err    string
	}{
		"no name":          {folder: "x", files: map[string]any{"README.md": "# X\n# Qwen3-Reranker\n"}},
		"a model card":     {folder: "x", files: map[string]any{"README.md": card}, ranks: true},
		"a folder":         {folder: "my-qwen3-reranker", ranks: true},
		"a module":         {folder: "Qwen3-Reranker-8B", scores: scores(261, 262), ranks: true},
		"a question":       {folder: "x", scores: scores(261, 262), files: asks, ranks: true},
		"another question": {folder: "x", scores: scores(261, 262), err: "asked is not known"},
		"another answer":   {folder: "qwen3-reranker", scores: scores(5, 262), err: "config.json: true_token_id: 5"},
		"one answer":       {folder: "qwen3-reranker", scores: scores(261, nil), err: "false_token_id"},
		"another key":      {folder: "qwen3-reranker", scores: map[string]any{"scale": 2}, err: "true_token_id"},
		"no such token":    {folder: "qwen3-reranker", err: `no token "no"`, change: withoutNo},
		"no head":          {folder: "qwen3-reranker", err: "is missing, of which", change: withoutHead},
		"vectors":          {folder: "qwen3-reranker", files: pooled},
	} {
		s, config := rankerSource(t, c.folder, true)
		for _, dir := range []string{module, "1_Pooling"} {
			if err := os.Mkdir(filepath.Join(s.dir, dir), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if c.scores != nil {
			s.file("modules.json", []any{map[string]any{"path": module,
				"type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}})
			s.file(module+"/config.json", c.scores)
		}
		for file, v := range c.files {
			s.file(file, v)
		}
		if c.change != nil {
			c.change(s, config)
			s.file("config.json", config)
			s.weights()
		}
		if c.err != "" {
			s.refused(name, []string{c.err})
			continue
		}
		f, raw := converted(t, s.dir, Options{Type: "f32"})
		if _, ok := f.Tensor("cls.output.weight"); ok != c.ranks {
			t.Errorf("%s: a head: %v", name, ok)
		}
		if m := opened(t, raw); m.Ranks() != c.ranks {
			t.Errorf("%s: it ranks: %v", name, m.Ranks())
		}
	}
	s, config := llamaSource(t, "LlamaForCausalLM")
	s.file("config.json", config)
	s.weights()
	if err := os.Mkdir(filepath.Join(s.dir, module), 0o777); err != nil {
		t.Fatal(err)
	}
	s.file("modules.json", []any{map[string]any{"path": module, "type": "sentence_transformers.LogitScore"}})
	s.file(module+"/config.json", scores(5, 6))
	s.refused("another class", []string{"GGUF's llama has no such head"})
}
