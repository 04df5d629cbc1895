package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/specgo/spec"
	"github.com/specgo/spec/internal/batch"
	"github.com/specgo/spec/internal/strictjson"
)

// WorkerOptions say what a worker answers with.
type WorkerOptions struct {
	Queue    *Queue
	Identity spec.Identity
	// Do answers a request, as [serve.Server.Do] does. Statuses of a program that cannot answer now (429, 499, 500, 503,
	// 504) are no answers: the request goes back.
	Do       func(ctx context.Context, r Request) (status int, answer []byte)
	Parallel int // requests at once, at least 1

	// Queues says that Do lets requests wait that are more than Parallel, as a server's queue does: those that are taken
	// ahead then wait there, with their prompts read, and the first pass after an answer's end can have the next one.
	Queues bool
	// Tries is how often a request is handed out before it is given up; 0 is DefaultTries. Each counts, also one that
	// ended with its worker, or before the request had a place.
	Tries int
	Log   *slog.Logger // nil: none
}

// DefaultTries is what the zero value of WorkerOptions.Tries stands for.
const DefaultTries = 10

// Worker takes requests from a queue and stores their answers.
type Worker struct {
	o         WorkerOptions
	q         *Queue
	identity  string
	counts    counts
	places    *places
	leaseLook time.Duration // mostLeasePause, but in tests
	mostLanes int           // mostLanes, but in tests

	lost loss
	left chan string // lanes whose consumers are gone

	mu    sync.Mutex
	lanes [][]*source // of each priority
	next  []int       // where the next search begins
}

// source is a lane with its consumer.
type source struct {
	lane
	consumer jetstream.Consumer
	lease    atomic.Int64 // nanoseconds; somebody may change it meanwhile
}

func newSource(l lane, c jetstream.Consumer) *source {
	s := &source{lane: l, consumer: c}
	s.lease.Store(int64(c.CachedInfo().Config.AckWait))
	return s
}

// pause is how much time lies between two extensions of a lease, and two looks at how long it is: a third of it.
func (s *source) pause(most time.Duration) time.Duration {
	return max(min(time.Duration(s.lease.Load())/3, most), time.Millisecond)
}

// mostLeasePause is the most of such a pause: one that somebody has made shorter is known after that.
const mostLeasePause = 10 * time.Second

// NewWorker makes a worker and makes its identity known.
func NewWorker(ctx context.Context, o WorkerOptions) (*Worker, error) {
	sum, err := o.Identity.Sum()
	if err != nil {
		return nil, err
	}
	if o.Parallel, o.Tries = max(o.Parallel, 1), max(o.Tries, 0); o.Tries == 0 {
		o.Tries = DefaultTries
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := &Worker{o: o, q: o.Queue, identity: sum, places: newPlaces(o.Parallel, o.Queues),
		leaseLook: mostLeasePause, mostLanes: mostLanes, left: make(chan string, mostLeft)}
	w.lanes, w.next = make([][]*source, len(Priorities)), make([]int, len(Priorities))
	return w, w.q.announce(ctx, sum, o.Identity)
}

// errClosed is the error of a connection that does not come back.
var errClosed = errors.New("the connection is closed for good, or the queue's bucket of lanes cannot be watched")

// Run answers requests until ctx ends; where the connection is closed for good, or the queue is gone, it ends with an
// error. Those that are not answered then go back to the queue.
func (w *Worker) Run(ctx context.Context) error {
	whole := ctx
	ctx, lost := context.WithCancel(ctx)
	defer lost()
	watch, err := w.q.known.Watch(ctx, lane{identity: w.identity, priority: "*", tenant: "*"}.entry())
	if err != nil {
		return unless(ctx, err)
	}
	woken := make(chan struct{}, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	sub, err := w.q.nc.Subscribe(w.q.wakeSubject(w.identity), func(*nats.Msg) { wake() })
	if err != nil {
		return unless(ctx, errors.Join(err, watch.Stop()))
	}
	defer func() { _, _ = sub.Unsubscribe(), watch.Stop() }() // the connection is closed next
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		w.followAll(ctx, watch.Updates(), wake)
		lost()
	})
	all.Go(func() {
		w.followLeases(ctx)
		lost()
	})
	pause := time.NewTimer(0)
	for wait := shortestPause; ; {
		n := w.places.hold(ctx)
		if n == 0 {
			return unless(whole, cmp.Or(w.lost.known(), errClosed))
		}
		asked := time.Now()
		list, from := w.take(ctx, n)
		for _, msg := range list {
			all.Go(func() { w.handle(ctx, from, msg, asked) })
		}
		for range n - len(list) {
			w.places.leave()
		}
		if len(list) > 0 {
			wait = shortestPause
			continue
		}
		pause.Reset(wait)
		wait = min(2*wait, longestPause)
		select {
		case <-pause.C:
		case <-woken:
			wait = shortestPause
		case <-ctx.Done():
		}
	}
}

