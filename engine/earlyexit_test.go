package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/specgo/spec/internal/randommodel"
)

// A session that exits after n layers computes the model that the first n layers make by themselves,
// in passes of its own and in passes that it shares with deeper sessions.
func TestEarlyExit(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, s := range []randommodel.Shape{randommodel.Llama(), randommodel.GPT2()} {
		s.Layers = 4
		m := openDrawn(t, rt, s, Options{})
		ids := randomTokens(70, s.Vocab, 5)
		for _, n := range []int{0, 1, 3, 4} {
			cut := s
			if n > 0 { // 0 is all of them
				cut.Layers = n
			}
			want := eval(t, newSession(t, openDrawn(t, rt, cut, Options{}), SessionOptions{}), ids, nil, All)
			o := SessionOptions{Layers: n}
			for _, way := range ways {
				sameBits(t, way.name, way.feed(t, m, o, ids), want)
			}
			early := newSession(t, m, o)
			if want := map[bool]int{true: s.Layers, false: n}[n == 0]; early.Layers() != want {
				t.Errorf("%d layers of a session, want %d", early.Layers(), want)
			}
			eval(t, early, ids[:69], nil, None)
			fork, err := early.Fork()
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, "fork", eval(t, fork, ids[69:], nil, Last), want[69*s.Vocab:])
			o.NoCache = true
			sameBits(t, "no cache", eval(t, newSession(t, m, o), ids[:50], nil, Last), want[49*s.Vocab:50*s.Vocab])
		}
	}
}

// A fork that exits after the first layers goes on as a session that has computed these layers alone, and leaves the
// one that it comes from as it was.
func TestForksThatExitEarly(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	models := map[string]*Model{"llama": openDrawn(t, rt, randommodel.Llama(), Options{})}
	for _, name := range hybrids {
		models[name] = openRecipe(t, rt, name)
	}
	for name, m := range models {
		ids := randomTokens(300, m.config.Vocab, 5)
		whole := newSession(t, m, SessionOptions{})
		eval(t, whole, ids[:290], nil, None)
		for layers := 1; layers <= m.config.Layers; layers++ {
			own := newSession(t, m, SessionOptions{Layers: layers})
			want := eval(t, own, ids, nil, Rows(20))
			for _, at := range []int{290, 280, 256} {
				exit, err := whole.ExitAt(at, layers, nil)
				if err != nil {
					t.Fatal(err)
				}
				if exit.Layers() != layers || exit.Bytes() > own.Bytes() {
					t.Errorf("%s, %d layers: %d layers, %d bytes of %d", name, layers, exit.Layers(), exit.Bytes(), own.Bytes())
				}
				what := fmt.Sprintf("%s, %d layers, from %d", name, layers, at)
				sameBits(t, what, eval(t, exit, ids[at:], nil, Rows(10)), want[10*m.config.Vocab:])
				if err := exit.Truncate(285); err != nil {
					t.Fatal(err)
				}
				sameBits(t, what+", again", eval(t, exit, ids[285:], nil, Rows(10)), want[10*m.config.Vocab:])
				exit.Close()
			}
		}
		fresh := newSession(t, m, SessionOptions{})
		sameBits(t, name, eval(t, whole, ids[290:], nil, Rows(10)), eval(t, fresh, ids, nil, Rows(10)))
		for _, layers := range []int{0, -1, m.config.Layers + 1} {
			if _, err := whole.ExitAt(10, layers, nil); !errors.Is(err, ErrUsage) {
				t.Errorf("%s: a fork with %d layers: %v", name, layers, err)
			}
		}
	}
}

// Sessions of several depths share a batch, in any order.
func TestDepthsShareABatch(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m := openDrawn(t, rt, randommodel.Llama(), Options{})
	ids := randomTokens(20, 70, 6)
	want := map[int][]float32{}
	var b Batch
	for _, n := range []int{1, 2, 2, 1, 0, 1} {
		o := SessionOptions{Layers: n}
		want[n] = eval(t, newSession(t, m, o), ids, nil, All)
		b = append(b, Segment{Session: newSession(t, m, o), Tokens: ids, Logits: All})
	}
	if slices.Equal(want[1], want[2]) {
		t.Fatal("the second layer changes nothing: this shows little")
	}
	out := forward(t, m, b)
	for i, g := range b {
		sameBits(t, "shared", out[i].Logits.Data, want[g.Session.Layers()])
	}
}

func TestEarlyExitRefused(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.Llama(), Options{})
	for _, n := range []int{-1, 3} {
		if _, err := m.NewSession(SessionOptions{Layers: n}); !errors.Is(err, ErrUsage) {
			t.Errorf("%d layers of 2: %v", n, err)
		}
	}
}

// The cache of a session that exits early holds its own layers only.
func TestEarlyExitCache(t *testing.T) {
	s := randommodel.Llama()
	s.Layers = 4
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), s, Options{})
	one, all := newSession(t, m, SessionOptions{Layers: 1}), newSession(t, m, SessionOptions{})
	eval(t, one, randomTokens(10, s.Vocab, 1), nil, None)
	eval(t, all, randomTokens(10, s.Vocab, 1), nil, None)
	if 4*one.Bytes() != all.Bytes() {
		t.Errorf("%d bytes for one layer, %d for four", one.Bytes(), all.Bytes())
	}
}
