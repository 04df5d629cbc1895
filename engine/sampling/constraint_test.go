package sampling

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// table is a constraint: by state the tokens that are allowed, with the state after each.
type table struct {
	next  []map[int32]int32
	final []bool
	err   error
}

func (c *table) Start() int32 { return 0 }
func (c *table) Next(state, id int32) (int32, bool, error) {
	to, ok := c.next[state][id]
	return to, ok, c.err
}
func (c *table) Mask(state int32) ([]uint64, error) {
	mask := make([]uint64, 2)
	for id := range c.next[state] {
		mask[id/64] |= 1 << (id % 64)
	}
	return mask, c.err
}
func (c *table) Forced(int32) ([]int32, error) { return nil, nil }
func (c *table) Final(state int32) bool        { return c.final[state] }

// threeStates allows 3, 5 or 70, then 1 after 3 or 5 and 2 after 70, then nothing: the text is complete.
func threeStates() *table {
	return &table{
		next:  []map[int32]int32{{3: 1, 5: 1, 70: 2}, {1: 3}, {2: 3}, {}},
		final: []bool{false, false, false, true},
	}
}

// TestConstraint: only allowed tokens are chosen, by every way of choosing, before filters and after penalties and
// bans.
func TestConstraint(t *testing.T) {
	const vocab = 100
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(i%7) - 0.01*float32(i) // 6 is greatest, then 13; 5 is the greatest allowed
	}
	logits[0] = float32(math.NaN()) // of a forbidden token: does not matter
	prompt := []int32{9, 9, 9}
	for _, o := range []Options{
		{}, {Temperature: 0.9, Seed: 7}, {Temperature: 0.9, TopK: 1}, {Temperature: 2, TopP: 0.9},
		{Temperature: 2, MinP: 0.01},
		{TopK: 3, RepeatPenalty: 1.2}, {Banned: []int32{5}}, {Temperature: 1, Banned: []int32{5}},
	} {
		o.Constraint, o.ConstraintFrom = threeStates(), len(prompt)
		s, err := New(vocab, o)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%+v", o)
		text := slices.Clone(prompt)
		first := s.Pick(logits, text)
		if !slices.Contains([]int32{3, 5, 70}, first) || s.Err() != nil {
			t.Fatalf("%s: first token %d, %v", name, first, s.Err())
		}
		if o.TopK == 1 && first != 5 {
			t.Errorf("%s: %d: the mask was applied after top-k", name, first)
		}
		if len(o.Banned) > 0 && first == 5 {
			t.Errorf("%s: a banned token", name)
		}
		for _, p := range append(s.AppendBest(nil, 5, logits, text), s.AppendDistribution(nil, logits, text)...) {
			if !slices.Contains([]int32{3, 5, 70}, p.ID) {
				t.Errorf("%s: token %d may be drawn", name, p.ID)
			}
		}
		// Branches of a tree, in any order, each with the state of its own path.
		for _, branch := range [][2]int32{{3, 1}, {70, 2}, {5, 1}, {70, 2}} {
			path := append(slices.Clone(prompt), branch[0])
			if id := s.Pick(logits, path); id != branch[1] {
				t.Errorf("%s: after %d: %d, want %d", name, branch[0], id, branch[1])
			}
			path = append(path, branch[1])
			if id := s.Pick(logits, path); id != -1 || s.Err() != ErrComplete {
				t.Errorf("%s: after the end: %d, %v", name, id, s.Err())
			}
			if p := s.AppendDistribution(s.AppendBest(nil, 3, logits, path), logits, path); len(p) > 0 {
				t.Errorf("%s: after the end: %v", name, p)
			}
		}
		if id := s.Pick(logits, text); id != first || s.Err() != nil {
			t.Errorf("%s: again: %d, %v", name, id, s.Err())
		}
	}
}

