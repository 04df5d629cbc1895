package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// infillNames are the marks that withInfill gives the last ids of the vocabulary.
var infillNames = []string{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<|repo_name|>"}

// page is the body of a GET.
func (s *tester) page(path string) string {
	s.t.Helper()
	status, text, _ := s.do("GET", path, "")
	if status != 200 {
		s.t.Fatalf("%s: %d %s", path, status, text)
	}
	return text
}

// withInfill gives the model of a server a vocabulary with the marks of fill-in-the-middle in the place of rare tokens.
func withInfill(t testing.TB, s *tester) *loaded {
	t.Helper()
	f, err := gguf.Open(testdata.Target(), testdata.Target().Size(), "target")
	if err != nil {
		t.Fatal(err)
	}
	c := bpe.Defaults("gpt2", "gpt-2")
	if c.Tokens, err = f.Strings("tokenizer.ggml.tokens"); err != nil {
		t.Fatal(err)
	}
	if c.Merges, err = f.Strings("tokenizer.ggml.merges"); err != nil {
		t.Fatal(err)
	}
	m, release, err := s.models.acquire(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	c.Types = make([]int32, len(c.Tokens))
	for i := range c.Types {
		c.Types[i] = bpe.TypeNormal
		if m.Tokenizer().IsControl(int32(i)) {
			c.Types[i] = bpe.TypeControl
		}
	}
	c.BOS, c.EOS, c.AddBOS = m.Tokenizer().BOS(), m.Tokenizer().EOS(), m.Tokenizer().AddsBOS()
	used := map[string]bool{}
	for _, l := range c.Merges {
		for _, part := range strings.Split(l, " ") {
			used[part] = true
		}
	}
	id := len(c.Tokens) - 1
	for _, name := range infillNames {
		for used[c.Tokens[id]] || len(c.Tokens[id]) < 4 || m.Tokenizer().IsControl(int32(id)) {
			id--
		}
		c.Merges = slices.DeleteFunc(c.Merges, func(l string) bool { return strings.Replace(l, " ", "", 1) == c.Tokens[id] })
		c.Tokens[id], c.Types[id] = name, bpe.TypeControl
		id--
	}
	tok, err := bpe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	parts := spec.Parts{Target: m.Target(), Tokenizer: tok}
	if m.Model, err = spec.New(parts, spec.Options{Template: hermes}); err != nil {
		t.Fatal(err)
	}
	return m
}

// The native form of llama.cpp's /completion: its fields, several prompts, why an answer ended, and the same text as
// OpenAI's form.
// Several answers to each of several prompts are those of /v1/completions, in its order.
func TestNativeChoices(t *testing.T) {
	s := newTester(t, nil)
	const asks = `{"prompt":["func","type"],"max_tokens":6,"temperature":1,"seed":3,`
	var list []object
	if err := json.Unmarshal([]byte(s.post("/completion", asks+`"n_cmpl":2}`, 200)), &list); err != nil || len(list) != 4 {
		t.Fatal(len(list), err)
	}
	want := decode(t, s.post("/v1/completions", asks+`"n":2}`, 200))
	for i, o := range list {
		if o["content"] != want.get(t, "choices", i, "text") || o["index"] != float64(i) {
			t.Errorf("%d: %v", i, o)
		}
	}
	texts := make([]string, len(list))
	for line := range strings.Lines(s.post("/completion", asks+`"n":2,"stream":true}`, 200)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			o := decode(t, data)
			texts[int(o["index"].(float64))] += o["content"].(string)
		}
	}
	for i, o := range list {
		if texts[i] != o["content"] {
			t.Errorf("%d: %q as a stream, else %q", i, texts[i], o["content"])
		}
	}
}

func TestNativeCompletion(t *testing.T) {
	s := newTester(t, nil)
	want := decode(t, s.post("/v1/completions", `{"prompt":"func (r *Ring) Push(","max_tokens":12}`, 200)).get(
		t, "choices", 0, "text").(string)
	o := decode(t, s.post("/completion", `{"prompt":"func (r *Ring) Push(","n_predict":12,"return_tokens":true,"seed":7}`,
		200))
	if got := o.get(t, "content"); got != want {
		t.Errorf("%q, OpenAI's form has %q", got, want)
	}
	m, release, err := s.models.acquire(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var ids []int32
	for _, x := range o.get(t, "tokens").([]any) {
		ids = append(ids, int32(x.(float64)))
	}
	if m.Tokenizer().Decode(ids) != want {
		t.Errorf("tokens %v are %q", ids, m.Tokenizer().Decode(ids))
	}
	for name, want := range map[string]any{"stop": true, "stop_type": "limit", "stopping_word": "",
		"tokens_predicted": 12.0, "truncated": false, "index": 0.0, "prompt": "<|endoftext|>func (r *Ring) Push(",
		"has_new_line": strings.Contains(want, "\n"), "model": "go"} {
		if got := o.get(t, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	n := float64(len(m.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})))
	if got := o.get(t, "tokens_evaluated"); got != n ||
		o.get(t, "timings", "prompt_n").(float64)+o.get(t, "timings", "cache_n").(float64) != n {
		t.Errorf("%v tokens of the prompt, want %v; timings %v", got, n, o.get(t, "timings"))
	}
	if o.get(t, "generation_settings", "seed") != 7.0 || o.get(t, "generation_settings", "n_predict") != 12.0 {
		t.Errorf("settings %v", o.get(t, "generation_settings"))
	}
	if o := decode(t, s.post("/completion", `{"prompt":"func","n_predict":2}`, 200)); len(
		o.get(t, "tokens").([]any)) != 0 {
		t.Errorf("tokens that were not asked for: %v", o)
	}
	stop := want[len(want)/2:][:3]
	o = decode(t, s.post("/completions", string(
		encode(map[string]any{"prompt": "func (r *Ring) Push(", "n_predict": 24, "stop": []string{"zzzz", stop}})), 200))
	if o.get(t, "stop_type") != "word" || o.get(t, "stopping_word") != stop ||
		o.get(t, "content") != want[:strings.Index(want, stop)] {
		t.Errorf("stop %q: %v", stop, o)
	}
	o = decode(t, s.post("/completion", `{"prompt":"x","n_predict":4,"logit_bias":{"return":100},"stop":["return","tu",`+
		`"etu","never"]}`, 200))
	if o.get(t, "content") != "r" || o.get(t, "stopping_word") != "etu" {
		t.Errorf("texts of stop within one token: %v", o)
	}
	text := s.post("/completion", fmt.Sprintf(
		`{"prompt":["func (r *Ring) Push(",%s],"n_predict":12}`,
		string(encode(m.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})))), 200)
	if text[0] != '[' || strings.Count(text, string(encode(want))) != 2 {
		t.Errorf("two prompts, an array of two answers with the text %q: %s", want, text)
	}
	text = s.post("/completion", `{"prompt":"func","n_predict":3,"n_probs":4}`, 200)
	probs := decode(t, text).get(t, "completion_probabilities").([]any)
	if len(probs) != 3 {
		t.Fatalf("%d probabilities of 3 tokens: %s", len(probs), text)
	}
	for _, p := range probs {
		p := object(p.(map[string]any))
		if top := p.get(t, "top_logprobs").([]any); len(top) != 4 ||
			object(top[0].(map[string]any)).get(t, "id") != p.get(t, "id") || p.get(t, "logprob").(float64) > 0 {
			t.Errorf("%v", p)
		}
	}
}

