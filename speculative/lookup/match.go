package lookup

// least and most tokens of a match. A shorter one says little; of longer ones the suffixes are not in order.
const (
	leastMatch = 3
	fewPlaces  = 64 // places that are looked at one by one
)

// Match is where the end of a text occurs in an index: the places behind it. [Index.Match] finds one, [Match.Next] says
// what follows there, [Match.Step] goes on by a token. The zero value occurs nowhere.
type Match struct {
	length int
	lo, hi int64    // suffixes that begin with it, while they are many
	behind uint64   // tokens of the match behind the beginning of these suffixes
	places []uint32 // positions behind it, when they are few; or examples, where nothing is in order any more
}

// Length is the number of tokens that match.
func (m *Match) Length() int { return m.length }

// Match finds the longest end of text, of at most most tokens (0: any number), that occurs in the index, into m. An
// index that is damaged is an error.
func (x *Index) Match(m *Match, text []int32, most int) error {
	m.length, m.lo, m.hi, m.places = 0, 0, 0, m.places[:0]
	longest := min(len(text), int(x.h.Depth))
	if most > 0 {
		longest = min(longest, most)
	}
	if longest < leastMatch {
		return nil
	}
	return x.guarded(func() error {
		found, none, try := leastMatch-1, longest+1, longest // the longest known to occur; the shortest known not to
		for found+1 < none {
			lo, ok, err := x.first(text[len(text)-try:])
			if err != nil {
				return err
			}
			if ok {
				found, m.lo = try, lo
			} else {
				none = try
			}
			if try = (found + none) / 2; none == longest && found < leastMatch {
				try = leastMatch
			}
		}
		if found < leastMatch {
			return nil
		}
		pattern := text[len(text)-found:]
		m.length, m.behind = found, uint64(found)
		hi, err := x.after(m.lo, func(p uint64) (bool, error) {
			c, err := x.compare(p, pattern, 0)
			return c > 0, err
		})
		m.hi = hi
		return x.collect(m, err)
	})
}

// collect makes places of suffixes that are few.
func (x *Index) collect(m *Match, err error) error {
	if err != nil || m.hi-m.lo > fewPlaces && m.behind < uint64(x.h.Depth) {
		return err
	}
	for i := m.lo; i < min(m.hi, m.lo+fewPlaces); i++ {
		p, err := x.suffix(i)
		if err != nil {
			return err
		}
		m.places = append(m.places, uint32(min(uint64(p)+m.behind, x.h.Tokens)))
	}
	m.lo, m.hi = 0, 0
	return nil
}

// bucket is the suffixes that begin with a token.
func (x *Index) bucket(id int32) (lo, hi int64, err error) {
	if id < 0 || uint32(id) >= x.h.Vocab {
		return 0, 0, nil
	}
	b, err := x.read(x.from[1]+4*int64(id), 8)
	if err != nil {
		return 0, 0, err
	}
	lo, hi = int64(le32(b)), int64(le32(b[4:]))
	if lo > hi || hi > int64(x.h.Suffixes) {
		return 0, 0, ErrIndex
	}
	return lo, hi, nil
}

func le32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// first is the first suffix that begins with a pattern, and whether there is one.
func (x *Index) first(pattern []int32) (at int64, ok bool, err error) {
	lo, hi, err := x.bucket(pattern[0])
	if err != nil {
		return 0, false, err
	}
	for lo < hi {
		mid := (lo + hi) / 2
		p, err := x.suffix(mid)
		if err != nil {
			return 0, false, err
		}
		c, err := x.compare(uint64(p), pattern, 1)
		if err != nil {
			return 0, false, err
		}
		if ok = ok || c == 0; c < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, ok, nil
}

// compare compares the suffix at a position with a pattern, of which the first tokens are known to be the same.
func (x *Index) compare(at uint64, pattern []int32, same int) (int, error) {
	for i := same; i < len(pattern); i++ {
		id, err := x.token(at + uint64(i))
		if err != nil {
			return 0, err
		}
		if id != pattern[i] {
			return int(id) - int(pattern[i]), nil
		}
	}
	return 0, nil
}

// after is the first suffix behind lo of which beyond holds: it gallops, as most ranges are short.
func (x *Index) after(lo int64, beyond func(at uint64) (bool, error)) (int64, error) {
	step, hi := int64(1), lo+1
	holds := func(i int64) (bool, error) {
		if i >= int64(x.h.Suffixes) {
			return true, nil
		}
		p, err := x.suffix(i)
		if err != nil {
			return false, err
		}
		return beyond(uint64(p))
	}
	for {
		ok, err := holds(hi)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		lo, step = hi, 2*step
		hi = lo + step
	}
	for lo+1 < hi {
		mid := (lo + hi) / 2
		ok, err := holds(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi, nil
}

// Next is the token that followed the match most often, the lower id of equals, how often, and in how many places: all
// places where they are few, else as many examples. count is 0 where no token followed it.
func (x *Index) Next(m *Match) (id int32, count, places int, err error) {
	err = x.guarded(func() error {
		n := len(m.places)
		if m.hi > m.lo {
			n = fewPlaces
		}
		var ids [fewPlaces]int32
		for i := range n {
			at := uint64(0)
			if m.hi > m.lo {
				p, err := x.suffix(m.lo + (m.hi-m.lo)*int64(i)/fewPlaces)
				if err != nil {
					return err
				}
				at = uint64(p) + m.behind
			} else {
				at = uint64(m.places[i])
			}
			next, err := x.token(at)
			if err != nil {
				return err
			}
			ids[i] = next
		}
		places = n
		for i, candidate := range ids[:n] {
			if uint32(candidate) >= x.h.Vocab { // the end of a text
				continue
			}
			c := 0
			for _, other := range ids[i:n] {
				if other == candidate {
					c++
				}
			}
			if c > count || c == count && candidate < id {
				id, count = candidate, c
			}
		}
		return nil
	})
	return id, count, places, err
}

// Step goes on by a token: the places where it does not follow are left out.
func (x *Index) Step(m *Match, id int32) error {
	return x.guarded(func() error {
		m.length++
		if m.hi <= m.lo {
			kept := m.places[:0]
			for _, p := range m.places {
				next, err := x.token(uint64(p))
				if err != nil {
					return err
				}
				if next == id {
					kept = append(kept, p+1)
				}
			}
			if m.places = kept; len(kept) == 0 {
				m.length = 0
			}
			return nil
		}
		bound := func(least int32) (int64, error) { // the first suffix that goes on with at least this token
			lo, hi := m.lo, m.hi
			for lo < hi {
				mid := (lo + hi) / 2
				p, err := x.suffix(mid)
				if err != nil {
					return 0, err
				}
				next, err := x.token(uint64(p) + m.behind)
				if err != nil {
					return 0, err
				}
				if next < least {
					lo = mid + 1
				} else {
					hi = mid
				}
			}
			return lo, nil
		}
		lo, err := bound(id)
		if err != nil {
			return err
		}
		hi, err := bound(id + 1)
		if err != nil {
			return err
		}
		if m.lo, m.hi = lo, hi; lo == hi {
			m.length, m.places = 0, m.places[:0]
			return nil
		}
		m.behind++
		return x.collect(m, nil)
	})
}

// Copy makes m the same as another match.
func (m *Match) Copy(from *Match) {
	places := append(m.places[:0], from.places...)
	*m = *from
	m.places = places
}
