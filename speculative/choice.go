package speculative

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
)

// Choice says by names and numbers how to speculate, as flags and fields of requests do. The zero value of a field is
// its default.
type Choice struct {
	Drafter  string // of Drafters; "": as Complete says
	Schedule string // of Schedules; "": auto, of the verifier stairs constant
	Verify   string // of Verifiers; "": greedy at temperature 0, else match

	Max        int           // most tokens on a path of a draft; 0: the schedule's own
	Min        int           // tokens before which a schedule does not end a draft; -1: none; 0: none, or what Or takes
	Confidence float32       // a draft ends after a token of lower confidence; 0: the schedule's own, negative: never
	ExitLayer  int           // layers that early-exit computes; 0: a third
	Sampling   DraftSampling // how drafts are sampled
}

// MaxDraft is the greatest draft length that a Choice may have.
const MaxDraft = 1024

// Or takes from d what c leaves open. What belongs to a drafter or a verifier that c chooses is not d's, and the least
// length of a draft is no more of d's than the greatest that c chooses.
func (c Choice) Or(d Choice) Choice {
	if c.Drafter == "" || c.Drafter == d.Drafter {
		c.ExitLayer = cmp.Or(c.ExitLayer, d.ExitLayer)
	}
	if c.Schedule == "" && c.Verify == "stairs" {
		c.Schedule = "constant"
	}
	if c.Max > 0 {
		d.Min = min(d.Min, c.Max)
	}
	c.Drafter, c.Schedule, c.Verify = cmp.Or(c.Drafter, d.Drafter), cmp.Or(c.Schedule, d.Schedule),
		cmp.Or(c.Verify, d.Verify)
	c.Max, c.Min = cmp.Or(c.Max, d.Max), cmp.Or(c.Min, d.Min)
	c.Confidence, c.Sampling = cmp.Or(c.Confidence, d.Confidence), cmp.Or(c.Sampling, d.Sampling)
	return c
}

// usual is the schedule where nothing else is said.
var usual = Choice{Schedule: "auto"}

// WithTexts is a completed choice of a target that has other texts to look up in: where c had left the drafter open,
// they are looked up in beside the text.
func (c Choice) WithTexts(completed Choice) Choice {
	if c.Drafter == "" && completed.Drafter == "ngram" {
		completed.Drafter = "lookup"
	}
	return completed
}

// WithForm is a completed choice of a target that has a draft form, or gets one while it writes: where c had left the
// drafter open and no draft model drafts, the form drafts beside what is looked up. With verifiers that write another
// text for other drafts it is not chosen: when the form is ready is not the same in two runs.
func (c Choice) WithForm(completed Choice) Choice {
	alone := completed.Drafter == "ngram" || completed.Drafter == "lookup"
	if c.Drafter == "" && alone && SameText(completed.Verify) {
		completed.Drafter = "self-splice"
	}
	return completed
}

// SameText reports whether a verifier of [Verifiers] promises the tokens of plain decoding, whatever is drafted; ""
// does.
func SameText(verify string) bool {
	if verify == "" {
		return true
	}
	n, err := Find(Verifiers(), verify)
	if err != nil {
		return false
	}
	v, err := n.New(Parts{})
	return err == nil && !v.NeedsProbs()
}

// Complete chooses drafter and schedule where c leaves them open, for a target with this draft model or head; nil: it
// has none. foreign is why the vocabulary is not the target's, nil if it is.
func (c Choice) Complete(draft *engine.Model, foreign error) Choice {
	drafter := "tree"
	switch {
	case draft == nil:
		drafter = "ngram"
	case foreign != nil && !draft.Kind().Head():
		drafter = "reencode"
	}
	return c.Or(Choice{Drafter: drafter}).Or(usual)
}

// ChoiceError is what is wrong with a [Choice].
type ChoiceError struct {
	Field  string // drafter, schedule, verify, max, min, confidence, exit_layer or sampling
	Reason string // in words that go on after what the caller calls the field
}

func (e *ChoiceError) Error() string { return e.Field + " " + e.Reason }

