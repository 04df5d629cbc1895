package serve

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/specgo/spec"
)

// A request that waits gets the place of an answer that ends so early that its first tokens are in the very next pass:
// no pass has fewer answers than there could be.
func TestWhoWaitsIsInTheNextPass(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	const parallel = 3
	for name, lengths := range map[string][]int{
		"one by one":       {2, 3, 4, 5, 6, 3, 5, 4},
		"several at once":  {4, 4, 4, 4, 4, 4, 4, 4, 4},
		"one and several":  {1, 2, 2, 3, 1, 1, 1, 4},
		"a request of two": {3, -2, 4, 2, -3, 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Options{Parallel: parallel, Models: []Entry{entryOf("go", spec.Parts{Target: p.target},
				func(o *spec.Options) { o.Template, o.Speculation.Drafter = hermes, "none" })}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Load(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			var before []func()
			var wait sync.WaitGroup
			for range parallel {
				_, leave, err := s.queue.enter(t.Context(), &s.anyone.places, 1, false)
				if err != nil {
					t.Fatal(err)
				}
				before = append(before, leave)
			}
			for i, n := range lengths {
				prompts := fmt.Sprintf(`["func f%d() {"]`, i)
				if n < 0 { // so many tokens of each of two answers
					n, prompts = -n, fmt.Sprintf(`["func g%d() {", "type T%d struct {"]`, i, i)
				}
				body := fmt.Sprintf(`{"prompt":%s,"max_tokens":%d,"ignore_eos":true,"temperature":1}`, prompts, n)
				wait.Go(func() {
					if status, answer := s.Do(context.Background(), "/v1/completions", []byte(body)); status != 200 {
						t.Errorf("status %d: %s", status, answer)
					}
				})
				synctest.Wait() // until it waits
			}
			for range before { // announces the first ones
				s.queue.ending(&s.anyone.places, 1)
			}
			for _, leave := range before {
				leave()
			}
			wait.Wait()
			stats := s.models.resident()[0].Stats().Target
			if want := leastPasses(parallel, lengths); stats.Passes != int64(want) || stats.Late > 0 {
				t.Errorf("%s: %d passes, want %d; %d were late", name, stats.Passes, want, stats.Late)
			}
		})
	}
}

// leastPasses is how many passes answers of so many tokens take, so many at once and in order: one for the prompt, but
// for its last token, and one for each token. A negative length is that of two answers, whose places come and go
// together.
func leastPasses(places int, lengths []int) (passes int) {
	var left []int // of each request that has places
	free := places
	for len(left)+len(lengths) > 0 {
		for len(lengths) > 0 {
			need := 1
			if lengths[0] < 0 {
				need = 2
			}
			if need > free {
				break
			}
			free -= need
			more := 1
			if lengths[0] < 0 {
				more = -1
			}
			left, lengths = append(left, lengths[0]+more), lengths[1:]
		}
		passes++
		next := left[:0]
		for _, n := range left {
			switch n {
			case 1:
				free++
			case -1:
				free += 2
			default:
				if n > 0 {
					n--
				} else {
					n++
				}
				next = append(next, n)
			}
		}
		left = next
	}
	return passes
}
