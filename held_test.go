package spec

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/speculative"
)

// What a sequence holds ends with the answer, where a stop text ends it in the middle of a draft or its reader leaves:
// accepted tokens behind that are no part of it.
func TestHeldEndsWithTheAnswer(t *testing.T) {
	m := newModel(t, Options{})
	const prompt = "for i := 0; i < n; i++ {\n\tfor i := 0; i < n; i++ {\n\tfor i := 0;"
	// answer is an answer's ids and what was held; leave, where it is above 0, leaves behind so many.
	answer := func(r Request, leave int) (ids []int32, held Held) {
		t.Helper()
		r.Prompts, r.MaxTokens = []Prompt{{Text: prompt}}, 48
		task, err := m.Prepare(t.Context(), r)
		if err == nil {
			err = task.Compile(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer task.Close()
		for e, err := range task.Generate(context.Background(), Run{Ended: func(_ int, h Held) { held = h }}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Token.ID >= 0 {
				ids = append(ids, e.Token.ID)
			}
			if len(ids) == leave && leave > 0 {
				break
			}
		}
		whole := append(slices.Clone(task.Prompt(0)), ids...)
		if n := len(held.Tokens); n < len(whole)-1 || n > len(whole) || !slices.Equal(held.Tokens, whole[:n]) {
			t.Errorf("%+v, %d answered: %d tokens are held, which begin the text: %v", r.Speculation, len(ids), n,
				slices.Equal(held.Tokens[:min(n, len(whole))], whole[:min(n, len(whole))]))
		}
		return ids, held
	}
	plain, _ := answer(Request{Speculation: speculative.Choice{Drafter: "none"}}, 0)
	text := m.Tokenizer().Decode(plain)
	for i, drafter := range []string{"none", "ngram", "model", "tree"} {
		how := speculative.Choice{Drafter: drafter, Schedule: "constant", Max: 8}
		for at := 3 + 7*i; at+2 <= len(text); at += 28 {
			answer(Request{Speculation: how, Stop: []string{text[at : at+2]}}, 0)
		}
		for n := 1 + 4*i; n < len(plain); n += 13 {
			answer(Request{Speculation: how}, n)
		}
	}
}

// A text is saved within the bytes that it may take, to the byte: what the draft head has of it counts, and the heads
// of entries.
func TestSavedTextsKeepToTheirBytes(t *testing.T) {
	p, head := storedParts(t)
	p.Draft = head
	m, err := New(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const prompt = "for i := 0; i < n; i++ {\n\tfor i := 0; i < n; i++ {\n\tfor i := 0;"
	r := Request{Prompts: []Prompt{{Text: prompt}}, MaxTokens: 64,
		Speculation: speculative.Choice{Drafter: "eagle", Schedule: "constant", Max: 3}}
	task, err := m.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer task.Close()
	var held Held
	for _, err := range task.Generate(t.Context(), Run{Ended: func(_ int, h Held) { held = h }}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	whole, err := m.SaveHeld(t.Context(), filepath.Join(dir, "whole"), 0, held)
	if err != nil {
		t.Fatal(err)
	}
	f, err := promptcache.OpenFile(filepath.Join(dir, "whole"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	contents, err := json.Marshal(f.Contents())
	if err != nil {
		t.Fatal(err)
	}
	least := whole.Bytes - promptcache.EntryBytes(len(contents))
	if got, err := m.SaveHeld(t.Context(), filepath.Join(dir, "fits"), least, held); err != nil || got != whole {
		t.Errorf("%d bytes: %+v, %v", least, got, err)
	}
	if got, err := m.SaveHeld(t.Context(), filepath.Join(dir, "short"), least-1, held); !errors.Is(err, ErrNoSpace) {
		t.Errorf("a byte less: %+v, %v", got, err)
	}
}
