package lookup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
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
		for i := 0; ; i++ {
			at := strings.Index(s[i:], pattern)
			if at < 0 {
				break
			}
			i += at
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
		x := build(t, Options{Encode: byBytes, Vocab: vocab, Memory: []int64{3000, 20000, 30000, 1 << 20}[round],
			Threads: 1 + round%3}, dir)
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
				if occurrences(texts, text[len(text)-n:]) == nil {
					break // longer ones are nowhere either
				}
				want = n
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
				if err != nil || n == 0 && best >= 0 && !m.some || n > 0 && best < 0 {
					t.Fatalf("%q: %d of %d, %v, want %d", text, n, places, err, best)
				}
				if n == 0 {
					break
				}
				if step == 0 && m.some != (len(follow) > fewPlaces) ||
					!m.some && (int(id) != best || n != counts[best] || places != len(follow)) ||
					m.some && (counts[int(id)] == 0 || step == 0 && places != fewPlaces) {
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

// hard are texts that repeat themselves.
func hard() map[string][]string {
	rng := rand.New(rand.NewPCG(3, 3))
	random := func(n, letters int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('a' + rng.IntN(letters))
		}
		return string(b)
	}
	one := random(500, 20)
	var blocks strings.Builder // long repeats, of parts that are alike
	parts := []string{random(60, 3), random(90, 3), random(7, 2)}
	for range 20 {
		blocks.WriteString(parts[rng.IntN(len(parts))])
	}
	return map[string][]string{
		"one token": {strings.Repeat("x", 1500)}, "short": {"a"},
		"others": {random(400, 2), random(300, 4), random(300, 30), // random ones
			one, one, blocks.String(), parts[0], // what is there twice
			"", "a", "", "abcabc", "", // empty ones
			strings.Repeat("äöü — 漢字🙂\n", 20), "漢字", "🙂🙂🙂", // ends within runes
			strings.Repeat("x", 300) + strings.Repeat("abcdefghijklmnopqrstuvwxyz0123", 9) + strings.Repeat("x", 100)},
	}
}

// Places are in the order of their last depth tokens, read backwards, each once, and equal ones in the order of their
// positions, as a plain sort has them; fences say what their places say. The same texts make the same file, in any
// memory with any number of threads. What is read of tokens is bounded, however texts repeat themselves.
func TestPlacesAreInOrder(t *testing.T) {
	for name, texts := range hard() {
		for _, vocab := range []int{256, 1 << 17} {
			dir := filepath.Join(t.TempDir(), "texts")
			all := slices.Repeat([]int32{int32(vocab)}, lead)
			for i, s := range texts {
				write(t, dir, fmt.Sprintf("%02d", i), s)
				all = append(append(all, byBytes(s)...), int32(vocab))
			}
			var want []uint64
			for i, id := range all {
				if int(id) != vocab {
					want = append(want, uint64(i))
				}
			}
			slices.SortStableFunc(want, func(a, b uint64) int {
				for k := range uint64(depth) {
					if d := all[a-k] - all[b-k]; d != 0 {
						return int(d)
					}
				}
				return 0
			})
			options := []Options{{}, {Memory: 9000, Threads: 3}, {Memory: 300, Threads: 1}}
			if vocab > 256 {
				options = options[:2]
			}
			var first []byte
			for _, o := range options {
				o.Encode, o.Vocab = byBytes, vocab
				what := fmt.Sprintf("%s, vocabulary of %d, %d bytes for %d threads", name, vocab, o.Memory, o.Threads)
				file := filepath.Join(t.TempDir(), "index")
				b, err := buildIndex(t.Context(), file, []string{dir}, o)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if read := b.read.Load(); read > 2*depth*int64(len(want)) {
					t.Errorf("%s: tokens of %d places are read %d times", what, len(want), read)
				}
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = data
				} else if !bytes.Equal(first, data) {
					t.Errorf("%s: another file", what)
				}
				if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); left != nil {
					t.Errorf("%s: left behind: %q", what, left)
				}
			}
			x, err := Open(write(t, t.TempDir(), "index", string(first)))
			if err != nil {
				t.Fatal(err)
			}
			if err := x.Check(); err != nil {
				t.Error(err)
			}
			r := reader{x: x}
			for i, p := range want {
				if got := r.place(int64(i)); got != p {
					t.Fatalf("%s, vocabulary of %d: place %d is %d, want %d", name, vocab, i, got, p)
				}
				if i%fenceEvery != 0 {
					continue
				}
				fence := uint64(0)
				for k := range uint64(x.tokens.each) {
					fence = fence<<x.tokens.bits | uint64(all[p-1-k])
				}
				if got := r.fence(int64(i / fenceEvery)); got != fence {
					t.Errorf("%s, vocabulary of %d: fence %d is %x, want %x", name, vocab, i/fenceEvery, got, fence)
				}
			}
			if r.err != nil || x.h.Places != uint64(len(want)) {
				t.Errorf("%s: %d of %d places, %v", name, x.h.Places, len(want), r.err)
			}
			x.Close()
		}
	}
}

