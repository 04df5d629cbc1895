package grammar

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// gemma and python are the notations of two models' tool calls.
var (
	gemma  = SchemaOptions{Narrow: true, Notation: Notation{Quote: ControlToken("q"), Names: true, Sorted: true}}
	python = SchemaOptions{Spaces: true, Narrow: true, Notation: Notation{Python: true, Call: true}}
)

// TestNotation: which texts follow a schema in other notations than JSON.
func TestNotation(t *testing.T) {
	const q = controlMark + "q" + controlMark
	for _, x := range []struct {
		o      SchemaOptions
		schema string
		yes    []string
		no     []string
	}{
		{gemma, `{"type":"object","properties":{"b":{"type":"string"},"A":{"type":["integer","null"]}},"required":["b"]}`,
			[]string{"{b:" + q + q + "}", "{A:1,b:" + q + "a\"\\\n{" + q + "}", "{A:null,b:" + q + q + "}"},
			[]string{"{}", "{b:" + q + q + ",A:1}", `{b:""}`, "{A:1, b:" + q + q + "}", "{b:" + q + "\xff" + q + "}",
				`{"b":` + q + q + "}", "{A:None,b:" + q + q + "}"}},
		{gemma, `{"type":"object","properties":{"c":{},"B":{},"a":{}},"required":["a","B","c"]}`, []string{"{a:1,B:2,c:3}"},
			[]string{"{B:2,a:1,c:3}", "{c:3,B:2,a:1}"}},
		{SchemaOptions{Narrow: true, Notation: Notation{End: "</p>", Avoid: "<q>"}}, `{"type":"string","minLength":1}`,
			[]string{"a</p>", "\"</q>\n<</p>"}, []string{"a", "</p>", "a<q></p>", "a</p>b</p>", "<p></p></p>"}},
		{SchemaOptions{Narrow: true, Notation: Notation{End: "</p>"}}, `{"enum":["a b"]}`, []string{"a b</p>"},
			[]string{"a b", "a</p>", "a</p></p>", `"a b"</p>`}},
		{gemma, `{"type":"object"}`, []string{"{}", "{a:[1,{b_2:true}],c:" + q + "x" + q + "}"},
			[]string{"{:1}", "{a:[1, 2]}", "{a b:1}", "{" + q + "a" + q + ":1}"}},
		{gemma, `{"enum":["a\"b",[1,{"z":2,"B":"x"}],false]}`,
			[]string{q + `a"b` + q, "[1,{B:" + q + "x" + q + ",z:2}]", "false"},
			[]string{`"a\"b"`, "[1,{z:2,B:" + q + "x" + q + "}]", "False"}},
		{gemma, `{"type":"string","minLength":2,"maxLength":3}`, []string{q + `\"` + q, q + "äöü" + q},
			[]string{q + "a" + q, q + "abcd" + q}},
		{gemma, `{"type":"string","pattern":"^\"[\\n\\\\]$"}`, []string{q + "\"\n" + q, q + `"\` + q},
			[]string{q + `"\n` + q, q + `\"\` + q}},
		{gemma, `{"type":"string","pattern":"x"}`, []string{q + "a\"x\n" + q}, []string{q + "a" + q}},
		{gemma, `{"type":"string","format":"date"}`, []string{q + "2024-01-31" + q}, []string{q + "2024-02-31" + q}},
		{gemma, `{"type":"object","properties":{"ab":{}},"additionalProperties":{"type":"integer"}}`,
			[]string{"{a:1}", "{ab:" + q + q + ",abc:2}"}, []string{"{:1}", "{c:true}", "{abc:1,ab:2}"}},
		{SchemaOptions{Narrow: true, Notation: Notation{Quote: "''"}},
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, []string{"{''a'':''x'y''}"},
			[]string{"{a:''''}", "{''a'':''x'y'}"}},
		{python, `{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"object","properties":{"c d":{"type":"null"}}}}}`,
			[]string{"", "a=True", `b={"c d": None}`, "a=False, b={}"}, []string{
				"a=true", "b={}, a=True", "a: True", "{}", "a = True", "b={c d: None}"}},
		{python, `{"type":"object"}`, []string{"", `x=1, y_2={"a b": [None, True]}`}, []string{`"x"=1`, "x=null", "=1"}},
		{python, `{"type":"object","properties":{"a":{"$ref":"#"}}}`, []string{"", "a={}", `a={"a": {}}`},
			[]string{"a=a={}", "a=a"}},
		{python, `{"type":"object","properties":{"a":{"const":{"x":[true,null,"\""]}}},"required":["a"]}`,
			[]string{`a={"x": [True, None, "\""]}`}, []string{`a={"x":[True,None,"\""]}`}},
	} {
		g, err := ParseSchema(nil, []byte(x.schema), x.o)
		if err != nil {
			t.Errorf("%s: %v", x.schema, err)
			continue
		}
		matches := func(text string) bool {
			m, at := machineOf(g)
			for _, b := range []byte(text) {
				if at = m.step(at, b); at < 0 {
					return false
				}
			}
			return m.states[at].final
		}
		for _, text := range x.yes {
			if !matches(text) {
				t.Errorf("%s: %q is not allowed", x.schema, text)
			}
		}
		for _, text := range x.no {
			if matches(text) {
				t.Errorf("%s: %q is allowed", x.schema, text)
			}
		}
	}
}

// TestNotationRefuses: what a notation cannot write is an error that names it.
func TestNotationRefuses(t *testing.T) {
	text := SchemaOptions{Narrow: true, Notation: Notation{Quote: "''"}}
	for _, x := range []struct {
		o             SchemaOptions
		schema, names string
	}{
		{gemma, `{"properties":{"a b":{}}}`, "a b"}, {gemma, `{"properties":{"":{}}}`, "name"},
		{gemma, `{"const":{"a:":1}}`, "a:"},
		{text, `{"const":"a''b"}`, "quote"}, {text, `{"type":"string","pattern":"a"}`, "pattern"},
		{text, `{"type":"string","format":"date"}`, "format"}, {text, `{"type":"string","maxLength":3}`, "length"},
		{text, `{"properties":{"a":{}},"additionalProperties":true}`, "additionalProperties"},
		{python, `{"type":"string"}`, "call"}, {python, `{"const":{}}`, "call"},
		{python, `{"type":"object","properties":{"a=b":{}}}`, "a=b"},
		{SchemaOptions{Blanks: true, Notation: gemma.Notation}, `{}`, "Blanks"},
	} {
		if _, err := ParseSchema(nil, []byte(x.schema), x.o); err == nil || !strings.Contains(err.Error(), x.names) {
			t.Errorf("%s: %v, want %q named", x.schema, err, x.names)
		}
	}
}

// TestNotationsOfRandomSchemas: each notation has the grammar of a random schema, and texts of it end.
func TestNotationsOfRandomSchemas(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	for range 100 {
		source := `{"type":"object","properties":{"a":` + randomSchema(random, 3) + `}}`
		for _, o := range []SchemaOptions{gemma, python} {
			if g, err := ParseSchema(nil, []byte(source), o); err == nil {
				write(t, g, random, 60)
			} else if !strings.Contains(err.Error(), "quotes") { // a name that cannot be written
				t.Errorf("%s: %v", source, err)
			}
		}
	}
}
