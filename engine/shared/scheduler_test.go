package shared

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// sequence is what a engine.Session and a Session have in common.
type sequence interface {
	Len() int
	Tokens() []int32
	Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error)
	Truncate(n int) error
	Commit(path []int32) error
	Close()
}

var (
	_ sequence = (*engine.Session)(nil)
	_ sequence = (*Session)(nil)
)

// walk feeds a sequence in a random way, which the seed decides: a prompt that may begin as others' do, then chains,
// trees, and cuts of all sizes. It returns all logits. eval computes; tests give one that fails at times.
func walk(s sequence, vocab, steps int, seed uint64,
	eval func(s sequence, tokens, parents []int32, want engine.Rows) ([]float32, error)) (out []float32, err error) {
	rng := rand.New(rand.NewPCG(seed, 9))
	more := func(tokens, parents []int32, want engine.Rows) {
		if err == nil {
			var l []float32
			l, err = eval(s, tokens, parents, want)
			out = append(out, l...)
		}
	}
	prompt := randomTokens(100+rng.IntN(350), vocab, 1+seed%2) // two beginnings
	if rng.IntN(2) == 0 {
		prompt[rng.IntN(len(prompt))] = 0 // the same up to somewhere
	}
	more(prompt, nil, engine.Last)
	for i := 0; i < steps && err == nil; i++ {
		switch rng.IntN(10) {
		case 0: // a second prompt
			if s.Len() < 500 {
				more(randomTokens(20+rng.IntN(150), vocab, rng.Uint64()), nil, engine.Rows(rng.IntN(3)))
			}
		case 1:
			err = s.Truncate(s.Len() - rng.IntN(min(s.Len(), 300)))
		case 2, 3, 4:
			n := 1 + rng.IntN(8)
			tokens, parents := randomTokens(n, vocab, rng.Uint64()), make([]int32, n)
			for i := range parents {
				parents[i] = int32(rng.IntN(i+1)) - 1
			}
			more(tokens, parents, engine.All)
			var path []int32
			for at := int32(n - 1); at >= 0 && rng.IntN(5) > 0; at = parents[at] {
				path = append(path, at)
			}
			slices.Reverse(path)
			if len(path) == 0 || parents[path[0]] == -1 {
				err = errors.Join(err, s.Commit(path))
			}
		default:
			n := 1 + rng.IntN(6)
			more(randomTokens(n, vocab, rng.Uint64()), nil, engine.All)
			err = errors.Join(err, s.Truncate(s.Len()-rng.IntN(n)))
		}
		if s.Len() == 0 {
			more([]int32{1}, nil, engine.Last)
		}
	}
	return out, err
}

// once is Eval that must succeed.
func once(s sequence, tokens, parents []int32, want engine.Rows) ([]float32, error) {
	l, err := s.Eval(context.Background(), tokens, parents, want)
	return slices.Clone(l.Data), err
}