// unless is an error that is not that of an end.
func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// How long a worker waits until it looks for requests again, where it is not woken.
const shortestPause, longestPause = 2 * time.Millisecond, 250 * time.Millisecond

// longestLanePause is how long a worker waits at most until it tries again to follow a lane.
const longestLanePause = 10 * time.Second

// followAll follows the lanes that the bucket tells of, until it tells no more, or ctx ends. One that cannot be
// followed now is tried again later; the others do not wait for it.
func (w *Worker) followAll(ctx context.Context, told <-chan jetstream.KeyValueEntry, wake func()) {
	var left []string // those that are to be followed
	retry, pause := time.NewTimer(0), shortestPause
	defer retry.Stop()
	add := func(entry string) {
		if !slices.Contains(left, entry) {
			left, pause = append(left, entry), shortestPause
			retry.Reset(0)
		}
	}
	for {
		select {
		case e, ok := <-told:
			if !ok {
				return
			}
			if e != nil && e.Operation() == jetstream.KeyValuePut {
				add(e.Key())
			}
		case entry := <-w.left:
			add(entry)
		case <-retry.C:
			left = slices.DeleteFunc(left, func(entry string) bool { return w.follow(ctx, entry) })
			if wake(); len(left) > 0 {
				retry.Reset(pause)
				pause = min(2*pause, longestLanePause)
			}
		case <-ctx.Done():
			return
		}
	}
}

// mostLeft is how many lanes may wait to be followed anew.
const mostLeft = 64

// leave has a lane followed anew whose consumer does not answer: somebody has deleted it, or the servers of a cluster
// change places.
func (w *Worker) leave(rank int, s *source) {
	w.mu.Lock() // follow adds the lane behind that
	defer w.mu.Unlock()
	select {
	case w.left <- s.entry():
		w.lanes[rank] = slices.DeleteFunc(slices.Clone(w.lanes[rank]), func(o *source) bool { return o == s })
	default: // next time
	}
}

// mostLanes is how many lanes a worker follows: each has a consumer at the servers, and is asked in turn.
const mostLanes = 1 << 12

// full reports whether there are as many lanes as a worker follows. The caller has the lock.
func (w *Worker) full() bool {
	n := 0
	for _, list := range w.lanes {
		n += len(list)
	}
	return n >= w.mostLanes
}

// follow makes a lane one that requests are taken from. It reports false where that has to be tried again.
func (w *Worker) follow(ctx context.Context, entry string) bool {
	words := strings.Split(entry, ".")
	l := lane{w.identity, words[2], words[3]}
	rank := slices.Index(Priorities, l.priority)
	if rank < 0 || !word.MatchString(l.tenant) {
		w.o.Log.Warn("a lane that is none", "entry", entry)
		return true
	}
	w.mu.Lock()
	full := w.full() && !slices.ContainsFunc(w.lanes[rank], func(s *source) bool { return s.lane == l })
	w.mu.Unlock()
	if full {
		w.o.Log.Warn("too many lanes: its requests are left to other workers", "lane", entry, "most", w.mostLanes)
		return true
	}
	name := strings.Join([]string{subjectWord(w.identity), l.priority, l.tenant}, "_")
	c, err := w.q.work.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: name, FilterSubject: w.q.workSubject(l, "*"), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: w.q.o.Lease, MaxAckPending: w.q.o.InFlight, MaxDeliver: -1,
	})
	if errors.Is(err, jetstream.ErrConsumerExists) { // with other limits, which somebody has set
		c, err = w.q.work.Consumer(ctx, name)
	}
	if err != nil {
		if ctx.Err() == nil {
			w.o.Log.Warn("no consumer", "lane", entry, "error", err)
		}
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.lanes[rank], func(s *source) bool { return s.lane == l }) {
		w.lanes[rank] = append(w.lanes[rank], newSource(l, c))
	}
	return true
}

// take is the next requests, n at most: of the highest priority that has any. Its tenants take turns, and none has more
// than its part of n at once. None: there are none.
func (w *Worker) take(ctx context.Context, n int) ([]jetstream.Msg, *source) {
	for rank := range w.lanes {
		w.mu.Lock()
		list := slices.Clone(w.lanes[rank])
		begin := w.next[rank]
		w.mu.Unlock()
		for i := range list {
			if ctx.Err() != nil { // each lane is a second where the queue is away
				return nil, nil
			}
			at := (begin + i) % len(list)
			batch, err := list[at].consumer.FetchNoWait(max(1, n/len(list)))
			var taken []jetstream.Msg
			if err == nil {
				for msg := range batch.Messages() {
					taken = append(taken, msg)
				}
				err = batch.Error()
			}
			if err != nil && ctx.Err() == nil {
				w.o.Log.Warn("no request", "lane", list[at].entry(), "error", err)
				if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrConsumerDeleted) {
					w.leave(rank, list[at])
				}
			}
			if len(taken) > 0 {
				w.mu.Lock()
				w.next[rank] = at + 1
				w.mu.Unlock()
				return taken, list[at]
			}
			if batch == nil { // the queue does not answer
				return nil, nil
			}
		}
	}
	return nil, nil
}

