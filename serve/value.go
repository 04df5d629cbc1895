package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
)

// value is a JSON value and its place in the body. Its methods read it as one type and refuse every other by that
// place.
type value struct {
	path string
	raw  json.RawMessage
}

func (v value) null() bool { return string(v.raw) == "null" }

func (v value) bad(format string, a ...any) *Error { return badField(v.path, format, a...) }

func (v value) text() (string, *Error) {
	var s string
	if len(v.raw) == 0 || v.raw[0] != '"' || json.Unmarshal(v.raw, &s) != nil {
		return "", v.bad("must be a string")
	}
	return s, nil
}

func (v value) boolean() (bool, *Error) {
	switch string(v.raw) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, v.bad("must be true or false")
}

// whole reads an integer from low to high. 3.0 and 3e0 are integers too.
func (v value) whole(low, high int64) (int64, *Error) {
	bad := func() *Error {
		switch {
		case low == math.MinInt64 && high == math.MaxInt64:
			return v.bad("must be a whole number of 64 bits, one of them its sign")
		case high >= math.MaxInt32:
			return v.bad("must be a whole number of at least %d", low)
		}
		return v.bad("must be a whole number from %d to %d", low, high)
	}
	n, err := strconv.ParseInt(string(v.raw), 10, 64)
	if err != nil {
		x, err := v.float()
		if err != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			return 0, bad()
		}
		n = int64(x)
	}
	if n < low || n > high {
		return 0, bad()
	}
	return n, nil
}

func (v value) float() (float64, error) {
	if len(v.raw) == 0 || v.raw[0] != '-' && (v.raw[0] < '0' || v.raw[0] > '9') {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(string(v.raw), 64)
}

// number reads a number from low to high.
func (v value) number(low, high float64) (float32, *Error) {
	x, err := v.float()
	if err != nil || !(x >= low && x <= high) {
		return 0, v.bad("must be a number from %v to %v", low, high)
	}
	return float32(x), nil
}

// mostItems is the most elements of an array, but for token ids: what is kept of one takes some forty times its bytes.
const mostItems = 1 << 20

// list reads an array.
func (v value) list() ([]value, *Error) {
	if !v.isArray() {
		return nil, v.bad("must be an array")
	}
	out := []value{}
	for i, raw := range v.elements() {
		if i == mostItems {
			return nil, v.bad("more than %d elements", mostItems)
		}
		out = append(out, v.element(i, raw))
	}
	return out, nil
}

func (v value) isArray() bool { return len(v.raw) > 0 && v.raw[0] == '[' }

// element is an element of an array, with its place.
func (v value) element(i int, raw json.RawMessage) value {
	return value{v.path + "[" + strconv.Itoa(i) + "]", raw}
}

// elements are those of an array, which is valid JSON, as a value of a body that was read is. They are parts of it.
func (v value) elements() iter.Seq2[int, json.RawMessage] {
	return func(yield func(int, json.RawMessage) bool) {
		depth, quoted, from, n := 0, false, 1, 0
		for i := 1; i < len(v.raw); i++ {
			switch c := v.raw[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case quoted:
			case c == '[' || c == '{':
				depth++
			case depth > 0 && (c == ']' || c == '}'):
				depth--
			case depth == 0 && (c == ',' || c == ']'):
				item := bytes.TrimSpace(v.raw[from:i])
				if len(item) == 0 || !yield(n, item) { // of an empty array
					return
				}
				from, n = i+1, n+1
			}
		}
	}
}

// texts reads one string or an array of strings.
func (v value) texts() ([]string, *Error) {
	if len(v.raw) > 0 && v.raw[0] == '"' {
		s, err := v.text()
		return []string{s}, err
	}
	items, err := v.list()
	if err != nil {
		return nil, v.bad("must be a string or an array of strings")
	}
	out := make([]string, len(items))
	for i, item := range items {
		if out[i], err = item.text(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ids reads an array of token ids.
func (v value) ids() ([]int32, *Error) {
	if !v.isArray() {
		return nil, v.bad("must be an array")
	}
	out := []int32{}
	for i, raw := range v.elements() {
		id, err := v.id(i, raw)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

// id reads the token id that is element i.
func (v value) id(i int, raw json.RawMessage) (int32, *Error) {
	id, err := value{raw: raw}.whole(0, math.MaxInt32)
	if err != nil {
		return 0, v.element(i, raw).bad("must be a token id")
	}
	return int32(id), nil
}

// object calls the reader of each member, in the order of the text. null means absent, whatever the name. Another
// member without a reader is refused by name.
func (v value) object(readers map[string]func(value) *Error) *Error {
	members, err := split(v.path, v.raw)
	if err != nil {
		return err
	}
	for _, m := range members {
		at := value{join(v.path, m.name), m.raw}
		read, ok := readers[m.name]
		switch {
		case at.null():
		case !ok:
			return unknownField(at.path)
		default:
			if err := read(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// isObject reports whether the value is an object.
func (v value) isObject() bool { return bytes.HasPrefix(v.raw, []byte("{")) }

// oneOf reads a string that must be one of a list.
func (v value) oneOf(names ...string) (string, *Error) {
	s, err := v.text()
	if err != nil {
		return "", err
	}
	for _, n := range names {
		if s == n {
			return s, nil
		}
	}
	list := ""
	for i, n := range names {
		if i > 0 {
			list += ", "
		}
		list += strconv.Quote(n)
	}
	return "", v.bad("must be one of %s", list)
}

// any decodes the value for a template's variables.
func (v value) any() (x any, e *Error) {
	if err := json.Unmarshal(v.raw, &x); err != nil {
		return nil, v.bad("not JSON: %s", syntaxText(err))
	}
	return x, nil
}

func unknownField(path string) *Error {
	return &Error{Status: 400, Type: typeInvalid, Param: path, Code: "unsupported_parameter",
		Message: fmt.Sprintf("%s: this server does not have this field, and ignoring it could change the answer", path)}
}
