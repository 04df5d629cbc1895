package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/specgo/spec/internal/strictjson"
)

// object is a JSON object in the order of its source, which the generated text follows.
type object struct {
	members []member
	index   map[string]int // of many members; nil: few
	isNot   bool           // made here, for the contrary of a schema
}

type member struct {
	key   string
	value any // nil, bool, json.Number, string, []any or *object
}

// fewMembers are found without an index.
const fewMembers = 8

// find is the index of a key, or -1. A nil object has no members.
func (o *object) find(key string) int {
	switch {
	case o == nil:
	case o.index != nil:
		if i, ok := o.index[key]; ok {
			return i
		}
	default:
		return slices.IndexFunc(o.members, func(m member) bool { return m.key == key })
	}
	return -1
}

// get is the value of a key.
func (o *object) get(key string) (any, bool) {
	if i := o.find(key); i >= 0 {
		return o.members[i].value, true
	}
	return nil, false
}

// all are the members.
func (o *object) all() []member {
	if o == nil {
		return nil
	}
	return o.members
}

// add appends a member; false: the key is there already.
func (o *object) add(key string, value any) bool {
	if o.find(key) >= 0 {
		return false
	}
	o.members = append(o.members, member{key, value})
	if o.index != nil {
		o.index[key] = len(o.members) - 1
	} else if len(o.members) > fewMembers {
		o.index = map[string]int{}
		for i, m := range o.members {
			o.index[m.key] = i
		}
	}
	return true
}

// valueBytes is what a value takes in memory beside its text.
const valueBytes = 96

// parseJSON reads one JSON value. A key that is twice in an object is an error, and so is a text that is none in UTF-8:
// encoding/json would put U+FFFD in its place.
func parseJSON(b *Budget, source []byte) (any, error) {
	b.take(len(source))
	if b.err == nil && !utf8.Valid(source) {
		return nil, fmt.Errorf("%w: JSON: not valid UTF-8", ErrGrammar)
	}
	d := &jsonReader{json.NewDecoder(bytes.NewReader(source)), source}
	d.UseNumber()
	v, err := jsonValue(b, d, &place{part: "#"}, 0)
	if b.err != nil {
		return nil, b.err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		err = errors.New("it ends early")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: JSON: %w", ErrGrammar, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: JSON: more than one value", ErrGrammar)
	}
	return v, nil
}

// jsonReader reads the tokens of a source.
type jsonReader struct {
	*json.Decoder
	source []byte
}

// token is the next token, of a value at that place or of a key in it.
func (d *jsonReader) token(at *place) (json.Token, error) {
	from := d.InputOffset()
	t, err := d.Token()
	if _, ok := t.(string); ok && strictjson.HalfPair(d.source[from:d.InputOffset()]) {
		return nil, fmt.Errorf("%s: half of a surrogate pair", at)
	}
	return t, err
}

func jsonValue(b *Budget, d *jsonReader, at *place, depth int) (any, error) {
	if !b.take(valueBytes) {
		return nil, b.err
	}
	t, err := d.token(at)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if depth >= b.limits.Nesting {
		b.beyond("Nesting", b.limits.Nesting)
		return nil, b.err
	}
	if open == '[' {
		list := []any{}
		for d.More() {
			v, err := jsonValue(b, d, at.at(strconv.Itoa(len(list))), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	o := &object{}
	for d.More() {
		k, err := d.token(at)
		if err != nil {
			return nil, err
		}
		key := k.(string) // the decoder accepts nothing else
		v, err := jsonValue(b, d, at.at(key), depth+1)
		if err != nil {
			return nil, err
		}
		if !o.add(key, v) {
			return nil, fmt.Errorf("key %.60q twice in an object", key)
		}
	}
	_, err = d.Token()
	return o, err
}

// appendJSON writes a value without blanks between its tokens.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case *object:
		b = append(b, '{')
		for i, m := range v.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(append(appendJSON(b, m.key), ':'), m.value)
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, x)
		}
		return append(b, ']')
	case string:
		return append(b, quote(v)...)
	case json.Number:
		return append(b, v...)
	case bool:
		return fmt.Append(b, v)
	}
	return append(b, "null"...)
}

// quote is the JSON form of a string: only what must be escaped is.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		b.WriteString(jsonCharacter(r))
	}
	b.WriteByte('"')
	return b.String()
}

// jsonCharacter is how a character is written inside a JSON string.
func jsonCharacter(r rune) string {
	switch r {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	if r < 0x20 {
		return fmt.Sprintf(`\u%04x`, r)
	}
	return string(r)
}
