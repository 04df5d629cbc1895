package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/testdata"
)

// pair is the embedded pair, loaded once for all tests.
var pair = sync.OnceValues(func() (p struct{ target, draft *engine.Model }, err error) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		return p, err
	}
	ctx := context.Background()
	if p.target, err = engine.New(ctx, rt, testdata.Target(), testdata.Target().Size(),
		engine.Options{Name: "target", Fingerprint: engine.ReadFingerprint}); err != nil {
		return p, err
	}
	p.draft, err = engine.New(ctx, rt, testdata.Draft(), testdata.Draft().Size(),
		engine.Options{Name: "draft", Fingerprint: engine.ReadFingerprint})
	return p, err
})

// hermes is chatml with tools in the style of Hermes and Qwen.
const hermes = `{%- if tools %}<|im_start|>system
{% for t in tools %}{{ t | tojson }}
{% endfor %}Answer with <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>
{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{# "arguments" #}`

// thinking is hermes with reasoning, which the template opens.
const thinking = hermes + `{% if add_generation_prompt and enable_thinking %}<think>
{% endif %}{# </think> #}`

// entry offers the embedded pair under a name.
func entry(t testing.TB, name string, change ...func(*spec.Options)) Entry {
	t.Helper()
	return entryClosed(t, name, nil, change...)
}

// entryClosed is entry with a function that is called when the model is closed.
func entryClosed(t testing.TB, name string, closed func(), change ...func(*spec.Options)) Entry {
	t.Helper()
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	return entryOf(name, spec.Parts{Target: p.target, Draft: p.draft, Close: closed}, usual(change))
}

// usual are the options of the models of most tests, and changes of them.
func usual(change []func(*spec.Options)) func(*spec.Options) {
	return func(o *spec.Options) {
		o.Template, o.Speculation.Schedule = hermes, "heuristic"
		for _, f := range change {
			f(o)
		}
	}
}

// entryOf offers a model under a name. A test may hook its passes.
func entryOf(name string, p spec.Parts, change func(*spec.Options)) Entry {
	return Entry{Name: name, Bytes: 100, Modified: time.Unix(1700000000, 0),
		Load: func(context.Context) (*spec.Model, error) {
			h := &hook{}
			o := spec.Options{Name: name, Around: h.around, Memory: spec.Memory{DraftForm: 1 << 30}}
			change(&o)
			m, err := spec.New(p, o)
			hooks.Store(m, h)
			return m, err
		}}
}

// with offers the embedded pair with other options of the model.
func with(t testing.TB, change func(*spec.Options)) func(*Options) {
	return func(o *Options) { o.Models = []Entry{entry(t, "go", change)} }
}

// smaller offers the smaller model of the pair, which drafts for itself, with other options of the model: a quarter of
// the pair's time, where a test asks how a request is read and answered, and not whether drafts change the text.
func smaller(t testing.TB, change ...func(*spec.Options)) func(*Options) {
	return func(o *Options) {
		p, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		o.Models = []Entry{entryOf("go", spec.Parts{Target: p.draft, Draft: p.draft}, usual(change))}
	}
}

// hooks are those of the models of all tests.
var hooks sync.Map // of *hook by *spec.Model

// hook is told of the passes of a model's targets.
type hook struct{ eval atomic.Pointer[func()] }

// set calls f before each pass of sequences to come; nil: nothing.
func (h *hook) set(f func()) {
	if f == nil {
		h.eval.Store(nil)
		return
	}
	h.eval.Store(&f)
}

// around hooks a sequence, if there is something to call.
func (h *hook) around(s spec.Sequence) spec.Sequence {
	if f := h.eval.Load(); f != nil {
		return &hooked{s, *f}
	}
	return s
}

type hooked struct {
	spec.Sequence
	eval func()
}

func (s *hooked) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	s.eval()
	return s.Sequence.Eval(ctx, tokens, parents, want)
}

