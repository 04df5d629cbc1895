package speculative

import "context"

// Replay drafts a recorded continuation of the prompt, if asked for with an error in every so many tokens. It makes
// acceptance exact: for tests, and to measure what speculation can gain.
func Replay(o ReplayOptions) Drafter {
	return &replay{record: o.Tokens, every: o.ErrorEvery}
}

// ReplayOptions configure [Replay].
type ReplayOptions struct {
	Tokens     []int32 // the continuation
	ErrorEvery int     // tokens n, 2n, 3n, ..., counted from 1, are replaced by others; 0: none
}

type replay struct {
	record        []int32
	every, prompt int
}

func (p *replay) Start(_ context.Context, s Setup) error {
	p.prompt = len(s.Prompt)
	return nil
}

func (p *replay) Draft(_ context.Context, sequence []int32, d *Draft) error {
	for i := len(sequence) - p.prompt + d.Len(); i < len(p.record) && d.More(); i++ {
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

// Continues says that the record continues forced tokens.
func (p *replay) Continues() bool { return true }

func (p *replay) Observe(*Round) {}
