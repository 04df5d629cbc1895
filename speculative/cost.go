package speculative

import (
	"slices"
	"time"

	"github.com/specgo/spec/engine/costs"
)

const (
	maxVerify = costs.MaxRows // lengths of verify passes that are told apart; longer drafts count as this long
	maxLanes  = 8             // drafters of a merge that are told apart

	stepWeight    = 0.1 // of a new measurement in a draft step's mean time
	stepMeasured  = 3   // measurements of which the least counts; a later time far above the mean is cut: an interruption
	meteredWeight = 0.3 // likewise where passes are shared: a share changes with the load, and has no interruptions in it
	meteredRise   = 0.7 // likewise for a share that is greater than expected: drafts that turn out expensive end soon
)

// passTimes is what passes of the target take, as a schedule sees them: by drafted tokens k, of which a pass has one
// row more. Those of an [engine.Model] are known to the model, whose passes tell it; those of another sequence are
// learned from the rounds. Where passes are shared, the target prices them.
type passTimes struct {
	costs  *costs.Costs
	own    *costs.Costs         // learned from rounds
	here   bool                 // what it began with was measured just now, on this machine
	prices func([]float64) bool // of the target, nil: none
	priced bool                 // they hold in this round
	any    bool                 // something is known
	curve  [maxVerify]float64   // seconds, in this round
}

// init begins with measured times; nil: with none.
func (p *passTimes) init(times []costs.Time, here bool) {
	p.own, p.here = &costs.Costs{}, here
	p.own.Set(times, here)
	p.costs = p.own
	p.look()
}

// of takes the passes of a target, whose costs the model knows; nil: they are learned from rounds.
func (p *passTimes) of(model *costs.Costs) {
	if p.costs = model; model == nil {
		p.costs = p.own
	} else if times := p.own.Times(); len(times) > 0 && !model.Known() {
		model.Set(times, p.here)
	}
	p.look()
}

// look takes over what passes are known to take now.
func (p *passTimes) look() {
	p.priced = p.prices != nil && p.prices(p.curve[:])
	p.any = p.priced || p.costs.Fill(p.curve[:])
}

// pass is the time of a pass that verifies k drafted tokens, in seconds.
func (p *passTimes) pass(k int) float64 { return p.curve[min(k, maxVerify-1)] }

// verified is told of a round's pass over k drafted tokens.
func (p *passTimes) verified(k int, seconds float64) {
	if p.costs == p.own {
		p.own.Learn(k+1, 0, seconds)
	}
	p.any = p.costs.Fill(p.curve[:])
}

// longest is the most drafted tokens of a pass whose time is known.
func (p *passTimes) longest() int { return max(0, p.costs.Longest()-1) }

// draftSteps is what draft steps take, by drafter, in seconds.
type draftSteps struct {
	lead, follow [maxLanes]timing // of the first and of each further token of a draft
	lag          [maxLanes]timing // of a token that a drafter lags behind
}

// drafted learns the time of a drafted token. After rounds without a draft the first one may take longer, as the
// drafter has more to feed. metered says that the time is a share of shared passes; plain is that of a plain pass.
func (s *draftSteps) drafted(lane int, first bool, seconds, plain float64, metered bool) {
	t, weight := &s.follow[lane], stepWeight
	if first {
		t = &s.lead[lane]
	}
	t.n++
	switch {
	case t.n == 1:
		t.mean = seconds
		return
	case metered && seconds > t.mean:
		weight = meteredRise
	case metered:
		weight = meteredWeight
	case t.n <= stepMeasured:
		t.mean = min(t.mean, seconds) // the first steps may meet cold memory
		return
	default:
		seconds = min(seconds, float64(4*t.mean)+float64(0.05*plain)) // an interruption
	}
	t.mean += float64(weight * (seconds - t.mean))
}

// first is the time of a draft's first token. Of few drafts it is at most that of a further one: the very first may
// have met cold memory, and a drafter that then looks too expensive would not be measured again for a long time.
func (s *draftSteps) first(lane int) float64 {
	lead, follow := &s.lead[lane], &s.follow[lane]
	switch {
	case lead.n == 0:
		return follow.mean
	case lead.n < stepMeasured && follow.n > 0:
		return min(lead.mean, follow.mean)
	}
	return lead.mean
}

// further is the time of each further token.
func (s *draftSteps) further(lane int) float64 {
	if s.follow[lane].n == 0 {
		return s.lead[lane].mean
	}
	return s.follow[lane].mean
}

// PassCosts are the times of passes of the target: Seconds[i] for a pass of Tokens[i] tokens with logits for all of
// them. [EstimateCosts] finds them for a model and a runtime; all decoders of both may share them.
type PassCosts struct {
	Tokens  []int     `json:"tokens"`
	Seconds []float64 `json:"seconds"`
	Spread  float64   `json:"spread,omitempty"` // relative standard deviation of Seconds; 0: 2 %
}

// givenPasses is how many passes a given time counts as: with the deviation of one pass, 4 %, that is 2 %.
const givenPasses = 4

// times are the costs as the estimate takes them.
func (p PassCosts) times() (all []costs.Time) {
	for i, n := range p.Tokens {
		if i < len(p.Seconds) {
			all = append(all, costs.Time{Rows: n, Seconds: p.Seconds[i], Spread: p.Spread, Passes: givenPasses})
		}
	}
	return slices.Clip(all)
}

// seconds is a duration in seconds.
func seconds(d time.Duration) float64 { return d.Seconds() }
