package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// object is a JSON object in the order of its source, which the generated text follows.
type object []member

type member struct {
	key   string
	value any // nil, bool, json.Number, string, []any or object
}

// get is the value of a key.
func (o object) get(key string) (any, bool) {
	for _, m := range o {
		if m.key == key {
			return m.value, true
		}
	}
	return nil, false
}

// parseJSON reads one JSON value. A key that is twice in an object is an error.
func parseJSON(source []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(source))
	d.UseNumber()
	v, err := jsonValue(d, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: JSON: %w", ErrGrammar, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: JSON: more than one value", ErrGrammar)
	}
	return v, nil
}

func jsonValue(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
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
	if depth > maxNesting {
		return nil, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	if open == '[' {
		list := []any{}
		for d.More() {
			v, err := jsonValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	o := object{}
	seen := map[string]bool{}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := k.(string) // the decoder accepts nothing else
		if seen[key] {
			return nil, fmt.Errorf("key %q twice in an object", key)
		}
		seen[key] = true
		v, err := jsonValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		o = append(o, member{key, v})
	}
	_, err = d.Token()
	return o, err
}

// appendJSON writes a value without blanks between its tokens.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case object:
		b = append(b, '{')
		for i, m := range v {
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
