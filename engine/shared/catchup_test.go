package shared_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/speculative"
)

// What a draft model computes of prompts, in virtual time: a prompt is read for a draft only where the rest of the text
// can make up for it, no first token waits for that, and a prompt that it has read is not read again, whatever comes
// between. Reading this one takes 2 passes of the target.
func TestDraftModelReadsWhatIsWorthIt(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1}) // without workers, which do not belong to the bubble
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	large, small := shared.SmallModel(t, rt, 100), shared.SmallModel(t, rt, 8)
	synctest.Test(t, func(t *testing.T) {
		cpu := sync.Mutex{}
		share := func(m *engine.Model, p passTimes) *shared.Scheduler {
			m.Costs(1).Set(nil, true) // another machine
			s := shared.New(m, shared.Options{CacheBytes: 1 << 30})
			s.SetPrepare(func(b engine.Batch) time.Duration {
				rows := 0
				for i := range b {
					rows += len(b[i].Tokens)
				}
				cpu.Lock()
				defer cpu.Unlock()
				time.Sleep(p.of(rows))
				return p.of(rows)
			})
			return s
		}
		targets, drafts := share(large, passTimes{{1, 18}, {8, 20}, {256, 300}}), share(small, passTimes{{1, 0.5}, {256, 24}})
		defer targets.Close()
		defer drafts.Close()
		var experience speculative.Experience
		const length = 400
		write := func(text, prompt, most int, accepted float64) (drafted, computed int, first time.Duration) {
			t.Helper()
			one := shared.SessionOptions{SessionOptions: engine.SessionOptions{Layers: 1}}
			a, err1 := targets.NewSession(t.Context(), one)
			b, err2 := drafts.NewSession(t.Context(), one)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			defer a.Close()
			defer b.Close()
			ids := make([]int32, prompt)
			for at := range ids {
				ids[at] = written(text, at)
			}
			o := speculative.Options{Verifier: known(text), Experience: &experience, MaxTokens: most}
			var d speculative.Drafter
			if accepted > 0 {
				d = speculative.Model(&guess{scripted: scripted{b, text}, accepted: accepted})
			}
			begin, had := time.Now(), drafts.Stats().Tokens
			dec := speculative.New(scripted{a, text}, d, o)
			for _, err := range dec.Generate(context.Background(), ids, engine.Sampling{}) {
				if err != nil {
					t.Fatal(err)
				}
				if first == 0 {
					first = time.Since(begin)
				}
			}
			return dec.Stats().Drafted, int(drafts.Stats().Tokens - had), first
		}
		others := func(texts ...int) {
			var wait sync.WaitGroup
			for _, i := range texts {
				wait.Go(func() { time.Sleep(time.Duration(i)); write(i, 30, 6, 0.95*float64(i%2)) })
			}
			wait.Wait()
		}
		write(1, length, 40, 0) // what passes take
		if _, n, first := write(1, length, 3, 0.95); n != 0 || first > 19*time.Millisecond {
			t.Errorf("of a text of 3 tokens the draft model computes %d, the first comes after %v", n, first)
		}
		n, computed, first := write(1, length, 200, 0.95)
		if n == 0 || computed < length || first > 19*time.Millisecond {
			t.Errorf("of a text of 200 tokens %d are drafted, %d computed, the first comes after %v", n, computed, first)
		}
		for i := range 12 {
			others(10+8*i, 11+8*i, 12+8*i, 13+8*i, 13+8*i, 13+8*i, 13+8*i)
			if n, computed, first := write(1, length, 2, 0.95); computed > 16 || n == 0 || first > 25*time.Millisecond {
				t.Errorf("again: %d are drafted, %d computed, the first comes after %v", n, computed, first)
			}
		}
	})
}
