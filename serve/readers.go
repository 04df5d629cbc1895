package serve

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/specgo/spec/chat"
)

// Readers of fields: each puts one field's value into the request.

func onlyText(want string) func(*request, value) *Error {
	return func(_ *request, v value) *Error {
		if s, err := v.text(); err != nil || s != want {
			return v.bad("only %q is supported", want)
		}
		return nil
	}
}

func onlyNumber(want float64) func(*request, value) *Error {
	return func(_ *request, v value) *Error {
		if x, err := v.float(); err != nil || x != want {
			return v.bad("only %v is supported", want)
		}
		return nil
	}
}

func onlyFalse(_ *request, v value) *Error { return onlyBool(v, false) }
func onlyTrue(_ *request, v value) *Error  { return onlyBool(v, true) }

func onlyBool(v value, want bool) *Error {
	if b, err := v.boolean(); err != nil || b != want {
		return v.bad("only %v is supported", want)
	}
	return nil
}

func onlyEmptyList(_ *request, v value) *Error {
	if list, err := v.list(); err != nil || len(list) > 0 {
		return v.bad("only an empty array is supported")
	}
	return nil
}

func readModalities(_ *request, v value) *Error {
	list, err := v.texts()
	if err != nil {
		return err
	}
	for _, s := range list {
		if s != "text" {
			return v.bad("only text is supported")
		}
	}
	return nil
}

func readMessages(r *request, v value) *Error {
	items, err := v.list()
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return v.bad("must have at least one message")
	}
	for _, item := range items {
		m, err := readMessage(item)
		if err != nil {
			return err
		}
		r.messages = append(r.messages, m)
	}
	return nil
}

// readMessage reads one message of a conversation, in OpenAI's form or Ollama's.
func readMessage(v value) (m chat.Message, e *Error) {
	text := func(p *string) func(value) *Error {
		return func(v value) (e *Error) { *p, e = v.text(); return }
	}
	content := func(v value) (e *Error) { m.Content, e = readContent(v, "text"); return }
	ignore := func(value) *Error { return nil }
	e = v.object(map[string]func(value) *Error{
		"role":              text(&m.Role),
		"content":           content,
		"reasoning_content": text(&m.Reasoning),
		"thinking":          text(&m.Reasoning), // Ollama's name
		"tool_call_id":      text(&m.ToolCallID),
		"name":              text(&m.Name),
		"tool_name":         text(&m.Name), // Ollama's name
		"tool_calls":        func(v value) (e *Error) { m.ToolCalls, e = readCalls(v); return },
		"images":            func(v value) *Error { return onlyEmptyList(nil, v) },
		"refusal":           ignore, // answers of this server never have one
		"annotations":       ignore,
		"audio":             func(v value) *Error { return v.bad("only text is supported") },
	})
	if e == nil && m.Role == "" {
		e = badField(v.path+".role", "missing")
	}
	return m, e
}

