package chat

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

const fallbackTemplate = `{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}`

// TestToolFallback: a template without tools offers them in the system message when it is told to, and calls and their
// results in a conversation are texts.
func TestToolFallback(t *testing.T) {
	tools := []json.RawMessage{[]byte(`{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}`)}
	for _, source := range []string{fallbackTemplate, fallbackTemplate + `{% for t in tools or [] %}{{ t }}{% endfor %}`} {
		plain, err := New(source, Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := ErrNoTools
		if strings.Contains(source, "tools") {
			want = ErrUnknownSyntax
		}
		if !errors.Is(plain.ToolsError(), want) || plain.Tools() {
			t.Errorf("%v, want %v", plain.ToolsError(), want)
		}
		tmpl, err := New(source, Options{ToolFallback: true})
		if err != nil {
			t.Fatal(err)
		}
		if !tmpl.Tools() || tmpl.Format().Syntax != SyntaxJSON {
			t.Error("no fallback")
		}
		p, err := tmpl.Render(t.Context(), Conversation{Tools: tools, AddGenerationPrompt: true, Messages: []Message{
			{Role: "system", Content: "Be kind."}, {Role: "user", Content: "Hi."},
			{Role: "assistant", ToolCalls: []ToolCall{{"1", "f", `{"a":1}`}, {"2", "g", ""}}},
			{Role: "tool", ToolCallID: "1", Content: "one"}, {Role: "tool", Name: "h", Content: "two"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		text := p.Text()
		for _, part := range []string{
			"[system]Be kind.\n\n" + announcement + `{"name":"f","parameters":{"type":"object"}}` + "\n" + howToCall +
				"[user]Hi.",
			`[assistant][{"name": "f", "arguments": {"a":1}}, {"name": "g", "arguments": {}}]`,
			"[user]Result of f: one\nResult of h: two[assistant]",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("%q lacks %q", text, part)
			}
		}
	}
}

// A conversation may begin with the result of a call, as one whose beginning was dropped.
func TestToolFallbackBeginsWithAResult(t *testing.T) {
	tmpl, err := New(fallbackTemplate, Options{ToolFallback: true})
	if err != nil {
		t.Fatal(err)
	}
	tools := []json.RawMessage{[]byte(`{"type":"function","function":{"name":"f"}}`)}
	for _, tools := range [][]json.RawMessage{nil, tools} {
		p, err := tmpl.Render(t.Context(), Conversation{Tools: tools, Messages: []Message{
			{Role: "tool", Name: "f", Content: "one"}, {Role: "tool", Name: "g", Content: "two"}}})
		if err != nil {
			t.Fatal(err)
		}
		if want := "[user]Result of f: one\nResult of g: two"; !strings.HasSuffix(p.Text(), want) {
			t.Errorf("%q, want %q at its end", p.Text(), want)
		}
	}
}

// Results without ids and names are those of the calls in their order.
func TestToolFallbackNamesCallsWithoutIDs(t *testing.T) {
	tmpl := mustNew(t, fallbackTemplate, Options{ToolFallback: true})
	calls := Message{Role: "assistant", ToolCalls: []ToolCall{{Name: "f"}, {Name: "g"}}}
	result := func(text string) Message { return Message{Role: "tool", Content: text} }
	p, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{User("a"), calls, result("1"), result("2"),
		Assistant("b"), {Role: "assistant", ToolCalls: calls.ToolCalls[1:]}, result("3")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"Result of f: 1\nResult of g: 2[", "Result of g: 3"} {
		if !strings.Contains(p.Text(), part) {
			t.Errorf("%q lacks %q", p.Text(), part)
		}
	}
}

// Several system messages in front of the announcement stay in their order.
func TestToolFallbackKeepsTheOrderOfSystemMessages(t *testing.T) {
	tmpl := mustNew(t, fallbackTemplate, Options{ToolFallback: true})
	p, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{System("One."), System("Two."), User("a"),
		System("Three.")}, Tools: []json.RawMessage{[]byte(`{"type":"function","function":{"name":"f"}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(p.Text(), "[system]One.\n\nTwo.\n\n"+announcement) ||
		!strings.HasSuffix(p.Text(), howToCall+"[user]a[system]Three.") {
		t.Errorf("%q", p.Text())
	}
}

// Many results of calls, and many system messages, take memory that grows with their number, not with its square.
func TestToolFallbackOfManyMessages(t *testing.T) {
	tmpl := mustNew(t, fallbackTemplate, Options{ToolFallback: true})
	tools := []json.RawMessage{[]byte(`{"type":"function","function":{"name":"f"}}`)}
	for _, m := range []Message{{Role: "tool", ToolCallID: "x", Content: "a"}, System("a")} {
		wantLinear(t, m.Role, func(n int) {
			c := Conversation{Messages: slices.Repeat([]Message{m}, n), Tools: tools}
			if _, err := tmpl.announced(c); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Calls are plain JSON under a fallback, whatever form the model's own have, and its reasoning is read as before.
func TestToolFallbackChangesCallsAlone(t *testing.T) {
	own := Format{Syntax: SyntaxQwenXML, ThinkStart: "<think>", ThinkEnd: "</think>", Bare: true, Open: "[", Unknown: true}
	given := own
	tmpl, err := New(fallbackTemplate, Options{ToolFallback: true, Format: &given})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Format{Syntax: SyntaxJSON, ThinkStart: "<think>", ThinkEnd: "</think>"}); *tmpl.Format() != want {
		t.Errorf("%+v, want %+v", *tmpl.Format(), want)
	}
	if given != own {
		t.Errorf("the caller's format became %+v", given)
	}
}

// A tool that is no object is an error, not one that the model is not told of.
func TestToolFallbackRefusesWhatIsNoTool(t *testing.T) {
	tmpl, err := New(fallbackTemplate, Options{ToolFallback: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{`5`, `{"function":`, ``} {
		p, err := tmpl.Render(t.Context(), Conversation{Tools: []json.RawMessage{json.RawMessage(tool)},
			Messages: []Message{{Role: "user", Content: "Hi."}}})
		if err == nil {
			t.Errorf("%q: %q", tool, p.Text())
		}
	}
}

// A file's other template is for conversations with tools alone. Where it cannot be executed, tools are refused, or
// announced by the fallback, and conversations without them are rendered.
func TestTemplateForTools(t *testing.T) {
	const plain = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
	other, _ := Builtin("chatml")
	talk := Conversation{Messages: []Message{User("x")}}
	with := talk
	with.Tools = []json.RawMessage{[]byte(`{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}`)}
	tmpl := mustNew(t, plain, Options{Tools: other})
	if !tmpl.Tools() || tmpl.For(false) != tmpl || tmpl.For(true).Source() != other ||
		tmpl.For(true).Format().Syntax != SyntaxHermes || tmpl.Format().Syntax == SyntaxHermes {
		t.Errorf("%v, %+v, with tools %+v", tmpl.ToolsError(), tmpl.Format(), tmpl.For(true).Format())
	}
	broken := mustNew(t, plain, Options{Tools: "{% if %}"})
	if err := broken.ToolsError(); !errors.Is(err, ErrSyntax) || broken.Tools() {
		t.Errorf("a template that is malformed: %v", err)
	}
	fallback := mustNew(t, plain, Options{Tools: "{% if %}", ToolFallback: true})
	for _, c := range []struct {
		tmpl *Template
		talk Conversation
		want string
	}{
		{tmpl, talk, "[user]x"}, {broken, talk, "[user]x"}, {fallback, talk, "[user]x"}, {tmpl, with, "<tools>\n"},
		{fallback, with, announcement},
	} {
		if p, err := c.tmpl.Render(t.Context(), c.talk); err != nil || !strings.Contains(p.Text(), c.want) {
			t.Errorf("%+v: %v, %v, want %q", c.talk, p, err, c.want)
		}
	}
	if alone := mustNew(t, plain, Options{}); alone.For(true) != alone {
		t.Error("a template alone has another one")
	}
}
