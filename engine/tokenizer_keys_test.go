package engine

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// tokenizerFile is a file of a SentencePiece tokenizer without a model; more keys are added.
func tokenizerFile(t *testing.T, more ...gguf.KV) *gguf.File {
	t.Helper()
	tokens := []string{"<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a", "<turn>", "<message>"}
	kvs := append([]gguf.KV{
		{Key: "tokenizer.ggml.model", Value: "llama"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.scores", Value: []float32{0, 0, 0, -1, -2, -3, 0, 0}},
		{Key: "tokenizer.ggml.token_type", Value: []int32{2, 3, 3, 1, 1, 1, 3, 3}},
	}, more...)
	return readHeader(t, randommodel.Bytes(t, kvs, nil), "tokenizer.gguf")
}

// TestTokenizerKeys: every optional key changes what it names.
func TestTokenizerKeys(t *testing.T) {
	read := func(more ...gguf.KV) *bpe.Tokenizer {
		t.Helper()
		tok, err := ReadTokenizer(tokenizerFile(t, more...))
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	key := func(name string, v gguf.Value) gguf.KV { return gguf.KV{Key: "tokenizer.ggml." + name, Value: v} }
	special, none := bpe.EncodeOptions{AddSpecial: true}, uint32(math.MaxUint32)
	for _, c := range []struct {
		kv   []gguf.KV
		want []int32 // "a" with BOS and EOS where the file asks for them
		ends []int32
	}{
		{nil, []int32{1, 5}, []int32{2}},
		{[]gguf.KV{key("add_space_prefix", false)}, []int32{1, 4}, []int32{2}},
		{[]gguf.KV{key("add_bos_token", false)}, []int32{5}, []int32{2}},
		{[]gguf.KV{key("add_eos_token", true)}, []int32{1, 5, 2}, []int32{2}},
		{[]gguf.KV{key("bos_token_id", uint32(6))}, []int32{6, 5}, []int32{2}},
		// </s> is a control token and ends a text too
		{[]gguf.KV{key("eos_token_id", uint32(7)), key("add_eos_token", true)}, []int32{1, 5, 7}, []int32{2, 7}},
		{[]gguf.KV{key("eot_token_id", uint32(6))}, []int32{1, 5}, []int32{2, 6}},
		{[]gguf.KV{key("eos_token_ids", []int32{7, 2, 6})}, []int32{1, 5}, []int32{2, 6, 7}},
		{[]gguf.KV{key("eos_token_ids", []uint32{6}), key("eot_token_id", uint32(7))}, []int32{1, 5}, []int32{2, 6, 7}},
		// as the tiny models of llama2.c say that there is none
		{[]gguf.KV{key("seperator_token_id", none), key("padding_token_id", none), key("bos_token_id", none),
			key("eos_token_id", none), key("unknown_token_id", none), key("eot_token_id", none),
			key("fim_pre_token_id", none)}, []int32{1, 5}, []int32{2}},
		{[]gguf.KV{key("eom_token_id", uint32(7))}, []int32{1, 5}, []int32{2, 7}},
		{[]gguf.KV{key("eom_token_id", uint32(0))}, []int32{1, 5}, []int32{0, 2}},
	} {
		tok := read(c.kv...)
		if got := tok.Encode("a", special); !slices.Equal(got, c.want) {
			t.Errorf("%v: \"a\" is %d, expected %d", c.kv, got, c.want)
		}
		var ends []int32
		for id := range int32(tok.Size()) {
			if tok.IsEOG(id) {
				ends = append(ends, id)
			}
		}
		if !slices.Equal(ends, c.ends) {
			t.Errorf("%v: the text ends at %d, expected %d", c.kv, ends, c.ends)
		}
	}
}

// TestSuppressedTokens: those of suppress_tokens, each once, and one outside the vocabulary is refused by its place.
func TestSuppressedTokens(t *testing.T) {
	read := func(v gguf.Value) (*bpe.Tokenizer, error) {
		return ReadTokenizer(tokenizerFile(t, gguf.KV{Key: "tokenizer.ggml.suppress_tokens", Value: v}))
	}
	for _, v := range []gguf.Value{[]int32{6, 3, 6}, []uint32{3, 6}} {
		if tok, err := read(v); err != nil || !slices.Equal(tok.Suppressed(), []int32{3, 6}) {
			t.Errorf("%v: %v", v, err)
		}
	}
	for _, id := range []int32{-1, 8} {
		if _, err := read([]int32{3, id}); err == nil || !strings.Contains(err.Error(), "suppress_tokens[1]") {
			t.Errorf("%d: %v", id, err)
		}
	}
	if tok, err := ReadTokenizer(tokenizerFile(t)); err != nil || len(tok.Suppressed()) > 0 {
		t.Errorf("without the key: %v", err)
	}
}

// TestInfillMarks: the marks around a gap are those of their keys, of newer ones where there are both; one outside the
// vocabulary is refused.
func TestInfillMarks(t *testing.T) {
	read := func(keys map[string]int32) (*bpe.Tokenizer, error) {
		var more []gguf.KV
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			more = append(more, gguf.KV{Key: "tokenizer.ggml." + name + "_token_id", Value: keys[name]})
		}
		return ReadTokenizer(tokenizerFile(t, more...))
	}
	tok, err := read(map[string]int32{"fim_pre": 4, "prefix": 5, "suffix": 6, "middle": -1, "fim_sep": 7})
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]int32{"pre": 4, "suf": 6, "mid": -1, "sep": 7, "rep": -1} {
		if id, ok := tok.InfillMark(part); ok != (want >= 0) || ok && id != want {
			t.Errorf("%s: %d, %v, want %d", part, id, ok, want)
		}
	}
	if _, err := read(map[string]int32{"fim_mid": 8}); err == nil || !strings.Contains(err.Error(), "fim_mid_token_id") {
		t.Errorf("outside of the vocabulary: %v", err)
	}
}

