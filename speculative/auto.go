package speculative

import (
	"math"
	"slices"
	"time"
)

// Auto measures and decides. A cost model estimates the time of a pass over any number of tokens and of drafting one;
// an acceptance model estimates from a token's confidence how likely it is to be accepted. The policy drafts a token
// as long as the tokens that it is expected to bring are worth its time at the tokens per second that the whole
// brings, which is the rule by which a rate of returns is greatest (docs/SCHEDULE.md). Where drafts gain nothing,
// decoding is plain, and one token is drafted now and then; all such trials together take a bounded share of the time.
//
// Auto keeps what it learned from text to text. It needs no options; Costs spares it the first rounds' measurements.
func Auto(o AutoOptions) Schedule {
	a := &auto{thisDraft: thisDraft{now: monotonic(), lanes: 1, end: math.MaxInt}}
	a.acceptance.reset()
	a.init(o.Costs.times(), true)
	return a
}

// AutoOptions configure [Auto].
type AutoOptions struct {
	Costs PassCosts // measured times of the target's passes; empty: learned from the first rounds
}

// Parameters of the policy.
const (
	unknownLength = 2     // tokens of the first draft where nothing is known of costs
	lookAhead     = 8     // tokens that are looked ahead: a pass's time may rise in steps
	trialShare    = 0.012 // of the time that trials of drafts that gain nothing may take
	modelRounds   = 32    // rounds that the predicted rate counts as beside the rounds that were seen
	plainAfter    = 1     // rounds after which a plain pass is measured if none was
	plainStale    = 150   // rounds after which it is measured again
)

type auto struct {
	passTimes
	steps      draftSteps
	acceptance acceptanceModel
	pace       pace // of all rounds, its seconds in units of a plain pass at that time
	trials
	thisDraft
	company

	forced     int  // tokens that the constraint forces at the beginning of the draft
	forcedRate rate // how often a forced token is accepted if those before it are
}

// trials is what rounds took, and what was lost to learn from them.
type trials struct {
	rounds       int
	lastPlain    int     // round of the last plain pass
	elapsed      float64 // seconds in rounds
	lost         float64 // seconds that trials took beyond plain decoding of the same tokens
	verifiedMost int     // drafted tokens verified in rounds of shared passes
}

// thisDraft is the draft of the present round.
type thisDraft struct {
	now       func() time.Duration
	begun     time.Duration // when drafting began
	mark      time.Duration // when the present token's drafting began
	position  int           // of the round; 0: the text has had none
	end       int           // of the text: nothing is drafted there
	rate      float64       // tokens per second that a token's time must be worth
	requested int
	trial     int            // lane whose draft is a trial, -1: none
	lanes     int            // seen so far
	drafted   [maxLanes]bool // lanes that drafted in this round
	reach     []float64      // by drafted token of the present lane: probability that the text reaches it
	fed       [maxLanes]int  // tokens of the text when the drafter was last in step
}

// SetClock is called by the decoder: schedule and decoder read the same clock.
func (a *auto) SetClock(now func() time.Duration) { a.now = now }

func (a *auto) NeedsConfidence() bool { return true }

func (a *auto) Length(n int) int {
	first := a.position == 0
	if a.position = n; first { // drafters have the prompt
		for lane := range a.fed {
			a.fed[lane] = n - 1
		}
		if a.late {
			a.fed[0] = a.given
		}
		if a.group != nil {
			a.meet()
		}
	}
	a.mark, a.requested, a.trial, a.drafted, a.reach = a.now(), maxVerify-1, -1, [maxLanes]bool{}, a.reach[:0]
	a.begun = a.mark
	a.look()
	if a.group != nil && !a.join() {
		a.requested = 0
		return 0
	}
	longest := a.verifiedMost
	switch {
	case first && a.late && a.any && a.catchUp(0, n) > a.pass(0): // the first token does not wait for that
		a.requested = 0
		return 0
	case a.priced:
	case !a.any:
		a.requested = unknownLength
		return a.requested
	case a.plainDue():
		a.requested = 0
		return 0
	}
	if !a.priced {
		longest = a.longest()
		a.requested = min(a.requested, a.costs.Trusted()-1)
	}
	a.requested = min(a.requested, 2*longest+unknownLength) // the price of a length that is not known is bounded
	a.rate = a.bestRate()
	if a.group != nil && a.priced {
		return a.groupLength(n)
	}
	for lane := range a.lanes {
		if a.starts(lane, a.forced) || a.untried(lane) {
			return a.requested
		}
	}
	lane := a.rounds % a.lanes
	if a.affordable(lane) {
		a.trial, a.requested = lane, 1
		return 1
	}
	a.requested = 0
	return 0
}

