package main

import (
	"slices"

	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/synth"
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

	sweep    bool                                       // run by -sweep only (but "costs", which it needs too)
	drafters []string                                   // each with cells of its own, and
	choose   func(*lab, key) ([]compare.Setting, error) // their settings,
	needs    []string                                   // which are made of these experiments' results
	// runs of each setting in a cell, of which only the times are kept; 0: one run
	inner int
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
	// the draft model beside the embedded EAGLE-3 head, as a chain and as a tree
	heads = []string{"model", "eagle", "eagle-tree"}
	// drafters that need no second file: the target in fewer bits, and with what the text itself repeats
	alone    = []string{"self", "self-splice"}
	assisted = []float32{0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4} // the temperatures of assisted generation
)

const (
	stairsTokens = 32 // of the code prompt
	paperTokens  = 8  // of the paper's prompt: about the length of its German translation
	seriesRuns   = 25 // in a cell
)

// setting with its own draft length where length is 0.
func setting(drafter, schedule, verify string, length int) compare.Setting {
	return compare.Setting{Drafter: drafter, Schedule: schedule, Verify: verify, DraftMax: length}
}

// drafted is the setting with another way to sample drafts.
func drafted(s compare.Setting, how string) compare.Setting {
	s.Drafts = how
	return s
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
		{name: costs, pair: large, special: measureCosts, quick: amount{prompts: 1, every: true},
			full: amount{prompts: 1, repeats: 3, every: true}, sweep: true},
		{name: rank, pair: small, sets: allSets, tokens: 64, counts: true, sweep: true, temps: sweepTemps, drafters: drafting,
			choose: func(_ *lab, k key) ([]compare.Setting, error) {
				return each(ranked, func(n int) compare.Setting { return settingAt(k, n) }), nil
			},
			quick: amount{prompts: sweepPrompts}, full: amount{prompts: sweepPrompts}},
		{name: sweep, pair: large, sets: allSets, tokens: 64, sweep: true, temps: sweepTemps, drafters: drafting,
			choose: chooseLengths, needs: []string{costs, rank},
			quick: amount{prompts: sweepPrompts, every: true}, full: amount{prompts: sweepPrompts, every: true}},
		{name: "length", pair: large, sets: []string{code}, tokens: 64,
			settings: append(each(lengths, func(k int) compare.Setting { return setting("model", "constant", "greedy", k) }),
				setting("model", "auto", "greedy", 0)),
			quick: amount{prompts: 5, every: true}, full: amount{prompts: 15, every: true}},
		{name: "drafters", pair: large, sets: allSets, tokens: 64,
			settings: each(drafting, func(d string) compare.Setting { return setting(d, "auto", "greedy", 0) }),
			quick:    amount{prompts: 3}, full: amount{prompts: 30, every: true}},
		{name: "schedules", pair: large, sets: allSets, tokens: 64,
			settings: each([]string{"constant", "heuristic", "dynamic", "oracle"},
				func(s string) compare.Setting { return setting("model", s, "greedy", 0) }),
			quick: amount{prompts: 4, every: true, sets: []string{code}}, full: amount{prompts: 10, every: true}},
		{name: "heads", pair: large, sets: []string{code}, tokens: 64,
			settings: each(heads, func(d string) compare.Setting { return setting(d, "auto", "greedy", 0) }),
			quick:    amount{prompts: 3}, full: amount{prompts: 10, every: true}},
		{name: "verifiers", pair: large, sets: []string{code}, tokens: 64, temps: []float32{0.4, 0.8, 1.2, 2},
			settings: each([]string{"match", "rejection", "block"},
				func(v string) compare.Setting { return setting("model", "auto", v, 0) }),
			quick: amount{prompts: 3, temps: []float32{0.8}}, full: amount{prompts: 20, temps: []float32{0.8}}},
		// as published: the draft is greedy, the target is sampled
		{name: "assisted", pair: large, sets: []string{code}, tokens: 48, temps: assisted,
			settings: []compare.Setting{drafted(setting("model", "heuristic", "match", 0), "greedy"),
				setting("model", "heuristic", "match", 0)},
			quick: amount{prompts: 2, temps: []float32{0.8}}, full: amount{prompts: 5}},
		{name: "stairs", pair: large, sets: []string{code}, tokens: stairsTokens,
			settings: append([]compare.Setting{setting("model", "heuristic", "greedy", 0)}, bothStairs()...),
			quick:    amount{prompts: 1, repeats: 2}, full: amount{prompts: 1, repeats: 10}},
		{name: "stairs-short", pair: large, sets: []string{paper}, tokens: paperTokens, inner: seriesRuns,
			settings: append([]compare.Setting{setting("model", "heuristic", "greedy", 0)}, bothStairs()...),
			quick:    amount{}, full: amount{prompts: 1, repeats: 50 / seriesRuns}},
		{name: "stairs-times", pair: large, sets: []string{paper}, tokens: paperTokens, inner: seriesRuns,
			settings: []compare.Setting{setting("model", "heuristic", "greedy", 0), setting("model", "constant", "stairs", 6),
				setting("model", "constant", "stairs-batch", 6)},
			quick: one, full: amount{prompts: 1, repeats: 200 / seriesRuns}},
		// every row from its first token on
		{name: "stairs-paper", pair: large, sets: []string{paper}, tokens: paperTokens, inner: 5,
			settings: []compare.Setting{setting("model", "constant", "stairs-faithful", 6)},
			quick:    one, full: amount{prompts: 1, repeats: 10}},
		{name: "plan", pair: large, special: predict, quick: one, full: one},
		{name: "receipt", pair: large, special: certify, quick: one, full: amount{prompts: 1, every: true}},
		{name: "counts", pair: small, sets: allSets, tokens: 96, counts: true,
			settings: append(each([]string{"constant", "heuristic", "dynamic", "oracle"},
				func(s string) compare.Setting { return setting("model", s, "greedy", 0) }),
				append([]compare.Setting{setting("model", "constant", "greedy", 10)},
					each([]string{"ngram", "suffix", "splice", "tree", "eagle", "eagle-tree", "early-exit"},
						func(d string) compare.Setting { return setting(d, "constant", "greedy", 7) })...)...),
			quick: amount{prompts: 30}, full: amount{prompts: 30}},
		{name: "temperatures", pair: small, counts: true, sets: []string{code}, tokens: 64, temps: sampled,
			settings: samplings(),
			quick:    amount{prompts: 10}, full: amount{prompts: 30}},
		{name: "redistribution", pair: small, counts: true, special: redistribute, quick: one, full: one},
		{name: "frequency", pair: small, counts: true, special: agree, quick: one, full: one},
	}
	for _, weights := range []string{"f16", ""} {
		list = append(list, experiment{name: "weights-" + weightName(weights),
			pair: pairKey{weights: weights, draft: usualDraft}, sets: []string{code}, tokens: 48, temps: []float32{0, 0.8},
			settings: []compare.Setting{setting("model", "heuristic", "", 0)},
			quick:    amount{prompts: 3, temps: greedy}, full: amount{prompts: 20}})
	}
	for _, weights := range []string{"f16", ""} {
		list = append(list, experiment{name: "self-" + weightName(weights),
			pair: pairKey{weights: weights, draft: usualDraft}, sets: []string{code}, tokens: 64, temps: []float32{0, 0.8},
			settings: each(alone, func(d string) compare.Setting { return setting(d, "auto", "", 0) }),
			quick:    amount{prompts: 2, temps: greedy, every: true}, full: amount{prompts: 8, every: true}})
	}
	for _, size := range sizes() {
		list = append(list, experiment{name: size, pair: pairKey{draft: size}, sets: []string{code}, tokens: 48,
			settings: []compare.Setting{setting("model", "constant", "greedy", 3), setting("model", "auto", "greedy", 0)},
			quick:    amount{prompts: 2}, full: amount{prompts: 20}})
	}
	return list
}

