package shared

import (
	"context"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

type follows struct{ n int }

func (a *follows) Announce(bool) { a.n++ }

// What a session and its Scheduler say may be asked while the passes of others change it.
func TestSessionsAreAskedWhileOthersCompute(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 64)
	c := New(m, Options{KVBytes: 1 << 20})
	defer c.Close()
	var sessions [3]*Session
	for i := range sessions {
		s, err := c.NewSession(context.Background(), SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		sessions[i] = s
		feed(t, s, 1, engine.Last)
	}
	text := randomTokens(leastShared+4, 70, 1)
	spends := func(s *Session) func() {
		return func() {
			if _, err := once(s, text, nil, engine.Last); err != nil { // goes on from the other one's
				t.Error(err)
			}
			if err := s.Truncate(0); err != nil {
				t.Error(err)
			}
		}
	}
	follow, last := &follows{}, sessions[2]
	// Each alone in its goroutine: a lock that one takes would order the next.
	ask := []func(){
		spends(sessions[0]), spends(sessions[1]), func() { c.Stats() }, func() { last.Load() },
		func() { last.Costs().Each(2) },
		func() { last.PassCosts(make([]float64, 4)) }, func() { sessions[0].Spent() }, func() { sessions[0].Reused() },
		func() { sessions[0].Follow(follow) }, func() { last.Announce(false) },
	}
	testkit.AtOnce(40, ask...)
}

// Prefixes are kept without being asked for where there is a budget of memory, and only there.
func TestABudgetKeepsPrefixes(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want int64
	}{{Options{}, 0}, {Options{KVBytes: 2}, 2}, {Options{KVBytes: 2, CacheBytes: 1}, 1}, {Options{CacheBytes: 1}, 1},
		{Options{KVBytes: 2, CacheBytes: -1}, -1}} {
		s := New(nil, c.o)
		if s.prefixes.budget != c.want || s.o.CacheBytes != c.want {
			t.Errorf("%+v: %d bytes of prefixes", c.o, s.prefixes.budget)
		}
		s.Close()
	}
}
