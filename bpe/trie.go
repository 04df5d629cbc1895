package bpe

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"slices"
)

// pieceTrie is a trie of tokens by their bytes. A step takes constant time, whatever
// the vocabulary. Node 0 is the root; the children of a node follow one another in the
// order of their bytes.
type pieceTrie struct{ nodes []pieceNode }

type pieceNode struct {
	bytes [4]uint64 // a bit for each byte that a child has
	ranks [4]uint8  // how many bits are set before each word of bytes
	first int32     // the first child
	id    int32     // of the token that ends here, -1 if none does
}

type piece struct {
	text string
	id   int32
}

// newPieceTrie reorders pieces. No two have the same text.
func newPieceTrie(pieces []piece) (pieceTrie, error) {
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.text, b.text) })
	nodes := []pieceNode{{id: -1}}
	type span struct{ from, to int32 } // of each node: the pieces below it
	spans := []span{{0, int32(len(pieces))}}
	depth, levelEnd := 0, 1 // nodes up to levelEnd are no deeper than depth
	for i := 0; i < len(nodes); i++ {
		if i == levelEnd {
			depth, levelEnd = depth+1, len(nodes)
		}
		from, to := spans[i].from, spans[i].to
		if from < to && len(pieces[from].text) == depth {
			nodes[i].id = pieces[from].id
			from++
		}
		nodes[i].first = int32(len(nodes))
		for from < to {
			c, end := pieces[from].text[depth], from+1
			for end < to && pieces[end].text[depth] == c {
				end++
			}
			if len(nodes) == math.MaxInt32 {
				return pieceTrie{}, errors.New("tokenizer.ggml.tokens: too much text")
			}
			nodes[i].bytes[c>>6] |= 1 << (c & 63)
			nodes = append(nodes, pieceNode{id: -1})
			spans = append(spans, span{from, end})
			from = end
		}
		n := &nodes[i]
		for w := 1; w < len(n.ranks); w++ {
			n.ranks[w] = n.ranks[w-1] + uint8(bits.OnesCount64(n.bytes[w-1]))
		}
	}
	return pieceTrie{slices.Clip(nodes)}, nil
}

// child returns the child of a node with a byte, -1 if it has none.
func (t *pieceTrie) child(node int32, c byte) int32 {
	n := &t.nodes[node]
	word, bit := n.bytes[c>>6&3], uint64(1)<<(c&63)
	if word&bit == 0 {
		return -1
	}
	return n.first + int32(n.ranks[c>>6&3]) + int32(bits.OnesCount64(word&(bit-1)))
}

// longest returns the longest token at the beginning of text and its length, -1 and 0 if
// there is none. Tokens that are barred do not count.
func (t *pieceTrie) longest(s *scratch, text []byte) (id int32, n int) {
	id = -1
	node, i := int32(0), 0
	for ; i < len(text); i++ {
		if node = t.child(node, text[i]); node < 0 {
			break
		}
		if end := t.nodes[node].id; end >= 0 && !s.barred[end] {
			id, n = end, i+1
		}
	}
	s.read += i + 1
	return id, n
}