// hookOf is the hook of a model.
func hookOf(m *loaded) *hook {
	h, _ := hooks.Load(m.Model)
	return h.(*hook)
}

// tester is a server with fixed clock and ids behind a real connection.
type tester struct {
	*Server
	t   testing.TB
	web *httptest.Server
}

func newTester(t testing.TB, change func(*Options)) *tester {
	t.Helper()
	o := Options{Models: []Entry{entry(t, "go")}, Sampling: engine.Sampling{Temperature: 0}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	n := 0
	s.newID = func(prefix string) string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprint(prefix, n)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		s.Close()
	})
	return &tester{s, t, web}
}

// do sends a request and returns status and body.
func (s *tester) do(method, path, body string, header ...string) (int, string, http.Header) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.web.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := s.web.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

// post sends a body and wants a status.
func (s *tester) post(path, body string, want int) string {
	s.t.Helper()
	status, text, _ := s.do("POST", path, body)
	if status != want {
		s.t.Fatalf("POST %s %s\n%d, want %d: %s", path, clip(body), status, want, text)
	}
	return text
}

// object is a decoded JSON object.
type object map[string]any

func decode(t testing.TB, text string) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return o
}

// get follows names and indices: "choices", 0, "message".
func (o object) get(t testing.TB, path ...any) any {
	t.Helper()
	var v any = map[string]any(o)
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok || m[p] == nil {
				t.Fatalf("no %v of %v in %v", p, path, o)
			}
			v = m[p]
		case int:
			list, ok := v.([]any)
			if !ok || p >= len(list) {
				t.Fatalf("no %v of %v in %v", p, path, o)
			}
			v = list[p]
		}
	}
	return v
}

// events are the data lines of an SSE stream.
func events(t testing.TB, text string) (list []string) {
	t.Helper()
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			list = append(list, data)
		}
	}
	return list
}

// The completion is the text of the README's example, which comes from the library and not from a server.
func TestCompletion(t *testing.T) {
	s := newTester(t, nil)
	const want = "c *uint64, n *uint64) {\n\tif n.nn != 0 {\n\t\treturn"
	const body = `{"prompt":"func (r *Ring) Push(","max_tokens":24,"temperature":0%s}`
	for _, more := range []string{"", `,"speculation":{"off":true}`,
		`,"speculation":{"drafter":"suffix","schedule":"constant","max":3}`, `,"speculation":{"verify":"stairs"}`,
		`,"speculation":{"drafter":"model"}`, `,"speculation":{"drafter":"reencode"}`, `,"logprobs":3`,
		`,"timings_per_token":true`} {
		o := decode(t, s.post("/v1/completions", fmt.Sprintf(body, more), 200))
		if got := o.get(t, "choices", 0, "text"); got != want {
			t.Errorf("%s: %q, want %q", more, got, want)
		}
		if n := o.get(t, "usage", "completion_tokens"); n != 24.0 {
			t.Errorf("%s: %v tokens", more, n)
		}
		if o.get(t, "choices", 0, "finish_reason") != "length" || o.get(t, "model") != "go" {
			t.Errorf("%s: %v", more, o)
		}
		// The stream says the same.
		text := ""
		list := events(t, s.post("/v1/completions", fmt.Sprintf(body, more+`,"stream":true`), 200))
		for _, e := range list[:len(list)-1] {
			text += decode(t, e).get(t, "choices", 0, "text").(string)
		}
		if text != want || list[len(list)-1] != "[DONE]" {
			t.Errorf("%s: streamed %q", more, text)
		}
		decode(t, list[len(list)-2]).get(t, "timings", "predicted_n")
	}
}

