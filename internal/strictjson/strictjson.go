// Package strictjson reads JSON of which a type says all, as files that this project wrote itself are: what a writer
// of the same type can have written, or an error. encoding/json alone takes names in any case, lets the last of two
// equal names win, and replaces what is not UTF-8, so that two programs can read different things in one file.
package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Decode reads all of r, at most limit bytes, as [Unmarshal] does.
func Decode(r io.Reader, limit int64, to any) error {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return err
	case int64(len(data)) > limit:
		return fmt.Errorf("more than %d bytes", limit)
	}
	return Unmarshal(data, to)
}

// Unmarshal is json.Unmarshal into *to of one value with nothing but white space around it. It refuses, by an error
// that says where:
//   - a name that the type does not have in exactly this form, and a name that stands twice in one object;
//   - null where the type cannot be nil, and arrays of another length than the type's;
//   - what is not UTF-8, and half of a surrogate pair.
//
// A name that is missing leaves what was there. Of types that read themselves only names that stand twice and half
// pairs are looked for; a json.RawMessage is left to its reader.
func Unmarshal(data []byte, to any) error {
	if !utf8.Valid(data) {
		return errors.New("not UTF-8")
	}
	var whole json.RawMessage // checks the syntax, the depth, and that it is one value
	if err := json.Unmarshal(data, &whole); err != nil {
		return plain(err)
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	c := checker{data: data, tokens: tokens, names: map[reflect.Type]map[string]reflect.Type{}}
	tokens.UseNumber()
	if err := c.value(reflect.TypeOf(to).Elem()); err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return plain(err)
	}
	return nil
}

// plain is an error of encoding/json without its prefix.
func plain(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "json: ")) }

// checker compares valid JSON with a type, token by token. Type nil is one of which nothing is known.
type checker struct {
	data   []byte
	tokens *json.Decoder
	names  map[reflect.Type]map[string]reflect.Type // of struct types
	path   []string
}

// errorf is an error at the last token.
func (c *checker) errorf(format string, args ...any) error {
	at := strings.Join(c.path, ".")
	if at != "" {
		at += ": "
	}
	return fmt.Errorf("at byte %d: %s%s", c.tokens.InputOffset(), at, fmt.Sprintf(format, args...))
}

// token is the next token; a string in it is whole.
func (c *checker) token() (json.Token, error) {
	from := c.tokens.InputOffset()
	t, err := c.tokens.Token()
	if _, ok := t.(string); ok && HalfPair(c.data[from:c.tokens.InputOffset()]) {
		return nil, c.errorf("half of a surrogate pair")
	}
	return t, err
}

// HalfPair reports whether valid JSON has an escape that is no character by itself: encoding/json reads it as U+FFFD.
func HalfPair(data []byte) bool {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		switch u := unit(data[i:]); {
		case u >= 0xd800 && u < 0xdc00:
			if low := unit(data[i+6:]); low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 11
		case u >= 0xdc00 && u <= 0xdfff:
			return true
		default:
			i++ // what is escaped begins no escape
		}
	}
	return false
}

// unit is the UTF-16 unit that data begins with as \uXXXX; 0: it begins with something else.
func unit(data []byte) uint64 {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0
	}
	u, _ := strconv.ParseUint(string(data[2:6]), 16, 16)
	return u
}

// value checks the next value.
func (c *checker) value(t reflect.Type) error {
	nilable := false
	for t != nil && t.Kind() == reflect.Pointer && !opaque(t) {
		t, nilable = t.Elem(), true
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return c.tokens.Decode(new(json.RawMessage))
	case t != nil && opaque(t):
		t = nil
	}
	token, err := c.token()
	switch {
	case err != nil:
		return err
	case token == json.Delim('{'):
		return c.object(t)
	case token == json.Delim('['):
		return c.array(t)
	case token == nil && t != nil && !nilable && t.Kind() != reflect.Slice && t.Kind() != reflect.Map:
		return c.errorf("null")
	}
	return nil
}

// opaque reports whether values of a type may be anything.
func opaque(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() == reflect.Interface || p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// object checks what follows "{".
func (c *checker) object(t reflect.Type) error {
	var known map[string]reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		known = c.namesOf(t)
	}
	seen := map[string]bool{}
	for c.tokens.More() {
		token, err := c.token()
		if err != nil {
			return err
		}
		name := token.(string)
		of, ok := known[name]
		switch {
		case seen[name]:
			return c.errorf("%.100q stands twice", name)
		case known != nil && !ok:
			return c.errorf("unknown name %.100q", name)
		case t != nil && t.Kind() == reflect.Map:
			of = t.Elem()
		}
		seen[name] = true
		c.path = append(c.path, name)
		if err := c.value(of); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
	}
	_, err := c.tokens.Token()
	return err
}

// array checks what follows "[".
func (c *checker) array(t reflect.Type) error {
	var of reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		of = t.Elem()
	}
	n := 0
	for ; c.tokens.More(); n++ {
		if err := c.value(of); err != nil {
			return err
		}
	}
	if _, err := c.tokens.Token(); err != nil {
		return err
	}
	if t != nil && t.Kind() == reflect.Array && n != t.Len() {
		return c.errorf("%d elements, want %d", n, t.Len())
	}
	return nil
}

// namesOf are the names of a struct type and the types of their values.
func (c *checker) namesOf(t reflect.Type) map[string]reflect.Type {
	if have, ok := c.names[t]; ok {
		return have
	}
	names := map[string]reflect.Type{}
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch {
		case f.Anonymous && name == "" && of.Kind() == reflect.Struct:
			embedded = append(embedded, of)
		case !f.IsExported() || f.Tag.Get("json") == "-":
		case name == "":
			names[f.Name] = f.Type
		default:
			names[name] = f.Type
		}
	}
	for _, e := range embedded { // what the outer type has hides theirs
		for name, of := range c.namesOf(e) {
			if _, ok := names[name]; !ok {
				names[name] = of
			}
		}
	}
	c.names[t] = names
	return names
}