// known reports whether something is known of the costs of passes.
func (a *auto) known() bool { return a.any }

// plainDue reports whether plain decoding is to be measured.
func (a *auto) plainDue() bool {
	if a.costs.Passes(1) == 0 {
		return a.rounds >= plainAfter
	}
	return a.rounds-a.lastPlain > plainStale
}

// affordable reports whether a trial of a drafter fits the share of time that trials may take.
func (a *auto) affordable(lane int) bool {
	return a.lost+a.steps.first(lane)+a.catchUp(lane, a.position)+a.pass(1)-a.pass(0) <= trialShare*a.elapsed
}

// Begin decides which drafters of a merge draft.
func (a *auto) Begin(lane, tokens int) bool {
	lane = min(lane, maxLanes-1)
	a.lanes = max(a.lanes, lane+1)
	a.mark, a.reach = a.now(), a.reach[:0]
	if !a.known() || a.requested == 0 {
		return true
	}
	if a.trial >= 0 {
		return a.trial == lane
	}
	if a.starts(lane, tokens+a.forced) || a.untried(lane) {
		return true
	}
	if (a.group == nil || !a.priced) && a.affordable(lane) {
		a.trial = lane
		return true
	}
	return false
}

// bestRate is the tokens per second that can be had: of the best constant length by the models, and of the rounds seen.
func (a *auto) bestRate() float64 {
	plain := a.pass(0)
	tokens, time := 1.0, plain
	for lane := range a.lanes {
		l := &a.acceptance.lanes[lane]
		sum, reach, draft := 1.0, l.first(), a.steps.first(lane)
		for k := 1; k < maxVerify && reach > 0.01; k++ {
			sum += reach
			if t := a.pass(k) + draft; sum*time > tokens*t {
				tokens, time = sum, t
			}
			reach *= l.next()
			draft += a.steps.further(lane)
		}
	}
	seen := float64(max(a.pace.seconds, 1e-9) * plain)
	tokens, time = float64(modelRounds*tokens)+a.pace.tokens, float64(modelRounds*time)+seen
	if rate := max(1/plain, tokens/time); a.group == nil || !a.priced {
		return rate
	} else {
		return a.groupRate(rate)
	}
}

// starts reports whether a drafter's draft is worth beginning after so many tokens of other drafters.
func (a *auto) starts(lane, tokens int) bool {
	l := &a.acceptance.lanes[lane]
	return a.worth(lane, tokens, float64(l.first()*math.Pow(a.forcedChance(), float64(a.forced))),
		a.steps.first(lane)+a.entry(lane))
}

// untried reports whether a drafter drafted once, well, and seemed too expensive: that draft may have met cold memory
// or an interruption, so it drafts a second time.
func (a *auto) untried(lane int) bool {
	lead := &a.acceptance.lanes[lane].lead
	return a.group == nil && a.steps.lead[lane].n == 1 && lead.trials > 0 && lead.hits == lead.trials
}

// worth reports whether, after k drafted tokens, some number of further ones is worth its time. The next one is reached
// with probability reach and takes step seconds to draft.
func (a *auto) worth(lane, k int, reach, step float64) bool {
	l, later := &a.acceptance.lanes[lane], a.steps.further(lane)
	next, depth := l.next(), len(a.reach)
	tokens, draft, base := 0.0, step, a.pass(k)
	for i := 1; i <= lookAhead; i++ {
		tokens += reach
		if tokens > float64(a.rate*(a.pass(k+i)-base+draft)) {
			return true
		}
		reach = float64(reach * l.given(next, depth+i))
		draft += later
	}
	return false
}

func (a *auto) Stop(d *Draft) bool {
	now := a.now()
	took := seconds(now - a.mark)
	a.mark = now
	lane, n := min(d.lane, maxLanes-1), d.Len()
	l := &a.acceptance.lanes[lane]
	a.drafted[lane] = true
	if n <= len(a.reach) || n == 1 {
		a.reach = a.reach[:0]
	}
	added := 0 // by the drafter
	for i := len(a.reach); i < n; i++ {
		if !d.isForced(i) {
			added++
		}
	}
	if added > 0 {
		a.stepped(lane, len(a.reach) == 0, took/float64(added))
	}
	l.claims = claims{d.Ranked, d.Calibrated, d.Likely}
	for i := len(a.reach); i < n; i++ {
		p := a.forcedChance()
		if !d.isForced(i) {
			p = l.chance(d, i)
		}
		if before := d.Parent(i); before >= 0 {
			p = float64(p * a.reach[before])
		}
		if d.Ranked && i > 0 && a.reach[i-1] > 0 && !d.isForced(i) {
			l.ratio.add(min(1, p/a.reach[i-1]))
		}
		a.reach = append(a.reach, p)
	}
	if d.before+n-d.forced >= a.requested || a.trial == lane {
		return true
	}
	if !a.known() || n == 1 && a.steps.follow[lane].n == 0 { // the first step alone may have met cold memory
		return false
	}
	return !a.worth(lane, d.before+n, float64(a.reach[n-1]*l.next()), a.steps.further(lane))
}

