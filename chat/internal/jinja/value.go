package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Value is what a template computes with: None, bool, int64, float64, [Text],
// *[List], *[Dict] and, inside the interpreter, undefined values, namespaces,
// generators, loops and functions. A [Whole] can be written.
type Value any

// Whole is an integer of more than 64 bits, in decimal digits. A template can write it, and not compute with it.
type Whole string

// None is Python's None, JSON's null.
type None struct{}

// List is a list, a tuple or a range. It is not changed once made.
type List struct {
	Items []Value
	kind  listKind
	own   bool     // the template has made it, and may change it
	attrs []string // names of the first items of a tuple, for groupby
}

type listKind uint8

const (
	aList listKind = iota
	aTuple
	aRange // cannot be written, added to or repeated
)

// Dict is a mapping in the order of its entries. A template never changes one.
type Dict struct {
	keys   []Value
	values []Value
	index  map[any]int
}

type (
	undefined struct {
		what string // for the error: 'x' is undefined
	}
	namespace struct{ d Dict }
	// generator is what map and select return: it can be gone through once, and
	// only then its items are made and errors found.
	generator struct {
		make  func() []Value // nil once called
		items []Value
	}
	function struct {
		name string
		call func(m *machine, a args) Value
		of   *macroDef // nil: it is no macro
	}
	// view is what the methods keys, values and items of a dict return.
	view struct {
		name  string
		items []Value
	}
)

// viewOfValues is the name of a view whose items need not differ.
const viewOfValues = "dict_values"

// args are the arguments of a call, evaluated.
type args struct {
	pos    []Value
	names  []string
	values []Value
}

// Set adds an entry or replaces the value of one. The key must be None, a
// bool, a number or a Text.
func (d *Dict) Set(key, value Value) {
	k, ok := keyOf(key)
	if !ok {
		return
	}
	if i, ok := d.index[k]; ok {
		d.values[i] = value
		return
	}
	if d.index == nil {
		d.index = make(map[any]int)
	}
	d.index[k] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, value)
}

// Get returns the value of a key that is a text.
func (d *Dict) Get(key string) (Value, bool) { return d.get(lit(key)) }

func (d *Dict) get(key Value) (Value, bool) {
	k, ok := keyOf(key)
	if !ok {
		return nil, false
	}
	i, ok := d.index[k]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// keyOf returns what a dict finds a key by; equal keys have equal ones. Texts
// are found by their bytes, whatever their origin.
func keyOf(v Value) (any, bool) {
	switch v := v.(type) {
	case Text:
		return v.s, true
	case None, int64:
		return v, true
	case undefined: // all are equal
		return undefined{}, true
	case bool:
		return intOf(v), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v), true
		}
		return v, v == v
	case *List:
		if v.kind != aTuple {
			return nil, false
		}
		var b strings.Builder
		for _, x := range v.Items {
			k, ok := keyOf(x)
			if _, isTuple := x.(*List); !ok || isTuple {
				return nil, false
			}
			fmt.Fprintf(&b, "%T %d %v,", k, len(fmt.Sprint(k)), k)
		}
		return [1]string{b.String()}, true
	}
	return nil, false
}

func intOf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// number returns the numeric value of a number or bool.
func number(v Value) (i int64, f float64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		return intOf(v), float64(intOf(v)), true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	}
	return 0, 0, false, false
}

// truth is Python's bool().
func truth(v Value) bool {
	switch v := v.(type) {
	case None, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case Text:
		return v.s != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return len(v.keys) > 0
	case *view:
		return len(v.items) > 0
	}
	return true
}

// typeName is Python's name for the type of v.
func typeName(v Value) string {
	switch v := v.(type) {
	case None:
		return "NoneType"
	case undefined:
		return "Undefined"
	case bool:
		return "bool"
	case int64, Whole:
		return "int"
	case float64:
		return "float"
	case Text:
		return "str"
	case *List:
		return [...]string{"list", "tuple", "range"}[v.kind]
	case *Dict:
		return "dict"
	case *namespace:
		return "Namespace"
	case *generator:
		return "generator"
	case *view:
		return v.name
	case *loop:
		return "LoopContext"
	}
	return "function"
}

