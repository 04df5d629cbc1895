package jinja

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

func (e *binaryExpr) eval(m *machine, sc *scope) Value {
	x, y := m.eval(e.x, sc), m.eval(e.y, sc)
	m.line = e.line
	return m.arith(e.op, x, y)
}

// arith computes x op y.
func (m *machine) arith(op string, x, y Value) Value {
	if f, ok := x.(Text); ok && op == "%" {
		return m.percent(f, y)
	}
	m.defined(x)
	m.defined(y)
	xi, xf, xInt, xok := number(x)
	yi, yf, yInt, yok := number(y)
	if xok && yok {
		if xInt && yInt && op == "/" && yi != 0 && (xi != int64(xf) || yi != int64(yf)) { // rounded once
			q, _ := new(big.Rat).SetFrac(big.NewInt(xi), big.NewInt(yi)).Float64()
			return q
		}
		if xInt && yInt && op != "/" && !(op == "**" && yi < 0) {
			return m.integers(op, xi, yi)
		}
		return m.floats(op, xf, yf)
	}
	switch x := x.(type) {
	case Text:
		switch op {
		case "+":
			if y, ok := y.(Text); ok {
				return m.concat(x, y)
			}
		case "*":
			if yInt {
				return m.repeat(x, yi)
			}
		}
	case *List:
		if x.kind == aRange {
			break
		}
		if y, ok := y.(*List); ok && op == "+" && x.kind == y.kind {
			m.spend((len(x.Items) + len(y.Items)) * valueBytes)
			m.step((len(x.Items) + len(y.Items)) / stepChars)
			return &List{Items: slices.Concat(x.Items, y.Items), kind: x.kind, own: true}
		}
		if yInt && op == "*" {
			return m.repeat(x, yi)
		}
	}
	if xInt && op == "*" {
		switch y.(type) {
		case Text, *List:
			return m.repeat(y, xi)
		}
	}
	m.fail(ErrRuntime, "the operator %s does not take %s and %s", op, typeName(x), typeName(y))
	return nil
}

// concat is x + y of texts; a safe one escapes the other.
func (m *machine) concat(x, y Text) Text {
	x, y = m.joins(x, y), m.joins(y, x)
	m.spend(len(x.s) + len(y.s))
	return Text{s: x.s + y.s, o: x.o + y.o, safe: x.safe}
}

func (m *machine) repeat(v Value, n int64) Value {
	n = max(n, 0)
	size := 0
	switch v := v.(type) {
	case Text:
		size = len(v.s)
	case *List:
		size = len(v.Items) * valueBytes
	}
	if l, ok := v.(*List); ok && size == 0 {
		empty := m.list(nil)
		empty.kind = l.kind
		return empty
	}
	if size == 0 {
		return v
	}
	if n > int64(m.limits.Bytes/size) {
		m.spend(-1)
	}
	m.spend(int(n) * size)
	m.read(int(n) * size)
	if t, ok := v.(Text); ok {
		return Text{s: strings.Repeat(t.s, int(n)), o: strings.Repeat(t.o, int(n)), safe: t.safe}
	}
	l := v.(*List)
	items := make([]Value, 0, int(n)*len(l.Items))
	for range n {
		items = append(items, l.Items...)
	}
	return &List{Items: items, kind: l.kind, own: true}
}

func (m *machine) integers(op string, x, y int64) Value {
	overflow := false
	var z int64
	switch op {
	case "+":
		z = x + y
		overflow = (z > x) != (y > 0) && y != 0
	case "-":
		z = x - y
		overflow = (z < x) != (y > 0) && y != 0
	case "*":
		z = x * y
		overflow = x != 0 && (z/x != y || x == -1 && y == math.MinInt64)
	case "//", "%":
		if y == 0 {
			m.fail(ErrRuntime, "division by zero")
		}
		if overflow = x == math.MinInt64 && y == -1; overflow {
			break
		}
		q, r := x/y, x%y
		if r != 0 && (r < 0) != (y < 0) {
			q, r = q-1, r+y
		}
		if z = q; op == "%" {
			z = r
		}
	case "**":
		z = 1
		for range min(y, 64) {
			if z != 0 && x != 0 && (z*x/x != z) {
				overflow = true
			}
			z *= x
		}
		if y > 64 {
			switch {
			case x == -1 && y%2 != 0:
				z = -1
			case x != 0 && x != 1 && x != -1:
				overflow = true
			}
		}
	}
	if overflow {
		m.fail(ErrLimit, "an integer of more than 64 bits")
	}
	return z
}

// whole is f without its fraction.
func (m *machine) whole(f float64) int64 {
	if !(math.Abs(f) < 1<<63) {
		m.fail(ErrLimit, "%s as an integer of 64 bits", formatFloat(f))
	}
	return int64(f)
}

// divmod is Python's: the quotient is that of what the rest leaves, so that 1 // 0.1 is 9.
func divmod(x, y float64) (quotient, rest float64) {
	rest = math.Mod(x, y)
	q := (x - rest) / y
	switch {
	case rest == 0:
		rest = math.Copysign(0, y)
	case (rest < 0) != (y < 0):
		rest, q = rest+y, q-1
	}
	if q == 0 {
		return math.Copysign(0, x/y), rest
	}
	quotient = math.Floor(q)
	if q-quotient > 0.5 {
		quotient++
	}
	return quotient, rest
}

func (m *machine) floats(op string, x, y float64) Value {
	if y == 0 && (op == "/" || op == "//" || op == "%") {
		m.fail(ErrRuntime, "division by zero")
	}
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "//":
		q, _ := divmod(x, y)
		return q
	case "%":
		_, r := divmod(x, y)
		return r
	}
	if x == 0 && y < 0 {
		m.fail(ErrRuntime, "division by zero")
	}
	z := math.Pow(x, y)
	switch finite := x-x == 0 && y-y == 0; {
	case z != z && x == x && y == y:
		m.fail(ErrRuntime, "a power that is no real number")
	case math.IsInf(z, 0) && finite:
		m.fail(ErrRuntime, "a power that is too large")
	}
	return z
}
