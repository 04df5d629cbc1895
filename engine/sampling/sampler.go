// Package sampling chooses tokens from logits: penalties, bans, constraints, filters, temperature and noise. It knows
// no models.
//
//	s, err := sampling.New(vocabulary, sampling.Options{Temperature: 0.8, TopP: 0.95, Seed: 1})
//	id := s.Pick(logits, history)
package sampling

import (
	"cmp"
	"math"
	"slices"

	"github.com/specgo/spec/tensor"
)

// Prob is a token and its probability.
type Prob struct {
	ID int32
	P  float32
}

// Sampler chooses tokens from logits. What it chooses depends on the logits, the history and the
// seed alone, on every machine. It keeps scratch between calls, so it belongs to one goroutine.
type Sampler struct {
	o       Options
	vocab   int
	largest int // number of tokens of a distribution
	biases  []bias
	plan    plan
	err     error // of the last call's constraint

	path     constraintPath
	dry      repetitions
	ends     map[int32]bool // of Options.Infill
	surprise surprises

	x       []float32   // [vocab] logits after penalties, bias, bans and the constraint
	p       []float32   // [vocab] scratch: probabilities or noise
	count   []int32     // [vocab] how often a token occurred recently; all zero between calls
	heap    []candidate // scratch of the filters
	far     []candidate // the same
	pieces  []string    // texts of tokens that infill joins
	kept    []candidate // what the filters left
	maximum float32     // the greatest logit of these
	divisor float32     // what they are to be divided by: the temperature, or 1 where that was done
}

var negInf = float32(math.Inf(-1))

// New makes a sampler of options that [Options.Check] lets pass for a vocabulary of so many tokens.
func New(vocab int, o Options) (*Sampler, error) {
	if err := o.Check(vocab); err != nil {
		return nil, err
	}
	o = o.Normalized()
	return &Sampler{o: o, vocab: vocab, largest: o.most(vocab), biases: o.biases(), plan: o.planned(),
		dry: newRepetitions(&o.DRY), ends: newEnds(&o)}, nil
}

// Pick chooses the token at position len(history), the history being the whole sequence so far. At
// temperature 0 that is the greatest logit, else argmax(x/T + noise), where the noise of a token is
// Gumbel distributed and depends on (seed, position, id) only: the Gumbel-max trick, which draws
// from softmax(x/T). The lower id wins ties. It returns -1 if every token is banned, or the constraint
// leaves none: [Sampler.Err] says why. logits are not changed; if there are fewer of them than the
// vocabulary has tokens, the rest are never chosen.
//
// The Gumbel-max trick is from Maddison, Tarlow and Minka 2014 (A* sampling, arXiv:1411.0030).
func (s *Sampler) Pick(logits []float32, history []int32) int32 {
	if s.greedy() {
		if s.plan.moves {
			s.filter(logits, history)
			return s.first()
		}
		if x := s.adjust(logits, history); x != nil {
			return greatest(x)
		}
		return greatest(logits[:min(len(logits), s.vocab)])
	}
	key := noiseKey(s.o.Seed, len(history))
	if !s.filters() {
		x := s.adjust(logits, history)
		if x == nil {
			x = logits[:min(len(logits), s.vocab)]
		}
		if s.rank(x, key, 1); len(s.kept) == 0 {
			return -1
		}
		return s.kept[0].id
	}
	s.filter(logits, history)
	best, bestX := int32(-1), negInf
	for _, c := range s.kept {
		x := (c.x-s.maximum)/s.divisor + tensor.Noise(key, uint32(c.id))
		if x > bestX || x == bestX && c.id < best {
			best, bestX = c.id, x
		}
	}
	return best
}

