package speculative

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/internal/testkit"
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
	if !testkit.IsLong(t) {
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

// TestLongEaglePair: with ten times the texts.
func TestLongEaglePair(t *testing.T) {
	testkit.Long(t)
	TestEaglePair(t)
}

// TestSharedEagle: decoders of several goroutines share the passes of target and head.
func TestSharedEagle(t *testing.T) {
	texts := prompts(t, "prompts-code.jsonl", 3)
	target, _ := pair(t)
	targets := shared.New(target, shared.Options{})
	defer targets.Close()
	head := pairHead(t, target)
	heads := shared.New(head, shared.Options{})
	defer heads.Close()
	one := session(t, target, 0)
	var wait sync.WaitGroup
	for i := range 6 {
		s := engine.Sampling{Temperature: float32(i%2) * 0.8, Seed: uint64(i)}
		prompt := target.Tokenizer().Encode(texts[i%3], bpe.EncodeOptions{AddSpecial: true})
		want, _ := collect(t, New(one, nil, Options{MaxTokens: 24}), prompt, s)
		alone := New(one, Eagle(session(t, head, 0), EagleOptions{Tree: i >= 3}), Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 24})
		collect(t, alone, prompt, s)
		wait.Go(func() {
			a, err1 := targets.NewSession(context.Background(), shared.SessionOptions{})
			b, err2 := heads.NewSession(context.Background(), shared.SessionOptions{})
			if err := errors.Join(err1, err2); err != nil {
				t.Error(err)
				return
			}
			defer a.Close()
			defer b.Close()
			d := New(a, Eagle(b, EagleOptions{Tree: i >= 3}), Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 24})
			for range 2 {
				var got []int32
				for token, err := range d.Generate(context.Background(), prompt, s) {
					if err != nil {
						t.Error(err)
						return
					}
					got = append(got, token.ID)
				}
				if !slices.Equal(got, want) {
					t.Errorf("decoder %d: got %v, want %v", i, got, want)
				}
				if i < 3 && d.Stats().Accepted != alone.Stats().Accepted { // a tree's order depends on time
					t.Errorf("decoder %d: %d tokens accepted, alone %d", i, d.Stats().Accepted, alone.Stats().Accepted)
				}
			}
		})
	}
	wait.Wait()
}
