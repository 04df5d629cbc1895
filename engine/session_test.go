package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

func TestCommitRefused(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.Llama(), Options{})
	s := newSession(t, m, SessionOptions{})
	eval(t, s, []int32{1, 2, 3}, nil, None)
	//      -1 - 0 - 1
	//         \   \ 2
	//          3
	parents := []int32{-1, 0, 0, -1}
	for _, path := range [][]int32{{1}, {0, 3}, {0, 0}, {4}, {-1}, {0, 1, 2}, {3, 0}} {
		eval(t, s, []int32{4, 5, 6, 7}, parents, All)
		if err := s.Commit(path); !errors.Is(err, ErrUsage) {
			t.Errorf("path %d: %v", path, err)
		}
		if err := s.Truncate(3); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Commit([]int32{0}); !errors.Is(err, ErrUsage) {
		t.Errorf("after Truncate the tree is still there: %v", err)
	}
	if err := s.Commit(nil); err != nil {
		t.Error(err)
	}
	eval(t, s, []int32{4, 5, 6, 7}, parents, All)
	eval(t, s, []int32{8}, nil, None) // drops the tree
	if err := s.Commit([]int32{0}); !errors.Is(err, ErrUsage) {
		t.Errorf("after Forward the tree is still there: %v", err)
	}
	if want := []int32{1, 2, 3, 8}; !slices.Equal(s.Tokens(), want) {
		t.Errorf("the text is %d, expected %d", s.Tokens(), want)
	}
	for _, n := range []int{-1, 5} {
		if err := s.Truncate(n); !errors.Is(err, ErrUsage) {
			t.Errorf("Truncate(%d): %v", n, err)
		}
	}
}

