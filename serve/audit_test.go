package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec"
)

// Stop strings that begin and end inside of tokens: the text ends before the first of them, whole and streamed,
// however drafts cut it; a text that only begins like one is not lost.
func TestStopStrings(t *testing.T) {
	s := newTester(t, nil)
	const prompt, n = "func (r *Ring) Push(", 24
	plain := decode(t, s.post("/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":%d}`, prompt, n), 200)).get(
		t, "choices", 0, "text").(string)
	var pieces []string
	for _, e := range events(t, s.post("/v1/completions",
		fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"stream":true}`, prompt, n), 200)) {
		if e != "[DONE]" {
			pieces = append(pieces, decode(t, e).get(t, "choices", 0, "text").(string))
		}
	}
	ask := func(more string) (text, finish string) {
		body := fmt.Sprintf(`{"prompt":%q,"max_tokens":%d%s}`, prompt, n, more)
		c := object(decode(t, s.post("/v1/completions", body, 200)).get(t, "choices", 0).(map[string]any))
		text, finish = c.get(t, "text").(string), c.get(t, "finish_reason").(string)
		streamed, last := "", ""
		list := events(t, s.post("/v1/completions", strings.TrimSuffix(body, "}")+`,"stream":true}`, 200))
		for _, e := range list[:len(list)-1] {
			c := object(decode(t, e).get(t, "choices", 0).(map[string]any))
			streamed += c.get(t, "text").(string)
			last, _ = c["finish_reason"].(string)
		}
		if streamed != text || last != finish {
			t.Errorf("%s: streamed %q (%s), whole %q (%s)", more, streamed, last, text, finish)
		}
		return text, finish
	}
	across := 0
	for at := 1; at+1 < len(pieces); at++ {
		a, b := pieces[at], pieces[at+1]
		if len(a) < 2 || len(b) < 2 {
			continue
		}
		across++
		stop := a[1:] + b[:1] // from inside of one token to inside of the next
		for _, spec := range []string{`"off":true`, `"drafter":"model","schedule":"constant","max":6`} {
			text, finish := ask(fmt.Sprintf(`,"stop":["never",%q],"speculation":{%s}`, stop, spec))
			if want := plain[:strings.Index(plain, stop)]; text != want || finish != "stop" {
				t.Errorf("stop %q: %q (%s), want %q", stop, text, finish, want)
			}
		}
	}
	if across < 3 {
		t.Fatalf("only %d borders of tokens in %q", across, pieces)
	}
	end := plain[len(plain)-3:]
	if text, finish := ask(fmt.Sprintf(`,"stop":%q`, end+"~")); text != plain || finish != "length" {
		t.Errorf("a text that ends like the beginning of a stop string: %q (%s), want %q", text, finish, plain)
	}
	// Of two that end at one token, the one that begins first counts.
	i := strings.Index(plain, "uint64")
	if text, _ := ask(`,"stop":["int64","uint64"]`); text != plain[:i] {
		t.Errorf("two stop strings: %q, want %q", text, plain[:i])
	}
}

// The older form of log-probabilities: one number, one place in the text and so many alternatives for each token, and
// the chosen token among them.
func TestCompletionLogprobs(t *testing.T) {
	s := newTester(t, nil)
	outside := 0
	for seed := range 6 {
		body := fmt.Sprintf(`{"prompt":"func (r *Ring) Push(","max_tokens":16,"temperature":1.5,"seed":%d,`+
			`"ignore_eos":true,"logprobs":2}`, seed)
		c := object(decode(t, s.post("/v1/completions", body, 200)).get(t, "choices", 0).(map[string]any))
		text, l := c.get(t, "text").(string), object(c.get(t, "logprobs").(map[string]any))
		tokens, each, top, offsets := l.get(t, "tokens").([]any), l.get(t, "token_logprobs").([]any),
			l.get(t, "top_logprobs").([]any), l.get(t, "text_offset").([]any)
		if len(tokens) != 16 || len(each) != 16 || len(top) != 16 || len(offsets) != 16 {
			t.Fatalf("%d tokens, %d numbers, %d alternatives, %d offsets", len(tokens), len(each), len(top), len(offsets))
		}
		for i := range tokens {
			list, token := top[i].(map[string]any), tokens[i].(string)
			if strings.Contains(fmt.Sprint(token, list), "\uFFFD") {
				continue // parts of characters, which have one text
			}
			p, ok := list[token]
			if !ok || p != each[i] || each[i].(float64) > 0 || len(list) < 2 || len(list) > 3 {
				t.Errorf("%q, %v: %v", token, each[i], list)
			}
			if len(list) == 3 {
				outside++
			}
			chars := []rune(text)
			if at := int(offsets[i].(float64)); !strings.HasPrefix(string(chars[min(at, len(chars)):]), token) {
				t.Errorf("%q is not at %d of %q", token, at, text)
			}
		}
		streamed := 0
		for _, e := range events(t, s.post("/v1/completions", strings.TrimSuffix(body, "}")+`,"stream":true}`, 200)) {
			if e == "[DONE]" {
				continue
			}
			c := decode(t, e).get(t, "choices", 0).(map[string]any)
			if l, ok := c["logprobs"].(map[string]any); ok {
				if fmt.Sprint(l["tokens"], l["token_logprobs"], l["top_logprobs"], l["text_offset"]) != fmt.Sprint(
					tokens[streamed:streamed+1], each[streamed:streamed+1], top[streamed:streamed+1], offsets[streamed:streamed+1]) {
					t.Errorf("streamed %v", l)
				}
				streamed++
			}
		}
		if streamed != 16 {
			t.Errorf("%d tokens streamed", streamed)
		}
	}
	if outside == 0 {
		t.Error("every chosen token was one of the two most likely")
	}
}

