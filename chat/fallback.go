package chat

import (
	"encoding/json"
	"errors"
	"strings"
)

// Why a template offers no tools.
var (
	ErrNoTools       = errors.New("the chat template renders no tools")
	ErrUnknownSyntax = errors.New("the chat template renders tools, but how its model writes calls is not known")
)

// ToolsError says why tools cannot be offered: [ErrNoTools] or [ErrUnknownSyntax], or the error of the template that is
// for them (Options.Tools); nil where they can.
func (t *Template) ToolsError() error {
	switch {
	case t.fallback:
		return nil
	case t.withToolsErr != nil:
		return t.withToolsErr
	case t.withTools != nil:
		return t.withTools.ToolsError()
	case !t.toolsHandled:
		return ErrNoTools
	case t.format.Unknown:
		return ErrUnknownSyntax
	}
	return nil
}

// fallBack makes a template that offers no tools one that announces them in the system message, with calls in plain
// JSON.
func (t *Template) fallBack() {
	if t.ToolsError() == nil {
		return
	}
	format := *t.format
	format.Syntax, format.Bare, format.Open, format.Unknown = SyntaxJSON, false, "", false
	t.fallback, t.format = true, &format
}

// announcement is what the model is told of tools and calls in front of their schemas.
const announcement = `You can call these functions, each given with the JSON schema of its arguments:
`

const howToCall = `
To call one, answer with nothing but a JSON object: {"name": the function's name, "arguments": {its arguments}}
To call several, answer with a list of such objects. Otherwise answer in plain text.`

// announced is a conversation without tools that says the same in texts.
func (t *Template) announced(c Conversation) (Conversation, error) {
	var messages []Message
	if len(c.Tools) > 0 {
		var b strings.Builder
		b.WriteString(announcement)
		for _, raw := range c.Tools {
			var tool struct{ Function json.RawMessage }
			if err := json.Unmarshal(raw, &tool); err != nil {
				return c, err
			}
			if tool.Function != nil {
				raw = tool.Function
			}
			b.Write(raw)
			b.WriteByte('\n')
		}
		messages = append(messages, Message{Role: "system", Content: b.String() + howToCall})
	}
	for i := range c.Messages {
		m := c.Messages[i]
		last := len(messages) - 1
		switch {
		case m.Role == "system" && last == 0 && messages[0].Role == "system" && len(c.Tools) > 0:
			messages[0].Content = m.Content + "\n\n" + messages[0].Content
			continue
		case m.Role == "tool":
			m = Message{Role: "user", Content: "Result of " + m.called(c.Messages[:i]) + ": " + m.Content}
			if i > 0 && c.Messages[i-1].Role == "tool" {
				messages[last].Content += "\n" + m.Content
				continue
			}
		case len(m.ToolCalls) > 0:
			m.Content = strings.TrimLeft(m.Content+"\n"+callsText(m.ToolCalls), "\n")
			m.ToolCalls = nil
		}
		messages = append(messages, m)
	}
	c.Messages, c.Tools = messages, nil
	if !t.systemRole {
		c.Messages = MergeSystem(c.Messages)
	}
	return c, nil
}

// called is the name of the function whose result a message is. Calls and results without ids are in the same order.
func (m *Message) called(before []Message) string {
	if m.Name != "" {
		return m.Name
	}
	results := 0 // in front of it
	for i := len(before) - 1; i >= 0; i-- {
		for k, c := range before[i].ToolCalls {
			if c.ID == m.ToolCallID && (c.ID != "" || k == results) {
				return c.Name
			}
		}
		if before[i].Role == "tool" {
			results++
		}
	}
	return "the call"
}

// callsText are calls as plain JSON has them.
func callsText(calls []ToolCall) string {
	var all []string
	for _, c := range calls {
		arguments := c.Arguments
		if arguments == "" {
			arguments = "{}"
		}
		all = append(all, `{"name": `+quoted(c.Name)+`, "arguments": `+arguments+"}")
	}
	if len(all) == 1 {
		return all[0]
	}
	return "[" + strings.Join(all, ", ") + "]"
}
