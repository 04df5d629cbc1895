package speculative

import (
	"fmt"
	"math"
	"reflect"
	"sync"

	"github.com/specgo/spec/engine"
)

// Parameters of what the auto schedules of a scheduler share.
const (
	groupWeight   = 6.0  // trials that what all texts have shown is worth for one of them
	lossShare     = 0.01 // of the time that drafts may lose in comparison to none
	firstLosses   = 2.0  // passes without drafts that they may lose at first, when nothing is known
	mostLosses    = 6.0  // and at most, however long the scheduler has been in use
	entryRounds   = 16   // rounds of drafting over which it has to make up for what the drafter has to catch up with
	muchLess      = 0.8  // of what drafts cost at present: drafting together is worth a try if it is expected to cost less
	togetherAgain = 32   // passes after which drafting together is tried again
	lagged        = 8    // tokens that a drafter lags behind from which the time to catch up is measured
	stepShare     = 0.5  // of a new measurement in a draft step's mean time: shares of passes have no interruptions in them
	lagWeight     = 0.5  // of a new measurement in it
	priorLagStep  = 0.1  // of a draft step's time that a token to catch up with takes where that is not known
)

// group is what the auto schedules of decoders whose passes a scheduler shares know together. A text's own acceptance counts
// beside it. Drafts may lose only so much of the time in comparison to plain decoding under the same load, all of them together: the sum
// over all decoders of what their rounds cost, less what the same tokens cost in passes that nobody drafts for.
type group struct {
	mu         sync.Mutex
	acceptance acceptanceModel
	cost       costModel // its draft steps only
	lag        [maxLanes]timing
	longest    int     // draft verified
	lanes      int     // drafters of a decoder
	elapsed    float64 // seconds, of all decoders
	lost       float64 // seconds, at least 0
	pace       pace    // its seconds in units of a plain token at that time

	together float64 // elapsed when drafts were last tried because they would be worth it if all drafted
	trial    int     // number of the trial that is under way
	takes    int     // decoders that may still take part in it
}

func newGroup() any {
	g := &group{lanes: 1}
	g.acceptance.reset()
	return g
}

// groupKey tells drafters apart that share nothing: by their kind and model, and by whether tokens are sampled.
func groupKey(d Drafter, s engine.Sampling) string {
	return fmt.Sprint(drafterKey(d), s.Temperature > 0)
}

func drafterKey(d Drafter) string {
	key := reflect.TypeOf(d).String()
	switch d := d.(type) {
	case *merge:
		for _, x := range d.drafters {
			key += " " + drafterKey(x)
		}
	case interface{ drafting() Sequence }:
		if m, ok := d.drafting().(Modeled); ok && !absent(m) {
			key += fmt.Sprintf(" %p", m.Model())
		}
	}
	return key
}

func (m *modelDrafter) drafting() Sequence { return m.seq.Sequence }

// setGroup is called by the decoder before each text; nil: the target's passes are not shared.
func (a *auto) setGroup(t Grouped, d Drafter, s engine.Sampling) {
	a.group, a.load, a.drafting, a.seen, a.fed = nil, nil, nil, 0, [maxLanes]int{}
	for i := range a.acceptance.lanes {
		a.acceptance.lanes[i].common = nil
	}
	if t == nil {
		return
	}
	a.group, a.load = t.Common(groupKey(d, s), newGroup).(*group), t.Load
	if m, ok := d.(interface{ drafting() Sequence }); ok {
		if own, ok := m.drafting().(Grouped); ok && !absent(own) {
			a.drafting = own
		}
	}
}

