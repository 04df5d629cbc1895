package shared

import (
	"math"
	"time"

	"github.com/specgo/spec/engine"
)

// Parameters of the estimate of passes' times. None describes a particular CPU.
const (
	speedWeight  = 0.3  // of how far a pass is off in the estimate of the machine's present speed
	bucketWeight = 0.02 // of it in the estimate of its number of rows, after many measurements: the curve changes little
	staleWeight  = 0.01 // likewise for each pass since it was measured, up to mostStale
	mostStale    = 0.5
	sureWeight   = 0.2  // numbers of rows whose weight is less are known well
	farOff       = 0.3  // logarithm beyond which a pass of such a number is off for a reason
	meanWeight   = 0.2  // of a pass in the mean time
	rowWeight    = 0.3  // of a chunk in the estimate of a prompt token's time
	mostOff      = 1.0  // logarithm beyond which a time is cut: an interruption is no measurement
	rowSlope     = 0.02 // time of one more row, relative to a pass, where one number of rows is known
	firstChunk   = 32   // prompt tokens of a chunk where nothing is known
	doubtedBelow = 4    // measurements below which a number of rows is forgotten that was not seen for doubtedFor passes
	doubtedFor   = 500
	nearRows     = 1.25 // numbers of rows whose passes take about as long
	measuredFor  = 100  // passes for which a measurement of about as many rows is recent
)

// longChunk is the number of rows at whose slope a prompt token's time is estimated where no prompt was measured.
const longChunk = 32

// Load is how busy a Scheduler is.
type Load struct {
	Sessions int // that generate at present
	Open     int // sessions that are not closed
	// seconds that each of them pays, by the measure of its sessions, for a pass with one token of each; 0: not known
	Token    float64
	Measured bool    // Token was measured lately, and not only computed from passes of many more tokens, or fewer
	Prompt   float64 // seconds of a token of a prompt; 0: not known
	Rows     int     // of the session's last pass, without those of prompts
	Among    int     // sessions that shared it
}

// passCosts estimates the time of a pass over so many rows, all with logits: the machine's present speed times a curve.
type passCosts struct {
	speed  float64                      // logarithm
	far    float64                      // how far the last pass was off, if that was far
	change float64                      // of speed that the last pass made; 0: none
	bucket [40]rowCost                  // by number of rows
	curve  [engine.PassRows + 1]float64 // seconds, by rows; rises
	known  bool
	passes int
	mean   float64 // seconds of a pass with logits
	row    float64 // seconds that a prompt token adds to a pass
}

// rowCost is the logarithm of seconds at speed 0.
type rowCost struct {
	log  float64
	n    int // measurements
	seen int // the last of the passes that measured it
}

// bucketOf is the index of the bucket of a number of rows: each one up to 16, by 4 up to 64, by 16 up to
// engine.PassRows.
func bucketOf(rows int) int {
	switch {
	case rows <= 16:
		return rows - 1
	case rows <= 64:
		return 16 + (rows-17)/4
	default:
		return 28 + (min(rows, engine.PassRows)-65)/16
	}
}

// rowsIn is the greatest number of rows of a bucket.
func rowsIn(bucket int) int {
	switch {
	case bucket < 16:
		return bucket + 1
	case bucket < 28:
		return 16 + 4*(bucket-15)
	default:
		return 64 + 16*(bucket-27)
	}
}

// learn takes the time of a pass whose rows all have logits.
func (c *passCosts) learn(rows int, seconds float64) {
	if rows < 1 || rows > engine.PassRows || !(seconds > 0) {
		return
	}
	c.passes++
	if c.mean == 0 {
		c.mean = seconds
	}
	c.mean += float64(meanWeight * (seconds - c.mean))
	if c.change != 0 {
		if off := math.Log(seconds / c.curve[rows]); math.Abs(off+c.change) < math.Abs(off) {
			c.speed -= c.change // that was an interruption of two passes: the old speed again
			c.rebuild()
		}
		c.change = 0
	}
	b := &c.bucket[bucketOf(rows)]
	x := math.Log(seconds) - c.speed
	// as if it had the bucket's greatest number of rows
	if at, top := c.curve[rows], c.curve[rowsIn(bucketOf(rows))]; at > 0 && top > at {
		x += math.Log(top / at)
	}
	if b.n == 0 {
		b.log = x
	} else {
		c.correct(b, min(max(x-b.log, -mostOff), mostOff))
	}
	b.n, b.seen, c.known = b.n+1, c.passes, true
	c.rebuild()
}

// correct learns from a pass that is off by a logarithm. What is known of its number of rows changes much only while
// that is little, or old. A pass that is far off is an interruption; if the next one is, too, the machine's speed has
// changed.
func (c *passCosts) correct(b *rowCost, off float64) {
	n := float64(b.n)
	own := max(bucketWeight, 1/(1+float64(n*n/4)), min(mostStale, staleWeight*float64(c.passes-b.seen)))
	if own < sureWeight && math.Abs(off) > farOff {
		if c.far*off > 0 {
			c.speed, c.change, off = c.speed+off, off, 0
		}
		c.far = off
		return
	}
	c.far = 0
	b.log += float64(own * off)
	c.speed += float64(speedWeight * (1 - own) * off)
}

