package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Where the servers have lost the queue, submitters that wait and workers end with an error that says so: while it is
// not there, also a part alone, and where somebody has made it anew, which knows nothing of either.
func TestLostQueueEndsWhoeverWaits(t *testing.T) {
	all := []string{"spec_work", "spec_answers", "KV_spec_known", "OBJ_spec_large"}
	for what, c := range map[string]struct {
		lost []string
		anew bool
	}{"gone": {all, false}, "another one": {all, true}, "long answers": {all[3:], false}} {
		q := queue(t, QueueOptions{}, 0)
		begun := make(chan bool, 1)
		w, err := NewWorker(t.Context(), WorkerOptions{Queue: q, Identity: identity("a"), Parallel: 2,
			Do: func(ctx context.Context, r Request) (int, []byte) {
				if strings.Contains(string(r.Body), "t1") {
					begun <- true
					<-ctx.Done()
					return 499, []byte(`{"error":"gone"}`)
				}
				return echo(ctx, r)
			}})
		if err != nil {
			t.Fatal(err)
		}
		w.lost.after, w.leaseLook = 20*time.Millisecond, 10*time.Millisecond
		s := submitter(t, q, nil)
		s.lost.after, s.again = 20*time.Millisecond, 20*time.Millisecond
		ended := make(chan error, 1)
		go func() { ended <- w.Run(t.Context()) }()
		if status, answer := s.Do(t.Context(), request(0)); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		type result struct {
			status int
			answer []byte
		}
		got := make(chan result, 1)
		go func() {
			status, answer := s.Do(t.Context(), request(1))
			got <- result{status, answer}
		}()
		<-begun
		for _, name := range c.lost {
			if err := q.js.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if c.anew {
			if _, err := OpenQueue(t.Context(), q.nc, QueueOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if r := <-got; r.status != http.StatusServiceUnavailable || !strings.Contains(string(r.answer), "queue_lost") ||
			!strings.Contains(string(r.answer), "the queue is lost") {
			t.Errorf("%s: %d %s", what, r.status, r.answer)
		}
		if err := <-ended; !errors.Is(err, errLost) {
			t.Errorf("%s: the worker: %v", what, err)
		}
	}
}

// A queue whose servers do not answer is not lost.
func TestQueueThatDoesNotAnswerIsNotLost(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	q.nc.Close()
	l := loss{after: time.Millisecond}
	for range 3 {
		if err := l.look(t.Context(), q); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// silent are servers that do not answer until somebody lets them.
type silent struct {
	jetstream.JetStream
	asked chan bool
	let   chan bool
}

func (s *silent) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s.asked <- true
	<-s.let
	return s.JetStream.Stream(ctx, name)
}

// While one asks whether the queue is lost, the others go on with what is known.
func TestOneAsksWhetherTheQueueIsLost(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	s := &silent{JetStream: q.js, asked: make(chan bool, 3), let: make(chan bool)}
	q.js = s
	var l loss
	first, others := make(chan error, 1), make(chan error, 2)
	go func() { first <- l.look(t.Context(), q) }()
	<-s.asked
	go func() {
		others <- l.look(t.Context(), q)
		others <- l.known()
	}()
	for range 2 {
		select {
		case err := <-others:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the others wait for the servers")
		}
	}
	close(s.let)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// A lease that somebody makes shorter is extended as often from then on.
func TestShorterLeaseIsHeardOf(t *testing.T) {
	q := queue(t, QueueOptions{Lease: time.Minute}, 0)
	var calls atomic.Int64
	w, err := NewWorker(t.Context(), WorkerOptions{Queue: q, Identity: identity("a"),
		Do: func(ctx context.Context, r Request) (int, []byte) {
			if calls.Add(1) > 1 {
				time.Sleep(time.Second)
			}
			return echo(ctx, r)
		}})
	if err != nil {
		t.Fatal(err)
	}
	w.leaseLook = 10 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	s := submitter(t, q, nil)
	if status, answer := s.Do(ctx, request(0)); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	name := strings.Join([]string{subjectWord(s.lane.identity), s.lane.priority, s.lane.tenant}, "_")
	c, err := q.work.Consumer(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	limits := c.CachedInfo().Config
	limits.AckWait = 500 * time.Millisecond
	if _, err := q.work.UpdateConsumer(ctx, limits); err != nil {
		t.Fatal(err)
	}
	heard := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Duration(w.lanes[1][0].lease.Load()) == limits.AckWait
	}
	for end := time.Now().Add(10 * time.Second); !heard(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the worker does not hear of it")
		}
	}
	if status, answer := s.Do(ctx, request(1)); status != 200 || calls.Load() != 2 || w.counts.redelivered.Load() != 0 {
		t.Errorf("%d %s, computed %d times, handed out again %d times", status, answer, calls.Load()-1,
			w.counts.redelivered.Load())
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What others may write is bounded: an answer beyond a message is counted as it comes, and must be JSON.
func TestAnswersOfOthersAreBounded(t *testing.T) {
	q := queue(t, QueueOptions{}, 8<<10)
	long := `{"text":"` + strings.Repeat("x", 20<<10) + `"}`
	if won, err := q.store(t.Context(), "k", &Answer{Status: 200, Body: json.RawMessage(long)}); !won || err != nil {
		t.Fatal(won, err)
	}
	for most, want := range map[int64]string{int64(len(long)): "", int64(len(long)) - 1: "which no answer has"} {
		q.longest = most
		a, err := q.answer(t.Context(), "k")
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) ||
			err == nil && string(a.Body) != long {
			t.Errorf("at most %d bytes: %v", most, err)
		}
	}
	if _, err := q.large.PutBytes(t.Context(), "o", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, err := q.js.Publish(t.Context(), q.answerSubject("m"), []byte(`{"status_code":200,"object":"o"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := q.answer(t.Context(), "m"); err == nil || !strings.Contains(err.Error(), "not JSON") {
		t.Errorf("an object that is not JSON: %v", err)
	}
}

// A request that is none, with a key that no subject can have, goes to the dead letters, and its worker goes on. So
// does one that with the reason is too long for a message.
func TestStrangeKeysAreGivenUp(t *testing.T) {
	q := queue(t, QueueOptions{}, 8<<10)
	work(t, WorkerOptions{Queue: q, Tries: 1})
	s := submitter(t, q, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	mine, other := s.lane.identity, strings.Repeat("i", 64)
	for i, c := range []struct {
		key      string
		identity string
		size     int
	}{{strings.Repeat("k", 5000), mine, 1}, {"a.b > c", mine, 1}, {"", mine, 8<<10 - 200},
		{strings.Repeat("k", 300), other, 8<<10 - headerRoom}} {
		m := nats.NewMsg(q.workSubject(s.lane, strings.Repeat("x", i+1)))
		m.Data = []byte(strings.Repeat("x", c.size))
		m.Header.Set(headerIdentity, c.identity)
		m.Header.Set(headerKey, c.key)
		if _, err := q.js.PublishMsg(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	for {
		info, err := q.answers.Info(ctx, jetstream.WithSubjectFilter(q.deadSubject("none")))
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Subjects[q.deadSubject("none")] == 4 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	waitEmpty(t, q)
	if status, answer := s.Do(ctx, request(1)); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if q.nc.Reconnects > 0 {
		t.Errorf("the server has ended the connection %d times", q.nc.Reconnects)
	}
}

// Whoever may write to the bucket of lanes can name any number of them: a worker follows so many, and goes on with
// those.
func TestLanesAreBounded(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	w := idle(t, q)
	w.mostLanes = 2
	for i := range 4 {
		l := lane{sumOf(t, "a"), "normal", fmt.Sprint("tenant-", i)}
		if !w.follow(t.Context(), l.entry()) || !w.follow(t.Context(), l.entry()) {
			t.Errorf("lane %d is to be tried again", i)
		}
	}
	if n := len(w.lanes[1]); n != 2 {
		t.Errorf("%d lanes are followed", n)
	}
	if info, err := q.work.Info(t.Context()); err != nil || info.State.Consumers != 2 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A stored answer that is damaged is told at once, with the name of its message, also where a worker finds it. Tried
// again it is computed anew.
func TestDamagedAnswersAreTold(t *testing.T) {
	const large = "$O.spec_large."
	for name, damage := range map[string]func(q *Queue, answer string, objects jetstream.Stream) error{
		"no JSON": func(q *Queue, answer string, _ jetstream.Stream) error {
			return publish(t, q, answer, `{"status_code":2`)
		},
		"no answer": func(q *Queue, answer string, _ jetstream.Stream) error { return publish(t, q, answer, `{}`) },
		"no object": func(_ *Queue, _ string, o jetstream.Stream) error { return o.Purge(t.Context()) },
		"no parts":  func(_ *Queue, _ string, o jetstream.Stream) error { return purge(t, o, large+"C.*", 0) },
		"one part":  func(_ *Queue, _ string, o jetstream.Stream) error { return purge(t, o, large+"C.*", 1) },
		"another object": func(q *Queue, _ string, o jetstream.Stream) error {
			m, err := o.GetLastMsgForSubject(t.Context(), large+"M.*")
			if err != nil {
				return err
			}
			data := strings.Replace(string(m.Data), `"SHA-256=`, `"SHA-256=AAAA`, 1)
			return publish(t, q, m.Subject, data)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := queue(t, QueueOptions{}, 8<<10)
			r, err := Complete(request(1), time.Unix(1e9, 0))
			if err != nil {
				t.Fatal(err)
			}
			key := Key(sumOf(t, "a"), r)
			long := `{"text":"` + strings.Repeat("x", 20<<10) + `"}`
			if won, err := q.store(t.Context(), key, &Answer{Status: 200, Body: json.RawMessage(long)}); !won || err != nil {
				t.Fatal(won, err)
			}
			objects, err := q.js.Stream(t.Context(), "OBJ_spec_large")
			if err == nil {
				err = damage(q, q.answerSubject(key), objects)
			}
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			status, answer := submitter(t, q, nil).Do(ctx, r)
			if status != 500 || !strings.Contains(string(answer), q.answerSubject(key)) {
				t.Errorf("%d %s", status, answer)
			}
			put(t, q, submitter(t, q, nil).lane, r)
			w, _ := work(t, WorkerOptions{Queue: q})
			waitEmpty(t, q)
			if n, dead := w.counts.failed.Load(), w.counts.dead.Load(); n != 1 || dead != 1 {
				t.Errorf("%d failures, %d given up", n, dead)
			}
			status, answer = submitter(t, q, func(o *SubmitOptions) { o.Retry = true }).Do(ctx, r)
			if status != 200 {
				t.Errorf("tried again: %d %s", status, answer)
			}
		})
	}
}

// publish stores a message: the server confirms it when it can be read.
func publish(t *testing.T, q *Queue, subject, data string) error {
	_, err := q.js.Publish(t.Context(), subject, []byte(data))
	return err
}

// purge removes messages, the oldest first, but keep of them.
func purge(t *testing.T, s jetstream.Stream, subject string, keep uint64) error {
	if keep == 0 {
		return s.Purge(t.Context(), jetstream.WithPurgeSubject(subject))
	}
	return s.Purge(t.Context(), jetstream.WithPurgeSubject(subject), jetstream.WithPurgeKeep(keep))
}
