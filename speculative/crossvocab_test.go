package speculative

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/testkit"
)

// vocabulary is a byte-level vocabulary of the given tokens; those of several letters are merged from
// two that come before them. "" is padding.
func vocabulary(t testing.TB, tokens ...string) *bpe.Tokenizer {
	t.Helper()
	c := bpe.Defaults("gpt2", "gpt-2")
	c.AddBOS = false
	for i, s := range tokens {
		kind := int32(bpe.TypeNormal)
		if s == "<end>" {
			kind, c.EOS = bpe.TypeControl, int32(i)
		}
		c.Tokens, c.Types = append(c.Tokens, s), append(c.Types, kind)
		for cut := 1; cut < len(s) && s != "<end>"; cut++ {
			if slices.Contains(tokens[:i], s[:cut]) && slices.Contains(tokens[:i], s[cut:]) {
				c.Merges = append(c.Merges, s[:cut]+" "+s[cut:])
			}
		}
	}
	tok, err := bpe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// spelt is tokens of one byte each, the first at byte from.
func spelt(from int, ids ...int32) *encoding {
	s := &encoding{ids: ids, from: from}
	for i := range ids {
		s.ends = append(s.ends, from+i+1)
	}
	return s
}

// The longest diagonal, by Transformers' own test cases of _get_tokens_diag: what is to be replaced
// and what is new.
func TestAlign(t *testing.T) {
	for _, c := range []struct {
		name            string
		text, window    *encoding
		replaced, fresh int
		ok              bool
	}{
		{"no intersection", spelt(0, 1, 2, 3), spelt(0, 4, 5, 6), 3, 3, false},
		{"complete overlap", spelt(0, 1, 2, 3), spelt(0, 1, 2, 3, 4, 5, 6), 0, 3, true},
		{"partial overlap", spelt(0, 1, 2, 3), spelt(1, 2, 3, 4, 5), 0, 2, true},
		{"no new tokens", spelt(0, 1, 2, 3), spelt(0, 1, 2, 3), 0, 0, true},
		// And where indices alone would mislead or the runs differ:
		{"another end", spelt(0, 1, 2, 3, 4), spelt(1, 2, 3, 9, 5), 1, 2, true},
		{"another beginning", spelt(0, 1, 2, 3, 4), spelt(1, 8, 3, 4, 5), 0, 1, true},
		{"two runs", spelt(0, 1, 2, 3, 4, 5), spelt(0, 1, 2, 3, 7, 5, 6), 2, 3, true},
		{"repetition", spelt(0, 7, 7, 7, 7), spelt(2, 7, 7, 7, 7), 0, 2, true},
		{"longer tokens", &encoding{ids: []int32{1, 20, 3}, ends: []int{1, 3, 4}}, spelt(1, 2, 2, 3, 4), 0, 1, true},
	} {
		i, j, ok := align(c.text, c.window)
		if ok != c.ok || len(c.text.ids)-i != c.replaced || len(c.window.ids)-j != c.fresh {
			t.Errorf("%s: the run ends at %d of %v and %d of %v, %v", c.name, i, c.text.ids, j, c.window.ids, ok)
		}
	}
}

// Tokens are shared by what they stand for: the vocabularies of Transformers' own test of
// token-level intersection, hello world foo bar and hello world foo baz, with padding and an end.
func TestSharedTokens(t *testing.T) {
	abc := strings.Split("abdefhlorwz", "")
	target := vocabulary(t, append(abc, "<end>", "he", "ll", "llo", "hello", "wo", "rl", "ld", "rld", "world", "fo",
		"foo", "ba", "bar")...)
	draft := vocabulary(t, append([]string{"<end>", "fo", "he", "ll", "wo"},
		append(slices.Clone(abc), "llo", "hello", "rl", "ld", "rld", "world", "foo", "ba", "baz")...)...)
	names := map[string]bool{}
	for _, c := range sharedTokens(pieces{target}, pieces{draft}, target.Size()) {
		if target.Token(c.target) != draft.Token(c.draft) {
			t.Errorf("%q and %q are not the same", target.Token(c.target), draft.Token(c.draft))
		}
		names[target.Token(c.target)] = true
	}
	for name, want := range map[string]bool{"hello": true, "world": true, "foo": true, "bar": false, "baz": false,
		"a": true, "<end>": true} {
		if names[name] != want {
			t.Errorf("%q is shared: %v", name, names[name])
		}
	}
	if n := len(sharedTokens(pieces{target}, pieces{draft}, 3)); n != 3 {
		t.Errorf("%d shared tokens of a target that has 3", n)
	}
}

// Restricted to the shared tokens and renormalized, by hand: the draft has a 0.5, b 0.3, c 0.2; the
// target has b, c and d, so q is b 0.6, c 0.4 in its ids.
func TestIntersectByHand(t *testing.T) {
	draft := vocabulary(t, "a", "b", "c")
	target := vocabulary(t, "c", "d", "b")
	model := func(_ []int32, row []float32) {
		for i, p := range []float64{0.5, 0.3, 0.2} {
			row[i] = float32(math.Log(p)) + 3
		}
	}
	x := Intersect(newFake(t, 3, 10, model), Tokenizers{Target: target, Draft: draft})
	setup := Setup{Target: newFake(t, 3, 10, model), Prompt: []int32{1, 2}, Vocab: 3, Longest: 1, NeedsProbs: true,
		NeedsConfidence: true, Sampling: engine.Sampling{Temperature: 1}}
	if err := x.Start(context.Background(), setup); err != nil {
		t.Fatal(err)
	}
	d := &Draft{vocab: 3}
	d.alloc(1)
	d.reset(1, fakeTree, 1)
	if err := x.Draft(context.Background(), slices.Grow([]int32{1, 2}, 4), d); err != nil {
		t.Fatal(err)
	}
	q := d.Probs[0]
	if len(q) != 2 || q[0].ID != 0 || q[1].ID != 2 || math.Abs(float64(q[0].P)-0.4) > 1e-6 ||
		math.Abs(float64(q[1].P)-0.6) > 1e-6 {
		t.Errorf("q is %v", q)
	}
	if want := map[int32]float64{0: 0.2, 2: 0.3}[d.Tokens[0]]; math.Abs(float64(d.Confidence[0])-want) > 1e-6 {
		t.Errorf("confidence of token %d is %v, want the draft's own %v", d.Tokens[0], d.Confidence[0], want)
	}
	if err := Intersect(newFake(t, 1, 10, model),
		Tokenizers{Target: target, Draft: vocabulary(t, "z")}).Start(context.Background(), setup); !errors.Is(
		err, engine.ErrVocabulary) {
		t.Errorf("nothing in common: %v", err)
	}
	for _, d := range []Drafter{Intersect(newFake(t, 3, 10, model), Tokenizers{Target: nil, Draft: draft}),
		Reencode(newFake(t, 3, 10, model), Tokenizers{Target: target, Draft: nil})} {
		if err := d.Start(context.Background(), setup); !errors.Is(err, engine.ErrVocabulary) {
			t.Errorf("%T without a tokenizer: %v", d, err)
		}
	}
	if err := Intersect(newFake(t, 1, 10, model),
		Tokenizers{Target: target, Draft: draft}).Start(context.Background(), setup); !errors.Is(err, engine.ErrVocabulary) {
		t.Errorf("a model of fewer tokens than its tokenizer: %v", err)
	}
}

// By hand: the target writes abc, d, abc; the draft knows a, b, c, d and bc only. Its draft is spelled
// back, each token proposed when the next has begun, with the product of its parts' confidence.
func TestReencodeByHand(t *testing.T) {
	target := vocabulary(t, "a", "b", "c", "d", "ab", "abc", "<end>")
	draft := vocabulary(t, "<end>", "d", "c", "b", "a", "bc")
	// The draft goes on a bc d a bc d ..., each token with probability 3/4, and ends after 8 tokens.
	says := func(text []int32, row []float32) {
		clear(row)
		next := map[int32]int32{1: 4, 4: 5, 5: 1}[text[len(text)-1]]
		if len(text) >= 8 {
			next = 0
		}
		row[next] = float32(math.Log(15))
	}
	seq := newFake(t, 6, 64, says)
	r := Reencode(seq, Tokenizers{Target: target, Draft: draft})
	setup := Setup{Target: newFake(t, 7, 64, says), Prompt: []int32{5, 3}, Vocab: 7, Longest: 9, NeedsConfidence: true}
	if err := r.Start(context.Background(), setup); err != nil {
		t.Fatal(err)
	}
	if want := []int32{4, 5}; !slices.Equal(seq.text, want) {
		t.Errorf("the prompt abc|d but for its last token is %v in the draft's tokens, want %v", seq.text, want)
	}
	d := &Draft{vocab: 7, isEnd: target.IsEOG}
	d.alloc(9)
	d.reset(2, fakeTree, 2)
	text := slices.Grow([]int32{5, 3}, 12)
	if err := r.Draft(context.Background(), text, d); err != nil {
		t.Fatal(err)
	}
	if want := []int32{5, 3}; !slices.Equal(d.Tokens, want) || d.Passes != 4 { // a bc | d | a
		t.Errorf("drafted %v in %d passes, want %v in 4", d.Tokens, d.Passes, want)
	}
	if math.Abs(float64(d.Confidence[0])-9./16) > 1e-5 || math.Abs(float64(d.Confidence[1])-3./4) > 1e-5 {
		t.Errorf("confidence %v, want 9/16 and 3/4", d.Confidence)
	}
	// The target took them and wrote a: the draft's cache is all right but for the last a, and its
	// text is near its end.
	fed := seq.fed
	text = append(text, 5, 3, 0)
	d.reset(9, fakeTree, 9)
	if err := r.Draft(context.Background(), text, d); err != nil {
		t.Fatal(err)
	}
	// a d a bc d a bc [end]: bc follows the text's a as b, c, since the text is not abc but a.
	if want := []int32{1, 2, 6}; !slices.Equal(d.Tokens, want) {
		t.Errorf("drafted %v, want %v", d.Tokens, want)
	}
	if n := seq.fed - fed; n != 2 {
		t.Errorf("fed %d tokens, want a and bc", n)
	}
}

// Sampled by intersection, with real models of two vocabularies: the first token is distributed as the
// target's.
func TestForeignPairDistribution(t *testing.T) {
	_, gopher := pair(t)
	teller := stories(t, gopher.Runtime())
	texts := 1500
	if !testkit.IsLong(t) {
		texts = 300
	}
	for _, c := range []struct {
		name          string
		target, draft *engine.Model
		prompt        string
	}{
		{"stories for Go", gopher, teller, "// the"},
		{"Go for stories", teller, gopher, "He had a"},
	} {
		one, two := session(t, c.target, 0), session(t, c.draft, 0)
		prompt := c.target.Tokenizer().Encode(c.prompt, bpe.EncodeOptions{AddSpecial: true})
		s := engine.Sampling{Temperature: 1.3}
		logits, err := one.Eval(context.Background(), prompt, nil, engine.Last)
		if err != nil {
			t.Fatal(err)
		}
		sampler, err := sampling.New(one.Vocab(), s)
		if err != nil {
			t.Fatal(err)
		}
		const rare = 8 // cells for tokens too rare to have their own
		cell, want := make([]int, one.Vocab()), make([]float64, one.Vocab()+rare)
		for _, p := range sampler.Distribution(logits.Row(0), prompt) {
			cell[p.ID] = int(p.ID)
			if float64(p.P)*float64(texts) < 5 {
				cell[p.ID] = one.Vocab() + int(p.ID)%rare
			}
			want[cell[p.ID]] += float64(p.P)
		}
		for _, verifier := range []func() Verifier{Rejection, Block, Match} {
			count, accepted := make([]int, len(want)), 0
			d := New(one, Intersect(two, Tokenizers{Target: c.target.Tokenizer(), Draft: c.draft.Tokenizer()}),
				Options{Schedule: Constant(ConstantOptions{Length: 2}), Verifier: verifier(), MaxTokens: 3})
			for s.Seed = range uint64(texts) {
				for tok, err := range d.Generate(context.Background(), prompt, s) {
					if err != nil {
						t.Fatal(err)
					}
					if count[cell[tok.ID]]++; tok.Drafted {
						accepted++
					}
					break // the first one is compared
				}
			}
			got := deviation(t, count, want)
			t.Logf("%s, %T: chi-squared is off by %.1f standard deviations; %d of %d first drafts accepted", c.name,
				verifier(), got, accepted, texts)
			if math.Abs(got) > 4 {
				t.Errorf("%s, %T: chi-squared is off by %.1f standard deviations", c.name, verifier(), got)
			}
			if accepted < texts/50 {
				t.Errorf("%s, %T: %d drafts accepted: this shows little", c.name, verifier(), accepted)
			}
		}
	}
}

// TestLongForeignPairDistribution: with five times the texts, a bend of less than half the size shows.
func TestLongForeignPairDistribution(t *testing.T) {
	testkit.Long(t)
	TestForeignPairDistribution(t)
}

// However a text grows, its encoding in the draft's tokens has the same bytes, at the places that
// it claims, and what the draft adds is encoded as it is.
func TestRespellingIsExact(t *testing.T) {
	few, more := vocabulary(t, "b", "a", "ab", "aba"), vocabulary(t, "a", "b", "aa", "bb", "aab", "abb", "ba")
	cases := []struct{ target, draft *bpe.Tokenizer }{{few, more}, {more, few}}
	gopher, _ := pair(t)
	t.Run("stories", func(t *testing.T) { // where ../shared is not, the others alone
		known, teller := gopher.Tokenizer(), stories(t, gopher.Runtime()).Tokenizer()
		cases = append(cases, struct{ target, draft *bpe.Tokenizer }{known, teller},
			struct{ target, draft *bpe.Tokenizer }{teller, known})
	})
	for _, c := range cases {
		rng := rand.New(rand.NewPCG(1, 2))
		f := reencode{crossVocab: newCrossVocab(
			newFake(t, c.draft.Size(), 4000, nil), Tokenizers{Target: c.target, Draft: c.draft})}
		join := func(w pieces, ids []int32) string {
			var s strings.Builder
			for _, id := range ids {
				s.WriteString(w.Piece(id))
			}
			return s.String()
		}
		var text []int32
		none := 0
		for range 200 {
			for range 1 + rng.IntN(20) {
				text = append(text, int32(rng.IntN(c.target.Size())))
			}
			if err := f.follow(text); err != nil {
				t.Fatal(err)
			}
			want := join(f.target, text)
			if got := strings.Repeat(" ", -f.own.from) + want; join(f.draft, f.own.ids) != got || f.own.from < -1 {
				t.Fatalf("%q is spelled %q", got, join(f.draft, f.own.ids))
			}
			for i, id := range f.own.ids {
				if begin, end := f.own.begin(i), f.own.ends[i]; begin < end &&
					want[max(0, begin):end] != f.draft.Piece(id)[max(0, begin)-begin:] {
					t.Fatalf("token %d is said to be bytes %d to %d", i, begin, end)
				}
			}
			f.draftText = f.draftText[:0]
			for range 1 + rng.IntN(5) {
				f.draftText = append(f.draftText, f.draft.Piece(int32(rng.IntN(c.draft.Size())))...)
			}
			if fresh := join(f.target, f.draftTokens()); fresh == "" && len(f.draftText) > 0 {
				none++
			} else if fresh != string(f.draftText) {
				t.Fatalf("%q is spelled %q", f.draftText, fresh)
			}
			if string(f.text) != want {
				t.Fatal("the draft stays in the text")
			}
		}
		if none > 20 {
			t.Errorf("%d drafts of 200 cannot be spelled", none)
		}
	}
}

// With the target's own tokens and its own model every draft is right, under penalties and with shared
// noise too: both depend on the tokens drafted before.
func TestIntersectFollowsItsDraft(t *testing.T) {
	words := letters(t)
	model := random(5)
	wide := func(text []int32, row []float32) {
		model(text, row[:26])
		for i := 26; i < len(row); i++ {
			row[i] = -100
		}
	}
	for _, s := range []engine.Sampling{{RepeatPenalty: 1.3, FrequencyPenalty: 0.5}, {Temperature: 1, Seed: 2}} {
		d := New(newFake(t, 64, 200, wide), Intersect(newFake(t, 64, 200, wide), Tokenizers{Target: words, Draft: words}),
			Options{Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: 80})
		collect(t, d, []int32{1, 2, 3}, s)
		if st := d.Stats(); st.Accepted != st.Drafted || st.Drafted < 60 {
			t.Errorf("%+v: %d of %d accepted", s, st.Accepted, st.Drafted)
		}
	}
}

// A drafter across vocabularies is made without going through them: each answer makes one.
func TestDraftersOfTextsBeginAtOnce(t *testing.T) {
	gopher, _ := pair(t)
	tok := gopher.Tokenizer()
	seq := newFake(t, tok.Size(), 10, nil)
	if n := testing.AllocsPerRun(10, func() { Reencode(seq, Tokenizers{Target: tok, Draft: tok}) }); n > 5 {
		t.Errorf("%v allocations", n)
	}
}

// A model of the target's own vocabulary is accepted as often by way of text, or of the shared
// tokens, which are all, as it does directly.
func TestForeignAcceptance(t *testing.T) {
	target, draft := pair(t)
	words := target.Tokenizer()
	one, two := session(t, target, 0), session(t, draft, 0)
	prompt := words.Encode("func (r *Ring) Push(x int) error {\n\tif r.full() {\n", bpe.EncodeOptions{AddSpecial: true})
	share := func(drafter Drafter) float64 {
		d := New(one, drafter, Options{Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: 60})
		collect(t, d, prompt, engine.Sampling{})
		s := d.Stats()
		t.Logf("%T: %d of %d accepted, %d draft passes", drafter, s.Accepted, s.Drafted, s.DraftPasses)
		return float64(s.Accepted) / float64(s.Drafted)
	}
	own := share(Model(two))
	for _, drafter := range []Drafter{Reencode(two, Tokenizers{Target: words, Draft: words}),
		Intersect(two, Tokenizers{Target: words, Draft: words})} {
		if got := share(drafter); got < own-0.05 {
			t.Errorf("%T: %.2f accepted, %.2f of the model's own", drafter, got, own)
		}
	}
}

// crossVocabDrafters are drafters of other vocabularies for a target of matrixVocab tokens.
func crossVocabDrafters(t testing.TB, model func([]int32, []float32)) []named[Drafter] {
	tokens := strings.Split("abcdefghijklmnopqrst", "")
	target := vocabulary(t, append(slices.Clone(tokens), "ab", "cd", "ef", "abcd", "st", "rst", "qr", "aa",
		"mn", "no", "<end>", "")...)
	slices.Reverse(tokens)
	// without a and b
	draft := vocabulary(t, append(append([]string{"<end>"}, tokens[:18]...), "cd", "tt", "mn", "mnm", "st")...)
	if target.Size() != matrixVocab {
		t.Fatal(target.Size())
	}
	n := draft.Size()
	return []named[Drafter]{
		{"reencode", func() Drafter {
			return Reencode(newFake(t, n, matrixContext, random(5)), Tokenizers{Target: target, Draft: draft})
		}},
		{"reencode/same", func() Drafter {
			return Reencode(newFake(t, matrixVocab, matrixContext, model), Tokenizers{Target: target, Draft: target})
		}},
		{"reencode/short", func() Drafter {
			return Reencode(
				newFake(t, n, 30, loops(5)), Tokenizers{Target: target, Draft: draft})
		}},
		{"intersect", func() Drafter {
			return Intersect(newFake(t, n, matrixContext, random(5)), Tokenizers{Target: target, Draft: draft})
		}},
		{"intersect/same", func() Drafter {
			return Intersect(newFake(t, matrixVocab, matrixContext, noisy(model, 0.3)),
				Tokenizers{Target: target, Draft: target})
		}},
		{"intersect/short", func() Drafter {
			return Intersect(newFake(t, n+2, 30, loops(5)), Tokenizers{Target: target, Draft: draft})
		}},
		{"merged/foreign", func() Drafter {
			return Merge(Intersect(newFake(t, n, matrixContext, random(5)), Tokenizers{Target: target, Draft: draft}),
				Reencode(newFake(t, matrixVocab, matrixContext, noisy(model, 0.2)), Tokenizers{Target: target, Draft: target}),
				Model(newFake(t, matrixVocab, matrixContext, noisy(model, 0.3))), Suffix(SuffixOptions{}))
		}},
	}
}

// stories opens stories260K, which lies beside the project.
func stories(t testing.TB, rt *engine.Runtime) *engine.Model {
	t.Helper()
	m, err := engine.Open(context.Background(), rt, testkit.Shared(t, "models/stories260K.f32.gguf"), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The target knows Go in 4,096 byte-level tokens, the draft English in 512 of SentencePiece, and the
// reverse: the text is plain decoding's.
func TestForeignPair(t *testing.T) {
	gopher, _ := pair(t)
	teller := stories(t, gopher.Runtime())
	tokens, seeds, texts := 24, uint64(1), 3
	switch {
	case testkit.IsLong(t):
		tokens, seeds = 32, 3
	case testing.Short():
		tokens, texts = 12, 1
	}
	for _, c := range []struct {
		name          string
		target, draft *engine.Model
		prompts       []string
	}{
		{"stories for Go", gopher, teller, []string{
			"// Once upon a time, there was a reader who", "func (r *Ring) Push(", "// héllo, 世界 \U0001F600\n"}},
		{"Go for stories", teller, gopher, []string{
			"Once upon a time, there was a little", "func main() {", "She said: \"日本\""}},
	} {
		one, two := session(t, c.target, 0), session(t, c.draft, 0)
		tt, dt := c.target.Tokenizer(), c.draft.Tokenizer()
		settings := []engine.Sampling{{}}
		for seed := range seeds {
			settings = append(settings, engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: seed})
		}
		drafters := []named[Drafter]{
			{"reencode", func() Drafter { return Reencode(two, Tokenizers{Target: tt, Draft: dt}) }},
			{"intersect", func() Drafter { return Intersect(two, Tokenizers{Target: tt, Draft: dt}) }},
		}
		schedules := []func() Schedule{
			func() Schedule { return Constant(ConstantOptions{Length: 5}) },
			func() Schedule { return Dynamic(DynamicOptions{Length: 8, MinConfidence: 0.3, Adapt: true}) }, newAuto,
		}
		want := map[[2]int][]int32{}
		for _, x := range testkit.Combinations(t, texts, len(settings), len(drafters), len(schedules)) {
			text, s, drafter, schedule := c.prompts[x[0]], settings[x[1]], drafters[x[2]], schedules[x[3]]()
			prompt := tt.Encode(text, bpe.EncodeOptions{AddSpecial: true})
			plain := [2]int{x[0], x[1]}
			if want[plain] == nil {
				want[plain], _ = collect(t, New(one, nil, Options{MaxTokens: tokens}), prompt, s)
			}
			d := New(one, drafter.make(), Options{Schedule: schedule, MaxTokens: tokens})
			if got, _ := collect(t, d, prompt, s); !slices.Equal(got, want[plain]) {
				t.Errorf("%s, %s, %.40q, %T, %+v:\n got %v\nwant %v", c.name, drafter.name, text, schedule, s, got, want[plain])
			}
		}
		// Without being asked for, it is refused, with the reason.
		for _, drafter := range []Drafter{Model(two), Splice(two, TreeOptions{}), Merge(NGram(NGramOptions{}), Model(two))} {
			for _, err := range New(one, drafter, Options{}).Generate(context.Background(), []int32{1}, engine.Sampling{}) {
				if !errors.Is(err, engine.ErrVocabulary) || !strings.Contains(err.Error(), "the vocabularies differ") {
					t.Errorf("%s, %T: %v", c.name, drafter, err)
				}
				break
			}
		}
	}
}

// TestLongForeignPair: longer texts of more seeds, each with every drafter and schedule.
func TestLongForeignPair(t *testing.T) {
	testkit.Long(t)
	TestForeignPair(t)
}
