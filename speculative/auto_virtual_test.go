package speculative

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// costCurve is what a machine takes for passes of a target, as multiples of one token's pass.
type costCurve struct {
	name   string
	one    float64 // ms of a pass of one token
	points []passTime
	other  []passTime // alternates with points, each for a while
	phase  time.Duration
	hit    func(tokens int, now time.Duration) float64 // by which a pass takes longer; nil: 1
}

// The curves: those of this project's CPUs as measured, of others as measured or computed.
var costCurves = []costCurve{
	{name: "AVX-512, 52 GB/s", one: 26.2, points: []passTime{
		{1, 1}, {8, 1.08}, {12, 1.088}, {16, 1.126}, {24, 1.62}, {32, 2.12}, {512, 34}}},
	{name: "AVX-512, 81 GB/s", one: 18, points: []passTime{
		{1, 1}, {8, 1.12}, {9, 1.28}, {12, 1.46}, {16, 1.73}, {24, 2.57}, {32, 3.39}, {512, 50}}},
	{name: "AVX2 Zen 3, Q8_0", one: 60, points: []passTime{
		{1, 1}, {2, 0.97}, {3, 1.0}, {4, 1.15}, {6, 1.7}, {8, 2.3}, {12, 3.4}, {16, 4.4}, {512, 140}}},
	{name: "AVX2 Zen 3, Q4_K", one: 35, points: []passTime{
		{1, 1}, {2, 1.03}, {3, 1.14}, {4, 1.32}, {6, 2.1}, {8, 2.8}, {16, 5.6}, {512, 180}}},
	// docs/ARM.md: Cortex-A72 at 2.5 GB/s a core
	{name: "NEON, Q4_0", one: 200, points: []passTime{
		{1, 1}, {2, 1.0}, {3, 1.09}, {4, 1.41}, {8, 2.8}, {16, 5.6}, {512, 180}}},
	// docs/ARM.md: Cortex-A76 at 10 GB/s a core
	{name: "dotprod, Q8_0", one: 130, points: []passTime{
		{1, 1}, {5, 1.0}, {6, 1.08}, {8, 1.42}, {12, 2.12}, {16, 2.83}, {512, 90}}},
	// docs/ARM.md: Cortex-A72, Q8_0, weights in cache
	{name: "NEON, arithmetic only", one: 70, points: []passTime{{1, 1}, {2, 1.99}, {4, 3.97}, {8, 7.94}, {512, 508}}},
	{name: "streaming from disk", one: 900, points: []passTime{{1, 1}, {64, 1.02}, {512, 8}}},
	{name: "shared CPU", one: 20, points: []passTime{{1, 1}, {8, 1.1}, {16, 1.6}, {32, 3}, {512, 48}},
		other: []passTime{{1, 2}, {8, 2.2}, {16, 3.2}, {32, 6}, {512, 96}}, phase: 400 * time.Millisecond},
	{name: "either memory", one: 18, points: []passTime{
		{1, 1.456}, {8, 1.572}, {12, 1.583}, {16, 1.639}, {24, 2.356}, {32, 3.09}, {512, 50}},
		other: []passTime{{1, 1}, {8, 1.12}, {9, 1.28}, {12, 1.46}, {16, 1.73}, {24, 2.57}, {32, 3.39}, {512, 50}},
		phase: 700 * time.Millisecond},
}

// changes reports whether the machine's speed changes.
func (c *costCurve) changes() bool { return c.other != nil }

// at is the time of a pass of so many tokens in ms.
func (c *costCurve) at(tokens int, now time.Duration) float64 {
	p := c.points
	if c.other != nil && int(now/c.phase)%2 == 1 {
		p = c.other
	}
	i := 1
	for p[i][0] < float64(tokens) {
		i++
	}
	a, b := p[i-1], p[i]
	t := c.one * (a[1] + (b[1]-a[1])*(float64(tokens)-a[0])/(b[0]-a[0]))
	if c.hit != nil {
		t *= c.hit(tokens, now)
	}
	return t
}

// costs is the curve as it is measured.
func (c *costCurve) costs() (p PassCosts) {
	for _, n := range []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32} {
		p.Tokens, p.Seconds = append(p.Tokens, n), append(p.Seconds, c.at(n, 0)/1e3)
	}
	return p
}

// replayed is a target that is known to write a sequence: its passes take time and have no logits, and its verifier
// knows the tokens.
type replayed struct {
	sequence []int32 // with the prompt
	n        int
	vocab    int
	spend    func(tokens int)
}

func (r *replayed) Len() int     { return r.n }
func (r *replayed) Context() int { return len(r.sequence) + 64 }
func (r *replayed) Vocab() int   { return r.vocab }
func (r *replayed) MaxTree() int { return fakeTree }
func (r *replayed) Eval(_ context.Context, tokens, parents []int32, _ engine.Rows) (engine.Logits, error) {
	r.spend(len(tokens))
	if parents == nil {
		r.n += len(tokens)
	}
	return engine.Logits{}, nil
}
func (r *replayed) Truncate(n int) error      { r.n = n; return nil }
func (r *replayed) Commit(path []int32) error { r.n += len(path); return nil }

