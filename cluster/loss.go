package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// How long servers must say that a stream is not there until it counts as gone: those that are starting may say it.
// They are asked once in a pause, whatever the number of requests that wait.
const (
	lossTime  = 10 * time.Second
	lossPause = time.Second
)

// loss says whether a queue is lost, as where its servers have lost their disk: its streams are gone, or others of
// their names are there, which know neither the workers nor the lanes of the submitters that are running. Both end then
// and are to be started anew. The zero value knows of none.
type loss struct {
	mu     sync.Mutex
	after  time.Duration // lossTime, but in tests; 0: lossTime
	asking bool          // somebody asks the servers: the others go on with what is known
	looked time.Time     // when the servers were asked last
	since  time.Time     // since when they have said that a stream is not there; zero: the last time they did not
	err    error
}

// look is the error of a queue that is lost, nil while it is not known to be.
func (l *loss) look(ctx context.Context, q *Queue) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	after := cmp.Or(l.after, lossTime)
	if l.err != nil || l.asking || time.Since(l.looked) < min(lossPause, after) {
		return l.err
	}
	l.asking = true
	l.mu.Unlock()
	name, other, missing := q.changed(ctx)
	l.mu.Lock()
	l.asking, l.looked = false, time.Now()
	switch {
	case other:
		l.err = fmt.Errorf("%w: the stream %s is another one than before", errLost, name)
	case !missing:
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = l.looked
	case l.looked.Sub(l.since) >= after:
		l.err = fmt.Errorf("%w: the servers have no stream %s", errLost, name)
	}
	return l.err
}

// errLost is the error of a queue that does not come back.
var errLost = errors.New("the queue is lost; workers and submitters that are started anew make it")

// changed reports whether the servers say that a stream of the queue is not there, or that it is another one, and
// which. What they do not answer, or cannot say now, is neither.
func (q *Queue) changed(ctx context.Context) (name string, other, missing bool) {
	for _, name := range slices.Sorted(maps.Keys(q.made)) {
		switch s, err := q.js.Stream(ctx, name); {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return name, false, true
		case err != nil:
			return "", false, false
		case !s.CachedInfo().Created.Equal(q.made[name]):
			return name, true, false
		}
	}
	return "", false, false
}

// known is what look has said last.
func (l *loss) known() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
