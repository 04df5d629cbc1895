package serve

import (
	"encoding/json"
	"slices"

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
	kind, mode, some := "", "", value{}
	name := func(v value) (e *Error) { r.choice.Name, e = v.text(); return }
	several := map[string]func(value) *Error{
		"mode":  func(v value) (e *Error) { mode, e = v.oneOf("auto", "required"); return },
		"tools": func(v value) *Error { some = v; return nil },
	}
	err := v.object(map[string]func(value) *Error{
		"type":          func(v value) (e *Error) { kind, e = v.oneOf("function", typeAllowed); return },
		"name":          name, // of /v1/responses
		"function":      func(v value) *Error { return v.object(map[string]func(value) *Error{"name": name}) },
		"mode":          several["mode"], // of /v1/responses
		"tools":         several["tools"],
		"allowed_tools": func(v value) *Error { return v.object(several) },
	})
	allowed := kind == typeAllowed
	switch {
	case err != nil:
		return err
	case allowed != (mode != "") || allowed != (some.raw != nil) || allowed != (r.choice.Name == ""):
		return v.bad("must be a function with its name, or allowed_tools with mode and tools")
	}
	if r.choice.Mode = spec.CallRequired; !allowed {
		return nil
	}
	if mode == "auto" {
		r.choice.Mode = spec.CallAuto
	}
	r.allowed.given = v.raw
	return r.readAllowed(some)
}

// typeAllowed is the type of a tool_choice that names several tools.
const typeAllowed = "allowed_tools"

// readAllowed reads the tools that may be called, in the form of either API. Those of other types than function are
// left out, as in tools.
func (r *conversation) readAllowed(v value) *Error {
	items, err := v.list()
	switch {
	case err != nil:
		return err
	case len(items) == 0:
		return v.bad("names no tool")
	case len(items) > maxTools:
		return v.bad("more than %d tools", maxTools)
	}
	for _, item := range items {
		if other, err := otherTool(item); other || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		at := value{}
		name := func(v value) *Error { at = v; return nil }
		err := item.object(map[string]func(value) *Error{
			"type":     func(value) *Error { return nil },
			"name":     name,
			"function": func(v value) *Error { return v.object(map[string]func(value) *Error{"name": name}) },
		})
		if err != nil {
			return err
		}
		if at.raw == nil {
			return item.bad("names no function")
		}
		s, err := at.text()
		if err != nil {
			return err
		}
		r.allowed.names = append(r.allowed.names, s)
		r.named = append(r.named, namedTool{at.path, s})
	}
	return nil
}

// offered are the tools that the answer may call.
func (r *conversation) offered() []tool {
	if r.allowed.given == nil {
		return r.tools
	}
	var list []tool
	for _, t := range r.tools {
		if slices.Contains(r.allowed.names, t.Name) {
			list = append(list, t)
		}
	}
	return list
}

// checkNamed refuses names of tools that are not there.
func (r *conversation) checkNamed() *Error {
	known := make(map[string]bool, len(r.tools))
	for _, t := range r.tools {
		known[t.Name] = true
	}
	for _, n := range r.named {
		if !known[n.name] {
			return badField(n.field, "there is no tool %.128q", n.name)
		}
	}
	return nil
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
