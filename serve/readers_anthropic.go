package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"github.com/specgo/spec"
	"github.com/specgo/spec/chat"
)

// readSystem reads Anthropic's system message: a text, or parts of type text.
func readSystem(r *request, v value) (e *Error) {
	r.instructions, e = readContent(v, blockText)
	return e
}

// readAnthropicMessages reads a conversation of Anthropic's API: each message holds blocks, of which results of tools
// become messages of their own, in front of the text that they stand with.
func readAnthropicMessages(r *request, v value) *Error {
	items, err := v.list()
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return v.bad("must have at least one message")
	}
	called := map[string]string{} // the tools that calls asked for, by the calls' ids
	for _, item := range items {
		var content value
		role := ""
		err := item.object(map[string]func(value) *Error{
			"role":    func(v value) (e *Error) { role, e = v.oneOf("user", "assistant", "system"); return },
			"content": func(v value) *Error { content = v; return nil },
		})
		switch {
		case err != nil:
			return err
		case role == "":
			return badField(item.path+".role", "missing")
		case content.raw == nil:
			return badField(item.path+".content", "missing")
		}
		if content.raw[0] == '"' {
			text, err := content.text()
			if err != nil {
				return err
			}
			r.messages = append(r.messages, chat.Message{Role: role, Content: text})
			continue
		}
		if err := r.readBlocks(role, content, called); err != nil {
			return err
		}
	}
	return nil
}

// readBlocks adds the messages that the blocks of one stand for. called has the tools that calls asked for, by the
// calls' ids; the first call of an id counts.
func (r *conversation) readBlocks(role string, v value, called map[string]string) *Error {
	blocks, err := v.list()
	if err != nil {
		return v.bad("must be a string or an array of blocks")
	}
	m := chat.Message{Role: role}
	var content, reasoning strings.Builder
	given := len(blocks) == 0
	for _, item := range blocks {
		b, err := readBlock(item)
		if err != nil {
			return err
		}
		switch b.kind {
		case blockText:
			content.WriteString(b.text)
		case blockThinking:
			reasoning.WriteString(b.text)
		case blockCall:
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: b.id, Name: b.name, Arguments: cmp.Or(b.input, "{}")})
			if _, ok := called[b.id]; !ok {
				called[b.id] = b.name
			}
		case "tool_result":
			r.named = append(r.named, b.refers...)
			r.messages = append(r.messages, chat.Message{Role: "tool", Content: b.text, ToolCallID: b.id, Name: called[b.id]})
			continue
		}
		given = given || b.kind != "redacted_thinking"
	}
	if m.Content, m.Reasoning = content.String(), reasoning.String(); given {
		r.messages = append(r.messages, m)
	}
	return nil
}

// block is a block of a message's content.
type block struct {
	kind, text, id, name, input string
	refers                      []namedTool // of a tool_result: the tools that it speaks of
}

func readBlock(v value) (b block, e *Error) {
	given := "" // text or thinking
	text := func(p *string) func(value) *Error {
		return func(v value) (e *Error) { *p, e = v.text(); return }
	}
	said := func(kind string) func(value) *Error {
		return func(v value) (e *Error) { given = kind; b.text, e = v.text(); return }
	}
	ignore := func(value) *Error { return nil }
	e = v.object(map[string]func(value) *Error{
		"type": func(v value) (e *Error) {
			b.kind, e = v.oneOf(blockText, blockThinking, "redacted_thinking", blockCall, "tool_result", "image", "document")
			if b.kind == "image" || b.kind == "document" {
				e = v.bad("only text is supported; %s input is not supported by this model", b.kind)
			}
			return
		},
		"text": said(blockText), "thinking": said(blockThinking), "id": text(&b.id), "tool_use_id": text(&b.id),
		"name": text(&b.name),
		"input": func(v value) *Error {
			if b.input = string(v.raw); !v.isObject() {
				return v.bad("must be an object")
			}
			return nil
		},
		"content": func(v value) (e *Error) {
			refer := func(n namedTool) { b.refers = append(b.refers, n) }
			b.text, e = readPartsOf(v, refer, blockText, blockReference)
			return
		},
		"caller": func(v value) *Error {
			return v.object(map[string]func(value) *Error{
				"type": func(v value) *Error { _, err := v.oneOf("direct"); return err }, // no program calls tools here
			})
		},
		"source":        ignore, // of what is refused by its type
		"cache_control": ignore, // prompts that begin alike share what is computed without it
		"citations":     ignore,
		"signature":     ignore, // nothing is signed here
		"data":          ignore,
		"is_error":      func(v value) *Error { _, err := v.boolean(); return err }, // the content says so
	})
	switch {
	case e != nil:
	case b.kind == "":
		e = badField(v.path+".type", "missing")
	case (b.kind == blockText || b.kind == blockThinking) && given != b.kind:
		e = badField(v.path+"."+b.kind, "missing")
	case b.kind == blockCall && b.name == "":
		e = badField(v.path+".name", "missing")
	case (b.kind == blockCall || b.kind == "tool_result") && b.id == "":
		e = badField(v.path+".id", "missing")
	}
	return b, e
}

// readContextManagement reads how Anthropic's servers are to shorten a conversation, once it is long. The conversation
// stays as it is here, and the answer tells which edits were applied.
func readContextManagement(r *request, v value) *Error {
	r.edits = true
	return v.object(map[string]func(value) *Error{
		"edits": func(v value) *Error {
			items, err := v.list()
			for _, item := range items {
				if !item.isObject() {
					return item.bad("must be an object")
				}
			}
			return err
		},
	})
}

