package costs

import (
	"fmt"
	"math"
	"testing"
)

// drafts are costs by drafted tokens: passes with one row more. They are asked after each pass, as by a schedule.
type drafts struct{ Costs }

func (d *drafts) verified(k int, seconds float64) {
	d.Learn(k+1, 0, seconds)
	d.pass(0)
}
func (d *drafts) pass(k int) float64 {
	var seconds [MaxRows]float64
	d.Fill(seconds[:])
	return seconds[k]
}
func (d *drafts) trusted() int { return d.Trusted() - 1 }

// A length that seems expensive by accident is tried again, an interruption is no measurement, and the machine's
// speed is that of all lengths.
func TestCurve(t *testing.T) {
	near := func(what string, got, want, within float64) {
		t.Helper()
		if math.Abs(got-want) > within*want {
			t.Errorf("%s: %.4f s, want %.4f", what, got, want)
		}
	}
	curve := func(k int) float64 { return 0.020 + 0.001*float64(k) }
	c := &drafts{}
	c.verified(2, curve(2))
	near("one length known", c.pass(2), curve(2), 1e-9)
	near("fewer tokens", c.pass(0), curve(0), 0.1)
	for i := range 20 {
		c.verified([]int{0, 2, 5, 9}[i%4], curve([]int{0, 2, 5, 9}[i%4]))
	}
	for k := range 13 {
		near(fmt.Sprint("known curve, ", k), c.pass(k), curve(k), 0.03)
	}
	c.verified(5, 0.5) // an interruption
	near("after an interruption", c.pass(5), curve(5), 0.25)
	near("others after it", c.pass(0), curve(0), 0.25)
	for range 6 {
		c.verified(2, curve(2))
	}
	near("some rounds later", c.pass(5), curve(5), 0.08)
	for range 8 {
		c.verified(2, 2*curve(2)) // another speed of the whole machine
	}
	near("half the speed, as measured", c.pass(2), 2*curve(2), 0.05)
	near("half the speed, other lengths", c.pass(9), 2*curve(9), 0.12)
	c.verified(20, 0.2) // a length that was never measured, by accident
	near("an accident", c.pass(20), 0.2, 0.1)
	for range 300 {
		c.verified(2, 2*curve(2))
	}
	near("an accident is forgotten", c.pass(20), 2*curve(20), 0.25)
	c.verified(30, 40) // to measure this again would take too long
	for range 300 {
		c.verified(2, 2*curve(2))
	}
	near("a length that is really expensive", c.pass(30), 40, 0.2)
	for k := range MaxRows - 1 {
		if c.pass(k) > c.pass(k+1) {
			t.Errorf("%d tokens take longer than %d", k, k+1)
		}
	}
	c.verified(3, math.NaN())
	c.verified(3, -1)
	c.verified(3, math.Inf(1))
	near("what is no time", c.pass(2), 2*curve(2), 0.05)
}

// Other processes use the CPUs while lengths are measured, and only short drafts are made since then: what seems
// expensive is in doubt after a while. What is as expensive as the usual slope says stays.
func TestUnusedLengthsAreForgotten(t *testing.T) {
	c := &drafts{}
	for i := range 20 {
		c.verified(i%2, 0.020)
		c.verified(6, 0.022)
		c.verified(2+i%4, 0.040)
	}
	for range unusedAge + 60 {
		c.verified(1, 0.020)
	}
	if got := c.pass(4); got > 0.025 {
		t.Errorf("4 tokens take %.4f s, although the machine is quiet now", got)
	}
	if got := c.Passes(7); got != 20 {
		t.Errorf("6 tokens were measured 20 times, %d are remembered", got)
	}
}

