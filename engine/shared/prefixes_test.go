package shared

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// answerTokens is how many tokens say generates: the last one is not fed.
const answerTokens = 20

// say has a session of its own answer a prompt as a decoder does, and returns how many of the prompt's tokens were not
// computed, and the whole sequence.
func say(t *testing.T, c *Scheduler, prompt []int32) (reused int, all []int32) {
	t.Helper()
	s := sharedSession(t, c)
	defer s.Close()
	ctx := context.Background()
	n := len(prompt)
	if _, err := s.Eval(ctx, prompt[:n-1], nil, engine.None); err != nil {
		t.Fatal(err)
	}
	all = slices.Clone(prompt)
	for range answerTokens {
		l, err := s.Eval(ctx, all[len(all)-1:], nil, engine.Last)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, greatest(l.Row(0)))
	}
	return s.Reused(), all
}

// pageOf is the bytes of a page of a model's keys and values.
func pageOf(t *testing.T, m *engine.Model) int64 {
	return newSession(t, m, engine.SessionOptions{}).Need(1, 1)
}

// A long conversation outlives many short prompts and requests for several answers, although these need more memory
// than there is: a page that is half empty is worth less than a full one. In time it goes as well, from its end on.
func TestPrefixesAreKeptByWorth(t *testing.T) {
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1)
	page := pageOf(t, m)
	c := New(m, Options{CacheBytes: 24 * page})
	defer c.Close()
	_, conversation := say(t, c, randomTokens(2000, 70, 1))
	for i := range uint64(22) {
		say(t, c, randomTokens(120, 70, 100+i))
	}
	for i := range uint64(5) {
		prompt := randomTokens(120, 70, 200+i)
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() { say(t, c, prompt) })
		}
		wait.Wait()
	}
	st := c.Stats()
	if st.Evictions < 10 || st.CacheBytes > 24*page || st.CacheBytes < 22*page {
		t.Errorf("%d sequences were dropped; %d pages are kept of 24", st.Evictions, st.CacheBytes/page)
	}
	n, conversation := say(t, c, append(conversation, randomTokens(10, 70, 2)...))
	if want := len(conversation) - answerTokens - 10 - 1; n != want {
		t.Errorf("%d tokens of the conversation were not computed, want %d", n, want)
	}
	// Others as long: what was not used goes.
	for i := range uint64(6) {
		say(t, c, randomTokens(2000, 70, 300+i))
	}
	if n, _ := say(t, c, conversation); n >= 2000 {
		t.Errorf("%d tokens are kept for ever", n)
	}
}

// Of a conversation that is larger than the budget the beginning is kept, as many whole pages as there is room for.
func TestPrefixesAreKeptInPart(t *testing.T) {
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1)
	c := New(m, Options{CacheBytes: 5 * pageOf(t, m)})
	defer c.Close()
	_, all := say(t, c, randomTokens(2000, 70, 1))
	if n, _ := say(t, c, all); n != 5*engine.KVPage {
		t.Errorf("%d tokens are kept, want 5 pages", n)
	}
	if st := c.Stats(); st.Prefixes != 1 || st.Evictions != 0 || st.Evicted == 0 {
		t.Errorf("%+v", st)
	}
}

// Answers to one prompt cost what each has of its own, whether they were computed side by side or one by one; and a
// prompt that several computed at the same time is kept once.
func TestPrefixesShareTheirPages(t *testing.T) {
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1)
	page := pageOf(t, m)
	prompt := randomTokens(700, 70, 1)
	for name, o := range map[string]Options{"forks": {CacheBytes: 1 << 30}, "computed twice": {CacheBytes: 1 << 30}} {
		c := New(m, o)
		var list [4]*Session
		for i := range list {
			list[i] = sharedSession(t, c)
			if name == "computed twice" {
				list[i].read = true // nothing to go on from is looked for
			}
			ids := append(slices.Clone(prompt), int32(i), 5)
			if _, err := list[i].Eval(context.Background(), ids, nil, engine.Last); err != nil {
				t.Fatal(err)
			}
			list[i].read = false
		}
		for _, s := range list {
			s.Close()
		}
		if st := c.Stats(); st.Prefixes != 4 || st.CacheBytes != (2+4)*page || st.KVBytes != st.CacheBytes {
			t.Errorf("%s: %d sequences take %d pages, %d are in use; want 2 in common and one of each of 4", name, st.Prefixes,
				st.CacheBytes/page, st.KVBytes/page)
		}
		c.Close()
		if n := c.prefixes.bytes.Load(); n != 0 || len(c.prefixes.roots) != 0 {
			t.Errorf("%s: %d bytes and %d trees are left", name, n, len(c.prefixes.roots))
		}
	}
}

