package recurrent

import "github.com/specgo/spec/tensor"

// scan is what a round does to the recurrent layers of one session: it brings their states to the tokens' beginning,
// and steps through the tokens.
type scan struct {
	r       *State
	segment int // of the batch
	row     int // of the first token
	start   int // tokens of the sequence before it
	tokens  int
	parents []int32 // nil: a chain

	base   []float32 // the states to begin with; nil: zeros
	stay   bool      // the session's own states are to begin with
	hold   bool      // the session's own states do not move beyond start
	replay int       // the journal's tokens from replay to start-1 come first
	saveAt int       // tokens of the scan after which the states are saved; -1: they are not
	save   []float32
}

// Round is what a round of a pass does to the recurrent layers of its sessions: the scans of one layer at a time, on
// all threads.
type Round struct {
	t       *tensor.Runtime
	scans   []scan
	layer   int // of the recurrent ones
	in      [inputParts][]float32
	out     []float32
	groups  []int // the first scan of each session, and the end
	scratch []float32
	size    int           // of a thread's scratch
	each    []scanScratch // of threads
	one     func(thread, i int)
}

// Init makes an empty round, which lasts for many passes.
func (w *Round) Init(t *tensor.Runtime) {
	w.t = t
	w.one = w.unit
}

// Add adds tokens of a session to the round: rows from row on, after start tokens of the sequence, a chain or a tree.
// The logits of the last wanted tokens of the segment, up to these rows' last, are asked for: that many may be cut
// back.
func (w *Round) Add(r *State, segment, row, start, tokens int, parents []int32, wanted int) {
	w.scans = append(w.scans, scan{r: r, segment: segment, row: row, start: start, tokens: tokens, parents: parents})
	r.plan(&w.scans[len(w.scans)-1], wanted)
}

// plan says how the tokens of a scan get their states, and makes room in the journal. The logits of the last wanted
// tokens of the segment, up to the scan's last, are asked for: that many may be cut back.
func (r *State) plan(s *scan, wanted int) {
	end := s.start + s.tokens
	if s.hold = s.parents != nil || wanted > 1 && s.tokens <= scanTokens; s.hold {
		end = s.start
	}
	// Where to begin: at the state if it is not beyond, or at the nearest point.
	i, at := r.last(s.start), 0
	if i >= 0 {
		at = r.points[i].at
		s.base = r.points[i].state
	}
	if s.stay = r.at >= at && r.at <= s.start && r.at >= 0; s.stay {
		at = r.at
	}
	s.replay = at
	if r.from+r.n != s.start || at < s.start && at < r.from {
		r.from, r.n = s.start, 0
		s.replay = s.start
	}

	// Enough of the journal to cut back what is verified.
	back := pointStep
	if s.parents == nil {
		back = max(back, min(wanted, journalMost-pointStep))
		r.grow(ceilPower(back + pointStep))
	} else {
		r.grow(ceilPower(back + s.tokens))
	}
	last := 0
	if i >= 0 {
		last = r.points[i].at
	}
	s.saveAt = -1
	if end-last > pointStep || s.start-s.replay > replayMost {
		if c := max(s.start, end-back); c > last {
			s.saveAt, s.save = c-s.start, r.room()
		}
	}
	r.at = end
	r.n = s.start - r.from
	if s.parents == nil {
		r.n += s.tokens
	}
	r.reach(s.start + s.tokens - r.capacity) // the scan writes to the journal when it has read what it replays
}

// ceilPower is the least power of two that is at least n and journalTokens.
func ceilPower(n int) int {
	p := journalTokens
	for p < n {
		p *= 2
	}
	return p
}

// Recur takes the round's rows through recurrent layer l: out [rows][output] of the parts of the inputs, each
// [rows][…].
func (w *Round) Recur(l int, out []float32, in ...[]float32) {
	w.layer, w.out = l, out
	copy(w.in[:], in)
	w.groups = w.groups[:0]
	for i := range w.scans {
		if i == 0 || w.scans[i].r != w.scans[i-1].r {
			w.groups = append(w.groups, i)
		}
	}
	w.groups = append(w.groups, len(w.scans))
	if len(w.scans) == 0 {
		return
	}
	layer := &w.scans[0].r.layers[l]
	w.size = layer.scratch + layer.state
	n := (len(w.groups) - 1) * layer.units
	threads := w.t.Threads()
	if n := threads * w.size; cap(w.scratch) < n {
		w.scratch = make([]float32, n)
	}
	w.scratch = w.scratch[:threads*w.size]
	for len(w.each) < threads {
		w.each = append(w.each, scanScratch{})
	}
	w.t.ParallelThreads(n, w.one)
	for i := range w.scans {
		if s := &w.scans[i]; !w.journaled(i) {
			w.write(s, 0, 1)
		}
	}
	clear(w.in[:])
	w.out = nil
}

// journaled reports whether the units write scan i's inputs to the journal, each a share: if nothing that a unit may
// still read is overwritten.
func (w *Round) journaled(i int) bool {
	s, scans := &w.scans[i], w.scans
	alone := (i == 0 || scans[i-1].r != s.r) && (i+1 == len(scans) || scans[i+1].r != s.r)
	return alone && s.start+s.tokens-s.replay <= s.r.capacity
}