// rebuild makes the curve: straight lines between what was measured.
func (c *passCosts) rebuild() {
	last, slope := 0, 0.0 // rows
	for i := range c.bucket {
		b := &c.bucket[i]
		if b.n > 0 && b.n < doubtedBelow && c.passes-b.seen > doubtedFor {
			*b = rowCost{}
		}
		if b.n == 0 {
			continue
		}
		rows, t := rowsIn(i), math.Exp(b.log+c.speed)
		c.curve[rows] = t
		if last == 0 {
			for r := range rows {
				c.curve[r] = min(t/(1+float64(rowSlope*float64(rows-r))), c.guess(rows, t, r))
			}
			slope = rowSlope * t
		} else {
			slope = (t - c.curve[last]) / float64(rows-last)
			for r := last + 1; r < rows; r++ {
				c.curve[r] = c.curve[last] + float64(slope*float64(r-last))
			}
		}
		last = rows
	}
	if last > 1 {
		slope = max(slope, (c.curve[last]-c.curve[1])/float64(last-1), 0)
	}
	for r := last + 1; r <= engine.PassRows; r++ {
		c.curve[r] = max(c.curve[last]+float64(slope*float64(r-last)), c.guess(last, c.curve[last], r))
	}
	for r := engine.PassRows - 1; r >= 0; r-- {
		c.curve[r] = min(c.curve[r], c.curve[r+1])
	}
}

// guess is the time of a pass of r rows where passes of n rows take t, by the time of a prompt's token: as many rows
// as a prompt's chunk has keep the arithmetic units busy, few rows wait for the weights, and between the two the
// cubes of both times add up.
func (c *passCosts) guess(n int, t float64, r int) float64 {
	if c.row == 0 {
		return t
	}
	cube := func(x float64) float64 { return float64(float64(x*x) * x) }
	weights := max(0, cube(t)-cube(float64(c.row*float64(n))))
	return math.Cbrt(weights + cube(float64(c.row*float64(r))))
}

// seconds is the time of a pass of so many rows.
func (c *passCosts) seconds(rows float64) float64 {
	i := min(max(int(rows), 0), engine.PassRows-1)
	return c.curve[i] + float64((c.curve[i+1]-c.curve[i])*(rows-float64(i)))
}

// split divides the time of a pass of so many rows into a part of its own and one for each row, which is the slope
// there.
func (c *passCosts) split(rows float64) (fixed, row float64) {
	if !c.known || rows <= 0 {
		return 0, 0
	}
	near := max(2, rows/4)
	from, to := max(1, rows-near), rows+near
	t := c.seconds(rows)
	row = min(max(0, (c.seconds(to)-c.seconds(from))/(to-from)), t/rows)
	return t - float64(row*rows), row
}

// measured reports whether passes of about so many rows, or of fewer and of more, were measured lately.
func (c *passCosts) measured(rows int) bool {
	less, more := false, false
	for i := range c.bucket {
		if b := &c.bucket[i]; b.n > 0 && c.passes-b.seen <= measuredFor {
			at, top := float64(rows), float64(rowsIn(i))
			less = less || top <= at && float64(top*nearRows) >= at
			more = more || top >= at && top <= float64(at*nearRows)
		}
	}
	return less && more || rows > engine.PassRows || c.bucket[bucketOf(max(rows, 1))].n > 0 &&
		c.passes-c.bucket[bucketOf(max(rows, 1))].seen <= measuredFor
}

// meanTime is the mean time of the last passes with logits.
func (c *passCosts) meanTime() time.Duration { return time.Duration(c.mean * float64(time.Second)) }

// chunk is the number of prompt tokens that make a pass of so many rows longer by delay times its time.
func (c *passCosts) chunk(rows int, delay float64) int {
	if c.row == 0 || !c.known {
		return firstChunk
	}
	return int(min(delay*c.seconds(float64(max(rows, 1)))/c.row, engine.PassRows))
}

// learnPrompt takes the time that a chunk of a prompt added to a pass.
func (c *passCosts) learnPrompt(rows int, seconds float64) {
	t := max(seconds, 0) / float64(rows)
	if c.row == 0 {
		c.row = t
	}
	c.row += float64(rowWeight * (t - c.row))
}

// prices fills seconds[i] with what a session pays for i+1 rows in passes of so many sessions that have so many other
// rows: an equal part of the pass's own time, and the time of its rows at the slope that the curve has there. Over
// all sessions of a pass that sums up to its time, and what a further row costs a session is what it costs all of
// them.
func (c *passCosts) prices(others, sessions float64, seconds []float64) {
	last := 0.0
	for i := range seconds {
		rows := float64(i + 1)
		fixed, row := c.split(others + rows)
		last = max(last, fixed/sessions+float64(row*rows))
		seconds[i] = last
	}
}
