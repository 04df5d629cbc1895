#!/usr/bin/env python3
"""Writes cases.json: what Jinja2 3.1 renders for the templates below, with the settings of model hubs.

python3 make.py (needs python3-jinja2). Each case has a template and "text", or "error" where Jinja2 has one."""
import datetime, json, os
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARS = {
    "s": "Hello, Wörld", "empty": "", "n": 5, "neg": -7, "f": 2.5, "t": True, "no": False, "nil": None,
    "l": [3, 1, 2], "words": ["b", "A", "c", "a"], "d": {"b": 1, "a": [1, {"x": None}], "C": "q'"},
    "users": [{"name": "Zoe", "age": 3, "on": True}, {"name": "adam", "age": 5, "on": False}, {"name": "Bea", "age": 3}],
    "lines": "one\n  two\n\nthree\n", "q": "it's \"q\" \\ \t\u00e9\u200b\U0001f600\x01",
    "tree": [{"v": 1, "c": [{"v": 2, "c": [{"v": 3, "c": []}]}]}, {"v": 4, "c": []}],
}

E = """
{{ n + 2 }} {{ n - 7 }} {{ n * 2 }} {{ n / 2 }} {{ n // 2 }} {{ neg // 2 }} {{ neg % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }}
{{ 1.0 }} {{ 1e20 }} {{ 1e15 }} {{ 1e16 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 0.0001 }} {{ 10 / 4 }} {{ 3 * 1.5 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 1_000 }} {{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ "a" == 'a' }}
{{ 1 if t else 2 }} {{ 1 if no else 2 }}|{{ 1 if no }}|{{ (1 if no) is defined }}
{{ not t }} {{ not no and t }} {{ t and 3 }} {{ no or "x" }} {{ nil or empty or "z" }} {{ 0 and 1 }}
{{ 3 in l }} {{ 9 not in l }} {{ "ell" in s }} {{ "b" in d }} {{ not 3 in l }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[:-3] }} {{ s[-4:] }} {{ s[7:9] }} {{ s[100] }}| {{ s[2:1] }}| {{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }}
{{ d.b }} {{ d["b"] }} {{ d.a[1].x }} {{ d.zz }}| {{ d["zz"] }}| {{ d.get("zz") }} {{ d.get("zz", 4) }} {{ d.get("b", 4) }}
{{ d }} {{ l }} {{ (1, 2) }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }} {{ {"a": 1, 2: "b", none: true} }} {{ q }} {{ [q] }} {{ [nil, t, 1.5, "a"] }}
{{ "a" ~ 1 ~ none ~ true ~ 1.5 ~ [1] }} {{ "a" "b" 'c' }} {{ "x" * 3 }} {{ 2 * "ab" }} {{ [1] * 2 }} {{ [1] + [2] }} {{ (1,) + (2,) }}
{{ "\\n" | length }} {{ "\\x41\\u00e9\\101" }} {{ "a\\qb" }} {{ 'it\\'s' }}
{{ undefinedthing }}| {{ undefinedthing is defined }} {{ undefinedthing | length }} {{ undefinedthing | default("x") }} {{ undefinedthing or 1 }} {{ undefinedthing ~ "a" }} {{ undefinedthing == nope }} {{ undefinedthing is iterable }} {{ undefinedthing is sequence }} {{ 1 in undefinedthing }}
{{ undefinedthing.x }}
{{ undefinedthing + 1 }}
{{ "a" + undefinedthing }}
{{ "a" + 1 }}
{{ 1 + "a" }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ nil.x }}| {{ nil["x"] }}| {{ n.x }}| {{ s.nope }}| {{ s["nope"] }}|
{{ nil[1:] }}
{{ d[1:] }}
{{ nil + 1 }}
{{ l.append(1) }}
{{ d.pop("a") }}
{{ d.update({"a": 1}) }}
{{ nofilter | nosuchfilter }}
{{ 1 is nosuchtest }}
{{ s() }}
{{ nosuchfunction() }}
{{ s | upper }} {{ s | lower }} {{ s | title }} {{ s | capitalize }} {{ "ß" | upper }} {{ "ÀÉ x-y (z" | title }} {{ "hELLO wORLD" | capitalize }} {{ "they're bill's" .title() }}
{{ "  a b " | trim }}| {{ "xxaxx" | trim("x") }} {{ "  a ".strip() }}| {{ "  a ".lstrip() }}| {{ "  a ".rstrip() }}| {{ "xyaz".strip("xz") }} {{ "a\\n".rstrip("\\n") }}|
{{ s | replace("l", "L") }} {{ s | replace("l", "L", 1) }} {{ s.replace("l", "") }} {{ "aaa".replace("a", "b", 2) }} {{ "ab".replace("", "-") }} {{ s | replace("o", 0) }}
{{ s | length }} {{ l | length }} {{ d | length }} {{ s | count }} {{ (1,2) | length }} {{ d.items() | length }}
{{ n | length }}
{{ nil | length }}
{{ l | first }} {{ l | last }} {{ s | first }} {{ s | last }} {{ [] | first }}| {{ d | first }}
{{ l | join }} {{ l | join(", ") }} {{ users | join("-", attribute="name") }} {{ s | join(".") }} {{ d | join("+") }} {{ [1, none, "a"] | join("/") }}
{{ l | sort }} {{ l | sort(reverse=true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ users | sort(attribute="age") | map(attribute="name") | list }} {{ users | sort(attribute="name,age") | map(attribute="name") | list }}
{{ l | min }} {{ l | max }} {{ l | sum }} {{ words | max }} {{ users | sum(attribute="age") }} {{ users | max(attribute="age") }} {{ [] | max }}| {{ [1, 2] | sum(start=10) }}
{{ l | reverse | list }} {{ s | reverse }} {{ words | unique | list }} {{ words | map("upper") | list }} {{ users | map(attribute="on", default="?") | list }} {{ users | map(attribute="on") | list }}
{{ users | selectattr("on") | map(attribute="name") | list }} {{ users | rejectattr("on") | map(attribute="name") | list }} {{ users | selectattr("age", "equalto", 3) | list | length }} {{ users | selectattr("on", "defined") | list | length }} {{ l | select("gt", 1) | list }} {{ l | reject("odd") | list }} {{ l | select | list }} {{ nil | select | list }} {{ [[1,2],[3,4]] | map("first") | list }} {{ [[1,2],[3,4]] | map(attribute=1) | list }} {{ users | map(attribute="name.0") | list }}
{{ d | dictsort }} {{ d | dictsort(case_sensitive=true) }} {{ {"a": 2, "b": 1} | dictsort(by="value") }} {{ {"a": 2, "b": 1} | dictsort(reverse=true) }}
{{ d.items() | list }} {{ d | items | list }} {{ d.keys() | list }} {{ d.values() | list }} {{ d | list }} {{ d.keys() }} {{ d.items() }}
{% for g in users | groupby("age") %}{{ g.grouper }}:{{ g.list | map(attribute="name") | join(",") }};{% endfor %}{% for a, b in users | groupby("age") %}{{ a }}{{ b | length }}{% endfor %}
{{ range(5) | batch(2) | list }} {{ range(5) | batch(2, "x") | list }} {{ range(7) | slice(3) | list }} {{ range(7) | slice(3, "f") | list }}
{{ lines | indent }}| {{ lines | indent(2, true) }}| {{ lines | indent(2, first=true, blank=true) }}| {{ "" | indent(3, true) }}| {{ "a\\n" | indent }}| {{ lines | indent(">> ") }}|
{{ lines.split() }} {{ lines.split("\\n") }} {{ lines.splitlines() }} {{ "a,b,,c".split(",") }} {{ "a,b,c".split(",", 1) }} {{ "a b  c".split(none, 1) }} {{ "a,b,c".rsplit(",", 1) }} {{ " a  b ".rsplit(none, 1) }} {{ "".split() }} {{ "".split(",") }} {{ "a\\r\\nb".splitlines(true) }}
{{ s.split("") }}
{{ "a".join([1]) }}
{{ ",".join(words) }} {{ s.startswith("He") }} {{ s.endswith(("x", "ld")) }} {{ s.find("o") }} {{ s.find("z") }} {{ s.rfind("l") }} {{ s.index("W") }} {{ s.count("l") }} {{ "ab".isalpha() }} {{ "12".isdigit() }} {{ " ".isspace() }} {{ "aB".islower() }} {{ "AB1".isupper() }} {{ "a".zfill(3) }} {{ "-5".zfill(4) }} {{ "a".center(4) }}| {{ "ab".center(5, "*") }} {{ "a".center(5) }}| {{ "a".ljust(3) }}| {{ "a".rjust(3) }} {{ "aXb".partition("X") }} {{ "aXbXc".rpartition("X") }} {{ "abc".removeprefix("a") }} {{ "abc".removesuffix("c") }} {{ "aBc".swapcase() }} {{ s.find("ö") }} {{ s.find("o", 5) }}
{{ s.index("zz") }}
{{ "%s and %d, %5.2f|%-5s|%5s|%05d|%x|%%|%r" | format("a", 3, 2.5, "l", "r", 42, 255, "q'") }} {{ "%(a)s" | format(a=1) }} {{ "%s" % "x" }} {{ "%s-%s" % (1, [2]) }} {{ "%.3s" % "abcdef" }} {{ "%+d" % 3 }}
{{ "%s" % (1, 2) }}
{{ "%d" % "x" }}
{{ "{} {}".format(1, "a") }} {{ "{1} {0}".format(1, 2) }} {{ "{a} {b.x} {c[0]}".format(a=1, b={"x": 2}, c=[3]) }} {{ "{:>5}|{:<5}|{:^5}|{:*^7}".format("a", "b", "c", "d") }} {{ "{:.2f} {:05d} {:,} {:x} {:+} {:e} {:g} {:%}".format(2.456, 42, 1234567, 255, 3, 12345.678, 0.0001, 0.5) }} {{ "{{}} {!r}".format("a") }} {{ "{:5}|{:5}".format(1, "a") }}
{{ "{}".format() }}
{{ "{".format(1) }}
{{ n | string }} {{ "12" | int }} {{ "x" | int }} {{ "x" | int(7) }} {{ "1.9" | int }} {{ 2.9 | int }} {{ "ff" | int(base=16) }} {{ "0x1f" | int(0, 16) }} {{ "1.5" | float }} {{ "x" | float }} {{ 3 | float }} {{ nil | int }} {{ " 4 " | int }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.345 | round(2) }} {{ 2.1 | round(0, "ceil") }} {{ 2.19 | round(1, "floor") }} {{ 5 | round }} {{ -3 | abs }} {{ -2.5 | abs }}
{{ d | tojson }} {{ q | tojson }} {{ l | tojson(indent=2) }} {{ d | tojson(indent=4) }} {{ q | tojson(ensure_ascii=true) }} {{ d | tojson(sort_keys=true) }} {{ d | tojson(separators=(",", ":")) }} {{ [] | tojson(indent=2) }} {{ {} | tojson }} {{ (1, 2) | tojson }} {{ 1.0 | tojson }} {{ 1e20 | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ "</script>&'" | tojson }} {{ s | tojson(true) }} {{ [[1]] | tojson(indent=1) }} {{ l | tojson(indent="ab") }} {{ {"a": []} | tojson(indent=2, separators=(" ; ", " : ")) }}
{{ undefinedthing | tojson }}
{{ (l | map("string")) | tojson }}
{{ d.items() | tojson }}
{{ "<a&'\\">" | e }} {{ "<a>" | escape | upper }} {{ ("<a>" | safe) + "<b>" }} {{ "<b>" + ("<a>" | safe) }} {{ "<a>" | safe | escape }} {{ "<a>" | safe ~ "<b>" }} {{ ("<" | e) is escaped }} {{ ["<"|safe] }}
{{ "a b c d e f g" | truncate(8) }} {{ "a b c d e f g h i" | truncate(8) }} {{ "abcdefghijklmnopqr" | truncate(8, true, "..", 0) }} {{ "one two three" | wordcount }} {{ "a b/ü&" | urlencode }} {{ "x" | center(5) }}|
{{ n is number }} {{ n is integer }} {{ f is float }} {{ t is boolean }} {{ t is number }} {{ t is integer }} {{ s is string }} {{ l is sequence }} {{ d is mapping }} {{ d is sequence }} {{ s is sequence }} {{ s is iterable }} {{ n is iterable }} {{ nil is none }} {{ n is odd }} {{ n is even }} {{ n is divisibleby 5 }} {{ n is divisibleby(2) }} {{ n is eq 5 }} {{ n is gt 3 }} {{ "a" is in words }} {{ "a" is in(words) }} {{ s is lower }} {{ "A" is upper }} {{ t is true }} {{ 1 is true }} {{ no is false }} {{ nil is sameas none }} {{ range is callable }} {{ "upper" is filter }} {{ "odd" is test }} {{ d.items() is sequence }} {{ d.items() is iterable }} {{ n is not string }} {{ not n is string }} {{ n is defined and n is number }} {{ (l|map("string")) is iterable }} {{ none is iterable }} {{ none is sequence }} {{ f is integer }}
{{ n is defined is string }}
{{ l < [3, 2] }} {{ "a" < "b" }} {{ (1, 2) < (1, 3) }} {{ 1 < 1.5 }} {{ true < 2 }} {{ "a" >= "a" }} {{ 2 <= 2 }} {{ [1] == (1,) }} {{ {"a": 1} == {"a": 1.0} }} {{ none == none }} {{ "1" == 1 }} {{ "1" != 1 }}
{{ "a" < 1 }}
{{ none < 1 }}
{{ none in s }}
{% for i in l %}{{ i }}{{ "," if not loop.last }}{% endfor %} {% for i in [] %}x{% else %}none{% endfor %} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for c in "abc" %}{{ c }}.{% endfor %} {% for k in d %}{{ k }}{% endfor %}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.cycle("a", "b") }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.changed(i > 1) }};{% endfor %}
{% for i in l if i > 1 %}{{ loop.index }}{{ i }} {% endfor %}{% for i in l if i > 5 %}x{% else %}no{% endfor %}
{% for i in l if i > 1 %}{% endfor %}{{ i is defined }}{% for i in l if i > 5 %}{% else %}{{ i is defined }}{% endfor %}
{% for n in tree recursive %}{{ loop.depth }}{{ n.v }}[{{ loop(n.c) }}]{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %} {% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %} {{ range(2, 8, 3) | list }} {{ range(5, 0, -2) | list }} {{ range(3) | list }}
{% for i in range(3) %}{% break %}{% else %}e{% endfor %}|
{% for i in range(3) %}{% continue %}{% else %}e{% endfor %}|{% for i in range(3) %}{% if i == 1 %}{% break %}{% endif %}{% else %}e{% endfor %}
{% for i in none %}{% endfor %}
{% for i in 5 %}{% endfor %}
{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %} {% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% set ns = namespace(x=1, y="a") %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}|{{ ns.z is defined }}{% set n2 = namespace({"a": 3}) %}{{ n2.a }}
{% set notns = {} %}{% set notns.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}{% set z = 1, 2 %}{{ z }}{% set w = 1, %}{{ w }}
{% set b %}x{{ n }}y{% endset %}{{ b }}{{ b | length }}{% set c | upper | trim %} abc {% endset %}{{ c }}{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}
{% if n == 5 %}{% set v = "in" %}{% endif %}{{ v }}{% if no %}a{% elif t %}b{% else %}c{% endif %}{% if no %}a{% elif nil %}b{% else %}c{% endif %}
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}{% with %}{% set q2 = 3 %}{{ q2 }}{% endwith %}{% with a=2, b=a %}{{ b is defined }}{% endwith %}
{% macro m(a, b=2, c="x") %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(1, 2, 3) }}{{ m() }}{{ m(b=1, a=4) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m(1) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=1) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=1) }}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro list(items) %}{% for i in items %}[{{ caller(i) }}]{% endfor %}{% endmacro %}{% call(x) list(l) %}{{ x }}{{ n }}{% endcall %}{% macro w() %}({{ caller() }}){% endmacro %}{% call w() %}in{% endcall %}
{% macro w() %}({{ caller is defined }}){% endmacro %}{{ w() }}
{% macro g() %}{{ late }}{{ n }}{% endmacro %}{% set late = "L" %}{{ g() }}{% for i in [1] %}{% set late = "M" %}{{ g() }}{% endfor %}
{% macro a(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ a(1) }} {% macro b(x=l|length) %}{{ x }}{% endmacro %}{{ b() }}
{% macro k(a) %}{{ a }}{% endmacro %}{{ k(*[7]) }}{{ k(**{"a": 8}) }}
{% filter upper %}abc{{ s }}{% endfilter %}{% filter replace("a", "b") | trim %} aaa {% endfilter %}
{% raw %}{{ not }} {% tags %}{% endraw %} {%- raw -%} x {%- endraw -%} y
{% block a %}x{{ n }}{% endblock %}{% block b scoped %}y{% endblock b %}
{# comment {{ x }} #}a{#- b -#} c {#- d #} e
{{ "%}" }}{{ "}}" }}{{ {"a": {"b": 1}}.a.b }}{{ {"x": 1}["x"] }}
{{ dict(a=1, b=2) }} {{ dict([["x", 1]]) }} {{ dict(d, z=1) | length }}
{{ strftime_now("%Y-%m-%d %H:%M:%S %d %b %B %a %A %j %y %I %p %-d %-m %e %%") }}
{{ raise_exception("bad") }}
{{ s.upper().lower()[0:3] | upper }} {{ (s | upper)[1] }} {{ [1, 2, 3][1] }} {{ "abc"[1] }} {{ {"k": [5]}.k[0] }} {{ -n }} {{ - n + 2 }} {{ +n }} {{ --n }} {{ l[-1:][0] }} {{ n.__class__ }}|
{{ "a" if n > 3 else "b" if n > 1 else "c" }} {{ "a" if n > 9 else "b" if n > 1 else "c" }} {{ (n > 3 and "y") or "n" }} {{ n > 3 and n < 9 or no }}
{{ l | attr("count") is callable }} {{ d | attr("b") }}| {{ 'x' is string and 'y' is string }} {{ l is defined and l | length == 3 }} {{ l | length + 1 }} {{ s ~ l | join("-") }}
{{ l|join(',')|upper if l else 'none' }} {{ not l }} {{ not (l and no) }} {{ l is not none and l != [] }}
{{ undefinedthing | list }} {{ undefinedthing | join }}| {{ undefinedthing | string }}| {{ undefinedthing | upper }}| {{ undefinedthing | first }}| {{ nil | default("a") }} {{ nil | default("a", true) }} {{ empty | d("e", true) }} {{ nil | string }} {{ nil | upper }} {{ n | upper }} {{ [1, 2] | upper }} {{ undefinedthing | items | list }}
{{ 9223372036854775807 }} {{ 9223372036854775807 // -1 }}
{% if n %}{{ "unterminated }}
{{ 1 + }}
{{ (1 }}
{{ [1, }}
{% if %}x{% endif %}
{% endif %}
{% for x l %}{% endfor %}
{% if n %}
{% nosuchtag %}
{% set %}
{% set 1 = 2 %}
{{ a b }}
{{ }}
{% macro %}{% endmacro %}
{{ foo(a=1, 2) }}
{{ "x" | }}
{{ x is }}
{{ 1 ? 2 }}
{% if no %}{{ 1 | nosuchfilter }}{% endif %}ok
{% if t %}{{ 1 | nosuchfilter }}{% endif %}
{{ n,  s }} {{ n, }} {{ (n) }}
{{ {"a": 1,} }} {{ [1, 2,] }} {{ dict(a=1,) }}
{% set x = "a" %}{% macro m() %}{% set x = "b" %}{{ x }}{% endmacro %}{{ m() }}{{ x }}
{% for i in l %}{% if loop.first %}{% set y = i %}{% endif %}{{ y is defined }}{% endfor %}
{% for i in l %}{% set outer = loop %}{% for j in "ab" %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{{ loop is defined }}{% for loop2 in [1] %}{{ loop.index }}{% endfor %}
{{ [1,2].index(2) }}{{ [1,1].count(1) }}{{ (1,2).index(2) }}
{{ [3] | first | string | length }} {{ "a-b_c" | replace("-", "_") | title }} {{ "a" in ["a"] and "b" not in ["a"] }}
{{ 5 | tojson }}{{ none | tojson }}{{ true | tojson }}{{ "é" | tojson }}{{ "\\u2028" | tojson }}{{ "\\x7f" | tojson }}{{ "\\x7f" | tojson(ensure_ascii=true) }}
{{ ["é\\n", "\\u200b", "\\U0001f600", "\\x85", "'", '"', "'\\"", "\\\\"] }}
{{ 100000000000000000000.0 }} {{ 123456789.123456789 }} {{ 1e22 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ -0.0 }}
{{ (l | map("string")) is sequence }} {{ ((l | map("string")) | list) is sequence }} {{ (l|select) and 1 }} {{ ([]|select) and 1 }}
{% set g = l | map("string") %}{{ g | join }}|{{ g | join }}
{{ "a\\tb\\\\" }} {{ "\\\\n" }} {{ 'a"b' }}
""".strip("\n").split("\n")

