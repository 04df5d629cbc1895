package jinja

import (
	"errors"
	"strings"
	"testing"
)

// Arguments that are left out, none or given, and loops that end early, do what Jinja2 does with them.
func TestArgumentsAndLoopEndsAsInJinja(t *testing.T) {
	for source, want := range map[string]string{
		"{{ [1, 2, 3]|batch(2)|list }}":                         "[[1, 2], [3]]",
		"{{ [1, 2, 3]|batch(2, none)|list }}":                   "[[1, 2], [3]]",
		"{{ [1, 2, 3]|batch(2, 'x')|list }}":                    "[[1, 2], [3, 'x']]",
		"{{ [1, 2, 3]|batch(2, false)|list }}":                  "[[1, 2], [3, False]]",
		"{{ [1, 2, 3]|slice(2, none)|list }}":                   "[[1, 2], [3]]",
		"{{ [1, 2, 3]|slice(2, 'x')|list }}":                    "[[1, 2], [3, 'x']]",
		"{{ 'aaa'|replace('a', 'b', none) }}":                   "bbb",
		"{{ 'aaa'|replace('a', 'b', 2) }}":                      "bba",
		"{{ [{'a': 1}, {'a': 2}]|sum('a') }}":                   "3",
		"{{ [1, 2]|sum(none, 4) }}":                             "7",
		"{{ '3.7'|int }}":                                       "3",
		"{{ ' -3.7 '|int }}":                                    "-3",
		"{{ '+12 '|int }}":                                      "12",
		"{{ '1e3'|int }}":                                       "1000",
		"{{ '0x1f'|int(base=16) }}":                             "31",
		"{{ 'x'|int }} {{ 'x'|int(7) }}":                        "0 7",
		"{{ 3.9|int }} {{ true|int }}":                          "3 1",
		"{{ '3.7'|float }} {{ 'x'|float(1.5) }}":                "3.7 1.5",
		"{{ {'a': 2, 'b': 1}|dictsort }}":                       "[('a', 2), ('b', 1)]",
		"{{ {'a': 2, 'b': 1}|dictsort(by='key') }}":             "[('a', 2), ('b', 1)]",
		"{{ {'a': 2, 'b': 1}|dictsort(by='value') }}":           "[('b', 1), ('a', 2)]",
		"{{ {'a': 1, 'b': 2}|dictsort(false, 'value', true) }}": "[('b', 2), ('a', 1)]",
		"{{ {'b': 1, 'A': 2}|dictsort }}":                       "[('A', 2), ('b', 1)]",
		"{{ {'a': 1, 'B': 2}|dictsort(true) }}":                 "[('B', 2), ('a', 1)]",
		"{% for k, v in [{'k': 1}, {}]|groupby('k', default=0) %}{{ k }}{{ v|length }} {% endfor %}":              "01 11 ",
		"{% for k, v in [{'k': 'a'}, {'k': 'A'}]|groupby('k') %}{{ v|length }} {% endfor %}":                      "2 ",
		"{% for k, v in [{'k': 'a'}, {'k': 'A'}]|groupby('k', case_sensitive=true) %}{{ v|length }} {% endfor %}": "1 1 ",
		"{{ [{'k': 1}, {}]|map(attribute='k', default=5)|list }}":                                                 "[1, 5]",
		"{% for x in [1, 2] %}{% break %}{% else %}none{% endfor %}":                                              "none",
		"{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}none{% endfor %}":                    "",
		"{% for x in [1, 2] %}{% continue %}{% else %}none{% endfor %}":                                           "none",
		"{% for x in [] %}{% else %}none{% endfor %}":                                                             "none",
		"{% for x in [1] if x > 1 %}{% else %}none{% endfor %}":                                                   "none",
		"{% for x in [1, 2] %}{{ x }}{% else %}none{% endfor %}":                                                  "12",
	} {
		wantRendered(t, source, want)
	}
}

// The condition of a loop is asked about an item when its turn comes, so that it sees what the passes before have set,
// or when the loop is asked what follows.
func TestConditionsOfLoopsAreAskedLate(t *testing.T) {
	for body, want := range map[string]string{
		"":                      "12",
		"{{ loop.index }}":      "1122",
		"{{ loop.last }} ":      "1False 2False 3True ",
		"{{ loop.length }} ":    "13 23 33 ",
		"{{ loop.revindex0 }} ": "12 21 30 ",
		"{{ loop.nextitem }}":   "12233",
		"{{ loop.previtem }}":   "121",
		"{% if x == 1 %}{{ loop.nextitem }}{% endif %}": "122",
	} {
		wantRendered(t, "{% set n = namespace(stop=false) %}{% for x in [1, 2, 3] if not n.stop %}{{ x }}"+body+
			"{% if x == 2 %}{% set n.stop = true %}{% endif %}{% endfor %}", want)
	}
}

