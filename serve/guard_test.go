package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
)

const small = `{"prompt":"func","max_tokens":3}`

func TestKeys(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Keys = []Key{{Secret: "one"}, {Secret: "two"}}; o.Page = true })
	for _, c := range []struct {
		method, path string
		header       []string
		want         int
	}{
		{"POST", "/v1/completions", nil, 401},
		{"POST", "/v1/completions", []string{"Authorization", "Bearer wrong"}, 401},
		{"POST", "/v1/completions", []string{"Authorization", "Bearer "}, 401},
		{"POST", "/v1/completions", []string{"Authorization", "Basic one"}, 401},
		{"POST", "/v1/completions", []string{"Authorization", "Bearer one"}, 200},
		{"POST", "/v1/completions", []string{"Authorization", "bearer two"}, 200},
		{"POST", "/v1/completions", []string{"X-Api-Key", "two"}, 200},
		{
			"GET", "/v1/models", nil, 401,
		}, {
			"GET", "/metrics", nil, 401,
		}, {"GET", "/slots", nil, 401}, {"GET", "/props", nil, 401}, {"GET", "/api/tags", nil, 401},
		{
			"GET", "/health", nil, 200,
		}, {
			"GET", "/livez", nil, 200,
		}, {"GET", "/readyz", nil, 200}, {"GET", "/v1/health", nil, 200},
		{"GET", "/", nil, 200}, {"HEAD", "/", nil, 200}, {"GET", "/app.js", nil, 200},
		{"POST", "/app.js", nil, 401},
	} {
		status, text, h := s.do(c.method, c.path, small, c.header...)
		if status != c.want {
			t.Errorf("%s %s %v: %d %s", c.method, c.path, c.header, status, text)
		}
		if status == 401 && h.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %v", c.path, h)
		}
	}
}

func TestHosts(t *testing.T) {
	for _, h := range []string{"", "example.org:80", "http://example.org", "*.example.org", "a b"} {
		o := Options{Models: []Entry{entry(t, "go")}, Hosts: []string{h}}
		if _, err := New(o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "--allowed-host") {
			t.Errorf("%q: %v", h, err)
		}
	}
	s := newTester(t, func(o *Options) { o.Hosts = []string{"models.example.org.", "::1"} })
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "LOCALHOST": 200, "127.0.0.1:99": 200, "[::1]:8080": 200,
		"192.168.1.5": 200, "models.example.org": 200, "Models.Example.org:443": 200,
		"app.localhost": 200, "App.Localhost.:80": 200, "localhost.": 200, "models.example.org.": 200,
		"models.example.org.:80": 200, "[::1]": 200, "[fe80::1]:80": 200,
		"host.docker.internal:11434": 200, "Host.Containers.internal": 200,
		"evil.host.docker.internal": 403, "docker.internal": 403, "host.docker.internal.evil.org": 403,
		"evillocalhost": 403, "evillocalhost:8080": 403, "evil-localhost": 403, "localhost.org": 403,
		"evilmodels.example.org": 403, "a.models.example.org": 403,
		"127.0.0.1.evil.org": 403, "127.1": 403, "2130706433": 403, "0x7f.0.0.1": 403,
		"localhost..": 403, "*": 403,
		"evil.example.org": 403, "localhost.evil.org": 403, "evil.org:8080": 403, "models.example.org.evil.org": 403,
	} {
		if status, text, _ := s.do("POST", "/v1/completions", small, "Host", host); status != want {
			t.Errorf("%s: %d %s", host, status, text)
		}
	}
	if name := "localhost@evil.org"; s.hostAllowed(name) { // for which Go's client sends none
		t.Error(name)
	}
}

// A request that names no host is answered, as balancers send it in HTTP/1.0 to ask for a server's health; one that
// names a port alone is refused.
func TestNoHost(t *testing.T) {
	s := newTester(t, nil)
	address := s.listen(nil)
	for request, want := range map[string]string{
		"GET /health HTTP/1.0\r\n\r\n": "200", "GET /v1/models HTTP/1.0\r\n\r\n": "200",
		"GET /health HTTP/1.0\r\nHost: :8080\r\n\r\n": "403", "GET /health HTTP/1.0\r\nHost: evil.org\r\n\r\n": "403",
	} {
		answer, err := io.ReadAll(dial(t, address, request))
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.0 "+want+" ")) {
			t.Errorf("%q: %v %q", request, err, answer)
		}
	}
}

