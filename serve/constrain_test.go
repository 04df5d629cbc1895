package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
)

// task is what a body asks the default model for.
func (s *tester) task(form forms, body string) *spec.Task {
	s.t.Helper()
	m, release, err := s.models.acquire(s.t.Context(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(release)
	r, e := s.parse(s.t.Context(), form, s.anyone, []byte(body), true)
	if e != nil {
		s.t.Fatal(e)
	}
	task, err := s.bind(s.t.Context(), m, r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(task.Close)
	return task
}

// TestConstraintOfEveryDifference: a grammar that was compiled for one request serves another only if everything that
// it depends on is the same: the source and its kind, reasoning, a conversation or not, the tools, and which calls
// are wanted.
func TestConstraintOfEveryDifference(t *testing.T) {
	s := newTester(t, with(t, func(o *spec.Options) { o.Template = thinking }))
	const message = `"messages":[{"role":"user","content":"x"}]`
	chat := func(more string) string { return `{` + message + more + `}` }
	schema := func(source string) string {
		return `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":` + source + `}}`
	}
	tool := func(name, parameters string) string {
		return `{"type":"function","function":{"name":"` + name + `","parameters":` + parameters + `}}`
	}
	const think, number = `,"chat_template_kwargs":{"enable_thinking":true}`,
		`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	for name, x := range map[string]struct {
		form forms
		body string
	}{
		"a schema":                  {formChat, chat(schema(`{"const":1}`))},
		"another schema":            {formChat, chat(schema(`{"const":2}`))},
		"reasoning":                 {formChat, chat(schema(`{"const":1}`) + think)},
		"no conversation":           {formNative, `{"prompt":"x","json_schema":{"const":1}}`},
		"any JSON":                  {formChat, chat(`,"response_format":{"type":"json_object"}`)},
		"any JSON, reasoning":       {formChat, chat(`,"response_format":{"type":"json_object"}` + think)},
		"GBNF with a schema's text": {formChat, chat(`,"grammar":"root ::= \"1\""`)},
		"a call":                    {formChat, chat(`,"tool_choice":"required","tools":[` + tool("f", number) + `]`)},
		"a call, reasoning": {formChat, chat(
			`,"tool_choice":"required","tools":[` + tool("f", number) + `]` + think)},
		"another name": {formChat, chat(`,"tool_choice":"required","tools":[` + tool("g", number) + `]`)},
		"other parameters": {formChat, chat(
			`,"tool_choice":"required","tools":[` + tool("f", `{"type":"object"}`) + `]`)},
		"two tools": {formChat, chat(
			`,"tool_choice":"required","tools":[` + tool("f", number) + "," + tool("g", number) + `]`)},
		"one call": {formChat, chat(
			`,"tool_choice":"required","parallel_tool_calls":false,"tools":[` + tool("f", number) + `]`)},
		"a call or text":     {formChat, chat(`,"parallel_tool_calls":false,"tools":[` + tool("f", number) + `]`)},
		"a call or a schema": {formChat, chat(`,"tools":[` + tool("f", number) + `]` + schema(`{"const":1}`))},
	} {
		task := s.task(x.form, x.body)
		if task.Compiled(t.Context()) {
			t.Errorf("%s has the grammar of another request, or none", name)
		}
		if err := s.compile(t.Context(), s.anyone, task, true); err != nil || task.Sampling(0).Constraint == nil {
			t.Fatalf("%s: no constraint: %v", name, err)
		}
		if !s.task(x.form, x.body).Compiled(t.Context()) {
			t.Errorf("%s: the next request finds no grammar", name)
		}
	}
	// What the reasoning mode means: with it a text may begin with anything, without it with the value or the mark.
	first := func(more string) bool {
		task := s.task(formChat, chat(schema(`{"const":1}`)+more))
		if err := task.Compile(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, tok := task.Sampling(0).Constraint, task.Model().Tokenizer()
		_, ok, err := c.Next(c.Start(), tok.Encode("x", bpe.EncodeOptions{NoSpacePrefix: true})[0])
		return ok && err == nil
	}
	if !first(think) || first("") {
		t.Errorf("free text first: %v with reasoning, %v without", first(think), first(""))
	}
}

// TestHostileGrammarsAreRefused: a source of great cost is a 400 that names the field, and the limit where one is
// exceeded; when it is answered its memory is free.
func TestHostileGrammarsAreRefused(t *testing.T) {
	s := newTester(t, nil)
	rules := new(strings.Builder)
	for i := range 70000 {
		fmt.Fprintf(rules, `r%d ::= r%d\n`, i, i+1)
	}
	var member, name []string
	for i := range 10 {
		member, name = append(member, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/a"}`, i)), append(name, fmt.Sprintf(`"p%d"`, i))
	}
	own := `{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"object","properties":{` +
		strings.Join(member, ",") +
		`},"required":[` + strings.Join(name, ",") + `]}}}`
	for _, x := range []struct{ field, value, says string }{
		{"json_schema", `{"type":"integer","minimum":1` + strings.Repeat("0", 60000) + `}`, "Digits, at most 512"},
		{"json_schema", own, "no finite value is valid"},
		{"json_schema", `{"type":"string","pattern":"^(?i)` + strings.Repeat(`[B-\\x{1E000}]`, 5000) +
			`$"}`, "Steps, at most"},
		{"grammar", `"root ::= r0\n` + rules.String() + `r70000 ::= \"\""`, "Rules, at most 65536"},
		{"grammar", `"root ::= (\"a\"{1,1000}){1,1000}"`, "Instructions, at most"},
		// its texts end as they may
		{"grammar", `"root ::= \"x\"` + strings.Repeat(` | [a-z]* \"a\" [a-z]{30}`, 25) + `"`, ""},
	} {
		body := `{"prompt":"func","n_predict":4,"` + x.field + `":` + x.value + `}`
		status, answer, _ := s.do("POST", "/completion", body)
		switch {
		case x.says == "" && (status == 200 || status == 400 && strings.Contains(answer, "at most")):
		case status != 400 || !strings.Contains(answer, x.says) || !strings.Contains(answer, `"param":"`+x.field+`"`):
			t.Errorf("%s %.80s: %d %.300s", x.field, x.value, status, answer)
		}
	}
	m := s.models.resident()[0]
	if texts := m.Stats().GrammarTexts; texts != 0 {
		t.Errorf("%d texts hold a grammar after the last answer", texts)
	}
	s.post("/completion", `{"prompt":"func","n_predict":4,"json_schema":{"type":"integer"}}`, 200)
}