func (r *replayed) Start(Setup) error { return nil }
func (r *replayed) NeedsProbs() bool  { return false }
func (r *replayed) Verify(v *Verification) {
	for node, at := -1, len(v.Sequence); ; at++ {
		v.Next = r.sequence[at]
		if node = v.Draft.Child(node, v.Next); node < 0 || at+1 == len(r.sequence) {
			return
		}
		v.Path = append(v.Path, int32(node))
	}
}

// memo is a draft model whose logits are computed once for each sequence.
type memo struct {
	*engine.Session
	rows     map[uint64][]float32
	sequence []int32 // what the sequence holds; the session may hold another one
	spend    func(tokens int)
	row      []float32
}

func (m *memo) Len() int        { return len(m.sequence) }
func (m *memo) Tokens() []int32 { return m.sequence }
func (m *memo) Truncate(n int) error {
	m.sequence = m.sequence[:n]
	return nil
}

func (m *memo) Eval(ctx context.Context, tokens, _ []int32, want engine.Rows) (engine.Logits, error) {
	m.spend(len(tokens))
	m.sequence = append(m.sequence, tokens...)
	if want == engine.None {
		return engine.Logits{}, nil
	}
	h := fnv.New64a()
	for _, id := range m.sequence {
		h.Write([]byte{byte(id), byte(id >> 8), byte(id >> 16)})
	}
	row, ok := m.rows[h.Sum64()]
	if !ok {
		held := m.Session.Tokens()
		n := 0
		for n < len(held) && n < len(m.sequence)-1 && held[n] == m.sequence[n] {
			n++
		}
		if err := m.Session.Truncate(n); err != nil {
			return engine.Logits{}, err
		}
		l, err := m.Session.Eval(ctx, m.sequence[n:], nil, engine.Last)
		if err != nil {
			return engine.Logits{}, err
		}
		row = slices.Clone(l.Row(0))
		m.rows[h.Sum64()] = row
	}
	m.row = append(m.row[:0], row...)
	return engine.Logits{Vocab: len(row), Data: m.row}, nil
}

// chanceDrafter drafts tokens that are right with a probability that changes along the text. It tells that
// probability as its confidence, or something that is right on average only.
type chanceDrafter struct {
	sequence []int32
	chance   func(position int) float64
	blind    bool
	seed     uint64
	spend    func()
}

func (c *chanceDrafter) Start(context.Context, Setup) error { return nil }
func (c *chanceDrafter) Observe(*Round)                     {}
func (c *chanceDrafter) Draft(_ context.Context, sequence []int32, d *Draft) error {
	for at := len(sequence); d.More() && at < len(c.sequence); at++ {
		c.spend()
		id, p := c.sequence[at], c.chance(at)
		if float64(mix64(c.seed^uint64(at))>>11)/(1<<53) >= p {
			id = (id + 1) % int32(d.Vocab())
		}
		confidence := float32(p * p) // of which the root is the chance, as of a model's
		if c.blind {
			confidence = 0.5
		}
		d.Add(id, confidence, nil)
	}
	return nil
}

// simulation runs decoders on a machine in virtual time.
type simulation struct {
	curve  *costCurve
	clock  time.Duration
	texts  [][]int32 // with their prompts
	prompt []int     // tokens of each prompt
	vocab  int

	sampling engine.Sampling // of the drafters
	target   *replayed       // of the run
	keep     func() Drafter  // makes a drafter for all texts, or for each text if it begins anew
}

func (s *simulation) spend(ms float64) { s.clock += time.Duration(ms * 1e6) }

// run is the time to write the texts. warm: one decoder for all, and the first texts, as many, do not count.
func (s *simulation) run(t *testing.T, drafter func(text int) Drafter, schedule func() Schedule,
	warm bool) (total float64) {
	t.Helper()
	if !s.curve.changes() {
		return s.runFrom(t, 0, drafter, schedule, warm)
	}
	const begins = 4 // the time depends on how the texts meet the changes: the mean over several beginnings
	for i := range time.Duration(begins) {
		total += s.runFrom(t, 2*s.curve.phase*i/begins, drafter, schedule, warm)
	}
	return total
}

func (s *simulation) runFrom(t *testing.T, begin time.Duration, drafter func(text int) Drafter,
	schedule func() Schedule, warm bool) (total float64) {
	t.Helper()
	s.clock = begin
	target := &replayed{vocab: s.vocab, spend: func(n int) { s.spend(s.curve.at(n, s.clock)) }}
	s.target = target
	var d *Decoder
	var plan Schedule
	var kept Drafter
	rounds := 1
	if warm {
		rounds = 2
	}
	for pass := range rounds {
		for i, text := range s.texts {
			target.sequence, target.n = text, 0
			if plan == nil || !warm {
				plan = schedule()
				if s.keep != nil {
					kept = s.keep()
				}
			}
			by := kept
			if s.keep == nil {
				by = drafter(i)
			}
			n := len(text) - s.prompt[i]
			d = New(target, by, Options{Schedule: plan, Verifier: target, MaxTokens: n, DraftMax: 63})
			d.now = func() time.Duration { return s.clock }
			if got, _ := collect(t, d, text[:s.prompt[i]], s.sampling); !slices.Equal(got, text[s.prompt[i]:]) {
				t.Fatal("other text")
			}
			if st := d.Stats(); pass == rounds-1 {
				total += st.Draft + st.Verify
			}
		}
	}
	return total
}