// A session that is closed has no forks, also where it has no keys and values, but recurrent states alone.
func TestClosedSessionsAreNotForked(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for name, m := range map[string]*Model{
		"keys and values": openDrawn(t, rt, randommodel.Llama(), Options{}),
		"states":          openModel(t, rt, written(t, askedModels()["rwkv7"].file(t, "rwkv7")), Options{}),
	} {
		s := newSession(t, m, SessionOptions{})
		eval(t, s, []int32{1, 2, 3}, nil, None)
		s.Close()
		if _, err := s.Fork(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestForwardRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m, other := openDrawn(t, rt, randommodel.Llama(), Options{}), openDrawn(t, rt, randommodel.GPT2(), Options{})
	s, s2, foreign := newSession(t, m, SessionOptions{Context: 10}), newSession(t, m, SessionOptions{}),
		newSession(t, other, SessionOptions{})
	want := eval(t, s, []int32{1, 2, 3}, nil, Last)
	closed := newSession(t, m, SessionOptions{})
	closed.Close()
	ids := randomTokens(20, 70, 1)
	healthy := newSession(t, m, SessionOptions{})
	alone := eval(t, newSession(t, m, SessionOptions{}), ids, nil, Last)
	for _, c := range []struct {
		name string
		b    Batch
		want error
	}{
		{"no session", Batch{{Tokens: []int32{1}}}, ErrUsage},
		{"another model's", Batch{{Session: foreign, Tokens: []int32{1}}}, ErrUsage},
		{"nothing but a pointer", Batch{{Session: new(Session), Tokens: []int32{1}}}, ErrUsage},
		{"closed", Batch{{Session: closed, Tokens: []int32{1}}}, ErrClosed},
		{"negative id", Batch{{Session: s, Tokens: []int32{-1}}}, ErrVocabulary},
		{"id beyond", Batch{{Session: s, Tokens: []int32{1, 70}}}, ErrVocabulary},
		{"most negative id", Batch{{Session: s, Tokens: []int32{math.MinInt32}}}, ErrVocabulary},
		{"context", Batch{{Session: s, Tokens: make([]int32, 8)}}, ErrContextFull},
		{"deep tree", Batch{{Session: s, Tokens: make([]int32, 8),
			Parents: []int32{-1, 0, 1, 2, 3, 4, 5, 6}}}, ErrContextFull},
		{"parents", Batch{{Session: s, Tokens: []int32{1, 2}, Parents: []int32{-1}}}, ErrUsage},
		{"own parent", Batch{{Session: s, Tokens: []int32{1, 2}, Parents: []int32{-1, 1}}}, ErrUsage},
		{"parent -2", Batch{{Session: s, Tokens: []int32{1, 2}, Parents: []int32{-1, -2}}}, ErrUsage},
		{"too many rows", Batch{{Session: s, Tokens: []int32{1, 2}, Logits: 3}}, ErrUsage},
		{"very many rows", Batch{{Session: s, Tokens: []int32{1, 2}, Logits: math.MaxInt}}, ErrUsage},
		{"very few rows", Batch{{Session: s, Tokens: []int32{1, 2}, Logits: math.MinInt}}, ErrUsage},
		{"negative rows", Batch{{Session: s, Tokens: []int32{1, 2}, Logits: -2}}, ErrUsage},
		{"huge tree", Batch{{Session: s, Tokens: make([]int32, s.MaxTree()+1),
			Parents: slices.Repeat([]int32{-1}, s.MaxTree()+1)}}, ErrUsage},
	} {
		// By itself, and between segments that are not affected.
		if g := c.b[0]; g.Session != foreign {
			if _, err := g.Session.Eval(context.Background(), g.Tokens, g.Parents, g.Logits); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, expected %v", c.name, err, c.want)
			}
		}
		out, err := m.Forward(context.Background(), append(Batch{{Session: healthy, Tokens: ids, Logits: Last}}, c.b...))
		if err != nil || !errors.Is(out[1].Err, c.want) || len(out[1].Logits.Data) != 0 {
			t.Fatalf("%s: %v, %+v, expected %v", c.name, err, out, c.want)
		}
		if out[0].Err != nil {
			t.Fatalf("%s: the other segment: %v", c.name, out[0].Err)
		}
		sameBits(t, c.name, out[0].Logits.Data, alone)
		if s.Len() != 3 || foreign.Len() != 0 || healthy.Len() != len(ids) {
			t.Fatalf("%s: a session moved, or did not", c.name)
		}
		if err := healthy.Truncate(0); err != nil {
			t.Fatal(err)
		}
	}
	// The second of two segments of one session fails, the first does not.
	out, err := m.Forward(context.Background(),
		Batch{{Session: s2, Tokens: ids, Logits: Last}, {Session: s2, Tokens: ids, Logits: Last}})
	if err != nil || out[0].Err != nil || !errors.Is(out[1].Err, ErrUsage) || s2.Len() != len(ids) {
		t.Errorf("a session twice: %v, %+v; it has %d tokens", err, out, s2.Len())
	}
	if out, err := m.Forward(context.Background(), Batch{{}, {}}); err != nil || out[0].Err == nil || out[1].Err == nil {
		t.Errorf("no sessions at all: %v, %+v", err, out)
	}
	if out, err := m.Forward(context.Background(), nil); err != nil || len(out) != 0 {
		t.Errorf("empty batch: %v, %v", out, err)
	}
	if out := eval(t, s, nil, nil, All); len(out) != 0 {
		t.Errorf("no tokens give %d logits", len(out))
	}
	if err := s.Truncate(2); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "after the failures", eval(t, s, []int32{3}, nil, Last), want)
	// A wide tree may hang on a full text's last place.
	eval(t, s, make([]int32, 6), nil, None)
	eval(t, s, make([]int32, s.MaxTree()), slices.Repeat([]int32{-1}, s.MaxTree()), 2)
	if err := s.Commit([]int32{200}); err != nil || s.Len() != s.Context() {
		t.Errorf("%v; %d tokens of %d", err, s.Len(), s.Context())
	}
	if _, err := m.NewSession(SessionOptions{Context: 513}); !errors.Is(err, ErrUsage) {
		t.Errorf("context beyond the model's: %v", err)
	}
	if _, err := m.NewSession(SessionOptions{KV: "q3"}); err == nil {
		t.Error("KV q3 is accepted")
	}
}

// countdown is a context that is cancelled when it has been asked n times.
type countdown struct {
	context.Context
	n int
}

func (c *countdown) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

