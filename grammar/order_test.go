package grammar

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Members come in every order, once each, and the required ones do come; the schema's order alone is the same objects.
func TestAnyOrder(t *testing.T) {
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{`{"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["a","c"],
			"additionalProperties":false}`,
			[]string{`{"a":1,"b":2,"c":3}`, `{"c":3,"a":1}`, `{"c":3,"b":2,"a":1}`, `{"b":2,"a":1,"c":3}`,
				`{"a":1,"c":3,"b":2}`},
			[]string{`{}`, `{"a":1}`, `{"a":1,"b":2}`, `{"a":1,"a":1,"c":3}`, `{"a":1,"c":3,}`, `{,"a":1,"c":3}`, `{"a":1"c":3}`,
				`{"a":2,"c":3}`, `{"c":3,"b":2,"b":2,"a":1}`, `{"a":1,"c":3,"d":4}`}},
		{`{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["b"],
			"additionalProperties":{"const":0}}`,
			[]string{`{"b":2}`, `{"x":0,"b":2}`, `{"x":0,"b":2,"y":0,"a":1,"z":0}`},
			[]string{`{}`, `{"x":0}`, `{"x":0,"a":1}`, `{"x":1,"b":2}`, `{"a":0,"b":2}`}},
		{`{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":false}`,
			[]string{`{}`, `{"a":1}`, `{"b":2,"a":1}`}, []string{`{"a":1,}`, `{"b":2,"b":2}`}},
		{`{"type":"object","properties":{"a":{"const":1}}}`, []string{`{"x":[],"a":1,"y":{}}`, `{"a":1}`, `{}`},
			[]string{`{"x":[],"a":2}`, `{"a":1,"a":1}`}},
		{`{"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/n"}},"required":["v"],
			"additionalProperties":false}},"$ref":"#/$defs/n"}`,
			[]string{`{"next":{"v":2},"v":1}`, `{"v":1,"next":{"next":{"v":3},"v":2}}`},
			[]string{`{"next":{},"v":1}`, `{"next":{"v":2}}`}},
		{`{"type":"object","properties":{"a":{"enum":[[],7]},"b":false,"c":{"const":3}},"required":["a","c"],
			"additionalProperties":false}`, []string{`{"c":3,"a":[]}`, `{"a":7,"c":3}`},
			[]string{`{"c":3,"a":8}`, `{"b":1,"c":3}`}},
	} {
		for _, o := range []SchemaOptions{{AnyOrder: true}, {AnyOrder: true, Spaces: true}, {AnyOrder: true, Blanks: true}} {
			g, err := ParseSchema(nil, []byte(c.schema), o)
			if err != nil {
				t.Fatal(err)
			}
			// alone, and as a part of other grammars
			for i, g := range []*Grammar{g, Sequence(Text("<"), Choice(Text("!"), g), Text(">")),
				Sequence(Text("<"), schemaOf(t, `{"const":0}`), g, g)} {
				text := func(s string) []int32 {
					if o.Spaces {
						s = strings.NewReplacer(":", ": ", ",", ", ").Replace(s)
					}
					return bytesOf([]string{s, "<" + s + ">", "<0" + s + s}[i])
				}
				k := bind(t, g, bytesVocabulary{})
				for _, s := range c.yes {
					if at := walk(t, k, text(s)...); at < 0 || !k.Final(at) {
						t.Errorf("%s %+v: %s is refused", c.schema, o, s)
					}
				}
				for _, s := range c.no {
					if at := walk(t, k, text(s)...); at >= 0 && k.Final(at) {
						t.Errorf("%s %+v: %s is allowed", c.schema, o, s)
					}
				}
			}
		}
	}
	both := SchemaOptions{AnyOrder: true, Notation: Notation{Sorted: true}}
	if _, err := ParseSchema(nil, []byte(`{}`), both); !errors.Is(err, ErrGrammar) {
		t.Error(err)
	}
}

