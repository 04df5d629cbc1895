package spec

import (
	"context"
	"errors"
	"sync"
)

// ErrSlowReader is why answers end whose events are not read fast enough, see [Run].
var ErrSlowReader = errors.New("spec: the events are read too slowly")

// message is an event on its way from the goroutine of an answer, or its error.
type message struct {
	event Event
	err   error
}

// buffer lies between the goroutines of answers and the reader of their events.
type buffer struct {
	most  int
	waits bool // when it is full, writers wait; else the answers end

	mu       sync.Mutex
	messages []message
	open     int // answers that still write
	full     bool
	ready    chan struct{} // has an element when there may be something to take
	room     chan struct{} // closed and replaced when something was taken
}

func newBuffer(most, writers int, waits bool) *buffer {
	return &buffer{most: most, open: writers, waits: waits, ready: make(chan struct{}, 1), room: make(chan struct{})}
}

// put adds a message. It reports false if there is no room, or ctx ends first: the answer must end.
func (b *buffer) put(ctx context.Context, m message) bool {
	b.mu.Lock()
	for b.waits && len(b.messages) >= b.most {
		room := b.room
		b.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	if b.full = b.full || len(b.messages) >= b.most; b.full {
		b.notify()
		return false
	}
	b.messages = append(b.messages, m)
	b.notify()
	return true
}

// close is called for each answer when it has ended, with its last message, for which there is always room.
func (b *buffer) close(last message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = append(b.messages, last)
	b.open--
	b.notify()
}

func (b *buffer) notify() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// now moves the messages that are there to dst, and says whether there were too many, and how many answers still write.
func (b *buffer) now(dst []message) (moved []message, full bool, open int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	moved = append(dst[:0], b.messages...)
	clear(b.messages)
	b.messages = b.messages[:0]
	close(b.room)
	b.room = make(chan struct{})
	return moved, b.full, b.open
}

// take waits for messages and moves them to dst. It returns false when all answers have ended and everything was taken.
func (b *buffer) take(ctx context.Context, dst []message) ([]message, bool, error) {
	for {
		var full bool
		var open int
		dst, full, open = b.now(dst)
		switch {
		case full:
			return nil, false, ErrSlowReader
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
