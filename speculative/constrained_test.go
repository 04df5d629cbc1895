package speculative

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

var negInf = float32(math.Inf(-1))

// ruled is a constraint by a rule on states and tokens; -1 is not allowed.
type ruled struct {
	next   func(state, id int32) int32
	forced func(state int32) []int32
	final  func(state int32) bool
	vocab  int
	fails  func(state int32) error

	forcedErr func(state int32) error
}

func (r *ruled) Start() int32 { return 0 }
func (r *ruled) Next(state, id int32) (int32, bool, error) {
	if r.fails != nil {
		if err := r.fails(state); err != nil {
			return 0, false, err
		}
	}
	to := r.next(state, id)
	return to, to >= 0, nil
}
func (r *ruled) Mask(state int32) ([]uint64, error) {
	if r.fails != nil {
		if err := r.fails(state); err != nil {
			return nil, err
		}
	}
	mask := make([]uint64, (r.vocab+63)/64)
	for id := range int32(r.vocab) {
		if r.next(state, id) >= 0 {
			mask[id/64] |= 1 << (id % 64)
		}
	}
	return mask, nil
}
func (r *ruled) Forced(state int32) ([]int32, error) {
	if r.forcedErr != nil {
		return nil, r.forcedErr(state)
	}
	if r.forced == nil {
		return nil, nil
	}
	return r.forced(state), nil
}
func (r *ruled) Final(state int32) bool { return r.final != nil && r.final(state) }

// records is a language of records: tokens 1 2 3 4, which are forced, then 5 to 9 once or twice, then 4 again, and so
// on. 2 may be spelled as 10 11.
func records(vocab int) *ruled {
	step := []map[int32]int32{{1: 1}, {2: 2, 10: 3}, {3: 4}, {11: 2}, {4: 5}, {5: 6, 6: 6, 7: 6, 8: 6, 9: 6},
		{4: 0, 5: 7, 6: 7, 9: 7}, {4: 0}}
	return &ruled{
		vocab: vocab,
		next: func(state, id int32) int32 {
			if to, ok := step[state][id]; ok {
				return to
			}
			return -1
		},
		forced: func(state int32) []int32 {
			return [][]int32{{1, 2, 3, 4}, {2, 3, 4}, {3, 4}, {11, 3, 4}, {4}, nil, nil, {4, 1, 2, 3, 4}}[state]
		},
	}
}

// TestConstraintBegins: the constraint begins with the first generated token, and every token is allowed.
func TestConstraintBegins(t *testing.T) {
	c := records(64)
	s := engine.Sampling{Constraint: c, Temperature: 0.8, Seed: 3}
	got, _ := collect(t, New(newFake(t, 64, 200, random(5)), nil, Options{MaxTokens: 60}), []int32{1, 2, 3, 50}, s)
	state := int32(0)
	for i, id := range got {
		if state = c.next(state, id); state < 0 {
			t.Fatalf("token %d of %v is not allowed", i, got)
		}
	}
	if len(got) != 60 {
		t.Errorf("%d tokens", len(got))
	}
	s.ConstraintFrom = 4
	if want := plain(t, 64, random(5), []int32{1, 2, 3, 50}, 60, s); !slices.Equal(got, want) {
		t.Errorf("%v, without this package %v", got, want)
	}
}

// TestConstraintEnds: a complete text ends by itself where no end-of-text token can be chosen, and by that token
// where it can.
func TestConstraintEnds(t *testing.T) {
	// Two tokens of any kind below 30, then 31 or 40 alone, which end the text.
	c := &ruled{vocab: 64, final: func(s int32) bool { return s >= 2 }, next: func(s, id int32) int32 {
		if s < 2 && id < 30 || s == 2 && (id == 31 || id == 40) {
			return s + 1
		}
		return -1
	}}
	eog := func(id int32) bool { return id == 31 || id == 40 }
	prompt := []int32{1}
	for _, verifier := range []Verifier{nil, Match(), Rejection(), Block(), Stairs(StairsOptions{Recompute: true})} {
		s := engine.Sampling{Constraint: c, Temperature: 1}
		d := New(newFake(t, 64, 100, random(1)), nil, Options{EOG: eog, Verifier: verifier})
		if got, _ := collect(t, d, prompt, s); len(got) != 3 || !eog(got[2]) || d.Stats().End != EndOfText {
			t.Errorf("%T: %v, %s", verifier, got, d.Stats().End)
		}
		for _, ban := range []engine.Sampling{{Banned: []int32{31, 40}},
			{LogitBias: map[int32]float32{31: negInf, 40: negInf}}, {BannedSequences: [][]int32{{31}, {40}}}} {
			ban.Constraint, ban.Temperature = c, 1
			if got, _ := collect(t, d, prompt, ban); len(got) != 2 || d.Stats().End != EndComplete {
				t.Errorf("%T, ends banned: %v, %s", verifier, got, d.Stats().End)
			}
		}
	}
}

// TestConstraintFails: errors of the constraint and constraints that leave no token end the text with an error that
// says so.
func TestConstraintFails(t *testing.T) {
	broken := errors.New("broken")
	for _, verifier := range []func() Verifier{Match, Rejection, Block} {
		for at := range int32(3) {
			c := &ruled{vocab: 64, next: func(s, id int32) int32 { return s + 1 }, fails: func(s int32) error {
				if s == at {
					return broken
				}
				return nil
			}}
			none := &ruled{vocab: 64, next: func(s, id int32) int32 {
				if s == at {
					return -1
				}
				return s + 1
			}}
			for _, x := range []struct {
				c    *ruled
				want error
			}{{c, broken}, {none, sampling.ErrConstraint}} {
				d := New(newFake(t, 64, 100, random(1)), nil, Options{Verifier: verifier()})
				n, failed := 0, error(nil)
				for _, err := range d.Generate(context.Background(), []int32{1}, engine.Sampling{Constraint: x.c, Temperature: 1}) {
					if failed = err; err == nil {
						n++
					}
				}
				if !errors.Is(failed, x.want) || !errors.Is(failed, sampling.ErrConstraint) || n != int(at) ||
					d.Stats().End != EndError {
					t.Errorf("%T at %d: %d tokens, %v, %s", verifier(), at, n, failed, d.Stats().End)
				}
			}
		}
	}
}