// wantRendered checks the text of a template that reads nothing.
func wantRendered(t *testing.T, source, want string) {
	t.Helper()
	if got, err := render(source, Context{}); err != nil || got.String() != want {
		t.Errorf("%s: %q, want %q: %v", source, got.String(), want, err)
	}
}

// Numbers with fractions are divided as in Python: the quotient is what the rest leaves.
func TestQuotientsOfFloatsAsInPython(t *testing.T) {
	wantRendered(t, "{{ 1 // 0.1 }} {{ 1 % 0.1 }} {{ -1 // 0.1 }} {{ -7.5 // 2 }} {{ 7.5 // -2 }} {{ -7.5 % 2 }} "+
		"{{ 0.3 // 0.1 }} {{ 6.0 // 3 }} {{ -0.0 // 3 }} {{ 6.0 % -3 }}",
		"9.0 0.09999999999999995 -10.0 -4.0 -4.0 0.5 2.0 2.0 -0.0 -0.0")
}

// What is not defined is no number, whatever stands for text that is none.
func TestUndefinedValuesAreNoNumbers(t *testing.T) {
	for _, source := range []string{"{{ x|int }}", "{{ x|int(5) }}", "{{ x|float }}",
		"{{ [{}]|map(attribute='a')|map('int')|list }}"} {
		if got, err := render(source, Context{}); !errors.Is(err, ErrRuntime) {
			t.Errorf("%s: %q, %v", source, got.String(), err)
		}
	}
	wantRendered(t, "{{ none|int }} {{ none|float }} {{ x|default('7')|int }}", "0 0.0 7")
}

// An integer that 64 bits do not hold is refused; Python has it, and 0 or another number is not it.
func TestLargeIntegersAreRefused(t *testing.T) {
	for _, source := range []string{"{{ '9223372036854775808'|int }}", "{{ '1e19'|int(3) }}", "{{ 1e19|int }}",
		"{{ 'ffffffffffffffff'|int(base=16) }}", "{{ '%d' % 1e20 }}", "{{ '%d' % -1e20 }}"} {
		if got, err := render(source, Context{}); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %q, %v", source, got.String(), err)
		}
	}
	wantRendered(t, "{{ '9223372036854775807'|int }} {{ '%d' % 1e18 }}", "9223372036854775807 1000000000000000000")
}

// What lays texts out takes no other values, and a format with a width no lists, as in Python.
func TestLayoutIsOfTexts(t *testing.T) {
	for _, source := range []string{"{{ 7|indent }}", "{{ x|indent }}", "{{ [1]|truncate(0, leeway=0, end='') }}",
		"{{ 7|truncate }}", "{{ none|wordwrap(8) }}",
		"{{ '{:>8}'.format([1]) }}", "{{ '{:<5}'.format(none) }}", "{{ '{:5}'.format(x) }}", "{{ '{:,}'.format('a') }}",
		"{{ '{:+}'.format('a') }}", "{{ '{:#}'.format('a') }}", "{{ '{:=5}'.format('a') }}"} {
		if got, err := render(source, Context{}); !errors.Is(err, ErrRuntime) {
			t.Errorf("%s: %q, %v", source, got.String(), err)
		}
	}
	wantRendered(t, "{{ '{} {} {:>3}|{:<3}|{:^3}|{:.1}'.format([1], none, 'a', 'b', 'c', 'de') }}",
		"[1] None   a|b  | c |d")
	wantRendered(t, "{{ [1, 2]|truncate(5) }}{{ x|truncate }}{{ true|round }}{{ 'ab'|safe|list }}", "[1, 2]1['a', 'b']")
}

// The width of a % format is filled with zeros before numbers alone, and with blanks on the side that it says.
func TestPercentFormatsAreFilledAsInPython(t *testing.T) {
	for source, want := range map[string]string{
		"{{ '%5s|%-5s|%05s' % ('a', 'b', 'c') }}":          "    a|b    |    c",
		"{{ '%05d|%5d|%-5d|%+05d' % (1, 2, 3, 4) }}":       "00001|    2|3    |+0004",
		"{{ '%-05d|%-05s|' % (-1, 'a') }}":                 "-1   |a    |",
		"{{ '%05.1f|%.2s|%5.1s' % (1.25, 'abc', 'xyz') }}": "001.2|ab|    x",
		"{{ '%5r|%05r' % ('a', 'b') }}":                    "  'a'|  'b'",
	} {
		wantRendered(t, source, want)
	}
}

