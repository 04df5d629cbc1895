package speculative

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// Drafts of more tokens than a session takes as a tree: trees are bounded, chains are not.
func TestDraftsOfManyTokens(t *testing.T) {
	model := loops(2) // repeats itself: lookups draft far
	const n = 400
	want := plain(t, matrixVocab, model, matrixPrompt, n, engine.Sampling{})
	draft := func(noise float32) Drafter { return Model(newFake(t, matrixVocab, 1000, noisy(model, noise))) }
	tree := func() Drafter { return Tree(newFake(t, matrixVocab, 1000, noisy(model, 0.1)), TreeOptions{}) }
	for _, c := range []struct {
		name    string
		drafter Drafter
		o       Options
		longest int // tokens of the longest draft that must have been seen
	}{
		{"chain", Replay(ReplayOptions{Tokens: want}),
			Options{Schedule: Constant(ConstantOptions{Length: 300}), DraftMax: 300}, 300},
		{"model", draft(0), Options{Schedule: Constant(ConstantOptions{Length: 300}), DraftMax: 300}, 300},
		{"tree", tree(), Options{Schedule: Constant(ConstantOptions{Length: 300}), DraftMax: 300}, fakeTree - 1},
		{"two models", Merge(draft(0.1), draft(0.2)),
			Options{Schedule: Constant(ConstantOptions{Length: 200}), DraftMax: 200}, fakeTree - 1},
		{"three and a tree", Merge(draft(0), draft(0.2), Merge(tree(), NGram(NGramOptions{}))),
			Options{Schedule: Constant(ConstantOptions{Length: 200}), DraftMax: 200}, fakeTree - 1},
		{"least of a chain", Replay(ReplayOptions{Tokens: want}),
			Options{Schedule: Constant(ConstantOptions{Length: 1}), DraftMin: 300, DraftMax: 300}, 300},
		{"least of a tree", tree(), Options{DraftMin: 300, DraftMax: 300}, fakeTree - 1},
		{"least without a most", Replay(ReplayOptions{Tokens: want}),
			Options{Schedule: Constant(ConstantOptions{Length: 1}), DraftMin: 2 * DefaultDraftMax}, 2 * DefaultDraftMax},
	} {
		longest := 0
		c.o.MaxTokens, c.o.Trace = n, func(r *Round) { longest = max(longest, r.Drafted()) }
		for _, verifier := range []Verifier{nil, Rejection()} {
			c.o.Verifier = verifier
			d := New(newFake(t, matrixVocab, 1000, model), c.drafter, c.o)
			if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) {
				t.Errorf("%s: other text", c.name)
			}
		}
		if longest < c.longest {
			t.Errorf("%s: no draft is longer than %d tokens", c.name, longest)
		}
	}
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, near := randomModel(t, rt, 0), randomModel(t, rt, 0.05)
	want, _ = collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 320}), matrixPrompt, engine.Sampling{})
	for _, c := range []struct {
		drafter Drafter
		tokens  int
	}{
		{Tree(session(t, near, 0), TreeOptions{}), 60}, // a tree is as large in a short text
		{Merge(Model(session(t, near, 0)), Model(session(t, target, 0))), 320},
		{Replay(ReplayOptions{Tokens: want}), 320},
	} {
		d := New(session(t, target, 0), c.drafter,
			Options{Schedule: Constant(ConstantOptions{Length: 300}), DraftMax: 300, MaxTokens: c.tokens})
		if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want[:c.tokens]) {
			t.Errorf("%T: other text", c.drafter)
		}
	}
}

// A sequence without trees has chains.
func TestNoTrees(t *testing.T) {
	model := random(1)
	want := plain(t, matrixVocab, model, matrixPrompt, 60, engine.Sampling{})
	for _, most := range []int{-1, 0, 1, 2, 5} {
		target := noTrees{newFake(t, matrixVocab, 200, model), most}
		for _, drafter := range matrixDrafters(t, model, want) {
			o := Options{Schedule: Constant(ConstantOptions{Length: 6}), MaxTokens: 60, Trace: func(r *Round) {
				if r.Draft.Parents != nil && r.Drafted()+1 > most {
					t.Fatalf("%s: a tree of %d tokens, at most %d", drafter.name, r.Drafted()+1, most)
				}
			}}
			if got, _ := collect(t, New(target, drafter.make(), o), matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) {
				t.Errorf("%s, trees of %d: other text", drafter.name, most)
			}
		}
	}
}

type noTrees struct {
	*fake
	most int
}

func (n noTrees) MaxTree() int { return n.most }

