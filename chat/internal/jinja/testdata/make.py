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
{{ ('<%s> %s'|safe) % ('<a>', '<'|safe) }} {{ ('%r'|safe) % '<' }} {{ ('%(a)s'|safe) % {'a': '<'} }} {{ ('%5s|%.2s|'|safe) % ('<', '<a') }} {{ ('%s<'|safe) % 1.5 + '<' }} {{ '%s' % ('<'|safe) + '<' }}
{{ ('{} {a}'|safe).format('<', a='<') + '<' }} {{ ('{0[0]} {1:>3} {1!r} {2!s}'|safe).format(['<'], '<', '<'|safe) }} {{ '{}'.format('<'|safe) + '<' }} {{ ('%s'|safe)|format('<') }} {{ ('{}'|safe).format('<'|safe) }}
{{ ('<'|safe).join(['&', 'b'|safe, '>']) + '<' }} {{ ','.join(['<'|safe, 'b']) + '<' }} {{ ('a<b'|safe).replace('a', '<') + '<' }} {{ ('a<b'|safe).replace('<', '>'|safe) }} {{ ('a<b'|safe)|replace('<', '>') + '<' }}
{{ ('ab<'|safe)[::-1] + '<' }} {{ ('ab<'|safe)[::2] + '<' }} {{ ('ab<'|safe)|reverse + '<' }} {{ ('ab'|safe)|last + '<' }} {{ ('ab'|safe)|first + '<' }} {{ ('a\nb<'|safe)|indent('<') + '<' }} {{ ('a'|safe)|title + '<' }} {{ ('a<'|safe)|list }}
{{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '②٣'.isdigit() }} {{ '½'.isdigit() }} {{ '⑩'.isdigit() }} {{ '🄁'.isdigit() }}
{% macro m(a, b=2) %}{{ caller() }}{{ kwargs }}{% endmacro %}{{ m.name }} {{ m.arguments }} {{ m.caller }} {{ m.catch_kwargs }} {{ m.catch_varargs }} {{ m.other is defined }} {{ range.name is defined }}
{% macro m() %}{{ caller.name }} {{ caller.arguments }}{% endmacro %}{% call(u) m() %}x{% endcall %} {{ m.arguments }}
{{ 'inf'|int }} {{ 'nan'|int(4) }} {{ '1e400'|int(3) }} {{ '-1e3'|int }} {{ '%d' % 3.7 }} {{ '%d' % -3.7 }}
{{ ('{:5}'|safe).format('<'|safe) }}
{{ 2.0 ** 2000 }}
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
{{ "%5d|%-5d|%05d|%+d|% d|%+05d|%-05d|" % (42, 42, 42, 42, 42, 42, 42) }} {{ "%x %X %o %#x %#o %#X" % (255, 255, 8, 255, 8, 255) }} {{ "%i %u %d" % (1, 2, 3.9) }}
{{ "%e %E %g %G %f %F %.0f %.10f %5.1f|%-8.2f|%08.2f" % (1.5, 1.5, 0.00001, 1e20, 1.5, 1.5, 2.5, 0.1, 3.14159, 2.5, -2.5) }}
{{ "%s %r %.2s|%5s|%-5s|%05s|%5.1s|" % ("a", "a'b", "abc", "x", "x", "x", "xyz") }} {{ "%%" % () }} {{ "100%%" % () }} {{ "%s" % 1 }} {{ "%s" % none }} {{ "%d%%" % 50 }} {{ "%(a)s-%(b)05d-%(a)r" % {"a": "x", "b": 7} }}
{{ "%s %s" % ("a",) }}
{{ "%s" % ("a", "b") }}
{{ "a" % ("b",) }}
{{ "a%" % () }}
{{ "%d" % "x" }}
{{ "%5" % 1 }}
{{ "%(a)s" % {"b": 1} }}
{{ "%(a" % {"a": 1} }}
{{ "%(a)s" % 3 }}
{{ "%x" % 1.5 }}
{{ "%q" % 1 }}
{{ "{} {} {}".format(1, "b", 2.5) }} {{ "{0} {1} {0}".format("a", "b") }} {{ "{a} {b}".format(a=1, b="x") }} {{ "{{}} {}".format(1) }} {{ "{0[1]} {0[0]}".format([5, 6]) }} {{ "{d[k]}".format(d={"k": 3}) }} {{ "{!r} {!s}".format("a'b", "c") }} {{ "{0[1][k]}|".format([1, {"k": "v"}]) }}
{{ "{:5d}|{:<5d}|{:>5d}|{:^5d}|{:05d}|{:+d}|{: d}|{:=+5d}|{:*^7d}|{:é>4d}|{:x<05d}".format(42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42) }}
{{ "{:,} {:_} {:,} {:,} {:,.2f} {:,d} {:,} {:_d} {:,}".format(1234567, 1234567, 123, 1000, 1234567.891, -1234567, -123456, 12345678, 1234.5) }}
{{ "{:x} {:X} {:o} {:b} {:#x} {:#X} {:#o} {:#b} {:#06x} {:#010b} {:+x}".format(255, 255, 8, 5, 255, 255, 8, 5, 255, 5, 255) }}
{{ "{:e} {:E} {:f} {:F} {:g} {:G} {:%} {:.1%} {:.3f} {:.0f} {:10.3f}| {:<10.3f}| {:010.3f} {:+.2f} {:.3e}".format(1.5, 1.5, 1.5, 1.5, 0.00001, 1e20, 0.25, 0.125, 3.14159, 2.5, 3.14159, 3.14159, -3.14159, 2.0, 12345.678) }}
{{ "{:s}|{:5s}|{:>5s}|{:^5s}|{:<5}|{:^6}|{:.2s}|{:5.1s}|{:*^5s}|{:é^6}|".format("a", "b", "c", "d", "e", "f", "ghi", "jkl", "m", "né") }} {{ "{:5}|{:<5}|{:.1f}|{:d}".format(1, 2, 3, true) }} {{ "{:5}|{}".format(true, true) }} {{ "{:5}|{:>5}".format(1.5, "x") }} {{ "{:05}|{:05}".format(-3, 2.5) }}
{{ "{:5d}|{:5d}".format(12345, 123456) }} {{ "{:e}".format(12) }} {{ "{:1}{:0}{:2}".format(1, 2, 3) }}
{{ "}" .format() }}
{{ "{" .format() }}
{{ "{0".format(1) }}
{{ "{1}".format(1) }}
{{ "{-1}".format(1) }}
{{ "{a}".format(1) }}
{{ "{0[a}".format(1) }}
{{ "{:d}".format("a") }}
{{ "{:d}".format(1.5) }}
{{ "{:s}".format(1) }}
{{ "{:q}".format(1) }}
{{ "{:5z}".format(1) }}
{{ "{!x}".format(1) }}
{{ "{} {}".format(1) }}
{{ "a %s b %s"|format(1, "x") }} {{ "%(x)s"|format(x=3) }}
{{ "%s"|format(1, x=3) }}
{{ "hello world"|truncate(5) }}|{{ "hello world"|truncate(3) }}|{{ "hello world"|truncate(6, leeway=0) }}|{{ "hello world"|truncate(11, leeway=0) }}|{{ "hello world"|truncate(10, leeway=0) }}|{{ "hello big world"|truncate(10, true, leeway=0) }}|{{ "hello big world"|truncate(10, false, "..", 0) }}|{{ "hello big world"|truncate(8, end="", leeway=3) }}|{{ "hello"|truncate(3, leeway=2) }}|{{ "hello"|truncate(3, leeway=1) }}|{{ "ééééééé"|truncate(5, leeway=0) }}|{{ "abc def"|truncate(4, end="", leeway=0) }}|{{ " abcdefgh"|truncate(5, leeway=0) }}
{{ "x"|truncate(2) }}
{{ "x"|truncate(5, leeway=-1) }}
{{ "x"|truncate(5, false, "longer") }}
{{ "abcdef"|truncate(3, leeway=0) }}
{{ [1, 2, 3, 4, 5]|batch(2)|list }} {{ [1, 2, 3, 4, 5]|batch(2, "x")|list }} {{ [1, 2, 3, 4]|batch(2, "x")|list }} {{ [1]|batch(1, 0)|list }} {{ [1]|batch(3, none)|list }} {{ []|batch(3, 1)|list }}
{{ [1, 2, 3, 4, 5]|slice(2)|list }} {{ [1, 2, 3, 4, 5]|slice(3, "x")|list }} {{ [1, 2, 3, 4, 5, 6]|slice(3, "x")|list }} {{ [1, 2]|slice(3)|list }} {{ [1, 2]|slice(1, 9)|list }} {{ [1, 2]|slice(3, none)|list }}
{{ [1]|slice(0)|list }}
{{ [5]|last }} {{ [5]|first }} {{ [5]|min }} {{ []|last }}| {{ ""|last }}| {{ ""|first }}| {{ "a"|last }} {{ (l|map("string"))|first }} {{ ([]|select)|first }}|
{{ "abc"|center(9) }}| {{ "abc"|center(4) }}| {{ "ab"|center(5) }}| {{ "ab".center(5, "*") }} {{ "abc".center(6, "*") }} {{ "abc".center(3) }} {{ "abc".center(2) }} {{ "a".ljust(3, ".") }} {{ "a".rjust(3, ".") }} {{ "abc".ljust(2) }} {{ "é".rjust(2) }} {{ "a".ljust(3) }}|
{{ "a".ljust(3, "ab") }}
{{ "5".zfill(3) }} {{ "-5".zfill(3) }} {{ "+5".zfill(4) }} {{ "-5".zfill(2) }} {{ "555".zfill(3) }} {{ "".zfill(2) }} {{ "-".zfill(3) }} {{ "a-".zfill(4) }}
{{ "hello".count("l") }} {{ "aaa".count("aa") }} {{ "abc".count("") }} {{ "hello".find("l") }} {{ "hello".rfind("l") }} {{ "hello".find("z") }} {{ "héllo".find("l") }} {{ "héllo".rfind("l") }} {{ "hello".index("l") }} {{ "hello".rindex("l") }} {{ "hello".find("") }}
{{ "hello".index("z") }}
{{ "hello".rindex("z") }}
{{ [1].index(2) }}
{{ "a".isalnum() }} {{ "".isalnum() }} {{ "a1".isalnum() }} {{ "a 1".isalnum() }} {{ "a1".isalpha() }} {{ "ab".isalpha() }} {{ "12".isdigit() }} {{ "1a".isdigit() }} {{ "".isdigit() }} {{ "12".isdecimal() }} {{ "½".isnumeric() }} {{ "½".isdecimal() }} {{ " \\t".isspace() }} {{ "".isspace() }} {{ " a".isspace() }} {{ "".isascii() }} {{ "é".isascii() }} {{ "a\\x7f".isascii() }} {{ "\\x80".isascii() }} {{ "ab".islower() }} {{ "aB".islower() }} {{ "1".islower() }} {{ "a1".islower() }} {{ "AB".isupper() }} {{ "Ab".isupper() }} {{ "".isupper() }} {{ "A1".isupper() }}
{{ "aBC ß".swapcase() }} {{ "Straße".casefold() }} {{ "STRASSE É".casefold() }} {{ "straße".upper() }} {{ "ÀB".lower() }} {{ "ab cd-ef".title() }} {{ "ab1cd".title() }} {{ "aB".capitalize() }} {{ "éA".capitalize() }} {{ "".capitalize() }}|
{{ "abc".removeprefix("ab") }} {{ "abc".removeprefix("x") }} {{ "abc".removesuffix("bc") }} {{ "abc".removesuffix("x") }} {{ "abc".removeprefix("abc") }}| {{ "abc".removesuffix("") }}
{{ "a-b-c".partition("-") }} {{ "a-b-c".rpartition("-") }} {{ "abc".partition("-") }} {{ "abc".rpartition("-") }} {{ "abc".partition("c") }} {{ "abc".rpartition("a") }}
{{ "abc".partition("") }}
{{ "abc".startswith("ab") }} {{ "abc".startswith("bc") }} {{ "abc".endswith("bc") }} {{ "abc".endswith("ab") }} {{ "abc".startswith(("x", "a")) }} {{ "abc".endswith(("x", "y")) }} {{ "abc".startswith("") }} {{ "abc".startswith(()) }}
{{ "a,b,,c".split(",") }} {{ "a,b,,c".split(",", 1) }} {{ "a,b,,c".rsplit(",", 1) }} {{ " a  b ".split() }} {{ " a  b c ".split(none, 1) }} {{ " a  b c ".rsplit(none, 1) }} {{ "".split() }} {{ "".split(",") }} {{ "a,b".split(",", 0) }} {{ "a b".split(none, 0) }} {{ "abab".split("ab") }} {{ "a\\nb\\r\\nc\\n".splitlines() }} {{ "a\\nb\\r\\nc\\n".splitlines(true) }} {{ "".splitlines() }} {{ "\\n".splitlines() }} {{ "a\\n\\nb".splitlines() }} {{ "a,b,c".split(",", maxsplit=1) }} {{ "a,b,c,d".rsplit(",", 2) }} {{ "a,b".split(",", -1) }}
{{ "a".split("") }}
{{ {"a": 1}.copy() }} {{ [1].copy() }} {{ {"a": 1}.keys()|list }} {{ {"a": 1}.values()|list }} {{ {"a": 1}.items() }} {{ {"a": 1}.keys() }} {{ {"a": 1}.values() }} {{ [1, 1.0, true, "1"].count(1) }}
{{ {"a": 1}.copy(1) }}
{{ [1].copy(1) }}
{{ {"a": 1}.keys(1) }}
{{ {"a": 1}.values(1) }}
{{ {"a": 1}.items(1) }}
{{ "a".upper(1) }}
{{ "a".title(1) }}
{{ "a".isalpha(1) }}
{{ l|first(1) }}
{{ l|last(1) }}
{{ l|list(1) }}
{{ n|abs(1) }}
{{ d|items(1) }}
{{ "a"|string(1) }}
{{ "a"|title(1) }}
{{ "a"|upper(1) }}
{{ l|reverse(1) }}
{{ "a"|wordcount(1) }}
{{ "a"|capitalize(1) }}
{{ [1, 2]|length(3) }}
{{ "a"|safe(1) }}
{{ "a"|escape(1) }}
{{ -3|abs }} {{ -2.5|abs }} {{ 3|abs }} {{ (-3)|abs }} {{ (-2.5)|abs }} {{ 0|abs }} {{ true|abs }}
{{ "a"|abs }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 2.561|round(2, "ceil") }} {{ 2.569|round(2, "floor") }} {{ 2.1|round(0, "ceil") }} {{ 5|round }} {{ 42.55|round(1) }} {{ -2.5|round }} {{ 7|round(1, "floor") }} {{ 2.4|round(method="ceil") }}
{{ 1.5|round(1, "up") }}
{{ "a"|round }}
{{ "12"|int }} {{ "12.7"|int }} {{ " 12 "|int }} {{ "x"|int }} {{ "x"|int(7) }} {{ "ff"|int(base=16) }} {{ "0xff"|int(0, 16) }} {{ "0b11"|int(0, 2) }} {{ "0o17"|int(0, 8) }} {{ "17"|int(0, 8) }} {{ "1_000"|int }} {{ 3.9|int }} {{ -3.9|int }} {{ true|int }} {{ none|int }} {{ none|int(3) }} {{ []|int(4) }} {{ "z"|int(0, 36) }} {{ "-5"|int }} {{ "1e3"|int }} {{ "9"|int(5, 8) }} {{ "zz"|int(3, 36) }}
{{ "1.5"|float }} {{ "x"|float }} {{ "x"|float(2.5) }} {{ 3|float }} {{ none|float }} {{ none|float(1) }} {{ "1e3"|float }} {{ " 2 "|float }} {{ true|float }} {{ "1_0.5"|float }} {{ "inf"|float }} {{ "-inf"|float }} {{ "nan"|float }}
{% set i, j, k = "inf", "-inf", "nan" %}{{ [i|float, j|float, k|float] }} {{ [i|float, j|float, k|float]|tojson }} {{ "%f %5.1f" % (i|float, k|float) }} {{ "{:f}".format(j|float) }}
{{ "a b/c?d=é&f_g.h-i~j"|urlencode }} {{ "_"|urlencode }} {{ ""|urlencode }}|{{ "%"|urlencode }} {{ "ÿ"|urlencode }}
{{ "hello big_world 1 x"|wordcount }} {{ ""|wordcount }} {{ "a-b"|wordcount }} {{ " a "|wordcount }}
{{ {"b": 1, "a": {"c": []}}|tojson }} {{ {"b": 1, "a": 2}|tojson(sort_keys=true) }} {{ [1, [2, {}], {"a": 1}]|tojson(indent=2) }} {{ [1, 2]|tojson(separators=(",", ":")) }} {{ {"a": [1]}|tojson(indent=1, separators=(", ", " : ")) }} {{ [1, [2]]|tojson(indent=0) }} {{ [1, [2]]|tojson(indent="--") }} {{ [1]|tojson(indent=none) }} {{ [1]|tojson(indent=-1) }} {{ {}|tojson(indent=2) }}
{{ "\\b\\f\\n\\r\\t\\x01\\x1f\\x7f\\\\\\"é\\U0001f600\\uffff\\U00010000\\U0010ffff"|tojson }} {{ "\\x7fé\\ud7ff\\uffff\\U00010000\\U0001f600\\U0010ffff~"|tojson(ensure_ascii=true) }} {{ {2: 2, none: 3, true: 4, 1.5: 5, "a": 6}|tojson }}
{{ {"é": "é"}|tojson(ensure_ascii=true) }} {{ (1, "a")|tojson }} {{ [true, false, none, 1.0, 1e100, -0.0]|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ undefinedthing|tojson }}
{{ "abcdef"[1:5:2] }} {{ "abcdef"[5:1:-2] }} {{ "abcdef"[::-2] }} {{ "abcdef"[-2::-1] }} {{ "abcdef"[:2:-1] }} {{ "abcdef"[4:1:-1] }} {{ "abcdef"[1:4:-1] }}| {{ "abcdef"[10::-1] }} {{ "abcdef"[-10:3] }} {{ "abcdef"[:-10] }}| {{ "abcdef"[:-10:-1] }} {{ [1, 2, 3, 4][3:0:-2] }} {{ [1, 2, 3, 4][-1:-4:-1] }} {{ (1, 2, 3)[::2] }} {{ (1, 2, 3)[:1] }} {{ "abcdef"[none:none:none] }} {{ "abcdef"[2:none] }} {{ "äöü"[1:] }} {{ "äöü"[::-1] }} {{ l[:0] }} {{ l[0:0:-1] }} {{ ""[::-1] }}| {{ ([]|list)[::-1] }}
{{ "abc"[::0] }}
{{ "abc"[1:2:3:4] }}
{{ l[1, 2] }}| {{ {(1, 2): 3}[1, 2] }} {{ {(1, 2): 3}[(1, 2)] }}
{{ {[1]: 2} }}
{{ {{}: 2} }}
{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ 3037000499 * 3037000499 }} {{ -1 * 9223372036854775807 }} {{ 9223372036854775806 + 1 }} {{ -9223372036854775807 - 1 }} {{ 0 * -9223372036854775807 }} {{ 4611686018427387904 * -2 }} {{ 2 ** 62 }} {{ (-2) ** 63 }} {{ 1 ** 100 }} {{ (-1) ** 101 }} {{ (-1) ** 100 }} {{ 0 ** 100 }} {{ 0 ** 0 }} {{ 3 ** 39 }} {{ -5 - -5 }} {{ 0 - 9223372036854775807 }} {{ -5 + 5 }} {{ 5 + 0 }} {{ 5 - 0 }} {{ 1 ** 65 }} {{ (-1) ** 65 }}
{{ -7 // 2 }} {{ -7 % 2 }} {{ 7 // -2 }} {{ 7 % -2 }} {{ -8 // 2 }} {{ -8 % 2 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 8.0 % -2 }} {{ 6 / 3 }} {{ 7 / 2 }} {{ 2 ** 0.5 }} {{ 2.0 ** 3 }} {{ 1.5 + 1 }} {{ 1 - 0.5 }} {{ 1.5 * 2 }} {{ 0.0 ** 2 }}
{{ 0 ** -1 }}
{{ 0.0 ** -1 }}
{{ 1 // 0 }}
{{ 1.0 // 0 }}
{{ 1.0 % 0.0 }}
{{ +5 }} {{ -true }} {{ +true }} {{ - -5 }} {{ -2.5 }} {{ not 1 == 2 }}
{{ -"a" }}
{{ +"a" }}
{{ [1] + (2,) }}
{{ (1,) + [2] }}
{{ "a" - "b" }}
{{ "a" * "b" }}
{{ "ab" * 0 }}| {{ "ab" * -1 }}| {{ [] * 5 }} {{ "" * 5 }}| {{ (1,) * 3 }} {{ 3 * [1, 2] }} {{ 2 * (1,) }}
{{ "<a>"|escape ~ "<b>" }} {{ "<a>"|safe + "<b>" }} {{ "<b>" + ("<a>"|safe) }} {{ ("<a>"|e) + ("<b>"|e) }} {{ "<b>" + "<a>" }} {{ ("<"|e)|e }} {{ ("<"|e)|forceescape }} {{ ("<"|safe) * 2 + "<" }} {{ "'&<>"|e }}
{{ 1 < 2 }} {{ 2 < 1 }} {{ 1 <= 1 }} {{ 1 >= 2 }} {{ 1 > 0 > -1 }} {{ 1 < 0 < 3 }} {{ 1 != 1 }} {{ 1 == 1 == 1 }} {{ 1 < 2 > 5 }} {{ "a" < "b" }} {{ "ab" < "a" }} {{ "a" < "ab" }} {{ [1, 2] < [1, 3] }} {{ [1, 2] < [1] }} {{ [1] < [1, 0] }} {{ (1, "a") < (1, "b") }} {{ true < 2 }} {{ 1.5 < 2 }} {{ 2 > 1.5 }} {{ [1] == (1,) }} {{ [1] == [1.0] }} {{ {"a": 1} == {"a": 1.0} }} {{ {"a": 1} == {"a": 2} }} {{ {"a": 1, "b": 2} == {"b": 2, "a": 1} }} {{ {"a": 1} == {"b": 1} }} {{ {"a": "b"} == {"a": "a"} }} {{ {"a": 1} == {"a": 1, "b": 2} }} {{ none == none }} {{ none == 0 }} {{ "1" == 1 }} {{ 1 in (1, 2) }} {{ "a" in {"a": 1} }} {{ 1 not in [2] }} {{ "" in "a" }} {{ "ab" in "a" }} {{ [1, 2] == [1] }}
{{ 1 < "a" }}
{{ none < 1 }}
{{ [1] < 1 }}
{{ {} < {} }}
{{ 1 in 1 }}
{{ 1 in "a" }}
{{ [1] < (1,) }}
{{ [3, 1, "a"]|sort }}
{{ [none, 1]|min }}
{% macro m(a, b=2, c=3) %}{{ a }}{{ b }}{{ c }}|{% endmacro %}{{ m(1) }}{{ m(1, 5) }}{{ m(1, c=7) }}{{ m(a=4) }}{{ m() }}{{ m(1, 2, 9) }}{{ m(b=0, a=1) }}{{ m(*[1, 2]) }}{{ m(**{"a": 3, "c": 4}) }}
{% macro m(a, b) %}{{ a is defined }}{{ b is defined }}{{ a }}{{ b }}{% endmacro %}{{ m(1) }} {{ m() }} {{ m(b=1) }}
{% macro m(a=1, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m() }} {{ m(2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }} {{ m(1) }}
{% macro m(a) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(1, b=2, c=3) }} {{ m(1) }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m() %}{{ caller() }}!{% endmacro %}{% call m() %}x{% endcall %}{% macro p(x) %}[{{ caller(x, 2) }}]{% endmacro %}{% call(a, b) p(1) %}{{ a }}{{ b }}{% endcall %}
{% call 1 %}{% endcall %}
{% for i in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle("a", "b") }}{{ loop.changed(i // 2) }};{% endfor %}
{% for t in tree recursive %}{{ loop.depth }}{{ loop.depth0 }}{{ t.v }}{{ loop.last }}{{ loop.first }}{% if t.c %}({{ loop(t.c) }}){% endif %}{% endfor %}
{% for x in [1] %}{{ loop([2]) }}{% endfor %}
{% for x in [1] %}{{ loop.cycle() }}{% endfor %}
{% for x in [1] %}{{ loop.nope }}|{{ loop.nope is defined }}{% endfor %}
{% for x in [] %}a{% else %}b{% endfor %} {% for x in [1] %}a{% else %}b{% endfor %} {% for x in [1, 2, 3] if x > 5 %}a{% else %}c{% endfor %} {% for x in [1, 2, 3] if x != 2 %}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %} {% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %} {% for (a, (b, c)) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for k, v in {"a": 1}.items() %}{{ k }}{{ v }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for x in [1, 2, 3, 4] %}{% if x == 3 %}{% break %}{% endif %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %} {% for x in [1] %}{% break %}{% else %}e{% endfor %} {% for x in [1, 2] %}{% continue %}{% else %}e{% endfor %}
{% break %}
{% if t %}{% continue %}{% endif %}
{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% if no %}a{% elif nil %}b{% elif t %}c{% else %}d{% endif %} {% if no %}a{% elif no %}b{% else %}d{% endif %} {% if no %}a{% elif no %}b{% endif %}| {% if t %}a{% else %}d{% endif %} {% if n, 0 %}x{% endif %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (a, b) = (3, 4) %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}{% set x %}a{{ n }}b{% endset %}{{ x }}{% set y | upper | trim %} q {% endset %}{{ y }}{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns.a }}{% set ns2 = namespace({"z": 1}, y=2) %}{{ ns2.z }}{{ ns2.y }}
{% set a, b = 1 %}
{% set a, b = [1] %}
{% set true = 1 %}
{% set none = 1 %}
{% set d.x = 1 %}
{% set nope.x = 1 %}
{% with %}{% set q2 = 1 %}{{ q2 }}{% endwith %}{{ q2 is defined }}{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}{% with a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{% endwith %}
{% with a = 1 b = 2 %}{% endwith %}
{% filter upper %}a{{ s }}{% endfilter %} {% filter replace("a", "b") | upper %}aa{% endfilter %} {% filter trim %} x {% endfilter %}|
{% block a %}x{{ n }}{% endblock %} {% block b %}y{% endblock b %} {% for i in [1] %}{% block c scoped %}{{ i }}{% endblock %}{% endfor %} {% for i in [1] %}{% block e %}{{ i is defined }}{% endblock %}{% endfor %}
{% raw %}{{ x }}{% endraw %} {% raw %}{% if %}{% endraw %} {%- raw -%} a {%- endraw -%} b {% raw %}{%{% endraw %}
{% raw %}a
{% raw %}a{% endraw
{{ range(3)|list }} {{ range(1, 3)|list }} {{ range(5, 1, -2)|list }} {{ range(0)|list }} {{ range(3, 3)|list }} {{ range(1, 2)|list }} {{ range(0, 5, 2)|list }} {{ range(0, 6, 2)|list }} {{ range(0, -1, -1)|list }} {{ range(-1)|list }} {{ range(1)|list }} {{ range(2, 1)|list }} {{ range(1, 0, -1)|list }}
{{ range(1, 2, 0)|list }}
{{ range()|list }}
{{ range("a")|list }}
{{ dict(a=1, b=2) }} {{ dict() }} {{ dict({"a": 1}, b=2) }} {{ dict([("a", 1)]) }} {{ dict({"a": 1}, a=2) }} {{ namespace() is mapping }}
{{ dict([(1, 2, 3)]) }}
{{ dict(1) }}
{{ namespace(1) }}
{{ range is callable }} {{ n is callable }} {{ nope is callable }} {{ d.nope is callable }} {% for i in l %}{{ loop is callable }}{{ loop.index is callable }}{{ loop.cycle is callable }}{% endfor %} {{ joiner() is callable }} {{ namespace() is callable }} {{ none is callable }}
{% for i in l %}a{{ i }}{% filter upper %}x{% if i == 1 %}{% break %}{% endif %}y{% endfilter %}b{% else %}e{% endfor %}
{% for i in l %}a{{ i }}{% filter upper %}x{% if i == 1 %}{% continue %}{% endif %}y{% endfilter %}b{% endfor %}
{% for i in l %}a{{ i }}{% set z %}x{% if i == 1 %}{% break %}{% endif %}y{% endset %}{{ z }}{% endfor %}
{% set z = namespace(v=0) %}{% for i in l %}a{{ i }}{% set z.v | upper %}x{% if i == 1 %}{% continue %}{% endif %}y{{ i }}{% endset %}{{ z.v }}{% endfor %}{{ z.v }}
{{ 1e5 }} {{ 1E5 }} {{ 1.5e-3 }} {{ 1e+2 }} {{ 1_0.5_0 }} {{ 0x_ff }} {{ 0XfF }} {{ 0B11 }} {{ 00 }} {{ 0 }} {{ 1.0e2 }} {{ 12 }} {{ 7 }}
{{ 012 }}
{{ 1.e5 }}
{{ 1e }}
{{ 1e5x }}
{{ "\\a\\b\\f\\n\\r\\t\\v\\0\\07\\101\\1012\\8"|tojson }} {{ "\\x41\\u0041\\U00000041" }} {{ '\\'' }} {{ "\\"" }} {{ "\\q" }}
{{ "\\x4" }}
{{ "\\xzz" }}
{{ "\\u004" }}
{{ "\\U00110000" }}
{{ "abc
{{ "abc\\" }}
{{ 'abc" }}
{{ (1, 2] }}
{{ [1, 2) }}
{{ {"a": 1] }}
{{ (1 }}
{{ 1) }}
{{ ] }}
{{ 1 ! 2 }}
{{ a; b }}
{{ {"a" 1} }}
{{ {"a": 1 "b": 2} }}
{{ {"a": 1, "b"} }}
{{ [1 2] }}
{{ (1 2) }}
{{ d.1 }}| {{ l.0 }} {{ l.1 }} {{ (l).2 }} {{ "abc".1 }}
{{ d. }}
{{ d."a" }}
{{ d["b" }}
{{ d["b"} }}
{{ foo(1 2) }}
{{ dict(a=1,) }} {{ dict(**{"a": 1}) }}
{{ dict(**1) }}
{{ range(*1) }}
{{ foo(**{}, *[]) }}
{{ foo(*[], *[]) }}
{{ foo(a=1, *[2]) is defined }}
{{ 1 is odd }} {{ 2 is odd }} {{ 2 is even }} {{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ 1 is eq 1 }} {{ 1 is ne 1 }} {{ 1 is lt 2 }} {{ 1 is le 1 }} {{ 1 is gt 1 }} {{ 1 is ge 1 }} {{ 1 is in [1] }} {{ 1 is not in [1] }} {{ 1 is equalto 1 }} {{ 1 is sameas 1 }} {{ none is none }} {{ 1 is none }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ true is boolean }} {{ 1 is boolean }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is integer }} {{ 1.0 is float }} {{ 1 is float }} {{ 1 is number }} {{ "a" is number }} {{ "a" is string }} {{ 1 is string }} {{ {} is mapping }} {{ [] is mapping }} {{ [] is sequence }} {{ {} is sequence }} {{ 1 is sequence }} {{ "a" is iterable }} {{ 1 is iterable }} {{ "a" is lower }} {{ "A" is lower }} {{ "A" is upper }} {{ "a" is upper }} {{ x is undefined }} {{ n is undefined }} {{ 1 is not odd }} {{ not 1 is odd }} {{ "upper" is filter }} {{ "nope" is filter }} {{ "odd" is test }} {{ "nope" is test }} {{ "a"|e is escaped }} {{ "a" is escaped }} {{ true is sameas true }} {{ none is sameas none }}
{{ 1 is odd is even }}
{{ 1 is }}
{{ 1 is 5 }}
{{ 4 is divisibleby 0 }}
{{ 1 if no else 2 if no else 3 }} {{ (1 if t else 2) if t else 3 }} {{ 1 if t if no else 4 }}| {{ "a" if n == 5 else "b" }} {{ [1 if t else 2, 3] }}
{{ (1).x }}| {{ 1.5.x }}| {{ [].x }}| {{ {}.x }}| {{ s.x is defined }} {{ l[9] is defined }} {{ l[-4] is defined }} {{ l[-3] }} {{ l[2] }} {{ l[3] is defined }} {{ s[-12] }} {{ s[11] }} {{ s[12] is defined }} {{ s[-13] is defined }} {{ l["a"] is defined }} {{ l[1.0] is defined }} {{ n[0] is defined }} {{ l[true] }} {{ d[1.5] is defined }}
{{ nope.x.y }}
{{ d.nope.y }}
{{ l|map("upper", x=1)|list }}
{{ [{"a": {"b": 1}}]|map(attribute="a.b")|list }} {{ [[1, 2]]|map(attribute="1")|list }} {{ [1, 2, 3]|select("odd")|list }} {{ [1, 2, 3]|reject("odd")|list }} {{ [0, 1]|select|list }} {{ [0, 1]|reject|list }} {{ [{"a": 1}, {"a": 0}]|selectattr("a")|list }} {{ [{"a": 1}, {"a": 0}]|rejectattr("a")|list }} {{ [{"a": 1}, {}]|map(attribute="a", default=9)|list }} {{ ["a b", "c"]|map("replace", " ", "-")|list }} {{ ["a", "b"]|map("upper")|join }} {{ [[3, 1], [2]]|map("sort", reverse=true)|list }}
{{ [{"a": 1}, {"a": 2}]|groupby("a")|length }} {% for g, x in [{"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 3}]|groupby("a") %}{{ g }}{{ x|length }}{% endfor %} {% for g in [{"a": "X"}, {"a": "x"}]|groupby("a") %}{{ g.grouper }}{{ g.list|length }}{% endfor %} {% for g in [{"a": "X"}, {"a": "x"}]|groupby("a", case_sensitive=true) %}{{ g.grouper }}{{ g.list|length }}{% endfor %} {% for g in [{"a": "X"}, {}]|groupby("a", default="d") %}{{ g.grouper }}{{ g.list|length }}{% endfor %}
{{ [1, 1.0, "a", "A", 2]|unique|list }} {{ ["a", "A"]|unique(true)|list }} {{ [{"a": 1}, {"a": 1}, {"a": 2}]|unique(attribute="a")|list }} {{ ["b", "a", "B"]|sort }} {{ ["b", "a", "B"]|sort(case_sensitive=true) }} {{ [{"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 1}]|sort(attribute="a,b") }} {{ [2, 1]|sort(true) }} {{ [(2, 1), (1, 2)]|sort(attribute=1) }} {{ ["a", "A", "b"]|max }} {{ ["b", "A"]|min }} {{ ["b", "A"]|min(case_sensitive=true) }} {{ ["a", "B"]|max(true) }} {{ [{"a": 2}, {"a": 1}]|min(attribute="a") }}
{{ [1, 2]|sum }} {{ []|sum }} {{ [[1], [2]]|sum(start=[]) }} {{ [{"a": 1}, {"a": 2}]|sum("a") }} {{ [1]|sum(none, 5) }} {{ [1.5, 1]|sum }}
{{ ["a"]|sum }}
{{ "a\nb\n\nc"|indent }}| {{ "a\nb"|indent(2) }} {{ "a\nb"|indent(2, true) }} {{ "a\n\nb"|indent(2, blank=true) }} {{ "a\nb\n"|indent(1) }}| {{ "a\nb"|indent("> ") }} {{ "\na"|indent(2, true) }} {{ ""|indent(2, true) }}|
{{ "aXbX"|replace("X", "-", 1) }} {{ "abc"|replace("", "-") }} {{ "abc"|replace("b", "") }} {{ "aaaa".replace("aa", "b") }} {{ "aaa".replace("a", "b", 0) }} {{ "abc".replace("", "-", 2) }} {{ "abc".replace("x", "y") }} {{ "aaa".replace("a", "b", -1) }}
{{ none|default("x") }} {{ none|default("x", true) }} {{ ""|default("x") }} {{ ""|d("x", true) }} {{ nope|default }}| {{ 0|default(5, boolean=true) }} {{ 1|default(5, true) }}
{{ [1, 2]|join("-") }} {{ []|join("-") }}| {{ [1]|join("-") }} {{ ["<"|e, "<"]|join }} {{ [{"a": 1}]|join(",", "a") }} {{ "-".join(["a", "b"]) }} {{ "".join([]) }}| {{ ",".join("abc") }}
{{ ",".join([1]) }}
{{ "xyxaxy".strip("xy") }} {{ "xyxaxy".lstrip("xy") }} {{ "xyxaxy".rstrip("xy") }} {{ "xxx".strip("x") }}| {{ " a ".strip(none) }}| {{ "éaé".strip("é") }} {{ "a".strip("") }} {{ "\\x1c a \\x85".strip() }}|
{{ {"b": 2, "a": 1, "C": 0}|dictsort }} {{ {"b": 2, "a": 1, "C": 0}|dictsort(true) }} {{ {"b": 2, "a": 1}|dictsort(false, "value") }} {{ {"b": 2, "a": 1}|dictsort(by="key", reverse=true) }} {{ {}|dictsort }}
{{ {}|dictsort(by="x") }}
{{ []|dictsort }}
{{ {"a": 1}|items|list }} {{ nope|items|list }}
{{ [1]|items|list }}
{{ {"a": 1}|attr("keys") is defined }} {{ {"a": 1}|attr("a") is defined }} {{ "a"|attr("upper")() }}
{{ "abc"|reverse }} {{ [1, 2]|reverse|list }} {{ "äb"|reverse }} {{ ""|reverse }}|
{{ "hello world"|title }} {{ "a(b [c {d <e -f"|title }} {{ "HELLO"|title }} {{ "o'neil"|title }} {{ "a1b"|title }} {{ "hELLO wORLD"|capitalize }}
{{ strftime_now("%Y-%m-%d %H:%M:%S %j %a %A %b %B %d %e %I %p %y %% %w %u %-d %-m %-H %-I %-M %-S %-j") }} {{ strftime_now("%c|%x|%X|%D|%F|%R|%T|%n%t|%f") }} {{ strftime_now("") }}| {{ strftime_now("abc") }}
{{ raise_exception("x") }}
{# a #}{#- b -#} {#c#}x{##}y{#-#}z {#+ d #}
{# a
{{ n }
{% if t %}
{% if t }a{% endif %}
{% endif %}
{% else %}
{% endfor %}
{% for %}{% endfor %}
{% for x %}{% endfor %}
{% for x in %}{% endfor %}
{% for x of l %}{% endfor %}
{% if %}{% endif %}
{% set %}
{% set x = %}
{% nope %}
{% %}
{% 5 %}
{% for x in l ] %}{% endfor %}
{% if t ] %}{% endif %}
{% if t 5 %}a{% endif %}
{% if t %}{% else 5 %}{% endif %}
{% if t %}{% else ) %}{% endif %}
{% if t %}{% endif 5 %}
{% if t %}{% elif n 5 %}{% endif %}
{% for x in l 5 %}{% endfor %}
{% for x in l recursive 5 %}{% endfor %}
{% for x in l if x 5 %}{% endfor %}
{% for x in l %}{% endfor 5 %}
{% for x in l %}{% else 5 %}{% endfor %}
{% for x in l %}{% else %}{% endfor 5 %}
{% for x in l %}{% break 5 %}{% endfor %}
{% for x in l %}{% continue 5 %}{% endfor %}
{% set x = 1 5 %}
{% set x 5 %}{% endset %}
{% set x | upper 5 %}{% endset %}
{% set x %}{% endset 5 %}
{% macro m() 5 %}{% endmacro %}
{% macro m() %}{% endmacro 5 %}
{% macro m %}{% endmacro %}
{% macro m(1) %}{% endmacro %}
{% macro m(a b) %}{% endmacro %}
{% macro 5() %}{% endmacro %}
{% call range(1) 5 %}{% endcall %}
{% call range(1) %}{% endcall 5 %}
{% with a = 1 5 %}{% endwith %}
{% with a = 1 %}{% endwith 5 %}
{% filter upper 5 %}{% endfilter %}
{% filter upper %}{% endfilter 5 %}
{% block a 5 %}{% endblock %}
{% block a %}{% endblock 5 %}
{% block a %}{% endblock a 5 %}
{% block %}{% endblock %}
{{ n 5 }}
{{ n n }}
{{ n | upper 5 }}
{{ {n} }}
{{ n %}
{% if t }}{% endif %}
{{ 1 in }}
{{ 1 not }}
{{ not }}
{{ 1 + }}
{{ * 2 }}
{{ a.b( }}
{{ a b c }}
{{ 1
{{ 1.5
{{ 1e
{{ 1.
{{ "ß" | title }} {{ "ß" | capitalize }} {{ "ßA ßb".title() }} {{ "aß" | title }}
{{ "a" % [1] }} {{ "a" % [] }} {{ "a" % d }} {{ "%s" % [1, 2] }} {{ "%s" % nope }} {{ "a" % nope }} {{ "a" % range(2) }}
{{ "a" % (1,) }}
{{ "a" % 1 }}
{{ "%d" % nope }}
{{ "%s%s" % [1, 2] }}
{{ "{:.3d}".format(5) }}
{{ nope | pprint }} {{ [nope] | pprint }}
{{ range(3) == range(3) }} {{ range(3) == [0, 1, 2] }} {{ range(3)[1] }} {{ range(5)[1:3] | list }} {{ range(3) is sequence }}
{{ range(3) + [1] }}
{{ [1] + range(3) }}
{{ range(3) + range(3) }}
{{ range(3) * 2 }}
{{ range(3) < range(4) }}
{{ range(3) | tojson }}
{{ l | map("string") | reverse }} {{ (users | selectattr("on") | reverse)[0].name }} {{ l | select | reverse | length }}
{{ l in d }}
{{ d not in d }}
{{ (1, 2) in d }} {{ nope in d }} {{ none in d }} {{ n in d }}
{{ 1_
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
    "{% raw -%}\n  {% endraw %}x", "{% raw %}\n  {% endraw %}x", "{% raw %}  {% endraw %}x", "{% raw -%} \n\n{% endraw %}\nx",
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
