package speculative

import (
	"math"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// Of each token of a draft that was sampled from some q, verifiers that compare distributions need q until the round
// ends: entries of 8 bytes for tokens that the filters leave, which without filters are all of the vocabulary, where a
// row of logits has 4. A tree has two for a token: that which it was drawn from, and the one without it which the next
// child may be drawn from. Block keeps one of the target's for each token of a path. So under a bound of rows
// ([Options].Rows) they count as the rows that their memory would be.

// draftRoom is the memory that a draft and its verification have.
type draftRoom struct {
	rows  int            // most rows of logits of the pass that verifies it, one of them before the draft; 0: no bound
	probs *distributions // of the round's drafted tokens, for all drafters of a merge; nil: none yet
}

// room is that of a text, with the memory for distributions that the one before had.
func (o *Options) room(v Verifier, s *engine.Sampling, vocab int, before *distributions) draftRoom {
	most := s.Most(vocab)
	r := draftRoom{max(o.Rows, 0), &distributions{most: most + 1}} // a source may add a token
	if before != nil && before.most == r.probs.most {
		r.probs = before
	}
	compared := v.NeedsProbs()
	perRow := 0
	if compared && o.DraftSampling == DraftDefault || o.DraftSampling == DraftFromQ {
		perRow += 2
	}
	if compared {
		perRow++
	}
	if r.rows > 0 && perRow > 0 {
		row, more := int64(4*vocab), int64(8*perRow*(most+1))
		r.rows = int(max(1, int64(min(r.rows, math.MaxInt32))*row/(row+more)))
	}
	return r
}

// distributions is memory for those of a round, each in memory of its own, which later rounds use again.
type distributions struct {
	all  [][]sampling.Prob
	used int
	most int // entries of one
}

// begin begins a round.
func (s *distributions) begin() { s.used = 0 }

// next is memory for another one.
func (s *distributions) next() []sampling.Prob {
	if s.used == len(s.all) {
		s.all = append(s.all, nil)
	}
	return s.all[s.used][:0]
}

// keep keeps q, which next began, until the round ends.
func (s *distributions) keep(q []sampling.Prob) []sampling.Prob {
	s.all[s.used] = q
	s.used++
	return q[:len(q):len(q)]
}

// distributions is where drafters keep what they sample the draft's tokens from.
func (d *Draft) distributions() *distributions {
	if d.probs == nil {
		d.probs = &distributions{}
	}
	return d.probs
}