// Numbers that users give neither overflow nor decide what is allocated.
func TestHugeNumbers(t *testing.T) {
	model := loops(2)
	const room = 400
	want := plain(t, matrixVocab, model, matrixPrompt, room-len(matrixPrompt)+1, engine.Sampling{})
	sizes := []int{math.MaxInt, math.MaxInt - 1, math.MaxInt32}
	options := []struct {
		name string
		of   func(huge int) Options
	}{
		{"tokens", func(int) Options { return Options{} }},
		{"most", func(huge int) Options { return Options{DraftMax: huge} }},
		{"least", func(huge int) Options { return Options{DraftMax: huge, DraftMin: huge} }},
		{"all", func(huge int) Options {
			return Options{DraftMax: huge, Schedule: Constant(ConstantOptions{Length: huge})}
		}},
		{"heuristic", func(huge int) Options {
			return Options{DraftMax: huge, Schedule: Heuristic(HeuristicOptions{Length: huge})}
		}},
		{"dynamic", func(huge int) Options {
			return Options{DraftMax: huge, Schedule: Dynamic(DynamicOptions{Length: huge, MinConfidence: 0.4, Adapt: true})}
		}},
	}
	drafters := []struct {
		name string
		make func(huge int) Drafter
	}{
		{"none", func(int) Drafter { return nil }},
		{"ngram", func(huge int) Drafter { return NGram(NGramOptions{MinMatch: 1, MaxMatch: huge}) }},
		{"none found", func(huge int) Drafter {
			return Merge(NGram(NGramOptions{MinMatch: huge, MaxMatch: huge}), Suffix(SuffixOptions{MinMatch: huge}))
		}},
		{"replay", func(huge int) Drafter { return Replay(ReplayOptions{Tokens: want, ErrorEvery: huge}) }},
		{"model", func(int) Drafter { return Model(newFake(t, matrixVocab, room, noisy(model, 0.1))) }},
		{"tree", func(int) Drafter { return Tree(newFake(t, matrixVocab, room, noisy(model, 0.1)), TreeOptions{}) }},
		{"merged", func(int) Drafter {
			return Merge(NGram(NGramOptions{MinMatch: 1, MaxMatch: 3}),
				Merge(Suffix(SuffixOptions{MinMatch: 1}), Replay(ReplayOptions{Tokens: want, ErrorEvery: 3})))
		}},
		{"boundless", func(int) Drafter { return boundless{Suffix(SuffixOptions{MinMatch: 1})} }},
	}
	for _, c := range testkit.Combinations(t, len(drafters), len(options), len(sizes)) {
		drafter, option, huge := drafters[c[0]], options[c[1]], sizes[c[2]]
		target, make, o := newFake(t, matrixVocab, room, model), drafter.make(huge), option.of(huge)
		o.MaxTokens = huge
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, _ := collect(t, New(target, make, o), matrixPrompt, engine.Sampling{})
		runtime.ReadMemStats(&after)
		if !slices.Equal(got, want) {
			t.Errorf("%d, %s, %s: %d tokens, want %d", huge, option.name, drafter.name, len(got), len(want))
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
			t.Errorf("%d, %s, %s: allocates %d bytes", huge, option.name, drafter.name, n)
		}
	}
}

// boundless claims to draft any number of chains.
type boundless struct{ Drafter }

func (boundless) Branches() int { return math.MaxInt }

// Parents that are not in the draft are refused, as tokens outside the vocabulary are.
func TestAddChildRefuses(t *testing.T) {
	d := &Draft{vocab: 10}
	d.alloc(8)
	d.reset(8, 3, 8)
	for _, c := range []struct {
		parent int
		id     int32
		want   bool
	}{
		// nothing is there yet
		{5, 1, false}, {-2, 1, false}, {0, 1, false}, {math.MaxInt, 1, false}, {math.MinInt, 1, false},
		{-1, 1, true}, {1, 1, false}, {0, 2, true}, {2, 3, false},
		{1, 10, false}, {0, -1, false},
		{0, 3, true},  // a branch: a tree of three, which is the most
		{0, 4, false}, // one more
		{2, 4, false},
	} {
		n := d.Len()
		if got := d.AddChild(c.parent, c.id, 1, nil); got != c.want || d.Len()-n != map[bool]int{true: 1}[got] {
			t.Errorf("token %d after %d of %d: %v", c.id, c.parent, n, got)
		}
	}
	if d.Room() != 0 || d.More() {
		t.Errorf("room for %d in a tree that is full", d.Room())
	}
	d.reset(8, 3, 8)
	for i := range 5 {
		if !d.Add(int32(i), 1, nil) {
			t.Errorf("a chain of %d is refused", i+1)
		}
	}
	if d.AddChild(-1, 7, 1, nil) || d.Parents != nil {
		t.Error("a chain longer than a tree may be has a branch")
	}
	if (&Draft{}).Add(1, 1, nil) {
		t.Error("a draft without room takes a token")
	}
}