// Where answers depend on the origin, every one of them says so to caches: allowed, refused, of preflights, without an
// origin.
func TestAnswersVaryByOrigin(t *testing.T) {
	for _, origins := range [][]string{nil, {"https://chat.org"}, {"*"}} {
		s := newTester(t, func(o *Options) { o.Origins = origins })
		for _, header := range [][]string{
			nil, {"Origin", "https://chat.org"}, {"Origin", "https://evil.org", "Sec-Fetch-Site", "cross-site"},
			{"Host", "evil.org"},
		} {
			for _, method := range []string{"GET", "POST", "OPTIONS"} {
				status, _, h := s.do(method, "/v1/completions", small, header...)
				refused := len(header) > 0 && header[0] == "Host" // whatever the origin
				if got, want := slices.Contains(h.Values("Vary"), "Origin"), origins != nil && !refused; got != want {
					t.Errorf("%v, %s %v: %d, Vary %v", origins, method, header, status, h.Values("Vary"))
				}
				if h.Get("Access-Control-Allow-Origin") == "*" {
					t.Errorf("%v: every origin is allowed by one answer", origins)
				}
			}
		}
	}
}

// Retry-After is the time of answers shared by the places, at least a second and at most five minutes.
func TestRetryAfterIsBounded(t *testing.T) {
	for _, c := range []struct {
		each          float64
		parallel, got int
	}{
		{0, 4, 1}, {8, 4, 3}, {8, 1, 9}, {298.5, 1, 299}, {299.5, 1, 300}, {300, 1, 300}, {3600, 1, 300},
		{1e12, 2, 300},
	} {
		s := newTester(t, func(o *Options) { o.Parallel = c.parallel })
		s.metrics.timed, s.metrics.answerSeconds = 2, 2*c.each
		if got := s.retryAfter(); got != c.got {
			t.Errorf("answers of %v s on %d places: %d, want %d", c.each, c.parallel, got, c.got)
		}
	}
}

// An error after an answer has begun ends the connection: its client sees an answer that is cut off, never one with an
// error behind it.
func TestErrorsBehindABegunAnswerCutIt(t *testing.T) {
	s := newTester(t, nil)
	for _, status := range []int{400, 413, 429, statusGone, 500, 503} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ww := &watched{ResponseWriter: w, server: s.Server, log: &record{}}
			s.withBody(openAIError, func(w http.ResponseWriter, _ *http.Request, _ []byte, _ *record) error {
				io.WriteString(w, "begun")
				return &Error{Status: status, Message: "zanzibar"}
			})(ww, r.WithContext(context.WithValue(r.Context(), recordKey{}, &record{client: s.anyone})))
		}))
		web.Config.ErrorLog = log.New(io.Discard, "", 0)
		answer, err := http.Post(web.URL, "application/json", strings.NewReader("{}"))
		var text []byte
		if err == nil {
			text, err = io.ReadAll(answer.Body)
			answer.Body.Close()
		}
		if err == nil || strings.Contains(string(text), "zanzibar") {
			t.Errorf("%d: %q, %v", status, text, err)
		}
		web.Close()
	}
}

