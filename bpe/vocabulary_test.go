package bpe

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/specgo/spec/gguf"
)

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// opened are the tokenizers of files, which several tests take: a Tokenizer is not changed.
var opened sync.Map

// open makes a tokenizer of a GGUF file's metadata.
func open(t testing.TB, path string) *Tokenizer {
	t.Helper()
	if tok, ok := opened.Load(path); ok {
		return tok.(*Tokenizer)
	}
	tok := must(t, config(t, path))
	opened.Store(path, tok)
	return tok
}

func config(t testing.TB, path string) Config {
	t.Helper()
	f, err := gguf.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	model := get(t, f.String, "model", "")
	c := Defaults(model, get(t, f.String, "pre", ""))
	c.Tokens = get(t, f.Strings, "tokens", nil)
	c.Merges = get(t, f.Strings, "merges", nil)
	c.Types = get(t, f.Int32s, "token_type", nil)
	c.Scores = get(t, f.Float32s, "scores", nil)
	c.BOS = int32(get(t, f.Int64, "bos_token_id", int64(c.BOS)))
	c.EOS = int32(get(t, f.Int64, "eos_token_id", int64(c.EOS)))
	c.UNK = int32(get(t, f.Int64, "unknown_token_id", int64(c.UNK)))
	c.SEP = int32(get(t, f.Int64, "seperator_token_id", int64(c.SEP)))
	c.AddBOS = get(t, f.Bool, "add_bos_token", c.AddBOS)
	c.AddEOS = get(t, f.Bool, "add_eos_token", c.AddEOS)
	c.AddSEP = get(t, f.Bool, "add_sep_token", c.AddSEP)
	c.Lowercase = get(t, f.Bool, "normalizer.lowercase", c.Lowercase)
	c.StripAccents = get(t, f.Bool, "normalizer.strip_accents", c.Lowercase)
	c.AddSpacePrefix = get(t, f.Bool, "add_space_prefix", c.AddSpacePrefix)
	c.RemoveExtraWhitespaces = get(t, f.Bool, "remove_extra_whitespaces", c.RemoveExtraWhitespaces)
	if v, ok := f.Value("tokenizer.ggml.precompiled_charsmap"); ok {
		c.Charsmap = v.([]uint8)
	}
	return c
}

// get returns a key's value, or otherwise if the file leaves it out.
func get[T any](t testing.TB, from func(string) (T, error), key string, otherwise T) T {
	t.Helper()
	v, err := from("tokenizer.ggml." + key)
	if errors.Is(err, gguf.ErrMissing) {
		return otherwise
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}
