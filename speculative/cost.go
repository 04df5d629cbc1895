package speculative

import (
	"math"
	"time"
)

// Parameters of the cost model. None describes a particular CPU.
const (
	maxVerify = 256 // lengths of verify passes that are told apart; longer drafts count as this long
	maxLanes  = 8   // drafters of a merge that are told apart

	passNoise     = 0.04  // standard deviation of a pass's time around its mean, relative
	speedDrift    = 0.03  // standard deviation of the change of the machine's speed from round to round, relative
	lengthUnknown = 0.30  // standard deviation of the time of a length that was never measured, relative to the curve
	mostStale     = 0.1   // a length is taken for faster the longer it was not used, up to this: so it is tried again
	lengthDrift   = 0.005 // standard deviation of the change of a length's time beside the machine's speed, per round
	outlier       = 3.0   // deviations beyond which a time is cut: an interruption is no measurement
	doubtful      = 3     // measurements up to which a length is forgotten that was not used for doubtfulAge rounds
	doubtfulAge   = 48
	unusedAge     = 100 // rounds after which a length that was measured more often is in doubt too
	// if it takes so much more than a shorter one that was used since, relative, and than the usual slope says
	unusedStep = 0.15
	farLength  = 0.15 // lengths less certain than this are taken as measured at first
	// logarithm by which the first pass of a length must be off for the next pass to tell whether the speed changed
	oddLength    = 0.25
	forgetShare  = 0.02 // of the time may go into measuring lengths again
	unknownSlope = 0.02 // time of one more token, relative to a pass, where one length is known

	stepWeight    = 0.1 // of a new measurement in a draft step's mean time
	meteredWeight = 0.3 // likewise where passes are shared: a share changes with the load, and has no interruptions in it
	meteredRise   = 0.7 // likewise for a share that is greater than expected: drafts that turn out expensive end soon
)

// costModel estimates the time of a pass that verifies k drafted tokens, and of drafting a token. A pass's time is
// the machine's present speed times a curve over k. Both are estimated from every pass by a Kalman filter on
// logarithms: the speed may change from one moment to the next (memory of virtual machines, shared CPUs), the curve
// hardly does.
type costModel struct {
	speed, speedVar float64 // logarithm
	age             float64 // seconds since a length was forgotten
	jump            float64 // how far the last pass was off, if it was cut
	odd             int     // length whose first pass was the last one, if that was far from what was expected; 0: none
	oddOff          float64 // how far
	length          [maxVerify]lengthCost
	curve           [maxVerify]float64 // seconds, all lengths; rises with k
	round           int                // of the last pass
	known           bool               // a pass was measured or its time is given

	first, step [maxLanes]timing // time of the first and of each further token of a draft, by drafter
}

// lengthCost is the time of one length: the logarithm of seconds at speed 0, and its variance.
type lengthCost struct {
	log, variance float64
	n             int     // measurements
	seen          int     // round of the last one
	off           float64 // how far its last pass was off, if that was taken for an interruption
}

// given sets a measured curve: seconds[i] for lengths[i] tokens in a pass.
func (c *costModel) given(p PassCosts) {
	spread := p.Spread
	if !(spread > 0) || math.IsInf(spread, 1) {
		spread = passNoise / 2
	}
	for i, n := range p.Tokens {
		if k := n - 1; k >= 0 && k < maxVerify && i < len(p.Seconds) && p.Seconds[i] > 0 {
			c.length[k] = lengthCost{log: math.Log(p.Seconds[i]), variance: spread * spread, n: doubtful + 1}
			c.known = true
		}
	}
	c.speedVar = passNoise * passNoise
	c.rebuild()
}

// pass is the time of a pass that verifies k drafted tokens, in seconds.
func (c *costModel) pass(k int) float64 { return c.curve[min(k, maxVerify-1)] }

