package bpe

import (
	"fmt"
	"strings"
)

// mergeTable holds the merges of a vocabulary by the pair of tokens that they join,
// left<<32 | right.
type mergeTable map[uint64]merge

type merge struct {
	rank uint32
	id   int32
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// newMergeTable reads merges, each two tokens with a space between.
func newMergeTable(t *Tokenizer, merges []string) (mergeTable, error) {
	table := make(mergeTable, len(merges))
	for rank, line := range merges {
		// A token is never empty, so neither is what stands before the space.
		sep := -1
		if line != "" {
			sep = strings.IndexByte(line[1:], ' ') + 1
		}
		if sep <= 0 {
			return nil, fmt.Errorf("tokenizer.ggml.merges[%d]: %s is not two tokens with a space between", rank, quote(line))
		}
		left, right := line[:sep], line[sep+1:]
		var id [3]int32
		for k, s := range [3]string{left, right, left + right} {
			var ok bool
			if id[k], ok = t.ids[s]; !ok {
				return nil, fmt.Errorf("tokenizer.ggml.merges[%d]: %s needs the token %s, which is not in the vocabulary", rank, quote(line), quote(s))
			}
		}
		key := pairKey(id[0], id[1])
		if _, ok := table[key]; ok || !t.isText(id[2]) {
			continue // of two merges of a pair the first counts; text makes no control token
		}
		table[key] = merge{uint32(rank), id[2]}
	}
	return table, nil
}

func (m mergeTable) pair(s *scratch, left, right *symbol) (int32, uint32) {
	if m, ok := m[pairKey(left.id, right.id)]; ok && !s.barred[m.id] {
		return m.id, m.rank
	}
	return -1, never
}
