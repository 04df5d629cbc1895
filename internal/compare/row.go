package compare

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/speculative"
)

// Report is the outcome, and what --json prints.
type Report struct {
	Schema int `json:"schema"` // 1
	results.Origin
	Model    string   `json:"model"`
	Drafts   []string `json:"draft_models"`
	Weights  string   `json:"weights_in_file"`
	Tokens   int      `json:"n_tokens" csv:"n_tokens_most"`
	Repeats  int      `json:"n_repeats"`
	Warmup   int      `json:"n_warmup"`
	Seed     uint64   `json:"seed"`
	Seeds    int      `json:"n_seeds"` // at temperatures above 0
	Mode     string   `json:"mode"`    // free, fixed length or fixed text
	Command  string   `json:"command"`
	Complete bool     `json:"complete"` // false: interrupted
	Rows     []Row    `json:"rows" csv:"-"`
	Broken   []string `json:"broken_promises"` // texts that differ from plain decoding's and must not
}

// CSV writes a line for each row, with what is common to them.
func (r *Report) CSV(w io.Writer) error { return results.CSV(w, *r, r.Rows) }

// Row is one setting on one set of prompts. Times leave prefill out. Counts are of one run over
// the whole set: the median of the repeats.
type Row struct {
	Prompts string `json:"prompts"`
	Setting

	NPrompts        int     `json:"n_prompts"`
	NRuns           int     `json:"n_runs"`
	NTokens         int     `json:"n_tokens"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	PlainPerSecond  float64 `json:"plain_tokens_per_second"` // of plain decoding around the runs
	Seconds         float64 `json:"seconds"`                 // for all prompts, each the median of its runs
	Speedups
	Drafting

	BLEU       float64       `json:"bleu"`       // against plain decoding
	BLEUFirst  float64       `json:"bleu_first"` // plain decoding against plain decoding with the first weights
	Promised   bool          `json:"identity_promised"`
	Same       bool          `json:"identical"` // every run generated plain decoding's text
	Lengths    []LengthRound `json:"draft_length_by_round" csv:"-"`
	RunSeconds []float64     `json:"run_seconds"` // every run, in order
	set        int
}

// Speedups are a row's, over plain decoding.
type Speedups struct {
	// of the time per token, for the whole set: the prompts' medians, weighted by the time that they take
	Speedup       float64 `json:"speedup"`
	SpeedupMedian float64 `json:"speedup_median"` // over the prompts, each the median of its pairs of runs
	SpeedupLow    float64 `json:"speedup_low"`    // quartiles
	SpeedupHigh   float64 `json:"speedup_high"`
	// the median over the prompts with its 95 % interval; of a single prompt over its runs
	Estimate Estimate       `json:"speedup_estimate"`
	ByPrompt []PromptResult `json:"by_prompt" csv:"-"`
	// Leviathan's, for the same rounds and time of drafting: a verification pass takes as long as decoding a token. The
	// median over the prompts, each the median of its runs, so that no Estimate.Value is above it
	Formula      float64 `json:"formula_speedup"`
	NCapped      int     `json:"n_capped"` // runs that were faster than their formula, and count as it
	AgainstFirst float64 `json:"speedup_over_first_weights"`
	// of the time per token over the same setting's on the first kernel set, run by run in turn: the median over the
	// prompts; n is 0 where there is one kernel set
	OverKernels Estimate `json:"speedup_over_first_kernels"`
}

// Drafting is what a row's drafts came to, and what they took.
type Drafting struct {
	Acceptance    float64 `json:"acceptance"` // accepted of drafted
	Alpha         float64 `json:"alpha"`      // accepted of those that were verified: up to the first rejected one
	TokensPerPass float64 `json:"tokens_per_target_pass"`
	Drafted       int     `json:"n_drafted"`
	Accepted      int     `json:"n_accepted"`
	TargetPasses  int     `json:"n_target_passes"`
	DraftPasses   int     `json:"n_draft_passes"`
	DraftedAt     []int   `json:"drafted_per_position"`  // rounds that drafted a 1st, 2nd, ... token
	AcceptedAt    []int   `json:"accepted_per_position"` // rounds that accepted it
	OracleTarget  *int    `json:"oracle_target_passes"`  // null where no oracle can know the text
	OracleDraft   *int    `json:"oracle_draft_passes"`
	DraftSeconds  float64 `json:"draft_seconds"` // of all drafting
	VerifySeconds float64 `json:"verify_seconds"`
}

// PromptResult is a row's share of one prompt.
type PromptResult struct {
	ID      string  `json:"id"`
	Speedup float64 `json:"speedup"`
	Tokens  int     `json:"n_tokens"`
	Seconds float64 `json:"seconds"`
	Same    bool    `json:"identical"`
}

// LengthRound is how many tokens were drafted in the n-th rounds of the texts that had one.
type LengthRound struct {
	Round int     `json:"round"` // from 1
	Texts int     `json:"n_texts"`
	Mean  float64 `json:"mean"`
	Low   float64 `json:"low"` // quartiles
	High  float64 `json:"high"`
}

// Err is the error of a report with broken promises.
func (r *Report) Err() error {
	if len(r.Broken) == 0 {
		return nil
	}
	return fmt.Errorf("%d texts differ from plain decoding's although their verifier promises the same: %s",
		len(r.Broken), r.Broken[0])
}

func (x *experiment) report() *Report {
	r := &Report{
		Schema: 1, Tokens: x.plan.Tokens, Repeats: x.plan.Repeats, Warmup: x.plan.Warmup, Seed: x.plan.Sampling.Seed,
		Seeds: max(1, x.plan.Seeds), Mode: x.plan.Mode.String(), Rows: []Row{}, Broken: []string{}, Drafts: []string{},
	}
	seen := map[Setting]bool{}
	var order []Setting
	for _, s := range x.plan.Settings {
		for _, other := range append([]Setting{s.plain()}, x.settings(s.Weights, s.Temperature)...) {
			if !seen[other] && other.Kernels == s.Kernels {
				seen[other] = true
				order = append(order, other)
			}
		}
	}
	for set := range x.plan.Sets {
		for _, s := range order {
			if row, ok := x.row(set, s, r); ok {
				r.Rows = append(r.Rows, row)
			}
		}
	}
	x.across(r)
	return r
}

// row summarizes the runs of a setting on a set.
func (x *experiment) row(set int, s Setting, report *Report) (Row, bool) {
	prompts := x.plan.Sets[set].Prompts
	row := Row{
		Prompts: x.plan.Sets[set].Name, Setting: s, Promised: speculative.SameText(s.Verify), Same: true, set: set,
		Speedups: Speedups{ByPrompt: []PromptResult{}}, Lengths: []LengthRound{}, RunSeconds: []float64{},
	}
	var speedups, formulas, single []float64
	var plainTime, plainTokens, weights, share float64
	var score bleu
	totals := map[int]*total{}
	byRound := map[int][]float64{}
	for j, prompt := range prompts {
		var ratios, bounds []float64
		weight := 0.0
		result := PromptResult{ID: prompt.ID, Same: true}
		for seed := range x.plan.seeds(s.Temperature) {
			c, plain := x.cells[key{s, set, j, seed}], x.cells[key{s.plain(), set, j, seed}]
			if c == nil || plain == nil {
				continue
			}
			var seconds, base []float64
			for n, r := range c.runs {
				seconds = append(seconds, r.Seconds)
				ratio, formula := r.Speedup()
				ratios, bounds = append(ratios, ratio), append(bounds, formula)
				if raw := float64(r.Plain()*float64(len(r.IDs))) / r.Seconds; raw > ratio {
					row.NCapped++
				}
				base = append(base, r.Plain())
				if !slices.Equal(r.IDs, plain.runs[0].IDs) {
					if result.Same && row.Promised {
						report.Broken = append(report.Broken, difference(s, prompt, r.IDs, plain.runs[0].IDs))
					}
					result.Same, row.Same = false, false
				}
				if totals[r.repeat] == nil {
					totals[r.repeat] = &total{}
				}
				if n == 0 || c.runs[n-1].repeat != r.repeat { // plain decoding is run several times in a repeat
					totals[r.repeat].add(r)
				}
				row.RunSeconds = append(row.RunSeconds, r.Seconds)
			}
			row.NRuns += len(c.runs)
			result.Tokens += len(c.runs[len(c.runs)-1].IDs)
			result.Seconds += Median(seconds)
			plainTime += Median(base) * float64(len(plain.runs[0].IDs))
			plainTokens += float64(len(plain.runs[0].IDs))
			weight += plain.median()
			score.add(c.runs[0].Text, plain.runs[0].Text)
			for i, n := range c.runs[0].Lengths {
				byRound[i] = append(byRound[i], float64(n))
			}
		}
		if len(ratios) == 0 {
			continue
		}
		row.NPrompts++
		row.NTokens += result.Tokens
		result.Speedup, single = Median(ratios), ratios
		row.ByPrompt = append(row.ByPrompt, result)
		row.Seconds += result.Seconds
		speedups, formulas = append(speedups, result.Speedup), append(formulas, Median(bounds))
		weights, share = weights+weight, share+weight/result.Speedup
	}
	if row.NPrompts == 0 {
		return row, false
	}
	row.BLEU = score.score()
	perToken := row.Seconds / float64(max(1, row.NTokens))
	row.TokensPerSecond, row.Speedup = 1/perToken, weights/share
	row.SpeedupLow, row.SpeedupMedian, row.SpeedupHigh = quartiles(speedups)
	row.Estimate, row.Formula = EstimateOf(speedups), Median(formulas)
	row.PlainPerSecond = max(1, plainTokens) / plainTime
	if row.NPrompts == 1 {
		row.Estimate = EstimateOf(single)
		row.Estimate.N = 1
	}
	row.counts(totals)
	if s.Drafter == Plain {
		one := Estimate{1, 1, 1, row.Estimate.N}
		row.Speedups = Speedups{Speedup: 1, SpeedupMedian: 1, SpeedupLow: 1, SpeedupHigh: 1, Estimate: one,
			ByPrompt: row.ByPrompt, Formula: 1}
		return row, true
	}
	for i := range len(byRound) {
		low, _, high := quartiles(byRound[i])
		row.Lengths = append(row.Lengths, LengthRound{i + 1, len(byRound[i]), mean(byRound[i]), low, high})
	}
	return row, true
}

// median of a cell's times.
func (c *cell) median() float64 {
	var list []float64
	for i := range c.runs {
		list = append(list, c.runs[i].Seconds)
	}
	return Median(list)
}

// total is one repeat over a set.
type total struct {
	texts, target, draft, drafted, accepted, rejected, rounds, tokens int
	drafting, verifying                                               float64
	draftedAt, acceptedAt                                             []int
}

func (t *total) add(r Timed) {
	s := r.Stats
	t.texts++
	t.target += s.TargetPasses
	t.draft += s.DraftPasses
	t.drafted += s.Drafted
	t.accepted += s.Accepted
	t.rounds += s.Rounds
	t.tokens += len(r.IDs)
	t.drafting += s.Draft
	t.verifying += s.Verify
	t.rejected += r.Rejected
	t.draftedAt, t.acceptedAt = addTo(t.draftedAt, s.DraftedAt), addTo(t.acceptedAt, s.AcceptedAt)
}

// addTo adds the numbers of more to those of sums, place by place; the longer of both counts.
func addTo(sums, more []int) []int {
	for i, n := range more {
		if i == len(sums) {
			sums = append(sums, 0)
		}
		sums[i] += n
	}
	return sums
}

// at is the value of a place, 0 behind the end.
func at(list []int, i int) int {
	if i < len(list) {
		return list[i]
	}
	return 0
}

// shares are the parts of each place's drafts that were accepted. They end where fewer than fewDrafts were drafted.
func (d *Drafting) shares() (list []float64) {
	for i, n := range d.DraftedAt {
		if n < fewDrafts {
			break
		}
		list = append(list, share(at(d.AcceptedAt, i), n))
	}
	return list
}

// byPosition writes the shares in percent: "82 64 41".
func (d *Drafting) byPosition() string {
	var list []string
	for _, x := range d.shares() {
		list = append(list, fmt.Sprintf("%.0f", 100*x))
	}
	return strings.Join(list, " ")
}

// counts are of the repeats that have most texts: one that was interrupted has fewer.
func (row *Row) counts(totals map[int]*total) {
	most := 0
	for _, t := range totals {
		most = max(most, t.texts)
	}
	maps.DeleteFunc(totals, func(_ int, t *total) bool { return t.texts < most })
	middle := func(f func(*total) float64) float64 {
		var list []float64
		for _, t := range totals {
			list = append(list, f(t))
		}
		return Median(list)
	}
	whole := func(f func(*total) int) int {
		return int(math.Round(middle(func(t *total) float64 { return float64(f(t)) })))
	}
	row.TargetPasses = whole(func(t *total) int { return t.target })
	row.DraftPasses = whole(func(t *total) int { return t.draft })
	row.Drafted = whole(func(t *total) int { return t.drafted })
	row.Accepted = whole(func(t *total) int { return t.accepted })
	places := 0
	for _, t := range totals {
		places = max(places, len(t.draftedAt))
	}
	row.DraftedAt, row.AcceptedAt = make([]int, places), make([]int, places)
	for i := range places {
		row.DraftedAt[i] = whole(func(t *total) int { return at(t.draftedAt, i) })
		row.AcceptedAt[i] = whole(func(t *total) int { return at(t.acceptedAt, i) })
	}
	row.DraftSeconds = middle(func(t *total) float64 { return t.drafting })
	row.VerifySeconds = middle(func(t *total) float64 { return t.verifying })
	row.TokensPerPass = middle(func(t *total) float64 { return share(t.tokens, t.target) })
	row.Acceptance = middle(func(t *total) float64 { return share(t.accepted, t.drafted) })
	row.Alpha = middle(func(t *total) float64 { return share(t.accepted, t.accepted+t.rejected) })
}

// across fills in what other rows hold: the oracle's passes, plain decoding with the first weights, and the same on the
// first kernels, whose texts are the same.
func (x *experiment) across(r *Report) {
	at := map[key]*Row{}
	for i := range r.Rows {
		at[key{setting: r.Rows[i].Setting, set: r.Rows[i].set}] = &r.Rows[i]
	}
	first := x.plan.Settings[0]
	for i := range r.Rows {
		row := &r.Rows[i]
		if o := at[key{setting: row.oracle(), set: row.set}]; o != nil && row.Promised && row.Drafter != Plain &&
			o.NPrompts == row.NPrompts {
			row.OracleTarget, row.OracleDraft = &o.TargetPasses, &o.DraftPasses
		}
		if row.Kernels != first.Kernels {
			x.onFirst(r, row, first.Kernels)
		}
		base := row.plain()
		base.Weights = first.Weights
		row.BLEUFirst, row.AgainstFirst = 100, row.Speedup
		plain := at[key{setting: base, set: row.set}]
		if row.Weights == first.Weights || plain == nil {
			continue
		}
		row.AgainstFirst = plain.Seconds / float64(max(1, plain.NTokens)) * row.TokensPerSecond
		var score bleu
		for j := range x.plan.Sets[row.set].Prompts {
			for seed := range x.plan.seeds(row.Temperature) {
				a, b := x.cells[key{row.plain(), row.set, j, seed}], x.cells[key{base, row.set, j, seed}]
				if a != nil && b != nil {
					score.add(a.runs[0].Text, b.runs[0].Text)
				}
			}
		}
		row.BLEUFirst = score.score()
	}
}

// onFirst compares a row with the same setting's runs on the first kernels, each with the one of its turn.
func (x *experiment) onFirst(r *Report, row *Row, kernels string) {
	s := row.Setting
	s.Kernels = kernels
	var list []float64
	for j, prompt := range x.plan.Sets[row.set].Prompts {
		var ratios []float64
		for seed := range x.plan.seeds(row.Temperature) {
			here, there := x.cells[key{row.Setting, row.set, j, seed}], x.cells[key{s, row.set, j, seed}]
			if here == nil || there == nil {
				continue
			}
			for i := range min(len(here.runs), len(there.runs)) {
				ratios = append(ratios, there.runs[i].PerToken()/here.runs[i].PerToken())
			}
			if a, b := here.runs[0].IDs, there.runs[0].IDs; row.Drafter == Plain && !slices.Equal(a, b) {
				r.Broken = append(r.Broken, difference(row.Setting, prompt, a, b))
			}
		}
		if len(ratios) > 0 {
			list = append(list, Median(ratios))
		}
	}
	row.OverKernels = EstimateOf(list)
}

// difference describes the first token at which two texts differ.
func difference(s Setting, p Prompt, got, want []int32) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	at := func(ids []int32) any {
		if i < len(ids) {
			return ids[i]
		}
		return "nothing"
	}
	return fmt.Sprintf("prompt %s, %s at temperature %v: token %d is %v, plain decoding has %v", p.ID, s, s.Temperature,
		i+1, at(got), at(want))
}

func share(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func mean(list []float64) (m float64) {
	for _, x := range list {
		m += x / float64(len(list))
	}
	return m
}
