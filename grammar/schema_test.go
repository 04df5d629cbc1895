package grammar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func schemaOf(t testing.TB, source string) *Grammar {
	t.Helper()
	g, err := ParseSchema(nil, []byte(source), SchemaOptions{})
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return g
}

func TestSchema(t *testing.T) {
	for _, test := range []struct {
		schema  string
		yes, no []string
	}{
		{`{}`, []string{`1`, `"a"`, `{"a":[1,null]}`, `[]`, `true`, `-0.5e+3`},
			[]string{``, `01`, `{a:1}`, `[1,]`, `{"a":1,}`, `nul`, `1 `}},
		{`true`, []string{`1`, `{}`}, []string{``}},
		{`{"type":"object"}`, []string{`{}`, `{"a":{}}`}, []string{`1`, `[]`, `"a"`}},
		{`{"type":"null"}`, []string{`null`}, []string{`0`}},
		{`{"type":["string","null"]}`, []string{`null`, `"x"`}, []string{`0`}},
		{`{"type":"boolean"}`, []string{`true`, `false`}, []string{`0`, `"true"`}},
		{`{"type":"integer"}`, []string{`0`, `-1`, `10`}, []string{`1.0`, `01`, `1e3`, `--1`}},
		{`{"type":"number"}`, []string{`0`, `-1.5`, `1e10`, `2E-3`}, []string{`.5`, `1.`, `+1`}},
		{`{"type":"string"}`, []string{`""`, `"a\"b"`, `"\u00e9é😀"`, `"\n"`},
			[]string{`"`, "\"\n\"", `"\x"`, `"\ud800"`, `'a'`}},
		{`{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"é😀\n"`}, []string{`"a"`, `"abcd"`}},
		{`{"type":"string","pattern":"^a+b$"}`, []string{`"ab"`, `"aaab"`}, []string{`"b"`, `"abc"`, `"xab"`}},
		{`{"pattern":"a.c"}`, []string{`"abc"`, `"xxa\"cyy"`}, []string{`"ac"`, `"a\nc"`}},
		{`{"pattern":"^(a|b\\\\)$|^\"$"}`, []string{`"a"`, `"b\\"`, `"\""`}, []string{`"b"`, `"""`}},
		{`{"pattern":"^[^x]$"}`, []string{`"a"`, `"\n"`, `"\""`, `"\u0001"`, `"é"`}, []string{`"x"`, `""`, `"ab"`}},
		{`{"pattern":"^\\u0041\\d{2}(?i:k)$"}`, []string{`"A12k"`, `"A12K"`}, []string{`"a12k"`, `"A1k"`}},
		{`{"enum":["a",1,null,{"x":[true]}]}`, []string{`"a"`, `1`, `null`, `{"x":[true]}`}, []string{`"b"`, `2`}},
		{`{"type":"string","enum":["a",1]}`, []string{`"a"`}, []string{`1`}},
		{`{"const":"\ud83d\ude00\\ud800"}`, []string{`"😀\\ud800"`}, []string{`"😀"`}},
		{`{"const":"é\n"}`, []string{`"é\n"`}, []string{`"e"`}},
		{`{"type":"array","items":{"type":"integer"}}`, []string{`[]`, `[1]`, `[1,2]`}, []string{`[1,]`, `["a"]`,
			`[,1]`}},
		{`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2}`, []string{`[1]`, `[1,2]`},
			[]string{`[]`, `[1,2,3]`}},
		{`{"type":"array","maxItems":0}`, []string{`[]`}, []string{`[1]`}},
		{`{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}]}`, []string{`[]`, `[1]`, `[1,"a"]`},
			[]string{`["a"]`, `[1,"a",2]`}},
		{`{"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"string"},"minItems":2,"maxItems":3}`,
			[]string{`[1,"a"]`, `[1,"a","b"]`}, []string{`[1]`, `[1,"a","b","c"]`, `[1,2]`}},
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":true},"required":["b"]}`,
			[]string{`{"b":"x"}`, `{"a":1,"b":"x"}`, `{"a":1,"b":"","c":[]}`, `{"b":"","c":0}`},
			[]string{`{}`, `{"a":1}`, `{"b":"x","a":1}`, `{"b":"x",}`, `{"b":"x","d":1}`, `{,"b":""}`,
				`{"a":1"b":""}`}},
		{`{"properties":{"a":{},"b":{}}}`, []string{`{}`, `{"a":1}`, `{"b":1}`, `{"a":1,"b":1}`},
			[]string{`{"b":1,"a":1}`, `1`}},
		{`{"properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"integer"}}`,
			[]string{`{}`, `{"ab":null}`, `{"ab":null,"a":1,"abc":2}`, `{"b":1}`, `{"":1}`},
			[]string{`{"ab":1}`, `{"a":1,"ab":1}`, `{"a":"x"}`}},
		{`{"properties":{"":{"type":"null"}},"additionalProperties":true}`,
			[]string{`{"":null}`, `{"x":1}`}, []string{`{"":1}`}},
		{`{"type":"object","properties":{},"additionalProperties":false}`, []string{`{}`}, []string{`{"a":1}`}},
		// What must be there is there, although the schema does not speak of it.
		{`{"type":"object","properties":{"a":{}},"minProperties":2}`, []string{`{"a":1,"b":2}`, `{"a":1,"b":2,"c":3}`},
			[]string{`{}`, `{"a":1}`}},
		{`{"type":"object","required":["a"],"minProperties":2}`, []string{`{"a":1,"b":2}`},
			[]string{`{"a":1}`, `{"b":1,"c":2}`}},
		{`{"type":"object","properties":{"a":{},"b":{}},"minProperties":2}`, []string{`{"a":1,"b":2}`},
			[]string{`{"a":1}`, `{"a":1,"c":2}`, `{"a":1,"b":2,"c":3}`}},
		{`{"type":"array","prefixItems":[{"type":"string"}],"contains":{"type":"null"}}`,
			[]string{`["a",null]`, `["a",1,null]`},
			[]string{`[]`, `["a"]`, `["a",1]`, `[null]`}},
		{`{"type":"object","required":["z"]}`, []string{`{"z":1}`}, []string{`{}`}},
		{`{"type":"object","additionalProperties":{"type":"integer"},"required":["z"]}`,
			[]string{`{"z":1}`, `{"z":1,"y":2}`}, []string{`{"y":2}`, `{"z":"a"}`}},
		{`{"patternProperties":{"^[^\\n]*$":{"type":"integer"}},"propertyNames":{"pattern":"^[^\\n]*$"},` +
			`"additionalProperties":{"type":"string"}}`, []string{`{}`, `{"ab":1}`},
			[]string{`{"ab":"x"}`, `{:"x"}`, `{"ab":1,:"x"}`, `{"":"x"}`}},
		// One member may be all that are demanded: its name matches each pattern, its value is valid by each schema.
		{`{"type":"object","allOf":[{"not":{"patternProperties":{"c":{"not":{"type":"number"}}}}},` +
			`{"not":{"patternProperties":{"d":{"not":{"type":"integer"}}}}}]}`,
			[]string{`{"cd":1}`, `{"dc":2}`, `{"x":"y","cd":1}`}, []string{`{}`, `{"c":1}`, `{"d":1}`, `{"cd":1.5}`}},
		{`{"if":{"type":"integer"},"else":{"type":"string"}}`, []string{`1`, `"a"`}, []string{`null`, `true`, `{}`}},
		{`{"if":{"type":"integer"},"then":{"minimum":3}}`, []string{`3`, `"a"`, `null`}, []string{`1`}},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":true,"maxProperties":0}`, []string{`{}`},
			[]string{`{"a":1}`, `{"b":1}`}},
		{`{"properties":{"ab":{},"b":{}},"propertyNames":{"maxLength":1}}`, []string{`{}`, `{"b":1}`},
			[]string{`{"ab":1}`, `{"ab":1,"b":1}`}},
		{`{"properties":{"a":false,"b":{}}}`, []string{`{"b":1}`}, []string{`{"a":1}`}},
		{`{"anyOf":[{"type":"integer"},{"type":"string"}]}`, []string{`1`, `"a"`}, []string{`null`}},
		{`{"oneOf":[{"type":"integer"},{"type":"string"}]}`, []string{`1`, `"a"`}, []string{`null`}},
		{`{"oneOf":[{"properties":{"k":{"const":"a"}},"required":["k"]},` +
			`{"properties":{"k":{"const":"b"}},"required":["k"]}]}`, []string{`{"k":"a"}`, `{"k":"b"}`},
			[]string{`{"k":"c"}`}},
		{`{"allOf":[{"type":"string"}]}`, []string{`"a"`}, []string{`1`}},
		{`{"allOf":[{"$ref":"#/$defs/a"},{"properties":{"y":{"type":"integer"}},"required":["y"]}],` +
			`"$defs":{"a":{"type":"object","properties":{"x":{"type":"integer"}}}}}`,
			[]string{`{"y":1}`, `{"x":1,"y":1}`}, []string{`{"x":1}`}},
		{`{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object",` +
			`"properties":{"left":{"$ref":"#/$defs/tree"},"v":{"type":"integer"}},"required":["v"]}}}`,
			[]string{`{"v":1}`, `{"left":{"left":{"v":1},"v":2},"v":3}`}, []string{`{"left":{}}`}},
		{`{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"]}`,
			[]string{`{"next":null}`, `{"next":{"next":null}}`}, []string{`{}`}},
		{`{"$ref":"#/$defs/a~1b%20c","$defs":{"a/b c":{"const":1}}}`, []string{`1`}, []string{`2`}},
		{`{"pattern":"^\\S+[^\\sx]\\s$"}`, []string{`"ab "`, `"ab\t"`, `"ab\u000b"`},
			[]string{`"a\u000bb "`, `"ax "`, "\"a\u00a0b \"", `"abc"`}},
		{`{"format":"hostname"}`, []string{`"a-b.example"`}, []string{`"xn--x"`, `"a-.b"`, `"-a"`}},
		{`{"type":"integer","multipleOf":1}`, []string{`3`}, []string{`1.5`}},
		{`{"title":"t","description":"d","default":1,"type":"integer"}`, []string{`1`}, []string{`"t"`}},
	} {
		g := narrowOf(t, test.schema)
		for _, text := range test.yes {
			if !accepts(t, g, text) {
				t.Errorf("%s refuses %s", test.schema, text)
			}
		}
		for _, text := range test.no {
			if accepts(t, g, text) {
				t.Errorf("%s accepts %s", test.schema, text)
			}
		}
	}
	g, err := ParseSchema(nil,
		[]byte(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}}}`),
		SchemaOptions{Blanks: true})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{`{"a":[1,2]}`: true, `{"a": [1, 2]}`: true,
		"{\n  \"a\": [\n    1,\n    2\n  ]\n}": true, "{   }": false, `{"a" : [ ]}`: true, "{\n\n\n}": false} {
		if accepts(t, g, text) != want {
			t.Errorf("with blanks %q: %v", text, !want)
		}
	}
}

func TestSchemaErrors(t *testing.T) {
	for source, want := range map[string]string{
		``:                                `JSON`,
		`{`:                               `JSON`,
		`{} {}`:                           `more than one`,
		`{"type":"integer","type":1}`:     `"type" twice`,
		`1`:                               `an object or a boolean`,
		`{"anyOf":[{"not":5},true]}`:      `an object or a boolean`,
		`false`:                           `no value is valid`,
		`{"type":"int"}`:                  `#/type: unknown type "int"`,
		`{"type":[]}`:                     `#/type`,
		`{"type":1}`:                      `#/type`,
		`{"not":{}}`:                      `no value is valid`,
		`{"$ref":"#/$defs/x"}`:            `not in this document`,
		`{"$ref":"http://example.com/x"}`: `not in this document`,
		`{"$ref":"#"}`:                    `left-recursive`,
		`{"type":"array","items":{"type":"string"},` +
			`"uniqueItems":true}`: `#/uniqueItems: is supported for items of up to 8 values`,
		`{"type":"string","pattern":"a^b"}`:                                    `no finite value`,
		`{"type":"string","pattern":"a\\bc"}`:                                  `no finite value`,
		`{"type":"string","pattern":"(a\\b)+"}`:                                `assertions inside of a repetition`,
		`{"type":"object","required":["a"],"additionalProperties":false}`:      `"a" is required and forbidden`,
		`{"type":"array","contains":{"type":"null"},"unevaluatedItems":false}`: `#/unevaluatedItems: beside contains`,
		`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}}`:   `no finite value`,
		`{"enum":[]}`:                                                                     `#/enum`,
		`{"type":"string","enum":[1]}`:                                                    `no value of const`,
		`{"pattern":"(a"}`:                                                                `#/pattern`,
		`{"pattern":"(a)\\1"}`:                                                            `#/pattern`,
		`{"patternProperties":{"(a)\\1":{}}}`:                                             `#/patternProperties/(a)\1: regular`,
		`{"pattern":"^\\P{scx=Greek}$"}`:                                                  `#/pattern`,
		`{"type":"string","format":"regex"}`:                                              `#/format: "regex" cannot be held`,
		`{"type":"string","minLength":3,"maxLength":2}`:                                   `less than`,
		`{"type":"string","minLength":-1}`:                                                `#/minLength`,
		`{"type":"string","minLength":1e9}`:                                               `#/minLength`,
		`{"type":"array","minItems":3,"maxItems":2}`:                                      `less than`,
		`{"type":"array","prefixItems":[{}],"items":false,"minItems":2}`:                  `minItems 2`,
		`{"type":"array","items":false,"minItems":1}`:                                     `minItems 1`,
		`{"type":"object","required":["ab"],"propertyNames":{"maxLength":1}}`:             `"ab" is required and forbidden`,
		`{"type":"integer","minimum":3,"maximum":2}`:                                      `no number`,
		`{"type":"integer","exclusiveMinimum":2,"exclusiveMaximum":3}`:                    `no number`,
		`{"not":{"oneOf":[{"type":"array","unevaluatedItems":false},{"type":"string"}]}}`: `contrary of unevaluatedItems`,
		`{"not":{"anyOf":[{"type":"array","unevaluatedItems":false},{"type":"string"}]}}`: `contrary of unevaluatedItems`,
		`{"not":{"allOf":[{"type":"array","unevaluatedItems":false},{"type":"array"}]}}`:  `contrary of unevaluatedItems`,
		`{"not":{"uniqueItems":true}}`:                                                    `contrary of uniqueItems`,
		`{"not":{"prefixItems":[true],"items":{"const":1}}}`:                              `contrary of items behind others`,
		`{"not":{"multipleOf":0.1234567890123456789}}`:                                    `too many digits`,
		`{"multipleOf":1234567890123456789}`:                                              `too many digits`,
		`{"const":"\ud800"}`:                                                              `#/const: half of a surrogate pair`,
		`{"anyOf":[{},{"enum":[1,{"a":"\udc00\ud800"}]}]}`:                                `#/anyOf/1/enum/1/a: half of`,
		`{"pattern":"\ud83d.\ude00"}`:                                                     `#/pattern: half of`,
		`{"properties":{"a":{},"\ud83d":{}}}`:                                             `#/properties: half of`,
		"{\"const\":\"\xff\"}":                                                            `not valid UTF-8`,
		`{"multipleOf":0}`:                                                                `#/multipleOf: a number above 0`,
		`{"not":{"multipleOf":-1}}`:                                                       `a number above 0`,
		`{"type":"integer","minimum":"a"}`:                                                `#/minimum`,
		`{"anyOf":[]}`:                                                                    `#/anyOf`,
		`{"oneOf":[{"const":1},{"const":1.0}]}`:                                           `no value is valid`,
		`{"type":"object","required":"a"}`:                                                `#/required`,
		strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat(`}`, 5000):              `Nesting`,
	} {
		_, err := ParseSchema(nil, []byte(source), SchemaOptions{})
		if err == nil || !errors.Is(err, ErrGrammar) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", source, err, want)
		}
	}
}