// TestTokenizerKeysHaveTheirTypes: a key of another type is an error that names it, whichever it is.
func TestTokenizerKeysHaveTheirTypes(t *testing.T) {
	for _, name := range []string{"pre", "bos_token_id", "eos_token_id", "unknown_token_id", "add_bos_token",
		"add_eos_token",
		"add_sep_token", "add_space_prefix", "remove_extra_whitespaces", "eot_token_id", "eom_token_id", "suppress_tokens",
		"fim_pre_token_id", "middle_token_id", "fim_rep_token_id", "eos_token_ids"} {
		name = "tokenizer.ggml." + name
		_, err := ReadTokenizer(tokenizerFile(t, gguf.KV{Key: name, Value: []float32{1}}))
		if !errors.Is(err, gguf.ErrType) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTokenizerUnigramKeys: the keys of a t5 tokenizer and their defaults.
func TestTokenizerUnigramKeys(t *testing.T) {
	key := func(name string, v gguf.Value) gguf.KV { return gguf.KV{Key: "tokenizer.ggml." + name, Value: v} }
	// A map with the one rule that a becomes b: the state 256 has an edge to 512.
	units := make([]uint32, 1024)
	units[0], units[256^'a'], units[512] = 256<<10, 'a'|1<<8|(256^'a'^512)<<10, 1<<31
	charsmap := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		charsmap = binary.LittleEndian.AppendUint32(charsmap, u)
	}
	charsmap = append(charsmap, "b\x00"...)
	signed := make([]int8, len(charsmap))
	for i, b := range charsmap {
		signed[i] = int8(b)
	}
	special := bpe.EncodeOptions{AddSpecial: true}
	for _, c := range []struct {
		kv   []gguf.KV
		want []int32 // "a  a" with BOS and EOS where the file asks for them
	}{
		{nil, []int32{4, 3, 5, 1}},
		{[]gguf.KV{key("add_space_prefix", true)}, []int32{5, 3, 5, 1}},
		{[]gguf.KV{key("remove_extra_whitespaces", true)}, []int32{5, 5, 1}},
		{[]gguf.KV{key("add_eos_token", false)}, []int32{4, 3, 5}},
		{[]gguf.KV{key("add_bos_token", true), key("bos_token_id", uint32(0))}, []int32{0, 4, 3, 5, 1}},
		{[]gguf.KV{key("eos_token_id", uint32(0))}, []int32{4, 3, 5, 0}},
		{[]gguf.KV{key("precompiled_charsmap", charsmap)}, []int32{6, 3, 3, 6, 1}},
		{[]gguf.KV{key("precompiled_charsmap", signed)}, []int32{6, 3, 3, 6, 1}},
		{[]gguf.KV{key("precompiled_charsmap", charsmap),
			key("tokens", []string{"<pad>", "</s>", "<unk>", "▁", "a", "▁a", "x"})}, []int32{2, 3, 3, 2, 1}},
		{[]gguf.KV{key("precompiled_charsmap", charsmap), key("unknown_token_id", uint32(0)),
			key("tokens", []string{"<pad>", "</s>", "<unk>", "▁", "a", "▁a", "x"})}, []int32{0, 3, 3, 0, 1}},
	} {
		kvs := map[string]gguf.Value{
			"tokenizer.ggml.model":      "t5",
			"tokenizer.ggml.tokens":     []string{"<pad>", "</s>", "<unk>", "▁", "a", "▁a", "b"},
			"tokenizer.ggml.scores":     []float32{0, 0, 0, -1, -1, -1, -1},
			"tokenizer.ggml.token_type": []int32{3, 3, 2, 1, 1, 1, 1},
		}
		for _, kv := range c.kv {
			kvs[kv.Key] = kv.Value
		}
		var list []gguf.KV
		for _, k := range slices.Sorted(maps.Keys(kvs)) {
			list = append(list, gguf.KV{Key: k, Value: kvs[k]})
		}
		tok, err := ReadTokenizer(openKeys(t, list...))
		if err != nil {
			t.Errorf("%v: %v", c.kv, err)
			continue
		}
		if got := tok.Encode("a  a", special); !slices.Equal(got, c.want) {
			t.Errorf("%v: %d, expected %d", c.kv, got, c.want)
		}
	}
	bad := openKeys(t, key("model", "t5"), key("tokens", []string{"a", "b", "c"}), key("scores", make([]float32, 3)),
		key("precompiled_charsmap", []uint32{1, 2}))
	if _, err := ReadTokenizer(bad); !errors.Is(err, gguf.ErrType) ||
		!strings.Contains(err.Error(), "tokenizer.ggml.precompiled_charsmap") {
		t.Errorf("a map of uint32: %v", err)
	}
}
