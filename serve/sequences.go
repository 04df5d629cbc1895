package serve

import (
	"context"
	"sync"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// sequence is a model's sequence in the hands of one task.
type sequence interface {
	speculative.Sequence
	Tokens() []int32
	Model() *engine.Model
	Close()
}

// sequences makes sequences of one model. prompt is what will be fed first: one that begins like it is preferred.
type sequences interface {
	open(ctx context.Context, prompt []int32) (sequence, error)
	close()
}

// private sequences are sessions of their own: each pass serves one of them. Closed ones are kept with their caches for
// prompts that begin alike.
type private struct {
	m    *engine.Model
	o    engine.SessionOptions
	keep int // sessions

	mu     sync.Mutex
	idle   []*engine.Session // the one that was used last at the end
	closed bool
}

// lent is a private sequence in use.
type lent struct {
	*engine.Session
	from *private
}

func (p *private) open(_ context.Context, prompt []int32) (sequence, error) {
	p.mu.Lock()
	best, longest := -1, 0
	for i, s := range p.idle {
		if n := common(s.Tokens(), prompt); n > longest {
			best, longest = i, n
		}
	}
	if best < 0 && len(p.idle) >= p.keep && p.keep > 0 {
		best = 0
	}
	if best >= 0 {
		s := p.idle[best]
		p.idle = append(p.idle[:best], p.idle[best+1:]...)
		p.mu.Unlock()
		return &lent{s, p}, nil
	}
	p.mu.Unlock()
	s, err := p.m.NewSession(p.o)
	if err != nil {
		return nil, err
	}
	return &lent{s, p}, nil
}

// Close keeps the session for another text, or closes it.
func (l *lent) Close() {
	p := l.from
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.keep {
		l.Session.Close()
		return
	}
	p.idle = append(p.idle, l.Session)
}

func (p *private) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.idle {
		s.Close()
	}
	p.idle = nil
}

// common is the length of the common beginning.
func common(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
