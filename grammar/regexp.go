package grammar

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A regular expression is ECMA-262's, with a few spellings of other languages that mean the same in all: (?i), (?P<n>),
// \A, \z.

// assertion is a part of a regular expression that reads nothing: it says what stands before or behind its place.
type assertion struct {
	kind assertionKind
	x    expression // of look-ahead and look-behind
}

type assertionKind uint8

const (
	atStart assertionKind = iota
	atEnd
	atWord    // \b
	notAtWord // \B
	ahead
	notAhead
	behind
	notBehind
)

// lineEnds is what "." leaves out.
var lineEnds = newClass(runeRange{'\n', '\n'}, runeRange{'\r', '\r'}, runeRange{0x2028, 0x2029})

// Classes of ECMA-262's escapes.
var (
	wordClass = newClass(runeRange{'0', '9'}, runeRange{'A', 'Z'}, runeRange{'a', 'z'}, runeRange{'_', '_'})
	spaces    = newClass(runeRange{'\t', '\r'}, runeRange{' ', ' '}, runeRange{0xa0, 0xa0}, runeRange{0x1680, 0x1680},
		runeRange{0x2000, 0x200a}, runeRange{0x2028, 0x2029}, runeRange{0x202f, 0x202f}, runeRange{0x205f, 0x205f},
		runeRange{0x3000, 0x3000}, runeRange{0xfeff, 0xfeff})
)

// parsePattern reads a regular expression and returns the strings in which it is found.
func parsePattern(b *Budget, source string) (expression, error) {
	p := &patterns{Budget: b, rest: source}
	x := p.alternatives(0)
	if p.err == nil && p.rest != "" {
		p.fail("a closing parenthesis without its beginning")
	}
	if p.err == nil {
		x = p.whole(x)
	}
	switch {
	case b.err != nil:
		return nil, b.err
	case p.err != nil:
		return nil, fmt.Errorf("regular expression %.60q: %w", source, p.err)
	}
	return x, nil
}

// patterns reads a regular expression.
type patterns struct {
	*Budget
	rest  string
	folds bool // characters stand for their other case too
	all   bool // "." is every character
	err   error
}

func (p *patterns) fail(format string, args ...any) expression {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.rest = ""
	return choice{}
}

// accept reads a text if it comes next.
func (p *patterns) accept(text string) bool {
	rest, ok := strings.CutPrefix(p.rest, text)
	if ok {
		p.rest = rest
	}
	return ok
}

