package engine

import (
	"slices"

	"github.com/specgo/spec/tensor"
)

// A recurrent layer folds the text into a state of a fixed size, token by token: what a token adds cannot be taken out again. A session
// keeps, besides the state, copies of it at a few earlier points, and a journal of what the latest tokens gave the layers. From a point
// and the journal every state since the point is recomputed by the same steps, without the weights.
//
// A verification leaves the state where it is: of a tree, each node's path is walked from there. The next pass first takes the state by
// the journal's inputs of the tokens that were accepted, while it has the state in the cache anyway; Commit moves those of a tree's path
// together. A long chain moves the state on, and so does a draft's chain of single tokens; Truncate then makes the next pass begin at
// the nearest point.

// recurrence is the recurrent part of a layer. Its units (heads, or groups of channels) do not depend on each other.
type recurrence interface {
	shape() recurrentShape
	// scan takes a unit by up to scanTokens tokens, of inputs in: it changes its state and writes its part of out [tokens][output]. out
	// may be nil: then only the state moves on.
	scan(t *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32, scratch *scanScratch)
}

const (
	inputParts = 3 // of a token's input, at most
	scanTokens = 8 // most tokens of a scan: kernels keep a head's state in the first caches over them
)

// tokenInput is a token's inputs of all units, in parts that come from different matrices.
type tokenInput [inputParts][]float32

// recurrentShape is the sizes of a recurrence, in float32 numbers.
type recurrentShape struct {
	units   int
	state   int             // of a unit; zeros before the first token
	inputs  [inputParts]int // of a token: what the journal keeps
	output  int             // of a token
	scratch int             // of a unit's scan
}

// input is the numbers of a token's input.
func (s recurrentShape) input() int { return s.inputs[0] + s.inputs[1] + s.inputs[2] }

// scanScratch is the memory of a unit's scan.
type scanScratch struct {
	numbers []float32 // as many as the shape says
	in      [scanTokens]tokenInput
	path    []int32 // of a tree
	delta   tensor.DeltaTokens
	mamba   tensor.Mamba2Tokens
}

// convolved is the scratch memory of convolve.
func convolved(channels, taps int) int { return (taps - 1 + 2*scanTokens) * channels }

// shift puts a unit's channels of the tokens in, which gather appends, behind those of the tokens before, which history holds, and moves
// history on. It returns the rows of both [taps-1+tokens][channels], at the beginning of numbers, and the rest of numbers.
func (s *scanScratch) shift(in []tokenInput, gather func(dst, all []float32) []float32, history []float32, channels int) (x, rest []float32) {
	x = append(s.numbers[:0], history...)
	for i := range in {
		x = gather(x, in[i][0])
	}
	copy(history, x[len(in)*channels:])
	return x, s.numbers[len(x):]
}

// convolve is silu(conv(x) + bias) [tokens][channels] of shift's x.
func (s *scanScratch) convolve(t *tensor.Runtime, in []tokenInput, gather func(dst, all []float32) []float32, history, filters, bias []float32, channels int) (y, rest []float32) {
	x, rest := s.shift(in, gather, history, channels)
	y, rest = rest[:len(in)*channels], rest[len(in)*channels:]
	t.Conv(y, x, filters, channels)
	for i := 0; i < len(y) && bias != nil; i += channels {
		t.AddRow(y[i:i+channels], bias)
	}
	t.SiLU(y)
	return y, rest
}

// recurrentLayer is a layer of a model with a recurrence.
type recurrentLayer struct {
	recurrence
	recurrentShape
	layer int
}

const (
	journalTokens = 128               // that a journal has room for at first; a longer draft makes it longer
	journalMost   = 256               // tokens of a longer one; the nodes of a tree come on top
	pointStep     = journalTokens / 2 // tokens between points; a session can always be cut back by about as many
	replayMost    = 8                 // tokens whose steps a pass takes again before it makes a point to save that the next time
	nearPoints    = 4                 // most points that the journal leads on from
	sparePoints   = 2                 // most points whose memory is kept for others

	// keptBytes is the memory for points further back, by which a session's beginning can be used again, unless
	// SessionOptions.StateBytes says otherwise. They lie 256 tokens apart, or twice as many as often as is needed to stay within it.
	keptBytes = 64 << 20
	keptMost  = 64
	keptStep  = 256
)

// point is the states of all recurrent layers after a number of tokens.
type point struct {
	at     int
	state  []float32
	shared bool // by a fork
}

// recurrent is the state of a session's recurrent layers.
type recurrent struct {
	layers []recurrentLayer // of the model, those that the session computes
	size   int              // numbers of all layers' states
	first  []int            // of a layer in them

	state []float32 // after at tokens
	at    int       // -1: not known

	points []point // ascending
	spare  []point // whose memory is free
	step   int     // tokens between points that the journal does not reach
	most   int     // of those points

	journal  [][]float32 // [layers][capacity][input]; token i is at i mod capacity
	capacity int
	from, n  int // the journal has the inputs of tokens from … from+n-1
}

// keptPoints is the most points further back than the journal, where states take size bytes and all copies may take budget; 0 is the
// default budget.
func keptPoints(budget, size int64) int64 {
	n := keptBytes / max(1, size)
	if budget != 0 {
		n = budget/max(1, size) - nearPoints - sparePoints
	}
	return min(keptMost, max(0, n))
}