// What is missing is an error, not a panic.
func TestNothingThere(t *testing.T) {
	words := letters(t)
	target := func() Sequence { return newFake(t, 64, 50, random(1)) }
	exit, err := EarlyExit(nil, engine.SessionOptions{})
	if !errors.Is(err, ErrOptions) || exit != nil {
		t.Errorf("early exit of no model: %v", err)
	}
	for name, d := range map[string]*Decoder{
		"target":        New(nil, nil, Options{}),
		"session":       New((*engine.Session)(nil), NGram(NGramOptions{}), Options{}),
		"model":         New(target(), Model(nil), Options{}),
		"model session": New(target(), Model((*engine.Session)(nil)), Options{}),
		"tree":          New(target(), Tree(nil, TreeOptions{}), Options{}),
		"splice":        New(target(), Splice((*engine.Session)(nil), TreeOptions{}), Options{}),
		"reencode":      New(target(), Reencode(nil, Tokenizers{Target: words, Draft: words}), Options{}),
		"intersect": New(target(), Intersect(
			(*engine.Session)(nil), Tokenizers{Target: words, Draft: words}), Options{}),
		"merged":           New(target(), Merge(NGram(NGramOptions{}), nil), Options{}),
		"merged in merged": New(target(), Merge(NGram(NGramOptions{}), Merge(nil)), Options{}),
		"merged model": New(target(), Merge(
			NGram(NGramOptions{}), Merge(Model(nil), Suffix(SuffixOptions{}))), Options{}),
	} {
		n := 0
		for tok, err := range d.Generate(context.Background(), []int32{1}, engine.Sampling{}) {
			if n++; !errors.Is(err, ErrOptions) || tok.ID != -1 {
				t.Errorf("no %s: %v %v", name, tok, err)
				break
			}
		}
		if n != 1 {
			t.Errorf("no %s: %d results", name, n)
		}
	}
	collect(t, New(target(), Merge(), Options{MaxTokens: 10}), []int32{1}, engine.Sampling{}) // merges nothing
}

// Merges may nest, also behind drafters that wrap them: every drafter draws from random numbers of its own.
func TestNestedMergesDrawApart(t *testing.T) {
	type laned interface{ Drafter }
	for name, nest := range map[string]func(a, b, c, d, e laned) Drafter{
		"flat":  func(a, b, c, d, e laned) Drafter { return Merge(a, b, c, d, e) },
		"left":  func(a, b, c, d, e laned) Drafter { return Merge(Merge(Merge(Merge(a, b), c), d), e) },
		"right": func(a, b, c, d, e laned) Drafter { return Merge(a, Merge(b, Merge(c, Merge(d, e)))) },
		"pairs": func(a, b, c, d, e laned) Drafter { return Merge(Merge(a, b), Merge(c, Merge(d, e))) },
		"wrapped": func(a, b, c, d, e laned) Drafter {
			return Merge(still{Merge(a, b)}, still{Merge(c, still{Merge(d, e)})})
		},
		"single": func(a, b, c, d, e laned) Drafter {
			return Merge(Merge(Merge(a)), Merge(b, Merge(c)), Merge(Merge(d), e))
		},
	} {
		var drafters [5]*lane
		for i := range drafters {
			drafters[i] = &lane{}
		}
		d := nest(drafters[0], drafters[1], drafters[2], drafters[3], drafters[4])
		if err := d.Start(context.Background(), Setup{Longest: 4}); err != nil {
			t.Fatal(err)
		}
		for i := range drafters {
			for j := range i {
				if drafters[i].Lane == drafters[j].Lane {
					t.Errorf("%s: drafters %d and %d both have lane %d", name, j, i, drafters[i].Lane)
				}
			}
		}
		if name == "flat" { // seeds of merges that do not nest stay
			for i, want := range []int{0, 1, 7, 38, 194} {
				if drafters[i].Lane != want {
					t.Errorf("drafter %d has lane %d, want %d", i, drafters[i].Lane, want)
				}
			}
		}
		if n := chains(d); name != "wrapped" && n != 5 {
			t.Errorf("%s: %d chains", name, n)
		}
	}
	// A merge in a merge has room for all its chains.
	wide := 0
	three := func(from int32) Drafter {
		return Merge(&scripted{tokens: []int32{from, 9, 9}}, &scripted{tokens: []int32{from + 1, 9, 9}},
			&scripted{tokens: []int32{from + 2, 9, 9}})
	}
	o := Options{Schedule: Constant(ConstantOptions{Length: 3}), MaxTokens: 4,
		Trace: func(r *Round) { wide = max(wide, r.Drafted()) }}
	collect(t, New(newFake(t, 64, 50, script(1)), Merge(three(10), Merge(three(20), three(30))), o),
		[]int32{1}, engine.Sampling{})
	if wide != 27 {
		t.Errorf("%d tokens of nine chains of three", wide)
	}
}