// A native stream: pieces with text and ids, the last with the figures, no [DONE].
func TestNativeStream(t *testing.T) {
	s := newTester(t, nil)
	want := decode(t, s.post("/completion",
		`{"prompt":"func (r *Ring) Push(","n_predict":12,"return_tokens":true,"n_probs":1}`, 200))
	text, content, ids, stops := s.post("/completion",
		`{"prompt":"func (r *Ring) Push(","n_predict":12,"stream":true,"n_probs":1}`, 200), "", []any{}, 0
	if strings.Contains(text, "[DONE]") {
		t.Error("llama.cpp's native streams have no [DONE]")
	}
	for line := range strings.SplitSeq(text, "\n") {
		line, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		o := decode(t, line)
		content += o.get(t, "content").(string)
		ids = append(ids, o.get(t, "tokens").([]any)...)
		if o.get(t, "stop") == true {
			if stops++; o.get(t, "stop_type") != "limit" || o.get(t, "timings", "predicted_n") != 12.0 {
				t.Errorf("last piece %v", o)
			}
		} else if len(o.get(t, "completion_probabilities").([]any)) != 1 {
			t.Errorf("piece %v", o)
		}
	}
	list := events(t, s.post("/completion",
		`{"prompt":"func","n_predict":2,"stream":true,"response_fields":["stop","generation_settings/n_predict","x"]}`, 200))
	if got := list[len(list)-1]; got != `{"generation_settings/n_predict":2,"stop":true}` || len(list) != 3 ||
		!strings.Contains(list[0], `"tokens_predicted":1,`) {
		t.Errorf("with fields that are wanted: %s", list)
	}
	if stops != 1 || content != want.get(t, "content") || !slices.Equal(ids, want.get(t, "tokens").([]any)) {
		t.Errorf("%d ends, %q, %v; whole %v", stops, content, ids, want)
	}
}

