package grammar

import (
	"slices"
	"unicode/utf8"
)

// anyRune is every character that UTF-8 can encode.
var anyRune = class{{0, 0xD7FF}, {0xE000, utf8.MaxRune}}

// newClass sorts ranges, joins those that touch, and leaves out surrogates, which UTF-8 cannot encode.
func newClass(ranges ...runeRange) class {
	slices.SortFunc(ranges, func(a, b runeRange) int { return int(a.lo) - int(b.lo) })
	var joined class
	for _, r := range ranges {
		if n := len(joined); n > 0 && r.lo <= joined[n-1].hi+1 {
			joined[n-1].hi = max(joined[n-1].hi, r.hi)
		} else {
			joined = append(joined, r)
		}
	}
	return joined.intersect(anyRune)
}

// not is every other character.
func (c class) not() class {
	var out class
	next := rune(0)
	for _, r := range c {
		if r.lo > next {
			out = append(out, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, runeRange{next, utf8.MaxRune})
	}
	return out.intersect(anyRune)
}

// intersect is the characters of both.
func (c class) intersect(d class) class {
	var out class
	for i, j := 0, 0; i < len(c) && j < len(d); {
		if lo, hi := max(c[i].lo, d[j].lo), min(c[i].hi, d[j].hi); lo <= hi {
			out = append(out, runeRange{lo, hi})
		}
		if c[i].hi < d[j].hi {
			i++
		} else {
			j++
		}
	}
	return out
}

// isOne reports whether c is one character.
func (c class) isOne() bool { return len(c) == 1 && c[0].lo == c[0].hi }

// minus is the characters of c that are not of d.
func (c class) minus(d class) class { return c.intersect(d.not()) }

// has reports whether r is in c.
func (c class) has(r rune) bool {
	i, _ := slices.BinarySearchFunc(c, r, func(x runeRange, r rune) int { return int(x.hi) - int(r) })
	return i < len(c) && c[i].lo <= r
}

// class emits a character of c as ranges of bytes.
func (c *compiler) class(x class, next int32) int32 {
	var paths [][]byteRange
	for _, r := range x {
		if !c.take(pathBytes) {
			return 0
		}
		paths = appendUTF8(paths, r.lo, r.hi)
	}
	return c.choice(len(paths), func(i int) int32 {
		at := next
		for _, b := range slices.Backward(paths[i]) {
			at = c.emit(instruction{op: opByte, lo: b.lo, hi: b.hi, next: at})
		}
		return at
	})
}

// pathBytes is what the sequences of bytes of a range take while they are emitted.
const pathBytes = 256

type byteRange struct{ lo, hi uint8 }

// appendUTF8 appends the sequences of byte ranges that are the encodings of lo … hi: each sequence is a product of
// ranges.
func appendUTF8(paths [][]byteRange, lo, hi rune) [][]byteRange {
	// Encodings of one length.
	for _, last := range [...]rune{0x7F, 0x7FF, 0xFFFF} {
		if lo <= last && last < hi {
			return appendUTF8(appendUTF8(paths, lo, last), last+1, hi)
		}
	}
	if hi <= 0x7F {
		return append(paths, []byteRange{{uint8(lo), uint8(hi)}})
	}
	// Ranges in which all but a common beginning of the bytes take all their values: cut at the edges of 6 bits, from the
	// last byte on.
	for bits := 6; bits <= 18; bits += 6 {
		low := rune(1)<<bits - 1
		if lo&^low == hi&^low {
			break
		}
		if lo&low != 0 {
			return appendUTF8(appendUTF8(paths, lo, lo|low), lo|low+1, hi)
		}
		if hi&low != low {
			return appendUTF8(appendUTF8(paths, lo, hi&^low-1), hi&^low, hi)
		}
	}
	a, b := utf8.AppendRune(nil, lo), utf8.AppendRune(nil, hi)
	path := make([]byteRange, len(a))
	for i := range a {
		path[i] = byteRange{a[i], b[i]}
	}
	return append(paths, path)
}
