package shared

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// segmented is a sequence of a draft head, shared or not.
type segmented interface {
	Len() int
	EvalSegment(context.Context, engine.Segment) (engine.Result, error)
	Truncate(int) error
}

// mtpRounds drafts with several MTP blocks and goes on with the text, several times: of the drafted tokens none, some
// or all are the text's. It returns the numbers of all drafts.
func mtpRounds(s segmented, ids []int32, states []float32, blocks, prompt int) (all []float32, err error) {
	eval := func(g engine.Segment) (h []float32) {
		if err != nil {
			return h
		}
		g.Logits, g.Hidden, g.Layers = engine.Last, engine.Last, []int{engine.FinalNorm}
		var r engine.Result
		if r, err = s.EvalSegment(context.Background(), g); err == nil {
			h = slices.Clone(r.Hidden.Row(0))
			all = append(append(all, h...), r.Logits.Row(0)...)
		}
		return h
	}
	for n, round := prompt, 0; n+blocks+1 < len(ids) && err == nil; round++ {
		accepted := []int{0, blocks, 1}[round%3]
		var h []float32
		for from := s.Len(); from < n; from = s.Len() {
			to := min(from+6, n)
			h = eval(engine.Segment{Tokens: ids[from:to], States: states[from*recipeWidth : to*recipeWidth], FromTarget: true})
			if err != nil {
				return all, err
			}
		}
		for i := range blocks - 1 {
			id := ids[n+i]
			if i >= accepted {
				id = (id + 1 + int32(round)) % recipeVocab
			}
			h = eval(engine.Segment{Tokens: []int32{id}, States: h})
		}
		if err == nil {
			err = s.Truncate(n)
		}
		n += accepted + 1
	}
	return all, err
}

// TestMTPBlocksShared: sessions of a Scheduler draft with several blocks as sessions by themselves do, whatever
// passes they share.
func TestMTPBlocksShared(t *testing.T) {
	const blocks, sessions = 3, 4
	target, head := openMTP(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), blocks)
	sched := New(head, Options{})
	defer sched.Close()
	var all sync.WaitGroup
	for i := range sessions {
		ids := randomTokens(40, recipeVocab, uint64(10+i))
		states := statesFor(t, target, head, ids)
		want, err := mtpRounds(newSession(t, head, engine.SessionOptions{}), ids, states, blocks, 10+i)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			s := sharedSession(t, sched)
			defer s.Close()
			for range 2 {
				got, err := mtpRounds(s, ids, states, blocks, 10+i)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("session %d drafts something else than by itself: %v", i, err)
				}
				if err := s.Truncate(0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := sched.Stats(); n.Passes == 0 {
		t.Errorf("%+v", n)
	}
}

// TestHeadWithWindowsIsCut: a shared sequence of a draft head is cut as a session by itself is, to what its windows
// reach back to.
func TestHeadWithWindowsIsCut(t *testing.T) {
	const n, beginning = 1000, 60
	ctx := context.Background()
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	o := engine.Options{Override: []gguf.KV{{Key: "mimo2.context_length", Value: int64(2048)}}}
	open := func() *engine.Model {
		m, err := engine.Open(ctx, rt, testkit.Shared(t, "families/models/mimo2.gguf"), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	target := open()
	o.MTP, o.Target = true, target
	head := open()
	sched := New(head, Options{})
	defer sched.Close()
	ids, d := randomTokens(n, head.Config().Vocab, 3), head.Config().HiddenSize
	states := make([]float32, n*d)
	feed := func(s segmented, to int) []float32 {
		t.Helper()
		from := s.Len()
		r, err := s.EvalSegment(ctx, engine.Segment{Tokens: ids[from:to], States: states[from*d : to*d], FromTarget: true,
			Logits: engine.Last})
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(r.Logits.Row(0))
	}
	want := feed(newSession(t, head, engine.SessionOptions{}), beginning)
	s := sharedSession(t, sched)
	defer s.Close()
	feed(s, n)
	if err := s.Truncate(beginning); err != nil || s.Len() != 0 {
		t.Fatalf("cut to %d of %d tokens: %d are left: %v", beginning, n, s.Len(), err)
	}
	if got := feed(s, beginning); !slices.Equal(got, want) {
		t.Error("another text that begins alike gives other logits than in a new session")
	}
}
