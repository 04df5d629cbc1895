package speculative

import "math"

// Parameters of the acceptance model.
const (
	priorAcceptance = 0.7 // of a drafted token before anything is known
	firstWeight     = 2.0 // trials that the prior is worth
	likelyWeight    = 6.0 // trials that a prior is worth which the drafter gives
	promiseWeight   = 8.0 // trials that the drafter's confidence, read as promise does, is worth
	// nothing is believed to be more certain than 1 - doubt/(trials+doubtTrials) before there is evidence
	doubt       = 0.6
	doubtTrials = 4.0
	// independent trials for each that is remembered: sums that forget by 1 % vary as those of twice as many trials
	virtualTrials = 2.0
	depthGroups   = 3 // tokens at depth 1, 2 and further down are counted separately
	maxAcceptance = 0.99
	groupWeight   = 6.0   // trials that what all texts have shown is worth for one of them
	followWeight  = 3.0   // trials that the acceptance of first tokens is worth for further ones
	followKeep    = 0.995 // share of what is known of further tokens that is kept from round to round
)

// acceptanceModel estimates the probability that a drafted token is accepted if those before it on its path are, by
// drafter, confidence and depth. Estimates are shares of past tokens that forget (rate), each with the coarser one as
// prior: confidence alone, then confidence at a depth.
type acceptanceModel struct {
	lanes [maxLanes]laneAcceptance
}

type laneAcceptance struct {
	lead   rate // a draft's first token is accepted
	follow rate // a further token of a chain is accepted
	// in a ranked tree: a token's probability of being reached, of that before it
	ratio    rate
	all      rate                          // every token that the text came to
	promised rate                          // what the confidence of these tokens promised
	bins     [chanceBins]rate              // by confidence
	deepBins [depthGroups][chanceBins]rate // by confidence and depth
	claims

	common *laneAcceptance // what others' texts have shown; nil: nothing
}

func (a *acceptanceModel) reset() {
	for i := range a.lanes {
		a.lanes[i] = laneAcceptance{
			all:      rate{promiseWeight * priorAcceptance, promiseWeight},
			promised: rate{promiseWeight * priorAcceptance, promiseWeight},
		}
	}
}

// first is the probability that a draft's first token is accepted.
func (l *laneAcceptance) first() float64 {
	if l.common != nil {
		return l.lead.weighted(l.common.first(), groupWeight)
	}
	if l.likely > 0 {
		return l.lead.weighted(l.likely, likelyWeight)
	}
	return l.lead.weighted(priorAcceptance, firstWeight)
}

// claims is what a drafter says of its tokens, by its draft's fields of these names.
type claims struct {
	ranked, calibrated bool
	likely             float64
}

// next is the probability that the text reaches one more token, of that it reaches the last one, before the token is
// known.
func (l *laneAcceptance) next() float64 {
	if c := l.common; c != nil && l.ranked {
		return l.ratio.weighted(c.next(), groupWeight)
	} else if c != nil {
		return l.follow.weighted(c.next(), groupWeight)
	}
	if l.ranked {
		return l.ratio.weighted(0.8, firstWeight)
	}
	return l.follow.weighted(l.first(), followWeight)
}

// age forgets a little of what follows a draft's first token: where drafts of one token do, it would never be tried
// again.
func (l *laneAcceptance) age() {
	l.follow.hits *= followKeep
	l.follow.trials *= followKeep
}

// promise is the acceptance that a confidence promises before it is known how the drafter's confidence is to be read.
// Two models of one kind agree more often than by probability: about by its root, up to a factor that is learned.
func promise(confidence float32) float64 { return math.Sqrt(float64(confidence)) }

// chance is the probability that token i is accepted if those before it are.
func (l *laneAcceptance) chance(d *Draft, i int) float64 {
	if d.Calibrated {
		return float64(d.Confidence[i])
	}
	c := d.Confidence[i]
	prior, most := min(maxAcceptance, promise(c)*l.all.p()/l.promised.p()), l.all.trials-promiseWeight
	if l.common != nil {
		prior, most = l.common.chance(d, i), max(most, l.common.all.trials-promiseWeight)
	}
	bin := chanceBin(c)
	p := l.deepBins[depthGroup(d.ownDepth(i))][bin].after(l.bins[bin].after(prior))
	return min(l.given(p, d.ownDepth(i)-1), 1-doubt/(most+2+doubtTrials))
}

// given is the probability that a token is accepted, given that so many tokens before it in the draft are: each of
// them counts as one more success. (Of a Beta distribution the mean of p^k is greater than the k-th power of the
// mean: where little is known, long drafts are worth more than the mean acceptance says.)
func (l *laneAcceptance) given(p float64, before int) float64 {
	if l.ranked || l.calibrated {
		return p
	}
	n := float64(virtualTrials * l.all.trials)
	if l.common != nil {
		n = max(n, float64(virtualTrials*l.common.all.trials))
	}
	return (float64(p*n) + float64(before)) / (n + float64(before))
}

func depthGroup(depth int) int { return min(depth, depthGroups) - 1 }

// learn is told whether token i, which the text came to, was accepted. lead: it is the first of its drafter.
func (l *laneAcceptance) learn(d *Draft, i int, lead, accepted bool) {
	hit := 0.0
	if accepted {
		hit = 1
	}
	switch {
	case lead:
		l.lead.add(hit)
	case d.ownDepth(i) > 1:
		l.follow.add(hit)
	}
	l.all.add(hit)
	if !d.Calibrated {
		c := d.Confidence[i]
		l.promised.add(promise(c))
		l.bins[chanceBin(c)].add(hit)
		l.deepBins[depthGroup(d.ownDepth(i))][chanceBin(c)].add(hit)
	}
}