// sweepLengths are the constant lengths that auto is compared with; -1 is none.
var sweepLengths = []int{-1, 1, 2, 3, 4, 5, 6, 7, 9, 11, 15, 23, 31, 47}

// best is the least time of a sweep over constant lengths, and the length. A drafter that does not learn writes the
// texts the second time in the time of the first, so it writes them once; on a machine whose speed changes the second
// time begins elsewhere in its changes, which the long tests keep. Of the longer lengths the others have every second,
// and none behind two in a row that take a tenth more than the best.
func (s *simulation) best(t *testing.T, drafter func(text int) Drafter, learns bool) (best float64, length int) {
	t.Helper()
	best = math.Inf(1)
	warm, slower := learns || s.curve.changes() && testkit.IsLong(t), 0
	for i, k := range sweepLengths {
		if !testkit.IsLong(t) && (i > 3 && i%2 == 0 || slower == 2) {
			continue
		}
		x := s.run(t, drafter, func() Schedule { return Constant(ConstantOptions{Length: k}) }, warm)
		if x < best {
			best, length = x, max(k, 0)
		}
		if slower++; x < 1.1*best {
			slower = 0
		}
	}
	return best, length
}

func random32(seed uint64, n int, vocab int32) (ids []int32) {
	for i := range n {
		ids = append(ids, int32(mix64(seed+uint64(i)<<20)%uint64(vocab)))
	}
	return ids
}

// least is what auto must reach of the best constant length's speed: warm, and begun anew with each text of 64 tokens.
func (c *costCurve) least() (warm, fresh float64) {
	if c.changes() {
		return 0.95, 0.95
	}
	return 0.97, 0.95
}

// Auto against the best constant length of a sweep, in virtual time on measured machines: acceptance from 0.1 to
// 0.95, constant or changing along the text, known to the drafter or not, drafts cheap and expensive. Warm, the
// bounds hold for each case; begun anew for the mean over a machine's cases: where a text is three to five rounds,
// the first ones are shorter than they should be.
func TestAutoOnMachines(t *testing.T) {
	const tokens = 64
	texts, curves, acceptances := 32, costCurves, []float64{0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95}
	if !testkit.IsLong(t) {
		texts, curves, acceptances = 12, []costCurve{costCurves[3], costCurves[8]}, []float64{0.1, 0.5, 0.9}
	}
	sim := &simulation{vocab: 4096}
	for i := range texts {
		sim.texts, sim.prompt = append(sim.texts, random32(uint64(i), 8+tokens, 4096)), append(sim.prompt, 8)
	}
	for i := range curves {
		c := &curves[i]
		sim.curve = c
		worst, worstFresh, at, atFresh := 9.0, 9.0, "", ""
		sum, sumFresh, sumUnknown, n := 0.0, 0.0, 0.0, 0.0
		for _, step := range []float64{0.01, 0.11} { // of a pass
			for _, a := range acceptances {
				for _, kind := range []string{"constant", "blind", "known"} {
					drafter := func(text int) Drafter {
						return &chanceDrafter{sequence: sim.texts[text], seed: uint64(text) << 32, blind: kind == "blind",
							spend: func() { sim.spend(step * c.one) }, chance: func(at int) float64 {
								if kind == "constant" {
									return a
								}
								u := float64(mix64(uint64(text)<<40^uint64(at/6))>>11) / (1 << 53) // stretches of six tokens
								return math.Pow(a, 1.6*u/(1-0.7*u))
							}}
					}
					best, length := sim.best(t, drafter, false)
					name := fmt.Sprintf("step %v, acceptance %v %s, best %d", step, a, kind, length)
					warm := best / sim.run(t, drafter, func() Schedule { return Auto(AutoOptions{}) }, true)
					fresh := best / sim.run(t, drafter, func() Schedule { return Auto(AutoOptions{Costs: c.costs()}) }, false)
					sumUnknown += math.Log(best / sim.run(t, drafter, func() Schedule { return Auto(AutoOptions{}) }, false))
					if warm < worst {
						worst, at = warm, name
					}
					if fresh < worstFresh {
						worstFresh, atFresh = fresh, name
					}
					sum, sumFresh, n = sum+math.Log(warm), sumFresh+math.Log(fresh), n+1
				}
			}
		}
		mean, meanFresh, meanUnknown := math.Exp(sum/n), math.Exp(sumFresh/n), math.Exp(sumUnknown/n)
		t.Logf("%-22s warm: mean %.3f, least %.3f (%s); begun anew: mean %.3f, least %.3f (%s), with costs unknown: mean "+
			"%.3f", c.name, mean, worst, at, meanFresh, worstFresh, atFresh, meanUnknown)
		least, leastFresh := c.least()
		if mean < least || meanFresh < leastFresh {
			t.Errorf("%s: auto has %.3f of the best constant length's speed, begun anew %.3f", c.name, mean, meanFresh)
		}
		if worst < least || worstFresh < leastFresh-0.05 {
			t.Errorf("%s: auto has %.3f of the best constant length's speed (%s), begun anew %.3f (%s)", c.name, worst,
				at, worstFresh, atFresh)
		}
	}
}