// With tool_choice none the model does not see the tools, and with auto it does.
func TestToolChoiceNone(t *testing.T) {
	s := newTester(t, nil)
	length := func(more string) float64 {
		return decode(t, s.post("/v1/chat/completions/input_tokens", `{"messages":[{"role":"user","content":"x"}]`+more+`}`,
			200)).get(t, "input_tokens").(float64)
	}
	plain, none, auto, given := length(""), length(`,"tools":`+weather+`,"tool_choice":"none"`),
		length(`,"tools":`+weather+`,"tool_choice":"auto"`), length(`,"tools":`+weather)
	if none != plain || auto <= plain || given != auto {
		t.Errorf("%v tokens without tools, %v with none, %v with auto, %v without a choice", plain, none, auto, given)
	}
}

// OpenAI's role developer is the system to templates that do not know it, and stays itself for those that do.
func TestDeveloperRole(t *testing.T) {
	const body = `{"messages":[{"role":"developer","content":"Go"},{"role":"user","content":"x"}]}`
	s := newTester(t, nil)
	if got := decode(t, s.post("/apply-template", body, 200)).get(t, "prompt").(string); !strings.HasPrefix(
		got, "<|im_start|>system\nGo<|im_end|>") {
		t.Errorf("%q", got)
	}
	s = newTester(t, with(t, func(o *spec.Options) { o.Template += "{# the role 'developer' comes first #}" }))
	if got := decode(t, s.post("/apply-template", body, 200)).get(t, "prompt").(string); !strings.HasPrefix(
		got, "<|im_start|>developer\nGo<|im_end|>") {
		t.Errorf("a template that knows developers: %q", got)
	}
}

