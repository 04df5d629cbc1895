package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// fullStore is a store that takes nothing.
type fullStore struct{ promptcache.Store }

var errStoreFull = errors.New("no space left on device")

func (fullStore) Put(context.Context, promptcache.Key, []byte) error { return errStoreFull }

// kept is a Scheduler whose sequences are kept in a folder.
func kept(t *testing.T, m *engine.Model, dir, identity string) *Scheduler {
	t.Helper()
	folder, err := promptcache.NewFolder(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := New(m, Options{CacheBytes: 1 << 30, Stored: &Stored{Store: folder, Identity: identity, Failed: func(err error) {
		t.Error(err)
	}}})
	t.Cleanup(c.Close)
	return c
}

// answer feeds a prompt, and then its last token and some more, each with its logits.
func answer(t *testing.T, c *Scheduler, o SessionOptions, prompt []int32) (logits []float32, reused int) {
	t.Helper()
	s, err := c.NewSession(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := len(prompt)
	s.Recall(t.Context(), prompt[:n-1])
	if _, err := s.Eval(t.Context(), prompt[:n-1], nil, engine.None); err != nil {
		t.Fatal(err)
	}
	for i := range int32(4) {
		l, err := s.Eval(t.Context(), []int32{prompt[n-1] + i}, nil, engine.Last)
		if err != nil {
			t.Fatal(err)
		}
		logits = append(logits, l.Row(0)...)
	}
	return logits, s.Reused()
}

// A Scheduler goes on from what another one before it has stored, with every kind of layer and every storage of keys
// and values: the same bits, and the prompt is computed no more. The answer is stored too. Other salts, other adapters
// and other models share nothing.
func TestSchedulersGoOnFromWhatIsStored(t *testing.T) {
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
		{"recurrent", openRecipe(t, rt, "qwen35"), "q4_0", 200}, {"recurrent", openRecipe(t, rt, "granitehybrid"), "", 200},
	} {
		what := fmt.Sprintf("%s, KV %q", x.name, x.kv)
		dir := t.TempDir()
		o := SessionOptions{SessionOptions: engine.SessionOptions{KV: x.kv}}
		prompt := randomTokens(x.n, 60, uint64(i))
		plain := New(x.m, Options{CacheBytes: -1})
		want, _ := answer(t, plain, o, prompt)
		plain.Close()
		for run := range 2 {
			c := kept(t, x.m, dir, "m")
			got, reused := answer(t, c, o, prompt)
			sameBits(t, what, got, want)
			if reused < run*(x.n-1) {
				t.Errorf("%s: %d of %d tokens are taken from the store", what, reused, x.n)
			}
			c.Close()
			n := c.Stats()
			if run == 0 && n.Stored == 0 || run == 1 && (n.Stored > 0 || n.Restored == 0 || n.KVBytes > 0) {
				t.Errorf("%s, run %d: %+v", what, run, n)
			}
		}
		longer := append(slices.Clone(prompt), prompt[x.n-1]+1, prompt[x.n-1]+2, prompt[x.n-1]+3, 5)
		c := kept(t, x.m, dir, "m")
		if _, reused := answer(t, c, o, longer); reused != x.n+3 {
			t.Errorf("%s: %d tokens of prompt and answer are taken from the store, want %d", what, reused, x.n+3)
		}
		o.Salt = "x"
		got, reused := answer(t, c, o, prompt)
		sameBits(t, what+", another salt", got, want)
		if reused > 0 {
			t.Errorf("%s: %d tokens of another salt are used", what, reused)
		}
		c.Close()
		o.Salt = ""
		if _, reused := answer(t, kept(t, x.m, dir, "n"), o, prompt); reused > 0 {
			t.Errorf("%s: %d tokens of another model are used", what, reused)
		}
		if i == 0 {
			o.Adapters = adapters(t, x.m, 1)
			if _, reused := answer(t, kept(t, x.m, dir, "m"), o, prompt); reused > 0 {
				t.Errorf("%d tokens without adapters are used", reused)
			}
		}
	}
}

// The sequences of draft heads are stored with what they have not read yet, under the token before them, and a head of
// another run goes on from them as from a kept one.
func TestHeadsGoOnFromWhatIsStored(t *testing.T) {
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
			Logits: engine.Last}
		r, err := s.EvalSegment(context.Background(), g)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(r.Logits.Data)
	}
	plain := New(head, Options{})
	want := read(sharedSession(t, plain), 60)
	plain.Close()
	dir := t.TempDir()
	for run := range 4 {
		c := kept(t, head, dir, "head")
		s := sharedSession(t, c)
		before, had := text[:1], 40
		ctx, cancel := context.WithCancel(t.Context())
		switch run {
		case 2:
			before, had = text[1:2], 0
		case 3: // whoever asks has gone
			cancel()
			had = 0
		}
		next, rest := s.Resume(ctx, before, text[1:], func() ([]int32, []float32) {
			return text[40:43], states[40*width : 43*width]
		})
		if run == 0 {
			read(s, 40)
		} else {
			if s.Len() != had || run == 1 &&
				(!slices.Equal(next, text[40:43]) || !slices.Equal(rest, states[40*width:43*width])) {
				t.Errorf("run %d: %d tokens, and %d with %d numbers", run, s.Len(), next, len(rest))
			}
			sameBits(t, "head", read(s, 60), want)
		}
		s.Close()
		c.Close()
		cancel()
	}
}

