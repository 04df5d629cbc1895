package speculative

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/testkit"
)

// Three tokens by hand: p = (0.5, 0.3, 0.2), q = (0.2, 0.7, 0.1).
// Token 1 is kept with 3/7; else the rest is max(0, p-q) = (0.3, 0, 0.1), that is (0.75, 0, 0.25).
func TestResidualByHand(t *testing.T) {
	p := []sampling.Prob{{ID: 0, P: 0.5}, {ID: 1, P: 0.3}, {ID: 2, P: 0.2}}
	q := []sampling.Prob{{ID: 0, P: 0.2}, {ID: 1, P: 0.7}, {ID: 2, P: 0.1}}
	got := residual(append([]sampling.Prob(nil), p...), 1, q, 1)
	for i, want := range []float64{0.75, 0, 0.25} {
		if math.Abs(float64(got[i].P)-want) > 1e-6 {
			t.Errorf("residual %v", got)
		}
	}
	got = residual(append([]sampling.Prob(nil), p...), 1, nil, 1) // a certain draft
	for i, want := range []float64{5. / 7, 0, 2. / 7} {
		if math.Abs(float64(got[i].P)-want) > 1e-6 {
			t.Errorf("residual of a certain draft %v", got)
		}
	}
	if got = residual(append([]sampling.Prob(nil), p...), 1, p, 1); got[1].P != 0.3 {
		t.Errorf("residual of equals %v", got)
	}
	for u, want := range map[float64]int32{0: 0, 0.49: 0, 0.51: 1, 0.79: 1, 0.81: 2, 0.999999: 2} {
		if id := draw(p, u); id != want {
			t.Errorf("draw at %v: %d, want %d", u, id, want)
		}
	}
}

const tinyVocab = 5

// tiny is a model of five tokens that looks at the last two.
func tiny(seed uint64) func([]int32, []float32) {
	model := random(seed)
	return func(text []int32, row []float32) {
		model(text[max(0, len(text)-2):], row)
		for i := range row {
			row[i] /= 3
		}
	}
}

// chiSquared runs texts of three tokens and compares how often each text, each pair of tokens and each
// token at each place occurs with the target's own probabilities: cells of few texts each see what
// is bent anywhere, few cells of many texts what is bent a little. It returns the greatest deviation.
func chiSquared(t *testing.T, s engine.Sampling, texts int, decoder func() *Decoder) float64 {
	t.Helper()
	const length = 3
	prompt := []int32{1, 2}
	s.ConstraintFrom = len(prompt)
	sampler, err := sampling.New(tinyVocab, s)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float64, tinyVocab*tinyVocab*tinyVocab)
	var fill func(text []int32, p float64)
	fill = func(text []int32, p float64) {
		if len(text) == len(prompt)+length {
			want[(text[2]*tinyVocab+text[3])*tinyVocab+text[4]] += p
			return
		}
		row := make([]float32, tinyVocab)
		tiny(3)(text, row)
		for _, next := range sampler.Distribution(row, text) {
			fill(append(append([]int32(nil), text...), next.ID), p*float64(next.P))
		}
	}
	fill(prompt, 1)

	d := decoder()
	count := make([]int, len(want))
	for seed := range uint64(texts) {
		s.Seed = seed
		cell := int32(0)
		n := 0
		for tok, err := range d.Generate(context.Background(), prompt, s) {
			if err != nil {
				t.Fatal(err)
			}
			cell = cell*tinyVocab + tok.ID
			if n++; n == length { // what follows is not compared
				break
			}
		}
		count[cell]++
	}
	worst := 0.0
	for _, part := range []func(cell int) int{
		func(cell int) int { return cell },
		func(cell int) int { return cell / tinyVocab }, // the first two
		func(cell int) int { return cell % (tinyVocab * tinyVocab) },
		func(cell int) int { return cell / (tinyVocab * tinyVocab) }, // the first
		func(cell int) int { return cell / tinyVocab % tinyVocab },
		func(cell int) int { return cell % tinyVocab },
	} {
		n, p := make([]int, len(want)), make([]float64, len(want))
		for cell := range want {
			n[part(cell)] += count[cell]
			p[part(cell)] += want[cell]
		}
		if x := deviation(t, n, p); math.Abs(x) > math.Abs(worst) {
			worst = x
		}
	}
	return worst
}

