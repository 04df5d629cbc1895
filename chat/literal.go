package chat

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Syntaxes whose arguments are literals of a language of their own: a call is read when it is complete.

// wholeCalls reads calls up to their end mark. Where an answer ends before it, those that are whole are calls, and the
// one behind them, if the text could go on as one, is reported as cut off.
func (p *Parser) wholeCalls(end string, read func(text string) ([]wholeRead, wholeEnd)) bool {
	text, found := p.upTo(end)
	if !found {
		if !p.closed && len(p.buf) <= maxCall {
			return false
		}
		p.searched = 0
		if !p.closed {
			return p.notACall("")
		}
		text = p.buf[:len(p.buf)-held(p.buf, []string{end})]
	}
	calls, status := read(text)
	if status == wholeBad || found && status != wholeDone {
		if found {
			text += end
		} else {
			text, p.buf = p.buf, ""
		}
		return p.notACall(text)
	}
	if !found {
		p.buf = ""
	}
	return p.wholes(calls, status == wholeCut)
}

// wholes reports calls that were read, the last of which may have been cut.
func (p *Parser) wholes(calls []wholeRead, cut bool) bool {
	for i, c := range calls {
		var err error
		if cut && i == len(calls)-1 {
			err = ErrToolCall
		}
		p.begin(c.name, "")
		p.args(c.args)
		p.end("", err)
	}
	if len(calls) == 0 {
		return p.cutCall()
	}
	p.edge()
	p.raw = ""
	p.state = (*Parser).content
	return true
}

// wholeRead is a call that was read.
type wholeRead struct{ name, args string }

// wholeEnd says how a text that should be calls ended.
type wholeEnd int

const (
	wholeDone wholeEnd = iota
	wholeCut           // within the last call
	wholeBad           // it is none
)

// fails is behind what could not be read: the text has ended, within mark or a value, or is malformed.
func (r *literalReader) fails(mark string) wholeEnd {
	if r.space(); r.s == "" || strings.HasPrefix(mark, r.s) || r.gemma && strings.HasPrefix(gemmaQuote, r.s) {
		return wholeCut
	}
	return wholeBad
}

// literalReader reads values of Gemma's and Python's notation and writes them as JSON.
type literalReader struct {
	s     string
	out   strings.Builder
	gemma bool
	depth int
}

// maxLiteralDepth bounds nested lists and objects.
const maxLiteralDepth = 128

func (r *literalReader) space() { r.s = strings.TrimLeft(r.s, " \n\t\r") }

// take reads a mark.
func (r *literalReader) take(mark string) bool {
	r.space()
	if !strings.HasPrefix(r.s, mark) {
		return false
	}
	r.s = r.s[len(mark):]
	return true
}

// word reads a name.
func (r *literalReader) word() string {
	r.space()
	n := 0
	for n < len(r.s) && !strings.ContainsRune(" \n\t\r,:=(){}[]<>\"'", rune(r.s[n])) {
		n++
	}
	w := r.s[:n]
	r.s = r.s[n:]
	return w
}

// value reads one value.
func (r *literalReader) value() bool {
	if r.depth++; r.depth > maxLiteralDepth {
		return false
	}
	defer func() { r.depth-- }()
	r.space()
	switch {
	case r.s == "":
		return false
	case r.gemma && strings.HasPrefix(r.s, gemmaQuote):
		text, rest, ok := strings.Cut(r.s[len(gemmaQuote):], gemmaQuote)
		if r.s = rest; !ok {
			return false
		}
		r.out.WriteString(quoted(text))
		return true
	case r.s[0] == '"' || !r.gemma && r.s[0] == '\'':
		return r.text(r.s[0])
	case r.s[0] == '[':
		return r.list("[", "]", false)
	case !r.gemma && r.s[0] == '(':
		return r.list("(", ")", false)
	case r.s[0] == '{':
		return r.list("{", "}", true)
	}
	switch w := r.word(); w {
	case "true", "True":
		r.out.WriteString("true")
	case "false", "False":
		r.out.WriteString("false")
	case "null", "None":
		r.out.WriteString("null")
	default:
		if !json.Valid([]byte(w)) {
			return false
		}
		r.out.WriteString(w)
	}
	return true
}

