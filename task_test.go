package spec

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/speculative"
)

// With IgnoreEOS no token ends an answer, in conversations and continued texts; without it the vocabulary's ends do,
// and nothing else.
func TestIgnoreEOSEndsNothing(t *testing.T) {
	m := newModel(t, Options{})
	if len(m.ends) == 0 {
		t.Fatal("a vocabulary without ends")
	}
	for _, r := range []Request{
		{Messages: []chat.Message{{Role: "user", Content: "x"}}}, {Prompts: []Prompt{{Text: "x"}}},
	} {
		for _, r.IgnoreEOS = range []bool{false, true} {
			task, err := m.Prepare(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			end := task.isEnd()
			for _, id := range m.ends {
				if end(id) == r.IgnoreEOS {
					t.Errorf("%+v: token %d ends %v", r, id, end(id))
				}
			}
			if o := task.decoderOptions(); o.EOG(m.ends[0]) == r.IgnoreEOS || end(5) {
				t.Errorf("%+v: the decoder ends otherwise, or at any token", r)
			}
		}
	}
}

// A conversation goes on with its last message where that is the assistant's only one since it was asked.
func TestWhatCannotBeContinuedIsRefused(t *testing.T) {
	m := newModel(t, Options{})
	user, said := chat.Message{Role: "user", Content: "a"}, chat.Message{Role: "assistant", Content: "b"}
	called := chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{{Name: "f", Arguments: "{}"}}}
	for _, x := range []struct {
		messages []chat.Message
		want     string
	}{
		{[]chat.Message{user, said}, ""},
		{[]chat.Message{user, said, user, said}, ""},
		{[]chat.Message{user, {Role: "assistant", Reasoning: "b"}}, "does not write the text"}, // hermes has none
		{[]chat.Message{user}, "only a text of the assistant"},
		{[]chat.Message{user, called}, "only a text of the assistant"},
		{[]chat.Message{user, said, said}, "two messages of the assistant"},
	} {
		_, err := m.Prepare(t.Context(), Request{Messages: x.messages, Continue: true})
		e, named := err.(*RequestError)
		if (err == nil) != (x.want == "") || err != nil &&
			(!named || e.Field != "messages" || !strings.Contains(e.Reason, x.want)) {
			t.Errorf("%+v: %v, want %q", x.messages, err, x.want)
		}
	}
}

// A message of a developer is the system's to templates that have no such role, also where they speak of developers.
func TestDevelopersAreTheSystem(t *testing.T) {
	const loop = "{% for m in messages %}{% if m.role in ['system', 'user'] %}[{{ m.role }}]{{ m.content }}{% endif %}" +
		"{% endfor %}"
	for source, want := range map[string]string{
		"The developer preamble." + loop:                          "The developer preamble.[system]Go[user]x",
		"<|developer_start|>" + loop:                              "<|developer_start|>[system]Go[user]x",
		strings.Replace(loop, "'user'", `"developer", 'user'`, 1): "[developer]Go[user]x",
		strings.Replace(loop, "'user'", `'developer', 'user'`, 1): "[developer]Go[user]x",
	} {
		m := newModel(t, Options{Template: source})
		r := Request{Messages: []chat.Message{{Role: "developer", Content: "Go"}, chat.User("x")}}
		p, err := m.Render(t.Context(), &r, true)
		if err != nil {
			t.Errorf("%s: %v", source, err)
		} else if p.Text() != want {
			t.Errorf("%s: %q, want %q", source, p.Text(), want)
		}
	}
}

// A template that knows enable_thinking as thinking has it under that name, unless the request gives that too.
func TestThinkingByAnotherName(t *testing.T) {
	const other = "{{ messages[0].content }}{{ thinking }}"
	const known = "{{ messages[0].content }}{{ enable_thinking }}{{ thinking }}"
	for _, c := range []struct {
		source    string
		variables map[string]any
		want      string
	}{
		{other, nil, "x"}, {other, map[string]any{"enable_thinking": true}, "xTrue"},
		{other, map[string]any{"enable_thinking": false}, "xFalse"},
		{other, map[string]any{"enable_thinking": true, "thinking": "a"}, "xa"},
		{known, map[string]any{"enable_thinking": true}, "xTrue"},
	} {
		r := Request{Messages: []chat.Message{chat.User("x")}, Variables: c.variables}
		n := len(c.variables)
		p, err := newModel(t, Options{Template: c.source}).Render(t.Context(), &r, true)
		if err != nil || p.Text() != c.want || len(c.variables) != n {
			t.Errorf("%s with %v: %v, %v, want %q", c.source, c.variables, p, err, c.want)
		}
	}
}

