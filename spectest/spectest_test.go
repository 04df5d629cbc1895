package spectest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// loaded is the embedded pair with the target's fingerprint, for all tests.
var loaded = sync.OnceValues(func() (l struct {
	parts spec.Parts
	file  engine.Fingerprint
}, err error) {
	ctx := context.Background()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		return l, err
	}
	if l.parts.Target, err = engine.New(ctx, rt, testdata.Target(), testdata.Target().Size(),
		engine.Options{Name: "target"}); err != nil {
		return l, err
	}
	if l.parts.Draft, err = engine.New(ctx, rt, testdata.Draft(), testdata.Draft().Size(),
		engine.Options{Name: "draft"}); err != nil {
		return l, err
	}
	f, err := gguf.Open(testdata.Target(), testdata.Target().Size(), "embedded target")
	if err != nil {
		return l, err
	}
	l.file, err = engine.ReadFingerprint(ctx, f)
	return l, err
})

// dated is a template that reads the clock and offers tools.
const dated = `{{ strftime_now('%Y-%m-%d') }}
{%- if tools %}{% for t in tools %}{{ t | tojson }}
{% endfor %}Answer with <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>
{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{# "arguments" #}`

// model is the embedded pair; change may be nil.
func model(t testing.TB, o spec.Options, change func(*engine.Fingerprint)) *Model {
	t.Helper()
	l, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	if o.Template == "" {
		o.Template = dated
	}
	if change != nil {
		change(&l.file)
	}
	return New(t, l.parts, l.file, o)
}

const unit = `{"type":"object","properties":{"unit":{"enum":["C","F"]},"days":{"type":"integer","minimum":1,` +
	`"maximum":7}},"required":["unit","days"],"additionalProperties":false}`

func push() spec.Request {
	return spec.Request{Prompts: []spec.Prompt{{Text: "func (r *Ring) Push("}}, MaxTokens: 16}
}

// Every way to ask gives what the committed files say, on every machine, with drafts and with a receipt or without.
func TestAnswersAreThoseOfTheFiles(t *testing.T) {
	sampled := spec.Request{Messages: []chat.Message{chat.User("a ring")}, MaxTokens: 12}
	sampled.Sampling.Temperature, sampled.Sampling.Seed = 0.8, 7
	Table(t, model(t, spec.Options{}, nil), []Case{
		{"push", push(), []Check{Contains("int")}},
		{"sampled", sampled, nil},
		{"schema", spec.Request{Prompts: []spec.Prompt{{Text: "weather: "}}, MaxTokens: 40,
			Constraint: spec.Schema(json.RawMessage(unit))}, []Check{JSON(json.RawMessage(unit))}},
		{"called", spec.Request{Messages: []chat.Message{chat.User("weather?")}, MaxTokens: 60, OneCall: true,
			Tools:      []spec.Tool{{Name: "weather", Parameters: json.RawMessage(unit), Strict: true}},
			ToolChoice: spec.ToolChoice{Mode: spec.CallRequired}}, []Check{Called("weather", "")}},
	})
}

// A model that is opened by its path, without a draft, gives what the files say.
func TestOpenedModelIsTheSame(t *testing.T) {
	m := Open(t, filepath.Join("..", "testdata", "go-target.q8_0.gguf"),
		spec.Options{Template: dated, Load: spec.Load{NoDraft: true, Threads: 1}})
	path := filepath.Join("testdata", "push.golden.json")
	for _, short := range []bool{true, false} {
		if _, d, err := run(t.Context(), m, path, push(), false, short); err != nil || d != "" {
			t.Errorf("short %v: %v %s", short, err, d)
		}
	}
}

// places are files by the names of models.
type places map[string]string

func (p places) Local(_ context.Context, path string) (string, error) {
	if file, ok := p[path]; ok {
		return file, nil
	}
	return path, nil
}

// A model of the Hub is opened by its name, as package spec does.
func TestModelsOfTheHub(t *testing.T) {
	o := spec.Options{Template: dated, Load: spec.Load{NoDraft: true, Threads: 1},
		Hub: places{"hf://owner/name": filepath.Join("..", "testdata", "go-target.q8_0.gguf")}}
	m := Open(t, "hf://owner/name", o)
	if _, d, err := run(t.Context(), m, filepath.Join("testdata", "push.golden.json"), push(), false, true); err != nil ||
		d != "" {
		t.Errorf("%v %s", err, d)
	}
}

