package speculative

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
)

var (
	_ Metered   = (*shared.LentSession)(nil)
	_ Modeled   = (*shared.LentSession)(nil)
	_ Segmented = (*shared.LentSession)(nil)
)

// TestAssistantSharedPasses: decoders of many goroutines share the passes of the target, and each has a head that looks at its own sequence's
// cache: the texts are plain decoding's, also where memory is short.
func TestAssistantSharedPasses(t *testing.T) {
	target, head := gemmaPair(t)
	one := session(t, target, 0)
	if _, err := one.Eval(context.Background(), []int32{1}, nil, engine.None); err != nil {
		t.Fatal(err)
	}
	for _, budget := range []int64{0, 4 * one.Bytes()} {
		targets := shared.New(target, shared.Options{KVBytes: budget})
		var wait sync.WaitGroup
		for i := range 6 {
			prompt, s := random32(uint64(i/2), 30, 90), engine.Sampling{}
			if i%2 == 1 {
				s = engine.Sampling{Temperature: 0.8, Seed: uint64(i)}
			}
			want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 30}), prompt, s)
			wait.Go(func() {
				a, err := targets.NewSession(context.Background(), shared.SessionOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				defer a.Close()
				b, err := shared.NewLentSession(head, a, engine.SessionOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				defer b.Close()
				drafter := []Drafter{MTP(b, EagleOptions{}), Tree(b, TreeOptions{}), Merge(Splice(b, TreeOptions{}), Replay(ReplayOptions{Tokens: want, ErrorEvery: 4}))}[i%3]
				schedule := []Schedule{Constant(ConstantOptions{Length: 4}), Auto(AutoOptions{})}[i/3]
				d := New(a, drafter, Options{Schedule: schedule, MaxTokens: 30})
				for range 2 {
					if got, _ := collect(t, d, prompt, s); !slices.Equal(got, want) {
						t.Errorf("budget %d, decoder %d: got %v, want %v", budget, i, got, want)
					}
				}
				if i < 3 && d.Stats().Drafted == 0 {
					t.Errorf("budget %d, decoder %d: nothing was drafted", budget, i)
				}
			})
		}
		wait.Wait()
		targets.Close()
		if n := targets.Stats().KVBytes; n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	}
	// Another sequence's cache than the decoder's target.
	targets := shared.New(target, shared.Options{})
	defer targets.Close()
	a, err := targets.NewSession(context.Background(), shared.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := shared.NewLentSession(head, a, engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range New(session(t, target, 0), MTP(b, EagleOptions{}), Options{MaxTokens: 9}).Generate(context.Background(), matrixPrompt, engine.Sampling{}) {
	}
	if !errors.Is(err, ErrOptions) {
		t.Errorf("the cache of another sequence: %v", err)
	}
}

// poorHead is a head's session whose target has now and then given up its memory.
type poorHead struct {
	*engine.Session
	n, lost int
}

func (f *poorHead) EvalSegment(ctx context.Context, g engine.Segment) (engine.Result, error) {
	if f.n++; f.n%3 == 0 {
		f.lost++
		return engine.Result{}, engine.ErrKVBudget
	}
	return f.Session.EvalSegment(ctx, g)
}

// TestAssistantWithoutMemory: where the target's sequence has given up its memory, drafts end, and the text goes on.
func TestAssistantWithoutMemory(t *testing.T) {
	target, head := gemmaPair(t)
	want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 40}), matrixPrompt, engine.Sampling{})
	for _, tree := range []bool{false, true} {
		one := session(t, target, 0)
		f := &poorHead{Session: reading(t, head, one)}
		d := New(one, MTP(f, EagleOptions{Tree: tree}), Options{Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: 40})
		if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) || f.lost < 10 || d.Stats().Drafted < 10 {
			t.Errorf("tree %v: %v, want %v; %d steps without memory, %+v", tree, got, want, f.lost, d.Stats())
		}
	}
}