// handle answers a request and gives it back, gives it up or acknowledges it: in this order of what may fail, so that
// nothing is acknowledged without an answer, or a reason, on disk. Its place is free for another one while its answer
// is stored; where the queue stores none, some answers wait (places.storing), then places do. asked is when the queue
// was asked for it.
func (w *Worker) handle(ctx context.Context, from *source, msg jetstream.Msg, asked time.Time) {
	leave := sync.OnceFunc(w.places.leave)
	defer leave()
	w.counts.inFlight.Add(1)
	defer w.counts.inFlight.Add(-1)
	end := w.extend(msg, from)
	defer end()
	key := msg.Headers().Get(headerKey)
	meta, err := msg.Metadata()
	if err != nil {
		w.o.Log.Warn("not a message of a stream", "error", err)
		return
	}
	if meta.NumDelivered > 1 {
		w.counts.redelivered.Add(1)
	}
	tries := int(min(meta.NumDelivered, 1<<30))
	r, err := w.read(msg)
	if err != nil {
		w.counts.refused.Add(1)
		w.o.Log.Warn("refused", "key", key, "try", tries, "reason", err)
		w.back(ctx, msg, key, tries, "refused: "+err.Error())
		return
	}
	var have *Answer
	err = w.insist(ctx, key, func(ctx context.Context) (err error) {
		have, err = w.q.answer(ctx, key)
		return err
	})
	switch {
	case errors.Is(err, errUnreadable):
		w.giveUp(ctx, msg, key, tries, err.Error())
		return
	case err != nil:
		w.nak(msg, time.Second)
		return
	case have != nil:
		w.counts.repeated.Add(1)
		w.ack(msg)
		return
	case tries > w.o.Tries:
		w.giveUp(ctx, msg, key, tries, fmt.Sprintf("handed out %d times, and no worker answered or told why", tries-1))
		return
	}
	before := time.Since(asked)
	idle, ok := w.places.enter(ctx, asked)
	if !ok {
		w.counts.returned.Add(1)
		w.nak(msg, 0)
		return
	}
	begin := time.Now()
	w.counts.queue.add(idle)
	status, body := w.answer(ctx, r)
	w.places.learn(time.Since(begin), before)
	w.places.storing <- struct{}{}
	defer func() { <-w.places.storing }()
	leave()
	switch {
	case ctx.Err() != nil && status != http.StatusOK:
		w.counts.returned.Add(1)
		w.nak(msg, 0)
		return
	case batch.Transient(status):
		w.o.Log.Warn("no answer", "key", key, "try", tries, "status", status, "reason", string(body))
		w.back(ctx, msg, key, tries, fmt.Sprintf("status %d: %s", status, body))
		return
	}
	w.counts.answered(status)
	mine := Answer{Status: status, Body: json.RawMessage(body)}
	var won bool
	err = w.insist(ctx, key, func(ctx context.Context) (err error) {
		won, err = w.q.store(ctx, key, &mine)
		return err
	})
	switch {
	case unstorable(err):
		w.back(ctx, msg, key, tries, err.Error())
		return
	case err != nil:
		w.nak(msg, 0)
		return
	}
	w.ack(msg)
	if won {
		return
	}
	// Another worker was given the same request: what it has stored must be the same.
	w.counts.repeated.Add(1)
	if have, err := w.q.answer(context.WithoutCancel(ctx), key); err != nil || have == nil {
		w.o.Log.Warn("an answer that was there is not found", "key", key, "error", err)
	} else if same, err := Same(*have, mine); err != nil || !same {
		w.counts.different.Add(1)
		w.o.Log.Error("the answer differs from the stored one", "key", key, "error", err, "stored", string(have.Body),
			"mine", string(body))
	}
}

// answer answers a request in its place, which is free then.
func (w *Worker) answer(ctx context.Context, r Request) (status int, body []byte) {
	defer w.places.end()
	return w.o.Do(ctx, r)
}

// read reads a request, and refuses one that is not for this worker's identity or was changed on the way.
func (w *Worker) read(msg jetstream.Msg) (r Request, err error) {
	if id := msg.Headers().Get(headerIdentity); id != w.identity {
		return r, fmt.Errorf("it is for the identity %.64s, this worker has %s", id, w.identity)
	}
	var j job
	if err := strictjson.Unmarshal(msg.Data(), &j); err != nil {
		return r, err
	}
	r.Path, r.Body = j.Path, j.Body
	if key := Key(w.identity, r); key != msg.Headers().Get(headerKey) {
		return r, fmt.Errorf("its key is %.64s, that of its content %s", msg.Headers().Get(headerKey), key)
	}
	return r, nil
}