// A drafter whose very first step takes long, as that of a model in fewer bits whose weights nobody has read yet, or
// whose first two steps do, in which something else happened: auto drafts as much as if they had not, from the first
// text on.
func TestAutoColdFirstStep(t *testing.T) {
	const tokens, step, cold = 128, 0.5, 2.0 // steps in passes of a token, as measured for Q8_0 that drafts in Q4_0
	sim := &simulation{vocab: 4096, curve: &costCurves[0], texts: [][]int32{random32(1, 8+tokens, 4096)}, prompt: []int{8}}
	for _, known := range []PassCosts{{}, costCurves[0].costs()} {
		write := func(slow int) float64 {
			drafter := &chanceDrafter{sequence: sim.texts[0], seed: 1, blind: true, chance: func(int) float64 { return 0.95 }}
			drafter.spend = func() {
				if slow--; slow >= 0 {
					sim.spend(cold * sim.curve.one)
				} else {
					sim.spend(step * sim.curve.one)
				}
			}
			return sim.run(t, func(int) Drafter { return drafter },
				func() Schedule { return Auto(AutoOptions{Costs: known}) }, false)
		}
		plain := sim.run(t, func(int) Drafter { return &chanceDrafter{} },
			func() Schedule { return Constant(ConstantOptions{Length: -1}) }, false)
		warm, late, twice := plain/write(0), plain/write(1), plain/write(2)
		t.Logf("%d known costs: %.2f times plain decoding's speed; %.2f where the first step takes %v passes, %.2f where "+
			"the first two do", len(known.Tokens), warm, late, cold, twice)
		if warm < 1.15 || late < 0.95*warm || twice < 0.92*warm {
			t.Error("too little")
		}
	}
}

// likely is a drafter that says how likely its tokens are before anything is known.
type likely struct{ chanceDrafter }

func (l *likely) Draft(ctx context.Context, sequence []int32, d *Draft) error {
	d.Likely = selfAcceptance
	return l.chanceDrafter.Draft(ctx, sequence, d)
}

// In the first text of a process a few accepted tokens and a rejected one would end the drafts of a model in fewer
// bits, which gain little a token: the tokens that follow them pay. So its drafter says what to expect, and texts
// gain; one whose drafts are worse than it says loses little.
func TestAutoKnowsWhatADrafterSays(t *testing.T) {
	const prompt, tokens, texts, step = 8, 64, 40, 0.58 // of a pass of a token; all as measured with Q8_0 on Zen 5
	curve := &costCurve{one: 19, points: []passTime{{1, 1}, {2, 1.22}, {8, 1.28}, {16, 2}, {512, 60}}}
	for _, c := range []struct{ chance, least float64 }{{0.95, 1.15}, {0.6, 0.96}} {
		gain := 0.0
		for i := range uint64(texts) {
			sim := &simulation{vocab: 4096, curve: curve, texts: [][]int32{random32(i, prompt+tokens, 4096)},
				prompt: []int{prompt}}
			drafter := &likely{chanceDrafter{sequence: sim.texts[0], seed: i, blind: true,
				chance: func(int) float64 { return c.chance }, spend: func() { sim.spend(step * curve.one) }}}
			gain += tokens * curve.one / 1e3 / sim.run(t, func(int) Drafter { return drafter }, newAuto, false) / texts
		}
		t.Logf("acceptance %v: %.3f times plain decoding's speed", c.chance, gain)
		if gain < c.least {
			t.Errorf("acceptance %v: %.3f times plain decoding's speed, want %v", c.chance, gain, c.least)
		}
	}
}

// TestLongAutoOnMachines: on every machine, with every acceptance.
func TestLongAutoOnMachines(t *testing.T) {
	testkit.Long(t)
	TestAutoOnMachines(t)
}

// machine is what passes cost, in milliseconds. The embedded pair writes real text on it in virtual
// time, as if it were large: schedules are compared without a clock's noise.
type machine struct {
	name        string
	pass        []passTime   // of the target
	step, again float64      // a draft pass of one token, and of several
	phases      [][]passTime // what pass is in turn, each for a while
	clock       time.Duration
}

// passTime is tokens and the time they take; the time between them is linear.
type passTime [2]float64

// phase is how long a machine stays what it is. Auto does worse where that is shorter: at 400 ms it has 0.946 of
// the best constant for model at temperature 0.8, which fails the test.
const phase = 700 * time.Millisecond

