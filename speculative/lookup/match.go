package lookup

import (
	"math/bits"
	"slices"
)

const (
	leastMatch = 3   // tokens; a shorter match says little, and of longer ones than depth the places are not in order
	fewPlaces  = 32  // places that are looked at
	mostSpread = 512 // places to either side among which those are chosen where a match has more
)

// Match is where the end of a text occurs in an index: the places behind it. [Index.Match] finds one, [Index.Next] says
// what follows there, [Index.Step] goes on by a token. The zero value occurs nowhere.
type Match struct {
	length int
	some   bool     // there are more places than these
	places []uint64 // positions behind it
}

// Length is the number of tokens that match.
func (m *Match) Length() int { return m.length }

// Sparse reports whether few are left of the examples that stand for more places: a search finds more of them.
func (m *Match) Sparse() bool { return m.some && len(m.places) < fewPlaces/2 }

// Copy makes m the same as another match.
func (m *Match) Copy(from *Match) {
	places := append(m.places[:0], from.places...)
	*m = *from
	m.places = places
}

// pattern is the end of a text, backwards.
type pattern struct {
	n      int
	keys   [mostDepth]uint64 // as packed has them, with zeros behind the last token
	second uint64            // key of what is before the last token
}

// pattern is that of the last tokens of text, as many as there are in the vocabulary, of at most most.
func (x *Index) pattern(text []int32, most int) (p pattern) {
	each := x.tokens.each
	for p.n < min(len(text), most) {
		id := text[len(text)-1-p.n]
		if id < 0 || uint32(id) >= x.h.Vocab {
			break
		}
		p.keys[p.n/each] |= uint64(id) << (x.tokens.bits * uint64(each-1-p.n%each))
		if p.n > 0 && p.n <= each {
			p.second |= uint64(id) << (x.tokens.bits * uint64(each-p.n))
		}
		p.n++
	}
	return p
}

// compare says how many of the pattern's tokens are those up to a position, and whether these come before it.
func (r *reader) compare(at uint64, p *pattern) (same int, before bool) {
	t := &r.x.tokens
	free := 64 - t.bits*uint64(t.each)
	for i := 0; i*t.each < p.n; i++ {
		key := r.before(at-uint64(i*t.each)) >> free
		if d := key ^ p.keys[i]; d != 0 {
			same = i*t.each + (bits.LeadingZeros64(d)-int(free))/int(t.bits)
			return min(same, p.n), key < p.keys[i]
		}
	}
	return p.n, false
}

// first is the first number from lo on, but below hi, of which holds is true, where it is true of all behind; else hi.
func first(lo, hi int64, holds func(int64) bool) int64 {
	for lo < hi {
		if mid := lo + (hi-lo)/2; holds(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// search is the first place from lo on, but below hi, which are those of the pattern's last token, that does not come
// before the pattern. Fences lead to it within fenceEvery places, unless they are the same as the pattern.
func (r *reader) search(lo, hi int64, p *pattern) int64 {
	begin, end := (lo+fenceEvery-1)/fenceEvery, (hi+fenceEvery-1)/fenceEvery
	least := first(begin, end, func(i int64) bool { return r.fence(i) >= p.second })
	most := least
	if least < end && r.fence(least) == p.second {
		most = first(least, end, func(i int64) bool { return r.fence(i) > p.second })
	}
	if least > begin {
		lo = (least-1)*fenceEvery + 1
	}
	if most < end {
		hi = most * fenceEvery
	}
	return first(lo, hi, func(i int64) bool {
		_, before := r.compare(r.place(i), p)
		return !before
	})
}

// reach is of how many of the first most numbers holds is true, where it is true of none behind one of which it is not:
// exactly, if they are no more than fewPlaces; else at least half of them.
func reach(most int64, holds func(int64) bool) int64 {
	yes, no := int64(0), most+1
	for next := int64(1); next < no; next = 2 * yes {
		if !holds(next) {
			no = next
			break
		}
		yes = next
	}
	if yes > fewPlaces {
		return yes
	}
	return first(yes+1, no, func(n int64) bool { return !holds(n) }) - 1
}

// Match finds the longest end of text, of at most most tokens (0: any number), that occurs in the index, into m. An
// index that is damaged is an error.
func (x *Index) Match(m *Match, text []int32, most int) error {
	_, err := x.match(m, text, most)
	return err
}

// match is Match, and says how often it has read from the index.
func (x *Index) match(m *Match, text []int32, most int) (reads int, err error) {
	m.length, m.some, m.places = 0, false, m.places[:0]
	if most <= 0 {
		most = int(x.h.Depth)
	}
	p := x.pattern(text, min(most, int(x.h.Depth)))
	if p.n < leastMatch {
		return 0, nil
	}
	r := reader{x: x}
	err = x.guarded(func() error {
		lo, hi := r.bucket(text[len(text)-1])
		at := r.search(lo, hi, &p)
		// The longest match is beside where the pattern would be.
		for i := max(at-1, lo); i < min(at+1, hi); i++ {
			same, _ := r.compare(r.place(i), &p)
			m.length = max(m.length, same)
		}
		if m.length < leastMatch {
			m.length = 0
			return r.err
		}
		p.n = m.length
		matches := func(i int64) bool {
			same, _ := r.compare(r.place(i), &p)
			return same == p.n
		}
		left := reach(min(at-lo, mostSpread), func(n int64) bool { return matches(at - n) })
		right := reach(min(hi-at, mostSpread), func(n int64) bool { return matches(at + n - 1) })
		all := left + right
		m.some = all > fewPlaces
		for i := range min(all, fewPlaces) {
			m.places = append(m.places, r.place(at-left+all*i/min(all, fewPlaces))+1)
		}
		return r.err
	})
	if err != nil {
		m.length, m.places = 0, m.places[:0]
	}
	return r.reads, err
}

// Next is the token that followed the match most often, the lower id of equals, how often, and in how many places: all
// places where they are few, else as many examples. count is 0 where no token followed it.
func (x *Index) Next(m *Match) (id int32, count, places int, err error) {
	err = x.guarded(func() error {
		r := reader{x: x}
		var ids [fewPlaces]int32
		for i, p := range m.places {
			ids[i] = r.token(p)
		}
		places = len(m.places)
		for i, candidate := range ids[:places] {
			if uint32(candidate) >= x.h.Vocab { // the end of a text
				continue
			}
			c := 0
			for _, other := range ids[i:places] {
				if other == candidate {
					c++
				}
			}
			if c > count || c == count && candidate < id {
				id, count = candidate, c
			}
		}
		return r.err
	})
	return id, count, places, err
}

// Step goes on by a token: the places where it does not follow are left out.
func (x *Index) Step(m *Match, id int32) error {
	return x.guarded(func() error {
		r := reader{x: x}
		m.places = slices.DeleteFunc(m.places, func(p uint64) bool { return r.token(p) != id })
		for i := range m.places {
			m.places[i]++
		}
		if m.length++; len(m.places) == 0 {
			m.length = 0
		}
		return r.err
	})
}
