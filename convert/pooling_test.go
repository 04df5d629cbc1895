package convert

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
)

// embeddingSource is a Qwen 3 of one block as sentence-transformers saves it: without the head, and under names that
// have no prefix.
func embeddingSource(t *testing.T) (*source, map[string]any) {
	s, config := llamaSource(t, "Qwen3ForCausalLM")
	delete(s.tensors, "lm_head.weight")
	for name, shape := range maps.Clone(s.tensors) {
		delete(s.tensors, name)
		s.tensors[strings.TrimPrefix(name, "model.")] = shape
	}
	s.tensors["layers.0.self_attn.q_norm.weight"], s.tensors["layers.0.self_attn.k_norm.weight"] = []int{4}, []int{4}
	if err := os.Mkdir(filepath.Join(s.dir, "1_Pooling"), 0o777); err != nil {
		t.Fatal(err)
	}
	return s, config
}

// modules are modules.json, with a pooling module in that folder and another one.
func modules(folder, other string) []any {
	list := []any{map[string]any{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
		map[string]any{"idx": 1, "name": "1", "path": folder, "type": "sentence_transformers.models.Pooling"}}
	if other != "" {
		list = append(list, map[string]any{"idx": 2, "name": "2", "path": "2_" + other,
			"type": "sentence_transformers.models." + other})
	}
	return list
}

// TestPooling: a folder of sentence-transformers says how vectors are made.
func TestPooling(t *testing.T) {
	const folder = "1_Pooling"
	for name, c := range map[string]struct {
		modules any
		config  map[string]any
		want    gguf.Value
		err     string
	}{
		"none": {nil, nil, nil, ""},
		"last": {modules(folder, "Normalize"), map[string]any{"word_embedding_dimension": 8, "pooling_mode_lasttoken": true,
			"pooling_mode_mean_tokens": false, "include_prompt": true}, uint32(3), ""},
		"mean":  {modules(folder, ""), map[string]any{"pooling_mode": "mean", "embedding_dimension": 8}, uint32(1), ""},
		"first": {modules(folder, ""), map[string]any{"pooling_mode_cls_token": true}, uint32(2), ""},
		"most":  {modules(folder, ""), map[string]any{"pooling_mode_max_tokens": true}, nil, "pooling_mode_max_tokens"},
		"two": {modules(folder, ""), map[string]any{"pooling_mode_cls_token": true, "pooling_mode_lasttoken": true}, nil,
			"2 are said"},
		"again": {append(modules(folder, ""), modules(folder, "")[1]), map[string]any{"pooling_mode": "mean"}, nil,
			"pooling_mode: vectors are pooled already"},
		"own code": {append(modules(folder, ""), map[string]any{"path": "", "type": "custom_st.Normalize"}),
			map[string]any{"pooling_mode": "mean"}, nil, "custom_st.Normalize"},
		"another folder": {append(modules(folder, ""), map[string]any{"path": "0_Transformer",
			"type": "sentence_transformers.models.Transformer"}), map[string]any{"pooling_mode": "mean"}, nil, "0_Transformer"},
		"unknown": {modules(folder, ""), map[string]any{"pooling_mode": "sum"}, nil, "0 are said"},
		"without prompt": {modules(folder, ""), map[string]any{"pooling_mode": "mean", "include_prompt": false}, nil,
			"include_prompt"},
		"dense":       {modules(folder, "Dense"), map[string]any{"pooling_mode": "mean"}, nil, "models.Dense in 2_Dense"},
		"elsewhere":   {modules("../1_Pooling", ""), map[string]any{"pooling_mode": "mean"}, nil, "../1_Pooling"},
		"damaged":     {"{", map[string]any{}, nil, "modules.json"},
		"no settings": {modules("2_Pooling", ""), map[string]any{}, nil, "2_Pooling"},
	} {
		s, config := embeddingSource(t)
		s.file("config.json", config)
		s.weights()
		if c.modules != nil {
			s.file("modules.json", c.modules)
			s.file(folder+"/config.json", c.config)
		}
		if c.err != "" {
			s.refused(name, []string{c.err})
			continue
		}
		f, raw := converted(t, s.dir, Options{Type: "f32"})
		if got, _ := f.Value("qwen3.pooling_type"); got != c.want {
			t.Errorf("%s: pooling %v, want %v", name, got, c.want)
		}
		runs(t, raw)
	}
}

// TestOwnCode: a model that has Python code of its own may compute other vectors, which is said; attention that
// config.json says to be of another kind is refused.
func TestOwnCode(t *testing.T) {
	s, config := embeddingSource(t)
	config["auto_map"], config["is_causal"] = map[string]any{"AutoModel": "modeling_qwen.Qwen2Model"}, true
	s.file("config.json", config)
	s.weights()
	for _, pools := range []bool{false, true} {
		if pools {
			s.file("modules.json", modules("1_Pooling", ""))
			s.file("1_Pooling/config.json", map[string]any{"pooling_mode": "lasttoken"})
		}
		m, err := Open(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		if m.Close(); strings.Contains(strings.Join(m.Notes, "\n"), "modeling_qwen.Qwen2Model") != pools {
			t.Errorf("makes vectors: %v; notes %q", pools, m.Notes)
		}
	}
	config["is_causal"] = false
	s.file("config.json", config)
	s.refused("attention to later tokens", []string{"is_causal: false is not supported"})
}

// TestHeadIsMissing: a model whose output matrix is said to be another than the embedding needs one.
func TestHeadIsMissing(t *testing.T) {
	s, config := llamaSource(t, "LlamaForCausalLM")
	delete(s.tensors, "lm_head.weight")
	s.file("config.json", config)
	s.weights()
	s.refused("without the head", []string{"lm_head.weight is missing"})
	delete(config, "tie_word_embeddings")
	s.file("config.json", config)
	if f, _ := converted(t, s.dir, Options{}); f != nil {
		if _, ok := f.Tensor("output.weight"); ok {
			t.Error("an output matrix of no tensor")
		}
	}
	s, config = gemma3Source(t) // whose class ties both where nothing is said, whatever the file holds
	delete(config, "tie_word_embeddings")
	s.tensors["lm_head.weight"] = []int{260, 8}
	s.file("config.json", config)
	s.weights()
	if f, _ := converted(t, s.dir, Options{}); f != nil {
		if _, ok := f.Tensor("output.weight"); ok {
			t.Error("an output matrix beside a tied embedding")
		}
	}
}

// TestNames: a folder of Hugging Face's cache is called by a commit, and its model by the repository: the reference
// and the engine tell Phi-3's vocabulary by the model's name.
func TestNames(t *testing.T) {
	for dir, want := range map[string]string{
		"/hub/models--microsoft--Phi-3-mini-4k-instruct/snapshots/0a67": "Phi-3-mini-4k-instruct",
		"/hub/models--gpt2/snapshots/0a67":                              "gpt2",
		"/hub/snapshots/0a67":                                           "0a67",
		"/hub/Phi-3":                                                    "Phi-3",
	} {
		if got := nameOf(filepath.FromSlash(dir)); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
}

// TestSavedWithoutHead: sentence-transformers saves a model without its head, under either class. Where the embedding
// is not the output matrix, the file's texts mean nothing, and that is said.
func TestSavedWithoutHead(t *testing.T) {
	for _, class := range []string{"Qwen3ForCausalLM", "Qwen3Model"} {
		for _, tied := range []bool{true, false} {
			s, config := embeddingSource(t)
			config["architectures"], config["tie_word_embeddings"] = []string{class}, tied
			s.file("config.json", config)
			s.weights()
			m, err := Open(s.dir)
			if err != nil {
				t.Fatal(class, err)
			}
			if m.Close(); strings.Contains(strings.Join(m.Notes, "\n"), "no output matrix") == tied {
				t.Errorf("%s, tied %v: notes %q", class, tied, m.Notes)
			}
		}
	}
}

// TestPromptsAreNoted: what is put in front of texts is no part of the file, and that is said.
func TestPromptsAreNoted(t *testing.T) {
	const file = "config_sentence_transformers.json"
	for text, want := range map[string]string{
		`{}`: "", `{"prompts": null}`: "", `{"prompts": {"document": "", "query": null}, "default_prompt_name": null}`: "",
		`{"prompts": {"query": "Instruct: x\nQuery:", "document": ""}}`: `kinds, of query "Instruct: x\nQuery:" for one`,
		`{"prompts": {"b": "B", "a": "A"}, "default_prompt_name": "b"}`: `every text, "B",`,
	} {
		s, config := embeddingSource(t)
		s.file("config.json", config)
		s.weights()
		s.file(file, text)
		m, err := Open(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(m.Notes, "\n")
		if m.Close(); !strings.Contains(notes, want) || strings.Contains(notes, file) != (want != "") {
			t.Errorf("%s: notes %s, want %q", text, notes, want)
		}
	}
	s, config := embeddingSource(t)
	s.file("config.json", config)
	s.weights()
	s.file(file, "{")
	s.refused("damaged", []string{file})
}
