package speculative

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/tensor"
)

// run is one scripted case: a target that writes tokens after a prompt of one, and a drafter that
// drafts them too.
type run struct {
	write, draft []int32
	context      int
	o            Options
	s            engine.Sampling
}

func (r run) do(t *testing.T) ([]int32, Stats, *fake) {
	t.Helper()
	if r.context == 0 {
		r.context = 100
	}
	target := newFake(t, 64, r.context, script(1, r.write...))
	d := New(target, &scripted{tokens: r.draft}, r.o)
	got, _ := collect(t, d, []int32{1}, r.s)
	return got, d.Stats(), target
}

func count(n int) (ids []int32) {
	for i := range n {
		ids = append(ids, int32(i%60+2))
	}
	return ids
}

func TestAllAccepted(t *testing.T) {
	got, s, target := run{write: count(24), draft: count(24),
		o: Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 24}}.do(t)
	if !slices.Equal(got, count(24)) || s.TargetPasses != 4 || s.Drafted != 20 || s.Accepted != 20 ||
		s.End != EndLength || target.passes != 4 {
		t.Errorf("%v %+v", got, s)
	}
	if !slices.Equal(s.AcceptedAt, []int{4, 4, 4, 4, 4}) || s.TokensPerPass != 6 {
		t.Errorf("%+v", s)
	}
}

func TestNoneAccepted(t *testing.T) {
	got, s, _ := run{write: count(10), draft: make([]int32, 24),
		o: Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 10}}.do(t)
	if !slices.Equal(got, count(10)) || s.TargetPasses != 10 || s.Accepted != 0 || s.Drafted != 5*5+4+3+2+1 {
		t.Errorf("%v %+v", got, s)
	}
}

func TestEndOfTextInsideDraft(t *testing.T) {
	eog := func(id int32) bool { return id == 4 }
	got, s, _ := run{write: count(24), draft: count(24),
		o: Options{Schedule: Constant(ConstantOptions{Length: 8}), EOG: eog}}.do(t)
	if !slices.Equal(got, []int32{2, 3, 4}) || s.End != EndOfText || s.Accepted != 3 || s.TargetPasses != 1 {
		t.Errorf("%v %+v", got, s)
	}
	if s.Drafted != 3 {
		t.Errorf("drafted %d tokens: an end of text ends the draft", s.Drafted)
	}
	// A wrong end of text in a draft ends nothing.
	wrong := []int32{2, 4, 4}
	got, s, _ = run{write: count(24), draft: wrong,
		o: Options{Schedule: Constant(ConstantOptions{Length: 8}),
			EOG: func(id int32) bool { return id == 9 || id == 4 }}}.do(t)
	if !slices.Equal(got, []int32{2, 3, 4}) || s.Accepted != 2 {
		t.Errorf("%v %+v", got, s)
	}
}

func TestBudgetInsideDraft(t *testing.T) {
	for n := 1; n <= 20; n++ {
		got, s, target := run{write: count(24), draft: count(24),
			o: Options{Schedule: Constant(ConstantOptions{Length: 8}), MaxTokens: n}}.do(t)
		if !slices.Equal(got, count(n)) || s.End != EndLength || s.TargetPasses != (n+8)/9 || target.fed != n {
			t.Errorf("%d: %v %+v, fed %d", n, got, s, target.fed)
		}
	}
}

func TestContextFull(t *testing.T) {
	for c := 1; c <= 20; c++ {
		got, s, _ := run{write: count(40), draft: count(40), context: c,
			o: Options{Schedule: Constant(ConstantOptions{Length: 8})}}.do(t)
		if !slices.Equal(got, count(c)) || s.End != EndContext {
			t.Errorf("context %d: %v %+v", c, got, s)
		}
	}
	d := New(newFake(t, 64, 4, script(0)), nil, Options{})
	for tok, err := range d.Generate(context.Background(), count(5), engine.Sampling{}) {
		if !errors.Is(err, engine.ErrContextFull) || tok.ID != -1 {
			t.Errorf("long prompt: %v %v", tok, err)
		}
	}
	for _, err := range d.Generate(context.Background(), nil, engine.Sampling{}) {
		if !errors.Is(err, ErrPrompt) {
			t.Errorf("empty prompt: %v", err)
		}
	}
}