// What /v1/chat/completions and the other endpoints say to one conversation is one text.
func TestConversation(t *testing.T) {
	s := newTester(t, nil)
	const messages = `"messages":[{"role":"system","content":"Go"},{"role":"user","content":"func main"}]`
	want := decode(t, s.post("/v1/chat/completions", `{`+messages+`,"max_tokens":20}`, 200)).get(
		t, "choices", 0, "message", "content").(string)
	if want == "" {
		t.Fatal("no text")
	}
	prompt := decode(t, s.post("/apply-template", `{`+messages+`}`, 200)).get(t, "prompt").(string)
	if prompt != "<|im_start|>system\nGo<|im_end|>\n<|im_start|>user\nfunc main<|im_end|>\n<|im_start|>assistant\n" {
		t.Errorf("the template gives %q", prompt)
	}
	for name, c := range map[string]struct {
		path, body string
		at         []any
	}{
		"responses": {"/v1/responses", `{"instructions":"Go","input":"func main","max_output_tokens":20}`,
			[]any{"output", 0, "content", 0, "text"}},
		"responses items": {"/v1/responses",
			`{"input":[{"role":"system","content":"Go"},{"type":"message","role":"user","content":[{"type":"input_text","text":"func main"}]}],"max_output_tokens":20}`, []any{"output", 0, "content", 0, "text"}},
		"ollama chat": {"/api/chat", `{"model":"go",` + messages + `,"stream":false,"options":{"num_predict":20}}`,
			[]any{"message", "content"}},
		"ollama generate": {"/api/generate",
			`{"model":"go","system":"Go","prompt":"func main","stream":false,"options":{"num_predict":20}}`, []any{"response"}},
		"parts": {"/v1/chat/completions",
			`{"messages":[{"role":"system","content":"Go"},{"role":"user","content":[{"type":"text","text":"func "},{"type":"text","text":"main"}]}],"max_completion_tokens":20}`, []any{"choices", 0, "message", "content"}},
	} {
		o := decode(t, s.post(c.path, c.body, 200))
		if got := o.get(t, c.at...); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// Ollama streams unless told otherwise.
	status, text, h := s.do("POST", "/api/chat", `{"model":"go",`+messages+`,"options":{"num_predict":20}}`)
	got := ""
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, l := range lines {
		o := decode(t, l)
		got += o.get(t, "message", "content").(string)
		if o.get(t, "done") != (i == len(lines)-1) {
			t.Errorf("line %d: %s", i, l)
		}
	}
	if got != want || status != 200 || h.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("streamed %q, %d, %v", got, status, h)
	}
	if o := decode(t, lines[len(lines)-1]); o.get(t, "eval_count") != 20.0 || o.get(t, "done_reason") != "length" {
		t.Errorf("last line %v", o)
	}
}

// The embeddings are of length 1, depend on the text, and have one meaning in every form.
// llama.cpp's form has a list of vectors of each text: one, or each token's own, which pool to the one.
func TestEmbeddingsOfTokens(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Pooling = spec.PoolNone })
	rows := func(body string) (list [][]float64) {
		var answer []struct {
			Index     int
			Embedding [][]float64
		}
		if err := json.Unmarshal([]byte(s.post("/embedding", body, 200)), &answer); err != nil {
			t.Fatal(err)
		}
		for i, x := range answer {
			if x.Index != i {
				t.Errorf("%s: index %d at %d", body, x.Index, i)
			}
			list = append(list, x.Embedding...)
		}
		return list
	}
	const texts = `["func main","return nil, err"]`
	each := rows(`{"input":` + texts + `}`)
	one := rows(`{"content":` + texts + `,"pooling":"mean"}`)
	last := rows(`{"input":` + texts + `,"pooling":"last","embd_normalize":-1}`)
	first := len(rows(`{"content":"func main","embd_normalize":2}`))
	if len(one) != 2 || first < 2 || len(each) < first+2 {
		t.Fatalf("%d vectors of 2 texts; %d of their tokens, %d of the first one's", len(one), len(each), first)
	}
	if s.post("/embeddings", `{"input":"x"}`, 200) != s.post("/embedding", `{"input":"x"}`, 200) {
		t.Error("/embeddings differs from /embedding")
	}
	for n, list := range [][][]float64{each[:first], each[first:]} {
		if fmt.Sprint(list[len(list)-1]) != fmt.Sprint(last[n]) {
			t.Errorf("text %d: the last token's vector is not the last one", n)
		}
		length, sum := 0.0, make([]float64, len(one[n]))
		for _, row := range list {
			for i, x := range row {
				sum[i] += x
			}
		}
		for _, x := range sum {
			length += x * x
		}
		for i, x := range sum {
			if x /= math.Sqrt(length); math.Abs(x-one[n][i]) > 1e-5 {
				t.Fatalf("text %d: number %d of the mean is %v, pooled %v", n, i, x, one[n][i])
			}
		}
	}
	for path, body := range map[string]string{
		"/v1/embeddings": `{"input":"x"}`,
		"/api/embed":     `{"input":"x","model":"go"}`,
		"/embed":         `{"inputs":"x"}`,
	} {
		if text := s.post(path, body, 400); !strings.Contains(text, "/embedding") {
			t.Errorf("%s: %s", path, text)
		}
	}
	if text := s.post("/embedding", `{"input":"x","dimensions":8}`, 400); !strings.Contains(text, "dimensions") {
		t.Error(text)
	}
}

