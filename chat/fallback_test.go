package chat

import (
	"encoding/json"
	"errors"
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
			"[system]Be kind.\n\n" + announcement + `{"name":"f","parameters":{"type":"object"}}` + "\n" + howToCall + "[user]Hi.",
			`[assistant][{"name": "f", "arguments": {"a":1}}, {"name": "g", "arguments": {}}]`,
			"[user]Result of f: one\nResult of h: two[assistant]",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("%q lacks %q", text, part)
			}
		}
	}
}