// Measured with a target of 1 B and drafts of 15 M where two threads read 52 and 81 GB/s, and, for expensive drafts,
// of 85 M.
var (
	slow     = []passTime{{1, 26.2}, {8, 28.3}, {12, 28.5}, {16, 29.5}, {24, 42.4}, {32, 55.6}, {512, 900}}
	fast     = []passTime{{1, 18}, {8, 20.2}, {9, 23.1}, {12, 26.2}, {16, 31.2}, {24, 46.3}, {32, 61.1}, {512, 900}}
	machines = []machine{
		{name: "slow memory", pass: slow, step: 0.17, again: 0.4},
		{name: "fast memory", pass: fast, step: 0.17, again: 0.4},
		{name: "expensive drafts", pass: fast, step: 2, again: 2.5},
		{name: "either memory", phases: [][]passTime{slow, fast}, step: 0.17, again: 0.4}, // as virtual machines are
	}
)

func (m *machine) cost(tokens int) float64 {
	pass := m.pass
	if m.phases != nil {
		pass = m.phases[int(m.clock/phase)%len(m.phases)]
	}
	i := 1
	for pass[i][0] < float64(tokens) {
		i++
	}
	a, b := pass[i-1], pass[i]
	return a[1] + (b[1]-a[1])*(float64(tokens)-a[0])/(b[0]-a[0])
}

func (m *machine) spend(ms float64) { m.clock += time.Duration(ms * 1e6) }

// Real texts on machines, in virtual time: the target's tokens are recorded once and the draft model's logits once
// for each sequence, so that a machine costs no passes of models. Auto against the best constant length of a sweep
// for several drafters, at temperature 0 and 0.8, warm and begun anew with each text. Merged drafters against the
// best of them alone.
func TestAutoOnText(t *testing.T) {
	n, curves := 4, []costCurve{costCurves[2], costCurves[8]}
	if testkit.IsLong(t) {
		n, curves = 10, costCurves[1:]
	}
	const tokens = 64
	texts := prompts(t, "prompts-code.jsonl", n)
	big, small := pair(t)
	draft := session(t, small, 0)
	rows := map[uint64][]float32{}
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 1}} {
		if s.Temperature > 0 {
			curves = costCurves[2:3]
			if testkit.IsLong(t) {
				curves = []costCurve{costCurves[1], costCurves[2], costCurves[8]}
			}
		}
		sim := &simulation{vocab: big.Config().Vocab, sampling: s}
		for _, text := range texts {
			prompt := big.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true})
			all := slices.Concat(prompt, pairText(t, prompt, s, tokens))
			sim.texts, sim.prompt = append(sim.texts, all), append(sim.prompt, len(prompt))
		}
		for i := range curves {
			c := &curves[i]
			sim.curve = c
			model := func(share float64) Sequence { // a draft model whose pass takes a share of the target's
				return &memo{Session: draft, rows: rows, spend: func(n int) { sim.spend(c.one * share * (1 + 0.1*float64(n-1))) }}
			}
			least, leastFresh := c.least()
			auto := func() Schedule { return Auto(AutoOptions{}) }
			given := func() Schedule { return Auto(AutoOptions{Costs: c.costs()}) }
			sum, sumFresh, cases := 0.0, 0.0, 0.0
			alone := math.Inf(1) // the best of those that are merged
			for _, drafter := range []struct {
				name   string
				greedy bool // at temperature 0 only, and in the long test
				merged bool // is one of those that are merged
				make   func() Drafter
			}{
				{"model", false, true, func() Drafter { return Model(model(0.01)) }},
				{"model, expensive", true, false, func() Drafter { return Model(model(0.11)) }},
				{"tree", false, false, func() Drafter { return Tree(model(0.01), TreeOptions{}) }},
				{"splice", true, false, func() Drafter { return Splice(model(0.01), TreeOptions{}) }},
				{"ngram", false, true, func() Drafter { return NGram(NGramOptions{}) }},
				{"suffix", true, false, func() Drafter { return Suffix(SuffixOptions{}) }},
			} {
				if drafter.greedy && (s.Temperature > 0 || !testkit.IsLong(t)) {
					continue
				}
				sim.keep = drafter.make
				_, learns := drafter.make().(*tree)
				if learns && c.changes() && !testkit.IsLong(t) {
					continue // each sweep is many times as long
				}
				best, length := sim.best(t, nil, learns)
				warm, fresh := sim.run(t, nil, auto, true), sim.run(t, nil, given, false)
				both := best // a constant length without a drafter that learns is the same begun anew
				if learns {
					both = sim.run(t, nil, func() Schedule { return Constant(ConstantOptions{Length: cmp.Or(length, -1)}) }, false)
				}
				t.Logf("temperature %.1f, %-22s %-16s best constant %2d; auto %.3f of it, begun anew %.3f", s.Temperature, c.name,
					drafter.name, length, best/warm, both/fresh)
				sum, sumFresh, cases = sum+math.Log(best/warm), sumFresh+math.Log(both/fresh), cases+1
				if best/warm < least-0.01 || both/fresh < leastFresh-0.01 {
					t.Errorf("temperature %.1f, %s, %s: auto has %.3f of the best constant length's speed, begun anew %.3f",
						s.Temperature, c.name, drafter.name, best/warm, both/fresh)
				}
				if drafter.merged {
					alone = min(alone, warm)
				}
			}
			if mean, meanFresh := math.Exp(sum/cases), math.Exp(sumFresh/cases); mean < least || meanFresh < leastFresh {
				t.Errorf("temperature %.1f, %s: auto has %.3f of the best constant lengths' speed, begun anew %.3f", s.Temperature,
					c.name, mean, meanFresh)
			}
			sim.keep = func() Drafter { return Merge(Model(model(0.01)), NGram(NGramOptions{}), Model(model(0.25))) }
			merged := sim.run(t, nil, auto, true)
			t.Logf("temperature %.1f, %-22s %-16s auto %.3f of the best drafter alone", s.Temperature, c.name,
				"merged", alone/merged)
			if alone/merged < 0.97 {
				t.Errorf("temperature %.1f, %s: merged drafters have %.3f of the speed of the best alone",
					s.Temperature, c.name, alone/merged)
			}
		}
	}
}