// AppendBest appends the n tokens with the greatest values of what [Sampler.Pick] maximizes, the greatest first:
// candidates for what a similar model would pick. n < 1 appends none. P is the softmax over all tokens at temperature 0
// (after penalties, bias and bans); above it, where noise decides, the softmax of x/T + noise over the n.
func (s *Sampler) AppendBest(dst []Prob, n int, logits []float32, history []int32) []Prob {
	if n < 1 {
		return dst
	}
	if s.filters() && !(s.greedy() && !s.plan.moves) {
		s.filter(logits, history)
		return s.appendBestKept(dst, n, len(history))
	}
	x := s.adjust(logits, history)
	if x == nil {
		x = logits[:min(len(logits), s.vocab)]
	}
	if s.greedy() {
		s.kept = s.kept[:0]
		for first := 0; first < len(x); first += pickChunk {
			chunk := x[first:min(first+pickChunk, len(x))]
			if len(s.kept) == n && !(chunk[tensor.ArgMax(chunk)] > s.kept[n-1].x) {
				continue
			}
			for i, v := range chunk {
				if v > negInf && (len(s.kept) < n || v > s.kept[n-1].x) {
					s.keep(candidate{int32(first + i), v}, n)
				}
			}
		}
		total := tensor.LogSumExp(x)
		for _, c := range s.kept {
			dst = append(dst, Prob{c.id, tensor.Exp(c.x - total)})
		}
		return dst
	}
	s.rank(x, noiseKey(s.o.Seed, len(history)), n)
	return s.appendNoisy(dst)
}

// appendBestKept is AppendBest for what the filters left.
func (s *Sampler) appendBestKept(dst []Prob, n, position int) []Prob {
	key := noiseKey(s.o.Seed, position)
	all := s.kept
	s.kept = s.heap[:0]
	for _, c := range all {
		if !s.greedy() {
			c.x = (c.x-s.maximum)/s.divisor + tensor.Noise(key, uint32(c.id))
		}
		if len(s.kept) < n || c.before(s.kept[n-1]) {
			s.keep(c, n)
		}
	}
	s.heap = all
	return s.appendNoisy(dst)
}

// appendNoisy appends s.kept with the softmax of its values, which are in order.
func (s *Sampler) appendNoisy(dst []Prob) []Prob {
	sum, from := float32(0), len(dst)
	for _, c := range s.kept {
		p := tensor.Exp(c.x - s.kept[0].x)
		dst, sum = append(dst, Prob{c.id, p}), sum+p
	}
	for i := range dst[from:] {
		dst[from+i].P /= sum
	}
	return dst
}

// Distribution gives the probabilities that Pick draws from: after penalties, filters and
// temperature, sorted by id, tokens that cannot be chosen left out. They sum to 1 but for rounding.
// At temperature 0 it is the one token that Pick returns.
func (s *Sampler) Distribution(logits []float32, history []int32) []Prob {
	return s.AppendDistribution(nil, logits, history)
}

// AppendDistribution is Distribution into a slice of the caller's.
func (s *Sampler) AppendDistribution(dst []Prob, logits []float32, history []int32) []Prob {
	if s.greedy() {
		if id := s.Pick(logits, history); id >= 0 {
			dst = append(dst, Prob{id, 1})
		}
		return dst
	}
	s.filter(logits, history)
	slices.SortFunc(s.kept, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
	s.p = slices.Grow(s.p[:0], len(s.kept))
	for _, c := range s.kept {
		s.p = append(s.p, (c.x-s.maximum)/s.divisor)
	}
	_, sum := tensor.ExpSum(s.p)
	dst = Grown(dst, len(s.kept), len(dst)+s.largest)
	for i, c := range s.kept {
		dst = append(dst, Prob{c.id, s.p[i] / sum})
	}
	return dst
}

// Grown is dst with room for n more entries. What has none doubles, up to most entries where those suffice.
func Grown(dst []Prob, n, most int) []Prob {
	if n += len(dst); n <= cap(dst) {
		return dst
	}
	return append(make([]Prob, 0, max(n, min(2*cap(dst), most))), dst...)
}

// greedy reports whether the most probable token that is left is chosen.
func (s *Sampler) greedy() bool { return s.o.MaxTemperature() == 0 }

// greatest is the id of the greatest logit, the lower one on a tie; -1 if none is above -Inf.
func greatest(x []float32) int32 {
	if i := tensor.ArgMax(x); i >= 0 && x[i] > negInf {
		return int32(i)
	}
	return -1
}
