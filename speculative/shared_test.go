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
	_ Listed  = (*shared.Session)(nil)
	_ Metered = (*shared.Session)(nil)
	_ Modeled = (*shared.Session)(nil)
	_ Shared  = (*shared.Session)(nil)
)

// Decoders of many goroutines share the passes of target and draft: each text is the one that plain decoding writes
// alone, for several drafters, schedules and verifiers, with little memory and with callers that leave.
func TestSharedIdentity(t *testing.T) {
	decoders, tokens := 12, 40
	if testing.Short() {
		decoders, tokens = 6, 16
	}
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, draft := randomModel(t, rt, 0), randomModel(t, rt, 0.05)
	type job struct {
		prompt, want []int32
		sampling     engine.Sampling
	}
	jobs := make([]job, decoders)
	one := session(t, target, 0)
	for k, n := range []int{120, 240, 120} { // the texts of the second one go on in another page
		for i := k; i < decoders; i += 3 { // one after the other, so that its prompt is kept
			j := &jobs[i]
			j.prompt = random32(uint64(k), n, 96)
			if k == 2 {
				j.sampling = engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: uint64(i)}
			} else if i > k {
				j.want = jobs[k].want
				continue
			}
			j.want, _ = collect(t, New(one, nil, Options{MaxTokens: tokens}), j.prompt, j.sampling)
		}
	}
	drafters := []func(Sequence) Drafter{
		Model,
		func(s Sequence) Drafter { return Tree(s, TreeOptions{}) },
		func(Sequence) Drafter { return NGram(NGramOptions{}) },
		func(s Sequence) Drafter { return Merge(Splice(s, TreeOptions{}), NGram(NGramOptions{})) },
		func(Sequence) Drafter { return nil },
	}
	schedules := []func() Schedule{
		func() Schedule { return Auto(AutoOptions{}) },
		func() Schedule { return Heuristic(HeuristicOptions{Length: 5}) },
		func() Schedule { return Constant(ConstantOptions{Length: 7}) },
	}
	page := shared.New(target, shared.Options{})
	s, err := page.NewSession(context.Background(), shared.SessionOptions{})
	if err == nil {
		_, err = s.Eval(context.Background(), []int32{1}, nil, engine.None)
	}
	if err != nil {
		t.Fatal(err)
	}
	bytes := page.Stats().KVBytes
	page.Close()
	for name, o := range map[string]shared.Options{
		"no limit":      {},
		"little memory": {KVBytes: 4 * bytes},
	} {
		targets, drafts := shared.New(target, o), shared.New(draft, shared.Options{Sessions: decoders})
		var wait sync.WaitGroup
		for i := range jobs {
			j := &jobs[i]
			wait.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				a, err1 := targets.NewSession(ctx, shared.SessionOptions{})
				b, err2 := drafts.NewSession(ctx, shared.SessionOptions{})
				if err := errors.Join(err1, err2); err != nil {
					t.Error(err)
					return
				}
				defer a.Close()
				defer b.Close()
				o := Options{Schedule: schedules[i%len(schedules)](), MaxTokens: tokens}
				if i == 4 {
					o.Verifier = Stairs(StairsOptions{})
				}
				d := New(a, drafters[i%len(drafters)](b), o)
				if i%4 == 1 { // leaves in the middle of a text, and comes back
					n := 0
					for _, err := range d.Generate(ctx, j.prompt, j.sampling) {
						if n++; n == 5 {
							cancel()
						}
						if err != nil && !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					}
				}
				if got, _ := collect(t, d, j.prompt, j.sampling); !slices.Equal(got, j.want) {
					t.Errorf("%s, decoder %d:\n got %v\nwant %v", name, i, got, j.want)
				}
			})
		}
		wait.Wait()
		t.Logf("%s: target %+v", name, targets.Stats())
		t.Logf("%s: draft %+v", name, drafts.Stats())
		targets.Close()
		drafts.Close()
		if n := targets.Stats().KVBytes + drafts.Stats().KVBytes; n != 0 {
			t.Errorf("%s: %d bytes are left", name, n)
		}
	}
}

// Early exit in shared passes reads no prompt: it has what the target computed, and of a sequence that goes on as much
// as it needs. The texts are plain decoding's in any budget.
func TestSharedEarlyExit(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	m := randomModel(t, rt, 0)
	prompt := plain(t, 90, random(3), []int32{1}, 300, engine.Sampling{})
	want, _ := collect(t, New(session(t, m, 0), nil, Options{MaxTokens: 60}), prompt, engine.Sampling{})
	one := session(t, m, 0)
	if _, err := one.Eval(context.Background(), []int32{1}, nil, engine.None); err != nil {
		t.Fatal(err)
	}
	for _, pages := range []int64{0, 2, 3, 4} {
		c := shared.New(m, shared.Options{KVBytes: pages * one.Bytes()})
		s, err := c.NewSession(context.Background(), shared.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d := New(s, exit(t, m, 1), Options{MaxTokens: 60, Schedule: Constant(ConstantOptions{Length: 3})})
		got, _ := collect(t, d, prompt, engine.Sampling{})
		stats := d.Stats()
		if !slices.Equal(got, want) {
			t.Errorf("%d pages:\n got %v\nwant %v", pages, got, want)
		}
		if x, ok := d.drafter.(*earlyExit).Sequence().(*shared.ExitSession); !ok || x.Spent() == 0 && pages != 2 {
			t.Errorf("%d pages: drafts by %T", pages, d.drafter.(*earlyExit).Sequence())
		}
		if load := c.Stats(); load.PromptTokens != int64(len(prompt)-1) || load.Recomputed != 0 {
			t.Errorf("%d pages: %+v", pages, load)
		}
		if pages != 2 && stats.DraftPasses < stats.Rounds || stats.DraftPasses != stats.Drafted {
			t.Errorf("%d pages: %+v", pages, stats)
		}
		s.Close()
		c.Close()
		if n := c.Stats().KVBytes; n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	}
}
