package main

import (
	"maps"
	"math"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/plan"
)

// draftKind is the row of the draft model's decoding pass.
const draftKind = "draft"

// verified are the tokens in a pass whose cost is measured.
var verified = []int{2, 3, 4, 5, 6, 8, 11, 12, 16, 24}

// measureCosts measures what a pass of the target costs: decoding, verification of several tokens, prefill, batches.
func measureCosts(l *lab, _ *experiment, c *cell) error {
	m := l.models.target
	memory := func() (float64, error) {
		gbps, err := l.measure(l, l.column)
		return gbps * 1e9, err
	}
	rows, bandwidth, err := bench.Run(l.ctx, m, bench.Options{
		Prefill: []int{128}, Contexts: []int{0}, Verify: verified, Batches: []int{1, 4, 16, 64},
		Decode: 16, Sampled: 8, Repeats: 3, Weights: m.Bytes(), Memory: memory,
	}, func(bench.Row) {})
	if err != nil {
		return err
	}
	c.GBps = digits(bandwidth / 1e9)
	draft, _, err := bench.Run(l.ctx, l.models.draft,
		bench.Options{Contexts: []int{0}, Decode: 64, Repeats: 3, Weights: l.models.draft.Bytes()}, func(bench.Row) {})
	for _, r := range draft {
		if r.Kind == "decode" {
			r.Kind, r.RatioToDecode = draftKind, 0
			rows = append(rows, r)
		}
	}
	for i := range rows {
		for _, x := range []*float64{&rows[i].TokensPerSecond, &rows[i].PassSeconds, &rows[i].StdDev, &rows[i].RatioToDecode,
			&rows[i].BandwidthFraction} {
			*x = digits(*x)
		}
	}
	c.Rows = rows
	return err
}

const (
	planSeconds = 12 // of measuring, as in the command
	planTokens  = 64
	planPrompts = 6 // the last ones of the code set: the experiment "length" begins with the first
)

// predict predicts the speedup from a few seconds of measuring on prompts of its own.
func predict(l *lab, _ *experiment, c *cell) error {
	var prompts [][]int32
	set := promptSet(code)
	for _, p := range set[len(set)-planPrompts:] {
		prompts = append(prompts, l.models.pair.Tokenizer.Encode(p.Text, bpe.EncodeOptions{AddSpecial: true}))
	}
	p, err := plan.Run(l.ctx, plan.Config{Target: l.models.target, Draft: l.models.draft, Prompts: prompts,
		Tokens: planTokens, Context: context1, Seconds: planSeconds,
		Sampling: engine.Sampling{Seed: seed}})
	for i := range p.Lengths {
		x := &p.Lengths[i]
		x.Draft, x.Verify, x.Formula, x.Speedup = digits(x.Draft), digits(x.Verify), digits(x.Formula), digits(x.Speedup)
	}
	c.Plan = &p
	return err
}

const (
	shownTokens  = 6   // of a distribution
	leastSurplus = 0.3 // a position where the models differ by this much, and
	mostSurplus  = 0.6 // not more, shows what is accepted and what is redistributed
)

// redistribute finds the first position of the code prompts at which target and draft model differ visibly, and keeps
// the tokens that either finds likely, at temperature 1.
func redistribute(l *lab, _ *experiment, c *cell) error {
	tok := l.models.pair.Tokenizer
	for _, prompt := range promptSet(code) {
		p, q, err := l.ofPair(prompt.Text)
		if err != nil {
			return err
		}
		for i := range p {
			surplus := 0.0
			order := make([]int, len(p[i]))
			for t := range p[i] {
				surplus += max(0, p[i][t]-q[i][t])
				order[t] = t
			}
			if surplus < leastSurplus || surplus > mostSurplus {
				continue
			}
			slices.SortStableFunc(order, func(a, b int) int {
				x, y := max(p[i][a], q[i][a]), max(p[i][b], q[i][b])
				switch {
				case x > y:
					return -1
				case x < y:
					return 1
				}
				return 0
			})
			if least := order[shownTokens-1]; max(p[i][least], q[i][least]) < 0.03 { // too few tokens to show
				continue
			}
			for _, t := range order[:shownTokens] {
				c.Chances = append(c.Chances, chance{tok.Decode([]int32{int32(t)}), digits(p[i][t]), digits(q[i][t]),
					digits(max(0, p[i][t]-q[i][t]) / surplus)})
			}
			rest := chance{Text: "all others"}
			for _, t := range order[shownTokens:] {
				rest.P, rest.Q, rest.Residual = rest.P+p[i][t], rest.Q+q[i][t], rest.Residual+max(0, p[i][t]-q[i][t])/surplus
			}
			c.Chances = append(c.Chances, chance{rest.Text, digits(rest.P), digits(rest.Q), digits(rest.Residual)})
			return nil
		}
	}
	return nil
}

// ofPair are the target's and the draft model's distributions after each token of a text.
func (l *lab) ofPair(text string) (p, q [][]float64, err error) {
	ids := l.models.pair.Tokenizer.Encode(text, bpe.EncodeOptions{AddSpecial: true})
	if p, err = l.distributions(l.models.target, ids); err != nil {
		return nil, nil, err
	}
	q, err = l.distributions(l.models.draft, ids)
	return p, q, err
}

// distributions are a model's probabilities after each token, at temperature 1.
func (l *lab) distributions(m *engine.Model, ids []int32) (list [][]float64, err error) {
	s, err := m.NewSession(engine.SessionOptions{Context: context1})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	logits, err := s.Eval(l.ctx, ids, nil, engine.All)
	if err != nil {
		return nil, err
	}
	for i := range ids {
		row := logits.Row(i)
		most := slices.Max(row)
		p, sum := make([]float64, len(row)), 0.0
		for t, x := range row {
			p[t] = math.Exp(float64(x - most))
			sum += p[t]
		}
		for t := range p {
			p[t] /= sum
		}
		list = append(list, p)
	}
	return list, nil
}

// frequencyGroups are the ranks by which tokens are grouped: the 10 most frequent ones, the next 90, and the others.
var frequencyGroups = []int{10, 100}

// group is how often the draft model chose the target's token, of tokens of about one frequency.
type group struct {
	Most   int `json:"most"` // rank of the rarest; 0: all others
	Tokens int `json:"n"`    // positions at which the target chose one of them
	Agrees int `json:"y"`    // and the draft model the same
}

// agree compares the tokens that both models find likeliest at each position of all prompts, by how often the target
// chooses them.
func agree(l *lab, _ *experiment, c *cell) error {
	count, same := map[int]int{}, map[int]int{}
	for _, set := range allSets {
		for _, prompt := range promptSet(set) {
			p, q, err := l.ofPair(prompt.Text)
			if err != nil {
				return err
			}
			for i := range p {
				t := slices.Index(p[i], slices.Max(p[i]))
				count[t]++
				if q[i][t] == slices.Max(q[i]) {
					same[t]++
				}
			}
		}
	}
	c.Groups = grouped(count, same)
	return nil
}

// grouped sorts tokens by their count and sums the groups.
func grouped(count, same map[int]int) []group {
	tokens := slices.SortedFunc(maps.Keys(count), func(a, b int) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return a - b
	})
	groups := make([]group, len(frequencyGroups)+1)
	for i, most := range frequencyGroups {
		groups[i].Most = most
	}
	for rank, t := range tokens {
		i := 0
		for i < len(frequencyGroups) && rank >= frequencyGroups[i] {
			i++
		}
		groups[i].Tokens += count[t]
		groups[i].Agrees += same[t]
	}
	return groups
}