func TestEmbeddings(t *testing.T) {
	const width = 128 // of the model
	s := newTester(t, smaller(t))
	o := decode(t, s.post("/v1/embeddings", `{"model":"go","input":["func main","return nil"]}`, 200))
	a := o.get(t, "data", 0, "embedding").([]any)
	b := o.get(t, "data", 1, "embedding").([]any)
	sum, same := 0.0, true
	for i := range a {
		sum += a[i].(float64) * a[i].(float64)
		same = same && a[i] == b[i]
	}
	if len(a) != width || sum < 0.999 || sum > 1.001 || same {
		t.Fatalf("%d numbers, length² %v, same %v", len(a), sum, same)
	}
	if o.get(t, "usage", "prompt_tokens").(float64) < 4 {
		t.Errorf("usage %v", o["usage"])
	}
	for name, v := range map[string]any{
		"one":   decode(t, s.post("/v1/embeddings", `{"input":"func main"}`, 200)).get(t, "data", 0, "embedding"),
		"embed": decode(t, s.post("/api/embed", `{"model":"go","input":"func main"}`, 200)).get(t, "embeddings", 0),
		"embed 2": decode(t, s.post("/api/embed", `{"model":"go","input":["return nil","func main"]}`,
			200)).get(t, "embeddings", 1),
		"older": decode(t, s.post("/api/embeddings", `{"model":"go","prompt":"func main"}`, 200)).get(t, "embedding"),
		"pooling": decode(t, s.post("/v1/embeddings", `{"input":"func main","pooling":"mean"}`, 200)).get(
			t, "data", 0, "embedding"),
		"the size": decode(t, s.post("/v1/embeddings", fmt.Sprintf(`{"input":"func main","dimensions":%d}`, width), 200)).get(
			t, "data", 0, "embedding"),
	} {
		if fmt.Sprint(v) != fmt.Sprint(a) {
			t.Errorf("%s differs", name)
		}
	}
	last := decode(t, s.post("/v1/embeddings", `{"input":"func main","pooling":"last"}`, 200)).get(
		t, "data", 0, "embedding")
	if fmt.Sprint(last) == fmt.Sprint(a) {
		t.Error("the last token's state is the mean of all")
	}
	// The last state of a text does not depend on chunks; of a text longer than one chunk it is the last chunk's.
	long := strings.Repeat("x = y + 1\n", 100)
	m := s.models.resident()[0]
	ids := m.Tokenizer().Encode(long, bpe.EncodeOptions{AddSpecial: true})
	session, err := m.Target().NewSession(engine.SessionOptions{})
	if err != nil || len(ids) <= 256 { // tokens of a chunk
		t.Fatal(err, len(ids))
	}
	whole, err := session.EvalSegment(t.Context(),
		engine.Segment{Tokens: ids, Layers: []int{engine.FinalNorm}, Hidden: engine.All})
	if err != nil {
		t.Fatal(err)
	}
	for _, pooling := range []string{spec.PoolMean, spec.PoolLast} {
		got := decode(t, s.post("/v1/embeddings", string(encode(map[string]any{"input": long, "pooling": pooling})),
			200)).get(t, "data", 0, "embedding").([]any)
		dot, length := 0.0, 0.0
		for j := range got {
			x := 0.0
			for i := range ids {
				if pooling == spec.PoolMean || i == len(ids)-1 {
					x += float64(whole.Hidden.At(i, 0)[j])
				}
			}
			dot += x * got[j].(float64)
			length += x * x
		}
		if dot/math.Sqrt(length) < 0.999999 {
			t.Errorf("%s of a long text: cosine %v with that of one pass", pooling, dot/math.Sqrt(length))
		}
	}
	o = decode(t, s.post("/v1/embeddings", string(
		encode(map[string]any{"input": long, "pooling": "last", "encoding_format": "base64"})), 200))
	if text := o.get(t, "data", 0, "embedding").(string); len(text) != (4*width+2)/3*4 {
		t.Errorf("base64 of %d characters", len(text))
	}
}

