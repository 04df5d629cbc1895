package bpe

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// specials finds the tokens that are cut out of a text before it is encoded:
// user-defined ones outside of plain parts, control and unknown ones where they are
// parsed. Where two overlap, the longer one is found; of two of the same length the
// one with the lower id; of the same token twice the left one.
type specials struct {
	list   []specialToken // by text
	first  [257]int32     // list[first[c]:first[c+1]] begin with the byte c
	byRank []int32        // indices into list
	barred map[int32]bool // user-defined tokens that plain text never becomes
}

type specialToken struct {
	text    string
	id      int32
	rank    uint32 // the order of precedence, the longest first
	control bool   // found only where special tokens are parsed
	marks   bool   // may mark structure: not found in plain parts
}

// mayMark says whether a user-defined token could mark structure. White space
// and single characters cannot; vocabularies have them for text.
func mayMark(text string) bool {
	return utf8.RuneCountInString(text) > 1 && strings.TrimSpace(strings.ReplaceAll(text, spaceMark, " ")) != ""
}

// fragment is text[start:end], or a special token when id is not negative.
type fragment struct {
	start, end int
	id         int32
}

func newSpecials(tokens []string, types []uint8) specials {
	var s specials
	for i, text := range tokens {
		switch types[i] {
		case TypeControl, TypeUnknown, TypeUserDefined:
			if text != "" {
				control := types[i] != TypeUserDefined
				tok := specialToken{text: text, id: int32(i), control: control, marks: control || mayMark(text)}
				s.list = append(s.list, tok)
				if tok.marks && !control {
					if s.barred == nil {
						s.barred = make(map[int32]bool)
					}
					s.barred[tok.id] = true
				}
			}
		}
	}
	// Stable: of the same length, the lower id goes first.
	slices.SortStableFunc(s.list, func(a, b specialToken) int { return cmp.Compare(len(b.text), len(a.text)) })
	for i := range s.list {
		s.list[i].rank = uint32(i)
	}
	slices.SortFunc(s.list, func(a, b specialToken) int { return cmp.Compare(a.text, b.text) })
	s.byRank = make([]int32, len(s.list))
	for i, tok := range s.list {
		s.byRank[tok.rank] = int32(i)
		s.first[int(tok.text[0])+1]++
	}
	for c := range 256 {
		s.first[c+1] += s.first[c]
	}
	return s
}

// cut divides text, the concatenation of parts, at its special tokens. The result
// is valid until the next cut with the same scratch.
//
// Tokens that overlap, directly or through others, form a cluster. In a cluster the
// candidates, at first the longest token at each position, are taken in the order of
// precedence: one that is free is cut out; one that overlaps what has been cut out
// is replaced by the next shorter token at its position. That takes O(n log n) time
// for n bytes, times the number of tokens that are prefixes of one another.
func (sp *specials) cut(s *scratch, text string, parts []Part) []fragment {
	s.fragments = s.fragments[:0]
	s.ends = s.ends[:0]
	end := 0
	for _, p := range parts {
		end += len(p.Text)
		s.ends = append(s.ends, end)
	}
	if text == "" {
		return nil
	}
	c := cluster{specials: sp, s: s, text: text, parts: parts}
	if len(sp.list) > 0 {
		for i := range len(text) {
			if lo, hi := sp.first[text[i]], sp.first[int(text[i])+1]; lo < hi {
				c.add(i, lo, hi)
			}
		}
		c.resolve()
	}
	if c.done < len(text) {
		s.fragments = append(s.fragments, fragment{c.done, len(text), -1})
	}
	return s.fragments
}

// A cluster is text[start:end] with the candidates in s.queue, a heap of
// rank<<32 | position from start.
type cluster struct {
	*specials
	s          *scratch
	text       string
	parts      []Part
	start, end int
	done       int // s.fragments cover the text up to here
}

// maxCluster bounds positions in a cluster, so that they fit 32 bits. A longer one
// is resolved in pieces of that many bytes.
const maxCluster = 1 << 31