// A prompt with an id that the target does not have is refused, the last one too, which is scored before it is fed.
func TestPromptOutsideTheVocabulary(t *testing.T) {
	for _, o := range []Options{{}, {LogProbs: true, Scored: func(Token) {}}} {
		for _, id := range []int32{-1, 64, math.MaxInt32} {
			for _, prompt := range [][]int32{{id}, {1, id}, {id, 1}} {
				d := New(newFake(t, 64, 100, script(0)), &scripted{}, o)
				for _, err := range d.Generate(context.Background(), prompt, engine.Sampling{}) {
					if !errors.Is(err, engine.ErrVocabulary) {
						t.Errorf("%v: %v", prompt, err)
					}
				}
			}
		}
	}
}

func TestDraftContextShorter(t *testing.T) {
	model := random(3)
	draft := newFake(t, matrixVocab, 40, model)
	d := New(newFake(t, matrixVocab, 200, model), Model(draft),
		Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 100})
	got, _ := collect(t, d, matrixPrompt, engine.Sampling{})
	if want := plain(t, matrixVocab, model, matrixPrompt, 100, engine.Sampling{}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if s := d.Stats(); s.Drafted < 20 || s.Drafted > 40 || draft.Len() < 35 {
		t.Errorf("%+v; draft holds %d", s, draft.Len())
	}
	long := plain(t, matrixVocab, random(1), matrixPrompt, 60, engine.Sampling{}) // longer than the draft's context
	got, _ = collect(t, d, long, engine.Sampling{})
	if want := plain(t, matrixVocab, model, long, 100, engine.Sampling{}); !slices.Equal(got, want) ||
		d.Stats().Drafted != 0 {
		t.Errorf("got %v, want %v: %+v", got, want, d.Stats())
	}
}

// The draft may know fewer tokens than the target: when the text has one of those, it is silent.
func TestPaddedVocabulary(t *testing.T) {
	write := []int32{2, 3, 60, 4, 5, 6, 7, 8}
	target := newFake(t, 64, 100, script(1, write...))
	draft := newFake(t, 50, 100, func(text []int32, row []float32) {
		long := make([]float32, 64)
		script(1, write...)(text, long)
		copy(row, long)
	})
	d := New(target, Model(draft), Options{MaxTokens: len(write)})
	if got, _ := collect(t, d, []int32{1}, engine.Sampling{Banned: []int32{55}}); !slices.Equal(got, write) {
		t.Errorf("got %v", got)
	}
	if s := d.Stats(); s.Accepted != 2 {
		t.Errorf("%+v", s)
	}
}

func TestBannedSequenceAcrossDraftEdge(t *testing.T) {
	model := loops(12)
	free := plain(t, matrixVocab, model, matrixPrompt, 30, engine.Sampling{})
	for at := 2; at < 12; at++ { // every place relative to the drafts' edges
		s := engine.Sampling{BannedSequences: [][]int32{slices.Clone(free[at-2 : at+1])}}
		want := plain(t, matrixVocab, model, matrixPrompt, 30, s)
		if slices.Equal(want, free) {
			t.Fatal("the ban does nothing")
		}
		for _, drafter := range matrixDrafters(t, model, free) {
			d := New(newFake(t, matrixVocab, 100, model), drafter.make(),
				Options{Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: 30})
			if got, _ := collect(t, d, matrixPrompt, s); !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", drafter.name, got, want)
			}
		}
	}
}

