package grammar

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseGBNF compiles a grammar in GBNF, llama.cpp's notation; the text is rule "root".
//
//	name ::= expression         # a comment; an expression goes on after "|" and inside parentheses
//	"text"  'not allowed'       line breaks too; escapes \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH
//	[a-z_]  [^"\\]  .           one character of, not of a class; any character
//	name  (x)  x | y  x y       a rule, grouping, choice, sequence
//	x*  x+  x?  x{m} x{m,} x{m,n}
//
// Errors wrap [ErrGrammar] and name the line. Token references (<name>, <[id]>) are refused. A nil budget has the
// default limits and no end.
func ParseGBNF(b *Budget, source string) (*Grammar, error) {
	b = b.orDefault()
	p := &gbnf{Budget: b, source: source, index: map[string]int{}, newlines: 1}
	if !b.take(len(source)) {
		return nil, b.err
	}
	if !utf8.ValidString(source) {
		return nil, fmt.Errorf("%w: the source is not valid UTF-8", ErrGrammar)
	}
	p.space(true)
	for b.err == nil && p.at < len(source) {
		p.rule()
	}
	if b.err != nil {
		return nil, b.err
	}
	for i, body := range p.bodies {
		if body == nil {
			return nil, fmt.Errorf("%w: line %d: rule %.60q is used and not defined", ErrGrammar, p.used[i], p.names[i])
		}
	}
	root, ok := p.index["root"]
	if !ok {
		return nil, fmt.Errorf("%w: no rule \"root\"", ErrGrammar)
	}
	if err := leftRecursion(b, func(rule int) string { return p.names[rule] }, p.bodies); err != nil {
		return nil, err
	}
	if !(&pruning{restriction: newRestriction(b, nil)}).prune(p.bodies)[root] && b.err == nil {
		return nil, fmt.Errorf("%w: rule \"root\" has no text that ends", ErrGrammar)
	}
	return compile(b, p.bodies, root), b.err
}

// gbnf is a recursive-descent parser. It stops when its budget has failed.
type gbnf struct {
	*Budget
	source string
	at     int
	depth  int
	names  []string
	bodies []expression // nil: not defined yet
	used   []int        // line of a rule's first mention
	index  map[string]int

	counted, newlines int // the line of an earlier place
}

// fail keeps the first error.
func (p *gbnf) fail(format string, args ...any) {
	if p.err == nil {
		p.Budget.fail(fmt.Errorf("%w: line %d: %s", ErrGrammar, p.line(), fmt.Sprintf(format, args...)))
	}
	p.at = len(p.source)
}

// beyond is a limit's error.
func (p *gbnf) beyond(limit string, most int) {
	if p.err == nil {
		p.Budget.fail(fmt.Errorf("line %d: %w", p.line(), exceeded(limit, most)))
	}
	p.at = len(p.source)
}

// line is the line of the place that is read.
func (p *gbnf) line() int {
	p.newlines += strings.Count(p.source[p.counted:p.at], "\n")
	p.counted = p.at
	return p.newlines
}

func (p *gbnf) peek() byte {
	if p.at < len(p.source) {
		return p.source[p.at]
	}
	return 0
}

