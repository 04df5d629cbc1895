package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

// museCall is a call of f as Muse Glimmer writes it, its arguments one after the other.
func museCall(arguments ...string) string {
	text := "<atem:function_calls>\n<atem:invoke name=\"f\">\n"
	for i := 0; i < len(arguments); i += 2 {
		text += `<atem:parameter name="` + arguments[i] + `">` + arguments[i+1] + "</atem:parameter>\n"
	}
	return text + "</atem:invoke>\n</atem:function_calls>"
}

// TestMuse: messages of Muse Glimmer by their recipients, whole, at every cut, and in single bytes.
func TestMuse(t *testing.T) {
	const next = "<|eom|><|start|>assistant"
	answer := " to=user<|message|>Hi.<|eot|>"
	called := "start 0: f \nargs 0: {\"text\": \" a\\n<b> \", \"on\": true, \"count\": 3, \"list\": [\"x\"]}\n" +
		"end 0:  <nil>"
	call := " to=f<|message|>" + museCall("text", " a\n<b> ", "on", "true", "count", "3", "list", `["x"]`)
	tools, none := ParserOptions{Tools: typedTools}, ParserOptions{}
	for _, x := range []struct {
		name string
		o    ParserOptions
		text string
		want string
	}{
		{"an answer", none, answer, `content: "Hi."`},
		{"reasoned", none, " to=self<|message|>so\n" + next + answer, "reasoning: \"so\\n\"\ncontent: \"Hi.\""},
		{"the whole header", none, "<|start|>assistant to=self<|message|>so<|eom|>assistant" + answer,
			"reasoning: \"so\"\ncontent: \"Hi.\""},
		{"no recipient", none, "<|message|>Hi.", `content: "Hi."`},
		{"no header", none, "Hi to=f there.", `content: "Hi to=f there."`},
		{"two answers", none, " to=user<|message|>Oslo.<|eom|>assistant to=user<|message|> It is cold.<|eot|>\n",
			`content: "Oslo. It is cold."`},
		{"a call", tools, call + "<|eot|>", called},
		{"a call behind reasoning and an answer", tools, " to=self<|message|>so" + next + " to=user<|message|>I look." +
			next + call + "<|eom|>", "reasoning: \"so\"\ncontent: \"I look.\"\n" + called},
		{"two messages of calls, and an answer", tools, call + next + " to=f<|message|>" + museCall() + next + answer,
			called + "\nstart 1: f \nargs 1: {}\nend 1:  <nil>\ncontent: \"Hi.\""},
		{"two calls in a message", tools, strings.Replace(call+"<|eot|>", "</atem:invoke>",
			"</atem:invoke>\n<atem:invoke name=\"f\"></atem:invoke>", 1), called + "\nstart 1: f \nargs 1: {}\nend 1:  <nil>"},
		{"calls without their own marks", tools, " to=f<|message|><atem:invoke name=\"f\"></atem:invoke><|eot|>",
			"start 0: f \nargs 0: {}\nend 0:  <nil>"},
		{"marks in an argument", tools, " to=f<|message|>" + museCall("text", "<|eom|></atem:parameter> <|start|>") +
			"<|eot|>", "start 0: f \nargs 0: {\"text\": \"<|eom|></atem:parameter> <|start|>\"}\nend 0:  <nil>"},
		{"a call in an answer is text", tools, " to=user<|message|>Write " + museCall() + "<|eot|>",
			"content: \"Write " + strings.ReplaceAll(strings.ReplaceAll(museCall(), `"`, `\"`), "\n", `\n`) + `"`},
		{"a call in reasoning is reasoning", tools, " to=self<|message|>" + museCalls + next + answer,
			"reasoning: \"<atem:function_calls>\"\ncontent: \"Hi.\""},
		{"a call that nobody offered", none, call + next + answer, "end 0:  " + malformed + "\ncontent: \"Hi.\""},
		{"a message to a tool that is no call", tools, " to=f<|message|>{\"a\": 1}" + next + answer,
			"end 0:  " + malformed + "\ncontent: \"Hi.\""},
		{"a call that is broken", tools, " to=f<|message|>" + museCalls + museInvoke + `f">x</atem:invoke>` + next + answer,
			"start 0: f \nend 0:  " + malformed + "\ncontent: \"Hi.\""},
		{"reasoning in content", ParserOptions{Inline: true}, " to=self<|message|>so" + next + answer,
			`content: " to=self<|message|>so<|eom|>Hi."`},
		{"JSON", ParserOptions{JSON: true}, " to=user<|message|>{\"a\": \"<|eom|>\"}<|eot|>", `content: "{\"a\": \"<|eom|>\"}"`},
		{"an answer goes on", ParserOptions{Continued: true}, " on.<|eot|>", `content: " on."`},
		{"reasoning goes on", ParserOptions{Continued: true, Reasoning: true}, " on." + next + answer,
			"reasoning: \" on.\"\ncontent: \"Hi.\""},
		{"cut off in a header", tools, " to=us", ""},
		{"cut off in a mark", tools, " to=self<|mess", ""},
		{"cut off in a role", tools, " to=self<|message|>so<|eom|><|start|>assis", `reasoning: "so"`},
		{"cut off in a call's header", tools, " to=get_wea", "end 0:  " + malformed},
		{"cut off behind a call's header", tools, " to=f<|message|><atem:func", "end 0:  " + malformed},
		{"cut off in a name", tools, " to=f<|message|><atem:function_calls>\n<atem:invoke name=\"", "end 0:  " + malformed},
		{"cut off behind calls", tools, strings.TrimSuffix(call, museCallsEnd), called},
		{"letters of a header", none, "to", `content: "to"`},
		{"nothing", none, "", ""},
	} {
		f := Format{Syntax: SyntaxMuse}
		if got := show(parse(f, x.o, x.text)); got != x.want {
			t.Errorf("%s:\n got %s\nwant %s", x.name, got, x.want)
		}
		for i := range len(x.text) {
			if got := show(parse(f, x.o, x.text[:i], x.text[i:])); got != x.want {
				t.Errorf("%s, cut at %d:\n%s", x.name, i, got)
			}
		}
		if got := show(parse(f, x.o, strings.Split(x.text, "")...)); got != x.want {
			t.Errorf("%s, byte by byte:\n%s", x.name, got)
		}
	}
}

