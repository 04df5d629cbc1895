package speculative

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Merge lets several drafters draft for the same text and verifies all their drafts in one pass, as
// a tree in which they share their common beginnings. Each drafts as many tokens as the schedule
// asks for. Under rules that weigh p against q nothing is shared: two drafters that sampled the
// same token are two chances, and counting them as one would bend the distribution.
func Merge(drafters ...Drafter) Drafter { return &merge{drafters: drafters} }

type merge struct {
	drafters []Drafter
	wides    []int // chains that each drafts
	draft    Draft // of one drafter
	at       []int // of its tokens: where they are in the merged draft, -1 if nowhere
	probs    bool
}

// Branches is how many chains the tree may have.
func (m *merge) Branches() int {
	n := 0
	for _, d := range m.drafters {
		n += chains(d)
	}
	return n
}

// SetClock is called by the decoder.
func (m *merge) SetClock(now func() time.Duration) {
	for _, d := range m.drafters {
		if c, ok := d.(Clocked); ok {
			c.SetClock(now)
		}
	}
}

// chains is how many chains a drafter's draft may have.
func chains(d Drafter) int {
	if w, ok := d.(Branching); ok {
		return max(1, w.Branches())
	}
	return 1
}

// laneSet tells the drafters of nested merges apart: each has a number of its own.
type laneSet struct{ taken []int }

// take takes a number, or where it is taken the next that is not.
func (l *laneSet) take(n int) int {
	for slices.Contains(l.taken, n) {
		n++
	}
	l.taken = append(l.taken, n)
	return n
}

func (m *merge) Start(ctx context.Context, s Setup) error {
	m.draft.alloc(s.Longest)
	m.probs, m.wides = s.NeedsProbs, m.wides[:0]
	own := make([]int, len(m.drafters)) // all taken before the first drafter, which may be a merge, takes its own
	outer := s.lanes == nil
	if outer {
		s.lanes = &laneSet{}
	}
	n := s.Lane
	for i, d := range m.drafters {
		if d == nil {
			return fmt.Errorf("merged drafters: %w: drafter %d is nil", ErrOptions, i)
		}
		m.wides = append(m.wides, chains(d))
		switch {
		case outer:
			n = n*len(m.drafters) + i
			own[i] = s.lanes.take(n)
		case i == 0:
			own[i] = n // taken for the merge
		default:
			own[i] = s.lanes.take(n)
		}
	}
	for i, d := range m.drafters {
		s.Lane = own[i]
		if err := d.Start(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) Draft(ctx context.Context, text []int32, d *Draft) error {
	own := &m.draft
	own.vocab, own.ends, own.plan, own.least, own.Round = d.vocab, d.ends, d.plan, d.least, d.Round
	for i, drafter := range m.drafters {
		own.reset(min(d.Room(), nodes(d.deepest, m.wides[i], d.tree)), d.tree, d.deepest)
		if err := drafter.Draft(ctx, text, own); err != nil {
			return err
		}
		d.Passes += own.Passes
		m.at = m.at[:0]
		for i, id := range own.Tokens {
			node, next := -1, -1
			if before := own.Parent(i); before >= 0 {
				if node = m.at[before]; node < 0 {
					m.at = append(m.at, -1)
					continue
				}
			}
			if !m.probs {
				next = d.sibling(node, id)
			}
			if next < 0 && d.AddChild(node, id, own.Confidence[i], own.Probs[i]) {
				next = d.Len() - 1
			}
			m.at = append(m.at, next)
		}
	}
	return nil
}

func (m *merge) Observe(r *Round) {
	for _, d := range m.drafters {
		d.Observe(r)
	}
}