// What /v1/responses has answered can be given back to it, item by item: reasoning belongs to the message or the
// calls behind it.
func TestResponsesItems(t *testing.T) {
	s := newTester(t, with(t, func(o *spec.Options) {
		o.Template = strings.Replace(thinking, "{{ m.content }}",
			"{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}", 1)
	}))
	read := func(items string) string {
		r, e := s.parse(t.Context(), formResponses, s.anyone, []byte(`{"input":`+items+`}`), true)
		if e != nil {
			t.Fatalf("%s: %v", items, e)
		}
		var list []string
		for _, m := range r.messages {
			one := m.Role + " " + m.Content
			if m.Reasoning != "" {
				one += " (" + m.Reasoning + ")"
			}
			for _, c := range m.ToolCalls {
				one += " " + c.Name + c.Arguments
			}
			list = append(list, one)
		}
		return strings.Join(list, "|")
	}
	const reasoning = `{"type":"reasoning","id":"rs_1","summary":[],` +
		`"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":null,"status":"completed"}`
	const message = `{"type":"message","id":"msg_1","role":"assistant","status":"completed",` +
		`"content":[{"type":"output_text","text":"yes","annotations":[],"logprobs":[]}]}`
	const call = `{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}","status":"completed"}`
	const result = `{"type":"function_call_output","call_id":"c","output":"42"}`
	for items, want := range map[string]string{
		reasoning + "," + message + "," + message: "user q|assistant yes (hm)|assistant yes",
		reasoning + "," + message:                 "user q|assistant yes (hm)",
		reasoning + "," + call + "," + call + "," + result + "," + reasoning + "," +
			message: "user q|assistant  (hm) f{} f{}|tool 42|assistant yes (hm)",
		message + "," + reasoning + "," + message: "user q|assistant " +
			"yes|assistant yes (hm)",
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"short"}]},` + message: "user q|assistant yes (short)",
		`{"type":"reasoning","summary":[]},` + message:                                       "user q|assistant yes",
		reasoning + `,{"role":"user","content":"more"}`: "user q|assistant  " +
			"(hm)|user more",
	} {
		if got := read(`[{"role":"user","content":"q"},` + items + `]`); got != want {
			t.Errorf("%s\n%q, want %q", items, got, want)
		}
	}
	for item, field := range map[string]string{
		`{"type":"reasoning","content":[{"type":"output_text","text":"x"}]}`:           "input[0].content[0].type",
		`{"type":"reasoning","summary":[],"encrypted_content":"x"}`:                    "input[0].encrypted_content",
		`{"role":"user","content":"x","summary":[{"type":"summary_text","text":"x"}]}`: "input[0].summary",
		`{"role":"user","content":[{"type":"reasoning_text","text":"x"}]}`:             "input[0].content[0].type",
		`{"type":"item_reference","id":"msg_1"}`:                                       "input[0].type",
		`{"type":"function_call","name":"f","arguments":"{}"}`:                         "input[0].call_id",
		`{"type":"function_call_output","output":"42"}`:                                "input[0].call_id",
		`{"type":"function_call_output","call_id":"c"}`:                                "input[0].output",
		`{"type":"function_call_output","call_id":"c","output":null}`:                  "input[0].output",

		`{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","x":"y"}]}`: "input[0].output[0].type",
	} {
		if text := s.post("/v1/responses", `{"input":[`+item+`]}`, 400); decode(t, text).get(t, "error", "param") != field {
			t.Errorf("%s: %s, want %s", item, text, field)
		}
	}
	// An answer and its continuation.
	first := decode(t, s.post("/v1/responses", `{"input":"func","max_output_tokens":8}`, 200))
	output, _ := json.Marshal(first["output"])
	next := `{"input":[{"role":"user","content":"func"},` +
		strings.TrimSuffix(strings.TrimPrefix(string(output), "["), "]") +
		`,{"role":"user","content":"more"}],"max_output_tokens":4}`
	s.post("/v1/responses", next, 200)
}

// A page's client may send headers of its own, as OpenAI's library does; what is no list of names does not come back.
func TestPreflightHeaders(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Origins = []string{"https://chat.org"} })
	for asked, want := range map[string]string{
		"authorization,content-type,x-stainless-lang": "authorization,content-type,x-stainless-lang",
		"":                         "Authorization, Content-Type, X-Request-Id, X-Api-Key",
		"x<script>":                "Authorization, Content-Type, X-Request-Id, X-Api-Key",
		strings.Repeat("a,", 4000): "Authorization, Content-Type, X-Request-Id, X-Api-Key",
	} {
		status, _, h := s.do("OPTIONS", "/v1/completions", "", "Origin", "https://chat.org", "Access-Control-Request-Method",
			"POST", "Access-Control-Request-Headers", asked)
		if got := h.Get("Access-Control-Allow-Headers"); status != 200 || got != want {
			t.Errorf("%.40s: %d %q", asked, status, got)
		}
	}
	_, _, h := s.do("OPTIONS", "/v1/completions", "", "Origin", "https://evil.org", "Access-Control-Request-Method",
		"POST", "Access-Control-Request-Headers", "x-a")
	if h.Get("Access-Control-Allow-Headers") != "" {
		t.Errorf("another origin: %v", h)
	}
}

// stuck is a connection whose client reads nothing.
type stuck struct {
	*httptest.ResponseRecorder
	writing chan struct{}
	read    chan struct{}
}

func (c *stuck) Write(b []byte) (int, error) {
	c.writing <- struct{}{}
	<-c.read
	return c.ResponseRecorder.Write(b)
}

// A client that does not read its answer holds no place while it is written.
func TestUnreadAnswerHoldsNoPlace(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Parallel = 1 })
	w := &stuck{httptest.NewRecorder(), make(chan struct{}, 100), make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := httptest.NewRequest("POST", "http://localhost/v1/completions", strings.NewReader(small))
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(w, r)
	}()
	<-w.writing
	if busy, _ := s.queue.load(); busy != 0 {
		t.Errorf("%d places are taken", busy)
	}
	s.post("/v1/completions", small, 200)
	close(w.read)
	<-ended
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"choices"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Each piece of a whole answer must be taken within the time that a client may take.
func TestWriteDeadlineOfWholeAnswers(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.WriteTime = 7 * time.Second })
	clock := time.Unix(1700000000, 0)
	s.now = func() time.Time { clock = clock.Add(time.Minute); return clock }
	to := httptest.NewRecorder()
	d := &deadlines{ResponseWriter: to}
	w := &watched{ResponseWriter: d, server: s.Server, log: &record{}}
	text := strings.Repeat("x", 2*writePiece+5)
	if n, err := w.Write([]byte(text)); n != len(text) || err != nil || to.Body.String() != text ||
		to.Code != http.StatusOK {
		t.Fatalf("%d bytes of %d: %v", n, len(text), err)
	}
	var want []time.Time
	for i := range 3 {
		want = append(want, time.Unix(1700000000, 0).Add(time.Duration(i+1)*time.Minute+7*time.Second))
	}
	if !slices.EqualFunc(d.set, want, time.Time.Equal) {
		t.Errorf("deadlines %v, want %v", d.set, want)
	}
}

