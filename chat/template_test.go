package chat

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/internal/testkit"
)

// builtinGoldens is what Jinja2 renders for the package's own templates.
func builtinGoldens(t *testing.T) map[string]*goldenFile {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]*goldenFile
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func mustNew(t *testing.T, source string, o Options) *Template {
	t.Helper()
	tmpl, err := New(source, o)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func builtin(t *testing.T, name string, o Options) *Template {
	t.Helper()
	source, ok := Builtin(name)
	if !ok {
		t.Fatalf("no template %s", name)
	}
	return mustNew(t, source, o)
}

func TestBuiltins(t *testing.T) {
	goldens := builtinGoldens(t)
	if n := len(BuiltinNames()) - len(turns); len(goldens) != n {
		t.Errorf("%d templates in files, %d of them with goldens", n, len(goldens))
	}
	for name, g := range goldens {
		tmpl := builtin(t, name, Options{BOS: g.BOS, EOS: g.EOS, Clock: fixedClock, Arguments: ArgumentsObject})
		checkGoldens(t, name, tmpl, g)
		if !tmpl.SystemRole() {
			t.Errorf("%s: no system role", name)
		}
		if want := map[string]bool{"chatml": true, "llama3": true,
			"mistral": true, "granite": true}[name]; tmpl.Tools() != want {
			t.Errorf("%s: Tools() = %v", name, tmpl.Tools())
		}
	}
	if _, ok := Builtin("../templates/chatml"); ok {
		t.Error("a path is no name")
	}
	if _, ok := Builtin(""); ok {
		t.Error("the empty name is one")
	}
}

// Every message of the system is in the prompt, also where there are several.
func TestBuiltinsKeepAllSystemMessages(t *testing.T) {
	for _, name := range BuiltinNames() {
		tmpl := builtin(t, name, Options{})
		messages := []Message{System("qz one"), System("qz two"), User("a")}
		if !tmpl.SystemRole() {
			messages = MergeSystem(messages)
		}
		p, err := tmpl.Render(t.Context(), Conversation{Messages: messages})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if text := p.Text(); !strings.Contains(text, "qz one") || !strings.Contains(text, "qz two") {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestDetectFormat(t *testing.T) {
	for name, want := range map[string]Syntax{
		"chatml": SyntaxHermes, "llama3": SyntaxLlama3, "mistral": SyntaxMistral,
		"granite": SyntaxGranite, "plain": SyntaxJSON,
	} {
		source, _ := Builtin(name)
		if got := DetectFormat(source); got.Syntax != want {
			t.Errorf("%s: %v", name, got.Syntax)
		}
	}
	if got := DetectFormat("{{ '<tool_call>' }}"); got.Syntax != SyntaxJSON {
		t.Errorf("a mark without arguments: %v", got.Syntax)
	}
	for name, want := range map[string]Format{
		"Qwen-Qwen3-0.6B":                               {Syntax: SyntaxHermes, ThinkStart: "<think>", ThinkEnd: "</think>"},
		"Qwen-Qwen2.5-7B-Instruct":                      {Syntax: SyntaxHermes},
		"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": {Syntax: SyntaxHermes},
		"meta-llama-Llama-3.1-8B-Instruct":              {Syntax: SyntaxLlama3},
		"mistralai-Ministral-3-14B-Reasoning-2512": {
			Syntax: SyntaxMistral, ThinkStart: "[THINK]", ThinkEnd: "[/THINK]", Bare: true},
		"Mistral-Small-3.2-24B-Instruct-2506": {Syntax: SyntaxMistral, Bare: true},
		"ibm-granite-granite-3.3-2B-Instruct": {Syntax: SyntaxGranite, ThinkStart: "<think>", ThinkEnd: "</think>"},
		"ibm-granite-granite-4.1":             {Syntax: SyntaxHermes},
		"openai-gpt-oss-120b":                 {Syntax: SyntaxHarmony},
		"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": {
			Syntax: SyntaxDeepSeek, ThinkStart: "<think>", ThinkEnd: "</think>"},
		"google-gemma-2-2b-it": {Unknown: true},
		"Qwen3-Coder":          {Syntax: SyntaxQwenXML},
		"ByteDance-Seed-OSS": {
			Syntax: SyntaxQwenXML, ThinkStart: "<seed:think>", ThinkEnd: "</seed:think>", Bare: true, Open: "<seed:tool_call>"},
		"GLM-4.7-Flash": {
			Syntax: SyntaxGLM, ThinkStart: "<think>", ThinkEnd: "</think>", Bare: true},
		"poolside-Laguna-S-2.1": {Syntax: SyntaxGLM, ThinkStart: "<think>", ThinkEnd: "</think>", Bare: true},
		"moonshotai-Kimi-K2":    {Syntax: SyntaxKimi},
		"google-gemma-4-31B-it-interleaved": {
			Syntax: SyntaxGemma4, ThinkStart: "<|channel>thought", ThinkEnd: "<channel|>"},
		"LFM2-8B-A1B":     {Syntax: SyntaxLFM2},
		"LFM2.5-Instruct": {Syntax: SyntaxLFM2, ThinkStart: "<think>", ThinkEnd: "</think>"},
		"deepseek-ai-DeepSeek-V4": {
			Syntax: SyntaxDSML, ThinkStart: "<think>", ThinkEnd: "</think>", Open: "<｜DSML｜tool_calls>"},
		"GLM-4.6": {Syntax: SyntaxGLM, ThinkStart: "<think>", ThinkEnd: "</think>"},
		"deepseek-ai-DeepSeek-V3.2": {
			Syntax: SyntaxDSML, ThinkStart: "<think>", ThinkEnd: "</think>", Open: "<｜DSML｜function_calls>"},
	} {
		source, err := os.ReadFile(testkit.Shared(t, "chat/templates", name+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		if got := DetectFormat(string(source)); *got != want {
			t.Errorf("%s: %v, want %v", name, *got, want)
		}
	}
}

// TestProbe: what a template takes is found by trying.
// The marks that end an answer beside the tokenizer's own ends of generation, for every syntax; they are the caller's.
func TestEndMarksOfSyntaxes(t *testing.T) {
	want := map[Syntax][]string{
		SyntaxHarmony: {"<|return|>", "<|call|>"}, SyntaxSolar: {"<|calls|>"},
		SyntaxMuse: {"<|eot|>"},
	}
	for _, s := range syntaxes {
		f := Format{Syntax: s.name}
		marks := f.EndMarks()
		if !slices.Equal(marks, want[s.name]) {
			t.Errorf("%s: %q, want %q", s.name, marks, want[s.name])
		}
		for i := range marks {
			marks[i] = "changed"
		}
		if again := f.EndMarks(); !slices.Equal(again, want[s.name]) {
			t.Errorf("%s: changed by a caller: %q", s.name, again)
		}
	}
}

func TestProbe(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile("testdata/" + name + ".jinja")
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	p, err := mustNew(t, read("typed"), Options{}).Render(
		t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "hi"}}})
	if err != nil || p.Text() != "<user>hi" {
		t.Errorf("typed content: %v, %v", p, err)
	}
	call := Conversation{Messages: []Message{
		{Role: "user", Content: "a"}, {Role: "assistant", ToolCalls: []ToolCall{{Name: "f", Arguments: `{"a":1}`}}}}}
	p, err = mustNew(t, read("textargs"), Options{}).Render(t.Context(), call)
	if err != nil || p.Text() != `<user>a<assistant><call>f {"a":1}` {
		t.Errorf("arguments as text: %v, %v", p, err)
	}
	if _, err = mustNew(t, read("textargs"), Options{
		Arguments: ArgumentsObject}).Render(t.Context(), call); !errors.Is(err, ErrFailed) {
		t.Errorf("arguments as an object: %v", err)
	}
	p, err = builtin(t, "chatml", Options{Arguments: ArgumentsText}).Render(t.Context(), call)
	if err != nil || !strings.Contains(p.Text(), `"arguments": "{\"a\":1}"`) {
		t.Errorf("arguments as text by choice: %v, %v", p, err)
	}
	noSystem := mustNew(t,
		`{% for m in messages %}{{ raise_exception("no system") if m.role == "system" }}{{ m.content }}{% endfor %}`,
		Options{})
	if noSystem.SystemRole() || noSystem.Tools() {
		t.Error("a template without system role or tools has them")
	}
}

func TestMergeSystem(t *testing.T) {
	u, s, a := Message{Role: "user", Content: "u"}, Message{Role: "system", Content: "s"},
		Message{Role: "assistant", Content: "a"}
	for _, c := range []struct {
		in   []Message
		want string
	}{
		{[]Message{s, u, a, u}, "user:s\n\nu assistant:a user:u"},
		{[]Message{a, s, u, s}, "assistant:a user:s\n\ns\n\nu"},
		{[]Message{s}, "user:s"},
		{[]Message{u}, "user:u"},
	} {
		var got []string
		for _, m := range MergeSystem(c.in) {
			got = append(got, m.Role+":"+m.Content)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("got %q, want %q", strings.Join(got, " "), c.want)
		}
	}
	if u.Content != "u" {
		t.Error("the argument was changed")
	}
}

func TestPartsOfAMessageAreJoinedInLinearTime(t *testing.T) {
	wantLinear(t, "parts", func(n int) {
		part := `{"type":"text","text":"0123456789abcdef0123456789abcdef"}`
		var m Message
		if err := json.Unmarshal([]byte(`{"role":"user","content":[`+strings.Repeat(part+",", n-1)+part+`]}`), &m); err != nil ||
			len(m.Content) != 32*n {
			t.Fatal(len(m.Content), err)
		}
	})
}

func TestMessageJSON(t *testing.T) {
	in := `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
		{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},{"function":{"name":"g","arguments":{"b": 2}}}]},
		{"role":"tool","tool_call_id":"i","name":"f","content":"c"}]`
	var messages []Message
	if err := json.Unmarshal([]byte(in), &messages); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"role":"user","content":"ab"},{"role":"assistant","content":"","reasoning_content":"r","tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},{"type":"function","function":{"name":"g","arguments":"{\"b\": 2}"}}]},{"role":"tool","content":"c","tool_call_id":"i","name":"f"}]`
	if string(out) != want {
		t.Errorf("got %s", out)
	}
	for _, bad := range []string{
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}`, `{"role":"user","content":3}`,
		`{"role":"user","content":[{"type":"text"}]}`, `{"role":"a","tool_calls":[{"type":"custom","function":{}}]}`,
	} {
		var m Message
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("accepted: %s", bad)
		}
	}
	var m Message
	if err := json.Unmarshal([]byte(`{"role":"user","content":[{"type":"image_url"}]}`), &m); !errors.Is(err, ErrContent) {
		t.Errorf("an image: %v", err)
	}
}

