package serve

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Work that takes much processor time leaves passes a part of the time for themselves, in which its next turn does not
// come: as long as answers are computed, or one was lately. Short work has no rest behind it, and no rest is endless.
func TestTurnsRestWhileAnswersAreComputed(t *testing.T) {
	const long, endless = 30 * time.Millisecond, time.Hour
	rest := min(long*restFactor/time.Duration(runtime.GOMAXPROCS(0)), mostRest)
	for _, x := range []struct {
		name     string
		work     time.Duration
		answered time.Duration // how long ago the last answer ended; 0: one is computed
		want     time.Duration // from one turn to the next
		batch    bool
	}{
		{"an answer is computed", long, 0, long + rest, false},
		{"an answer ended just now", long, restWindow / 2, long + rest, false},
		{"no answer for long", long, 2 * restWindow, long, false},
		{"the clock was set back", long, -time.Hour, long, false},
		{"short work", leastWork - 1, 0, leastWork - 1, false},
		{"endless work", endless, 0, endless + min(endless*restFactor/time.Duration(runtime.GOMAXPROCS(0)), mostRest), false},
		{"lines of a batch", long, 0, long, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{queue: queue{most: 1, longest: 1}, preparing: queue{most: 1, longest: 9}, anyone: newClient("", 1)}
			s.answered.Store(time.Now().Add(-x.answered).UnixNano())
			if x.answered == 0 {
				_, leave, err := s.queue.enter(t.Context(), &s.anyone.places, 1, true)
				if err != nil {
					t.Fatal(err)
				}
				defer leave()
				s.answered.Store(0)
			}
			var wait sync.WaitGroup
			begun := make(chan time.Time, 2)
			for range 2 {
				wait.Go(func() {
					begin := time.Now()
					if err := s.inTurn(t.Context(), s.anyone, !x.batch, func() error {
						begun <- time.Now()
						time.Sleep(x.work)
						return nil
					}); err != nil {
						t.Error(err)
					}
					if took := time.Since(begin); took != x.work && took != x.want+x.work {
						t.Errorf("%s: a turn took %v: its own rest delays nobody's answer", x.name, took)
					}
				})
			}
			wait.Wait()
			if first, second := <-begun, <-begun; second.Sub(first) != x.want {
				t.Errorf("%s: the second turn came after %v, want %v", x.name, second.Sub(first), x.want)
			}
		})
	}
}

// What takes long of a large request, or of a small one that is large with a text at each of others, is done in turn
// where its answer is no text either: tokens are made of it by one request at a time.
func TestLargeTextsTakeTurns(t *testing.T) {
	text := strings.Repeat("x ", largeBody)
	messages := `"messages":[{"role":"user","content":"` + text + `"}]}`
	talk := `{"max_tokens":1,` + messages
	s := newTester(t, func(o *Options) { o.Limits.BodyTime = time.Hour })
	turn := func() (leave func()) {
		_, leave, err := s.preparing.enter(context.Background(), &s.anyone.preparing, 1, false)
		if err != nil {
			t.Error(err)
		}
		return leave
	}
	waiting := func(n int) bool { _, waits := s.preparing.load(); return waits == n }
	for path, body := range map[string]string{
		"/tokenize": `{"content":"` + text + `"}`, "/apply-template": "{" + messages, "/v1/messages/count_tokens": talk,
		"/v1/chat/completions/input_tokens": talk,
		// what is refused before any template
		"/v1/chat/completions/input_tokens?": `{"top_logprobs":1,` + messages,
		"/v1/embeddings":                     `{"input":"` + text + `"}`,
		"/rerank":                            `{"query":"` + text[:largeBody/2] + `","documents":["a","b","c"]}`,
	} {
		done, next, reads := make(chan struct{}), make(chan func(), 1), path != "/rerank"
		first := turn()
		go func() {
			defer close(done)
			s.do("POST", path, body)
		}()
		s.wait(func() bool { return waiting(1) })
		if reads { // the next turn is another's, which the request waits for when it has read its body
			go func() { next <- turn() }()
			s.wait(func() bool { return waiting(2) })
			first()
			first = <-next
		}
		s.wait(func() bool {
			select {
			case <-done:
				t.Errorf("%s: the text was encoded out of turn", path)
				return true
			default:
				return waiting(1)
			}
		})
		first()
		<-done
	}
}
