package jinja

import "testing"

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

// wantRendered checks the text of a template that reads nothing.
func wantRendered(t *testing.T, source, want string) {
	t.Helper()
	if got, err := render(source, Context{}); err != nil || got.String() != want {
		t.Errorf("%s: %q, want %q: %v", source, got.String(), want, err)
	}
}