// Texts to embed share passes among themselves, within one request and half of the places, and count in the memory of
// keys and values; nothing of them is kept.
func TestEmbeddingsShare(t *testing.T) {
	s := newTester(t, func(o *Options) { smaller(t)(o); o.Parallel = 8 })
	var input []string
	for i := range 40 {
		input = append(input, strings.Repeat("func main() {", 1+i%7)+fmt.Sprint(i))
	}
	o := decode(t, s.post("/v1/embeddings", string(encode(map[string]any{"input": input})), 200))
	for i := range input {
		one := decode(t, s.post("/v1/embeddings", string(encode(map[string]any{"input": input[i]})), 200))
		if a, b := fmt.Sprint(o.get(t, "data", i, "embedding")),
			fmt.Sprint(one.get(t, "data", 0, "embedding")); a != b || o.get(t, "data", i, "index") != float64(i) {
			t.Errorf("text %d together with others: %.60s, alone %.60s", i, a, b)
		}
	}
	stats := s.models.resident()[0].Stats().Target
	if stats.Segments < stats.Passes+5 { // how many depends on how goroutines run
		t.Errorf("%d segments in %d passes", stats.Segments, stats.Passes)
	}
	if stats.KVBytes != 0 || stats.Prefixes != 0 || stats.Sessions != 0 {
		t.Errorf("left behind: %+v", stats)
	}
	_, text, _ := s.do("GET", "/metrics", "")
	tokens := o.get(t, "usage", "prompt_tokens").(float64)
	if !strings.Contains(text, fmt.Sprintf("llamacpp:prompt_tokens_total %v\n", 2*tokens)) {
		t.Errorf("%v tokens twice are not in\n%s", tokens, text)
	}

	ids := make([][]int, 200) // more than a request may have prompts
	for i := range ids {
		ids[i] = []int{i + 5, 7}
	}
	if o := decode(t, s.post("/v1/embeddings", string(encode(map[string]any{"input": ids})), 200)); len(
		o.get(t, "data").([]any)) != len(ids) {
		t.Error("of 200 arrays of ids")
	}
	if text := s.post("/v1/embeddings", string(encode(map[string]any{"input": make([]string, 2049)})), 400); decode(
		t, text).get(t, "error", "param") != "input" {
		t.Error(text)
	}

	// One page of keys and values suffices for a short text and not for a long one.
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	page := int64(0)
	for _, c := range p.draft.Describe().Caches {
		n, err := c.Bytes("f16")
		if err != nil {
			t.Fatal(err)
		}
		page += 256 * n
	}
	s = newTester(t, smaller(t, func(o *spec.Options) { o.Memory.KV = page * 3 / 2 }))
	s.post("/v1/embeddings", `{"input":"func"}`, 200)
	long := string(encode(map[string]any{"input": strings.Repeat("x = y + 1\n", 100)}))
	for _, body := range []string{long, `{"input":["func","main"]}`} {
		if body == long {
			if o := decode(t, s.post("/v1/embeddings", body, 503)); o.get(t, "error", "code") != "kv_memory" {
				t.Error(o)
			}
		} else {
			s.post("/v1/embeddings", body, 200)
		}
		if stats := s.models.resident()[0].Stats().Target; stats.KVBytes != 0 ||
			stats.Sessions != 0 || stats.Prefixes != 0 {
			t.Errorf("%.40s: left behind: %+v", body, stats)
		}
	}
}

// Keys and values of a model have the budgets of its options.
func TestModelKVBytes(t *testing.T) {
	for _, c := range []spec.Memory{{KV: 3 << 20, DraftKV: 2 << 20}, {KV: 3 << 20}} {
		s := newTester(t, with(t, func(o *spec.Options) { o.Memory = c }))
		s.post("/v1/completions", small, 200)
		got := s.models.resident()[0].Stats()
		if got.Target.KVBudget != c.KV || got.Draft.KVBudget != c.DraftKV {
			t.Errorf("%+v: budgets of %d and %d", c, got.Target.KVBudget, got.Draft.KVBudget)
		}
	}
}
