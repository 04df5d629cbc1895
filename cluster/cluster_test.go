package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/specgo/spec"
	"github.com/specgo/spec/cluster/internal/natstest"
	"github.com/specgo/spec/internal/batch"
)

// identity is one of a model that is not there.
func identity(name string) spec.Identity {
	var id spec.Identity
	id.Model.Model = name
	return id
}

func sumOf(t testing.TB, name string) string {
	t.Helper()
	sum, err := identity(name).Sum()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// queue is a new queue of a new server.
func queue(t testing.TB, o QueueOptions, maxPayload int32) *Queue {
	t.Helper()
	q, err := OpenQueue(t.Context(), natstest.Connect(t, natstest.Start(t, maxPayload)), o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// echo answers with the seed and the text of a body.
func echo(_ context.Context, r Request) (int, []byte) {
	var b struct {
		Seed int64
		Text string
	}
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return 400, []byte(`{"error":{"message":"not a body"}}`)
	}
	return 200, fmt.Appendf(nil, `{"id":"%d","seed":%d,"text":%q}`, time.Now().UnixNano(), b.Seed, b.Text)
}

// work runs a worker until stop is called, which waits for its end.
func work(t testing.TB, o WorkerOptions) (w *Worker, stop func()) {
	t.Helper()
	if o.Identity.Model.Model == "" {
		o.Identity = identity("a")
	}
	if o.Do == nil {
		o.Do = echo
	}
	w, err := NewWorker(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return w, stop
}

func submitter(t testing.TB, q *Queue, change func(*SubmitOptions)) *Submitter {
	t.Helper()
	o := SubmitOptions{Queue: q, Identity: sumOf(t, "a"), Clock: time.Unix(1e9, 0)}
	if change != nil {
		change(&o)
	}
	s, err := NewSubmitter(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func request(i int) Request {
	return Request{ID: fmt.Sprint("id-", i), Path: "/v1/completions", Body: fmt.Appendf(nil, `{"text":"t%d"}`, i)}
}

// put puts a request into the queue without waiting.
func put(t testing.TB, q *Queue, l lane, r Request) {
	t.Helper()
	m, err := q.message(l, r)
	if err == nil {
		_, err = q.js.PublishMsg(t.Context(), m)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// arrived waits until the consumer of a lane that w follows has n requests: the server counts them for a consumer
// after it has confirmed them to who sent them.
func arrived(t testing.TB, w *Worker, l lane, n int) {
	t.Helper()
	for _, list := range w.lanes {
		for _, s := range list {
			for s.lane == l {
				info, err := s.consumer.Info(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if info.NumPending == uint64(n) {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	t.Fatalf("no consumer of %s", l.entry())
}

// A line gets a seed that follows from it, and a clock where a template may read one; what it has stays. Lines that
// differ in anything but blanks have other seeds and other keys.
func TestLinesAreCompleted(t *testing.T) {
	clock := time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("", 3600))
	complete := func(id, path, body string) string {
		r, err := Complete(Request{ID: id, Path: path, Body: []byte(body)}, clock)
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Body)
	}
	for _, c := range []struct{ path, body, want string }{
		{"/v1/embeddings", `{ "input": "x" }`, `{"input":"x"}`},
		{"/v1/completions", `{"prompt":"x","seed":7}`, `{"prompt":"x","seed":7}`},
		{"/v1/completions", `{"seed":7,"speculation":{"drafter":"ngram"}}`, `{"seed":7,"speculation":{"drafter":"ngram"}}`},
		{"/v1/completions", `{"seed":0}`, `{"seed":0}`},
		{"/v1/chat/completions", `{"seed":7,"clock":"2001-01-01T00:00:00Z"}`, `{"seed":7,"clock":"2001-01-01T00:00:00Z"}`},
		{"/v1/responses", `{"seed":7, "clock":null}`, `{"seed":7,"clock":"2026-01-31T11:00:00Z"}`},
		{"/v1/chat/completions", `{"seed":7}`, `{"seed":7,"clock":"2026-01-31T11:00:00Z"}`},
		{"/v1/completions", `{"seed":7,"speculation":{"verify":"match"}}`, `{"seed":7,"speculation":{"verify":"match"}}`},
	} {
		if got := complete("a", c.path, c.body); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.path, c.body, got, c.want)
		}
	}
	seeds := map[string]bool{}
	for _, c := range [][3]string{
		{"a", "/v1/completions", `{"prompt":"x"}`}, {"b", "/v1/completions", `{"prompt":"x"}`},
		{"a", "/v1/completions", `{"prompt":"y"}`}, {"a", "/v1/responses", `{"prompt":"x"}`},
	} {
		body := complete(c[0], c[1], c[2])
		_, seed, ok := strings.Cut(body, `"seed":`)
		if seed, _, _ = strings.Cut(seed, ","); !ok || seeds[seed] || body != complete(c[0], c[1], body) {
			t.Errorf("%q: %s", c, body)
		}
		seeds[seed] = true
	}
	plain := complete("a", "/v1/completions", `{"prompt":"x"}`)
	if blanks := complete("a", "/v1/completions", "{ \"prompt\" :\t\"x\" }"); blanks != plain {
		t.Errorf("blanks: %s", blanks)
	}
	if drawn := complete("a", "/v1/completions", `{"prompt":"x","seed":-1}`); strings.Contains(drawn, "-1") {
		t.Errorf("a seed that the server would draw stays: %s", drawn)
	}
	for body, want := range map[string]string{
		`{"speculation":{"verify":"block"}}`: "speculation.verify", `{"speculation":{"verify":"rejection"}}`: "rejection",
		`{"speculation":{"drafter":"model"}}`: "speculation.drafter", `{"speculation":{"drafter":"eagle"}}`: "eagle",
		`{"a":1,"a":2}`: `"a" stands twice`, `[]`: "no object", `{"a":`: "body",
	} {
		if _, err := Complete(Request{Body: []byte(body)}, clock); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to name %s", body, err, want)
		}
	}
	keys := map[string]bool{Key("i", request(1)): true, Key("j", request(1)): true, Key("i", request(2)): true,
		Key("i", Request{Path: "/v1/embeddings", Body: request(1).Body}): true}
	if again := request(1); len(keys) != 4 || !keys[Key("i", Request{ID: "other", Path: again.Path, Body: again.Body})] {
		t.Error("keys are not of identity, path and body alone")
	}
}

// What says when, by whom and how fast an answer was computed makes no difference; all else does.
func TestSameLooksAtWhatIsComputed(t *testing.T) {
	const base = `{"id":"a","created":1,"model":"m","choices":[{"text":"x","finish_reason":"stop","logprobs":` +
		`[{"token_ids":[5],"logprob":-0.25}]}],"usage":{"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`
	for change, want := range map[string]bool{
		``: true, `"id":"a"|"id":"b"`: true, `"created":1|"created":2`: true, `"cached_tokens":4|"cached_tokens":0`: true,
		`"text":"x"|"text":"y"`: false, `stop|length`: false, `[5]|[6]`: false, `-0.25|-0.25000001`: false,
		`"completion_tokens":3|"completion_tokens":2`: false,
	} {
		from, to, _ := strings.Cut(change, "|")
		other := Answer{Status: 200, Body: json.RawMessage(strings.Replace(base, from, to, 1))}
		if same, err := Same(Answer{Status: 200, Body: json.RawMessage(base)}, other); err != nil || same != want {
			t.Errorf("%s: %v, %v", change, same, err)
		}
	}
	if same, _ := Same(Answer{Status: 200, Body: []byte(`{}`)}, Answer{Status: 400, Body: []byte(`{}`)}); same {
		t.Error("another status is the same")
	}
	if _, err := Same(Answer{Body: []byte(`{`)}, Answer{}); err == nil {
		t.Error("what is not JSON is compared")
	}
}

// A batch is answered line by line, whoever answers; submitted again it is collected without being computed again, also
// into another file. A submission that is interrupted goes on.
func TestBatchIsAnsweredAndResumed(t *testing.T) {
	const n = 60
	q := queue(t, QueueOptions{}, 0)
	var calls atomic.Int64
	counted := func(ctx context.Context, r Request) (int, []byte) {
		calls.Add(1)
		return echo(ctx, r)
	}
	work(t, WorkerOptions{Queue: q, Parallel: 3, Do: counted})
	work(t, WorkerOptions{Queue: q, Parallel: 2, Do: counted})
	dir := t.TempDir()
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, `{"custom_id":"id-%d","url":"/v1/completions","body":{"text":"t%d"}}`+"\n", i, i)
	}
	input := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(input, []byte(in.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	s := submitter(t, q, nil)
	ctx, cancel := context.WithCancel(t.Context())
	o := batch.Options{Input: input, Output: filepath.Join(dir, "a"), Parallel: 16, Do: s.Do,
		Progress: func(r batch.Report) {
			if r.Done == n/2 {
				cancel()
			}
		}}
	if r, err := batch.Run(ctx, o); !errors.Is(err, context.Canceled) || r.Done < n/2 || r.Done == n {
		t.Fatalf("%+v, %v", r, err)
	}
	o.Progress = nil
	if r, err := batch.Run(t.Context(), o); err != nil || r.Before < n/2 || r.Before+r.Done != n || r.Failed > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	o.Output = filepath.Join(dir, "b")
	if r, err := batch.Run(t.Context(), o); err != nil || r.Done != n || r.Failed > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if calls.Load() != n {
		t.Errorf("%d requests were computed %d times", n, calls.Load())
	}
	waitEmpty(t, q)
}

// waitEmpty waits until nothing is in the queue.
func waitEmpty(t testing.TB, q *Queue) {
	t.Helper()
	for {
		info, err := q.work.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A request whose answer never comes is given up after so many tries: the reason is stored and told. Asked for again it
// is told again, and tried again on demand.
func TestPoisonIsGivenUpWithItsReason(t *testing.T) {
	q := queue(t, QueueOptions{Lease: time.Minute}, 0)
	var tries atomic.Int64
	var healed atomic.Bool
	w, _ := work(t, WorkerOptions{Queue: q, Tries: 3, Do: func(ctx context.Context, r Request) (int, []byte) {
		if strings.Contains(string(r.Body), "t1") && !healed.Load() {
			tries.Add(1)
			return 500, []byte("{\"error\":\n\"it panics\"}")
		}
		return echo(ctx, r)
	}})
	s := submitter(t, q, nil)
	if status, answer := s.Do(t.Context(), request(0)); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	for range 2 {
		status, answer := s.Do(t.Context(), request(1))
		if status != 500 || !strings.Contains(string(answer),
			`given up after 3 tries: status 500: {\"error\": \"it panics\"}`) {
			t.Errorf("%d %s", status, answer)
		}
	}
	waitEmpty(t, q) // the worker counts what it gave up after the submitter was told
	if tries.Load() != 3 || w.counts.dead.Load() != 1 || w.counts.returned.Load() != 2 {
		t.Errorf("tried %d times; %+v", tries.Load(), &w.counts)
	}
	healed.Store(true)
	again := submitter(t, q, func(o *SubmitOptions) { o.Retry = true })
	if status, answer := again.Do(t.Context(), request(1)); status != 200 {
		t.Errorf("tried again: %d %s", status, answer)
	}
}

// A request that was given up before is put into the queue again at once, also where its worker has told that it is
// given up and not yet removed it. One that is given up now is told of at once.
func TestRetryWaitsForNothing(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := submitter(t, q, func(o *SubmitOptions) { o.Retry = true })
	s.again = time.Hour
	r, err := Complete(request(1), s.o.Clock)
	if err != nil {
		t.Fatal(err)
	}
	key := Key(s.o.Identity, r)
	put(t, q, s.lane, r)
	if err := q.publish(ctx, nats.NewMsg(q.deadSubject(key))); err != nil {
		t.Fatal(err)
	}
	tried, err := q.nc.SubscribeSync(q.workSubject(s.lane, key))
	if err != nil {
		t.Fatal(err)
	}
	if err := q.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan int)
	go func() {
		status, _ := s.Do(ctx, r)
		answered <- status
	}()
	if _, err := tried.NextMsg(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := q.work.Purge(ctx); err != nil { // as the worker has it removed
		t.Fatal(err)
	}
	var calls atomic.Int64
	work(t, WorkerOptions{Queue: q, Tries: 1, Do: func(ctx context.Context, r Request) (int, []byte) {
		if calls.Add(1) > 1 {
			return 500, []byte(`{}`)
		}
		return echo(ctx, r)
	}})
	if status := <-answered; status != 200 {
		t.Errorf("status %d", status)
	}
	if status, answer := s.Do(ctx, request(2)); status != 500 || calls.Load() != 2 {
		t.Errorf("%d %s, computed %d times", status, answer, calls.Load())
	}
}

// A request that ends its workers is given up too, by a worker that finds it handed out too often.
func TestRequestThatEndsWorkersIsGivenUp(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	s := submitter(t, q, nil)
	r, err := Complete(request(1), s.o.Clock)
	if err != nil {
		t.Fatal(err)
	}
	put(t, q, s.lane, r)
	w := idle(t, q)
	w.follow(t.Context(), s.lane.entry())
	for range 2 { // as two workers that die with it
		next(t, w).Nak()
	}
	work(t, WorkerOptions{Queue: q, Tries: 2, Do: func(context.Context, Request) (int, []byte) {
		t.Error("it is tried a third time")
		return 200, []byte("{}")
	}})
	status, answer := s.Do(t.Context(), request(1))
	if status != 500 || !strings.Contains(string(answer), "handed out 2 times, and no worker answered") {
		t.Errorf("%d %s", status, answer)
	}
}

// idle is a worker that does not run.
func idle(t testing.TB, q *Queue) *Worker {
	t.Helper()
	w, err := NewWorker(t.Context(), WorkerOptions{Queue: q, Identity: identity("a"), Do: echo})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// next takes the next request of a worker that does not run.
func next(t testing.TB, w *Worker) jetstream.Msg {
	t.Helper()
	for {
		if m, _ := w.take(t.Context(), 1); len(m) > 0 {
			return m[0]
		}
		time.Sleep(time.Millisecond)
	}
}

// A worker refuses what is for another identity, or is not what its key says, and tells so; it goes back, and at last
// to the dead letters.
func TestOtherIdentityIsRefused(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	called := func(context.Context, Request) (int, []byte) {
		t.Error("answered")
		return 200, []byte("{}")
	}
	w, _ := work(t, WorkerOptions{Queue: q, Tries: 2, Do: called})
	submitter(t, q, nil) // makes the lane known
	l := lane{sumOf(t, "a"), "normal", "default"}
	other, err := q.message(lane{sumOf(t, "b"), "normal", "default"}, request(1))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := q.message(l, request(2))
	if err != nil {
		t.Fatal(err)
	}
	changed.Data = []byte(strings.Replace(string(changed.Data), "t2", "t3", 1))
	key := other.Header.Get(headerKey)
	other.Subject = q.workSubject(l, key)
	for _, m := range []struct{ key, want string }{
		{key, "it is for the identity " + sumOf(t, "b")[:8]}, {changed.Header.Get(headerKey), "that of its content"},
	} {
		msg := other
		if m.key != key {
			msg = changed
		}
		if _, err := q.js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		var reason string
		for reason == "" {
			if _, reason, err = submitterResult(t, q, m.key); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if !strings.Contains(reason, "refused: ") || !strings.Contains(reason, m.want) {
			t.Errorf("%s, want %s", reason, m.want)
		}
	}
	if w.counts.refused.Load() != 4 {
		t.Errorf("refused %d times", w.counts.refused.Load())
	}
}

func submitterResult(t testing.TB, q *Queue, key string) (*Answer, string, error) {
	return (&Submitter{q: q}).result(t.Context(), key)
}

// A worker for another identity takes nothing from lanes that are not its own.
func TestLanesAreOfOneIdentity(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	work(t, WorkerOptions{Queue: q, Identity: identity("b"), Do: func(context.Context, Request) (int, []byte) {
		t.Error("it answers another identity's request")
		return 200, []byte("{}")
	}})
	work(t, WorkerOptions{Queue: q})
	s := submitter(t, q, nil)
	for i := range 5 {
		if status, answer := s.Do(t.Context(), request(i)); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
	}
}

// What is under way when a worker is told to stop goes back at once, and another one answers it.
func TestStoppedWorkerReturnsItsWork(t *testing.T) {
	q := queue(t, QueueOptions{Lease: time.Hour}, 0)
	begun := make(chan bool, 1)
	w, stop := work(t, WorkerOptions{Queue: q, Do: func(ctx context.Context, _ Request) (int, []byte) {
		begun <- true
		<-ctx.Done()
		return 499, []byte(`{"error":"gone"}`)
	}})
	s := submitter(t, q, nil)
	got := make(chan int, 1)
	go func() {
		status, _ := s.Do(t.Context(), request(1))
		got <- status
	}()
	<-begun
	stop()
	if w.counts.returned.Load() != 1 {
		t.Errorf("%d returned", w.counts.returned.Load())
	}
	work(t, WorkerOptions{Queue: q})
	if status := <-got; status != 200 {
		t.Errorf("status %d", status)
	}
}

// The first answer that is stored stays; a worker that has another one says so, and its request is done.
func TestFirstAnswerStays(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	for i, c := range []struct {
		stored    string
		different int64
	}{{`{"id":"other","seed":1,"text":"t0"}`, 0}, {`{"id":"other","seed":1,"text":"another"}`, 1}} {
		s := submitter(t, q, nil)
		r := request(0)
		r.Body = fmt.Appendf(nil, `{"text":"t0","seed":1,"n":%d}`, i)
		w, stop := work(t, WorkerOptions{Queue: q, Do: func(ctx context.Context, r Request) (int, []byte) {
			won, err := q.store(ctx, Key(sumOf(t, "a"), r), &Answer{Status: 200, Body: json.RawMessage(c.stored)})
			if !won || err != nil {
				t.Errorf("%v, %v", won, err)
			}
			return echo(ctx, r)
		}})
		if status, answer := s.Do(t.Context(), r); status != 200 || string(answer) != c.stored {
			t.Errorf("%d %s", status, answer)
		}
		waitEmpty(t, q)
		stop()
		if w.counts.different.Load() != c.different || w.counts.repeated.Load() != 1 {
			t.Errorf("%s: %d different, %d repeated", c.stored, w.counts.different.Load(), w.counts.repeated.Load())
		}
	}
}

// Workers look for requests of a higher priority first, and take from tenants in turn, however much one has put there.
func TestPrioritiesAndTenants(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	id := sumOf(t, "a")
	i := 0
	fill := func(priority, tenant string, n int) {
		submitter(t, q, func(o *SubmitOptions) { o.Priority, o.Tenant = priority, tenant })
		for range n {
			i++
			put(t, q, lane{id, priority, tenant}, Request{Path: "/v1/completions",
				Body: fmt.Appendf(nil, `{"text":"%s %s","seed":%d}`, priority, tenant, i)})
		}
	}
	fill("low", "big", 2)
	fill("normal", "big", 6)
	fill("normal", "small", 2)
	fill("high", "late", 2)
	var order []string
	w := idle(t, q)
	for _, l := range []lane{{id, "low", "big"}, {id, "normal", "big"}, {id, "normal", "small"}, {id, "high", "late"}} {
		w.follow(t.Context(), l.entry())
	}
	for range i {
		m := next(t, w)
		r, err := w.read(m)
		if err != nil {
			t.Fatal(err)
		}
		_, answer := echo(t.Context(), r)
		var a struct{ Text string }
		if err := json.Unmarshal(answer, &a); err != nil {
			t.Fatal(err)
		}
		order = append(order, a.Text)
		m.DoubleAck(t.Context())
	}
	want := slices.Concat(slices.Repeat([]string{"high late"}, 2),
		slices.Repeat([]string{"normal big", "normal small"}, 2),
		slices.Repeat([]string{"normal big"}, 4), slices.Repeat([]string{"low big"}, 2))
	if !slices.Equal(order, want) {
		t.Errorf("%q", order)
	}
}

// No more requests of a lane are out than its consumer allows, whoever has them.
func TestRequestsInFlightAreBounded(t *testing.T) {
	q := queue(t, QueueOptions{InFlight: 2}, 0)
	s := submitter(t, q, nil)
	w := idle(t, q)
	w.follow(t.Context(), s.lane.entry())
	for i := range 4 {
		r, _ := Complete(request(i), s.o.Clock)
		put(t, q, s.lane, r)
	}
	first := next(t, w)
	next(t, w)
	if m, _ := w.take(t.Context(), 2); len(m) > 0 {
		t.Error("a third one")
	}
	if err := first.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	next(t, w)
}

// Answers that are longer than a message may be are kept elsewhere, and requests that are too long are refused.
func TestLargeAnswersAndRequests(t *testing.T) {
	q := queue(t, QueueOptions{}, 8<<10)
	long := `{"text":"` + strings.Repeat("x", 20<<10) + `"}`
	work(t, WorkerOptions{Queue: q, Do: func(context.Context, Request) (int, []byte) { return 200, []byte(long) }})
	s := submitter(t, q, nil)
	if status, answer := s.Do(t.Context(), request(1)); status != 200 || string(answer) != long {
		t.Errorf("%d, %d bytes", status, len(answer))
	}
	r := request(2)
	r.Body = []byte(long)
	if status, answer := s.Do(t.Context(), r); status != http.StatusRequestEntityTooLarge ||
		!strings.Contains(string(answer), "max_payload of the NATS server is 8192") {
		t.Errorf("%d %s", status, answer)
	}
	objects, err := q.large.Status(t.Context())
	if answers := q.answers.CachedInfo().Config.MaxAge; err != nil || objects.TTL() <= answers {
		t.Errorf("answers are kept for %v, their objects for %v: %v", answers, objects.TTL(), err)
	}
}

// A batch has the clock of its first submission.
func TestClockOfABatchStays(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	first := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, now := range []time.Time{first, first.Add(time.Hour)} {
		if got, err := q.Clock(t.Context(), "abc", now); err != nil || !got.Equal(first) {
			t.Errorf("%v, %v", got, err)
		}
	}
	if got, err := q.Clock(t.Context(), "abd", first.Add(time.Hour)); err != nil || got.Equal(first) {
		t.Errorf("another batch: %v, %v", got, err)
	}
	if _, err := q.known.PutString(t.Context(), "clock.bad", "soon"); err != nil {
		t.Fatal(err)
	}
	_, err := q.Clock(t.Context(), "bad", first)
	if err == nil || !strings.Contains(err.Error(), "spec_known: clock.bad: ") {
		t.Errorf("a clock that is none: %v", err)
	}
}

// leased is a message that counts how often its lease is extended.
type leased struct {
	jetstream.Msg
	n chan bool
}

func (m leased) InProgress() error {
	m.n <- true
	return nil
}

// While a request is being answered its lease is extended, and not behind that.
func TestLeaseIsExtended(t *testing.T) {
	m := leased{n: make(chan bool)}
	w, from := &Worker{leaseLook: time.Second}, &source{}
	from.lease.Store(int64(3 * time.Millisecond))
	end := w.extend(m, from)
	for range 3 {
		<-m.n
	}
	go func() {
		for range m.n {
		}
	}()
	end() // waits for the last one
	close(m.n)
}

// The metrics are in Prometheus' form, with what was done.
func TestMetrics(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	begin := time.Now()
	w, _ := work(t, WorkerOptions{Queue: q})
	s := submitter(t, q, nil)
	for i := range 3 {
		s.Do(t.Context(), request(i))
	}
	waitEmpty(t, q)
	var b strings.Builder
	w.WriteMetrics(&b)
	for _, want := range []string{"spec_worker_answers_total{status=\"200\"} 3\n", "\nspec_worker_different_total 0\n",
		"# TYPE spec_worker_queue_seconds_total counter\nspec_worker_queue_seconds_total "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	_, last, _ := strings.Cut(b.String(), "\nspec_worker_queue_seconds_total ")
	idle := 0.0
	if _, err := fmt.Sscan(last, &idle); err != nil || idle <= 0 || idle > time.Since(begin).Seconds() {
		t.Errorf("its place waited %f s for the queue, %v", idle, err)
	}
}

// Names that subjects cannot have are refused.
func TestNamesAreChecked(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	for _, change := range []func(*SubmitOptions){
		func(o *SubmitOptions) { o.Tenant = "a.b" }, func(o *SubmitOptions) { o.Priority = "urgent" },
	} {
		o := SubmitOptions{Queue: q, Identity: sumOf(t, "a")}
		change(&o)
		if _, err := NewSubmitter(t.Context(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if _, err := OpenQueue(t.Context(), q.nc, QueueOptions{Name: "a.>"}); err == nil {
		t.Error("a queue's name with a dot is taken")
	}
}

// BenchmarkQueue is the whole way of a request and its answer, one after the other, where the answer costs nothing: the
// submitter, the NATS server and the worker are all in this process.
func BenchmarkQueue(b *testing.B) {
	q := queue(b, QueueOptions{}, 0)
	work(b, WorkerOptions{Queue: q})
	s := submitter(b, q, nil)
	var before, after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	i := 0
	for b.Loop() {
		i++
		if status, answer := s.Do(b.Context(), request(i)); status != 200 {
			b.Fatalf("%d %s", status, answer)
		}
	}
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(used)/1e6/float64(i), "cpu-ms/op")
}

// A worker whose connection is closed for good ends with an error, so that whoever has started it starts it again.
func TestWorkerEndsWithItsConnection(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	w, err := NewWorker(t.Context(), WorkerOptions{Queue: q, Identity: identity("a"), Do: echo})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(t.Context()) }()
	if status, answer := submitter(t, q, nil).Do(t.Context(), request(1)); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	q.nc.Close()
	if err := <-done; !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
}

// A body comes to a worker, and an answer back, as it is, also with characters that JSON may escape: the key of a
// request is that of its bytes.
func TestBodiesStayAsTheyAre(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	w, _ := work(t, WorkerOptions{Queue: q, Tries: 1, Do: func(_ context.Context, r Request) (int, []byte) {
		return 200, r.Body
	}})
	r := request(1)
	r.Body = []byte(`{"text":"<|im_start|> a < b && c > d \u003c \u2028é` + "\u2028" + `","seed":1}`)
	status, answer := submitter(t, q, nil).Do(t.Context(), r)
	if status != 200 || string(answer) != string(r.Body) || w.counts.refused.Load() != 0 {
		t.Errorf("%d %s, refused %d times", status, answer, w.counts.refused.Load())
	}
}

// A lane that can have no consumer, as where the server allows no more of them, keeps no other from being answered.
func TestLaneWithoutAConsumerStopsNoOther(t *testing.T) {
	nc := natstest.Connect(t, natstest.Start(t, 0))
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "spec_work", Subjects: []string{"spec.work.>"},
			Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
			MaxMsgsPerSubject: 1, MaxConsumers: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	q, err := OpenQueue(t.Context(), nc, QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := idle(t, q)
	one, other := lane{sumOf(t, "a"), "normal", "one"}, lane{sumOf(t, "a"), "normal", "other"}
	if !w.follow(t.Context(), one.entry()) || w.follow(t.Context(), other.entry()) {
		t.Fatal("the server allows another number of consumers")
	}
	submitter(t, q, func(o *SubmitOptions) { o.Tenant = "other" }) // which a worker hears of first
	s := submitter(t, q, func(o *SubmitOptions) { o.Tenant = "one" })
	work(t, WorkerOptions{Queue: q})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if status, answer := s.Do(ctx, request(1)); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}

// A worker that is told to stop asks no lane for requests any more: where the queue is away each takes a second.
func TestStoppedWorkerAsksNoLane(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	w := idle(t, q)
	l := lane{sumOf(t, "a"), "normal", "default"}
	w.follow(t.Context(), l.entry())
	put(t, q, l, request(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if list, _ := w.take(ctx, 1); len(list) > 0 {
		t.Error("it takes a request")
	}
	next(t, w)
}

// lines counts the lines of a log.
type lines struct{ n atomic.Int64 }

func (l *lines) Write(b []byte) (int, error) {
	l.n.Add(1)
	return len(b), nil
}

// A queue that fails is told once in a while, not once for each of the requests that wait for it.
func TestFailuresOfTheQueueAreToldOnce(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	var log lines
	s := submitter(t, q, func(o *SubmitOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	const looks = 1 << 30
	f := &failing{Stream: q.leader}
	f.n.Store(looks)
	q.leader = f
	q.nc.Close()
	before := log.n.Load() // what the watch for answers has told
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { s.Do(ctx, request(i)) })
	}
	for looks-f.n.Load() < 100 || log.n.Load() == before { // each has looked once at least, many have twice
		time.Sleep(time.Millisecond)
	}
	cancel()
	all.Wait()
	if n := log.n.Load() - before; n < 1 || n > 10 {
		t.Errorf("%d lines", n)
	}
}

// A lane whose consumer somebody has deleted, as to have its limits made anew, is followed again.
func TestDeletedConsumerIsMadeAgain(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	work(t, WorkerOptions{Queue: q})
	s := submitter(t, q, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 2 {
		if status, answer := s.Do(ctx, request(i)); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		waitEmpty(t, q)
		name := strings.Join([]string{subjectWord(s.lane.identity), s.lane.priority, s.lane.tenant}, "_")
		if err := q.js.DeleteConsumer(ctx, "spec_work", name); err != nil {
			t.Fatal(err)
		}
	}
}

// full is a queue whose answers have no room; room makes some.
func full(t *testing.T, maxPayload int32, o QueueOptions) (q *Queue, room func()) {
	t.Helper()
	nc := natstest.Connect(t, natstest.Start(t, maxPayload))
	js, err := jetstream.New(nc)
	c := jetstream.StreamConfig{Name: "spec_answers", Subjects: []string{"spec.answer.*", "spec.dead.*"},
		AllowDirect: true, MaxBytes: 1, Discard: jetstream.DiscardNew}
	if err == nil {
		_, err = js.CreateStream(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	if q, err = OpenQueue(t.Context(), nc, o); err != nil {
		t.Fatal(err)
	}
	return q, func() {
		c.MaxBytes = -1
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// Where the queue has no room for answers they are kept and stored when it has, computed once; a large one is in the
// bucket once. What is given up is given up then, for the reason that it was.
func TestAnswersAreKeptUntilThereIsRoom(t *testing.T) {
	long := `{"text":"` + strings.Repeat("x", 20<<10) + `"}`
	for name, c := range map[string]struct {
		do   func(context.Context, Request) (int, []byte)
		want string
	}{
		"short": {echo, `"text":"t1"`},
		"large": {func(context.Context, Request) (int, []byte) { return 200, []byte(long) }, long},
		"none": {func(context.Context, Request) (int, []byte) { return 500, []byte(`{"error":"it panics"}`) },
			`given up after 1 tries: status 500: {\"error\":\"it panics\"}`},
		"not JSON": {func(context.Context, Request) (int, []byte) { return 200, []byte("x") },
			"given up after 1 tries: the queue cannot store such an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			q, room := full(t, 8<<10, QueueOptions{Lease: time.Minute})
			var calls atomic.Int64
			w, _ := work(t, WorkerOptions{Queue: q, Tries: 1, Do: func(ctx context.Context, r Request) (int, []byte) {
				calls.Add(1)
				return c.do(ctx, r)
			}})
			s := submitter(t, q, nil)
			go func() {
				for w.counts.failed.Load() < 2 {
					time.Sleep(time.Millisecond)
				}
				room()
			}()
			if _, answer := s.Do(t.Context(), request(1)); !strings.Contains(string(answer), c.want) {
				t.Errorf("%.300s", answer)
			}
			waitEmpty(t, q)
			if calls.Load() != 1 || w.counts.redelivered.Load() != 0 {
				t.Errorf("computed %d times, handed out again %d times", calls.Load(), w.counts.redelivered.Load())
			}
			if name != "large" {
				return
			}
			if list, err := q.large.List(t.Context()); err != nil || len(list) != 1 {
				t.Errorf("%d objects, %v", len(list), err)
			}
		})
	}
}

// An answer that is stored already, by a call whose success was not heard of, is the one that won: its object stays.
func TestAnswerThatWasStoredUnheardStays(t *testing.T) {
	q := queue(t, QueueOptions{}, 8<<10)
	long := `{"text":"` + strings.Repeat("x", 20<<10) + `"}`
	mine, other := Answer{Status: 200, Body: json.RawMessage(long)}, Answer{Status: 200, Body: json.RawMessage(long)}
	for i, c := range []struct {
		a    *Answer
		want bool
	}{{&mine, true}, {&mine, true}, {&other, false}} {
		if won, err := q.store(t.Context(), "k", c.a); err != nil || won != c.want {
			t.Errorf("%d: %v, %v", i, won, err)
		}
	}
	if a, err := q.answer(t.Context(), "k"); err != nil || string(a.Body) != long || a.Object != mine.Object {
		t.Errorf("%+v, %v", a, err)
	}
	if list, err := q.large.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%d objects, %v", len(list), err)
	}
}

// failing are answers that cannot be looked up a few times.
type failing struct {
	jetstream.Stream
	n atomic.Int64
}

func (f *failing) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	if f.n.Add(-1) >= 0 {
		return nil, nats.ErrNoResponders
	}
	return f.Stream.GetLastMsgForSubject(ctx, subject)
}

// A queue that cannot say whether a request is answered, as while its servers choose a leader, costs no try of it.
func TestQueueThatCannotBeAskedCostsNoTry(t *testing.T) {
	q := queue(t, QueueOptions{Lease: time.Minute}, 0)
	f := &failing{Stream: q.leader}
	f.n.Store(3)
	ours := *q
	ours.leader = f
	work(t, WorkerOptions{Queue: &ours, Tries: 1})
	if status, answer := submitter(t, q, nil).Do(t.Context(), request(1)); status != 200 || f.n.Load() >= 0 {
		t.Errorf("%d %s", status, answer)
	}
}

// bounds are how long calls that move an object may take.
type bounds struct {
	jetstream.ObjectStore
	put, get atomic.Int64 // nanoseconds; 0: what the library gives
}

func left(ctx context.Context) int64 {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return int64(time.Until(end))
}

func (b *bounds) Put(ctx context.Context, m jetstream.ObjectMeta, r io.Reader) (*jetstream.ObjectInfo, error) {
	b.put.Store(left(ctx))
	return b.ObjectStore.Put(ctx, m, r)
}

func (b *bounds) Get(ctx context.Context, name string, o ...jetstream.GetObjectOpt) (jetstream.ObjectResult, error) {
	b.get.Store(left(ctx))
	return b.ObjectStore.Get(ctx, name, o...)
}

// A large answer has the time that it takes over a slow link, 64 KiB a second, both ways.
func TestLargeAnswersHaveTheTimeOfTheirSize(t *testing.T) {
	q := queue(t, QueueOptions{}, 64<<10)
	b := &bounds{ObjectStore: q.large}
	q.large = b
	long := `{"text":"` + strings.Repeat("x", 4<<20) + `"}`
	work(t, WorkerOptions{Queue: q, Do: func(context.Context, Request) (int, []byte) { return 200, []byte(long) }})
	if status, answer := submitter(t, q, nil).Do(t.Context(), request(1)); status != 200 || string(answer) != long {
		t.Errorf("%d, %d bytes", status, len(answer))
	}
	for what, n := range map[string]int64{"to store": b.put.Load(), "to read": b.get.Load()} {
		if least := time.Minute; time.Duration(n) < least {
			t.Errorf("%s: %v, want %v at least", what, time.Duration(n), least)
		}
	}
}

// looked counts how often answers are looked up.
type looked struct {
	jetstream.Stream
	n atomic.Int64
}

func (l *looked) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	l.n.Add(1)
	return l.Stream.GetLastMsgForSubject(ctx, subject)
}

// However long a request waits, and however often its answer is looked for, it waits once.
func TestRequestThatWaitsLongWaitsOnce(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	l := &looked{Stream: q.leader}
	q.leader = l
	s := submitter(t, q, nil)
	s.again = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		s.Do(ctx, request(1))
		close(ended)
	}()
	for l.n.Load() < 20 {
		time.Sleep(time.Millisecond)
	}
	s.mu.Lock()
	for key, list := range s.waiting {
		if len(list) != 1 {
			t.Errorf("%s: %d wait", key, len(list))
		}
	}
	s.mu.Unlock()
	cancel()
	<-ended
	if len(s.waiting) != 0 {
		t.Errorf("%d keys are waited for behind the end", len(s.waiting))
	}
}

// lagging are answers as a replica has them that lags: none is there, and what was given up and is tried again still
// is.
type lagging struct {
	jetstream.Stream
	dead *jetstream.RawStreamMsg
}

func (l *lagging) GetLastMsgForSubject(_ context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	if l.dead != nil && subject == l.dead.Subject {
		return l.dead, nil
	}
	return nil, jetstream.ErrMsgNotFound
}

// laggingKeys is what is known, as such a replica has it a few times.
type laggingKeys struct {
	jetstream.KeyValue
	n int
}

func (l *laggingKeys) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if l.n--; l.n >= 0 {
		return nil, jetstream.ErrKeyNotFound
	}
	return l.KeyValue.Get(ctx, key)
}

// What a replica does not have yet, or has no longer to have, decides nothing: an answer is found, a request that is
// tried again is not given up, a batch has its clock, and an identity is seen.
func TestReplicaThatLagsDecidesNothing(t *testing.T) {
	q := queue(t, QueueOptions{}, 0)
	r, err := Complete(request(1), time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	key := Key(sumOf(t, "a"), r)
	var calls atomic.Int64
	do := func(ctx context.Context, r Request) (int, []byte) {
		if calls.Add(1) == 1 {
			return 500, []byte(`{"error":"it panics"}`)
		}
		return echo(ctx, r)
	}
	work(t, WorkerOptions{Queue: q, Tries: 1, Do: do})
	s := submitter(t, q, nil)
	if status, answer := s.Do(t.Context(), r); status != 500 {
		t.Fatalf("%d %s", status, answer)
	}
	dead, err := q.answers.GetLastMsgForSubject(t.Context(), q.deadSubject(key))
	if err != nil {
		t.Fatal(err)
	}
	ours := *q
	ours.answers = &lagging{Stream: q.answers, dead: dead}
	for range 2 {
		s := submitter(t, &ours, func(o *SubmitOptions) { o.Retry = true })
		if status, answer := s.Do(t.Context(), r); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
	}
	if calls.Load() != 2 {
		t.Errorf("computed %d times", calls.Load())
	}
	first := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, now := range []time.Time{first, first.Add(time.Hour)} {
		ours.known = &laggingKeys{KeyValue: q.known, n: 2}
		if got, err := ours.Clock(t.Context(), "abc", now); err != nil || !got.Equal(first) {
			t.Errorf("%v, %v", got, err)
		}
		if all, err := ours.Identities(t.Context()); err != nil || len(all) != 1 || all[sumOf(t, "a")].Model.Model != "a" {
			t.Errorf("%v, %v", all, err)
		}
	}
}

// A queue of three replicas keeps the first answer, gives up and tries again, and its answers are read from the leader.
func TestReplicatedQueue(t *testing.T) {
	nc := natstest.Connect(t, natstest.Cluster(t, 3))
	q, err := OpenQueue(t.Context(), nc, QueueOptions{Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	direct, err := nc.SubscribeSync("$JS.API.DIRECT.GET.spec_answers.>")
	if err != nil {
		t.Fatal(err)
	}
	leader, err := nc.SubscribeSync("$JS.API.STREAM.MSG.GET.spec_answers")
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	w, _ := work(t, WorkerOptions{Queue: q, Tries: 1, Do: func(ctx context.Context, r Request) (int, []byte) {
		if calls.Add(1) == 1 {
			return 500, []byte(`{"error":"it panics"}`)
		}
		if won, err := q.store(ctx, Key(sumOf(t, "a"), r), &Answer{Status: 200, Body: []byte(`{}`)}); !won || err != nil {
			t.Errorf("%v, %v", won, err)
		}
		return echo(ctx, r)
	}})
	if status, answer := submitter(t, q, nil).Do(t.Context(), request(1)); status != 500 {
		t.Errorf("%d %s", status, answer)
	}
	s := submitter(t, q, func(o *SubmitOptions) { o.Retry = true })
	if status, answer := s.Do(t.Context(), request(1)); status != 200 || string(answer) != `{}` {
		t.Errorf("%d %s", status, answer)
	}
	waitEmpty(t, q)
	if status, answer := s.Do(t.Context(), request(1)); status != 200 || string(answer) != `{}` || calls.Load() != 2 {
		t.Errorf("%d %s, computed %d times", status, answer, calls.Load())
	}
	for w.counts.different.Load() != 1 { // compared behind the acknowledgement
		time.Sleep(time.Millisecond)
	}
	if _, err := leader.NextMsg(time.Minute); err != nil {
		t.Error(err)
	}
	if n, _, err := direct.Pending(); err != nil || n > 0 {
		t.Errorf("%d reads from any replica, %v", n, err)
	}
}