// TestLimitInsideOfText: a limit that is exceeded after the first token ends that text with a 400 that names it,
// whole and streamed.
func TestLimitInsideOfText(t *testing.T) {
	s := newTester(t, with(t, func(o *spec.Options) { o.Limits.Grammar.Depth = 3 }))
	const source = `"grammar":"root ::= \"func main is here\" a\na ::= \"0\" b \"z\"\nb ::= \"1\" c \"y\"\nc ::= \"2\" d \"x\"\nd ::= \"3\" e \"w\"\ne ::= \"4\""`
	status, answer, _ := s.do("POST", "/completion", `{"prompt":"func","n_predict":40,`+source+`}`)
	if status != 400 || !strings.Contains(answer, "Depth, at most 3") || !strings.Contains(answer, "grammar_limit") {
		t.Errorf("%d %s", status, answer)
	}
	status, answer, _ = s.do("POST", "/completion", `{"prompt":"func","n_predict":40,"stream":true,`+source+`}`)
	if status != 200 || !strings.Contains(answer, "Depth, at most 3") || !strings.Contains(answer, "grammar_limit") {
		t.Errorf("streamed: %d %s", status, answer)
	}
}

// TestBansOfWhatAConstraintNeeds: a request that bans the only tokens its constraint allows is a 400 that names both
// fields, whatever verifies drafts, at the first token and later in a stream.
func TestBansOfWhatAConstraintNeeds(t *testing.T) {
	s := newTester(t, nil)
	m, release, err := s.models.acquire(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var bans []string
	for id := range int32(m.Tokenizer().Size()) {
		if strings.Contains(m.Tokenizer().Token(id), "}") {
			bans = append(bans, fmt.Sprintf("[%d,false]", id))
		}
	}
	body := `{"prompt":"func","n_predict":40,"temperature":1,"grammar":"root ::= %s","logit_bias":[` +
		strings.Join(bans, ",") + `],"stream":%v,"speculation":{"verify":%q}}`
	for _, verifier := range []string{"match", "rejection", "block"} {
		for source, status := range map[string]int{`\"}\"`: 400, `\"a}\"`: 200} {
			got, answer, _ := s.do("POST", "/completion", fmt.Sprintf(body, source, status == 200, verifier))
			if got != status || !strings.Contains(answer, "logit_bias: it bans what grammar needs") ||
				!strings.Contains(answer, "invalid_request_error") {
				t.Errorf("%s, %s: %d %s", verifier, source, got, answer)
			}
		}
	}
}

// TestCompilationsWaitInTheirQueue: while one grammar is compiled others wait, as many as the queue holds; answers
// without a new grammar do not wait for them; a client that leaves, and a server that ends, end the wait.
func TestCompilationsWaitInTheirQueue(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Queue = 2; o.Parallel = 1 })
	const known = `{"prompt":"func","n_predict":3,"grammar":"root ::= \"known\""}`
	s.post("/completion", known, 200)
	_, leave, err := s.preparing.enter(t.Context(), &s.anyone.preparing, 1, true) // a long compilation
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answers := make(chan string, 2)
	for i := range 2 {
		go func() {
			body := fmt.Sprintf(`{"prompt":"func","n_predict":3,"grammar":"root ::= \"%d\""}`, i)
			r, _ := http.NewRequestWithContext(ctx, "POST", s.web.URL+"/completion", strings.NewReader(body))
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- err.Error()
				return
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			answers <- fmt.Sprint(answer.StatusCode, " ", string(text))
		}()
	}
	s.wait(func() bool { _, waiting := s.preparing.load(); return waiting == 2 })
	s.post("/completion", `{"prompt":"func","n_predict":3}`, 200)
	s.post("/completion", known, 200)
	s.post("/completion", `{"prompt":"func","n_predict":3,"grammar":"root ::= \"more\""}`, 429)
	cancel()
	for range 2 {
		if a := <-answers; !strings.Contains(a, "canceled") {
			t.Errorf("%s", a)
		}
	}
	s.wait(func() bool { _, waiting := s.preparing.load(); return waiting == 0 })
	status := make(chan int, 1)
	go func() {
		code, _, _ := s.do("POST", "/completion", `{"prompt":"func","n_predict":3,"grammar":"root ::= \"last\""}`)
		status <- code
	}()
	s.wait(func() bool { _, waiting := s.preparing.load(); return waiting == 1 })
	s.Cancel()
	if code := <-status; code != 503 && code != 499 {
		t.Errorf("status %d when the server ends", code)
	}
	leave()
}

