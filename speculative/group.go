package speculative

import (
	"math"

	"github.com/specgo/spec/engine/costs"
)

// Parameters of what the auto schedules of a scheduler share.
const (
	lossShare   = 0.01 // of the time that drafts may lose in comparison to none
	firstLosses = 0.5  // passes without drafts that they may lose at first, when nothing is known
	mostLosses  = 6.0  // and at most, however long the scheduler has been in use
	mostGains   = 2.0  // passes that they have gained lately that they may lose again
	// by which the tokens that a draft is expected to bring have to be worth more than its time: estimates err
	margin        = 1.05
	entryRounds   = 32  // rounds of drafting over which it has to make up for what the drafter has to catch up with
	enoughTrials  = 32  // drafted tokens from which acceptance is known well enough for that
	muchLess      = 0.8 // of what drafts cost at present: drafting together is worth a try if it is expected to cost less
	togetherAgain = 32  // passes after which drafting together is tried again
	lagged        = 8   // tokens that a drafter lags behind from which the time to catch up is measured
	// of a new measurement in a draft step's mean time: shares of passes have no interruptions in them
	stepShare    = 0.2
	lagWeight    = 0.5 // of a new measurement in it
	priorLagStep = 0.1 // of a draft step's time that a token to catch up with takes where that is not known
)

// company is a decoder whose passes are shared, among the others.
type company struct {
	group    *group  // what decoders under one scheduler share; nil: none
	target   Shared  // its passes are shared
	drafting Shared  // the drafter's sequence; nil: it has none, or several
	begins   bool    // the text
	late     bool    // the drafter reads the prompt when it first drafts
	given    int     // tokens of it that the drafter then need not compute
	size     float64 // of the drafter's model, by the target's
	sessions float64 // that generate
	plain    float64 // seconds of a token of each of them without drafts
	prompt   float64 // seconds of a prompt's token
	claimed  float64 // seconds, of the group
	explores bool    // for the group
	common   [maxLanes]laneAcceptance
	seen     int  // trial of the group
	together bool // this round's draft is one of all decoders at once
}

// Start takes what a target with shared passes tells.
func (a *auto) Start(s *Setup, d Drafter) {
	t, shared := s.Target.(Shared)
	if a.prices = nil; shared {
		a.prices = t.PassCosts
	}
	var model *costs.Costs
	if c, ok := s.Target.(Costed); ok && !s.Evaluated {
		model = c.Costs()
	}
	a.of(model)
	if d != nil {
		a.setGroup(t, d, s.Experience.group(s.Sampling.Temperature > 0))
		if s.Late = a.late; a.late {
			a.given = a.drafting.Reusable(s.Prompt[:len(s.Prompt)-1])
		}
	}
	a.end = math.MaxInt
	if s.Most > 0 && s.Most < a.end-len(s.Prompt) {
		a.end = len(s.Prompt) + s.Most - 1
	}
}

// entry is the time of a drafter to catch up, for each round that it can do for: not more than tokens that may be
// drafted yet.
func (a *auto) entry(lane int) float64 {
	return a.catchUp(lane, a.position) / float64(max(1, min(entryRounds, a.end-a.position)))
}

// End gives back what the text's last round had claimed.
func (a *auto) End() { a.unclaim() }

// setGroup begins a text; nil: the target's passes are not shared.
func (a *auto) setGroup(t Shared, d Drafter, g *group) {
	a.group, a.target, a.drafting, a.late, a.begins, a.seen, a.size = nil, nil, nil, false, true, 0, 0
	a.position, a.fed = 0, [maxLanes]int{}
	for i := range a.acceptance.lanes {
		a.acceptance.lanes[i].common = nil
	}
	if t == nil {
		return
	}
	a.group, a.target = g, t
	if m, ok := d.(Sequenced); ok {
		own, ok := m.Sequence().(Shared)
		if !ok || absent(own) {
			return
		}
		a.drafting = own
		one, ok1 := own.(Modeled)
		if two, ok2 := t.(Modeled); ok1 && ok2 && one.Model() != nil && two.Model() != nil && two.Model().Bytes() > 0 {
			a.size = float64(one.Model().Bytes()) / float64(two.Model().Bytes())
			a.late = one.Model().Head() == nil
		}
	}
}

