package costs

import "math"

// Parameters of the curve. None describes a particular CPU.
const (
	noise       = 0.04  // standard deviation of a pass's time around its mean, relative
	speedDrift  = 0.03  // standard deviation of the change of the machine's speed from pass to pass, relative
	unknown     = 0.30  // standard deviation of the time of a length that was never measured, relative to the curve
	mostStale   = 0.1   // a length may be taken for faster the longer it was not used, up to this: so it is tried again
	lengthDrift = 0.005 // standard deviation of the change of a length's time beside the machine's speed, per pass
	outlier     = 3.0   // deviations beyond which a time is cut: an interruption is no measurement
	doubtful    = 3     // measurements up to which a length is forgotten that was not used for doubtfulAge passes
	doubtfulAge = 48
	doubtedAge  = 500 // passes after which a length that is in doubt counts for nobody
	unusedAge   = 100 // passes after which a length that was measured more often is in doubt too
	// if it takes so much more than a shorter one that was used since, relative, and than the usual slope says
	unusedStep = 0.15
	farLength  = 0.15 // lengths less certain than this are taken as measured at first
	// logarithm by which the first pass of a length must be off for the next pass to tell whether the speed changed
	oddLength    = 0.25
	forgetShare  = 0.02 // of the time may go into measuring lengths again
	unknownSlope = 0.02 // time of one more row, relative to a pass, where one length is known
)

// curve estimates the time of a pass of so many rows: the machine's present speed times a curve over the rows. Both
// are estimated from every pass by a Kalman filter on logarithms: the speed may change from one moment to the next
// (memory of virtual machines, shared CPUs), the curve hardly does. Lengths are rows less one.
type curve struct {
	speed, speedVar float64 // logarithm
	age             float64 // seconds since a length was forgotten
	jump            float64 // how far the last pass was off, if it was cut
	change          float64 // of speed that the last pass made at once; 0: none
	odd             int     // length whose first pass was the last one, if that was far from what was expected; 0: none
	oddOff          float64 // how far
	length          [MaxRows]length
	most            int // of the lengths: those from here on were never measured
	passes          int
	known           bool    // a pass was measured, or its time is given
	prompt          float64 // seconds that a prompt's token adds to a pass; 0: not known

	reads   reads
	seconds times
	tried   times // as if lengths that were not used for long had become faster
	stale   bool  // both are to be computed anew
}

// times are the seconds of all lengths, which rise. Those beyond the longest measured one are computed when they are
// asked for, once: most of them never are, and every pass makes times anew.
type times struct {
	known  [MaxRows]float64 // of the first lengths
	n      int              // up to the longest measured one; 0: nothing is known
	have   int              // that are computed
	slope  float64          // seconds of one more row beyond the n, 0 or more
	prompt float64          // seconds of a prompt's token, see guess
	reads  *reads
}

// at is the seconds of a length; 0 where nothing is known.
func (t *times) at(k int) float64 {
	if k >= t.have && t.n > 0 {
		t.extend(k)
	}
	return t.known[k]
}

// extend computes the seconds of the lengths up to to.
func (t *times) extend(to int) {
	last := t.n - 1
	at := t.known[last]
	for k := t.have; k <= to; k++ {
		x := at + float64(t.slope*float64(k-last))
		if t.prompt != 0 {
			x = max(x, guess(t.prompt, at, last, k))
		}
		if t.reads.most > 0 {
			x = max(x, at*t.reads.ratio(last, k))
		}
		t.known[k] = x
	}
	t.have = to + 1
}

// length is the time of one length: the logarithm of seconds at speed 0, and its variance.
type length struct {
	log, variance float64
	n             int     // measurements
	seen          int     // the last of the passes that had it
	doubted       bool    // forgotten by those that try lengths again: n is 0
	off           float64 // how far its last pass was off, if that was taken for an interruption
}

// at is the seconds of a pass of so many rows.
func (c *curve) at(rows float64) float64 {
	c.rebuild()
	x := min(max(rows-1, 0), MaxRows-1)
	i := min(int(x), MaxRows-2)
	low := c.seconds.at(i)
	return low + float64((c.seconds.at(i+1)-low)*(x-float64(i)))
}

// split divides the time of a pass of so many rows into a part of its own and one for each row.
func (c *curve) split(rows float64) (fixed, row float64) {
	if !c.known || rows <= 0 {
		return 0, 0
	}
	near := max(2, rows/4)
	from, to := max(1, rows-near), rows+near
	t := c.at(rows)
	row = min(max(0, (c.at(to)-c.at(from))/(to-from)), t/rows)
	return t - float64(row*rows), row
}