// A request that is refused before its answer, wherever, leaves its model, and its places, to others; an error without
// a code has none, rather than an empty one.
func TestRefusedRequestsHoldNothing(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Parallel = 1 })
	for _, body := range []string{
		`{"prompt":"x","n_predict":1,"grammar":"root ::= ("}`, `{"prompt":"x","n_predict":1,"logit_bias":[[99999999,1]]}`,
		`{"prompt":"x","n_predict":1,"temperature":-1}`,
	} {
		text := s.post("/v1/completions", strings.ReplaceAll(body, "n_predict", "max_tokens"), 400)
		if code, ok := decode(t, text)["error"].(map[string]any)["code"]; code == "" || !ok {
			t.Errorf("%s: %s", body, text)
		}
	}
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	for _, slot := range s.models.slots {
		if slot.model != nil && slot.model.users != 0 {
			t.Errorf("%d requests hold %s", slot.model.users, slot.Name)
		}
	}
	if busy, waiting := s.preparing.load(); busy+waiting != 0 {
		t.Errorf("%d and %d grammars", busy, waiting)
	}
}

// Large bodies are read, and their prompts made tokens of, one at a time, behind the grammars; small ones do not wait.
func TestLargeBodiesTakeTurns(t *testing.T) {
	s := newTester(t, nil)
	enter := func() func() {
		_, leave, err := s.preparing.enter(t.Context(), &s.anyone.preparing, 1, true)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	for path, form := range map[string]string{
		"/completion": `{"prompt":"func%s","n_predict":1}`, "/tokenize": `{"content":"func%s"}`,
	} {
		body := func(blanks int) string { return fmt.Sprintf(form, strings.Repeat(" ", blanks)) }
		leave := enter()
		status := make(chan int, 1)
		go func() {
			code, _, _ := s.do("POST", path, body(largeBody))
			status <- code
		}()
		s.wait(func() bool { _, waiting := s.preparing.load(); return waiting == 1 })
		code, text, _ := s.do("POST", path, body(8))
		leave()
		if code != 200 {
			t.Errorf("%s: %d %s", path, code, text)
		}
		if code := <-status; code != 200 && code != 400 { // 400: more tokens than the context has
			t.Errorf("%s: status %d", path, code)
		}
	}
}

// A regular expression is of the whole answer: nothing stands before or behind what it matches, and no escapes.
func TestGuidedRegex(t *testing.T) {
	s := newTester(t, nil)
	for source, want := range map[string]string{
		`"[ab]{3}-\\d{2}"`: `^[ab]{3}-\d{2}$`, `"x|yy\n\"z"`: "^(x|yy\n\"z)$",
	} {
		for _, body := range []string{`"guided_regex":` + source, `"structured_outputs":{"regex":` + source + `}`} {
			o := decode(t, s.post("/v1/completions", `{"prompt":"x","max_tokens":40,"temperature":2,"seed":3,`+body+`}`, 200))
			if text := o.get(t, "choices", 0, "text").(string); !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("%s: %q", source, text)
			}
		}
	}
	if text := s.post("/v1/completions", `{"prompt":"x","guided_regex":"a","guided_choice":["b"]}`, 400); !strings.Contains(
		text, "gives a grammar already") {
		t.Error(text)
	}
}