// newRecurrent is the state of an empty session that computes the first layers of a model; nil if they have none.
func newRecurrent(all []recurrentLayer, layers int, budget int64) *recurrent {
	r := &recurrent{step: keptStep}
	for i, l := range all {
		if l.layer < layers {
			r.layers = all[:i+1]
			r.first = append(r.first, r.size)
			r.size += l.units * l.state
		}
	}
	if r.size == 0 {
		return nil
	}
	r.most = int(keptPoints(budget, 4*int64(r.size)))
	r.state = make([]float32, r.size)
	r.grow(journalTokens)
	return r
}

// grow makes room for so many tokens in the journal.
func (r *recurrent) grow(capacity int) {
	if capacity <= r.capacity {
		return
	}
	old, oldCapacity := r.journal, r.capacity
	r.journal, r.capacity = make([][]float32, len(r.layers)), capacity
	for l := range r.layers {
		n := r.layers[l].input()
		r.journal[l] = make([]float32, capacity*n)
		for i := r.from; i < r.from+r.n; i++ {
			copy(r.entry(l, i), old[l][i%oldCapacity*n:][:n])
		}
	}
}

// entry is the inputs of token i of layer l in the journal.
func (r *recurrent) entry(l, i int) []float32 {
	n := r.layers[l].input()
	at := i % r.capacity * n
	return r.journal[l][at : at+n : at+n]
}

// input is the parts of an entry.
func (r *recurrent) input(l, i int) (in tokenInput) {
	entry := r.entry(l, i)
	for part, n := range r.layers[l].inputs {
		in[part], entry = entry[:n], entry[n:]
	}
	return in
}

// unit is a unit's part of the states of all layers.
func (r *recurrent) unit(state []float32, l, u int) []float32 {
	n := r.layers[l].state
	at := r.first[l] + u*n
	return state[at : at+n : at+n]
}

// last is the index of the last point at or before n, -1 for the beginning of the text.
func (r *recurrent) last(n int) int {
	for i := len(r.points) - 1; i >= 0; i-- {
		if r.points[i].at <= n {
			return i
		}
	}
	return -1
}

// restorable is the greatest number of tokens, at most n, that the state is there for, or can be stepped to.
func (r *recurrent) restorable(n int) int {
	at := 0
	if i := r.last(n); i >= 0 {
		at = r.points[i].at
	}
	if r.at >= 0 && r.at <= n {
		at = max(at, r.at)
	}
	if end := r.from + r.n; at >= r.from && end > at {
		return min(n, end)
	}
	return at
}

// rewind forgets what comes after n tokens, which is restorable.
func (r *recurrent) rewind(n int) {
	if r.at > n {
		r.at = -1
	}
	for len(r.points) > 0 && r.points[len(r.points)-1].at > n {
		r.drop(len(r.points) - 1)
	}
	r.n = max(0, min(r.n, n-r.from))
}

// drop gives up a point.
func (r *recurrent) drop(i int) {
	if p := r.points[i]; !p.shared && len(r.spare) < sparePoints {
		r.spare = append(r.spare, p)
	}
	r.points = slices.Delete(r.points, i, i+1)
}

// room is memory for a point.
func (r *recurrent) room() []float32 {
	if n := len(r.spare); n > 0 {
		p := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return p.state
	}
	return make([]float32, r.size)
}

// reach makes from the first token of the journal, and decides what becomes of the points before it.
func (r *recurrent) reach(from int) {
	if from <= r.from {
		return
	}
	r.n = max(0, r.n-(from-r.from))
	r.from = from
	for far := r.thin(r.last(from-1) + 1); far > r.most; far = r.thin(far) {
		r.step *= 2
	}
}

// thin drops those of the first n points that are less than a step from the one before, and returns how many remain.
func (r *recurrent) thin(n int) int {
	kept, before := 0, 0
	for range n {
		if p := r.points[kept]; p.at-before >= r.step {
			kept, before = kept+1, p.at
		} else {
			r.drop(kept)
		}
	}
	return kept
}

// add adds a point, which is the last one, and drops the one among those near it that its neighbours make up for best.
func (r *recurrent) add(p point) {
	r.points = append(r.points, p)
	first := r.last(r.from-1) + 1
	if len(r.points)-first <= nearPoints {
		return
	}
	least := first + 1
	for i := least + 1; i < len(r.points)-1; i++ {
		if r.points[i+1].at-r.points[i-1].at < r.points[least+1].at-r.points[least-1].at {
			least = i
		}
	}
	r.drop(least)
}

// commit moves the journal's entries of a path of a tree, which follows the first start tokens, together.
func (r *recurrent) commit(start int, path []int32) {
	if r.from+r.n != start {
		return // nothing was computed
	}
	for i, j := range path {
		if int(j) != i {
			for l := range r.layers {
				copy(r.entry(l, start+i), r.entry(l, start+int(j)))
			}
		}
	}
	r.n += len(path)
}

// fork is a copy for a session of the first n tokens, which is restorable.
func (r *recurrent) fork(n int) *recurrent {
	f := &recurrent{layers: r.layers, size: r.size, first: r.first, at: r.at, step: r.step, most: r.most, capacity: r.capacity, from: r.from, n: r.n}
	f.state = slices.Clone(r.state)
	for i := range r.points {
		r.points[i].shared = true
	}
	f.points = slices.Clone(r.points)
	for _, j := range r.journal {
		f.journal = append(f.journal, slices.Clone(j))
	}
	f.rewind(n)
	return f
}

// bytes is the memory of states, points and journal.
func (r *recurrent) bytes() int64 {
	n := len(r.state)
	for _, p := range r.points {
		n += len(p.state)
	}
	for _, p := range r.spare {
		n += len(p.state)
	}
	for _, j := range r.journal {
		n += len(j)
	}
	return 4 * int64(n)
}
