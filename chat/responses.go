package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/chat/internal/jinja"
)

// Gemma 4's first templates have the results of calls beside the calls, as tool_responses of the assistant's message.
// They write a message of the role tool as a turn that the model was never trained on.

// gemmaResponse is the mark in front of a result.
const gemmaResponse = "<|tool_response>"

// probeResponses finds out whether a template is one of those. text is what it renders.
func (t *Template) probeResponses(text func(Conversation) string) {
	if !strings.Contains(t.source, "tool_responses") || !strings.Contains(t.source, gemmaResponse) {
		return
	}
	call := ToolCall{ID: "call00001", Name: "f", Arguments: "{}"}
	got := text(Conversation{Messages: []Message{User("a"), {Role: "assistant", ToolCalls: []ToolCall{call}},
		ToolResult(call, "b")}})
	t.responses = !strings.Contains(got, gemmaResponse)
}

// messageValues are the messages as the template sees them.
func (t *Template) messageValues(all []Message, textArguments, typedContent bool) (list []jinja.Value, err error) {
	all = t.identified(inCallOrder(all))
	if t.responses {
		return t.turnValues(slices.Clone(all), textArguments, typedContent)
	}
	for i, m := range all {
		parts := []Message{m}
		said := t.format.Syntax == SyntaxMuse && m.Content != "" && len(m.ToolCalls) > 0
		if said { // its template leaves out what is said beside calls, which are other messages
			parts = []Message{{Role: m.Role, Content: m.Content, Reasoning: m.Reasoning},
				{Role: m.Role, ToolCalls: m.ToolCalls}}
		}
		for k := range parts {
			v, err := t.messageValue(&parts[k], textArguments, typedContent)
			if err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
			if said && k == 0 {
				v.Set(jinja.NewText("end_turn", FromTemplate), false)
			}
			list = append(list, v)
		}
	}
	return list, nil
}

// turnValues is messageValues with the results of calls beside them. What the assistant says behind results belongs to
// the message of the calls. What it says in front of calls is a message of its own, or behind results a thought, since
// the template has no other place for it. It changes all.
func (t *Template) turnValues(all []Message, textArguments, typedContent bool) (list []jinja.Value, err error) {
	add := func(i int, m *Message) (*jinja.Dict, error) {
		v, err := t.messageValue(m, textArguments, typedContent)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		list = append(list, v)
		return v, nil
	}
	open := false // the last message has results, and nothing behind them
	for i := 0; i < len(all); {
		at, m := i, &all[i]
		for i++; len(m.ToolCalls) > 0 && i < len(all) && all[i].Role == "tool"; i++ {
		}
		results := all[at+1 : i]
		if len(results) > 0 {
			if m.Content != "" && open {
				m.Reasoning = strings.TrimLeft(m.Reasoning+"\n\n"+m.Content, "\n")
			} else if m.Content != "" {
				if _, err := add(at, &Message{Role: m.Role, Content: m.Content}); err != nil {
					return nil, err
				}
			}
			m.Content = ""
			if i < len(all) && all[i].Role == "assistant" && len(all[i].ToolCalls) == 0 {
				m.Content = all[i].Content
				i++
			}
		}
		open = len(results) > 0 && m.Content == ""
		v, err := add(at, m)
		if err != nil {
			return nil, err
		}
		if len(results) > 0 {
			v.Set(jinja.NewText("tool_responses", FromTemplate), responses(m.ToolCalls, results))
		}
	}
	return list, nil
}

// responses are the results of calls. One that is JSON is the value.
func responses(calls []ToolCall, results []Message) *jinja.List {
	list := &jinja.List{}
	place := make(map[string]int, len(calls))
	for i, c := range slices.Backward(calls) { // of two with an id the first
		place[c.ID] = i
	}
	delete(place, "")
	for i, m := range results {
		of, ok := place[m.ToolCallID]
		if !ok {
			of = i
		}
		if m.Name == "" && of < len(calls) {
			m.Name = calls[of].Name
		}
		d := &jinja.Dict{}
		if m.Name != "" {
			d.Set(jinja.NewText("name", FromTemplate), jinja.NewText(m.Name, FromMessage))
		}
		var v jinja.Value = jinja.NewText(m.Content, FromMessage)
		if json.Valid([]byte(m.Content)) {
			if x, err := jsonValue([]byte(m.Content), FromMessage); err == nil {
				v = x
			}
		}
		d.Set(jinja.NewText("response", FromTemplate), v)
		list.Items = append(list.Items, d)
	}
	return list
}
