package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// TestTokenizerIDs: an id that is outside the vocabulary is refused by its key; -1 means that
// there is no such token.
func TestTokenizerIDs(t *testing.T) {
	read := func(key string, id gguf.Value) error {
		_, err := ReadTokenizer(openKeys(t,
			gguf.KV{Key: "tokenizer.ggml.model", Value: "gpt2"},
			gguf.KV{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b", "</s>"}},
			gguf.KV{Key: "tokenizer.ggml.merges", Value: []string{}},
			gguf.KV{Key: key, Value: id}))
		return err
	}
	for _, name := range []string{"bos", "eos", "unknown", "eot", "eom"} {
		key := "tokenizer.ggml." + name + "_token_id"
		for _, id := range []gguf.Value{uint32(3), int32(-2), uint64(1 << 32), int64(1 << 40)} {
			want := fmt.Sprintf("keys.gguf: key %q: %v is outside the vocabulary of 3 tokens", key, id)
			if err := read(key, id); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
		for _, id := range []gguf.Value{uint32(2), int32(-1), uint8(0)} {
			if err := read(key, id); err != nil {
				t.Error(err)
			}
		}
		if err := read(key, "2"); err == nil || !strings.Contains(
			err.Error(), fmt.Sprintf("keys.gguf: key %q: wrong type", key)) {
			t.Error(err)
		}
	}
}

// openKeys opens a file of nothing but metadata.
func openKeys(t *testing.T, kvs ...gguf.KV) *gguf.File {
	t.Helper()
	return readHeader(t, randommodel.Bytes(t, kvs, nil), "keys.gguf")
}

// TestTokenizerKinds: kinds that are not implemented are refused by name, whatever keys they have.
func TestTokenizerKinds(t *testing.T) {
	tokens := gguf.KV{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b"}}
	for _, c := range []struct{ model, want string }{
		{"rwkv", "\"rwkv\" (RWKV) is not supported"}, {"gpt2", "tokenizer.ggml.merges"}, {"gemma4", "tokenizer.ggml.merges"},
		{"whitespace", "tokenizer.ggml.merges"},
	} {
		_, err := ReadTokenizer(openKeys(t, gguf.KV{Key: "tokenizer.ggml.model", Value: c.model}, tokens))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "keys.gguf") {
			t.Errorf("%s: %v", c.model, err)
		}
	}
}

// TestTokenizerWhitespace: the case goes where the file says so; accents stay in any case.
func TestTokenizerWhitespace(t *testing.T) {
	for lowercase, want := range map[gguf.Value][]int32{nil: {1, 2, 2}, false: {1, 2, 2}, true: {0, 2, 2}} {
		kvs := []gguf.KV{{Key: "tokenizer.ggml.model", Value: "whitespace"}, {Key: "tokenizer.ggml.pre", Value: "whitespace"},
			{Key: "tokenizer.ggml.tokens", Value: []string{"a", "A", "éé", "é"}},
			{Key: "tokenizer.ggml.merges", Value: []string{"é é"}}}
		if lowercase != nil {
			kvs = append(kvs, gguf.KV{Key: "tokenizer.ggml.normalizer.lowercase", Value: lowercase})
		}
		tok, err := ReadTokenizer(openKeys(t, kvs...))
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode("A éé\u3000éé", bpe.EncodeOptions{AddSpecial: true}); !slices.Equal(got, want) {
			t.Errorf("lowercase %v: %d, want %d", lowercase, got, want)
		}
	}
}

// TestTokenizerBERT: which keys of a WordPiece vocabulary change the ids, and that a default beyond the vocabulary is
// none.
func TestTokenizerBERT(t *testing.T) {
	tokens := []string{"[UNK]", "[CLS]", "[SEP]", "\u2581a", "\u2581é", "\u2581e", "\u2581A"}
	keys := func(more ...gguf.KV) []gguf.KV {
		return append([]gguf.KV{
			{Key: "tokenizer.ggml.model", Value: "bert"}, {Key: "tokenizer.ggml.tokens", Value: tokens},
			{Key: "tokenizer.ggml.token_type", Value: []int32{3, 3, 3, 1, 1, 1, 1}},
			{Key: "tokenizer.ggml.unknown_token_id", Value: uint32(0)}, {Key: "tokenizer.ggml.bos_token_id", Value: uint32(1)},
		}, more...)
	}
	sep := gguf.KV{Key: "tokenizer.ggml.seperator_token_id", Value: uint32(2)}
	set := func(key string, v bool) gguf.KV { return gguf.KV{Key: "tokenizer.ggml." + key, Value: v} }
	for _, c := range []struct {
		more []gguf.KV
		want []int32 // of the pair A, é
	}{
		{[]gguf.KV{sep}, []int32{1, 3, 2, 5}},
		{nil, []int32{1, 3, 5}},
		{[]gguf.KV{sep, set("add_eos_token", true), set("add_sep_token", false)}, []int32{1, 3, 2, 5, 2}},
		{[]gguf.KV{sep, set("normalizer.lowercase", false)}, []int32{1, 6, 2, 4}},
		{[]gguf.KV{sep, set("normalizer.strip_accents", false)}, []int32{1, 3, 2, 4}},
		{[]gguf.KV{sep, set("normalizer.lowercase", false), set("normalizer.strip_accents", true)}, []int32{1, 6, 2, 5}},
	} {
		tok, err := ReadTokenizer(openKeys(t, keys(c.more...)...))
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.EncodePair("A", "é", bpe.PairOptions{}); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.more, got, c.want)
		}
	}
	if _, err := ReadTokenizer(openKeys(t, keys(set("add_sep_token", true))...)); err == nil {
		t.Error("a separator that does not exist passes")
	}
}

