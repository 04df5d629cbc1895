package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/internal/randommodel"
)

// savedStep is the positions of a part in these tests.
const savedStep = 64

// restored saves the first n tokens of a session, part by part, and restores them in a session of m.
func restored(t *testing.T, s *Session, m *Model, o SessionOptions, n int) *Session {
	t.Helper()
	r := Restored{Tokens: s.Tokens()[:n], Fed: min(n, s.Fed()), Step: savedStep}
	r.KV = func(cache, from, to int) ([]byte, error) { return s.SaveKV(nil, cache, from, to) }
	if m.Describe().Recurrent.Layers > 0 {
		state, err := s.SaveState(nil, n)
		if err != nil {
			t.Fatal(err)
		}
		r.State = state
	}
	f := newSession(t, m, o)
	if err := f.Restore(r); err != nil {
		t.Fatal(err)
	}
	return f
}

// What a session has saved goes on as the session does, bit for bit, with every kind of layer and of cache, also on
// another kernel set; nothing is computed again. A restored session can be saved likewise, and be cut back to all that
// its windows reach.
func TestRestoredSessionsGoOn(t *testing.T) {
	rt, scalar := newRuntime(t, RuntimeOptions{Threads: 1}), newRuntime(t, RuntimeOptions{Threads: 1, SIMD: "scalar"})
	open := func(rt *Runtime, name string) *Model {
		if name == "windows" {
			return openDrawn(t, rt, smallWindows(40), Options{})
		}
		return openRecipe(t, rt, name)
	}
	for i, name := range []string{"llama", "windows", "qwen35", "falcon-h1", "gemma4", "lfm2 windows", "granitehybrid",
		"qwen4exp"} {
		m := open(rt, name)
		v, n := m.config.Vocab, 200
		if name == "windows" {
			n = 830 // so that the windows have given up a page
		}
		o := SessionOptions{KV: []string{"f16", "q8_0", "q4_0", "f32"}[i%4]}
		ids := randomTokens(n+6, v, uint64(i))
		s := newSession(t, m, o)
		eval(t, s, ids[:n-70], nil, None)
		for at := n - 70; at < n; at += 10 {
			eval(t, s, ids[at:at+10], nil, None)
		}
		lengths := s.StatesSaved()
		if len(lengths) == 0 {
			lengths = []int{n - 100, n}
		} else if lengths[len(lengths)-1] != n {
			t.Errorf("%s: states after %d of %d tokens", name, lengths, n)
		}
		want := eval(t, newSession(t, m, o), ids, nil, All)
		for j, at := range lengths[max(0, len(lengths)-2):] {
			what := fmt.Sprintf("%s, %s, %d of %d tokens", name, o.KV, at, n)
			on := m
			if j == 1 {
				on = open(scalar, name)
			}
			f := restored(t, s, on, o, at)
			if f.Len() != at || f.Restorable(at) != at {
				t.Fatalf("%s: %d tokens, %d restorable", what, f.Len(), f.Restorable(at))
			}
			again := restored(t, f, on, o, at)
			for _, f := range []*Session{f, again} {
				got := eval(t, f, ids[at:at+6], nil, All)
				sameBits(t, what, got, want[at*v:(at+6)*v])
				if f.Recomputed() > 0 {
					t.Errorf("%s: %d tokens are computed again", what, f.Recomputed())
				}
			}
			cut := at - at/3
			if err := again.Truncate(cut); err != nil {
				t.Fatal(err)
			}
			got := eval(t, again, ids[cut:cut+20], nil, Last)
			sameBits(t, what+", cut back", got, want[(cut+19)*v:(cut+20)*v])
		}
	}
	if len(asm.Available()) < 2 {
		t.Log("one kernel set")
	}
}

// A session that is restored with earlier states, and with all positions that windows have, can be cut back to all
// lengths that the saved one could be cut back to by them: nothing is computed again, and the bits are the same.
func TestRestoredSessionsGoBack(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for i, name := range []string{"windows", "qwen35", "lfm2 windows", "granitehybrid", "qwen4exp"} {
		var m *Model
		n := 300
		if name == "windows" {
			n, m = 1200, openDrawn(t, rt, smallWindows(40), Options{})
		} else {
			m = openRecipe(t, rt, name)
		}
		v, o := m.config.Vocab, SessionOptions{KV: []string{"f16", "q8_0", "q4_0", "f32"}[i%4]}
		ids := randomTokens(n+2, v, uint64(i))
		s := newSession(t, m, o)
		for at := 0; at < n; at += 30 {
			eval(t, s, ids[at:at+30], nil, None)
		}
		r := Restored{Tokens: ids[:n], Step: savedStep}
		r.KV = func(cache, from, to int) ([]byte, error) { return s.SaveKV(nil, cache, from, to) }
		cuts, err := []int{}, error(nil)
		for _, at := range s.StatesSaved() {
			state, err := s.SaveState(nil, at)
			if err != nil {
				t.Fatal(err)
			}
			if at == n {
				r.State = state
				continue
			}
			r.Earlier, cuts = append(r.Earlier, SavedState{at, state}), append(cuts, at)
		}
		for _, c := range s.SavedCaches() {
			r.First = append(r.First, c.First)
			if c.First > 0 {
				cuts = []int{c.First + c.Window, n - KVPage - 9}
			}
		}
		if len(cuts) < 2 {
			t.Fatalf("%s: lengths %d", name, cuts)
		}
		want := eval(t, newSession(t, m, o), ids, nil, All)
		for _, at := range cuts {
			f := newSession(t, m, o)
			if err = f.Restore(r); err != nil {
				t.Fatal(err)
			}
			if got := f.Restorable(at); got != at {
				t.Errorf("%s: cut to %d of %d tokens, %d are restorable", name, at, n, got)
			}
			if err := f.Truncate(at); err != nil {
				t.Fatal(err)
			}
			sameBits(t, fmt.Sprintf("%s, %d of %d tokens", name, at, n), eval(t, f, ids[at:at+2], nil, All), want[at*v:(at+2)*v])
			if f.Recomputed() > 0 {
				t.Errorf("%s, cut to %d: %d tokens are computed again", name, at, f.Recomputed())
			}
		}
		if r.Earlier == nil {
			continue
		}
		for what, change := range map[string]func(){
			"not ascending": func() { r.Earlier[0].Tokens = n }, "short": func() { r.Earlier[0].Bytes = r.State[1:] },
			"after nothing": func() { r.Earlier[0].Tokens = 0 }, "caches": func() { r.First = []int{} },
		} {
			had, first := r.Earlier[0], r.First
			change()
			f := newSession(t, m, o)
			if err := f.Restore(r); err == nil || f.Len() > 0 || len(f.StatesSaved()) > 0 {
				t.Errorf("%s, earlier states %s: restored (%v), %d tokens", name, what, err, f.Len())
			}
			r.Earlier[0], r.First = had, first
		}
	}
}