// join takes over what the group knows, before a round. It reports whether there may be a draft.
func (a *auto) join() (may bool) {
	l := a.load()
	a.sessions, a.plain = float64(l.Sessions), l.Token
	if !a.priced {
		return l.Sessions <= 1 // with others, a plain pass comes first
	}
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	a.lanes = max(a.lanes, g.lanes)
	a.longest = g.longest
	a.cost.first, a.cost.step, a.lag = g.cost.first, g.cost.step, g.lag
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

// draftTogether reports whether the decoder drafts although it would cost too much by itself: since all others do now, and passes of all
// drafts cost each of them less.
func (a *auto) draftTogether() bool {
	if a.together = false; a.drafting == nil {
		return false
	}
	each := a.drafting.Together(int(a.sessions))
	if !(each > 0) || each >= float64(muchLess*max(a.cost.firstStep(0), a.cost.nextStep(0))) {
		return false
	}
	first, step := a.cost.first[0], a.cost.step[0]
	a.cost.first[0].mean, a.cost.step[0] = each, timing{each, 1}
	if a.together = a.starts(0, a.forced) && a.takePart(); a.together {
		return true
	}
	a.cost.first[0], a.cost.step[0] = first, step
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
	if g.together > 0 && g.elapsed-g.together < float64(togetherAgain*a.plain*a.sessions) || g.lost > a.allowed(firstLosses/2) {
		return false
	}
	g.together = g.elapsed
	g.trial++
	g.takes, a.seen = int(a.sessions)-1, g.trial
	return true
}

// tryTogether reports whether the decoder drafts a token on trial, as all others do now: together, drafts cost each of them least.
func (a *auto) tryTogether(lane, n int) bool {
	g := a.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.takes > 0 && a.seen != g.trial {
		g.takes--
		a.seen = g.trial
		return true
	}
	g.takes = 0
	l := &a.acceptance.lanes[lane]
	loss := a.cost.firstStep(lane) + a.catchUp(lane, n) + a.cost.pass(1) - a.cost.pass(0) - float64(l.first()*a.plain)
	if g.lost+float64(a.sessions*max(loss, 0)) > a.allowed(0) {
		return false
	}
	g.trial++
	g.takes, a.seen = int(a.sessions)-1, g.trial
	return true
}

// catchUp is the time to feed a drafter what it lags behind a text of n tokens.
func (a *auto) catchUp(lane, n int) float64 {
	lag := float64(n - a.fed[lane] - 1)
	if lag < lagged {
		return 0
	}
	each := a.lag[lane].mean
	if a.lag[lane].n == 0 {
		if each = priorLagStep * a.cost.nextStep(lane); a.drafting != nil {
			each = max(each, a.drafting.Load().Prompt)
		}
	}
	return float64(lag * each)
}

// stepped learns the time of draft steps. It tells what a drafter has to catch up with from the step itself.
func (a *auto) stepped(lane int, first bool, seconds float64) {
	if first {
		lag := float64(a.position - a.fed[lane] - 1)
		a.fed[lane] = a.position
		if lag >= lagged && a.cost.first[lane].n > 0 {
			a.learnLag(lane, max(0, seconds-a.cost.first[lane].mean)/lag)
			return
		}
	}
	a.cost.drafted(lane, first, seconds, a.priced)
	if g := a.group; g != nil && a.priced {
		g.mu.Lock()
		defer g.mu.Unlock()
		t := &g.cost.step[lane]
		if first {
			t = &g.cost.first[lane]
		}
		if t.n++; t.n == 1 || a.together { // what was known was of other passes
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
	learn(&a.lag[lane])
	if g := a.group; g != nil && a.priced {
		g.mu.Lock()
		defer g.mu.Unlock()
		learn(&g.lag[lane])
	}
}

// learned tells the group of a round: its tokens and their cost.
func (a *auto) learned(tokens, seconds float64, drafted int) {
	g := a.group
	if g == nil || !a.priced || !(a.plain > 0) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.longest, g.lanes = max(g.longest, drafted), max(g.lanes, a.lanes)
	g.elapsed += seconds
	g.lost = max(0, g.lost+seconds-float64(tokens*a.plain))
	keep := 1 - (1-paceKeep)/max(a.sessions, 1)
	g.pace.tokens = float64(g.pace.tokens*keep) + tokens
	g.pace.seconds = float64(g.pace.seconds*keep) + seconds/a.plain
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

// groupRate is the tokens per second of all decoders together that a token's time must be worth: at least those of plain decoding.
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
	return rate
}
