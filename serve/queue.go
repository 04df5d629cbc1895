package serve

import (
	"container/list"
	"context"
	"net/http"
	"sync"
)

// queue admits answers, first come first served: so many at once, and so many that wait.
type queue struct {
	most    int
	longest int // answers that may wait

	mu      sync.Mutex
	busy    int
	waiting list.List // of *waiter
	waits   int       // answers that wait
}

// waiter is a request that waits for places.
type waiter struct {
	n     int
	ready chan struct{}
}

// errBusy is the answer when the queue is full.
func errBusy() *Error {
	return &Error{Status: http.StatusTooManyRequests, Type: typeBusy, Code: "queue_full", Message: "the queue is full; try again later"}
}

// enter waits for n places (at most all there are) and returns how many it got and what gives them back. bounded refuses
// instead of waiting when the queue is full.
func (q *queue) enter(ctx context.Context, n int, bounded bool) (places int, leave func(), err error) {
	n = min(n, q.most)
	q.mu.Lock()
	if q.waiting.Len() == 0 && q.busy+n <= q.most {
		q.busy += n
		q.mu.Unlock()
		return n, q.leave(n), nil
	}
	if bounded && q.waits+n > q.longest {
		q.mu.Unlock()
		return 0, nil, errBusy()
	}
	w := &waiter{n, make(chan struct{})}
	at := q.waiting.PushBack(w)
	q.waits += n
	q.mu.Unlock()
	select {
	case <-w.ready:
		return n, q.leave(n), nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-w.ready: // both at once: the places are given back
		q.busy -= n
	default:
		q.waiting.Remove(at)
		q.waits -= n
	}
	q.admit()
	return 0, nil, ctx.Err()
}

func (q *queue) leave(n int) func() {
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.busy -= n
		q.admit()
	})
}

// admit gives free places to those who wait, in order. The lock is held.
func (q *queue) admit() {
	for e := q.waiting.Front(); e != nil; e = q.waiting.Front() {
		w := e.Value.(*waiter)
		if q.busy+w.n > q.most {
			return
		}
		q.waiting.Remove(e)
		q.waits -= w.n
		q.busy += w.n
		close(w.ready)
	}
}

// load is how many answers are computed and how many wait.
func (q *queue) load() (busy, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy, q.waits
}