// join takes over what the group knows, before a round. It reports whether there may be a draft.
func (a *auto) join() (may bool) {
	l := a.target.Load()
	a.sessions, a.plain, a.prompt = float64(l.Sessions), l.Token, l.Prompt
	if !a.priced { // with others, or before it is seen whether they come, plain passes are first
		first := a.begins
		a.begins = false
		return l.Sessions <= 1 && !(first && l.Open > 1)
	}
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	a.lanes = max(a.lanes, g.lanes)
	a.verifiedMost = g.longest
	a.steps = g.steps
	if g.steps.lead[0].n == 0 && g.steps.follow[0].n == 0 { // until it is measured: by the size of the model
		step := float64(a.size * a.target.Costs().Each(1))
		a.steps.lead[0].mean, a.steps.follow[0].mean = step, step
	}
	for i := range a.lanes {
		a.common[i] = g.acceptance.lanes[i]
		a.acceptance.lanes[i].common = &a.common[i]
	}
	a.lost, a.elapsed = g.lost, g.elapsed
	return l.Measured && g.lost <= a.allowed(firstLosses)
}

// allowed is the time that drafts may have lost, with so many passes beyond the share of the time.
func (a *auto) allowed(passes float64) float64 {
	pass := float64(a.plain * a.sessions)
	return min(float64(lossShare*a.elapsed), float64(mostLosses*pass)) + float64(passes*pass)
}

// groupLength is the draft's length where passes are shared.
func (a *auto) groupLength(n int) int {
	alone := -1 // a drafter that is worth it whatever the others do
	for lane := a.lanes - 1; lane >= 0; lane-- {
		if a.starts(lane, a.forced) {
			alone = lane
		}
	}
	a.together = false
	switch lane := a.rounds % a.lanes; {
	case (alone < 0 || a.verifiedMost > 0) && a.draftTogether():
	case alone >= 0:
		if !a.claim(a.catchUp(alone, n), false) {
			a.requested = 0
		}
	case a.try(lane, n):
		a.trial, a.requested = lane, 1
	default:
		a.requested = 0
	}
	return a.requested
}

// claim reports whether the decoder may draft now, and how long. Until enough is known of acceptance, what drafters
// take to catch up has to fit in what may be lost. One decoder at a time makes a draft that is longer than any
// before, unless all draft together.
func (a *auto) claim(seconds float64, together bool) bool {
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if seconds > 0 && g.acceptance.lanes[0].all.trials < promiseWeight+enoughTrials &&
		g.lost+g.claimed+seconds > a.allowed(firstLosses) {
		return false
	}
	if a.requested > g.longest && !together {
		if g.exploring {
			a.requested = g.longest
		} else {
			a.explores, g.exploring = true, true
		}
	}
	a.claimed = seconds
	g.claimed += seconds
	return a.requested > 0
}

// unclaim ends a claim: its round is over, or the text.
func (a *auto) unclaim() {
	if a.claimed == 0 && !a.explores {
		return
	}
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.claimed -= a.claimed; g.claimed < 0 {
		g.claimed = 0
	}
	if a.explores {
		g.exploring = false
	}
	a.claimed, a.explores = 0, false
}

// draftTogether reports whether the decoder drafts although it would cost too much by itself: since all others do
// now, and passes of all drafts cost each of them less.
func (a *auto) draftTogether() bool {
	if a.drafting == nil {
		return false
	}
	each := a.drafting.Costs().Each(a.sessions)
	if each == 0 {
		each = float64(a.size * a.target.Costs().Each(a.sessions))
	}
	if !(each > 0) || each >= float64(muchLess*max(a.steps.first(0), a.steps.further(0))) {
		return false
	}
	first, step := a.steps.lead[0], a.steps.follow[0]
	a.steps.lead[0].mean, a.steps.follow[0] = each, timing{each, 1}
	if a.together = a.starts(0, a.forced) && a.takePart() && a.claim(a.catchUp(0, a.position), true); a.together {
		return true
	}
	a.steps.lead[0], a.steps.follow[0] = first, step
	return false
}

// takePart reports whether the decoder takes part in drafting together, which begins anew only now and then.
func (a *auto) takePart() bool {
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.takes > 0 && a.seen != g.trial {
		g.takes--
		a.seen = g.trial
		return true
	}
	if g.together > 0 && g.elapsed-g.together < float64(togetherAgain*a.plain*a.sessions) {
		return false
	}
	g.together = g.elapsed
	g.trial++
	g.takes, a.seen = int(a.sessions)-1, g.trial
	return true
}

// try reports whether the decoder drafts a token on trial, although that is not expected to be worth it. What all
// trials lose has to fit in what may be lost.
func (a *auto) try(lane, n int) bool {
	loss := max(0, a.steps.first(lane)+a.catchUp(lane, n)+a.pass(1)-a.pass(0)-float64(
		a.acceptance.lanes[lane].first()*a.plain))
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost+g.claimed+loss > a.allowed(0) {
		return false
	}
	a.claimed = loss
	g.claimed += loss
	return true
}

