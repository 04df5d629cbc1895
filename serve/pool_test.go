package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/internal/testkit"
)

// A place in the queue is for so many answers: a request for several waits until all of them fit, and those behind it
// wait too.
func TestQueueOfSeveral(t *testing.T) {
	q, who := queue{most: 3, longest: 10}, &share{weight: 1}
	_, leave1, err := q.enter(t.Context(), who, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	_, leave2, err := q.enter(t.Context(), who, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	admitted := make(chan int, 2)
	var wait sync.WaitGroup
	for i, n := range []int{3, 1} {
		wait.Go(func() {
			places, leave, err := q.enter(t.Context(), who, n, true)
			if err != nil || places != n {
				t.Errorf("%d places of %d: %v", places, n, err)
			}
			admitted <- n
			leave()
		})
		for { // in this order
			if _, waiting := q.load(); waiting >= []int{3, 4}[i] {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	leave1()
	if busy, waiting := q.load(); busy != 1 || waiting != 4 {
		t.Errorf("%d busy and %d waiting; two free places are not enough for three answers", busy, waiting)
	}
	leave2()
	wait.Wait()
	if first := <-admitted; first != 3 {
		t.Errorf("the request for one place went first")
	}
	if busy, waiting := q.load(); busy != 0 || waiting != 0 {
		t.Errorf("%d busy and %d waiting at the end", busy, waiting)
	}
}

// A request that is cancelled in the moment that it is admitted leaves no place taken.
func TestQueueCancelledWhileAdmitted(t *testing.T) {
	cancelled := 0
	for range 200 {
		q, who := queue{most: 1, longest: 1, busy: 1}, &share{weight: 1}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, leave, err := q.enter(ctx, who, 1, true)
			if err == nil {
				leave()
			}
			done <- err
		}()
		for waiting := 0; waiting == 0; _, waiting = q.load() {
			time.Sleep(10 * time.Microsecond)
		}
		q.mu.Lock()
		cancel()
		time.Sleep(50 * time.Microsecond) // the request sees its end and waits for the lock, most times
		q.busy = 0
		q.admit()
		q.mu.Unlock()
		if <-done != nil {
			cancelled++
		}
		if busy, waiting := q.load(); busy != 0 || waiting != 0 {
			t.Fatalf("%d busy and %d waiting after all have left", busy, waiting)
		}
	}
	if cancelled == 0 {
		t.Error("no request was cancelled")
	}
}

// loadLog counts what a pool loads and unloads.
type loadLog struct {
	mu     sync.Mutex
	events []string
}

func (l *loadLog) entry(t *testing.T, name string, bytes int64, fails error) Entry {
	e := entryClosed(t, name, func() { l.note("-" + name) })
	load := e.Load
	e.Bytes, e.Load = bytes, func(ctx context.Context) (*spec.Model, error) {
		if fails != nil {
			return nil, fails
		}
		l.note("+" + name)
		return load(ctx)
	}
	return e
}

func (l *loadLog) note(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, s)
}

func (l *loadLog) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// A model with requests under way is not unloaded for another: the other request waits, and streams end whole.
func TestModelsInUseStay(t *testing.T) {
	var l loadLog
	s := newTester(t, func(o *Options) {
		o.Models, o.Memory = []Entry{l.entry(t, "a", 60, nil), l.entry(t, "b", 60, nil)}, 100
	})
	_, releaseFirst, err := s.models.acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	_, releaseSecond, err := s.models.acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := s.models.acquire(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("b while a is in use: %v", err)
	}
	releaseFirst()
	done := make(chan error)
	go func() {
		_, release, err := s.models.acquire(t.Context(), "b")
		if err == nil {
			release()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("b while a is in use by one request: %v, %v", err, l.list())
	case <-time.After(20 * time.Millisecond):
	}
	releaseSecond()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(l.list()); got != "[+a -a +b]" {
		t.Errorf("%s", got)
	}
}

// Models are loaded, used, unloaded and listed at once: the race detector sees a lock that is left out.
func TestModelsComeAndGoWhileTheyAreListed(t *testing.T) {
	var l loadLog
	s := newTester(t, func(o *Options) {
		o.Models, o.Memory = []Entry{l.entry(t, "a", 60, nil), l.entry(t, "b", 60, nil)}, 100
	})
	use := func(name string) func() {
		return func() {
			_, release, err := s.models.acquire(t.Context(), name)
			if err != nil {
				t.Error(err)
				return
			}
			release()
		}
	}
	testkit.AtOnce(3, use("a"), use("b"), func() { s.models.resident() }, func() { s.page("/v1/models") })
	for _, m := range s.models.resident() {
		if m.users != 0 {
			t.Errorf("%s has %d users after all have left", m.name, m.users)
		}
	}
}

// Close frees the models, and nobody gets one afterwards; those that were freed before are freed once.
func TestCloseFreesTheModels(t *testing.T) {
	var l loadLog
	s := newTester(t, func(o *Options) { o.Models = []Entry{l.entry(t, "a", 60, nil), l.entry(t, "b", 60, nil)} })
	_, release, err := s.models.acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	release()
	s.Close()
	s.Close()
	if got := fmt.Sprint(l.list()); got != "[+a -a]" || len(s.models.resident()) != 0 {
		t.Errorf("%s, %d models are left", got, len(s.models.resident()))
	}
	if _, _, err := s.models.acquire(t.Context(), "a"); err == nil {
		t.Error("a model of a closed server")
	}
}

// A model in steady use does not keep others out of memory for ever: requests that have waited for long come before
// its new ones.
func TestModelsTakeTurns(t *testing.T) {
	var l loadLog
	s := newTester(t, func(o *Options) {
		o.Models, o.Memory = []Entry{l.entry(t, "a", 60, nil), l.entry(t, "b", 60, nil)}, 100
	})
	var late atomic.Int64
	s.now = func() time.Time { return time.Unix(1700000000, late.Load()) }
	type granted struct {
		release func()
		err     error
	}
	ask := func(name string) chan granted {
		c := make(chan granted, 1)
		go func() {
			_, release, err := s.models.acquire(t.Context(), name)
			c <- granted{release, err}
		}()
		return c
	}
	get := func(c chan granted) func() {
		t.Helper()
		g := <-c
		if g.err != nil {
			t.Fatal(g.err)
		}
		return g.release
	}
	none := func(c chan granted, what string) {
		t.Helper()
		select {
		case <-c:
			t.Fatalf("%s: %v", what, l.list())
		case <-time.After(20 * time.Millisecond):
		}
	}
	wanted := func(i int) bool {
		s.models.mu.Lock()
		defer s.models.mu.Unlock()
		return s.models.slots[i].wanted > 0
	}
	first := get(ask("a"))
	b := ask("b")
	s.wait(func() bool { return wanted(1) })
	second := get(ask("a")) // b has not waited for long
	late.Add(int64(patience))
	third := ask("a")
	none(third, "a new request for a, although b has waited for long")
	first()
	none(third, "a new request for a when one of two has ended")
	second()
	release := get(b)
	none(third, "a while b is in use")
	release()
	get(third)()
	if got := fmt.Sprint(l.list()); got != "[+a -a +b -b +a]" {
		t.Error(got)
	}
	// One that leaves lets the others go on.
	hold := get(ask("a"))
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, _, err := s.models.acquire(ctx, "b")
		left <- err
	}()
	s.wait(func() bool { return wanted(1) })
	late.Add(int64(patience))
	again := ask("a")
	none(again, "a new request for a, although b has waited for long")
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	get(again)()
	hold()
}

// The model whose last request is longest ago goes first, and a model that could not be loaded takes no memory.
func TestModelsMemory(t *testing.T) {
	var l loadLog
	s := newTester(t, func(o *Options) {
		o.Models = []Entry{
			l.entry(t, "a", 40, nil), l.entry(t, "b", 40, nil), l.entry(t, "c", 40, nil),
			l.entry(t, "bad", 90, errors.New("no")),
		}
		o.Memory = 100
	})
	clock := time.Unix(1700000000, 0)
	s.now = func() time.Time { clock = clock.Add(time.Second); return clock }
	use := func(name string) error {
		_, release, err := s.models.acquire(t.Context(), name)
		if err == nil {
			release()
		}
		return err
	}
	for range 3 {
		if use("bad") == nil {
			t.Fatal("a model that cannot be loaded is loaded")
		}
	}
	for _, name := range []string{"a", "b", "a", "c", "a", "b"} {
		ctx := t.Context()
		if err := use(name); err != nil || ctx.Err() != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if got := fmt.Sprint(l.list()); got != "[+a +b -b +c -c +b]" {
		t.Errorf("%s: the model whose last request is longest ago goes first", got)
	}
}

// Metrics count prompt tokens that were computed apart from those in a cache, and give a path that there is not no
// label of its own.
func TestMetricsOfRequests(t *testing.T) {
	s := newTester(t, nil)
	prompt := strings.Repeat("func (r *Ring) Push(v int) {\n", 8)
	body := string(encode(map[string]any{"prompt": prompt, "max_tokens": 4}))
	computed, cached := 0.0, 0.0
	for range 3 {
		o := decode(t, s.post("/v1/completions", body, 200))
		computed += o.get(t, "timings", "prompt_n").(float64)
		cached += o.get(t, "timings", "cache_n").(float64)
	}
	for range 3 {
		s.do("GET", "/secret/path", "")
	}
	if cached == 0 {
		t.Error("a prompt that comes again is not in a cache")
	}
	_, text, _ := s.do("GET", "/metrics", "")
	for _, line := range []string{
		fmt.Sprintf(
			"llamacpp:prompt_tokens_total %v\n", computed,
		), fmt.Sprintf("spec_prompt_tokens_cached_total %v\n", cached),
		"llamacpp:tokens_predicted_total 12\n", `spec_requests_total{path="other",status="404"} 3` +
			"\n", `spec_requests_total{path="/v1/completions",status="200"} 3` + "\n",
		"spec_answers_total 3\n", `spec_time_to_first_token_seconds_count{model="go"} 3` + "\n",
		`spec_time_per_token_seconds_count{model="go"} 3` + "\n",
		`spec_time_per_token_seconds_bucket{model="go",le="+Inf"} 3` + "\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Error("a path that a client thought of is a label")
	}
}

// The chunk that ends a stream has timings, also where the client asks for no usage.
func TestTimingsOfStreams(t *testing.T) {
	s := newTester(t, nil)
	for path, body := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"func"}]`, "/v1/completions": `"prompt":"func"`,
	} {
		for _, usage := range []string{"", `,"stream_options":{"include_usage":true}`} {
			text := s.post(path, `{`+body+`,"n":2,"max_tokens":3,"stream":true`+usage+`}`, 200)
			if n := strings.Count(text, `"timings":{`); n != 1 {
				t.Errorf("%s%s: %d chunks have timings, want the last one: %s", path, usage, n, text)
			}
			last := text[strings.LastIndex(text[:strings.LastIndex(text, "data: [DONE]")], "data: ")+len("data: "):]
			if o := decode(t, last[:strings.Index(last, "\n")]); o.get(t, "timings", "predicted_n") != 6.0 {
				t.Errorf("%s%s: %v", path, usage, o)
			}
		}
	}
}

// deadlines is a connection that notes until when it may be written to.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.set = append(d.set, t); return nil }
func (d *deadlines) FlushError() error                  { return nil }

// Each piece of a stream must be taken within the time that a client may take: the deadline is set anew for each.
func TestWriteDeadline(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.WriteTime = 7 * time.Second })
	clock := time.Unix(1700000000, 0)
	s.now = func() time.Time { clock = clock.Add(time.Minute); return clock }
	d := &deadlines{ResponseWriter: httptest.NewRecorder()}
	l := s.newLines(d, true)
	var want []time.Time
	for range 3 {
		l.raw("x")
		if err := l.flush(); err != nil {
			t.Fatal(err)
		}
		want = append(want, clock.Add(7*time.Second))
	}
	if !slices.EqualFunc(d.set, want, time.Time.Equal) {
		t.Errorf("deadlines %v, want %v", d.set, want)
	}
}

// Idle waits for requests that are under way.
func TestIdle(t *testing.T) {
	s := newTester(t, nil)
	if err := s.Idle(t.Context()); err != nil {
		t.Error(err)
	}
	release, h := s.hold()
	go s.do("POST", "/v1/completions", small)
	<-h.entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Idle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a request is under way: %v", err)
	}
	release()
	if err := s.Idle(t.Context()); err != nil {
		t.Error(err)
	}
}
