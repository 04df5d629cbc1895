package shared

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// inFile calls f with a file, which is written then, or only read.
func inFile(t *testing.T, path string, write bool, f func(*promptcache.File)) {
	t.Helper()
	file, err := promptcache.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if f(file); write {
		if _, err := file.Commit(promptcache.Contents{}); err != nil {
			t.Fatal(err)
		}
	}
}

// saveText saves a text, of which what is not in memory is computed.
func saveText(t *testing.T, c *Scheduler, o SessionOptions, path string, text []int32) {
	t.Helper()
	s, err := c.NewSession(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := len(text)
	for _, part := range [][]int32{text[:n-1], text[n-1:]} {
		if _, err := s.Eval(t.Context(), part, nil, engine.None); err != nil {
			t.Fatal(err)
		}
	}
	inFile(t, path, true, func(f *promptcache.File) {
		if saved, err := s.Save(t.Context(), f); err != nil || saved.Tokens != n {
			t.Fatalf("%d of %d tokens are saved, %v", saved.Tokens, n, err)
		}
	})
}

// What one Scheduler has saved another one loads, with every kind of layer and every storage of keys and values, and
// goes on from with the same bits: from the end of it, and from every length from which the first one would have gone
// on, windows and recurrent layers included (those from the nearest point). Without the file, and under another salt,
// all is computed.
func TestSavedSequencesAreLoaded(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	windows := randommodel.Llama()
	windows.Arch, windows.Layers, windows.Context = "gemma2", 2, 3000
	for i := range windows.Layers {
		b := fmt.Sprintf("blk.%d.", i)
		windows.More = append(windows.More, b+"post_attention_norm.weight", b+"post_ffw_norm.weight")
	}
	windows.KVs = []gguf.KV{{Key: "gemma2.attention.sliding_window", Value: uint32(40)}}
	for i, x := range []struct {
		name string
		m    *engine.Model
		kv   string
		n    int
	}{
		{"attention", smallLlama(t, rt, 1024), "q4_0", 200}, {"attention", smallLlama(t, rt, 1024), "q8_0", 200},
		{"windows", openFile(t, rt, windows.File(t), engine.Options{}), "", 800},
		{"recurrent", openRecipe(t, rt, "qwen35"), "q4_0", 330}, {"recurrent", openRecipe(t, rt, "granitehybrid"), "", 200},
		{"recurrent", openFile(t, rt, randommodel.Qwen4exp{}.File(t), engine.Options{}), "q8_0", 200},
	} {
		what := fmt.Sprintf("%s, KV %q", x.name, x.kv)
		path := filepath.Join(t.TempDir(), "text")
		o := SessionOptions{SessionOptions: engine.SessionOptions{KV: x.kv}, Salt: "s"}
		prompt := randomTokens(x.n, 60, uint64(i))
		c := New(x.m, Options{CacheBytes: 1 << 30})
		answer(t, c, o, prompt)
		text := append(slices.Clone(prompt), prompt[x.n-1]+1, prompt[x.n-1]+2, prompt[x.n-1]+3)
		if s, err := c.NewSession(t.Context(), o); err != nil || s.Reusable(text) < x.n {
			t.Fatalf("%s: %d tokens are kept, %v", what, s.Reusable(text), err)
		} else {
			s.Close()
		}
		before := c.Stats().Tokens
		saveText(t, c, o, path, text)
		if n := c.Stats().Tokens - before; n > 4 {
			t.Errorf("%s: %d tokens are computed to be saved", what, n)
		}
		for _, cut := range []int{0, 1, 9, 100, x.n - 20} {
			other := append(slices.Clone(text[:len(text)-cut]), 7, 8, 9, 10, 11, 12)
			plain := New(x.m, Options{CacheBytes: -1})
			want, _ := answer(t, plain, o, other)
			plain.Close()
			d := New(x.m, Options{CacheBytes: 1 << 30})
			inFile(t, path, false, func(f *promptcache.File) {
				n, read, err := d.Load(t.Context(), f, o, text, len(text))
				if err != nil || n != len(text) || read < int64(n) {
					t.Errorf("%s: %d tokens and %d bytes are loaded, %v", what, n, read, err)
				}
			})
			probe := func(c *Scheduler, salt string) int {
				o := o
				o.Salt = salt
				s, err := c.NewSession(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				return s.Reusable(other)
			}
			journal := 0 // tokens that recurrent layers step over from a point, of which a file has no inputs
			if x.name == "recurrent" {
				journal = 64
			}
			if had, has := probe(c, "s"), probe(d, "s"); has > had || has < had-journal {
				t.Errorf("%s, %d tokens back: %d tokens are of use, %d in the memory that was saved", what, cut, has, had)
			}
			if n := probe(d, "x"); n > 0 {
				t.Errorf("%s: %d tokens of another salt are of use", what, n)
			}
			got, _ := answer(t, d, o, other)
			sameBits(t, fmt.Sprintf("%s, %d tokens back", what, cut), got, want)
			d.Close()
			if n := d.Stats().KVBytes; n > 0 {
				t.Errorf("%s: %d bytes are left", what, n)
			}
		}
		c.Close()
	}
}

// What a draft head has read of a text is saved and loaded with what it has not read yet.
func TestHeadsAreSavedAndLoaded(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := smallLlama(t, rt, 512)
	head := openFile(t, rt, randommodel.Eagle{}.File(t), engine.Options{Target: target})
	const width = 3 * 64
	text := randomTokens(61, 70, 4)
	states := statesFor(t, target, head, text)
	path := filepath.Join(t.TempDir(), "text")
	left := func() ([]int32, []float32) { return text[40:43], states[40*width : 43*width] }
	c := New(head, Options{CacheBytes: 1 << 30})
	s := sharedSession(t, c)
	s.Resume(t.Context(), text[:1], text[1:], left)
	g := engine.Segment{Tokens: text[1:41], States: states[:40*width], FromTarget: true, Logits: engine.Last}
	if _, err := s.EvalSegment(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	s.Close()
	inFile(t, path, true, func(f *promptcache.File) {
		if saved, err := c.SaveKept(t.Context(), f, SessionOptions{}, text); err != nil || saved.Tokens != 40 {
			t.Fatalf("%d tokens are saved, %v", saved.Tokens, err)
		}
	})
	d := New(head, Options{CacheBytes: 1 << 30})
	t.Cleanup(d.Close)
	inFile(t, path, false, func(f *promptcache.File) {
		if n, _, err := d.Load(t.Context(), f, SessionOptions{}, text, 1); err != nil || n != 41 {
			t.Fatalf("%d tokens are loaded, %v", n, err)
		}
	})
	s = sharedSession(t, d)
	next, rest := s.Resume(t.Context(), text[:1], text[1:], left)
	if s.Len() != 40 || !slices.Equal(next, text[40:43]) || !slices.Equal(rest, states[40*width:43*width]) {
		t.Errorf("%d tokens, and %d with %d numbers", s.Len(), next, len(rest))
	}
	s.Close()
	c.Close()
	for _, c := range []*Scheduler{d} {
		if err := c.Forget(SessionOptions{}, text, 0); err != nil {
			t.Fatal(err)
		}
		if n := c.Stats(); n.Prefixes > 0 || n.CacheBytes > 0 {
			t.Errorf("%d sequences, %d bytes are kept of a text that is to be forgotten", n.Prefixes, n.CacheBytes)
		}
	}
}

// Forget gives up what is kept of one text: not what others have in common with it, what goes on behind it, or what
// another salt has.
func TestTextsAreForgotten(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1024)
	c := New(m, Options{CacheBytes: 1 << 30})
	defer c.Close()
	o, salted := SessionOptions{}, SessionOptions{Salt: "s"}
	text := randomTokens(100, 60, 1)
	ask := func(o SessionOptions, tokens []int32) {
		s, err := c.NewSession(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Eval(t.Context(), tokens, nil, engine.Last); err != nil {
			t.Fatal(err)
		}
	}
	has := func(what string, o SessionOptions, tokens []int32, want int) {
		t.Helper()
		s, err := c.NewSession(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if n := s.Reusable(tokens); n != want {
			t.Errorf("%s: %d tokens are kept, want %d", what, n, want)
		}
	}
	forget := func(tokens []int32, rest int) {
		t.Helper()
		if err := c.Forget(o, tokens, rest); err != nil {
			t.Fatal(err)
		}
	}
	branch := append(slices.Clone(text[:60]), randomTokens(20, 9, 2)...)
	for _, tokens := range [][]int32{text, branch} {
		ask(o, tokens)
	}
	ask(salted, text)
	forget(text[:80], 0)
	has("the text goes on", o, text, 100)
	forget(append(slices.Clone(text), 5, 6), 0) // the slot has been told of more than is kept
	has("forgotten", o, text, 60)
	has("what they have in common", o, branch, 80)
	has("another salt", salted, text, 100)
	ask(o, text)
	forget(text, 80)
	has("up to a length", o, text, 80)
	forget(text, 60)
	has("what another has", o, text, 60)
	if n := c.Stats().Prefixes; n != 2 {
		t.Errorf("%d sequences are kept, want the branch and the salted one", n)
	}
	forget(branch, 10)
	has("too short to be of use", o, branch, 0)
	forget(branch, 0)
	if err := c.Forget(salted, text, 0); err != nil {
		t.Fatal(err)
	}
	if n := c.Stats(); n.Prefixes > 0 || n.KVBytes > 0 {
		t.Errorf("%d sequences, %d bytes are left", n.Prefixes, n.KVBytes)
	}
}

// A file is not loaded where nothing is kept, where it has less than is asked for, where memory is short, and under a
// context that has ended; a session without its memory is not saved. Each has its error.
func TestLoadRefuses(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1024)
	path := filepath.Join(t.TempDir(), "text")
	text := randomTokens(600, 60, 1)
	c := New(m, Options{CacheBytes: 1 << 30})
	saveText(t, c, SessionOptions{}, path, text)
	defer c.Close()
	page := pageOf(t, m)
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	longer := append(slices.Clone(text), 1)
	for what, x := range map[string]struct {
		ctx   context.Context
		o     Options
		text  []int32
		least int
		want  error
	}{
		"nothing is kept":   {t.Context(), Options{CacheBytes: -1}, text, 1, ErrNotKept},
		"less":              {t.Context(), Options{CacheBytes: 1 << 30}, longer, 601, nil},
		"memory is short":   {t.Context(), Options{KVBytes: 2 * page, CacheBytes: 1 << 30}, text, 600, engine.ErrKVBudget},
		"little is kept":    {t.Context(), Options{CacheBytes: page}, text, 600, engine.ErrKVBudget},
		"little for all":    {t.Context(), Options{CacheBytes: 1 << 30, Kept: NewKept(page)}, text, 600, engine.ErrKVBudget},
		"context has ended": {cancelled, Options{CacheBytes: 1 << 30}, text, 600, context.Canceled},
	} {
		d := New(m, x.o)
		inFile(t, path, false, func(f *promptcache.File) {
			if n, _, err := d.Load(x.ctx, f, SessionOptions{}, x.text, x.least); n > 0 || !errors.Is(err, x.want) ||
				(err == nil) != (x.want == nil) {
				t.Errorf("%s: %d tokens are loaded, %v", what, n, err)
			}
		})
		d.Close()
		if n := d.Stats().KVBytes; n > 0 {
			t.Errorf("%s: %d bytes are left", what, n)
		}
	}
	s := sharedSession(t, c)
	feed(t, s, 40, engine.Last)
	c.mu.Lock()
	s.drop()
	c.mu.Unlock()
	inFile(t, path, false, func(f *promptcache.File) {
		if _, err := s.Save(t.Context(), f); !errors.Is(err, engine.ErrKVBudget) {
			t.Errorf("a session without memory is saved: %v", err)
		}
	})
	s.Close()
}

// waitingStore is a store of which so many entries are read, and others not before leave is closed.
type waitingStore struct {
	promptcache.Store
	reads *atomic.Int64
	begun chan<- bool
	leave <-chan bool
}

func (s waitingStore) Get(ctx context.Context, key promptcache.Key) ([]byte, error) {
	if s.reads.Add(-1) < 0 {
		select {
		case s.begun <- true:
		default:
		}
		<-s.leave
	}
	return s.Store.Get(ctx, key)
}

// What a sequence that is being read has allocated is what was reserved for it: another one is read beside it where
// there is room for both.
func TestLoadsCountOnce(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1024)
	path := filepath.Join(t.TempDir(), "text")
	text := randomTokens(600, 60, 1)
	c := New(m, Options{CacheBytes: 1 << 30})
	saveText(t, c, SessionOptions{}, path, text)
	c.Close()
	one, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	need := one.Bytes() + one.Need(len(text), 0)
	one.Close()
	d := New(m, Options{KVBytes: 2 * need, CacheBytes: 1 << 30})
	defer d.Close()
	begun, release := make(chan bool, 1), make(chan bool)
	load := func(store promptcache.Store) error {
		n, _, err := d.Load(t.Context(), store, SessionOptions{}, text, len(text))
		if err == nil && n != len(text) {
			err = fmt.Errorf("%d tokens are loaded", n)
		}
		return err
	}
	first, reads := make(chan error, 1), new(atomic.Int64)
	inFile(t, path, false, func(f *promptcache.File) {
		reads.Store(1 << 30)
		if err := load(waitingStore{f, reads, begun, release}); err != nil {
			t.Fatal(err)
		}
		reads.Store(1<<30 - reads.Load() - 1) // all but the last
		if err := d.Forget(SessionOptions{}, text, 0); err != nil {
			t.Fatal(err)
		}
		go func() { first <- load(waitingStore{f, reads, begun, release}) }()
		<-begun
		inFile(t, path, false, func(f *promptcache.File) {
			if err := load(f); err != nil {
				t.Error(err)
			}
		})
		close(release)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
	d.mu.Lock()
	used := d.used.Load()
	if d.reserved != 0 || d.loads != 0 || used == 0 || used > need {
		t.Errorf("%d bytes are reserved by %d, %d of %d for one are in use", d.reserved, d.loads, used, need)
	}
	d.mu.Unlock()
	if err := d.Forget(SessionOptions{}, text, 0); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if used := d.used.Load(); used != 0 {
		t.Errorf("%d bytes are in use of what was given up", used)
	}
}

// What a pass has allocated is what was reserved for it: a sequence is saved meanwhile where there is room for both,
// and nothing that is kept goes for it.
func TestPassesCountOnce(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	for name, m := range map[string]*engine.Model{"llama": SmallModel(t, rt, 3), "qwen35": openRecipe(t, rt, "qwen35")} {
		c := New(m, Options{CacheBytes: 1 << 30})
		vocab := m.Config().Vocab
		text := randomTokens(300, vocab, 1)
		for _, ids := range [][]int32{text, randomTokens(200, vocab, 2)} {
			s := sharedSession(t, c)
			if _, err := s.Eval(t.Context(), ids, nil, engine.None); err != nil {
				t.Fatal(err)
			}
			s.Close()
		}
		s := sharedSession(t, c)
		if _, err := s.Eval(t.Context(), randomTokens(100, vocab, 3), nil, engine.None); err != nil {
			t.Fatal(err)
		}
		var begun, most, told int64
		from, save := c.prefixes.longest(s.lineage, text)
		c.prepare = func(engine.Batch) time.Duration {
			begun = c.used.Load() + c.planned
			c.budget = begun + from.session.SaveBytes(save)
			return 0
		}
		inFile(t, filepath.Join(t.TempDir(), "text"), false, func(f *promptcache.File) {
			c.ctx = looking{c.ctx, func() {
				told = max(told, c.Stats().KVBytes)
				c.mu.Lock()
				most = max(most, c.used.Load()+c.planned+c.reserved)
				c.mu.Unlock()
				if saved, err := c.SaveKept(t.Context(), f, SessionOptions{}, text); err != nil || saved.Tokens != len(text) {
					t.Errorf("%s: %d tokens are saved: %v", name, saved.Tokens, err)
				}
			}}
			if _, err := s.Eval(t.Context(), randomTokens(engine.PassRows, vocab, 4), nil, engine.None); err != nil {
				t.Fatal(err)
			}
		})
		if st := c.Stats(); most != begun || told == 0 || told > st.KVBytes || st.Evictions+st.Evicted > 0 {
			t.Errorf("%s: %d bytes were counted in a pass, %d before it; %d told, %d after it; %d sequences gone", name, most,
				begun, told, st.KVBytes, st.Evictions)
		}
		s.Close()
		c.Close()
		if n := c.Stats().KVBytes; n != 0 {
			t.Errorf("%s: %d bytes are left", name, n)
		}
	}
}

// Memory that a sequence will take which is being read belongs to it: another one for which there is no room beside it
// is refused, and a text that is computed waits, also where it is the only one, and has the memory afterwards.
func TestLoadsReserveTheirMemory(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 1024)
	path := filepath.Join(t.TempDir(), "text")
	text := randomTokens(600, 60, 1)
	c := New(m, Options{CacheBytes: 1 << 30})
	saveText(t, c, SessionOptions{}, path, text)
	c.Close()
	one, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	need := one.Bytes() + one.Need(len(text), 0)
	one.Close()
	budget := need + need/2
	d := New(m, Options{KVBytes: budget, CacheBytes: 1 << 30})
	defer d.Close()
	begun, release := make(chan bool, 1), make(chan bool)
	inFile(t, path, false, func(f *promptcache.File) {
		first := make(chan error, 1)
		go func() {
			store := waitingStore{f, new(atomic.Int64), begun, release}
			n, _, err := d.Load(t.Context(), store, SessionOptions{}, text, len(text))
			if err == nil && n != len(text) {
				err = fmt.Errorf("%d tokens are loaded", n)
			}
			first <- err
		}()
		<-begun
		inFile(t, path, false, func(f *promptcache.File) {
			if n, _, err := d.Load(t.Context(), f, SessionOptions{}, text, len(text)); !errors.Is(err, engine.ErrKVBudget) {
				t.Errorf("there is no room for both: %d tokens, %v", n, err)
			}
		})
		computed := make(chan error, 1)
		s := sharedSession(t, d)
		go func() {
			_, err := s.Eval(t.Context(), randomTokens(500, 60, 2), nil, engine.Last)
			computed <- err
		}()
		select {
		case err := <-computed:
			t.Errorf("a text is computed with the memory of another one, or refused: %v", err)
			computed <- err
		case <-time.After(50 * time.Millisecond):
		}
		close(release)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := <-computed; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reserved != 0 || d.loads != 0 || d.used.Load() > budget {
		t.Errorf("%d bytes are reserved by %d, %d of %d in use", d.reserved, d.loads, d.used.Load(), budget)
	}
}

// heldStore is a store in which nothing is put before leave is closed.
type heldStore struct {
	promptcache.Store
	begun chan<- bool
	leave <-chan bool
}

func (s heldStore) Put(ctx context.Context, key promptcache.Key, data []byte) error {
	select {
	case s.begun <- true:
	default:
	}
	<-s.leave
	return s.Store.Put(ctx, key, data)
}

// A text for which there is no room beside a sequence that is being saved waits until that has ended, also where
// nobody else has memory, as does that of a draft head, which takes no memory from others.
func TestTextsWaitForSaves(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := smallLlama(t, rt, 1024)
	head := openFile(t, rt, randommodel.Eagle{}.File(t), engine.Options{Target: target})
	for name, m := range map[string]*engine.Model{"model": target, "head": head} {
		ids := randomTokens(500, 60, 1)
		segment := func(n int) engine.Segment {
			g := engine.Segment{Tokens: ids[:n], Logits: engine.Last}
			if m.Head() != nil {
				g.States, g.FromTarget = statesFor(t, target, head, ids[:n]), true
			}
			return g
		}
		one := newSession(t, m, engine.SessionOptions{})
		c := New(m, Options{KVBytes: one.Bytes() + one.Need(len(ids), 1), CacheBytes: -1})
		saved := sharedSession(t, c)
		if _, err := saved.EvalSegment(t.Context(), segment(200)); err != nil {
			t.Fatal(name, err)
		}
		inFile(t, filepath.Join(t.TempDir(), "text"), false, func(f *promptcache.File) {
			begun, leave, saving, computed := make(chan bool, 1), make(chan bool), make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := saved.Save(t.Context(), heldStore{f, begun, leave})
				saving <- err
			}()
			<-begun
			saved.Close() // its memory is the copy's alone now
			s := sharedSession(t, c)
			g := segment(len(ids))
			go func() {
				_, err := s.EvalSegment(t.Context(), g)
				computed <- err
			}()
			for waits := false; !waits; {
				select {
				case err := <-computed:
					computed <- err // see below
					waits = true
				default:
					c.mu.Lock()
					waits = c.blocked
					c.mu.Unlock()
					runtime.Gosched()
				}
			}
			close(leave)
			if err := errors.Join(<-saving, <-computed); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			s.Close()
		})
		c.Close()
		if n := c.used.Load(); n != 0 || c.copies != 0 {
			t.Errorf("%s: %d bytes are left, %d copies", name, n, c.copies)
		}
	}
}

// Where kept sequences take all memory, another one than the saved gives up some for the copy.
func TestKeptSequencesGiveUpMemoryForASave(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
	const tokens = 70
	c := New(m, Options{KVBytes: 1 << 30, CacheBytes: 1 << 30})
	defer c.Close()
	texts := [][]int32{randomTokens(tokens, 70, 1), randomTokens(400, 70, 2)}
	for _, text := range texts {
		s := sharedSession(t, c)
		if _, err := s.EvalSegment(t.Context(), engine.Segment{Tokens: text, Logits: engine.Last}); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	c.mu.Lock()
	c.budget = c.used.Load()
	c.mu.Unlock()
	inFile(t, filepath.Join(t.TempDir(), "text"), false, func(f *promptcache.File) {
		if saved, err := c.SaveKept(t.Context(), f, SessionOptions{}, texts[0]); err != nil || saved.Tokens != tokens {
			t.Errorf("%d tokens are saved, %v", saved.Tokens, err)
		}
	})
}

// watchedStore tells of each entry that is put.
type watchedStore struct {
	promptcache.Store
	puts func()
}

func (s watchedStore) Put(ctx context.Context, key promptcache.Key, data []byte) error {
	s.puts()
	return s.Store.Put(ctx, key, data)
}

// What is saved of recurrent layers is their states: a save fits where there is room for these, and takes no more.
func TestSavesTakeNoJournal(t *testing.T) {
	m := openRecipe(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), "qwen35")
	c := New(m, Options{CacheBytes: -1})
	defer c.Close()
	s := sharedSession(t, c)
	ids := randomTokens(150, m.Config().Vocab, 1)
	if _, err := s.Eval(t.Context(), ids, nil, engine.None); err != nil {
		t.Fatal(err)
	}
	used, most := c.used.Load(), int64(0)
	c.mu.Lock()
	c.budget = used + s.session.SaveBytes(len(ids))
	c.mu.Unlock()
	if journal := 128 * m.Describe().Recurrent.Token; c.budget-used > s.session.ForkBytes(len(ids))-journal {
		t.Errorf("a save takes %d bytes, a fork with a journal of %d takes %d", c.budget-used, journal,
			s.session.ForkBytes(len(ids)))
	}
	inFile(t, filepath.Join(t.TempDir(), "text"), false, func(f *promptcache.File) {
		saved, err := s.Save(t.Context(), watchedStore{f, func() { most = max(most, c.used.Load()) }})
		if err != nil || saved.Tokens != len(ids) || most > c.budget || c.used.Load() != used {
			t.Errorf("%d tokens are saved with up to %d bytes of %d, %d are left: %v", saved.Tokens, most, c.budget,
				c.used.Load()-used, err)
		}
	})
}

// What a draft head has not read of its text counts as memory when its sequence is kept, or restored from a store:
// where there is no room for it, nothing stays beyond the budget.
func TestKeptHeadsStayWithinTheBudget(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := smallLlama(t, rt, 512)
	head := openFile(t, rt, randommodel.Eagle{}.File(t), engine.Options{Target: target})
	const width, read, unread = 3 * 64, 250, 50 * (1 + 3*64) * 4
	text := randomTokens(301, 70, 4)
	states := statesFor(t, target, head, text)
	bound := func(c *Scheduler, budget int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.budget = budget
	}
	dir, had := t.TempDir(), int64(0)
	folder, err := promptcache.NewFolder(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, room := range []int64{unread, unread, unread - 1} { // the first time it is seen what the session takes
		c := New(head, Options{CacheBytes: 1 << 30})
		if i == 0 {
			c = kept(t, head, dir, "head")
		}
		s := sharedSession(t, c)
		s.Resume(t.Context(), text[:1], text[1:], func() ([]int32, []float32) {
			return text[read : read+50], states[read*width : (read+50)*width]
		})
		g := engine.Segment{Tokens: text[1 : read+1], States: states[:read*width], FromTarget: true, Logits: engine.Last}
		if _, err := s.EvalSegment(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			bound(c, had+room)
		}
		s.Close()
		c.waitStored()
		n := c.Stats()
		if i == 0 {
			had = n.KVBytes - unread
		}
		if n.KVBytes > had+room || (n.Prefixes == 1) != (room == unread) {
			t.Errorf("%d sequences are kept in %d bytes, room for %d", n.Prefixes, n.KVBytes, had+room)
		}
		c.Close()
		if i == 0 {
			continue
		}
		c = kept(t, head, dir, "head")
		empty, err := head.NewSession(engine.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bound(c, max(empty.Need(read+5, 0), had+room))
		read, _, err := c.Load(t.Context(), folder, SessionOptions{}, text[:read+6], 1) // in as many pages as are stored
		if n := c.Stats(); n.KVBytes > c.budget || (err == nil) != (room == unread) ||
			err != nil && !errors.Is(err, engine.ErrKVBudget) {
			t.Errorf("%d tokens are restored, %d bytes of %d: %v", read, n.KVBytes, c.budget, err)
		}
		c.Close()
	}
}

// What a draft head has not read of its text counts as memory while a copy of it is saved, and not behind that.
func TestSavesCountWhatHeadsHaveNotRead(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := smallLlama(t, rt, 512)
	head := openFile(t, rt, randommodel.Eagle{}.File(t), engine.Options{Target: target})
	const width = 3 * 64
	text := randomTokens(61, 70, 4)
	states := statesFor(t, target, head, text)
	c := New(head, Options{CacheBytes: 1 << 30})
	defer c.Close()
	s := sharedSession(t, c)
	s.Resume(t.Context(), text[:1], text[1:], func() ([]int32, []float32) {
		return text[40:60], states[40*width : 60*width]
	})
	g := engine.Segment{Tokens: text[1:41], States: states[:40*width], FromTarget: true, Logits: engine.Last}
	if _, err := s.EvalSegment(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	copied, unread := s.session.SaveBytes(40), int64(20*(1+width)*4)
	s.Close()
	used, most := c.used.Load(), int64(0)
	for _, room := range []int64{copied + unread, copied + unread - 1} {
		c.mu.Lock()
		c.budget = used + room
		c.mu.Unlock()
		inFile(t, filepath.Join(t.TempDir(), "text"), false, func(f *promptcache.File) {
			saved, err := c.SaveKept(t.Context(), watchedStore{f, func() { most = max(most, c.used.Load()) }},
				SessionOptions{}, text)
			if fits := room == copied+unread; fits != (err == nil) || fits && (saved.Tokens != 40 || most != used+room) ||
				!fits && !errors.Is(err, engine.ErrKVBudget) {
				t.Errorf("room for %d bytes, %d and %d are needed: %d tokens, up to %d bytes, %v", room, copied, unread,
					saved.Tokens, most-used, err)
			}
		})
		if n := c.used.Load(); n != used {
			t.Errorf("%d bytes are left", n-used)
		}
	}
}
