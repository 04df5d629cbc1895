package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// asked is a request of the concurrent tests. All of them have one right answer.
type asked struct{ path, body string }

// mixed are requests of every kind: prompts that begin alike and others, greedy and sampled, drafters, grammars,
// answers with tools, several answers.
func mixed(n int) (list []asked) {
	drafters := []string{"tree", "model", "splice", "suffix", "ngram", "none", "reencode", "intersect", "early-exit",
		"self",
		"self-splice"}
	prompts := []string{
		"func (r *Ring) Push(", "func (r *Ring) Pop(", "package main\n\nimport (", "// Len returns",
		"type buffer struct {", "for i := range n {", strings.Repeat("x := y\n", 60),
	}
	for i := range n {
		spec := fmt.Sprintf(
			`"speculation":{"drafter":%q,"schedule":%q,"max":%d}`, drafters[i%len(drafters)],
			[]string{"auto", "constant", "heuristic"}[i%3], 1+i%7,
		)
		prompt := string(encode(prompts[i%len(prompts)]))
		switch i % 6 {
		case 0:
			list = append(
				list, asked{"/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":%d,%s}`, prompt, 5+i%20, spec)},
			)
		case 1:
			list = append(
				list,
				asked{
					"/v1/completions",
					fmt.Sprintf(
						`{"prompt":%s,"max_tokens":%d,"temperature":0.9,"top_k":40,"seed":%d,"n":2,%s}`, prompt,
						5+i%20, i, spec,
					),
				},
			)
		case 2:
			list = append(
				list,
				asked{
					"/v1/chat/completions",
					fmt.Sprintf(
						`{"messages":[{"role":"user","content":%s}],"max_tokens":%d,"seed":%d,"temperature":0.7,`+
							`"repeat_penalty":1.1,%s}`,
						prompt, 5+i%20, i, spec,
					),
				},
			)
		case 3:
			list = append(
				list,
				asked{
					"/v1/completions",
					fmt.Sprintf(
						`{"prompt":%s,"max_tokens":60,"temperature":0.8,"seed":%d,"json_schema":{"type":"object",`+
							`"properties":{"identifier":{"enum":["alpha","beta"]},"n":{"type":"integer",`+
							`"minimum":0,"maximum":99}},"required":["identifier","n"]},%s}`,
						prompt, i, spec,
					),
				},
			)
		case 4:
			list = append(list, asked{"/v1/chat/completions",
				fmt.Sprintf(`{"messages":[{"role":"user","content":%s}],"max_tokens":60,"seed":%d,`+
					`"temperature":0.7,"tools":%s,"tool_choice":"required","parallel_tool_calls":false,%s}`, prompt, i,
					`[{"type":"function","function":{"name":"look_up","parameters":{"type":"object",`+
						`"properties":{"deep":{"type":"boolean"}},"required":["deep"]}}}]`, spec)})
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

// answered are the answers that alone has had.
var answered = map[asked]string{}

// alone are the answers of requests that are alone on a server without drafts, each asked for once.
func alone(t testing.TB, list []asked) []string {
	s := newTester(t, func(o *Options) { o.Parallel = 1 })
	out := make([]string, len(list))
	for i, a := range list {
		if at := strings.Index(a.body, `"speculation"`); at >= 0 {
			a.body = a.body[:at] + `"speculation":{"off":true}}`
		}
		if answered[a] == "" {
			answered[a] = answerText(t, s.post(a.path, a.body, 200))
		}
		out[i] = answered[a]
	}
	return out
}

// Every answer is that of the same request alone, whatever else is computed and however it is drafted.
func TestTogetherAsAlone(t *testing.T) {
	n := 30
	if testkit.IsLong(t) {
		n = 132
	}
	list := mixed(n)
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

// TestLongTogetherAsAlone: every drafter with every kind of request.
func TestLongTogetherAsAlone(t *testing.T) {
	testkit.Long(t)
	TestTogetherAsAlone(t)
}

// soakTime is how long the soak lasts at most: SPEC_SOAK, a duration, or a moment.
func soakTime(t *testing.T) time.Duration {
	text := os.Getenv("SPEC_SOAK")
	if text == "" {
		return time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SPEC_SOAK: %v", err)
	}
	return d
}

// Ordinary clients of two keys that come and go, and hostile ones beside them, for a while: no wrong answer, every
// hostile request is refused, nothing is left behind, the queue is bounded.
func TestSoak(t *testing.T) {
	last := soakTime(t)
	const clients, enemies = 40, 16
	list := mixed(30)
	want := alone(t, list)
	largestPass(t)
	before, memory := runtime.NumGoroutine(), heap()
	s := newTester(t, func(o *Options) {
		o.Parallel, o.Queue, o.Keys = 4, 16, []Key{{Secret: "one"}, {Secret: "two", Weight: 3}}
		o.Limits = Limits{
			Unkeyed: 100, HeaderTime: 30 * time.Second, BodyTime: 10 * time.Second, WriteTime: 30 * time.Second,
		}
	})
	v := &visitor{tester: s, address: s.listen(nil)}
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	v.client = &http.Client{Transport: transport}
	ctx, cancel := context.WithTimeout(t.Context(), last)
	defer cancel()
	var right, left, busy atomic.Int64
	attacks := make([]atomic.Int64, len(hostile))
	enough := func() bool { // of everything, where no time is given
		return os.Getenv("SPEC_SOAK") == "" && right.Load() >= 20 && left.Load() >= 20 && busy.Load() >= 20 &&
			least(attacks) > 0
	}
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(c)))
			for ctx.Err() == nil {
				i := random.IntN(len(list))
				switch v.visit(random, []string{"one", "two"}[c%2], list[i], want[i]) {
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
				if enough() {
					cancel()
				}
			}
		})
	}
	for c := range enemies {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(c)))
			for i := c; ctx.Err() == nil; i++ {
				h := &hostile[i%len(hostile)]
				v.attack(random, h)
				attacks[i%len(hostile)].Add(1)
			}
		})
	}
	wait.Wait()
	t.Logf(
		"%d right answers, %d clients left, %d refused; %d connections closed to make room", right.Load(), left.Load(),
		busy.Load(), v.evictions(),
	)
	for i := range hostile {
		t.Logf("%d times %s", attacks[i].Load(), hostile[i].name)
	}
	if right.Load() < 10 || left.Load() == 0 || busy.Load() == 0 {
		t.Error("the load was not what it should be")
	}
	transport.CloseIdleConnections()
	s.wait(func() bool { n, waiting := s.queue.load(); return n == 0 && waiting == 0 && s.inside.Load() == 0 })
	s.wait(func() bool {
		s.sockets.mu.Lock()
		defer s.sockets.mu.Unlock()
		return len(s.sockets.open) == 0 && len(s.sockets.unkeyed) == 0
	})
	if n := s.inside.all; n != (holding{}) {
		t.Errorf("bodies are counted as inside: %+v", n)
	}
	s.web.Close()
	s.Close()
	s.web.Client().CloseIdleConnections()
	s.wait(func() bool { return runtime.NumGoroutine() <= before+2 })
	// A leak of 100 bytes a request exceeds it in three minutes.
	const slack = 8 << 20
	s.wait(func() bool { return heap() < memory+slack })
	if n := s.metrics.panics.Load(); n > 0 {
		t.Errorf("%d panics", n)
	}
}

// least is the least of the counts.
func least(counts []atomic.Int64) int64 {
	n := counts[0].Load()
	for i := range counts {
		n = min(n, counts[i].Load())
	}
	return n
}

// largestPass makes the models of the tests allocate what they keep for their largest pass, which they have beyond a
// server's life: 256 rows of logits and of hidden states.
func largestPass(t *testing.T) {
	t.Helper()
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*engine.Model{p.target, p.draft} {
		s, err := m.NewSession(engine.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		out, err := m.Forward(t.Context(), engine.Batch{{
			Session: s, Tokens: make([]int32, 256), Logits: engine.All, Hidden: engine.All,
			Layers: []int{engine.FinalNorm},
		}})
		if err != nil || out[0].Err != nil {
			t.Fatal(err, out)
		}
	}
}

// heap is the memory that is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// attack is what a hostile client sends, with @ for a key, and the statuses that may come back. Where there are none,
// it holds its connection and leaves.
type attack struct {
	name, text string
	body       func() string // of a request of its own
	statuses   string
}

var hostile = []attack{
	{name: "half a header", text: "POST /v1/completions HTTP/1.1\r\nHost: loc"},
	{name: "nothing"},
	{name: "no HTTP", text: "\x16\x03\x01\x02\x00\x01\r\n\r\n", statuses: "400"},
	{
		name: "a wrong key, without the body", text: head("POST", "/v1/completions", 1<<20, "X-Api-Key: wrong"),
		statuses: "401",
	},
	{
		name: "a wrong host, without the body",
		text: head("POST", "/v1/completions", 1<<20, "X-Api-Key: @", "Host: evil.org"), statuses: "403",
	},
	{name: "no path, without the body", text: head("POST", "/v2", 1<<20, "X-Api-Key: @"), statuses: "404"},
	{name: "half a body", text: head("POST", "/v1/completions", 1<<20, "X-Api-Key: @") + `{"prompt":"`},
	{
		name: "answers that nobody reads",
		text: strings.Repeat("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: @\r\n\r\n", 50),
	},
	{name: "a number of 60,000 digits", body: func() string {
		return `{"prompt":"x","json_schema":{"type":"integer","minimum":1` + strings.Repeat("0", 60000) + `}}`
	}, statuses: "400 429"},
	{name: "a type of its own type", body: func() string {
		var names, required []string
		for i := range 10 {
			names = append(names, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/a"}`, i))
			required = append(required, fmt.Sprintf(`"p%d"`, i))
		}
		return `{"prompt":"x","max_tokens":1,"json_schema":{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],` +
			`"$defs":{"a":{"type":"object","properties":{` +
			strings.Join(names, ",") + `},"required":[` + strings.Join(required, ",") + `]}}}}`
	}, statuses: "200 400 429"},
	{name: "empty rules", body: func() string {
		var b strings.Builder
		for i := range 70000 {
			fmt.Fprintf(&b, "r%d ::= r%d\n", i, i+1)
		}
		return string(encode(map[string]string{
			"prompt": "x", "grammar": "root ::= r0\n" + b.String() + "r70000 ::= \"\"\n",
		}))
	}, statuses: "400 429"},
	{name: "a long conversation", body: func() string {
		return `{"messages":[` + strings.Repeat(
			`{"role":"user","content":"x"},`, 5000,
		) + `{"role":"user","content":"x"}]}`
	}, statuses: "400 429"},
}

// visitor is a client of a server's own listener.
type visitor struct {
	*tester
	address string
	client  *http.Client
}

// attack is one of a hostile client, from another address than the ordinary ones where there are several.
func (v *visitor) attack(random *rand.Rand, h *attack) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	if runtime.GOOS != "linux" {
		d.LocalAddr = nil
	}
	c, err := d.Dial("tcp", v.address)
	if err != nil {
		v.t.Error(err)
		return
	}
	defer c.Close()
	text := h.text
	if h.body != nil {
		body := h.body()
		path := "/v1/completions"
		if strings.Contains(body, `"messages"`) {
			path = "/v1/chat/completions"
		}
		text = head("POST", path, len(body), "X-Api-Key: @", "Connection: close") + body
	}
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "@", []string{"one", "two"}[random.IntN(2)])); err != nil {
		return // closed to make room
	}
	if h.statuses == "" {
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
		return
	}
	answer, _ := io.ReadAll(c) // where the connection made room for others, there is none
	if len(answer) > 0 && !slices.Contains(strings.Fields(h.statuses), string(answer[9:12])) {
		v.t.Errorf("%s: %.300s", h.name, answer)
	}
}

// evictions is how many connections were closed to make room for others.
func (s *visitor) evictions() int64 {
	_, _, closed := s.sockets.load()
	return closed[forAddress] + closed[forPlace]
}

// visit is one request of a client, which may leave before its end, and may stream. Where clients come and go faster
// than the server sees it, their new connections are more than one address may have, and the oldest, which may be a
// waiting client's, is closed with its request unread: then the client has been sent away too.
func (s *visitor) visit(random *rand.Rand, key string, a asked, want string) int {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	leaves := random.IntN(4) == 0
	stream := a.path != "/v1/embeddings" && random.IntN(2) == 0
	body := a.body
	if stream {
		body = strings.TrimSuffix(body, "}") + `,"stream":true}`
	}
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.address+a.path, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0
	}
	r.Header.Set("X-Api-Key", key)
	if leaves {
		timer := time.AfterFunc(time.Duration(random.IntN(20))*time.Millisecond, cancel)
		defer timer.Stop()
	}
	answer, err := s.client.Do(r)
	if err != nil {
		if !leaves && s.evictions() == 0 {
			s.t.Error(err)
		}
		return statusGone
	}
	defer answer.Body.Close()
	text := &strings.Builder{}
	if _, err := bufio.NewReader(answer.Body).WriteTo(text); err != nil {
		if !leaves && s.evictions() == 0 {
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
