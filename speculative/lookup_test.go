package speculative

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
)

// longest is the reference: the length of the longest suffix of text that ends earlier in it too.
func longest(text []int32) int {
	for n := len(text) - 1; n > 0; n-- {
		for end := n; end < len(text); end++ {
			if slices.Equal(text[end-n:end], text[len(text)-n:]) {
				return n
			}
		}
	}
	return 0
}

// After every token the automaton knows the longest repeated suffix and a place where it ended;
// likewise for drafts.
func TestSuffixAutomaton(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, letters := range []int32{1, 2, 3, 10} {
		s := Suffix(SuffixOptions{MinMatch: 1}).(*suffix)
		s.reset()
		var text []int32
		for range 150 {
			text = append(text, rng.Int32N(letters))
			s.begin(text)
			n := longest(text)
			if int(s.length) != n {
				t.Fatalf("%v: match of %d, want %d", text, s.length, n)
			}
			end := int(s.states[s.at].end)
			if n > 0 && (end >= len(text) || !slices.Equal(text[end-n:end], text[len(text)-n:])) {
				t.Fatalf("%v: no match of %d ends at %d", text, n, end)
			}
		}
	}
}

func draftOf(d Drafter, text []int32, n int) []int32 {
	draft := &Draft{vocab: 100}
	draft.alloc(n)
	draft.reset(n, fakeTree, n)
	d.Start(context.Background(), Setup{})
	d.Draft(context.Background(), text, draft)
	return slices.Clone(draft.Tokens)
}

// What an encoder has read is looked up as if it stood in front of the sequence, after a sequence that has been begun
// anew as well, and not that of the text before.
func TestLookupsReadTheEncodersInput(t *testing.T) {
	input := []int32{11, 12, 13, 14, 15, 16, 1}
	for _, d := range []Drafter{NGram(NGramOptions{}), Suffix(SuffixOptions{MinMatch: 1}),
		Lookup(SuffixSource(SuffixOptions{MinMatch: 1})), Lookup(NGramSource(NGramOptions{}))} {
		draft := func(input, text []int32) []int32 {
			x := &Draft{vocab: 100}
			x.alloc(3)
			x.reset(3, fakeTree, 3)
			if input != nil {
				d.Start(context.Background(), Setup{Input: input})
			}
			d.Draft(context.Background(), text, x)
			return slices.Clone(x.Tokens)
		}
		if got := draft(input, []int32{0, 12, 13}); !slices.Equal(got, []int32{14, 15, 16}) {
			t.Errorf("%T: %v", d, got)
		}
		if got := draft(nil, []int32{0, 12, 13, 14}); !slices.Equal(got, []int32{15, 16, 1}) {
			t.Errorf("%T, one token later: %v", d, got)
		}
		if got := draft(nil, []int32{0, 11}); !slices.Equal(got, []int32{12, 13, 14}) {
			t.Errorf("%T, after a cut: %v", d, got)
		}
		if got := draft([]int32{21, 22, 1}, []int32{0, 12}); len(got) > 0 {
			t.Errorf("%T, of an earlier text: %v", d, got)
		}
		if got := draft([]int32{21, 22, 1}, []int32{0, 5, 6, 5}); len(got) != 3 || got[0] != 6 {
			t.Errorf("%T, of its own: %v", d, got)
		}
	}
}

// readingSource notes what it is told to read.
type readingSource struct {
	CandidateSource
	input []int32
	reset bool // since
}

func (s *readingSource) Read(input []int32) { s.input, s.reset = slices.Clone(input), false }
func (s *readingSource) Reset()             { s.reset = true; s.CandidateSource.Reset() }

// Trees and splices tell their sources what the encoder has read, before each text begins.
func TestTreesTellTheEncodersInput(t *testing.T) {
	for _, make := range []func(Sequence, TreeOptions) Drafter{Tree, Splice} {
		source := &readingSource{CandidateSource: NGramSource(NGramOptions{})}
		d := make(newFake(t, 10, 20, random(1)), TreeOptions{Sources: []CandidateSource{source}})
		for _, input := range [][]int32{{11, 12, 1}, nil} {
			if err := d.Start(t.Context(), Setup{Input: input, Vocab: 10}); err != nil || !source.reset ||
				!slices.Equal(source.input, input) {
				t.Errorf("%d, of %d: reset %t, %v", source.input, input, source.reset, err)
			}
		}
	}
}