// museTemplate has what Muse Glimmer's template has of a format, in short.
const museTemplate = `{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}` +
	`{% if m.reasoning_content %} to=self<|message|>{{ m.reasoning_content }}<|eom|><|start|>assistant{% endif %}` +
	`{% for c in m.tool_calls %} to={{ c.function.name }}<|message|><atem:function_calls>` +
	`{{ c.function.arguments | tojson }}{{ '<|eot|>' if loop.last else '<|eom|><|start|>assistant' }}{% endfor %}{% if not m.tool_calls %} to=user<|message|>` +
	`{{ m.content }}{{ '<|eom|>' if m.end_turn is false else '<|eot|>' }}{% endif %}{% else %}<|message|>{{ m.content }}` +
	`<|eot|>{% endif %}{% endfor %}strength {{ reasoning_strength | default('high') }}<|start|>assistant`

// What a request says of reasoning reaches the template under the name that it has there.
func TestStrengthOfMuse(t *testing.T) {
	tmpl := mustNew(t, museTemplate, Options{})
	if f := tmpl.Format(); f.Syntax != SyntaxMuse || !f.Thinks() {
		t.Fatalf("%+v", f)
	}
	for _, x := range []struct {
		extra string
		want  string
	}{
		{`{}`, "high"}, {`{"reasoning_effort":"low"}`, "low"}, {`{"reasoning_strength":"xhigh"}`, "xhigh"},
		{`{"reasoning_strength":"xhigh","reasoning_effort":"low"}`, "xhigh"},
	} {
		c := Conversation{Messages: []Message{User("a")}, AddGenerationPrompt: true}
		if err := json.Unmarshal([]byte(x.extra), &c.Extra); err != nil {
			t.Fatal(err)
		}
		p, err := tmpl.Render(t.Context(), c)
		if err != nil || !strings.Contains(p.Text(), "strength "+x.want+"<") {
			t.Errorf("%s: %q, %v", x.extra, p.Text(), err)
		}
	}
}

// What the assistant says in front of calls is in the prompt, as the message that it was.
func TestAnswerInFrontOfCallsOfMuse(t *testing.T) {
	tmpl := mustNew(t, museTemplate, Options{})
	p, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{User("a"), {Role: "assistant", Content: "I look.",
		Reasoning: "so",
		ToolCalls: []ToolCall{{ID: "1", Name: "f", Arguments: "{}"}, {ID: "2", Name: "g", Arguments: "{}"}}},
		{Role: "tool", ToolCallID: "1", Content: "r"}}})
	const want = "<|start|>user<|message|>a<|eot|><|start|>assistant to=self<|message|>so<|eom|><|start|>assistant " +
		"to=user<|message|>I look.<|eom|><|start|>assistant to=f<|message|><atem:function_calls>{}<|eom|><|start|>" +
		"assistant to=g<|message|><atem:function_calls>{}<|eot|><|start|>tool"
	if err != nil || !strings.HasPrefix(p.Text(), want) {
		t.Errorf("%q, %v", p.Text(), err)
	}
}
