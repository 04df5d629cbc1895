package serve

import (
	"container/list"
	"context"
	"net/http"
	"sync"
)

// queue admits answers: so many at once, and so many that wait. Each client has a line of its own, first come first
// served. A free place goes to the client that holds the fewest places for its weight, among equals to the one that
// was given the fewest so far, among those to who came first. A request for several places waits until all of them are
// free, and no other is admitted meanwhile. A full queue refuses, unless a client holds more than its share of it:
// then its newest requests make room.
type queue struct {
	most    int
	longest int // answers that may wait

	mu      sync.Mutex
	busy    int
	lines   []*share // of clients that wait
	waits   int      // answers that wait
	arrived int      // requests so far

	ends      int // places whose answers have ended, and that are not given back
	announced int // places of requests that wait and were announced

	clock float64 // what the client that was admitted last had been given before, by weight
}

// share is a client's part of the queue, whose lock guards it.
type share struct {
	weight  float64
	held    int       // places
	ending  int       // of them, those whose answers have ended
	waiting list.List // of *waiter
	waits   int       // answers in it
	given   float64   // places given so far by weight; who comes anew begins with the queue's clock
}

// waiter is a request that waits for places.
type waiter struct {
	n, order int
	bounded  bool          // it may be refused
	ready    chan struct{} // closed when it has its places, or is refused
	expect   func()        // announces one of its answers, when a place is about to become free; nil: nobody is told

	announced bool
	refused   bool
}

// errBusy is the answer when the queue is full.
func errBusy() *Error {
	return &Error{
		Status: http.StatusTooManyRequests, Type: typeBusy, Code: "queue_full",
		Message: "the queue is full; try again later",
	}
}

// enter waits for n places (at most all there are) and returns how many it got and what gives them back. bounded
// refuses instead of waiting when the queue is full.
func (q *queue) enter(ctx context.Context, who *share, n int, bounded bool) (places int, leave func(), err error) {
	return q.enterExpected(ctx, who, n, bounded, nil)
}

// enterExpected is enter, of a request that is announced by expect when it is about to get its places.
func (q *queue) enterExpected(ctx context.Context, who *share, n int, bounded bool, expect func()) (
	places int, leave func(), err error) {
	n = min(n, q.most)
	q.mu.Lock()
	if who.held == 0 && who.waits == 0 {
		who.given = max(who.given, q.clock)
	}
	if len(q.lines) == 0 && q.busy+n <= q.most {
		q.give(who, n)
		q.mu.Unlock()
		return n, q.leave(who, n), nil
	}
	if bounded && q.waits+n > q.longest && !q.makeRoom(who, n) {
		q.mu.Unlock()
		return 0, nil, errBusy()
	}
	q.arrived++
	w := &waiter{n: n, order: q.arrived, bounded: bounded, ready: make(chan struct{}), expect: expect}
	at := q.push(who, w)
	q.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		select {
		case <-w.ready: // both at once: the places are given back
			if !w.refused {
				q.take(who, n)
			}
		default:
			q.remove(who, at)
		}
		q.admit()
		return 0, nil, ctx.Err()
	}
	if w.refused {
		return 0, nil, errBusy()
	}
	return n, q.leave(who, n), nil
}

func (q *queue) leave(who *share, n int) func() {
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		ended := min(who.ending, n)
		who.ending -= ended
		q.ends -= ended
		q.take(who, n)
		q.admit()
	})
}

// The methods below are called with the lock held.

func (q *queue) give(who *share, n int) {
	q.clock = who.given
	who.given += float64(n) / who.weight
	q.hold(who, n)
}

func (q *queue) hold(who *share, n int) {
	who.held += n
	q.busy += n
}

func (q *queue) take(who *share, n int) { q.hold(who, -n) }

func (q *queue) push(who *share, w *waiter) *list.Element {
	if who.waits == 0 {
		q.lines = append(q.lines, who)
	}
	who.waits += w.n
	q.waits += w.n
	return who.waiting.PushBack(w)
}

func (q *queue) remove(who *share, at *list.Element) *waiter {
	w := who.waiting.Remove(at).(*waiter)
	if w.announced {
		q.announced -= w.n
	}
	q.waits -= w.n
	if who.waits -= w.n; who.waits == 0 {
		for i := range q.lines {
			if q.lines[i] == who {
				q.lines = append(q.lines[:i], q.lines[i+1:]...)
				break
			}
		}
	}
	return w
}

// ending says that a client's n places are about to become free, and announces who is next to have them. It is called
// without the lock.
func (q *queue) ending(who *share, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	who.ending += n
	q.ends += n
	q.take(who, n) // as those choose who give the places back
	defer q.hold(who, n)
	for {
		var first *share
		var next *waiter
		for _, s := range q.lines {
			if w := s.unannounced(); w != nil && (first == nil || s.before(first)) {
				first, next = s, w
			}
		}
		if next == nil || q.busy+n-q.ends+q.announced+next.n > q.most {
			return
		}
		next.announced = true
		q.announced += next.n
		for range next.n {
			next.expect()
		}
	}
}

// unannounced is the first request of a client that can be announced and was not.
func (s *share) unannounced() *waiter {
	for at := s.waiting.Front(); at != nil; at = at.Next() {
		if w := at.Value.(*waiter); w.expect != nil && !w.announced {
			return w
		}
	}
	return nil
}

// admit gives free places to those who wait.
func (q *queue) admit() {
	for len(q.lines) > 0 {
		who := q.lines[0]
		for _, s := range q.lines[1:] {
			if s.before(who) {
				who = s
			}
		}
		at := who.waiting.Front()
		n := at.Value.(*waiter).n
		if q.busy+n > q.most {
			return
		}
		w := q.remove(who, at)
		q.give(who, n)
		close(w.ready)
	}
}

// before reports whether a client that waits comes before another.
func (s *share) before(o *share) bool {
	if a, b := float64(s.held)/s.weight, float64(o.held)/o.weight; a != b {
		return a < b
	}
	if s.given != o.given {
		return s.given < o.given
	}
	return s.waiting.Front().Value.(*waiter).order < o.waiting.Front().Value.(*waiter).order
}

// makeRoom refuses the newest requests of the client that has most in a full queue for its weight, so that n answers
// of another may wait. It reports false, and refuses none, if the other would then have more than that client.
func (q *queue) makeRoom(who *share, n int) bool {
	var most *share
	for _, s := range q.lines {
		if s != who && (most == nil || float64(s.waits)/s.weight > float64(most.waits)/most.weight) {
			most = s
		}
	}
	if most == nil {
		return false
	}
	var newest []*list.Element
	room, left := q.longest-q.waits, most.waits
	for at := most.waiting.Back(); at != nil && room < n; at = at.Prev() {
		if w := at.Value.(*waiter); w.bounded {
			newest, room, left = append(newest, at), room+w.n, left-w.n
		}
	}
	if room < n || float64(who.waits+n)/who.weight > float64(left)/most.weight {
		return false
	}
	for _, at := range newest {
		w := q.remove(most, at)
		w.refused = true
		close(w.ready)
	}
	return true
}

// load is how many answers are computed and how many wait.
func (q *queue) load() (busy, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy, q.waits
}