// Fill-in-the-middle: the prompt that a model gets, and who refuses.
func TestInfill(t *testing.T) {
	s := newTester(t, nil)
	for path, body := range map[string]string{
		"/infill":         `{"input_prefix":"a","input_suffix":"b","n_predict":2}`,
		"/v1/completions": `{"prompt":"a","suffix":"b","max_tokens":2}`, "/api/generate": `{"prompt":"a","suffix":"b"}`} {
		if text := s.post(path, body, 400); !strings.Contains(text, "fill-in-the-middle") {
			t.Errorf("%s of a model that cannot: %s", path, text)
		}
	}
	m := withInfill(t, s)
	if got := decode(t, s.page("/props")).get(t, "has_infill"); got != true {
		t.Errorf("has_infill %v", got)
	}
	mark := func(i int) int32 { id, _ := m.Tokenizer().ID(infillNames[i]); return id }
	plain := func(text string) []int32 { return m.Tokenizer().Encode(text, bpe.EncodeOptions{}) }
	var begin []int32
	if m.Tokenizer().AddsBOS() {
		begin = []int32{m.Tokenizer().BOS()}
	}
	join := func(parts ...[]int32) string {
		return m.Tokenizer().Decode(slices.Concat(parts...)) + fmt.Sprint(slices.Concat(parts...))
	}
	short := slices.Concat(begin, []int32{mark(0)}, plain("func Min(a, b int) int {\n\tif"), []int32{mark(1)},
		plain("}\n"), []int32{mark(2)})
	long := slices.Concat(begin, []int32{mark(4)}, plain("repository\n"), []int32{mark(3)}, plain("max.go\nfunc Max()"),
		[]int32{mark(3)}, plain("file\n"), short[len(begin):])
	for _, x := range []struct {
		path, body string
		want       []int32
	}{
		{"/infill", `{"input_prefix":"func Min(a, b int) int {\n","prompt":"\tif","input_suffix":"}\n","n_predict":6,` +
			`"temperature":0}`, short},
		{"/infill", `{"input_extra":[{"filename":"max.go","text":"func Max()"}],` +
			`"input_prefix":"func Min(a, b int) int {\n","prompt":"\tif","input_suffix":"}\n","n_predict":6}`, long},
		{"/infill", `{"input_prefix":[50,"a",60],"prompt":"b","input_suffix":[70,80],"n_predict":6}`, slices.Concat(begin,
			[]int32{mark(0), 50}, plain("a"), []int32{60}, plain("b"), []int32{mark(1), 70, 80, mark(2)})},
		{"/v1/completions", `{"prompt":"func Min(a, b int) int {\n\tif","suffix":"}\n","max_tokens":6}`, short},
		{"/api/generate", `{"prompt":"func Min(a, b int) int {\n\tif","suffix":"}\n","stream":false,` +
			`"options":{"num_predict":6}}`, short},
	} {
		status, text, _ := s.do("POST", x.path, x.body)
		if status != 200 {
			t.Fatalf("%s: %d %s", x.path, status, text)
		}
		want := decode(t, s.post("/completion", string(encode(map[string]any{"prompt": x.want, "n_predict": 6})),
			200)).get(t, "content")
		o := decode(t, text)
		got := o["content"]
		switch x.path {
		case "/v1/completions":
			got = o.get(t, "choices", 0, "text")
		case "/api/generate":
			got = o.get(t, "response")
		default:
			if n := o.get(t, "tokens_evaluated"); n != float64(len(x.want)) {
				t.Errorf("a prompt of %v tokens, want %d: %s", n, len(x.want), join(x.want))
			}
		}
		if got != want {
			t.Errorf("%s: %q, the prompt's own answer is %q", x.path, got, want)
		}
	}
	for body, names := range map[string]string{
		`{"prompt":[1,2],"suffix":"b"}`: "suffix", `{"prompt":["a","b"],"input_suffix":"b"}`: "prompt",
		`{"prompt":[1,2],"input_suffix":"b"}`: "prompt", `{"prompt":[1,"a"],"input_suffix":"b"}`: "prompt"} {
		path := "/v1/completions"
		if names == "prompt" {
			path = "/infill"
		}
		if text := s.post(path, body, 400); !strings.Contains(text, names) {
			t.Errorf("%s: %s", body, text)
		}
	}
	if text := s.post("/api/generate", `{"prompt":"a","suffix":"b","system":"c"}`, 400); !strings.Contains(
		text, "system") {
		t.Errorf("%s", text)
	}
}

