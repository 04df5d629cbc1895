package serve

import (
	"slices"
	"strings"

	"github.com/specgo/spec/chat"
)

// readMessages reads a conversation in OpenAI's form: a message without content must be the assistant's and say
// something else.
func readMessages(r *request, v value) *Error { return r.readMessages(v, true) }

// readMessages reads a conversation. In Ollama's form (strict is false) a message without content is an empty one.
func (r *conversation) readMessages(v value, strict bool) *Error {
	items, err := v.list()
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return v.bad("must have at least one message")
	}
	for _, item := range items {
		m, said, err := readMessage(item)
		if err != nil {
			return err
		}
		if strict && !said {
			return badField(item.path+".content", "missing")
		}
		r.messages = append(r.messages, m)
	}
	return nil
}

// readMessage reads one message of a conversation, in OpenAI's form or Ollama's. said reports whether it has content,
// or is the assistant's with calls, reasoning or a refusal.
func readMessage(v value) (m chat.Message, said bool, e *Error) {
	text := func(p *string) func(value) *Error {
		return func(v value) (e *Error) { *p, e = v.text(); return }
	}
	content := func(v value) (e *Error) { m.Content, e = readContent(v, "text"); said = true; return }
	ignore := func(value) *Error { return nil }
	refused := false
	e = v.object(map[string]func(value) *Error{
		"role":              text(&m.Role),
		"content":           content,
		"reasoning_content": text(&m.Reasoning),
		"thinking":          text(&m.Reasoning), // Ollama's name
		"reasoning":         text(&m.Reasoning), // OpenRouter's and vLLM's name
		"tool_call_id":      text(&m.ToolCallID),
		"name":              text(&m.Name),
		"tool_name":         text(&m.Name), // Ollama's name
		"tool_calls":        func(v value) (e *Error) { m.ToolCalls, e = readCalls(v); return },
		"images":            func(v value) *Error { return onlyEmptyList(nil, v) },
		"refusal":           func(value) *Error { refused = true; return nil }, // answers of this server never have one
		"annotations":       ignore,
		"audio":             func(v value) *Error { return v.bad("only text is supported") },
		"function_call":     func(v value) *Error { return v.bad("only null: the form in use is tool_calls") },
	})
	if e == nil && m.Role == "" {
		e = badField(v.path+".role", "missing")
	}
	said = said || m.Role == "assistant" && (m.ToolCalls != nil || m.Reasoning != "" || refused)
	return m, said, e
}

// readContent reads a text, or a list of parts of the given types, whose texts are joined.
func readContent(v value, types ...string) (string, *Error) { return readPartsOf(v, nil, types...) }

// readPartsOf is readContent; where refer is not nil there may be references to tools too. The text of one is the
// tool's name, on a line of its own.
func readPartsOf(v value, refer func(namedTool), types ...string) (string, *Error) {
	if len(v.raw) > 0 && v.raw[0] == '"' {
		return v.text()
	}
	items, err := v.list()
	if err != nil {
		return "", v.bad("must be a string or an array of parts")
	}
	var all strings.Builder
	referred := false
	for _, item := range items {
		kind, text, given, name := "", "", false, namedTool{}
		readers := map[string]func(value) *Error{
			"type": func(v value) (e *Error) {
				if kind, e = v.text(); e == nil && !slices.Contains(types, kind) {
					e = v.bad("only parts of type %s are supported, not %.64q", strings.Join(types, ", "), kind)
				}
				return
			},
			"text":          func(v value) (e *Error) { text, e = v.text(); given = true; return },
			"annotations":   func(value) *Error { return nil },
			"citations":     func(value) *Error { return nil },
			"logprobs":      func(value) *Error { return nil },
			"cache_control": func(value) *Error { return nil }, // common beginnings of prompts are found without it
		}
		if refer != nil {
			readers["tool_name"] = func(v value) (e *Error) { name.field = v.path; name.name, e = v.text(); return }
		}
		if err := item.object(readers); err != nil {
			return "", err
		}
		reference := kind == blockReference
		switch {
		case reference && (given || name.name == ""):
			return "", item.bad("must have type and tool_name")
		case reference:
			refer(name)
			text = name.name
		case kind == "" || !given || name.field != "":
			return "", item.bad("must have type and text")
		}
		if (reference || referred) && all.Len() > 0 {
			all.WriteByte('\n')
		}
		referred = reference
		all.WriteString(text)
	}
	return all.String(), nil
}

func readCalls(v value) (calls []chat.ToolCall, e *Error) {
	items, e := v.list()
	if e != nil {
		return nil, e
	}
	for _, item := range items {
		var c chat.ToolCall
		e := item.object(map[string]func(value) *Error{
			"id":    func(v value) (e *Error) { c.ID, e = v.text(); return },
			"index": func(value) *Error { return nil },
			"type": func(v value) *Error {
				_, err := v.oneOf("function")
				return err
			},
			"function": func(v value) *Error {
				return v.object(map[string]func(value) *Error{
					"name":      func(v value) (e *Error) { c.Name, e = v.text(); return },
					"index":     func(value) *Error { return nil },
					"arguments": func(v value) (e *Error) { c.Arguments, e = readArguments(v); return },
				})
			},
		})
		if e != nil {
			return nil, e
		}
		if c.Name == "" {
			return nil, badField(item.path+".function.name", "missing")
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// readArguments reads the arguments of a call: JSON text in a string, as OpenAI has it, or the object itself, as
// Ollama.
func readArguments(v value) (string, *Error) {
	if v.isObject() {
		return string(v.raw), nil
	}
	s, err := v.text()
	if err != nil {
		return "", v.bad("must be a string with a JSON object, or the object")
	}
	return s, nil
}

func readKwargs(r *request, v value) *Error {
	if !v.isObject() {
		return v.bad("must be an object")
	}
	x, err := v.any()
	if err != nil {
		return err
	}
	for name, y := range x.(map[string]any) {
		r.setKwarg(name, y)
	}
	return nil
}

func (r *conversation) setKwarg(name string, x any) {
	if r.kwargs == nil {
		r.kwargs = map[string]any{}
	}
	r.kwargs[name] = x
}

// readEffort reads how much the model is to reason: templates know the variable, or none alone, by another name.
func readEffort(r *request, v value) *Error {
	s, err := v.text()
	r.setKwarg("reasoning_effort", s)
	if _, given := r.kwargs["enable_thinking"]; s == "none" && !given {
		r.setKwarg("enable_thinking", false)
	}
	return err
}

func readThink(r *request, v value) *Error {
	if s, err := v.text(); err == nil {
		if s != "low" && s != "medium" && s != "high" {
			return v.bad(`must be true, false, "low", "medium" or "high"`)
		}
		r.setKwarg("reasoning_effort", s)
		r.think = true
	} else if r.think, err = v.boolean(); err != nil {
		return v.bad(`must be true, false, "low", "medium" or "high"`)
	}
	r.thinkGiven = true
	r.setKwarg("enable_thinking", r.think)
	return nil
}
