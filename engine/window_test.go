package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// smallWindows is a random model of the shape of Gemma 2: every other layer has a window.
func smallWindows(window int) randommodel.Shape {
	s := randommodel.Llama()
	s.Arch, s.Layers, s.Context = "gemma2", 3, 3000
	for i := range s.Layers {
		b := fmt.Sprintf("blk.%d.", i)
		s.More = append(s.More, b+"post_attention_norm.weight", b+"post_ffw_norm.weight")
	}
	s.KVs = []gguf.KV{{Key: "gemma2.attention.sliding_window", Value: uint32(window)}}
	return s
}

// TestWindowOneAnswer: promise P1 with a text many times as long as the windowed layers' caches, and with trees and
// cuts in it.
func TestWindowOneAnswer(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m := openDrawn(t, rt, smallWindows(40), Options{})
	n := 1100
	if testkit.IsLong(t) {
		n = 1500
	}
	ids := randomTokens(n, m.config.Vocab, 4)
	want := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
	for _, way := range ways {
		if way.name == "chunks of 3" && !testkit.IsLong(t) || way.name == "chunks of 1" && testing.Short() {
			continue
		}
		sameBits(t, way.name, way.feed(t, m, SessionOptions{}, ids), want)
	}
}

// TestLongWindowOneAnswer and TestLongWindowTruncate: with a longer text, cut at more positions.
func TestLongWindowOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestWindowOneAnswer(t)
}

func TestLongWindowTruncate(t *testing.T) {
	testkit.Long(t)
	TestWindowTruncate(t)
}

// TestWindowTruncate cuts a long text at every position, near the end and far from it, and goes on with a token, a
// chain and a tree.
func TestWindowTruncate(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), smallWindows(40), Options{})
	const n, window = 1200, 40
	v := m.config.Vocab
	ids := randomTokens(n+5, v, 4)
	want := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
	s := newSession(t, m, SessionOptions{})
	eval(t, s, ids[:n], nil, None)
	step := 29
	switch {
	case testkit.IsLong(t):
		step = 7
	case testing.Short():
		step = 97
	}
	for cut := n; cut >= 0; cut -= step {
		f, err := s.Fork()
		if err != nil {
			t.Fatal(err)
		}
		at := f.Restorable(cut)
		if cut >= n-windowSlack && at != cut {
			t.Errorf("%d of %d tokens: restorable is %d", cut, n, at)
		}
		if cut < n-windowSlack-256-window && at != 0 && at != cut || at > cut {
			t.Errorf("%d of %d tokens: restorable is %d", cut, n, at)
		}
		if err := f.Truncate(cut); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("cut to %d", cut)
		goesOn(t, what, f, cut, ids, want)
		// A fork that is cut has to recompute too.
		if g, err := f.Fork(); err != nil || g.Restorable(g.Len()) != g.Len() {
			t.Errorf("%s: a fork of the result: %v", what, err)
		} else {
			g.Close()
		}
		f.Close()
	}
	// The least position whose window is still there, and the one before it.
	least := s.kv[0].First() + window - 1
	for _, cut := range []int{least, least - 1} {
		f, err := s.Fork()
		if err != nil {
			t.Fatal(err)
		}
		if at := f.Restorable(cut); at != 0 && cut < least || cut == least && at != cut {
			t.Errorf("%d tokens, the first that is kept is %d: restorable is %d", cut, s.kv[0].First(), at)
		}
		if err := f.Truncate(cut); err != nil {
			t.Fatal(err)
		}
		sameBits(t, "at the edge", eval(t, f, ids[cut:cut+5], nil, All), want[cut*v:(cut+5)*v])
		f.Close()
	}
	// Cut twice before a pass, then forked: what is recomputed is what is left.
	if err := errors.Join(s.Truncate(300), s.Truncate(290)); err != nil {
		t.Fatal(err)
	}
	f, err := s.Fork()
	if err != nil {
		t.Fatal(err)
	}
	sameBits(t, "fork of a cut session", eval(t, f, ids[290:295], nil, All), want[290*v:295*v])
	sameBits(t, "cut session", eval(t, s, ids[290:300], nil, All), want[290*v:300*v])
}