// measured reports whether passes of about so many rows, or of fewer and of more, were measured lately.
func (c *curve) measured(rows int) bool {
	less, more := rows > MaxRows, rows > MaxRows
	for k := range c.most {
		if l := &c.length[k]; c.remembers(l) && c.passes-l.seen <= measuredFor {
			at, top := float64(rows), float64(k+1)
			less = less || top <= at && float64(top*nearRows) >= at
			more = more || top >= at && top <= float64(at*nearRows)
		}
	}
	return less && more
}

// learn takes the time of a pass.
func (c *curve) learn(rows int, seconds float64) {
	k := rows - 1
	x, l := math.Log(seconds), &c.length[k]
	c.passes++
	c.speedVar += speedDrift * speedDrift
	c.age += seconds
	odd := c.odd
	c.odd = 0
	if c.change != 0 {
		c.rebuild()
		if off := x - math.Log(c.tried.at(k)); math.Abs(off+c.change) < math.Abs(off) {
			c.speed -= c.change // that was an interruption of two passes: the old speed again
			c.stale = true
		}
		c.change = 0
	}
	unsure := 0.0
	if l.n == 0 {
		c.rebuild()
		unsure = c.unsure(k)
	}
	if unsure > farLength {
		if off := x - math.Log(c.tried.at(k)); c.known && k > 0 && math.Abs(off) > oddLength {
			c.odd, c.oddOff = k, off
		}
		*l = length{log: x - c.speed, variance: noise*noise + c.speedVar}
		if !c.known {
			c.speedVar = noise * noise
		}
	} else {
		if l.n == 0 {
			*l = length{log: math.Log(c.tried.at(k)) - c.speed, variance: unsure * unsure}
		} else {
			l.variance += float64(lengthDrift * lengthDrift * float64(c.passes-l.seen))
		}
		off := x - c.speed - l.log
		if odd > 0 && odd != k && off*c.oddOff > 0 &&
			math.Abs(off) > outlier*math.Sqrt(c.speedVar+l.variance+float64(noise*noise)) {
			// Not that length was unexpected, but the machine's speed changed with it.
			c.length[odd], c.jump = length{}, off
		}
		c.filter(l, off)
	}
	l.n, l.seen, l.doubted, c.known, c.stale = l.n+1, c.passes, false, true, true
	c.most = max(c.most, k+1)
}

// unsure is the standard deviation of the curve at a length that was not measured: half the difference of the lengths
// around it, and beyond the others more the farther it is from them.
func (c *curve) unsure(k int) float64 {
	lo, hi := k, k
	for lo >= 0 && c.length[lo].n == 0 {
		lo--
	}
	for hi < MaxRows && c.length[hi].n == 0 {
		hi++
	}
	switch {
	case lo < 0 && hi == MaxRows:
		return noise + unknown
	case lo >= 0 && hi < MaxRows:
		return noise + float64(math.Abs(c.length[hi].log-c.length[lo].log)/2)
	case lo < 0:
		lo = k
	default:
		hi = k
	}
	return noise + float64(unknown*float64(hi-lo)/float64(hi+1))
}

// filter learns from a pass of a length whose logarithm is off by so much.
func (c *curve) filter(l *length, off float64) {
	total := c.speedVar + l.variance + noise*noise
	bound, again := outlier*math.Sqrt(total), false
	switch {
	case math.Abs(off) <= bound:
		c.jump, l.off = 0, 0
	case c.jump*off > 0: // twice in a row: not an interruption but another speed
		c.speedVar, c.jump, again = c.speedVar+float64(off*off), 0, true
		for i := range c.most {
			c.length[i].off = 0
		}
		total = c.speedVar + l.variance + noise*noise
	// again, though other lengths were as expected: the length was measured when the speed had just changed
	case l.off*off > 0:
		l.log, l.variance, l.off, c.jump = float64(l.log+off), float64(noise*noise)+c.speedVar, 0, 0
		return
	default:
		c.jump, l.off = off, off
		return
	}
	l.off = 0
	moved := float64(c.speedVar / total * off)
	if again {
		c.change = moved
	}
	c.speed += moved
	l.log += float64(l.variance / total * off)
	c.speedVar -= c.speedVar * c.speedVar / total
	l.variance -= l.variance * l.variance / total
}

