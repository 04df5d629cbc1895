package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The time that an answer takes is none of that which storing it may take.
func TestAnswersThatTakeLongAreStored(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	q.callTime = 200 * time.Millisecond
	var done atomic.Int64
	do := func(ctx context.Context, r Request) (int, []byte) {
		time.Sleep(2 * q.callTime)
		done.Add(1)
		return echo(ctx, r)
	}
	w, err := NewWorker(t.Context(), WorkerOptions{Queue: q, Identity: identity("a"), Do: do})
	if err != nil {
		t.Fatal(err)
	}
	runs(t, w)
	if status, answer := submitter(t, q, nil).Do(t.Context(), request(1)); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if done.Load() != 1 {
		t.Errorf("computed %d times", done.Load())
	}
}

// runs runs a worker until stop is called, or the test ends.
func runs(t *testing.T, w *Worker) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	return stop
}

// Requests are taken ahead where the queue takes a good part of their time, a few, and none where it does not. When the
// worker is told to stop they go back, and none of them has been begun.
func TestRequestsAreTakenAheadOfShortAnswersAlone(t *testing.T) {
	for _, x := range []struct {
		answer, queue time.Duration
		want          int64
	}{
		{0, 0, 1}, {time.Second, time.Millisecond, 1}, {50 * time.Millisecond, time.Millisecond, 1 + leastAhead},
	} {
		q := queue(t, QueueOptions{Lease: time.Hour}, 0)
		s := submitter(t, q, nil)
		for i := range 6 {
			r, err := Complete(request(i), s.o.Clock)
			if err != nil {
				t.Fatal(err)
			}
			put(t, q, s.lane, r)
		}
		begun := make(chan bool, 6)
		w, err := NewWorker(t.Context(), WorkerOptions{Queue: q, Identity: identity("a"),
			Do: func(ctx context.Context, r Request) (int, []byte) {
				begun <- true
				<-ctx.Done()
				return 499, []byte(`{"error":"gone"}`)
			}})
		if err != nil {
			t.Fatal(err)
		}
		if x.answer > 0 {
			w.places.learn(x.answer, x.queue)
		}
		stop := runs(t, w)
		<-begun
		for w.counts.inFlight.Load() < x.want {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond) // were there more to come, they would be there
		if n := w.counts.inFlight.Load(); n != x.want {
			t.Errorf("answers of %v, of the queue %v: %d requests, want %d", x.answer, x.queue, n, x.want)
		}
		stop()
		if n := w.counts.returned.Load(); n != x.want || len(begun) > 0 {
			t.Errorf("%d of %d went back, %d more were begun", n, x.want, len(begun))
		}
	}
}

// Requests that are taken ahead wait where they are answered, if there is a queue; of their places' time nothing is
// lost then, and what free places waited for the queue is counted.
func TestRequestsAheadWaitWhereTheyAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(2, true)
		var idle []time.Duration
		enter := func() {
			asked := time.Now()
			time.Sleep(3 * time.Millisecond) // of the queue
			d, ok := p.enter(t.Context(), asked)
			if !ok {
				t.Fatal("no place")
			}
			idle = append(idle, d)
		}
		time.Sleep(time.Second) // without requests
		for range 2 + leastAhead {
			enter()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, ok := p.enter(ctx, time.Now()); ok {
			t.Error("more than may wait")
		}
		p.end()
		enter() // its place was taken by one that waited
		for range 3 {
			p.end()
		}
		time.Sleep(time.Millisecond)
		enter()
		const ms = time.Millisecond
		if want := []time.Duration{3 * ms, 3 * ms, 0, 0, 0, 3 * ms}; !slices.Equal(idle, want) {
			t.Errorf("places waited %v, want %v", idle, want)
		}
	})
}

// Of several requests that are taken at once each tenant has its part, and those of a higher priority come alone.
func TestRequestsTakenAtOnceAreOfOneTenant(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	id := sumOf(t, "a")
	w := idle(t, q)
	for i, l := range []lane{{id, "normal", "big"}, {id, "normal", "small"}, {id, "high", "late"}} {
		w.follow(t.Context(), l.entry())
		n := 8 - 3*i
		for k := range n {
			put(t, q, l, request(100*i+k))
		}
		arrived(t, w, l, n)
	}
	var got []string
	for range 6 {
		list, from := w.take(t.Context(), 4)
		if from == nil {
			break
		}
		got = append(got, fmt.Sprint(from.tenant, " ", len(list)))
	}
	if want := []string{"late 2", "big 2", "small 2", "big 2", "small 2", "big 2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
