package speculative

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative/lookup"
)

// indexOf is an index of texts, which are given as tokens.
func indexOf(t testing.TB, vocab int, texts ...[]int32) *lookup.Index {
	t.Helper()
	dir := t.TempDir()
	for i, ids := range texts {
		text := ""
		for _, id := range ids {
			text += string(rune(0x100 + id))
		}
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "index")
	err := lookup.Build(t.Context(), file, []string{dir},
		lookup.Options{Vocab: vocab, Encode: func(text string) (ids []int32) {
			for _, r := range strings.TrimSuffix(text, "\n") {
				ids = append(ids, r-0x100)
			}
			return ids
		}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := lookup.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// A text that another one of the index has is drafted from it, the continuation that is more frequent first, and the
// text so far where that has the longer match.
func TestLookupInOtherTexts(t *testing.T) {
	const vocab = 512
	text := random32(3, 120, vocab)
	often, seldom := slices.Concat(text[40:50], []int32{7, 8}), slices.Concat(text[40:50], []int32{9, 10})
	for name, x := range map[string]struct {
		other [][]int32
		most  int // rounds for the 110 tokens, 15 at a time
	}{
		"whole":        {[][]int32{text}, 8},
		"in parts":     {[][]int32{text[60:], text[:66]}, 8},
		"the rare one": {[][]int32{text, often, often, often}, 9},
		"both":         {[][]int32{text, text, seldom}, 8},
		"nothing":      {[][]int32{random32(5, 200, vocab)}, 110},
	} {
		sim := &simulation{vocab: vocab, curve: &costCurves[0], texts: [][]int32{text}, prompt: []int{10}}
		rounds := 0
		index := indexOf(t, vocab, x.other...)
		sim.run(t, func(int) Drafter {
			return counted{Lookup(SuffixSource(SuffixOptions{}), IndexSource(index)), &rounds}
		}, func() Schedule { return Constant(ConstantOptions{Length: 15}) }, false)
		if rounds > x.most || name == "nothing" && rounds != x.most {
			t.Errorf("%s: %d rounds, want %d", name, rounds, x.most)
		}
	}
}

// Of a match with many places there are examples. Where few of them go on as the draft does, what the draft ends with
// is searched for again.
func TestExamplesAreSearchedForAgain(t *testing.T) {
	const vocab = 512
	end := []int32{1, 2, 3}
	var text []int32
	for i := range int32(60) { // a third goes on with 10, and most of that with 11
		text = append(append(text, 200+i), end...)
		switch {
		case i%3 > 0:
			text = append(text, 300+i)
		case i%5 > 0:
			text = append(text, 10, 11, 12)
		default:
			text = append(text, 10, 300+i)
		}
	}
	index := indexOf(t, vocab, text)
	source, sequence := IndexSource(index), slices.Concat([]int32{19}, end)
	source.Begin(sequence)
	if id, _ := source.Next(sequence, 0); id != 10 {
		t.Fatalf("%d follows", id)
	}
	path := append(sequence, 10)
	var stepped, again lookup.Match
	if err := errors.Join(index.Match(&stepped, sequence, 0), index.Step(&stepped, 10),
		index.Match(&again, path, 0)); err != nil {
		t.Fatal(err)
	}
	_, few, of, _ := index.Next(&stepped)
	id, count, places, _ := index.Next(&again)
	if !stepped.Sparse() || again.Sparse() || few*places == count*of {
		t.Fatalf("%d of %d places are left, %d of %d are found", few, of, count, places)
	}
	if got, match := source.Next(path, 1); got != id || match != max(1, again.Length()*count/places) {
		t.Errorf("%d follows by a match of %d, want %d by %d of %d", got, match, id, count, places)
	}
}

// An index that is damaged ends the text with an error that names it, in a lookup and in a tree.
func TestDamagedIndexEndsTheText(t *testing.T) {
	model := random(3)
	want := plain(t, matrixVocab, model, matrixPrompt, matrixTokens, engine.Sampling{})
	intact := indexOf(t, matrixVocab, slices.Concat(matrixPrompt, want))
	raw, err := os.ReadFile(intact.Name())
	if err != nil {
		t.Fatal(err)
	}
	raw[4096+20]++ // of the tokens
	file := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	damaged, err := lookup.Open(file)
	if err != nil {
		return // the block holds the description too, which is read at once
	}
	defer damaged.Close()
	for _, d := range []Drafter{
		Lookup(IndexSource(damaged)),
		Tree(newFake(t, matrixVocab, matrixContext, model), TreeOptions{Sources: []CandidateSource{IndexSource(damaged)}}),
	} {
		var failed error
		for _, err := range New(newFake(t, matrixVocab, matrixContext, model), d, Options{MaxTokens: matrixTokens}).Generate(
			t.Context(), matrixPrompt, engine.Sampling{}) {
			failed = err
		}
		if !errors.Is(failed, lookup.ErrIndex) || !strings.Contains(failed.Error(), file) {
			t.Errorf("%T: %v", d, failed)
		}
	}
}