// TestErrors: errors are told apart and say the line.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		source string
		kind   error
		text   string
	}{
		{"a\n{{ 1 +", ErrSyntax, "line 2"},
		{"a\n\n{% include 'x' %}", ErrUnsupported, "line 3: the tag {% include %}"},
		{"{{ x | urlize }}", ErrUnsupported, `the filter "urlize"`},
		{"{{ x is nosuch }}", ErrUnsupported, `the test "nosuch"`},
		{"{% if x %}", ErrSyntax, "endif"},
		{"{{" + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000) + "}}", ErrLimit, "nested"},
		{strings.Repeat("{% if x %}", 1000), ErrLimit, "nested"},
		{"{{ 1" + strings.Repeat("+1", 1000) + " }}", ErrLimit, "operators"},
		{strings.Repeat(" ", 1<<20) + "x", ErrLimit, "bytes of template"},
	} {
		_, err := New(c.source, Options{})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%.30q: %v", c.source, err)
		}
	}
	for _, c := range []struct {
		source string
		kind   error
		text   string
	}{
		{"\n{{ raise_exception('no ' ~ messages[0].role) }}", ErrRefused, "line 2: no user"},
		{"{{ messages.x.y }}", ErrFailed, "line 1"},
		{"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", ErrLimit, "steps"},
		{"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", ErrLimit, "nested"},
		{"{{ 'a' * 100000000000 }}", ErrLimit, "bytes"},
		{"{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", ErrLimit,
			"bytes"},
		{"{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
			ErrLimit, ""},
		{"{{ 2 ** 70 }}", ErrLimit, "64 bits"},
		{"{{ range(1000000) }}", ErrLimit, "range"},
		{"{{ 'ab'.replace('', 'x' * 1000000) * 1000 }}", ErrLimit, "bytes"},
	} {
		o := Options{Limits: DefaultLimits()}
		o.Limits.Steps, o.Limits.Bytes = o.Limits.Steps/10, o.Limits.Bytes/10
		_, err := mustNew(t, c.source, o).Render(
			t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "x"}}})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%.40q: %v", c.source, err)
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%.40q: no *Error", c.source)
		}
	}
	tmpl := builtin(t, "chatml", Options{})
	for _, c := range []Conversation{
		{Tools: []json.RawMessage{[]byte(`{"a"`)}},
		{Tools: []json.RawMessage{[]byte(strings.Repeat("[", 1000) + strings.Repeat("]", 1000))}},
		{Extra: map[string]any{"x": struct{}{}}},
		{Messages: []Message{{Role: "assistant", ToolCalls: []ToolCall{{Name: "f",
			Arguments: strings.Repeat("[", 1000) + strings.Repeat("]", 1000)}}}}},
	} {
		if _, err := tmpl.Render(t.Context(), c); err == nil {
			t.Errorf("accepted: %+v", c)
		}
	}
}

