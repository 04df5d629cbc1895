package speculative

import (
	"math"

	"github.com/specgo/spec/engine/costs"
)

// Parameters of what the auto schedules of a scheduler share.
const (
	lossShare    = 0.01 // of the time that drafts may lose in comparison to none
	firstLosses  = 1.0  // passes without drafts that they may lose at first, when nothing is known
	firstCatchUp = 0.7  // and that drafters may take of them to catch up with texts
	fewTrials    = 2    // first tokens of drafts up to which nothing is known: one that is not accepted may be chance
	mostLosses   = 6.0  // and at most, however long the scheduler has been in use
	mostGains    = 2.0  // passes that they have gained lately that they may lose again
	// by which the tokens that a draft is expected to bring have to be worth more than its time: estimates err
	margin        = 1.05
	entryRounds   = 32   // rounds of drafting over which it has to make up for what the drafter has to catch up with
	enoughTrials  = 32   // drafted tokens from which acceptance is known well enough for that
	muchLess      = 0.8  // of what drafts cost at present: drafting together is worth a try if it is expected to cost less
	togetherAgain = 32   // passes after which drafting together is tried again where it lost time
	beyondPlan    = 4.0  // rows beyond those of a plan over which the time of further ones is taken
	cheapRow      = 0.02 // of a pass that a row more takes at least, where passes of so many were not measured
	gainKeep      = 0.9  // share of what it gained that is kept from one pass to the next
	// a gain, relative to plain passes, that may be none, as estimates err: a plain pass is measured again
	doubtedGain = 0.15
	doubtedRun  = 24 // passes with drafts after which that is done: it loses at most doubtedGain of one of them
	lagged      = 8  // tokens that a drafter lags behind from which the time to catch up is measured
	// of a new measurement in a draft step's mean time: shares of passes have no interruptions in them
	stepShare    = 0.2
	lagWeight    = 0.5 // of a new measurement in it
	priorLagStep = 0.1 // of a draft step's time that a token to catch up with takes where that is not known
)

// company is a decoder whose passes are shared, among the others.
type company struct {
	group    *group // what decoders under one scheduler share; nil: none
	target   Shared // its passes are shared
	drafter  Drafter
	drafting Shared  // the drafter's sequence; nil: it has none, or several
	taking   bool    // which is Taking
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
	last     int64 // pass that it was in
	saves    bool  // a trial of all decoders is next
	together bool  // this round's draft is one of all decoders at once
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
		a.setGroup(t, d, s.Experience.group(s.Sampling.MaxTemperature() > 0))
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
	a.group, a.target, a.drafter, a.drafting, a.late, a.begins = nil, nil, nil, nil, false, true
	a.position, a.fed = 0, [maxLanes]int{}
	for i := range a.acceptance.lanes {
		a.acceptance.lanes[i].common = nil
	}
	if t == nil {
		return
	}
	a.group, a.target = g, t
	a.drafter = d
	if a.meet(); a.drafting != nil && !a.taking {
		one, ok := a.drafting.(Modeled)
		a.late = ok && a.size > 0 && one.Model().Head() == nil
	}
}

// meet finds the drafter's sequence, which drafters may choose when a text begins.
func (a *auto) meet() {
	a.drafting, a.taking, a.size = nil, false, 0
	m, ok := a.drafter.(Sequenced)
	if !ok {
		return
	}
	own, ok := m.Sequence().(Shared)
	if !ok || absent(own) {
		return
	}
	a.drafting = own
	if x, ok := own.(Taking); ok {
		a.taking, a.size = true, x.Reads()
		return
	}
	one, ok1 := own.(Modeled)
	two, ok2 := a.target.(Modeled)
	if ok1 && ok2 && one.Model() != nil && two.Model() != nil && two.Model().Bytes() > 0 {
		a.size = float64(one.Model().Bytes()) / float64(two.Model().Bytes())
	}
}