// Endpoints that other servers have are refused with the reason, in the shape of their API.
func TestRefusedEndpoints(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Keys = []Key{{Secret: "k"}} })
	for _, x := range refusedPaths {
		const method = "POST"
		path := strings.ReplaceAll(strings.ReplaceAll(x.path, "{id}", "0"), "{digest}", "sha256:1")
		status, text, _ := s.do(method, path, "{}", "Authorization", "Bearer k")
		if status != 501 || !strings.Contains(text, x.reason) ||
			strings.HasPrefix(path, "/api/") != (decode(t, text)["error"] == fmt.Sprintf(
				"%s %s is not supported: %s", method, path, x.reason)) {
			t.Errorf("%s %s: %d %s", method, path, status, text)
		}
		if status, _, _ := s.do(method, path, "{}"); status != 401 {
			t.Errorf("%s %s without a key: %d", method, path, status)
		}
	}
	for path, status := range map[string]int{"GET /v1/files": 501, "DELETE /v1/responses/x": 501,
		"GET /v1/responses/x": 501, "HEAD /api/blobs/sha256:1": 501, "PUT /props": 501, "GET /props": 200,
		"DELETE /v1/responses": 405} {
		method, path, _ := strings.Cut(path, " ")
		if got, text, _ := s.do(method, path, "", "Authorization", "Bearer k"); got != status {
			t.Errorf("%s %s: %d %s, not %d", method, path, got, text, status)
		}
	}
}

// Paths that clients use whose base URL lacks /v1 are the same endpoints.
func TestAliases(t *testing.T) {
	s := newTester(t, nil)
	for path, alias := range map[string]string{"/v1/models": "/models", "/health": "/v1/health"} {
		if a, b := s.page(path), s.page(alias); a != b {
			t.Errorf("%s: %s\n%s: %s", path, a, alias, b)
		}
	}
	body := `{"messages":[{"role":"user","content":"x"}],"max_tokens":4,"temperature":0}`
	if a, b := stable(s.post("/v1/chat/completions", body, 200)), stable(s.post("/chat/completions", body, 200)); a != b {
		t.Errorf("%s\n%s", a, b)
	}
	o := decode(t, s.page("/props"))
	if o.get(t, "default_generation_settings", "n_ctx") != 1024.0 || o.get(t, "has_chat_template") != true ||
		o.get(t, "chat_template") != hermes || o.get(t, "has_infill") != false {
		t.Errorf("props %v", o)
	}
}

