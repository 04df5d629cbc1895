package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

// ling3Template writes conversations as Ling 3's own template does: the system message ends with what is thought of
// thinking, and every answer has a section for it.
const ling3Template = `{%- set thinks = 'off' if enable_thinking is defined and not enable_thinking else 'on' %}
{{- '<role>SYSTEM</role>' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\n' }}{% endif %}
{%- if tools %}
    {{- '# Tools\n<tools>' }}{% for tool in tools %}{{- '\n' + tool | tojson }}{% endfor %}
    {{- '\n</tools>\nWrite a call as\n<tool_call>{name}\n<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n' }}
    {{- '...\n</tool_call>\n' }}
{%- endif %}
{{- 'detailed thinking ' + thinks + '<|role_end|>' }}
{%- for m in messages %}
    {%- if m.role == 'user' %}{{- '<role>HUMAN</role>' + m.content + '<|role_end|>' }}
    {%- elif m.role == 'assistant' %}
        {{- '<role>ASSISTANT</role>\n<think>' + (m.reasoning_content or '') + '</think>' + m.content }}
        {%- for call in m.tool_calls %}
            {%- if m.content or not loop.first %}{{- '\n' }}{% endif %}
            {{- '<tool_call>' + call.function.name + '\n' }}
            {%- for k, v in call.function.arguments.items() %}
                {{- '<arg_key>' + k + '</arg_key>' }}
                {{- '\n<arg_value>' + (v if v is string else v | tojson) + '</arg_value>' }}
            {%- endfor %}
            {{- '\n</tool_call>' }}
        {%- endfor %}
        {{- '<|role_end|>' }}
    {%- elif m.role == 'tool' %}
        {%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<role>OBSERVATION</role>' }}{% endif %}
        {{- '\n<tool_response>\n' + m.content + '\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|role_end|>' }}{% endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<role>ASSISTANT</role>\n<think>' + ('</think>' if thinks == 'off' else '') }}
{%- endif %}`

// TestLing3: a template of that form has the calls of GLM and reasoning, which its prompt opens unless thinking is
// off; what it writes of a call is what the parser reads and the grammar allows, with no line end between arguments.
func TestLing3(t *testing.T) {
	f := DetectFormat(ling3Template)
	if want := (Format{Syntax: SyntaxGLM, ThinkStart: "<think>", ThinkEnd: "</think>"}); *f != want {
		t.Fatalf("%v, want %v", *f, want)
	}
	tmpl := mustNew(t, ling3Template, Options{})
	tools := []Tool{{Name: "f", Parameters: []byte(`{"type":"object","properties":{"a":{"type":"string"},` +
		`"b":{"type":"integer"},"c":{"type":"string"}},"required":["a"]}`)}}
	const call = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x\ny</arg_value><arg_key>b</arg_key>\n" +
		"<arg_value>2</arg_value>\n</tool_call>"
	talk := Conversation{AddGenerationPrompt: true, Messages: []Message{User("u"),
		{Role: "assistant", Reasoning: "r", ToolCalls: []ToolCall{{Name: "f", Arguments: `{"a": "x\ny", "b": 2}`}}},
		{Role: "tool", Content: "t"}}}
	talk.Tools = []json.RawMessage{json.RawMessage(`{"type":"function","function":{"name":"f","parameters":` +
		string(tools[0].Parameters) + "}}")}
	for _, thinks := range []bool{true, false} {
		talk.Extra = map[string]any{"enable_thinking": thinks}
		p, err := tmpl.Render(t.Context(), talk)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"<role>ASSISTANT</role>\n<think>r</think>" + call + "<|role_end|>",
			"detailed thinking " + map[bool]string{true: "on", false: "off"}[thinks] + "<|role_end|>"} {
			if !strings.Contains(p.Text(), part) {
				t.Errorf("%q lacks %q", p.Text(), part)
			}
		}
		if opened, _ := f.Opened(p.Text()); opened != thinks {
			t.Errorf("thinking %v, opened %v: %q", thinks, opened, p.Text())
		}
	}
	g, err := f.ToolGrammar(tools, ToolGrammarOptions{Required: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{call, strings.ReplaceAll(call, "</arg_value><", "</arg_value>\n<"),
		strings.Replace(call, "</arg_value>\n</tool", "</arg_value></tool", 1)} {
		if n, of, final := follows(t, g, nil, text); n != of || !final {
			t.Errorf("%q: %d of %d", text, n, of)
		}
		var got string
		for _, e := range parse(*f, ParserOptions{Tools: tools, Reasoning: true}, "hm "+text) { // thoughts are not ended
			got += e.Text
		}
		if want := `hm{"a": "x\ny", "b": 2}`; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
