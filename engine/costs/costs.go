package costs

import (
	"math"
	"sync"
	"time"
)

// MaxRows is the most rows of a pass that are told apart; passes of more count as this long.
const MaxRows = 256

const (
	meanWeight   = 0.2 // of a pass in the mean time
	promptWeight = 0.3 // of a chunk in the estimate of a prompt token's time
	// promptRows is the number of rows at whose slope a prompt token's time is estimated where no prompt was measured.
	promptRows  = 32
	nearRows    = 1.25 // numbers of rows whose passes take about as long
	measuredFor = 100  // passes for which a measurement of about as many rows is recent
)

// Costs is what is known of a model's passes. The zero value knows nothing. It is safe for concurrent use.
type Costs struct {
	mu    sync.Mutex
	curve curve
	mean  float64 // seconds of a pass with rows
}

// Learn takes the seconds of a pass of so many rows, and so many tokens of prompts beside them. What is no time is
// ignored.
func (c *Costs) Learn(rows, prompts int, seconds float64) {
	if !(seconds > 0) || math.IsInf(seconds, 1) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case prompts > 0:
		usual := 0.0
		if rows > 0 && c.curve.known {
			usual = min(seconds, c.curve.at(float64(rows)))
		}
		each := (seconds - usual) / float64(prompts)
		if c.curve.prompt == 0 {
			c.curve.prompt = each
		}
		c.curve.prompt += float64(promptWeight * (each - c.curve.prompt))
		c.curve.stale = true
	case rows > 0:
		if c.mean == 0 {
			c.mean = seconds
		}
		c.mean += float64(meanWeight * (seconds - c.mean))
		c.curve.learn(min(rows, MaxRows), seconds)
	}
}

// Known reports whether anything is known of passes with rows.
func (c *Costs) Known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.curve.known
}

// Fill sets seconds[i] to the time of a pass of i+1 rows, which rises with i, for a schedule that tries lengths again
// which it has not used for long: they are taken for faster than when they were measured. It reports false, and sets
// nothing, where nothing is known.
func (c *Costs) Fill(seconds []float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.curve.known {
		return false
	}
	c.curve.rebuild()
	for i := range seconds {
		seconds[i] = c.curve.tried.at(min(i, MaxRows-1))
	}
	return true
}

// At is the seconds of a pass of so many rows; 0 where nothing is known.
func (c *Costs) At(rows float64) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.curve.at(rows)
}

// Each is the seconds that each of so many sessions is charged for a pass with one token of each; 0 where nothing is
// known.
func (c *Costs) Each(sessions float64) float64 {
	if sessions < 1 || !c.Known() {
		return 0
	}
	return c.At(sessions) / sessions
}

// Split divides the time of a pass of so many rows into a part of its own and one for each row, which is the slope
// there.
func (c *Costs) Split(rows float64) (fixed, row float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.curve.split(rows)
}

// Prices sets seconds[i] to what a sequence is charged for i+1 rows in passes of so many sequences that have so many
// other rows: an equal part of the pass's own time, and the time of its rows at the slope that the curve has there.
// Over all sequences of a pass that sums up to its time, and what a further row costs a sequence is what it costs all
// of them.
func (c *Costs) Prices(others, sequences float64, seconds []float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := 0.0
	for i := range seconds {
		rows := float64(i + 1)
		fixed, row := c.curve.split(others + rows)
		last = max(last, fixed/sequences+float64(row*rows))
		seconds[i] = last
	}
}

// Prompt is the seconds that a prompt's token adds to a pass; 0 where nothing is known.
func (c *Costs) Prompt() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.curve.prompt > 0 {
		return c.curve.prompt
	}
	_, row := c.curve.split(promptRows)
	return row
}

// PromptTokens is the number of a prompt's tokens that make a pass of so many rows longer by delay times its time; 0
// where that is not known.
func (c *Costs) PromptTokens(rows int, delay float64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.curve.prompt == 0 || !c.curve.known {
		return 0
	}
	return int(min(delay*c.curve.at(float64(max(rows, 1)))/c.curve.prompt, math.MaxInt32))
}

// MeanTime is the mean time of the last passes with rows.
func (c *Costs) MeanTime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.mean * float64(time.Second))
}

// Measured reports whether passes of about so many rows, or of fewer and of more, were measured lately.
func (c *Costs) Measured(rows int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.curve.measured(rows)
}

// Since is the number of passes after the last one of so many rows; of all that were learned where there was none.
func (c *Costs) Since(rows int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.curve.passes - c.curve.length[min(max(rows, 1), MaxRows)-1].seen
}

// Passes is how many passes of so many rows the estimate of their time stands on.
func (c *Costs) Passes(rows int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.curve.rebuild() // which may forget some
	return c.curve.length[min(max(rows, 1), MaxRows)-1].n
}

// Longest is the most rows of the passes that the estimate stands on; 0: none.
func (c *Costs) Longest() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.curve.known {
		return 0
	}
	return c.curve.longest() + 1
}

// Trusted is the most rows of the next pass from whose time something is learned: after a first pass of some number of
// rows whose time was unexpected, one of fewer rows, which were measured before, tells whether the machine's speed
// changed with it.
func (c *Costs) Trusted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.curve.trusted() + 1
}

// Time is what is known of passes of a number of rows.
type Time struct {
	Rows    int
	Seconds float64
	Spread  float64 // standard deviation of the logarithm of Seconds; 0: that of the mean of so many passes
	Passes  int     // that it stands on
}

// Times are the numbers of rows that were measured, ascending.
func (c *Costs) Times() (all []Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, l := range c.curve.length {
		if l.n > 0 {
			all = append(all, Time{k + 1, math.Exp(l.log + c.curve.speed), math.Sqrt(l.variance), l.n})
		}
	}
	return all
}

// Set replaces what is known: nil forgets everything. What cannot be is left out. here says that the times were
// measured on this machine just now, so that its speed is the same.
func (c *Costs) Set(times []Time, here bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mean, c.curve = 0, curve{speedVar: unknown * unknown, stale: true, reads: c.curve.reads}
	if here {
		c.curve.speedVar = noise * noise
	}
	for _, t := range times {
		if t.Rows < 1 || t.Rows > MaxRows || !(t.Seconds > 0) || math.IsInf(t.Seconds, 1) || t.Passes < 1 {
			continue
		}
		variance := t.Spread * t.Spread
		if !(variance > 0) || math.IsInf(variance, 1) {
			variance = noise * noise / float64(t.Passes)
		}
		c.curve.length[t.Rows-1] = length{log: math.Log(t.Seconds), variance: variance, n: t.Passes}
		c.curve.known, c.curve.most = true, max(c.curve.most, t.Rows)
	}
}
