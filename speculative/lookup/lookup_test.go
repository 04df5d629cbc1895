package lookup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// byBytes makes a token of each byte.
func byBytes(text string) (ids []int32) {
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func build(t testing.TB, o Options, paths ...string) *Index {
	t.Helper()
	if o.Encode == nil {
		o.Encode, o.Vocab = byBytes, 256
	}
	file := filepath.Join(t.TempDir(), "index")
	if err := Build(t.Context(), file, paths, o); err != nil {
		t.Fatal(err)
	}
	x, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// occurrences are the places behind a pattern in texts, as tokens that follow it; -1: the end of a text.
func occurrences(texts []string, pattern string) (follow []int) {
	for _, s := range texts {
		for i := 0; i+len(pattern) <= len(s); i++ {
			if s[i:i+len(pattern)] != pattern {
				continue
			}
			next := -1
			if i+len(pattern) < len(s) {
				next = int(s[i+len(pattern)])
			}
			follow = append(follow, next)
		}
	}
	return follow
}

// What an index finds is what a search through the texts finds: the longest match of at most depth tokens, and what
// followed it most often, while it is followed token by token. Vocabularies of all widths, and memory for parts of the
// suffixes at a time.
func TestIndexFindsWhatIsThere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for round, letters := range []int{2, 3, 9, 26} {
		var texts []string
		dir := t.TempDir()
		for i := range 6 {
			var b strings.Builder
			for range rng.IntN(400) {
				b.WriteByte(byte('a' + rng.IntN(letters)))
			}
			s := b.String()
			if i == 5 { // more places than are looked at one by one, and more than depth tokens alike
				s = strings.Repeat("abcabcabd", 100)
			}
			write(t, dir, fmt.Sprintf("f%d/text.txt", i), s)
			texts = append(texts, s)
		}
		vocab := []int{256, 257, 70000, 1 << 20}[round]
		x := build(t, Options{Encode: byBytes, Vocab: vocab, Memory: []int64{1, 20000}[round%2], Threads: 1 + round%3}, dir)
		if a := x.About(); a.Texts != 6 || a.Bytes != int64(len(strings.Join(texts, ""))) || a.Sources[0].Files != 6 {
			t.Errorf("%+v", a)
		}
		if err := x.Check(); err != nil {
			t.Error(err)
		}
		var m Match
		for range 300 {
			s := texts[rng.IntN(len(texts))]
			from := rng.IntN(len(s) + 1)
			text := "#" + s[from:min(len(s), from+rng.IntN(40))]
			if rng.IntN(3) == 0 {
				text += string(byte('a' + rng.IntN(letters)))
			}
			want := 0
			for n := leastMatch; n <= min(depth, len(text)); n++ {
				if occurrences(texts, text[len(text)-n:]) != nil {
					want = n
				}
			}
			if err := x.Match(&m, byBytes(text), 0); err != nil || m.Length() != want {
				t.Fatalf("%q: a match of %d, %v, want %d", text, m.Length(), err, want)
			}
			for step := 0; want > 0 && step < 30; step++ {
				follow := occurrences(texts, text[len(text)-want-step:])
				counts := map[int]int{}
				for _, id := range follow {
					counts[id]++
				}
				delete(counts, -1)
				best := -1
				for id, n := range counts {
					if best < 0 || n > counts[best] || n == counts[best] && id < best {
						best = id
					}
				}
				id, n, places, err := x.Next(&m)
				if err != nil || best < 0 != (n == 0) {
					t.Fatalf("%q: %d of %d, %v, want %d", text, n, places, err, best)
				}
				if best < 0 {
					break
				}
				if few := len(follow) <= fewPlaces; few && (int(id) != best || n != counts[best] || places != len(follow)) ||
					!few && (counts[int(id)] == 0 || places != fewPlaces) {
					t.Fatalf("%q: %c, %d of %d, want %c, %d of %d", text, id, n, places, best, counts[best], len(follow))
				}
				if err := x.Step(&m, id); err != nil {
					t.Fatal(err)
				}
				text += string(rune(id))
			}
		}
		if err := x.Match(&m, byBytes("zzzabc"), 2); err != nil || m.Length() != 0 {
			t.Error("a match of two tokens")
		}
	}
}

// Suffixes are in the order of their first depth tokens, each once.
func TestSuffixesAreInOrder(t *testing.T) {
	dir := t.TempDir()
	s := strings.Repeat("x", 300) + strings.Repeat("abcdefghijklmnopqrstuvwxyz0123", 12) + strings.Repeat("x", 100)
	x := build(t, Options{}, write(t, dir, "a.txt", s))
	var before uint32
	seen := map[uint32]bool{}
	at := func(p uint32) string { return s[p:min(len(s), int(p)+depth)] + "~" }
	for i := range int64(x.h.Suffixes) {
		p, err := x.suffix(i)
		if err != nil || seen[p] || i > 0 && at(before) > at(p) {
			t.Fatalf("suffix %d at %d, %v: after %q comes %q", i, p, err, at(before), at(p))
		}
		seen[p], before = true, p
	}
	if len(seen) != len(s) {
		t.Errorf("%d of %d suffixes", len(seen), len(s))
	}
}

// Texts are files, files of folders, and values of lines of JSON; what is no text is left out of a folder, and refused
// by itself.
func TestTextsOfFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "folder/one.txt", "one text")
	write(t, dir, "folder/.hidden/two.txt", "hidden text")
	write(t, dir, "folder/binary", "a\x00b")
	lines := write(t, dir, "answers.jsonl", `{"id":"no","response":{"body":{"choices":[{"message":{"content":"an answer"}}]}}}`+
		"\n\n"+`{"text":"a text","other":"not this"}`+"\n")
	long := write(t, dir, "long.txt", strings.Repeat("ä", pieceBytes)+"\nend")
	var got []string
	list, about, err := find(t.Context(), []string{filepath.Join(dir, "folder"), lines, long})
	if err != nil {
		t.Fatal(err)
	}
	part := ""
	err = texts(t.Context(), list, func(text string, ends bool) error {
		if part += text; ends {
			got, part = append(got, part), ""
		}
		if strings.ContainsRune(text, '\uFFFD') || len(text) > pieceBytes {
			t.Errorf("a piece of %d bytes: %.20q", len(text), text)
		}
		return nil
	})
	if want := []string{"one text", "an answer", "a text", strings.Repeat("ä", pieceBytes) + "\nend"}; err != nil ||
		!slices.Equal(got, want) || about.Left != 1 {
		t.Errorf("%.40q, %v, %d left out", got, err, about.Left)
	}
	for name, path := range map[string]string{
		"no text": write(t, dir, "binary", "\x00"), "line 2": write(t, dir, "bad.jsonl", "{}\n{"),
		"there are no texts": write(t, dir, "empty", ""), "no such file": filepath.Join(dir, "none"),
	} {
		err := Build(t.Context(), filepath.Join(dir, "index"), []string{path}, Options{Encode: byBytes, Vocab: 256})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".index*"))
	if _, err := os.Stat(filepath.Join(dir, "index")); err == nil || left != nil {
		t.Errorf("an index of nothing is left: %v", left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Build(ctx, filepath.Join(dir, "index"), []string{lines}, Options{Encode: byBytes, Vocab: 256}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	over := func(string) []int32 { return []int32{256} }
	if err := Build(t.Context(), filepath.Join(dir, "index"), []string{lines}, Options{Encode: over, Vocab: 256}); err == nil {
		t.Error("a token beyond the vocabulary")
	}
}

// Every byte that is changed, and every cut, is noticed, and the error names the file; nothing panics.
func TestDamageIsNamed(t *testing.T) {
	dir := t.TempDir()
	x := build(t, Options{}, write(t, dir, "a.txt", strings.Repeat("some text, ", 900)))
	whole, err := os.ReadFile(x.Name())
	if err != nil {
		t.Fatal(err)
	}
	all := func(file string) error {
		x, err := Open(file)
		if err != nil {
			return err
		}
		defer x.Close()
		return x.Check()
	}
	rng := rand.New(rand.NewPCG(2, 2))
	file := filepath.Join(dir, "damaged")
	for i := range 200 {
		b := bytes.Clone(whole)
		if at := rng.IntN(len(b)); i%4 == 3 {
			b = b[:at]
		} else if i < 100 {
			b[i] ^= 1 << rng.IntN(8)
		} else {
			b[at] ^= 1 << rng.IntN(8)
		}
		write(t, dir, "damaged", string(b))
		if err := all(file); !errors.Is(err, ErrIndex) || !strings.Contains(err.Error(), file) {
			t.Fatalf("damage %d: %v", i, err)
		}
	}
	// A block is checked when it is first read.
	write(t, dir, "damaged", string(whole))
	binary.LittleEndian.PutUint32(whole[headerBytes:], 0x20202020)
	write(t, dir, "damaged", string(whole))
	damaged, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer damaged.Close()
	var m Match
	if err := damaged.Match(&m, byBytes("text, some"), 0); !errors.Is(err, ErrIndex) {
		t.Errorf("a damaged block: %v", err)
	}
	if err := damaged.Fits([32]byte{1}); !errors.Is(err, ErrVocabulary) || damaged.Fits([32]byte{}) != nil {
		t.Errorf("another vocabulary: %v", err)
	}
	// A header that is whole by its sum, and says what cannot be.
	h, _ := decodeHeader(whole)
	for _, change := range []func(*header){
		func(h *header) { h.Version = 2 }, func(h *header) { h.Width = 1 }, func(h *header) { h.Vocab = 0 },
		func(h *header) { h.Suffixes = h.Tokens + 1 }, func(h *header) { h.Tokens = 1 << 40 },
		func(h *header) { h.AboutLen = 1 << 60 }, func(h *header) { h.Depth = 0 },
	} {
		wrong := h
		change(&wrong)
		if _, err := decodeHeader(wrong.encode()); !errors.Is(err, ErrIndex) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if crc32.Checksum([]byte("123456789"), sums) != 0xe3069283 { // the polynomial's published check
		t.Error("another sum")
	}
}

// A file that becomes shorter while it is open is an error, not the end of the process.
func TestShorterFileIsAnError(t *testing.T) {
	x := build(t, Options{}, write(t, t.TempDir(), "a.txt", strings.Repeat("some text, ", 9000)))
	if err := os.Truncate(x.Name(), headerBytes); err != nil {
		t.Fatal(err)
	}
	if err := x.Check(); !errors.Is(err, ErrIndex) || !strings.Contains(err.Error(), x.Name()) {
		t.Errorf("%v", err)
	}
}

// Tokens are counted in files, folders and lines of JSON, of so many first bytes.
func TestCount(t *testing.T) {
	dir := t.TempDir()
	a, b := write(t, dir, "a.txt", "aab\n"), write(t, dir, "b.jsonl", `{"content":"cc"}`+"\n")
	o := Options{Vocab: 256, Encode: byBytes}
	for _, c := range []struct {
		paths []string
		most  int64
		want  map[byte]uint64
	}{
		{[]string{a}, 1 << 20, map[byte]uint64{'a': 2, 'b': 1, '\n': 1}},
		{[]string{a, b}, 1 << 20, map[byte]uint64{'a': 2, 'b': 1, '\n': 1, 'c': 2}},
		{[]string{dir}, 1 << 20, map[byte]uint64{'a': 2, 'b': 1, '\n': 1, 'c': 2}},
		{[]string{a, b}, 3, map[byte]uint64{'a': 2, 'b': 1, '\n': 1}},
	} {
		counts, err := Count(t.Context(), c.paths, o, c.most)
		if err != nil {
			t.Fatal(err)
		}
		for id, n := range counts {
			if n != c.want[byte(id)] {
				t.Errorf("%v, %d bytes: token %d %d times, want %d", c.paths, c.most, id, n, c.want[byte(id)])
			}
		}
	}
	o.Vocab = 'a'
	if _, err := Count(t.Context(), []string{a}, o, 100); err == nil {
		t.Error("a token outside the vocabulary")
	}
	if _, err := Count(t.Context(), []string{filepath.Join(dir, "none")}, o, 100); err == nil {
		t.Error("no file")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Count(ctx, []string{a}, Options{Vocab: 256, Encode: byBytes}, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
