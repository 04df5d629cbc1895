package grammar

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// unicodeEscape is ECMA 262's \uHHHH, which Go's syntax spells \x{HHHH}.
var unicodeEscape = regexp.MustCompile(`\\u([0-9a-fA-F]{4})`)

// lineEnds is what ECMA 262's "." leaves out.
var lineEnds = newClass(runeRange{'\n', '\n'}, runeRange{'\r', '\r'}, runeRange{0x2028, 0x2029})

// pattern is a string whose value matches a regular expression (JSON Schema's pattern: ECMA 262, found anywhere in
// the text unless it is anchored).
func (s *schema) pattern(pattern string) (expression, error) {
	if s.Quote == "" {
		x, err := insidePattern(s.Budget, pattern, false)
		return sequence{literal(`"`), x, literal(`"`)}, err
	}
	if !strings.HasPrefix(s.Quote, controlMark) {
		return nil, errors.New("not supported between quotes that are text")
	}
	x, err := insidePattern(s.Budget, pattern, true)
	return sequence{literal(s.Quote), x, literal(s.Quote)}, err
}

// insidePattern is the inside of a string: a JSON string's, where characters that JSON must escape are written as their
// shortest escape, or with raw one without escapes.
func insidePattern(b *Budget, pattern string, raw bool) (expression, error) {
	source, ok := ecmaSpaces(unicodeEscape.ReplaceAllString(pattern, `\x{$1}`))
	if !ok {
		return nil, fmt.Errorf("regular expression %.60q: \\S inside of brackets is not supported", pattern)
	}
	bytes, steps := costOf(source)
	if !b.take(bytes) || !b.spend(steps) {
		return nil, b.err
	}
	re, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("regular expression %.60q: %w", pattern, err)
	}
	p := &patterns{raw: raw}
	x := p.anchored(re)
	if p.err != nil {
		return nil, fmt.Errorf("regular expression %.60q: %w", pattern, p.err)
	}
	return x, nil
}

// costOf is what reading a regular expression can cost: Go's reader takes no context. A Unicode class is up to 1,300
// numbers, and classes without regard to case are made character by character.
func costOf(source string) (bytes, steps int) {
	folds := false
	for _, flags := range strings.Split(source, "(?")[1:] {
		rest := strings.TrimLeft(flags, "-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		folds = folds || strings.Contains(flags[:len(flags)-len(rest)], "i")
	}
	unicodes := strings.Count(source, `\p`) + strings.Count(source, `\P`)
	if classes := unicodes + strings.Count(source, "["); folds {
		steps = classes << 17 // of which there are 1<<17 with another case or between them
	}
	return len(source)*2*nodeBytes + unicodes<<14, steps + len(source)
}

type patterns struct {
	raw bool // characters have no escapes
	err error
}

func (p *patterns) fail(format string, args ...any) expression {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	return choice{}
}

// anything is what may stand before and behind a pattern that is not anchored.
var anything = repeat{choice{plain, escape}, 0, -1}

// anchored gives each alternative of the whole pattern its beginning and its end: anchors are known there only.
func (p *patterns) anchored(re *syntax.Regexp) expression {
	switch re.Op {
	case syntax.OpCapture:
		return p.anchored(re.Sub[0])
	case syntax.OpAlternate:
		var all choice
		for _, sub := range re.Sub {
			all = append(all, p.anchored(sub))
		}
		return all
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	from, to := expression(anything), expression(anything)
	if p.raw {
		from, to = repeat{anyRune, 0, -1}, repeat{anyRune, 0, -1}
	}
	for len(parts) > 0 && parts[0].Op == syntax.OpBeginText {
		from, parts = sequence{}, parts[1:]
	}
	for len(parts) > 0 && parts[len(parts)-1].Op == syntax.OpEndText {
		to, parts = sequence{}, parts[:len(parts)-1]
	}
	all := sequence{from}
	for _, part := range parts {
		all = append(all, p.expression(part))
	}
	return append(all, to)
}

func (p *patterns) expression(re *syntax.Regexp) expression {
	subs := func() (all []expression) {
		for _, sub := range re.Sub {
			all = append(all, p.expression(sub))
		}
		return all
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return choice{}
	case syntax.OpEmptyMatch:
		return sequence{}
	case syntax.OpLiteral:
		all := sequence{}
		for _, r := range re.Rune {
			c := class{{r, r}}
			if re.Flags&syntax.FoldCase != 0 {
				for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
					c = append(c, runeRange{f, f})
				}
				c = newClass(c...)
			}
			all = append(all, p.class(c))
		}
		return all
	case syntax.OpCharClass:
		var ranges []runeRange
		for i := 0; i < len(re.Rune); i += 2 {
			ranges = append(ranges, runeRange{re.Rune[i], re.Rune[i+1]})
		}
		return p.class(newClass(ranges...))
	case syntax.OpAnyCharNotNL:
		return p.class(anyRune.minus(lineEnds))
	case syntax.OpAnyChar:
		return p.class(anyRune)
	case syntax.OpCapture:
		return p.expression(re.Sub[0])
	case syntax.OpStar:
		return repeat{p.expression(re.Sub[0]), 0, -1}
	case syntax.OpPlus:
		return repeat{p.expression(re.Sub[0]), 1, -1}
	case syntax.OpQuest:
		return repeat{p.expression(re.Sub[0]), 0, 1}
	case syntax.OpRepeat:
		return repeat{p.expression(re.Sub[0]), re.Min, re.Max}
	case syntax.OpConcat:
		return sequence(subs())
	case syntax.OpAlternate:
		return choice(subs())
	}
	return p.fail("%v is supported at the beginning or the end only", re)
}

// class is one character of c, as it is written inside of a string.
func (p *patterns) class(c class) expression {
	if p.raw {
		return c
	}
	return jsonClass(c)
}

// jsonClass is one character of c, written inside a JSON string.
func jsonClass(c class) expression {
	all := choice{c.intersect(plain)}
	for _, r := range c.minus(plain) {
		for ; ; r.lo++ {
			all = append(all, literal(jsonCharacter(r.lo)))
			if r.lo == r.hi {
				break
			}
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// ecmaSpace is what \s matches in ECMA-262, WhiteSpace and LineTerminator; Go's is smaller, so what it is not would
// be larger.
const ecmaSpace = `\t\n\x0b\f\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`

// ecmaSpaces writes \s and \S out. ok is false for \S inside of brackets.
func ecmaSpaces(pattern string) (out string, ok bool) {
	var b strings.Builder
	inside := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			switch e := pattern[i]; {
			case e == 'S' && inside:
				return "", false
			case e == 'S':
				b.WriteString("[^" + ecmaSpace + "]")
			case e == 's' && inside:
				b.WriteString(ecmaSpace)
			case e == 's':
				b.WriteString("[" + ecmaSpace + "]")
			default:
				b.WriteByte(c)
				b.WriteByte(e)
			}
			continue
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		}
		b.WriteByte(c)
	}
	return b.String(), true
}
