package main

import (
	"slices"

	"github.com/specgo/spec/cmd/spec/internal/compare"
	"github.com/specgo/spec/cmd/spec/internal/synth"
)

// An experiment is what is run in one table: all its settings on prompts, in turn with plain decoding.
type experiment struct {
	name     string
	pair     pairKey
	settings []compare.Setting // their temperature is the cell's
	temps    []float32         // nil: 0
	sets     []string          // of prompts
	tokens   int               // after each prompt
	quick    amount
	full     amount
	counts   bool // no times: what is counted is the same on every machine
	special  func(*lab, *experiment, *cell) error
}

// amount is how much of an experiment a mode runs. A mode's cells are among those of the next larger one.
type amount struct {
	prompts int       // of each set; of special experiments 1
	repeats int       // 0: 1
	every   bool      // on all columns, else on the first
	sets    []string  // nil: the experiment's
	temps   []float32 // nil: the experiment's
}

// The names of the prompt sets.
const (
	code   = "code"
	copied = "copy"
	open   = "open"
	paper  = "paper" // the prompt of Grigaliunas and Lukosevicius
)

var (
	greedy   = []float32{0}
	allSets  = []string{code, copied, open}
	lengths  = []int{1, 2, 3, 4, 5, 7, 10}
	batches  = []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11} // rows of stairs
	sampled  = []float32{0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 2, 5}
	drafting = []string{"model", "ngram", "splice", "tree"} // the drafters compared by the clock
)

// setting with its own draft length where length is 0.
func setting(drafter, schedule, verify string, length int) compare.Setting {
	return compare.Setting{Drafter: drafter, Schedule: schedule, Verify: verify, DraftMax: length}
}

// each makes a setting of every value.
func each[T any](list []T, f func(T) compare.Setting) (settings []compare.Setting) {
	for _, x := range list {
		settings = append(settings, f(x))
	}
	return settings
}