// TestNumbers compares bounds with exact arithmetic.
func TestNumbers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	decimal := func() string {
		n := []int64{3, 30, 300, 12000}[random.IntN(4)]
		text := big.NewRat(random.Int64N(2*n)-n, []int64{1, 1, 2, 10, 100, 8}[random.IntN(6)]).FloatString(3)
		if random.IntN(2) == 0 {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		if text == "-0" || text == "-0.000" {
			text = "0"
		}
		return text
	}
	rat := func(text string) *big.Rat { r, _ := new(big.Rat).SetString(text); return r }
	for range 400 {
		kind := []string{"integer", "number"}[random.IntN(2)]
		schema := fmt.Sprintf(`{"type":%q`, kind)
		holds := func(*big.Rat) bool { return true }
		for _, bound := range []struct {
			key  string
			side int
			open bool
		}{{"minimum", -1, false}, {"exclusiveMinimum", -1, true}, {"maximum", 1, false}, {"exclusiveMaximum", 1,
			true}} {
			if random.IntN(2) == 0 {
				continue
			}
			text, before := decimal(), holds
			schema += fmt.Sprintf(`,%q:%s`, bound.key, text)
			holds = func(x *big.Rat) bool {
				c := x.Cmp(rat(text)) * bound.side
				return before(x) && (c < 0 || c == 0 && !bound.open)
			}
		}
		schema += `}`
		g, err := ParseSchema(nil, []byte(schema), SchemaOptions{})
		var m *machine
		var start int32
		if err == nil {
			m, start = machineOf(g)
		}
		found := false
		for range 300 {
			text := decimal()
			if kind == "integer" && strings.Contains(text, ".") || strings.HasPrefix(text, "-0") &&
				strings.Trim(text, "-0.") == "" {
				continue
			}
			want := holds(rat(text))
			found = found || want
			if err == nil {
				if got := m.accepts(t, start, text); got != want {
					t.Fatalf("%s accepts %s: %v", schema, text, got)
				}
			}
		}
		if err != nil && (found || !strings.Contains(err.Error(), "no number")) {
			t.Fatalf("%s: %v", schema, err)
		}
	}
	g := schemaOf(t, `{"type":"integer","minimum":1e20}`)
	if !accepts(t, g, "100000000000000000000") || accepts(t, g, "99999999999999999999") {
		t.Error("a bound above the usual digits")
	}
}