// Log-probabilities, of the token and of the most likely ones, are of the row that chose the token, in plain
// decoding, in chains and in trees.
func TestLogProbs(t *testing.T) {
	model := random(14)
	const tokens = 40
	s := penalties(engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: 3})
	want := plain(t, matrixVocab, model, matrixPrompt, tokens, s)
	for _, c := range []struct {
		name    string
		drafter Drafter
		deep    int // rounds that must have accepted two tokens or more: the row of the first is right by accident
	}{
		{"none", nil, 0},
		{"chain", Replay(ReplayOptions{Tokens: want}), 4},
		{"chain with errors", Replay(ReplayOptions{Tokens: want, ErrorEvery: 7}), 4},
		{"tree", &bush{want, 3}, 5},
		{"model", Model(newFake(t, matrixVocab, 100, noisy(model, 0.2))), 1},
	} {
		deep := 0
		d := New(newFake(t, matrixVocab, 100, model), c.drafter,
			Options{Schedule: Constant(ConstantOptions{Length: 9}), MaxTokens: tokens, LogProbs: true, Top: 3,
				Trace: func(r *Round) {
					if r.Accepted() >= 2 {
						deep++
					}
				}})
		text, row := slices.Clone(matrixPrompt), make([]float32, matrixVocab)
		for tok, err := range d.Generate(context.Background(), matrixPrompt, s) {
			if err != nil {
				t.Fatal(err)
			}
			model(text, row)
			var sum float64
			for _, x := range row {
				sum += math.Exp(float64(x))
			}
			if want := float64(row[tok.ID]) - math.Log(sum); math.Abs(want-float64(tok.LogProb)) > 1e-4 {
				t.Errorf("%s, position %d: log-probability %v, want %v", c.name, tok.Position, tok.LogProb, want)
			}
			ids := make([]int32, len(row))
			for i := range ids {
				ids[i] = int32(i)
			}
			slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(row[b], row[a]) })
			for i, p := range tok.Top {
				if p.ID != ids[i] || math.Abs(float64(row[p.ID])-math.Log(sum)-float64(p.P)) > 1e-4 {
					t.Errorf("%s, position %d: %d. of the most likely is %v, want %d", c.name, tok.Position, i+1, p, ids[i])
				}
			}
			if len(tok.Top) != 3 {
				t.Errorf("%s, position %d: %d most likely tokens", c.name, tok.Position, len(tok.Top))
			}
			text = append(text, tok.ID)
		}
		if deep < c.deep {
			t.Errorf("%s: %d rounds accepted two tokens or more: this tests little", c.name, deep)
		}
	}
}

// With Options.Chosen log-probabilities are of what the token was drawn from, and each token keeps its own.
func TestChosen(t *testing.T) {
	const tokens, most = 20, 3
	model := random(14)
	s := penalties(engine.Sampling{Temperature: 0.8, TopK: 5, Seed: 3})
	sampler, err := sampling.New(matrixVocab, s)
	if err != nil {
		t.Fatal(err)
	}
	d := New(newFake(t, matrixVocab, 100, model), nil,
		Options{MaxTokens: tokens, LogProbs: true, Top: most, Chosen: true})
	var all []Token
	for tok, err := range d.Generate(context.Background(), matrixPrompt, s) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tok)
	}
	text, row := slices.Clone(matrixPrompt), make([]float32, matrixVocab)
	for _, tok := range all {
		model(text, row)
		want := sampler.Distribution(row, text)
		slices.SortStableFunc(want, func(a, b sampling.Prob) int { return cmp.Compare(b.P, a.P) })
		for i := range want {
			want[i].P = tensor.Log(want[i].P)
		}
		if i := slices.IndexFunc(want, func(p sampling.Prob) bool { return p.ID == tok.ID }); i < 0 ||
			want[i].P != tok.LogProb {
			t.Errorf("position %d: log-probability %v of %d, want one of %v", tok.Position, tok.LogProb, tok.ID, want)
		}
		if !slices.Equal(tok.Top, want[:most]) {
			t.Errorf("position %d: %v, want %v", tok.Position, tok.Top, want[:most])
		}
		text = append(text, tok.ID)
	}
	if len(all) != tokens {
		t.Errorf("%d tokens, want %d", len(all), tokens)
	}
}

