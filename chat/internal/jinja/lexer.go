package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	kEOF kind = iota
	kData
	kVarBegin
	kVarEnd
	kBlockBegin
	kBlockEnd
	kName
	kString
	kInt
	kFloat
	kOp
)

type token struct {
	kind kind
	text string // data, name, operator, or the value of a string
	line int
	i    int64
	f    float64
}

func (t token) String() string {
	switch t.kind {
	case kEOF:
		return "the end of the template"
	case kData:
		return "text"
	case kVarBegin:
		return `"{{"`
	case kVarEnd:
		return `"}}"`
	case kBlockBegin:
		return `"{%"`
	case kBlockEnd:
		return `"%}"`
	case kString:
		return "a string"
	case kInt, kFloat:
		return "a number"
	}
	return strconv.Quote(t.text)
}

// lexer cuts a template into tokens. Inside tags it follows Jinja's regular
// expressions; between them, its rules for white space.
type lexer struct {
	src       string
	at        int
	line      int
	lineStart bool // what was read last ended a line
	tokens    []token
}

func (l *lexer) fail(format string, a ...any) {
	panic(&Error{Line: l.line, Text: fmt.Sprintf(format, a...), Kind: ErrSyntax})
}

func (l *lexer) emit(k kind, text string) {
	l.tokens = append(l.tokens, token{kind: k, text: text, line: l.line})
}

// skip moves on by n bytes and counts lines.
func (l *lexer) skip(n int) {
	l.line += strings.Count(l.src[l.at:l.at+n], "\n")
	l.at += n
}

// isSpace says what Python's str.isspace says.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func (l *lexer) skipSpace() {
	rest := l.src[l.at:]
	l.skip(len(rest) - len(strings.TrimLeftFunc(rest, isSpace)))
}

func lex(src string) []token {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, line: 1, lineStart: true}
	for l.at < len(l.src) {
		l.root()
	}
	l.emit(kEOF, "")
	return l.tokens
}

// root reads text up to a tag, and the tag.
func (l *lexer) root() {
	rest := l.src[l.at:]
	n := 0
	for {
		k := strings.IndexByte(rest[n:], '{')
		if k < 0 || n+k+1 >= len(rest) {
			l.emit(kData, rest)
			l.skip(len(rest))
			return
		}
		n += k
		if c := rest[n+1]; c == '{' || c == '%' || c == '#' {
			break
		}
		n++
	}
	open, sign := rest[n+1], byte(0)
	if n+2 < len(rest) && (rest[n+2] == '-' || rest[n+2] == '+') {
		sign = rest[n+2]
	}
	l.data(rest[:n], sign, open != '{')
	l.skip(n)
	mark := 2
	if sign != 0 {
		mark++
	}
	switch open {
	case '#':
		l.skip(mark)
		end := strings.Index(l.src[l.at:], "#}")
		if end < 0 {
			l.fail("a comment {# without #}")
		}
		closing := byte(0)
		if end > 0 {
			closing = l.src[l.at+end-1]
		}
		l.skip(end + 2)
		l.after(closing, true)
	case '{':
		l.emit(kVarBegin, "")
		l.skip(mark)
		l.inside('}')
	default:
		if n, ok := l.tag(mark, "raw"); ok {
			l.skip(n)
			if l.src[l.at-3] == '-' {
				l.skipSpace()
			}
			l.lineStart = l.src[l.at-1] == '\n'
			l.raw()
			return
		}
		l.emit(kBlockBegin, "")
		l.skip(mark)
		l.inside('%')
	}
}

// data emits text in front of a tag, less the white space that the tag takes.
func (l *lexer) data(text string, sign byte, block bool) {
	if sign == '-' {
		text = strings.TrimRightFunc(text, isSpace)
	} else if sign != '+' && block {
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || l.lineStart) && strings.TrimLeftFunc(text[start:], isSpace) == "" {
			text = text[:start]
		}
	}
	if text != "" {
		l.emit(kData, text)
	}
}

// after takes the white space behind a tag whose last character before its
// closing mark is sign.
func (l *lexer) after(sign byte, block bool) {
	from := l.at
	switch {
	case sign == '-':
		l.skipSpace()
	case sign != '+' && block && strings.HasPrefix(l.src[l.at:], "\n"):
		l.skip(1)
	}
	l.lineStart = l.at > from && l.src[l.at-1] == '\n'
}

// tag says whether the source goes on, after mark bytes, with a block tag of
// one name, and how long it is.
func (l *lexer) tag(mark int, name string) (int, bool) {
	rest := l.src[l.at+mark:]
	n := len(rest)
	rest = strings.TrimLeftFunc(rest, isSpace)
	rest, ok := strings.CutPrefix(rest, name)
	if !ok {
		return 0, false
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	if len(rest) > 0 && (rest[0] == '-' || rest[0] == '+') {
		rest = rest[1:]
	}
	if rest, ok = strings.CutPrefix(rest, "%}"); !ok {
		return 0, false
	}
	return mark + n - len(rest), true
}

// raw reads up to {% endraw %}.
func (l *lexer) raw() {
	for from := l.at; ; from += 2 {
		k := strings.Index(l.src[from:], "{%")
		if k < 0 {
			l.fail("{%% raw %%} without {%% endraw %%}")
		}
		from += k
		text := l.src[l.at:from]
		mark, sign := 2, byte(0)
		if from+2 < len(l.src) && (l.src[from+2] == '-' || l.src[from+2] == '+') {
			mark, sign = 3, l.src[from+2]
		}
		at := l.at
		l.at = from
		n, ok := l.tag(mark, "endraw")
		l.at = at
		if !ok {
			continue
		}
		l.data(text, sign, true)
		l.skip(len(text) + n)
		l.after(l.src[l.at-3], true)
		return
	}
}

// operators, longest first.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "*", "/", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
}