// The tree finds what a search of all that is kept finds, in models that can go back anywhere, in part, or to some
// points; it counts every page once, and stays within its budget.
func TestPrefixesAreFoundWhereTheyAre(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	for name, m := range map[string]*engine.Model{
		"whole": smallLlama(t, rt, 2048), "windows": openRecipe(t, rt, "gemma3"), "recurrent": openRecipe(t, rt, "qwen35"),
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		most := min(m.Config().Context, 1500)
		var texts [][]int32 // many with beginnings in common
		for i := range 12 {
			text := randomTokens(most, m.Config().Vocab, 7)
			copy(text[rng.IntN(most):], randomTokens(most, m.Config().Vocab, uint64(100+i)))
			texts = append(texts, text)
		}
		one := newSession(t, m, engine.SessionOptions{})
		if _, err := one.Eval(context.Background(), texts[0], nil, engine.None); err != nil {
			t.Fatal(err)
		}
		c := New(m, Options{CacheBytes: 3 * one.Bytes() / 2})
		steps := 30
		if testkit.IsLong(t) {
			steps = 200
		}
		hits := 0
		for range steps {
			text := texts[rng.IntN(len(texts))]
			text = text[:1+rng.IntN(len(text))]
			want := 0
			for i, o := range c.prefixes.kept {
				if up := c.prefixes.kept[max(0, i-1)/2]; o.place != i || up.worth > o.worth {
					t.Fatalf("%s: place %d of the heap has %v of place %d, above it is %v", name, i, o.worth, o.place, up.worth)
				}
				want = max(want, o.session.Restorable(engine.Common(o.session.Tokens(), text)))
			}
			from, n := c.prefixes.longest(lineageOf(t, c), text)
			if n != want || n > 0 && from.session.Restorable(engine.Common(from.session.Tokens(), text)) != n {
				t.Fatalf("%s: %d tokens of %d are found, a search finds %d", name, n, len(text), want)
			}
			s := sharedSession(t, c)
			if _, err := s.Eval(context.Background(), text, nil, engine.Last); err != nil {
				t.Fatal(err)
			}
			if s.Reused() > 0 {
				hits++
			}
			s.Close()
			checkTree(t, c)
		}
		if hits == 0 || c.Stats().Evicted == 0 {
			t.Errorf("%s: %d texts went on from others, %+v", name, hits, c.Stats())
		}
		c.Close()
		if n := c.used.Load(); n != 0 {
			t.Errorf("%s: %d bytes are left", name, n)
		}
	}
}

// TestLongPrefixesAreFoundWhereTheyAre: after many more texts.
func TestLongPrefixesAreFoundWhereTheyAre(t *testing.T) {
	testkit.Long(t)
	TestPrefixesAreFoundWhereTheyAre(t)
}

func lineageOf(t *testing.T, c *Scheduler) lineage {
	s := sharedSession(t, c)
	defer s.Close()
	return s.lineage
}

// checkTree looks at the whole tree, where no session is open.
func checkTree(t *testing.T, c *Scheduler) {
	t.Helper()
	p := &c.prefixes
	found := 0
	var walk func(x *node, path []int32)
	walk = func(x *node, path []int32) {
		path = append(path, x.tokens...)
		if x.end != len(path) || x.parent != nil && (len(x.tokens) == 0 || x.age > x.parent.age) ||
			x.kept == nil && len(x.children) == 0 {
			t.Fatalf("a node of %d tokens that ends at %d, %d children", len(x.tokens), x.end, len(x.children))
		}
		if x.kept != nil {
			found++
			if x.kept.at != x || !slices.Equal(x.kept.session.Tokens(), path) {
				t.Fatal("a sequence that is not where it ends")
			}
		}
		for i, y := range x.children {
			if y.parent != x || slices.ContainsFunc(x.children[:i], func(z *node) bool { return z.tokens[0] == y.tokens[0] }) {
				t.Fatal("two children begin alike")
			}
			walk(y, slices.Clone(path))
		}
	}
	for _, root := range p.roots {
		walk(root, nil)
	}
	if n := p.bytes.Load(); found != len(p.kept) || n > p.budget || n != c.used.Load() {
		t.Fatalf("%d sequences, %d in the tree; %d bytes of %d, %d in use", len(p.kept), found, n, p.budget, c.used.Load())
	}
}