// The machine's speed halves in the pass that is the first of its length. The next pass, of a known length, tells
// that it was the speed: the length is not taken for twice as expensive, and the schedule asks for a known length
// there.
func TestSpeedChangesWithNewLength(t *testing.T) {
	curve := func(k int) float64 { return 0.020 + 0.0005*float64(k) }
	learned := func() *drafts {
		c := &drafts{}
		for i := range 30 {
			c.verified([]int{0, 2, 4}[i%3], curve([]int{0, 2, 4}[i%3]))
		}
		return c
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.08*want {
			t.Errorf("%s: %.4f s, want %.4f", what, got, want)
		}
	}
	c := learned()
	if c.trusted() != MaxRows {
		t.Errorf("drafts of at most %d tokens although nothing was unexpected", c.trusted())
	}
	c.verified(20, 2*curve(20))
	if c.trusted() != 4 {
		t.Errorf("after an unexpected length, drafts of at most %d tokens, want the longest known length, 4", c.trusted())
	}
	c.verified(4, 2*curve(4))
	near("half the speed", c.pass(4), 2*curve(4))
	near("half the speed, plain", c.pass(0), 2*curve(0))
	near("the new length, from the others", c.pass(20), 2*curve(20))
	for range 3 {
		c.verified(2, curve(2))
	}
	near("full speed again", c.pass(20), curve(20))

	c = learned() // it is the length that is expensive
	c.verified(20, 3*curve(20))
	c.verified(4, curve(4))
	near("an expensive length", c.pass(20), 3*curve(20))
	near("the others", c.pass(4), curve(4))
	if c.trusted() != MaxRows {
		t.Errorf("drafts of at most %d tokens although the length was confirmed", c.trusted())
	}
}

// A known length that was measured at another speed is corrected when it is off twice, though the others are as
// expected; a single time is an interruption.
func TestLengthIsCorrected(t *testing.T) {
	c := &drafts{}
	for i := range 60 {
		k, slow := []int{0, 5, 9}[i%3], 1.0
		if k == 9 {
			slow = 2
		}
		c.verified(k, slow*(0.020+0.0005*float64(k)))
	}
	right := 0.020 + 0.0005*9
	for i, want := range []float64{2 * right, right} {
		c.verified(9, right)
		for range 3 {
			c.verified(5, 0.0225)
		}
		if got := c.pass(9); math.Abs(got-want) > 0.08*want {
			t.Errorf("after %d passes at the right time: %.4f s, want %.4f", i+1, got, want)
		}
	}
	if got := c.pass(5); math.Abs(got-0.0225) > 0.002 {
		t.Errorf("the others: %.4f s", got)
	}
	// twice the machine halves its speed in a pass of this length, and not the length is corrected
	for _, x := range []struct {
		k    int
		slow float64
	}{{9, 2}, {5, 2}, {5, 2}, {5, 1}, {5, 1}, {5, 1}, {9, 2}, {5, 2}, {5, 2}} {
		c.verified(x.k, x.slow*(0.020+0.0005*float64(x.k)))
	}
	if got := c.pass(9) / c.pass(5); math.Abs(got-right/0.0225) > 0.08 {
		t.Errorf("after changes of speed the length takes %.2f times as long as the other, want %.2f", got, right/0.0225)
	}
}

// A length that auto is to try again keeps its price in company, for a time: passes that nobody drafts for say nothing
// of it.
func TestForgottenLengthsKeepTheirPrice(t *testing.T) {
	c := &drafts{}
	for range 20 {
		c.verified(0, 0.020)
	}
	c.verified(3, 0.060)
	for range doubtedAge - 10 {
		c.verified(0, 0.020)
	}
	if got := c.pass(3); got > 0.025 {
		t.Errorf("4 rows take %.4f s for a schedule that is to try them again", got)
	}
	if got := c.At(4); math.Abs(got-0.060) > 0.003 {
		t.Errorf("4 rows take %.4f s in company, 0.060 were measured", got)
	}
	for range 20 {
		c.verified(0, 0.020)
	}
	if got := c.At(4); got > 0.025 {
		t.Errorf("4 rows take %.4f s in company after %d passes without them", got, doubtedAge+10)
	}
}

// What a pass takes that has more rows than any that was measured does not depend on which others were asked for
// before, nor on the passes before the last one.
func TestUnmeasuredRowsAreAskedForInAnyOrder(t *testing.T) {
	var asked, fresh Costs
	for i := range 30 {
		for _, c := range []*Costs{&asked, &fresh} {
			c.Learn(0, 64, 0.2+0.01*float64(i%2))
			c.Learn(2+i%3, 0, 0.01+0.002*float64(i%5))
		}
		asked.At(float64(5 + 7*i))
	}
	var want [MaxRows]float64
	for i := range want {
		want[i] = fresh.At(float64(i + 1))
	}
	for i := MaxRows - 1; i >= 0; i-- {
		if got := asked.At(float64(i + 1)); got != want[i] {
			t.Errorf("%d rows take %v s, asked for in another order %v", i+1, got, want[i])
		}
	}
}
