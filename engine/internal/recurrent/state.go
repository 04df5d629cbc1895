package recurrent

import "slices"

const (
	journalTokens = 128               // that a journal has room for at first; a longer draft makes it longer
	journalMost   = 256               // tokens of a longer one; the nodes of a tree come on top
	pointStep     = journalTokens / 2 // tokens between points; a session can always be cut back by about as many
	// tokens whose steps a pass takes again before it makes a point to save that the next time
	replayMost  = 8
	nearPoints  = 4 // most points that the journal leads on from
	sparePoints = 2 // most points whose memory is kept for others

	// keptBytes is the memory for points further back, by which a session's beginning can be used again, unless
	// SessionOptions.StateBytes says otherwise. They lie 256 tokens apart, or twice as many as often as is needed to
	// stay within it.
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

// State is the state of a session's recurrent layers.
type State struct {
	layers []Layer // of the model, those that the session computes
	size   int     // numbers of all layers' states
	first  []int   // of a layer in them

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

// keptPoints is the most points further back than the journal, where states take size bytes and all copies may take
// budget; 0 is the default budget.
func keptPoints(budget, size int64) int64 {
	n := keptBytes / max(1, size)
	if budget != 0 {
		n = budget/max(1, size) - nearPoints - sparePoints
	}
	return min(keptMost, max(0, n))
}

// Most is the most memory of states of size bytes with a journal of so many bytes for a token, unless drafts are
// longer than 64 tokens.
func Most(size, token, budget int64) int64 {
	copies := 1 + nearPoints + sparePoints + keptPoints(budget, size)
	return copies*size + journalTokens*token
}

// MostBack is the most tokens at the end of a chain that a state can go back by at once.
const MostBack = journalMost - pointStep

// New is the state of an empty session that computes the first layers of a model; nil if they have none. budget is
// the most memory for copies by which the session goes back, in bytes; 0 is a default.
func New(all []Layer, layers int, budget int64) *State {
	r := &State{step: keptStep}
	for i, l := range all {
		if l.At < layers {
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
func (r *State) grow(capacity int) {
	if capacity > r.capacity {
		r.resize(capacity)
	}
}

// resize gives the journal room for so many tokens, at least those that it has.
func (r *State) resize(capacity int) {
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
func (r *State) entry(l, i int) []float32 {
	n := r.layers[l].input()
	at := i % r.capacity * n
	return r.journal[l][at : at+n : at+n]
}

// input is the parts of an entry.
func (r *State) input(l, i int) (in tokenInput) {
	entry := r.entry(l, i)
	for part, n := range r.layers[l].inputs {
		in[part], entry = entry[:n], entry[n:]
	}
	return in
}

// unit is a unit's part of the states of all layers.
func (r *State) unit(state []float32, l, u int) []float32 {
	n := r.layers[l].state
	at := r.first[l] + u*n
	return state[at : at+n : at+n]
}

// last is the index of the last point at or before n, -1 for the beginning of the text.
func (r *State) last(n int) int {
	for i := len(r.points) - 1; i >= 0; i-- {
		if r.points[i].at <= n {
			return i
		}
	}
	return -1
}

// Restorable is the greatest number of tokens, at most n, that the state is there for, or can be stepped to.
func (r *State) Restorable(n int) int {
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

// Rewind forgets what comes after n tokens, which is restorable.
func (r *State) Rewind(n int) {
	if r.at > n {
		r.at = -1
	}
	for len(r.points) > 0 && r.points[len(r.points)-1].at > n {
		r.drop(len(r.points) - 1)
	}
	r.n = max(0, min(r.n, n-r.from))
}

// drop gives up a point.
func (r *State) drop(i int) {
	if p := r.points[i]; !p.shared && len(r.spare) < sparePoints {
		r.spare = append(r.spare, p)
	}
	r.points = slices.Delete(r.points, i, i+1)
}

// room is memory for a point.
func (r *State) room() []float32 {
	if n := len(r.spare); n > 0 {
		p := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return p.state
	}
	return make([]float32, r.size)
}

// reach makes from the first token of the journal, and decides what becomes of the points before it.
func (r *State) reach(from int) {
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
func (r *State) thin(n int) int {
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
func (r *State) add(p point) {
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

// Commit moves the journal's entries of a path of a tree, which follows the first start tokens, together.
func (r *State) Commit(start int, path []int32) {
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

// Fork is a copy for a session of the first n tokens, which is restorable, with the first layers of the model, nil if
// none of them is recurrent. old is nil, or an earlier fork with as many layers, of which the first same tokens are r's
// still: the copy takes over its memory, and what is the same in it.
func (r *State) Fork(n, layers int, old *State, same int) *State {
	f := &State{at: r.at, step: r.step, most: r.most, capacity: r.capacity, from: r.from, n: r.n}
	if old == nil || old.capacity != r.capacity {
		old, same = &State{journal: make([][]float32, len(r.layers))}, 0
	}
	has := func(token int) bool { return token < min(same, old.from+old.n) && token >= old.from }
	for i, l := range r.layers {
		if l.At >= layers {
			continue
		}
		f.layers, f.first, f.size = r.layers[:i+1], r.first[:i+1], r.first[i]+l.units*l.state
		if old.journal[i] == nil {
			f.journal = append(f.journal, slices.Clone(r.journal[i]))
			continue
		}
		f.journal = append(f.journal, old.journal[i])
		for token := r.from; token < min(n, r.from+r.n); token++ {
			if !has(token) {
				copy(f.entry(i, token), r.entry(i, token))
			}
		}
	}
	if f.size == 0 {
		return nil
	}
	f.share(r, n, old.state)
	return f
}

// ForkSaved is Fork for a session that is saved: there is no journal, and the copy is known where Saved says so alone.
func (r *State) ForkSaved(n int) *State {
	f := &State{layers: r.layers, first: r.first, size: r.size, at: r.at, step: r.step, most: r.most}
	f.share(r, n, nil)
	return f
}

// share ends a fork: it has a copy of r's states, in the memory of state, and shares r's points, up to n tokens.
func (r *State) share(o *State, n int, state []float32) {
	r.state = append(state[:0], o.state[:r.size]...)
	for i := range o.points {
		o.points[i].shared = true
	}
	r.points = slices.Clone(o.points)
	for i := range r.points {
		r.points[i].state = r.points[i].state[:r.size]
	}
	r.Rewind(n)
}

// ForkBytes is the memory of a fork of the first n tokens with the first layers of the model.
func (r *State) ForkBytes(n, layers int) (bytes int64) {
	for i := range r.layers {
		if l := &r.layers[i]; l.At < layers {
			bytes += int64(r.last(n)+2)*l.StateBytes() + int64(r.capacity)*l.TokenBytes()
		}
	}
	return bytes
}

// ForkSavedBytes is the memory of ForkSaved.
func (r *State) ForkSavedBytes(n int) int64 { return 4 * int64(r.last(n)+2) * int64(r.size) }

// Shrink frees the memory that is kept for points to come, and that of a journal of which less than half leads on from
// anywhere: beyond that a copy saves too little.
func (r *State) Shrink() {
	r.spare = nil
	if from, end := r.leads(), r.from+r.n; 2*(end-from) <= r.capacity {
		r.from, r.n = from, end-from
		r.resize(r.n)
	}
}

// leads is the first token of the journal that can be stepped over: one after a known state.
func (r *State) leads() int {
	if r.from == 0 {
		return 0
	}
	from := r.from + r.n
	if i := r.last(r.from-1) + 1; i < len(r.points) {
		from = min(from, r.points[i].at)
	}
	if r.at >= r.from {
		from = min(from, r.at)
	}
	return from
}

// Thin frees the memory of all points but the last, and of those to come.
func (r *State) Thin() {
	if n := len(r.points); n > 1 {
		r.points = append(r.points[:0:0], r.points[n-1])
	}
	r.spare = nil
}

// Bytes is the memory of states, points and journal.
func (r *State) Bytes() int64 {
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

// Need is the number of bytes that a pass adds at most to the states' memory: it steps from known tokens to start,
// and over the tokens from there to end, in rounds of so many rows.
func (r *State) Need(known, start, end, back, rows int) int64 {
	numbers := 0
	if tokens := ceilPower(pointStep + max(pointStep, back)); tokens > r.capacity {
		for _, l := range r.layers {
			numbers += (tokens - r.capacity) * l.input()
		}
	}
	before, replay := 0, known
	if i := r.last(known); i >= 0 {
		before = r.points[i].at
	}
	if replay -= before; r.at >= before && r.at <= known {
		replay = known - r.at
	}
	if end-before > pointStep || replay > replayMost { // a point for each round of the pass
		parts := 1 + (end-start+rows-2)/rows
		if start > known {
			parts += 1 + (start-known+rows-2)/rows
		}
		numbers += max(0, parts-len(r.spare)) * r.size
	}
	return 4 * int64(numbers)
}