func TestCancelled(t *testing.T) {
	model := random(20)
	for at := range 8 { // the pass, of either model, in which it happens
		ctx, cancel := context.WithCancel(context.Background())
		n := 0
		stop := func(int) error {
			if n++; n > at {
				cancel()
				return ctx.Err()
			}
			return nil
		}
		target, draft := newFake(t, matrixVocab, 200, model), newFake(t, matrixVocab, 200, noisy(model, 0.3))
		target.onEval, draft.onEval = stop, stop
		d := New(target, Model(draft), Options{Schedule: Constant(ConstantOptions{Length: 2})})
		var got []int32
		failed := 0
		for tok, err := range d.Generate(ctx, matrixPrompt, engine.Sampling{}) {
			if err != nil {
				failed++
				if !errors.Is(err, context.Canceled) || tok.ID != -1 {
					t.Errorf("%v %v", tok, err)
				}
				continue // once is enough
			}
			got = append(got, tok.ID)
		}
		if failed != 1 || d.Stats().End != EndCancel {
			t.Errorf("cancelled at %d: %d errors, %+v", at, failed, d.Stats())
		}
		if s := d.Stats(); s.TargetPasses != s.Rounds {
			t.Errorf("cancelled at %d: %d passes in %d rounds", at, s.TargetPasses, s.Rounds)
		}
		if want := plain(t, matrixVocab, model, matrixPrompt, 40, engine.Sampling{}); !slices.Equal(got, want[:len(got)]) {
			t.Errorf("cancelled at %d: %v", at, got)
		}
		// The decoder is as good as new.
		target.onEval, draft.onEval = nil, nil
		for range d.Generate(context.Background(), matrixPrompt, engine.Sampling{}) {
			break
		}
		if d.Stats().End != EndCancel {
			t.Errorf("left: %+v", d.Stats())
		}
		d.o.MaxTokens = 30
		if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(
			got, plain(t, matrixVocab, model, matrixPrompt, 30, engine.Sampling{})) {
			t.Errorf("after cancelling at %d: %v", at, got)
		}
	}
}

func TestDraftFails(t *testing.T) {
	broken := errors.New("broken")
	draft := newFake(t, matrixVocab, 200, random(1))
	draft.onEval = func(n int) error {
		if n == 3 {
			return broken
		}
		return nil
	}
	d := New(newFake(t, matrixVocab, 200, random(1)), Model(draft),
		Options{Schedule: Constant(ConstantOptions{Length: 2})})
	var last error
	for _, err := range d.Generate(context.Background(), matrixPrompt, engine.Sampling{}) {
		last = err
	}
	if !errors.Is(last, broken) || d.Stats().End != EndError {
		t.Errorf("%v %+v", last, d.Stats())
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		o Options
		s engine.Sampling
	}{
		"greedy verifier, sampling": {Options{Verifier: Greedy()}, engine.Sampling{Temperature: 1}},
		"greedy verifier, a range": {Options{Verifier: Greedy()},
			engine.Sampling{Dynatemp: sampling.Dynatemp{Range: 1}}},
		"stop without tokenizer":        {Options{Stop: []string{"x"}}, engine.Sampling{}},
		"sampling that is not possible": {Options{}, engine.Sampling{Temperature: float32(math.NaN())}},
	} {
		n := 0
		for _, err := range New(newFake(t, 8, 8, script(0)), nil, c.o).Generate(context.Background(), []int32{1}, c.s) {
			if n++; err == nil {
				t.Errorf("%s: no error", name)
				break
			}
		}
		if n != 1 {
			t.Errorf("%s: %d results", name, n)
		}
	}
}

