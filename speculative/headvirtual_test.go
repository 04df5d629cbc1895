package speculative

import (
	"context"
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// recordedHead is a draft head in virtual time, as a sequence by itself. Its logits after a text are those that the head computes on the
// target's hidden states of what is accepted, and on its own of what is drafted; they are computed once for each sequence.
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
	if same := min(len(m.branch), max(0, len(branch)-1)); m.accepted == written-1 && slices.Equal(m.text, text) && slices.Equal(m.branch[:same], branch[:same]) {
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
		if err := pass(engine.Segment{Tokens: text[n+1:], States: m.states[n*m.width : (written-1)*m.width], FromTarget: true}); err != nil {
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

// TestAutoWithHeads: auto with the trained head, in virtual time on measured machines, where a step of the head costs a tenth of the target's
// pass, as of the pair enlarged: against the best constant length of a sweep, none included, with chains and trees; and merged with
// a lookup against the better of the two alone.
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
			got, _ := collect(t, New(target, nil, Options{MaxTokens: tokens}), prompt, s)
			all := slices.Concat(prompt, got)
			sim.texts, sim.prompt = append(sim.texts, all), append(sim.prompt, len(prompt))
			if err := target.Truncate(0); err != nil {
				t.Fatal(err)
			}
			r, err := target.EvalSegment(context.Background(), engine.Segment{Tokens: all, Hidden: engine.All, Layers: head.TargetLayers()})
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, slices.Clone(r.Hidden.Data))
		}
		rows := map[uint64][]float32{}
		// The recorded head drafts what the real one does.
		for i, text := range sim.texts {
			prompt, o := text[:sim.prompt[i]], Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: tokens}
			d := New(target, Eagle(session(t, head, 0), EagleOptions{}), o)
			collect(t, d, prompt, s)
			r := &replayed{vocab: sim.vocab, sequence: text, spend: func(int) {}}
			o.Verifier = r
			recorded := New(r, Model(&recordedHead{head: hs, states: states[i], width: len(states[i]) / len(text), rows: rows, target: r, spend: func(int) {}}), o)
			collect(t, recorded, prompt, s)
			if a, b := d.Stats(), recorded.Stats(); !slices.Equal(a.AcceptedAt[:6], b.AcceptedAt[:6]) || a.Rounds != b.Rounds {
				t.Fatalf("text %d: accepted at depths %d in %d rounds, by the recorded head %d in %d", i, a.AcceptedAt[:6], a.Rounds, b.AcceptedAt[:6], b.Rounds)
			}
		}
		for i := range curves {
			c := &curves[i]
			sim.curve = c
			record := func(text int) Sequence {
				return &recordedHead{head: hs, states: states[text], width: len(states[text]) / len(sim.texts[text]), rows: rows, target: sim.target,
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
				best, length := sim.best(t, d.make)
				warm := sim.run(t, d.make, auto, true)
				t.Logf("temperature %.1f, %-22s %-8s best constant %2d; auto %.3f of it", s.Temperature, c.name, d.name, length, best/warm)
				if alone = min(alone, warm); d.name != "ngram" {
					sum, cases = sum+math.Log(best/warm), cases+1
					least, _ := c.least()
					if best/warm < least-0.03 {
						t.Errorf("temperature %.1f, %s, %s: auto has %.3f of the best constant length's speed", s.Temperature, c.name, d.name, best/warm)
					}
				}
			}
			least, _ := c.least()
			if mean := math.Exp(sum / cases); mean < least {
				t.Errorf("temperature %.1f, %s: auto has %.3f of the best constant lengths' speed", s.Temperature, c.name, mean)
			}
			merged := sim.run(t, func(text int) Drafter { return Merge(Model(record(text)), NGram(NGramOptions{})) }, auto, true)
			t.Logf("temperature %.1f, %-22s merged with a lookup: auto %.3f of the best drafter alone", s.Temperature, c.name, alone/merged)
			if alone/merged < least-0.01 {
				t.Errorf("temperature %.1f, %s: merged with a lookup, auto has %.3f of the best drafter alone", s.Temperature, c.name, alone/merged)
			}
		}
	}
}

// TestLongAutoWithHeads: on five machines, with twice the texts, and sampled.
func TestLongAutoWithHeads(t *testing.T) {
	testkit.Long(t)
	TestAutoWithHeads(t)
}
