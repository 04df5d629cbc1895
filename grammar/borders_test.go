package grammar

import (
	"fmt"
	"strings"
	"testing"
)

// values are texts that a schema allows and texts that it does not.
type values struct {
	schema  string
	yes, no []string
}

func (x values) check(t *testing.T) {
	t.Helper()
	g := schemaOf(t, x.schema)
	for _, text := range x.yes {
		if !accepts(t, g, text) {
			t.Errorf("%s refuses %s", x.schema, text)
		}
	}
	for _, text := range x.no {
		if accepts(t, g, text) {
			t.Errorf("%s accepts %s", x.schema, text)
		}
	}
}

// TestEqualBounds: of two bounds on one side that are one number the one that excludes it counts, in either order of
// the keys; of two numbers the tighter one.
func TestEqualBounds(t *testing.T) {
	for _, kind := range []string{"integer", "number"} {
		for _, x := range []struct {
			a, b    string
			yes, no []string
		}{
			{`"minimum":5`, `"exclusiveMinimum":5`, []string{"6"}, []string{"4", "5"}},
			{`"minimum":5`, `"exclusiveMinimum":5.0`, []string{"6"}, []string{"4", "5"}},
			{`"maximum":5`, `"exclusiveMaximum":5`, []string{"4", "-7"}, []string{"5", "6"}},
			{`"minimum":-5`, `"exclusiveMinimum":-5`, []string{"-4", "0"}, []string{"-5", "-6"}},
			{`"maximum":-5`, `"exclusiveMaximum":-5`, []string{"-6"}, []string{"-5", "-4", "5"}},
			{`"minimum":0`, `"exclusiveMinimum":-0.0`, []string{"1"}, []string{"0", "-1"}},
			{`"minimum":4`, `"exclusiveMinimum":5`, []string{"6"}, []string{"5"}},
			{`"minimum":6`, `"exclusiveMinimum":5`, []string{"6"}, []string{"5"}},
			{`"maximum":4`, `"exclusiveMaximum":5`, []string{"4"}, []string{"5"}},
			{`"maximum":6`, `"exclusiveMaximum":5`, []string{"4"}, []string{"5", "6"}},
			{`"maximum":-6`, `"exclusiveMaximum":-5`, []string{"-6"}, []string{"-5"}},
		} {
			values{fmt.Sprintf(`{"type":%q,%s,%s}`, kind, x.a, x.b), x.yes, x.no}.check(t)
			values{fmt.Sprintf(`{"type":%q,%s,%s}`, kind, x.b, x.a), x.yes, x.no}.check(t)
		}
	}
}

// TestBoundsWithExponents: a bound with a fraction and an exponent is the number that it means.
func TestBoundsWithExponents(t *testing.T) {
	for _, x := range []struct{ spelled, plain string }{
		{"1.5e3", "1500"}, {"1.5E+3", "1500"}, {"15e2", "1500"}, {"0.0015e6", "1500"}, {"150000e-2", "1500"}, {"1.5e1", "15"},
		{"12.5e-1", "1.25"}, {"1.25e0", "1.25"}, {"0.125e1", "1.25"}, {"125e-2", "1.25"},
		{"5e-3", "0.005"}, {"0.5e-2", "0.005"},
		{"-1.5e3", "-1500"}, {"-12.5e-1", "-1.25"}, {"1.0e2", "100"}, {"100e-2", "1"}, {"0e5", "0"},
		{"0.0e-5", "0"}, {"-0e3", "0"},
	} {
		a, ok := parseDecimal(x.spelled, 20)
		b, _ := parseDecimal(x.plain, 20)
		if !ok || a != b {
			t.Errorf("%s is read as %+v, %s as %+v", x.spelled, a, x.plain, b)
		}
	}
	values{`{"type":"integer","maximum":1.5e3,"minimum":1.49e3}`, []string{"1490", "1500"},
		[]string{"1489", "1501", "150000", "150"}}.check(t)
	values{`{"type":"number","minimum":12.5e-1}`, []string{"1.25", "1.3", "2"}, []string{"1.24", "1", "0.125"}}.check(t)
}

// TestMaxItemsWithinPrefix: an array has no more items than maxItems, fewer than minItems neither, whatever
// prefixItems lists.
func TestMaxItemsWithinPrefix(t *testing.T) {
	lists := []string{`[]`, `[1]`, `[1,2]`, `[1,2,3]`, `[1,2,3,4]`, `[1,2,3,4,5]`}
	for most := range 6 {
		for least := range most + 1 {
			for _, items := range []string{"", `,"items":{"type":"integer"}`} {
				x := values{schema: fmt.Sprintf(`{"prefixItems":[%s],"minItems":%d,"maxItems":%d%s}`,
					repeated(3, func(int) string { return `{"type":"integer"}` }), least, most, items)}
				for n, list := range lists {
					if ok := n >= least && n <= most; ok && (n <= 3 || items != "" || least > 3) {
						x.yes = append(x.yes, list)
					} else if !ok {
						x.no = append(x.no, list)
					}
				}
				x.check(t)
			}
		}
	}
}