func TestOrigins(t *testing.T) {
	for _, c := range []struct {
		origins []string
		header  []string
		want    int
		allow   string
	}{
		{nil, []string{"Origin", "https://evil.org", "Sec-Fetch-Site", "cross-site"}, 403, ""},
		{nil, []string{"Origin", "https://evil.org"}, 403, ""},
		{nil, []string{"Sec-Fetch-Site", "same-origin"}, 200, ""},
		{nil, nil, 200, ""},
		{
			[]string{"https://chat.org"}, []string{"Origin", "https://chat.org", "Sec-Fetch-Site", "cross-site"}, 200,
			"https://chat.org",
		},
		{
			[]string{"https://chat.org"}, []string{"Origin", "https://evil.org", "Sec-Fetch-Site", "cross-site"}, 403,
			"",
		},
		{
			[]string{"*"}, []string{"Origin", "https://evil.org", "Sec-Fetch-Site", "cross-site"}, 200,
			"https://evil.org",
		},
	} {
		s := newTester(t, func(o *Options) { o.Origins = c.origins })
		status, text, h := s.do("POST", "/v1/completions", small, c.header...)
		if status != c.want || h.Get("Access-Control-Allow-Origin") != c.allow {
			t.Errorf("%v %v: %d %s %v", c.origins, c.header, status, text, h)
		}
		status, text, h = s.do(
			"OPTIONS", "/v1/completions", "",
			append([]string{"Access-Control-Request-Method", "POST"}, c.header...)...,
		)
		if status == 200 != (c.allow != "") || h.Get("Access-Control-Allow-Origin") != c.allow {
			t.Errorf("preflight of %v %v: %d %v", c.origins, c.header, status, h)
		}
		if c.want == 403 && (status != 403 || !strings.Contains(text, "--cors https://evil.org")) {
			t.Errorf("a preflight that is refused: %d %s", status, text)
		}
		// named origins may bring credentials along, every origin may not
		named := c.allow != "" && c.origins[0] != "*"
		if got := h.Get("Access-Control-Allow-Credentials"); got != "" != named {
			t.Errorf("preflight of %v %v: credentials %q", c.origins, c.header, got)
		}
	}
}

func TestPage(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Page = true })
	for _, p := range []string{"/", "/app.js", "/style.css"} {
		_, text, h := s.do("GET", p, "")
		if h.Get("Content-Security-Policy") != pagePolicy || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Referrer-Policy") != "no-referrer" || text == "" {
			t.Errorf("%s: %v", p, h)
		}
	}
	for _, p := range []string{"/../go.mod", "/page.go", "/%2e%2e/doc.go", "/page/"} {
		if status, text, _ := s.do("GET", p, ""); status == 200 {
			t.Errorf("%s: %.50s", p, text)
		}
	}
	s = newTester(t, nil)
	if status, _, _ := s.do("GET", "/app.js", ""); status != 404 {
		t.Error("the page is there without Options.Page")
	}
}

// Logs have a line per request with its id, and no text of it.
func TestLog(t *testing.T) {
	for _, prompts := range []bool{false, true} {
		var mu sync.Mutex
		var b bytes.Buffer
		s := newTester(t, func(o *Options) {
			o.Log, o.LogPrompts = slog.New(slog.NewJSONHandler(&locked{&mu, &b}, nil)), prompts
		})
		const secret = "zanzibar"
		_, answer, h := s.do(
			"POST", "/v1/completions", `{"prompt":"zanzibar :=","max_tokens":8}`, "X-Request-Id", "abc-1",
		)
		s.do("POST", "/v1/completions", `{"prompt":5,"zanzibar":"x"}`, "X-Request-Id", "bad id")
		s.do("POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"zanzibar","zanzibar":1}]}`)
		s.web.Close() // lines are written before a connection ends
		mu.Lock()
		text := b.String()
		mu.Unlock()
		if h.Get("X-Request-Id") != "abc-1" || !strings.Contains(
			text, `"id":"abc-1","method":"POST","path":"/v1/completions","status":200`,
		) || strings.Contains(text, "bad id") {
			t.Errorf("%v\n%s", h, text)
		}
		words := decode(t, answer).get(t, "choices", 0, "text").(string)
		lines := strings.SplitAfter(text, "\n")
		if has := strings.Contains(lines[1], secret) && strings.Contains(
			text, strings.Trim(string(encode(words)), `"`),
		); has != prompts {
			t.Errorf("LogPrompts %v: %s", prompts, text)
		}
	}
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// A full queue answers 429 with Retry-After; those that wait are answered when it is their turn, in order.
func TestQueue(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Parallel, o.Queue = 1, 2 })
	hold, m := s.hold()
	status := make(chan int, 8)
	ask := func() {
		go func() {
			code, _, _ := s.do("POST", "/v1/completions", small)
			status <- code
		}()
	}
	ask()
	<-m.entered
	ask()
	ask()
	s.wait(func() bool { _, waiting := s.queue.load(); return waiting == 2 })
	code, text, h := s.do("POST", "/v1/completions", small)
	if code != 429 || h.Get("Retry-After") == "" || decode(t, text).get(t, "error", "code") != "queue_full" {
		t.Errorf("%d %s %v", code, text, h)
	}
	_, metrics, _ := s.do("GET", "/metrics", "")
	for _, line := range []string{
		"llamacpp:requests_processing 1\n", "llamacpp:requests_deferred 2\n",
		`spec_requests_total{path="/v1/completions",status="429"} 1` + "\n",
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %q", line)
		}
	}
	hold()
	for range 3 {
		if code := <-status; code != 200 {
			t.Errorf("status %d", code)
		}
	}
}