// next reads a character.
func (p *patterns) next() rune {
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

// alternatives reads up to the end of a group.
func (p *patterns) alternatives(depth int) expression {
	if depth > p.limits.Nesting {
		p.Budget.beyond("Nesting", p.limits.Nesting)
		return p.fail("nested too deeply")
	}
	var all choice
	parts := sequence{}
	for p.rest != "" && p.rest[0] != ')' && p.take(nodeBytes) {
		if p.accept("|") {
			all, parts = append(all, parts), sequence{}
			continue
		}
		if x := p.repeated(p.atom(depth)); x != nil {
			parts = append(parts, x)
		}
	}
	if all == nil {
		return parts
	}
	return append(all, parts)
}

// repeated reads the repetition marks behind x.
func (p *patterns) repeated(x expression) expression {
	least, most := 0, -1
	switch {
	case p.accept("*"):
	case p.accept("+"):
		least = 1
	case p.accept("?"):
		most = 1
	default:
		n := repetition(p.rest)
		if n == 0 {
			return x
		}
		from, to, ranged := strings.Cut(p.rest[1:n-1], ",")
		var errs [2]error
		least, errs[0] = strconv.Atoi(from)
		if most = least; ranged {
			if most = -1; to != "" {
				most, errs[1] = strconv.Atoi(to)
			}
		}
		p.rest = p.rest[n:]
		if errors.Join(errs[:]...) != nil || max(least, most) > p.limits.Repetitions {
			p.Budget.beyond("Repetitions", p.limits.Repetitions)
			return p.fail("too many repetitions")
		}
		if most >= 0 && most < least {
			return p.fail("%d to %d repetitions", least, most)
		}
	}
	if _, ok := x.(assertion); ok || x == nil {
		return p.fail("a repetition of what reads nothing is not supported")
	}
	if p.accept("+") {
		return p.fail("possessive repetitions are not supported")
	}
	p.accept("?") // which of several repetitions is taken first does not matter
	if n := repetition(p.rest); n > 0 || p.rest != "" && strings.ContainsRune("*+?", rune(p.rest[0])) {
		return p.fail("nothing to repeat")
	}
	return repeat{x, least, most}
}

// repetition is the length of a {m}, {m,} or {m,n} in front of s; 0: there is none, and a brace is a character.
func repetition(s string) int {
	end := strings.IndexByte(s, '}')
	if end < 2 || s[0] != '{' {
		return 0
	}
	from, to, _ := strings.Cut(s[1:end], ",")
	if from == "" || strings.Trim(from+to, "0123456789") != "" {
		return 0
	}
	return end + 1
}

// atom reads what a repetition may follow; nil: nothing that counts.
func (p *patterns) atom(depth int) expression {
	switch r := p.next(); r {
	case '^':
		return assertion{kind: atStart}
	case '$':
		return assertion{kind: atEnd}
	case '.':
		if p.all {
			return anyRune
		}
		return anyRune.minus(lineEnds)
	case '(':
		return p.group(depth)
	case '[':
		return p.class()
	case '\\':
		return p.escape()
	case '*', '+', '?':
		return p.fail("nothing to repeat")
	default:
		return p.character(r)
	}
}

// character is one character, in the cases that count.
func (p *patterns) character(r rune) class {
	c := class{{r, r}}
	if p.folds {
		return p.fold(c)
	}
	return newClass(c...)
}

// fold adds the other cases of a class's characters.
func (p *patterns) fold(c class) class {
	all := slices.Clone(c)
	for _, r := range c {
		// Characters with another case lie below lastFold; the others are not looked at.
		const lastFold = 0x1E943
		if !p.spend(int(max(0, min(r.hi, lastFold)-r.lo))) {
			return c
		}
		for x := r.lo; x <= min(r.hi, lastFold); x++ {
			for f := unicode.SimpleFold(x); f != x; f = unicode.SimpleFold(f) {
				all = append(all, runeRange{f, f})
			}
		}
	}
	return newClass(all...)
}

// group reads what follows an opening parenthesis.
func (p *patterns) group(depth int) expression {
	folds, all := p.folds, p.all
	kind, looks := ahead, true
	switch {
	case p.accept("?:"):
		looks = false
	case p.accept("?="):
	case p.accept("?!"):
		kind = notAhead
	case p.accept("?<="):
		kind = behind
	case p.accept("?<!"):
		kind = notBehind
	case p.accept("?<"), p.accept("?P<"):
		_, rest, ok := strings.Cut(p.rest, ">")
		if !ok {
			return p.fail("a name without its end")
		}
		p.rest, looks = rest, false
	case p.accept("?"):
		off := false
		for p.rest != "" && p.rest[0] != ')' && p.rest[0] != ':' {
			switch r := p.next(); r {
			case '-':
				off = true
			case 'i':
				p.folds = !off
			case 's':
				p.all = !off
			case 'u':
			default:
				return p.fail("(?%c is not supported", r)
			}
		}
		if p.accept(")") { // to the end of the group around it
			return nil
		}
		p.accept(":")
		looks = false
	default:
		looks = false
	}
	x := p.alternatives(depth + 1)
	if !p.accept(")") {
		return p.fail("a parenthesis without its end")
	}
	p.folds, p.all = folds, all
	if looks {
		return assertion{kind, x}
	}
	return x
}

// escape reads what follows a backslash outside of brackets.
func (p *patterns) escape() expression {
	if p.rest == "" {
		return p.fail("a backslash at the end")
	}
	switch r := rune(p.rest[0]); r {
	case 'b', 'B', 'A', 'z', 'Z':
		p.next()
		return assertion{kind: map[rune]assertionKind{'b': atWord, 'B': notAtWord, 'A': atStart, 'z': atEnd, 'Z': atEnd}[r]}
	case '1', '2', '3', '4', '5', '6', '7', '8', '9', 'k':
		return p.fail("backreferences are not supported")
	case 'G', 'K', 'Q', 'E', 'R', 'X', 'h', 'N':
		return p.fail(`\%c is not supported`, r)
	}
	c, single := p.escaped()
	if single {
		c = newClass(c...) // no text has half of a surrogate pair
	}
	if p.folds {
		c = p.fold(c)
	}
	return c
}

// escaped reads what follows a backslash: a class; single, if it is one character, or half of a surrogate pair.
func (p *patterns) escaped() (c class, single bool) {
	one := func(r rune) (class, bool) {
		if r < 0 || r > unicode.MaxRune {
			p.fail("an escape of no character")
		}
		return class{{r, r}}, true
	}
	hex := func(digits int) rune {
		if len(p.rest) < digits {
			p.fail("an escape without its digits")
			return 0
		}
		n, err := strconv.ParseUint(p.rest[:digits], 16, 32)
		if err != nil {
			p.fail("an escape without its digits")
		}
		p.rest = p.rest[min(len(p.rest), digits):]
		return rune(n)
	}
	if p.rest == "" {
		p.fail("a backslash at the end")
		return nil, false
	}
	switch r := p.next(); r {
	case 'd':
		return digit, false
	case 'D':
		return digit.not(), false
	case 'w':
		return wordClass, false
	case 'W':
		if p.folds { // what is another case of a word character is none of the others
			return p.fold(wordClass).not(), false
		}
		return wordClass.not(), false
	case 's':
		return spaces, false
	case 'S':
		return spaces.not(), false
	case 't', 'n', 'v', 'f', 'r':
		return one(map[rune]rune{'t': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r'}[r])
	case '0':
		return one(0)
	case 'c':
		if p.rest != "" && unicode.IsLetter(rune(p.rest[0])) {
			return one(p.next() % 32)
		}
		p.fail(`\c without a letter`)
		return nil, false
	case 'x':
		if n := strings.IndexByte(p.rest, '}'); p.accept("{") {
			r := hex(max(0, n-1))
			p.accept("}")
			return one(r)
		}
		return one(hex(2))
	case 'u':
		if n := strings.IndexByte(p.rest, '}'); p.accept("{") {
			r := hex(max(0, n-1))
			p.accept("}")
			return one(r)
		}
		r := hex(4)
		if r >= 0xD800 && r < 0xDC00 && p.accept(`\u`) { // the halves of one character
			if low := hex(4); low >= 0xDC00 && low < 0xE000 {
				return one(0x10000 + (r-0xD800)<<10 + low - 0xDC00)
			}
			p.fail("half of a surrogate pair")
		}
		return one(r)
	case 'p', 'P':
		c := p.property()
		if r == 'P' {
			c = c.not()
		}
		return c, false
	default:
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			p.fail(`\%c is not supported`, r)
		}
		return one(r)
	}
}

// property reads the name of a Unicode property: a general category or a script.
func (p *patterns) property() class {
	name, rest, ok := strings.Cut(strings.TrimPrefix(p.rest, "{"), "}")
	if !strings.HasPrefix(p.rest, "{") || !ok {
		name, rest = p.rest[:min(1, len(p.rest))], p.rest[min(1, len(p.rest)):]
	}
	p.rest = rest
	key, value, named := strings.Cut(name, "=")
	if !named {
		value = key
	}
	if short, ok := longCategories[value]; ok {
		value = short
	}
	table := unicode.Categories[value]
	switch {
	case named && (key == "Script" || key == "sc"): // of Script_Extensions there is no table
		table = unicode.Scripts[value]
	case named && key != "General_Category" && key != "gc":
		table = nil
	case value == "Any":
		return anyRune
	case value == "ASCII":
		return newClass(runeRange{0, 0x7f})
	case table == nil && !named:
		table = unicode.Properties[value]
	}
	if table == nil {
		p.fail(`\p{%.40s} is not supported`, name)
		return nil
	}
	var ranges []runeRange
	p.take(16 * (len(table.R16) + len(table.R32)))
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			ranges = append(ranges, runeRange{lo, hi})
			return
		}
		for r := lo; r <= hi && p.take(16); r += stride {
			ranges = append(ranges, runeRange{r, r})
		}
	}
	for _, r := range table.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range table.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return newClass(ranges...)
}