// walkTogether walks in sessions of a scheduler side by side, one for each of want, the logits of these walks alone.
func walkTogether(t *testing.T, what string, c *Scheduler, steps int, want [][]float32,
	eval func(s sequence, tokens, parents []int32, want engine.Rows) ([]float32, error)) {
	t.Helper()
	var wait sync.WaitGroup
	for i := range want {
		wait.Go(func() {
			s, err := c.NewSession(context.Background(), SessionOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			out, err := walk(s, c.m.Config().Vocab, steps, uint64(i), eval)
			if err != nil {
				t.Errorf("%s %d: %v", what, i, err)
			} else if !slices.Equal(out, want[i]) {
				t.Errorf("%s %d: other logits than alone", what, i)
			}
		})
	}
	wait.Wait()
}

// Sessions of many goroutines that share passes, prefixes and memory have the logits that each has alone, bit for
// bit: with all options, with callers that leave at random, and passes that panic.
func TestSchedulerIdentity(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 2})
	m := smallLlama(t, rt, 1024)
	const walks = 12
	steps := 12
	if testkit.IsLong(t) {
		steps = 25
	}
	var want [walks][]float32
	var page int64
	for i := range walks {
		s := newSession(t, m, engine.SessionOptions{})
		page = s.Need(1, 1)
		out, err := walk(s, recipeVocab, steps, uint64(i), once)
		if err != nil {
			t.Fatal(err)
		}
		want[i] = out
	}
	var preempted, hits, left int64 // how often depends on how goroutines run
	for _, c := range []struct {
		name   string
		o      Options
		cancel bool
		panics int64 // one pass in so many
	}{
		{name: "plain"},
		{name: "no waiting", o: Options{Wait: -1}},
		{name: "few sessions", o: Options{Sessions: 3}},
		{name: "budget, no waiting", o: Options{KVBytes: 10 * page, Wait: -1}},
		{name: "small budget", o: Options{KVBytes: 6 * page}},
		{name: "small budget, nothing shared", o: Options{KVBytes: 6 * page, CacheBytes: -1}},
		{name: "prefixes", o: Options{KVBytes: 40 * page, CacheBytes: 1 << 30, Sessions: 4}},
		{name: "callers leave", cancel: true},
		{name: "callers leave, small budget", o: Options{KVBytes: 6 * page}, cancel: true},
		{name: "panics", panics: 7},
		{name: "everything", o: Options{KVBytes: 7 * page, Sessions: 8}, cancel: true, panics: 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			goroutines := runtime.NumGoroutine()
			var stacks atomic.Int64
			c.o.Panicked = func(any, []byte) { stacks.Add(1) }
			sched := New(m, c.o)
			var passes, most int64
			sched.prepare = func(engine.Batch) time.Duration {
				most = max(most, sched.used.Load())
				if passes++; c.panics > 0 && passes%c.panics == 0 {
					panic("injected")
				}
				return 0
			}
			var gone, failed atomic.Int64
			eval := func(s sequence, tokens, parents []int32, want engine.Rows) ([]float32, error) {
				for n, cancelled := s.Len(), false; ; {
					ctx, cancel := context.WithCancel(context.Background())
					if c.cancel && !cancelled && len(tokens)%2 == 0 {
						if cancelled = true; len(tokens)%4 == 0 {
							cancel() // on one processor the other ones come too late
						}
						go cancel()
					}
					l, err := s.Eval(ctx, tokens, parents, want)
					cancel()
					switch {
					case errors.Is(err, context.Canceled):
						gone.Add(1)
					case errors.Is(err, engine.ErrPanic):
						failed.Add(1)
					default:
						return slices.Clone(l.Data), err
					}
					if s.Len() != n {
						return nil, fmt.Errorf("a failed Eval moved the session from %d to %d tokens", n, s.Len())
					}
				}
			}
			walkTogether(t, "walk", sched, steps, want[:], eval)
			st := sched.Stats()
			t.Logf("%+v", st)
			if c.o.KVBytes > 0 && most > c.o.KVBytes {
				t.Errorf("%d bytes in use, budget of %d", most, c.o.KVBytes)
			}
			preempted += st.Preemptions
			hits += st.PrefixHits
			left += gone.Load()
			if c.o.CacheBytes < 0 && st.PrefixHits > 0 {
				t.Error("something was shared")
			}
			if c.panics > 0 && (failed.Load() == 0 || st.Panics != stacks.Load() || st.Panics == 0) {
				t.Errorf("%d Evals failed, %d panics, %d of them told", failed.Load(), st.Panics, stacks.Load())
			}
			if st.Sessions != 0 || st.Queued != 0 || st.Waiting != 0 {
				t.Errorf("left behind: %+v", st)
			}
			sched.Close()
			if n := sched.used.Load(); n != 0 {
				t.Errorf("%d bytes of pages are left", n)
			}
			for range 1000000 { // a timer's goroutine may be about to end
				if runtime.NumGoroutine() <= goroutines {
					return
				}
				runtime.Gosched()
			}
			t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
		})
	}
	if preempted == 0 || hits == 0 || left == 0 {
		t.Errorf("%d sequences gave up their memory, %d went on from others', %d callers left", preempted, hits, left)
	}
}

// TestLongSchedulerIdentity: longer walks.
func TestLongSchedulerIdentity(t *testing.T) {
	testkit.Long(t)
	TestSchedulerIdentity(t)
}