// forget drops lengths whose times are in doubt, so that they are tried again. A length that was measured seldom and
// long ago may have been an accident. So may all that no pass has had for longer and that seem far more expensive
// than a shorter one in use: other processes may have used the CPUs when they were measured, and what seems expensive
// is not tried. To measure such lengths once more takes at most a small share of the time since some were dropped.
func (c *curve) forget() {
	var unused [MaxRows]bool // and expensive
	oldest, used := 0, 0
	for i := 1; i < c.most; i++ {
		l, age := &c.length[i], c.passes-c.length[i].seen
		if l.n == 0 {
			continue
		}
		unused[i] = age > unusedAge && c.tried.at(i) > c.tried.at(used)*(1+unusedStep+float64(unknownSlope*float64(i-used)))
		seldom := l.n <= doubtful && age > doubtfulAge
		if (unused[i] || seldom) && (oldest == 0 || l.seen < c.length[oldest].seen) {
			oldest = i
		}
		if age <= unusedAge {
			used = i
		}
	}
	if oldest == 0 || c.tried.at(oldest) > forgetShare*c.age {
		return
	}
	c.age, unused[oldest] = 0, true
	for i := range unused[:c.most] {
		if l := &c.length[i]; unused[i] && l.n > 0 {
			*l = length{log: l.log, seen: l.seen, doubted: true}
		}
	}
}

// trusted is the longest draft that may be made after one whose time was unexpected: a shorter one, of a length that
// was measured. If that is off too, the machine's speed changed.
func (c *curve) trusted() int {
	c.rebuild()
	if c.odd == 0 {
		return MaxRows
	}
	for k := c.odd - 1; k > 0; k-- {
		if c.length[k].n > 0 {
			return k
		}
	}
	return 0
}

// longest is the longest length that is known.
func (c *curve) longest() int {
	c.rebuild()
	for k := c.most - 1; k > 0; k-- {
		if c.length[k].n > 0 {
			return k
		}
	}
	return 0
}

// rebuild brings the curves up to date after passes.
func (c *curve) rebuild() {
	if !c.stale {
		return
	}
	c.stale = false
	c.forget()
	c.build(&c.tried, mostStale)
	c.build(&c.seconds, 0)
}

// build computes times: measured lengths, straight lines between them, and the last slope beyond. A pass of fewer rows
// takes no longer than one of more. Lengths are taken for faster the longer they were not used, up to most.
func (c *curve) build(to *times, most float64) {
	last, slope, at := -1, 0.0, &to.known
	for k := range c.most {
		if l := &c.length[k]; l.n == 0 && (most > 0 || !c.remembers(l)) {
			continue
		}
		faster := min(most, float64(lengthDrift*math.Sqrt(float64(c.passes-c.length[k].seen))))
		at[k] = math.Exp(c.length[k].log + c.speed - faster)
		if last < 0 {
			for i := range k {
				at[i] = min(at[k]/(1+float64(unknownSlope*float64(k-i))), guess(c.prompt, at[k], k, i),
					at[k]*c.reads.ratio(k, i))
			}
			slope = unknownSlope * at[k]
		} else {
			slope = (at[k] - at[last]) / float64(k-last)
			for i := last + 1; i < k; i++ {
				at[i] = at[last] + float64(slope*float64(i-last))
			}
		}
		last = k
	}
	if last < 0 {
		return
	}
	// The last piece may be short and noisy, or flat by accident: the slope beyond is at least that of the whole.
	if whole := (at[last] - at[0]) / float64(max(last, 1)); last > 0 {
		slope = max(slope, whole, 0)
	}
	for k := last - 1; k >= 0; k-- {
		at[k] = min(at[k], at[k+1])
	}
	to.n, to.have, to.slope, to.prompt, to.reads = last+1, last+1, slope, c.prompt, &c.reads
}

// remembers reports whether a length was measured not too long ago.
func (c *curve) remembers(l *length) bool {
	return l.n > 0 || l.doubted && c.passes-l.seen <= doubtedAge
}

// guess is the time of length k by the time t of a length that is known and by that of a prompt's token (0: unknown):
// as many rows as a prompt's chunk has keep the arithmetic units busy, few rows wait for the weights, and between the
// two the cubes of both times add up.
func guess(prompt, t float64, known, k int) float64 {
	if prompt == 0 {
		return t
	}
	cube := func(x float64) float64 { return float64(float64(x*x) * x) }
	weights := max(0, cube(t)-cube(float64(prompt*float64(known+1))))
	return math.Cbrt(weights + cube(float64(prompt*float64(k+1))))
}
