package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
)

// Serve leaves the configuration that it is given as it is: the caller may use it elsewhere, with HTTP/2.
func TestServeKeepsItsCallersTLS(t *testing.T) {
	s := newTester(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{NextProtos: []string{"h2"}}
	s.Close()
	if err := s.Serve(l, config); !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if len(config.NextProtos) != 1 || config.NextProtos[0] != "h2" {
		t.Errorf("protocols %q", config.NextProtos)
	}
}

// A histogram has the sum of what was observed, counts at its bounds and beyond, and labels are quoted as Prometheus
// does.
func TestHistogramsAddUpAndLabelsAreQuoted(t *testing.T) {
	var h histogram
	for _, x := range []float64{0.5, 1, 1.5, 4, 9} {
		h.observe([]float64{1, 2, 4}, x)
	}
	var b exposition
	b.histogram(&h, "x", []float64{1, 2, 4})
	for _, line := range []string{
		`x_bucket{le="1"} 2`, `x_bucket{le="2"} 3`, `x_bucket{le="4"} 4`, `x_bucket{le="+Inf"} 5`, "x_sum 16", "x_count 5",
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, b.String())
		}
	}
	if got := label("a\\b\"c\nd\\\\"); got != `"a\\b\"c\nd\\\\"` {
		t.Error(got)
	}
	if got := label("caf\xe9"); got != "\"caf\uFFFD\"" { // else Prometheus takes none of the metrics
		t.Errorf("%q", got)
	}
}

// Metrics are read while requests change them.
func TestMetricsAreReadWhileRequestsEnd(t *testing.T) {
	s := newTester(t, nil)
	s.post("/v1/completions", `{"prompt":"a","max_tokens":1}`, 200)
	testkit.AtOnce(2, func() { s.page("/metrics") }, func() { s.page("/metrics") }, func() {
		s.post("/v1/completions", `{"prompt":"a","max_tokens":1}`, 200)
	}, func() { s.post("/v1/completions", `{"prompt":"b"`, 400) })
	if text := s.page("/metrics"); !strings.Contains(text, "\nllamacpp:tokens_predicted_total 3\n") {
		t.Errorf("of three answers of a token each: %s", text)
	}
	m := &s.metrics // the race detector looks
	testkit.AtOnce(20, func() { s.writeMetrics(httptest.NewRecorder(), nil) }, func() { m.embedded("go", 1, 0.1) },
		func() { m.request("/", 200) }, func() { m.meanAnswer() })
}

// A request that is refused after its model was found lets go of the model, whichever part refuses it.
func TestRefusedRequestsLetGoOfTheirModel(t *testing.T) {
	s := newTester(t, smaller(t))
	s.post("/v1/completions", `{"prompt":"a","max_tokens":1}`, 200)
	m := s.models.resident()[0]
	for _, body := range []string{
		`{"prompt":"` + strings.Repeat("word ", 20000) + `"}`, `{"prompt":"a","max_tokens":1000000}`,
		`{"prompt":"a","grammar":"root ::= nothing"}`, `{"prompt":"a","logit_bias":{"9999999":1}}`,
	} {
		s.do("POST", "/v1/completions", body)
		s.do("POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"response_format":`+
			`{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"nothing"}}}}`)
		s.models.mu.Lock()
		if m.users != 0 {
			t.Errorf("%d users after %s", m.users, clip(body))
			m.users = 0
		}
		s.models.mu.Unlock()
	}
}

// A model that is closed ends its sessions and its draft's.
func TestClosedModelsEndTheirSessions(t *testing.T) {
	s := newTester(t, nil)
	s.post("/v1/completions", `{"prompt":"a","max_tokens":1}`, 200)
	m := s.models.resident()[0]
	s.Close()
	for _, drafter := range []string{"none", "model"} {
		r := spec.Request{Prompts: []spec.Prompt{{Text: "a"}}, Speculation: speculative.Choice{Drafter: drafter}}
		if _, err := spec.Collect(m.Generate(t.Context(), r)); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s: %v", drafter, err)
		}
	}
}

