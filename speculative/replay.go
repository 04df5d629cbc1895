package speculative

import "context"

// Replay drafts a recorded continuation of the prompt, with every errorEvery-th token of the record
// (counted from 1; 0: none) replaced by another one. It makes acceptance exact: for tests and for
// measuring what speculation could gain.
func Replay(o ReplayOptions) Drafter {
	return &replay{record: o.Tokens, every: o.ErrorEvery}
}

// ReplayOptions configure [Replay].
type ReplayOptions struct {
	Tokens     []int32 // the record: what follows the prompt
	ErrorEvery int     // replace every so many-th token by another one; 0: none
}

type replay struct {
	record        []int32
	every, prompt int
}

func (p *replay) Start(_ context.Context, s Setup) error {
	p.prompt = len(s.Prompt)
	return nil
}

func (p *replay) Draft(_ context.Context, text []int32, d *Draft) error {
	for i := len(text) - p.prompt; i < len(p.record) && d.More(); i++ {
		id := p.record[i]
		if p.every > 0 && (i+1)%p.every == 0 {
			id = (id + 1) % int32(d.Vocab())
		}
		if !d.Add(id, 1, nil) {
			break
		}
	}
	return nil
}

func (p *replay) Observe(*Round) {}
