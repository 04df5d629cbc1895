package jinja

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/internal/testkit"
)

// large are values of n items on which whatever goes through them takes more than the limits of these tests.
func large(n int) *Dict {
	vars := &Dict{}
	set := func(name string, v Value) { vars.Set(lit(name), v) }
	text := strings.Repeat("Ab <c\n", 2*n)
	set("t", NewText(text, 2))
	set("u", NewText(text+"", 1)) // equal to t, but not the same
	set("wide", NewText(strings.Repeat("é", 4*n), 2))
	set("digits", NewText(strings.Repeat("1", 10*n), 2))
	list, dict, texts := &List{}, &Dict{}, &List{}
	for i := range n {
		list.Items = append(list.Items, int64(i))
		texts.Items = append(texts.Items, NewText("xy", 1))
		dict.Set(lit(fmt.Sprint("k", i)), int64(i))
	}
	set("l", list)
	set("texts", texts)
	set("d", dict)
	set("same", &List{Items: append([]Value(nil), list.Items...)})
	return vars
}

// arguments are what filters, tests and methods need besides the value; none for the others.
var arguments = map[string]string{
	"attr": "('x')", "batch": "(3)", "groupby": "('x', default=1)", "join": "(',')", "replace": "('b', 'xyz')",
	"slice": "(3)", "map": "('upper')", "selectattr": "('x')", "rejectattr": "('x')", "round": "(2)",
	"divisibleby": "(2)", "sameas": "(t)", "center": "(300000)", "ljust": "(300000)", "rjust": "(300000)",
	"zfill": "(300000)", "count": "('b')", "find": "('zz')", "rfind": "('zz')", "index": "('zz')", "rindex": "('zz')",
	"startswith": "(u)", "endswith": "(u)", "removeprefix": "(u)", "removesuffix": "(u)", "partition": "('zz')",
	"rpartition": "('zz')", "get": "(t)", "format": "(t)", "items": "()", "keys": "()", "values": "()",
}

// unread are the filters and tests whose work on a list or dict does not depend on its length.
var unread = map[string]bool{
	"count": true, "length": true, "first": true, "last": true, "default": true, "d": true, "attr": true,
	// nothing is done before it is asked for
	"map": true, "select": true, "selectattr": true, "reject": true, "rejectattr": true,
	"boolean": true, "callable": true, "defined": true, "escaped": true, "false": true, "true": true, "filter": true,
	"test": true, "float": true, "int": true, "integer": true, "iterable": true, "mapping": true, "none": true,
	"number": true, "sameas": true, "sequence": true, "string": true, "undefined": true,
}

// limited renders with limits that are far too small for the values of large.
func limited(t *testing.T, vars *Dict, source string, l Limits) error {
	t.Helper()
	_, err := render(source, Context{Vars: vars, Clock: clock, Limits: l})
	if errors.Is(err, ErrSyntax) {
		t.Fatalf("%s: %v", source, err)
	}
	return err
}

// Every filter, test and method that goes through a large value counts that: with few steps it ends at a limit, by its
// name. The names are the interpreter's own, so that a new one is tested too.
func TestEveryCallCountsItsWork(t *testing.T) {
	vars := large(30_000)
	small := Limits{Steps: 600, Bytes: 30_000}
	try := func(source, name string, constant bool) {
		err := limited(t, vars, source, small)
		switch {
		case errors.Is(err, ErrRuntime), errors.Is(err, ErrUnsupported): // not for a value of this type
		case errors.Is(err, ErrLimit) && strings.Contains(err.Error(), "more than "):
		case err == nil && constant:
		default:
			t.Errorf("%s: %v, want a limit", source, err)
		}
	}
	for name := range filterTable {
		args := arguments[name]
		if name == "items" {
			args = ""
		}
		for _, v := range []string{"t", "wide", "l", "d", "texts"} {
			isText := v == "t" || v == "wide"
			try("{% set x = "+v+"|"+name+args+" %}", name, unread[name] && !isText)
			if name != "map" && name != "items" && name != "length" && name != "count" && !unread[name] {
				try("{{ "+v+"|"+name+args+"|list }}", name, false)
			}
		}
	}
	for _, lazy := range []string{"map('string')", "select", "reject", "selectattr('x')", "rejectattr('x')"} {
		try("{{ l|"+lazy+"|list }}", lazy, false)
	}
	for name := range testTable {
		if strings.ContainsAny(name, "=<>!") { // operators, tested as such
			continue
		}
		args := arguments[name]
		switch name {
		case "eq", "equalto", "ne", "lt", "lessthan", "le", "gt", "greaterthan", "ge", "in":
			args = "(u)"
		}
		for _, v := range []string{"t", "l", "d"} {
			try("{{ "+v+" is "+name+args+" }}", name, unread[name] && v != "t" || strings.HasSuffix(args, "(u)") &&
				v != "t")
		}
	}
	for name := range textMethods {
		args := arguments[name]
		switch {
		case name == "join":
			args = "(texts)"
		case args == "":
			args = "()"
		}
		try("{% set x = t."+name+args+" %}", name, false)
		try("{% set x = wide."+name+args+" %}", name, false)
	}
	for name := range listMethods {
		args := "(-1)"
		if name == "copy" {
			args = "()"
		}
		try("{% set x = l."+name+args+" %}", name, name == "copy")
	}
	for name := range dictMethods {
		args := arguments[name]
		if args == "" {
			args = "()"
		}
		try("{% set x = d."+name+args+" %}", name, name == "copy" || name == "keys" || name == "values")
	}
	for name := range globalTable {
		source, ok := map[string]string{
			"range": "range(99999)", "dict": "dict(d)", "namespace": "namespace(d)", "strftime_now": "strftime_now(t)",
			"raise_exception": "raise_exception(l)", "joiner": "joiner(t)", "cycler": "cycler(l, t)",
		}[name]
		if !ok {
			t.Errorf("no case for the function %s", name)
		}
		try("{% set x = "+source+" %}", name, name == "joiner" || name == "cycler")
	}
}

