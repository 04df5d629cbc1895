package speculative

import (
	"context"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// TestEagleTargets: EAGLE-3 heads on every architecture that they are made for, among them ones with windows, experts, sinks, layers that
// share keys and values, and recurrent layers: drafts are what the head makes of the whole text at once, and chains, trees and merges
// write plain decoding's text.
func TestEagleTargets(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 2})
	for i, name := range []string{"llama-tied", "qwen3", "qwen3moe", "gemma4", "gpt-oss", "qwen35"} {
		t.Run(name, func(t *testing.T) {
			file := testkit.Shared(t, "families/models", name+".gguf")
			target, err := engine.Open(context.Background(), rt, file, engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			last := int32(target.Config().Layers)
			// In every second one the state after the last layer, and a head that knows some of the tokens.
			head := randomHeadOf(t, rt, target, []int32{1, 0, last - int32((i+1)%2)}, i%2 == 0)
			defer head.Close()
			if testkit.IsLong(t) || i == 3 || i == 5 {
				testHeadStates(t, target, head)
			}
			one := session(t, target, 0)
			for _, s := range []engine.Sampling{{}, {Temperature: 0.9, Seed: 4}} {
				want, _ := collect(t, New(one, nil, Options{MaxTokens: 40}), matrixPrompt, s)
				record := func() Drafter { return Replay(ReplayOptions{Tokens: want, ErrorEvery: 5}) } // so that drafts are accepted
				for what, drafter := range map[string]Drafter{
					"chain": Eagle(session(t, head, 0), EagleOptions{}), "tree": Eagle(session(t, head, 0), EagleOptions{Tree: true}),
					"chain, merged": Merge(Eagle(session(t, head, 0), EagleOptions{}), record()), "tree, merged": Merge(record(), Tree(session(t, head, 0), TreeOptions{})),
				} {
					d := New(session(t, target, 0), drafter, Options{Schedule: Constant(ConstantOptions{Length: 6}), MaxTokens: 40})
					for turn := range 2 { // the second text begins as the first one
						got, _ := collect(t, d, matrixPrompt[:len(matrixPrompt)-turn], s)
						if turn == 0 && !slices.Equal(got, want) {
							t.Errorf("%s, temperature %v: got %v, want %v", what, s.Temperature, got, want)
						}
						if st := d.Stats(); st.Drafted < 40 {
							t.Errorf("%s: %d tokens were drafted", what, st.Drafted)
						}
					}
				}
			}
		})
	}
}

// TestLongEagleTargets: the states of the heads of every architecture.
func TestLongEagleTargets(t *testing.T) {
	testkit.Long(t)
	TestEagleTargets(t)
}
