package costs

// MostReads is the most rows of which it is told what passes read.
const MostReads = 32

const (
	readsWeight = 0.1 // of a pass in the mean of what passes read
	leastReads  = 4   // passes of a number of rows from which that mean counts
)

// reads is what passes of so many rows read, as multiples of a pass of one row: in a mixture of experts, rows that
// choose other experts read more weights. Where only few lengths were measured, the time of others follows from it, as
// passes of few rows take the time in which weights are read.
type reads struct {
	mean [MostReads]float64
	n    [MostReads]int
	upTo [MostReads]float64 // the most of mean so far: more rows read no less
	most int                // rows of which enough is known; 0: nothing
}

// learn takes what a pass reads with its first row, its first two, and so on.
func (r *reads) learn(times []float64) {
	for i, x := range times[:min(len(times), MostReads)] {
		if r.n[i]++; r.n[i] == 1 {
			r.mean[i] = x
		}
		r.mean[i] += float64(readsWeight * (x - r.mean[i]))
		if r.n[i] >= leastReads {
			r.most = max(r.most, i+1)
		}
	}
	most := 0.0
	for i, x := range r.mean[:r.most] {
		most = max(most, x)
		r.upTo[i] = most
	}
}

// ratio is how much more a pass of length k reads than one of length from; 1 where that is not known. Beyond what is
// known it reads no more.
func (r *reads) ratio(from, k int) float64 {
	if r.most == 0 {
		return 1
	}
	return r.upTo[min(k, r.most-1)] / r.upTo[min(from, r.most-1)]
}

// LearnReads takes what a pass of experts read: reads[i] with its first i+1 rows, as a multiple of what one row reads.
// Set does not forget it: it is no time.
func (c *Costs) LearnReads(reads []float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.curve.reads.learn(reads)
	c.curve.stale = true
}

// Reads is what a pass of so many rows reads as a multiple of one of one row: 1 but for mixtures of experts whose
// passes told.
func (c *Costs) Reads(rows int) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.curve.reads.ratio(0, max(rows, 1)-1)
}