// With a budget of memory a request goes on from what it can use, and others' goes before it: also where the budget has
// no room for a copy of the last page.
func TestPrefixesUnderABudget(t *testing.T) {
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1)
	page := pageOf(t, m)
	for _, pages := range []int64{4, 3, 2} {
		c := New(m, Options{KVBytes: pages * page})
		prompt := randomTokens(300, 70, 1)
		for i := range 4 {
			want := 299
			if i == 0 {
				want = 0
			}
			if n, _ := say(t, c, prompt); n != want {
				t.Errorf("%d pages, time %d: %d tokens were not computed, want %d", pages, i, n, want)
			}
		}
		c.Close()
	}
	// Two chats in turn, in as many pages as both need at their end.
	c := New(m, Options{KVBytes: 8 * page})
	defer c.Close()
	chats := [][]int32{randomTokens(300, 70, 1), randomTokens(400, 70, 2)}
	for turn := 0; len(chats[1]) < 4*engine.KVPage-50; turn++ {
		for i := range chats {
			had := len(chats[i]) - 1
			chats[i] = append(chats[i], randomTokens(50, 70, uint64(10*turn+i))...)
			if turn == 0 {
				had = 0
			}
			n := 0
			if n, chats[i] = say(t, c, chats[i]); n != had {
				t.Errorf("chat %d, turn %d: %d tokens were not computed, want %d", i, turn, n, had)
			}
		}
	}
	// Another one that has no room beside them takes what it needs of them, not more.
	before := c.Stats().Evictions
	if say(t, c, randomTokens(700, 70, 9)); c.Stats().KVBytes > 8*page || c.Stats().Evictions-before > 1 {
		t.Errorf("%+v", c.Stats())
	}
}

// A kept sequence that several use at once is theirs in common: none computes what it gives.
func TestPrefixesOfSeveralAtOnce(t *testing.T) {
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1)
	page := pageOf(t, m)
	for _, kept := range []bool{true, false} {
		c := New(m, Options{KVBytes: 8 * page})
		prompt := randomTokens(300, 70, 1)
		if kept {
			say(t, c, prompt)
		}
		before := c.Stats().PromptTokens
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() { say(t, c, prompt) })
		}
		wait.Wait()
		want := int64(299)
		if kept {
			want = 0
		}
		if n := c.Stats().PromptTokens - before; n != want {
			t.Errorf("kept: %v: 4 sessions computed %d tokens of the prompt, want %d", kept, n, want)
		}
		c.Close()
	}
}

// What is used again and again displaces what is worth more and never used: age counts.
func TestPrefixesAge(t *testing.T) {
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1)
	c := New(m, Options{CacheBytes: 12 * pageOf(t, m)})
	defer c.Close()
	say(t, c, randomTokens(2000, 70, 1))
	reused := 0
	for i := range 60 {
		if n, _ := say(t, c, randomTokens(40, 70, uint64(100+i%6))); n > 0 && i >= 54 {
			reused++
		}
	}
	if reused != 6 {
		t.Errorf("%d of 6 prompts in use are kept", reused)
	}
}

// A session that begins beside another one drops nothing of what is kept.
func TestNewSessionsEvictNothing(t *testing.T) {
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1)
	c := New(m, Options{KVBytes: 3 * pageOf(t, m)})
	defer c.Close()
	prompt := randomTokens(300, 70, 1)
	say(t, c, prompt)
	defer sharedSession(t, c).Close()
	if n, _ := say(t, c, prompt); n != 299 {
		t.Errorf("%d tokens were not computed", n)
	}
}

// What is kept has no memory that its tokens do not need.
func TestPrefixesKeepNoEmptyPages(t *testing.T) {
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1)
	c := New(m, Options{CacheBytes: 1 << 30})
	defer c.Close()
	s := sharedSession(t, c)
	feed(t, s, 250, engine.Last)
	feed(t, s, 20, engine.All)
	if err := s.Truncate(250); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if st := c.Stats(); st.CacheBytes != pageOf(t, m) || st.KVBytes != st.CacheBytes {
		t.Errorf("%d bytes are kept, %d in use", st.CacheBytes, st.KVBytes)
	}
}

// A kept sequence of recurrent layers is forked, and stays, where there is room for what the fork takes.
func TestForksOfStatesFit(t *testing.T) {
	m := openRecipe(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), "qwen35")
	c := New(m, Options{CacheBytes: 1 << 30})
	defer c.Close()
	ids := randomTokens(340, m.Config().Vocab, 1)
	say(t, c, ids)
	kept := c.prefixes.kept[0]
	n := kept.session.Restorable(300)
	fork, err := kept.session.ForkAt(n)
	if err != nil || n < leastShared {
		t.Fatal(n, err)
	}
	need := fork.Need(20, 1)
	fork.Close()
	c.mu.Lock()
	c.budget = c.used.Load() + kept.session.ForkBytes(n) + need
	c.mu.Unlock()
	s := sharedSession(t, c)
	text := append(slices.Clone(ids[:n]), randomTokens(20, m.Config().Vocab, 2)...)
	if _, err := s.Eval(t.Context(), text, nil, engine.Last); err != nil {
		t.Fatal(err)
	}
	if st := c.Stats(); s.Reused() != n || st.Evicted > 0 || len(c.prefixes.kept) != 1 || st.KVBytes > c.budget {
		t.Errorf("%d of %d tokens are used again: %+v", s.Reused(), n, st)
	}
}