func TestCancel(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	for _, v := range []randommodel.Shape{randommodel.Llama(), randommodel.GPT2()} {
		m := openDrawn(t, rt, v, Options{})
		a, b := newSession(t, m, SessionOptions{}), newSession(t, m, SessionOptions{})
		ids := randomTokens(300, m.config.Vocab, 6)
		want := eval(t, newSession(t, m, SessionOptions{}), ids, nil, 5)
		eval(t, a, ids[:10], nil, None)
		batch := Batch{{Session: b, Tokens: ids[:20]}, {Session: a, Tokens: ids[10:], Logits: 5}}
		cancelled := 0
		for {
			out, err := m.Forward(&countdown{context.Background(), cancelled}, batch)
			if err == nil {
				sameBits(t, "after the cancelled passes", out[1].Logits.Data, want)
				break
			}
			cancelled++
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if a.Len() != 10 || b.Len() != 0 {
				t.Fatalf("cancelled at %d: the sessions moved to %d and %d tokens", cancelled, a.Len(), b.Len())
			}
		}
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := b.Eval(over, ids[:1], nil, Last)
		_, err2 := b.EvalSegment(over, Segment{Tokens: ids[:1], Logits: Last})
		if !errors.Is(err, context.Canceled) || !errors.Is(err2, context.Canceled) || b.Len() != 20 {
			t.Errorf("%s: %v, %v, %d tokens", v.Arch, err, err2, b.Len())
		}
		if cancelled < 4 { // two rounds of two layers
			t.Errorf("%s: the pass looked at its context %d times", v.Arch, cancelled)
		}
	}
}

// TestConcurrent: two models on one runtime, several goroutines, each with a session of its own.
func TestConcurrent(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	models := []*Model{openDrawn(t, rt, randommodel.Llama(), Options{}), openDrawn(t, rt, randommodel.GPT2(), Options{})}
	ids := randomTokens(60, 70, 2)
	var wait sync.WaitGroup
	for i := range 6 {
		m := models[i%2]
		want := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
		s := newSession(t, m, SessionOptions{})
		wait.Go(func() {
			var got []float32
			for rest := ids; len(rest) > 0; rest = rest[min(4, len(rest)):] {
				out, err := s.Eval(context.Background(), rest[:min(4, len(rest))], nil, All)
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, out.Data...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("session %d computed something else beside the others", i)
			}
		})
	}
	wait.Wait()
}

// TestForkTokens: the texts of a session and its fork grow apart, also where there was room behind the first one's
// tokens.
func TestForkTokens(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.Llama(), Options{})
	for _, noCache := range []bool{false, true} {
		s := newSession(t, m, SessionOptions{NoCache: noCache})
		for _, tokens := range [][]int32{{1, 2, 3}, {4}, {4}} {
			eval(t, s, tokens, nil, None)
		}
		f, err := s.Fork()
		if err != nil {
			t.Fatal(err)
		}
		eval(t, s, []int32{5}, nil, None)
		eval(t, f, []int32{6}, nil, None)
		if want := []int32{1, 2, 3, 4, 4, 5}; !slices.Equal(s.Tokens(), want) {
			t.Errorf("no cache %v: the session has %d, expected %d", noCache, s.Tokens(), want)
		}
		if want := []int32{1, 2, 3, 4, 4, 6}; !slices.Equal(f.Tokens(), want) {
			t.Errorf("no cache %v: the fork has %d, expected %d", noCache, f.Tokens(), want)
		}
		want := eval(t, newSession(t, m, SessionOptions{}), []int32{1, 2, 3, 4, 4, 5, 7}, nil, Last)
		sameBits(t, "after the fork", eval(t, s, []int32{7}, nil, Last), want)
	}
}

// TestCloseTwice: closing a session twice does nothing to its forks.
func TestCloseTwice(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{}), randommodel.Llama(), Options{})
	ids := randomTokens(300, 70, 1)
	s := newSession(t, m, SessionOptions{})
	eval(t, s, ids, nil, None)
	f, err := s.Fork()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	want := eval(t, newSession(t, m, SessionOptions{}), append(ids, 5), nil, Last)
	sameBits(t, "fork", eval(t, f, []int32{5}, nil, Last), want)
}

// TestSharedHead: several sessions share one reading of the output matrix; each gets its own rows.
func TestSharedHead(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.Llama(), Options{})
	for n := 1; n <= 5; n++ {
		var b Batch
		for i := range n {
			s := newSession(t, m, SessionOptions{})
			eval(t, s, randomTokens(3+i, 70, uint64(i)), nil, Last)
			b = append(b, Segment{Session: s, Tokens: []int32{int32(i)}, Logits: Last})
		}
		out := forward(t, m, b)
		for i := range b {
			alone := eval(t, newSession(t, m, SessionOptions{}), append(randomTokens(3+i, 70, uint64(i)), int32(i)), nil, Last)
			sameBits(t, fmt.Sprintf("session %d of %d", i, n), out[i].Logits.Data, alone)
		}
	}
}

