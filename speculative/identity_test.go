package speculative

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/testkit"
)

// The matrix of promise P2: every drafter, schedule and draft length writes what plain decoding writes.

const (
	matrixVocab   = 32
	matrixContext = 160
	matrixTokens  = 60
)

var matrixPrompt = []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}

type named[T any] struct {
	name string
	make func() T
}

func matrixDrafters(t testing.TB, model func([]int32, []float32), want []int32) []named[Drafter] {
	on := func(vocab, context int, m func([]int32, []float32)) func() Drafter {
		return func() Drafter { return Model(newFake(t, vocab, context, m)) }
	}
	index := indexOf(t, matrixVocab, edited(want, 0.1, matrixVocab, 1), edited(want, 0.2, matrixVocab, 2))
	return append(crossVocabDrafters(t, model), []named[Drafter]{
		{"none", func() Drafter { return nil }},
		{"model/same", on(matrixVocab, matrixContext, model)},
		{"model/good", on(matrixVocab, matrixContext, noisy(model, 0.3))},
		{"model/useless", on(matrixVocab, matrixContext, random(99))},
		{"model/smaller", on(matrixVocab-3, matrixContext, noisy(model, 0.3))},
		{"model/padded", on(matrixVocab+5, matrixContext, noisy(model, 0.3))},
		{"model/short", on(matrixVocab, 40, noisy(model, 0.3))},
		{"ngram", func() Drafter { return NGram(NGramOptions{}) }},
		{"suffix", func() Drafter { return Suffix(SuffixOptions{}) }},
		{"splice", func() Drafter {
			return Splice(newFake(t, matrixVocab, matrixContext, noisy(model, 0.3)), TreeOptions{})
		}},
		{"tree", func() Drafter { return Tree(newFake(t, matrixVocab, matrixContext, noisy(model, 0.3)), TreeOptions{}) }},
		{"tree/short", func() Drafter { return Tree(newFake(t, matrixVocab-3, 40, noisy(model, 0.3)), TreeOptions{}) }},
		{"merged", func() Drafter {
			return Merge(Model(newFake(t, matrixVocab, 80, noisy(model, 0.3))), NGram(NGramOptions{}),
				Tree(newFake(t, matrixVocab, matrixContext, noisy(model, 0.5)), TreeOptions{}))
		}},
		{"replay", func() Drafter { return Replay(ReplayOptions{Tokens: want}) }},
		{"replay/10", func() Drafter { return Replay(ReplayOptions{Tokens: want, ErrorEvery: 10}) }},
		{"previous", func() Drafter { return Previous(PreviousOptions{Tokens: edited(want, 0.1, matrixVocab, 1)}) }},
		{"previous/else", func() Drafter {
			return Previous(PreviousOptions{Tokens: edited(want, 0.2, matrixVocab, 2),
				Else: Model(newFake(t, matrixVocab, 40, noisy(model, 0.3)))})
		}},
		{"lookup", func() Drafter { return Lookup(SuffixSource(SuffixOptions{}), IndexSource(index)) }},
		{"tree/lookup", func() Drafter {
			return Tree(newFake(t, matrixVocab, matrixContext, noisy(model, 0.3)), TreeOptions{
				Sources: []CandidateSource{IndexSource(index), SuffixSource(SuffixOptions{})}})
		}},
		{"fan", func() Drafter { return &fan{model: noisy(model, 0.1), wide: 3} }},
	}...)
}

func matrixSchedules(n int) []named[Schedule] {
	return []named[Schedule]{
		{"constant", func() Schedule { return Constant(ConstantOptions{Length: n}) }},
		{"constant/threshold", func() Schedule { return Constant(ConstantOptions{Length: n, MinConfidence: 0.3}) }},
		{"heuristic", func() Schedule { return Heuristic(HeuristicOptions{Length: n}) }},
		{"dynamic", func() Schedule { return Dynamic(DynamicOptions{Length: n, MinConfidence: 0.2, Adapt: true}) }},
		{"auto", newAuto},
	}
}

// matrixText is a text of the matrix: who writes it, and how.
type matrixText struct {
	model    func([]int32, []float32)
	sampling engine.Sampling
}

