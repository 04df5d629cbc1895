package serve

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/specgo/spec"
)

var zeroTime time.Time

// Server answers requests. It is an [http.Handler], safe for concurrent use.
type Server struct {
	o         Options
	tables    tables
	models    *pool
	queue     queue
	slotting  queue // of slots to save, restore and erase
	preparing queue // of grammars to compile and large bodies to read
	metrics   metrics
	front     front

	clients   atomic.Pointer[[]*client] // of the keys
	reloading sync.Mutex                // changes of clients, and of which models there are
	looked    atomic.Pointer[time.Time] // when a request has had the Store asked for its models
	anyone    *client                   // everybody, on a server without keys
	inside    inside                    // requests with a body
	sockets   sockets                   // of Serve
	visitors  visitors

	base     context.Context // ends when the server is closed
	cancel   context.CancelFunc
	work     sync.WaitGroup // loads under way
	loading  atomic.Int32   // calls of Load under way
	draining atomic.Bool
	started  time.Time
	answered atomic.Int64 // when an answer ended last, nanoseconds

	now   func() time.Time
	newID func(prefix string) string
}

// front is what requests come to.
type front struct {
	mux     *http.ServeMux // the endpoints
	handler http.Handler   // them, guarded
}

// New makes a server. It loads no model: the first request does, or [Server.Load].
func New(o Options) (*Server, error) {
	o.Models, o.Keys, o.Hosts, o.Origins = slices.Clone(o.Models), slices.Clone(o.Keys), slices.Clone(o.Hosts),
		slices.Clone(o.Origins)
	o.TrustedProxies = slices.Clone(o.TrustedProxies)
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Server{o: o, tables: newTables(), now: time.Now, newID: randomID}
	s.started = s.now()
	s.base, s.cancel = context.WithCancel(context.Background())
	s.queue = queue{most: o.Parallel, longest: o.Queue}
	s.preparing, s.slotting = queue{most: 1, longest: o.Queue}, queue{most: 1, longest: o.Queue}
	s.inside = inside{
		most: int64(o.Parallel + o.Queue + spareRequests), bytes: o.Limits.BodiesBytes, byWhom: map[*client]*holding{},
	}
	s.sockets = sockets{
		limits: &s.o.Limits, exempt: s.trusted, open: map[*socket]bool{}, unkeyed: map[netip.Addr]int{},
		changed: make(chan struct{}),
	}
	s.visitors.count = map[netip.Addr]int{}
	clients := clientsOf(o.Keys)
	s.clients.Store(&clients)
	s.anyone = newClient("", 1)
	s.models = newPool(s)
	s.front.mux = s.routes()
	handler, err := s.guard()
	if err != nil {
		return nil, err
	}
	s.front.handler = handler
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.front.handler.ServeHTTP(w, r) }

// Load loads a model now instead of at the first request for it; "" is the default one. Meanwhile /health and /readyz
// answer 503, and requests for the model wait.
func (s *Server) Load(ctx context.Context, name string) error {
	s.loading.Add(1)
	defer s.loading.Add(-1)
	_, release, err := s.models.acquire(ctx, name)
	if err == nil {
		release()
	}
	return err
}

// Drain makes /readyz answer 503 from now on, so that balancers send no more requests. Requests are still answered.
func (s *Server) Drain() { s.draining.Store(true) }