// longCategories are the long names of general categories that are in use.
var longCategories = map[string]string{"Letter": "L", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
	"Titlecase_Letter": "Lt",
	"Modifier_Letter":  "Lm", "Other_Letter": "Lo", "Mark": "M", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd",
	"Letter_Number": "Nl", "Other_Number": "No", "Punctuation": "P", "Symbol": "S", "Separator": "Z",
	"Space_Separator": "Zs",
	"Control":         "Cc", "Cntrl": "Cc", "Other": "C"}

// class reads what follows an opening bracket.
func (p *patterns) class() expression {
	not := p.accept("^")
	var ranges []runeRange
	one := func() (c class, single bool) {
		if !p.accept(`\`) {
			r := p.next()
			return class{{r, r}}, true
		}
		if p.accept("b") {
			return class{{'\b', '\b'}}, true
		}
		return p.escaped()
	}
	for !p.accept("]") {
		if p.rest == "" || !p.take(64) {
			return p.fail("a bracket without its end")
		}
		from, single := one()
		if !strings.HasPrefix(p.rest, "-") || strings.HasPrefix(p.rest, "-]") || !single || len(from) == 0 {
			ranges = append(ranges, from...)
			continue
		}
		p.accept("-")
		to, single := one()
		switch {
		case p.err != nil:
			return choice{}
		case !single || len(to) == 0: // the dash is a character
			ranges = append(append(ranges, from...), append(to, runeRange{'-', '-'})...)
		case to[0].lo < from[0].lo:
			return p.fail("a range of characters from %q to %q", from[0].lo, to[0].lo)
		default:
			ranges = append(ranges, runeRange{from[0].lo, to[0].lo})
		}
	}
	c := newClass(ranges...)
	if p.folds {
		c = p.fold(c)
	}
	if not {
		c = c.not()
	}
	return c
}

// asserts reports whether an assertion is in x.
func (b *Budget) asserts(x expression) bool {
	if !b.spend(1) {
		return false
	}
	switch x := x.(type) {
	case assertion:
		return true
	case sequence:
		return slices.ContainsFunc(x, b.asserts)
	case choice:
		return slices.ContainsFunc(x, b.asserts)
	case repeat:
		return b.asserts(x.x)
	}
	return false
}

// whole is the strings in which x is found anywhere.
func (p *patterns) whole(x expression) expression {
	return p.from(sequence{anyText}, true, []expression{x})
}

// from is the strings that are before followed by one that begins with parts. complete: before begins where the string
// does; otherwise only that much of it is known.
func (p *patterns) from(before sequence, complete bool, parts []expression) expression {
	if !p.take(nodeBytes+32*(len(before)+len(parts))) || p.err != nil {
		return choice{}
	}
	before = slices.Clone(before)
	for i, x := range parts {
		rest := parts[i+1:]
		if !p.asserts(x) {
			before = append(before, x)
			continue
		}
		switch x := x.(type) {
		case sequence:
			return p.from(before, complete, append(slices.Clone([]expression(x)), rest...))
		case choice:
			all := make(choice, len(x))
			for i, alternative := range x {
				all[i] = p.from(before, complete, append([]expression{alternative}, rest...))
			}
			return all
		case repeat:
			if x.least != 0 || x.most != 1 {
				return p.fail("assertions inside of a repetition are not supported")
			}
			return choice{p.from(before, complete, rest), p.from(before, complete, append([]expression{x.x}, rest...))}
		case assertion:
			return p.assert(x, before, complete, rest)
		}
	}
	return append(before, anyText)
}

// assert is from for an assertion in front of parts.
func (p *patterns) assert(x assertion, before sequence, complete bool, parts []expression) expression {
	starts := complete && len(before) == 0
	free := complete && len(before) == 1 && isAnyText(before[0])
	follows := func(what expression) expression {
		return sequence{before, both{what, p.from(nil, starts, parts)}}
	}
	word, other := expression(wordClass), expression(wordClass.not())
	switch x.kind {
	case atStart:
		switch {
		case free, starts:
			return p.from(nil, true, parts)
		case complete:
			return p.from(sequence{both{before, sequence{}}}, true, parts)
		case p.reads(before):
			return choice{}
		}
		return p.fail("^ behind an assertion is not supported")
	case atEnd:
		if !slices.ContainsFunc(parts, func(x expression) bool { return x != assertion{kind: atEnd} }) {
			return before
		}
		return sequence{before, both{sequence{}, p.from(nil, starts, parts)}}
	case ahead:
		return follows(p.from(nil, starts, []expression{x.x}))
	case notAhead:
		return follows(complement{p.from(nil, starts, []expression{x.x})})
	case behind, notBehind:
		if p.asserts(x.x) {
			return p.fail("assertions inside of a look-behind are not supported")
		}
		what := expression(sequence{anyText, x.x})
		if x.kind == notBehind {
			what = complement{what}
		}
		if !complete && p.least(before) < p.longest(x.x) {
			return p.fail("look-behind is supported with a fixed text before it")
		}
		return p.from(sequence{both{before, what}}, complete, parts)
	}
	// \b: a word character on one side only.
	ends := func(c expression, orEmpty bool) expression {
		what := expression(sequence{anyText, c})
		if orEmpty {
			what = choice{sequence{}, what}
		}
		return what
	}
	begins := func(c expression, orEmpty bool) expression {
		what := expression(sequence{c, anyText})
		if orEmpty {
			what = choice{sequence{}, what}
		}
		return what
	}
	if !complete && !p.reads(before) {
		return p.fail(`\b behind an assertion is not supported`)
	}
	rest := p.from(nil, false, parts)
	after := both{begins(other, true), rest}
	afterWord := both{begins(word, false), rest}
	if x.kind == notAtWord {
		after, afterWord = afterWord, after
	}
	return choice{
		sequence{both{before, ends(word, false)}, after},
		sequence{both{before, ends(other, true)}, afterWord},
	}
}

func isAnyText(x expression) bool {
	r, ok := x.(repeat)
	c, is := r.x.(class)
	return ok && is && r.least == 0 && r.most < 0 && slices.Equal(c, anyRune)
}

// reads reports whether every string of x has a character.
func (b *Budget) reads(x expression) bool { return b.least(x) > 0 }

// least is the fewest characters of a string of x, or fewer.
func (b *Budget) least(x expression) int {
	if !b.spend(1) {
		return 0
	}
	switch x := x.(type) {
	case literal:
		return utf8.RuneCountInString(string(x))
	case class:
		return 1
	case sequence:
		n := 0
		for _, p := range x {
			n += b.least(p)
		}
		return n
	case choice:
		n := -1
		for _, p := range x {
			if m := b.least(p); n < 0 || m < n {
				n = m
			}
		}
		return max(0, n)
	case both:
		n := 0
		for _, p := range x {
			n = max(n, b.least(p))
		}
		return n
	case repeat:
		return x.least * b.least(x.x)
	}
	return 0
}

// longest is the most characters of a string of x; a large number: no bound is known.
func (b *Budget) longest(x expression) int {
	const many = 1 << 30
	if !b.spend(1) {
		return many
	}
	switch x := x.(type) {
	case literal:
		return utf8.RuneCountInString(string(x))
	case class:
		return 1
	case sequence:
		n := 0
		for _, p := range x {
			n = min(many, n+b.longest(p))
		}
		return n
	case choice:
		n := 0
		for _, p := range x {
			n = max(n, b.longest(p))
		}
		return n
	case repeat:
		if x.most >= 0 && x.most < 1<<16 {
			return min(many, x.most*min(b.longest(x.x), 1<<14))
		}
	}
	return many
}