// testMatrix writes texts with every drafter and schedule, each with every draft length; in the quick tests every two
// of drafters, schedules, lengths and texts meet.
func testMatrix(t *testing.T, texts []matrixText, lengths []int) {
	t.Helper()
	var want [][]int32
	var drafters [][]named[Drafter]
	for _, x := range texts {
		text := plain(t, matrixVocab, x.model, matrixPrompt, matrixTokens, x.sampling)
		want, drafters = append(want, text), append(drafters, matrixDrafters(t, x.model, text))
	}
	for _, c := range testkit.Combinations(t, len(texts), len(drafters[0]), len(matrixSchedules(1)), len(lengths)) {
		x, want, n := texts[c[0]], want[c[0]], lengths[c[3]]
		drafter, schedule := drafters[c[0]][c[1]], matrixSchedules(n)[c[2]]
		name := fmt.Sprintf("text %d, %s/%s/%d", c[0], drafter.name, schedule.name, n)
		target := newFake(t, matrixVocab, matrixContext, x.model)
		d := New(target, drafter.make(), Options{Schedule: schedule.make(), DraftMax: 16, MaxTokens: matrixTokens})
		for range 2 { // the second time with warm caches and what the schedule learned
			if got, _ := collect(t, d, matrixPrompt, x.sampling); !slices.Equal(got, want) {
				t.Errorf("%s:\n got %v\nwant %v", name, got, want)
			}
		}
		if target.passes != 2*d.Stats().TargetPasses && drafter.name == "none" && x.sampling.Constraint == nil {
			t.Errorf("%s: %d passes, stats say %d", name, target.passes, d.Stats().TargetPasses)
		}
	}
}

func upTo(n int) (all []int) {
	for i := 1; i <= n; i++ {
		all = append(all, i)
	}
	return all
}

func TestGreedyIsPlainGreedy(t *testing.T) {
	lengths := []int{1, 2, 3, 4, 7, 8, 12, 16}
	if testkit.IsLong(t) {
		lengths = upTo(16)
	}
	testMatrix(t, []matrixText{{random(1), engine.Sampling{}}, {loops(2), engine.Sampling{}},
		{loops(2), penalties(engine.Sampling{})}}, lengths)
}

// TestLongGreedyIsPlainGreedy: every drafter and schedule with every draft length.
func TestLongGreedyIsPlainGreedy(t *testing.T) {
	testkit.Long(t)
	TestGreedyIsPlainGreedy(t)
}

func TestMatchIsPlainSampling(t *testing.T) {
	seeds := uint64(2)
	if testkit.IsLong(t) {
		seeds = 5
	}
	var texts []matrixText
	for seed := range seeds {
		s := engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: seed}
		texts = append(texts, matrixText{random(seed), s}, matrixText{loops(seed), penalties(s)},
			matrixText{loops(seed), steps(s)}, matrixText{random(seed), mirostat(s)}, matrixText{random(seed), infill(s)})
	}
	testMatrix(t, texts, []int{1, 2, 5, 16})
}

// TestLongMatchIsPlainSampling: every drafter, schedule and draft length with every way to sample, of five seeds.
func TestLongMatchIsPlainSampling(t *testing.T) {
	testkit.Long(t)
	TestMatchIsPlainSampling(t)
}

// penalties turns on everything that depends on the text, so it advances inside a draft.
func penalties(s engine.Sampling) engine.Sampling {
	s.RepeatPenalty, s.FrequencyPenalty, s.PresencePenalty, s.PenaltyLastN = 1.3, 0.2, 0.1, 20
	s.LogitBias = map[int32]float32{7: 1.5, 30: 2}
	s.Banned = []int32{4, matrixVocab - 1}
	s.BannedSequences = [][]int32{{7, 7}, {30, 7, 30}, {7, matrixVocab - 2}}
	return s
}

// steps turns on every filter and DRY, in an order of their own.
func steps(s engine.Sampling) engine.Sampling {
	s.TypicalP, s.TopNSigma, s.Dynatemp = 0.97, 3, sampling.Dynatemp{Range: 0.5, Exponent: 0.8}
	s.XTC = sampling.XTC{Probability: 0.4, Threshold: 0.1}
	s.DRY = sampling.DRY{Multiplier: 0.8, Breakers: [][]int32{{7}, {30, 2}}}
	s.Order = []sampling.Step{sampling.StepTopNSigma, sampling.StepDRY, sampling.StepTemperature, sampling.StepTypicalP,
		sampling.StepXTC}
	return s
}