// An object of many members has more orders than there are instructions: those of a text alone are made, and no mask
// is ever empty on the way. What limits refuse is an error, and the grammar goes on to work.
func TestAnyOrderOfManyMembers(t *testing.T) {
	names := make([]string, 200)
	var list []string
	for i := range names {
		names[i] = string(appendJSON(nil, "n"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+string(rune('a'+i/26))))
		list = append(list, names[i]+`:{"type":"integer"}`)
	}
	source := `{"type":"object","properties":{` + strings.Join(list, ",") + `},"required":[` + strings.Join(names, ",") +
		`],"additionalProperties":false}`
	g, err := ParseSchema(nil, []byte(source), SchemaOptions{AnyOrder: true})
	if err != nil {
		t.Fatal(err)
	}
	c := bind(t, g, bytesVocabulary{})
	r := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		s := c.Start()
		for i, name := range names {
			text := name + ":1"
			if text = "," + text; i == 0 {
				text = "{" + text[1:]
			}
			if mask, err := c.Mask(s); err != nil || len(maskIDs(mask)) == 0 {
				t.Fatalf("member %d: %v, %v", i, maskIDs(mask), err)
			}
			if s = walkFrom(t, c, s, text); s < 0 || i > 0 && i < 199 && walkFrom(t, c, s, "}") >= 0 {
				t.Fatalf("member %d, %s: state %d", i, name, s)
			}
		}
		if s = walkFrom(t, c, s, "}"); s < 0 || !c.Final(s) {
			t.Errorf("state %d", s)
		}
	}
	small := NewVocabulary(bytesVocabulary{}, VocabularyOptions{Limits: Limits{Instructions: 12000}})
	c, err = g.Bind(nil, small)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Start()
	for i := 0; err == nil; i++ {
		if i == len(names) {
			t.Fatal("no limit")
		}
		for _, b := range []byte(`{,`[min(i, 1):][:1] + names[i] + ":1") {
			if s, _, err = c.Next(s, int32(b)); err != nil {
				break
			}
		}
	}
	if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "Instructions") {
		t.Error(err)
	}
}

// walkFrom is the state behind a text; negative: it is refused.
func walkFrom(t *testing.T, c *Constraint, s int32, text string) int32 {
	t.Helper()
	for _, b := range []byte(text) {
		next, ok, err := c.Next(s, int32(b))
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return -1
		}
		s = next
	}
	return s
}

// Texts of random schemas with members in any order are valid, and every text in the schema's order is one of them.
func TestAnyOrderOfRandomSchemas(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 150 {
		source := randomSchema(r, 3)
		loose, err := ParseSchema(nil, []byte(source), SchemaOptions{AnyOrder: true})
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		var schema, v any
		if err := json.Unmarshal([]byte(source), &schema); err != nil {
			t.Fatal(err)
		}
		text := write(t, loose, r, 60)
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%s: %q: %v", source, text, err)
		}
		if err := valid(schema, v); err != nil {
			t.Errorf("%s: %q: %v", source, text, err)
		}
		c := bind(t, loose, bytesVocabulary{})
		text = write(t, schemaOf(t, source), r, 60)
		if s := walk(t, c, bytesOf(text)...); s < 0 || !c.Final(s) {
			t.Errorf("%s: %s is refused", source, text)
		}
	}
}

// A vocabulary without commas writes one member at most.
func TestAnyOrderWithoutCommas(t *testing.T) {
	const object = `{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":false`
	for source, yes := range map[string]string{
		object + `}`:                  `{} {"a":1} {"b":2}`,
		object + `,"required":["b"]}`: `{"b":2}`,
	} {
		g, err := ParseSchema(nil, []byte(source), SchemaOptions{AnyOrder: true})
		if err != nil {
			t.Fatal(err)
		}
		c, err := g.Bind(nil, NewVocabulary(withoutComma{}, VocabularyOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{`{}`, `{"a":1}`, `{"b":2}`} {
			s := walk(t, c, bytesOf(text)...)
			if got := s >= 0 && c.Final(s); got != slices.Contains(strings.Fields(yes), text) {
				t.Errorf("%s: %s %v", source, text, got)
			}
		}
	}
}

// withoutComma is the bytes without the comma.
type withoutComma struct{ bytesVocabulary }

func (v withoutComma) Bytes(id int32) []byte {
	if id == ',' {
		return nil
	}
	return v.bytesVocabulary.Bytes(id)
}