func TestStopStrings(t *testing.T) {
	for _, c := range []struct {
		pieces, stops []string
		want          string
		stop          bool
	}{
		{[]string{"ab", "cd", "ef"}, []string{"cd"}, "ab", true},
		{[]string{"ab", "cd", "ef"}, []string{"bc"}, "a", true},
		{[]string{"ab", "cd", "ef"}, []string{"bcde"}, "a", true},
		{[]string{"ab", "cd", "ef"}, []string{"bcx"}, "abcdef", false},
		{[]string{"ab", "cd", "ef"}, []string{"efg"}, "abcdef", false},
		{[]string{"aab", "aac"}, []string{"abaac"}, "a", true},
		{[]string{"aaa", "aab"}, []string{"aaab"}, "aa", true},
		{[]string{"ab", "c", "d"}, []string{"abcd", "bc"}, "a", true}, // complete first
		{[]string{"ab", "c", "d"}, []string{"bcd", "abcd"}, "", true}, // complete together: the longest
		{[]string{"x", "", "\n", "\n", "y"}, []string{"\n\n"}, "x", true},
		{nil, []string{"x"}, "", false},
	} {
		p, show, stopped := printer{stops: c.stops}, "", false
		for _, piece := range c.pieces {
			text, stop := p.push(piece)
			show += text
			for _, s := range c.stops {
				if strings.Contains(show, s) {
					t.Errorf("%q showed %q", c.pieces, show)
				}
			}
			if stopped = stop; stop {
				break
			}
		}
		if !stopped {
			show += p.held
		}
		if show != c.want || stopped != c.stop {
			t.Errorf("%q, stop %q: %q %v", c.pieces, c.stops, show, stopped)
		}
	}
}

// Every verifier ends texts as plain decoding does: an end-of-text token inside a draft, the token budget, a full
// context, a stop string, a draft of fewer or more tokens than the target has, and log-probabilities of accepted
// tokens.
func TestEveryVerifierEndsTexts(t *testing.T) {
	words := letters(t)
	write := ids("abcdefghijklmnopqrstu.vw")
	narrow := func(text []int32, row []float32) {
		long := make([]float32, 64)
		script(1, write...)(text, long)
		copy(row, long)
	}
	for name, verifier := range map[string]func() Verifier{
		"greedy": Greedy, "match": Match, "rejection": Rejection, "block": Block,
		"stairs": func() Verifier { return Stairs(StairsOptions{Recompute: true}) },
	} {
		for kind, drafter := range map[string]func() Drafter{
			"chain": func() Drafter { return Replay(ReplayOptions{Tokens: write}) },
			"wrong": func() Drafter { return Replay(ReplayOptions{Tokens: write, ErrorEvery: 4}) },
			"tree":  func() Drafter { return &outsider{record: write, branches: 3} },
			"merged": func() Drafter {
				return Merge(Replay(ReplayOptions{Tokens: write, ErrorEvery: 3}), Replay(ReplayOptions{Tokens: write}))
			},
			"smaller": func() Drafter { return Model(newFake(t, 50, 100, narrow)) },
			"larger":  func() Drafter { return Model(newFake(t, 80, 100, script(1, write...))) },
			"shorter": func() Drafter { return Model(newFake(t, 64, 9, script(1, write...))) },
		} {
			for _, c := range []struct {
				o       Options
				context int
				n       int
				end     End
			}{
				{Options{}, 100, 22, EndOfText},
				{Options{MaxTokens: 7}, 100, 7, EndLength},
				{Options{}, 9, 9, EndContext},
				{Options{Stop: []string{"fgh"}}, 100, 8, EndStop},
				{Options{Stop: []string{"u"}, MaxTokens: 21}, 100, 21, EndStop},
			} {
				for _, k := range []int{1, 3, 8, 30} {
					o := c.o
					o.Schedule, o.Verifier, o.Tokenizer, o.LogProbs = Constant(ConstantOptions{Length: k}), verifier(), words, true
					d := New(newFake(t, 64, c.context, script(1, write...)), drafter(), o)
					n := 0
					for tok, err := range d.Generate(context.Background(), []int32{1}, engine.Sampling{}) {
						if err != nil {
							t.Fatal(err)
						}
						if tok.ID != write[n] || math.Abs(float64(tok.LogProb)) > 0.01 {
							t.Fatalf("%s, %s, drafts of %d, %+v: token %d is %d, log-probability %v", name, kind, k, c.o,
								n, tok.ID, tok.LogProb)
						}
						n++
					}
					if n != c.n || d.Stats().End != c.end {
						t.Errorf("%s, %s, drafts of %d, %+v: %d tokens, %s, want %d, %s", name, kind, k, c.o, n,
							d.Stats().End, c.n, c.end)
					}
				}
			}
		}
	}
}
