package bpe

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
)

// mergeTable holds the merges of a vocabulary by the pair of tokens that they join.
// It is a hash table with linear probing, at most half full. With a Go map in its
// place BenchmarkEncode/gemma4 on prose falls from 22.0 to 18.3 MB/s (medians of 5
// runs each, one Zen 5 core).
type mergeTable struct {
	slots      []merge // a power of two
	shift      int     // 64 - log2(len(slots))
	multiplier uint64  // odd and random, so that no file can make its merges collide
}

type merge struct {
	key  uint64 // left<<32 | right
	rank uint32 // never in an empty slot
	id   int32  // the token that they make
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// newMergeTable reads merges, each two tokens with a space between.
func newMergeTable(t *Tokenizer, merges []string) (*mergeTable, error) {
	table := &mergeTable{shift: 63, multiplier: rand.Uint64() | 1}
	for len(merges) > 1<<(63-table.shift) {
		table.shift--
	}
	table.slots = make([]merge, 1<<(64-table.shift))
	for i := range table.slots {
		table.slots[i].rank = never
	}
	var joined []byte // of a line, so that none of the three texts is a string of its own
	for rank, line := range merges {
		// A token is never empty, so neither is what stands before the space.
		sep := -1
		if line != "" {
			sep = strings.IndexByte(line[1:], ' ') + 1
		}
		if sep <= 0 {
			return nil, fmt.Errorf("tokenizer.ggml.merges[%d]: %s is not two tokens with a space between", rank, quote(line))
		}
		joined = append(append(joined[:0], line[:sep]...), line[sep+1:]...)
		var id [3]int32
		for k, s := range [3][]byte{joined[:sep], joined[sep:], joined} {
			var ok bool
			if id[k], ok = t.ids[string(s)]; !ok {
				return nil, fmt.Errorf("tokenizer.ggml.merges[%d]: %s needs the token %s, which is not in the vocabulary", rank,
					quote(line), quote(string(s)))
			}
		}
		key := pairKey(id[0], id[1])
		if slot := table.find(key); slot.rank == never && t.isText(id[2]) {
			*slot = merge{key, uint32(rank), id[2]} // of two merges of a pair the first counts; text makes no control token
		}
	}
	return table, nil
}

// find returns the slot of a pair, or the empty one where it would be.
func (m *mergeTable) find(key uint64) *merge {
	for i := key * m.multiplier >> m.shift; ; i++ {
		slot := &m.slots[i&uint64(len(m.slots)-1)]
		if slot.key == key || slot.rank == never {
			return slot
		}
	}
}

// all yields the merges in no order.
func (m *mergeTable) all() iter.Seq[merge] {
	return func(yield func(merge) bool) {
		for _, slot := range m.slots {
			if slot.rank != never && !yield(slot) {
				return
			}
		}
	}
}

func (m *mergeTable) equal(other *mergeTable) bool {
	n := 0
	for a := range m.all() {
		if b := other.find(a.key); *b != a {
			return false
		}
		n++
	}
	for range other.all() {
		n--
	}
	return n == 0
}

func (m *mergeTable) pair(s *scratch, left, right *symbol) (int32, uint32) {
	if slot := m.find(pairKey(left.id, right.id)); slot.rank != never && !s.barred[slot.id] {
		return slot.id, slot.rank
	}
	return -1, never
}