// Check refuses what cannot mean anything at a temperature, the greatest one (sampling.Options.MaxTemperature), with a
// *[ChoiceError].
func (c Choice) Check(temperature float32) error {
	bad := func(field, format string, args ...any) error {
		return &ChoiceError{field, fmt.Sprintf(format, args...)}
	}
	for _, n := range []struct {
		field, name string
		known       []string
	}{
		{"drafter", c.Drafter, Names(Drafters(), false)},
		{"schedule", c.Schedule, Names(Schedules(), false)},
		{"verify", c.Verify, Names(Verifiers(), false)},
	} {
		if n.name != "" && !slices.Contains(n.known, n.name) {
			return bad(n.field, "%q is not one of %v", n.name, n.known)
		}
	}
	switch {
	case c.Max < 0 || c.Max > MaxDraft:
		return bad("max", "%d is not between 0 and %d", c.Max, MaxDraft)
	case c.Min < -1 || c.Min > MaxDraft:
		return bad("min", "%d is not between -1 and %d", c.Min, MaxDraft)
	case c.Max > 0 && c.Min > c.Max:
		return bad("min", "%d is more than the most tokens of a draft, %d", c.Min, c.Max)
	case c.Verify == "greedy" && temperature > 0:
		return bad("verify", "greedy needs temperature 0, and no range of it: at another it would change the distribution")
	case !(c.Confidence <= 1): // NaN too
		return bad("confidence", "%v is not a probability, nor negative for never", c.Confidence)
	case c.ExitLayer < 0:
		return bad("exit_layer", "%d is negative", c.ExitLayer)
	case c.ExitLayer > 0 && c.Drafter != "early-exit":
		return bad("exit_layer", "%d is for the drafter early-exit", c.ExitLayer)
	case c.Sampling < 0 || int(c.Sampling) >= len(draftSamplings):
		return bad("sampling", "%d is none of %v", c.Sampling, DraftSamplings())
	}
	return nil
}

// Fits refuses, with a *[ChoiceError], what these models do not have; draft nil: there is none. foreign is why its
// vocabulary is not the target's, nil if it is.
func (c Choice) Fits(target, draft *engine.Model, foreign error) error {
	if err := c.Needs().missing(draft, foreign); err != "" {
		return &ChoiceError{"drafter", c.Drafter + " needs " + err}
	}
	if c.Needs()&NeedsForm != 0 && target != nil && target.PlanDraftForm().Bytes == 0 {
		return &ChoiceError{"drafter", c.Drafter + " needs a model in memory with matrices of more than 4.5 bits a weight"}
	}
	if target != nil && c.ExitLayer > target.Config().Layers {
		return &ChoiceError{"exit_layer", fmt.Sprintf("%d: the model has %d layers", c.ExitLayer, target.Config().Layers)}
	}
	return nil
}

// Needs is what the drafter is made of; of the default one nothing.
func (c Choice) Needs() Needs {
	n, _ := Find(Drafters(), c.Drafter)
	return n.Needs
}

// NewDrafter makes the drafter; Complete has chosen one. Of parts it takes what is not c's: models and sessions.
func (c Choice) NewDrafter(p Parts) (Drafter, error) {
	n, err := Find(Drafters(), c.Drafter)
	if err != nil {
		return nil, err
	}
	p.Session.Layers = c.ExitLayer
	return n.New(p)
}

// Options are a decoder's: its schedule, verifier and bounds of drafts. Of parts it takes what is not c's: costs and
// text.
func (c Choice) Options(p Parts) (o Options, err error) {
	p.Length, p.Confidence = c.Max, c.Confidence
	schedule, err := Find(Schedules(), c.Or(usual).Schedule)
	if err != nil {
		return o, err
	}
	if o.Schedule, err = schedule.New(p); err != nil {
		return o, err
	}
	if c.Verify != "" {
		verifier, err := Find(Verifiers(), c.Verify)
		if err != nil {
			return o, err
		}
		if o.Verifier, err = verifier.New(p); err != nil {
			return o, err
		}
	}
	o.DraftMax, o.DraftMin, o.DraftSampling = c.Max, max(c.Min, 0), c.Sampling
	return o, nil
}
