package serve

import (
	"cmp"

	"github.com/specgo/spec/chat"
)

func readReasoning(r *request, v value) *Error {
	return v.object(map[string]func(value) *Error{
		"effort":  func(v value) *Error { return readEffort(r, v) },
		"summary": func(v value) *Error { _, err := v.text(); return err },
	})
}

// readInclude reads what the answer is to have besides: nothing of it is here, and of log-probabilities clients would
// miss it.
func readInclude(_ *request, v value) *Error {
	items, err := v.list()
	if err != nil {
		return err
	}
	for _, item := range items {
		s, err := item.text()
		if err != nil {
			return err
		}
		if s == "message.output_text.logprobs" {
			return item.bad("log-probabilities are answered by /v1/chat/completions and /v1/completions alone")
		}
	}
	return nil
}

func readResponsesText(r *request, v value) *Error {
	return v.object(map[string]func(value) *Error{
		"verbosity": func(v value) *Error { _, err := v.text(); return err }, // templates know none
		"format": func(v value) *Error {
			kind, schema := "", value{}
			readers := schemaReaders(&schema)
			readers["type"] = func(v value) (e *Error) {
				kind, e = v.oneOf("text", "json_object", "json_schema")
				return
			}
			if err := v.object(readers); err != nil {
				return err
			}
			return r.setFormat(v, kind, schema)
		},
	})
}

// readResponsesInput reads what /v1/responses answers: a text of the user, or items of a conversation.
func readResponsesInput(r *request, v value) *Error {
	if len(v.raw) > 0 && v.raw[0] == '"' {
		s, err := v.text()
		r.messages = []chat.Message{{Role: "user", Content: s}}
		return err
	}
	items, err := v.list()
	if err != nil {
		return v.bad("must be a string or an array of items")
	}
	for _, item := range items {
		if err := r.readItem(item); err != nil {
			return err
		}
	}
	return nil
}

// readItem reads an item of a conversation and adds it to the messages.
func (r *request) readItem(item value) *Error {
	var kind, role, id, name, arguments, output, summary string
	var given value // content
	produced := false
	err := item.object(map[string]func(value) *Error{
		"type": func(v value) (e *Error) {
			if s, err := v.text(); err == nil && s == "item_reference" {
				return v.bad("an item_reference names an item of a stored answer, and nothing is stored: send the item itself")
			}
			kind, e = v.oneOf(itemMessage, itemReasoning, itemCall, itemOutput)
			return
		},
		"role": func(v value) (e *Error) {
			role, e = v.oneOf("user", "assistant", "system", "developer")
			return
		},
		"content":           func(v value) *Error { given = v; return nil },
		"encrypted_content": func(v value) *Error { return v.bad("this server encrypts nothing") },
		"summary":           func(v value) (e *Error) { summary, e = readContent(v, "summary_text"); return },
		"call_id":           func(v value) (e *Error) { id, e = v.text(); return },
		"name":              func(v value) (e *Error) { name, e = v.text(); return },
		"arguments":         func(v value) (e *Error) { arguments, e = v.text(); return },
		"output": func(v value) (e *Error) {
			output, e = readContent(v, "input_text", "output_text", "text")
			produced = true
			return
		},
		"id":     func(value) *Error { return nil },
		"status": func(value) *Error { return nil },
		"phase":  func(value) *Error { return nil },
	})
	content, parts := "", []string{"input_text", "output_text", "text"}
	if kind == itemReasoning {
		parts = []string{partReasoning}
	}
	if err == nil && given.raw != nil {
		content, err = readContent(given, parts...)
	}
	switch {
	case err != nil:
		return err
	// that of the message or the calls that follow; where there is no more than a summary, the summary
	case kind == itemReasoning:
		if text := cmp.Or(content, summary); text != "" {
			r.messages = append(r.messages, chat.Message{Role: "assistant", Reasoning: text})
		}
	case summary != "":
		return badField(item.path+".summary", "only items of type reasoning have one")
	case (kind == itemCall || kind == itemOutput) && id == "":
		return badField(item.path+".call_id", "missing")
	case kind == itemOutput && !produced:
		return badField(item.path+".output", "missing")
	case kind == itemCall && name == "":
		return badField(item.path+".name", "missing")
	case kind == itemCall:
		call := chat.ToolCall{ID: id, Name: name, Arguments: arguments}
		if n := len(r.messages) - 1; n >= 0 && r.messages[n].Role == "assistant" {
			r.messages[n].ToolCalls = append(r.messages[n].ToolCalls, call)
			return nil
		}
		r.messages = append(r.messages, chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{call}})
	case kind == itemOutput:
		r.messages = append(r.messages, chat.Message{Role: "tool", Content: output, ToolCallID: id})
	case role == "":
		return badField(item.path+".role", "missing")
	case given.raw == nil:
		return badField(item.path+".content", "missing")
	case role == "assistant" && r.reasoned():
		r.messages[len(r.messages)-1].Content = content
	default:
		r.messages = append(r.messages, chat.Message{Role: role, Content: content})
	}
	return nil
}

// reasoned reports whether the conversation so far ends with reasoning, to which what the assistant says next belongs.
func (r *conversation) reasoned() bool {
	n := len(r.messages) - 1
	return n >= 0 && r.messages[n].Role == "assistant" && r.messages[n].Reasoning != "" && r.messages[n].Content == "" &&
		r.messages[n].ToolCalls == nil
}