// hold stops the decoders before their next pass until the function is called.
func (s *tester) hold() (release func(), h *holder) {
	s.t.Helper()
	m, leave, err := s.models.acquire(s.t.Context(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	leave()
	h = &holder{entered: make(chan struct{}, 1000), gate: make(chan struct{})}
	hookOf(m).set(func() {
		h.entered <- struct{}{}
		<-h.gate
	})
	return sync.OnceFunc(func() { close(h.gate) }), h
}

type holder struct{ entered, gate chan struct{} }

// wait waits for a condition.
func (s *tester) wait(ok func() bool) {
	s.t.Helper()
	for range 10000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	s.t.Fatal("it does not come about")
}

// A client that leaves frees its place.
func TestDisconnect(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Parallel = 1 })
	for _, stream := range []string{"true", "false"} {
		release, h := s.hold() // each time anew: the request must be under way when its client leaves
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(
			ctx, "POST", s.web.URL+"/v1/completions",
			strings.NewReader(`{"prompt":"func","max_tokens":900,"stream":`+stream+`}`),
		)
		done := make(chan error)
		go func() {
			a, err := s.web.Client().Do(r)
			if err == nil {
				_, err = io.ReadAll(a.Body)
				a.Body.Close()
			}
			done <- err
		}()
		<-h.entered
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		release()
		s.wait(func() bool { busy, _ := s.queue.load(); return busy == 0 })
	}
	s.post("/v1/completions", small, 200)
	s.wait(func() bool { // a request is counted behind the end of its place
		_, text, _ := s.do("GET", "/metrics", "")
		return strings.Contains(text, `status="499"`)
	})
}

// A panic ends its own request.
func TestPanic(t *testing.T) {
	s := newTester(t, nil)
	s.post("/v1/completions", small, 200)
	m := s.models.resident()[0]
	h := hookOf(m)
	h.set(func() { panic("zanzibar") })
	for _, body := range []string{small, `{"prompt":"func","max_tokens":3,"stream":true}`} {
		if text := s.post("/v1/completions", body, 500); strings.Contains(text, "zanzibar") {
			t.Errorf("the client is told of the inside: %s", text)
		}
	}
	if text := s.post("/api/generate", `{"prompt":"func"}`, 500); !strings.HasPrefix(text, `{"error":"`) {
		t.Error(text)
	}
	if status, _ := s.Do(t.Context(), "/v1/completions", []byte(small)); status != 500 {
		t.Errorf("Do: %d", status)
	}
	n := 0
	h.set(func() {
		if n++; n == 5 {
			panic("in the middle")
		}
	})
	list := events(
		t,
		s.post("/v1/completions", `{"prompt":"func","max_tokens":30,"stream":true,"speculation":{"off":true}}`, 200),
	)
	if last := list[len(list)-1]; !strings.Contains(last, `{"error":`) || len(list) < 3 {
		t.Errorf("%v", list)
	}
	h.set(nil)
	s.post("/v1/completions", small, 200)
	if n := s.metrics.panics.Load(); n != 5 {
		t.Errorf("%d panics", n)
	}
}

