package serve

import (
	"encoding/json"

	"github.com/specgo/spec"
)

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

// readFlatTools reads tools as /v1/responses has them: the function's fields beside its type. Tools of other types,
// which OpenAI runs itself or only its own models know, are left out.
func readFlatTools(r *request, v value) *Error {
	return r.readTools(v, func(t *tool, item value) *Error {
		if other, err := otherTool(item); other || err != nil {
			t.leftOut = other
			return err
		}
		readers := t.readers()
		readers["type"] = func(v value) *Error {
			_, err := v.oneOf("function")
			return err
		}
		return item.object(readers)
	})
}

// otherTool reports whether a tool has a type, which is not function.
func otherTool(item value) (other bool, e *Error) {
	members, e := split(item.path, item.raw)
	for _, m := range members {
		if at := (value{join(item.path, m.name), m.raw}); m.name == "type" && !at.null() {
			kind, err := at.text()
			return kind != "function", err
		}
	}
	return false, e
}

// readers are those of a function.
func (t *tool) readers() map[string]func(value) *Error {
	return map[string]func(value) *Error{
		"name":        func(v value) (e *Error) { t.Name, e = v.text(); return },
		"description": func(v value) *Error { _, err := v.text(); return err },
		"strict":      func(v value) (e *Error) { t.Strict, e = v.boolean(); return },
		"parameters": func(v value) *Error {
			if !v.isObject() {
				return v.bad("must be a JSON Schema")
			}
			t.Parameters = v.raw
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
		t := tool{Tool: spec.Tool{JSON: item.raw}, given: item.raw}
		if err := read(&t, item); err != nil {
			return err
		}
		if t.leftOut {
			continue
		}
		if !toolName(t.Name) {
			return badField(item.path, "the function's name must have 1 to 128 letters, digits, dots, underscores or hyphens")
		}
		r.tools = append(r.tools, t)
	}
	return nil
}

func readToolChoice(r *request, v value) *Error {
	if !v.isObject() {
		mode, err := v.oneOf("auto", "none", "required")
		if r.choice.Mode = spec.ToolMode(mode); mode == "auto" {
			r.choice.Mode = spec.CallAuto
		}
		return err
	}
	name := func(v value) (e *Error) { r.choice.Name, e = v.text(); return }
	r.choice.Mode = spec.CallRequired
	err := v.object(map[string]func(value) *Error{
		"type":     func(v value) *Error { _, err := v.oneOf("function"); return err },
		"name":     name, // of /v1/responses
		"function": func(v value) *Error { return v.object(map[string]func(value) *Error{"name": name}) },
	})
	if err == nil && r.choice.Name == "" {
		err = v.bad("names no function")
	}
	return err
}

// flatten makes the form of tools that templates expect of the flat one.
func (t *tool) flatten() {
	var flat map[string]json.RawMessage
	if json.Unmarshal(t.JSON, &flat) != nil || flat["function"] != nil {
		return
	}
	delete(flat, "type")
	function, err := json.Marshal(flat)
	if err == nil {
		t.JSON = append(append([]byte(`{"type":"function","function":`), function...), '}')
	}
}