// TestConstraintRefuses: errors of the constraint, of histories that it does not allow, and of bans that leave nothing.
func TestConstraintRefuses(t *testing.T) {
	logits := make([]float32, 100)
	pick := func(o Options, history ...int32) error {
		s, err := New(100, o)
		if err != nil {
			t.Fatal(err)
		}
		if id := s.Pick(logits, history); id != -1 {
			t.Errorf("%v: token %d", history, id)
		}
		return s.Err()
	}
	c := threeStates()
	if err := pick(Options{Constraint: c, Banned: []int32{3, 5, 70}}); !errors.Is(err, ErrBanned) ||
		errors.Is(err, ErrComplete) {
		t.Errorf("all banned: %v", err)
	}
	if err := pick(Options{Constraint: c, Temperature: 1}, 3, 3); !errors.Is(err, ErrConstraint) {
		t.Errorf("history: %v", err)
	}
	if err := pick(Options{Constraint: c, ConstraintFrom: 2}, 3); !errors.Is(err, ErrConstraint) {
		t.Errorf("short history: %v", err)
	}
	broken := threeStates()
	broken.err = errors.New("broken")
	if err := pick(Options{Constraint: broken}); !errors.Is(err, ErrConstraint) || !errors.Is(err, broken.err) {
		t.Errorf("failed mask: %v", err)
	}
	if err := pick(Options{Constraint: broken}, 3); !errors.Is(err, ErrConstraint) || !errors.Is(err, broken.err) {
		t.Errorf("failed step: %v", err)
	}
	if _, err := New(100, Options{ConstraintFrom: -1}); !errors.Is(err, ErrSampling) {
		t.Errorf("negative position: %v", err)
	}
}

// TestConstraintLongHistory: histories that share a long beginning, which is compared in blocks, and differ anywhere in
// it.
func TestConstraintLongHistory(t *testing.T) {
	// Allows 1 and 2; after an odd number of twos only 2.
	c := &table{next: []map[int32]int32{{1: 0, 2: 1}, {2: 0}}, final: []bool{true, true}}
	s, err := New(3, Options{Constraint: c, ConstraintFrom: 1})
	if err != nil {
		t.Fatal(err)
	}
	logits := []float32{9, 1, 0}
	for n := range 300 {
		history := append([]int32{0}, slices.Repeat([]int32{1}, n)...)
		if id := s.Pick(logits, history); id != 1 {
			t.Fatalf("%d ones: %d", n, id)
		}
		if n == 0 {
			continue
		}
		history[n] = 2
		if id := s.Pick(logits, history); id != 2 {
			t.Fatalf("%d ones, the last replaced: %d", n, id)
		}
		history[(n+1)/2], history[n] = 2, 2
		if n > 3 {
			if id := s.Pick(logits, history); id != -1 {
				t.Fatalf("%d ones, the middle replaced: %d", n, id) // 2 then 1 is not allowed
			}
		}
	}
}

// TestConstrainWords: the mask of a random constraint, sparse, dense and full, with vocabularies that do not end with a
// word.
func TestConstrainWords(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, vocab := range []int{1, 63, 64, 65, 127, 200, 320} {
		for _, share := range []float64{0, 0.02, 0.3, 0.38, 0.5, 0.98, 1} {
			allowed := map[int32]int32{}
			for id := range int32(vocab) {
				if random.Float64() < share {
					allowed[id] = 0
				}
			}
			s, err := New(vocab, Options{Temperature: 1, Constraint: &wideTable{allowed, (vocab + 63) / 64, vocab}})
			if err != nil {
				t.Fatal(err)
			}
			logits := make([]float32, vocab)
			for i := range logits {
				logits[i] = float32(i)
			}
			x := s.adjust(logits, nil)
			for id := range int32(vocab) {
				if _, ok := allowed[id]; ok != (x[id] == float32(id)) || !ok && x[id] != negInf {
					t.Fatalf("vocabulary %d, share %v: token %d is %v, allowed %v", vocab, share, id, x[id], ok)
				}
			}
			if (s.Err() == nil) != (len(allowed) > 0) {
				t.Fatalf("vocabulary %d: %d allowed, %v", vocab, len(allowed), s.Err())
			}
		}
	}
}

// wideTable allows the same tokens in one state, with a mask whose last word has bits beyond the vocabulary.
type wideTable struct {
	allowed map[int32]int32
	words   int
	vocab   int
}

func (c *wideTable) Start() int32 { return 0 }
func (c *wideTable) Next(_, id int32) (int32, bool, error) {
	_, ok := c.allowed[id]
	return 0, ok, nil
}
func (c *wideTable) Mask(int32) ([]uint64, error) {
	mask := make([]uint64, c.words)
	for i := range int32(64 * c.words) {
		if _, ok := c.allowed[i]; ok {
			mask[i/64] |= 1 << (i % 64)
		}
	}
	if c.vocab%64 != 0 {
		mask[c.words-1] |= 1 << 63 // beyond the vocabulary
	}
	return mask, nil
}
func (c *wideTable) Forced(int32) ([]int32, error) { return nil, nil }
func (c *wideTable) Final(int32) bool              { return false }
