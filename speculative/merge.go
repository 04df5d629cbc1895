package speculative

import "context"

// Merge lets several drafters draft for the same text and verifies all their drafts in one pass, as
// a tree in which they share their common beginnings. Each drafts as many tokens as the schedule
// asks for. Under rules that weigh p against q nothing is shared: two drafters that sampled the
// same token are two chances, and counting them as one would bend the distribution.
func Merge(drafters ...Drafter) Drafter { return &merge{drafters: drafters} }

type merge struct {
	drafters []Drafter
	draft    Draft // of one drafter
	at       []int // of its tokens: where they are in the merged draft, -1 if nowhere
	probs    bool
}

// wide is how many chains the tree may have.
func (m *merge) wide() int { return len(m.drafters) }

func (m *merge) Start(ctx context.Context, s Setup) error {
	m.draft.alloc(s.Longest)
	m.probs = s.Probs
	for i, d := range m.drafters {
		s.Lane = s.Lane*len(m.drafters) + i
		if err := d.Start(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) Draft(ctx context.Context, text []int32, d *Draft) error {
	own := &m.draft
	own.vocab, own.ends, own.plan, own.least, own.Round = d.vocab, d.ends, d.plan, d.least, d.Round
	for _, drafter := range m.drafters {
		own.reset(min(d.Room(), d.deepest), d.deepest)
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