// unit does one unit of one session's scans.
func (w *Round) unit(thread, i int) {
	layer := &w.scans[0].r.layers[w.layer]
	group, u := i/layer.units, i%layer.units
	numbers, scratch := w.scratch[thread*w.size:(thread+1)*w.size], &w.each[thread]
	scratch.numbers = numbers[:layer.scratch:layer.scratch]
	for j := w.groups[group]; j < w.groups[group+1]; j++ {
		w.scan(&w.scans[j], layer, u, scratch, numbers[layer.scratch:])
		if w.journaled(j) {
			w.write(&w.scans[j], u, layer.units)
		}
	}
}

// scan takes unit u through a scan. branch is room for a state.
func (w *Round) scan(s *scan, layer *Layer, u int, scratch *scanScratch, branch []float32) {
	r := s.r
	state := r.unit(r.state, w.layer, u)
	if !s.stay {
		if s.base == nil {
			clear(state)
		} else {
			copy(state, r.unit(s.base, w.layer, u))
		}
	}
	for i := s.replay; i < s.start; i += scanTokens {
		n := min(scanTokens, s.start-i)
		for j := range n {
			scratch.in[j] = r.input(w.layer, i+j)
		}
		layer.scan(w.t, u, state, scratch.in[:n], nil, scratch)
	}
	if s.saveAt == 0 {
		copy(r.unit(s.save, w.layer, u), state)
	}
	if !s.hold {
		if s.saveAt > 0 {
			w.chain(s, layer, u, state, 0, s.saveAt, scratch)
			copy(r.unit(s.save, w.layer, u), state)
		}
		w.chain(s, layer, u, state, max(0, s.saveAt), s.tokens, scratch)
		return
	}
	copy(branch, state)
	if s.parents == nil {
		w.chain(s, layer, u, branch, 0, s.tokens, scratch)
		return
	}
	at := int32(-1) // the node that branch is the state after
	for i := 0; i < s.tokens; {
		if parent := s.parents[i]; parent != at {
			copy(branch, state)
			w.walk(s, layer, u, parent, branch, scratch)
		}
		end := i + 1
		for end < s.tokens && int(s.parents[end]) == end-1 {
			end++
		}
		w.chain(s, layer, u, branch, i, end, scratch)
		at, i = int32(end-1), end
	}
}

// input is the input of token i of a scan.
func (w *Round) input(s *scan, layer *Layer, i int) (in tokenInput) {
	for part, n := range layer.inputs {
		if n > 0 {
			in[part] = w.in[part][(s.row+i)*n:][:n]
		}
	}
	return in
}

// chain takes a unit through tokens from, …, to-1 of a scan, each of which follows the one before.
func (w *Round) chain(s *scan, layer *Layer, u int, state []float32, from, to int, scratch *scanScratch) {
	for ; from < to; from += scanTokens {
		n := min(scanTokens, to-from)
		for i := range n {
			scratch.in[i] = w.input(s, layer, from+i)
		}
		layer.scan(w.t, u, state, scratch.in[:n], w.out[(s.row+from)*layer.output:][:n*layer.output], scratch)
	}
}

// walk takes branch, a unit's state before a tree, to a node.
func (w *Round) walk(s *scan, layer *Layer, u int, node int32, branch []float32, scratch *scanScratch) {
	path := scratch.path[:0]
	for ; node >= 0; node = s.parents[node] {
		path = append(path, node)
	}
	scratch.path = path
	for len(path) > 0 { // its end is the root
		n := min(scanTokens, len(path))
		for i := range n {
			scratch.in[i] = w.input(s, layer, int(path[len(path)-1-i]))
		}
		layer.scan(w.t, u, branch, scratch.in[:n], nil, scratch)
		path = path[:len(path)-n]
	}
}

// write writes a share, one of several, of a scan's inputs to the journal: those of a tree's nodes after the
// sequence's, for Commit.
func (w *Round) write(s *scan, share, shares int) {
	layer := &s.r.layers[w.layer]
	n := layer.input()
	from, to := share*n/shares, (share+1)*n/shares
	for i := max(0, s.tokens-s.r.capacity); i < s.tokens; i++ {
		entry, at := s.r.entry(w.layer, s.start+i), 0
		for _, part := range w.input(s, layer, i) {
			if lo, hi := max(from-at, 0), min(to-at, len(part)); lo < hi {
				copy(entry[at+lo:], part[lo:hi])
			}
			at += len(part)
		}
	}
}

// Settle ends a round: the points that it made are kept, or the states of sessions whose segments failed are not
// known any more.
func (w *Round) Settle(failed func(segment int) bool) {
	for i := range w.scans {
		s := &w.scans[i]
		if failed(s.segment) {
			s.r.at = -1
			if s.save != nil {
				s.r.spare = append(s.r.spare, point{state: s.save})
			}
		} else if s.save != nil {
			s.r.add(point{at: s.start + s.saveAt, state: s.save})
		}
	}
	w.drop()
}

// Abandon ends a round that a panic has ended.
func (w *Round) Abandon() {
	for i := range w.scans {
		w.scans[i].r.at = -1
	}
	w.drop()
}

func (w *Round) drop() {
	clear(w.scans)
	w.scans = w.scans[:0]
}