// A model whose chat template cannot be executed writes texts, and refuses conversations; the log has why a model could
// not be loaded, and the client does not.
func TestBrokenTemplatesAndModelsAreToldApart(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := newTester(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Models = []Entry{
			entryOf("template", spec.Parts{Target: p.target}, func(o *spec.Options) { o.Template = "{% if %}" }),
			{Name: "broken", Load: func(context.Context) (*spec.Model, error) { return nil, errors.New("its own reason") }},
		}
	})
	s.post("/v1/completions", `{"model":"template","prompt":"a","max_tokens":1}`, 200)
	text := s.post("/v1/chat/completions",
		`{"model":"template","messages":[{"role":"user","content":"a"}],"max_tokens":1}`, 400)
	if !strings.Contains(text, "no_chat_template") {
		t.Error(text)
	}
	if text := s.post("/v1/completions", `{"model":"broken","prompt":"a"}`, 503); strings.Contains(text,
		"its own reason") {
		t.Error(text)
	}
	if !strings.Contains(log.String(), "its own reason") {
		t.Error("the log does not say why: ", log.String())
	}
}

// What is wrong with a body is said of the place where it stands.
func TestErrorsOfBodiesNameTheirPlace(t *testing.T) {
	s := newTester(t, nil)
	chat := func(tools string) string { return `{"messages":[{"role":"user","content":"a"}],"tools":` + tools + `}` }
	for _, c := range []struct{ body, want string }{
		{`{"a":`, "a: not JSON: "}, {`{`, "the body: not JSON: "}, {`nope`, "the body: not JSON: "},
		{`[]`, "the body: not a JSON object"}, {`{x}`, "the body: not JSON: "},
		{`{"model":"a",x}`, "the body: not JSON: "},
		{`{"messages":1}`, "messages"}, {chat(`1`), "tools"},
		{chat(`[{"type":"function","function":{"name":1}}]`), "tools[0].function.name"},
		{chat(`[{"type":"function","function":{"name":"f","parameters":1}}]`), "tools[0].function.parameters"},
		{chat(`[{"type":"x"}]`), "tools[0].type"}, {chat(`[{"function":{"name":"f"}}]`), "tools[0].type"},
	} {
		if text := s.post("/v1/chat/completions", c.body, 400); !strings.Contains(text, c.want) ||
			strings.Contains(text, "%!") {
			t.Errorf("%s: no %q in %s", c.body, c.want, text)
		}
	}
}

type sent struct{ values []any }

func (s *sent) event(_ string, v any) { s.values = append(s.values, v) }
func (s *sent) raw(string)            {}
func (s *sent) flush() error          { return nil }
func (s *sent) started() bool         { return true }

// A request says by itself how often its stream has comments.
func TestPingsOfRequest(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Ping = time.Millisecond })
	m, release, err := s.models.acquire(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	hookOf(m).set(func() { time.Sleep(20 * time.Millisecond) })
	const body = `{"prompt":"func","max_tokens":1,"stream":true`
	for more, begins := range map[string]string{"": ":", `,"sse_ping_interval":-1`: "data:"} {
		if text := s.post("/v1/completions", body+more+`}`, 200); !strings.HasPrefix(text, begins) {
			t.Errorf("%s: %.60q", more, text)
		}
	}
}