// Tokens are those of the engine's own goldens, which are written without this package.
func TestGoldenTokensAreTheEngines(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var engines struct {
		Greedy []struct {
			Prompt string  `json:"prompt"`
			IDs    []int32 `json:"token_ids"`
			Target []int32 `json:"target"`
		} `json:"greedy"`
	}
	if err := json.Unmarshal(text, &engines); err != nil {
		t.Fatal(err)
	}
	want, path := engines.Greedy[0], filepath.Join(t.TempDir(), "a.golden.json")
	r := spec.Request{Prompts: []spec.Prompt{{Text: want.Prompt}}, MaxTokens: 12}
	g, _, err := run(t.Context(), model(t, spec.Options{}, nil), path, r, true, false)
	if err != nil {
		t.Fatal(err)
	}
	ids := g.ids()
	if !slices.Equal(g.Asked.IDs, want.IDs) || !slices.Equal(ids, want.Target[:12]) {
		t.Errorf("%v\n%v", g.Asked.IDs, ids)
	}
}

// What differs is named, with its reason: nothing else is, and the answer is compared all the same.
func TestDifferencesAreNamed(t *testing.T) {
	m, path := model(t, spec.Options{}, nil), filepath.Join(t.TempDir(), "a.golden.json")
	r := push()
	r.Sampling.Seed = 3
	if _, _, err := run(t.Context(), m, path, r, true, false); err != nil {
		t.Fatal(err)
	}
	passes := m.Stats().Target.Passes
	if _, d, err := run(t.Context(), m, path, r, false, false); err != nil || d != "" {
		t.Fatalf("unchanged: %v, %s", err, d)
	}
	if n := m.Stats().Target.Passes - passes; n != 0 {
		t.Errorf("confirmed with %d passes of the scheduler, expected a pass over all of the text", n)
	}
	prompt, seed, shorter := r, r, r
	prompt.Prompts = []spec.Prompt{{Text: "func (r *Ring) Pop("}}
	seed.Sampling.Seed = 4
	shorter.MaxTokens = 9
	for _, test := range []struct {
		what  string
		m     *Model
		r     spec.Request
		words []string
	}{
		{"prompt", m, prompt, []string{"the answer differs, because this differs: prompt\n", "prompt: from token ",
			`Ring) Push("`, `Ring) Pop("`, "token 2: \"uint\" (id 625, ", "then", "now has the probability "}},
		{"seed", m, seed, []string{"the answer is the same, but this differs: option\n",
			"option: Sampling.Seed 3 then, 4 now"}},
		{"shorter", m, shorter, []string{"because this differs: option\n", "option: MaxTokens 16 then, 9 now",
			"token 9: ", "the end (length) now"}},
		{"model", model(t, spec.Options{}, func(f *engine.Fingerprint) { f.Model = "abc" }), r,
			[]string{"the answer is the same, but this differs: model\n", "then, abc now"}},
		{"template", model(t, spec.Options{Template: dated + " "}, nil), r,
			[]string{"but this differs: template\n", "template: template_sha256 "}},
		{"clock", model(t, spec.Options{Clock: func() time.Time { return Clock().AddDate(0, 0, 1) }}, nil), r,
			[]string{"but this differs: clock\n", "2026-01-01T00:00:00Z then, 2026-01-02T00:00:00Z now"}},
		{"context", model(t, spec.Options{Context: 128}, nil), r, []string{"but this differs: model\n", "n_context"}},
	} {
		for _, short := range []bool{false, true} {
			_, d, err := run(t.Context(), test.m, path, test.r, false, short)
			for _, word := range append(test.words, path+": ", "-spectest.update") {
				if err != nil || !strings.Contains(d, word) {
					t.Errorf("%s: no %q in %v %s", test.what, word, err, d)
				}
			}
		}
	}
}

