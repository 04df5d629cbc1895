package speculative

import (
	"math"
	"slices"
	"time"
)

// Auto measures and decides: it estimates the time of a draft step, of a verify pass of each length,
// and from a drafted token's confidence how likely it is to be accepted. A token is drafted as long
// as what it is expected to add to the text is worth its time, at the tokens per second that the
// whole brings: the rule by which a rate of returns is greatest. When drafts do not pay, decoding is
// plain, and a draft is tried now and then, as long as all such trials together stay within a small
// share of the time.
func Auto(AutoOptions) Schedule {
	return &auto{now: monotonic(), pool: rate{1.4, 2}, promised: rate{1.4, 2}}
}

// AutoOptions configure [Auto]. There is nothing to choose yet.
type AutoOptions struct{}

const (
	firstRounds = 4     // in which a draft stays in one tile: it is not known what passes beyond it cost
	benefit     = 0.6   // tokens that drafts may fall short before they are given up: the benefit of the doubt
	trialShare  = 0.015 // of the time may be lost to trials
	plainFirst  = 24    // rounds after which plain decoding is measured, if drafts do well
	plainStale  = 100   // rounds after which it is measured again
	forget      = 32    // rounds after which a time is no longer believed: it may have been an accident, or another speed of the memory
	farthest    = 64    // verify lengths that are told apart
	lanes       = 4     // drafters that are told apart
	ahead       = 8     // tokens that are looked ahead, as a pass's time rises in steps
	tile        = 8     // tokens that this engine verifies for little more than one
)

type auto struct {
	now func() time.Duration

	step            [lanes]timing    // a drafted token, by drafter: there may be several in a round
	verify          [farthest]timing // a pass that verifies k drafted tokens
	seen            [farthest]int    // round of its last measurement
	calibration     [chanceBins]rate // acceptance by confidence
	pool            rate             // acceptance of all drafted tokens that were looked at
	promised        rate             // what their confidence said
	whole, drafting pace             // of all rounds, and of those with a draft

	rounds    int
	lastPlain int     // round in which plain decoding was measured last
	elapsed   float64 // seconds in rounds
	lost      float64 // seconds that trials took beyond what plain decoding takes for the same tokens
	gain      float64 // tokens per second that a token's time must be worth
	mark      time.Duration
	catchUp   bool      // the last round did not draft: a drafter may have more to feed first
	reach     []float64 // by drafted token: the chance that the text comes to it
	asked     int
	lane      int  // the drafter at work
	trying    bool // the round is a trial
}

// SetClock is called by the decoder: schedule and decoder read the same one.
func (a *auto) SetClock(now func() time.Duration) { a.now = now }

func (a *auto) NeedsConfidence() bool { return true }

func (a *auto) Length(int) int {
	a.mark, a.asked, a.reach, a.lane, a.trying = a.now(), farthest-1, a.reach[:0], 0, false
	plain := 1 / a.pass(0)
	switch {
	case a.rounds == 0:
		a.asked = tile / 2
	case a.plainDue():
		a.asked = 0
	case a.drafting.rate(plain, benefit) >= plain:
		a.gain = max(plain, a.whole.rate(plain, 0))
	case a.lost+a.trial() <= trialShare*a.elapsed:
		a.gain, a.trying = plain, true
	default:
		a.asked = 0
	}
	if a.rounds < firstRounds {
		a.asked = min(a.asked, tile-1)
	}
	return a.asked
}

// trial is the time that a drafted token by each drafter costs.
func (a *auto) trial() float64 {
	t := a.pass(1) - a.pass(0)
	for i := range a.step {
		t += a.step[i].mean
	}
	return t
}

// plainDue reports whether plain decoding is to be measured.
func (a *auto) plainDue() bool {
	if a.verify[0].n > 0 {
		return a.rounds-a.lastPlain > plainStale
	}
	return a.rounds >= plainFirst || a.drafting.tokens < 1.5*a.drafting.rounds
}

// pass is the time to verify k tokens: measured, else from the measured lengths around it.
func (a *auto) pass(k int) float64 {
	k = min(k, farthest-1)
	lo, hi := k, k
	for lo >= 0 && a.verify[lo].n == 0 {
		lo--
	}
	for hi < farthest && a.verify[hi].n == 0 {
		hi++
	}
	switch {
	case lo == k:
		return a.verify[k].mean
	case lo < 0 && hi == farthest:
		return 1
	case lo < 0:
		return a.verify[hi].mean * usual(k) / usual(hi)
	}
	guess := a.verify[lo].mean * usual(k) / usual(lo)
	if hi == farthest {
		return guess
	}
	low, high := a.verify[lo].mean, max(a.verify[lo].mean, a.verify[hi].mean)
	share := (usual(k) - usual(lo)) / (usual(hi) - usual(lo))
	return low + float64((high-low)*share)
}

