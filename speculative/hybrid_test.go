package speculative_test

import (
	"context"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
)

// TestHybrids: promise P2 with recurrent layers in the target and in the draft: the same tokens as without
// speculation, with chains, trees and lookups, greedy and sampled. The draft is the target with its weights rounded,
// so that some of its tokens are accepted.
func TestHybrids(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for i, name := range []string{"lfm2", "granitehybrid", "falcon-h1", "qwen35", "gemma3", "gemma4"} {
		path := testkit.Shared(t, "families/models", name+".gguf")
		open := func(weights string) *engine.Model {
			m, err := engine.Open(context.Background(), rt, path, engine.Options{Weights: weights})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Close)
			return m
		}
		target, rounded := open(""), open("q8_0")
		begin := func(m *engine.Model) *engine.Session {
			s, err := m.NewSession(engine.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			return s
		}
		prompt := []int32{5, 80, 33, 5, 80, 33, 120, 5, 80}
		const tokens = 60
		for j, sampling := range []engine.Sampling{{}, {Temperature: 0.9, Seed: 7}} {
			want := plain(t, begin(target), prompt, sampling, tokens)
			for k, drafter := range []speculative.Drafter{nil, speculative.Model(begin(rounded)),
				speculative.Tree(begin(rounded), speculative.TreeOptions{}),
				speculative.Splice(begin(rounded), speculative.TreeOptions{}), speculative.NGram(speculative.NGramOptions{}),
			} {
				if (i+j+k)%2 > 0 && !testkit.IsLong(t) {
					continue // each greedily with every second model, and sampled with the others
				}
				what := []string{"", "model", "tree", "splice", "n-gram"}[k]
				d := speculative.New(begin(target), drafter,
					speculative.Options{MaxTokens: tokens, Schedule: speculative.Constant(speculative.ConstantOptions{Length: 5})})
				for turn := range 2 { // the second text begins as the first one
					var got []int32
					for token, err := range d.Generate(context.Background(), prompt[:len(prompt)-turn], sampling) {
						if err != nil {
							t.Fatalf("%s, %q: %v", name, what, err)
						}
						got = append(got, token.ID)
					}
					if turn > 0 {
						continue
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s, drafter %q, temperature %v: %d, expected %d", name, what, sampling.Temperature, got, want)
					}
				}
				if s := d.Stats(); what == "model" && s.Accepted == 0 {
					t.Errorf("%s: no drafted token is accepted: this shows little", name)
				}
			}
		}
	}
}

// TestLongHybrids: each drafter with each model, greedily and sampled.
func TestLongHybrids(t *testing.T) {
	testkit.Long(t)
	TestHybrids(t)
}

// plain is decoding with a sampler and nothing else.
func plain(t *testing.T, s *engine.Session, prompt []int32, o engine.Sampling, n int) (out []int32) {
	t.Helper()
	sampler, err := sampling.New(s.Vocab(), o)
	if err != nil {
		t.Fatal(err)
	}
	text := slices.Clone(prompt)
	next := prompt
	for range n {
		logits, err := s.Eval(context.Background(), next, nil, engine.Last)
		if err != nil {
			t.Fatal(err)
		}
		id := sampler.Pick(logits.Row(0), text)
		text, out = append(text, id), append(out, id)
		next = []int32{id}
	}
	return out
}
