package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
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
			return v.bad("must be a whole number")
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

// list reads an array.
func (v value) list() ([]value, *Error) {
	var raws []json.RawMessage
	if len(v.raw) == 0 || v.raw[0] != '[' || json.Unmarshal(v.raw, &raws) != nil {
		return nil, v.bad("must be an array")
	}
	out := make([]value, len(raws))
	for i, r := range raws {
		out[i] = value{v.path + "[" + strconv.Itoa(i) + "]", r}
	}
	return out, nil
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
	items, err := v.list()
	if err != nil {
		return nil, err
	}
	out := make([]int32, len(items))
	for i, item := range items {
		id, err := item.whole(0, math.MaxInt32)
		if err != nil {
			return nil, item.bad("must be a token id")
		}
		out[i] = int32(id)
	}
	return out, nil
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