// A store that is full, or that is asked for more than memory has room for, costs the text nothing but its time: it is
// computed, and who is to be told of errors is.
func TestStoresThatFail(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 2048)
	prompt := randomTokens(700, 60, 5)
	plain := New(m, Options{CacheBytes: -1})
	want, _ := answer(t, plain, SessionOptions{}, prompt)
	plain.Close()
	dir := t.TempDir()
	folder, err := promptcache.NewFolder(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	var failed []error
	full := New(m, Options{CacheBytes: 1 << 30, Stored: &Stored{Store: fullStore{folder}, Identity: "m",
		Failed: func(err error) { failed = append(failed, err) }}})
	got, _ := answer(t, full, SessionOptions{}, prompt)
	sameBits(t, "full", got, want)
	full.Close()
	if len(failed) == 0 || !errors.Is(failed[0], errStoreFull) {
		t.Errorf("told of %v", failed)
	}
	c := kept(t, m, dir, "m")
	answer(t, c, SessionOptions{}, prompt)
	c.Close()
	page := pageOf(t, m)
	tight := New(m, Options{KVBytes: 5 * page, CacheBytes: 5 * page, Stored: &Stored{Store: folder, Identity: "m"}})
	defer tight.Close()
	open := sharedSession(t, tight)
	feed(t, open, 600, engine.Last)
	s := sharedSession(t, tight)
	s.Recall(t.Context(), prompt)
	if n := tight.Stats(); n.Restored > 0 || n.KVBytes > 5*page {
		t.Errorf("%d tokens are restored where there is no room, %d bytes", n.Restored, n.KVBytes)
	}
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	open.Close()
	tight.waitStored()
	s.Recall(cancelled, prompt)
	if n := tight.Stats(); n.Restored > 0 {
		t.Errorf("%d tokens are restored under a context that has ended", n.Restored)
	}
	s.Recall(t.Context(), prompt)
	if n := tight.Stats(); n.Restored != 699 || n.KVBytes != 5*page {
		t.Errorf("%d tokens are restored, %d bytes", n.Restored, n.KVBytes)
	}
	s.Close()
}

// slowStore is a store that is never done.
type slowStore struct {
	promptcache.Store
	began chan struct{}
}

func (s slowStore) Put(ctx context.Context, _ promptcache.Key, _ []byte) error {
	select {
	case s.began <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

// What is being stored, and what waits for that, keeps its memory from nobody who needs it.
func TestStoringGivesWay(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 2048)
	folder, err := promptcache.NewFolder(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	slow := slowStore{folder, make(chan struct{}, 1)}
	page := pageOf(t, m)
	c := New(m, Options{KVBytes: 5 * page, CacheBytes: 5 * page, Stored: &Stored{Store: slow, Identity: "m",
		Failed: func(err error) { t.Error(err) }}})
	for _, n := range []int{300, 290} {
		s := sharedSession(t, c)
		feed(t, s, n, engine.Last)
		s.Close()
	}
	<-slow.began
	s := sharedSession(t, c)
	defer s.Close()
	feed(t, s, 1200, engine.Last)
	if n := c.Stats(); n.KVBytes > 5*page {
		t.Errorf("%d bytes", n.KVBytes)
	}
	c.mu.Lock()
	c.stored.drop()
	c.stored.cancel()
	c.mu.Unlock()
	c.Close()
}

// With PromptsOnly what follows a prompt is not stored.
func TestPromptsAlone(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 2048)
	prompt := randomTokens(200, 60, 5)
	c := kept(t, m, t.TempDir(), "m")
	c.o.Stored.PromptsOnly = true
	answer(t, c, SessionOptions{}, prompt)
	c.Close()
	again := New(m, Options{CacheBytes: 1 << 30, Stored: c.o.Stored})
	defer again.Close()
	s := sharedSession(t, again)
	s.Recall(t.Context(), append(slices.Clone(prompt), prompt[199]+1, prompt[199]+2, prompt[199]+3))
	if n := again.Stats().Restored; n != 199 {
		t.Errorf("%d tokens are stored", n)
	}
}
