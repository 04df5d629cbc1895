package convert

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

// tekkenFile writes tekken.json with four special tokens of five, the 256 bytes and these sequences by rank.
func (s *source) tekkenFile(change func(file map[string]any), more ...string) {
	file := map[string]any{"config": map[string]any{"pattern": tekkenRule, "version": "v13", "num_vocab_tokens": 300,
		"default_vocab_size": 261 + len(more), "default_num_special_tokens": 5},
		"special_tokens": []any{map[string]any{"rank": 0, "token_str": "<unk>", "is_control": true},
			map[string]any{"rank": 1, "token_str": "<s>", "is_control": true},
			map[string]any{"rank": 2, "token_str": "</s>", "is_control": true},
			map[string]any{"rank": 4, "token_str": "<text>", "is_control": false}}}
	var vocab []any
	for i := range 256 {
		vocab = append(vocab, map[string]any{"rank": i, "token_bytes": []byte{byte(i)}})
	}
	for i, text := range append(more, "cut off") {
		vocab = append(vocab, map[string]any{"rank": 256 + i, "token_bytes": []byte(text), "token_str": text})
	}
	file["vocab"] = vocab
	if change != nil {
		change(file)
	}
	s.file("tekken.json", file)
}

// tekkenSource is a model of 267 tokens with such a file alone.
func tekkenSource(t *testing.T) (s *source, config map[string]any) {
	s, config = llamaSource(t, "Ministral3ForCausalLM")
	config["vocab_size"], config["eos_token_id"] = 267, nil
	s.tensors["model.embed_tokens.weight"], s.tensors["lm_head.weight"] = []int{267, 8}, []int{267, 8}
	s.file("tokenizer_config.json", map[string]any{})
	if err := os.Remove(filepath.Join(s.dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	s.file("config.json", config)
	s.weights()
	return s, config
}

// TestTekken: bytes that make a token of a lower rank are merged first, whatever they are made of; special tokens have
// the first ids, and a text begins with <s>.
func TestTekken(t *testing.T) {
	s, _ := tekkenSource(t)
	s.tekkenFile(nil, "ab", "bc", "abc", " a", " ab", "é")
	f, file := converted(t, s.dir, Options{Type: "f32"})
	tok, err := engine.ReadTokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	const first = 5 + 256
	for text, want := range map[string][]int32{"abc": {first + 2}, "bcab": {first + 1, first},
		" abc": {5 + ' ', first + 2}, "xé": {5 + 'x', first + 5}, "a\x00": {5 + 'a', 5}} {
		if got := tok.Encode(text, bpe.EncodeOptions{}); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := tok.Encode("a", bpe.EncodeOptions{AddSpecial: true}); !slices.Equal(got, []int32{1, 5 + 'a'}) {
		t.Errorf("with special tokens: %v", got)
	}
	merges, err := f.Strings("tokenizer.ggml.merges")
	if want := []string{"a b", "b c", "a bc", "ab c", "Ġ a", "Ġ ab", "Ġa b", "Ã ©"}; err != nil ||
		!slices.Equal(merges, want) {
		t.Errorf("merges %q, want %q (%v)", merges, want, err)
	}
	for key, want := range map[string]uint32{"bos": 1, "eos": 2, "unknown": 0} {
		if id, err := f.Uint32("tokenizer.ggml." + key + "_token_id"); err != nil || id != want {
			t.Errorf("%s: %d, %v", key, id, err)
		}
	}
	tokens, _ := f.Strings("tokenizer.ggml.tokens")
	types, _ := f.Int32s("tokenizer.ggml.token_type")
	if tokens[3] != "<SPECIAL_3>" || types[3] != typeControl || tokens[4] != "<text>" || types[4] != typeUser ||
		types[5] != typeNormal {
		t.Errorf("%q of types %d", tokens[3:5], types[3:6])
	}
	for b := range 256 {
		if got := tokens[5+b]; got != string(byteCharacter(b)) {
			t.Errorf("byte %d is %q", b, got)
		}
	}
	runs(t, file)
}

func TestTekkenRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(file map[string]any)
		want   string
	}{
		"a rule": {func(f map[string]any) { f["config"].(map[string]any)["pattern"] = "x+" }, "config.pattern x+"},
		"too many tokens": {func(f map[string]any) {
			f["config"].(map[string]any)["default_vocab_size"] = 268
		}, "268 tokens"},
		"too few tokens":    {func(f map[string]any) { f["vocab"] = f["vocab"].([]any)[:200] }, "200 of 262"},
		"no special tokens": {func(f map[string]any) { f["special_tokens"] = nil }, "special_tokens"},
		"a special token too many": {func(f map[string]any) {
			f["special_tokens"] = append(f["special_tokens"].([]any), map[string]any{"rank": 5, "token_str": "<five>"})
		}, "<five>"},
		"none but special": {func(f map[string]any) {
			f["config"].(map[string]any)["default_num_special_tokens"] = 1000
		}, "1000 of them special"},
		"a token twice": {func(f map[string]any) {
			f["vocab"].([]any)[7].(map[string]any)["token_bytes"] = []byte("ab")
		}, "rank 256"},
		"a token of none": {func(f map[string]any) {
			f["vocab"].([]any)[7].(map[string]any)["token_bytes"] = []byte{}
		}, "rank 7"},
	} {
		s, _ := tekkenSource(t)
		s.tekkenFile(c.change, "ab", "bc", "abc", " a", " ab", "é")
		s.refused(name, []string{"tekken.json", c.want})
	}
}

// FuzzTekken: a damaged file is an error.
func FuzzTekken(f *testing.F) {
	one, err := json.Marshal(map[string]any{"config": map[string]any{"pattern": tekkenRule, "default_vocab_size": 4,
		"default_num_special_tokens": 1}, "special_tokens": []any{map[string]any{"rank": 0, "token_str": "<unk>"}},
		"vocab": []any{map[string]any{"rank": 0, "token_bytes": []byte("a")}, map[string]any{"rank": 1,
			"token_bytes": []byte("b")}, map[string]any{"rank": 2, "token_bytes": []byte("ab")}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one)
	f.Add(bytes.Replace(one, []byte(`"rank":2`), []byte(`"rank":-2`), 1))
	file := filepath.Join(f.TempDir(), "tekken.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(file, data, 0o666); err != nil {
			t.Fatal(err)
		}
		if w, err := readTekken(file, 300); err == nil && len(w.tokens) > 300 {
			t.Errorf("%d tokens", len(w.tokens))
		}
	})
}