// Every operator and statement counts the bytes it reads and makes.
func TestEveryOperatorCountsItsWork(t *testing.T) {
	vars := large(30_000)
	for source, want := range map[string]string{
		"{{ t == u }}":                 "steps",
		"{{ t != u }}":                 "steps",
		"{{ t < u }}":                  "steps",
		"{{ t <= u }}":                 "steps",
		"{{ t > u }}":                  "steps",
		"{{ t >= u }}":                 "steps",
		"{{ 'zz' in t }}":              "steps",
		"{{ 'zz' not in t }}":          "steps",
		"{{ t in 'zz' }}":              "steps",
		"{{ -1 in l }}":                "steps",
		"{{ t in d }}":                 "steps",
		"{{ t in [u] }}":               "steps",
		"{{ l == same }}":              "steps",
		"{{ [t] == [u] }}":             "steps",
		"{{ {'a': t} == {'a': u} }}":   "steps",
		"{{ (t, 1) < (u, 2) }}":        "steps",
		"{{ d[t] }}":                   "steps",
		"{{ d[(t, t)] }}":              "bytes",
		"{{ t[5] }}":                   "steps",
		"{{ t[t] }}":                   "",
		"{{ wide[5] }}":                "",
		"{{ wide[1:] }}":               "",
		"{{ t[::2] }}":                 "",
		"{{ l[1:] }}":                  "",
		"{{ l[::-1] }}":                "",
		"{{ {t: 1} }}":                 "",
		"{{ {(t, 1): 1} }}":            "",
		"{{ t + u }}":                  "bytes",
		"{{ t ~ u }}":                  "bytes",
		"{{ t * 3 }}":                  "bytes",
		"{{ 3 * t }}":                  "bytes",
		"{{ 'x' * 100000000 }}":        "bytes",
		"{{ [1] * 100000000 }}":        "bytes",
		"{{ l + l }}":                  "bytes",
		"{{ '%s' % t }}":               "",
		"{{ '%r' % (t,) }}":            "",
		"{{ '%5.3s' % (wide,) }}":      "",
		"{{ t % 1 }}":                  "",
		"{{ ('%s' * 1000) % (1, t) }}": "",
		"{{ '{}'.format(t) }}":         "",
		"{{ '{!r}'.format(t) }}":       "",
		"{{ '{:>5}'.format(wide) }}":   "",
		"{{ t.format() }}":             "",
		"{{ digits|int }}":             "",
		"{{ digits|float }}":           "",
		"{{ l|join(t) }}":              "bytes",
		"{{ [t]|tojson }}":             "",
		"{{ [1]|tojson(indent=t) }}":   "",
		"{{ [1, 2]|tojson(separators=(t, ':')) }}":              "",
		"{{ [t, u]|sort }}":                                     "",
		"{{ [t, u]|unique|list }}":                              "",
		"{{ [t, u]|max }}":                                      "",
		"{{ [{'a': 1}]|map(attribute=t)|list }}":                "",
		"{{ [{'a': 1}]|sort(attribute=t) }}":                    "",
		"{{ 'x'.strip(wide) }}":                                 "",
		"{{ t.startswith((t, u)) }}":                            "",
		"{{ 'a'|indent(t) }}":                                   "",
		"{{ 'a'|indent(300000) }}":                              "bytes", // which is made though no line has it
		"{{ 'a\nb'|indent(300000) }}":                           "bytes",
		"{{ 'a'.join(l) }}":                                     "",
		"{{ l|string }}":                                        "",
		"{{ d|string }}":                                        "",
		"{{ t }}":                                               "bytes",
		"{{ [t] }}":                                             "",
		"{% set x %}{{ t }}{% endset %}":                        "bytes",
		"{% filter upper %}{{ t }}{% endfilter %}":              "bytes",
		"{% for x in t %}{% endfor %}":                          "",
		"{% for x in l %}{% endfor %}":                          "steps",
		"{% for x in l if x < 0 %}{% endfor %}":                 "steps",
		"{% for k, v in d.items() %}{% endfor %}":               "",
		"{% set a, b = l %}":                                    "steps",
		"{% macro f() %}{{ varargs }}{% endmacro %}{{ f(*l) }}": "",
		"{% macro f() %}{{ kwargs }}{% endmacro %}{{ f(**d) }}": "",
		"{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}{{ t }}{% endcall %}":                "bytes",
		"{% for x in l recursive %}{{ loop([t]) }}{% endfor %}":                                        "",
		"{% for x in [t, u] %}{{ loop.changed(x) }}{% endfor %}":                                       "steps",
		"{% with x = t ~ t %}{% endwith %}":                                                            "bytes",
		"{% set n = namespace(x='a') %}{% for i in range(999) %}{% set n.x = n.x + n.x %}{% endfor %}": "",
		"{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = n.x + [i] %}{% endfor %}":  "bytes",
		"{% for i in range(999) %}{% macro f() %}{% endmacro %}{% endfor %}":                           "bytes",
		strings.Repeat("{{ 'abcdefgh' }}", 1000):                                                       "steps",
	} {
		l := Limits{Steps: 450, Bytes: 30_000}
		if want == "bytes" {
			l.Steps = 0
		}
		err := limited(t, vars, source, l)
		if errors.Is(err, ErrRuntime) && want == "" && strings.Contains(source, "t % 1") {
			continue
		}
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%.80s: %.200v, want a limit of %s", source, err, want)
		}
	}
}