// lane keeps its setup.
type lane struct{ Setup }

func (l *lane) Start(_ context.Context, s Setup) error     { l.Setup = s; return nil }
func (*lane) Draft(context.Context, []int32, *Draft) error { return nil }
func (*lane) Observe(*Round)                               {}

// spaced is a SentencePiece vocabulary of single letters that puts a space in front of a text.
func spaced(t testing.TB, reverse bool) *bpe.Tokenizer {
	t.Helper()
	c := bpe.Config{Model: "llama", AddSpacePrefix: true, BOS: -1, EOS: 20, UNK: -1}
	for i := range 20 {
		at := i
		if reverse {
			at = 19 - i
		}
		token := string(rune('a' + at))
		if at == 19 {
			token = "▁"
		}
		c.Tokens, c.Types, c.Scores = append(c.Tokens, token), append(c.Types, bpe.TypeNormal), append(c.Scores, 0)
	}
	c.Tokens, c.Types, c.Scores = append(c.Tokens, "</s>"), append(c.Types, bpe.TypeControl), append(c.Scores, 0)
	tokens, err := bpe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// Text in the middle of a sequence is encoded without the space that a SentencePiece vocabulary puts in front of a
// text, so that a drafter of the same knowledge in another order of tokens is always right, wherever it stands.
func TestRespellingAddsNoSpaces(t *testing.T) {
	const n = 21
	target, draft := spaced(t, false), spaced(t, true)
	knows := loops(9)
	model := func(text []int32, row []float32) {
		knows(text, row)
		row[20] = -100
	}
	mirrored := func(text []int32, row []float32) { // the same in the draft's tokens
		own := make([]float32, n)
		ours := make([]int32, len(text))
		for i, id := range text {
			ours[i] = 19 - id
		}
		model(ours, own)
		for i := range 20 {
			row[19-i] = own[i]
		}
		row[20] = -100
	}
	for _, prompt := range [][]int32{{19, 1, 2, 3}, {1, 2, 3}, {1, 19, 2, 3, 19, 4, 5}, {19, 19, 3}, {19}} {
		for name, drafter := range map[string]Drafter{
			"reencode":  Reencode(newFake(t, n, 300, mirrored), Tokenizers{Target: target, Draft: draft}),
			"intersect": Intersect(newFake(t, n, 300, mirrored), Tokenizers{Target: target, Draft: draft}),
		} {
			d := New(newFake(t, n, 300, model), drafter, Options{Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: 100})
			collect(t, d, prompt, engine.Sampling{})
			if s := d.Stats(); s.Accepted != s.Drafted || s.Drafted < 75 {
				t.Errorf("%s, prompt %v: %d of %d accepted", name, prompt, s.Accepted, s.Drafted)
			}
		}
	}
}

// Where the end of the text and the beginning of the draft would make one token, the draft is encoded by itself:
// without the space that a SentencePiece vocabulary puts in front of a text, with which nothing would be drafted.
func TestReencodeAcrossATokenThatWouldMerge(t *testing.T) {
	make := func(tokens ...string) *bpe.Tokenizer {
		c := bpe.Config{Model: "llama", AddSpacePrefix: true, BOS: -1, EOS: -1, UNK: -1}
		for i, s := range tokens {
			c.Tokens, c.Types, c.Scores = append(c.Tokens, s), append(c.Types, bpe.TypeNormal), append(c.Scores, -float32(i))
		}
		tok, err := bpe.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	target, draft := make("▁", "a", "b", "c", "ab", "▁c", "▁b"), make("c", "b", "a", "▁")
	says := func(text []int32, row []float32) { // a b c a b c ...
		clear(row)
		row[map[int32]int32{2: 1, 1: 0, 0: 2, 3: 2}[text[len(text)-1]]] = 1
	}
	d := &Draft{vocab: 7}
	d.alloc(4)
	d.reset(4, fakeTree, 4)
	r := Reencode(newFake(t, 4, 64, says), Tokenizers{Target: target, Draft: draft})
	text := slices.Grow([]int32{5, 1}, 8) // " c" and "a": the draft goes on "bca...", but "ab" is a token
	if err := r.Start(context.Background(), Setup{Prompt: text, Vocab: 7, Longest: 4}); err != nil {
		t.Fatal(err)
	}
	if err := r.Draft(context.Background(), text, d); err != nil {
		t.Fatal(err)
	}
	if want := []int32{2, 3, 4, 3}; !slices.Equal(d.Tokens, want) { // b c ab c
		t.Errorf("drafted %v, want %v", d.Tokens, want)
	}
}