func TestTokens(t *testing.T) {
	s := newTester(t, nil)
	o := decode(t, s.post("/tokenize", `{"content":"func main() {é}"}`, 200))
	ids := encode(o.get(t, "tokens"))
	back := decode(t, s.post("/detokenize", `{"tokens":`+string(ids)+`}`, 200))
	if back.get(t, "content") != "func main() {é}" {
		t.Errorf("%s is %v", ids, back)
	}
	const marked = "<|endoftext|>func<|endoftext|><|endoftext|> main é"
	ids = encode(decode(t, s.post("/tokenize", `{"content":"`+marked+`"}`, 200)).get(t, "tokens"))
	back = decode(t, s.post("/detokenize", `{"tokens":`+string(ids)+`}`, 200))
	if back.get(t, "content") != marked {
		t.Errorf("control tokens: %s is %v", ids, back)
	}
	pieces := decode(t, s.post("/tokenize", `{"content":"func main() {日}","with_pieces":true}`,
		200)).get(t, "tokens").([]any)
	text := []byte{}
	for _, p := range pieces {
		switch x := p.(map[string]any)["piece"].(type) {
		case string:
			text = append(text, x...)
		case []any:
			for _, b := range x {
				text = append(text, byte(b.(float64)))
			}
		}
	}
	if string(text) != "func main() {日}" {
		t.Errorf("pieces %q", text)
	}
	if got := decode(t, s.post("/tokenize", `{"content":""}`, 200)).get(t, "tokens").([]any); len(got) != 0 {
		t.Errorf("empty text: %v", got)
	}
}

// The content of /tokenize may be token ids and texts in a row: ids stay, and the first text alone begins a text.
func TestTokensOfTextsAndIDs(t *testing.T) {
	s := newTester(t, nil)
	tokens := func(content string) string {
		t.Helper()
		text := s.post("/tokenize", `{"add_special":true,"content":`+content+`}`, 200)
		return string(encode(decode(t, text).get(t, "tokens")))
	}
	one, two := tokens(`"func"`), string(encode(decode(t, s.post("/tokenize", `{"content":" main"}`, 200)).get(t, "tokens")))
	inner := func(list string) string { return strings.Trim(list, "[]") }
	for content, want := range map[string]string{
		`["func"]`: one, `["func",7,8," main"]`: "[" + inner(one) + ",7,8," + inner(two) + "]",
		`[7," main"]`: "[7," + inner(two) + "]", `[7,8]`: "[7,8]", `[]`: "[]",
	} {
		if got := tokens(content); got != want {
			t.Errorf("%s: %s, want %s", content, got, want)
		}
	}
	for content, field := range map[string]string{
		`["a",1,99999]`: "content[2]", `[-1]`: "content[0]", `["a",[1]]`: "content[1]", `5`: "content", `{}`: "content",
	} {
		if text := s.post("/tokenize", `{"content":`+content+`}`, 400); !strings.Contains(text, `"param":"`+field+`"`) {
			t.Errorf("%s: %s, want %s", content, text, field)
		}
	}
}