// deviation compares how often each cell occurred with its probability. It returns Pearson's chi-squared
// as a normal deviate (Wilson and Hilferty 1931), so that few cells and many have the same tail: beyond 4
// lies 1 of 30,000. Rare cells are taken together.
func deviation(t *testing.T, count []int, want []float64) float64 {
	t.Helper()
	texts := 0
	for _, n := range count {
		texts += n
	}
	var x, cells, restWant float64
	restCount := 0
	add := func(n int, want float64) {
		x += (float64(n) - want) * (float64(n) - want) / want
		cells++
	}
	for i, p := range want {
		switch e := p * float64(texts); {
		case p == 0 && count[i] > 0:
			t.Errorf("impossible text %d written %d times", i, count[i])
		case e < 5:
			restWant += e
			restCount += count[i]
		default:
			add(count[i], e)
		}
	}
	if restWant >= 5 {
		add(restCount, restWant)
	}
	if cells < 2 {
		return 0
	}
	k := cells - 1
	return (math.Cbrt(x/k) - (1 - 2/(9*k))) / math.Sqrt(2/(9*k))
}

// resolving is how many texts notice a distribution that is bent by noticed total variation, however it is bent: the
// sum of (p'-p)²/p is then at least 4·noticed², so that chi-squared is raised by 80, and 25 cells exceed a deviate
// of 4 when it is raised by 35 (5 cells: 22). TestResolution shows it.
func resolving(t *testing.T) int { return int(20 / (noticed(t) * noticed(t))) }

// noticed is 2 % in long tests, 7 % in the quick ones.
func noticed(t *testing.T) float64 {
	switch {
	case testkit.IsLong(t):
		return 0.02
	case testing.Short():
		return 0.1
	}
	return 0.07
}

// bent is a verifier that bends the distribution: with chance by, the token at place at of the text is 0.
type bent struct {
	Verifier
	at     int
	by     float64
	random uint64
}

func (b *bent) Start(s Setup) error {
	b.random = mix64(s.Sampling.Seed)
	return b.Verifier.Start(s)
}

func (b *bent) Verify(v *Verification) {
	b.Verifier.Verify(v)
	if end := len(v.Sequence) + len(v.Path); len(v.Sequence) <= b.at && b.at <= end &&
		float64(b.random>>11)/(1<<53) < b.by {
		v.Path, v.Next = v.Path[:b.at-len(v.Sequence)], 0
	}
}

// The bend that is to be noticed is, at each place, and none where there is none.
func TestResolution(t *testing.T) {
	decoder := func(at int, by float64) func() *Decoder {
		return func() *Decoder {
			return New(newFake(t, tinyVocab, 32, tiny(3)), Model(newFake(t, tinyVocab, 32, tiny(8))),
				Options{Schedule: Constant(ConstantOptions{Length: 4}),
					Verifier: &bent{Verifier: Rejection(), at: at, by: by}, MaxTokens: 5})
		}
	}
	if off := chiSquared(t, engine.Sampling{Temperature: 1}, resolving(t), decoder(2, 0)); math.Abs(off) > 4 {
		t.Errorf("not bent: off by %.1f", off)
	}
	sampler, err := sampling.New(tinyVocab, engine.Sampling{Temperature: 1})
	if err != nil {
		t.Fatal(err)
	}
	row, text := make([]float32, tinyVocab), []int32{1, 2}
	p0 := []float64{0, 0, 0} // chance of token 0 at each place
	var walk func(text []int32, p float64)
	walk = func(text []int32, p float64) {
		place := len(text) - 2
		if place == len(p0) {
			return
		}
		tiny(3)(text, row)
		for _, x := range sampler.Distribution(slices.Clone(row), text) {
			if x.ID == 0 {
				p0[place] += p * float64(x.P)
			}
			walk(append(slices.Clone(text), x.ID), p*float64(x.P))
		}
	}
	walk(text, 1)
	for place, p := range p0 {
		off := chiSquared(t, engine.Sampling{Temperature: 1}, resolving(t), decoder(2+place, noticed(t)/(1-p)))
		t.Logf("%v at place %d: off by %.1f", noticed(t), place, off)
		if off < 4 {
			t.Errorf("%v at place %d: off by %.1f only", noticed(t), place, off)
		}
	}
}

