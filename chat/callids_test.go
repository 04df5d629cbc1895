package chat

import (
	"regexp"
	"slices"
	"testing"
)

// Mistral's template takes ids of nine characters alone. Other ids, and missing ones, become such, the same in a call
// and in its result.
func TestCallsHaveIDsThatTheTemplateTakes(t *testing.T) {
	tmpl := mustNew(t, templateSource(t, "Mistral-Small-3.2-24B-Instruct-2506"), Options{Clock: fixedClock})
	in, out := regexp.MustCompile(`\[CALL_ID\]([0-9A-Za-z]{9})\[ARGS\]`),
		regexp.MustCompile(`\[TOOL_RESULTS\]([0-9A-Za-z]{9})\[TOOL_CONTENT\]`)
	ids := func(re *regexp.Regexp, text string) (list []string) {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			list = append(list, m[1])
		}
		return list
	}
	for _, given := range [][3]string{
		{"call_0123456789abcdef", "call_0123456789abcdeg", "call_1"}, {"", "", ""}, {"call00001", "call00002", "call00003"},
	} {
		call := func(id string) ToolCall { return ToolCall{ID: id, Name: "f", Arguments: "{}"} }
		result := func(id string) Message { return Message{Role: "tool", ToolCallID: id, Content: "r"} }
		messages := []Message{User("a"), {Role: "assistant", ToolCalls: []ToolCall{call(given[0]), call(given[1])}},
			result(given[0]), result(given[1]), {Role: "assistant", ToolCalls: []ToolCall{call(given[2])}}, result(given[2])}
		p, err := tmpl.Render(t.Context(), Conversation{Messages: messages, AddGenerationPrompt: true})
		if err != nil {
			t.Errorf("%q: %v", given, err)
			continue
		}
		calls, results := ids(in, p.Text()), ids(out, p.Text())
		if len(calls) != 3 || !slices.Equal(calls, results) || calls[0] == calls[1] || calls[0] == calls[2] ||
			calls[1] == calls[2] {
			t.Errorf("%q: calls %q, results %q", given, calls, results)
		}
		if given[0] == "call00001" && calls[0] != given[0] {
			t.Errorf("an id of nine characters became %q", calls[0])
		}
		if messages[1].ToolCalls[0].ID != given[0] || messages[2].ToolCallID != given[0] {
			t.Errorf("the caller's messages were changed: %+v", messages)
		}
	}
	// A template that takes no call without an id has one; those that take any get none.
	const needs = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ '<' + c.id + '>' }}" +
		"{% endfor %}{{ '[' + m.tool_call_id + ']' if m.role == 'tool' }}{% endfor %}"
	const free = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<{{ c.id }}>{% endfor %}" +
		"{% endfor %}"
	for source, want := range map[string]string{needs: `^a<\w{9}>b\[\w{9}\]$`, free: `^a<>b$`} {
		p, err := mustNew(t, source, Options{}).Render(t.Context(), Conversation{Messages: []Message{User("a"),
			{Role: "assistant", ToolCalls: []ToolCall{{Name: "f", Arguments: "{}"}}}, {Role: "tool", Content: "b"}}})
		if err != nil {
			t.Errorf("%s: %v", source, err)
		} else if !regexp.MustCompile(want).MatchString(p.Text()) {
			t.Errorf("%s: %q, want %s", source, p.Text(), want)
		}
	}
}

// Results are in the order of their calls, whatever the order in which they came. Those that name no call stay.
func TestResultsAreInTheOrderOfTheirCalls(t *testing.T) {
	tmpl := mustNew(t, "{% for m in messages %}{{ m.content }}{% endfor %}", Options{})
	calls := func(ids ...string) (m Message) {
		m.Role = "assistant"
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id, Name: "f", Arguments: "{}"})
		}
		return m
	}
	result := func(id, text string) Message { return Message{Role: "tool", ToolCallID: id, Content: text} }
	for want, messages := range map[string][]Message{
		"123u45": {calls("a", "b", "c"), result("c", "3"), result("a", "1"), result("b", "2"), User("u"),
			calls("a", "b"), result("b", "5"), result("a", "4")},
		"21":      {calls("a", "b"), result("b", "2"), result("x", "1")},
		"21 once": {calls("", ""), result("", "2"), result("", "1"), User(" once")},
		"2":       {calls("a", "b"), result("b", "2")},
	} {
		before := append([]Message(nil), messages...)
		p, err := tmpl.Render(t.Context(), Conversation{Messages: messages})
		if err != nil {
			t.Errorf("%s: %v", want, err)
		} else if p.Text() != want {
			t.Errorf("%q, want %q", p.Text(), want)
		}
		for i := range before {
			if messages[i].Content != before[i].Content {
				t.Errorf("%s: the caller's messages were changed", want)
			}
		}
	}
}
