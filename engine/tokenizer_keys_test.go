package engine

import (
	"bytes"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/gguf"
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
	var file bytes.Buffer
	if err := gguf.Write(&file, kvs, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(file.Bytes()), int64(file.Len()), "tokenizer.gguf")
	if err != nil {
		t.Fatal(err)
	}
	return f
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
	special := bpe.EncodeOptions{AddSpecial: true}
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
		{[]gguf.KV{key("eos_token_id", uint32(7)), key("add_eos_token", true)}, []int32{1, 5, 7}, []int32{2, 7}}, // </s> is a control token and ends a text too
		{[]gguf.KV{key("eot_token_id", uint32(6))}, []int32{1, 5}, []int32{2, 6}},
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