// verified learns from a pass over k drafted tokens in a round.
func (c *costModel) verified(k int, seconds float64, round int) {
	k = min(k, maxVerify-1)
	if !(seconds > 0) || math.IsInf(seconds, 1) {
		return
	}
	x, l := math.Log(seconds), &c.length[k]
	c.speedVar += speedDrift * speedDrift
	c.age += seconds
	odd := c.odd
	c.odd = 0
	if unsure := c.unsure(k); l.n == 0 && unsure > farLength {
		if off := x - math.Log(c.curve[k]); c.known && k > 0 && math.Abs(off) > oddLength {
			c.odd, c.oddOff = k, off
		}
		*l = lengthCost{log: x - c.speed, variance: passNoise*passNoise + c.speedVar}
		if !c.known {
			c.speedVar = passNoise * passNoise
		}
	} else {
		if l.n == 0 {
			*l = lengthCost{log: math.Log(c.curve[k]) - c.speed, variance: unsure * unsure}
		} else {
			l.variance += float64(lengthDrift * lengthDrift * float64(round-l.seen))
		}
		off := x - c.speed - l.log
		if odd > 0 && odd != k && off*c.oddOff > 0 &&
			math.Abs(off) > outlier*math.Sqrt(c.speedVar+l.variance+float64(passNoise*passNoise)) {
			// Not that length was unexpected, but the machine's speed changed with it.
			c.length[odd], c.jump = lengthCost{}, off
		}
		c.filter(l, off)
	}
	l.n, l.seen, c.known, c.round = l.n+1, round, true, round
	c.forget(round)
	c.rebuild()
}

// unsure is the standard deviation of the curve at a length that was not measured: half the difference of the lengths
// around it, and beyond the others more the farther it is from them.
func (c *costModel) unsure(k int) float64 {
	lo, hi := k, k
	for lo >= 0 && c.length[lo].n == 0 {
		lo--
	}
	for hi < maxVerify && c.length[hi].n == 0 {
		hi++
	}
	switch {
	case lo < 0 && hi == maxVerify:
		return passNoise + lengthUnknown
	case lo >= 0 && hi < maxVerify:
		return passNoise + float64(math.Abs(c.length[hi].log-c.length[lo].log)/2)
	case lo < 0:
		lo = k
	default:
		hi = k
	}
	return passNoise + float64(lengthUnknown*float64(hi-lo)/float64(hi+1))
}

// filter learns from a pass of a length whose logarithm is off by so much.
func (c *costModel) filter(l *lengthCost, off float64) {
	total := c.speedVar + l.variance + passNoise*passNoise
	bound := outlier * math.Sqrt(total)
	switch {
	case math.Abs(off) <= bound:
		c.jump, l.off = 0, 0
	case c.jump*off > 0: // twice in a row: not an interruption but another speed
		c.speedVar, c.jump = c.speedVar+float64(off*off), 0
		for i := range c.length {
			c.length[i].off = 0
		}
		total = c.speedVar + l.variance + passNoise*passNoise
	// again, though other lengths were as expected: the length was measured when the speed had just changed
	case l.off*off > 0:
		l.log, l.variance, l.off, c.jump = float64(l.log+off), float64(passNoise*passNoise)+c.speedVar, 0, 0
		return
	default:
		c.jump, l.off = off, off
		return
	}
	l.off = 0
	c.speed += float64(c.speedVar / total * off)
	l.log += float64(l.variance / total * off)
	c.speedVar -= c.speedVar * c.speedVar / total
	l.variance -= l.variance * l.variance / total
}

// forget drops lengths whose times are in doubt, so that they are tried again. A length that was measured seldom and
// long ago may have been an accident. So may all that no pass has had for longer and that seem far more expensive
// than a shorter one in use: other processes may have used the CPUs when they were measured, and what seems expensive
// is not tried. To measure such lengths once more takes at most a small share of the time since some were dropped.
func (c *costModel) forget(round int) {
	var unused [maxVerify]bool // and expensive
	oldest, used := 0, 0
	for i := 1; i < maxVerify; i++ {
		l, age := &c.length[i], round-c.length[i].seen
		if l.n == 0 {
			continue
		}
		unused[i] = age > unusedAge && c.curve[i] > c.curve[used]*(1+unusedStep+float64(unknownSlope*float64(i-used)))
		seldom := l.n <= doubtful && age > doubtfulAge
		if (unused[i] || seldom) && (oldest == 0 || l.seen < c.length[oldest].seen) {
			oldest = i
		}
		if age <= unusedAge {
			used = i
		}
	}
	if oldest == 0 || c.curve[oldest] > forgetShare*c.age {
		return
	}
	c.age, unused[oldest] = 0, true
	for i := range unused {
		if unused[i] {
			c.length[i] = lengthCost{}
		}
	}
}