// Variables may have any of Go's types that are numbers, texts, lists and maps. Others are refused by their type.
func TestVariablesOfAllTypes(t *testing.T) {
	type level string
	type levels []level
	var loop levels
	cycle := map[string]any{}
	cycle["a"], cycle["b"] = cycle, cycle
	tmpl := mustNew(t, "{{ x | tojson }}", Options{})
	for _, c := range []struct {
		x    any
		want string // "": it is refused
	}{
		{int8(-3), "-3"}, {uint16(3), "3"}, {uint64(math.MaxUint64), "18446744073709551615"}, {float32(0.1), "0.1"},
		{level("low"), `"low"`}, {[]string{"a", "b"}, `["a", "b"]`}, {[2]int{1, 2}, "[1, 2]"}, {levels{"x"}, `["x"]`},
		{map[string]string{"b": "1", "a": "2"}, `{"a": "2", "b": "1"}`},
		{map[level][]uint{"k": {1}}, `{"k": [1]}`}, {loop, "[]"},
		{[]map[string]any{{"a": nil}}, `[{"a": null}]`}, {time.Second, "1000000000"},
		{[]byte("x"), ""}, {struct{}{}, ""}, {new(int), ""}, {func() {}, ""}, {map[int]string{1: "a"}, ""}, {cycle, ""},
		{[]any{make(chan int)}, ""}, {complex(1, 1), ""},
	} {
		p, err := tmpl.Render(t.Context(), Conversation{Extra: map[string]any{"x": c.x}})
		if (err != nil) != (c.want == "") || err == nil && p.Text() != c.want {
			t.Errorf("%T: %v, %v, want %s", c.x, p, err, c.want)
		}
	}
}