// What stands between brackets is an index, or a slice of up to three parts, and nothing else.
func TestSubscriptsAreIndicesOrSlices(t *testing.T) {
	for source, want := range map[string]string{
		"{{ 'abcd'[1] }}": "b", "{{ 'abcd'[1:] }}": "bcd", "{{ 'abcd'[:2] }}": "ab", "{{ 'abcd'[1:3] }}": "bc",
		"{{ 'abcd'[::2] }}": "ac", "{{ 'abcd'[1::2] }}": "bd", "{{ 'abcd'[:3:2] }}": "ac", "{{ 'abcd'[:] }}": "abcd",
		"{{ 'abcd'[3:0:-1] }}": "dcb", "{{ 'abcd'[-9:9] }}": "abcd", "{{ 'abcd'[9:] }}": "", "{{ 'abcd'[::-1] }}": "dcba",
		"{{ {(1, 2): 'x'}[1, 2] }}": "x",
	} {
		wantRendered(t, source, want)
	}
	for _, inside := range []string{"", "0 1", "0:1 1", ":1 1", "0:1:2 3", "::1 1", ":::", "0:1:2:3", "0,1 2", "0"} {
		source := "{{ 'abcd'[" + inside + "] }}"
		if inside == "0" {
			source = "{{ 'abcd'[0 }}"
		}
		if got, err := render(source, Context{}); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: %q, %v", source, got.String(), err)
		}
	}
}

// Tests are not chained, as in Jinja2; one beside another in parentheses, or behind "and", is.
func TestTestsAreNotChained(t *testing.T) {
	wantRendered(t, "{{ (1 is odd) is true }} {{ 1 is odd and 2 is even }} {{ 1 is not even }}", "True True True")
	wantRendered(t, "{{ 'is' is eq 'is' }} {{ [1] is eq [1] }}", "True True")
	for _, source := range []string{"{{ 1 is odd is even }}", "{{ 1 is odd is not even }}",
		"{% if false %}{{ 1 is odd is }}{% endif %}"} {
		if got, err := render(source, Context{}); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: %q, %v", source, got.String(), err)
		}
	}
}

// An operator that its values do not have is an error with their types, as Python names them.
func TestErrorsNameTypesAsPython(t *testing.T) {
	for value, name := range map[string]string{
		"none": "NoneType", "true": "bool", "1": "int", "1.5": "float", "'a'": "str", "(1, 2)": "tuple", "[1]": "list",
		"{}": "dict", "namespace()": "Namespace",
	} {
		if got, err := render("{{ "+value+" < {} }}", Context{}); err == nil ||
			!strings.Contains(err.Error(), name+" and dict cannot") {
			t.Errorf("%s: %q, %v, want %s", value, got.String(), err, name)
		}
	}
}

// A macro whose body does not mention its caller takes none, but among all named arguments; one that is called without
// has an undefined one, whatever the macro around it has.
func TestCallersOfMacrosAsInJinja(t *testing.T) {
	const call = "{% call m() %}c{% endcall %}"
	for source, want := range map[string]string{
		"{% macro m() %}{{ caller() }}{% endmacro %}" + call:                        "c",
		"{% macro m(caller=none) %}{{ caller is none }}{% endmacro %}" + call:       "False",
		"{% macro m() %}{{ kwargs|list }}{% endmacro %}" + call:                     "['caller']",
		"{% macro m() %}{{ caller is defined }}{{ caller }}{% endmacro %}{{ m() }}": "False",
		"{% macro m() %}{% macro i() %}{{ caller is defined }}{% endmacro %}{{ i() }}{{ caller() }}{% endmacro %}" +
			call: "Falsec",
		"{% macro m() %}{% macro i() %}{{ caller() }}{% endmacro %}x{% endmacro %}" + call:   "x",
		"{% macro m() %}{% macro i() %}{{ varargs }}{% endmacro %}x{% endmacro %}{{ m(1) }}": "x",
	} {
		wantRendered(t, source, want)
	}
	for _, source := range []string{
		"{% macro m() %}x{% endmacro %}" + call,
		"{% macro m() %}{{ varargs }}{% endmacro %}" + call,
		"{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
		"{% macro i() %}{{ caller() }}{% endmacro %}{% macro m() %}{% call i() %}{{ caller() }}{% endcall %}{% endmacro %}" +
			call,
	} {
		if got, err := render(source, Context{}); !errors.Is(err, ErrRuntime) {
			t.Errorf("%s: %q, %v", source, got.String(), err)
		}
	}
}