// A prompt that is too long is refused with both lengths, streamed or not; it is never cut.
func TestContextExceeded(t *testing.T) {
	s := newTester(t, smaller(t))
	long := strings.Repeat("x y ", 2000)
	for path, body := range map[string]string{
		"/v1/completions": `"prompt":"` + long + `"`, "/completion": `"prompt":"` + long + `"`,
		"/v1/chat/completions": `"messages":[{"role":"user","content":"` + long + `"}]`,
		"/v1/embeddings":       `"input":"` + long + `"`} {
		for _, stream := range []string{"", `,"stream":true`} {
			if stream != "" && path == "/v1/embeddings" {
				continue
			}
			o := decode(t, s.post(path, "{"+body+stream+"}", 400))
			if n := o.get(t, "error", "n_prompt_tokens").(float64); n < 4000 || o.get(t, "error", "n_ctx") != 1024.0 ||
				o.get(t, "error", "code") != "context_length_exceeded" {
				t.Errorf("%s: %v", path, o)
			}
		}
	}
	// to the end of the context
	o := decode(t, s.post("/completion", `{"prompt":"`+long[:4*240]+`","ignore_eos":true}`, 200))
	if o.get(t, "stop_type") != "limit" || o.get(t, "truncated") != true ||
		o.get(t, "tokens_evaluated").(float64)+o.get(t, "tokens_predicted").(float64) < 1024 {
		t.Errorf("%v", o)
	}
}

