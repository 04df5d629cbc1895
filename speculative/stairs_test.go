package speculative

import (
	"errors"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
)

// The published form of stairs: all rows of a round are one pass of the target, each computes its own tokens, and
// text, rounds and acceptance are those of the fast form.
func TestStairsAsOneBatch(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	big, near := randomModel(t, rt, 0), randomModel(t, rt, 0.15)
	prompt := random32(1, 40, 90)
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 3}} {
		type round struct{ position, drafted, accepted int }
		write := func(o StairsOptions) (ids []int32, rounds []round, st Stats) {
			d := New(session(t, big, 0), Model(session(t, near, 0)), Options{
				Schedule: Constant(ConstantOptions{Length: 4}), Verifier: Stairs(o), MaxTokens: 16,
				Trace: func(r *Round) { rounds = append(rounds, round{r.Position, r.Drafted(), r.Accepted()}) },
			})
			ids, _ = collect(t, d, prompt, s)
			return ids, rounds, d.Stats()
		}
		want, rounds, fast := write(StairsOptions{})
		for _, o := range []StairsOptions{{Batch: true}, {Batch: true, Recompute: true}, {Recompute: true}} {
			ids, got, st := write(o)
			if !slices.Equal(ids, want) || !slices.Equal(got, rounds) {
				t.Errorf("%+v: rounds %v, want %v; same text %v", o, got, rounds, slices.Equal(ids, want))
			}
			tokens, passes := 0, 0
			for _, r := range rounds {
				for i := range r.drafted + 1 {
					row := 1 + i // the last token of the text and the row's drafted ones
					if o.Recompute {
						row += r.position - 1
					}
					tokens += row
					if !o.Batch {
						passes += 2 - min(1, max(0, 2-row)) // all but the last token, and the last
					}
				}
				if o.Batch {
					passes++
				}
			}
			if st.TargetTokens != tokens || st.TargetPasses != passes {
				t.Errorf("%+v: %d tokens in %d passes, want %d in %d", o, st.TargetTokens, st.TargetPasses, tokens, passes)
			}
		}
		drafted, accepted := 0, 0
		for _, r := range rounds {
			drafted, accepted = drafted+r.drafted, accepted+r.accepted
		}
		if tokens := drafted + len(rounds); fast.TargetTokens != tokens || fast.TargetPasses != len(rounds) {
			t.Errorf("fast: %d tokens in %d passes, want %d in %d", fast.TargetTokens, fast.TargetPasses, tokens, len(rounds))
		}
		if accepted < 4 || drafted-accepted < 4 {
			t.Errorf("%d of %d accepted: this shows little", accepted, drafted)
		}
	}
	d := New(newFake(t, 16, 64, random(1)), NGram(NGramOptions{}),
		Options{Verifier: Stairs(StairsOptions{Batch: true}), Schedule: Constant(ConstantOptions{Length: 2}), MaxTokens: 9})
	var failed error
	for _, err := range d.Generate(t.Context(), []int32{1, 2, 1, 2, 1}, engine.Sampling{}) {
		failed = err
	}
	if !errors.Is(failed, ErrOptions) {
		t.Errorf("a target that is no session: %v", failed)
	}
}