// The keys and the items of dicts are equal as sets are, their values never; what partition does not find is text as
// safe as the rest.
func TestViewsAndPartsAsInPython(t *testing.T) {
	const d, e = "{'a': 1, 'b': [2]}", "{'b': [2], 'a': 1.0}"
	for source, want := range map[string]string{
		d + ".keys() == " + e + ".keys()":          "True",
		d + ".items() == " + e + ".items()":        "True",
		d + ".items() == " + d + ".copy().items()": "True",
		d + ".items() != {'a': 1}.items()":         "True",
		"{'a': 1}.items() == {'a': 2}.items()":     "False",
		"{'a': 1}.values() == {'a': 1}.values()":   "False",
		"{'a': 1}.keys() == {'a': 1}.items()":      "False",
		"{'a': 1}.keys() == ['a']":                 "False",
		"('a'|safe).partition('<')":                "(Markup('a'), Markup(''), Markup(''))",
		"('a'|safe).rpartition('<')":               "(Markup(''), Markup(''), Markup('a'))",
		"'a'.partition('<')":                       "('a', '', '')",
		"('a<b'|safe).partition('<')":              "(Markup('a'), Markup('<'), Markup('b'))",
	} {
		wantRendered(t, "{{ "+source+" }}", want)
	}
}

// What a macro takes beside its parameters is what it asks for, or a macro within it, and not what the macro around it
// does.
func TestMacrosTakeWhatTheyAskForThemselves(t *testing.T) {
	for inner, outer := range map[string]string{"{{ a }}": "{{ varargs }}", "{{ a }} ": "{{ kwargs }}"} {
		for call, fails := range map[string]bool{"i(1)": false, "i(1, 2)": true, "i(1, b=2)": true} {
			source := "{% macro o() %}" + outer + "{% macro i(a) %}" + inner + "{% endmacro %}{{ " + call +
				" }}{% endmacro %}{{ o() }}"
			if got, err := render(source, Context{}); (err != nil) != fails {
				t.Errorf("%s: %q, %v", source, got.String(), err)
			}
		}
	}
	wantRendered(t, "{% macro o() %}{% macro i() %}{{ varargs }}{% endmacro %}{{ i(1) }}{{ varargs }}{% endmacro %}{{ "+
		"o(2) }}", "(1,)(2,)")
}

// What templates of models do not do, and Jinja2 does.
func TestSeldomArgumentsAsInJinja(t *testing.T) {
	for source, want := range map[string]string{
		"{{ [none, none]|sort }} {{ [[1, none], [1, none]]|sort }}":      "[None, None] [[1, None], [1, None]]",
		"{{ [2, 1]|sort(attribute=none) }} {{ ['b', 'A', 'c']|sort }}":   "[1, 2] ['A', 'b', 'c']",
		"{{ [{'a': 1}, {}, {}]|unique(attribute='a')|list }}":            "[{'a': 1}, {}]",
		"{{ {missing: 1, none: 2}[missing] }} {{ missing in {1: 2} }}":   "1 False",
		"{{ -0.5|round(method='ceil') }} {{ -0.0|round(1, 'floor') }}":   "0.0 0.0",
		"{{ 9007199254740993 / 3 }} {{ 2 / 9007199254740993 }}":          "3002399751580331.0 2.2204460492503128e-16",
		"{{ 9007199254740993 / -1 }} {{ 7 / 2 }} {{ true / 2 }}":         "-9007199254740992.0 3.5 0.5",
		"{{ 'banana'.count('a', 2) }} {{ 'banana'.count('a', -3, -1) }}": "2 1",
		"{{ 'éaéa'.count('a', 2, none) }} {{ 'aaa'.count('a', 5) }}":     "1 0",
		"{{ '{}{0[0]}{1.x}'.format([1], 2) }}":                           "[1]1",
		"{{ (1, 2).copy is defined }} {{ (1, 2).index(2) }}":             "False 1",
		"{{ 'ab well-knownlongword'|wordwrap(8) }}":                      "ab well-\nknownlon\ngword",
		"{{ 'abcde longer words'|wordwrap(5) }}":                         "abcde\nlonge\nr\nwords",
		"{{ \"'c1', 'type': x\"|wordwrap(6) }}":                          "'c1', \n'type'\n: x",
		"{{ 'x-12345678'|wordwrap(6) }}":                                 "x-\n123456\n78",
		"{{ 'a\u00a0b c'|wordwrap(3) }}":                                 "a\u00a0b\nc",
	} {
		wantRendered(t, source, want)
	}
	for _, source := range []string{"{{ '{} {0}'.format(1) }}", "{{ '{0} {}'.format(1) }}", "{{ dict(missing) }}",
		"{{ namespace(missing) }}", "{{ 1 / 0 }}", "{{ 9007199254740993 / 0 }}"} {
		if got, err := render(source, Context{}); !errors.Is(err, ErrRuntime) {
			t.Errorf("%s: %q, %v, want an error", source, got.String(), err)
		}
	}
}