// TestSteadyStateAllocatesNothing: decoding, verifying a draft and taking it back, a tree, a batch.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	ctx := context.Background()
	for name, v := range variants() {
		m := openDrawn(t, rt, v, Options{})
		s, s2 := newSession(t, m, SessionOptions{}), newSession(t, m, SessionOptions{})
		sampler, err := sampling.New(m.config.Vocab, Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, RepeatPenalty: 1.1})
		if err != nil {
			t.Fatal(err)
		}
		eval(t, s, randomTokens(40, m.config.Vocab, 1), nil, None)
		one, draft, parents, path := []int32{1}, []int32{1, 2, 3, 4, 5}, []int32{-1, -1, 0, 1, 3}, []int32{1, 3, 4}
		batch := Batch{{Session: s, Tokens: one, Logits: Last}, {Session: s2, Tokens: draft, Logits: All}}
		for what, step := range map[string]func() error{
			"decode": func() error {
				out, err := s.Eval(ctx, one, nil, Last)
				if err == nil {
					one[0] = sampler.Pick(out.Row(0), s.Tokens())
				}
				return err
			},
			"verify": func() error {
				n := s.Len()
				_, err := s.Eval(ctx, draft, nil, All)
				return errors.Join(err, s.Truncate(n+1))
			},
			"tree": func() error {
				n := s.Len()
				_, err := s.Eval(ctx, draft, parents, All)
				return errors.Join(err, s.Commit(path), s.Truncate(n))
			},
			"batch": func() error {
				_, err := m.Forward(ctx, batch)
				return errors.Join(err, s.Truncate(s.Len()-1), s2.Truncate(0))
			},
		} {
			run := func() {
				if err := step(); err != nil {
					t.Fatal(fmt.Errorf("%s: %w", what, err))
				}
			}
			for range 3 {
				run()
			}
			if n := testkit.Allocs(10, run); n != 0 {
				t.Errorf("%s, %s: %v allocations", name, what, n)
			}
		}
	}
}

// A closed model, and a model of a closed runtime, begin no session, also while a pass runs: the error says that they
// are closed.
func TestNewSessionOfWhatIsClosed(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m, other := openDrawn(t, rt, randommodel.Llama(), Options{}), openDrawn(t, rt, randommodel.Llama(), Options{})
	m.Close()
	rt.t.Lock()
	_, err := m.NewSession(SessionOptions{})
	rt.t.Unlock()
	if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "random.gguf") {
		t.Errorf("a closed model: %v", err)
	}
	if _, err := other.NewSession(SessionOptions{}); err != nil {
		t.Errorf("beside it: %v", err)
	}
	rt.Close()
	if _, err := other.NewSession(SessionOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed runtime: %v", err)
	}
}

// What a session keeps for the answers of its next passes, 64 MB of 256 rows of 65,536 tokens, is neither a kept
// sequence's nor a closed one's. Who has an answer keeps it.
func TestRestingSessionsHaveNoLogits(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m, err := openBytes(t, rt, randommodel.Llama().File(t), "llama.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := randomTokens(8, m.config.Vocab, 1)
	for name, rest := range map[string]func(*Session){"Shrink": (*Session).Shrink, "Close": (*Session).Close} {
		s := newSession(t, m, SessionOptions{})
		out, err := s.Eval(t.Context(), ids, nil, All)
		if err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(out.Data)
		if rest(s); s.logits != nil || s.hidden != nil {
			t.Errorf("%s: %d logits are kept", name, len(s.logits))
		}
		if !slices.Equal(out.Data, before) {
			t.Errorf("%s: the answer has changed", name)
		}
	}
}

// TestShrinkDropsATree: the memory of a tree that waits is freed, so that it cannot be committed any more.
func TestShrinkDropsATree(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.Llama(), Options{})
	ids := randomTokens(8, m.config.Vocab, 3)
	s := newSession(t, m, SessionOptions{})
	eval(t, s, ids[:5], nil, None)
	eval(t, s, ids[5:7], []int32{-1, 0}, All)
	s.Shrink()
	if err := s.Commit([]int32{0, 1}); !errors.Is(err, ErrUsage) || s.Len() != 5 || s.Nodes() > 0 {
		t.Errorf("a tree is committed whose memory is free: %v, %d tokens", err, s.Len())
	}
	want := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
	sameBits(t, "after it", eval(t, s, ids[5:], nil, All), want[5*m.config.Vocab:])
}
