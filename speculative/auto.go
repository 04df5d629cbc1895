package speculative

import "time"

// Auto measures and decides: it estimates the time of a draft step, of a verify pass of each
// length, and how likely a drafted token is to be accepted, by its confidence and its place in the
// draft. A token is drafted as long as what it is expected to add is worth more than its time
// brings otherwise; when even the first is not, decoding is plain. Then a draft is tried now and
// then, as long as all such trials together stay within a small share of the time.
func Auto() Schedule {
	a := &auto{now: monotonic()}
	a.pool = rate{hits: 1.4, trials: 2} // a hopeful guess that few trials outweigh
	return a
}

const (
	priorWeight = 4.0
	trialShare  = 0.015 // of the time may be lost to trials
	plainStale  = 100   // rounds after which plain decoding is measured again
	bins        = 10    // of confidence
	farthest    = 64    // verify lengths that are told apart
)

type auto struct {
	now func() time.Duration

	first, step timing           // a draft's first pass, and each further one
	verify      [farthest]timing // a pass that verifies k tokens
	pool        rate             // acceptance of all drafted tokens that were looked at
	place       [farthest]rate   // by place in the draft
	trust       [bins]rate       // by confidence

	rounds    int
	lastPlain int     // round in which plain decoding was measured last
	elapsed   float64 // seconds in rounds
	lost      float64 // seconds that drafts took beyond what plain decoding takes for the same tokens
	trialCost float64 // seconds that the last draft lost
	gain      float64 // tokens per second at the best constant length
	mark      time.Duration
	catchUp   bool    // the last round did not draft: the next first pass has more to feed
	cum       float64 // probability that the whole draft so far is accepted
	asked     int
}

// clock is called by the decoder: schedule and decoder read the same one.
func (a *auto) clock(now func() time.Duration) { a.now = now }

func (a *auto) Trust() bool { return true }

func (a *auto) Length(int) int {
	a.mark, a.cum, a.asked = a.now(), 1, 0
	switch {
	case a.rounds == 0:
		a.asked = 4
	case a.verify[0].n == 0, a.rounds-a.lastPlain > plainStale:
	default:
		a.gain = a.best()
		if a.worth(0, 1) {
			a.asked = farthest - 1
		} else if a.lost+a.trialCost <= trialShare*a.elapsed {
			a.asked = 2
		}
	}
	return a.asked
}

// best is the greatest expected number of tokens per second over all draft lengths.
func (a *auto) best() float64 {
	tokens, p := 1.0, 1.0
	most := 1 / a.pass(0)
	for k := 1; k < farthest/2; k++ {
		p = float64(p * a.at(k))
		tokens += p
		most = max(most, tokens/(a.draft(k)+a.pass(k)))
	}
	return most
}

// worth reports whether, after k drafted tokens that are all accepted with probability p, some
// number of further ones pays: their expected tokens against their time at the rate of the best.
func (a *auto) worth(k int, p float64) bool {
	tokens := 0.0
	base := a.draft(k) + a.pass(k)
	for i := k + 1; i < min(k+9, farthest); i++ {
		p = float64(p * a.at(i))
		tokens += p
		if tokens > a.gain*(a.draft(i)+a.pass(i)-base) {
			return true
		}
	}
	return false
}

// draft is the time to draft k tokens.
func (a *auto) draft(k int) float64 {
	if k == 0 {
		return 0
	}
	return a.first.mean + float64(float64(k-1)*a.step.mean)
}

// pass is the time to verify k tokens: measured, else from the measured lengths around it.
func (a *auto) pass(k int) float64 {
	if a.verify[k].n > 0 {
		return a.verify[k].mean
	}
	lo, hi := k-1, k+1
	for lo > 0 && a.verify[lo].n == 0 {
		lo--
	}
	for hi < farthest && a.verify[hi].n == 0 {
		hi++
	}
	if hi < farthest {
		t := float64(k-lo) / float64(hi-lo)
		return a.verify[lo].mean + float64((a.verify[hi].mean-a.verify[lo].mean)*t)
	}
	if lo == 0 {
		return a.verify[0].mean
	}
	slope := (a.verify[lo].mean - a.verify[0].mean) / float64(lo) // beyond all that was measured
	return a.verify[lo].mean + float64(max(0, slope)*float64(k-lo))
}

