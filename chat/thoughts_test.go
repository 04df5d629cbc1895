package chat

import (
	"strings"
	"testing"
)

// The reasoning of earlier messages is in the prompt under whatever name the template has for it, or as a part of the
// content.
func TestReasoningOfEarlierMessages(t *testing.T) {
	const loop, end = "{% for m in messages %}", "{% endfor %}"
	for source, want := range map[string]string{
		loop + "{{ m.content }}{{ m.reasoning_content }}|" + end:                               "a|bT|",
		loop + "{{ m.content }}{{ m.thinking }}{{ m.reasoning_content }}|" + end:               "a|bT|",
		loop + "{{ m.content }}{{ m.thinking }}|" + end:                                        "a|bT|",
		loop + "{% if 'thinking' in m %}<{{ m['thinking'] }}>{% endif %}{{ m.content }}" + end: "a<T>b",
		loop + "{{ m.reasoning }}{{ m.content }}" + end:                                        "aTb",
		loop + "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ '[' ~ p.thinking ~ ']' " +
			"if p.type == 'thinking' else p.text }}{% endfor %}{% endif %}" + end: "a[T]b",
		loop + "{{ m.content }}" + end:          "ab",
		loop + "{{ m.content | tojson }}" + end: `"a""b"`,
	} {
		tmpl := mustNew(t, source, Options{})
		p, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{User("a"),
			{Role: "assistant", Content: "b", Reasoning: "T"}}})
		if err != nil {
			t.Errorf("%s: %v", source, err)
		} else if p.Text() != want {
			t.Errorf("%s: %q, want %q", source, p.Text(), want)
		}
	}
}

// Real templates have the reasoning in front of a call; gpt-oss's, which takes no content beside it, has both in one.
func TestReasoningInFrontOfCalls(t *testing.T) {
	for name, want := range map[string]string{
		"openai-gpt-oss-120b": "<|channel|>analysis<|message|>Look it up.\n\nOne moment.<|end|><|start|>assistant " +
			"to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
		"mistralai-Ministral-3-14B-Reasoning-2512": "[THINK]Look it up.[/THINK]One moment.[TOOL_CALLS]f[ARGS]{}",
		"Qwen-Qwen3-0.6B":                          "<think>\nLook it up.\n</think>\n\nOne moment.\n<tool_call>",
	} {
		tmpl := mustNew(t, templateSource(t, name), Options{Clock: fixedClock})
		p, err := tmpl.Render(t.Context(), Conversation{AddGenerationPrompt: true, Messages: []Message{User("a"),
			{Role: "assistant", Content: "One moment.", Reasoning: "Look it up.",
				ToolCalls: []ToolCall{{ID: "call00001", Name: "f", Arguments: "{}"}}},
			{Role: "tool", Name: "f", ToolCallID: "call00001", Content: "r"}}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(p.Text(), want) {
			t.Errorf("%s: %q lacks %q", name, p.Text(), want)
		}
	}
}

// The calls of answers in every syntax are read as well where the answer is reasoning that never ends, as Ling 3 writes
// them: also one whose last mark is the answer's end.
func TestCallsInReasoningThatNeverEnds(t *testing.T) {
	calls := func(all []Event) (list []Event) {
		for _, e := range all {
			if e.Kind != ContentEvent && e.Kind != ReasoningEvent {
				list = append(list, e)
			}
		}
		return list
	}
	for _, a := range append(answers[:len(answers):len(answers)], moreAnswers...) {
		f, o := a.format, a.o
		s := f.Syntax.of()
		if f.ThinkStart == "" {
			f.ThinkStart, f.ThinkEnd = "<thoughts>", "</thoughts>"
		}
		at := len(a.text)
		for _, m := range s.open {
			if i := strings.Index(a.text, m); i >= 0 {
				at = min(at, i)
			}
		}
		text := a.text[at:]
		want := calls(parse(f, o, text))
		if s.channels != nil || len(o.Tools) == 0 || o.Reasoning || o.JSON || o.Continued ||
			strings.Contains(text, f.ThinkEnd) ||
			len(want) > 0 && want[0].Kind == ToolCallEnd { // the beginning of a call, which is a thought here
			continue
		}
		o.Reasoning = true
		if got := calls(parse(f, o, "hm "+text)); show(got) != show(want) {
			t.Errorf("%s: %q\n got %s\nwant %s", a.name, text, show(got), show(want))
		}
	}
}