// formatFloat is Python's repr of a float.
func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case f != f:
		return "nan"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exp, _ := strings.Cut(s, "e")
	if e, _ := strconv.Atoi(exp); e < -4 || e >= 16 {
		return mantissa + "e" + exp
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// text is Python's str().
func (m *machine) text(v Value) Text {
	switch v := v.(type) {
	case Text:
		return v
	case undefined:
		return Text{}
	case int64:
		return lit(strconv.FormatInt(v, 10))
	}
	b := m.builder()
	m.repr(b, v, 0)
	return b.done()
}

// repr appends Python's repr().
func (m *machine) repr(b *builder, v Value, depth int) {
	m.step(1)
	if depth > maxNest {
		m.fail(ErrLimit, "a value nested more than %d deep", maxNest)
	}
	items := func(open string, items []Value, close string) {
		b.lit(open)
		for i, x := range items {
			if i > 0 {
				b.lit(", ")
			}
			m.repr(b, x, depth+1)
		}
		b.lit(close)
	}
	switch v := v.(type) {
	case None:
		b.lit("None")
	case undefined:
		b.lit("Undefined")
	case bool:
		if v {
			b.lit("True")
		} else {
			b.lit("False")
		}
	case int64:
		b.lit(strconv.FormatInt(v, 10))
	case Whole:
		b.lit(string(v))
	case float64:
		b.lit(formatFloat(v))
	case Text:
		if v.safe {
			b.lit("Markup(")
		}
		m.reprText(b, v)
		if v.safe {
			b.lit(")")
		}
	case *List:
		switch {
		case v.kind == aRange:
			m.fail(ErrUnsupported, "the text of a range")
		case v.kind == aList:
			items("[", v.Items, "]")
		case len(v.Items) == 1:
			items("(", v.Items, ",)")
		default:
			items("(", v.Items, ")")
		}
	case *view:
		items(v.name+"([", v.items, "])")
	case *Dict:
		b.lit("{")
		for i, k := range v.keys {
			if i > 0 {
				b.lit(", ")
			}
			m.repr(b, k, depth+1)
			b.lit(": ")
			m.repr(b, v.values[i], depth+1)
		}
		b.lit("}")
	case *namespace:
		b.lit("<Namespace ")
		m.repr(b, &v.d, depth+1)
		b.lit(">")
	default:
		m.fail(ErrRuntime, "a %s has no text", typeName(v))
	}
}

// reprText appends a text in quotes, with Python's escapes.
func (m *machine) reprText(b *builder, t Text) {
	m.read(len(t.s))
	quote := byte('\'')
	if strings.Contains(t.s, "'") && !strings.Contains(t.s, `"`) {
		quote = '"'
	}
	b.lit(string(quote))
	b.text(m.mapRunes(t, func(_ int, r rune) string {
		switch {
		case r == rune(quote) || r == '\\':
			return `\` + string(r)
		case r == '\n':
			return `\n`
		case r == '\r':
			return `\r`
		case r == '\t':
			return `\t`
		case strconv.IsPrint(r):
			return string(r)
		case r < 0x100:
			return hexEscape(`\x`, r, 2)
		case r < 0x10000:
			return hexEscape(`\u`, r, 4)
		}
		return hexEscape(`\U`, r, 8)
	}))
	b.lit(string(quote))
}

// hexEscape is a prefix and the digits of a character.
func hexEscape(prefix string, r rune, digits int) string {
	out := append(make([]byte, 0, 12), prefix...)
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		out = append(out, "0123456789abcdef"[r>>shift&15])
	}
	return string(out)
}

// equal is Python's ==.
func (m *machine) equal(a, b Value, depth int) bool {
	m.step(1)
	if depth > maxNest {
		m.fail(ErrLimit, "a value nested more than %d deep", maxNest)
	}
	if ai, af, aInt, ok := number(a); ok {
		bi, bf, bInt, ok := number(b)
		if aInt && bInt {
			return ok && ai == bi
		}
		return ok && af == bf
	}
	switch a := a.(type) {
	case Text:
		b, ok := b.(Text)
		if !ok || len(a.s) != len(b.s) {
			return false
		}
		m.read(len(a.s))
		return a.s == b.s
	case None:
		_, ok := b.(None)
		return ok
	case undefined:
		_, ok := b.(undefined)
		return ok
	case *List:
		b, ok := b.(*List)
		if !ok || a.kind != b.kind || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !m.equal(a.Items[i], b.Items[i], depth+1) {
				return false
			}
		}
		return true
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for i, k := range a.keys {
			if v, ok := m.get(b, k); !ok || !m.equal(a.values[i], v, depth+1) {
				return false
			}
		}
		return true
	case *view: // keys and items are sets
		b, ok := b.(*view)
		if !ok || a.name == viewOfValues || b.name != a.name || len(a.items) != len(b.items) {
			return a == b
		}
		for _, x := range a.items {
			if !slices.ContainsFunc(b.items, func(y Value) bool { return m.equal(x, y, depth+1) }) {
				return false
			}
		}
		return true
	}
	return a == b // pointers: the same object
}

// less is Python's <.
func (m *machine) less(a, b Value, depth int) bool {
	m.step(1)
	ai, af, aInt, aok := number(a)
	bi, bf, bInt, bok := number(b)
	if aok && bok {
		if aInt && bInt {
			return ai < bi
		}
		return af < bf
	}
	switch a := a.(type) {
	case Text:
		if b, ok := b.(Text); ok {
			m.read(min(len(a.s), len(b.s)))
			return a.s < b.s
		}
	case *List:
		if b, ok := b.(*List); ok && a.kind == b.kind && a.kind != aRange && depth < maxNest {
			for i := range min(len(a.Items), len(b.Items)) {
				if !m.equal(a.Items[i], b.Items[i], depth+1) {
					return m.less(a.Items[i], b.Items[i], depth+1)
				}
			}
			return len(a.Items) < len(b.Items)
		}
	}
	m.fail(ErrRuntime, "%s and %s cannot be ordered", typeName(a), typeName(b))
	return false
}