// What a private session refuses, a shared one does too, and it stays as it is.
func TestSchedulerRefused(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
	c := New(m, Options{})
	ctx := context.Background()
	for name, o := range map[string]engine.SessionOptions{"context": {Context: 513}, "negative context": {Context: -1},
		"layers": {Layers: 3}, "kv": {KV: "q3"}} {
		if s, err := c.NewSession(ctx, SessionOptions{SessionOptions: o}); err == nil {
			t.Errorf("%s: a session of %d tokens", name, s.Context())
		}
	}
	s, err := c.NewSession(ctx, SessionOptions{SessionOptions: engine.SessionOptions{Context: 10}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Context() != 10 || s.Vocab() != 70 || s.MaxTree() != engine.PassRows || s.Layers() != 2 || s.Model() != m ||
		c.Model() != m {
		t.Errorf("context %d, vocabulary %d, trees of %d, %d layers", s.Context(), s.Vocab(), s.MaxTree(), s.Layers())
	}
	want, err := once(s, []int32{1, 2, 3}, nil, engine.Last)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		name    string
		tokens  []int32
		parents []int32
		want    engine.Rows
		err     error
	}{
		{"negative id", []int32{-1}, nil, engine.Last, engine.ErrVocabulary},
		{"id beyond", []int32{1, 70}, nil, engine.Last, engine.ErrVocabulary},
		{"context", make([]int32, 8), nil, engine.Last, engine.ErrContextFull},
		{"deep tree", make([]int32, 8), []int32{-1, 0, 1, 2, 3, 4, 5, 6}, engine.All, engine.ErrContextFull},
		{"parents", []int32{1, 2}, []int32{-1}, engine.All, engine.ErrUsage},
		{"own parent", []int32{1, 2}, []int32{-1, 1}, engine.All, engine.ErrUsage},
		{"too many rows", []int32{1, 2}, nil, 3, engine.ErrUsage},
		{"very few rows", []int32{1, 2}, nil, -7, engine.ErrUsage},
		{"a large tree", make([]int32, engine.PassRows+1), make([]int32, engine.PassRows+1), engine.All, engine.ErrUsage},
	} {
		if _, err := s.Eval(ctx, r.tokens, r.parents, r.want); !errors.Is(err, r.err) {
			t.Errorf("%s: %v, want %v", r.name, err, r.err)
		}
		if s.Len() != 3 {
			t.Fatalf("%s: %d tokens", r.name, s.Len())
		}
	}
	if err := s.Truncate(4); !errors.Is(err, engine.ErrUsage) {
		t.Errorf("Truncate: %v", err)
	}
	if _, err := s.Eval(ctx, []int32{4, 5}, []int32{-1, -1}, engine.All); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit([]int32{0, 1}); !errors.Is(err, engine.ErrUsage) {
		t.Errorf("Commit: %v", err)
	}
	if err := s.Truncate(2); err != nil {
		t.Fatal(err)
	}
	again, err := once(s, []int32{3}, nil, engine.Last)
	if err != nil {
		t.Fatal(err)
	}
	sameBits(t, "after the errors", again, want)

	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Eval(gone, []int32{1}, nil, engine.Last); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	other, err := c.NewSession(ctx, SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	other.Close()
	for name, err := range map[string]error{"Truncate": other.Truncate(0), "Commit": other.Commit(nil)} {
		if !errors.Is(err, engine.ErrClosed) {
			t.Errorf("closed: %s: %v", name, err)
		}
	}
	if _, err := once(other, []int32{1}, nil, engine.Last); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	c.Close()
	c.Close()
	_, err = once(s, []int32{1}, nil, engine.Last)
	_, refused := c.NewSession(ctx, SessionOptions{})
	for _, err := range []error{err, refused, other.Truncate(0)} {
		if !errors.Is(err, engine.ErrClosed) || !strings.HasPrefix(err.Error(), c.m.Name()+": ") {
			t.Errorf("closed: %v", err)
		}
	}
	if _, err := New(nil, Options{}).NewSession(ctx, SessionOptions{}); !errors.Is(err, engine.ErrUsage) {
		t.Errorf("no model: %v", err)
	}
	t5 := New(openFile(t, m.Runtime(), randommodel.SmallT5().File(t), engine.Options{}), Options{Stored: &Stored{}})
	if _, err := t5.NewSession(ctx, SessionOptions{}); !errors.Is(err, engine.ErrUnsupported) ||
		!strings.Contains(err.Error(), "t5") {
		t.Errorf("an encoder-decoder model: %v", err)
	}
	target, head := openAssistant(t, m.Runtime())
	lender := engine.SessionOptions{Target: newSession(t, target, engine.SessionOptions{})}
	_, err = New(head, Options{}).NewSession(ctx, SessionOptions{SessionOptions: lender})
	if !errors.Is(err, engine.ErrUnsupported) || !strings.Contains(err.Error(), "target's cache") {
		t.Errorf("a head that looks at its target's cache: %v", err)
	}
}

// A sequence that does not fit in the budget by itself fails by name; others go on.
func TestSchedulerBudgetTooSmall(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
	page := newSession(t, m, engine.SessionOptions{}).Need(1, 1)
	c := New(m, Options{KVBytes: page})
	defer c.Close()
	ctx := context.Background()
	a, _ := c.NewSession(ctx, SessionOptions{})
	if _, err := once(a, randomTokens(300, 70, 1), nil, engine.Last); !errors.Is(err, engine.ErrKVBudget) {
		t.Fatal(err)
	}
	if a.Len() != 0 {
		t.Errorf("%d tokens", a.Len())
	}
	if _, err := once(a, randomTokens(200, 70, 1), nil, engine.Last); err != nil {
		t.Error(err)
	}
	wait, cancel := context.WithCancel(ctx)
	second := make(chan error)
	go func() {
		_, err := c.NewSession(wait, SessionOptions{})
		second <- err
	}()
	for c.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("a second session: %v", err)
	}
	a.Close()
	b, err := c.NewSession(ctx, SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := once(b, randomTokens(200, 70, 2), nil, engine.Last); err != nil {
		t.Error(err)
	}
}

// An Eval and what decoders do between Evals allocate nothing, alone and in shared passes.
func TestSchedulerAllocatesNothing(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
	c := New(m, Options{Wait: time.Second}) // so that no pause of the machine keeps passes from being shared
	defer c.Close()
	ctx := context.Background()
	draft, parents, path := []int32{1, 2, 3, 4, 5}, []int32{-1, -1, 0, 1, 3}, []int32{1, 3, 4}
	prices := make([]float64, 20)
	round := func(s *Session) {
		n := s.Len()
		s.Announce(true)
		_, err := s.Eval(ctx, draft, nil, engine.All)
		err = errors.Join(err, s.Truncate(n+1))
		_, err2 := s.Eval(ctx, draft, parents, engine.All)
		s.PassCosts(prices)
		s.Spent()
		if err = errors.Join(err, err2, s.Commit(path), s.Truncate(n)); err != nil {
			t.Error(err)
		}
	}
	start := func() *Session {
		s, err := c.NewSession(ctx, SessionOptions{})
		if err == nil {
			_, err = once(s, randomTokens(40, 70, 1), nil, engine.Last)
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			round(s)
		}
		return s
	}
	one := start()
	if n := testkit.Allocs(20, func() { round(one) }); n > 0 {
		t.Errorf("alone: %v allocations", n)
	}
	one.Announce(false) // for now
	var wait sync.WaitGroup
	stop := make(chan bool)
	for range 3 {
		s := start()
		wait.Go(func() {
			for {
				select {
				case <-stop:
					s.Announce(false)
					return
				default:
					round(s)
				}
			}
		})
	}
	for range 20 {
		round(one)
	}
	if n := testkit.Allocs(50, func() { round(one) }); n > 0 {
		t.Errorf("with others: %v allocations", n)
	}
	one.Announce(false)
	close(stop)
	wait.Wait()
	if st := c.Stats(); st.Segments < st.Passes*3/2 {
		t.Errorf("%d segments in %d passes", st.Segments, st.Passes)
	}
}

// TestPromptsInLongPasses: where nobody generates, passes take as many tokens of a prompt as go through the layers
// together.
func TestPromptsInLongPasses(t *testing.T) {
	c := New(smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1000), Options{})
	defer c.Close()
	s := sharedSession(t, c)
	defer s.Close()
	if s.PassRows() != engine.PassRows {
		t.Errorf("passes of %d tokens", s.PassRows())
	}
	c.most = 600 // as if weights were read from disk
	widest := 0
	c.prepare = func(b engine.Batch) time.Duration {
		widest = max(widest, len(b[0].Tokens))
		return 0
	}
	feed(t, s, 700, engine.None)
	if widest != 600 {
		t.Errorf("the widest pass has %d tokens, expected 600", widest)
	}
}
