package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// TestHeadCutBehindItsWindow: a draft head's session is cut to a length that its windows reach back to, since it does
// not have the states that went in: another text that begins alike gives the logits of a new session. A pass that
// failed when the windows had moved on leaves a session that says so until it is cut.
func TestHeadCutBehindItsWindow(t *testing.T) {
	const n, beginning = 1300, 100
	ctx := context.Background()
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	o := Options{Override: []gguf.KV{{Key: "mimo2.context_length", Value: int64(2048)}}}
	open := func() *Model {
		m, err := Open(ctx, rt, testkit.Shared(t, "families/models/mimo2.gguf"), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	target := open()
	o.MTP, o.Target = true, target
	head := open()
	if c := head.Caches(0); len(c) != 1 || c[0].Window == 0 {
		t.Fatalf("caches %+v: this shows nothing", c)
	}
	d := head.config.HiddenSize
	ids, states := randomTokens(n, head.config.Vocab, 3), make([]float32, n*d)
	rng := rand.New(rand.NewPCG(1, 5))
	for i := range states[d:] {
		states[d+i] = float32(rng.NormFloat64())
	}
	part := func(from, to int) Segment {
		return Segment{Tokens: ids[from:to], States: states[from*d : to*d], FromTarget: true, Logits: Last}
	}
	feed := func(s *Session, from, to int) []float32 {
		t.Helper()
		r, err := s.EvalSegment(ctx, part(from, to))
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(r.Logits.Row(0))
	}
	cut := func(s *Session, to, want int) {
		t.Helper()
		if err := s.Truncate(to); err != nil || s.Len() != want {
			t.Fatalf("cut to %d: %d tokens, expected %d: %v", to, s.Len(), want, err)
		}
	}
	want := feed(newSession(t, head, SessionOptions{}), 0, beginning)
	s := newSession(t, head, SessionOptions{})
	last := feed(s, 0, n)
	cut(s, n-200, n-200)
	sameBits(t, "after a cut within the window's reach", feed(s, n-200, n), last)
	fork, err := s.ForkAt(beginning)
	if err != nil || fork.Len() != 0 {
		t.Fatalf("a fork at %d: %d tokens: %v", beginning, fork.Len(), err)
	}
	defer fork.Close()
	sameBits(t, "a fork behind the window's reach", feed(fork, 0, beginning), want)
	cut(s, beginning, 0)
	sameBits(t, "after a cut behind the window's reach", feed(s, 0, beginning), want)

	if _, err := s.EvalSegment(&countdown{ctx, 3}, part(beginning, n)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := s.EvalSegment(ctx, part(beginning, beginning+1)); !errors.Is(err, ErrUsage) {
		t.Errorf("after a pass that failed: %v", err)
	}
	cut(s, s.Len(), 0)
	sameBits(t, "after a pass that failed and a cut", feed(s, 0, beginning), want)
}