// TestTokenizerGemma4: a gemma4 text begins with BOS even where the file denies it.
func TestTokenizerGemma4(t *testing.T) {
	for _, kind := range [][2]string{{"gemma4", ""}, {"gpt2", "gemma4"}} {
		tok, err := ReadTokenizer(openKeys(t,
			gguf.KV{Key: "tokenizer.ggml.model", Value: kind[0]}, gguf.KV{Key: "tokenizer.ggml.pre", Value: kind[1]},
			gguf.KV{Key: "tokenizer.ggml.tokens", Value: []string{"<bos>", "a", "\u2581", "\u2581a"}},
			gguf.KV{Key: "tokenizer.ggml.token_type", Value: []int32{3, 1, 1, 1}},
			gguf.KV{Key: "tokenizer.ggml.merges", Value: []string{"\u2581 a"}},
			gguf.KV{Key: "tokenizer.ggml.bos_token_id", Value: uint32(0)},
			gguf.KV{Key: "tokenizer.ggml.add_bos_token", Value: false}))
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode("a a", bpe.EncodeOptions{AddSpecial: true}); !slices.Equal(got, []int32{0, 1, 3}) {
			t.Errorf("%q: got %v", kind, got)
		}
	}
}

// TestTokenizerExtraWhitespace: one key, and one model name, take white space away.
func TestTokenizerExtraWhitespace(t *testing.T) {
	for _, c := range []struct {
		kv   gguf.KV
		want []int32 // of "<s> a  a"
	}{
		{gguf.KV{Key: "general.name", Value: "other"}, []int32{1, 3, 5, 3, 5}},
		{gguf.KV{Key: "tokenizer.ggml.remove_extra_whitespaces", Value: true}, []int32{1, 5, 5}},
		{gguf.KV{Key: "general.name", Value: "My Phi-3 mini"}, []int32{1, 3, 5, 3, 5}}, // not after <s>
	} {
		tok, err := ReadTokenizer(tokenizerFile(t, c.kv))
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode("<s> a  a", bpe.EncodeOptions{ParseSpecial: true}); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.kv, got, c.want)
		}
	}
	for name, want := range map[string][]int32{"phi3": {7, 5, 2, 5}, "phi": {7, 3, 5, 2, 3, 5}} {
		tok, err := ReadTokenizer(tokenizerFile(t, gguf.KV{Key: "general.name", Value: name}))
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode("<message> a</s> a", bpe.EncodeOptions{ParseSpecial: true}); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestGapsTakeTheWhiteSpaceInFront: the token for a gap does, where a name says so.
func TestGapsTakeTheWhiteSpaceInFront(t *testing.T) {
	key := func(name, v string) gguf.KV { return gguf.KV{Key: name, Value: v} }
	for _, c := range []struct {
		pre           string
		kv            gguf.KV
		mask, bracket bool
	}{
		{"jina-v2-code", key("general.name", "modern-bert"), true, false},
		{"jina-v2-de", key("general.name", ""), true, false},
		{"jina-v1-en", key("general.name", ""), false, false},
		{"gpt-2", key("general.architecture", "nomic-bert-moe"), true, false},
		{"gpt-2", key("general.architecture", "nomic-bert"), false, false},
		{"modern-bert", key("general.name", "A Modern-BERT"), false, true},
		{"modern-bert", key("general.name", "ModernBERT"), false, false},
	} {
		tok, err := ReadTokenizer(openKeys(t, c.kv,
			gguf.KV{Key: "tokenizer.ggml.model", Value: "gpt2"}, gguf.KV{Key: "tokenizer.ggml.pre", Value: c.pre},
			gguf.KV{Key: "tokenizer.ggml.tokens", Value: []string{"Ġ", "a", "<mask>", "[MASK]"}},
			gguf.KV{Key: "tokenizer.ggml.token_type", Value: []int32{1, 1, 3, 3}},
			gguf.KV{Key: "tokenizer.ggml.merges", Value: []string{}},
			gguf.KV{Key: "tokenizer.ggml.add_sep_token", Value: false}))
		if err != nil {
			t.Fatal(err)
		}
		for text, takes := range map[string]bool{"a <mask>": c.mask, "a [MASK]": c.bracket} {
			got := tok.Encode(text, bpe.EncodeOptions{ParseSpecial: true})
			if (len(got) == 2) != takes || len(got) > 3 {
				t.Errorf("%s, %v: %q is %v", c.pre, c.kv, text, got)
			}
		}
	}
}
