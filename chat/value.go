package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/chat/internal/jinja"
)

// maxJSONDepth bounds how deeply values in conversations may nest.
const maxJSONDepth = 100

// knownRoles are the names of roles that count as the template's own text.
var knownRoles = []string{"system", "developer", "user", "assistant", "tool", "function", "ipython", "model", "context"}

// messageValue is the message as the template sees it. Fields that are not
// set are not there, but content always is.
func (t *Template) messageValue(m *Message, textArguments, typedContent bool) (*jinja.Dict, error) {
	origin := FromMessage
	if m.Role == "assistant" || m.Role == "model" {
		origin = FromAssistant
	}
	d := &jinja.Dict{}
	set := func(key string, v jinja.Value) { d.Set(jinja.NewText(key, FromTemplate), v) }
	text := func(s string) jinja.Value { return jinja.NewText(s, origin) }
	if slices.Contains(knownRoles, m.Role) {
		set("role", jinja.NewText(m.Role, FromTemplate))
	} else {
		set("role", jinja.NewText(m.Role, FromMessage))
	}
	set("content", text(m.Content))
	if typedContent {
		set("content", &jinja.List{Items: []jinja.Value{contentPart("text", text(m.Content))}})
	}
	if m.Reasoning != "" {
		t.setReasoning(m, set, text)
	}
	if len(m.ToolCalls) > 0 {
		var calls []jinja.Value
		for i, c := range m.ToolCalls {
			f, call := &jinja.Dict{}, &jinja.Dict{}
			f.Set(jinja.NewText("name", FromTemplate), text(c.Name))
			if raw := strings.TrimSpace(c.Arguments); raw == "" || raw == "null" { // of a function without any
				c.Arguments = "{}"
			}
			arguments := text(c.Arguments)
			if !textArguments && json.Valid([]byte(c.Arguments)) { // a model's own may be broken: they stay as they are
				var err error
				if arguments, err = jsonValue([]byte(c.Arguments), origin); err != nil {
					return nil, fmt.Errorf("tool call %d (%s): arguments: %w", i, c.Name, err)
				}
			}
			f.Set(jinja.NewText("arguments", FromTemplate), arguments)
			if c.ID != "" {
				call.Set(jinja.NewText("id", FromTemplate), text(c.ID))
			}
			call.Set(jinja.NewText("type", FromTemplate), jinja.NewText("function", FromTemplate))
			call.Set(jinja.NewText("function", FromTemplate), f)
			calls = append(calls, call)
		}
		set("tool_calls", &jinja.List{Items: calls})
	}
	if m.Name != "" {
		set("name", text(m.Name))
	}
	if m.ToolCallID != "" {
		set("tool_call_id", text(m.ToolCallID))
	}
	return d, nil
}

// contentPart is a part of a message's content, whose text has the name of its type.
func contentPart(kind string, text jinja.Value) *jinja.Dict {
	part := &jinja.Dict{}
	part.Set(jinja.NewText("type", FromTemplate), jinja.NewText(kind, FromTemplate))
	part.Set(jinja.NewText(kind, FromTemplate), text)
	return part
}

// thoughtNames are the other names of reasoning_content in templates, such as those of gpt-oss.
var thoughtNames = []string{"thinking", "reasoning"}

// setReasoning gives the template an assistant's reasoning.
func (t *Template) setReasoning(m *Message, set func(string, jinja.Value), text func(string) jinja.Value) {
	set("reasoning_content", text(m.Reasoning))
	switch t.thoughts {
	case thoughtsNamed:
		thought := m.Reasoning
		if t.format.Syntax == SyntaxHarmony && len(m.ToolCalls) > 0 && m.Content != "" { // its template refuses both
			thought += "\n\n" + m.Content
			set("content", text(""))
		}
		for _, name := range thoughtNames {
			set(name, text(thought))
		}
	case thoughtsPart:
		parts := []jinja.Value{contentPart("thinking", text(m.Reasoning))}
		if m.Content != "" {
			parts = append(parts, contentPart("text", text(m.Content)))
		}
		set("content", &jinja.List{Items: parts})
	}
}

// value converts a value of Conversation.Extra.
func value(v any, origin jinja.Origin, depth int) (jinja.Value, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("a value nested more than %d deep", maxJSONDepth)
	}
	switch v := v.(type) {
	case nil:
		return jinja.None{}, nil
	case bool:
		return v, nil
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case float64:
		return v, nil
	case string:
		return jinja.NewText(v, origin), nil
	case json.Number:
		return number(v)
	case json.RawMessage:
		return jsonValue(v, origin)
	case []any:
		l := &jinja.List{}
		for _, x := range v {
			y, err := value(x, origin, depth+1)
			if err != nil {
				return nil, err
			}
			l.Items = append(l.Items, y)
		}
		return l, nil
	case map[string]any:
		d := &jinja.Dict{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			y, err := value(v[k], origin, depth+1)
			if err != nil {
				return nil, err
			}
			d.Set(jinja.NewText(k, origin), y)
		}
		return d, nil
	}
	return otherValue(reflect.ValueOf(v), origin, depth)
}

// otherValue converts a value of another type by its kind: numbers, texts, and lists and maps of them.
func otherValue(v reflect.Value, origin jinja.Origin, depth int) (jinja.Value, error) {
	switch kind := v.Kind(); {
	case kind == reflect.Bool:
		return v.Bool(), nil
	case kind == reflect.String:
		return jinja.NewText(v.String(), origin), nil
	case v.CanInt():
		return v.Int(), nil
	case v.CanUint():
		return number(json.Number(strconv.FormatUint(v.Uint(), 10)))
	case kind == reflect.Float32: // as it is written
		return strconv.ParseFloat(strconv.FormatFloat(v.Float(), 'g', -1, 32), 64)
	case v.CanFloat():
		return v.Float(), nil
	case kind == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 || kind == reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = v.Index(i).Interface()
		}
		return value(list, origin, depth)
	case kind == reflect.Map && v.Type().Key().Kind() == reflect.String:
		all := make(map[string]any, v.Len())
		for k, x := range v.Seq2() {
			all[k.String()] = x.Interface()
		}
		return value(all, origin, depth)
	}
	return nil, fmt.Errorf("a value of type %s", v.Type())
}

// maxDigits bounds the characters of an integer.
const maxDigits = 1000

func number(n json.Number) (jinja.Value, error) {
	if i, err := n.Int64(); err == nil {
		return i, nil
	}
	if !strings.ContainsAny(n.String(), ".eE") {
		if len(n) > maxDigits {
			return nil, fmt.Errorf("a number of %d digits, at most %d", len(n), maxDigits)
		}
		return jinja.Whole(n), nil
	}
	return n.Float64()
}

// jsonValue reads JSON; objects keep the order of their keys.
func jsonValue(data []byte, origin jinja.Origin) (jinja.Value, error) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	v, err := decodeValue(d, origin, 0)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("text after the JSON value")
	}
	return v, nil
}

func decodeValue(d *json.Decoder, origin jinja.Origin, depth int) (jinja.Value, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("JSON nested more than %d deep", maxJSONDepth)
	}
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return value(tok, origin, depth)
	}
	if open == '[' {
		l := &jinja.List{}
		for d.More() {
			v, err := decodeValue(d, origin, depth+1)
			if err != nil {
				return nil, err
			}
			l.Items = append(l.Items, v)
		}
		_, err := d.Token()
		return l, err
	}
	o := &jinja.Dict{}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(d, origin, depth+1)
		if err != nil {
			return nil, err
		}
		o.Set(jinja.NewText(k.(string), origin), v)
	}
	_, err = d.Token()
	return o, err
}