// Idle waits until no request with a body is under way. A program with an http.Server of its own calls it between
// Drain and the end of listening, so that balancers see /readyz answer 503 while streams finish; [Server.Shutdown]
// does.
func (s *Server) Idle(ctx context.Context) error {
	tick := time.NewTicker(idlePoll)
	defer tick.Stop()
	for s.inside.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// idlePoll is how often Idle looks.
const idlePoll = 5 * time.Millisecond

// Cancel ends what is under way. Clients are told, where they still listen.
func (s *Server) Cancel() { s.Drain(); s.cancel() }

// Close cancels what is under way, ends Serve, and frees the models. An http.Server of the program's own must accept
// no more requests: Close waits for those that are inside.
func (s *Server) Close() {
	s.Cancel()
	for _, web := range s.sockets.end() {
		_ = web.Close() // an error is that of the listener, which is gone either way
	}
	for s.inside.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	s.work.Wait()
	s.models.close()
}

// randomID is an id with a prefix, as "chatcmpl-…".
func randomID(prefix string) string { return prefix + rand.Text() }

// endpoint is one that generates text.
type endpoint struct {
	path   string
	form   forms
	make   func(*reading) form
	sse    bool                           // streams are server-sent events, else JSON lines
	stream bool                           // unless the body says otherwise
	check  func(*Server, *request) *Error // what the body must have
	untold bool                           // its streams have no place for what speculation.trace asks for
	error  func(*Error) any
}

func openAIError(e *Error) any { return e.wire() }

var endpoints = []*endpoint{
	{
		path: "/v1/chat/completions", form: formChat, make: newChatForm, sse: true, check: needChat,
		error: openAIError,
	},
	{
		path: "/v1/completions", form: formCompletion, make: newCompletionForm, sse: true, check: needPrompt,
		error: openAIError,
	},
	{
		path: "/v1/responses", form: formResponses, make: newResponsesForm, sse: true, check: needInput,
		error: openAIError, untold: true,
	},
	{
		path: "/v1/messages", form: formMessages, make: newAnthropicForm, sse: true, check: needAnthropic,
		error: anthropicError, untold: true,
	},
	// for clients whose base URL lacks /v1
	{
		path: "/responses", form: formResponses, make: newResponsesForm, sse: true, check: needInput,
		error: openAIError, untold: true,
	},
	{path: "/chat/completions", form: formChat, make: newChatForm, sse: true, check: needChat, error: openAIError},
	{path: "/completion", form: formNative, make: newNativeForm, sse: true, check: needNative, error: openAIError},
	{path: "/completions", form: formNative, make: newNativeForm, sse: true, check: needNative, error: openAIError},
	{path: "/infill", form: formInfill, make: newNativeForm, sse: true, check: needInfill, error: openAIError},
	{
		path: "/api/chat", form: formOllamaChat, make: newOllamaChatForm, stream: true, check: needMessages,
		error: ollamaError,
	},
	{
		path: "/api/generate", form: formOllamaGenerate, make: newOllamaGenerateForm, stream: true,
		check: needOllamaPrompt, error: ollamaError,
	},
}

// needMessages is the check of conversations whose last message may be the beginning of the answer.
func needMessages(_ *Server, r *request) *Error {
	if r.messages == nil {
		return badField("messages", "missing")
	}
	r.mayGoOn = true
	return nil
}

func needChat(s *Server, r *request) *Error {
	if !r.genTail && !r.goOn {
		return badField("add_generation_prompt", "false needs continue_final_message: true")
	}
	if r.begun && r.goOn {
		return badField("continue_final_message", "contradicts add_generation_prompt: true")
	}
	return needMessages(s, r)
}

func needPrompt(_ *Server, r *request) *Error {
	if r.prompts == nil {
		return badField("prompt", "missing")
	}
	return nil
}

// parse reads a body that a client has sent.
func (s *Server) parse(ctx context.Context, form forms, who *client, body []byte, bounded bool) (*request, error) {
	r := s.newRequest()
	r.client = who
	return r, s.read(ctx, form, r, body, bounded)
}

// read reads a body into a request, a large one in turn.
func (s *Server) read(ctx context.Context, form forms, r *request, body []byte, bounded bool) error {
	r.large = len(body) > largeBody
	return s.early(ctx, r, bounded, func() error {
		if err := s.readNow(form, r, body); err != nil {
			return err
		}
		return nil
	})
}

// largeBody is the size of a body, in bytes, from which on its reading takes a good part of a pass of a small model.
const largeBody = 32 << 10

// early does work on a request that comes before its answers and whose time grows with the body: in turn for large
// ones, so that the processors are there for passes and for requests that are small.
func (s *Server) early(ctx context.Context, r *request, bounded bool, work func() error) error {
	if !r.large {
		return work()
	}
	return s.inTurn(ctx, r.client, bounded, work)
}

// inTurn does work that takes much processor time when its turn has come: one at a time, in a queue of its own, so
// that no place for an answer waits for it. Where answers are computed the next turn comes after a rest, but for lines
// of a batch, which are not bounded.
func (s *Server) inTurn(ctx context.Context, who *client, bounded bool, work func() error) error {
	_, leave, err := s.preparing.enter(ctx, &who.preparing, 1, bounded)
	if err != nil {
		return err
	}
	begin := time.Now()
	defer func() {
		if pause := s.rest(time.Since(begin)); pause > 0 && bounded {
			time.AfterFunc(pause, leave)
			return
		}
		leave()
	}()
	return work()
}

// Rests between turns of work that takes much processor time: it has a processor for itself, collections of garbage
// have some more, and on a machine of few processors the passes meanwhile are slower.
const (
	leastWork  = time.Millisecond // behind which there is a rest
	mostRest   = 200 * time.Millisecond
	restFactor = 4           // of the work's time, by processors: 2 on a machine of two
	restWindow = time.Second // after an answer, whose client may soon ask again
)

// rest is how long nobody has a turn after work that took so long: most passes then have all processors. There is none
// where no answer is computed or was lately.
func (s *Server) rest(worked time.Duration) time.Duration {
	busy, waiting := s.queue.load()
	since := time.Since(time.Unix(0, s.answered.Load())) // below 0 where the clock was set back meanwhile
	lately := since >= 0 && since < restWindow
	if worked < leastWork || busy+waiting == 0 && !lately {
		return 0
	}
	return min(worked*restFactor/time.Duration(runtime.GOMAXPROCS(0)), mostRest)
}

// job is a request with what it holds while it is answered. It may be closed twice.
type job struct {
	*reading
	places int
	leave  []func()
	ends   atomic.Int64 // answers that have ended
	closed atomic.Int64 // answers whose sequences were given back
	finish func()       // gives the places back
}

// ending is called when an answer has ended and passes still wait for its sequence: whoever is to have its place is
// announced, so that its first tokens are in the next pass.
func (j *job) ending(int) {
	switch left := j.task.Answers() - int(j.ends.Add(1)); {
	case left >= j.places:
		j.task.Expect() // the next one of its own
	case left == 0:
		j.server().queue.ending(&j.client.places, j.places)
	}
}

// ended is called when an answer's sequence has been given back. Behind the last one the places are free, while the
// client reads.
func (j *job) ended(i int, held spec.Held) {
	j.reading.ended(i, held)
	if j.closed.Add(1) == int64(j.task.Answers()) {
		j.finish()
	}
}

func (j *job) close() {
	for _, f := range slices.Backward(j.leave) {
		f()
	}
}

// prepare binds a body to its model and waits for places. The job must be closed.
func (s *Server) prepare(ctx context.Context, ep *endpoint, r *request, bounded bool, log *record) (*job, error) {
	if err := ep.check(s, r); err != nil {
		return nil, err
	}
	switch {
	case r.trace && ep.untold:
		return nil, badField("speculation.trace", "answers of %s have no place for it", ep.path)
	case r.trace && !r.stream:
		return nil, badField("speculation.trace", "only of streams")
	}
	m, release, err := s.models.acquire(ctx, r.model)
	if err != nil {
		return nil, err
	}
	j, ready := &job{leave: []func(){release}}, false
	defer func() {
		if !ready { // also after a panic
			j.close()
		}
	}()
	var task *spec.Task
	err = s.early(ctx, r, bounded, func() (err error) { task, err = s.bind(ctx, m, r); return err })
	if err != nil {
		return nil, err
	}
	j.leave = append(j.leave, task.Close)
	if err := s.compile(ctx, r.client, task, bounded); err != nil {
		return nil, err
	}
	places, waited, leave, err := s.enter(ctx, m, r.client, task.Answers(), bounded, task.Expect)
	if err != nil {
		return nil, err
	}
	j.finish = sync.OnceFunc(func() {
		leave()
		s.answered.Store(time.Now().UnixNano())
	})
	j.leave = append(j.leave, j.finish)
	j.reading, j.places = newReading(m, r, task), places
	j.asked = log.asked
	log.model, log.queued, ready = m.name, waited, true
	return j, nil
}

// enter waits for places for work with a model (at most all there are) and returns how many it got, after what time,
// and what gives them back. expect announces that one is about to be free; it may be nil.
func (s *Server) enter(ctx context.Context, m *loaded, who *client, n int, bounded bool, expect func()) (
	places int, waited time.Duration, leave func(), err error) {
	n = min(n, s.o.Parallel)
	begun := s.now()
	counted := s.metrics.waits(m.name, n)
	places, free, err := s.queue.enterExpected(ctx, &who.places, n, bounded, expect)
	waited = s.now().Sub(begun)
	if counted(err == nil, waited); err != nil {
		return 0, waited, nil, err
	}
	return places, waited, sync.OnceFunc(func() {
		free()
		s.metrics.ended(m.name, n)
	}), nil
}

// events are those of the answers.
func (j *job) events(ctx context.Context) iter.Seq2[spec.Event, error] {
	return j.task.Generate(ctx, spec.Run{AtOnce: j.places, Buffer: j.server().o.StreamBuffer,
		Began: j.began, Ending: j.ending, Ended: j.ended, Figures: j.figured})
}

// whole answers a job in one piece.
func (s *Server) whole(ctx context.Context, ep *endpoint, j *job) (any, error) {
	f := ep.make(j.reading)
	for i := range j.answers {
		j.begin(i)
	}
	for e, err := range j.events(ctx) {
		if err != nil {
			j.answers[e.Answer].Add(&e)
			return nil, err
		}
		j.read(&e)
	}
	return f.whole(), nil
}

// stream answers a job piece by piece. An error before anything was sent is returned; a later one is told in the
// stream and returned too.
func (s *Server) stream(ctx context.Context, ep *endpoint, j *job, to sink) (begun bool, err error) {
	f := ep.make(j.reading)
	if err = s.deltas(ctx, f, j, to, &begun); err == nil {
		f.end(to)
		return begun, to.flush()
	}
	err = s.told(err)
	if to.started() && !begun { // with what keeps the connection
		begun = true
		f.begin(to)
	}
	if begun {
		f.fail(to, asError(err))
		to.flush() // the client may be gone: err is what is told
	}
	return begun, err
}

// deltas writes what the events of a job bring. What is there at once is sent at once.
func (s *Server) deltas(ctx context.Context, f form, j *job, to sink, begun *bool) error {
	for e, err := range j.events(ctx) {
		if err != nil {
			j.answers[e.Answer].Add(&e)
			return err
		}
		if !*begun {
			*begun = true
			f.begin(to)
		}
		if d, ok := j.read(&e); ok {
			f.delta(to, &d)
		}
		if e.More {
			continue
		}
		if err := to.flush(); err != nil {
			return err
		}
	}
	return nil
}

// Do answers one request body without HTTP, as a line of a batch: path is that of an endpoint of OpenAI's API, the
// answer is what it would send. It waits for its turn however long the queue is. A cancelled ctx gives status 499. Of
// an error of the server's own the log has the details.
func (s *Server) Do(ctx context.Context, path string, body []byte) (status int, answer []byte) {
	visit, _ := s.inside.enter(s.anyone, false) // which is never refused
	defer visit.end()
	ctx, cancel := s.joined(ctx, s.o.RequestTime)
	defer cancel()
	log := &record{asked: s.now(), client: s.anyone, visit: visit}
	v, err := s.do(ctx, path, body, log)
	label, _ := s.route(&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}})
	if err != nil {
		err = s.told(err)
		e := asError(err)
		s.metrics.request(label, e.Status)
		if e.internal() {
			s.o.Log.Error("request", "path", clip(path), "status", e.Status, "error", err.Error())
		}
		return e.Status, encode(e.wire())
	}
	s.metrics.request(label, http.StatusOK)
	return http.StatusOK, encode(v)
}

func (s *Server) do(ctx context.Context, path string, body []byte, log *record) (v any, err error) {
	defer s.recovered(&err)
	if path == "/v1/embeddings" {
		return s.embeddings(ctx, formEmbeddings, body, false, log)
	}
	for _, ep := range endpoints {
		if ep.path != path || !ep.sse {
			continue
		}
		r, err := s.parse(ctx, ep.form, log.client, body, false)
		if err != nil {
			return nil, err
		}
		if r.stream {
			return nil, badField("stream", "answers of a batch are not streamed")
		}
		j, err := s.prepare(ctx, ep, r, false, log)
		if err != nil {
			return nil, err
		}
		defer j.close()
		defer func() { s.metrics.answered(j.reading) }()
		return s.whole(ctx, ep, j)
	}
	return nil, &Error{
		Status: http.StatusNotFound, Type: typeNotFound, Message: fmt.Sprintf("no endpoint %s", clip(path)),
	}
}

// joined is a context that also ends with the server, and by the time that a request may take, where that is not 0.
func (s *Server) joined(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.base, cancel)
	timeout := func() {}
	if most > 0 {
		ctx, timeout = context.WithTimeout(ctx, most)
	}
	return ctx, func() { stop(); timeout(); cancel() }
}