// TestJSONDepth: values that nest too deeply are refused before a template sees them.
func TestJSONDepth(t *testing.T) {
	for depth, good := range map[int]bool{maxJSONDepth - 1: true, maxJSONDepth + 1: false, 5000: false} {
		for _, pair := range []string{"[]", `{"a":}`} {
			open, close := pair[:len(pair)-1], pair[len(pair)-1:]
			middle := "1"
			if open == "[" {
				middle = "[]" // no scalar, whose depth is checked apart
			}
			_, err := jsonValue([]byte(strings.Repeat(open, depth)+middle+strings.Repeat(close, depth)), FromMessage)
			if (err == nil) != good {
				t.Errorf("%d times %s: %v", depth, pair, err)
			}
		}
	}
}

// An integer of more than 64 bits, such as the bound of a uint64 in a schema, is written as it is, not computed with.
func TestIntegersOfMoreThan64Bits(t *testing.T) {
	const n = "18446744073709551615"
	tool := []byte(`{"type":"function","function":{"name":"f","parameters":{"maximum":-` + n + `}}}`)
	talk := Conversation{Messages: []Message{User("x")}, Tools: []json.RawMessage{tool},
		Extra: map[string]any{"n": json.RawMessage(n)}}
	for source, want := range map[string]string{
		"{{ n }} {{ [n] }} {{ n | tojson }}":                              n + " [" + n + "] " + n,
		"{{ n is integer }} {{ n is number }} {{ n is string }}":          "True True False",
		"{{ n == n }} {{ 'a' if n }}":                                     "True a",
		"{{ tools[0].function.parameters | tojson }}{{ tools | length }}": `{"maximum": -` + n + `}1`,
		"{{ n + 1 }}": "", "{{ n < 1 }}": "",
	} {
		p, err := mustNew(t, source, Options{}).Render(t.Context(), talk)
		if (err != nil) != (want == "") || err == nil && p.Text() != want {
			t.Errorf("%s: %v, %v, want %q", source, p, err, want)
		}
	}
	for digits, good := range map[int]bool{maxDigits: true, maxDigits + 1: false} {
		if _, err := jsonValue([]byte(strings.Repeat("9", digits)), FromMessage); (err == nil) != good {
			t.Errorf("%d digits: %v", digits, err)
		}
	}
}

