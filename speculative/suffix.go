package speculative

import "context"

// Suffix drafts like [NGram], with the longest match of any length: it keeps a suffix automaton (Blumer et al. 1985) of
// the sequence, in which each new or drafted token is one step. The confidence is that of NGram. What an encoder has
// read stands in front of the sequence.
func Suffix(o SuffixOptions) Drafter { return newSuffix(o) }

// SuffixOptions configure [Suffix] and [SuffixSource].
type SuffixOptions struct {
	MinMatch int // tokens of the shortest match that counts; 0: 2
}

func newSuffix(o SuffixOptions) *suffix {
	if o.MinMatch <= 0 {
		o.MinMatch = 2
	}
	return &suffix{least: o.MinMatch}
}

type suffix struct {
	least int
	matches

	input    []int32 // of the encoder, which it reads first
	sequence []int32 // what the automaton has read
	states   []suffixState
	edges    []suffixEdge
	table    []int32 // edges by state and token: a hash table with open addressing, 0 where it is free
	last     int32   // the state of the whole sequence

	at, length int32 // cursor: the longest suffix of sequence and draft that occurred before, and its length
}

// A state stands for the strings that end at the same places of the sequence.
type suffixState struct {
	length int32 // of the longest string
	link   int32 // state of the longest suffix that ends at other places too
	end    int32 // the latest place where they end, before the end of the sequence
	edges  int32 // first in a list
}

// An edge leads from a state over a token to a state; next is the state's next edge, 0 after the last.
type suffixEdge struct{ state, token, to, next int32 }

func (s *suffix) Start(_ context.Context, u Setup) error {
	s.input = append(s.input[:0], u.Input...)
	s.reset()
	return nil
}

func (s *suffix) reset() {
	s.sequence, s.edges, s.last = s.sequence[:0], append(s.edges[:0], suffixEdge{to: -1}), 0 // edge 0 is none
	s.states = append(s.states[:0], suffixState{link: -1})
	if s.table == nil {
		s.table = make([]int32, 1024)
	}
	clear(s.table)
	for _, id := range s.input {
		s.read(id)
	}
}

// edge is the edge from state over token, 0 if there is none, and its place in the table.
func (s *suffix) edge(state, token int32) (e int32, slot uint64) {
	mask := uint64(len(s.table) - 1)
	slot = (uint64(state)<<32 | uint64(token)) * 0x9E3779B97F4A7C15 >> 32 & mask // Fibonacci hashing
	for {
		e = s.table[slot]
		if e == 0 || s.edges[e].state == state && s.edges[e].token == token {
			return e, slot
		}
		slot = (slot + 1) & mask
	}
}

// connect adds an edge that was not there.
func (s *suffix) connect(from, token, to int32) {
	if 2*len(s.edges) >= len(s.table) {
		s.table = make([]int32, 2*len(s.table))
		for e := 1; e < len(s.edges); e++ {
			_, slot := s.edge(s.edges[e].state, s.edges[e].token)
			s.table[slot] = int32(e)
		}
	}
	_, slot := s.edge(from, token)
	s.table[slot] = int32(len(s.edges))
	s.edges = append(s.edges, suffixEdge{from, token, to, s.states[from].edges})
	s.states[from].edges = s.table[slot]
}

// mostLinks bounds the walk that notes where strings ended last: in a sequence like aaaa... there are as many as
// tokens.
const mostLinks = 64

// read extends the automaton by the next token of the sequence.
func (s *suffix) read(token int32) {
	n := int32(len(s.sequence))
	for p, i := s.last, 0; p > 0 && i < mostLinks; p, i = s.states[p].link, i+1 {
		s.states[p].end = n // what was the end is now a place before it
	}
	s.sequence = append(s.sequence, token)
	cur := int32(len(s.states))
	s.states = append(s.states, suffixState{length: n + 1, end: n + 1})
	p := s.last
	s.last = cur
	var e int32
	for ; p >= 0; p = s.states[p].link {
		if e, _ = s.edge(p, token); e > 0 {
			break
		}
		s.connect(p, token, cur)
	}
	if p < 0 {
		return // a token that is new: linked to the root
	}
	q := s.edges[e].to
	if s.states[p].length+1 == s.states[q].length {
		s.states[cur].link = q
		return
	}
	clone := int32(len(s.states))
	s.states = append(s.states, suffixState{length: s.states[p].length + 1, link: s.states[q].link, end: s.states[q].end})
	for e := s.states[q].edges; e > 0; e = s.edges[e].next {
		s.connect(clone, s.edges[e].token, s.edges[e].to)
	}
	for ; p >= 0; p = s.states[p].link {
		if e, _ = s.edge(p, token); s.edges[e].to != q { // an edge: p's ancestors have those of p
			break
		}
		s.edges[e].to = clone
	}
	s.states[q].link, s.states[cur].link = clone, clone
}

// begin reads what is new in sequence and moves the cursor to its end.
func (s *suffix) begin(sequence []int32) {
	if len(sequence) < len(s.sequence)-len(s.input) {
		s.reset()
	}
	for _, id := range sequence[len(s.sequence)-len(s.input):] {
		s.read(id)
	}
	s.at = max(0, s.states[s.last].link)
	s.length = s.states[s.at].length
}

// predict is the token that followed the longest match, with its confidence.
func (s *suffix) predict(d *Draft) (id int32, confidence float32, ok bool) {
	if int(s.length) < s.least {
		return 0, 0, false
	}
	i := int(s.states[s.at].end)
	confidence = s.confidence(int(s.length))
	if i < len(s.sequence) {
		return s.sequence[i], confidence, true
	}
	if i -= len(s.sequence); i < d.Len() {
		return d.Tokens[i], confidence, true // a repetition continues in the draft
	}
	return 0, 0, false
}

// ahead is what followed the longest match of the end of path, which is the sequence and a branch of drafted tokens,
// and the length of the match: 0 if there is none. The cursor stays.
func (s *suffix) ahead(path []int32, branch int) (id int32, length int) {
	at, n := s.at, s.length
	defer func() { s.at, s.length = at, n }()
	for _, id := range path[len(path)-branch:] {
		s.advance(id)
	}
	i := int(s.states[s.at].end)
	switch {
	case int(s.length) < s.least || i >= len(s.input)+len(path):
		return 0, 0
	case i < len(s.input):
		return s.input[i], int(s.length)
	}
	return path[i-len(s.input)], int(s.length)
}

// advance moves the cursor over a drafted token.
func (s *suffix) advance(id int32) {
	for {
		if e, _ := s.edge(s.at, id); e > 0 {
			s.at = s.edges[e].to
			s.length++
			return
		}
		if s.at == 0 {
			s.length = 0
			return
		}
		s.at = s.states[s.at].link
		s.length = s.states[s.at].length
	}
}

func (s *suffix) Draft(_ context.Context, sequence []int32, d *Draft) error {
	s.begin(sequence)
	s.matches.begin()
	for _, id := range d.Tokens { // what a constraint forces
		s.advance(id)
	}
	d.Source = SourceLookup
	for d.More() {
		n := d.Len()
		id, confidence, ok := s.predict(d)
		if !ok || !d.Add(id, confidence, nil) {
			break
		}
		s.drafted(id, int(s.length), n)
		d.Extend(n)
		for _, id := range d.Tokens[n:] {
			s.advance(id)
		}
	}
	return nil
}

// Continues says that the lookup continues forced tokens.
func (s *suffix) Continues() bool { return true }

func (s *suffix) Observe(r *Round) { s.observe(r) }