// TestWindowCancel: a pass that is cancelled far beyond the window leaves a session that goes on as if there had been
// none.
func TestWindowCancel(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), smallWindows(40), Options{})
	v := m.config.Vocab
	ids := randomTokens(1330, v, 4)
	want := eval(t, newSession(t, m, SessionOptions{}), ids, nil, 1330)
	s := newSession(t, m, SessionOptions{})
	eval(t, s, ids[:300], nil, None)
	for _, looks := range []int{1, 4, 10, 13} { // three a round of 256 tokens
		if _, err := s.Eval(&countdown{context.Background(), looks}, ids[300:1325], nil, Last); !errors.Is(
			err, context.Canceled) {
			t.Fatal(err)
		}
		if s.Len() != 300 {
			t.Fatalf("cancelled at %d: the session has %d tokens", looks, s.Len())
		}
		sameBits(t, fmt.Sprint("after a pass cancelled at ", looks), eval(t, s, ids[300:305], nil, All), want[300*v:305*v])
		if err := s.Truncate(300); err != nil {
			t.Fatal(err)
		}
	}
	sameBits(t, "whole", eval(t, s, ids[300:], nil, All), want[300*v:])
}

// TestWindowMemory: a cache of layers with a window does not grow with the text. The sizes of a session that is fed
// to 32,768 tokens are those of Gemma 3 1B.
func TestWindowMemory(t *testing.T) {
	const window, n = 40, 2000
	s := smallWindows(window)
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), s, Options{})
	a := newSession(t, m, SessionOptions{})
	const page = 256
	slot := int64(2 * 2 * 16 * 2) // K heads of 16 numbers, keys and values, f16
	for i, fed := 0, 0; fed < n; i++ {
		step := min([]int{1, 600, 30, 256, 7}[i%5], n-fed)
		eval(t, a, randomTokens(step, 70, 1), nil, None)
		fed += step
		full := int64((fed+page-1)/page*page) * slot
		// The end of a page at both ends, and a page to be used again.
		most := int64(window+windowSlack+3*page) * slot * 2
		if got := a.Bytes(); got > full+most || got < full {
			t.Fatalf("%d bytes after %d tokens; the layer without a window takes %d, the two others at most %d", got, fed, full,
				most)
		}
	}
	shapes := m.Caches(0)
	if len(shapes) != 2 || shapes[0].Window != window || shapes[0].Layers != 2 || shapes[1].Window != 0 ||
		shapes[1].Layers != 1 {
		t.Errorf("caches %+v", shapes)
	}
	if b, err := shapes[0].Bytes("f16"); err != nil || b != 2*slot {
		t.Errorf("%d bytes for a position, expected %d: %v", b, 2*slot, err)
	}

	// Gemma 3 1B: 26 layers, every sixth without a window of 512; 1 head of 256.
	big := &Model{rt: &Runtime{}, config: Config{Layers: 26, Context: 32768},
		caches: []cache{{heads: 1, headDim: 256, window: 512}, {heads: 1, headDim: 256}}}
	for i := range 26 {
		c := &big.caches[0]
		if i%6 == 5 {
			c = &big.caches[1]
		}
		c.layers = append(c.layers, i)
	}
	b, err := big.NewSession(SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for at := 0; at < 32768; at += 256 {
		if err := b.room(at, 256, false); err != nil {
			t.Fatal(err)
		}
	}
	all, now := int64(26*32768*1024), b.Bytes()
	t.Logf("Gemma 3 1B at 32,768 tokens, f16: %.1f MB of keys and values, %.1f MB if every layer kept the text",
		float64(now)/1e6, float64(all)/1e6)
	if now > 4*32768*1024+22*1024*(512+512+3*256) {
		t.Errorf("%d bytes", now)
	}
}

// TestWindowsOfLongPasses: where weights are read from disk, passes may have more rows than windowed layers keep
// positions for cuts. What they take then is in the plan.
func TestWindowsOfLongPasses(t *testing.T) {
	const n = 2048
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), smallWindows(40), Options{})
	s := newSession(t, m, SessionOptions{})
	if s.PassRows() != PassRows {
		t.Errorf("passes of %d rows", s.PassRows())
	}
	m.memory.Rows = 1024 // as if it were
	if s.PassRows() != 1024 {
		t.Errorf("passes of %d rows, weights are read from disk", s.PassRows())
	}
	eval(t, s, randomTokens(n, m.config.Vocab, 4), nil, None)
	plan, d := Sessions{Count: 1, Tokens: n, KV: DefaultKV}, m.Describe()
	least, most := plan.Bytes(d), plan.Bytes(d)+plan.longer(d, 1024)
	if got := s.Bytes(); got <= least || got > most {
		t.Errorf("%d bytes, more than %d and at most %d are expected", got, least, most)
	}
	if plan.longer(d, PassRows) != 0 {
		t.Error("passes of few rows take more")
	}
}
