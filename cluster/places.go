package cluster

import (
	"context"
	"sync"
	"time"
)

// places are where a worker answers requests, so many at once. Where the queue's time counts beside that of an answer,
// it takes a few requests before their places are free, so that no place waits for the queue.
type places struct {
	most    int
	free    chan struct{} // one for each request more that may be answered, or wait where it is answered
	storing chan struct{} // as many answers are stored at once
	changed chan struct{} // a request has had its place, or went back

	mu            sync.Mutex
	held          int           // requests that wait for a place, or have one
	busy          int           // requests that are answered, or wait there
	since         []time.Time   // since when each free place has been free
	answer, queue time.Duration // means: of an answer, and of what is done of a request before it
}

// A worker takes requests ahead where the queue's part of a request is more than 1/aheadWorth of its answer: where it
// is less, a request ahead would win nothing, and other workers with free places would not get it.
const (
	aheadWorth = 100
	leastAhead = 2
	meanPart   = 8  // of a time in the mean: 1/8
	mostAtOnce = 64 // requests that the queue is asked for
)

// newPlaces makes n places. queues: requests that are taken ahead wait where they are answered.
func newPlaces(n int, queues bool) *places {
	p := &places{most: n, storing: make(chan struct{}, 2*n), changed: make(chan struct{}, 1),
		since: make([]time.Time, n)}
	all := n
	if queues {
		all += p.ahead()
	}
	p.free = make(chan struct{}, all)
	for range all {
		p.free <- struct{}{}
	}
	return p
}

// ahead is how many requests are taken ahead.
func (p *places) ahead() int { return max(leastAhead, p.most/2) }

// hold waits until requests may be taken, and says how many; 0: ctx has ended. leave ends the hold of one.
func (p *places) hold(ctx context.Context) int {
	for ctx.Err() == nil {
		if n := p.admit(); n > 0 {
			return n
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
		}
	}
	return 0
}

// admit counts as many requests more as may be taken.
func (p *places) admit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.most
	if p.answer > 0 && p.queue*aheadWorth > p.answer {
		most += p.ahead()
	}
	n := max(0, min(most-p.held, mostAtOnce))
	p.held += n
	return n
}

func (p *places) leave() {
	p.mu.Lock()
	p.held--
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// enter waits for a place, or for where to wait for one. idle is how long its place has waited for the request, which
// was asked for at a time; 0 where it has to wait. end follows.
func (p *places) enter(ctx context.Context, asked time.Time) (idle time.Duration, ok bool) {
	select {
	case <-p.free:
	case <-ctx.Done():
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy++; p.busy > p.most {
		return 0, true
	}
	since := p.since[len(p.since)-1]
	p.since = p.since[:len(p.since)-1]
	if since.Before(asked) {
		since = asked
	}
	return time.Since(since), true
}

// end ends what enter began.
func (p *places) end() {
	p.mu.Lock()
	if p.busy--; p.busy < p.most { // else one that waited has the place
		p.since = append(p.since, time.Now())
	}
	p.mu.Unlock()
	p.free <- struct{}{}
}

// learn takes what an answer took, and what was done of its request before.
func (p *places) learn(answer, queue time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range []struct {
		mean *time.Duration
		took time.Duration
	}{{&p.answer, answer}, {&p.queue, queue}} {
		if *x.mean == 0 {
			*x.mean = x.took
		}
		*x.mean += (x.took - *x.mean) / meanPart
	}
}