// timed learns from a pass over k drafted tokens. Memory may be faster from one moment to the next: a pass of
// fewer tokens would have taken no longer than this one. What was measured long ago is forgotten: a length that
// looked dear by accident would never be tried again.
func (a *auto) timed(k int, took float64) {
	a.verify[k].add(took)
	a.seen[k] = a.rounds
	for i := range a.verify[1:] {
		if a.rounds-a.seen[1+i] > forget {
			a.verify[1+i] = timing{}
		}
	}
	for i := range a.verify[:k] {
		if v := &a.verify[i]; v.mean > took {
			v.mean += float64(0.25 * (took - v.mean))
		}
	}
}

// usual is a pass's time as it is expected before it was measured, of plain decoding's.
func usual(k int) float64 {
	return 1 + float64(0.015*float64(k)) + float64(0.02*float64(max(0, k+1-tile)))
}

// worth reports whether, after k drafted tokens of which the last is reached with chance p, some
// number of further ones pays: their expected tokens against their time at the rate of the whole.
// In a ranked tree the next token is reached with nearly the same chance; in a chain it must be right, too.
func (a *auto) worth(k int, p float64, ranked bool) bool {
	next := 0.8
	if !ranked {
		next = a.pool.p()
	}
	tokens, base := 0.0, a.pass(k)
	for i := 1; i <= ahead; i++ {
		p = float64(p * next)
		tokens += p
		if tokens > float64(a.gain*(a.pass(k+i)-base+float64(float64(i)*a.step[a.lane].mean))) {
			return true
		}
	}
	return false
}

// chance is the probability that token i is accepted, if those before it are.
func (a *auto) chance(d *Draft, i int) float64 {
	if d.Calibrated {
		return float64(d.Confidence[i])
	}
	guess := min(0.99, promise(d, i)*a.pool.p()/a.promised.p())
	return a.calibration[chanceBin(d.Confidence[i])].after(guess)
}

// promise is what a token's confidence says of its chance. Models of one kind agree on a token more
// often than by its probability: about by the root of it, up to a factor that is learned.
func promise(d *Draft, i int) float64 { return math.Sqrt(float64(d.Confidence[i])) }

func (a *auto) Stop(d *Draft) bool {
	now := a.now()
	n := d.Len()
	took := (now - a.mark).Seconds()
	a.mark = now
	if n <= len(a.reach) { // another drafter begins
		a.reach, a.lane = a.reach[:0], min(a.lane+1, lanes-1)
	}
	if n > 1 || !a.catchUp {
		a.step[a.lane].smooth(min(took, a.pass(0)))
	}
	for i := len(a.reach); i < n; i++ {
		p := a.chance(d, i)
		if before := d.Parent(i); before >= 0 {
			p = float64(p * a.reach[before])
		}
		a.reach = append(a.reach, p)
	}
	switch {
	case n >= a.asked:
		return true
	case a.rounds == 0: // nothing is known yet
		return false
	}
	return !a.worth(n, a.reach[n-1], d.Ranked)
}

func (a *auto) Observe(r *Round) {
	a.rounds++
	k := r.Drafted()
	took := (r.Drafting + r.Verifying).Seconds()
	tokens := float64(len(r.Path) + 1)
	a.elapsed += took
	a.timed(min(k, farthest-1), r.Verifying.Seconds())
	a.whole.add(tokens, took)
	a.catchUp = k == 0
	if k == 0 {
		a.lastPlain = a.rounds
		return
	}
	a.drafting.add(tokens, took)
	for i := range k {
		before := r.Draft.Parent(i)
		if before >= 0 && !slices.Contains(r.Path, int32(before)) {
			continue
		}
		accepted := 0.0
		if slices.Contains(r.Path, int32(i)) {
			accepted = 1
		}
		a.pool.add(accepted)
		if !r.Draft.Calibrated {
			a.promised.add(promise(r.Draft, i))
			a.calibration[chanceBin(r.Draft.Confidence[i])].add(accepted)
		}
	}
	if a.trying {
		loss := took - float64(a.pass(0)*tokens)
		a.lost = max(0, a.lost+loss)
	}
}