// join takes over what the group knows, before a round. It reports whether there may be a draft.
func (a *auto) join() (may bool) {
	l := a.target.Load()
	a.together, a.saves, a.last = false, false, l.Pass
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
	switch lane := a.rounds % a.lanes; {
	case a.remeasures():
		a.requested = 0
	case (alone < 0 || a.verifiedMost > 0) && a.draftTogether():
	case alone >= 0:
		if !a.claim(a.catchUp(alone, n), false) {
			a.requested = 0
		}
	case a.saves: // what may be lost is for a trial of all
		a.requested = 0
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
		g.lost+g.claimed+seconds > a.allowed(firstCatchUp) {
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
// now. Passes of all drafts cost each of them less, and so do passes of the target whose time rises in steps: the first
// row beyond a step costs more than those after it.
func (a *auto) draftTogether() bool {
	saved, curve, most := a.steps, a.curve, a.requested
	cheaper, k := a.shareSteps(), a.plan()
	if k > 0 {
		a.pricePlan(k)
		cheaper = cheaper || a.curve[k] < curve[k]
	}
	a.requested = min(a.requested, max(k, 1), a.verifiedMost+1)
	worth := cheaper && a.starts(0, a.forced)
	if a.saves = false; k == 0 {
		promises, loss := a.explore()
		if worth = promises && a.group.affords(loss, a.allowed(0)); worth {
			a.requested = 1
		}
		a.saves = promises
	}
	a.together = worth && a.takePart() && a.claim(a.catchUp(0, a.position), true)
	if !a.together {
		a.steps, a.curve, a.requested = saved, curve, most
	}
	return a.together
}

// explore reports whether a token of each is to be drafted to learn what such a pass takes, which is longer than any
// that was measured, since that gains if rows are as cheap as they can be; and what it loses if they are as expensive
// as it seems.
func (a *auto) explore() (promises bool, loss float64) {
	l, c, rows := &a.acceptance.lanes[0], a.target.Costs(), float64(2*a.sessions)
	longest := float64(c.Longest())
	if longest >= rows {
		return false, 0
	}
	worth := float64(a.sessions * (1 + l.first()) * a.plain)
	drafts := float64(a.sessions * a.steps.first(0))
	least := float64(c.At(longest)*(1+float64(cheapRow*(rows-longest)))) + drafts
	return worth > float64(margin*least), c.At(rows) + drafts + float64(a.sessions*a.catchUp(0, a.position)) - worth
}

// affords reports whether so much more may be lost.
func (g *group) affords(loss, allowed float64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, g.lost)+g.claimed+loss <= allowed
}

// pricePlan sets the times of passes to what the decoder is charged where each drafts k tokens: the rows that all draft
// cost their mean, further ones what the pass takes longer beyond them.
func (a *auto) pricePlan(k int) {
	c, rows := a.target.Costs(), float64(a.sessions*float64(1+k))
	plain, planned := c.At(a.sessions), c.At(rows)
	mean := (planned - plain) / float64(a.sessions*float64(k))
	further := max(mean, (c.At(rows+beyondPlan)-planned)/beyondPlan)
	for i := range a.curve {
		a.curve[i] = plain/a.sessions + float64(mean*float64(min(i, k))) + float64(further*float64(max(0, i-k)))
	}
}

// shareSteps sets the time of draft steps to each decoder's part of a pass with all of them, and reports whether that
// is much less than they take at present.
func (a *auto) shareSteps() bool {
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
	a.steps.lead[0].mean, a.steps.follow[0] = each, timing{each, 1}
	return true
}

// plan is how many tokens each decoder drafts for all of them to have the most tokens per second, by the time of the
// whole pass and of all drafts: where each drafts k, the sequences have (1 + r_1 + ... + r_k) tokens each for
// V(sessions (1+k)) + sessions (d_1 + ... + d_k). 0: no number of tokens brings more than none.
func (a *auto) plan() (k int) {
	l, c := &a.acceptance.lanes[0], a.target.Costs()
	tokens, reach, draft := 1.0, l.first(), a.steps.first(0)
	best := float64(margin*a.sessions) / c.At(a.sessions)
	for n := 1; n < maxVerify && float64(a.sessions*float64(1+n)) <= maxVerify && reach > 0.01; n++ {
		tokens += reach
		took := c.At(float64(a.sessions*float64(1+n))) + float64(a.sessions*draft)
		if rate := float64(a.sessions*tokens) / took; rate > best {
			k, best = n, rate
		}
		reach = float64(reach * l.next())
		draft += a.steps.further(0)
	}
	return k
}

// takePart reports whether the decoder takes part in drafting together.
func (a *auto) takePart() bool {
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.turn(a.last, float64(togetherAgain*a.plain*a.sessions)) {
		return false
	}
	g.together = g.elapsed
	return true
}

// turn reports whether drafts may be made together after a pass: if drafts gained lately, or that has not been tried
// for so many seconds.
func (g *group) turn(pass int64, again float64) bool {
	g.flush(pass)
	return g.drafts.after(pass, func() bool {
		if g.gained <= 0 && (g.together == 0 || g.elapsed-g.together >= again) { // what was lost before counts no more
			g.gained = 0
			return true
		}
		return g.gained > 0
	})
}

// remeasures reports whether the pass after this one is to have no drafts, since they gain so little, relative to plain
// passes, and none was plain for long.
func (a *auto) remeasures() bool {
	doubted := float64(a.rate*a.plain) < float64(margin*(1+doubtedGain)) &&
		a.target.Costs().Since(int(a.sessions)) >= doubtedRun
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.plain.after(a.last, func() bool { return doubted })
}

// flush counts what drafts gained in the pass before this one, of which all decoders have told by now.
func (g *group) flush(pass int64) {
	if pass != g.pass {
		g.pass, g.gained, g.fresh = pass, float64(gainKeep*g.gained)+g.fresh, 0
	}
}

// try reports whether the decoder drafts a token on trial, although that is not expected to be worth it. What all
// trials lose has to fit in what may be lost, which is as much as at first until a few first tokens were seen.
func (a *auto) try(lane, n int) bool {
	loss := max(0, a.steps.first(lane)+a.catchUp(lane, n)+a.pass(1)-a.pass(0)-float64(
		a.acceptance.lanes[lane].first()*a.plain))
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	passes := 0.0
	if g.acceptance.lanes[lane].lead.trials < fewTrials {
		passes = firstLosses
	}
	if g.lost+g.claimed+loss > a.allowed(passes) {
		return false
	}
	a.claimed = loss
	g.claimed += loss
	return true
}

// catchUp is the time to feed a drafter what it lags behind a text of n tokens.
func (a *auto) catchUp(lane, n int) float64 {
	lag := float64(n - a.fed[lane] - 1)
	if lag < lagged || a.taking {
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
	if first && !a.taking {
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
		switch t.n++; {
		case t.n == 1, a.together && len(a.reach) <= 1: // what was known was of other passes
			t.mean = seconds
		case t.n <= stepMeasured:
			t.mean = min(t.mean, seconds) // the first steps may meet cold memory
		default:
			t.mean += float64(stepShare * (seconds - t.mean))
		}
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
	l := a.target.Load()
	if l.Rows > l.Among { // otherwise nobody drafted
		lost = took - float64(tokens*plain)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.longest, g.lanes = max(g.longest, drafted), max(g.lanes, a.lanes)
	g.elapsed += took
	g.lost = max(g.lost+lost, -float64(mostGains*plain*a.sessions))
	g.flush(l.Pass)
	g.fresh -= lost
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
		l.claims = a.acceptance.lanes[lane].claims // d is the draft of all drafters
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