# Templates in which white space counts, or with several lines.
W = [
    "a\n{% if t %}\nb\n{% endif %}\nc\n", "a\n  {% if t %}  \n  b\n  {% endif %}\n  c", "a {% if t %} b {% endif %} c",
    "  {{ n }}\n  {{- n }}\n  {{ n -}}\n  x", "x\n{%- if t %}\n y\n{%- endif %}\nz", "x\n{% if t -%}\n y\n{% endif -%}\n z",
    "  {%+ if t %}a{% endif %}\n", "a\n   {# c #}\nb", "a\n   {# c #}   \nb", "a\n   {#- c -#}\n  b", "{% for i in l %}\n  - {{ i }}\n{% endfor %}\nend",
    "\n\n{% if t %}\n\n\nx{% endif %}\n\n", "a\n\n", "a\r\nb\r{% if t %}\r\nx{% endif %}\r\n", "\t{% if t %}\n\tx\n\t{% endif %}\n",
    "a{% if t %}\n\n  {% if t %}\nb{% endif %}{% endif %}", "{% if t %}   {% endif %}|", "   {% set x = 1 %}\n   {{ x }}", "{% set x = 1 +%}\n{{ x }}",
    "  {% raw %}\n  {{ x }}\n  {% endraw %}\n  y", "a  {%- raw -%}  b  {%- endraw -%}  c", "{{ n }}\n\n{{ n }}\n", "a\u00a0{%- if t %} b{% endif %}", "x {#- a #}\n\n y",
    "  {{ n }}  {% if t %}\n  {% endif %}  \n", "{% if t %}\n  {% for i in l %}\n    {{ i }}\n  {% endfor %}\n{% endif %}\n", "{#\n multi\n#}\nx", "a {#+ x +#}\n b",
    "{% macro m(a) %}\n  <{{ a }}>\n{% endmacro %}\n{{ m(1) }}\n{{- m(2) -}}\n.", "{{ '{%' }} { % {x} {{ '{{' }}", "{", "{{", "{%", "{# x", "a{", "{{ 'multi\nline' }}", "}} %} #}",
    "{% set content %}\n line\n  {% if t %}\n  x\n  {% endif %}\n{% endset %}[{{ content }}]", "{% if t %}{# c #}\n{% endif %}x", "{%if t%}a{%endif%}{{n}}{%-if t-%} b {%-endif-%}",
    "{% for u in users -%}\n  {{ u.name }}\n{%- endfor %}", "x{% if t %}\r\ny{% endif %}", "  \n  {% if t %}a{% endif %}", "a\f\n \f{% if t %}b{% endif %}",
]

def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

def raise_exception(m):
    raise TemplateError(m)

env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime.datetime(2026, 7, 6, 12, 4, 0).strftime(f)
out = []
for t in E + W:
    c = {"template": t}
    try:
        c["text"] = env.from_string(t).render(**VARS)
    except Exception as e:
        c["error"] = type(e).__name__ + ": " + str(e)
    out.append(c)
here = os.path.dirname(os.path.abspath(__file__))
with open(here + "/cases.json", "w", encoding="utf8") as f:
    json.dump({"vars": VARS, "cases": out}, f, ensure_ascii=False, indent=1)
    f.write("\n")
