package serve

import (
	"context"
	"errors"
	"sync"
)

// errSlowReader is why a request ends whose client does not read.
var errSlowReader = errors.New("serve: the client reads too slowly")

// buffer lies between decoders and the client's connection. Decoders put pieces in and never wait; when it is full the
// request is cancelled.
type buffer struct {
	most int

	mu     sync.Mutex
	pieces []piece
	open   int // decoders that still write
	full   bool
	ready  chan struct{} // has an element when there may be something to take
}

func newBuffer(most, writers int) *buffer {
	return &buffer{most: most, open: writers, ready: make(chan struct{}, 1)}
}

// put adds a piece. It reports false if there is no room: the decoder must end.
func (b *buffer) put(p piece) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full = b.full || len(b.pieces) >= b.most; b.full {
		b.notify()
		return false
	}
	b.pieces = append(b.pieces, p)
	b.notify()
	return true
}

// close is called by each decoder when it has ended, with its last piece, for which there is always room.
func (b *buffer) close(last piece) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pieces = append(b.pieces, last)
	b.open--
	b.notify()
}

func (b *buffer) notify() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take waits for pieces and moves them to dst. It returns false when all decoders have ended and everything was taken.
func (b *buffer) take(ctx context.Context, dst []piece) ([]piece, bool, error) {
	for {
		b.mu.Lock()
		dst = append(dst[:0], b.pieces...)
		clear(b.pieces)
		b.pieces = b.pieces[:0]
		full, open := b.full, b.open
		b.mu.Unlock()
		switch {
		case full:
			return nil, false, errSlowReader
		case len(dst) > 0:
			return dst, true, nil
		case open == 0:
			return nil, false, nil
		}
		select {
		case <-b.ready:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}
