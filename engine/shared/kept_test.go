package shared

import (
	"errors"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
)

// Two models keep no more together than their common bound, and what is worth least of both goes first: what was used
// long ago, and tokens that are less work.
func TestKeptTogether(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	ma, mb := SmallModel(t, rt, 1), SmallModel(t, rt, 1)
	page := pageOf(t, ma)
	pair := func(pages int64, work float64) (a, b *Scheduler) {
		kept := NewKept(pages * page)
		a = New(ma, Options{CacheBytes: 1 << 30, Kept: kept})
		b = New(mb, Options{CacheBytes: 1 << 30, Kept: kept, Work: work})
		t.Cleanup(func() {
			a.Close()
			if len(kept.members) != 1 {
				t.Errorf("%d members after one has left", len(kept.members))
			}
			b.Close()
		})
		return a, b
	}
	within := func(least, most int64, a, b *Scheduler) {
		t.Helper()
		if n := (a.Stats().CacheBytes + b.Stats().CacheBytes) / page; n > most || n < least {
			t.Errorf("%d pages are kept, not %d to %d", n, least, most)
		}
	}
	chat := randomTokens(1200, 70, 1) // whole pages: what is left over is more than half of one

	a, b := pair(12, 0) // by age: what is used stays, what is not goes, whosever it is
	say(t, a, chat)
	for i := range 20 {
		say(t, b, randomTokens(700, 70, uint64(10+i%3)))
		within(min(11, int64(5+3*i)), 12, a, b)
	}
	if n, _ := say(t, b, randomTokens(700, 70, 12)); n < 699 {
		t.Errorf("%d tokens of a text in use are kept", n)
	}
	if a.Stats().Evicted == 0 {
		t.Error("nothing of the model that nobody uses went")
	}

	a, b = pair(12, 8) // the other model's tokens are more work
	say(t, b, chat)
	for i := range 8 {
		say(t, a, randomTokens(700, 70, uint64(10+i)))
	}
	within(11, 12, a, b)
	if n, _ := say(t, b, chat); n != len(chat)-1 {
		t.Errorf("%d tokens of the model of more work are kept", n)
	}
	if a.Stats().Evicted == 0 || b.Stats().Evicted > 0 {
		t.Errorf("%d tokens of less work went, %d of more", a.Stats().Evicted, b.Stats().Evicted)
	}
}

// Sessions of two models that end at once keep the bound, and no lock waits for another.
func TestKeptTogetherAtOnce(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	m := SmallModel(t, rt, 1)
	page := pageOf(t, m)
	kept := NewKept(4 * page)
	var wait sync.WaitGroup
	list := []*Scheduler{New(m, Options{CacheBytes: 3 * page, Kept: kept}), New(m, Options{KVBytes: 6 * page, Kept: kept})}
	for i, c := range list {
		for u := range 3 {
			wait.Go(func() {
				for n := range 6 {
					say(t, c, randomTokens(100+60*n, 70, uint64(10*i+u+n%2)))
				}
			})
		}
	}
	wait.Wait()
	if n := list[0].Stats().CacheBytes + list[1].Stats().CacheBytes; n > 4*page || n == 0 {
		t.Errorf("%d pages are kept of 4", n/page)
	}
	for _, c := range list {
		c.Close()
	}
}

// A draft by the first layers takes no memory of what is worth more than it is: without room it is refused, and what is
// kept stays whole. What has no worth of its own any more goes for it.
func TestExitsEvictNothingWorthMore(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	m := SmallModel(t, rt, 3)
	page := pageOf(t, m)
	ids, chat := randomTokens(300, 70, 1), randomTokens(900, 70, 2)
	draft := func(c *Scheduler) error {
		s := sharedSession(t, c)
		defer s.Close()
		if _, err := s.Eval(t.Context(), ids[:255], nil, engine.Last); err != nil {
			t.Fatal(err)
		}
		e, err := s.Exit(1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Eval(t.Context(), ids[:255], nil, engine.None); err != nil {
			return err
		}
		_, err = e.Eval(t.Context(), ids[255:257], nil, engine.All) // into a page of its own
		return err
	}
	c := New(m, Options{KVBytes: 5 * page})
	say(t, c, chat) // four pages
	before := c.Stats()
	if err := draft(c); !errors.Is(err, engine.ErrKVBudget) {
		t.Errorf("a draft in place of a conversation: %v", err)
	}
	if after := c.Stats(); after.Evicted != before.Evicted {
		t.Errorf("%d tokens went for a draft", after.Evicted-before.Evicted)
	}
	if n, _ := say(t, c, chat); n != len(chat)-1 {
		t.Errorf("%d tokens of the conversation are kept", n)
	}
	c.Close()

	c = New(m, Options{KVBytes: 5 * page})
	say(t, c, chat)
	c.prefixes.floor.raise(1) // much has gone since the conversation was used
	if err := draft(c); err != nil {
		t.Errorf("a draft beside what is old: %v", err)
	}
	if c.Stats().Evicted == 0 {
		t.Error("nothing went")
	}
	c.Close()
}

// What comes from a store is within the common bound at once, not only when the next session ends.
func TestRecalledIsKeptTogether(t *testing.T) {
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1)
	page, dir := pageOf(t, m), t.TempDir()
	prompt := randomTokens(700, 60, 1)
	first := kept(t, m, dir, "m")
	answer(t, first, SessionOptions{}, prompt)
	first.Close()

	bound := NewKept(4 * page)
	folder, err := promptcache.NewFolder(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := New(m, Options{CacheBytes: 1 << 30, Kept: bound})
	defer a.Close()
	b := New(m, Options{CacheBytes: 1 << 30, Kept: bound, Stored: &Stored{Store: folder, Identity: "m"}})
	defer b.Close()
	say(t, a, randomTokens(700, 60, 2))
	s := sharedSession(t, b)
	defer s.Close()
	s.Recall(t.Context(), prompt)
	if b.Stats().Restored == 0 {
		t.Error("nothing comes from the store")
	}
	if n := a.Stats().CacheBytes + b.Stats().CacheBytes; n > 4*page {
		t.Errorf("%d bytes are kept, more than %d", n, 4*page)
	}
}