// A conversation with tools has the file's template for them, and its form of calls; one without has the other.
func TestTemplateForTools(t *testing.T) {
	m := newModel(t, Options{})
	source, _ := chat.Builtin("chatml")
	var err error
	const plain = "{% for m in messages %}{{ m.content }}{% endfor %}"
	if m.template, err = chat.New(plain, chat.Options{Tools: source}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		choice ToolMode
		tools  []Tool
		syntax chat.Syntax
		has    bool
	}{
		{CallAuto, nil, chat.SyntaxJSON, false}, {CallAuto, []Tool{{Name: "f"}}, chat.SyntaxHermes, true},
		{CallNone, []Tool{{Name: "f"}}, chat.SyntaxJSON, false},
	} {
		r := Request{Messages: []chat.Message{chat.User("x")}, Tools: c.tools, ToolChoice: ToolChoice{Mode: c.choice}}
		task, err := m.Prepare(t.Context(), r)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		p, err := m.Render(t.Context(), &r, true)
		if err != nil || task.format.Syntax != c.syntax || strings.Contains(p.Text(), "<tools>") != c.has {
			t.Errorf("%+v: calls are %s, %v", c, task.format.Syntax, err)
		}
	}
}

// Options that cannot mean anything are refused, and so are requests, by the field.
func TestWhatIsWrongIsNamed(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"negative": {Memory: Memory{KV: -1}}, "an empty stop text": {Stops: []string{""}},
		"drafter": {Speculation: speculative.Choice{Drafter: "x"}}, "storage of keys and values": {KV: "q3"},
	} {
		if _, err := New(p, o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := newModel(t, Options{})
	text, talk := []Prompt{{Text: "x"}}, []chat.Message{{Role: "user", Content: "x"}}
	for field, r := range map[string]Request{
		"prompt":              {},
		"prompt[1]":           {Prompts: []Prompt{{Text: "x"}, {IDs: []int32{1 << 30}}}},
		"suffix":              {Prompts: text, Infill: &Infill{}},
		"speculation.drafter": {Prompts: text, Speculation: speculative.Choice{Drafter: "mtp"}},
		"tool_choice":         {Messages: talk, ToolChoice: ToolChoice{Mode: CallRequired}},
		"logit_bias":          {Prompts: text, Sampling: samplingWith(-1)},
		"stop":                {Prompts: text, Stop: []string{""}},
		"n":                   {Prompts: text, N: math.MaxInt},
	} {
		_, err := Collect(m.Generate(t.Context(), r))
		if e, ok := err.(*RequestError); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, change := range map[string]func(*Request){
		"n": func(r *Request) { r.N = -1 }, "max_tokens": func(r *Request) { r.MaxTokens = -1 },
		"min_tokens":      func(r *Request) { r.MinTokens = -1 },
		"thinking_budget": func(r *Request) { r.Messages, r.Prompts, r.ThinkingBudget = talk, nil, -1 },
		"top_logprobs":    func(r *Request) { r.LogProbs, r.Top = true, -1 },
		"lines.indent":    func(r *Request) { r.Lines.Indent = -1 }, "lines.within": func(r *Request) { r.Lines.Within = -1 },
	} {
		r := Request{Prompts: text, MaxTokens: 1}
		change(&r)
		_, err := Collect(m.Generate(t.Context(), r))
		if e := (*RequestError)(nil); !errors.As(err, &e) || e.Field != field {
			t.Errorf("a negative %s: %v", field, err)
		}
	}
	if _, err := m.Embed(t.Context(), []string{"x"}, EmbedOptions{AtOnce: -1}); !errors.Is(err, ErrOptions) {
		t.Errorf("a negative AtOnce: %v", err)
	}
	// The answers of all prompts are counted together.
	many := slices.Repeat(text, 1<<9)
	for n, fits := range map[int]bool{1 << 7: true, 1<<7 + 1: false, 0: true} {
		task, err := m.Prepare(t.Context(), Request{Prompts: many, N: n})
		if fits && err == nil {
			task.Close()
		}
		if e := (*RequestError)(nil); fits != (err == nil) || !fits && (!errors.As(err, &e) || e.Field != "n" ||
			!strings.Contains(e.Reason, "512 of them (prompt)")) {
			t.Errorf("%d answers of each of %d prompts: %v", n, len(many), err)
		}
	}
}

// What a request says and its answer would not follow is refused by the field that says it.
func TestWhatNothingFollowsIsRefused(t *testing.T) {
	m := newModel(t, Options{})
	text, talk := []Prompt{{Text: "x"}}, []chat.Message{chat.User("x")}
	tools := []Tool{{Name: "f"}}
	for _, c := range []struct {
		field string
		r     Request
	}{
		{"messages", Request{Prompts: text, Continue: true}},
		{"tools", Request{Prompts: text, Tools: tools}},
		{"", Request{Prompts: text, Tools: tools, ToolChoice: ToolChoice{Mode: CallNone}}},
		{"thinking_budget", Request{Prompts: text, ThinkingBudget: 1}},
		{"tool_choice", Request{Messages: talk, Tools: tools, ToolChoice: ToolChoice{Mode: "any"}}},
		{"tool_choice", Request{Messages: talk, Tools: tools, ToolChoice: ToolChoice{Name: "f"}}},
		{"", Request{Messages: talk, Tools: tools, ToolChoice: ToolChoice{Mode: CallRequired, Name: "f"}}},
		{"constraint", Request{Prompts: text, Constraint: Constraint{Source: []byte("{}")}}},
		{"", Request{Prompts: text, Constraint: Constraint{AnyOrder: true, Field: "format"}}},
		{"when_full", Request{Prompts: text, WhenFull: "x"}},
		{"sampling", Request{Prompts: text, Sampling: engine.Sampling{TopP: 2}}},
		{"sampling", Request{Prompts: text, Sampling: engine.Sampling{Temperature: float32(math.NaN())}}},
		{"sampling", Request{Prompts: text, Sampling: engine.Sampling{Unpenalized: []int32{-1}}}},
	} {
		task, err := m.Prepare(t.Context(), c.r)
		if err == nil {
			task.Close()
		}
		if e := (*RequestError)(nil); (err == nil) != (c.field == "") || err != nil &&
			(!errors.As(err, &e) || e.Field != c.field) {
			t.Errorf("%+v: %v, want %q", c.r, err, c.field)
		}
	}
	_, err := m.Prepare(t.Context(), Request{Prompts: text, Sampling: engine.Sampling{TopP: 2}})
	if !errors.Is(err, engine.ErrSampling) {
		t.Errorf("out of range: %v", err)
	}
	gap := &Task{m: m, r: Request{Infill: &Infill{}, WhenFull: "x"}}
	if err := gap.makeRoom(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "when_full: ") {
		t.Errorf("around a gap: %v", err)
	}
	refuses := newModel(t, Options{Template: "{{ raise_exception('no') }}"})
	if _, err := refuses.Prepare(t.Context(), Request{Messages: talk}); !errors.Is(err, chat.ErrRefused) {
		t.Errorf("a template that refuses: %v", err)
	}
}

// More alternatives than there are tokens are all of them.
func TestAlternativesAreTokens(t *testing.T) {
	m := newModel(t, Options{})
	all := m.Target().Config().Vocab
	for _, chosen := range []bool{false, true} {
		r := Request{LogProbs: true, Top: math.MaxInt, Chosen: chosen, MaxTokens: 1}
		for e, err := range m.Complete(t.Context(), "func", r) {
			if err != nil {
				t.Fatal(err)
			}
			if n := len(e.Token.Top); e.Token.ID >= 0 && (n > all || !chosen && n < all) {
				t.Errorf("chosen %v: %d alternatives", chosen, n)
			}
		}
	}
}

// samplingWith bans a token.
func samplingWith(banned int32) engine.Sampling { return engine.Sampling{Banned: []int32{banned}} }

// A prompt must leave room for a token of the answer: one that fills the context is refused, one that is a token
// shorter is answered until the context is full. A text to embed may fill the context.
func TestPromptThatFillsTheContext(t *testing.T) {
	const context = 24
	m := newModel(t, Options{Context: context})
	for n := context - 1; n <= context; n++ {
		ids := slices.Repeat([]int32{5}, n)
		list, err := Collect(m.Generate(t.Context(), Request{Prompts: []Prompt{{IDs: ids}}, IgnoreEOS: true}))
		e := (*RequestError)(nil)
		switch {
		case n < context && (err != nil || list[0].Stats.Generated != 2 || list[0].Finish != FinishLength):
			t.Errorf("%d tokens: %v %+v", n, err, list)
		case n == context && (!errors.As(err, &e) || e.Code != CodeContext || e.Tokens != n || e.Context != context):
			t.Errorf("%d tokens: %v", n, err)
		}
		if _, err := m.EmbedIDs(t.Context(), [][]int32{ids}, EmbedOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// The stop texts of a model's template end the answers of conversations, and of nothing else.
func TestStopsOfTheTemplate(t *testing.T) {
	talk := Request{Messages: []chat.Message{{Role: "user", Content: "func main"}}, MaxTokens: 30}
	m := newModel(t, Options{})
	list, err := Collect(m.Generate(t.Context(), talk))
	if err != nil {
		t.Fatal(err)
	}
	plain := list[0].Text
	half := plain[len(plain)/2 : len(plain)/2+3]
	m = newModel(t, Options{Stops: []string{"never this", half}})
	if list, err = Collect(m.Generate(t.Context(), talk)); err != nil ||
		list[0].Text != plain[:strings.Index(plain, half)] {
		t.Errorf("%v: %+v, without a stop %q", err, list, plain)
	}
	prompt, err := m.Render(t.Context(), &talk, true)
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Prompts: []Prompt{{Text: prompt.Text()}}, MaxTokens: 30}
	if list, err = Collect(m.Generate(t.Context(), r)); err != nil || !strings.Contains(list[0].Text, half) {
		t.Errorf("a continued text ends at the template's stop text: %v %+v", err, list)
	}
}

// A grammar that was compiled for one request serves another only if reasoning, the tools and the kind of the source
// are the same, and then it does.
func TestGrammarsServeEqualRequests(t *testing.T) {
	m := newModel(t, Options{Template: hermes + `{% if add_generation_prompt and enable_thinking %}<think>
{% endif %}{# </think> #}`})
	talk := []chat.Message{{Role: "user", Content: "x"}}
	think := map[string]any{"enable_thinking": true}
	tools := []Tool{{Name: "f", Parameters: []byte(`{"type":"object"}`)}}
	for name, r := range map[string]Request{
		"schema":       {Messages: talk, Constraint: Schema([]byte(`{"const":1}`))},
		"reasoning":    {Messages: talk, Constraint: Schema([]byte(`{"const":1}`)), Variables: think},
		"prompt":       {Prompts: []Prompt{{Text: "x"}}, Constraint: Schema([]byte(`{"const":1}`))},
		"JSON":         {Messages: talk, Constraint: Constraint{Kind: AnyJSON}},
		"GBNF":         {Messages: talk, Constraint: Constraint{Kind: GBNF, Source: []byte(`root ::= "1"`)}},
		"a call":       {Messages: talk, Tools: tools, ToolChoice: ToolChoice{Mode: CallRequired}},
		"one call":     {Messages: talk, Tools: tools, ToolChoice: ToolChoice{Mode: CallRequired}, OneCall: true},
		"call or text": {Messages: talk, Tools: tools, OneCall: true},
	} {
		for again := range 2 {
			task, err := m.Prepare(t.Context(), r)
			if err != nil {
				t.Fatal(name, err)
			}
			if task.Compiled(t.Context()) != (again == 1) {
				t.Errorf("%s, time %d: has it a grammar? %v", name, again, again == 0)
			}
			if err := task.Compile(t.Context()); err != nil || task.Sampling(0).Constraint == nil {
				t.Errorf("%s: %v", name, err)
			}
			task.Close()
		}
	}
	if n := m.Stats().GrammarTexts; n != 0 {
		t.Errorf("%d texts hold a grammar", n)
	}
}

// A task whose grammar is not compiled, or was given back, writes nothing: its answers would follow no grammar.
func TestTaskThatIsNotCompiled(t *testing.T) {
	m := newModel(t, Options{})
	r := Request{Prompts: []Prompt{{Text: "x"}}, Constraint: Schema([]byte(`{"const":1}`)), MaxTokens: 20}
	task, err := m.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, compiled := range []bool{false, true, false} {
		if compiled {
			err = task.Compile(t.Context())
		}
		list, failed := Collect(task.Generate(t.Context(), Run{}))
		if err != nil || errors.Is(failed, engine.ErrUsage) == compiled ||
			compiled && strings.TrimSpace(list[0].Text) != "1" {
			t.Errorf("compiled %v: %v, %v, %+v", compiled, err, failed, list)
		}
		task.Close()
	}
}

// A mark that is a control token stands behind the text in front of it, also where that was held back since a stop
// text may begin with it.
func TestMarksBehindHeldText(t *testing.T) {
	m := newModel(t, Options{})
	task, err := m.Prepare(t.Context(), Request{Messages: []chat.Message{chat.User("x")}})
	if err != nil {
		t.Fatal(err)
	}
	mark := m.tok.EOS()
	if !m.tok.IsControl(mark) {
		t.Fatal("the token that ends texts is no control token")
	}
	task.format = &chat.Format{ThinkStart: "<think>", ThinkEnd: m.tok.Token(mark)}
	task.reasoning = true
	for name, tokens := range map[string][]speculative.Token{
		"nothing":       {{ID: 70, Text: "use `x`"}, {ID: mark}, {ID: 71, Text: "\n\nyes"}},
		"a character":   {{ID: 70, Text: "use `x", Held: 1}, {ID: mark, Held: 1}, {ID: 71, Text: "`\n\nyes"}},
		"up to the end": {{ID: 70, Text: "use", Held: 4}, {ID: mark, Held: 4}, {ID: -1, Text: " `x`yes"}},
		"with the next text": {{ID: 70, Text: "use `x", Held: 1}, {ID: mark, Held: 1}, {ID: 71, Held: 1},
			{ID: 72, Text: "`yes"}},
	} {
		read, got := task.newReader(0, func() (s speculative.Stats) { return }), Result{}
		for _, token := range tokens {
			e, _ := read.token(token)
			got.Add(&e)
		}
		e := read.end(nil, false)
		if got.Add(&e); got.Reasoning != "use `x`" || got.Text != "yes" {
			t.Errorf("%s is held back: reasoning %q, content %q", name, got.Reasoning, got.Text)
		}
	}
}

// Where a call is required, what the limit of tokens leaves of its mark is no content; where it is the model's choice,
// less than half a mark is.
func TestCutMarks(t *testing.T) {
	m := newModel(t, Options{Template: hermes})
	r := Request{Messages: []chat.Message{chat.User("x")}, Tools: []Tool{{Name: "f"}}}
	for mode, want := range map[ToolMode]string{CallRequired: "", CallAuto: "<to"} {
		r.ToolChoice = ToolChoice{Mode: mode}
		task, err := m.Prepare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		read := task.newReader(0, func() (s speculative.Stats) { return })
		if e, _ := read.token(speculative.Token{ID: 5, Text: "<to"}); e.Text != "" {
			t.Errorf("mode %v: %q is content before the next token", mode, e.Text)
		}
		if e := read.end(nil, false); e.Text != want || len(e.Calls) > 0 {
			t.Errorf("mode %v: %+v, want %q", mode, e, want)
		}
		task.Close()
	}
}

// An answer that goes on with a message is text from its first token on, also where one that begins would reason. What
// constrains a whole answer excludes it, and names itself.
func TestContinue(t *testing.T) {
	thinking := hermes + "{% if false %}<think>{{ m.reasoning_content }}</think>{% endif %}"
	m := newModel(t, Options{Template: thinking})
	r := Request{Messages: []chat.Message{chat.User("x"), {Role: "assistant", Content: "func main"}}}
	for _, r.Continue = range []bool{true, false} {
		task, err := m.Prepare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		read := task.newReader(0, func() (s speculative.Stats) { return })
		e, _ := read.token(speculative.Token{ID: 5, Text: " <think> y"})
		if want := map[bool]string{true: " <think> y", false: ""}[r.Continue]; e.Text != want {
			t.Errorf("continued %v: %+v", r.Continue, e)
		}
	}
	r.Continue = true
	thought := Request{Messages: []chat.Message{chat.User("x"), {Role: "assistant", Reasoning: "so"}}, Continue: true}
	task, err := m.Prepare(t.Context(), thought)
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := m.Render(t.Context(), &thought, true)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(prompt.Text(), "<|im_start|>assistant\n<think>\nso") {
		t.Errorf("%q", prompt.Text())
	}
	read, got := task.newReader(0, func() (s speculative.Stats) { return }), Result{}
	e, _ := read.token(speculative.Token{ID: 5, Text: " it is</think>\n\nyes"})
	if got.Add(&e); got.Reasoning != " it is" || got.Text != "yes" {
		t.Errorf("reasoning goes on with %q, and the answer is %q", got.Reasoning, got.Text)
	}
	tools := []Tool{{Name: "f", Strict: true}}
	for field, change := range map[string]func(*Request){
		"constraint": func(r *Request) { r.Constraint = Constraint{Kind: AnyJSON} },
		"json_schema": func(r *Request) {
			r.Constraint = Constraint{Kind: JSONSchema, Source: []byte("{}"), Field: "json_schema"}
		},
		"tools": func(r *Request) { r.Tools = tools },
	} {
		r := r
		change(&r)
		_, err := m.Prepare(t.Context(), r)
		if e := (*RequestError)(nil); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What a grammar or a regular expression of the caller's own writes may be read as a call that nothing checks: strict
// tools, and calls that may not be several, exclude it, and any JSON too where calls need no mark.
func TestOwnGrammarBesideCheckedCalls(t *testing.T) {
	strict, free := []Tool{{Name: "f", Strict: true}}, []Tool{{Name: "f"}}
	bare := strings.Replace(hermes, "<tool_call>", "", 1) // in plain JSON
	bare = strings.Replace(bare, "</tool_call>", "", 1)
	marked, unmarked := newModel(t, Options{}), newModel(t, Options{Template: bare})
	for _, c := range []struct {
		m      *Model
		kind   ConstraintKind
		source string
		tools  []Tool
		one    bool
		want   bool
	}{
		{marked, GBNF, `root ::= .*`, strict, false, false}, {marked, Regex, `a`, strict, false, false},
		{marked, GBNF, `root ::= .*`, free, true, false}, {marked, GBNF, `root ::= .*`, free, false, true},
		{marked, GBNF, `root ::= .*`, nil, true, true}, {marked, AnyJSON, "", strict, false, true},
		{marked, JSONSchema, `{"const":1}`, strict, false, true}, {marked, Without, `["a"]`, strict, false, true},
		{unmarked, AnyJSON, "", strict, false, false}, {unmarked, AnyJSON, "", free, false, true},
		{unmarked, JSONSchema, `{"const":1}`, strict, false, true},
	} {
		r := Request{Messages: []chat.Message{chat.User("x")}, Tools: c.tools, OneCall: c.one,
			Constraint: Constraint{Kind: c.kind, Source: []byte(c.source), Field: "grammar"}}
		task, err := c.m.Prepare(t.Context(), r)
		if err == nil {
			task.Close()
		}
		if e := (*RequestError)(nil); (err == nil) != c.want || !c.want && (!errors.As(err, &e) || e.Field != "grammar") {
			t.Errorf("%s, %+v, one call %v: %v", c.kind, c.tools, c.one, err)
		}
	}
}

// Beside strict tools a schema's value that begins as no call does is content, also where it names a tool; a schema
// whose values may begin as a call is refused.
func TestSchemaBesideStrictTools(t *testing.T) {
	m := newModel(t, Options{Template: strings.NewReplacer("<tool_call>", "", "</tool_call>", "").Replace(hermes)})
	const text = `{"type":"string"}`
	r := Request{Messages: []chat.Message{chat.User("x")}, Tools: []Tool{{Name: "f", Strict: true}}}
	for members, want := range map[string]bool{`"name":` + text + `,"age":` + text: true,
		`"arguments":{},"name":` + text:      true,
		`"name":` + text + `,"arguments":{}`: false} {
		r.Constraint = Schema([]byte(`{"type":"object","properties":{` + members + `},"additionalProperties":false}`))
		task, err := m.Prepare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		err = task.Compile(t.Context())
		if e := (*RequestError)(nil); (err == nil) != want || !want && (!errors.As(err, &e) || e.Field != "constraint") {
			t.Errorf("%s: %v", members, err)
		}
		read, got := task.newReader(0, func() (s speculative.Stats) { return }), Result{}
		for _, piece := range []string{`{"name": "f", `, `"age": "3"}`} {
			e, _ := read.token(speculative.Token{ID: 5, Text: piece})
			got.Add(&e)
		}
		e := read.end(nil, false)
		if got.Add(&e); got.Text != `{"name": "f", "age": "3"}` || len(got.Calls) > 0 {
			t.Errorf("%s: %+v", members, got)
		}
		task.Close()
	}
}

// Breakers of a request are tokens of DRY once it is compiled, the usual ones and others.
func TestBreakersOfARequest(t *testing.T) {
	m := newModel(t, Options{})
	for _, texts := range [][]string{DefaultBreakers(), {"ab"}, {}} {
		r := Request{Prompts: []Prompt{{Text: "x"}}, Breakers: texts,
			Sampling: engine.Sampling{DRY: sampling.DRY{Multiplier: 1, Breakers: [][]int32{{1}}}}}
		task, err := m.Prepare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got := task.Compiled(t.Context()); got != (len(texts) == 0) {
			t.Errorf("%q: compiled is %v", texts, got)
		}
		if err := task.Compile(t.Context()); err != nil || !task.Compiled(t.Context()) {
			t.Errorf("%q: %v", texts, err)
		}
		want := append([][]int32{{1}}, Breakers(m.tok, texts)...)
		if got := task.Sampling(0).DRY.Breakers; !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%q: %d breakers, expected %d", texts, len(got), len(want))
		}
	}
}

// A constraint of any kind is one of the content: reasoning before it is free.
func TestConstraintsLeaveReasoningFree(t *testing.T) {
	m := newModel(t, Options{Template: hermes + `{% if add_generation_prompt %}<think>
{% endif %}{# </think> #}`})
	for kind, source := range map[ConstraintKind]string{GBNF: `root ::= "1"`, JSONSchema: `{"const":1}`, AnyJSON: ""} {
		r := Request{Messages: []chat.Message{chat.User("x")}, MaxTokens: 3, IgnoreEOS: true,
			Constraint: Constraint{Kind: kind, Source: []byte(source)}}
		list, err := Collect(m.Generate(t.Context(), r))
		r.Constraint = Constraint{}
		free, err2 := Collect(m.Generate(t.Context(), r))
		if err := errors.Join(err, err2); err != nil || list[0].Reasoning == "" ||
			list[0].Reasoning != free[0].Reasoning {
			t.Errorf("%s: %v %+v, without it %+v", kind, err, list, free)
		}
	}
}

// Where ends of texts are ignored they are never chosen, beside what the caller has banned.
func TestIgnoredEndsAreBanned(t *testing.T) {
	m := newModel(t, Options{})
	r := Request{Prompts: []Prompt{{Text: "x"}}, IgnoreEOS: true, Sampling: engine.Sampling{Banned: []int32{5}}}
	task, err := m.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	got := task.Sampling(0).Banned
	if want := append([]int32{5}, m.ends...); len(want) < 2 || !slices.Equal(got, want) || task.isEnd()(m.ends[0]) {
		t.Errorf("banned: %v, want %v", got, want)
	}
}

// Ends of the request's own end an answer also where those of the vocabulary are ignored. They, and marks of the
// conversation's format, wait for MinTokens.
func TestEndsOfTheRequest(t *testing.T) {
	m := newModel(t, Options{})
	for _, ignore := range []bool{false, true} {
		task, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{{Text: "x"}}, IgnoreEOS: ignore, Ends: []int32{5},
			MinTokens: 3})
		if err != nil {
			t.Fatal(err)
		}
		if end := task.isEnd(); !end(5) || end(6) || end(m.ends[0]) == ignore {
			t.Errorf("IgnoreEOS %v: 5 ends %v, 6 %v, %d %v", ignore, end(5), end(6), m.ends[0], end(m.ends[0]))
		}
		if got := task.Sampling(0).Ends; !slices.Equal(got, append(slices.Clone(m.ends), 5)) {
			t.Errorf("ends that wait: %v", got)
		}
	}
	task := &Task{m: m, format: &chat.Format{Syntax: chat.SyntaxHarmony}}
	for id := range int32(m.tok.Size()) {
		if want := slices.Contains(task.format.EndMarks(), m.tok.Token(id)); slices.Contains(task.moreEnds(), id) != want {
			t.Errorf("%q is a mark: %v", m.tok.Token(id), want)
		}
	}
}

// Several draft models propose together; only where texts take turns.
func TestSeveralDraftModels(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	p.Drafts = []*engine.Model{p.Draft}
	if _, err := New(p, Options{}); !errors.Is(err, ErrOptions) {
		t.Errorf("with shared passes: %v", err)
	}
	m, err := New(p, Options{Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := Request{Prompts: []Prompt{{Text: "func main() {\n"}}, MaxTokens: 12,
		Speculation: speculative.Choice{Drafter: "model", Schedule: "constant"}}
	two, err := Collect(m.Generate(t.Context(), r))
	if err != nil {
		t.Fatal(err)
	}
	one, err := Collect(newModel(t, Options{Parallel: 1}).Generate(t.Context(), r))
	if err != nil || one[0].Text != two[0].Text || two[0].Stats.DraftPasses != 2*one[0].Stats.DraftPasses {
		t.Errorf("%v: %d passes of one draft model, %d of two, texts %q and %q", err, one[0].Stats.DraftPasses,
			two[0].Stats.DraftPasses, one[0].Text, two[0].Text)
	}
}

// Reasoning ends within its budget, where the prompt has begun it and where the model does, the same with drafts and
// without; one that is never reached changes nothing, and what constrains the answer excludes it.
func TestThinkingBudget(t *testing.T) {
	const marks = "{% if false %}<think></think>{% endif %}"
	talk := []chat.Message{chat.User("func main")}
	for _, begun := range []string{"", "{{ '<think>\n' }}"} {
		m := newModel(t, Options{Template: hermes + begun + marks})
		ask := func(budget int, drafter string) Result {
			list, err := Collect(m.Generate(t.Context(), Request{Messages: talk, MaxTokens: 60, ThinkingBudget: budget,
				Speculation: speculative.Choice{Drafter: drafter}}))
			if err != nil {
				t.Fatal(err)
			}
			return list[0]
		}
		plain := ask(0, "none")
		if big := ask(5000, "model"); big.Text != plain.Text || big.Reasoning != plain.Reasoning {
			t.Errorf("%q: a budget that is not reached: %+v, without one %+v", begun, big, plain)
		}
		got := ask(9, "none")
		if drafts := ask(9, "model"); drafts.Text != got.Text || drafts.Reasoning != got.Reasoning {
			t.Errorf("%q: with drafts %+v, without %+v", begun, drafts, got)
		}
		if begun == "" {
			continue // the model does not reason by itself
		}
		if plain.Text != "" || got.Text == "" || got.Reasoning == "" || !strings.HasPrefix(plain.Reasoning, got.Reasoning) {
			t.Errorf("a budget of 9: %+v, without one %+v", got, plain)
		}
		if n := len(m.tok.Encode(got.Reasoning, bpe.EncodeOptions{})); n > 9 {
			t.Errorf("%d tokens of reasoning", n)
		}
		r := Request{Messages: talk, ThinkingBudget: 9, Constraint: Constraint{Kind: AnyJSON, Field: "response_format"}}
		if _, err := m.Prepare(t.Context(), r); err == nil ||
			!strings.Contains(err.Error(), "thinking_budget: it and response_format") {
			t.Error(err)
		}
		r = Request{Messages: talk, MaxTokens: 60, ThinkingBudget: 9}
		r.Sampling.Banned = m.tok.Encode("</think>", bpe.EncodeOptions{ParseSpecial: true, NoSpacePrefix: true})[:1]
		if _, err := Collect(m.Generate(t.Context(), r)); err == nil ||
			!strings.Contains(err.Error(), "logit_bias: it bans what thinking_budget needs") {
			t.Error(err)
		}
	}
	f := chat.DetectFormat(hermes + marks)
	m := newModel(t, Options{})
	b := newBudget(2, f, m.tok, m.parts.Target.Config().Vocab, false)
	begun := newBudget(2, f, m.tok, m.parts.Target.Config().Vocab, true)
	for n, want := range []thinkPhase{thinkInside, thinkInside, thinkClosing} {
		state := begun.Start()
		for range n {
			state, _, _ = begun.Next(state, 70)
		}
		if got := begun.at(state).phase; got != want || begun.Final(state) == (want == thinkClosing) {
			t.Errorf("after %d tokens of 2: phase %d, expected %d", n, got, want)
		}
	}
	tok, err := bpe.New(bpe.Config{Model: "gpt2", Tokens: []string{"a", "<", "/"}, BOS: -1, EOS: -1, UNK: -1, SEP: -1})
	if err != nil || newBudget(2, f, tok, tok.Size(), true).writes() || !b.writes() {
		t.Errorf("a vocabulary without the mark's letters has the mark, or the other has not: %v", err)
	}
	most := newBudget(math.MaxInt, f, m.tok, m.parts.Target.Config().Vocab, true)
	state, _, _ := most.Next(most.Start(), 70)
	if got := most.at(state).phase; got != thinkInside {
		t.Errorf("a budget of any number of tokens: phase %d after one", got)
	}
	for text, want := range map[string]thinkPhase{
		"x": thinkOver, " \n": thinkBefore, "<th": thinkBefore, "<think>": thinkInside, "<think></think>": thinkOver,
		"<thin>": thinkOver, "": thinkBefore,
	} {
		state := b.Start()
		for _, c := range []byte(text) {
			if b.most = 100; c > 0 {
				state, _, _ = b.Next(state, m.tok.Encode(string(c), bpe.EncodeOptions{NoSpacePrefix: true})[0])
			}
		}
		if got := b.at(state).phase; got != want {
			t.Errorf("%q: phase %d, expected %d", text, got, want)
		}
	}
}

// Of an earlier answer as much is kept as an answer can be long, whatever its tokens are; drafts along it may be as
// long as the least length that is asked for.
func TestEarlierAnswersAreBounded(t *testing.T) {
	m := newModel(t, Options{Context: 64})
	long := make([]int32, 1000)
	for i := range long {
		long[i] = int32(5 + i%50)
	}
	r := Request{Prompts: []Prompt{{Text: "x"}}, Previous: Prompt{IDs: long}, Speculation: speculative.Choice{Min: 70}}
	task, err := m.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(task.previous, long[:64]) || task.decoderOptions().DraftMax != 70 {
		t.Errorf("%d tokens, drafts of %d", len(task.previous), task.decoderOptions().DraftMax)
	}
	long[999] = 1 << 20
	if _, err := m.Prepare(t.Context(), r); err == nil || err.(*RequestError).Field != "previous" {
		t.Errorf("a token that there is not: %v", err)
	}
}
