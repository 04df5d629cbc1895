package speculative

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/internal/testkit"
)

// bench runs schedules on models whose passes take virtual time: a + b*tokens.
type bench struct {
	target, draft   func([]int32, []float32)
	step, pass, per float64 // seconds: a draft pass, a target pass, and each token in it
	tokens          int
	clock           time.Duration
	want            [4][]int32 // the texts
}

func (b *bench) run(t *testing.T, schedule Schedule, plainly bool) float64 {
	t.Helper()
	b.clock = 0
	const context = 2048
	spend := func(seconds float64) { b.clock += time.Duration(seconds * 1e9) }
	target := newFake(t, matrixVocab, context, b.target)
	target.spend = func(n int) { spend(b.pass + b.per*float64(n)) }
	draft := newFake(t, matrixVocab, context, b.draft)
	draft.spend = func(n int) { spend(b.step) }
	var drafter Drafter = Model(draft)
	if plainly {
		drafter = nil
	}
	d := New(target, drafter, Options{Schedule: schedule, MaxTokens: b.tokens})
	d.now = func() time.Duration { return b.clock }
	total := 0.0
	for i := range b.want { // four texts, as the schedule goes on learning
		prompt := append(slices.Clone(matrixPrompt), int32(i))
		if b.want[i] == nil {
			b.want[i] = plain(t, matrixVocab, b.target, prompt, b.tokens, engine.Sampling{})
		}
		if got, _ := collect(t, d, prompt, engine.Sampling{}); !slices.Equal(got, b.want[i]) {
			t.Fatal("other text")
		}
		s := d.Stats()
		total += s.Draft + s.Verify
	}
	return total
}

func TestAutoIsNearTheBest(t *testing.T) {
	last := func(seed uint64) func([]int32, []float32) { // fast: looks at three tokens
		model := random(seed)
		return func(text []int32, row []float32) { model(text[max(0, len(text)-3):], row) }
	}
	for _, c := range []struct {
		name            string
		noise           float32
		step, pass, per float64
	}{
		{"perfect and cheap", 0, 0.02, 1, 0.01},
		{"good and cheap", 0.1, 0.02, 1, 0.01},
		{"good, expensive drafts", 0.1, 0.2, 1, 0.01},
		{"fair", 0.3, 0.05, 1, 0.03},
		{"fair, expensive verification", 0.3, 0.05, 1, 0.4},
		{"poor", 1.5, 0.1, 1, 0.03},
		{"useless", 50, 0.05, 1, 0.02},
		{"useless and expensive", 50, 0.5, 1, 0.5},
	} {
		b := &bench{target: last(40), draft: noisy(last(40), c.noise), step: c.step, pass: c.pass, per: c.per, tokens: 250}
		base := b.run(t, Constant(ConstantOptions{Length: 1}), true)
		best, length := base, 0
		for _, k := range []int{1, 2, 3, 4, 6, 8, 12, 16, 24} {
			if x := b.run(t, Constant(ConstantOptions{Length: k}), false); x < best {
				best, length = x, k
			}
		}
		got := b.run(t, Auto(AutoOptions{}), false)
		t.Logf("%-24s plain %6.1f  best constant %6.1f (%2d)  auto %6.1f: %.3f of the best speed", c.name, base,
			best, length, got, best/got)
		if best/got < 0.97 {
			t.Errorf("%s: auto takes %.1f, the best constant length (%d) %.1f", c.name, got, length, best)
		}
	}
}

func TestBestThreshold(t *testing.T) {
	for _, c := range []struct {
		good, bad []float32
		want      float32
	}{
		{[]float32{0.9, 0.8, 0.7}, []float32{0.3, 0.2}, 0.7},                     // told apart
		{[]float32{0.9, 0.4}, []float32{0.6, 0.5, 0.3}, 0.4},                     // a miss costs three times
		{[]float32{0.9, 0.8, 0.8, 0.8, 0.1}, []float32{0.5, 0.4, 0.3, 0.2}, 0.8}, // one miss of five: 0.6 is less than 4 of 4
	} {
		var v []outcome
		for _, x := range c.good {
			v = append(v, outcome{x, true})
		}
		for _, x := range c.bad {
			v = append(v, outcome{x, false})
		}
		if got, ok := bestThreshold(v); !ok || got != c.want {
			t.Errorf("accepted %v, rejected %v: threshold %v, want %v", c.good, c.bad, got, c.want)
		}
	}
	if _, ok := bestThreshold([]outcome{{0.5, true}}); ok {
		t.Error("a threshold from accepted tokens alone")
	}
}

