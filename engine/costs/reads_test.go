package costs

import (
	"math"
	"testing"
)

// Of a mixture of experts whose passes of one row were measured, passes of more rows are taken to last longer as they
// read more, up to what is known; once they were measured, that counts.
func TestTimesFollowWhatPassesRead(t *testing.T) {
	var c Costs
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.02*want {
			t.Errorf("%s: %.4f s, want %.4f", what, got, want)
		}
	}
	c.Learn(1, 0, 0.010)
	near("nothing is known of reads", c.At(2), 0.0102)
	for i := range leastReads {
		if c.Reads(2) != 1 {
			t.Errorf("after %d passes: %v", i, c.Reads(2))
		}
		c.LearnReads([]float64{1, 1.6, 2, 2.2})
	}
	for rows, want := range map[float64]float64{1: 0.010, 2: 0.016, 3: 0.020, 4: 0.022, 8: 0.022} {
		near("by what they read", c.At(rows), want)
	}
	if c.Reads(3) != 2 || c.Reads(100) != 2.2 || c.Reads(0) != 1 {
		t.Errorf("%v %v %v", c.Reads(3), c.Reads(100), c.Reads(0))
	}
	c.Set([]Time{{4, 0.022, 0, 9}}, true)
	near("of more rows known", c.At(2), 0.016)
	c.Learn(2, 0, 0.011)
	near("measured", c.At(2), 0.011)
	c.LearnReads([]float64{1, 3, 1})
	if a, b := c.Reads(2), c.Reads(3); a > b {
		t.Errorf("two rows read %v, three %v", a, b)
	}
	c.LearnReads(make([]float64, 2*MostReads)) // more than are told apart
}
