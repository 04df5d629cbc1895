package convert

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
)

// keysAre compares keys.
func keysAre(t *testing.T, name string, f *gguf.File, want map[string]gguf.Value) {
	t.Helper()
	for key, v := range want {
		if got, _ := f.Value(key); fmt.Sprint(got) != fmt.Sprint(v) {
			t.Errorf("%s: %s is %v, want %v", name, key, got, v)
		}
	}
}

// TestChatTemplates: templates come from the files that transformers reads, the named ones too.
func TestChatTemplates(t *testing.T) {
	list := []any{map[string]string{"name": "tool_use", "template": "two"},
		map[string]string{"name": "default", "template": "one"}}
	const one, named, names = "tokenizer.chat_template", "tokenizer.chat_template.tool_use", "tokenizer.chat_templates"
	for name, c := range map[string]struct {
		files map[string]any
		want  map[string]gguf.Value
	}{
		"without settings": {map[string]any{"tokenizer_config.json": nil, "chat_template.jinja": "file"},
			map[string]gguf.Value{one: "file", names: nil}},
		"a list": {map[string]any{"tokenizer_config.json": map[string]any{"chat_template": list}},
			map[string]gguf.Value{one: "one", named: "two", names: []string{"tool_use"}}},
		"files": {map[string]any{"tokenizer_config.json": map[string]any{"chat_template": list},
			"chat_template.jinja":                 "file",
			"additional_chat_templates/rag.jinja": "three", "additional_chat_templates/x-y.jinja": "four"},
			map[string]gguf.Value{one: "file", named: nil, one + ".rag": "three", one + ".x_y": "four",
				names: []string{"rag", "x_y"}}},
		"of a processor": {map[string]any{"tokenizer_config.json": "{}",
			"chat_template.json": map[string]string{"chat_template": "five"}}, map[string]gguf.Value{one: "five"}},
	} {
		s, config := llamaSource(t, "LlamaForCausalLM")
		s.file("config.json", config)
		s.weights()
		if err := os.Mkdir(filepath.Join(s.dir, "additional_chat_templates"), 0o777); err != nil {
			t.Fatal(err)
		}
		for file, v := range c.files {
			if v == nil {
				if err := os.Remove(filepath.Join(s.dir, file)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			s.file(file, v)
		}
		f, _ := converted(t, s.dir, Options{Type: "f32"})
		keysAre(t, name, f, c.want)
	}
	s, config := llamaSource(t, "LlamaForCausalLM")
	s.file("config.json", config)
	s.weights()
	s.file("chat_template.json", "{")
	s.file("tokenizer_config.json", "{}")
	s.refused("damaged", []string{"chat_template.json"})
	if err := os.Mkdir(filepath.Join(s.dir, "chat_template.jinja"), 0o777); err != nil {
		t.Fatal(err)
	}
	s.refused("no file", []string{"chat_template.jinja"})
}

// TestEnds: what ends a text is said by generation_config.json too, and by what is put behind each text.
func TestEnds(t *testing.T) {
	const eos, eot, eom = "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"
	behind := func(m map[string]any) {
		m["post_processor"] = map[string]any{"type": "TemplateProcessing", "single": []any{
			map[string]any{"Sequence": map[string]any{"id": "A"}},
			map[string]any{"SpecialToken": map[string]any{"id": "<turn>"}}}}
	}
	for name, c := range map[string]struct {
		ids        any // of config.json
		generation any
		settings   map[string]any
		edit       func(m map[string]any)
		want       map[string]gguf.Value
		note       string
	}{
		"of both": {257, map[string]any{"eos_token_id": []int{257, 259}}, nil, nil,
			map[string]gguf.Value{eos: 257, eot: 259, eom: nil}, ""},
		"a number": {257, map[string]any{"eos_token_id": 258, "temperature": 0.6}, nil, nil,
			map[string]gguf.Value{eos: 257, eot: 258, eom: nil}, ""},
		"the end of a turn": {257, nil, map[string]any{"eos_token": "<end>", "eot_token": "<turn>"}, nil,
			map[string]gguf.Value{eos: 257, eot: 258, eom: nil}, ""},
		"too many": {[]int{257, 258, 259, 256, 1 << 20}, nil, nil, nil,
			map[string]gguf.Value{eos: 257, eot: 258, eom: 259}, "Ġa for one, are left out"},
		"behind each text": {257, nil, nil, behind, map[string]gguf.Value{eos: 258, eot: 257, eom: nil,
			"tokenizer.ggml.add_eos_token": true}, ""},
	} {
		s, config := llamaSource(t, "LlamaForCausalLM")
		config["eos_token_id"] = c.ids
		s.file("config.json", config)
		s.weights()
		if c.generation != nil {
			s.file("generation_config.json", c.generation)
		}
		if c.settings != nil {
			s.file("tokenizer_config.json", c.settings)
		}
		if c.edit != nil {
			s.edit("tokenizer.json", c.edit)
		}
		f, _ := converted(t, s.dir, Options{Type: "f32"})
		keysAre(t, name, f, c.want)
		s.noted(name, c.note)
	}
	s, config := llamaSource(t, "LlamaForCausalLM")
	s.file("config.json", config)
	s.weights()
	s.edit("tokenizer.json", behind)
	s.file("tokenizer_config.json", map[string]any{"eos_token": "<end>", "chat_template": "{{ m }}{{ eos_token }}"})
	s.refused("a template with the other end", []string{"post_processor", "<turn>", "<end>"})
	s.file("tokenizer_config.json", "{}")
	s.file("generation_config.json", "{")
	s.refused("damaged", []string{"generation_config.json"})
}

// TestPaddingWithoutRow: a token that pads batches in training, and that the model has no row for, is left out.
func TestPaddingWithoutRow(t *testing.T) {
	s, config := llamaSource(t, "LlamaForCausalLM")
	s.file("config.json", config)
	s.weights()
	s.edit("tokenizer.json", func(m map[string]any) {
		m["added_tokens"] = append(m["added_tokens"].([]any), map[string]any{"id": 260, "content": "[PAD]", "special": true})
	})
	s.file("tokenizer_config.json", map[string]any{"eos_token": "<end>", "pad_token": "[PAD]"})
	f, _ := converted(t, s.dir, Options{Type: "f32"})
	keysAre(t, "padding", f, map[string]gguf.Value{"tokenizer.ggml.padding_token_id": nil,
		"tokenizer.ggml.eos_token_id": 257})
	s.file("tokenizer_config.json", map[string]any{"eos_token": "<end>", "pad_token": "<none>"})
	s.refused("a token that nobody adds", []string{"pad_token", "<none>"})
}

// TestTokensCostNoMoreThanTheModelHasRows: an id far behind the last row is left out or refused, and takes no room.
func TestTokensCostNoMoreThanTheModelHasRows(t *testing.T) {
	const far = largest - 1
	s, config := llamaSource(t, "LlamaForCausalLM")
	s.file("config.json", config)
	s.weights()
	before := allocated()
	s.edit("tokenizer.json", func(m map[string]any) {
		m["added_tokens"] = append(m["added_tokens"].([]any), map[string]any{"id": far, "content": "<far>", "special": true})
	})
	s.file("added_tokens.json", map[string]int{"<further>": far - 1})
	s.file("tokenizer_config.json", map[string]any{"eos_token": "<end>", "added_tokens_decoder": map[string]addedToken{
		"300": {Content: "<near>"}}})
	m, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	notes := strings.Join(m.Notes, "\n")
	if !strings.Contains(notes, "added token <near> and all behind it are left out") {
		t.Errorf("notes %q", notes)
	}
	s.edit("tokenizer.json", func(m map[string]any) { m["model"].(map[string]any)["vocab"].(map[string]any)["far"] = far })
	s.refused("a token of the vocabulary", []string{"model.vocab: far has id 16777215", "vocab_size"})
	if all := allocated() - before; all > 64<<20 {
		t.Errorf("%d bytes were allocated", all)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestSizesTakeNoMemory: what config.json says takes none before the tensors' shapes have been compared with it.
func TestSizesTakeNoMemory(t *testing.T) {
	for class, c := range map[string]struct {
		size, tensor string
		change       map[string]any
	}{
		"OPTForCausalLM":     {"max_position_embeddings", "embed_positions", map[string]any{}},
		"CodeGenForCausalLM": {"n_embd", "wte", map[string]any{}},
		"LlamaForCausalLM":   {"hidden_size", "embed_tokens", map[string]any{"head_dim": nil}},
		"GPTNeoXForCausalLM": {"hidden_size", "embed_in", map[string]any{"layer_norm_eps": 1e-5, "hidden_act": "gelu",
			"num_key_value_heads": nil, "rms_norm_eps": nil}},
	} {
		source := small
		if class == "LlamaForCausalLM" || class == "GPTNeoXForCausalLM" {
			source = llamaSource
		}
		s, config := source(t, class)
		config[c.size] = largest
		maps.Copy(config, c.change)
		s.file("config.json", config)
		s.weights()
		before := allocated()
		s.refused(class, []string{c.tensor})
		if all := allocated() - before; all > 16<<20 {
			t.Errorf("%s: %d bytes were allocated", class, all)
		}
	}
}

// TestMarksThatAreNotThere: where each text gets a token in front or behind, there is one.
func TestMarksThatAreNotThere(t *testing.T) {
	opt, config := small(t, "OPTForCausalLM") // whose texts begin with one
	delete(config, "bos_token_id")
	opt.file("config.json", config)
	opt.weights()
	converted(t, opt.dir, Options{Type: "f32"})
	opt.file("tokenizer_config.json", map[string]any{"eos_token": "</s>"})
	opt.refused("no beginning", []string{"tokenizer_config.json: add_bos_token", "there is none"})
	opt.file("tokenizer_config.json", map[string]any{"eos_token": "</s>", "add_bos_token": false})
	converted(t, opt.dir, Options{Type: "f32"})
	s, config := llamaSource(t, "LlamaForCausalLM")
	delete(config, "eos_token_id")
	s.file("config.json", config)
	s.weights()
	s.file("tokenizer_config.json", map[string]any{"add_eos_token": true})
	s.refused("no end", []string{"tokenizer_config.json: add_eos_token", "there is none"})
}

// TestAddedBesideSentencePiece: tokens that were added stand in tokenizer.json alone, where transformers 5 saved it.
func TestAddedBesideSentencePiece(t *testing.T) {
	s, config := llamaSource(t, "MistralForCausalLM") // whose tokenizer.json adds 257 to 259
	s.file("tokenizer.model", string(sentencePieceFile(2, "▁", "<unk>", "<s>", "y", "x", "<0x41>")))
	s.file("config.json", config)
	s.weights()
	s.refused("another vocabulary", []string{"tokenizer.json: model.vocab: 25", "others than in tokenizer.model"})
	s.edit("tokenizer.json", func(m map[string]any) {
		m["model"] = map[string]any{"vocab": map[string]int{"▁": 0, "<unk>": 1, "<s>": 2, "y": 3, "x": 4, "A": 5}}
	})
	f, _ := converted(t, s.dir, Options{Type: "f32"})
	tokens, _ := f.Strings("tokenizer.ggml.tokens")
	types, _ := f.Int32s("tokenizer.ggml.token_type")
	if len(tokens) != 260 || tokens[257] != "<end>" || types[258] != typeControl || types[259] != typeUser {
		t.Errorf("tokens %q, types %v", tokens[len(tokens)-3:], types[len(types)-3:])
	}
	s.file("tokenizer.json", "{")
	s.refused("damaged", []string{"tokenizer.json"})
}

// TestPrefixSpace: tokenizer_config.json decides whether a text begins with a space, and else the vocabulary.
func TestPrefixSpace(t *testing.T) {
	for name, c := range map[string]struct{ said, want gguf.Value }{
		"not said": {nil, false}, "said": {true, true}, "said to be none": {false, false}} {
		s, config := llamaSource(t, "MistralForCausalLM")
		if err := os.Remove(filepath.Join(s.dir, "tokenizer.json")); err != nil {
			t.Fatal(err)
		}
		s.file("tokenizer.model", string(sentencePieceFile(2, "▁", "<unk>", "<s>", "y", "x", "<0x41>")))
		s.file("tokenizer_config.json", map[string]any{"bos_token": "<s>", "add_prefix_space": c.said})
		config["eos_token_id"] = 2
		s.file("config.json", config)
		s.weights()
		f, _ := converted(t, s.dir, Options{Type: "f32"})
		keysAre(t, name, f, map[string]gguf.Value{"tokenizer.ggml.add_space_prefix": c.want})
	}
}

// TestInfinity: the word that Python writes in the place of a number is read where a value stands, and not in texts.
func TestInfinity(t *testing.T) {
	s := &source{t: t, dir: t.TempDir()}
	s.file("config.json", `{"Infinity \\\" Infinity": "Infinity \" Infinity", "list": [0.0, Infinity], "at": Infinity}`)
	c, err := readConfig(s.dir + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(c.values), fmt.Sprint(map[string]any{`Infinity \" Infinity`: `Infinity " Infinity`,
		"list": []any{"0.0", infinity}, "at": infinity}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if c.number("at"); *c.err == nil || !strings.Contains((*c.err).Error(), "at: a number expected") {
		t.Errorf("no number: %v", *c.err)
	}
	s.file("config.json", `{"at": -Infinity}`)
	if _, err := readConfig(s.dir + "/config.json"); err == nil {
		t.Error("-Infinity was read")
	}
}