// TestLongAutoOnText: on every machine, with ten texts.
func TestLongAutoOnText(t *testing.T) {
	testkit.Long(t)
	TestAutoOnText(t)
}

// useless drafts a token that is never right, with constant confidence.
type useless struct{ spend func() }

func (h *useless) Start(context.Context, Setup) error { return nil }
func (h *useless) Observe(*Round)                     {}
func (h *useless) Draft(_ context.Context, _ []int32, d *Draft) error {
	for d.More() {
		h.spend()
		d.Add(1, 0.5, nil)
	}
	return nil
}

// recordedHead is a draft head in virtual time, as a sequence by itself. Its logits after a text are those that the
// head computes on the target's hidden states of what is accepted, and on its own of what is drafted; they are
// computed once for each sequence.
type recordedHead struct {
	head   *engine.Session
	target *replayed
	states []float32 // the target's, of the text that it is known to write
	width  int

	rows     map[uint64][]float32
	sequence []int32
	spend    func(tokens int)
	row      []float32

	// What the head's session holds: tokens 1 to accepted with the target's states, then a branch with the head's.
	text     []int32
	accepted int
	branch   []int32
	y        [][]float32 // what the head computed before each token of the branch, and after it
	logits   []float32   // after the branch
}

func (m *recordedHead) Len() int        { return len(m.sequence) }
func (m *recordedHead) Context() int    { return m.head.Context() }
func (m *recordedHead) Vocab() int      { return m.head.Vocab() }
func (m *recordedHead) MaxTree() int    { return 0 }
func (m *recordedHead) Tokens() []int32 { return m.sequence }
func (m *recordedHead) Truncate(n int) error {
	m.sequence = m.sequence[:n]
	return nil
}
func (m *recordedHead) Commit([]int32) error { return engine.ErrUsage }

func (m *recordedHead) Eval(ctx context.Context, tokens, _ []int32, want engine.Rows) (engine.Logits, error) {
	m.spend(len(tokens))
	m.sequence = append(m.sequence, tokens...)
	if want == engine.None {
		return engine.Logits{}, nil
	}
	written := min(m.target.n+1, len(m.sequence)) // the round's sequence, of whose last token the target has no state yet
	h := fnv.New64a()
	h.Write([]byte{byte(written), byte(written >> 8)})
	for _, id := range m.sequence {
		h.Write([]byte{byte(id), byte(id >> 8)})
	}
	row, ok := m.rows[h.Sum64()]
	if !ok {
		if err := m.compute(ctx, written); err != nil {
			return engine.Logits{}, err
		}
		row = slices.Clone(m.logits)
		m.rows[h.Sum64()] = row
	}
	m.row = append(m.row[:0], row...)
	return engine.Logits{Vocab: len(row), Data: m.row}, nil
}

// compute makes logits those after the sequence, of which so many tokens are written.
func (m *recordedHead) compute(ctx context.Context, written int) error {
	pass := func(g engine.Segment) error {
		g.Logits, g.Hidden, g.Layers = engine.Last, engine.Last, []int{1}
		r, err := m.head.EvalSegment(ctx, g)
		if err == nil {
			m.y = append(m.y, slices.Clone(r.Hidden.Row(0)))
			m.logits = append(m.logits[:0], r.Logits.Row(0)...)
		}
		return err
	}
	text, branch := m.sequence[:written], m.sequence[written:]
	if same := min(len(m.branch), max(0, len(branch)-1)); m.accepted == written-1 && slices.Equal(m.text, text) &&
		slices.Equal(m.branch[:same], branch[:same]) {
		if err := m.head.Truncate(written - 1 + same); err != nil {
			return err
		}
		m.branch, m.y = append(m.branch[:0], branch[:same]...), m.y[:same+1]
	} else {
		n := 0
		for n < min(m.accepted, written-2) && m.text[n+1] == text[n+1] && m.text[0] == text[0] {
			n++
		}
		if err := m.head.Truncate(n); err != nil {
			return err
		}
		m.y, m.branch = m.y[:0], m.branch[:0]
		if err := pass(engine.Segment{Tokens: text[n+1:],
			States: m.states[n*m.width : (written-1)*m.width], FromTarget: true}); err != nil {
			return err
		}
		m.text, m.accepted = append(m.text[:0], text...), written-1
	}
	for _, id := range branch[len(m.branch):] {
		if err := pass(engine.Segment{Tokens: []int32{id}, States: m.y[len(m.branch)]}); err != nil {
			return err
		}
		m.branch = append(m.branch, id)
	}
	return nil
}

