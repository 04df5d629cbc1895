package chat

import "testing"

// The text ends with the message's content, wherever the template ends it, and is no longer inside of reasoning.
func TestContinued(t *testing.T) {
	for _, c := range []struct{ template, content, want string }{
		{"{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>\n{% endfor %}", "Sure: ",
			"<user>a</user>\n<assistant>Sure: "},
		{"{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</end>{% endfor %}", "a\n",
			"<user>a</end><assistant>a\n"},
		{"{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}{{ " +
			"m.content }}|{% endfor %}",
			"user", "[user]a|[assistant]<think>\n\n</think>\n\nuser"},
	} {
		tmpl, err := New(c.template, Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "a"},
			{Role: "assistant", Content: c.content}}})
		if err != nil {
			t.Fatal(err)
		}
		got, ok := p.Continued(c.content)
		if !ok || got.Text() != c.want || got.InReasoning() {
			t.Errorf("%q, %v, expected %q", got.Text(), ok, c.want)
		}
	}
	tmpl, _ := New("{{ messages[0].content }}", Options{})
	p, _ := tmpl.Render(t.Context(),
		Conversation{Messages: []Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}}})
	for _, content := range []string{"b", "", " "} {
		if got, ok := p.Continued(content); ok {
			t.Errorf("%q goes on with %q, which the template does not write", got.Text(), content)
		}
	}
}

// Reasoning that the template has begun is closed; where it does not know enable_thinking, an empty section is put in
// front of the answer; else nothing is done.
func TestWithoutReasoning(t *testing.T) {
	const talk, known = `{% for m in messages %}{{ m.content }}{% endfor %}`, `{% if enable_thinking %}{% endif %}`
	const thinks = `{% if false %}<think></think>{% endif %}`
	for source, want := range map[string]string{
		talk: "x", talk + thinks: "x<think></think>", talk + thinks + "<think>\n\n": "x<think>\n</think>",
		talk + thinks + known: "x", talk + known + "<think>" + thinks: "x<think></think>",
		talk + thinks + "<think>\n\n</think>\n\n\n": "x<think>\n\n</think>\n\n",
	} {
		p, err := mustNew(t, source, Options{}).Render(t.Context(), Conversation{Messages: []Message{User("x")}})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.WithoutReasoning(); got.Text() != want || got.InReasoning() {
			t.Errorf("%s: %q, expected %q", source, got.Text(), want)
		}
	}
}

// What the template writes behind a message is no part of it, also where it has the same letters: <|im_end|> a "<".
func TestContinuedInFrontOfAMark(t *testing.T) {
	const source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
	for _, content := range []string{"<", "<|", "end", "e ", "|>", "assistant", "a<", "a", "y"} {
		p, err := mustNew(t, source, Options{}).Render(t.Context(), Conversation{
			Messages: []Message{User("a<|im_end|>y"), Assistant(content)}})
		if err != nil {
			t.Fatal(err)
		}
		want := "<|im_start|>user\na<|im_end|>y<|im_end|>\n<|im_start|>assistant\n" + content
		if got, ok := p.Continued(content); !ok || got.Text() != want {
			t.Errorf("%q: %q, expected %q", content, got.Text(), want)
		}
	}
	// A template may write a part of the content by itself.
	const parts = "{% for m in messages %}{{ m.content.split('</think>') | join('</think>') }}|{% endfor %}"
	p, err := mustNew(t, parts, Options{}).Render(t.Context(), Conversation{
		Messages: []Message{User("a"), Assistant("b</think>c")}})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := p.Continued("b</think>c"); !ok || got.Text() != "a|b</think>c" {
		t.Errorf("%v, %v", got, ok)
	}
}

// An answer that is nothing but reasoning so far goes on within it, behind the mark that the template or the model
// writes in front.
func TestThought(t *testing.T) {
	const talk = "{% for m in messages %}{{ m.content }}|{% endfor %}"
	for _, c := range []struct{ template, reasoning, want string }{
		{talk + "{# <think></think> #}", "so ", "a|<think>\nso "},
		{talk + "<think>\n{# </think> #}", "\nso", "a|<think>\nso"},
		{talk + "<think>{# </think> #}", "\nso", "a|<think>\nso"},
		{talk + "{# [THINK][/THINK] #}", "so", "a|[THINK]so"},
		{talk + "{# <|channel>thought <channel|> #}", "so", "a|<|channel>thought\nso"},
		{talk + "<|start|>{# <|channel|><|message|> #}", "so", "a|<|start|><|channel|>analysis<|message|>so"},
		{talk + "<|start|>{# <|eom|><atem:function_calls> #}", "so", "a|<|start|> to=self<|message|>so"},
		{talk + aprielStart + "\n{# [BEGIN FINAL RESPONSE] #}", aprielStart + "\nso", "a|" + aprielStart + "\nso"},
		{talk + "{# [BEGIN FINAL RESPONSE] #}", aprielStart + "\nso", "a|" + aprielStart + "\nso"},
		{talk + "<think>\n\n</think>\n\n", "so", ""}, {talk, "so", ""},
	} {
		p, err := mustNew(t, c.template, Options{}).Render(t.Context(), Conversation{Messages: []Message{User("a")},
			AddGenerationPrompt: true})
		if err != nil {
			t.Fatal(err)
		}
		got, ok := p.Thought(c.reasoning)
		if ok != (c.want != "") || ok && (got.Text() != c.want || !got.InReasoning()) {
			t.Errorf("%s: %v, %v, want %q", c.template, got, ok, c.want)
		}
	}
}