// list reads a list, or an object.
func (r *literalReader) list(open, end string, object bool) bool {
	r.take(open)
	r.out.WriteString(map[bool]string{true: "{", false: "["}[object])
	for n := 0; !r.take(end); n++ {
		if n > 0 {
			if !r.take(",") {
				return false
			}
			if r.take(end) { // Python allows a comma at the end
				break
			}
			r.out.WriteString(", ")
		}
		if object {
			key := ""
			if r.space(); r.s != "" && (r.s[0] == '"' || r.s[0] == '\'') || strings.HasPrefix(r.s, gemmaQuote) {
				at := r.out.Len()
				if !r.value() || at == r.out.Len() {
					return false
				}
			} else {
				if key = r.word(); key == "" {
					return false
				}
				r.out.WriteString(quoted(key))
			}
			if !r.take(":") {
				return false
			}
			r.out.WriteString(": ")
		}
		if !r.value() {
			return false
		}
	}
	r.out.WriteString(map[bool]string{true: "}", false: "]"}[object])
	return true
}

// text reads a string in quotes, with JSON's escapes and Python's, for which a backslash in front of any other
// character is one: "\d+" is a regular expression.
func (r *literalReader) text(quote byte) bool {
	var b strings.Builder
	for s := r.s[1:]; s != ""; {
		if s[0] == quote {
			r.s = s[1:]
			r.out.WriteString(quoted(b.String()))
			return true
		}
		if s[0] == '\\' && len(s) > 1 && s[1] == '/' {
			b.WriteByte('/')
			s = s[2:]
			continue
		}
		if c, ok := surrogatePair(s); ok {
			b.WriteRune(c)
			s = s[len(`\ud83d\ude00`):]
			continue
		}
		c, _, rest, err := strconv.UnquoteChar(s, quote)
		if err != nil {
			if s[0] == '\\' && len(s) > 1 && (s[1] == '"' || s[1] == '\'') {
				b.WriteByte(s[1])
				s = s[2:]
				continue
			}
			if s[0] == '\\' && strings.Trim(s[1:], `\uUx0123456789abcdefABCDEF`) == "" {
				break // the text ends within an escape
			}
			if text, n := pythonEscape(s); n > 0 {
				b.WriteString(text)
				s = s[n:]
				continue
			}
			if s[0] != '\n' {
				return false
			}
			c, rest = '\n', s[1:]
		}
		b.WriteRune(c) // of \xHH too, which in a string of Python is a character
		s = rest
	}
	r.s = ""
	return false
}

// pythonEscape is what an escape of Python's that Go does not have stands for, and its length; 0: s begins with none.
func pythonEscape(s string) (text string, n int) {
	if len(s) < 2 || s[0] != '\\' {
		return "", 0
	}
	switch c := s[1]; {
	case c == '\n': // the line goes on in the next
		return "", 2
	case c >= '0' && c <= '7': // of up to three digits
		r := rune(0)
		for n = 1; n < len(s) && n < 4 && s[n] >= '0' && s[n] <= '7'; n++ {
			r = r<<3 | rune(s[n]-'0')
		}
		return string(r), n
	case strings.IndexByte("xuUN", c) >= 0:
		return "", 0
	}
	return `\`, 1
}

// surrogatePair is the character whose halves, as JSON escapes it, are in front of s.
func surrogatePair(s string) (c rune, ok bool) {
	if len(s) < 12 || s[:2] != `\u` || s[6:8] != `\u` {
		return 0, false
	}
	high, err1 := strconv.ParseUint(s[2:6], 16, 16)
	low, err2 := strconv.ParseUint(s[8:12], 16, 16)
	c = utf16.DecodeRune(rune(high), rune(low))
	return c, err1 == nil && err2 == nil && c != unicode.ReplacementChar
}