// TestPointersAreDecoded: a $ref is a JSON pointer in a URI fragment: percent signs first, then ~1, then ~0, part by
// part.
func TestPointersAreDecoded(t *testing.T) {
	const defs = `,"$defs":{"a~1b":{"const":1},"a/b":{"const":2},"a~b":{"const":3},"a%b":{"const":4},"a%25b":{"const":5},"":{"const":6},
		"~":{"const":7},"list":{"anyOf":[{"const":8},{"const":9}]},"01":{"const":10},"a b":{"const":11},"~01":{"const":12}}}`
	for ref, want := range map[string]string{
		"a~01b": "1", "a~1b": "2", "a~0b": "3", "a%25b": "4", "a%2525b": "5", "": "6", "~0": "7",
		"list/anyOf/0": "8", "list/anyOf/1": "9",
		"01": "10", "a%20b": "11", "~001": "12", "a%7E01b": "1", "a%2Fb": "-", "list/anyOf/01": "-",
		"list/anyOf/2": "-", "list/anyOf/-1": "-",
		"list/anyOf/x": "-", "missing": "-", "a~1b/const/x": "-", "%zz": "-",
	} {
		source := fmt.Sprintf(`{"$ref":"#/$defs/%s"`, ref) + defs
		if want == "-" {
			if _, err := ParseSchema(nil, []byte(source), SchemaOptions{}); err == nil {
				t.Errorf("#/$defs/%s names something", ref)
			}
			continue
		}
		if !accepts(t, schemaOf(t, source), want) {
			t.Errorf("#/$defs/%s is not %s", ref, want)
		}
	}
}

// TestConstantsOfTypes: of the values of enum and const those remain that have a type of the schema's; a whole number
// is an integer and a number, however it is spelled.
func TestConstantsOfTypes(t *testing.T) {
	const list = `"enum":[1,1.5,"1",true,null,[1],{"a":1},2.0,3e2,15e-1,100e-2]`
	all := []string{`1`, `1.5`, `"1"`, `true`, `null`, `[1]`, `{"a":1}`, `2.0`, `3e2`, `15e-1`, `100e-2`}
	for types, indices := range map[string][]int{
		`"integer"`: {0, 7, 8, 10}, `"number"`: {0, 1, 7, 8, 9, 10}, `"string"`: {2}, `"boolean"`: {3}, `"null"`: {4},
		`"array"`: {5}, `"object"`: {6},
		`["number","null"]`: {0, 1, 4, 7, 8, 9, 10}, `["integer","string"]`: {0, 2, 7, 8, 10},
		`["integer","number"]`: {0, 1, 7, 8, 9, 10},
	} {
		x := values{schema: fmt.Sprintf(`{"type":%s,%s}`, types, list)}
		for i, text := range all {
			in := false
			for _, n := range indices {
				in = in || n == i
			}
			if in {
				x.yes = append(x.yes, text)
			} else {
				x.no = append(x.no, text)
			}
		}
		x.check(t)
	}
	for text, whole := range map[string]bool{
		"0": true, "-0.0": true, "1e400": true, "1e-400": false, "0e-400": true, "1.25e2": true, "1.25e1": false,
		"10e-1": true, "10e-2": false,
		"1e99999999999999999999": true, "1e-99999999999999999999": false, "0.10e1": true, "-1.0": true, "1E+2": true,
	} {
		if integral(text) != whole {
			t.Errorf("%s is whole: %v", text, !whole)
		}
	}
}

// TestOneOfComparesOwnTypes: schemas of their own type that differ in a required constant are told apart, however
// deep and in whatever order the difference stands; those that do not differ are refused.
func TestOneOfComparesOwnTypes(t *testing.T) {
	schema := func(kindA, kindB string) string {
		node := func(kind string) string {
			return `{"type":"object","properties":{` +
				repeated(10, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#"}`, i) }) +
				`,"kind":{"const":"` + kind + `"}},"required":[` +
				repeated(10, func(i int) string { return fmt.Sprintf(`"p%d"`, i) }) + `,"kind"]}`
		}
		return `{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"},{"type":"null"}],"$defs":{"a":` + node(kindA) +
			`,"b":` + node(kindB) + `}}`
	}
	values{schema("x", "y"), []string{`null`}, []string{`1`, `{}`}}.check(t)
	if _, err := ParseSchema(nil, []byte(schema("x", "x")), SchemaOptions{}); err == nil {
		t.Error("two schemas for one value")
	}
}

// TestMultiplesOfSomeLengths: whether digits of some lengths make a multiple is known as if all were tried.
func TestMultiplesOfSomeLengths(t *testing.T) {
	for step := int64(1); step <= 50; step++ {
		for places := range 3 {
			for least := range 4 {
				for most := least; most <= 4; most++ {
					s := newTerms(NewBudget(t.Context(), Limits{}), nil)
					before := fmt.Sprint((step*7 + int64(least%2)*13) % 100) // where least is odd mostly no multiple
					x := s.of(both{sequence{literal(before), repeat{digit, least, most}}, multiple{step, places}})
					want := false
					for length := least; length <= most && !want; length++ {
						for d := 0; d < []int{1, 10, 100, 1000, 10000}[length] && !want; d++ {
							text := before
							if length > 0 {
								text += fmt.Sprintf("%0*d", length, d)
							}
							want = s.matches(x, text)
						}
					}
					if got := s.live(x); got != want {
						t.Errorf("%s and %d to %d digits, a multiple of %d/10^%d: %v, want %v", before, least, most, step, places,
							got, want)
					}
				}
			}
		}
	}
}

// TestNoMultipleWithinBounds: that there is none is known before a text begins, however large the step is.
func TestNoMultipleWithinBounds(t *testing.T) {
	const source = `{"type":"integer","multipleOf":1000000007,"minimum":1,"maximum":1000000006}`
	_, err := ParseSchema(nil, []byte(source), SchemaOptions{})
	if err == nil || !strings.Contains(err.Error(), "no finite value is valid") {
		t.Errorf("%s: %v", source, err)
	}
}