// experiments in the order in which a mode runs them.
func experiments() (list []experiment) {
	large, small := pairKey{draft: usualDraft}, pairKey{small: true}
	one := amount{prompts: 1}
	list = []experiment{
		{name: "costs", pair: large, special: measureCosts, quick: amount{prompts: 1, every: true}, full: amount{prompts: 1, repeats: 3, every: true}},
		{name: "length", pair: large, sets: []string{code}, tokens: 64,
			settings: append(each(lengths, func(k int) compare.Setting { return setting("model", "constant", "greedy", k) }), setting("model", "auto", "greedy", 0)),
			quick:    amount{prompts: 8, every: true}, full: amount{prompts: 30, every: true}},
		{name: "drafters", pair: large, sets: allSets, tokens: 64,
			settings: each(drafting, func(d string) compare.Setting { return setting(d, "auto", "greedy", 0) }),
			quick:    amount{prompts: 6}, full: amount{prompts: 30, every: true}},
		{name: "schedules", pair: large, sets: allSets, tokens: 64,
			settings: each([]string{"constant", "heuristic", "dynamic", "oracle"}, func(s string) compare.Setting { return setting("model", s, "greedy", 0) }),
			quick:    amount{prompts: 5, every: true, sets: []string{code}}, full: amount{prompts: 30, every: true}},
		{name: "verifiers", pair: large, sets: []string{code}, tokens: 64, temps: []float32{0.4, 0.8, 1.2, 2},
			settings: each([]string{"match", "rejection", "block"}, func(v string) compare.Setting { return setting("model", "auto", v, 0) }),
			quick:    amount{prompts: 6, temps: []float32{0.8}}, full: amount{prompts: 30, every: false}},
		{name: "stairs", pair: large, sets: []string{code}, tokens: 32,
			settings: append([]compare.Setting{setting("model", "heuristic", "greedy", 0)}, each(batches, func(b int) compare.Setting { return setting("model", "constant", "stairs", b-1) })...),
			quick:    amount{prompts: 1, repeats: 3}, full: amount{prompts: 1, repeats: 10}},
		{name: "stairs-times", pair: large, sets: []string{code, paper}, tokens: 32,
			settings: []compare.Setting{setting("model", "heuristic", "greedy", 0), setting("model", "constant", "stairs", 6)},
			quick:    amount{prompts: 1, repeats: 5}, full: amount{prompts: 1, repeats: 100}},
		{name: "stairs-paper", pair: large, sets: []string{code}, tokens: 32, // every row from its first token on
			settings: []compare.Setting{setting("model", "constant", "stairs-faithful", 6)},
			quick:    one, full: amount{prompts: 1, repeats: 10}},
		{name: "plan", pair: large, special: predict, quick: one, full: one},
		{name: "counts", pair: small, sets: allSets, tokens: 96, counts: true,
			settings: append(each([]string{"constant", "heuristic", "dynamic", "oracle"}, func(s string) compare.Setting { return setting("model", s, "greedy", 0) }),
				append([]compare.Setting{setting("model", "constant", "greedy", 10)},
					each([]string{"ngram", "suffix", "splice", "tree", "early-exit"}, func(d string) compare.Setting { return setting(d, "constant", "greedy", 7) })...)...),
			quick: amount{prompts: 30}, full: amount{prompts: 30}},
		{name: "temperatures", pair: small, counts: true, sets: []string{code}, tokens: 64, temps: sampled,
			settings: each([]string{"match", "rejection", "block"}, func(v string) compare.Setting { return setting("model", "constant", v, 5) }),
			quick:    amount{prompts: 30}, full: amount{prompts: 30}},
		{name: "redistribution", pair: small, special: redistribute, quick: one, full: one},
		{name: "frequency", pair: small, special: agree, quick: one, full: one},
	}
	for _, weights := range []string{"f16", ""} {
		list = append(list, experiment{name: "weights-" + weightName(weights), pair: pairKey{weights: weights, draft: usualDraft}, sets: []string{code}, tokens: 48, temps: []float32{0, 0.8},
			settings: []compare.Setting{setting("model", "heuristic", "", 0)},
			quick:    amount{prompts: 5, temps: greedy}, full: amount{prompts: 30}})
	}
	for _, size := range sizes() {
		list = append(list, experiment{name: size, pair: pairKey{draft: size}, sets: []string{code}, tokens: 48,
			settings: []compare.Setting{setting("model", "constant", "greedy", 3), setting("model", "auto", "greedy", 0)},
			quick:    amount{prompts: 5}, full: amount{prompts: 30}})
	}
	return list
}

// sizes are the names of the draft models, and of the experiments with them.
func sizes() (names []string) {
	for _, s := range synth.LargeDrafts {
		names = append(names, s.Name)
	}
	return names
}

// weightName is how the type of weights is called.
func weightName(weights string) string {
	if weights == "" {
		return "q8_0"
	}
	return weights
}

// at is the experiment's settings at a temperature; a verifier left open is the decoder's own.
func (x *experiment) at(temperature float32) (list []compare.Setting) {
	for _, s := range x.settings {
		s.Temperature = temperature
		if s.Verify == "" || temperature == 0 && (s.Verify == "match" || s.Verify == "rejection" || s.Verify == "block") {
			s.Verify = "greedy"
			if temperature > 0 {
				s.Verify = "match"
			}
		}
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// keys lists the cells that a mode runs on a column, in the order in which they are run: every prompt once before any twice.
func (x *experiment) keys(a amount, column string, first bool) (list []key) {
	if !first && (!a.every || x.pair.small) {
		return nil
	}
	sets, temps := x.sets, x.temps
	if a.sets != nil {
		sets = a.sets
	}
	if a.temps != nil {
		temps = a.temps
	}
	if temps == nil {
		temps = greedy
	}
	if sets == nil {
		sets = []string{""}
	}
	for r := range max(1, a.repeats) {
		for i := range a.prompts {
			for _, t := range temps {
				for _, set := range sets {
					k := key{Experiment: x.name, Column: column, Temperature: t, Set: set, Repeat: r}
					if set != "" {
						prompts := promptSet(set)
						if i >= len(prompts) {
							continue
						}
						k.Prompt = prompts[i].ID
					}
					list = append(list, k)
				}
			}
		}
	}
	return list
}
