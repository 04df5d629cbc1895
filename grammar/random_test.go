package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/specgo/spec/internal/testkit"
)

// randomSchema makes a schema of every supported keyword.
func randomSchema(r *rand.Rand, depth int) string {
	kind := r.IntN(12)
	if depth == 0 {
		kind = 4 + r.IntN(8)
	}
	list := func(n int) (all []string) {
		for range n {
			all = append(all, randomSchema(r, depth-1))
		}
		return all
	}
	switch kind {
	case 0, 1:
		names := []string{"a", "ab", "b", `"q`, "é", ""}[:1+r.IntN(6)]
		var members, required []string
		for i, s := range list(len(names)) {
			members = append(members, quote(names[i])+":"+s)
			if r.IntN(2) == 0 {
				required = append(required, quote(names[i]))
			}
		}
		more := []string{"", `,"additionalProperties":false`, `,"additionalProperties":true`,
			`,"additionalProperties":{"type":"integer"}`}[r.IntN(4)]
		return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]%s}`, strings.Join(members, ","),
			strings.Join(required, ","), more)
	case 2:
		least := r.IntN(3)
		return fmt.Sprintf(`{"type":"array","items":%s,"minItems":%d,"maxItems":%d}`, randomSchema(r, depth-1),
			least, least+r.IntN(3))
	case 3:
		return fmt.Sprintf(`{"anyOf":[%s]}`, strings.Join(list(2), ","))
	case 4:
		least := r.IntN(4)
		return fmt.Sprintf(`{"type":"string","minLength":%d,"maxLength":%d}`, least, least+r.IntN(4))
	case 5:
		return fmt.Sprintf(`{"type":"string","pattern":%q}`,
			[]string{`^[a-c]{2,3}$`, `x+`, `^(ab|cd)*$`, `^\w\d?`, `.\.$`}[r.IntN(5)])
	case 6:
		low := r.IntN(200) - 100
		return fmt.Sprintf(`{"type":"integer","minimum":%d,"exclusiveMaximum":%d}`, low, low+1+r.IntN(300))
	case 7:
		low := float64(r.IntN(2000)-1000) / 8
		return fmt.Sprintf(`{"type":"number","exclusiveMinimum":%v,"maximum":%v}`, low, low+float64(1+r.IntN(100))/4)
	case 8:
		return `{"enum":["x",1.5,null,{"k":[]},"y\n"]}`
	case 9:
		return `{"type":["boolean","null"]}`
	case 10:
		return `{"const":{"deep":[1,{"x":"\""}]}}`
	}
	return fmt.Sprintf(`{"type":"string","format":%q}`, []string{"date", "time", "date-time", "ipv4", "uuid"}[r.IntN(5)])
}

// valid is an independent check of the keywords that randomSchema uses, on values as encoding/json reads them.
func valid(schema, v any) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	is := func(name string) bool {
		switch x := v.(type) {
		case nil:
			return name == "null"
		case bool:
			return name == "boolean"
		case string:
			return name == "string"
		case float64:
			return name == "number" || name == "integer" && x == float64(int64(x))
		case []any:
			return name == "array"
		}
		return name == "object"
	}
	switch t := s["type"].(type) {
	case string:
		if !is(t) {
			return fmt.Errorf("%v is no %s", v, t)
		}
	case []any:
		if !is(t[0].(string)) && !is(t[1].(string)) {
			return fmt.Errorf("%v is none of %v", v, t)
		}
	}
	same := func(a any) bool {
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(v)
		return string(x) == string(y)
	}
	if c, ok := s["const"]; ok && !same(c) {
		return fmt.Errorf("%v is not %v", v, c)
	}
	if list, ok := s["enum"].([]any); ok {
		found := false
		for _, e := range list {
			found = found || same(e)
		}
		if !found {
			return fmt.Errorf("%v is not in %v", v, list)
		}
	}
	if list, ok := s["anyOf"].([]any); ok {
		if a, b := valid(list[0], v), valid(list[1], v); a != nil && b != nil {
			return fmt.Errorf("%v and %v", a, b)
		}
	}
	bound := func(key string, ok func(x, b float64) bool, x float64) error {
		if b, has := s[key].(float64); has && !ok(x, b) {
			return fmt.Errorf("%v: %s %v", v, key, b)
		}
		return nil
	}
	atLeast, atMost := func(x, b float64) bool { return x >= b }, func(x, b float64) bool { return x <= b }
	above, below := func(x, b float64) bool { return x > b }, func(x, b float64) bool { return x < b }
	switch v := v.(type) {
	case float64:
		return errors.Join(bound("minimum", atLeast, v), bound("maximum", atMost, v), bound("exclusiveMinimum", above, v),
			bound("exclusiveMaximum", below, v))
	case string:
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			return fmt.Errorf("%q does not match %s", v, p)
		}
		n := float64(utf8.RuneCountInString(v))
		return errors.Join(bound("minLength", atLeast, n), bound("maxLength", atMost, n))
	case []any:
		for _, x := range v {
			if err := valid(s["items"], x); err != nil {
				return err
			}
		}
		return errors.Join(bound("minItems", atLeast, float64(len(v))), bound("maxItems", atMost, float64(len(v))))
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, r := range required {
			if _, ok := v[r.(string)]; !ok {
				return fmt.Errorf("%v lacks %q", v, r)
			}
		}
		for k, x := range v {
			p, listed := properties[k]
			if !listed {
				if p = s["additionalProperties"]; p == false {
					return fmt.Errorf("member %q", k)
				}
			}
			if err := valid(p, x); err != nil {
				return fmt.Errorf("%q: %w", k, err)
			}
		}
	}
	return nil
}

// TestRandomSchemas writes random texts of random schemas and checks them with another program's reading of both.
func TestRandomSchemas(t *testing.T) {
	n := 500
	switch {
	case testkit.IsLong(t):
		n = 5000
	case testing.Short():
		n = 200
	}
	random := rand.New(rand.NewPCG(7, 8))
	for range n {
		source := randomSchema(random, 3)
		g := schemaOf(t, source)
		var schema any
		if err := json.Unmarshal([]byte(source), &schema); err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		m, start := machineOf(g)
		for range 3 {
			text := m.write(t, start, random, 60)
			var v any
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatalf("%s: %q: %v", source, text, err)
			}
			if err := valid(schema, v); err != nil {
				t.Fatalf("%s: %q: %v", source, text, err)
			}
		}
	}
}

// TestLongRandomSchemas: ten times as many.
func TestLongRandomSchemas(t *testing.T) {
	testkit.Long(t)
	TestRandomSchemas(t)
}