// The length of a prompt without its answer is what usage tells of the answer.
func TestInputTokens(t *testing.T) {
	s := newTester(t, nil)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"system","content":"Book"},{"role":"user","content":"func main"}],` +
			`"max_tokens":1,"n":2,"tools":` + aTool + `}`,
		"/v1/responses": `{"input":"func main","instructions":"Book","max_output_tokens":1}`,
	} {
		usage := decode(t, s.post(path, body, 200)).get(t, "usage").(map[string]any)
		want := usage["prompt_tokens"]
		if want == nil {
			want = usage["input_tokens"]
		}
		o := decode(t, s.post(path+"/input_tokens", body, 200))
		if got := o.get(t, "input_tokens"); got != want || o.get(t, "object") != "response.input_tokens" {
			t.Errorf("%s: %v, usage says %v", path, o, want)
		}
	}
	s.post("/v1/chat/completions/input_tokens", `{"max_tokens":1}`, 400)
	s.post("/v1/responses/input_tokens", `{"input":"x","nonsense":1}`, 400)
}

// A model has other names, tags and the path of its file in lists and properties; /slots can be off.
func TestNamesTagsAndPath(t *testing.T) {
	s := newTester(t, func(o *Options) {
		o.NoSlots, o.Sampling.Seed = true, 7
		first := &o.Models[0]
		first.Aliases, first.Tags, first.Path = []string{"small", "fast", "best:latest"},
			[]string{"code"}, "/models/go.gguf"
		o.Models = append(o.Models, entry(t, "other"), entry(t, "fast:latest"))
	})
	list := decode(t, s.page("/v1/models"))
	got := fmt.Sprint(list.get(t, "data", 0, "aliases"), list.get(t, "data", 0, "tags"))
	if got != "[go small fast best:latest] [code]" {
		t.Error(got)
	}
	for name, status := range map[string]int{"fast": 200, "small:latest": 200, "best:latest": 200, "slow": 404} {
		s.post("/v1/completions", `{"model":"`+name+`","prompt":"x","max_tokens":1}`, status)
		if got, text, _ := s.do("GET", "/v1/models/"+name, ""); got != status || status == 200 &&
			decode(t, text).get(t, "id") != "go" {
			t.Errorf("/v1/models/%s: %d %s", name, got, text)
		}
	}
	if got := decode(t, s.page("/v1/models/fast:latest")).get(t, "id"); got != "fast:latest" { // a name of its own
		t.Errorf("fast:latest is %v", got)
	}
	props := decode(t, s.page("/props?model=fast"))
	if props.get(t, "model_path") != "/models/go.gguf" ||
		props.get(t, "default_generation_settings", "params", "seed") != 7.0 {
		t.Error(props)
	}
	if status, body, _ := s.do("GET", "/slots", ""); status != 501 || !strings.Contains(body, "not_supported_error") {
		t.Error(status, body)
	}
	twice := []Entry{entry(t, "a"), {Name: "b", Aliases: []string{"a"}, Load: entry(t, "x").Load}}
	if _, err := New(Options{Models: twice}); err == nil {
		t.Error("two models of one name")
	}
}

// __verbose is where a request asks for it, or the server is verbose and the request does not say no; whole and at the
// end of a stream.
func TestVerboseAnswers(t *testing.T) {
	for _, always := range []bool{false, true} {
		s := newTester(t, func(o *Options) { o.Verbose = always })
		for more, want := range map[string]bool{``: always, `,"verbose":true`: true, `,"verbose":false`: false} {
			for _, stream := range []string{"", `,"stream":true`} {
				text := s.post("/v1/chat/completions",
					`{"messages":[{"role":"user","content":"zebra"}],"max_tokens":2`+more+stream+`}`, 200)
				if got := strings.Contains(text, `"__verbose":{`) && strings.Contains(text, "zebra"); got != want {
					t.Errorf("%v %q %q: %v", always, more, stream, text)
				}
			}
		}
	}
	// The text of stop that ended the answer is told too.
	s := newTester(t, nil)
	const talk = `{"messages":[{"role":"user","content":"zebra"}],"max_tokens":12,"verbose":true`
	content := decode(t, s.post("/v1/chat/completions", talk+`}`, 200)).get(t, "__verbose", "content").(string)
	if len(content) < 4 {
		t.Fatalf("%q", content)
	}
	stop := content[len(content)/2:][:2]
	o := decode(t, s.post("/v1/chat/completions", talk+`,"stop":`+string(encode(stop))+`}`, 200))
	if o.get(t, "__verbose", "stop_type") != "word" || o.get(t, "__verbose", "stopping_word") != stop {
		t.Errorf("%q: %v", stop, o.get(t, "__verbose"))
	}
}

// --reasoning, and --chat-template-kwargs, say what the template's enable_thinking is where a request does not.
func TestReasoningOfTheServer(t *testing.T) {
	const template = `{{ enable_thinking is defined and enable_thinking }},` +
		`{% for m in messages %}{{ m.content }}{% endfor %}`
	for _, c := range []struct{ reasoning, more, want string }{
		{"", "", "False,x"}, {"on", "", "True,x"}, {"off", "", "False,x"}, {"auto", "", "False,x"},
		{"on", `,"chat_template_kwargs":{"enable_thinking":false}`, "False,x"},
		{"off", `,"chat_template_kwargs":{"enable_thinking":true}`, "True,x"}, {"kwargs on", "", "True,x"},
		{"kwargs on", `,"chat_template_kwargs":{"enable_thinking":false}`, "False,x"},
		{"kwargs off", `,"chat_template_kwargs":{"more":true}`, "False,x"},
	} {
		s := newTester(t, func(o *Options) {
			with(t, func(o *spec.Options) { o.Template = template })(o)
			o.Reasoning = c.reasoning
			if asked, ok := strings.CutPrefix(c.reasoning, "kwargs "); ok {
				o.Reasoning, o.Variables = "", map[string]any{"enable_thinking": asked == "on", "other": 1}
			}
		})
		o := decode(t, s.post("/apply-template", `{"messages":[{"role":"user","content":"x"}]`+c.more+`}`, 200))
		if got := o.get(t, "prompt"); got != c.want {
			t.Errorf("%q %s: %q", c.reasoning, c.more, got)
		}
	}
}

// The settings of an answer name what was banned and biased; tokens are counted also of prompts that do not fit.
func TestSettingsAndCounts(t *testing.T) {
	s := newTester(t, with(t, func(o *spec.Options) { o.Context = 32 }))
	set := object(decode(t, s.post("/completion",
		`{"prompt":"x","n_predict":1,"logit_bias":[[9,1.5],[7,false]],"xtc_probability":0.5}`, 200)).get(
		t, "generation_settings").(map[string]any))
	want := `[map[bias:1.5 token:9] map[bias:<nil> token:7]] 0.5 0.1`
	if got := fmt.Sprint(set["logit_bias"], set["xtc_probability"], set["xtc_threshold"]); got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	long := `{"model":"go","messages":[{"role":"user","content":"` + strings.Repeat("x y ", 60) + `"}]}`
	for _, path := range []string{"/v1/messages/count_tokens", "/v1/chat/completions/input_tokens"} {
		if n, _ := decode(t, s.post(path, long, 200)).get(t, "input_tokens").(float64); n < 100 {
			t.Errorf("%s: %v tokens", path, n)
		}
	}
	text := s.post("/v1/chat/completions", long, 400)
	if !strings.Contains(text, "exceeds the available context size, 32") {
		t.Error(text)
	}
	s.post("/responses", `{"input":"x","max_output_tokens":2}`, 200)
}

// Probabilities after the filters are of the tokens that they leave, and add up to 1; they do not depend on drafts, and
// the first token's are the model's own, of three, by the temperature.
func TestProbabilitiesAfterFilters(t *testing.T) {
	s := newTester(t, nil)
	ask := func(more string) []any {
		return decode(t, s.post("/completion", `{"prompt":"func (r *Ring) Push(","n_predict":16,"n_probs":5,"seed":4,`+
			`"top_k":3,"temperature":0.5,"repeat_penalty":1`+more+`}`, 200)).get(t, "completion_probabilities").([]any)
	}
	plain, after := ask(""), ask(`,"post_sampling_probs":true`)
	if without := ask(`,"post_sampling_probs":true,"speculation":{"off":true}`); !reflect.DeepEqual(after, without) {
		t.Errorf("with drafts %v, without %v", after, without)
	}
	for _, x := range after {
		top, sum := x.(map[string]any)["top_probs"].([]any), 0.0
		own := false
		for _, p := range top {
			sum += p.(map[string]any)["prob"].(float64)
			own = own || p.(map[string]any)["prob"] == x.(map[string]any)["prob"]
		}
		if len(top) > 3 || math.Abs(sum-1) > 1e-5 || !own {
			t.Fatalf("%v", x)
		}
	}
	var want []float64
	sum := 0.0
	for _, p := range plain[0].(map[string]any)["top_logprobs"].([]any)[:3] {
		want = append(want, math.Exp(p.(map[string]any)["logprob"].(float64)/0.5))
		sum += want[len(want)-1]
	}
	for i, p := range after[0].(map[string]any)["top_probs"].([]any) {
		if got := p.(map[string]any)["prob"].(float64); math.Abs(got-want[i]/sum) > 1e-5 {
			t.Errorf("%d: %v, expected %v", i, got, want[i]/sum)
		}
	}
}

// A budget of reasoning beside a schema is refused by name; 0 is a conversation without reasoning.
func TestBudgetOfReasoning(t *testing.T) {
	const template = `{{ enable_thinking is defined and not enable_thinking }}{% for m in messages %}{{ m.content }}` +
		`{% endfor %}{% if false %}<think></think>{% endif %}`
	s := newTester(t, with(t, func(o *spec.Options) { o.Template = template }))
	const talk = `{"messages":[{"role":"user","content":"x"}],"max_tokens":2,"verbose":true,"thinking_budget":`
	e := decode(t, s.post("/v1/chat/completions", talk+`9,"response_format":{"type":"json_object"}}`, 400))
	if e.get(t, "error", "param") != "thinking_budget" {
		t.Error(e)
	}
	for budget, want := range map[string]string{"0": "Truex", "9": "Falsex", "-1": "Falsex"} {
		for _, name := range []string{"thinking_budget", "thinking_budget_tokens", "reasoning_budget_tokens",
			"reasoning_budget"} {
			body := strings.Replace(talk+budget+"}", "thinking_budget", name, 1)
			o := decode(t, s.post("/v1/chat/completions", body, 200))
			if got := o.get(t, "__verbose", "prompt").(string); !strings.Contains(got, want) {
				t.Errorf("%s %s: %q", name, budget, got)
			}
		}
	}
}

// n_predict 0 has a prompt read ahead of time: the answer is empty, whole and streamed, and the next request finds
// the prompt.
func TestPromptAheadOfTime(t *testing.T) {
	s := newTester(t, nil)
	long := strings.Repeat("func (r *Ring) Push(n int) { r.n = n }\n", 12)
	ask := func(n, more string) object {
		body := `{"prompt":` + string(encode(long)) + `,"n_predict":` + n + `,"temperature":0` + more + `}`
		return decode(t, s.post("/completion", body, 200))
	}
	ahead := ask("0", `,"samplers":[],"response_fields":[]`)
	if ahead = ask("0", ""); ahead.get(t, "content") != "" || ahead.get(t, "tokens_predicted") != 0.0 ||
		ahead.get(t, "stop_type") != "limit" {
		t.Errorf("%v", ahead)
	}
	end := decode(t, s.post("/tokenize", `{"content":"<|endoftext|>"}`, 200)).get(t, "tokens", 0)
	if o := ask("0", fmt.Sprintf(`,"logit_bias":[[%v,100]]`, end)); o.get(t, "stop_type") != "limit" {
		t.Errorf("where the model would end its text: %v", o)
	}
	if o := ask("4", ""); o.get(t, "timings", "cache_n").(float64) < 100 || o.get(t, "content") == "" {
		t.Errorf("%v", o)
	}
	streamed := s.post("/completion", `{"prompt":"func","n_predict":0,"stream":true}`, 200)
	if list := events(t, streamed); len(list) != 1 || decode(t, list[0]).get(t, "content") != "" {
		t.Errorf("%s", streamed)
	}
}

// What llama.vim and llama.vscode send is answered, with and without drafts the same text, and ends where no
// continuation is probable: before the text without the step infill does.
func TestInfillEndsTheGap(t *testing.T) {
	s := newTester(t, nil)
	withInfill(t, s)
	text := func(samplers, speculation string) string {
		o := decode(t, s.post("/infill", `{"input_prefix":"package main\n\nfunc (r *Ring) ","prompt":"Push(","input_suffix":`+
			`"\n}\n","input_extra":[],"n_predict":64,"top_k":40,"top_p":0.99,"temperature":0,"seed":3,"samplers":`+samplers+
			`,"cache_prompt":true,"t_max_prompt_ms":500,"n_indent":1,"id_slot":0,"response_fields":["content","stop_type"],`+
			`"speculation":`+speculation+`}`, 200))
		return o.get(t, "stop_type").(string) + ": " + o.get(t, "content").(string)
	}
	with, without := text(`["top_k","top_p","infill"]`, `{}`), text(`["top_k","top_p"]`, `{}`)
	content, ok := strings.CutPrefix(with, "eos: ")
	if !ok || content == "" || len(content) >= len(without) || !strings.HasPrefix(without, "limit: "+content) {
		t.Errorf("with infill %q, without %q", with, without)
	}
	if got := text(`["top_k","top_p","infill"]`, `{"off":true}`); got != with {
		t.Errorf("without drafts %q, with them %q", got, with)
	}
}
