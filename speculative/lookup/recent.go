package lookup

import (
	"slices"
	"sync"
)

// Recent keeps what was written lately, of each key by itself, in bounded memory, to look up in. What was written first
// goes first. It is safe for concurrent use.
type Recent struct {
	mu    sync.RWMutex
	bytes int64
	used  int64
	parts []*part // the oldest first
}

const (
	recentBytes = 16   // of a token: itself, the place before with the same hash, two places of the table
	firstPart   = 1024 // tokens of a key's first part
	mostParts   = 32   // of all memory, when they are as large as they get
	mostChain   = 16   // places with the same hash that are compared
	mostRecent  = 64   // tokens of a match
	noToken     = -1   // between texts
)

// part is texts of one key.
type part struct {
	key    string
	ids    []int32 // with noToken behind each text
	before []int32 // the last place with the same hash, one more than it is; 0: none
	table  []int32 // the last place by hash, likewise
}

// NewRecent keeps so many bytes.
func NewRecent(bytes int64) *Recent { return &Recent{bytes: bytes} }

// Add keeps a text.
func (r *Recent) Add(key string, ids []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(ids) >= leastMatch {
		p := r.last(key)
		if p == nil || cap(p.ids)-len(p.ids) < 2*leastMatch {
			if p = r.begin(key, p); p == nil {
				return
			}
		}
		n := min(len(ids), cap(p.ids)-len(p.ids)-1)
		for _, id := range ids[:n] {
			p.add(id)
		}
		p.add(noToken)
		if n == len(ids) {
			return
		}
		ids = ids[n-leastMatch:] // a match across the parts is one in the next
	}
}

// last is the part of a key that was begun last.
func (r *Recent) last(key string) *part {
	for i := len(r.parts) - 1; i >= 0; i-- {
		if r.parts[i].key == key {
			return r.parts[i]
		}
	}
	return nil
}

// begin makes a part, twice as large as the one before it, and drops the oldest for it; nil: there is no room.
func (r *Recent) begin(key string, before *part) *part {
	n := int64(firstPart)
	if before != nil {
		n = 2 * int64(cap(before.ids))
	}
	n = min(n, max(firstPart, r.bytes/recentBytes/mostParts))
	if n*recentBytes > r.bytes {
		return nil
	}
	r.used += n * recentBytes
	for r.used > r.bytes {
		r.used -= int64(cap(r.parts[0].ids)) * recentBytes
		r.parts = slices.Delete(r.parts, 0, 1)
	}
	p := &part{key: key, ids: make([]int32, 0, n), before: make([]int32, 0, n), table: make([]int32, 2*n)}
	r.parts = append(r.parts, p)
	return p
}

func (p *part) add(id int32) {
	p.ids = append(p.ids, id)
	n, slot := len(p.ids), -1
	if n >= leastMatch {
		slot = p.slot(p.ids[n-leastMatch:])
	}
	if slot < 0 {
		p.before = append(p.before, 0)
		return
	}
	p.before = append(p.before, p.table[slot])
	p.table[slot] = int32(n)
}

// slot is the place of the last tokens in the table, -1 where a text ends within them.
func (p *part) slot(ids []int32) int {
	h := uint64(0)
	for _, id := range ids {
		if id == noToken {
			return -1
		}
		h = (h ^ uint64(id)) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return int(h % uint64(len(p.table)))
}

// Place is where the end of a text occurs in what was written; the zero value is nowhere.
type Place struct {
	of     *part
	at     int // of the token behind it
	length int
}

// Length is the number of tokens that match.
func (p *Place) Length() int { return p.length }

// Match is where the longest end of a text was written by its key: the latest of equally long ones.
func (r *Recent) Match(key string, text []int32) (found Place) {
	if len(text) < leastMatch {
		return found
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for i := len(r.parts) - 1; i >= 0; i-- {
		p := r.parts[i]
		if p.key != key {
			continue
		}
		slot := p.slot(text[len(text)-leastMatch:])
		if slot < 0 {
			return found
		}
		for n, at := 0, int(p.table[slot]); at > 0 && n < mostChain; n, at = n+1, int(p.before[at-1]) {
			same := 0
			for same < min(at, len(text), mostRecent) && p.ids[at-1-same] == text[len(text)-1-same] {
				same++
			}
			if same >= leastMatch && same > found.length && at < len(p.ids) && p.ids[at] != noToken {
				found = Place{p, at, same}
			}
		}
	}
	return found
}

// Next is the token so many tokens behind a place, if the text goes on.
func (r *Recent) Next(p *Place, behind int) (id int32, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if at := p.at + behind; p.of == nil || at >= len(p.of.ids) || slices.Contains(p.of.ids[p.at:at+1], noToken) {
		return 0, false
	}
	return p.of.ids[p.at+behind], true
}

// Follows reports whether tokens stand behind a place.
func (r *Recent) Follows(p *Place, ids []int32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return p.of != nil && p.at+len(ids) <= len(p.of.ids) && slices.Equal(p.of.ids[p.at:p.at+len(ids)], ids)
}

// Bytes is what the texts take now.
func (r *Recent) Bytes() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.used
}