// A search reads as much as the logarithm of the places, for the least and the most frequent ends of texts, in an index
// of more places than are sorted at once.
func TestSearchesAreShort(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	var b strings.Builder
	for b.Len() < 1<<17 {
		switch rng.IntN(3) {
		case 0:
			b.WriteString(strings.Repeat("x", rng.IntN(200)))
		case 1:
			b.WriteString("a phrase that is often there, ")
		default:
			for range rng.IntN(60) {
				b.WriteByte(byte('a' + rng.IntN(26)))
			}
		}
	}
	s := b.String()
	x := build(t, Options{}, write(t, t.TempDir(), "a.txt", s))
	seen, r := make([]bool, x.h.Tokens), reader{x: x} // so many are in order, too
	for i := int64(0); i < int64(x.h.Places); i++ {
		at := r.place(i)
		if seen[at] {
			t.Fatalf("place %d is token %d again", i, at)
		}
		seen[at] = true
		if i == 0 {
			continue
		}
		before := r.place(i - 1)
		for k := uint64(0); k < depth; k++ {
			if a, b := r.token(before-k), r.token(at-k); a > b {
				t.Fatalf("place %d is before place %d", i, i-1)
			} else if a < b {
				break
			}
		}
	}
	steps := bits.Len64(x.h.Places)
	keys := depth/x.tokens.each + 1 // that a comparison reads
	var m Match
	most, total := 0, 0
	const searches = 2000
	for range searches {
		from := rng.IntN(len(s) - 40)
		text := []byte(s[from : from+3+rng.IntN(37)])
		if rng.IntN(2) == 0 {
			text[rng.IntN(len(text))] = byte('a' + rng.IntN(26))
		}
		reads, err := x.match(&m, byBytes(string(text)), 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range text { // one that is not there
			text[i] = byte('a' + rng.IntN(26))
		}
		p, r := x.pattern(byBytes(string(text)), depth), reader{x: x}
		lo, hi := r.bucket(int32(text[len(text)-1]))
		r.search(lo, hi, &p)
		most, total = max(most, reads), total+r.reads
	}
	around := 2 * 2 * bits.Len64(mostSpread) // places to either side
	if bound := 2*steps + (steps+2+around)*(1+keys) + fewPlaces; most > bound {
		t.Errorf("a search reads %d times of %d places, want at most %d", most, x.h.Places, bound)
	}
	if mean := total / searches; mean > steps+3 {
		t.Errorf("the place is found by %d reads of %d places in the mean, want at most %d", mean, x.h.Places, steps+3)
	}
}

// Texts are files, files of folders, and values of lines of JSON; what is no text is left out of a folder, and refused
// by itself.
func TestTextsOfFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "folder/one.txt", "one text")
	write(t, dir, "folder/.hidden/two.txt", "hidden text")
	write(t, dir, "folder/binary", "a\x00b")
	lines := write(t, dir, "answers.jsonl",
		`{"id":"no","response":{"body":{"choices":[{"message":{"content":"an answer"}}]}}}`+
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
	if err := Build(ctx, filepath.Join(dir, "index"), []string{lines},
		Options{Encode: byBytes, Vocab: 256}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	over := func(string) []int32 { return []int32{256} }
	if err := Build(t.Context(), filepath.Join(dir, "index"), []string{lines},
		Options{Encode: over, Vocab: 256}); err == nil {
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
	for at := headerBytes; at < int(x.from[1])-4; at += blockBytes {
		binary.LittleEndian.PutUint32(whole[at:], 0x20202020)
	}
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
		func(h *header) { h.Version = 1 }, func(h *header) { h.Bits-- }, func(h *header) { h.Vocab = 0 },
		func(h *header) { h.Places = h.Tokens - lead + 1 }, func(h *header) { h.Tokens = 1 << 40 },
		func(h *header) { h.Tokens = lead - 1; h.Places = 0 }, func(h *header) { h.Depth = mostDepth + 1 },
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
