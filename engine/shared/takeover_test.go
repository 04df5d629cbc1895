package shared

import (
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/randommodel"
)

// A session that goes on from almost all of a kept sequence takes its memory over, without a copy of a page; others
// that begin alike meanwhile go on from the session, and afterwards the sequence is kept as before. Where a sequence
// cannot be cut back everywhere, as with windows, what is kept stays.
func TestSessionsTakeOverWhatIsKept(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	recipe := randommodel.Recipes()["gemma3"]
	recipe.Keys["context_length"] = uint32(4000)
	small, windows := SmallModel(t, rt, 1), openFile(t, rt, recipe.File(t), engine.Options{})
	for _, x := range []struct {
		name   string
		m      *engine.Model
		length int
		more   int64 // bytes: what is kept packed is unpacked
	}{
		{"whole", small, 400, 0},
		{"whole", small, 300, pageOf(t, small) / 256 * (256 - 310%256)},
		{"windows", windows, 300, 0},
	} {
		name, m, length := x.name, x.m, x.length
		c := New(m, Options{CacheBytes: 1 << 30})
		ctx, ids := t.Context(), randomTokens(length+10, m.Config().Vocab, 1)
		alone := newSession(t, m, engine.SessionOptions{})
		want, err := alone.Eval(ctx, ids[:length], nil, engine.Last)
		if err != nil {
			t.Fatal(err)
		}
		s := sharedSession(t, c)
		if _, err := s.Eval(ctx, ids, nil, engine.Last); err != nil {
			t.Fatal(err)
		}
		s.Close()
		kept := c.Stats()
		begin := func() *Session {
			s := sharedSession(t, c)
			_, err1 := s.Eval(ctx, ids[:length-1], nil, engine.None)
			got, err2 := s.Eval(ctx, ids[length-1:length], nil, engine.Last)
			if err1 != nil || err2 != nil || s.Reused() != length-1 {
				t.Fatalf("%s: %d tokens are used again: %v, %v", name, s.Reused(), err1, err2)
			}
			sameBits(t, name, got.Data, want.Data)
			return s
		}
		s = begin()
		one := c.Stats()
		if took := one.Prefixes == 0 && one.KVBytes == kept.KVBytes+x.more; took != (name == "whole") {
			t.Errorf("%s: %d bytes after %d, %d sequences are kept", name, one.KVBytes, kept.KVBytes, one.Prefixes)
		}
		other := begin()
		other.Close()
		s.Close()
		if n := c.Stats().Prefixes; n != 1 {
			t.Errorf("%s: %d sequences are kept afterwards", name, n)
		}
		begin().Close()
		c.Close()
		if n := c.Stats().KVBytes; n != 0 {
			t.Errorf("%s: %d bytes are left", name, n)
		}
	}
}