// add adds the longest token at position i, which is one of list[lo:hi].
func (c *cluster) add(i int, lo, hi int32) {
	k := c.longest(i, lo, hi, len(c.text)-i)
	if k < 0 {
		return
	}
	if i >= c.end || int64(i-c.start) >= maxCluster {
		c.resolve()
		c.start = max(i, c.end)
		if i < c.start {
			return // it overlaps a cluster that was too long
		}
	}
	c.end = max(c.end, i+len(c.list[k].text))
	c.s.queue = push(c.s.queue, uint64(c.list[k].rank)<<32|uint64(i-c.start))
}

// longest returns the index of the longest token, of at most limit bytes, that
// stands at position i of the text and may be found there; -1 if there is none. It
// narrows list[lo:hi] to the tokens that begin as the text does, byte by byte.
func (c *cluster) longest(i int, lo, hi int32, limit int) int32 {
	text := c.text[i : i+limit]
	best := int32(-1)
	for depth := 1; depth <= len(text) && lo < hi; depth++ {
		if tok := &c.list[lo]; len(tok.text) == depth {
			if c.s.allowed(tok, c.parts, i, i+depth) {
				best = lo
			}
			lo++
		}
		if depth == len(text) {
			break
		}
		b := text[depth]
		at := func(tok specialToken, b int) int { return cmp.Compare(int(tok.text[depth]), b) }
		from, _ := slices.BinarySearchFunc(c.list[lo:hi], int(b), at)
		to, _ := slices.BinarySearchFunc(c.list[lo+int32(from):hi], int(b)+1, at)
		lo, hi = lo+int32(from), lo+int32(from)+int32(to)
	}
	return best
}

// resolve decides between the candidates and appends what it has decided to
// s.fragments.
func (c *cluster) resolve() {
	s := c.s
	if len(s.queue) == 0 {
		return
	}
	s.taken = slices.Grow(s.taken[:0], (c.end-c.start)/64+1)[:(c.end-c.start)/64+1]
	clear(s.taken)
	taken := func(at int) bool { return s.taken[at/64]>>(at%64)&1 != 0 }
	s.found = s.found[:0]
	for len(s.queue) > 0 {
		top := s.queue[0]
		at := int(uint32(top))
		tok := &c.list[c.byRank[top>>32]]
		n := len(tok.text)
		next := int32(-1)
		// What is taken is no shorter, so it covers an end of what it overlaps.
		if !taken(at) && !taken(at+n-1) {
			for k := at; k < at+n; k++ {
				s.taken[k/64] |= 1 << (k % 64)
			}
			s.found = append(s.found, fragment{c.start + at, c.start + at + n, tok.id})
		} else if i := c.start + at; !taken(at) {
			b := c.text[i]
			next = c.longest(i, c.first[b], c.first[int(b)+1], n-1)
		}
		if next >= 0 {
			s.queue[0] = uint64(c.list[next].rank)<<32 | uint64(at)
		} else {
			last := len(s.queue) - 1
			s.queue[0] = s.queue[last]
			s.queue = s.queue[:last]
		}
		sift(s.queue, 0)
	}
	slices.SortFunc(s.found, func(a, b fragment) int { return cmp.Compare(a.start, b.start) })
	for _, f := range s.found {
		if f.start > c.done {
			s.fragments = append(s.fragments, fragment{c.done, f.start, -1})
		}
		s.fragments = append(s.fragments, f)
		c.done = f.end
	}
}

// allowed says whether a token that stands at [start, end) may be found there:
// a control token inside one part that parses special tokens, a user-defined
// one that could mark structure where no part is plain.
func (s *scratch) allowed(tok *specialToken, parts []Part, start, end int) bool {
	if !tok.marks {
		return true
	}
	i, _ := slices.BinarySearch(s.ends, start+1)
	if tok.control {
		return parts[i].ParseSpecial && end <= s.ends[i]
	}
	return !s.plain(parts, i, end)
}

// plain says whether a plain part has bytes between part i and end.
func (s *scratch) plain(parts []Part, i, end int) bool {
	for ; i < len(parts); i++ {
		if parts[i].Plain && parts[i].Text != "" {
			return true
		}
		if s.ends[i] >= end {
			break
		}
	}
	return false
}