// TestTemplatesRenderWithWhatAConversationLacks: a template that iterates over tools gets an empty list where there
// are none, FireFunction its variables, and one that prints a tool's description or parameters gets those that a tool
// leaves out or has as null. What a template does not need is not given to it.
func TestTemplatesRenderWithWhatAConversationLacks(t *testing.T) {
	const loop = "{% for t in tools %}{{ t.function.name + t.function.description }}{{ " +
		"t.function.parameters.properties | tojson }}{% endfor %}"
	const guarded = "{% if tools is none %}none{% endif %}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
	const message = "{{ messages[0].content }}"
	tool := []json.RawMessage{[]byte(`{"type":"function","function":{"name":"f"}}`)}
	null := []json.RawMessage{[]byte(`{"type":"function","function":{"name":"f","description":null,"parameters":null}}`)}
	object := []json.RawMessage{[]byte(`{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}`)}
	const defined = "{% for t in tools or [] %}{% if t.function.description is defined %}" +
		"{{ 'D' + t.function.description }}{% endif %}{{ t.function.name }}{% endfor %}"
	for _, x := range []struct {
		template string
		tools    []json.RawMessage
		want     string
	}{
		{loop + message, nil, "x"},
		{loop + message, tool, "f{}x"},
		{loop + message, null, "f{}x"},
		{loop + message, object, "f{}x"},
		{defined + message, tool, "fx"},
		{defined + message, null, "Dfx"},
		{guarded + message, nil, "nonex"},
		{guarded + message, tool, `{"type": "function", "function": {"name": "f"}}x`},
		{"{{ 'S' + functions }} {{ 'on ' + datetime }} " + message, nil, "S on Jul 26 2026 12:00:00 GMT x"},
	} {
		c := Conversation{Messages: []Message{{Role: "user", Content: "x"}}, Tools: x.tools}
		p, err := mustNew(t, x.template, Options{Clock: fixedClock}).Render(t.Context(), c)
		if err != nil || p.Text() != x.want {
			t.Errorf("%s with %d tools: %q, %v; want %q", x.template, len(x.tools), p.Text(), err, x.want)
		}
	}
}

// A conversation's own clock is what strftime_now and datetime read; without one it is that of the options.
func TestConversationHasItsOwnClock(t *testing.T) {
	const source = "{{ strftime_now('%Y-%m-%d') }} {{ datetime + functions }} {{ messages[0].content }}"
	tmpl := mustNew(t, source, Options{Clock: fixedClock})
	for _, x := range []struct {
		clock time.Time
		want  string
	}{
		{time.Time{}, "2026-07-26 Jul 26 2026 12:00:00 GMT x"},
		{time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC), "1999-12-31 Dec 31 1999 23:00:00 GMT x"},
	} {
		p, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "x"}}, Clock: x.clock})
		if err != nil || p.Text() != x.want {
			t.Errorf("%v: %q, %v; want %q", x.clock, p.Text(), err, x.want)
		}
	}
}

// JSON that ends too early, or that is followed by more, is an error that says so, whatever it is inside of; so is a Go
// value that templates do not have, also within maps and lists.
func TestValuesOfTemplatesAreWholeAndKnown(t *testing.T) {
	for _, text := range []string{"", " ", "[", "[1,", "{", `{"a"`, `{"a":`, `{"a":[`} {
		if _, err := jsonValue([]byte(text), FromMessage); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"1 2", "[] x", "{}{}", "[1 2]", `{"a" 1}`, "[nope]", `{"a":nope}`, "[[1 2]]"} {
		if v, err := jsonValue([]byte(text), FromMessage); err == nil {
			t.Errorf("%q: %v", text, v)
		}
	}
	type unknown struct{}
	for _, v := range []any{unknown{}, []any{1, unknown{}}, map[string]any{"a": unknown{}},
		map[string]any{"a": []any{unknown{}}}} {
		if _, err := value(v, FromMessage, 0); err == nil || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("%v: %v", v, err)
		}
	}
}
