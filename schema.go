package spec

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ErrSchema is wrapped by errors of [SchemaFor]: a type that has no JSON form, or a tag that means nothing.
var ErrSchema = errors.New("spec: schema")

// SchemaFor is the JSON Schema of the values that package encoding/json reads into a T.
//
// A struct is an object with the fields of its exported ones, under the names of their json tags, and no others; a
// field is required unless its tag says omitempty or omitzero. Integers and float32s have the bounds of their type. A
// pointer may be null where it is required. Types that read JSON or text by themselves are any value, or any string; a
// time is a date-time, without a leap second, and a json.Number a number. The tag description says what a field means,
// and the tag jsonschema has keywords, divided by commas, which hold beside those of the type:
//
//	Unit  string  `json:"unit" jsonschema:"enum=C,enum=F"`
//	Days  int     `json:"days,omitempty" jsonschema:"minimum=1,maximum=7" description:"how far ahead"`
//
// The keywords are enum, minimum, maximum, minLength, maxLength, pattern, format, minItems and maxItems; pattern takes
// the rest of its tag.
func SchemaFor[T any]() (json.RawMessage, error) {
	s := &schemas{names: map[reflect.Type]string{}, taken: map[string]bool{}}
	root := reflect.TypeFor[T]()
	own := s.of
	if s.root = root; root.Kind() == reflect.Struct && root.Name() != "" && !reads(root) { // it stands for itself
		own = s.object
	}
	text, err := own(root)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSchema, root, err)
	}
	if len(s.defs) > 0 {
		text = strings.TrimSuffix(text, "}") + `,"$defs":{` + strings.Join(s.defs, ",") + "}}"
	}
	return json.RawMessage(text), nil
}

// schemas are the schemas of named structs within a type, which may contain themselves.
type schemas struct {
	root  reflect.Type
	names map[reflect.Type]string
	taken map[string]bool
	defs  []string       // members of $defs
	open  []reflect.Type // lists, maps and pointers around the value, within the innermost struct with a name
}

// base64 is the pattern of the texts that are read into bytes.
const base64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

// mostFloat32 is what is read into the largest float32, and no more is read. The exponents of a grammar's numbers have
// two digits at most, which a float64 has room for.
const mostFloat32 = "3.4028235e38"

// timeText is the pattern of the date-times that a time reads: RFC 3339 has small letters and leap seconds beside them.
const timeText = "^.{10}T.{6}[0-5][^z]*$"

// anyValue is the schema of every value.
const anyValue = "{}"

var (
	number     = reflect.TypeFor[json.Number]()
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonReader = reflect.TypeFor[json.Unmarshaler]()
)

// reads reports whether values of a type read JSON or text by themselves.
func reads(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() != reflect.Pointer && (p.Implements(jsonReader) || p.Implements(textReader))
}

// of is the schema of a type.
func (s *schemas) of(t reflect.Type) (string, error) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return `{"type":"string","format":"date-time","pattern":"` + timeText + `"}`, nil
	case t == number: // a string by its kind, and a number in JSON
		return `{"type":"number"}`, nil
	case reads(t) && reflect.PointerTo(t).Implements(jsonReader):
		return anyValue, nil
	case reads(t):
		return `{"type":"string"}`, nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		if slices.Contains(s.open, t) {
			return "", fmt.Errorf("%s contains itself, and no struct with a name stands between", t)
		}
		s.open = append(s.open, t)
		defer func() { s.open = s.open[:len(s.open)-1] }()
	}
	switch t.Kind() {
	case reflect.Bool:
		return `{"type":"boolean"}`, nil
	case reflect.String:
		return `{"type":"string"}`, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		most := int64(math.MaxInt64) >> (64 - t.Bits())
		return fmt.Sprintf(`{"type":"integer","minimum":%d,"maximum":%d}`, -most-1, most), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf(`{"type":"integer","minimum":0,"maximum":%d}`, uint64(math.MaxUint64)>>(64-t.Bits())), nil
	case reflect.Float32:
		return `{"type":"number","minimum":-` + mostFloat32 + `,"maximum":` + mostFloat32 + `}`, nil
	case reflect.Float64:
		return `{"type":"number"}`, nil
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return anyValue, nil
		}
	case reflect.Pointer:
		of, err := s.of(t.Elem())
		return `{"anyOf":[` + of + `,{"type":"null"}]}`, err
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return `{"type":"string","pattern":"` + base64 + `"}`, nil
		}
		of, err := s.of(t.Elem())
		return `{"type":"array","items":` + of + `}`, err
	case reflect.Array:
		of, err := s.of(t.Elem())
		return fmt.Sprintf(`{"type":"array","items":%s,"minItems":%d,"maxItems":%[2]d}`, of, t.Len()), err
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			of, err := s.of(t.Elem())
			return `{"type":"object","additionalProperties":` + of + `}`, err
		}
	case reflect.Struct:
		return s.reference(t)
	}
	return "", fmt.Errorf("a %s has no schema", t)
}