// What an answer of Do is not told of an error of the server's own the log has.
func TestErrorsOfDoAreLogged(t *testing.T) {
	var mu sync.Mutex
	var b bytes.Buffer
	s := newTester(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&locked{&mu, &b}, nil)) })
	s.post("/v1/completions", small, 200)
	hookOf(s.models.resident()[0]).set(func() { panic("zanzibar") })
	status, answer := s.Do(t.Context(), "/v1/completions", []byte(small))
	mu.Lock()
	defer mu.Unlock()
	_, line, _ := strings.Cut(b.String(), "msg=request path=/v1/completions status=500 error=")
	line, _, _ = strings.Cut(line, "\n")
	if status != 500 || bytes.Contains(answer, []byte("zanzibar")) || !strings.Contains(line, "zanzibar") {
		t.Errorf("%d %s\n%s", status, answer, b.String())
	}
}

// Drain tells balancers; Close ends what is under way; nothing is left running.
func TestLife(t *testing.T) {
	before := runtime.NumGoroutine()
	s := newTester(t, nil)
	release, h := s.hold()
	done := make(chan int, 1)
	go func() {
		status, _, _ := s.do("POST", "/v1/completions", `{"prompt":"func","max_tokens":900}`)
		done <- status
	}()
	<-h.entered
	s.Drain()
	if status, _, _ := s.do("GET", "/readyz", ""); status != 503 {
		t.Errorf("readyz %d", status)
	}
	if status, _, _ := s.do("GET", "/livez", ""); status != 200 {
		t.Errorf("livez %d", status)
	}
	s.Cancel()
	release()
	<-done
	s.web.Close()
	s.Close()
	s.Close() // twice is no harm
	if status, _ := s.Do(t.Context(), "/v1/completions", []byte(small)); status != 499 && status != 503 {
		t.Errorf("after Close: %d", status)
	}
	s.web.Client().CloseIdleConnections()
	s.wait(func() bool { return runtime.NumGoroutine() <= before+2 })
}

// While Load loads a model the server lives and is not ready, and requests for the model wait for it.
func TestNotReadyWhileLoading(t *testing.T) {
	begun, gate := make(chan struct{}), make(chan struct{})
	s := newTester(t, func(o *Options) {
		load := o.Models[0].Load
		o.Models[0].Load = func(ctx context.Context) (*spec.Model, error) {
			close(begun)
			<-gate
			return load(ctx)
		}
	})
	loaded, answered := make(chan error, 1), make(chan int, 1)
	go func() { loaded <- s.Load(t.Context(), "") }()
	<-begun
	go func() { status, _, _ := s.do("POST", "/v1/completions", small); answered <- status }()
	for path, want := range map[string]int{"/health": 503, "/readyz": 503, "/v1/health": 503, "/livez": 200} {
		if status, text, _ := s.do("GET", path, ""); status != want {
			t.Errorf("%s while loading: %d %s", path, status, text)
		}
	}
	close(gate)
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	if status := <-answered; status != 200 {
		t.Errorf("a request meanwhile: %d", status)
	}
	if status, _, _ := s.do("GET", "/health", ""); status != 200 {
		t.Errorf("health afterwards: %d", status)
	}
}

// A request that takes longer than allowed is told so.
func TestRequestTime(t *testing.T) {
	s := newTester(t, func(o *Options) { o.RequestTime = 30 * time.Millisecond })
	release, h := s.hold()
	go func() {
		<-h.entered
		time.Sleep(60 * time.Millisecond)
		release()
	}()
	if text := s.post(
		"/v1/completions", `{"prompt":"func","max_tokens":900}`, 504,
	); decode(t, text).get(t, "error", "code") != "timeout" {
		t.Error(text)
	}
}

