package shared

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
)

// TestExitsTakeOver: the first layers of a session compute what a session of those layers computes, and of the text
// that the session has nothing, but for the tokens after it. Their memory is in the budget; it goes with the session.
func TestExitsTakeOver(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	for name, m := range map[string]*engine.Model{"llama": SmallModel(t, rt, 3), "qwen35": openRecipe(t, rt, "qwen35")} {
		ctx, vocab := context.Background(), m.Config().Vocab
		c := New(m, Options{})
		s, err := c.NewSession(ctx, SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ids := randomTokens(500, vocab, 3)
		if _, err := s.Eval(ctx, ids[:400], nil, engine.None); err != nil {
			t.Fatal(err)
		}
		before := c.Stats()
		e, err := s.Exit(1)
		if err != nil {
			t.Fatal(err)
		}
		own := newSession(t, m, engine.SessionOptions{Layers: 1})
		if _, err := own.Eval(ctx, ids[:400], nil, engine.None); err != nil {
			t.Fatal(err)
		}
		for _, part := range [][]int32{ids[:256], ids[256:400]} { // nothing is computed
			if _, err := e.Eval(ctx, part, nil, engine.None); err != nil {
				t.Fatal(err)
			}
		}
		if e.Spent() != 0 || e.Len() != 400 || !slices.Equal(e.Tokens(), ids[:400]) {
			t.Errorf("%s: %d tokens in %v", name, e.Len(), e.Spent())
		}
		for i := 400; i < 410; i++ {
			got, err1 := e.Eval(ctx, ids[i:i+1], nil, engine.Last)
			want, err2 := own.Eval(ctx, ids[i:i+1], nil, engine.Last)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			sameBits(t, name, got.Data, want.Data)
		}
		after := c.Stats()
		if after.Passes != before.Passes || after.Tokens != before.Tokens || after.KVBytes <= before.KVBytes ||
			e.Spent() <= 0 {
			t.Errorf("%s: before %+v, after %+v", name, before, after)
		}
		// The text goes on otherwise; the exit follows.
		if _, err := s.Eval(ctx, ids[450:490], nil, engine.None); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(e.Truncate(400), own.Truncate(400)); err != nil {
			t.Fatal(err)
		}
		tail := append(slices.Clone(ids[450:490]), 5)
		got, err1 := e.Eval(ctx, tail, nil, engine.Last)
		want, err2 := own.Eval(ctx, tail, nil, engine.Last)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		sameBits(t, name, got.Data, want.Data)

		// Without the session's memory a text is not computed.
		c.mu.Lock()
		e.drop()
		s.drop()
		c.mu.Unlock()
		if _, err := e.Eval(ctx, ids[:1], nil, engine.Last); !errors.Is(err, engine.ErrKVBudget) || e.Len() != 441 {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := e.Eval(ctx, ids[:2], []int32{-1, 0}, engine.Last); !errors.Is(err, engine.ErrUsage) {
			t.Errorf("%s: a tree: %v", name, err)
		}
		for _, layers := range []int{0, m.Config().Layers + 1} {
			if _, err := s.Exit(layers); !errors.Is(err, engine.ErrUsage) {
				t.Errorf("%s: %d layers: %v", name, layers, err)
			}
		}
		s.Close()
		if _, err := s.Exit(1); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		if n := c.Stats().KVBytes; n != 0 {
			t.Errorf("%s: %d bytes are left", name, n)
		}
	}
}

// TestExitsGiveUpMemory: in a budget of any size sessions compute what they compute without those that exit early, and
// nobody is refused memory that such a session has.
func TestExitsGiveUpMemory(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	m := SmallModel(t, rt, 3)
	one := newSession(t, m, engine.SessionOptions{})
	if _, err := one.Eval(context.Background(), []int32{1}, nil, engine.None); err != nil {
		t.Fatal(err)
	}
	page := one.Bytes()
	for _, budget := range []int64{0, 2 * page, 3 * page, 7 * page} {
		c := New(m, Options{KVBytes: budget})
		var wait sync.WaitGroup
		var drafted, refused [4]int
		for u := range 4 {
			wait.Go(func() {
				ctx := context.Background()
				s, err := c.NewSession(ctx, SessionOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				e, err := s.Exit(1)
				if err != nil {
					t.Error(err)
					return
				}
				ids := randomTokens(500, 70, uint64(u))
				for n := 240; n < len(ids); n += 20 {
					if _, err := s.Eval(ctx, ids[s.Len():n], nil, engine.Last); err != nil {
						t.Errorf("budget of %d pages, user %d after %d tokens: %v", budget/page, u, n, err)
						return
					}
					err := e.Truncate(min(e.Len(), n-20))
					for at := e.Len(); at < n+3 && err == nil; at = e.Len() {
						_, err = e.Eval(ctx, ids[at:max(n, at+1)], nil, engine.Last)
					}
					if drafted[u]++; errors.Is(err, engine.ErrKVBudget) {
						refused[u]++
					} else if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		for u := range drafted {
			if drafted[u] != 13 || budget == 0 && refused[u] > 0 {
				t.Errorf("budget of %d pages, user %d: %d drafts, %d without memory", budget/page, u, drafted[u], refused[u])
			}
		}
		c.Close()
		if n := c.Stats().KVBytes; n != 0 || c.reserved != 0 {
			t.Errorf("%d bytes are left, %d reserved", n, c.reserved)
		}
	}
}

// TestExitInAPass: who needs the memory of a session that exits early waits for the pass that it runs, also one that
// allocates nothing.
func TestExitInAPass(t *testing.T) {
	ctx := context.Background()
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	m := SmallModel(t, rt, 3)
	one := newSession(t, m, engine.SessionOptions{})
	if _, err := one.Eval(ctx, []int32{1}, nil, engine.None); err != nil {
		t.Fatal(err)
	}
	c := New(m, Options{KVBytes: 2 * one.Bytes()})
	defer c.Close()
	open := func() *Session {
		s, err := c.NewSession(ctx, SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ids := randomTokens(500, 70, 1)
	s, other := open(), open()
	e, err := s.Exit(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Eval(ctx, ids[:200], nil, engine.None); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Eval(ctx, ids[:201], nil, engine.Last); err != nil {
		t.Fatal(err)
	}
	e.tokens = ids[:202]
	if n, err := e.take(1); n != 1 || err != nil || e.need != 0 { // its pass runs now
		t.Fatalf("%d tokens, %d bytes: %v", n, e.need, err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := other.Eval(ctx, ids, nil, engine.Last) // two pages
		result <- err
	}()
	for blocked := false; !blocked; {
		select {
		case err := <-result:
			result <- err // see below
			blocked = true
		default:
			c.mu.Lock()
			blocked = c.blocked
			c.mu.Unlock()
			runtime.Gosched()
		}
	}
	e.giveBack()
	if err := <-result; err != nil {
		t.Errorf("after the pass: %v", err)
	}
}

// What an exit refuses, and a pass that fails, moves nothing and keeps no memory: its length, what is lent and what is
// reserved are as before, and the next pass computes what it would have.
func TestExitsThatFailMoveNothing(t *testing.T) {
	ctx := context.Background()
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 3)
	c := New(m, Options{})
	defer c.Close()
	s, err := c.NewSession(ctx, SessionOptions{SessionOptions: engine.SessionOptions{Context: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for layers, want := range map[int]bool{-1: false, 0: false, 1: true, 2: true, 3: true, 4: false} {
		if _, err := s.Exit(layers); errors.Is(err, engine.ErrUsage) == want || want != (err == nil) {
			t.Errorf("an exit after %d of 3 layers: %v", layers, err)
		}
	}
	if _, err := (*Session)(nil).Exit(1); !errors.Is(err, engine.ErrUsage) {
		t.Errorf("an exit of no session: %v", err)
	}
	e, err := s.Exit(1)
	if err != nil {
		t.Fatal(err)
	}
	ids := randomTokens(101, 70, 1)
	if _, err := s.Eval(ctx, ids[:90], nil, engine.None); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Eval(ctx, ids[:90], nil, engine.Last); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	for name, x := range map[string]struct {
		fails func() error
		want  error
	}{
		"a cancelled pass": {func() error { _, err := e.Eval(over, ids[90:92], nil, engine.Last); return err },
			context.Canceled},
		"one token too many": {func() error { _, err := e.Eval(ctx, ids[90:], nil, engine.Last); return err },
			engine.ErrContextFull},
		"a tree": {func() error { _, err := e.Eval(ctx, ids[:2], []int32{-1, -1}, engine.Last); return err },
			engine.ErrUsage},
		"a token that there is none of": {func() error {
			_, err := e.Eval(ctx, []int32{int32(e.Vocab())}, nil, engine.Last)
			return err
		}, engine.ErrVocabulary},
		"a commit":            {func() error { return e.Commit(nil) }, engine.ErrUsage},
		"a longer sequence":   {func() error { return e.Truncate(91) }, engine.ErrUsage},
		"less than no tokens": {func() error { return e.Truncate(-1) }, engine.ErrUsage},
	} {
		if err := x.fails(); !errors.Is(err, x.want) || e.Len() != 90 || c.lent != 0 || c.reserved != 0 {
			t.Errorf("%s: %v, want %v; %d tokens, %d lent, %d reserved", name, err, x.want, e.Len(), c.lent, c.reserved)
		}
	}
	if err := errors.Join(e.Truncate(90), e.Truncate(0)); err != nil { // the borders of what is right
		t.Error(err)
	}
	if _, err := e.Eval(ctx, ids[:100], nil, engine.Last); err != nil {
		t.Errorf("a full context: %v", err)
	}
}

// looking is a context of which a pass tells that it looks at it, as it does between the layers.
type looking struct {
	context.Context
	looks func()
}

func (l looking) Err() error {
	l.looks()
	return l.Context.Err()
}

// What the pass of a session that exits early allocates counts once while it runs, in the budget and in Stats.
func TestPassesOfExitsCountOnce(t *testing.T) {
	ctx := t.Context()
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	for name, m := range map[string]*engine.Model{"llama": SmallModel(t, rt, 3), "qwen35": openRecipe(t, rt, "qwen35")} {
		c := New(m, Options{})
		s := sharedSession(t, c)
		e, err := s.Exit(2)
		if err != nil {
			t.Fatal(err)
		}
		ids := randomTokens(engine.KVPage, m.Config().Vocab, 1)
		if _, err := s.Eval(ctx, ids, nil, engine.None); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Eval(ctx, ids[:engine.KVPage-1], nil, engine.None); err != nil {
			t.Fatal(err)
		}
		looks, most, told := 0, int64(0), int64(0)
		c.ctx = looking{c.ctx, func() {
			told = max(told, c.Stats().KVBytes)
			c.mu.Lock()
			defer c.mu.Unlock()
			looks++
			most = max(most, c.used.Load()+c.reserved)
		}}
		for _, id := range []int32{ids[engine.KVPage-1], 5} { // a fork's first page, and the next one
			if _, err := e.Eval(ctx, []int32{id}, nil, engine.Last); err != nil {
				t.Fatal(err)
			}
		}
		if used := c.used.Load(); looks == 0 || most != used || told != used || c.reserved != 0 {
			t.Errorf("%s: %d bytes in use; %d counted in a pass, %d told; %d still reserved", name, used, most, told,
				c.reserved)
		}
		s.Close()
		c.Close()
	}
}