// What is banned is in no answer, however its tokens are cut; what else the model says stays as likely.
func TestBannedStrings(t *testing.T) {
	s := newTester(t, nil)
	text := func(more string) string {
		return decode(t, s.post("/v1/completions", `{"prompt":"func (r *Ring) Push(","max_tokens":60`+more+`}`, 200)).
			get(t, "choices", 0, "text").(string)
	}
	plain := text("")
	word := plain[len(plain)/2 : len(plain)/2+2]
	if got := text(`,"banned_strings":[` + string(encode(word)) + `,"qzx"]`); strings.Contains(got, word) || got == "" {
		t.Errorf("%q in %q", word, got)
	}
	if got := text(`,"banned_strings":["qzx"]`); got != plain {
		t.Errorf("%q, expected %q", got, plain)
	}
}

// Keys of objects come in the schema's order, or in any where a request or the server's options say so; a grammar that
// was compiled for one is not the other's.
func TestKeysInAnyOrder(t *testing.T) {
	begin := func(s *tester, more string) string {
		o := decode(t, s.post("/v1/completions", `{"prompt":"x","max_tokens":6,"temperature":0,"logit_bias":[["func",60]],`+
			`"json_schema":{"type":"object","properties":{"zz":{"const":1},"func":{"const":2}},"required":["zz","func"]}`+
			more+`}`, 200))
		return o.get(t, "choices", 0, "text").(string)[:4]
	}
	s, loose := newTester(t, nil), newTester(t, func(o *Options) { o.AnyOrder = true })
	for _, c := range []struct {
		s          *tester
		more, want string
	}{
		{s, "", `{"zz`}, {s, `,"json_any_order":true`, `{"fu`}, {s, `,"json_any_order":false`, `{"zz`}, {loose, "", `{"fu`},
		{loose, `,"json_any_order":false`, `{"zz`},
	} {
		if got := begin(c.s, c.more); got != c.want {
			t.Errorf("%q: %s, expected %s", c.more, got, c.want)
		}
	}
}

// What is banned beside strict tools, or where calls may not be several, bans no more than that, and allows no calls
// but those: text of the answer has none.
func TestBannedStringsBesideCalls(t *testing.T) {
	s := newTester(t, with(t, func(o *spec.Options) { o.Template = thinking }))
	const tool = `{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object",` +
		`"properties":{},"additionalProperties":false}}}`
	for _, x := range []struct {
		more    string
		checked bool
	}{
		{`,"tools":[` + tool + `]`, true},
		{`,"tools":[` + strings.Replace(tool, `"strict":true,`, "", 1) + `],"parallel_tool_calls":false`, true},
		{`,"tools":[` + strings.Replace(tool, `"strict":true,`, "", 1) + `]`, false},
	} {
		task := s.task(formChat, `{"messages":[{"role":"user","content":"x"}],"banned_strings":["qzx"]`+x.more+`}`)
		if err := task.Compile(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, tok := task.Sampling(0).Constraint, task.Model().Tokenizer()
		for text, want := range map[string]bool{"Hello.": true, "a qzx": false,
			"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>": true,
			"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>": !x.checked, "a <tool_call>": !x.checked} {
			state, ok := c.Start(), true
			for _, id := range tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true}) {
				if ok {
					state, ok, _ = c.Next(state, id)
				}
			}
			if ok = ok && c.Final(state); ok != want {
				t.Errorf("%s: %q: %v", x.more, text, ok)
			}
		}
	}
}