// A name that a body assigns before it reads it is undefined in what stands inside of the body and comes earlier, where
// no body around it mentions the name.
func TestNamesThatAreNotSetYet(t *testing.T) {
	vars := &Dict{}
	vars.Set(lit("s"), lit("ctx"))
	const inner = "{% for i in [1] %}{{ s }}{% endfor %}"
	for source, want := range map[string]string{
		inner + "{% set s = 'x' %}{{ s }}" + inner:                                                                "xx",
		"{{ s }}" + inner + "{% set s = 'x' %}{{ s }}":                                                            "ctxctxx",
		inner + "{% set s = s ~ 'x' %}" + inner:                                                                   "ctxctxx",
		inner + "{% if no %}{% set s = 1 %}{% endif %}" + inner:                                                   "ctxctx",
		inner + "{% if no %}{% set s = 1 %}{% elif not no %}{% set s = 2 %}{% else %}{% set s = 3 %}{% endif %}":  "ctx",
		inner + "{% if no %}{% set s = 1 %}{% else %}{% set s = 3 %}{% endif %}":                                  "ctx",
		"{% if no %}{{ s }}{% else %}" + inner + "{% set s = 1 %}{% endif %}" + inner:                             "ctx1",
		"{% macro m() %}{{ s }}{% endmacro %}{{ m() }}{% set s = 'x' %}{{ m() }}":                                 "x",
		"{% macro m(a=s) %}{{ a }}{% endmacro %}{{ m() }}{% set s = 1 %}{{ m() }}":                                "1",
		"{% for i in [1, 2] %}" + inner + "{% set s = 'x' %}{{ s }}{% endfor %}":                                  "xx",
		"{% set s = 1 %}{% for i in [1, 2] %}" + inner + "{% set s = 'x' %}{{ s }}{% endfor %}":                   "1x1x",
		"{% for i in [1] %}" + inner + "{% set s = 'x' %}{% endfor %}{{ s }}":                                     "ctxctx",
		"{% set x %}{{ s }}{% endset %}{{ x }}{% set s = 1 %}":                                                    "",
		"{% set s %}{{ s }}x{% endset %}{{ s }}":                                                                  "x",
		"{% filter upper %}{{ s }}{% endfilter %}{% set s = 1 %}":                                                 "",
		"{% with a=s %}{{ s }}{{ a }}{% endwith %}{% set s = 1 %}":                                                "ctxctx",
		"{% with a=1 %}{{ s }}{% endwith %}{% set s = 1 %}":                                                       "",
		"{% for i in [1] if s %}{{ i }}{% endfor %}{% set s = 1 %}":                                               "",
		"{% for i in s %}{{ i }}{% endfor %}{% set s = 1 %}":                                                      "ctx",
		"{% for i in [] %}{% else %}{{ s }}{% endfor %}{% set s = 1 %}":                                           "",
		"{% for s in [1] %}{% for j in [1] %}{{ s }}{% endfor %}{% set s = 2 %}{{ s }}{% endfor %}{{ s }}":        "12ctx",
		"{% block b %}{{ s }}{% endblock %}{% for i in [1] %}{{ s }}{% endfor %}{% set s = 1 %}":                  "ctx",
		inner + "{% set s %}x{% endset %}" + inner:                                                                "x",
		inner + "{% set t, s = 1, 2 %}" + inner:                                                                   "2",
		inner + "{% macro s() %}{% endmacro %}":                                                                   "",
		"{% generation %}{{ s }}{% endgeneration %}{% set s = 1 %}{% generation %}{{ s }}{% endgeneration %}":     "1",
		"{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ s }}{% endcall %}{% set s = 1 %}":            "",
		"{% for x in [1, [2]] recursive %}" + inner + "{% set s = 1 %}{{ loop(x) if x is iterable }}{% endfor %}": "",
	} {
		if got, err := render(source, Context{Vars: vars}); err != nil || got.String() != want {
			t.Errorf("%s: %q, want %q: %v", source, got.String(), want, err)
		}
	}
	deep := strings.Repeat("{% for i in [1] %}", 140) + strings.Repeat("{{ a }}", 1<<16) +
		strings.Repeat("{% endfor %}", 140)
	if _, err := Parse(deep); !errors.Is(err, ErrLimit) {
		t.Errorf("names in bodies inside of each other: %v", err)
	}
}