// trusted is the longest draft that may be made after one whose time was unexpected: a shorter one, of a length that
// was measured. If that is off too, the machine's speed changed.
func (c *costModel) trusted() int {
	if c.odd == 0 {
		return maxVerify
	}
	for k := c.odd - 1; k > 0; k-- {
		if c.length[k].n > 0 {
			return k
		}
	}
	return 0
}

// longest is the longest length that is known.
func (c *costModel) longest() int {
	for k := maxVerify - 1; k > 0; k-- {
		if c.length[k].n > 0 {
			return k
		}
	}
	return 0
}

// rebuild computes the curve: measured lengths, straight lines between them, and the last slope beyond. A pass of fewer
// tokens takes no longer than one of more.
func (c *costModel) rebuild() {
	last, slope := -1, 0.0
	for k := range c.length {
		if c.length[k].n == 0 {
			continue
		}
		stale := min(mostStale, float64(lengthDrift*math.Sqrt(float64(c.round-c.length[k].seen))))
		c.curve[k] = math.Exp(c.length[k].log + c.speed - stale)
		if last < 0 {
			for i := range k {
				c.curve[i] = c.curve[k] / (1 + float64(unknownSlope*float64(k-i)))
			}
			slope = unknownSlope * c.curve[k]
		} else {
			slope = (c.curve[k] - c.curve[last]) / float64(k-last)
			for i := last + 1; i < k; i++ {
				c.curve[i] = c.curve[last] + float64(slope*float64(i-last))
			}
		}
		last = k
	}
	if last < 0 {
		return
	}
	// The last piece may be short and noisy, or flat by accident: the slope beyond is at least that of the whole.
	if whole := (c.curve[last] - c.curve[0]) / float64(max(last, 1)); last > 0 {
		slope = max(slope, whole, 0)
	}
	for k := last + 1; k < maxVerify; k++ {
		c.curve[k] = c.curve[last] + float64(slope*float64(k-last))
	}
	for k := maxVerify - 2; k >= 0; k-- {
		c.curve[k] = min(c.curve[k], c.curve[k+1])
	}
}

// drafted learns the time of a drafted token. After rounds without a draft the first one may take longer, as the
// drafter has more to feed. metered says that the time is a share of shared passes.
func (c *costModel) drafted(lane int, first bool, seconds float64, metered bool) {
	t, weight := &c.step[lane], stepWeight
	if first {
		t = &c.first[lane]
	}
	if metered {
		if weight = meteredWeight; seconds > t.mean {
			weight = meteredRise
		}
	} else if t.n > doubtful {
		seconds = min(seconds, float64(4*t.mean)+float64(0.05*c.curve[0])) // an interruption
	}
	if t.n++; t.n == 1 {
		t.mean = seconds
	}
	t.mean += float64(weight * (seconds - t.mean))
}

// firstStep and nextStep are the times of a draft's first and of each further token.
func (c *costModel) firstStep(lane int) float64 {
	if c.first[lane].n == 0 {
		return c.step[lane].mean
	}
	return c.first[lane].mean
}

func (c *costModel) nextStep(lane int) float64 {
	if c.step[lane].n == 0 {
		return c.first[lane].mean
	}
	return c.step[lane].mean
}

// PassCosts are the times of passes of the target: Seconds[i] for a pass of Tokens[i] tokens with logits for all of
// them. [MeasureCosts] and [EstimateCosts] find them for a model and a runtime; all decoders of both may share them.
type PassCosts struct {
	Tokens  []int     `json:"tokens"`
	Seconds []float64 `json:"seconds"`
	Spread  float64   `json:"spread,omitempty"` // relative standard deviation of Seconds; 0: 2 %
}

// seconds is a duration in seconds.
func seconds(d time.Duration) float64 { return d.Seconds() }