// What is made takes no more memory than it counts for: twice the bytes, and some for each step.
func TestAllocatedMemoryIsWhatIsCounted(t *testing.T) {
	vars := large(5_000)
	var sources []string
	for name := range filterTable {
		for _, v := range []string{"t", "wide", "l", "d", "texts"} {
			sources = append(sources, "{% set x = "+v+"|"+name+strings.TrimPrefix(arguments[name], "()")+" %}")
		}
	}
	for name := range textMethods {
		args := arguments[name]
		if args == "" {
			args = "()"
		}
		sources = append(sources, "{% set x = t."+name+args+" %}", "{% set x = wide."+name+args+" %}")
	}
	sources = append(sources, "{% set x = t.split('b') %}", "{% set x = t.rsplit('b') %}", "{% set x = t.split() %}",
		"{% set x = t|list %}", "{% set x = t[::2] %}", "{% set x = wide[3:] %}", "{% set x = l + l %}",
		"{% set x = l|string %}", "{% set x = d|string %}", "{% set x = l|map('string')|list %}",
		"{% set x = d.items()|list %}", "{% set x = dict(d) %}", "{% set x = l[::-1] %}", "{% set x = range(99999) %}",
		"{% set x = texts|join %}", "{% set x = t.replace('', 'xy') %}", "{% set x = [t, u]|sort %}",
		"{% set x = '%r' % (t,) %}", "{% set x = '{!r}'.format(t) %}", "{% set x = [t]|tojson(true) %}",
		"{% for i in range(9999) %}{% macro f() %}{% endmacro %}{% set x = f %}{% endfor %}")
	for _, source := range sources {
		tmpl, err := Parse(source)
		if err != nil {
			t.Fatal(source, err)
		}
		m := &machine{}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = tmpl.render(t.Context(), Context{Vars: vars, Clock: clock}, m)
		runtime.ReadMemStats(&after)
		refuses := strings.Contains(source, "urlencode") || strings.Contains(source, "pprint")
		if errors.Is(err, ErrUnsupported) && !refuses {
			t.Errorf("%s: %v", source, err)
		}
		took := int(after.TotalAlloc - before.TotalAlloc)
		if counted := 2*m.made + 100*m.steps + 1<<15; took > counted {
			t.Errorf("%s: %d bytes of memory; %d bytes and %d steps counted: %.100v", source, took, m.made, m.steps,
				err)
		}
	}
}