// OpenAI's conversations have content in each message, but in the assistant's that have something else; Ollama's need
// none.
func TestMessagesWithoutContent(t *testing.T) {
	s := newTester(t, nil)
	const call = `"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]`
	ask := func(path, message string, want int) string {
		t.Helper()
		return s.post(path, `{"messages":[{"role":"user","content":"x"},`+message+`,{"role":"user","content":""}],`+
			`"stream":false}`, want)
	}
	for message, field := range map[string]string{
		`{"role":"user"}`: "messages[1].content", `{"role":"user","content":null}`: "messages[1].content",
		`{"role":"tool","tool_call_id":"1"}`: "messages[1].content", `{"role":"system"}`: "messages[1].content",
		`{"role":"assistant"}`:              "messages[1].content",
		`{"role":"user",` + call + `}`:      "messages[1].content",
		`{"role":"assistant",` + call + `}`: "", `{"role":"assistant","content":null,` + call + `}`: "",
		`{"role":"assistant","reasoning_content":"r"}`: "", `{"role":"assistant","refusal":"no"}`: "",
		`{"role":"user","content":[]}`: "", `{"role":"user","content":""}`: "",
	} {
		if field == "" {
			ask("/v1/chat/completions/input_tokens", message, 200)
			continue
		}
		if text := ask("/v1/chat/completions", message, 400); !strings.Contains(text, `"param":"`+field+`"`) {
			t.Errorf("%s: %s", message, text)
		}
		s.post("/apply-template", `{"messages":[`+message+`]}`, 400)
	}
	s.post("/api/chat", `{"messages":[{"role":"user"}],"stream":false,"options":{"num_predict":1}}`, 200)
}

func TestLists(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Version = "1.2.3"; o.Page = true })
	get := func(path string, want int) string {
		status, text, _ := s.do("GET", path, "")
		if status != want {
			t.Errorf("GET %s: %d %s", path, status, text)
		}
		return text
	}
	if o := decode(t, get("/v1/models", 200)); o.get(t, "data", 0, "id") != "go" ||
		o.get(t, "data", 0, "created") != 1700000000.0 {
		t.Error(o)
	}
	if o := decode(t, get("/v1/models/go", 200)); o.get(t, "id") != "go" {
		t.Error(o)
	}
	get("/v1/models/other", 404)
	if o := decode(t, get("/api/tags", 200)); o.get(t, "models", 0, "name") != "go" {
		t.Error(o)
	}
	if o := decode(t, get("/api/ps", 200)); len(o["models"].([]any)) != 0 {
		t.Error("a model is loaded before it is needed", o)
	}
	if o := decode(t, get("/props", 200)); o.get(t, "n_ctx") != 1024.0 || o.get(t, "model_alias") != "go" ||
		o.get(t, "modalities", "vision") != false || o.get(t, "modalities", "audio") != false ||
		o.get(t, "speculation", "drafter") != "tree" || o.get(t, "speculation", "schedule") != "heuristic" {
		t.Error(o)
	}
	if o := decode(t, get("/api/ps", 200)); o.get(t, "models", 0, "details", "family") != "llama" ||
		o.get(t, "models", 0, "details", "parameter_size") != "5.7M" {
		t.Error(o)
	}
	if o := decode(t, s.post("/api/show", `{"model":"go"}`, 200)); o.get(
		t, "model_info", "llama.context_length") != 1024.0 || o.get(t, "template") != hermes {
		t.Error(o)
	}
	if o := decode(t, get("/api/version", 200)); o.get(t, "version") != ollamaVersion {
		t.Error(o)
	}
	for _, p := range []string{"/health", "/livez", "/readyz", "/slots", "/metrics", "/", "/index.html", "/app.js"} {
		get(p, 200)
	}
	if status, _, _ := s.do("HEAD", "/", ""); status != 200 {
		t.Errorf("HEAD /: %d", status)
	}
	get("/page/app.js", 404)
	get("/none", 404)
	if status, _, h := s.do("GET", "/v1/chat/completions", ""); status != 405 || h.Get("Allow") != "POST" {
		t.Errorf("GET of a POST: %d %v", status, h)
	}
	if status, text, _ := s.do("POST", "/api/none", `{}`); status != 404 || !strings.HasPrefix(text, `{"error":"`) {
		t.Errorf("an endpoint of Ollama that is not there: %d %s", status, text)
	}
	var slots []object
	json.Unmarshal([]byte(get("/slots", 200)), &slots)
	if len(slots) != DefaultParallel {
		t.Errorf("slots %v", slots)
	}
}

