package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
)

// TestTokenizerIDs: an id that is outside the vocabulary is refused by its key; -1 means that
// there is no such token.
func TestTokenizerIDs(t *testing.T) {
	read := func(key string, id gguf.Value) error {
		var b bytes.Buffer
		if err := gguf.Write(&b, []gguf.KV{
			{Key: "tokenizer.ggml.model", Value: "gpt2"},
			{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b", "</s>"}},
			{Key: "tokenizer.ggml.merges", Value: []string{}},
			{Key: key, Value: id},
		}, nil); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), "ids.gguf")
		if err != nil {
			t.Fatal(err)
		}
		_, err = ReadTokenizer(f)
		return err
	}
	for _, name := range []string{"bos", "eos", "unknown", "eot", "eom"} {
		key := "tokenizer.ggml." + name + "_token_id"
		for _, id := range []gguf.Value{uint32(3), int32(-2), uint64(1 << 32), int64(1 << 40)} {
			want := fmt.Sprintf("ids.gguf: key %q: %v is outside the vocabulary of 3 tokens", key, id)
			if err := read(key, id); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
		for _, id := range []gguf.Value{uint32(2), int32(-1), uint8(0)} {
			if err := read(key, id); err != nil {
				t.Error(err)
			}
		}
		if err := read(key, "2"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("ids.gguf: key %q: wrong type", key)) {
			t.Error(err)
		}
	}
}