// readAnthropicTools reads tools in Anthropic's form. Those that its servers run have a type of their own.
func readAnthropicTools(r *request, v value) *Error {
	return r.readTools(v, func(t *tool, item value) *Error {
		examples := ""
		err := item.object(map[string]func(value) *Error{
			"type":          func(v value) *Error { _, err := v.oneOf("custom"); return err },
			"name":          func(v value) (e *Error) { t.Name, e = v.text(); return },
			"description":   func(v value) (e *Error) { t.Description, e = v.text(); return },
			"input_schema":  func(v value) *Error { t.Parameters = v.raw; return nil },
			"strict":        func(v value) (e *Error) { t.Strict, e = v.boolean(); return },
			"cache_control": func(value) *Error { return nil },
			// all tools are told from the beginning, and arguments come as they are written
			"defer_loading":         func(v value) *Error { _, err := v.boolean(); return err },
			"eager_input_streaming": func(v value) *Error { _, err := v.boolean(); return err },
			"allowed_callers":       readCallers,
			"input_examples":        func(v value) (e *Error) { examples, e = readExamples(v); return },
		})
		if err == nil && t.Parameters == nil {
			err = badField(item.path+".input_schema", "missing")
		}
		if examples != "" {
			t.Description = strings.TrimPrefix(t.Description+"\n\n"+examples, "\n\n")
		}
		t.JSON = nil // templates get OpenAI's form
		return err
	})
}

// readExamples reads examples of a tool's input. Templates have no place for them: they are told behind the tool's
// description, each on a line of its own.
func readExamples(v value) (string, *Error) {
	items, err := v.list()
	if err != nil || len(items) == 0 {
		return "", err
	}
	var text bytes.Buffer
	text.WriteString("Examples of the input:")
	for _, item := range items {
		if !item.isObject() {
			return "", item.bad("must be an object")
		}
		text.WriteByte('\n')
		if json.Compact(&text, item.raw) != nil {
			return "", item.bad("not JSON")
		}
	}
	return text.String(), nil
}

// readCallers reads who may call a tool: the model, and no program that a server runs.
func readCallers(v value) *Error {
	items, err := v.list()
	for _, item := range items {
		if _, err := item.oneOf("direct"); err != nil {
			return err
		}
	}
	return err
}

// readAnthropicChoice reads whether tools are called.
func readAnthropicChoice(r *request, v value) *Error {
	kind, one := "", false
	err := v.object(map[string]func(value) *Error{
		"type": func(v value) (e *Error) { kind, e = v.oneOf("auto", "any", "tool", "none"); return },
		"name": func(v value) (e *Error) { r.choice.Name, e = v.text(); return },
		"disable_parallel_tool_use": func(v value) (e *Error) {
			one, e = v.boolean()
			r.single = one
			return
		},
	})
	switch kind {
	case "any", "tool":
		r.choice.Mode = spec.CallRequired
	case "none":
		r.choice.Mode = spec.CallNone
	}
	switch {
	case err != nil:
	case kind == "":
		err = badField(v.path+".type", "missing")
	case (kind == "tool") != (r.choice.Name != ""):
		err = v.bad("a name belongs to the type tool")
	}
	return err
}

// readThinking reads whether the model is to reason, and for how many tokens. As with Anthropic's models the budget is
// no bound that a request depends on: it holds where the reasoning has a mark that ends it and nothing else constrains
// the answer.
func readThinking(r *request, v value) *Error {
	kind, budget := "", int64(0)
	err := v.object(map[string]func(value) *Error{
		"type":          func(v value) (e *Error) { kind, e = v.oneOf("enabled", "disabled", "adaptive"); return },
		"budget_tokens": func(v value) (e *Error) { budget, e = v.whole(1, anyNumber); return },
		"display":       func(value) *Error { return nil },
	})
	if err == nil && kind == "" {
		err = badField(v.path+".type", "missing")
	}
	r.setKwarg("enable_thinking", kind != "disabled")
	if kind == "enabled" {
		r.budget, r.softBudget = int(min(budget, math.MaxInt32)), true
	}
	return err
}

// readOutputConfig reads Anthropic's output_config: how much effort, and a schema.
func readOutputConfig(r *request, v value) *Error {
	return v.object(map[string]func(value) *Error{
		"effort": func(v value) *Error {
			s, err := v.text()
			r.setKwarg("reasoning_effort", s)
			return err
		},
		"format": func(v value) *Error { return readOutputFormat(r, v) },
	})
}

// readOutputFormat reads the schema of an answer, which also has a field of its own.
func readOutputFormat(r *request, v value) *Error {
	kind, schema := "", json.RawMessage(nil)
	err := v.object(map[string]func(value) *Error{
		"type":   func(v value) (e *Error) { kind, e = v.oneOf("json_schema"); return },
		"schema": func(v value) *Error { schema = v.raw; return nil },
	})
	if err == nil && (kind == "" || schema == nil) {
		err = v.bad("must have type and schema")
	}
	if err != nil {
		return err
	}
	return r.setConstraint(spec.Constraint{Kind: spec.JSONSchema, Source: schema, Field: v.path + ".schema"})
}
