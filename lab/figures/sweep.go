package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/compare"
)

// The sweep tests the schedule auto on the clock: for each drafter, kind of prompt and temperature, auto and the
// three constant lengths that the cost model ranks best, in turn with plain decoding. The ranking takes the time of
// passes from the experiment "costs" of the same kernels, and how many tokens come of a pass from "rank", which
// counts them with the small pair: the enlarged one computes the same.

// The experiments' names.
const (
	costs = "costs"
	rank  = "rank"
	sweep = "sweep"
)

// ranked are the lengths that are compared, and best how many of them are run.
var ranked = []int{1, 2, 3, 4, 5, 6, 7, 10, 15}

const best = 3

// sweepTemps are its temperatures.
var sweepTemps = []float32{0, 0.8}

// passTimes is what a pass of the target over 1, 2, ... tokens takes, in seconds, and one of the draft model. Between
// measured numbers of tokens the time is linear, and beyond them the last piece goes on.
type passTimes struct {
	tokens []int
	target []float64
	draft  float64
}

func newPassTimes(rows []bench.Row) (p passTimes) {
	for _, r := range rows {
		switch r.Kind {
		case "decode", "verify":
			p.tokens, p.target = append(p.tokens, r.Tokens), append(p.target, r.PassSeconds)
		case draftKind:
			p.draft = r.PassSeconds
		}
	}
	return p
}

func (p *passTimes) at(tokens int) float64 {
	i := 1
	for i < len(p.tokens)-1 && p.tokens[i] < tokens {
		i++
	}
	slope := (p.target[i] - p.target[i-1]) / float64(p.tokens[i]-p.tokens[i-1])
	return p.target[i-1] + slope*float64(tokens-p.tokens[i-1])
}

// predicted is the time of a token of a text that was counted.
func (p *passTimes) predicted(r *run) float64 {
	t := p.draft * float64(r.Draft)
	for drafted, rounds := range r.Drafts {
		t += float64(rounds) * p.at(1+drafted)
	}
	return t / float64(max(1, r.Tokens))
}

// rankLengths orders constant lengths by the predicted time of a token over all prompts, the fastest first; 0 is
// plain decoding.
func rankLengths(cells []cell, p passTimes, k key) (list []int) {
	time := map[int]float64{0: p.at(1)}
	for _, n := range ranked {
		sum, count := 0.0, 0
		for _, c := range cells {
			if c.Experiment != rank || c.Set != k.Set || c.Temperature != k.Temperature {
				continue
			}
			for i := range c.Runs {
				if c.Runs[i].Setting == settingAt(k, n).String() {
					sum, count = sum+p.predicted(&c.Runs[i]), count+1
				}
			}
		}
		if count > 0 {
			time[n] = sum / float64(count)
		}
	}
	for n := range time {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b int) int {
		switch {
		case time[a] < time[b]:
			return -1
		case time[a] > time[b]:
			return 1
		}
		return a - b
	})
	return list
}

// settingAt is a constant length of the sweep; 0 is auto.
func settingAt(k key, length int) compare.Setting {
	verify := "greedy"
	if k.Temperature > 0 {
		verify = "match"
	}
	s := setting(k.Drafter, "constant", verify, length)
	if length == 0 {
		s.Schedule = "auto"
	}
	s.Temperature = k.Temperature
	return s
}

// chooseLengths is the settings of a cell of the sweep.
func chooseLengths(l *lab, k key) (list []compare.Setting, err error) {
	i := slices.IndexFunc(l.journal.cells, func(c cell) bool { return c.Experiment == costs && c.Column == k.Column })
	if i < 0 {
		return nil, fmt.Errorf("the times of passes with %s are not measured: run -only %s,%s,%s", k.Column, costs, rank,
			sweep)
	}
	p := newPassTimes(l.journal.cells[i].Rows)
	if len(p.tokens) < 2 || p.draft == 0 {
		return nil, fmt.Errorf("the times of passes with %s lack some: measure %s again", k.Column, costs)
	}
	list = []compare.Setting{settingAt(k, 0)}
	for _, n := range rankLengths(l.journal.cells, p, k) {
		if n > 0 && len(list) <= best {
			list = append(list, settingAt(k, n))
		}
	}
	if len(list) <= best {
		return nil, fmt.Errorf("how many tokens come of a pass is not counted for %s: run -only %s", k.Set, rank)
	}
	return list, nil
}