func TestLookups(t *testing.T) {
	for _, c := range []struct {
		text          []int32
		ngram, suffix []int32
	}{
		{[]int32{1, 2, 3, 4, 5, 1, 2}, []int32{3, 4, 5, 1}, []int32{3, 4, 5, 1}},
		{[]int32{7, 8, 7, 8, 7, 8}, []int32{7, 8, 7, 8}, []int32{7, 8, 7, 8}},       // a repetition goes on
		{[]int32{1, 2, 9, 1, 2, 6, 1, 2}, []int32{6, 1, 2, 6}, []int32{6, 1, 2, 6}}, // the latest
		// three tokens, or all four
		{[]int32{1, 2, 3, 4, 9, 5, 2, 3, 4, 8, 1, 2, 3, 4}, []int32{8, 1, 2, 3}, []int32{9, 5, 2, 3}},
		{[]int32{1, 2, 3}, []int32{}, []int32{}},
		{[]int32{1}, []int32{}, []int32{}},
	} {
		if got := draftOf(NGram(NGramOptions{}), c.text, 4); !slices.Equal(got, c.ngram) {
			t.Errorf("%v: n-gram drafts %v, want %v", c.text, got, c.ngram)
		}
		if got := draftOf(Suffix(SuffixOptions{}), c.text, 4); !slices.Equal(got, c.suffix) {
			t.Errorf("%v: suffix drafts %v, want %v", c.text, got, c.suffix)
		}
	}
}

// The match that ends at the token before the last counts, and the longer of two wins over the later.
func TestNGramMatches(t *testing.T) {
	for _, c := range []struct {
		text, want []int32
	}{
		{[]int32{8, 5, 5}, []int32{5}},             // the nearest match possible
		{[]int32{1, 2, 9, 1, 3, 8, 1}, []int32{3}}, // of equally long ones the latest
		{[]int32{1, 2, 9, 4, 2, 7, 1, 2}, []int32{9}},
	} {
		if got := draftOf(NGram(NGramOptions{MinMatch: 1, MaxMatch: 3}), c.text, 1); !slices.Equal(got, c.want) {
			t.Errorf("%v: n-gram drafts %v, want %v", c.text, got, c.want)
		}
	}
}

// In a text that the lookup predicts the model is hardly asked, elsewhere it is.
func TestSpliceChooses(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	var chunk []int32
	for range 40 {
		chunk = append(chunk, rng.Int32N(60))
	}
	fresh := slices.Clone(chunk)
	rng.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	write := slices.Concat(chunk, chunk, chunk, chunk, fresh, fresh)
	model := script(1, write...)
	var clock time.Duration // a draft pass takes a hundredth of the target's
	target, draft := newFake(t, 64, 400, model), newFake(t, 64, 400, model)
	target.spend = func(int) { clock += time.Second }
	draft.spend = func(int) { clock += time.Second / 100 }
	d := New(target, Splice(draft, TreeOptions{}),
		Options{Schedule: Constant(ConstantOptions{Length: 7}), MaxTokens: len(write)})
	d.now = func() time.Duration { return clock }
	if got, _ := collect(t, d, []int32{1}, engine.Sampling{}); !slices.Equal(got, write) {
		t.Fatalf("got %v", got)
	}
	s := d.Stats()
	if s.TargetPasses > len(write)/6 || s.DraftPasses > 110 || s.DraftPasses < 40 {
		t.Errorf("%d target and %d draft passes for %d tokens", s.TargetPasses, s.DraftPasses, s.Generated)
	}
}

// The confidence of lookups is learned: matches that mislead lose it and matches that hold gain it, in merges too, so
// that a schedule that stops at a low confidence drafts less of the former.
func TestLookupConfidence(t *testing.T) {
	write := func(model func([]int32, []float32), drafter Drafter) (confidence float32, share float64) {
		d := New(newFake(t, 8, 2000, model), drafter,
			Options{Schedule: Dynamic(DynamicOptions{}), MaxTokens: 600, Trace: func(r *Round) {
				if r.Drafted() > 0 {
					confidence = r.Draft.Confidence[0]
				}
			}})
		collect(t, d, []int32{1, 2, 3}, engine.Sampling{})
		s := d.Stats()
		return confidence, float64(s.Drafted-s.Accepted) / float64(s.Rounds)
	}
	for name, make := range map[string]func() Drafter{
		"ngram":  func() Drafter { return NGram(NGramOptions{}) },
		"suffix": func() Drafter { return Suffix(SuffixOptions{}) },
		"merged": func() Drafter { return Merge(Suffix(SuffixOptions{MinMatch: 500}), NGram(NGramOptions{})) },
	} {
		low, wasted := write(random(5), make()) // 8 tokens at random: every match is an accident
		high, _ := write(loops(5), make())
		if low > 0.3 || high < 0.9 || wasted > 2 {
			t.Errorf("%s: confidence %.2f where matches mislead, %.2f tokens wasted a round; %.2f where they hold",
				name, low, wasted, high)
		}
	}
}