func TestFormats(t *testing.T) {
	valid := map[string]func(string) bool{
		"date":      func(s string) bool { _, err := time.Parse("2006-01-02", s); return err == nil },
		"time":      func(s string) bool { _, err := time.Parse("15:04:05Z07:00", s); return err == nil },
		"date-time": func(s string) bool { _, err := time.Parse(time.RFC3339, s); return err == nil },
	}
	for name, f := range formats {
		if f.pattern == "" {
			continue
		}
		g := schemaOf(t, fmt.Sprintf(`{"type":"string","format":%q}`, name))
		random := rand.New(rand.NewPCG(5, 6))
		m, start := machineOf(g)
		for range 50 {
			text := m.write(t, start, random, 400)
			var s string
			if err := json.Unmarshal([]byte(text), &s); err != nil {
				t.Fatalf("%s: %s: %v", name, text, err)
			}
			if check := valid[name]; check != nil && !check(strings.Replace(strings.ToUpper(s), ":60", ":59",
				1)) { // Go has no leap seconds
				t.Errorf("%s: %q", name, s)
			}
		}
	}
	for format, texts := range map[string][2]string{
		"ipv4": {`"192.168.0.255"`, `"256.1.1.1"`}, "ipv6": {`"2001:db8:0:0:0:0:0:1"`, `"1:2:3"`},
		"uuid":  {`"123e4567-e89b-12d3-a456-426614174000"`, `"123e4567"`},
		"email": {`"a.b@example.org"`, `"a@"`}, "hostname": {`"example.org"`, `"-a"`},
		"uri":  {`"https://example.org:80/a?b=c#d"`, `"example"`},
		"date": {`"2024-02-28"`, `"2024-13-01"`}, "duration": {`"P1Y2M3DT4H"`, `"P"`},
		"date-time": {`"2024-01-31T23:59:59Z"`, `"2024-01-31"`},
	} {
		g := schemaOf(t, fmt.Sprintf(`{"format":%q}`, format))
		if !accepts(t, g, texts[0]) || accepts(t, g, texts[1]) {
			t.Errorf("%s: %v, %v", format, accepts(t, g, texts[0]), accepts(t, g, texts[1]))
		}
	}
}

