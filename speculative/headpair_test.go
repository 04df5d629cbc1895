package speculative

import (
	"context"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/testdata"
)

// pairHead opens the head of the embedded target.
func pairHead(t testing.TB, target *engine.Model) *engine.Model {
	t.Helper()
	m, err := engine.New(context.Background(), target.Runtime(), testdata.Head(), testdata.Head().Size(), engine.Options{Name: "head", Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEaglePair: the trained head on held-out prompts writes plain decoding's text, and brings more tokens per pass of the target than
// the draft model at the same draft length, greedily and sampled.
func TestEaglePair(t *testing.T) {
	n := 60
	if testing.Short() {
		n = 6
	}
	texts := prompts(t, "prompts-code.jsonl", n)
	target, draft := pair(t)
	one, drafters := session(t, target, 0), []named[Drafter]{
		{"model", func() Drafter { return Model(session(t, draft, 0)) }},
		{"eagle", func() Drafter { return Eagle(session(t, pairHead(t, target), 0), EagleOptions{}) }},
		{"tree", func() Drafter { return Tree(session(t, draft, 0), TreeOptions{Sources: []CandidateSource{}}) }},
		{"eagle tree", func() Drafter { return Eagle(session(t, pairHead(t, target), 0), EagleOptions{Tree: true}) }},
	}
	for _, temperature := range []float32{0, 0.8} {
		perPass := map[string]float64{}
		for _, drafter := range drafters {
			dr, tokens, passes, at := drafter.make(), 0, 0, make([]int, 5)
			for i, text := range texts {
				s := engine.Sampling{Temperature: temperature, Seed: uint64(i)}
				prompt := target.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true})
				d := New(one, dr, Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 64})
				got, _ := collect(t, d, prompt, s)
				if i < 4 {
					if want, _ := collect(t, New(one, nil, Options{MaxTokens: 64}), prompt, s); !slices.Equal(got, want) {
						t.Errorf("%s, temperature %v, prompt %d: got %v, want %v", drafter.name, temperature, i, got, want)
					}
				}
				st := d.Stats()
				tokens, passes = tokens+st.Generated, passes+st.TargetPasses
				for j := range min(len(at), len(st.AcceptedAt)) {
					at[j] += st.AcceptedAt[j]
				}
			}
			perPass[drafter.name] = float64(tokens) / float64(passes)
			t.Logf("temperature %v, %s: %.3f tokens per pass, accepted at depths 1 to 5: %d of %d passes", temperature, drafter.name, perPass[drafter.name], at, passes)
		}
		if perPass["eagle"] < 1.15*perPass["model"] {
			t.Errorf("temperature %v: %.3f tokens per pass with the head, %.3f with the draft model", temperature, perPass["eagle"], perPass["model"])
		}
	}
}