// mirostat turns on the filter that has a state: it follows the text.
func mirostat(s engine.Sampling) engine.Sampling {
	s.Mirostat = sampling.Mirostat{Version: 1 + int(s.Seed)%2, Tau: 3, Eta: 0.4}
	return s
}

// matrixPieces are texts that begin with each other: the digits of an id in base 3.
type matrixPieces struct{}

func (matrixPieces) Piece(id int32) string { return strconv.FormatInt(int64(id), 3) }

// infill turns on the step for text that fills a gap.
func infill(s engine.Sampling) engine.Sampling {
	s.TopK, s.TopP, s.Order = 12, 0.97, []sampling.Step{sampling.StepTopK, sampling.StepTopP, sampling.StepInfill}
	s.Infill = sampling.Infill{Pieces: matrixPieces{}, Ends: []int32{7, 30}}
	return s
}

// A new prompt that begins like the last text costs only what is new, for both models.
func TestPromptReuse(t *testing.T) {
	model := random(5)
	target, draft := newFake(t, matrixVocab, 600, model), newFake(t, matrixVocab, 600, noisy(model, 0.3))
	d := New(target, Model(draft), Options{MaxTokens: 20})
	prompt := plain(t, matrixVocab, random(8), []int32{1}, 300, engine.Sampling{})
	first, _ := collect(t, d, prompt, engine.Sampling{})
	if s := d.Stats(); s.PrefillPasses != 2 || s.Reused != 0 || target.widest > prefillChunk {
		t.Errorf("prefill of %d tokens: %+v, widest pass %d", len(prompt), s, target.widest)
	}
	fed, drafted := target.fed, draft.fed
	next := append(append(slices.Clone(prompt), first[:15]...), 9, 9)
	got, _ := collect(t, d, next, engine.Sampling{})
	if want := plain(t, matrixVocab, model, next, 20, engine.Sampling{}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	s := d.Stats()
	if s.Reused != len(prompt)+15 || s.PrefillPasses != 1 {
		t.Errorf("reused %d of %d", s.Reused, len(next))
	}
	if target.fed-fed > 3+s.Drafted+s.Rounds || draft.fed-drafted > 3+s.Drafted+2*s.Rounds {
		t.Errorf("fed %d and %d tokens anew: %+v", target.fed-fed, draft.fed-drafted, s)
	}
	// A different text shares nothing.
	got, _ = collect(t, d, []int32{9, 9, 9}, engine.Sampling{})
	if want := plain(t, matrixVocab, model, []int32{9, 9, 9}, 20, engine.Sampling{}); !slices.Equal(got, want) ||
		d.Stats().Reused != 0 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The drafter feeds what it lacks and nothing twice: one pass for each drafted token.
func TestDraftCacheIsRolledBack(t *testing.T) {
	model := random(6)
	target, draft := newFake(t, matrixVocab, 400, model), newFake(t, matrixVocab, 400, noisy(model, 0.3))
	d := New(target, Model(draft), Options{Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: 200})
	collect(t, d, matrixPrompt, engine.Sampling{})
	s := d.Stats()
	if draft.passes != s.DraftPasses || s.DraftPasses != s.Drafted {
		t.Errorf("%d passes, %+v", draft.passes, s)
	}
	// Each round feeds the target's token, and the last draft if all were accepted: never more.
	full := s.AcceptedAt[3]
	if most := len(matrixPrompt) - 1 + s.Drafted + full; draft.fed > most {
		t.Errorf("fed %d tokens, need %d: %+v", draft.fed, most, s)
	}
}

// longPasses is a sequence whose prompts are fed in longer passes.
type longPasses struct{ *fake }

func (longPasses) PassRows() int { return 2 * prefillChunk }

// TestPromptInLongPasses: a sequence that says how many tokens of a prompt its passes take is fed as many.
func TestPromptInLongPasses(t *testing.T) {
	target := newFake(t, matrixVocab, 1000, random(5))
	prompt := plain(t, matrixVocab, random(8), []int32{1}, 3*prefillChunk, engine.Sampling{})
	d := New(longPasses{target}, nil, Options{MaxTokens: 2})
	collect(t, d, prompt, engine.Sampling{})
	if s := d.Stats(); s.PrefillPasses != 2 || target.widest != 2*prefillChunk {
		t.Errorf("prefill of %d tokens: %d passes, the widest of %d", len(prompt), s.PrefillPasses, target.widest)
	}
}