// A stream without events has comments, and what goes wrong then is told in the stream.
func TestPings(t *testing.T) {
	s := newTester(t, nil)
	w := httptest.NewRecorder()
	to := s.newLines(w, true)
	to.ping(time.Millisecond)
	for text := ""; !strings.HasPrefix(text, ":\n\n:\n\n"); {
		to.mu.Lock()
		text = w.Body.String()
		to.mu.Unlock()
	}
	to.event("a", 1)
	if err := to.flush(); err != nil || !to.started() {
		t.Error(err)
	}
	n := w.Body.Len()
	time.Sleep(5 * time.Millisecond)
	if text := w.Body.String(); len(text) != n || !strings.HasSuffix(text, ":\n\nevent: a\ndata: 1\n\n") ||
		w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Errorf("%d %q", w.Code, text)
	}
	for sse, every := range map[bool]time.Duration{false: time.Millisecond, true: 0} { // of JSON lines, and never
		quiet := s.newLines(httptest.NewRecorder(), sse)
		quiet.ping(every)
		if time.Sleep(3 * time.Millisecond); quiet.started() {
			t.Error("something was sent")
		}
	}
	talk := `"messages":[{"role":"user","content":"a"}],"max_tokens":9`
	for path, body := range map[string]string{"/v1/chat/completions": talk, "/v1/messages": talk,
		"/v1/completions": `"prompt":"a"`, "/completion": `"prompt":"a"`, "/v1/responses": `"input":"a"`} {
		ep := endpoints[slices.IndexFunc(endpoints, func(e *endpoint) bool { return e.path == path })]
		body = `{"model":"go","stream":true,` + body + `}`
		r, err := s.parse(t.Context(), ep.form, s.anyone, []byte(body), false)
		if err != nil {
			t.Fatal(path, err)
		}
		j, err := s.prepare(t.Context(), ep, r, false, &record{asked: s.now(), client: s.anyone})
		if err != nil {
			t.Fatal(path, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		list := &sent{}
		begun, err := s.stream(ctx, ep, j, list)
		j.close()
		last := fmt.Sprintf("%s", encode(list.values[max(0, len(list.values)-1)]))
		if !begun || err == nil || !strings.Contains(last, "error") {
			t.Errorf("%s: %v, %v: %s", path, begun, err, last)
		}
	}
}

// What the end of an answer releases is sent before the reason for its end: content, reasoning or a call.
func TestTheEndReleasesWhatWasHeldBack(t *testing.T) {
	for name, d := range map[string]*delta{
		"content":   {Event: spec.Event{Text: "x", Finish: "stop"}},
		"reasoning": {Event: spec.Event{Reasoning: "x", Finish: "stop"}},
		"calls":     {Event: spec.Event{Calls: []spec.CallPart{{Arguments: "x"}}, Finish: "stop"}},
		"nothing":   {Event: spec.Event{Finish: "stop"}},
	} {
		to, f := &sent{}, &chatForm{reading: &reading{request: &request{}}, open: 2}
		f.delta(to, d)
		want := 2
		if name == "nothing" {
			want = 1
		}
		if len(to.values) != want {
			t.Errorf("%s: %d events", name, len(to.values))
		}
	}
}

// leaver is a client that is gone after the first piece.
type leaver struct {
	sent
	leave func()
}

func (l *leaver) flush() error { l.leave(); return nil }

// An answer whose client leaves counts, with what was computed of it, in the metrics and in the log.
func TestAnswersOfClientsThatLeaveCount(t *testing.T) {
	s := newTester(t, nil)
	ep := endpoints[slices.IndexFunc(endpoints, func(e *endpoint) bool { return e.path == "/v1/completions" })]
	r, err := s.parse(t.Context(), ep.form, s.anyone, []byte(`{"prompt":"func","stream":true,"ignore_eos":true}`), false)
	if err != nil {
		t.Fatal(err)
	}
	log := &record{asked: s.now(), client: s.anyone}
	j, err := s.prepare(t.Context(), ep, r, false, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var passes atomic.Int64
	hookOf(j.m).set(func() {
		if passes.Add(1) > 4 { // the answer goes on until its client leaves
			<-ctx.Done()
		}
	})
	if _, err := s.stream(ctx, ep, j, &leaver{leave: cancel}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	j.close()
	s.metrics.answered(j.reading)
	log.answered(j.reading)
	totals := j.totals()
	if totals.Prompt == 0 || totals.Generated == 0 {
		t.Errorf("%+v", totals)
	}
	if want := fmt.Sprintf("\nllamacpp:tokens_predicted_total %d\n", totals.Generated); !strings.Contains(
		s.page("/metrics"), want) {
		t.Errorf("no line %q", want)
	}
	if got := fmt.Sprint(log.stats); !strings.Contains(got, fmt.Sprintf(" tokens=%d ", totals.Generated)) {
		t.Error(got)
	}
}
