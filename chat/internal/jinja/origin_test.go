package jinja

import (
	"strings"
	"testing"
)

// TestOrigin: through every operation a byte keeps its origin. The variable x
// has origin 2 and consists of characters that the templates do not have, so
// each byte of the output tells by itself where it must come from.
func TestOrigin(t *testing.T) {
	vars := &Dict{}
	set := func(name, s string) { vars.Set(lit(name), NewText(s, 2)) }
	set("x", "QWZ ÄÖ")
	set("y", "  QZ  ")
	set("csv", "Q~W~Z")
	set("json", "Q\"\n\x01\\W")
	set("fmt", "{}Q{}")
	set("pct", "%sQ%s")
	set("lower", "ZÜRICHW")
	set("lines", "Q\nW\n\nZ")
	inner := &Dict{}
	inner.Set(NewText("QK", 2), NewText("QV", 2))
	vars.Set(lit("d"), inner)
	vars.Set(lit("l"), &List{Items: []Value{NewText("ZZ", 2), NewText("QQ", 2), NewText("WW", 2)}})
	fromX := "QWZÄÖÜ"
	for _, c := range []struct{ template, text, origins string }{
		{`a{{ x }}b`, "aQWZ ÄÖb", "022222222 0"},
		{`{{ "a" + x + "b" }}`, "aQWZ ÄÖb", "0222222220"},
		{`{{ "a" ~ x ~ 1 }}`, "aQWZ ÄÖ1", "0222222220"},
		{`{{ x[1:5] }}|{{ x[-1] }}|{{ x[::-1] }}|{{ x[::2] }}`, "WZ Ä|Ö|ÖÄ ZWQ|QZÄ", ""},
		{`{{ ("a" ~ x)[0:2] }}`, "aQ", "02"},
		{`{{ ("a" ~ x)[::-1] }}`, "ÖÄ ZWQa", "222222220"},
		{`{{ ("a" ~ x) | reverse }}`, "ÖÄ ZWQa", "222222220"},
		{`{{ ("a" ~ x) | list | last }}{{ ("a" ~ x) | first }}`, "Öa", "220"},
		{`{{ ("a" ~ x ~ "b") | upper | lower }}`, "aqwz äöb", "0222222220"},
		{`{{ ("a" ~ x) | title }} {{ ("a" ~ x) | capitalize }}`, "Aqwz Äö Aqwz äö", "022222222002222 2222"},
		{`{{ ("  a" ~ y) | trim }}.{{ ("a" ~ y ~ "b").strip("a") }}`, "a  QZ.  QZ  b", "02222022222 20"},
		{`{{ x.replace("W", "m") }}`, "QmZ ÄÖ", "20222222"},
		{`{{ "aWb" | replace("W", x) }}`, "aQWZ ÄÖb", "0222222220"},
		{`{{ ("a" ~ x) | replace("a", "") }}`, "QWZ ÄÖ", "22222222"},
		{`{{ x.replace("", "-") }}`, "-Q-W-Z- -Ä-Ö-", "0202020202 2022 0"},
		{`{{ csv.split("~") | join("-") }}`, "Q-W-Z", "20202"},
		{`{{ csv.rsplit("~", 1)[1] }}{{ csv.partition("~")[0] }}`, "ZQ", "22"},
		{`{{ ("a" ~ csv ~ "b").split("~") }}`, "['aQ', 'W', 'Zb']", "00020000200002000"},
		{`{{ l | join }}{{ l | sort | join(",") }}{{ l | map("lower") | join }}`,
			"ZZQQWWQQ,WW,ZZzzqqww", "22222222022022222222"},
		{`{{ l | tojson }}`, `["ZZ", "QQ", "WW"]`, "002200002200002200"},
		{`{{ d | tojson }}{{ d }}`, `{"QK": "QV"}{'QK': 'QV'}`, "002200002200002200002200"},
		{`{{ json | tojson }}`, `"Q\"\n\u0001\\W"`, "02222222222222 20"},
		{`{{ json | tojson(indent=2, ensure_ascii=true) }}{{ x | tojson(true) }}`,
			`"Q\"\n\u0001\\W""QWZ \u00c4\u00d6"`, "02222222222222 200222222222 2222222 0"},
		{`{{ [json] }}`, `['Q"\n\x01\\W']`, "0022222222 22200"},
		{`{{ x | e }}{{ ("<" ~ y) | e }}`, "QWZ ÄÖ&lt;  QZ  ", "222222220000222222"},
		{`{{ fmt.format("a", "b") }}`, "aQb", "020"},
		{`{{ "{}a{}".format(x, 1) }}{{ "{:>4}".format(l[0]) }}{{ "{0[1]}".format(l) }}`,
			"QWZ ÄÖa1  ZZQQ", "2222222200002222"},
		{`{{ "%s-%5s" % (l[0], l[1]) }}{{ pct % ("a", "b") }}{{ "%r" | format(l[0]) }}`,
			"ZZ-   QQaQb'ZZ'", "220000220200220"},
		{`{{ "-" | indent(2) }}{{ lines | indent(1) }}`, "-Q\n W\n\n Z", "020020002"},
		{`{{ x | center(8) }}|{{ l[0].ljust(3, "-") }}{{ "a".rjust(3, l[0][0]) }}{{ l[0].zfill(3) }}`,
			" QWZ ÄÖ |ZZ-ZZa0ZZ", ""},
		{`{{ x * 2 }}{{ 2 * l[0] }}`, "QWZ ÄÖQWZ ÄÖZZZZ", ""},
		{`{{ x | truncate(5, true, "..", 0) }}`, "QWZ..", "22200"},
		{`{{ x | batch(2) | map("join") | join("-") }}`, "QW-Z -ÄÖ", ""},
		{`{{ d.items() | list }}{{ d.keys() | join }}{{ d | dictsort | first | join("=") }}`,
			"[('QK', 'QV')]QKQK=QV", "0002200002200022220 22"},
		{`{% for c in x %}{{ c }}.{% endfor %}`, "Q.W.Z. .Ä.Ö.", ""},
		{`{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}`, "QK=QV", "22022"},
		{`{% set v %}a{{ x }}{% endset %}{{ v }}`, "aQWZ ÄÖ", "022222222"},
		{`{% macro m(a) %}<{{ a }}{{ caller() }}>{% endmacro %}{% call m(l[0]) %}c{{ l[1] }}{% endcall %}`,
			"<ZZcQQ>", "0220220"},
		{`{% filter lower %}A{{ lower }}B{% endfilter %}`, "azürichwb", "0222222220"},
		{`{% set ns = namespace(v="a") %}{% for i in l %}{% set ns.v = ns.v + i %}{% endfor %}{{ ns.v }}`,
			"aZZQQWW", "0222222"},
		{`{{ strftime_now("%Y") }}{{ strftime_now(l[0]) }}`, "2026ZZ", "000022"},
		{`{{ lines.splitlines() | join("") }}{{ lines.split() | join }}`, "QWZQWZ", "222222"},
		{`{{ x | urlencode }}`, "QWZ%20%C3%84%C3%96", ""},
		{`{{ l | groupby(0) | map(attribute="grouper") | join }}{{ l | unique | join }}{{ l | max }}{{ l | first }}`,
			"QWZZZQQWWZZZZ", ""},
		{`{{ l | string }}{{ x | default("a") }}{{ nope | default(l[0]) }}{{ l[0] or "a" }}{{ l[0] if 1 }}`,
			"['ZZ', 'QQ', 'WW']QWZ ÄÖZZZZZZ", ""},
		{`{{ x | safe }}{{ (l[0] | safe) + "<" }}`, "QWZ ÄÖZZ&lt;", "22222222220000"},
		{`{{ {"k": x}.k }}{{ [x][0] }}{{ (x,)[0] }}{{ x | string }}{{ x.upper().lower().title() }}`,
			"QWZ ÄÖQWZ ÄÖQWZ ÄÖQWZ ÄÖQwz Äö", ""},
		{`{{ ("ab" ~ l[0]).removeprefix("a").removesuffix("Z") }}{{ ("a" ~ l[0]).swapcase() }}`, "bZAzz", "02022"},
	} {
		got, err := render(c.template, Context{Vars: vars, Clock: clock})
		if err != nil {
			t.Errorf("%s: %v", c.template, err)
			continue
		}
		if got.String() != c.text {
			t.Errorf("%s:\n got %q\nwant %q", c.template, got.String(), c.text)
			continue
		}
		var b strings.Builder
		for _, o := range got.Origins() {
			b.WriteByte('0' + byte(o))
		}
		if want := strings.ReplaceAll(c.origins, " ", ""); want != "" && b.String() != want {
			t.Errorf("%s = %s:\n got %s\nwant %s", c.template, c.text, b.String(), want)
		}
		// Letters of x stand only in variables.
		i := 0
		for _, r := range got.String() {
			if strings.ContainsRune(fromX, r) && got.Origins()[i] != 2 {
				t.Errorf("%s: %q at byte %d has origin %d", c.template, r, i, got.Origins()[i])
			}
			i += len(string(r))
		}
	}
}

// TestEqualWhateverOrigin: comparisons and look-ups do not see origins.
func TestEqualWhateverOrigin(t *testing.T) {
	vars := &Dict{}
	vars.Set(lit("x"), NewText("a", 2))
	d := &Dict{}
	d.Set(NewText("a", 1), int64(5))
	vars.Set(lit("d"), d)
	const template = `{{ x == "a" }}{{ x in ["a"] }}{{ "a" in x }}{{ d[x] }}{{ d.a }}{{ {"a": 1}[x] }}{{ x < "b" }}` +
		`{{ x in d }}{{ [x, "a"] | unique | list | length }}{{ x.startswith("a") }}`
	got, err := render(template, Context{Vars: vars})
	if want := "TrueTrueTrue551TrueTrue1True"; err != nil || got.String() != want {
		t.Errorf("got %q, %v; want %q", got.String(), err, want)
	}
}