// at is the chance of the token at place i (from 1), if those before it are accepted.
func (a *auto) at(i int) float64 { return a.place[min(i, farthest)-1].after(a.pool.p()) }

// chance refines it by the token's confidence: odds multiply.
func (a *auto) chance(i int, confidence float32) float64 {
	all := a.pool.p()
	odds := odds(a.at(i)) * odds(a.trust[bin(confidence)].after(all)) / odds(all)
	return odds / (1 + odds)
}

func odds(p float64) float64 { return p / (1 - p) }

func bin(confidence float32) int { return max(0, min(bins-1, int(confidence*bins))) }

func (a *auto) Stop(d *Draft) bool {
	now := a.now()
	i := d.Len()
	took := (now - a.mark).Seconds()
	a.mark = now
	switch {
	case i > 1:
		a.step.add(took)
	case !a.catchUp || a.first.n == 0:
		a.first.add(took)
		if a.step.n == 0 {
			a.step.mean = took
		}
	}
	if i >= a.asked {
		return true
	}
	if a.gain == 0 { // nothing is known yet
		return false
	}
	if i == 1 {
		a.cum = 1 // there may be several drafts
	}
	a.cum *= a.chance(d.Depth(i-1), d.Confidence[i-1])
	return !a.worth(i, a.cum)
}

func (a *auto) Observe(r *Round) {
	a.rounds++
	k := r.Drafted()
	took := (r.Drafting + r.Verifying).Seconds()
	a.elapsed += took
	a.verify[min(k, farthest-1)].add(r.Verifying.Seconds())
	if k == 0 {
		a.lastPlain = a.rounds
		a.catchUp = true
		return
	}
	a.catchUp = false
	for n, i := range r.Path {
		a.learn(n+1, r.Draft.Confidence[i], 1)
	}
	if i := r.rejected(); i >= 0 {
		a.learn(len(r.Path)+1, r.Draft.Confidence[i], 0)
	}
	if plain := a.verify[0]; plain.n > 0 {
		loss := took - float64(plain.mean*float64(len(r.Path)+1))
		a.trialCost = max(0, loss)
		a.lost = max(0, a.lost+loss)
	}
}

func (a *auto) learn(place int, confidence float32, accepted float64) {
	a.pool.add(accepted)
	a.place[min(place, farthest)-1].add(accepted)
	a.trust[bin(confidence)].add(accepted)
}

// timing is a running estimate of a time in seconds. The least of the first few counts, as a first
// pass may meet cold memory; later ones move it, outliers by little.
type timing struct {
	mean float64
	n    int
}

func (t *timing) add(x float64) {
	t.n++
	switch {
	case t.n == 1:
		t.mean = x
	case t.n <= 3:
		t.mean = min(t.mean, x)
	default:
		t.mean += float64(0.1 * (min(x, 2*t.mean) - t.mean))
	}
}

// rate is a share of successes that forgets.
type rate struct{ hits, trials float64 }

func (r *rate) add(x float64) {
	const keep = 0.985
	r.hits, r.trials = float64(r.hits*keep)+x, float64(r.trials*keep)+1
}

// p is the share, kept away from 0 and 1.
func (r *rate) p() float64 { return (r.hits + 0.01) / (r.trials + 0.02) }

// after is the share if prior is believed as much as a few trials are.
func (r *rate) after(prior float64) float64 {
	return (r.hits + float64(priorWeight*prior)) / (r.trials + priorWeight)
}

// monotonic is a clock that starts now.
func monotonic() func() time.Duration {
	begin := time.Now()
	return func() time.Duration { return time.Since(begin) }
}
