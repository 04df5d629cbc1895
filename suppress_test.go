package spec

import (
	"bytes"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// Tokens that the model's file suppresses are in no answer, beside what the request bans.
func TestSuppressedTokensAreInNoAnswer(t *testing.T) {
	open := func(more ...gguf.KV) *Model {
		rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		shape := randommodel.LettersT5()
		shape.KVs = append(shape.KVs, more...)
		file := shape.File(t)
		target, err := engine.New(t.Context(), rt, bytes.NewReader(file), int64(len(file)), engine.Options{Name: "letters"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(Parts{Target: target, Close: func() { target.Close(); rt.Close() }}, Options{Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	r := Request{Prompts: []Prompt{{Text: "a word"}}, MaxTokens: 12, IgnoreEOS: true}
	text := func(m *Model) string {
		list, err := Collect(m.Generate(t.Context(), r))
		if err != nil {
			t.Fatal(err)
		}
		return list[0].Text
	}
	m := open()
	letter := strings.TrimSpace(text(m))[:1]
	var ids []int32
	for id := range int32(m.tok.Size()) {
		if strings.Contains(m.tok.Token(id), letter) {
			ids = append(ids, id)
		}
	}
	if got := text(open(gguf.KV{Key: "tokenizer.ggml.suppress_tokens", Value: ids})); strings.Contains(got, letter) {
		t.Errorf("%q, and %q is suppressed (%d)", got, letter, ids)
	}
}
