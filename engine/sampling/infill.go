package sampling

import (
	"slices"
	"strings"
)

// Infill is what the step of that name knows of the vocabulary. The step is for text that fills a gap, where it is
// better to end early than to write on without being sure (llama.cpp's sampler "infill"). Of the n tokens that are
// left:
//
//   - Where the probabilities of those that end the text, times 3 n, exceed those of all others, only they stay.
//   - Otherwise of two tokens, one of whose texts begins with the other's, the more probable one takes the probability
//     of both: they may be the same continuation. What then has a probability of 0.2 stays, m tokens, and of these
//     what has the share 1/(m+1) of their sum and the ends'. Ends stay.
//   - Where no token has 0.2 the text ends: the first of Ends that may be chosen is what stays.
//
// Logits do not change: the probabilities that were added up count for this step alone.
type Infill struct {
	Pieces Pieces  `json:"-"`             // not nil where Order has the step
	Ends   []int32 `json:"end_token_ids"` // tokens that end the text
}

// Pieces are the texts of tokens, such as a *bpe.Tokenizer. A token without text joins no other.
type Pieces interface{ Piece(id int32) string }

// newEnds are the tokens that end the text that fills a gap; nil where the step is off.
func newEnds(o *Options) map[int32]bool {
	if !o.on(StepInfill) {
		return nil
	}
	ends := make(map[int32]bool, len(o.Infill.Ends))
	for _, id := range o.Infill.Ends {
		ends[id] = true
	}
	return ends
}

const (
	infillEnds   = 3   // how much more ends count than text
	infillLeast  = 0.2 // probability of a token that is sure enough
	infillJoined = 512 // how many of the most probable tokens are joined; the others have less than 0.002 each
)

// infill is the step. x are the logits before the filters.
func (s *Sampler) infill(x []float32) {
	s.order()
	p := s.probabilities()
	isEnd := func(c candidate) bool { return s.ends[c.id] }
	var ending, text float32
	for i, c := range s.kept {
		if isEnd(c) {
			ending += p[i]
		} else {
			text += p[i]
		}
	}
	if infillEnds*ending*float32(len(s.kept)) > text {
		s.kept = slices.DeleteFunc(s.kept, func(c candidate) bool { return !isEnd(c) })
		return
	}
	s.join(p[:min(len(p), infillJoined)])
	sure, sum := 0, float32(0)
	for i, c := range s.kept {
		switch {
		case isEnd(c):
			sum += p[i]
		case p[i] >= infillLeast:
			sum += p[i]
			sure++
		}
	}
	if sure == 0 {
		for _, id := range s.o.Infill.Ends {
			if int(id) < len(x) && x[id] > negInf {
				s.kept = append(s.kept[:0], candidate{id: id})
				return
			}
		}
		return // no end may be chosen: what there was
	}
	least := max(infillLeast, sum/float32(sure+1))
	n := 0
	for i, c := range s.kept {
		if isEnd(c) || p[i] >= least {
			s.kept[n] = c
			n++
		}
	}
	s.kept = s.kept[:n]
}

// join adds up the probabilities p of the first tokens of s.kept of which one's text begins with another's. The less
// probable one is left with 0.
func (s *Sampler) join(p []float32) {
	s.pieces = s.pieces[:0]
	for _, c := range s.kept[:len(p)] {
		piece := ""
		if !s.ends[c.id] {
			piece = s.o.Infill.Pieces.Piece(c.id)
		}
		s.pieces = append(s.pieces, piece)
	}
	for i, piece := range s.pieces {
		for j := 0; j < len(p) && s.pieces[i] != ""; j++ {
			if j == i || s.pieces[j] == "" || !strings.HasPrefix(s.pieces[j], piece) {
				continue
			}
			to, from := i, j
			if p[j] > p[i] {
				to, from = j, i
			}
			p[to] += p[from]
			p[from], s.pieces[from] = 0, ""
		}
	}
}
