package chat

import (
	"encoding/json"
	"errors"
	"slices"
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
	rest := c.Messages
	if len(c.Tools) > 0 {
		var b strings.Builder
		for len(rest) > 0 && rest[0].Role == "system" {
			b.WriteString(rest[0].Content + "\n\n")
			rest = rest[1:]
		}
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
		messages = append(messages, System(b.String()+howToCall))
	}
	var names callNames
	for len(rest) > 0 {
		m := rest[0]
		if m.Role == "tool" { // with those behind it
			var b strings.Builder
			for ; len(rest) > 0 && rest[0].Role == "tool"; rest = rest[1:] {
				if b.Len() > 0 {
					b.WriteByte('\n')
				}
				b.WriteString("Result of " + names.called(&rest[0]) + ": " + rest[0].Content)
			}
			messages = append(messages, User(b.String()))
			continue
		}
		if len(m.ToolCalls) > 0 {
			names.add(m.ToolCalls)
			m.Content = strings.TrimLeft(m.Content+"\n"+callsText(m.ToolCalls), "\n")
			m.ToolCalls = nil
		}
		messages, rest = append(messages, m), rest[1:]
	}
	c.Messages, c.Tools = messages, nil
	if !t.systemRole {
		c.Messages = MergeSystem(c.Messages)
	}
	return c, nil
}

// callNames are the functions that were called in a conversation so far.
type callNames struct {
	byID    map[string]string
	last    []ToolCall // of the last message with calls
	results int        // behind it
}

func (n *callNames) add(calls []ToolCall) {
	if n.byID == nil {
		n.byID = map[string]string{}
	}
	for _, c := range slices.Backward(calls) { // of two with an id the first
		n.byID[c.ID] = c.Name
	}
	n.last, n.results = calls, 0
}

// called is the name of the function whose result a message is. Calls and results without ids are in the same order.
func (n *callNames) called(m *Message) string {
	at := n.results
	n.results++
	name, known := n.byID[m.ToolCallID]
	switch {
	case m.Name != "":
		return m.Name
	case m.ToolCallID != "" && known:
		return name
	case m.ToolCallID == "" && at < len(n.last) && n.last[at].ID == "":
		return n.last[at].Name
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