// write makes a random text of the grammar: random bytes that it allows, and after most bytes those that end it
// soonest.
func write(t testing.TB, g *Grammar, random *rand.Rand, most int) string {
	t.Helper()
	m, at := machineOf(g)
	return m.write(t, at, random, most)
}

// write is a text from state at on.
func (m *machine) write(t testing.TB, at int32, random *rand.Rand, most int) string {
	t.Helper()
	var text []byte
	for len(text) < most && !(m.states[at].final && random.IntN(4) == 0) {
		var next []byte
		for b := range 256 {
			if m.step(at, byte(b)) >= 0 {
				next = append(next, byte(b))
			}
		}
		if len(next) == 0 {
			break
		}
		b := next[random.IntN(len(next))]
		at = m.step(at, b)
		text = append(text, b)
	}
	var remaining []int
	for !m.states[at].final { // the shortest way out
		if len(remaining) != len(m.code) {
			remaining = shortest(m)
		}
		best, least := byte(0), 1<<30
		for _, th := range m.states[at].threads {
			n := remaining[th.at]
			for stack := th.stack; stack != 0; stack = m.stacks[stack].below {
				n += remaining[m.stacks[stack].address]
			}
			if n < least {
				best, least = m.code[th.at].lo, n
			}
		}
		if at = m.step(at, best); at < 0 {
			t.Fatalf("no way out after %q", text)
		}
		text = append(text, best)
	}
	return string(text)
}