// inside reads the tokens of a tag that ends with close and }.
func (l *lexer) inside(close byte) {
	end := string([]byte{close, '}'})
	var open []byte // brackets that wait for their partner
	for {
		l.skipSpace()
		if l.at >= len(l.src) {
			l.fail("a tag without %q", end)
		}
		rest := l.src[l.at:]
		if len(open) == 0 {
			sign, tail := byte(0), rest
			if rest[0] == '-' || rest[0] == '+' && close == '%' {
				sign, tail = rest[0], rest[1:]
			}
			if strings.HasPrefix(tail, end) {
				if close == '%' {
					l.emit(kBlockEnd, "")
				} else {
					l.emit(kVarEnd, "")
				}
				l.skip(len(rest) - len(tail) + 2)
				l.after(sign, close == '%')
				return
			}
		}
		c := rest[0]
		r, _ := utf8.DecodeRuneInString(rest)
		switch {
		case c >= '0' && c <= '9':
			l.number(rest)
		case c == '_' || unicode.IsLetter(r):
			n := len(rest) - len(strings.TrimLeftFunc(rest, func(r rune) bool {
				return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r)
			}))
			if n > longestName {
				text := fmt.Sprintf("a name of more than %d bytes", longestName)
				panic(&Error{Line: l.line, Text: text, Kind: ErrLimit})
			}
			l.emit(kName, rest[:n])
			l.skip(n)
		case c == '\'' || c == '"':
			l.str(rest)
		default:
			op := ""
			for _, o := range operators {
				if strings.HasPrefix(rest, o) {
					op = o
					break
				}
			}
			switch op {
			case "":
				l.fail("unexpected character %q", r)
			case "(":
				open = append(open, ')')
			case "[":
				open = append(open, ']')
			case "{":
				open = append(open, '}')
			case ")", "]", "}":
				if len(open) == 0 || open[len(open)-1] != op[0] {
					l.fail("unexpected %q", op)
				}
				open = open[:len(open)-1]
			}
			l.emit(kOp, op)
			l.skip(len(op))
		}
	}
}

func (l *lexer) number(s string) {
	isDigit := func(i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	t := token{kind: kInt, line: l.line}
	n := 0
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) >= 0 {
		n = 2
		for n < len(s) && (isDigit(n) || s[n] == '_' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'f') {
			n++
		}
	} else {
		digits := func() {
			for isDigit(n) || n < len(s) && s[n] == '_' && isDigit(n+1) {
				n++
			}
		}
		digits()
		if n < len(s) && s[n] == '.' && isDigit(n+1) {
			t.kind = kFloat
			n++
			digits()
		}
		if n < len(s) && s[n]|0x20 == 'e' {
			k := n + 1
			if k < len(s) && (s[k] == '+' || s[k] == '-') {
				k++
			}
			if isDigit(k) {
				t.kind = kFloat
				n = k
				digits()
			}
		}
	}
	t.text = strings.ReplaceAll(s[:n], "_", "")
	var err error
	if t.kind == kFloat {
		t.f, err = strconv.ParseFloat(t.text, 64)
	} else {
		if len(t.text) > 1 && t.text[0] == '0' && isDigit(1) && strings.Trim(t.text, "0") != "" {
			l.fail("a number with a leading zero: %s", s[:n])
		}
		t.i, err = strconv.ParseInt(t.text, 0, 64)
	}
	if err != nil {
		l.fail("bad number %s", s[:n])
	}
	l.tokens = append(l.tokens, t)
	l.skip(n)
}

// str reads a string with the escapes of Python.
func (l *lexer) str(s string) {
	quote := s[0]
	var b strings.Builder
	i := 1
	for ; i < len(s) && s[i] != quote; i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i >= len(s) {
			break
		}
		switch c := s[i]; c {
		case '\n':
		case '\\', '\'', '"':
			b.WriteByte(c)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		case 'x', 'u', 'U':
			digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if i+digits >= len(s) {
				l.fail("a string with an incomplete escape \\%c", c)
			}
			v, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || v > unicode.MaxRune || v >= 0xd800 && v < 0xe000 {
				l.fail("a string with a bad escape \\%s", s[i:i+1+digits])
			}
			b.WriteRune(rune(v))
			i += digits
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n := 1
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				n++
			}
			v, _ := strconv.ParseUint(s[i:i+n], 8, 32)
			b.WriteRune(rune(v))
			i += n - 1
		case 'N':
			l.fail("a string with an escape \\N, which is not supported")
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	if i >= len(s) {
		l.fail("a string without its closing %c", quote)
	}
	l.emit(kString, b.String())
	l.skip(i + 1)
}
