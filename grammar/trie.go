package grammar

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"runtime"
	"slices"
)

// trie is all tokens' bytes in depth-first order: a node's subtree lies right behind it.
type trie struct {
	nodes  []node
	tokens []int32 // ids, grouped by node
	depth  int     // of the deepest node
}

type node struct {
	end   int32 // the first node behind the subtree
	token int32 // tokens[token:next node's token] end here
	depth uint16
	b     byte
}

// maxTokenBytes bounds the length of a token: longer ones are never allowed.
const maxTokenBytes = 1 << 10

// newTrie makes the trie of the tokens whose bytes are not empty.
func newTrie(text [][]byte) *trie {
	type entry struct {
		head uint64 // the first bytes: most texts differ in them
		id   int32
	}
	var all []entry
	for id, b := range text {
		if len(b) > 0 && len(b) <= maxTokenBytes {
			var head [8]byte
			copy(head[:], b)
			all = append(all, entry{binary.BigEndian.Uint64(head[:]), int32(id)})
		}
	}
	compared := 0
	slices.SortFunc(all, func(a, b entry) int {
		if compared++; compared%sliceSteps == 0 {
			runtime.Gosched() // passes go first
		}
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return cmp.Or(bytes.Compare(text[a.id], text[b.id]), cmp.Compare(a.id, b.id))
	})
	ids := make([]int32, len(all))
	for i, e := range all {
		ids[i] = e.id
	}
	t := &trie{tokens: ids}
	var open []int32 // the nodes on the path of the last text
	var before []byte
	for i, id := range ids {
		now, common := text[id], 0
		for common < len(now) && common < len(before) && now[common] == before[common] {
			common++
		}
		for len(open) > common {
			t.nodes[open[len(open)-1]].end = int32(len(t.nodes))
			open = open[:len(open)-1]
		}
		for d := common; d < len(now); d++ {
			open = append(open, int32(len(t.nodes)))
			t.nodes = append(t.nodes, node{token: int32(i), depth: uint16(d), b: now[d]})
		}
		t.depth = max(t.depth, len(now))
		before = now
	}
	for _, i := range open {
		t.nodes[i].end = int32(len(t.nodes))
	}
	// The last node ends the last list of tokens.
	t.nodes = append(t.nodes, node{end: int32(len(t.nodes)) + 1, token: int32(len(ids))})
	t.nodes = slices.Clip(t.nodes)
	return t
}

// ending is the ids of the tokens that end at node i. A node's list begins where it was made, so a parent's tokens come
// before its children's.
func (t *trie) ending(i int) []int32 { return t.tokens[t.nodes[i].token:t.nodes[i+1].token] }

// find is the node of text, or -1.
func (t *trie) find(text []byte) int {
	at, end := 0, len(t.nodes)-1
	found := -1
	for _, b := range text {
		for found = -1; at < end; at = int(t.nodes[at].end) {
			if t.nodes[at].b == b {
				found = at
				break
			}
		}
		if found < 0 {
			return -1
		}
		end = int(t.nodes[found].end)
		at = found + 1
	}
	return found
}