// TestAutoWithHeads: auto with the trained head, in virtual time on measured machines, where a step of the head costs
// a tenth of the target's pass, as of the pair enlarged: against the best constant length of a sweep, none included,
// with chains and trees; and merged with a lookup against the better of the two alone.
func TestAutoWithHeads(t *testing.T) {
	n, curves := 6, []costCurve{costCurves[0], costCurves[1], costCurves[2], costCurves[6], costCurves[8]}
	if !testkit.IsLong(t) {
		n, curves = 3, costCurves[1:2]
	}
	const tokens, share = 64, 0.09
	texts := prompts(t, "prompts-code.jsonl", n)
	big, _ := pair(t)
	target := session(t, big, 0)
	head := pairHead(t, big)
	hs := session(t, head, 0)
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 1}} {
		if !testkit.IsLong(t) && s.Temperature > 0 {
			break
		}
		sim := &simulation{vocab: target.Vocab(), sampling: s}
		var states [][]float32
		for _, text := range texts {
			prompt := big.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true})
			all := slices.Concat(prompt, pairText(t, prompt, s, tokens))
			sim.texts, sim.prompt = append(sim.texts, all), append(sim.prompt, len(prompt))
			if err := target.Truncate(0); err != nil {
				t.Fatal(err)
			}
			r, err := target.EvalSegment(context.Background(),
				engine.Segment{Tokens: all, Hidden: engine.All, Layers: head.TargetLayers()})
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, slices.Clone(r.Hidden.Data))
		}
		rows := map[uint64][]float32{}
		// The recorded head drafts what the real one does.
		for i, text := range sim.texts {
			prompt, o := text[:sim.prompt[i]], Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: tokens}
			d := New(target, headed(session(t, head, 0), headOptions{}), o)
			collect(t, d, prompt, s)
			r := &replayed{vocab: sim.vocab, sequence: text, spend: func(int) {}}
			o.Verifier = r
			recorded := New(r, Model(&recordedHead{
				head: hs, states: states[i], width: len(states[i]) / len(text), rows: rows, target: r, spend: func(int) {}}), o)
			collect(t, recorded, prompt, s)
			if a, b := d.Stats(), recorded.Stats(); !slices.Equal(a.AcceptedAt[:6], b.AcceptedAt[:6]) || a.Rounds != b.Rounds {
				t.Fatalf("text %d: accepted at depths %d in %d rounds, by the recorded head %d in %d", i, a.AcceptedAt[:6],
					a.Rounds, b.AcceptedAt[:6], b.Rounds)
			}
		}
		for i := range curves {
			c := &curves[i]
			sim.curve = c
			record := func(text int) Sequence {
				return &recordedHead{head: hs, states: states[text], width: len(states[text]) / len(sim.texts[text]),
					rows: rows, target: sim.target,
					spend: func(k int) { sim.spend(c.one * share * (1 + 0.02*float64(k-1))) }}
			}
			auto := func() Schedule { return Auto(AutoOptions{}) }
			sum, cases, alone := 0.0, 0.0, math.Inf(1)
			for _, d := range []struct {
				name string
				make func(text int) Drafter
			}{
				{"chain", func(text int) Drafter { return Model(record(text)) }},
				{"tree", func(text int) Drafter { return Tree(record(text), TreeOptions{Sources: []CandidateSource{}}) }},
				{"ngram", func(int) Drafter { return NGram(NGramOptions{}) }},
			} {
				best, length := sim.best(t, d.make, d.name == "tree")
				warm := sim.run(t, d.make, auto, true)
				t.Logf("temperature %.1f, %-22s %-8s best constant %2d; auto %.3f of it", s.Temperature, c.name,
					d.name, length, best/warm)
				if alone = min(alone, warm); d.name != "ngram" {
					sum, cases = sum+math.Log(best/warm), cases+1
					least, _ := c.least()
					if best/warm < least-0.03 {
						t.Errorf("temperature %.1f, %s, %s: auto has %.3f of the best constant length's speed", s.Temperature,
							c.name, d.name, best/warm)
					}
				}
			}
			least, _ := c.least()
			if mean := math.Exp(sum / cases); mean < least {
				t.Errorf("temperature %.1f, %s: auto has %.3f of the best constant lengths' speed", s.Temperature, c.name, mean)
			}
			merged := sim.run(t, func(text int) Drafter { return Merge(Model(record(text)), NGram(NGramOptions{})) }, auto, true)
			t.Logf("temperature %.1f, %-22s merged with a lookup: auto %.3f of the best drafter alone",
				s.Temperature, c.name, alone/merged)
			if alone/merged < least-0.01 {
				t.Errorf("temperature %.1f, %s: merged with a lookup, auto has %.3f of the best drafter alone",
					s.Temperature, c.name, alone/merged)
			}
		}
	}
}

// TestLongAutoWithHeads: on five machines, with twice the texts, and sampled.
func TestLongAutoWithHeads(t *testing.T) {
	testkit.Long(t)
	TestAutoWithHeads(t)
}

