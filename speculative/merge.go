package speculative

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Merge verifies the drafts of several drafters in one pass, as a tree in which common beginnings are shared. Each
// drafts as many tokens as the schedule asks for. Under verifiers that need probabilities nothing is shared: two
// drafters that sampled the same token are two draws, and counting them as one would change the distribution. Merges
// may nest.
func Merge(drafters ...Drafter) Drafter { return &merge{drafters: drafters} }

type merge struct {
	drafters []Drafter
	branches []int // chains that each drafts
	draft    Draft // of one drafter
	at       []int // index in the merged draft of each of its tokens, -1: not in it
	separate bool  // nothing is shared
	shortage []shortage
}

// Drafters are those that are merged.
func (m *merge) Drafters() []Drafter { return m.drafters }

// Branches is the sum of those of the drafters.
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

// leaves is the number of drafters in a drafter.
func leaves(d Drafter) int {
	m, ok := d.(Merging)
	if !ok {
		return 1
	}
	n := 0
	for _, d := range m.Drafters() {
		n += leaves(d)
	}
	return n
}

// Lanes gives each drafter of nested merges a lane of its own, as [Setup].Lane.
type Lanes struct{ taken []int }

// Take takes lane n, or the next one that is free.
func (l *Lanes) Take(n int) int {
	for slices.Contains(l.taken, n) {
		n++
	}
	l.taken = append(l.taken, n)
	return n
}

func (m *merge) Start(ctx context.Context, s Setup) error {
	m.draft.alloc(s.Longest + forcedMost)
	m.separate, m.branches = s.NeedsProbs, m.branches[:0]
	m.shortage = append(m.shortage[:0], make([]shortage, len(m.drafters))...)
	own := make([]int, len(m.drafters)) // all taken before a nested merge takes its own
	outer := s.Lanes == nil
	if outer {
		s.Lanes = &Lanes{}
	}
	n := s.Lane
	for i, d := range m.drafters {
		if d == nil {
			return fmt.Errorf("merged drafters: %w: drafter %d is nil", ErrOptions, i)
		}
		m.branches = append(m.branches, chains(d))
		switch {
		case outer:
			n = n*len(m.drafters) + i
			own[i] = s.Lanes.Take(n)
		case i == 0:
			own[i] = n // the lane of this merge
		default:
			own[i] = s.Lanes.Take(n)
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

func (m *merge) Draft(ctx context.Context, sequence []int32, d *Draft) error {
	own := &m.draft
	own.vocab, own.isEnd, own.schedule, own.minTokens, own.Round = d.vocab, d.isEnd, d.schedule, d.minTokens, d.Round
	own.rules, own.root = d.rules, d.root
	base := d.lane
	defer func() { d.lane = base }()
	lane := base
	for i, drafter := range m.drafters {
		if d.prefix > 0 && !continues(drafter) || !m.shortage[i].over(d.Round) {
			lane += leaves(drafter)
			continue
		}
		own.begin(d)
		own.extend(min(d.Room(), nodes(d.maxDepth-d.prefix, m.branches[i], d.treeMax)), d.treeMax, d.maxDepth-d.prefix)
		own.lane, own.before, d.lane = lane, d.before+d.Len()-d.prefix, lane
		lane += leaves(drafter)
		if c, ok := d.schedule.(Choosing); ok && leaves(drafter) == 1 && !c.Begin(own.lane, own.before) {
			continue
		}
		if err := drafter.Draft(ctx, sequence, own); refused(err) { // the others go on
			m.shortage[i].begin(d.Round)
		} else if err != nil {
			return err
		} else if own.Len() > own.forced {
			m.shortage[i].drafted()
		}
		d.Passes += own.Passes
		if d.err = own.err; d.err != nil {
			return nil
		}
		m.at = m.at[:0]
		for i, id := range own.Tokens {
			if i < d.prefix {
				m.at = append(m.at, i)
				continue
			}
			d.lane, d.Source, d.forcing = own.laneOf(i), own.Sources[i], own.isForced(i)
			node, next := -1, -1
			if before := own.Parent(i); before >= 0 {
				if node = m.at[before]; node < 0 {
					m.at = append(m.at, -1)
					continue
				}
			}
			if !m.separate {
				next = d.anyChild(node, id)
			}
			if next < 0 && d.AddChild(node, id, own.Confidence[i], own.Probs[i]) {
				next = d.Len() - 1
			}
			m.at = append(m.at, next)
		}
		d.Source, d.forcing = SourceDraft, false
	}
	return nil
}

// Continues reports whether one of the drafters continues forced tokens.
func (m *merge) Continues() bool { return slices.ContainsFunc(m.drafters, continues) }

func (m *merge) Observe(r *Round) {
	for _, d := range m.drafters {
		d.Observe(r)
	}
}
