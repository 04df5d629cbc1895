package speculative

import (
	"context"
	"time"
)

// Splice drafts token by token from whichever promises more: a lookup in the text, which costs
// nothing, or the draft model. What each promises is learned: the share of its tokens that was
// accepted, for lookups by the length of the match, and a model's token must be better by what its
// pass costs in passes of the target.
func Splice(seq Sequence) Drafter {
	return &splice{
		lookup: suffix{least: 2}, model: modelDrafter{seq: tracked{Sequence: seq}}, now: monotonic(),
		modelled: rate{1.2, 2},
	}
}

type splice struct {
	lookup suffix
	model  modelDrafter
	now    func() time.Duration

	looked   [lookupBins]rate
	modelled rate
	step     timing // of the model
	pass     timing // of the target
	own      []bool // of the draft's tokens: the model's
}

const lookupBins = 9

// bin sorts confidences n/(n+1) by the match's length n.
func (s *splice) bin(confidence float32) int {
	return max(0, min(lookupBins-1, int(1/(1-min(confidence, 0.99)))-2))
}

func (s *splice) clock(now func() time.Duration) { s.now = now }

func (s *splice) Start(ctx context.Context, u Setup) error {
	s.own = make([]bool, 0, u.Longest)
	if err := s.lookup.Start(ctx, u); err != nil {
		return err
	}
	return s.model.Start(ctx, u)
}

func (s *splice) Draft(ctx context.Context, text []int32, d *Draft) error {
	s.lookup.begin(text)
	s.own = s.own[:0]
	written := len(text)
	for d.More() {
		id, confidence, found := s.lookup.guess(d, 0)
		if found && s.better(confidence) {
			if !d.Add(id, confidence, nil) {
				break
			}
			s.own = append(s.own, false)
		} else {
			begin := s.now()
			ok, err := s.model.next(ctx, text, written, d)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			s.step.add((s.now() - begin).Seconds())
			id = d.Tokens[d.Len()-1]
			s.own = append(s.own, true)
		}
		s.lookup.advance(id)
		text = append(text, id)
	}
	return nil
}

// better reports whether a lookup's token is worth more than one of the model.
func (s *splice) better(confidence float32) bool {
	price := 0.0
	if s.pass.mean > 0 {
		price = s.step.mean / s.pass.mean
	}
	return s.looked[s.bin(confidence)].after(float64(confidence)) >= s.modelled.p()-price
}

func (s *splice) Observe(r *Round) {
	s.pass.add(r.Verifying.Seconds())
	if len(s.own) < r.Drafted() {
		return
	}
	for _, i := range r.Path {
		s.learn(int(i), r, 1)
	}
	if i := r.rejected(); i >= 0 {
		s.learn(i, r, 0)
	}
}

func (s *splice) learn(i int, r *Round, accepted float64) {
	if s.own[i] {
		s.modelled.add(accepted)
	} else {
		s.looked[s.bin(r.Draft.Confidence[i])].add(accepted)
	}
}
