package selftest

import (
	"context"

	"github.com/specgo/spec/speculative"
)

// branches drafts trees: at every level a wrong token and then the recorded one, which is left out at
// every fourth position.
type branches struct {
	record []int32
	prompt int
}

func (b *branches) Start(_ context.Context, s speculative.Setup) error {
	b.prompt = len(s.Prompt)
	return nil
}

func (b *branches) Draft(_ context.Context, text []int32, d *speculative.Draft) error {
	parent := -1
	for i := len(text) - b.prompt; i < len(b.record) && d.Room() > 0 && (parent < 0 || d.More()); i++ {
		d.AddChild(parent, (b.record[i]+1)%int32(d.Vocab()), 0.5, nil)
		if i%4 == 3 || !d.AddChild(parent, b.record[i], 0.9, nil) {
			break
		}
		parent = d.Len() - 1
	}
	return nil
}

func (b *branches) Observe(*speculative.Round) {}