// Models are loaded once, when asked for, and unloaded for others when memory is short.
func TestModels(t *testing.T) {
	var mu sync.Mutex
	var events []string
	note := func(s string) { mu.Lock(); defer mu.Unlock(); events = append(events, s) }
	make := func(name string, bytes int64) Entry {
		e := entryClosed(t, name, func() { note("-" + name) })
		load := e.Load
		e.Bytes = bytes
		e.Load = func(ctx context.Context) (*spec.Model, error) {
			note("+" + name)
			return load(ctx)
		}
		return e
	}
	broken := Entry{
		Name: "broken", Load: func(context.Context) (*spec.Model, error) { return nil, errors.New("secret path") },
	}
	worse := Entry{Name: "worse", Load: func(context.Context) (*spec.Model, error) { panic("secret panic") }}
	s := newTester(t, func(o *Options) {
		o.Models, o.Memory = []Entry{
			make("a", 60), make("b", 60), make("c", 30), make("huge", 500), broken, worse,
		}, 100
	})
	ask := func(model string, want int) string {
		t.Helper()
		return s.post("/v1/completions", `{"prompt":"func","max_tokens":3,"model":"`+model+`"}`, want)
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { ask("a", 200) })
	}
	wait.Wait()
	ask("c", 200)
	if o := decode(t, ask("c:latest", 200)); o.get(t, "model") != "c" {
		t.Error(o)
	}
	ask("b", 200) // a was unused for longest
	ask("", 200)  // the first is the default, and needs b's memory
	for _, name := range []string{"other", "A"} {
		if o := decode(t, ask(name, 404)); o.get(t, "error", "code") != "model_not_found" ||
			o.get(t, "error", "param") != "model" {
			t.Error(o)
		}
	}
	for _, name := range []string{"huge", "broken", "worse"} {
		if text := ask(name, 503); strings.Contains(text, "secret") {
			t.Error(text)
		}
	}
	s.web.Close()
	s.Close()
	want := []string{"+a", "+c", "-a", "+b", "-c", "-b", "+a"}
	if got := events[:min(len(want), len(events))]; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", events, want)
	}
	slices.Sort(events)
	for i := range events {
		if n := strings.Count(
			strings.Join(events, " "), events[i],
		); events[i][0] == '+' && n != strings.Count(strings.Join(events, " "), "-"+events[i][1:]) {
			t.Errorf("%s: loaded and not unloaded: %v", events[i], events)
		}
	}
}

// Options that cannot mean anything.
func TestOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no models": func(o *Options) { o.Models = nil }, "no name": func(o *Options) {
			o.Models[0].Name = ""
		}, "no load": func(o *Options) { o.Models[0].Load = nil },
		"two of one name": func(o *Options) {
			o.Models = append(o.Models, o.Models[0])
		}, "negative": func(o *Options) { o.Limits.BodyBytes = -1 },
		"pooling":   func(o *Options) { o.Pooling = "max" },
		"empty key": func(o *Options) { o.Keys = []Key{{}} }, "origin": func(o *Options) {
			o.Origins = []string{"chat.org"}
		},
	} {
		o := Options{Models: []Entry{entry(t, "go")}}
		change(&o)
		if _, err := New(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A limit of tokens holds for requests that ask for no number, and for those that ask for more: the answer says that it
// was cut.
func TestTokenLimit(t *testing.T) {
	s := newTester(t, func(o *Options) { o.MaxTokens = 5; o.Sampling = engine.Sampling{} })
	if o := decode(
		t, s.post("/v1/completions", `{"prompt":"func"}`, 200),
	); o.get(t, "usage", "completion_tokens") != 5.0 {
		t.Error(o)
	}
	o := decode(t, s.post("/v1/completions", `{"prompt":"func","max_tokens":6}`, 200))
	if o.get(t, "usage", "completion_tokens") != 5.0 || o.get(t, "choices", 0, "finish_reason") != "length" {
		t.Error(o)
	}
	for more, want := range map[string]float64{``: 5, `,"n_predict":6`: 5, `,"n_predict":3`: 3, `,"n_predict":0`: 0} {
		o := decode(t, s.post("/completion", `{"prompt":"func"`+more+`}`, 200))
		if got := o.get(t, "generation_settings", "n_predict"); got != want {
			t.Errorf("%s: the settings have %v tokens, want %v", more, got, want)
		}
	}
}