// swept is one set of the sweep: a drafter, a kind of prompt, a temperature.
type swept struct {
	key
	auto     compare.Estimate // speedup over plain decoding
	constant compare.Estimate // likewise of the best of the constant lengths and plain decoding
	length   int              // of it; 0: plain decoding
	ratio    compare.Estimate // auto over it, prompt by prompt
}

// sweepSets are the sets of a view that have results. The best constant length is the one with the greatest median on
// the same prompts, so it is the luckiest of up to four: the ratio is rather too low than too high.
func (v view) sweepSets() (list []swept) {
	for _, t := range sweepTemps {
		for _, set := range allSets {
			for _, d := range drafting {
				s := swept{key: key{Experiment: sweep, Column: v.column, Temperature: t, Set: set, Drafter: d}}
				speedups := map[int]map[string]float64{}
				for _, c := range v.cells {
					if c.Experiment != sweep || c.Column != v.column || c.Set != set || c.Temperature != t || c.Drafter != d ||
						c.Disturbed != "" {
						continue
					}
					for _, n := range append([]int{0}, ranked...) {
						for i := range c.Runs {
							if r := &c.Runs[i]; r.Setting == settingAt(s.key, n).String() && r.Seconds > 0 && r.steady() {
								if speedups[n] == nil {
									speedups[n] = map[string]float64{}
								}
								speedups[n][c.Prompt], _ = r.speedup()
							}
						}
					}
				}
				if len(speedups[0]) == 0 {
					continue
				}
				s.auto = estimateOf(speedups[0], nil)
				s.constant = compare.Estimate{Value: 1, Low: 1, High: 1, N: s.auto.N}
				s.ratio = s.auto
				for _, n := range ranked {
					if e := estimateOf(speedups[n], nil); e.N > 0 && e.Value > s.constant.Value {
						s.constant, s.length, s.ratio = e, n, estimateOf(speedups[0], speedups[n])
					}
				}
				if s.ratio.N > 0 {
					list = append(list, s)
				}
			}
		}
	}
	return list
}

// estimateOf is the median over the prompts, of the ratio to others where there are others.
func estimateOf(x, over map[string]float64) compare.Estimate {
	var list []float64
	for _, prompt := range sortedKeys(x) {
		switch y, ok := over[prompt]; {
		case over == nil:
			list = append(list, x[prompt])
		case ok:
			list = append(list, x[prompt]/y)
		}
	}
	return compare.EstimateOf(list)
}

func sortedKeys(m map[string]float64) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// sweepTable has a row for each set, and the geometric mean of each view.
func (r *report) sweepTable() string {
	m := markdown{head: []string{"kernels", "temperature", "prompts", "drafter", "auto", "best of the constant lengths",
		"auto over it", ""}}
	for _, v := range r.with(sweep) {
		sum, n, below, prompts := 0.0, 0, 0, 0
		for _, s := range v.sweepSets() {
			length, mark := "plain", ""
			if s.length > 0 {
				length = fmt.Sprint(s.length, ": ", s.constant)
			}
			if s.ratio.High < leastShare && !s.ratio.Few() {
				mark, below = "below", below+1
			}
			m.add(r.name(v), fmt.Sprint(s.Temperature), setNames[s.Set], s.Drafter, s.auto.String(), length, s.ratio.String(),
				mark)
			sum, n, prompts = sum+math.Log(s.ratio.Value), n+1, max(prompts, s.ratio.N)
		}
		if n > 0 {
			m.add(r.name(v), "", "", fmt.Sprintf("**all %d sets**", n), "", "",
				fmt.Sprintf("**%.3f** (geometric mean)", math.Exp(sum/float64(n))), fmt.Sprintf("%d below", below))
		}
	}
	if len(m.rows) == 0 {
		return ""
	}
	about := fmt.Sprintf("Speedup over plain decoding, 64 tokens after each prompt, up to %d prompts of each kind. "+
		"\"below\": the whole interval of the ratio is below %.2f, on at least 5 prompts.", sweepPrompts, leastShare)
	return notes(m.String(), about+" "+r.origin())
}

const (
	sweepPrompts = 10
	leastShare   = 0.95 // of the best constant length's speed, that auto must reach within the interval
)