// A sequence that a longer one begins with is kept beside it where the longer one cannot go back to its end, as with
// windows; else it is part of the longer one.
func TestPrefixesOfWindowsStay(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	recipe := randommodel.Recipes()["gemma3"]
	recipe.Keys["context_length"] = uint32(4000)
	windows := openFile(t, rt, recipe.File(t), engine.Options{})
	for name, m := range map[string]*engine.Model{"whole": smallLlama(t, rt, 4000), "windows": windows} {
		c := New(m, Options{CacheBytes: 1 << 30})
		_, short := say(t, c, randomTokens(300, m.Config().Vocab, 1))
		say(t, c, append(slices.Clone(short), randomTokens(2500, m.Config().Vocab, 2)...))
		had := c.Stats().Prefixes
		n, _ := say(t, c, append(slices.Clone(short), randomTokens(50, m.Config().Vocab, 3)...))
		if want := map[string]int{"whole": 1, "windows": 2}[name]; had != want || n < 300 {
			t.Errorf("%s: %d sequences are kept, want %d; %d tokens of the short one are used", name, had, want, n)
		}
		c.Close()
	}
}

// Tokens that were taken from another sequence count once, also where the Eval that took them is cancelled and comes
// again, and where the session gave up its memory and takes them again.
func TestReusedTokensCountOnce(t *testing.T) {
	m := SmallModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1)
	c := New(m, Options{CacheBytes: 1 << 30})
	defer c.Close()
	text := randomTokens(100, 70, 1)
	first, s := sharedSession(t, c), sharedSession(t, c)
	defer first.Close()
	defer s.Close()
	eval := func(s *Session, tokens []int32) {
		t.Helper()
		if _, err := s.Eval(t.Context(), tokens, nil, engine.None); err != nil {
			t.Fatal(err)
		}
	}
	eval(first, text)

	c.mu.Lock()
	err := s.begin(t.Context(), engine.Segment{Tokens: text, Logits: engine.None})
	c.goOn(s)
	taken := s.reused
	s.complete(engine.Result{}, context.Canceled)
	s.submission.end()
	c.mu.Unlock()
	if err != nil || taken < 90 || s.Reused() != 0 || s.Len() != 0 {
		t.Errorf("%v: %d tokens are taken, and %d of them are left when the Eval is cancelled", err, taken, s.Reused())
	}
	eval(s, text)
	if n := s.Reused(); n != taken {
		t.Errorf("%d tokens are taken, not %d", n, taken)
	}

	c.mu.Lock()
	s.drop()
	c.mu.Unlock()
	hits := c.Stats().PrefixHits
	eval(s, text[:20])
	if n, again := s.Reused(), c.Stats().PrefixHits-hits; n != taken || again == 0 {
		t.Errorf("%d tokens are taken, not %d; %d times again", n, taken, again)
	}
}

// TestPrefixThatSeveralUse: what a kept sequence has in common with open sessions is not worth its memory while any of
// them is open, which nobody would get.
func TestPrefixThatSeveralUse(t *testing.T) {
	const all, common = 600, 500
	c := New(smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1000), Options{KVBytes: 1 << 30})
	defer c.Close()
	ids := randomTokens(all, 70, 1)
	use := func(own int32) *Session {
		t.Helper()
		s := sharedSession(t, c)
		if _, err := s.Eval(t.Context(), append(slices.Clone(ids[:common]), own, 3, own), nil, engine.Last); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := sharedSession(t, c)
	if _, err := s.Eval(t.Context(), ids, nil, engine.Last); err != nil {
		t.Fatal(err)
	}
	s.Close()
	a, b := use((ids[common]+1)%70), use((ids[common]+2)%70)
	a.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.prefixes.kept {
		if o.session.Len() < all {
			c.prefixes.drop(o) // of the session that is closed
			break
		}
	}
	o := c.prefixes.least(nil)
	if n := len(c.prefixes.kept); n != 1 || o.session.Len() != all || b.from != o || o.rest != common {
		t.Errorf("%d kept sequences, of one of which, %d tokens, %d are in use", n, o.session.Len(), o.rest)
	}
}