// What does not belong to the session, or is damaged in its length, is refused, and leaves it empty and of use.
func TestRestoreRefuses(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	hybrid := openRecipe(t, rt, "qwen35")
	m := openDrawn(t, rt, randommodel.Llama(), Options{})
	ids := randomTokens(40, m.config.Vocab, 1)
	s := newSession(t, m, SessionOptions{})
	want := eval(t, s, ids, nil, Last)
	short := func(cache, from, to int) ([]byte, error) {
		part, err := s.SaveKV(nil, cache, from, to)
		return part[:len(part)-1], err
	}
	whole := func(cache, from, to int) ([]byte, error) { return s.SaveKV(nil, cache, from, to) }
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		m *Model
		r Restored
	}{
		"no tokens":     {m, Restored{KV: whole, Step: 8}},
		"a token":       {m, Restored{Tokens: []int32{int32(m.config.Vocab)}, KV: whole, Step: 8}},
		"no step":       {m, Restored{Tokens: ids, KV: whole}},
		"short":         {m, Restored{Tokens: ids, KV: short, Step: 8}},
		"failing":       {m, Restored{Tokens: ids, KV: func(int, int, int) ([]byte, error) { return nil, failed }, Step: 8}},
		"states":        {m, Restored{Tokens: ids, KV: whole, Step: 8, State: []byte{1}}},
		"no states":     {hybrid, Restored{Tokens: ids, KV: whole, Step: 8}},
		"too fed":       {m, Restored{Tokens: ids, Fed: 41, KV: whole, Step: 8}},
		"too long":      {m, Restored{Tokens: randomTokens(m.config.Context+1, 9, 1), KV: whole, Step: 8}},
		"other model's": {hybrid, Restored{Tokens: ids, KV: whole, Step: 8, State: make([]byte, 8)}},
	} {
		f := newSession(t, c.m, SessionOptions{})
		if err := f.Restore(c.r); err == nil || f.Len() > 0 {
			t.Errorf("%s: restored (%v), %d tokens", name, err, f.Len())
		} else if c.m == m {
			sameBits(t, name, eval(t, f, ids, nil, Last), want)
		}
	}
	if err := s.Restore(Restored{Tokens: ids, KV: whole, Step: 8}); err == nil {
		t.Error("a session with tokens is restored")
	}
	if _, err := s.SaveKV(nil, 0, 0, 41); err == nil {
		t.Error("positions are saved that there are not")
	}
	for _, i := range []int{-1, len(s.SavedCaches())} {
		if _, err := s.SaveKV(nil, i, 0, 1); !errors.Is(err, ErrUsage) {
			t.Errorf("cache %d is saved: %v", i, err)
		}
	}
	if _, err := s.SaveState(nil, 40); err == nil {
		t.Error("states are saved that there are not")
	}
}

// TestRestoreAfterACut: a session that was cut to nothing is restored as a new one is: nothing is left of what it had.
func TestRestoreAfterACut(t *testing.T) {
	for _, name := range []string{"qwen35", "llama"} {
		m := openRecipe(t, newRuntime(t, RuntimeOptions{Threads: 1}), name)
		ids := randomTokens(45, m.config.Vocab, 3)
		s, f := newSession(t, m, SessionOptions{}), newSession(t, m, SessionOptions{})
		eval(t, s, ids[:40], nil, None)
		eval(t, f, ids[5:30], nil, None)
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		eval(t, f, ids[:3], []int32{-1, 0, 0}, All) // a tree that waits
		r := Restored{Tokens: ids[:40], Step: savedStep}
		r.KV = func(cache, from, to int) ([]byte, error) { return s.SaveKV(nil, cache, from, to) }
		if name == "qwen35" {
			state, err := s.SaveState(nil, 40)
			if err != nil {
				t.Fatal(err)
			}
			r.State = state
		}
		if err := f.Restore(r); err != nil || f.Nodes() > 0 {
			t.Fatalf("%s: %v, %d nodes of a tree", name, err, f.Nodes())
		}
		sameBits(t, name, eval(t, f, ids[40:], nil, All), eval(t, s, ids[40:], nil, All))
	}
}
