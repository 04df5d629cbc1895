package sampling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Step is one step of the choice of a token, by llama.cpp's name.
type Step string

// The steps. Penalties is the three of Options that look at single tokens.
const (
	StepPenalties   Step = "penalties"
	StepDRY         Step = "dry"
	StepTopNSigma   Step = "top_n_sigma"
	StepTopK        Step = "top_k"
	StepTypicalP    Step = "typ_p"
	StepTopP        Step = "top_p"
	StepMinP        Step = "min_p"
	StepXTC         Step = "xtc"
	StepInfill      Step = "infill"
	StepTemperature Step = "temperature"
)

// DefaultOrder is llama.cpp's order of the steps that are taken by default: all but [StepInfill].
func DefaultOrder() []Step {
	return []Step{StepPenalties, StepDRY, StepTopNSigma, StepTopK, StepTypicalP, StepTopP, StepMinP, StepXTC,
		StepTemperature}
}

// Steps are all steps: those of [DefaultOrder], and [StepInfill].
func Steps() []Step { return append(DefaultOrder(), StepInfill) }

var allSteps, defaultOrder = Steps(), DefaultOrder() // which nobody changes

// letters are the steps of [Steps] in llama.cpp's short form (--sampling-seq).
const letters = "edskypmxti"

// ParseOrder reads an order: names as in [Steps], also with hyphens and as typical_p or temp, or one text of
// letters, each a step: e d s k y p m x t i. An empty list is an order without steps. Names of steps that are
// llama.cpp's and not here, and are off unless an option of theirs is given, are left out: tfs_z and adaptive_p.
func ParseOrder(names ...string) ([]Step, error) {
	all, order := Steps(), []Step{}
	if len(names) == 1 && names[0] != "" && strings.Trim(names[0], letters) == "" {
		names = strings.Split(names[0], "")
		for i, letter := range names {
			names[i] = string(all[strings.Index(letters, letter)])
		}
	}
	for _, name := range names {
		step := Step(strings.ReplaceAll(name, "-", "_"))
		switch step {
		case "tfs_z", "adaptive_p":
			continue
		case "typical_p", "typical":
			step = StepTypicalP
		case "temp":
			step = StepTemperature
		}
		if !slices.Contains(all, step) {
			return nil, fmt.Errorf("%w: no step %q; there are %v", ErrSampling, name, all)
		}
		order = append(order, step)
	}
	return order, nil
}

// Normalized are the options with what they mean spelled out, so that the same tokens are chosen: numbers whose zero
// value stands for another one are that one, and steps that are not taken are switched off.
func (o Options) Normalized() Options {
	o.PenaltyLastN = cmp.Or(o.PenaltyLastN, defaultLastN)
	o.Mirostat.Tau, o.Mirostat.Eta = cmp.Or(o.Mirostat.Tau, defaultTau), cmp.Or(o.Mirostat.Eta, defaultEta)
	o.DRY.Base, o.DRY.LastN = cmp.Or(o.DRY.Base, defaultDRYBase), cmp.Or(o.DRY.LastN, -1)
	o.DRY.AllowedLength = cmp.Or(o.DRY.AllowedLength, defaultDRYAllowed)
	o.XTC.Threshold, o.Dynatemp.Exponent = cmp.Or(o.XTC.Threshold, defaultXTC), cmp.Or(o.Dynatemp.Exponent, 1)
	if o.Mirostat.Version > 0 {
		o.Order = append(slices.DeleteFunc(slices.Clone(o.order()), func(step Step) bool {
			return step != StepPenalties && step != StepDRY
		}), StepTemperature)
	}
	order := o.order()
	for _, step := range allSteps {
		if !slices.Contains(order, step) || step == StepPenalties && o.PenaltyLastN == NoTokens {
			o.leaveOut(step)
		}
	}
	return o
}

// order is Order, or what its zero value stands for.
func (o *Options) order() []Step {
	if o.Order == nil {
		return defaultOrder
	}
	return o.Order
}

// Twice is the first step that Order has twice and that is on, which is no choice of a token; "" is none.
func (o *Options) Twice() Step {
	for i, step := range o.Order {
		if slices.Contains(o.Order[:i], step) && o.on(step) {
			return step
		}
	}
	return ""
}

// leaveOut switches a step off.
func (o *Options) leaveOut(step Step) {
	switch step {
	case StepPenalties:
		o.RepeatPenalty, o.FrequencyPenalty, o.PresencePenalty = 0, 0, 0
	case StepDRY:
		o.DRY.Multiplier = 0
	case StepTopNSigma:
		o.TopNSigma = 0
	case StepTopK:
		o.TopK = 0
	case StepTypicalP:
		o.TypicalP = 0
	case StepTopP:
		o.TopP = 0
	case StepMinP:
		o.MinP = 0
	case StepXTC:
		o.XTC.Probability = 0
	case StepInfill:
		o.Infill = Infill{}
	case StepTemperature:
		if o.MaxTemperature() > 0 {
			o.Temperature, o.Dynatemp.Range = 1, 0
		}
	}
}

// on reports whether a step of normalized options changes anything.
func (o *Options) on(step Step) bool {
	switch step {
	case StepPenalties:
		return o.penalizes()
	case StepDRY:
		return o.DRY.Multiplier > 0
	case StepTopNSigma:
		return o.TopNSigma > 0
	case StepTopK:
		return o.TopK > 0
	case StepTypicalP:
		return o.TypicalP > 0 && o.TypicalP < 1
	case StepTopP:
		return o.TopP > 0 && o.TopP < 1
	case StepMinP:
		return o.MinP > 0
	case StepXTC:
		return o.XTC.Probability > 0 && o.XTC.Threshold <= mostXTC
	case StepInfill:
		return o.Infill.Pieces != nil
	}
	return o.MaxTemperature() > 0 // StepTemperature
}

// plan is what a sampler does, in order: the steps of an order that are on.
type plan struct {
	before  []Step // penalties of all logits, before bias, bans and constraint
	filters []Step // what follows
	usual   bool   // the filters are top-k, top-p, min-p in this order, temperature behind them
	moves   bool   // a step may leave the most probable token out, or lower it after the constraint
}

// planned is the plan of normalized options.
func (o *Options) planned() plan {
	var p plan
	for _, step := range o.order() {
		penalty := step == StepPenalties || step == StepDRY
		switch {
		case !o.on(step):
		case penalty && len(p.filters) == 0:
			p.before = append(p.before, step)
		default:
			p.filters = append(p.filters, step)
			p.moves = p.moves || penalty || step == StepXTC || step == StepTypicalP || step == StepInfill
		}
	}
	usual := []Step{StepTopK, StepTopP, StepMinP, StepTemperature}
	for _, step := range p.filters {
		at := slices.Index(usual, step)
		if at < 0 {
			return p
		}
		usual = usual[at+1:]
	}
	p.usual = o.Dynatemp.Range == 0 && o.Mirostat.Version == 0
	return p
}