// Do gives what HTTP gives.
func TestDo(t *testing.T) {
	s := newTester(t, nil)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"func"}],"max_tokens":5}`,
		"/v1/completions":      `{"prompt":"func","max_tokens":5}`,
		"/v1/responses":        `{"input":"func","max_output_tokens":5}`,
		"/v1/embeddings":       `{"input":"func"}`,
	} {
		status, answer := s.Do(t.Context(), path, []byte(body))
		want := s.post(path, body, 200)
		if status != 200 || stable(string(answer)) != stable(strings.TrimSpace(want)) {
			t.Errorf("%s: %d\n%s\n%s", path, status, stable(string(answer)), stable(want))
		}
	}
	for path, body := range map[string]string{
		"/v1/completions": `{"prompt":"func","stream":true}`, "/v1/chat/completions": `{"x":1}`, "/v1/embeddings": `[]`,
	} {
		if status, answer := s.Do(t.Context(), path, []byte(body)); status != 400 ||
			!bytes.HasPrefix(answer, []byte(`{"error":{"message":"`)) {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, _ := s.Do(t.Context(), "/api/chat", []byte(`{}`)); status != 404 {
		t.Errorf("an endpoint that batches do not have: %d", status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status, _ := s.Do(ctx, "/v1/completions", []byte(`{"prompt":"func"}`)); status != statusGone {
		t.Errorf("cancelled: %d", status)
	}
}

// The prompt of /api/generate is a message in the chat template, and with raw the text as it is.
func TestRawPrompt(t *testing.T) {
	s := newTester(t, nil)
	generate := func(more string) any {
		return decode(t, s.post("/api/generate",
			`{"prompt":"func (r *Ring) Push(","stream":false,"options":{"num_predict":12}`+more+`}`, 200)).get(t, "response")
	}
	raw := decode(t, s.post("/v1/completions", `{"prompt":"func (r *Ring) Push(","max_tokens":12}`, 200)).get(
		t, "choices", 0, "text")
	wrapped := decode(t, s.post("/v1/chat/completions",
		`{"messages":[{"role":"user","content":"func (r *Ring) Push("}],"max_tokens":12}`, 200)).get(
		t, "choices", 0, "message", "content")
	if got := generate(`,"raw":true`); got != raw || raw == wrapped {
		t.Errorf("raw: %q, the completion is %q and the conversation %q", got, raw, wrapped)
	}
	if got := generate(``); got != wrapped {
		t.Errorf("%q, the conversation is %q", got, wrapped)
	}
	e := decode(t, s.post("/api/generate", `{"prompt":"func","raw":true,"system":"Be brief."}`, 400)).get(t, "error")
	if !strings.HasPrefix(e.(string), "system: ") {
		t.Errorf("raw with a system message: %v", e)
	}
}