// TestLongResolution: the long tests notice 2 %.
func TestLongResolution(t *testing.T) {
	testkit.Long(t)
	TestResolution(t)
}

// liar is a drafter that claims it sampled from q but took q's likeliest token.
type liar struct{ Drafter }

func (l liar) Draft(ctx context.Context, text []int32, d *Draft) error {
	err := l.Drafter.Draft(ctx, text, d)
	best := d.Probs[0][0]
	for _, x := range d.Probs[0] {
		if x.P > best.P {
			best = x
		}
	}
	d.Tokens[0] = best.ID
	return err
}

// trimmer is a drafter that takes back the token it sampled when it finds it unlikely.
type trimmer struct{ Drafter }

func (l trimmer) Draft(ctx context.Context, text []int32, d *Draft) error {
	err := l.Drafter.Draft(ctx, text, d)
	if probability(d.Probs[0], d.Tokens[0], -1) < 0.2 {
		d.reset(0, fakeTree, 0)
	}
	return err
}

// careless is a drafter that restricted its tokens and forgot to renormalize what is left.
type careless struct{ Drafter }

func (l careless) Draft(ctx context.Context, text []int32, d *Draft) error {
	err := l.Drafter.Draft(ctx, text, d)
	for i := range d.Probs[0] {
		d.Probs[0][i].P *= 0.6
	}
	return err
}

func TestRejectionKeepsTheDistribution(t *testing.T) { testDistribution(t, Rejection, 0) }
func TestBlockKeepsTheDistribution(t *testing.T)     { testDistribution(t, Block, 1) }

// TestLongRejectionKeepsTheDistribution and the other: a bend of 2 % shows.
func TestLongRejectionKeepsTheDistribution(t *testing.T) {
	testkit.Long(t)
	testDistribution(t, Rejection, 0)
}

func TestLongBlockKeepsTheDistribution(t *testing.T) {
	testkit.Long(t)
	testDistribution(t, Block, 1)
}

