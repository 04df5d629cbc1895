package promptcache

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/filelock"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// memory is a Store whose Put can fail, as on a full disk.
type memory struct {
	mu      sync.Mutex
	entries map[Key][]byte
	room    int // entries that Put takes; -1: any number
	used    []Key
}

var errFull = errors.New("no space left on device")

func newMemory() *memory { return &memory{entries: map[Key][]byte{}, room: -1} }

func (m *memory) Has(_ context.Context, key Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.entries[key]
	return ok
}

func (m *memory) Get(_ context.Context, key Key) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data, ok := m.entries[key]; ok {
		return data, nil
	}
	return nil, ErrMissing
}

func (m *memory) Put(_ context.Context, key Key, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.room == 0 {
		return errFull
	}
	m.room--
	m.entries[key] = bytes.Clone(data)
	return nil
}

func (m *memory) Used(_ context.Context, keys []Key) { m.used = slices.Clone(keys) }

// open opens a random model.
func open(t *testing.T, file []byte) *engine.Model {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	m, err := engine.New(t.Context(), rt, bytes.NewReader(file), int64(len(file)), engine.Options{Name: "random.gguf"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// windows is a model with windows that reach back 40 tokens, and layers that see everything.
func windows(t *testing.T) *engine.Model {
	s := randommodel.Llama()
	s.Arch, s.Layers, s.Context = "gemma2", 2, 3000
	for i := range s.Layers {
		b := fmt.Sprintf("blk.%d.", i)
		s.More = append(s.More, b+"post_attention_norm.weight", b+"post_ffw_norm.weight")
	}
	s.KVs = []gguf.KV{{Key: "gemma2.attention.sliding_window", Value: uint32(40)}}
	return open(t, s.File(t))
}

func llama(t *testing.T) *engine.Model { return open(t, randommodel.Llama().File(t)) }

// computed is a session that was fed tokens.
func computed(t *testing.T, m *engine.Model, o engine.SessionOptions, tokens []int32) *engine.Session {
	t.Helper()
	s, err := m.NewSession(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := s.Eval(t.Context(), tokens, nil, engine.None); err != nil {
		t.Fatal(err)
	}
	return s
}

func save(t *testing.T, store Store, l Lineage, s *engine.Session) Saved {
	t.Helper()
	saved, err := Save(t.Context(), store, l, s, Unread{})
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

// goesOn restores what a store has of tokens, and compares what is computed from there with what is computed without
// it. It returns how many tokens were restored.
func goesOn(t *testing.T, what string, store Store, l Lineage, m *engine.Model, tokens []int32) (n int) {
	t.Helper()
	o := engine.SessionOptions{KV: l.KV}
	got, err := Load(t.Context(), store, l, m.NewSession, o, tokens, 1)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if got == nil {
		return 0
	}
	defer got.Session.Close()
	n = got.Session.Len()
	if !slices.Equal(got.Session.Tokens(), tokens[:n]) {
		t.Fatalf("%s: other tokens", what)
	}
	rest := append(slices.Clone(tokens[n:]), 7)
	logits, err := got.Session.Eval(t.Context(), rest, nil, engine.Last)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	want, err := computed(t, m, o, append(slices.Clone(tokens), 7)[:len(tokens)]).Eval(t.Context(), []int32{7}, nil,
		engine.Last)
	if err != nil {
		t.Fatal(err)
	}
	testkit.SameBits(t, what, logits.Row(0), want.Row(0))
	return n
}

// A text is restored as far as another one, that was stored, has its tokens: in parts of Step tokens, or to its end.
// What is stored twice takes no more. With windows, and recurrent layers, that is where everything is there that the
// next token looks at. Another lineage restores nothing.
func TestTextsGoOnFromWhatIsStored(t *testing.T) {
	base := Lineage{Model: "m", KV: "f16", Before: -1}
	for name, m := range map[string]*engine.Model{"llama": llama(t), "windows": windows(t),
		"qwen35":   open(t, randommodel.Recipes()["qwen35"].File(t)),
		"qwen4exp": open(t, randommodel.Qwen4exp{}.File(t))} {
		store := newMemory()
		size := 300
		if name == "windows" {
			size = 900
		}
		text := randommodel.Tokens(size, m.Config().Vocab, 3)
		s := computed(t, m, engine.SessionOptions{KV: "f16"}, text[:130])
		first := save(t, store, base, s) // as at the end of a prompt
		if _, err := s.Eval(t.Context(), text[130:], nil, engine.None); err != nil {
			t.Fatal(err)
		}
		second := save(t, store, base, s)
		if first.Tokens != 130 || second.Tokens != size || first.Bytes == 0 || second.Bytes == 0 {
			t.Errorf("%s: %+v, %+v", name, first, second)
		}
		if again := save(t, store, base, s); again.Bytes != 0 || again.Tokens != size {
			t.Errorf("%s: stored again: %+v", name, again)
		}
		other := append(slices.Clone(text[:200]), text[:40]...)
		other[199]++
		for what, c := range map[string]struct {
			tokens []int32
			n      int
		}{
			"all": {text, size}, "longer": {append(slices.Clone(text), 9), size}, "the prompt": {text[:130], 130},
			"between": {text[:180], 130}, "nothing": {text[1:], 0}, "short": {text[:50], 0},
			"parts":   {text[:128], map[string]int{"llama": 128, "windows": 128, "qwen35": 66, "qwen4exp": 66}[name]},
			"another": {other, map[string]int{"llama": 192, "windows": 130, "qwen35": 130, "qwen4exp": 130}[name]},
		} {
			what = name + ", " + what
			if n := goesOn(t, what, store, base, m, c.tokens); n != c.n {
				t.Errorf("%s: %d tokens are restored, want %d", what, n, c.n)
			}
		}
		for what, change := range map[string]func(l *Lineage){
			"model": func(l *Lineage) { l.Model = "n" }, "salt": func(l *Lineage) { l.Salt = "x" },
			"KV": func(l *Lineage) { l.KV = "q8_0" }, "adapters": func(l *Lineage) { l.Adapters = "x" },
			"layers": func(l *Lineage) { l.Layers = 1 }, "before": func(l *Lineage) { l.Before = 3 },
			"read": func(l *Lineage) { l.Read = true },
		} {
			l := base
			change(&l)
			if n := goesOn(t, name+", "+what, store, l, m, text); n > 0 {
				t.Errorf("%s: %d tokens of another %s are restored", name, n, what)
			}
		}
		if l := (Lineage{Model: "m", Before: -1}); l.root(s.SavedCaches()) != base.root(s.SavedCaches()) {
			t.Error("the usual KV has another key by its name")
		}
		for i := 1; i < len(store.used); i++ {
			if store.used[0] == store.used[i] {
				t.Error("an entry is used twice")
			}
		}
	}
}

// The bytes of entries, and their keys, are the same on every machine and with every kernel set: a folder that one has
// written serves all. CI runs this on emulated processors too. A new version of the numeric rules may change the sum.
func TestEntriesAreTheSameEverywhere(t *testing.T) {
	all := newMemory()
	for i, file := range [][]byte{randommodel.Llama().File(t), randommodel.Recipes()["qwen35"].File(t),
		randommodel.Recipes()["gemma3"].File(t)} {
		m := open(t, file)
		o := engine.SessionOptions{KV: []string{"q8_0", "f16", "f32"}[i]}
		s := computed(t, m, o, randommodel.Tokens(150, m.Config().Vocab, 3))
		save(t, all, LineageOf(fmt.Sprint("model ", i), o, ""), s)
	}
	var keys []Key
	for key := range all.entries {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	for _, key := range keys {
		h.Write(entryHead(key, all.entries[key]))
	}
	const want = "9097485b110550cbf3f8f3a1b597fef8a17255827293258408d1dcd0e8f1fb2e"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("%d entries have the sum %s, want %s", len(keys), got, want)
	}
}

// Whatever has become of the files, what is restored is right: a flipped bit anywhere, a file cut short or empty, one
// with the bytes of another, or without its mark. The damaged file is gone, and is written again.
func TestDamagedEntriesAreNotUsed(t *testing.T) {
	m := llama(t)
	l := Lineage{Model: "m", Before: -1}
	text := randommodel.Tokens(150, m.Config().Vocab, 3)
	s := computed(t, m, engine.SessionOptions{}, text)
	dir := t.TempDir()
	folder, err := NewFolder(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	total := save(t, folder, l, s).Bytes
	list, err := folder.list()
	if err != nil || len(list) != 4 { // two parts, the rest, and its mark
		t.Fatalf("%d entries, %v", len(list), err)
	}
	for i, e := range list {
		whole, err := os.ReadFile(e.path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := map[string][]byte{"empty": nil, "half": whole[:len(whole)/2], "long": append(slices.Clone(whole), 0)}
		for _, at := range []int{0, 9, 41, 50, headBytes, len(whole) - 1, headBytes + (len(whole)-headBytes)/2} {
			flipped := slices.Clone(whole)
			flipped[at] ^= 1 << (at % 8)
			damaged[fmt.Sprint("bit in byte ", at)] = flipped
		}
		if damaged["another's"], err = os.ReadFile(list[(i+1)%len(list)].path); err != nil {
			t.Fatal(err)
		}
		for what, data := range damaged {
			if err := os.WriteFile(e.path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			n := goesOn(t, what, folder, l, m, text)
			if n >= 150 || n%Step != 0 {
				t.Errorf("entry %d, %s: %d tokens are restored", i, what, n)
			}
			if _, err := os.Stat(e.path); err == nil && what != "empty" && what != "half" {
				t.Errorf("entry %d, %s: the damaged file stays", i, what)
			}
			save(t, folder, l, s)
			if n := goesOn(t, what+", again", folder, l, m, text); n != 150 {
				t.Errorf("entry %d, %s: %d tokens are restored of what was stored again", i, what, n)
			}
		}
	}
	if _, bytes, err := folder.Entries(); err != nil || bytes < total {
		t.Errorf("%d bytes of %d, %v", bytes, total, err)
	}
}

// An entry of another size than its length and model have counts as damaged: no error comes of it, and what is before
// it is of use.
func TestEntriesOfAnotherSizeAreNotUsed(t *testing.T) {
	for name, m := range map[string]*engine.Model{"windows": windows(t),
		"qwen35": open(t, randommodel.Recipes()["qwen35"].File(t))} {
		l, store := Lineage{Model: "m", Before: -1}, newMemory()
		text := randommodel.Tokens(458, m.Config().Vocab, 3)
		for _, n := range []int{130, len(text) - 5, len(text)} {
			save(t, store, l, computed(t, m, engine.SessionOptions{}, text[:n]))
		}
		for key, data := range store.entries {
			for _, other := range [][]byte{data[:len(data)-4], append(slices.Clone(data), 0, 0, 0, 0), {}} {
				store.entries[key] = other
				for what, load := range map[string]func(context.Context, Store, Lineage,
					func(engine.SessionOptions) (*engine.Session, error), engine.SessionOptions, []int32, int) (*Loaded, error){
					"Load": Load, "LoadPoints": LoadPoints} {
					got, err := load(t.Context(), store, l, m.NewSession, engine.SessionOptions{}, text, 1)
					if err != nil {
						t.Errorf("%s, %s, %d bytes of %d: %v", name, what, len(other), len(data), err)
					} else if got != nil {
						got.Session.Close()
					}
				}
			}
			store.entries[key] = data
		}
	}
}

// failing is a file that takes so many bytes.
type failing struct {
	io.WriteCloser
	room int
}

func (f *failing) Write(b []byte) (int, error) {
	if len(b) > f.room {
		n, _ := f.WriteCloser.Write(b[:f.room])
		f.room = 0
		return n, errFull
	}
	f.room -= len(b)
	return f.WriteCloser.Write(b)
}

// On a full disk Save fails, nothing half-written is left, and what was written before is of use. What a killed process
// leaves is no entry, and is deleted in time.
func TestFullDisksAndKilledWriters(t *testing.T) {
	m := llama(t)
	l := Lineage{Model: "m", Before: -1}
	text := randommodel.Tokens(150, m.Config().Vocab, 3)
	s := computed(t, m, engine.SessionOptions{}, text)
	for room := range 5 {
		store := newMemory()
		store.room = room
		_, err := Save(t.Context(), store, l, s, Unread{})
		if (err == nil) != (room == 4) || err != nil && !errors.Is(err, errFull) {
			t.Fatalf("room for %d entries: %v", room, err)
		}
		if n, want := goesOn(t, "full", store, l, m, text), []int{0, 64, 128, 128, 150}[room]; n != want {
			t.Errorf("room for %d entries: %d tokens are restored, want %d", room, n, want)
		}
	}
	dir := t.TempDir()
	folder, err := NewFolder(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 10, headBytes, headBytes + 100} {
		folder.create = func(dir string) (io.WriteCloser, string, error) {
			f, name, err := createFile(dir)
			return &failing{f, room}, name, err
		}
		if _, err := Save(t.Context(), folder, l, s, Unread{}); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
	folder.create = createFile
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if hidden, _ := filepath.Glob(filepath.Join(dir, "*", unfinished+"*")); err != nil || len(files)+len(hidden) > 0 {
		t.Errorf("left behind: %q %q %v", files, hidden, err)
	}
	save(t, folder, l, s)
	list, err := folder.list()
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(filepath.Dir(list[0].path), unfinished+"123")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, age := range []time.Duration{0, 2 * abandoned} {
		old := time.Now().Add(-age)
		if err := os.Chtimes(left, old, old); err != nil {
			t.Fatal(err)
		}
		n, _, err := folder.Entries()
		_, gone := os.Stat(left)
		if err != nil || n != len(list) || (gone == nil) != (age == 0) {
			t.Errorf("age %v: %d entries, %v; %v", age, n, err, gone)
		}
	}
}

// The folder stays within its bound, and what was used longest ago goes, the end of a text before its beginning,
// however many processes write to it. Names that are not entries' stay.
func TestFoldersAreBounded(t *testing.T) {
	dir := t.TempDir()
	keep := filepath.Join(dir, "aa", "notes.txt")
	if err := os.MkdirAll(filepath.Dir(keep), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keep, make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	const size, limit = 1000, 20 * 1000
	var folders []*Folder
	for range 2 {
		f, err := NewFolder(dir, limit)
		if err != nil {
			t.Fatal(err)
		}
		folders = append(folders, f)
	}
	key := func(i int) Key { return Key{}.of('t', i) }
	old := []Key{key(0), key(1)}
	for i := range 60 {
		data := bytes.Repeat([]byte{byte(i)}, size-headBytes)
		if err := folders[i%2].Put(t.Context(), key(i), data); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-1000) * time.Second)
		if err := os.Chtimes(folders[0].path(key(i)), at, at); err != nil {
			t.Fatal(err)
		}
		if i%5 == 0 {
			folders[i%2].Used(t.Context(), old)
		}
		if _, n, err := folders[0].Entries(); err != nil || n > limit+limit/lookAfter {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	for i, want := range map[int]bool{0: true, 1: true, 2: false, 30: false, 58: true, 59: true} {
		if folders[0].Has(t.Context(), key(i)) != want {
			t.Errorf("entry %d is there: %t", i, !want)
		}
	}
	used := []Key{key(59), key(0), key(1)}
	folders[0].Used(t.Context(), used)
	list, err := folders[0].list()
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]time.Time{}
	for _, e := range list {
		times[e.path] = e.used
	}
	if a, b, c := times[folders[0].path(used[0])], times[folders[0].path(used[1])],
		times[folders[0].path(used[2])]; !a.After(b) || !b.After(c) {
		t.Errorf("the first of what is used is not the last to go: %v, %v, %v", a, b, c)
	}
	if err := folders[0].Put(t.Context(), key(99), make([]byte, limit)); err == nil {
		t.Error("an entry larger than the bound is stored")
	}
	if n, _, err := folders[0].Clear(); err != nil || n != len(list) {
		t.Errorf("%d of %d entries are deleted, %v", n, len(list), err)
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
	}
	if _, err := NewFolder(keep, 0); err == nil {
		t.Error("a file is a folder")
	}
}

// A save that ends early, wherever that is, says how much of the text is loaded, as does one that has saved no state
// after the last tokens.
func TestSavedTokensAreLoaded(t *testing.T) {
	l := Lineage{Model: "m", KV: "f16", Before: -1}
	for name, x := range map[string]struct {
		m     *engine.Model
		parts []int // fed one after the other; the last one's logits are wanted
	}{
		"llama": {llama(t), []int{130, 20}}, "windows": {windows(t), []int{900, 12}},
		"windows, whole parts": {windows(t), []int{830, 2}},
		"qwen35":               {open(t, randommodel.Recipes()["qwen35"].File(t)), []int{130, 64, 60}},
		"qwen35, a draft":      {open(t, randommodel.Recipes()["qwen35"].File(t)), []int{126, 1, 5}},
	} {
		s, err := x.m.NewSession(engine.SessionOptions{KV: "f16"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for i, n := range x.parts {
			want := engine.None
			if i == len(x.parts)-1 {
				want = engine.All
			}
			text := randommodel.Tokens(n, x.m.Config().Vocab, uint64(i))
			if _, err := s.Eval(t.Context(), text, nil, want); err != nil {
				t.Fatal(err)
			}
		}
		for _, before := range []int{0, 3} {
			for room, ended := 0, false; !ended; room++ {
				store := newMemory()
				if store.room = before; before > 0 {
					if _, err := Save(t.Context(), store, l, s, Unread{}); !errors.Is(err, errFull) {
						t.Fatal(err)
					}
				}
				store.room = room
				saved, err := Save(t.Context(), store, l, s, Unread{})
				if ended = err == nil; !ended && !errors.Is(err, errFull) {
					t.Fatal(err)
				}
				loaded, err := Load(t.Context(), store, l, x.m.NewSession, engine.SessionOptions{KV: "f16"}, s.Tokens(), 1)
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				if loaded != nil {
					n = loaded.Session.Len()
					loaded.Session.Close()
				}
				if saved.Tokens != n {
					t.Errorf("%s, %d entries after %d: %d tokens are saved, %d are loaded", name, room, before, saved.Tokens, n)
				}
			}
		}
	}
}

// Of a text that is larger than the bound of a folder the beginning is kept, also where it is stored again and again.
func TestABoundKeepsBeginnings(t *testing.T) {
	m := llama(t)
	l := Lineage{Model: "m", Before: -1}
	text := randommodel.Tokens(500, m.Config().Vocab, 3)
	s := computed(t, m, engine.SessionOptions{}, text)
	all := save(t, newMemory(), l, s).Bytes
	folder, err := NewFolder(t.TempDir(), all/4*3)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		save(t, folder, l, s)
		if n := goesOn(t, "a part", folder, l, m, text); n < 3*Step || n > 500/4*3 {
			t.Errorf("stored %d times: %d tokens are restored", i+1, n)
		}
	}
}

// What a restored text was found by is of use, too: the mark of its end.
func TestMarksAreUsed(t *testing.T) {
	m := llama(t)
	l := Lineage{Model: "m", Before: -1}
	text := randommodel.Tokens(150, m.Config().Vocab, 3)
	s := computed(t, m, engine.SessionOptions{}, text)
	store := newMemory()
	save(t, store, l, s)
	store.used = nil
	if n := goesOn(t, "text", store, l, m, text); n != 150 {
		t.Fatalf("%d tokens are restored", n)
	}
	keys := l.text(s.SavedCaches(), text).keys
	if len(store.used) != 4 || !slices.Contains(store.used, keys[2].of(kindMarks, 0)) {
		t.Errorf("used: %v", store.used)
	}
}

// Entries whose times are to come, of a clock that was wrong, go first: they would keep all others out for years.
func TestTimesToCome(t *testing.T) {
	const size, limit = 1000, 10 * 1000
	folder, err := NewFolder(t.TempDir(), limit)
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) Key { return Key{}.of('t', i) }
	for i := range 30 {
		if err := folder.Put(t.Context(), key(i), make([]byte, size-headBytes)); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-100) * time.Second)
		if i < 9 {
			at = at.AddDate(10, 0, 0)
		}
		if err := os.Chtimes(folder.path(key(i)), at, at); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range map[int]bool{0: false, 8: false, 28: true, 29: true} {
		if folder.Has(t.Context(), key(i)) != want {
			t.Errorf("entry %d is there: %t", i, !want)
		}
	}
}

// A file that seems to be larger than any entry can be, as a sparse one does, is damaged: nothing reads it.
func TestEntriesThatSeemTooLarge(t *testing.T) {
	const seems = 1 << 42
	small, large := Key{1}, Key{2}
	grow := func(path string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		head := binary.LittleEndian.AppendUint64(append([]byte(entryMagic), large[:]...), seems)
		if _, err := f.Write(append(head, make([]byte, len(large))...)); err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err == nil {
			err = f.Truncate(info.Size() + seems)
		}
		if err != nil {
			t.Skip(err) // no sparse files here
		}
	}
	path := filepath.Join(t.TempDir(), "file")
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Put(t.Context(), small, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Commit(Contents{}); err != nil {
		t.Fatal(err)
	}
	grow(path)
	if f, err = OpenFile(path); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	folder, err := NewFolder(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Put(t.Context(), small, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(folder.path(large)), 0o700); err != nil {
		t.Fatal(err)
	}
	grow(folder.path(large))
	for _, store := range []Store{f, folder} {
		if data, err := store.Get(t.Context(), small); err != nil || string(data) != "x" {
			t.Errorf("%T: %q, %v", store, data, err)
		}
		if data, err := store.Get(t.Context(), large); !errors.Is(err, ErrMissing) {
			t.Errorf("%T: %d bytes, %v", store, len(data), err)
		}
	}
	if folder.Has(t.Context(), large) {
		t.Error("the damaged file stays")
	}
}

// A file keeps what was put and what of its old entries is of use, with its contents; until Commit it stays as it was.
// A damaged one gives what is intact of it, and a file of another kind is refused by name.
func TestFilesKeepOneSequence(t *testing.T) {
	m := llama(t)
	l := Lineage{Model: "m", Before: -1}
	path := filepath.Join(t.TempDir(), "prompt.cache")
	text := randommodel.Tokens(150, m.Config().Vocab, 3)
	s := computed(t, m, engine.SessionOptions{}, text[:100])
	opened := func() *File {
		t.Helper()
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	f := opened()
	save(t, f, l, s)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(left) > 0 {
		t.Fatalf("left behind: %q, %v", left, err)
	}
	sizes := []int64{}
	for i, n := range []int{100, 150, 150} {
		f = opened()
		if want := []int{0, 100, 150}[i]; goesOn(t, "file", f, l, m, text[:n]) != want || len(f.Contents().Tokens) != want {
			t.Errorf("run %d: %d tokens, want %d", i, len(f.Contents().Tokens), want)
		}
		save(t, f, l, computed(t, m, engine.SessionOptions{}, text[:n]))
		size, err := f.Commit(Contents{l, text[:n]})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != size {
			t.Fatalf("%d bytes, %v", size, err)
		}
		sizes = append(sizes, size)
	}
	if sizes[1] <= sizes[0] || sizes[2] > sizes[1] {
		t.Errorf("sizes %d", sizes)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, renewed := range []bool{false, true} { // a beginning of the text: nothing is put
		f = opened()
		if save(t, f, l, computed(t, m, engine.SessionOptions{}, text[:128])); renewed {
			f.Renew()
		}
		if _, err := f.Commit(Contents{l, text[:128]}); err != nil {
			t.Fatal(err)
		}
		if n, want := len(opened().Contents().Tokens), map[bool]int{false: 150, true: 128}[renewed]; n != want {
			t.Errorf("renewed %t: contents of %d tokens, want %d", renewed, n, want)
		}
	}
	for i := range 24 {
		data := slices.Clone(whole)
		if at := len(data) * i / 24; i%2 == 0 && i > 0 {
			data = data[:at]
		} else {
			data[max(at, len(entryMagic))] ^= 4
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		f := opened()
		goesOn(t, fmt.Sprint("damage ", i), f, l, m, text)
		f.Close()
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // the disk is full when entries are put, or when what is left of them is written
		f = opened()
		if save(t, f, l, computed(t, m, engine.SessionOptions{}, append(slices.Clone(text), 5, 7))); i == 0 {
			if err := f.w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		full := bufio.NewWriterSize(&failing{f.next, 10 * i}, 16)
		if f.w = full; i == 0 {
			if _, err := Save(t.Context(), f, l, computed(t, m, engine.SessionOptions{}, text[1:]), Unread{}); !errors.Is(err,
				errFull) {
				t.Errorf("put on a full disk: %v", err)
			}
		}
		if _, err := f.Commit(Contents{l, text}); !errors.Is(err, errFull) {
			t.Errorf("committed on a full disk: %v", err)
		}
		data, err := os.ReadFile(path)
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
		if err != nil || !bytes.Equal(data, whole) || left != nil {
			t.Errorf("a full disk has changed the file, or left %q behind: %v", left, err)
		}
	}
	f = opened()
	to := newMemory()
	if _, err := f.CopyTo(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if n := goesOn(t, "copied", to, l, m, text); n != 150 {
		t.Errorf("%d tokens of a copy", n)
	}
	if err := os.WriteFile(path,
		[]byte("GGUF, or something else that is no cache at all, of more than a head's bytes …………………………"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(path); !errors.Is(err, ErrNotCache) {
		t.Errorf("another file: %v", err)
	}
	if _, err := OpenFile(filepath.Dir(path)); err == nil {
		t.Error("a folder is a file")
	}
}

// What a killed process has left of a file goes when the file is written again; what another one is writing stays, and
// so do other files. A link to the file stays one.
func TestFilesLeaveNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "prompt.cache"), filepath.Join(dir, "link")
	old := time.Now().Add(-time.Hour)
	for name, stays := range map[string]bool{".prompt.cache-17": false, ".prompt.cache-18": filelock.Works,
		".prompt.cache-x1": true, ".prompt.cache-": true, ".other-17": true} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if stays {
			if _, err := filelock.Lock(f); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(f.Name(), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("prompt.cache", link); err != nil {
		t.Skip(err)
	}
	f, err := OpenFile(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Put(t.Context(), Key{1}, []byte("data")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Commit(Contents{}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
	var left []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{".other-17", ".prompt.cache-", ".prompt.cache-18", ".prompt.cache-x1", "link", "prompt.cache"}
	if !filelock.Works {
		want = slices.Delete(want, 2, 3)
	}
	if !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}

// A file's fingerprint is read once, and again when another file has its name, even one of the same size and time.
func TestFingerprintsAreKeptWhileTheFileStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	first, second := randommodel.Llama(), randommodel.Llama()
	second.Seed = 9
	at := time.Now().Add(-time.Hour)
	of := func() engine.Fingerprint {
		t.Helper()
		f, err := gguf.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want, err := engine.ReadFingerprint(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := Fingerprint(t.Context(), dir, f); err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		return want
	}
	put := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path+".new", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path+".new", at, at); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	a, b := first.File(t), second.File(t)
	if len(a) != len(b) || bytes.Equal(a, b) {
		t.Fatal("the files are to differ in their bytes alone")
	}
	put(a)
	one := of()
	kept, err := filepath.Glob(filepath.Join(dir, fingerprintFolder, "*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%q, %v", kept, err)
	}
	// What is kept is what is answered: a wrong one shows that the file was not read.
	data, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	wrong := bytes.Replace(data, []byte(one.Model[:8]), []byte("00000000"), 1)
	if err := os.WriteFile(kept[0], wrong, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Fingerprint(t.Context(), dir, f); err != nil || got.Model[:8] != "00000000" {
		t.Errorf("the file is read again: %+v, %v", got, err)
	}
	older := bytes.Replace(wrong, []byte(`"version":`), []byte(`"before":`), 1)
	if err := os.WriteFile(kept[0], older, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Fingerprint(t.Context(), dir, f); err != nil || got != one {
		t.Errorf("one that is made of something else is taken: %+v, %v", got, err)
	}
	f.Close()
	put(b)
	if of() == one {
		t.Error("the fingerprint of the file before")
	}
	// A file that gets the name while another is open, of its size and older than it, is not taken for that.
	if f, err = gguf.OpenFile(path); err != nil {
		t.Fatal(err)
	}
	at = at.Add(-time.Hour)
	put(a)
	if _, err := Fingerprint(t.Context(), dir, f); err != nil {
		t.Error(err)
	}
	f.Close()
	if of() != one {
		t.Error("the fingerprint of the file that was open")
	}
	for _, text := range []string{"", "{", `{"files":[]}`} {
		if err := os.WriteFile(kept[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		of()
	}
}

// What a head has not read yet comes back; bytes that are none of it are nothing.
func TestUnreadComesBack(t *testing.T) {
	u := Unread{[]int32{5, -1}, []float32{1, 2, 3, 4.5}}
	data := u.append(nil)
	if got := unreadOf(data); !slices.Equal(got.Tokens, u.Tokens) || !slices.Equal(got.States, u.States) {
		t.Errorf("%+v", got)
	}
	for n := range len(data) {
		if got := unreadOf(data[:n]); len(got.Tokens) > 0 && len(got.States)%len(got.Tokens) != 0 {
			t.Errorf("%d bytes: %+v", n, got)
		}
	}
}

// States that a head has not read are its target's: an entry with another number of them for a token is nothing.
func TestUnreadIsOfTheTarget(t *testing.T) {
	target, file := llama(t), randommodel.DFlash{}.File(t)
	head, err := engine.New(t.Context(), target.Runtime(), bytes.NewReader(file), int64(len(file)),
		engine.Options{Name: "head.gguf", Target: target})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(head.Close)
	size, text := head.Head().TargetStates(), randommodel.Tokens(70, target.Config().Vocab, 3)
	s, err := head.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.EvalSegment(t.Context(), engine.Segment{Tokens: text, States: make([]float32, len(text)*size),
		FromTarget: true}); err != nil {
		t.Fatal(err)
	}
	l, store := Lineage{Model: "m", Read: true, Before: -1}, newMemory()
	if _, err := Save(t.Context(), store, l, s, Unread{[]int32{5, 6}, make([]float32, 2*size)}); err != nil {
		t.Fatal(err)
	}
	lengths := l.text(s.SavedCaches(), text)
	for _, n := range []int{size, size - 1, size + 1, 1, 0} {
		store.entries[lengths.key(len(text)).of(kindUnread, 0)] = (&Unread{[]int32{5, 6}, make([]float32, 2*n)}).append(nil)
		got, err := Load(t.Context(), store, l, head.NewSession, engine.SessionOptions{}, text, 1)
		if err != nil || got == nil || got.Session.Len() != len(text) {
			t.Fatal(got, err)
		}
		if (len(got.Unread.Tokens) == 2) != (n == size) {
			t.Errorf("%d numbers for a token, the target has %d: %d tokens", n, size, len(got.Unread.Tokens))
		}
		got.Session.Close()
	}
}

// What a session can be cut back to comes back with it, from a file as well: earlier states of recurrent layers, also
// two within one step, and all positions that windows have.
func TestPointsComeBack(t *testing.T) {
	hybrid := open(t, randommodel.Recipes()["qwen35"].File(t))
	for _, x := range []struct {
		name string
		m    *engine.Model
		size int
	}{{"windows", windows(t), 1300}, {"qwen35", hybrid, 410}, {"qwen35", hybrid, 458}} {
		name, m, size := x.name, x.m, x.size
		text := randommodel.Tokens(size, m.Config().Vocab, 3)
		s := computed(t, m, engine.SessionOptions{}, text[:size-10])
		for _, part := range [][]int32{text[size-10 : size-5], text[size-5:]} {
			if _, err := s.Eval(t.Context(), part, nil, engine.None); err != nil {
				t.Fatal(err)
			}
		}
		l := Lineage{Model: "m", Before: -1}
		path := filepath.Join(t.TempDir(), "text")
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		save(t, f, l, s)
		if _, err := f.Commit(Contents{l, text}); err != nil {
			t.Fatal(err)
		}
		if f, err = OpenFile(path); err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got, err := LoadPoints(t.Context(), f, l, m.NewSession, engine.SessionOptions{}, text, 1)
		if err != nil || got == nil || got.Session.Len() != size {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		defer got.Session.Close()
		if had, has := s.StatesSaved(), got.Session.StatesSaved(); !slices.Equal(had, has) || name == "qwen35" &&
			len(has) < 3 {
			t.Errorf("%s: states after %d tokens, want %d", name, has, had)
		}
		for i, c := range s.SavedCaches() {
			if has := got.Session.SavedCaches()[i]; has.First != c.First {
				t.Errorf("%s: cache %d begins at %d, want %d", name, i, has.First, c.First)
			}
		}
		plain, err := Load(t.Context(), f, l, m.NewSession, engine.SessionOptions{}, text, 1)
		if err != nil || len(plain.Session.StatesSaved()) > 1 {
			t.Fatalf("%s: without points: states after %d tokens, %v", name, plain.Session.StatesSaved(), err)
		}
		plain.Session.Close()
	}
}

// A file from which a text goes on keeps what it had of the text's earlier lengths: a text that leaves it there goes on
// from as far as it did before.
func TestFilesKeepPoints(t *testing.T) {
	for _, x := range []struct {
		name string
		m    *engine.Model
		of   int   // tokens of the first text
		more int   // those with which it goes on
		ends []int // where other texts leave it
		want []int // from where these go on
	}{
		{"windows", windows(t), 1300, 100, []int{1000, 1280}, []int{960, 1280}},
		{"qwen35", open(t, randommodel.Recipes()["qwen35"].File(t)), 458, 20, []int{400, 450, 458}, []int{384, 448, 458}},
	} {
		name, m := x.name, x.m
		text := randommodel.Tokens(x.of+2*x.more, m.Config().Vocab, 3)
		l := Lineage{Model: "m", Before: -1}
		path := filepath.Join(t.TempDir(), "prompt.cache")
		commit := func(s *engine.Session) {
			f, err := OpenFile(path)
			if err == nil && s == nil {
				var had *Loaded
				if had, err = Load(t.Context(), f, l, m.NewSession, engine.SessionOptions{}, text, 1); err == nil {
					s = had.Session
					defer s.Close()
					_, err = s.Eval(t.Context(), text[s.Len():s.Len()+x.more], nil, engine.None)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			save(t, f, l, s)
			if _, err := f.Commit(Contents{}); err != nil {
				t.Fatal(err)
			}
		}
		leaves := func() (from []int) {
			f, err := OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, at := range x.ends {
				other := append(slices.Clone(text[:at]), randommodel.Tokens(20, m.Config().Vocab, 9)...)
				from = append(from, goesOn(t, name, f, l, m, other))
			}
			return from
		}
		s := computed(t, m, engine.SessionOptions{}, text[:x.of-10])
		for _, part := range [][]int32{text[x.of-10 : x.of-5], text[x.of-5 : x.of]} {
			if _, err := s.Eval(t.Context(), part, nil, engine.None); err != nil {
				t.Fatal(err)
			}
		}
		commit(s)
		for run := range 3 {
			if got := leaves(); !slices.Equal(got, x.want) {
				t.Errorf("%s, run %d: other texts go on from %d, want %d", name, run, got, x.want)
			}
			if run < 2 {
				commit(nil)
			}
		}
	}
}

// readStore counts what is read of a store, by size.
type readStore struct {
	Store
	reads map[int]int
}

func (s readStore) Get(ctx context.Context, key Key) ([]byte, error) {
	data, err := s.Store.Get(ctx, key)
	s.reads[len(data)]++
	return data, err
}

// Of the states after fewer tokens those are read that the session keeps, the last ones that are not damaged.
func TestStatesAreReadThatAreKept(t *testing.T) {
	m := open(t, randommodel.Recipes()["qwen35"].File(t))
	text := randommodel.Tokens(458, m.Config().Vocab, 3)
	l := Lineage{Model: "m", Before: -1}
	store := newMemory()
	s := computed(t, m, engine.SessionOptions{}, text[:448])
	for _, part := range [][]int32{text[448:453], text[453:]} {
		if _, err := s.Eval(t.Context(), part, nil, engine.None); err != nil {
			t.Fatal(err)
		}
	}
	save(t, store, l, s)
	all := s.StatesSaved()
	state, err := s.SaveState(nil, len(text))
	if err != nil || len(all) < 3 {
		t.Fatalf("states after %d tokens: %v", all, err)
	}
	x := s.SavedCaches()
	lengths := l.text(x, text)
	for _, damaged := range []bool{false, true} {
		last := all[len(all)-2:]
		if damaged { // the one before the end
			store.entries[lengths.key(last[0]).of(kindState, 0)] = nil
			last = []int{all[len(all)-3], len(text)}
		}
		reads := map[int]int{}
		got, err := LoadPoints(t.Context(), damagedStore{readStore{store, reads}}, l, m.NewSession,
			engine.SessionOptions{StateBytes: int64(7 * len(state))}, text, 1) // room for one
		if err != nil || got == nil {
			t.Fatal(got, err)
		}
		if has := got.Session.StatesSaved(); !slices.Equal(has, last) || reads[len(state)] != 2 {
			t.Errorf("states after %d tokens of %d, %d were read", has, all, reads[len(state)])
		}
		got.Session.Close()
	}
}

// damagedStore takes empty entries as damaged.
type damagedStore struct{ Store }

func (s damagedStore) Get(ctx context.Context, key Key) ([]byte, error) {
	data, err := s.Store.Get(ctx, key)
	if err == nil && len(data) == 0 {
		err = ErrMissing
	}
	return data, err
}

// TestFileAfterItsEnd: a file that was committed or closed takes nothing any more, and says so.
func TestFileAfterItsEnd(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenFile(filepath.Join(dir, "text.cache"))
	if err != nil {
		t.Fatal(err)
	}
	f.Renew()
	if _, err := f.Commit(Contents{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Commit(Contents{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("committed again: %v", err)
	}
	if err := f.Put(t.Context(), Key{1}, []byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("put into a file that was committed: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// A link to a file that is not there yet stays a link: the file is written where it points.
func TestLinkToNoFile(t *testing.T) {
	link, path := filepath.Join(t.TempDir(), "link"), filepath.Join(t.TempDir(), "prompt.cache")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	f, err := OpenFile(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Put(t.Context(), Key{1}, []byte("data")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Commit(Contents{}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
}