// reference refers to the schema of a struct, which it makes when it comes for the first time.
func (s *schemas) reference(t reflect.Type) (string, error) {
	switch {
	case t.Name() == "":
		return s.object(t)
	case t == s.root:
		return `{"$ref":"#"}`, nil
	}
	name, known := s.names[t]
	if !known {
		name = strings.Map(func(r rune) rune {
			if r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
				return r
			}
			return '_' // of type parameters
		}, t.Name())
		for s.taken[name] { // of another package
			name += "_"
		}
		s.names[t], s.taken[name] = name, true
		at := len(s.defs)
		s.defs = append(s.defs, "")
		around := s.open
		s.open = nil
		text, err := s.object(t)
		if s.open = around; err != nil {
			return "", err
		}
		s.defs[at] = strconv.Quote(name) + ":" + text
	}
	return `{"$ref":"#/$defs/` + name + `"}`, nil
}

// object is the schema of a struct's fields.
func (s *schemas) object(t reflect.Type) (string, error) {
	fields, err := fieldsOf(t)
	if err != nil {
		return "", err
	}
	var properties, required []string
	for _, f := range fields {
		text, err := s.field(f.StructField, f.optional)
		if err != nil {
			return "", fmt.Errorf("field %s: %w", f.Name, err)
		}
		properties = append(properties, quoted(f.name)+":"+text)
		if !f.optional {
			required = append(required, quoted(f.name))
		}
	}
	out := `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"additionalProperties":false`
	if len(required) > 0 {
		out += `,"required":[` + strings.Join(required, ",") + "]"
	}
	return out + "}", nil
}

// field is a field of a struct as encoding/json reads it.
type field struct {
	reflect.StructField // with the whole path in Index
	name                string
	optional            bool
}