// A token that the model does not write is found, with its probabilities then and now; -short does not look.
func TestFirstChangedTokenIsShown(t *testing.T) {
	m, path := model(t, spec.Options{}, nil), filepath.Join(t.TempDir(), "a.golden.json")
	g, _, err := run(t.Context(), m, path, push(), true, false)
	if err != nil {
		t.Fatal(err)
	}
	now := fmt.Sprintf("%q (id %d, ", g.Tokens[5].Text, g.Tokens[5].ID)
	g.Tokens[5] = token{g.Tokens[5].ID + 1, "other", -1}
	g.Receipt.Tokens[5]++
	if err := g.write(path); err != nil {
		t.Fatal(err)
	}
	if _, d, err := run(t.Context(), m, path, push(), false, true); err != nil || d != "" {
		t.Errorf("-short: %v, %s", err, d)
	}
	_, d, err := run(t.Context(), m, path, push(), false, false)
	for _, word := range []string{"the answer differs, and nothing that it depends on does",
		fmt.Sprintf("token 5: \"other\" (id %d, probability 0.367879) then, %s", g.Tokens[5].ID, now),
		`; "other" now has the probability `} {
		if err != nil || !strings.Contains(d, word) {
			t.Errorf("no %q in %v %s", word, err, d)
		}
	}
	// an answer without a receipt is written again, and its probabilities are compared
	g, _, err = run(t.Context(), m, path, push(), true, false)
	if err != nil {
		t.Fatal(err)
	}
	g.Receipt, g.Tokens[2].LogProb = nil, g.Tokens[2].LogProb-0.5
	if err := g.write(path); err != nil {
		t.Fatal(err)
	}
	if _, d, err := run(t.Context(), m, path, push(), false, false); err != nil || !strings.Contains(d, "token 2: ") {
		t.Errorf("a probability: %v, %s", err, d)
	}
}