// readContent reads a text, or a list of parts of the given types, whose texts are joined.
func readContent(v value, types ...string) (string, *Error) {
	if len(v.raw) > 0 && v.raw[0] == '"' {
		return v.text()
	}
	items, err := v.list()
	if err != nil {
		return "", v.bad("must be a string or an array of parts")
	}
	all := ""
	for _, item := range items {
		kind, text, given := "", "", false
		err := item.object(map[string]func(value) *Error{
			"type":        func(v value) (e *Error) { kind, e = v.oneOf(types...); return },
			"text":        func(v value) (e *Error) { text, e = v.text(); given = true; return },
			"annotations": func(value) *Error { return nil },
			"logprobs":    func(value) *Error { return nil },
		})
		if err != nil {
			return "", err
		}
		if kind == "" || !given {
			return "", item.bad("must have type and text")
		}
		all += text
	}
	return all, nil
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

// readArguments reads the arguments of a call: JSON text in a string, as OpenAI has it, or the object itself, as Ollama.
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

// toolName is the form of functions' names, as in OpenAI's API.
func toolName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

func readTools(r *request, v value) *Error {
	return r.readTools(v, func(t *tool, item value) *Error {
		kind := ""
		err := item.object(map[string]func(value) *Error{
			"type":     func(v value) (e *Error) { kind, e = v.oneOf("function"); return },
			"function": func(v value) *Error { return v.object(t.readers()) },
		})
		if err == nil && kind == "" {
			err = badField(item.path+".type", "missing")
		}
		return err
	})
}

// readFlatTools reads tools as /v1/responses has them: the function's fields beside its type.
func readFlatTools(r *request, v value) *Error {
	return r.readTools(v, func(t *tool, item value) *Error {
		readers := t.readers()
		readers["type"] = func(v value) *Error {
			_, err := v.oneOf("function")
			return err
		}
		return item.object(readers)
	})
}

// readers are those of a function.
func (t *tool) readers() map[string]func(value) *Error {
	return map[string]func(value) *Error{
		"name":        func(v value) (e *Error) { t.name, e = v.text(); return },
		"description": func(v value) *Error { _, err := v.text(); return err },
		"strict":      func(v value) (e *Error) { t.strict, e = v.boolean(); return },
		"parameters": func(v value) *Error {
			if !v.isObject() {
				return v.bad("must be a JSON Schema")
			}
			t.parameters = v.raw
			return nil
		},
	}
}

func (r *request) readTools(v value, read func(*tool, value) *Error) *Error {
	items, err := v.list()
	if err != nil {
		return err
	}
	if len(items) > maxTools {
		return v.bad("more than %d tools", maxTools)
	}
	for _, item := range items {
		t := tool{raw: item.raw, given: item.raw}
		if err := read(&t, item); err != nil {
			return err
		}
		if !toolName(t.name) {
			return badField(item.path, "the function's name must have 1 to 128 letters, digits, dots, underscores or hyphens")
		}
		r.tools = append(r.tools, t)
	}
	return nil
}

func readToolChoice(r *request, v value) *Error {
	if !v.isObject() {
		mode, err := v.oneOf("auto", "none", "required")
		r.choice.mode = mode
		return err
	}
	name := func(v value) (e *Error) { r.choice.name, e = v.text(); return }
	r.choice.mode = "required"
	err := v.object(map[string]func(value) *Error{
		"type":     func(v value) *Error { _, err := v.oneOf("function"); return err },
		"name":     name, // of /v1/responses
		"function": func(v value) *Error { return v.object(map[string]func(value) *Error{"name": name}) },
	})
	if err == nil && r.choice.name == "" {
		err = v.bad("names no function")
	}
	return err
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

func (r *request) setKwarg(name string, x any) {
	if r.kwargs == nil {
		r.kwargs = map[string]any{}
	}
	r.kwargs[name] = x
}

func readPrompt(r *request, v value) *Error {
	s, err := v.text()
	r.prompts = []prompt{{text: s}}
	return err
}

// readPrompts reads a prompt or several: texts, arrays of ids, or one array of ids.
func readPrompts(r *request, v value) *Error {
	if len(v.raw) > 0 && v.raw[0] == '"' {
		return readPrompt(r, v)
	}
	items, err := v.list()
	if err != nil {
		return v.bad("must be a string, token ids, or an array of one of them")
	}
	if len(items) == 0 {
		return v.bad("must not be empty")
	}
	if c := items[0].raw[0]; c != '"' && c != '[' {
		ids, err := v.ids()
		r.prompts = []prompt{{ids: ids, given: true}}
		return err
	}
	if len(items) > maxChoices {
		return v.bad("more than %d prompts", maxChoices)
	}
	for _, item := range items {
		if item.raw[0] == '"' {
			s, err := item.text()
			if err != nil {
				return err
			}
			r.prompts = append(r.prompts, prompt{text: s})
			continue
		}
		ids, err := item.ids()
		if err != nil {
			return err
		}
		r.prompts = append(r.prompts, prompt{ids: ids, given: true})
	}
	return nil
}

// maxInputs is the most texts to embed in one request, as in OpenAI's API.
const maxInputs = 2048

func readInputs(r *request, v value) *Error {
	if items, err := v.list(); err == nil && len(items) > maxChoices && len(items) <= maxInputs && items[0].raw[0] == '"' {
		for _, item := range items {
			s, err := item.text()
			if err != nil {
				return err
			}
			r.prompts = append(r.prompts, prompt{text: s})
		}
		return nil
	}
	return readPrompts(r, v)
}

func readDimensions(r *request, v value) *Error {
	n, err := v.whole(1, anyNumber)
	r.dims = int(n)
	return err
}

func readStreamOptions(r *request, v value) *Error {
	return v.object(map[string]func(value) *Error{
		"include_usage":       func(v value) (e *Error) { r.wantUsage, e = v.boolean(); return },
		"include_obfuscation": func(value) *Error { return nil }, // there is none
	})
}

func readStop(r *request, v value) *Error {
	stops, err := v.texts()
	if err != nil {
		return err
	}
	if len(stops) > maxStops {
		return v.bad("more than %d texts", maxStops)
	}
	for _, s := range stops {
		if s == "" || len(s) > maxStopText {
			return v.bad("a text must have 1 to %d bytes", maxStopText)
		}
	}
	r.stop = stops
	return nil
}

// readBias reads {"id": x}, or llama.cpp's [[id, x], …]; an x of false bans the token.
func readBias(r *request, v value) *Error {
	set := func(id int64, x value) *Error {
		if string(x.raw) == "false" {
			r.bans = append(r.bans, int32(id))
			return nil
		}
		bias, err := x.number(-maxSampling, maxSampling)
		if err != nil {
			return err
		}
		if r.sampling.LogitBias == nil {
			r.sampling.LogitBias = map[int32]float32{}
		}
		r.sampling.LogitBias[int32(id)] = bias
		return nil
	}
	r.sampling.LogitBias = nil
	if v.isObject() {
		members, err := split(v.path, v.raw)
		if err != nil {
			return err
		}
		for _, m := range members {
			at := value{join(v.path, m.name), m.raw}
			id, e := strconv.ParseInt(m.name, 10, 32)
			if e != nil || id < 0 {
				return at.bad("the name must be a token id")
			}
			if err := set(id, at); err != nil {
				return err
			}
		}
		return nil
	}
	items, err := v.list()
	if err != nil {
		return v.bad("must be an object of token ids and numbers")
	}
	for _, item := range items {
		pair, err := item.list()
		if err != nil || len(pair) != 2 {
			return item.bad("must be a pair of a token id and a number")
		}
		id, err := pair[0].whole(0, math.MaxInt32)
		if err != nil {
			return err
		}
		if err := set(id, pair[1]); err != nil {
			return err
		}
	}
	return nil
}

func readResponseFormat(r *request, v value) *Error {
	kind, schema := "", value{}
	var wrapped value
	err := v.object(map[string]func(value) *Error{
		"type":        func(v value) (e *Error) { kind, e = v.oneOf("text", "json_object", "json_schema"); return },
		"json_schema": func(v value) *Error { wrapped = v; return nil },
		"schema":      func(v value) *Error { schema = v; return nil }, // llama.cpp's place
	})
	if err != nil {
		return err
	}
	if wrapped.raw != nil {
		if err := wrapped.object(schemaReaders(&schema)); err != nil {
			return err
		}
	}
	return r.setFormat(v, kind, schema)
}

// schemaReaders read the object in which OpenAI's API wraps a schema.
func schemaReaders(schema *value) map[string]func(value) *Error {
	return map[string]func(value) *Error{
		"name":        func(v value) *Error { _, err := v.text(); return err },
		"description": func(v value) *Error { _, err := v.text(); return err },
		"strict":      func(v value) *Error { _, err := v.boolean(); return err }, // schemas are always enforced
		"schema":      func(v value) *Error { *schema = v; return nil },
	}
}

func (r *request) setFormat(v value, kind string, schema value) *Error {
	switch {
	case kind == "":
		return badField(v.path+".type", "missing")
	case kind == "text" && schema.raw != nil:
		return badField(schema.path, "a schema, and type is text")
	case kind == "text":
		return nil
	case schema.raw != nil:
		return r.setConstraint(constraintSource{"schema", schema.raw, schema.path})
	case kind == "json_schema":
		return v.bad("has no schema")
	}
	return r.setConstraint(constraintSource{"json", nil, v.path})
}

func readGrammar(r *request, v value) *Error {
	s, err := v.text()
	if err != nil || s == "" {
		return err
	}
	return r.setConstraint(constraintSource{"gbnf", []byte(s), v.path})
}

func readSchema(r *request, v value) *Error {
	return r.setConstraint(constraintSource{"schema", v.raw, v.path})
}

func readSpeculation(r *request, v value) *Error {
	s := &r.spec
	return v.object(map[string]func(value) *Error{
		"drafter":  func(v value) (e *Error) { s.Drafter, e = v.oneOf(drafterNames...); return },
		"schedule": func(v value) (e *Error) { s.Schedule, e = v.oneOf(scheduleNames...); return },
		"verify":   func(v value) (e *Error) { s.Verify, e = v.oneOf(verifierNames...); return },
		"max": func(v value) *Error {
			n, err := v.whole(1, MaxDraft)
			s.Max = int(n)
			return err
		},
		"min": func(v value) *Error {
			n, err := v.whole(0, MaxDraft)
			s.Min = int(n)
			return err
		},
		"off":   func(v value) (e *Error) { s.Off, e = v.boolean(); return },
		"trace": func(v value) (e *Error) { r.trace, e = v.boolean(); return },
	})
}

func readOllamaFormat(r *request, v value) *Error {
	if v.isObject() {
		return r.setConstraint(constraintSource{"schema", v.raw, v.path})
	}
	s, err := v.text()
	if err != nil || s != "json" && s != "" {
		return v.bad(`must be "json" or a JSON Schema`)
	}
	if s == "" {
		return nil
	}
	return r.setConstraint(constraintSource{"json", nil, v.path})
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

func readOllamaOptions(r *request, v value) *Error {
	if !v.isObject() {
		return v.bad("must be an object")
	}
	return r.tables.read(formOllamaOptions, r, v)
}

func readReasoning(r *request, v value) *Error {
	return v.object(map[string]func(value) *Error{
		"effort": func(v value) *Error {
			s, err := v.text()
			r.setKwarg("reasoning_effort", s)
			return err
		},
		"summary": func(v value) *Error { _, err := v.text(); return err },
	})
}

func readResponsesText(r *request, v value) *Error {
	return v.object(map[string]func(value) *Error{
		"verbosity": func(v value) *Error { return onlyText("medium")(r, v) },
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
	var kind, role, content, id, name, arguments, output string
	hasContent := false
	err := item.object(map[string]func(value) *Error{
		"type": func(v value) (e *Error) {
			kind, e = v.oneOf("message", "function_call", "function_call_output")
			return
		},
		"role": func(v value) (e *Error) { role, e = v.oneOf("user", "assistant", "system", "developer"); return },
		"content": func(v value) (e *Error) {
			content, e = readContent(v, "input_text", "output_text", "text")
			hasContent = true
			return
		},
		"call_id":   func(v value) (e *Error) { id, e = v.text(); return },
		"name":      func(v value) (e *Error) { name, e = v.text(); return },
		"arguments": func(v value) (e *Error) { arguments, e = v.text(); return },
		"output":    func(v value) (e *Error) { output, e = readContent(v, "input_text", "output_text", "text"); return },
		"id":        func(value) *Error { return nil },
		"status":    func(value) *Error { return nil },
		"phase":     func(value) *Error { return nil },
	})
	switch {
	case err != nil:
		return err
	case kind == "function_call" && name == "":
		return badField(item.path+".name", "missing")
	case kind == "function_call":
		call := chat.ToolCall{ID: id, Name: name, Arguments: arguments}
		if n := len(r.messages) - 1; n >= 0 && r.messages[n].Role == "assistant" {
			r.messages[n].ToolCalls = append(r.messages[n].ToolCalls, call)
			return nil
		}
		r.messages = append(r.messages, chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{call}})
	case kind == "function_call_output":
		r.messages = append(r.messages, chat.Message{Role: "tool", Content: output, ToolCallID: id})
	case role == "":
		return badField(item.path+".role", "missing")
	case !hasContent:
		return badField(item.path+".content", "missing")
	default:
		r.messages = append(r.messages, chat.Message{Role: role, Content: content})
	}
	return nil
}

// flatten makes the form of tools that templates expect of the flat one.
func (t *tool) flatten() {
	var flat map[string]json.RawMessage
	if json.Unmarshal(t.raw, &flat) != nil || flat["function"] != nil {
		return
	}
	delete(flat, "type")
	function, err := json.Marshal(flat)
	if err == nil {
		t.raw = append(append([]byte(`{"type":"function","function":`), function...), '}')
	}
}
