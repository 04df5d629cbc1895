package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// drawn makes random schemas over all keywords. Members keep their order, so that keys come in the schema's.
type drawn struct {
	*rand.Rand
	defs  int  // parts under $defs that references may name
	exact bool // formats that both validators know in the same way: where the contrary of one counts
}

// names are those of members; some have characters that JSON escapes, or that take several bytes.
var names = []string{"a", "b", "ab", "name", "q\"", "é", "x-1", "n\n", "id"}

// patterns of strings and of names.
var patterns = []string{`^[a-c]{2,3}$`, `x+`, `^(ab|cd)*$`, `^\w\d?`, `.\.$`, `^(?=.*[0-9])[a-z0-9]{1,6}$`,
	`^(?!ab)[a-d]+$`, `\bok\b`, `^[A-Z][a-z]*( [A-Z][a-z]*)?$`, `^\S+$`, `^[^"\\]*$`, `^é+$`, `\d{3}-\d{4}`, `^$|^no$`,
	`^x-`, `[^a-z]`}

// textFormats are those that the other validator knows; of those behind the first four it accepts more than is right.
var textFormats = []string{"date", "ipv4", "uuid", "json-pointer", "time", "date-time", "duration", "email", "hostname",
	"ipv6", "uri", "uri-reference", "relative-json-pointer"}

// schema is a random schema with its definitions.
func (d *drawn) schema() string {
	d.defs = d.IntN(3)
	var defs []string
	for i := range d.defs {
		defs = append(defs, fmt.Sprintf(`"d%d":%s`, i, d.part(2)))
	}
	top := d.part(3)
	if len(defs) == 0 || top[0] != '{' || top == "{}" {
		return top
	}
	return top[:len(top)-1] + `,"$defs":{` + strings.Join(defs, ",") + "}}"
}

func (d *drawn) one(of ...string) string { return of[d.IntN(len(of))] }

func (d *drawn) chance(percent int) bool { return d.IntN(100) < percent }

// part is a schema of at most depth levels: an assertion or two about one type, a value, a composition, a reference.
func (d *drawn) part(depth int) string {
	kinds := 9
	if depth > 0 {
		kinds = 22
	}
	switch kind := d.IntN(kinds); {
	case kind == 0:
		return fmt.Sprintf(`{"enum":[%s]}`, strings.Join(d.values(1+d.IntN(5)), ","))
	case kind == 1:
		return fmt.Sprintf(`{"const":%s}`, d.value(2))
	case kind == 2:
		return d.one(`{"type":["boolean","null"]}`, `{"type":"null"}`, `true`, `{}`, `{"type":"boolean"}`)
	case kind < 5:
		return d.number()
	case kind < 8:
		return d.text()
	case kind == 8:
		if d.defs > 0 {
			return fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, d.IntN(d.defs))
		}
		return d.number()
	case kind < 14:
		return d.object(depth)
	case kind < 17:
		return d.array(depth)
	}
	return d.composed(depth)
}

// number is a schema of numbers with some of their keywords.
func (d *drawn) number() string {
	s := []string{`"type":"` + d.one("integer", "number") + `"`}
	low := float64(d.IntN(4000)-2000) / float64([]int{1, 1, 8, 10, 100}[d.IntN(5)])
	if d.chance(50) {
		s = append(s, fmt.Sprintf(`"%s":%v`, d.one("minimum", "exclusiveMinimum"), low))
	}
	if d.chance(50) {
		s = append(s, fmt.Sprintf(`"%s":%v`, d.one("maximum", "exclusiveMaximum"), low+float64(d.IntN(300))/4))
	}
	if d.chance(30) {
		s = append(s, `"multipleOf":`+d.one("2", "3", "0.5", "0.01", "7", "2.5", "100"))
	}
	return "{" + strings.Join(s, ",") + "}"
}

// text is a schema of strings with some of their keywords.
func (d *drawn) text() string {
	s := []string{`"type":"string"`}
	least := d.IntN(4)
	if d.chance(30) {
		s = append(s, fmt.Sprintf(`"minLength":%d`, least))
	}
	if d.chance(40) {
		s = append(s, fmt.Sprintf(`"maxLength":%d`, least+d.IntN(8)))
	}
	switch d.IntN(4) {
	case 0, 1:
		s = append(s, fmt.Sprintf(`"pattern":%s`, quoted(d.one(patterns...))))
	case 2:
		some := textFormats
		if d.exact {
			some = some[:4]
		}
		return fmt.Sprintf(`{"type":"string","format":%q}`, d.one(some...))
	}
	return "{" + strings.Join(s, ",") + "}"
}