// back gives a request back for another try, or up after the last one.
func (w *Worker) back(ctx context.Context, msg jetstream.Msg, key string, tries int, reason string) {
	if tries >= w.o.Tries {
		w.giveUp(ctx, msg, key, tries, reason)
		return
	}
	w.counts.returned.Add(1)
	w.nak(msg, min(100*time.Millisecond<<min(tries, 10), w.q.o.Lease))
}

// giveUp stores a request among the dead letters, with the reason.
func (w *Worker) giveUp(ctx context.Context, msg jetstream.Msg, key string, tries int, reason string) {
	m := nats.NewMsg(w.q.deadSubject(key))
	if !keyForm.MatchString(key) { // whoever may publish says what it is, and a server refuses a long subject
		m.Subject = w.q.deadSubject("none")
	}
	m.Header.Set(headerKey, oneLine(key))
	m.Header.Set(headerReason, oneLine(reason))
	m.Header.Set(headerTries, fmt.Sprint(tries))
	if m.Data = msg.Data(); int64(m.Size()) > w.q.nc.MaxPayload() {
		m.Data = nil // it came with fewer headers
	}
	if err := w.insist(ctx, key, func(ctx context.Context) error { return w.q.publish(ctx, m) }); err != nil {
		w.nak(msg, time.Second)
		return
	}
	w.counts.dead.Add(1)
	w.o.Log.Error("given up", "key", key, "tries", tries, "reason", reason)
	if err := msg.TermWithReason(oneLine(reason)); err != nil {
		w.o.Log.Warn("a request that was given up comes again", "key", key, "error", err)
	}
}

// keyForm is the form of keys.
var keyForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// oneLine makes a text a header's value.
func oneLine(s string) string {
	const longest = 300
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}

// insist has the queue do something for a request until it has: a queue that is full or away is none of the request's
// fault, and to give the request back would count as a try of it and have its answer computed again. It fails where the
// queue can never do it, and when ctx has ended, which what is under way outlasts by the queue's patience.
func (w *Worker) insist(ctx context.Context, key string, do func(context.Context) error) error {
	for pause := shortestFailPause; ; pause = min(2*pause, longestFailPause) {
		last := ctx.Err() != nil
		once, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the queue bounds its calls
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(w.q.patience(), cancel) })
		err := do(once)
		stop()
		cancel()
		if err == nil {
			return nil
		}
		w.counts.failed.Add(1)
		w.o.Log.Warn("the queue fails", "key", key, "error", err)
		if last || unstorable(err) || errors.Is(err, errUnreadable) {
			return err
		}
		sleep(ctx, pause)
	}
}

// How long a worker waits until it asks a queue again that has failed.
const shortestFailPause, longestFailPause = 100 * time.Millisecond, 10 * time.Second

func (w *Worker) ack(msg jetstream.Msg) {
	if err := msg.Ack(); err != nil {
		w.o.Log.Warn("not acknowledged: it comes again, and is found answered", "error", err)
	}
}

func (w *Worker) nak(msg jetstream.Msg, delay time.Duration) {
	if err := msg.NakWithDelay(delay); err != nil {
		w.o.Log.Warn("not given back: it comes again when its lease ends", "error", err)
	}
}

// extend tells the queue that a request of a lane is being answered, three times in each lease at least, until end is
// called.
func (w *Worker) extend(msg jetstream.Msg, from *source) (end func()) {
	done := make(chan struct{})
	var once sync.WaitGroup
	once.Go(func() {
		pause := time.NewTimer(from.pause(w.leaseLook))
		defer pause.Stop()
		for {
			select {
			case <-pause.C:
				if err := msg.InProgress(); err != nil {
					w.o.Log.Warn("the lease is not extended", "error", err)
				}
				pause.Reset(from.pause(w.leaseLook))
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		once.Wait()
	}
}

// followLeases asks how long the leases of the lanes are, until ctx ends or the queue is lost: whoever changes one
// changes it for requests that are being answered, too.
func (w *Worker) followLeases(ctx context.Context) {
	pause := time.NewTimer(w.leaseLook)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		next := w.leaseLook
		w.mu.Lock()
		all := slices.Concat(w.lanes...)
		w.mu.Unlock()
		for _, s := range all {
			if info, err := s.consumer.Info(ctx); err == nil {
				s.lease.Store(int64(info.Config.AckWait))
			} // else the search for requests says what is wrong
			next = min(next, s.pause(w.leaseLook))
		}
		if w.lost.look(ctx, w.q) != nil {
			return
		}
		pause.Reset(next)
	}
}