func TestDynamicAdapts(t *testing.T) {
	model := loops(50)
	s := Dynamic(DynamicOptions{Length: 20, MinConfidence: 0.9, Adapt: true}).(*dynamic)
	d := New(newFake(t, matrixVocab, 400, model), Model(newFake(t, matrixVocab, 400, noisy(model, 0.3))),
		Options{Schedule: s, MaxTokens: 300})
	collect(t, d, matrixPrompt, engine.Sampling{})
	if s.threshold == 0.9 || len(s.seen) < 6 || len(s.seen) > outcomeWindow {
		t.Errorf("threshold %v after %d outcomes", s.threshold, len(s.seen))
	}
}

// A drafter whose tokens follow those of another is worth drafting as often as the text reaches its first one, not
// only as often as that is right where the text does.
func TestLeadCountsWhatIsReached(t *testing.T) {
	a := Auto(AutoOptions{}).(*auto)
	a.lanes = 2
	for range 40 {
		r := &Round{Draft: &Draft{vocab: 100}, Requested: 4}
		r.Draft.alloc(8)
		r.Draft.reset(8, 8, 8)
		r.Draft.AddChild(-1, 1, 0.5, nil)
		r.Draft.lane = 1
		r.Draft.AddChild(0, 2, 0.5, nil) // right, but the text does not reach it
		a.Observe(r)
	}
	if p := a.acceptance.lanes[1].first(); p > 0.1 {
		t.Errorf("the second drafter's first token is said to be accepted with probability %.2f, and never was", p)
	}
}

// Where little is known, several accepted tokens make the next one likelier; where much is known, hardly.
func TestAcceptanceGivenEarlierTokens(t *testing.T) {
	a := &acceptanceModel{}
	a.reset()
	l := &a.lanes[0]
	if p := l.given(0.5, 0); p != 0.5 {
		t.Errorf("without tokens before: %v", p)
	}
	if few := l.given(0.5, 8); math.Abs(few-2./3) > 1e-12 { // 8 of 16 trials, and 8 more successes
		t.Errorf("eight tokens before, of %v trials: %v", l.all.trials, few)
	}
	for range 1000 {
		l.all.add(0.5)
	}
	if many := l.given(0.5, 8); many < 0.5 || many > 0.53 {
		t.Errorf("eight tokens before, many trials: %v", many)
	}
	l.calibrated = true
	if p := l.given(0.5, 8); p != 0.5 {
		t.Errorf("a drafter that knows: %v", p)
	}
}

// P3 in virtual time: a drafter that is never right costs little, whatever the machine, in one long text and in
// short ones that each begin anew.
func TestUselessDraftsCostLittle(t *testing.T) {
	model := func(text []int32, row []float32) {
		loops(41)(text, row)
		row[1] = -100 // the drafter's token
	}
	for i := range machines {
		m := &machines[i]
		for _, step := range []float64{0.17, 2, 8} { // ms for a drafted token
			write := func(texts, tokens int, drafter Drafter) float64 {
				m.clock = 0
				total := 0.0
				for i := range int32(texts) {
					target := newFake(t, matrixVocab, 1024, model)
					target.spend = func(n int) { m.spend(m.cost(n)) }
					d := New(target, drafter, Options{MaxTokens: tokens})
					d.now = func() time.Duration { return m.clock }
					prompt := append(slices.Clone(matrixPrompt), i)
					got, _ := collect(t, d, prompt, engine.Sampling{})
					if want := plain(t, matrixVocab, model, prompt, tokens, engine.Sampling{}); !slices.Equal(got, want) {
						t.Fatal("other text")
					}
					total += d.Stats().Draft + d.Stats().Verify
				}
				return total
			}
			useless := &useless{spend: func() { m.spend(step) }}
			long := write(1, 512, nil) / write(1, 512, useless)
			short := write(8, 64, nil) / write(8, 64, useless)
			t.Logf("%s, %v ms a drafted token: %.3f of plain decoding's speed over 512 tokens, %.3f begun anew every 64",
				m.name, step, long, short)
			if long < 0.98 || short < 0.95 {
				t.Errorf("%s: useless drafts of %v ms a token: %.3f of plain decoding's speed over 512 tokens, %.3f begun anew "+
					"every 64", m.name, step, long, short)
			}
		}
	}
}

