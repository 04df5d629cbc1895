package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// SubmitOptions say how requests are put into a queue.
type SubmitOptions struct {
	Queue    *Queue
	Identity string    // sum of the identity that is to answer
	Tenant   string    // whose requests take turns with those of others; "": default
	Priority string    // one of Priorities; "": normal
	Clock    time.Time // of lines that have none
	Retry    bool      // requests that were given up before are tried again
	Log      *slog.Logger
}

// Submitter puts requests into a queue and waits for their answers.
type Submitter struct {
	o       SubmitOptions
	q       *Queue
	lane    lane
	watcher jetstream.ConsumeContext

	mu      sync.Mutex
	waiting map[string][]chan struct{} // by key
	told    time.Time                  // when the log was told of a failure last

	lost  loss
	again time.Duration // again, but in tests
}

// NewSubmitter makes one. Close ends it.
func NewSubmitter(ctx context.Context, o SubmitOptions) (*Submitter, error) {
	if o.Tenant == "" {
		o.Tenant = "default"
	}
	if o.Priority == "" {
		o.Priority = "normal"
	}
	if !word.MatchString(o.Tenant) {
		return nil, fmt.Errorf("tenant %q: a name has letters, digits, - and _, at most 64", o.Tenant)
	}
	if !slices.Contains(Priorities, o.Priority) {
		return nil, fmt.Errorf("priority %q: not one of %s", o.Priority, strings.Join(Priorities, ", "))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Submitter{o: o, q: o.Queue, lane: lane{o.Identity, o.Priority, o.Tenant}, waiting: map[string][]chan struct{}{},
		again: again}
	if _, err := s.q.known.Put(ctx, s.lane.entry(), nil); err != nil {
		return nil, err
	}
	// Only the keys of what is stored from now on; answers are read one by one.
	c, err := s.q.answers.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverNewPolicy, HeadersOnly: true})
	if err != nil {
		return nil, err
	}
	s.watcher, err = c.Consume(func(m jetstream.Msg) {
		s.stored(m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:])
	},
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { o.Log.Warn("answers", "error", err) }))
	return s, err
}

// Close ends the watch for answers.
func (s *Submitter) Close() { s.watcher.Stop() }

// stored wakes those who wait for an answer.
func (s *Submitter) stored(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.waiting[key] {
		close(c)
	}
	delete(s.waiting, key)
}

func (s *Submitter) wait(key string) chan struct{} {
	c := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[key] = append(s.waiting[key], c)
	return c
}

// again is how often an answer is looked for though nothing told of it.
const again = time.Minute

// Do has the queue answer a request. What is stored is taken; what waits already is waited for. A request that was
// given up, or whose stored answer cannot be read, has status 500 and the reason. It waits for servers and workers that
// are not there until ctx ends. Where the servers are there and say that the queue is not, or is another one, as they
// do that have lost their disk, the status is 503: no worker would see the request.
func (s *Submitter) Do(ctx context.Context, r Request) (status int, answer []byte) {
	r, err := Complete(r, s.o.Clock)
	if err != nil {
		return http.StatusBadRequest, wrong("invalid_request_error", err.Error())
	}
	m, err := s.q.message(s.lane, r)
	if err != nil {
		return http.StatusRequestEntityTooLarge, wrong("invalid_request_error", err.Error())
	}
	key := m.Header.Get(headerKey)
	defer s.stored(key)
	c := s.wait(key) // before it is looked for: none is missed
	put, retry, forgot := false, s.o.Retry, false
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
		a, reason, err := s.result(ctx, key)
		switch {
		case err != nil:
		case a != nil:
			return a.Status, a.Body
		case reason != "" && retry:
			if err = s.q.forget(ctx, key); err == nil {
				retry, forgot = false, true
			}
		case reason != "":
			return http.StatusInternalServerError, wrong("dead_letter", reason)
		}
		if err == nil && !put {
			err = s.q.publish(ctx, m)
			there := isThere(err)
			if there {
				err = nil
			}
			// What is there may be what was given up: the worker tells of that before it removes it.
			if put = err == nil && !(there && forgot); put {
				retry = false                                          // what is given up from now on is so in spite of this try
				_ = s.q.nc.Publish(s.q.wakeSubject(s.o.Identity), nil) // workers look by themselves too
			}
		}
		if err != nil {
			if ctx.Err() == nil {
				s.failed(r.ID, err)
			}
			if err := s.lost.look(ctx, s.q); err != nil {
				return http.StatusServiceUnavailable, wrong("queue_lost", err.Error())
			}
			sleep(ctx, pause)
			continue
		}
		wait := s.again
		if put {
			pause = 50 * time.Millisecond
		} else {
			wait = pause
		}
		select {
		case <-c:
			c = s.wait(key)
		case <-time.After(wait):
			if !put {
				continue
			}
			if err := s.lost.look(ctx, s.q); err != nil {
				return http.StatusServiceUnavailable, wrong("queue_lost", err.Error())
			}
			put = false // a queue that has lost it gets it again
		case <-ctx.Done():
		}
	}
	return 499, wrong("cancelled", ctx.Err().Error())
}

// tellPause is how much time lies between two lines of the log about a queue that fails: all requests see it.
const tellPause = 10 * time.Second

// failed tells of a queue that fails.
func (s *Submitter) failed(id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told.IsZero() || time.Since(s.told) >= tellPause {
		s.told = time.Now()
		s.o.Log.Warn("the queue fails", "id", id, "error", err)
	}
}

// result is a stored answer, or why the request was given up or has none that can be read.
func (s *Submitter) result(ctx context.Context, key string) (a *Answer, reason string, err error) {
	if a, err = s.q.answer(ctx, key); errors.Is(err, errUnreadable) {
		return nil, err.Error(), nil
	}
	if a != nil || err != nil {
		return a, "", err
	}
	m, err := s.q.last(ctx, s.q.deadSubject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	return nil, fmt.Sprintf("given up after %s tries: %s", m.Header.Get(headerTries), m.Header.Get(headerReason)), nil
}

// isThere reports whether a request was not put into the queue since it is there.
func isThere(err error) bool {
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && strings.Contains(api.Description, "maximum messages per subject exceeded")
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// wrong is an error as the endpoints write it.
func wrong(kind, reason string) []byte {
	type body struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	text, _ := json.Marshal(struct { // texts can be marshalled
		Error body `json:"error"`
	}{body{reason, kind}})
	return text
}
