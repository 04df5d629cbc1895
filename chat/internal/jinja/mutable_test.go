package jinja

import "testing"

// TestOwnLists: a template may change the lists that it has made, and only them; what shares their items stays.
func TestOwnLists(t *testing.T) {
	given := &Dict{}
	given.Set(NewText("l", 0), &List{Items: []Value{int64(1)}})
	for _, c := range []struct{ template, text string }{
		{`{% set x = [1] %}{% set _ = x.append(2) %}{{ x }}`, "[1, 2]"},
		{`{% set x = [1, 2, 3] %}{{ x.pop() }}{{ x.pop(0) }}{{ x }}`, "31[2]"},
		{`{% set x = [1, 2] %}{% set y = x[:1] %}{{ x.pop() }}{% set _ = y.append(9) %}{{ x }}{{ y }}`, "2[1][1, 9]"},
		{`{% set x = [1] %}{% set y = x.copy() %}{% set _ = y.append(2) %}{{ x }}`, "[1]"},
		{`{% set x = l + [2] %}{% set _ = x.append(3) %}{{ x }}{{ l }}`, "[1, 2, 3][1]"},
		{`{% set x = l * 2 %}{% set _ = x.append(3) %}{{ x }}{{ l }}`, "[1, 1, 3][1]"},
		{`{% set x = "a</think>b".split("</think>") %}{{ x.pop() }}{{ x }}`, "b['a']"},
		{`{% set x = "a\nb".splitlines() %}{{ x.pop(0) }}{{ x }}`, "a['b']"},
		{`{% set x = [] %}{% set y = x * 2 %}{% set _ = y.append(3) %}{{ x }}{{ y }}`, "[][3]"},
		{`{% set x = (1,) + (2,) %}{% set _ = x.append(3) %}`, ""},
		{`{% set x = [1] %}{% set _ = x.append([x]) %}`, ""},
		{`{% set x = [] %}{{ x.pop() }}`, ""},
		{`{% set _ = l.append(2) %}`, ""},
		{`{{ (1, 2).append(2) }}`, ""},
		{`{% set j = joiner() %}{{ j() }}a{{ j() }}b`, "a, b"},
		{`{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.current }}`,
			"12121"},
		{`{{ 1234.5|round(-2) }} {{ 15|round(-1) }} {{ 25|round(-1) }} {{ -26|round(-1) }} {{ 7|round(-30) }}`,
			"1200.0 20 20 -30 0"},
		{`{{ "abcd".startswith("b", 1) }} {{ "abcd".endswith("c", 0, 3) }} {{ "abcd".startswith("", 5) }} {{ "äb".startswith("b", -1) }}`,
			"True True False True"},
	} {
		got, err := render(c.template, Context{Vars: given})
		if got.String() != c.text || (err != nil) != (c.text == "") {
			t.Errorf("%s: %q, %v, want %q", c.template, got.String(), err, c.text)
		}
	}
}