// Given costs that cannot be are left out.
func TestGivenCosts(t *testing.T) {
	a := Auto(AutoOptions{Costs: PassCosts{Tokens: []int{1, 0, -5, math.MaxInt, 4, 8},
		Seconds: []float64{0.02, 1, 1, 1, math.NaN()}}}).(*auto)
	if got := a.pass(0); math.Abs(got-0.02) > 1e-9 || a.longest() != 0 {
		t.Errorf("a pass takes %v s, %d lengths", got, a.longest())
	}
}

// A drafter that reads the prompt in its first step: what a step costs is guessed from it, by the times of passes of
// a model of 1 B, and the first step without a prompt is measured anew.
func TestAutoFirstStepWithPrompt(t *testing.T) {
	for lag, seconds := range map[int]float64{11: 0.0262, 15: 0.0312, 31: 0.0611, 511: 0.9} { // a step: 0.018
		a := Auto(AutoOptions{}).(*auto)
		a.late, a.position = true, lag+1
		a.stepped(0, true, seconds)
		if got := a.steps.first(0); math.Abs(got/0.018-1) > 0.1 {
			t.Errorf("%d tokens before the first drafted one took %.4f s: a step is taken for %.4f, expected 0.0180", lag,
				seconds, got)
		}
		if got := a.catchUp(0, 2*lag+2); got <= 0 || got > seconds {
			t.Errorf("%d tokens of a prompt are taken for %.4f s, all was %.4f", lag, got, seconds)
		}
		if a.stepped(0, false, 0.03); a.steps.further(0) != 0.03 {
			t.Errorf("a step of 0.03 s is taken for %.4f", a.steps.further(0))
		}
	}
}

// TestAutoAloneAgain: when those who shared the passes have left, auto decides by the times that it measured itself.
func TestAutoAloneAgain(t *testing.T) {
	a := Auto(AutoOptions{Costs: PassCosts{Tokens: []int{1, 2, 8}, Seconds: []float64{1, 1.1, 2}}}).(*auto)
	own, shared := a.curve, true
	a.prices = func(seconds []float64) bool {
		for i := range seconds {
			if shared {
				seconds[i] = 10 + float64(i)
			}
		}
		return shared
	}
	if a.Length(10); a.pass(3) != 13 {
		t.Fatalf("on shared passes a pass of 3 drafted tokens costs %v", a.pass(3))
	}
	shared = false
	if a.Length(11); a.curve != own {
		t.Errorf("alone a pass of 3 drafted tokens costs %v, measured was %v", a.pass(3), own[3])
	}
}

// In a group the acceptance of a further token is learned from what all of them saw: of ranked drafts by their ratio,
// of others by what follows an accepted token.
func TestFurtherTokensOfAGroupFollowTheirKind(t *testing.T) {
	own, common := &acceptanceModel{}, &acceptanceModel{}
	own.reset()
	common.reset()
	l, c := &own.lanes[0], &common.lanes[0]
	l.common = c
	c.ratio, c.follow, c.lead = rate{900, 1000}, rate{100, 1000}, rate{100, 1000}
	l.ratio, l.follow = c.ratio, c.follow
	if p := l.next(); p > 0.3 {
		t.Errorf("a draft that is not ranked goes on with probability %.2f", p)
	}
	l.ranked, c.ranked = true, true
	if p := l.next(); p < 0.7 {
		t.Errorf("a ranked draft goes on with probability %.2f", p)
	}
}

