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
	draft    Draft // of one drafter
	separate bool  // nothing is shared
	shortage []shortage
	suffices func(*Draft) bool // of a draft: the drafters that are left are not asked; nil: all are
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

func (m *merge) Start(ctx context.Context, s Setup) error {
	m.draft.alloc(s.Longest + ForcedMost)
	m.separate = s.NeedsProbs
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
	for i, drafter := range m.drafters {
		if !m.shortage[i].over(d.Round) || !d.Sub(own, m, i) {
			continue
		}
		if err := drafter.Draft(ctx, sequence, own); refused(err) { // the others go on
			m.shortage[i].begin(d.Round)
		} else if err != nil {
			return err
		} else if own.Len() > own.forced {
			m.shortage[i].drafted()
		}
		if !d.Join(own, m.separate) || m.suffices != nil && m.suffices(d) {
			return nil
		}
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

// Sub makes sub the draft of drafter i of a merge, bounded by what d has room for, with the schedule and the forced
// tokens of d. It reports whether that drafter is to draft now: a schedule may choose ([Choosing]), and not all go on
// from forced tokens ([Continuing]). [Draft.Join] adds the tokens to d. sub may be of an earlier Sub, whose memory it
// uses again.
func (d *Draft) Sub(sub *Draft, of Merging, i int) (ask bool) {
	all := of.Drafters()
	drafter, lane := all[i], d.lane
	for _, o := range all[:i] {
		lane += leaves(o)
	}
	if d.prefix > 0 && !continues(drafter) {
		return false
	}
	sub.vocab, sub.isEnd, sub.schedule, sub.minTokens, sub.Round = d.vocab, d.isEnd, d.schedule, d.minTokens, d.Round
	sub.rules, sub.root, sub.draftRoom = d.rules, d.root, draftRoom{d.rows, d.distributions()}
	if d.rows > 0 { // what is there already has its rows
		sub.rows -= d.Len() - d.prefix
	}
	sub.begin(d)
	longest := d.maxDepth - d.prefix
	sub.extend(min(d.Room(), nodes(longest, chains(drafter), d.treeMax)), d.treeMax, longest)
	sub.lane, sub.before = lane, d.before+d.Len()-d.prefix
	c, ok := d.schedule.(Choosing)
	return !ok || leaves(drafter) > 1 || c.Begin(lane, sub.before)
}

// Join adds the tokens of a draft that [Draft.Sub] made, beginnings that d has already only once, and its passes.
// Nothing is shared where they are separate: under verifiers that need probabilities, two drafters that sampled the
// same token are two draws. Join reports whether the draft may go on.
func (d *Draft) Join(sub *Draft, separate bool) bool {
	d.Passes += sub.Passes
	lane := d.lane
	sub.joined = sub.joined[:0]
	for i, id := range sub.Tokens {
		if i < d.prefix {
			sub.joined = append(sub.joined, i)
			continue
		}
		d.lane, d.Source, d.forcing = sub.laneOf(i), sub.Sources[i], sub.isForced(i)
		node, next := -1, -1
		if before := sub.Parent(i); before >= 0 {
			if node = sub.joined[before]; node < 0 {
				sub.joined = append(sub.joined, -1)
				continue
			}
		}
		if !separate {
			next = d.anyChild(node, id)
		}
		if next < 0 && d.AddChild(node, id, sub.Confidence[i], sub.Probs[i]) {
			next = d.Len() - 1
		}
		sub.joined = append(sub.joined, next)
	}
	d.lane, d.Source, d.forcing = lane, SourceDraft, false
	if d.err == nil {
		d.err = sub.err
	}
	return d.err == nil
}