// A damaged file is refused by its name and its field.
func TestDamagedFilesAreRefused(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "push.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.golden.json")
	for _, test := range [][3]string{
		{`"schema": 1,`, `"schema": 2,`, "schema: 2, known is 1"},
		{`"finish_reason": "length"`, `"finish_reason": "stop"`, "sha256: not that of the content"},
		{`"finish_reason"`, `"Finish_reason"`, "Finish_reason"},
		{`"clock"`, `"lock"`, "lock"},
		{`"prompt_token_ids": [`, `"prompt_token_ids": [], "prompt_token_ids": [`, `"prompt_token_ids" stands twice`},
		{`"text": "`, `"text": 1, "x": "`, "unknown name \"x\""},
		{"\n}\n", "", "unexpected end"},
	} {
		damaged := bytes.Replace(whole, []byte(test[0]), []byte(test[1]), 1)
		if bytes.Equal(damaged, whole) {
			t.Fatalf("no %s", test[0])
		}
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readGolden(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") ||
			!strings.Contains(err.Error(), test[2]) {
			t.Errorf("%s: %v, expected %s", test[1], err, test[2])
		}
	}
	g, err := readGolden(filepath.Join("testdata", "push.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	g.Tokens[1].ID++
	if err := g.write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := readGolden(path); err == nil || !strings.Contains(err.Error(), "receipt.token_ids[1]: ") {
		t.Errorf("tokens that are not the receipt's: %v", err)
	}
	// line ends as some version controls write them are no damage
	if err := os.WriteFile(path, bytes.ReplaceAll(whole, []byte("\n"), []byte("\r\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readGolden(path); err != nil {
		t.Error(err)
	}
}

// fake is a test that fails without failing the one around it.
type fake struct {
	testing.TB
	failed []string
	ended  bool
}

func (f *fake) Error(args ...any) { f.failed = append(f.failed, fmt.Sprint(args...)) }
func (f *fake) Fatal(args ...any) {
	f.Error(args...)
	f.ended = true
	runtime.Goexit()
}
func (f *fake) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// failures runs a test as go test does, in a goroutine of its own.
func failures(t *testing.T, test func(t testing.TB)) *fake {
	f, done := &fake{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	return f
}

// A difference fails the test and lets it go on with the new answer; what cannot be compared ends it.
func TestRunFailsTheTest(t *testing.T) {
	if updating() {
		t.Skip("files are written, not compared")
	}
	m := model(t, spec.Options{}, nil)
	shorter := push()
	shorter.MaxTokens = 3
	var a *Answer
	f := failures(t, func(t testing.TB) { a = Run(t, m, "push", shorter) })
	if len(f.failed) != 1 || f.ended || a == nil || a.Text == "" {
		t.Errorf("a difference: %+v %+v", f, a)
	}
	if f := failures(t, func(t testing.TB) { a.Check(t, Contains("@@"), Contains("")) }); len(f.failed) != 1 || f.ended {
		t.Errorf("a check: %+v", f)
	}
	several, lines, rejection, named := push(), push(), push(), push()
	several.N = 2
	lines.Lines.Within = time.Second
	rejection.Sampling.Temperature, rejection.Speculation.Verify = 1, "rejection"
	named.CallID = func() string { return "" }
	for _, test := range []struct {
		name string
		r    spec.Request
		want string
	}{
		{"none", push(), "none.golden.json: there is no such file; -spectest.update writes it"},
		{"../push", push(), "is no name of a golden file"},
		{"push", several, "Request.N, Prompts: 2 answers"},
		{"push", lines, "Request.Lines: "},
		{"push", rejection, "Request.Speculation.Verify: "},
		{"push", named, "Request.CallID: "},
		{"push", spec.Request{}, "prompt"},
	} {
		f := failures(t, func(t testing.TB) { Run(t, m, test.name, test.r) })
		if len(f.failed) != 1 || !f.ended || !strings.Contains(f.failed[0], test.want) {
			t.Errorf("%s: %+v", test.want, f)
		}
	}
}

// A field that requests get is one that somebody has thought about here.
func TestFieldsOfRequestsAreKnown(t *testing.T) {
	fields := reflect.TypeFor[spec.Request]()
	for i := range fields.NumField() {
		if name := fields.Field(i).Name; requestParts[name] == 0 {
			t.Errorf("Request.%s is not in the table", name)
		}
	}
	if fields.NumField() != len(requestParts) {
		t.Errorf("%d fields, %d in the table", fields.NumField(), len(requestParts))
	}
}

// What a model is asked about an answer is answered greedily by one of the choices, and the vectors of texts are
// compared: a text with itself has the similarity 1, and with another one less.
func TestModelsJudge(t *testing.T) {
	m := model(t, spec.Options{}, nil)
	a := &Answer{Text: "func main() {"}
	asked := ""
	ask := func(a *Answer) string { asked = "Is it Go? " + a.Text; return asked }
	said := func(choices ...string) (list []string) {
		for _, c := range choices {
			if Judged(t.Context(), m.Model, ask, choices, c)(a) == nil {
				list = append(list, c)
			}
		}
		return list
	}
	if got := said("yes \"1\"", "no", "perhaps"); len(got) != 1 || asked != "Is it Go? func main() {" {
		t.Errorf("asked %q, judged %q", asked, got)
	}
	if err := Judged(t.Context(), m.Model, ask, []string{"no"}, "yes")(a); err == nil ||
		!strings.Contains(err.Error(), `judged "no", want "yes"`) {
		t.Errorf("another judgment: %v", err)
	}
	for text, least := range map[string][2]float64{a.Text: {0.9999, 1.0001}, "func main() {\n": {-1, 0.9999}} {
		low := Similar(t.Context(), m.Model, text, least[0])(a)
		high := Similar(t.Context(), m.Model, text, least[1])(a)
		if low != nil || high == nil || !strings.Contains(high.Error(), "similarity") {
			t.Errorf("%q: %v, %v", text, low, high)
		}
	}
	if err := Similar(t.Context(), m.Model, "x", -1)(&Answer{}); err == nil {
		t.Error("an empty answer is similar to something")
	}
}

func TestChecks(t *testing.T) {
	schema := json.RawMessage(unit)
	a := &Answer{Text: "{ \"unit\" : \"C\",\n \"days\": 3 }", Calls: []chat.ToolCall{
		{Name: "a", Arguments: `{"x":1,"y":[2]}`}, {Name: "a", Arguments: `{}`}}}
	for _, test := range []struct {
		check Check
		want  string // of the error; "": none
	}{
		{Contains("unit"), ""}, {Contains("Unit"), `does not contain "Unit"`},
		{Called("a", ""), ""}, {Called("a", `{"y":[2],"x":1}`), ""}, {Called("a", `{ }`), ""},
		{Called("b", ""), "does not call b: "}, {Called("a", `{"x":1}`), `does not call a {"x":1}: `},
		{Called("a", `{"x":1.0,"y":[2]}`), "does not call a"}, {Called("a", `{`), "is not JSON"},
		{JSON(schema), ""},
		{JSON(json.RawMessage(`{"type":"array"}`)), `does not follow the schema behind ""`},
		{JSON(json.RawMessage(`{"type":1}`)), "schema: "},
	} {
		err := test.check(a)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, expected %q", err, test.want)
		}
	}
	if err := JSON(json.RawMessage(`{"type":"integer","minimum":10,"maximum":99}`))(&Answer{Text: "1"}); err == nil {
		t.Error("the beginning of a number that follows the schema")
	}
	for text, want := range map[string]string{
		`{"unit":"K","days":3}`: `behind "{\"unit\":\""`, `{"unit":"C","days":8}`: "does not follow",
		`{"unit":"C"}`: "does not follow", `{"unit":"C","days":3} x`: "is not JSON", ``: "is not JSON",
	} {
		if err := JSON(schema)(&Answer{Text: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
