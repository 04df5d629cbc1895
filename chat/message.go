package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrContent is what is wrapped when a message has content that is not text.
var ErrContent = errors.New("content that is not text")

// Message is one message of a conversation. Its JSON is that of OpenAI's API.
type Message struct {
	Role      string // system, user, assistant, tool, developer, or what the template knows
	Content   string
	Reasoning string // of an assistant: reasoning_content
	ToolCalls []ToolCall
	// Of a message from a tool: which call it answers, and the tool's name.
	ToolCallID, Name string
}

// System is a message that says how the model is to answer.
func System(text string) Message { return Message{Role: "system", Content: text} }

// User is a message to the model.
func User(text string) Message { return Message{Role: "user", Content: text} }

// Assistant is a message that the model wrote.
func Assistant(text string) Message { return Message{Role: "assistant", Content: text} }

// ToolResult is what a call of a tool came to.
func ToolResult(call ToolCall, text string) Message {
	return Message{Role: "tool", Content: text, ToolCallID: call.ID, Name: call.Name}
}

// ToolCall is a call that an assistant asks for.
type ToolCall struct {
	ID, Name  string
	Arguments string // a JSON object
}

type wireMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Reasoning  string          `json:"reasoning_content,omitempty"`
	ToolCalls  []wireCall      `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Name       string          `json:"name,omitempty"`
}

type wireCall struct {
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// MarshalJSON writes the message as OpenAI's API does.
func (m Message) MarshalJSON() ([]byte, error) {
	content, err := json.Marshal(m.Content)
	if err != nil {
		return nil, err
	}
	w := wireMessage{m.Role, content, m.Reasoning, nil, m.ToolCallID, m.Name}
	for _, c := range m.ToolCalls {
		arguments, err := json.Marshal(c.Arguments)
		if err != nil {
			return nil, err
		}
		w.ToolCalls = append(w.ToolCalls, wireCall{c.ID, "function", wireFunction{c.Name, arguments}})
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads a message. Content is a string, null, or a list of parts
// whose type is text; the texts of parts are joined. Arguments of a tool call
// may be a string, as in the API, or the object itself.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w wireMessage
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	content, err := contentText(w.Content)
	if err != nil {
		return fmt.Errorf("message of role %q: %w", w.Role, err)
	}
	*m = Message{Role: w.Role, Content: content, Reasoning: w.Reasoning, ToolCallID: w.ToolCallID, Name: w.Name}
	for i, c := range w.ToolCalls {
		if c.Type != "" && c.Type != "function" {
			return fmt.Errorf("message of role %q: tool_calls[%d]: the type %q is not supported", w.Role, i, c.Type)
		}
		arguments := string(c.Function.Arguments)
		if strings.HasPrefix(arguments, `"`) {
			if err := json.Unmarshal(c.Function.Arguments, &arguments); err != nil {
				return err
			}
		}
		m.ToolCalls = append(m.ToolCalls, ToolCall{c.ID, c.Function.Name, arguments})
	}
	return nil
}

func contentText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if raw[0] == '"' {
		err := json.Unmarshal(raw, &text)
		return text, err
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("content: neither a string nor a list of parts: %w", err)
	}
	var all strings.Builder
	for i, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return "", fmt.Errorf("content[%d]: a part of type %q: %w", i, p.Type, ErrContent)
		}
		all.WriteString(*p.Text)
	}
	return all.String(), nil
}

// Conversation is what a template renders.
type Conversation struct {
	Messages []Message
	// Tools that the model may call, each as OpenAI's API describes it:
	// {"type": "function", "function": {"name": …, "parameters": …}}.
	Tools []json.RawMessage
	// AddGenerationPrompt ends the text where the assistant's answer begins.
	AddGenerationPrompt bool
	// Extra are further variables for the template, such as enable_thinking:
	// nil, bool, numbers, strings, lists and maps by string of these, json.RawMessage.
	Extra map[string]any
	// Clock is the time that the template reads; zero: Options.Clock.
	Clock time.Time
}