// fieldsOf are the fields of a struct and of the structs that are embedded in it without a name, in their order. Of
// fields with one name in JSON that in the fewest structs counts; two in as many are an error.
func fieldsOf(t reflect.Type) (list []field, err error) {
	type embedded struct {
		reflect.Type
		index  []int
		unmade bool // a pointer to a struct without an exported name is around it, which cannot be set
	}
	names, met := map[string]bool{}, map[reflect.Type]bool{}
	for level := []embedded{{Type: t}}; len(level) > 0; {
		var deeper []embedded
		here := map[string]bool{}
		for _, e := range level {
			met[e.Type] = true
		}
		for _, e := range level {
			for i := range e.NumField() {
				f := field{StructField: e.Field(i)}
				f.Index = append(slices.Clone(e.index), i)
				tag := f.Tag.Get("json")
				name, rest, _ := strings.Cut(tag, ",")
				of := f.Type
				if of.Kind() == reflect.Pointer {
					of = of.Elem()
				}
				if tag != "-" && f.Anonymous && name == "" && of.Kind() == reflect.Struct {
					if !met[of] {
						unmade := e.unmade || of != f.Type && !f.IsExported()
						deeper = append(deeper, embedded{of, f.Index, unmade})
					}
					continue
				}
				if !f.IsExported() || tag == "-" {
					continue
				}
				if f.name = name; name == "" {
					f.name = f.Name
				}
				switch {
				case strings.ContainsFunc(name, noName):
					return nil, fmt.Errorf("field %s: encoding/json takes no name %q", f.Name, name)
				case names[f.name]:
					continue // one in fewer structs hides it
				case e.unmade:
					return nil, fmt.Errorf("field %s: of a pointer to a struct that is not exported, which encoding/json does not "+
						"make", f.Name)
				case here[f.name]:
					return nil, fmt.Errorf("field %s: two fields are called %s", f.Name, f.name)
				}
				here[f.name] = true
				for option := range strings.SplitSeq(rest, ",") {
					switch option {
					case "omitempty", "omitzero":
						f.optional = true
					case "string":
						return nil, fmt.Errorf("field %s: the json option string is not supported", f.Name)
					}
				}
				list = append(list, f)
			}
		}
		maps.Copy(names, here)
		level = deeper
	}
	slices.SortFunc(list, func(a, b field) int { return slices.Compare(a.Index, b.Index) })
	return list, nil
}

// noName reports whether encoding/json takes no name with a character in a tag, but that of the field instead.
func noName(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
}

// field is the schema of a struct's field, with what its tags add.
func (s *schemas) field(f reflect.StructField, optional bool) (string, error) {
	t := f.Type
	if optional && t.Kind() == reflect.Pointer {
		t = t.Elem() // it is left out instead
	}
	text, err := s.of(t)
	if err != nil {
		return "", err
	}
	words, err := keywords(f.Tag.Get("jsonschema"), t)
	if err != nil {
		return "", err
	}
	if d := f.Tag.Get("description"); d != "" {
		words = append(words, `"description":`+quoted(d))
	}
	switch {
	case len(words) == 0:
		return text, nil
	case text == anyValue:
		return "{" + strings.Join(words, ",") + "}", nil
	case slices.ContainsFunc(words, func(word string) bool { // the type says it, too, and both hold
		name, _, _ := strings.Cut(word, ":")
		return strings.Contains(text, name+":")
	}):
		return `{"allOf":[` + text + ",{" + strings.Join(words, ",") + "}]}", nil
	}
	return strings.TrimSuffix(text, "}") + "," + strings.Join(words, ",") + "}", nil
}

// keywords are the members of a schema that a jsonschema tag says.
func keywords(tag string, t reflect.Type) (words []string, err error) {
	var enum []string
	null := t.Kind() == reflect.Pointer
	if null {
		t = t.Elem()
	}
	for tag != "" {
		var word string
		if word, tag, _ = strings.Cut(tag, ","); strings.HasPrefix(word, "pattern=") && tag != "" {
			word, tag = word+","+tag, ""
		}
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "enum":
			one := quoted(value)
			if t.Kind() != reflect.String || t == number {
				if one = value; !json.Valid([]byte(value)) {
					return nil, fmt.Errorf("jsonschema tag: enum=%s is not JSON", value)
				}
			}
			enum = append(enum, one)
		case "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems":
			if _, err := strconv.ParseFloat(value, 64); err != nil || !json.Valid([]byte(value)) {
				return nil, fmt.Errorf("jsonschema tag: %s=%s is no number", name, value)
			}
			words = append(words, strconv.Quote(name)+":"+value)
		case "pattern", "format":
			words = append(words, strconv.Quote(name)+":"+quoted(value))
		default:
			return nil, fmt.Errorf("jsonschema tag: there is no keyword %q", name)
		}
	}
	if enum != nil {
		if null && !slices.Contains(enum, "null") {
			enum = append(enum, "null")
		}
		words = append(words, `"enum":[`+strings.Join(enum, ",")+"]")
	}
	return words, nil
}

// quoted is a text in JSON.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // no string is an error
	}
	return string(b)
}
