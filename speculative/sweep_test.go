package speculative

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"testing"
	"time"

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
	{name: "AVX-512, 52 GB/s", one: 26.2, points: []passTime{{1, 1}, {8, 1.08}, {12, 1.088}, {16, 1.126}, {24, 1.62}, {32, 2.12}, {512, 34}}},
	{name: "AVX-512, 81 GB/s", one: 18, points: []passTime{{1, 1}, {8, 1.12}, {9, 1.28}, {12, 1.46}, {16, 1.73}, {24, 2.57}, {32, 3.39}, {512, 50}}},
	{name: "AVX2 Zen 3, Q8_0", one: 60, points: []passTime{{1, 1}, {2, 0.97}, {3, 1.0}, {4, 1.15}, {6, 1.7}, {8, 2.3}, {12, 3.4}, {16, 4.4}, {512, 140}}},
	{name: "AVX2 Zen 3, Q4_K", one: 35, points: []passTime{{1, 1}, {2, 1.03}, {3, 1.14}, {4, 1.32}, {6, 2.1}, {8, 2.8}, {16, 5.6}, {512, 180}}},
	{name: "NEON, Q4_0", one: 200, points: []passTime{{1, 1}, {2, 1.0}, {3, 1.09}, {4, 1.41}, {8, 2.8}, {16, 5.6}, {512, 180}}},      // docs/ARM.md: Cortex-A72 at 2.5 GB/s a core
	{name: "dotprod, Q8_0", one: 130, points: []passTime{{1, 1}, {5, 1.0}, {6, 1.08}, {8, 1.42}, {12, 2.12}, {16, 2.83}, {512, 90}}}, // docs/ARM.md: Cortex-A76 at 10 GB/s a core
	{name: "NEON, arithmetic only", one: 70, points: []passTime{{1, 1}, {2, 1.99}, {4, 3.97}, {8, 7.94}, {512, 508}}},                // docs/ARM.md: Cortex-A72, Q8_0, weights in cache
	{name: "streaming from disk", one: 900, points: []passTime{{1, 1}, {64, 1.02}, {512, 8}}},
	{name: "shared CPU", one: 20, points: []passTime{{1, 1}, {8, 1.1}, {16, 1.6}, {32, 3}, {512, 48}}, other: []passTime{{1, 2}, {8, 2.2}, {16, 3.2}, {32, 6}, {512, 96}}, phase: 400 * time.Millisecond},
	{name: "either memory", one: 18, points: []passTime{{1, 1.456}, {8, 1.572}, {12, 1.583}, {16, 1.639}, {24, 2.356}, {32, 3.09}, {512, 50}}, other: []passTime{{1, 1}, {8, 1.12}, {9, 1.28}, {12, 1.46}, {16, 1.73}, {24, 2.57}, {32, 3.39}, {512, 50}}, phase: 700 * time.Millisecond},
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

// costs is the curve as [MeasureCosts] finds it.
func (c *costCurve) costs() (p PassCosts) {
	for _, n := range costLengths {
		p.Tokens, p.Seconds = append(p.Tokens, n), append(p.Seconds, c.at(n, 0)/1e3)
	}
	return p
}

// replayed is a target that is known to write a sequence: its passes take time and have no logits, and its verifier knows
// the tokens.
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

func newMemo(s *engine.Session) *memo { return &memo{Session: s, rows: map[uint64][]float32{}} }

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

// chanceDrafter drafts tokens that are right with a probability that changes along the text. It tells that probability as
// its confidence, or something that is right on average only.
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
func (s *simulation) run(t *testing.T, drafter func(text int) Drafter, schedule func() Schedule, warm bool) (total float64) {
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

func (s *simulation) runFrom(t *testing.T, begin time.Duration, drafter func(text int) Drafter, schedule func() Schedule, warm bool) (total float64) {
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

// best is the least time of a sweep over constant lengths, and the length.
func (s *simulation) best(t *testing.T, drafter func(text int) Drafter) (best float64, length int) {
	t.Helper()
	best = math.Inf(1)
	for _, k := range sweepLengths {
		if x := s.run(t, drafter, func() Schedule { return Constant(ConstantOptions{Length: k}) }, true); x < best {
			best, length = x, max(k, 0)
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

// Auto against the best constant length of a sweep, in virtual time on measured machines: acceptance from 0.1 to 0.95,
// constant or changing along the text, known to the drafter or not, drafts cheap and expensive. Warm, the bounds hold for each
// case; begun anew for the mean over a machine's cases: where a text is three to five rounds, the first ones are shorter than they should be.
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
						return &chanceDrafter{sequence: sim.texts[text], seed: uint64(text) << 32, blind: kind == "blind", spend: func() { sim.spend(step * c.one) }, chance: func(at int) float64 {
							if kind == "constant" {
								return a
							}
							u := float64(mix64(uint64(text)<<40^uint64(at/6))>>11) / (1 << 53) // stretches of six tokens
							return math.Pow(a, 1.6*u/(1-0.7*u))
						}}
					}
					best, length := sim.best(t, drafter)
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
		t.Logf("%-22s warm: mean %.3f, least %.3f (%s); begun anew: mean %.3f, least %.3f (%s), with costs unknown: mean %.3f", c.name, mean, worst, at, meanFresh, worstFresh, atFresh, meanUnknown)
		least, leastFresh := c.least()
		if mean < least || meanFresh < leastFresh {
			t.Errorf("%s: auto has %.3f of the best constant length's speed, begun anew %.3f", c.name, mean, meanFresh)
		}
		if worst < least || worstFresh < leastFresh-0.05 {
			t.Errorf("%s: auto has %.3f of the best constant length's speed (%s), begun anew %.3f (%s)", c.name, worst, at, worstFresh, atFresh)
		}
	}
}

// TestLongAutoOnMachines: on every machine, with every acceptance.
func TestLongAutoOnMachines(t *testing.T) {
	testkit.Long(t)
	TestAutoOnMachines(t)
}
