package bpe

import "math"

// symbol is a token, or a character without one, in the word being merged. The
// symbols form a linked list in the order of the text. Merging two removes the right
// one.
type symbol struct {
	start, end int32  // bytes of the word; not kept for byte-level BPE
	prev, next int32  // -1 at the edges
	id         int32  // token, -1 if the vocabulary has none
	merged     int32  // token that this symbol and the next would make
	priority   uint32 // of making it, lower first; never if they make none
}

const never = math.MaxUint32

// maxWord bounds the bytes of a word, and with them the scratch memory (about 50
// times as much). A longer word is encoded as several.
const maxWord = 1 << 20

// pairer looks up the token that two adjacent symbols make.
type pairer interface {
	pair(s *scratch, left, right *symbol) (id int32, priority uint32)
}

// merge merges adjacent pairs in s.symbols, the one with the lowest priority value
// first and of equal ones the leftmost, until no pair makes a token. The queue is a
// heap of priority<<32 | left. Outdated entries are skipped when they reach the top,
// so a word of n symbols takes O(n log n) time. It stops before the first merge of
// priority limit or later; with never it does them all.
func (s *scratch) merge(p pairer, limit uint32) {
	word := s.symbols
	queue := s.queue[:0]
	for i := range len(word) - 1 {
		l := &word[i]
		if l.merged, l.priority = p.pair(s, l, &word[i+1]); l.priority < limit {
			queue = append(queue, uint64(l.priority)<<32|uint64(i))
		}
	}
	for i := len(queue)/2 - 1; i >= 0; i-- {
		sift(queue, i)
	}
	for len(queue) > 0 {
		top := queue[0]
		n := len(queue) - 1
		queue[0] = queue[n]
		queue = queue[:n]
		sift(queue, 0)

		at := int32(uint32(top))
		l := &word[at]
		if l.priority != uint32(top>>32) {
			continue // one of the two has been merged since
		}
		r := &word[l.next]
		l.id, l.end, l.next = l.merged, r.end, r.next
		r.priority = never
		l.priority = never
		if l.next >= 0 {
			word[l.next].prev = at
			if l.merged, l.priority = p.pair(s, l, &word[l.next]); l.priority < limit {
				queue = push(queue, uint64(l.priority)<<32|uint64(at))
			}
		}
		if l.prev >= 0 {
			k := &word[l.prev]
			if k.merged, k.priority = p.pair(s, k, l); k.priority < limit {
				queue = push(queue, uint64(k.priority)<<32|uint64(l.prev))
			}
		}
	}
	s.queue = queue
}

func push(heap []uint64, x uint64) []uint64 {
	heap = append(heap, x)
	i := len(heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if heap[up] <= x {
			break
		}
		heap[i] = heap[up]
		i = up
	}
	heap[i] = x
	return heap
}

// sift moves heap[i] down to its place.
func sift(heap []uint64, i int) {
	if i >= len(heap) {
		return
	}
	x := heap[i]
	for {
		down := 2*i + 1
		if down >= len(heap) {
			break
		}
		if down+1 < len(heap) && heap[down+1] < heap[down] {
			down++
		}
		if x <= heap[down] {
			break
		}
		heap[i] = heap[down]
		i = down
	}
	heap[i] = x
}