// catchUp is the time to feed a drafter what it lags behind a text of n tokens.
func (a *auto) catchUp(lane, n int) float64 {
	lag := float64(n - a.fed[lane] - 1)
	if lag < lagged {
		return 0
	}
	each := a.steps.lag[lane].mean
	if a.steps.lag[lane].n == 0 {
		each = priorLagStep * a.steps.further(lane)
		if a.drafting != nil {
			if prompt := a.drafting.Load().Prompt; prompt > 0 {
				each = max(each, prompt)
			} else if a.size > 0 && a.prompt > 0 {
				each = float64(a.size * a.prompt)
			}
		}
	}
	return float64(lag * each)
}

// stepped learns the time of draft steps. It tells what a drafter has to catch up with from the step itself.
func (a *auto) stepped(lane int, first bool, seconds float64) {
	lag := 0.0
	if first {
		lag = float64(a.position - a.fed[lane] - 1)
		a.fed[lane] = a.position
	}
	switch {
	case a.group != nil && !(seconds > 0): // in a pass with prompts, before anything is known of others
		return
	case lag >= lagged && (a.steps.lead[lane].n > 0 || a.late):
		if a.steps.first(lane) == 0 { // the first of all steps: until one is measured by itself, a part of this
			// steps' time in which the arithmetic is done; one in which the weights are read; their cubes add up
			busy := float64(priorLagStep * (lag + 1))
			step := seconds / math.Cbrt(1+float64(busy*busy*busy))
			a.steps.lead[lane].mean, a.steps.follow[lane].mean = step, step
		}
		a.learnLag(lane, max(0, seconds-a.steps.first(lane))/lag)
		return
	}
	a.steps.drafted(lane, first, seconds, a.pass(0), a.priced)
	if g := a.group; g != nil && a.priced {
		g.mu.Lock()
		defer g.mu.Unlock()
		t := &g.steps.follow[lane]
		if first {
			t = &g.steps.lead[lane]
		}
		if t.n++; t.n == 1 || a.together && len(a.reach) <= 1 { // what was known was of other passes
			t.mean = seconds
		}
		t.mean += float64(stepShare * (seconds - t.mean))
	}
}

func (a *auto) learnLag(lane int, seconds float64) {
	learn := func(t *timing) {
		if t.n++; t.n == 1 {
			t.mean = seconds
		}
		t.mean += float64(lagWeight * (seconds - t.mean))
	}
	learn(&a.steps.lag[lane])
	if g := a.group; g != nil && a.priced {
		g.mu.Lock()
		defer g.mu.Unlock()
		learn(&g.steps.lag[lane])
	}
}

// learned tells the group of a round: its tokens and their cost. A pass for which nobody drafted loses nothing,
// however slow the machine was.
func (a *auto) learned(tokens, drafting, verifying float64, drafted int) {
	g := a.group
	if g == nil {
		return
	}
	a.unclaim()
	if !a.priced || !(a.plain > 0) {
		return
	}
	plain := a.plain
	if p := a.target.Costs().Each(a.sessions); p > 0 { // by the machine's speed by now
		plain = p
	}
	took, lost := drafting+verifying, drafting
	if l := a.target.Load(); l.Rows > l.Among { // otherwise nobody drafted
		lost = took - float64(tokens*plain)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.longest, g.lanes = max(g.longest, drafted), max(g.lanes, a.lanes)
	g.elapsed += took
	g.lost = max(g.lost+lost, -float64(mostGains*plain*a.sessions))
	keep := 1 - (1-paceKeep)/max(a.sessions, 1)
	g.pace.tokens = float64(g.pace.tokens*keep) + tokens
	g.pace.seconds = float64(g.pace.seconds*keep) + took/plain
}

// accepted tells the group whether a token that the text came to was accepted.
func (a *auto) accepted(lane int, d *Draft, i int, lead, accepted bool) {
	a.acceptance.lanes[lane].learn(d, i, lead, accepted)
	if g := a.group; g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		l := &g.acceptance.lanes[lane]
		l.ranked, l.calibrated = d.Ranked, d.Calibrated
		l.learn(d, i, lead, accepted)
	}
}

// missed tells the group that a drafter brought nothing of its own.
func (a *auto) missed(lane int) {
	a.acceptance.lanes[lane].lead.add(0)
	if g := a.group; g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.acceptance.lanes[lane].lead.add(0)
	}
}

// groupRate is the tokens per second of all decoders together that a token's time must be worth: at least those of
// plain decoding.
func (a *auto) groupRate(best float64) float64 {
	if !(a.plain > 0) {
		return best
	}
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	rate := 1 / a.plain
	if g.pace.seconds > 0 {
		rate = math.Max(rate, g.pace.tokens/(g.pace.seconds*a.plain))
	}
	return float64(margin * rate)
}
