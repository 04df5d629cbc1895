package speculative

import "math/bits"

// priorMatchOdds: a match of n tokens is right with probability n/(n+priorMatchOdds), until rounds say otherwise.
const priorMatchOdds = 3

// matches learns how often what followed a match is right, by the length of the match: the confidence of lookups.
// Drafts of a lookup continue one match, which grows by each token.
type matches struct {
	tokens  []int32 // of the last draft
	lengths []int32 // of the match before each
	depths  []int32 // index in the draft, which is a chain of these and forced tokens
	right   [bits.UintSize]rate
}

func (m *matches) begin() {
	m.tokens, m.lengths, m.depths = m.tokens[:0], m.lengths[:0], m.depths[:0]
}

// confidence is the probability that the token after a match of n tokens is right, if the tokens before it are.
func (m *matches) confidence(n int) float32 {
	return float32(m.right[bits.Len(uint(n))].after(float64(n) / float64(n+priorMatchOdds)))
}

// drafted notes token at of a chain, that was drafted after a match of n tokens.
func (m *matches) drafted(id int32, n, at int) {
	m.tokens, m.lengths, m.depths = append(m.tokens, id), append(m.lengths, int32(n)), append(m.depths, int32(at))
}

// observe learns from the last draft, which may have been merged with others: its tokens are right as long as they
// are those that the text continued with.
func (m *matches) observe(r *Round) {
	defer m.begin() // in a round without a draft there is nothing to learn
	for i, id := range m.tokens {
		next, at := r.Next, int(m.depths[i])
		if at < len(r.Path) {
			next = r.Draft.Tokens[r.Path[at]]
		} else if at > len(r.Path) {
			return
		}
		hit := 0.0
		if id == next {
			hit = 1
		}
		m.right[bits.Len(uint(m.lengths[i]))].add(hit)
		if id != next {
			return
		}
	}
}