// bothStairs are the batch sizes, with common prefixes computed once and as published.
func bothStairs() (list []compare.Setting) {
	for _, v := range stairsForms {
		list = append(list, each(batches, func(b int) compare.Setting { return setting("model", "constant", v, b-1) })...)
	}
	return list
}

var stairsForms = []string{"stairs", "stairs-batch"}

// samplings are the verifiers of sampled text with the ways to sample drafts that the temperature study compares.
func samplings() (list []compare.Setting) {
	for _, s := range studied {
		list = append(list, drafted(setting("model", "constant", s[0], 5), s[1]))
	}
	return list
}

// studied are verifiers with the ways to sample drafts; "" is the verifier's own: with match the noise is shared.
var studied = [][2]string{{"match", "greedy"}, {"match", ""}, {"match", "q"}, {"rejection", ""}, {"block", ""}}

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
		if temperature == 0 {
			s.Drafts = ""
		}
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// keys lists the cells that a mode runs on a column, in the order in which they are run: every prompt once before any
// twice.
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
	drafters := x.drafters
	if drafters == nil {
		drafters = []string{""}
	}
	for r := range max(1, a.repeats) {
		for i := range a.prompts {
			for _, k := range product(temps, sets, drafters) {
				k.Experiment, k.Column, k.Repeat = x.name, column, r
				if k.Set != "" {
					prompts := promptSet(k.Set)
					if i >= len(prompts) {
						continue
					}
					k.Prompt = prompts[i].ID
				}
				list = append(list, k)
			}
		}
	}
	return list
}

// product is each temperature with each set and drafter.
func product(temps []float32, sets, drafters []string) (list []key) {
	for _, t := range temps {
		for _, set := range sets {
			for _, d := range drafters {
				list = append(list, key{Temperature: t, Set: set, Drafter: d})
			}
		}
	}
	return list
}
