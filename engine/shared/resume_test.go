package shared

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// The sequence of a draft head goes on from what another one, kept or open, read of the same text: as far as the
// tokens are the same, the token before them too, and the target's states went in with them. What it then computes is
// what it computes of the whole text, and what the other one had not read yet is handed on where nothing differs
// before it. Kept states count as memory.
func TestHeadsGoOnFromTheSameText(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := smallLlama(t, rt, 512)
	head := openFile(t, rt, randommodel.Eagle{}.File(t), engine.Options{Target: target})
	const width = 3 * 64
	text := randomTokens(61, 70, 4)
	states := statesFor(t, target, head, text)
	read := func(s *Session, to int) []float32 { // the positions that it lacks of the text's first
		t.Helper()
		from := s.Len()
		g := engine.Segment{Tokens: text[from+1 : to+1], States: states[from*width : to*width], FromTarget: true,
			Logits: engine.Last, Hidden: engine.Last, Layers: []int{1}}
		r, err := s.EvalSegment(context.Background(), g)
		if err != nil {
			t.Fatal(err)
		}
		return append(slices.Clone(r.Logits.Data), r.Hidden.Data...)
	}
	c := New(head, Options{CacheBytes: 1 << 30})
	defer c.Close()
	fresh := sharedSession(t, c)
	want := read(fresh, 60)
	fresh.Close() // says of no text, and is not kept
	if n := c.Stats().Prefixes; n != 0 {
		t.Fatalf("%d sequences are kept", n)
	}
	begin := func(salt string, before, tokens []int32) (s *Session, next []int32, rest []float32) {
		t.Helper()
		s, err := c.NewSession(context.Background(), SessionOptions{Salt: salt})
		if err != nil {
			t.Fatal(err)
		}
		next, rest = s.Resume(t.Context(), before, tokens, func() ([]int32, []float32) {
			return text[40:43], states[40*width : 43*width]
		})
		return s, next, rest
	}
	first, _, _ := begin("", text[:1], text[1:])
	read(first, 40)
	draft := engine.Segment{Tokens: text[41:51], States: make([]float32, 10*64), Logits: engine.Last}
	if _, err := first.EvalSegment(context.Background(), draft); err != nil {
		t.Fatal(err)
	}
	for _, kept := range []bool{false, true} {
		if kept {
			before := c.Stats().KVBytes
			first.Close()
			if n := c.Stats(); n.Prefixes != 1 || n.KVBytes != before+4*(3+3*width)-pageOf(t, head)/256*(256-40) {
				t.Errorf("%d sequences are kept, with %d bytes more for states", n.Prefixes, n.KVBytes-before)
			}
		}
		changed := slices.Clone(text[1:])
		changed[30]++
		for what, x := range map[string]struct {
			salt           string
			before, tokens []int32
			n              int // tokens of the other one
			next           bool
		}{
			"the same":         {"", text[:1], text[1:], 40, kept},
			"a part":           {"", text[:1], changed, 30, false},
			"a shorter one":    {"", text[:1], text[1:26], 25, false},
			"too little":       {"", text[:1], text[1:16], 0, false},
			"another before":   {"", text[1:2], text[1:], 0, false},
			"none before":      {"", nil, text[1:], 0, false},
			"another salt":     {"x", text[:1], text[1:], 0, false},
			"two tokens prior": {"", text[:2], text[1:], 0, false},
		} {
			s, next, rest := begin(x.salt, x.before, x.tokens)
			if s.Len() != x.n || s.Reused() != x.n || (len(next) > 0) != x.next || !slices.Equal(s.Tokens(), x.tokens[:x.n]) {
				t.Errorf("%s, kept %v: %d tokens of the other sequence, want %d; what it had beyond: %v", what, kept, s.Len(), x.n,
					next)
			}
			if x.next && (!slices.Equal(next, text[40:43]) || !slices.Equal(rest, states[40*width:43*width])) {
				t.Errorf("%s: other states were handed on", what)
			}
			if x.n > 0 {
				sameBits(t, what, read(s, 60), want)
			}
			if err := s.Truncate(0); err != nil { // not kept
				t.Fatal(err)
			}
			s.Close()
		}
	}
	used, _, _ := begin("", text[:1], text[1:])
	tree := func() {
		parents := make([]int32, 45)
		for i := range parents {
			parents[i] = int32(i) - 1
		}
		g := engine.Segment{Tokens: randomTokens(45, 70, 5), Parents: parents, States: make([]float32, 45*64),
			Logits: engine.Last}
		if _, err := used.EvalSegment(context.Background(), g); err != nil {
			t.Fatal(err)
		}
	}
	tree()
	if err := used.Truncate(0); err != nil {
		t.Fatal(err)
	}
	used.Resume(t.Context(), text[:1], text[1:], nil)
	tree()
	if !slices.Equal(used.Tokens(), text[1:1+used.Len()]) || used.Len() == 0 {
		t.Errorf("tokens %d of a text that is gone on with, after a draft", used.Tokens())
	}
	if err := used.Truncate(0); err != nil {
		t.Fatal(err)
	}
	used.Close()
	s := sharedSession(t, c)
	read(s, 1)
	if next, _ := s.Resume(t.Context(), text[:1], text[1:], nil); next != nil || s.Len() != 1 || s.Reused() != 0 {
		t.Errorf("%d tokens, %d of them reused, in a sequence that has begun", s.Len(), s.Reused())
	}
	s.Close()
	resume := func() {
		s, _, _ := begin("", text[:1], text[1:])
		s.Close()
	}
	testkit.AtOnce(10, resume, resume) // the race detector looks
	for c.prefixes.evict(nil) {
	}
	if n := c.used.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// A sequence that is to read what an older one is reading goes on from that once it is read, also if it waited for its
// place first, and passes do not wait for it meanwhile. It does not wait where it asks again itself.
func TestAwaitOfOneThatWaitedForItsPlace(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := smallLlama(t, rt, 512)
	head := openFile(t, rt, randommodel.Eagle{}.File(t), engine.Options{Target: target})
	text := randomTokens(61, 70, 4)
	states := statesFor(t, target, head, text)
	c := New(head, Options{CacheBytes: 1 << 30, Sessions: 2})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // a wait without end is an error
	defer cancel()
	none := func() ([]int32, []float32) { return nil, nil }
	begin := func() *Session {
		s, err := c.NewSession(ctx, SessionOptions{})
		if err != nil {
			t.Error(err)
		}
		return s
	}
	older, other := begin(), begin()
	older.Await(ctx, text)
	older.Await(ctx, text)
	older.Resume(t.Context(), text[:1], text[1:], none)
	opened, read := make(chan *Session), make(chan *Session)
	go func() {
		s := begin()
		opened <- s
		s.Await(ctx, text)
		s.Resume(t.Context(), text[:1], text[1:], none)
		read <- s
	}()
	for c.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	other.Close()
	younger := <-opened
	for expected := true; expected && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		expected = younger.expected()
		c.mu.Unlock()
	}
	g := engine.Segment{Tokens: text[1:], States: states[:60*3*64], FromTarget: true, Logits: engine.Last}
	if _, err := older.EvalSegment(ctx, g); err != nil {
		t.Fatal(err)
	}
	older.Announce(false)
	s := <-read
	if err := ctx.Err(); err != nil || s.Reused() != 60 {
		t.Errorf("%v; %d tokens of the other sequence", err, s.Reused())
	}
	s.Close()
	older.Close()
}