// testDistribution: each drafter keeps the distribution with each schedule and way to sample, of which the two
// verifiers take turns in the quick tests, but for the plainest.
func testDistribution(t *testing.T, verifier func() Verifier, turn int) {
	t.Helper()
	const texts = 1000
	target := func() *fake { return newFake(t, tinyVocab, 32, tiny(3)) }
	draft := func(vocab int) Drafter { return Model(newFake(t, vocab, 32, tiny(8))) }
	// shared: a, b, c, e
	ours, theirs := vocabulary(t, "a", "b", "c", "d", "e"), vocabulary(t, "x", "e", "b", "c", "bc", "a")
	intersected := func() Drafter { return Intersect(newFake(t, 6, 32, tiny(8)), Tokenizers{Target: ours, Draft: theirs}) }
	drafters := []named[Drafter]{
		{"model", func() Drafter { return draft(tinyVocab) }},
		{"smaller", func() Drafter { return draft(tinyVocab - 1) }},
		{"listed", func() Drafter { return Model(newFake(t, tinyVocab, 32, listedOnly(tiny(8), 1, 3))) }},
		{"ngram", func() Drafter { return NGram(NGramOptions{MinMatch: 1, MaxMatch: 2}) }},
		{"replay", func() Drafter { return Replay(ReplayOptions{Tokens: []int32{0, 1, 2, 3, 4, 0}}) }},
		{"tree", func() Drafter { return Tree(newFake(t, tinyVocab, 32, tiny(8)), TreeOptions{}) }},
		{"bush", func() Drafter { return &siblings{} }},
		{"merged", func() Drafter {
			return Merge(draft(tinyVocab), draft(tinyVocab), Model(newFake(t, tinyVocab, 32, tiny(9))))
		}},
		{"nested", func() Drafter {
			return Merge(Merge(NGram(NGramOptions{MinMatch: 9, MaxMatch: 9}), draft(tinyVocab)), draft(tinyVocab))
		}},
		{"intersect", intersected},
		{"reencode", func() Drafter { return Reencode(newFake(t, 6, 32, tiny(8)), Tokenizers{Target: ours, Draft: theirs}) }},
		{"merged across vocabularies", func() Drafter {
			return Merge(intersected(), draft(tinyVocab),
				Reencode(newFake(t, 6, 32, tiny(9)), Tokenizers{Target: ours, Draft: theirs}), intersected())
		}},
		{"none", func() Drafter { return nil }},
	}
	plans := []named[Schedule]{
		{"constant", func() Schedule { return Constant(ConstantOptions{Length: 4}) }},
		{"trimming", func() Schedule { return Constant(ConstantOptions{Length: 4, MinConfidence: 0.25}) }},
		{"adaptive", func() Schedule { return Dynamic(DynamicOptions{Length: 4, MinConfidence: 0.3, Adapt: true}) }},
	}
	ways := []engine.Sampling{{Temperature: 1}, {Temperature: 0.8, TopP: 0.9, RepeatPenalty: 1.2},
		{Temperature: 1, Mirostat: sampling.Mirostat{Version: 2, Tau: 0.8, Eta: 0.6}}}
	for i, drafter := range drafters {
		for j, plan := range plans {
			for k, s := range ways {
				texts := texts
				switch plainest := j+k == 0; {
				case k == 2 && j > 0:
					continue
				case plainest || j == 0 && testkit.IsLong(t):
					texts = resolving(t)
				case !testkit.IsLong(t):
					if texts = 500; (i+j+k+turn)%2 > 0 || j == 1 && k == 1 || j == 2 && k == 0 {
						continue // each drafter has each schedule and each way of sampling
					}
				}
				got := chiSquared(t, s, texts, func() *Decoder {
					return New(target(), drafter.make(), Options{Schedule: plan.make(), Verifier: verifier(), MaxTokens: 5})
				})
				if math.Abs(got) > 4 {
					t.Errorf("%s, %s, %+v: off by %.1f", drafter.name, plan.name, s, got)
				}
			}
		}
	}
	for name, drafter := range map[string]Drafter{
		"liar": liar{draft(tinyVocab)}, "trimmer": trimmer{draft(tinyVocab)},
		"lying intersection": liar{intersected()}, "trimming intersection": trimmer{intersected()},
		"careless intersection": careless{intersected()},
	} {
		broken := chiSquared(t, engine.Sampling{Temperature: 1}, texts, func() *Decoder {
			return New(target(), drafter, Options{Schedule: Constant(ConstantOptions{Length: 1}),
				Verifier: verifier(), MaxTokens: 5})
		})
		if broken < 6 {
			t.Errorf("a %s is off by %.1f standard deviations only", name, broken)
		}
	}
}

// At temperature 0 there is nothing to reject by chance.
func TestEveryRuleGreedy(t *testing.T) {
	model := random(31)
	want := plain(t, matrixVocab, model, matrixPrompt, matrixTokens, engine.Sampling{})
	for _, drafter := range matrixDrafters(t, model, want) {
		for _, verifier := range []Verifier{Greedy(), Match(), Rejection(), Block(), Stairs(StairsOptions{}),
			Stairs(StairsOptions{Recompute: true})} {
			d := New(newFake(t, matrixVocab, matrixContext, model), drafter.make(),
				Options{Schedule: Constant(ConstantOptions{Length: 4}), Verifier: verifier, MaxTokens: matrixTokens})
			if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) {
				t.Fatalf("%s, %T: got %v, want %v", drafter.name, verifier, got, want)
			}
		}
	}
}

