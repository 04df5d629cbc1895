package jinja

import (
	"errors"
	"testing"
)

// Filters that lay texts and values out, as Jinja2 3.1.6 with Python's textwrap and pprint has them.
func TestLayoutAsInJinja(t *testing.T) {
	for source, want := range map[string]string{
		"{{ {'a': 1, 'b': none, 'c': 'x<\"&y'}|xmlattr }}":       " a=\"1\" c=\"x&lt;&#34;&amp;y\"",
		"<p{{ {'class': 'a b', 'id': 3}|xmlattr }}>":             "<p class=\"a b\" id=\"3\">",
		"{{ {'a': true}|xmlattr(false) }}":                       "a=\"True\"",
		"{{ {}|xmlattr }}":                                       "",
		"{{ {'a': missing, 'é': 1.5}|xmlattr(autospace=true) }}": " é=\"1.5\"",
		"{{ 'the quick brown fox jumps'|wordwrap(10) }}":         "the quick\nbrown fox\njumps",
		"{{ 'a well-known state-of-the-art thing, e-mail x-1 a-b-c'|wordwrap(9) }}": "a well-\nknown\nstate-of-\nthe-art\n" +
			"thing,\ne-mail\nx-1 a-b-c",
		"{{ 'abcdefghijklmnop qr'|wordwrap(5) }}":                       "abcde\nfghij\nklmno\np qr",
		"{{ 'abcdefghijklmnop qr'|wordwrap(5, false) }}":                "abcdefghijklmnop\nqr",
		"{{ 'one two\n\nthree  four five   '|wordwrap(8, true, '|') }}": "one two||three|four|five",
		"{{ '  lead and   gaps  in it'|wordwrap(7) }}":                  "  lead\nand\ngaps\nin it",
		"{{ 'well-known-thing'|wordwrap(6, break_on_hyphens=false) }}":  "well-k\nnown-t\nhing",
		"{{ 'ééé ééé-éé ééé'|wordwrap(4) }}":                            "ééé\nééé-\néé\nééé",
		"{{ ''|wordwrap(3) }}":                                          "",
		"{{ 'a b'|wordwrap(1) }}":                                       "a\nb",
		"{{ {'b': 1, 'a': [1, 'x', none]}|pprint }}":                    "{'a': [1, 'x', None], 'b': 1}",
		"{{ [1, 2.5, true]|pprint }}":                                   "[1, 2.5, True]",
		"{{ 'it\\'s'|pprint }}":                                         "\"it's\"",
		"{{ {'name': 'get_weather_of_a_place', 'parameters': {'type': 'object', 'properties': {'b': 1, 'a': 2}}, 'z': " +
			"[1,2,3]}|pprint }}": "{'name': 'get_weather_of_a_place',\n 'parameters': {'properties': {'a': 2, 'b': 1}, " +
			"'type': 'object'},\n 'z': [1, 2, 3]}",
		"{{ [range(30)|list, range(12)|list, ['x' * 40, 'y' * 30, 'z' * 20], 4]|pprint }}": "" +
			"[[0,\n  1,\n  2,\n  3,\n  4,\n  5,\n  6,\n  7,\n  8,\n  9,\n  10,\n  11,\n  12,\n  13,\n  14,\n" +
			"  15,\n  16,\n  17,\n  18,\n  19,\n  20,\n  21,\n  22,\n  23,\n  24,\n  25,\n  26,\n  27,\n  28,\n" +
			"  29],\n [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],\n ['xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx',\n" +
			"  'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy',\n  'zzzzzzzzzzzzzzzzzzzz'],\n 4]",
		"{{ {'k': {'long_name_of_a_key_in_here': ['a' * 30, 'b' * 30], 'other': 'c' * 90}}|pprint }}": "" +
			"{'k': {'long_name_of_a_key_in_here': ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',\n" +
			"                                      'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'],\n" +
			"       'other': 'cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc'}}",
	} {
		wantRendered(t, source, want)
	}
	for source, want := range map[string]error{
		"{{ 'a'|wordwrap(0) }}": ErrRuntime, "{{ {'a b': 1}|xmlattr }}": ErrRuntime, "{{ [1]|xmlattr }}": ErrRuntime,
		"{{ 'a--b'|wordwrap }}": ErrUnsupported, "{{ ('a ' * 60)|pprint }}": ErrUnsupported,
		"{{ range(3) }}": ErrUnsupported,
	} {
		if _, err := render(source, Context{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", source, err, want)
		}
	}
}