// object is a schema of objects with some of their keywords.
func (d *drawn) object(depth int) string {
	s := []string{}
	if d.chance(80) {
		s = append(s, `"type":"object"`)
	}
	has := slices.Clone(names)
	d.Shuffle(len(has), func(i, j int) { has[i], has[j] = has[j], has[i] })
	has = has[:d.IntN(5)]
	var members, required []string
	for _, n := range has {
		members = append(members, quoted(n)+":"+d.part(depth-1))
		if d.chance(50) {
			required = append(required, quoted(n))
		}
	}
	if d.chance(10) {
		required = append(required, quoted(d.one(names...)))
	}
	slices.Sort(required)
	required = slices.Compact(required)
	s = append(s, `"properties":{`+strings.Join(members, ",")+"}", `"required":[`+strings.Join(required, ",")+"]")
	rest := func(keyword string) string {
		if d.chance(50) {
			return fmt.Sprintf(`%q:false`, keyword)
		}
		return fmt.Sprintf(`%q:%s`, keyword, d.part(0))
	}
	for _, more := range []struct {
		percent int
		keyword func() string
	}{
		{45, func() string { return rest("additionalProperties") }},
		{15, func() string { return fmt.Sprintf(`"minProperties":%d`, d.IntN(4)) }},
		{15, func() string { return fmt.Sprintf(`"maxProperties":%d`, 1+d.IntN(5)) }},
		{12, func() string {
			return fmt.Sprintf(`"patternProperties":{%s:%s}`, quoted(d.one("^x-", "^[a-c]$", "d$", "é")), d.part(depth-1))
		}},
		{8, func() string {
			return fmt.Sprintf(`"propertyNames":%s`, d.one(`{"pattern":"^[a-z]+$"}`, `{"maxLength":3}`, `{"minLength":1}`))
		}},
		{10, func() string { return `"dependentRequired":{"a":["b"],"id":["name","a"]}` }},
		{10, func() string { return fmt.Sprintf(`"dependentSchemas":{"a":%s}`, d.object(0)) }},
		{6, func() string { return rest("unevaluatedProperties") }},
	} {
		if d.chance(more.percent) {
			s = append(s, more.keyword())
		}
	}
	return "{" + strings.Join(s, ",") + "}"
}

// array is a schema of arrays with some of their keywords.
func (d *drawn) array(depth int) string {
	s := []string{`"type":"array"`}
	least := d.IntN(3)
	for _, more := range []struct {
		percent int
		keyword func() string
	}{
		{30, func() string { return fmt.Sprintf(`"prefixItems":[%s,%s]`, d.part(depth-1), d.part(depth-1)) }},
		{70, func() string { return `"items":` + d.part(depth-1) }},
		{40, func() string { return fmt.Sprintf(`"minItems":%d`, least) }},
		{50, func() string { return fmt.Sprintf(`"maxItems":%d`, least+d.IntN(4)) }},
		{15, func() string { return `"contains":` + d.part(0) }},
		{5, func() string { return `"minContains":2` }},
		{5, func() string { return `"maxContains":3` }},
		{5, func() string { return `"uniqueItems":true` }},
		{4, func() string { return `"unevaluatedItems":false` }},
	} {
		if d.chance(more.percent) {
			s = append(s, more.keyword())
		}
	}
	return "{" + strings.Join(s, ",") + "}"
}

// composed is a schema of other schemas.
func (d *drawn) composed(depth int) string {
	kind := d.IntN(6)
	defer func(exact bool) { d.exact = exact }(d.exact)
	d.exact = d.exact || kind == 1 || kind == 3
	a, b, c := d.part(depth-1), d.part(depth-1), d.part(depth-1)
	switch kind {
	case 0:
		return fmt.Sprintf(`{"anyOf":[%s,%s,%s]}`, a, b, c)
	case 1:
		return fmt.Sprintf(`{"oneOf":[%s,%s]}`, a, b)
	case 2:
		return fmt.Sprintf(`{"allOf":[%s,%s]}`, d.object(depth-1), d.object(depth-1))
	case 3:
		return fmt.Sprintf(`{"not":%s}`, d.part(0))
	case 4:
		return fmt.Sprintf(`{"type":"object","properties":{"kind":{"enum":["a","b"]},"v":true},"required":["kind"],`+
			`"if":{"properties":{"kind":{"const":"a"}}},"then":{"properties":{"v":%s},"required":["v"]},`+
			`"else":{"properties":{"v":%s}}}`, a, b)
	}
	return fmt.Sprintf(`{"allOf":[%s,%s]}`, a, d.one(a, b, `{"type":["string","integer","object","array"]}`))
}

// values are n different values.
func (d *drawn) values(n int) (all []string) {
	for range n {
		if v := d.value(1); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// value is a random JSON value.
func (d *drawn) value(depth int) string {
	kinds := 5
	if depth > 0 {
		kinds = 7
	}
	switch d.IntN(kinds) {
	case 0:
		return d.one("null", "true", "false")
	case 1:
		return fmt.Sprint(d.IntN(40) - 20)
	case 2:
		return d.one("1.5", "-0.25", "100", "1e3", "0")
	case 3, 4:
		return d.one(`"a"`, `"b"`, `""`, `"y\n"`, `"é\""`, `"😀"`, `"on"`, `"off"`)
	case 5:
		return "[" + strings.Join(d.values(d.IntN(3)), ",") + "]"
	}
	return `{"k":` + d.value(depth-1) + d.one("", `,"a":1`) + "}"
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