// Penalties count the tokens of the draft before a node: at temperature 0 the verifiers that need probabilities
// keep every token of plain decoding under penalties, and no other.
func TestPenaltiesInsideADraft(t *testing.T) {
	model := loops(2)
	s := penalties(engine.Sampling{})
	want := plain(t, matrixVocab, model, matrixPrompt, matrixTokens, s)
	if slices.Equal(want, plain(t, matrixVocab, model, matrixPrompt, matrixTokens, engine.Sampling{})) {
		t.Fatal("the penalties do nothing")
	}
	for _, verifier := range []func() Verifier{Greedy, Match, Rejection, Block} {
		for _, drafter := range []named[Drafter]{
			{"chain", func() Drafter { return Replay(ReplayOptions{Tokens: want}) }},
			{"tree", func() Drafter { return &bush{want, 3} }},
		} {
			d := New(newFake(t, matrixVocab, matrixContext, model), drafter.make(),
				Options{Schedule: Constant(ConstantOptions{Length: 4}), Verifier: verifier(), MaxTokens: matrixTokens})
			got, _ := collect(t, d, matrixPrompt, s)
			if st := d.Stats(); !slices.Equal(got, want) || drafter.name == "chain" && st.Accepted != st.Drafted {
				t.Errorf("%T, %s: %d of %d accepted, got %v, want %v", verifier(), drafter.name, st.Accepted, st.Drafted, got, want)
			}
		}
	}
}

// Drafters that are merged draw from q independently: two of the same model say the same token as often
// as two draws do.
func TestMergedDraftersDrawApart(t *testing.T) {
	draft := func() Drafter { return Model(newFake(t, tinyVocab, 32, tiny(8))) }
	row := make([]float32, tinyVocab)
	tiny(8)([]int32{1, 2}, row)
	sampler, err := sampling.New(tinyVocab, engine.Sampling{Temperature: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for _, p := range sampler.Distribution(row, []int32{1, 2}) {
		want += float64(p.P) * float64(p.P)
	}
	const texts, drafters = 2000, 3
	same := [drafters][drafters]int{}
	d := New(newFake(t, tinyVocab, 32, tiny(3)), Merge(draft(), draft(), draft()),
		Options{Schedule: Constant(ConstantOptions{Length: 1}), Verifier: Rejection(), MaxTokens: 2, Trace: func(r *Round) {
			if r.Position > 2 {
				return // the budget leaves no draft
			}
			if r.Drafted() != drafters {
				t.Fatalf("%d tokens drafted", r.Drafted())
			}
			for i := range drafters {
				for j := range i {
					if r.Draft.Tokens[i] == r.Draft.Tokens[j] {
						same[i][j]++
					}
				}
			}
		}})
	for seed := range uint64(texts) {
		for _, err := range d.Generate(context.Background(), []int32{1, 2}, engine.Sampling{Temperature: 1, Seed: seed}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range drafters {
		for j := range i {
			if got := float64(same[i][j]) / texts; math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/texts) {
				t.Errorf("drafters %d and %d say the same token in %.3f of the rounds, two draws from q in %.3f", j, i, got, want)
			}
		}
	}
}

// Stairs sample with the noise of plain decoding.
func TestStairsArePlainSampling(t *testing.T) {
	model := loops(32)
	for seed := range uint64(3) {
		s := penalties(engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: seed})
		want := plain(t, matrixVocab, model, matrixPrompt, matrixTokens, s)
		for _, drafter := range matrixDrafters(t, model, want) {
			for _, faithful := range []bool{false, true} {
				d := New(newFake(t, matrixVocab, matrixContext, model), drafter.make(),
					Options{Schedule: Constant(ConstantOptions{Length: 4}), Verifier: Stairs(StairsOptions{Recompute: faithful}),
						MaxTokens: matrixTokens})
				if got, _ := collect(t, d, matrixPrompt, s); !slices.Equal(got, want) {
					t.Fatalf("%s, faithful %v: got %v, want %v", drafter.name, faithful, got, want)
				}
			}
		}
	}
}

// TestCertainTokenHasAllProbability: a distribution that is one certain token gives every other token nothing.
func TestCertainTokenHasAllProbability(t *testing.T) {
	if p := probability(nil, 7, 7); p != 1 {
		t.Errorf("the certain token has probability %v", p)
	}
	if p := probability(nil, 6, 7); p != 0 {
		t.Errorf("another token has probability %v", p)
	}
	if p := probability([]sampling.Prob{{ID: 6, P: 0.25}}, 6, 7); p != 0.25 {
		t.Errorf("a token of a distribution has probability %v", p)
	}
}