// space skips blanks and comments, and line ends if the expression goes on after them.
func (p *gbnf) space(lines bool) {
	for p.at < len(p.source) {
		switch c := p.source[p.at]; {
		case c == ' ', c == '\t', lines && (c == '\n' || c == '\r'):
			p.at++
		case c == '#':
			for p.at < len(p.source) && p.source[p.at] != '\n' && p.source[p.at] != '\r' {
				p.at++
			}
		default:
			return
		}
	}
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func (p *gbnf) word() string {
	from := p.at
	for wordByte(p.peek()) {
		p.at++
	}
	return p.source[from:p.at]
}

// What parts of a grammar take in memory while they are compiled, with their share of code that is not counted itself.
const (
	ruleBytes = 256
	partBytes = 64
)

// named is the index of a rule; it need not be defined yet.
func (p *gbnf) named(name string) int {
	i, ok := p.index[name]
	if !ok {
		i = len(p.names)
		if i >= p.limits.Rules {
			p.beyond("Rules", p.limits.Rules)
		}
		p.take(ruleBytes)
		p.index[name] = i
		p.names, p.bodies, p.used = append(p.names, name), append(p.bodies, nil), append(p.used, p.line())
	}
	return i
}

func (p *gbnf) rule() {
	name := p.word()
	if name == "" {
		p.fail("a rule's name expected, not %q", first(p.source[p.at:]))
		return
	}
	p.space(false)
	if !strings.HasPrefix(p.source[p.at:], "::=") {
		p.fail("::= expected after %.60q", name)
		return
	}
	p.at += 3
	i := p.named(name)
	if p.bodies[i] != nil {
		p.fail("rule %.60q is defined twice", name)
		return
	}
	p.space(true)
	body := p.choice(false)
	if p.err != nil {
		return
	}
	if p.at < len(p.source) && p.peek() != '\n' && p.peek() != '\r' {
		p.fail("unexpected %q", first(p.source[p.at:]))
		return
	}
	p.bodies[i] = body
	p.space(true)
}

// choice parses x | y | …; inside parentheses line ends are blanks.
func (p *gbnf) choice(inside bool) expression {
	if p.depth++; p.depth > p.limits.Nesting+1 { // the rule itself is no parenthesis
		p.beyond("Nesting", p.limits.Nesting)
	}
	defer func() { p.depth-- }()
	all := choice{p.sequence(inside)}
	for p.err == nil && p.peek() == '|' {
		p.at++
		p.space(true)
		if all = append(all, p.sequence(inside)); len(all) > p.limits.Alternatives {
			p.beyond("Alternatives", p.limits.Alternatives)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

func (p *gbnf) sequence(inside bool) expression {
	all := sequence{}
	for p.take(partBytes) && p.at < len(p.source) {
		var x expression
		switch c := p.peek(); {
		case c == '"':
			x = p.literal()
		case c == '[':
			x = p.class()
		case c == '.':
			p.at++
			x = anyRune
		case c == '(':
			p.at++
			p.space(true)
			x = p.choice(true)
			if p.err == nil && p.peek() != ')' {
				p.fail(") expected")
			}
			p.at = min(p.at+1, len(p.source))
		case c == '<' || c == '!':
			p.fail("token references are not supported: %q", first(p.source[p.at:]))
		case wordByte(c):
			x = rule(p.named(p.word()))
		default:
			return all
		}
		p.space(inside)
		x = p.repeats(x, inside)
		all = append(all, x)
	}
	return all
}

// repeats parses what stands behind x.
func (p *gbnf) repeats(x expression, inside bool) expression {
	for n := 0; p.take(partBytes); n++ {
		least, most := 0, -1
		switch p.peek() {
		case '*':
		case '+':
			least = 1
		case '?':
			most = 1
		case '{':
			least, most = p.bounds()
		default:
			return x
		}
		if n >= p.limits.Nesting {
			p.beyond("Nesting", p.limits.Nesting)
			break
		}
		p.at = min(p.at+1, len(p.source))
		p.space(inside)
		x = repeat{x, least, most}
	}
	return x
}

// bounds parses {m}, {m,} or {m,n} up to the closing brace.
func (p *gbnf) bounds() (least, most int) {
	end := strings.IndexByte(p.source[p.at:], '}')
	if end < 0 {
		p.fail("} expected")
		return 0, 0
	}
	inner := p.source[p.at+1 : p.at+end]
	from, to, two := strings.Cut(inner, ",")
	number := func(s string) int {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
		switch {
		case errors.Is(err, strconv.ErrRange), n > uint64(p.limits.Repetitions):
			p.beyond("Repetitions", p.limits.Repetitions)
		case err != nil:
			p.fail("{%.60s}: a number of repetitions expected", inner)
		}
		return int(n)
	}
	least = number(from)
	most = least
	if two {
		most = -1
		if strings.TrimSpace(to) != "" {
			most = number(to)
		}
	}
	if p.err == nil && most >= 0 && most < least {
		p.fail("{%.60s}: the second number is less than the first", inner)
	}
	if p.err == nil {
		p.at += end
	}
	return least, most
}

func (p *gbnf) literal() expression {
	var text []byte
	from := p.at
	p.at++
	for p.err == nil {
		switch c := p.peek(); {
		case p.at >= len(p.source):
			p.at = from // whose line is told
			p.fail("\" expected")
		case c == '"':
			p.at++
			return literal(text)
		default:
			text = p.appendCharacter(text)
		}
	}
	return nil
}

func (p *gbnf) class() expression {
	p.at++
	not := p.peek() == '^'
	if not {
		p.at++
	}
	var ranges []runeRange
	for p.err == nil {
		if p.at >= len(p.source) {
			p.fail("] expected")
			break
		}
		if p.peek() == ']' {
			p.at++
			c := newClass(ranges...)
			if not {
				c = c.not()
			}
			return c
		}
		lo := p.character()
		hi := lo
		if p.peek() == '-' && p.at+1 < len(p.source) && p.source[p.at+1] != ']' {
			p.at++
			hi = p.character()
		}
		if p.take(8) && hi < lo {
			p.fail("the range %q-%q runs backward", lo, hi)
		}
		ranges = append(ranges, runeRange{lo, hi})
	}
	return nil
}

// character reads a character or an escape. \xHH is the character U+00HH.
func (p *gbnf) character() rune {
	text := p.appendCharacter(nil)
	r, _ := utf8.DecodeRune(text)
	return r
}

func (p *gbnf) appendCharacter(text []byte) []byte {
	r, n := utf8.DecodeRuneInString(p.source[p.at:])
	if r != '\\' {
		if n == 0 {
			p.fail("a character expected")
		}
		p.at += n
		return utf8.AppendRune(text, r)
	}
	p.at++
	c := p.peek()
	p.at = min(p.at+1, len(p.source))
	digits := 0
	switch c {
	case 'n':
		return append(text, '\n')
	case 'r':
		return append(text, '\r')
	case 't':
		return append(text, '\t')
	case '\\', '"', '[', ']', '-', '^':
		return append(text, c)
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		p.at--
		p.fail("unknown escape \\%s", first(p.source[p.at:]))
		return text
	}
	if p.at+digits > len(p.source) {
		p.fail("\\%c takes %d hexadecimal digits", c, digits)
		return text
	}
	v, err := strconv.ParseUint(p.source[p.at:p.at+digits], 16, 32)
	if err != nil || !utf8.ValidRune(rune(v)) || v > utf8.MaxRune {
		p.fail("\\%c%s is no character", c, p.source[p.at:p.at+digits])
		return text
	}
	p.at += digits
	return utf8.AppendRune(text, rune(v))
}

// first is the first character of s, for an error.
func first(s string) string {
	r, _ := utf8.DecodeRuneInString(s)
	if s == "" {
		return "end of source"
	}
	return string(r)
}
