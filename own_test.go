package spec

import (
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// What answers with a Salt had is drafted when it comes again, and never for another Salt. The text is the same.
func TestOwnAnswersAreLookedUp(t *testing.T) {
	for _, parallel := range []int{0, 1} {
		m := newModel(t, Options{Own: 1 << 20, Parallel: parallel})
		answer := func(salt, drafter string) (string, int) {
			t.Helper()
			list, err := Collect(m.Generate(t.Context(), Request{
				Prompts: []Prompt{{Text: "func (r *Ring) Push("}}, MaxTokens: 40, Salt: salt,
				Sampling:    engine.Sampling{Temperature: 1, Seed: 3},
				Speculation: speculative.Choice{Drafter: drafter, Schedule: "constant"},
			}))
			if err != nil {
				t.Fatal(err)
			}
			return list[0].Text, list[0].Stats.Accepted
		}
		want, before := answer("a", "lookup")
		for _, x := range []struct {
			salt, drafter string
			known         bool
		}{{"a", "lookup", true}, {"b", "lookup", false}, {"a", "splice", true}, {"a", "tree", true}} {
			if text, n := answer(x.salt, x.drafter); text != want ||
				x.drafter == "lookup" && (x.known && n < before+15 || !x.known && n != before) || x.known && n < 20 {
				t.Errorf("%d at once, %+v: accepted %d, %d of the first; %q, want %q", parallel, x, n, before, text, want)
			}
		}
		if c, err := m.Choose(speculative.Choice{}, 0); err != nil || c.Drafter != "tree" {
			t.Errorf("%+v, %v", c, err)
		}
	}
}