// A group learns no draft steps from passes whose time is not known, and a draft on trial has to fit in what may be
// lost, by the time of a plain token.
func TestGroupsLearnOnlyFromWhatWasMeasured(t *testing.T) {
	a := Auto(AutoOptions{}).(*auto)
	a.group, a.priced, a.position = newGroup(), true, 1
	a.stepped(0, true, 0)
	if a.steps.lead[0].n != 0 || a.group.steps.lead[0].n != 0 {
		t.Error("a step of no time was learned")
	}
	a.stepped(0, true, 0.5)
	if a.steps.lead[0].n != 1 || a.group.steps.lead[0].mean != 0.5 {
		t.Errorf("a step of half a second was learned as %+v, %+v", a.steps.lead[0], a.group.steps.lead[0])
	}
	a.sessions, a.plain, a.prompt, a.elapsed = 1, 0.01, 1000, 0
	if a.try(0, 1) {
		t.Error("a trial that loses half a second of 10 ms tokens is allowed")
	}
	a.plain, a.prompt, a.elapsed = 1000, 0, 1e9
	if !a.try(0, 1) {
		t.Error("a trial that loses nothing is not allowed")
	}
}

// withCosts is a target of which only the costs of passes are asked.
type withCosts struct {
	Shared
	costs costs.Costs
}

func (w *withCosts) Costs() *costs.Costs { return &w.costs }

// Where drafts gain little, and no pass was plain for long, the next one is, for all decoders of it.
func TestGroupsMeasurePlainPassesAgain(t *testing.T) {
	const sessions = 8
	var target withCosts
	a := Auto(AutoOptions{}).(*auto)
	a.group, a.target, a.sessions, a.plain = newGroup(), &target, sessions, 1
	for _, c := range []struct {
		since int // passes after the last plain one
		pass  int64
		gain  float64
		plain bool
	}{
		{doubtedRun - 1, 1, 0, false},
		{doubtedRun, 1, 0, false}, // the same pass
		{doubtedRun, 2, 0.2, false},
		{doubtedRun, 3, 0.1, true},
		{0, 3, 0.2, true}, // another decoder of that pass
		{0, 4, 0.1, false},
	} {
		target.costs.Set(nil, true)
		target.costs.Learn(sessions, 0, 0.02)
		for range c.since {
			target.costs.Learn(2*sessions, 0, 0.03)
		}
		if a.last, a.rate = c.pass, margin*(1+c.gain); a.remeasures() != c.plain {
			t.Errorf("%+v: %v", c, !c.plain)
		}
	}
}

// What a group may lose is claimed and given back under its lock.
func TestClaimsOfAGroupAddUp(t *testing.T) {
	g := newGroup()
	g.elapsed, g.longest = 1e9, 8
	member := func() func() {
		a := Auto(AutoOptions{}).(*auto)
		a.group, a.sessions, a.plain, a.elapsed, a.requested = g, 4, 1, 1e9, 2
		return func() {
			if a.claim(0.25, false) {
				a.unclaim()
			}
		}
	}
	testkit.AtOnce(200, member(), member(), member(), member())
	if g.claimed != 0 || g.exploring {
		t.Errorf("%v s are claimed, exploring %v", g.claimed, g.exploring)
	}
	explores := Auto(AutoOptions{}).(*auto)
	explores.group, explores.sessions, explores.plain, explores.elapsed, explores.requested = g, 1, 1, 1e9, 9
	if !explores.claim(0, false) || explores.requested != 9 || !g.exploring {
		t.Errorf("the first that drafts longer: %d", explores.requested)
	}
	second := Auto(AutoOptions{}).(*auto)
	second.group, second.sessions, second.plain, second.elapsed, second.requested = g, 1, 1, 1e9, 9
	if !second.claim(0, false) || second.requested != 8 {
		t.Errorf("the second one beside it: %d", second.requested)
	}
	if explores.unclaim(); g.exploring {
		t.Error("its round is over, and it explores")
	}
}
