package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// asked is a request of the concurrent tests. All of them have one right answer.
type asked struct{ path, body string }

// mixed are requests of every kind: prompts that begin alike and others, greedy and sampled, drafters, grammars, answers
// with tools, several answers.
func mixed(n int) (list []asked) {
	drafters := []string{"tree", "model", "splice", "suffix", "ngram", "none", "reencode", "intersect", "early-exit"}
	prompts := []string{"func (r *Ring) Push(", "func (r *Ring) Pop(", "package main\n\nimport (", "// Len returns", "type buffer struct {", "for i := range n {", strings.Repeat("x := y\n", 60)}
	for i := range n {
		spec := fmt.Sprintf(`"speculation":{"drafter":%q,"schedule":%q,"max":%d}`, drafters[i%len(drafters)], []string{"auto", "constant", "heuristic"}[i%3], 1+i%7)
		prompt := string(encode(prompts[i%len(prompts)]))
		switch i % 6 {
		case 0:
			list = append(list, asked{"/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":%d,%s}`, prompt, 5+i%20, spec)})
		case 1:
			list = append(list, asked{"/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":%d,"temperature":0.9,"top_k":40,"seed":%d,"n":2,%s}`, prompt, 5+i%20, i, spec)})
		case 2:
			list = append(list, asked{"/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"user","content":%s}],"max_tokens":%d,"seed":%d,"temperature":0.7,"repeat_penalty":1.1,%s}`, prompt, 5+i%20, i, spec)})
		case 3:
			list = append(list, asked{"/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":60,"temperature":0.8,"seed":%d,"json_schema":{"type":"object","properties":{"identifier":{"enum":["alpha","beta"]},"n":{"type":"integer","minimum":0,"maximum":99}},"required":["identifier","n"]},%s}`, prompt, i, spec)})
		case 4:
			list = append(list, asked{"/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"user","content":%s}],"max_tokens":60,"seed":%d,"temperature":0.7,"tools":%s,"tool_choice":"required","parallel_tool_calls":false,%s}`, prompt, i,
				`[{"type":"function","function":{"name":"look_up","parameters":{"type":"object","properties":{"deep":{"type":"boolean"}},"required":["deep"]}}}]`, spec)})
		case 5:
			list = append(list, asked{"/v1/embeddings", fmt.Sprintf(`{"input":%s}`, prompt)})
		}
	}
	return list
}

// answerText is what must not differ: texts, calls, log-probabilities, vectors.
func answerText(t testing.TB, body string) string {
	o := decode(t, body)
	what := o["choices"]
	if what == nil {
		what = o["data"]
	}
	text, err := json.Marshal(what)
	if err != nil || what == nil {
		t.Errorf("no answer in %s", clip(body))
	}
	return stable(string(text))
}

// alone are the answers of requests that are alone on a server without drafts.
func alone(t testing.TB, list []asked) []string {
	s := newTester(t, func(o *Options) { o.Parallel = 1 })
	out := make([]string, len(list))
	for i, a := range list {
		body := a.body
		if at := strings.Index(body, `"speculation"`); at >= 0 {
			body = body[:at] + `"speculation":{"off":true}}`
		}
		out[i] = answerText(t, s.post(a.path, body, 200))
	}
	return out
}

// Every answer is that of the same request alone, whatever else is computed and however it is drafted.
func TestTogetherAsAlone(t *testing.T) {
	list := mixed(54)
	want := alone(t, list)
	s := newTester(t, func(o *Options) { o.Parallel = 6 })
	var wait sync.WaitGroup
	for i, a := range list {
		wait.Go(func() {
			status, text, _ := s.do("POST", a.path, a.body)
			if got := answerText(t, text); status != 200 || got != want[i] {
				t.Errorf("%s %s: %d\n%s\nalone\n%s", a.path, a.body, status, got, want[i])
			}
		})
	}
	wait.Wait()
}

// Many clients that come and go, for a while: no wrong answer, nothing left behind, the queue bounded.
func TestSoak(t *testing.T) {
	clients, last := 200, 20*time.Second
	if testing.Short() {
		clients, last = 40, 1500*time.Millisecond
	}
	list := mixed(60)
	want := alone(t, list)
	before := runtime.NumGoroutine()
	s := newTester(t, func(o *Options) { o.Parallel, o.Queue = 4, 16 })
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithTimeout(t.Context(), last)
	defer cancel()
	var right, left, busy atomic.Int64
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(c)))
			for ctx.Err() == nil {
				i := random.IntN(len(list))
				switch s.visit(client, random, list[i], want[i]) {
				case 200:
					right.Add(1)
				case 429:
					busy.Add(1)
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				case statusGone:
					left.Add(1)
				}
				if _, waiting := s.queue.load(); waiting > 16 {
					t.Errorf("%d wait", waiting)
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d right answers, %d clients left, %d refused", right.Load(), left.Load(), busy.Load())
	if right.Load() < 10 || left.Load() == 0 || busy.Load() == 0 {
		t.Error("the load was not what it should be")
	}
	transport.CloseIdleConnections()
	s.wait(func() bool { n, waiting := s.queue.load(); return n == 0 && waiting == 0 && s.inside.Load() == 0 })
	s.web.Close()
	s.Close()
	s.web.Client().CloseIdleConnections()
	s.wait(func() bool { return runtime.NumGoroutine() <= before+2 })
	if n := s.metrics.panics.Load(); n > 0 {
		t.Errorf("%d panics", n)
	}
}

// visit is one request of a client, which may leave before its end, and may stream.
func (s *tester) visit(client *http.Client, random *rand.Rand, a asked, want string) int {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	leaves := random.IntN(4) == 0
	stream := a.path != "/v1/embeddings" && random.IntN(2) == 0
	body := a.body
	if stream {
		body = strings.TrimSuffix(body, "}") + `,"stream":true}`
	}
	r, err := http.NewRequestWithContext(ctx, "POST", s.web.URL+a.path, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0
	}
	if leaves {
		timer := time.AfterFunc(time.Duration(random.IntN(20))*time.Millisecond, cancel)
		defer timer.Stop()
	}
	answer, err := client.Do(r)
	if err != nil {
		if !leaves {
			s.t.Error(err)
		}
		return statusGone
	}
	defer answer.Body.Close()
	text := &strings.Builder{}
	if _, err := bufio.NewReader(answer.Body).WriteTo(text); err != nil {
		if !leaves {
			s.t.Error(err)
		}
		return statusGone
	}
	switch {
	case answer.StatusCode == 429 && answer.Header.Get("Retry-After") != "":
		return 429
	case answer.StatusCode != 200:
		s.t.Errorf("%s %s: %d %s", a.path, body, answer.StatusCode, text)
	case stream:
		if list := events(s.t, text.String()); len(list) == 0 || list[len(list)-1] != "[DONE]" {
			s.t.Errorf("%s %s: %s", a.path, body, text)
		}
	default:
		if got := answerText(s.t, text.String()); got != want {
			s.t.Errorf("%s %s\n%s\nalone\n%s", a.path, body, got, want)
		}
	}
	return 200
}
