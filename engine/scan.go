package engine

// scan is what a round does to the recurrent layers of one session: it brings their states to the tokens' beginning, and steps through
// the tokens.
type scan struct {
	r       *recurrent
	segment int // of the batch
	row     int // of the first token
	start   int // tokens of the sequence before it
	tokens  int
	parents []int32 // nil: a chain

	base   []float32 // the states to begin with; nil: zeros
	stay   bool      // the session's own states are to begin with
	replay int       // the journal's tokens from replay to start-1 come first
	saveAt int       // tokens of the scan after which the states are saved; -1: they are not
	save   []float32
}

// scanWork does a round's scans of one layer, on all threads.
type scanWork struct {
	p       *pass
	layer   int // of the recurrent ones
	in, out []float32
	groups  []int // the first scan of each session, and the end
	scratch []float32
	size    int           // of a unit's scratch
	each    []stepScratch // of units
	one     func(i int)
}

func (w *scanWork) init(p *pass) {
	w.p = p
	w.one = w.unit
}

// plan says how the tokens of a scan get their states, and makes room in the journal. The logits of the last wanted tokens of the
// segment, up to the scan's last, are asked for: that many may be cut back.
func (r *recurrent) plan(s *scan, wanted int) {
	end := s.start + s.tokens
	if s.parents != nil {
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
	r.n = end - r.from
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

// recur takes the round's rows through recurrent layer l: out [rows][output] of in [rows][input].
func (p *pass) recur(l int, out, in []float32) {
	if p.err != nil {
		return
	}
	w := &p.scanning
	w.layer, w.in, w.out = l, in, out
	w.groups = w.groups[:0]
	for i := range p.scans {
		if i == 0 || p.scans[i].r != p.scans[i-1].r {
			w.groups = append(w.groups, i)
		}
	}
	w.groups = append(w.groups, len(p.scans))
	if len(p.scans) == 0 {
		return
	}
	layer := &p.scans[0].r.layers[l]
	w.size = layer.scratch + layer.state
	n := (len(w.groups) - 1) * layer.units
	sized(&w.scratch, n*w.size)
	for len(w.each) < n {
		w.each = append(w.each, stepScratch{})
	}
	p.t.Parallel(n, w.one)
	for i := range p.scans {
		w.write(&p.scans[i])
	}
	w.in, w.out = nil, nil
}

// unit does one unit of one session's scans.
func (w *scanWork) unit(i int) {
	layer := &w.p.scans[0].r.layers[w.layer]
	group, u := i/layer.units, i%layer.units
	numbers, scratch := w.scratch[i*w.size:(i+1)*w.size], &w.each[i]
	scratch.numbers = numbers[:layer.scratch]
	for j := w.groups[group]; j < w.groups[group+1]; j++ {
		w.scan(&w.p.scans[j], layer, u, scratch, numbers[layer.scratch:])
	}
}

// scan takes unit u through a scan. branch is room for a state.
func (w *scanWork) scan(s *scan, layer *recurrentLayer, u int, scratch *stepScratch, branch []float32) {
	t, r := w.p.t, s.r
	state := r.unit(r.state, w.layer, u)
	if !s.stay {
		if s.base == nil {
			clear(state)
		} else {
			copy(state, r.unit(s.base, w.layer, u))
		}
	}
	for i := s.replay; i < s.start; i++ {
		layer.step(t, u, state, r.entry(w.layer, i), nil, scratch)
	}
	if s.saveAt == 0 {
		copy(r.unit(s.save, w.layer, u), state)
	}
	in := func(i int) []float32 { return w.in[(s.row+i)*layer.input:][:layer.input] }
	out := func(i int) []float32 { return w.out[(s.row+i)*layer.output:][:layer.output] }
	if s.parents == nil {
		for i := range s.tokens {
			layer.step(t, u, state, in(i), out(i), scratch)
			if s.saveAt == i+1 {
				copy(r.unit(s.save, w.layer, u), state)
			}
		}
		return
	}
	at := int32(-1) // the node that branch is the state after
	copy(branch, state)
	for i := range s.tokens {
		if parent := s.parents[i]; parent != at {
			copy(branch, state)
			w.walk(s, layer, u, parent, branch, scratch)
		}
		layer.step(t, u, branch, in(i), out(i), scratch)
		at = int32(i)
	}
}

// walk steps branch, a unit's state before a tree, to a node.
func (w *scanWork) walk(s *scan, layer *recurrentLayer, u int, node int32, branch []float32, scratch *stepScratch) {
	if node < 0 {
		return
	}
	w.walk(s, layer, u, s.parents[node], branch, scratch)
	layer.step(w.p.t, u, branch, w.in[(s.row+int(node))*layer.input:][:layer.input], nil, scratch)
}

// write writes a scan's inputs to the journal: those of a tree's nodes after the sequence's, for Commit.
func (w *scanWork) write(s *scan) {
	n := s.r.layers[w.layer].input
	for i := max(0, s.tokens-s.r.capacity); i < s.tokens; i++ {
		copy(s.r.entry(w.layer, s.start+i), w.in[(s.row+i)*n:][:n])
	}
}

// settle ends a round: the points that it made are kept, or the states of sessions that failed are not known any more.
func (p *pass) settle() {
	for i := range p.scans {
		s := &p.scans[i]
		if p.err != nil || p.results[s.segment].Err != nil {
			s.r.at = -1
			if s.save != nil {
				s.r.spare = append(s.r.spare, point{state: s.save})
			}
		} else if s.save != nil {
			s.r.add(point{at: s.start + s.saveAt, state: s.save})
		}
	}
	clear(p.scans)
	p.scans = p.scans[:0]
}