// TestLongHugeTexts: texts of 64 MB, under the limits that are the default.
func TestLongHugeTexts(t *testing.T) {
	testkit.Long(t)
	testHugeTexts(t, 64<<20, Limits{}, DefaultLimits())
}

// Two texts four times as large as all that may be made are compared, and one is split, for no more than the limits
// allow.
func TestHugeTexts(t *testing.T) {
	l := DefaultLimits()
	l.Steps, l.Bytes, l.Output = l.Steps/8, l.Bytes/8, l.Output/8
	testHugeTexts(t, 8<<20, l, l)
}

// testHugeTexts has texts of so many bytes under limits, which mean those that hold.
func testHugeTexts(t *testing.T, size int, limits, l Limits) {
	huge := strings.Repeat("ab", size/2)
	steps := fmt.Sprintf("more than %d steps", l.Steps)
	vars := &Dict{}
	vars.Set(lit("a"), NewText(huge, 2))
	vars.Set(lit("b"), NewText(strings.Clone(huge), 2))
	for source, want := range map[string]string{
		"{% for i in range(99999) %}{% if a == b %}{% endif %}{% endfor %}": steps,
		"{% set x = a.split('b') %}":                                        fmt.Sprintf("more than %d bytes", l.Bytes),
		"{% set x = a.split() %}{% set x = a|list %}":                       steps,
		"{% set x = a|upper %}":                                             steps,
		"{{ a }}": fmt.Sprintf("more than %d bytes of output",
			l.Output),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := render(source, Context{Vars: vars, Limits: limits})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 3*uint64(l.Bytes) {
			t.Errorf("%s: %d bytes of memory", source, took)
		}
	}
}

// Each limit is kept to the last unit, and its error names it.
func TestLimitsAreExact(t *testing.T) {
	for _, c := range []struct {
		source string
		limit  func(n int) Limits
		n      int
		want   string
	}{
		{"abcdefgh{{ 'ij' }}", func(n int) Limits { return Limits{Output: n} }, 10, "more than 9 bytes of output"},
		{"abcdefgh{{ 'ij' }}", func(n int) Limits { return Limits{Bytes: n} }, 10, "more than 9 bytes of texts"},
		{"a{{ 1 }}", func(n int) Limits { return Limits{Steps: n} }, 3, "more than 2 steps"},
		{"{{ (1 + (1 + 1)) }}", func(n int) Limits { return Limits{Depth: n} }, 4, "nested more than 3 deep"},
	} {
		if _, err := render(c.source, Context{Limits: c.limit(c.n)}); err != nil {
			t.Errorf("%s with %d: %v", c.source, c.n, err)
		}
		_, err := render(c.source, Context{Limits: c.limit(c.n - 1)})
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %d: %v, want %s", c.source, c.n-1, err, c.want)
		}
	}
	for n, want := range map[int]error{longestName: nil, longestName + 1: ErrLimit} {
		if _, err := Parse("{{ " + strings.Repeat("n", n) + " }}"); !errors.Is(err, want) {
			t.Errorf("a name of %d bytes: %v", n, err)
		}
	}
}

// What map and select make is made when it is gone through: of what others make, and of themselves, which is a level of
// nesting each.
func TestGeneratorsOfGeneratorsAreNested(t *testing.T) {
	const chain = "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x|map('string') %}{% endfor %}"
	wantRendered(t, chain+"{{ n.x|list }}", "['1']")
	for _, source := range []string{
		strings.Replace(chain, "99", "9999", 1) + "{{ n.x|list }}",
		strings.Replace(chain, "99", "9999", 1) + "{{ n.x|first }}",
		"{% set l = [] %}{% set g = l|map('list') %}{% set _ = l.append(g) %}{{ g|list }}",
		"{% set l = [] %}{% set g = l|map('list') %}{% set _ = l.append(g) %}{{ 1 in g }}",
	} {
		if got, err := render(source, Context{}); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "nested") {
			t.Errorf("%s: %q, %v", source, got.String(), err)
		}
	}
}

// Rendering ends soon after its context has, with the context's error.
func TestRenderingIsCancelled(t *testing.T) {
	tmpl, err := Parse("{% for i in range(99999) %}{% for i in range(99) %}{{ now() }}{% endfor %}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	vars := &Dict{}
	vars.Set(lit("now"), &function{name: "now", call: func(*machine, args) Value {
		if calls++; calls == 100 {
			cancel()
		}
		return int64(0)
	}})
	if _, err := tmpl.Render(ctx, Context{Vars: vars}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if calls > 100+stepsAway {
		t.Errorf("%d calls after the end", calls-100)
	}
	if _, err := tmpl.Render(ctx, Context{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	late, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer stop()
	if _, err := tmpl.Render(late, Context{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