// Auto that begins while other processes use the CPUs: for the time of some 40 passes each takes up to twice as long,
// by another share, the more so in half of the cases the more tokens it has. Then the machine is quiet, and after 12
// texts auto has forgotten what it learned first. (Without forgetting lengths that it does not use, 28 cases were
// below 0.97, the least 0.766, and on the clock one set of ten prompts had 0.87.)
func TestAutoAfterDisturbance(t *testing.T) {
	const tokens, texts = 64, 12
	const leastEver = 0.92 // measured: 0.923, and 8 of 384 below 0.97
	seeds := 8
	if testkit.IsLong(t) {
		seeds = 32
	}
	sim := &simulation{vocab: 4096}
	for i := range texts {
		sim.texts, sim.prompt = append(sim.texts, random32(uint64(i), 8+tokens, 4096)), append(sim.prompt, 8)
	}
	var all []float64
	for _, c := range costCurves[:4] {
		for _, a := range []float64{0.5, 0.7, 0.9} {
			drafter := func(text int) Drafter {
				return &chanceDrafter{sequence: sim.texts[text], seed: uint64(text) << 32, blind: true,
					spend: func() { sim.spend(0.01 * c.one) }, chance: func(int) float64 { return a }}
			}
			c.hit, sim.curve = nil, &c
			best, length := sim.best(t, drafter, false)
			var ratios []float64
			for seed := range uint64(seeds) {
				passes := uint64(0)
				c.hit = func(n int, now time.Duration) float64 {
					passes++
					if now > time.Duration(40*c.one*float64(time.Millisecond)) {
						return 1
					}
					longer := float64(mix64(seed<<32^passes)>>11) / (1 << 53)
					if seed%2 == 1 {
						longer *= min(1, float64(n)/8)
					}
					return 1 + longer
				}
				ratios = append(ratios, best/sim.run(t, drafter, func() Schedule { return Auto(AutoOptions{}) }, true))
			}
			slices.Sort(ratios)
			t.Logf("%-18s acceptance %.1f: %.3f to %.3f of length %d", c.name, a, ratios[0], ratios[len(ratios)-1], length)
			all = append(all, ratios...)
		}
	}
	slices.Sort(all)
	if below, _ := slices.BinarySearch(all, 0.97); all[0] < leastEver || below > len(all)/24 {
		t.Errorf("least %.3f, %d of %d below 0.97", all[0], below, len(all))
	} else {
		t.Logf("least %.3f, %d of %d below 0.97", all[0], below, len(all))
	}
}

// TestLongAutoAfterDisturbance: of four times as many moments.
func TestLongAutoAfterDisturbance(t *testing.T) {
	testkit.Long(t)
	TestAutoAfterDisturbance(t)
}

// What auto loses to the best constant length on texts begun anew is the price of learning the acceptance from its
// prior: with the acceptance known at each text's start, and the costs given, it has 0.98 of the best length's speed
// in the mean on the machines where the loss is greatest: those that stream weights from disk or change their speed.
func TestLongPriceOfLearningAcceptance(t *testing.T) {
	const tokens = 64
	texts, acceptances := 24, []float64{0.5, 0.8, 0.9, 0.95}
	testkit.Long(t) // few texts will not do: the mean of a machine that changes its speed varies by 2 %
	sim := &simulation{vocab: 4096}
	for i := range texts {
		sim.texts, sim.prompt = append(sim.texts, random32(uint64(i), 8+tokens, 4096)), append(sim.prompt, 8)
	}
	for _, c := range costCurves[7:] {
		sim.curve = &c
		sumFresh, sumKnown, n := 0.0, 0.0, 0.0
		for _, step := range []float64{0.01, 0.11} {
			for _, a := range acceptances {
				drafter := func(text int) Drafter {
					return &chanceDrafter{sequence: sim.texts[text], seed: uint64(text) << 32,
						spend: func() { sim.spend(step * c.one) }, chance: func(int) float64 { return a }}
				}
				given := func() *auto { return Auto(AutoOptions{Costs: c.costs()}).(*auto) }
				best, length := sim.best(t, drafter, false)
				fresh := best / sim.run(t, drafter, func() Schedule { return given() }, false)
				learned := given()
				sim.run(t, drafter, func() Schedule { return learned }, true)
				rates := learned.acceptance
				known := best / sim.run(t, drafter, func() Schedule {
					x := given()
					x.acceptance = rates
					return x
				}, false)
				t.Logf("%-20s step %.2f, acceptance %.2f, best constant %2d: begun anew %.3f of it, with acceptance known %.3f",
					c.name, step, a, length, fresh, known)
				sumFresh, sumKnown, n = sumFresh+math.Log(fresh), sumKnown+math.Log(known), n+1
			}
		}
		fresh, known := math.Exp(sumFresh/n), math.Exp(sumKnown/n)
		t.Logf("%-20s mean: begun anew %.3f, with acceptance known %.3f", c.name, fresh, known)
		if known < 0.98 || known < fresh+0.01 {
			t.Errorf("%s: with acceptance known %.3f of the best constant length's speed, begun anew %.3f", c.name, known, fresh)
		}
	}
}
