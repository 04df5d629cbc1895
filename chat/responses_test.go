package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/chat/internal/jinja"
)

// Gemma 4's first template has the results of calls in their turn, with what the assistant says behind them. What it
// says in front of calls is a turn of its own, or a thought.
func TestResultsBesideCalls(t *testing.T) {
	tmpl := mustNew(t, templateSource(t, "google-gemma-4-31B-it-interleaved"), Options{})
	call := func(id, name, say string) Message {
		return Message{Role: "assistant", Content: say, ToolCalls: []ToolCall{{ID: id, Name: name, Arguments: `{"a":1}`}}}
	}
	result := func(id, text string) Message { return Message{Role: "tool", ToolCallID: id, Content: text} }
	both := call("1", "f", "")
	both.ToolCalls = append(both.ToolCalls, ToolCall{ID: "2", Name: "g", Arguments: "{}"})
	const f, g = "<|tool_call>call:f{a:1}<tool_call|>", "<|tool_call>call:g{}<tool_call|>"
	const user, model, end = "<|turn>user\nx<turn|>\n", "<|turn>model\n", "<turn|>\n"
	const thought = "<|channel>thought\n<channel|>"
	for _, c := range []struct {
		messages []Message
		want     string
	}{
		{[]Message{call("1", "f", ""), result("1", `{"b":[2]}`)},
			model + f + "<|tool_response>response:f{b:[2]}<tool_response|>" + thought},
		{[]Message{both, result("2", "two"), result("1", "one")},
			model + f + g + `<|tool_response>response:f{value:<|"|>one<|"|>}<tool_response|>` +
				`<|tool_response>response:g{value:<|"|>two<|"|>}<tool_response|>` + thought},
		{[]Message{call("1", "f", "I look."), result("1", "3"), Assistant("It is 3."), User("x")},
			model + "I look." + end + model + f + "<|tool_response>response:f{value:3}<tool_response|>It is 3." + end + user +
				model + thought},
		{[]Message{call("", "f", ""), result("", "true"), call("", "f", "Again."), result("", "{")},
			model + f + "<|tool_response>response:f{value:true}<tool_response|><|channel>thought\nAgain.<channel|>" + f +
				`<|tool_response>response:f{value:<|"|>{<|"|>}<tool_response|>` + thought},
		{[]Message{call("1", "f", "")}, model + f + end + model + thought},
	} {
		before := slices.Clone(c.messages)
		p, err := tmpl.Render(t.Context(), Conversation{Messages: append([]Message{User("x")}, c.messages...),
			AddGenerationPrompt: true})
		if err != nil {
			t.Errorf("%+v: %v", c.messages, err)
			continue
		}
		if got := strings.TrimPrefix(p.Text(), user); got != c.want {
			t.Errorf("%+v:\n got %q\nwant %q", c.messages, got, c.want)
		}
		for i := range before {
			if c.messages[i].Content != before[i].Content {
				t.Errorf("the caller's message became %+v", c.messages[i])
			}
		}
	}
	if mustNew(t, templateSource(t, "Qwen-Qwen3-0.6B"), Options{}).responses {
		t.Error("a template with the role tool has results beside calls")
	}
}

// The results of one turn find their calls at once: what looks through all calls for each would not end.
func TestResultsOfManyCalls(t *testing.T) {
	const n = 1 << 18
	calls, results := make([]ToolCall, n), make([]Message, n)
	for i := range n {
		calls[i] = ToolCall{ID: fmt.Sprintf("call%06d", i), Name: "f"}
		results[n-1-i] = Message{Role: "tool", ToolCallID: calls[i].ID}
	}
	calls[0].Name, calls[7].Name, calls[n-1].ID, results[0].ToolCallID = "first", "g", "call000007", ""
	list := responses(calls, results)
	for at, want := range map[int]string{n - 1: "first", n - 8: "g", 0: "first", 1: "f"} {
		if got, _ := list.Items[at].(*jinja.Dict).Get("name"); fmt.Sprint(got) != want {
			t.Errorf("result %d is of %v, not of %s", at, got, want)
		}
	}
}