func (a *auto) Observe(r *Round) {
	a.rounds++
	k := r.Draft.Len()
	drafting, verifying := seconds(r.Drafting), seconds(r.Verifying)
	tokens := float64(r.Accepted() + 1) // forced ones come whatever is drafted
	if a.priced {                       // by more passes than this decoder's
		a.verifiedMost = max(a.verifiedMost, k)
	} else {
		a.verified(k, verifying)
	}
	plain := a.pass(0)
	a.elapsed += drafting + verifying
	a.learned(tokens, drafting, verifying, k)
	a.pace.add(tokens, (drafting+verifying)/plain)
	a.observeForced(r)
	if k == 0 {
		a.lastPlain = a.rounds
	}
	if n := k - len(a.reach); a.lanes == 1 && n > 0 && len(a.reach) > 0 && a.steps.follow[0].n == 0 {
		a.stepped(0, false, max(0, drafting-seconds(a.mark-a.begun))/float64(n)) // the last ones, after which nobody asked
	}
	if r.Drafted() == 0 {
		if r.Requested > 0 && drafting > 0.01*plain { // a drafter that took its time for nothing
			a.stepped(0, true, drafting)
			a.missed(0)
		}
		return
	}
	for lane := range a.lanes {
		a.acceptance.lanes[lane].age()
	}
	var led [maxLanes]bool
	trialHits := 0.0
	for i := range k {
		if r.Draft.isForced(i) {
			continue
		}
		lane := min(r.Draft.laneOf(i), maxLanes-1)
		lead := !led[lane]
		led[lane] = true
		before := r.Draft.Parent(i)
		if before >= 0 && !slices.Contains(r.Path, int32(before)) {
			if lead && !r.Draft.isForced(before) { // what other drafters drafted before it was wrong
				a.acceptance.lanes[lane].lead.add(0)
			}
			continue
		}
		accepted := slices.Contains(r.Path, int32(i))
		a.accepted(lane, r.Draft, i, lead, accepted)
		if accepted && lane == a.trial {
			trialHits++
		}
	}
	for lane := range a.lanes {
		if a.drafted[lane] && !led[lane] { // it drafted what others had drafted
			a.missed(lane)
		}
	}
	for lane := range a.lanes {
		if a.drafted[lane] {
			a.fed[lane] = r.Position + len(r.Path)
		}
	}
	if a.trial >= 0 {
		took := a.steps.first(a.trial)
		took = max(took, drafting) // with what the drafter had to catch up with
		loss := took + a.pass(k) - a.pass(k-1) - trialHits/max(a.rate, 1/plain)
		a.lost = max(0, a.lost+loss)
	}
}

// forcedChance is the probability that a forced token is accepted if those before it are.
func (a *auto) forcedChance() float64 { return a.forcedRate.after(priorForced) }

// Force is the number of forced tokens with which the pass brings the most tokens per second. Where they gain nothing,
// one is verified now and then, as a trial.
func (a *auto) Force(n int) int {
	a.forced = n
	if !a.known() {
		return n
	}
	chance, reach, tokens := a.forcedChance(), 1.0, 1.0
	if chance < likelyForced && a.plainDue() {
		a.forced = 0
		return 0
	}
	best, bestRate := 0, 1/a.pass(0)
	for k := 1; k <= n; k++ {
		reach = float64(reach * chance)
		tokens += reach
		if r := tokens / a.pass(k); r > bestRate {
			best, bestRate = k, r
		}
	}
	if loss := a.pass(1) - a.pass(0); best == 0 && a.lost+loss <= trialShare*a.elapsed {
		a.lost += loss
		best = 1
	}
	a.forced = best
	return best
}

// observeForced learns how often forced tokens are accepted.
func (a *auto) observeForced(r *Round) {
	a.forced = 0
	for i := range r.Draft.Len() {
		if !r.Draft.isForced(i) {
			continue
		}
		if p := r.Draft.Parent(i); p >= 0 && !slices.Contains(r.Path, int32(p)) {
			continue
		}
		hit := 0.0
		if slices.Contains(r.Path, int32(i)) {
			hit = 1
		}
		a.forcedRate.add(hit)
	}
}