// shortest is the fewest bytes from each instruction to its rule's end, about: a character of a term counts as many.
func shortest(m *machine) []int {
	const never, character = 1 << 24, 12
	m.work.renew(context.Background(), m.limits)
	n := make([]int, len(m.code))
	for i := range n {
		n[i] = never
	}
	characters := map[term]int{}
	var count func(from term) int
	count = func(from term) int { // by breadth, over the automaton
		if d, ok := characters[from]; ok {
			return d
		}
		seen, queue := map[term]int{from: 0}, []term{from}
		for ; len(queue) > 0; queue = queue[1:] {
			if m.parts.terms.nullable(queue[0]) {
				characters[from] = seen[queue[0]]
				return seen[queue[0]]
			}
			for _, a := range m.parts.terms.follow(queue[0]) {
				if _, ok := seen[a.to]; !ok {
					seen[a.to] = seen[queue[0]] + 1
					queue = append(queue, a.to)
				}
			}
		}
		return never
	}
	for changed := true; changed; {
		changed = false
		for i, c := range m.code {
			v := 0
			switch c.op {
			case opByte:
				v = never
				if c.lo <= c.hi {
					v = 1 + n[c.next]
				}
			case opSplit:
				v = min(n[c.next], n[c.other])
			case opCall:
				v = n[c.other] + n[c.next]
			case opLazy:
				v = character*count(m.parts.terms.of(m.lazies[c.other].x)) + n[c.next]
			case opTerm:
				v = character*count(term(c.other)) + n[c.next]
			}
			if v < n[i] {
				n[i], changed = v, true
			}
		}
	}
	return n
}

// narrowOf is the grammar of a schema that allows what it speaks of only.
func narrowOf(t testing.TB, source string) *Grammar {
	t.Helper()
	g, err := ParseSchema(nil, []byte(source), SchemaOptions{Narrow: true})
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return g
}
