package engine

import "github.com/specgo/spec/engine/costs"

// expertReads is what a pass reads of experts: bytes[k] of those that its first k+1 rows choose, of all layers. It
// tells how widely a text's tokens are spread over the experts, from every pass, prompts included.
type expertReads struct {
	bytes  [costs.MostReads]int64
	rows   int    // of the pass, at most so many as there are bytes
	counts bool   // the pass is counted
	marked []bool // [E] of one layer
}

// begin begins a pass.
func (r *expertReads) begin(counts bool) {
	r.counts, r.rows = counts, 0
	clear(r.bytes[:])
}

// add adds a layer of n experts of so many bytes each: its rows choose [rows][used].
func (r *expertReads) add(chosen []int32, used, n int, each int64) {
	if !r.counts {
		return
	}
	marked := sized(&r.marked, n)
	clear(marked)
	r.rows = min(len(chosen)/used, len(r.bytes))
	read := int64(0)
	for k := range r.rows {
		for _, i := range chosen[k*used : (k+1)*used] {
			if !marked[i] {
				marked[i] = true
				read += each
			}
		}
		r.bytes[k] += read
	}
}

// learn tells what passes read beside one of a single row. dense is what every pass reads beside experts.
func (r *expertReads) learn(c *costs.Costs, dense int64) {
	if !r.counts || r.rows < 2 {
		return
	}
	var all [costs.MostReads]float64
	one := float64(dense + r.bytes[0])
	for k := range r.rows {
		all[k] = float64(dense+r.bytes[k]) / one
	}
	c.LearnReads(all[:r.rows])
}

// bytes is what an expert's matrices take, packed.
func (l *feedForward) bytes() (n int64) {
	for _, w := range []linear{l.gate, l.up, l.down} {
		if w.w != nil {
			n += shapeOf(w.w).bytes()
		}
	}
	return n
}

// readsDense is what a pass reads of the model whatever experts it chooses: matrices of which each tensor has one.
func (m *Model) readsDense() (n int64) {
	for name, at := range m.sites {
		if !at.products || inEncoder(name) || at.count() > 1 {
			continue
		}
		for _, w := range at.matrices {
			n += shapeOf(w).bytes()
		}
	}
	return n
}
