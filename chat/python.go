package chat

import (
	"slices"
	"strings"
)

// Calls as Python writes them.

// readPythonCalls reads f(a="x", b=1) and further calls, behind each other or as a list. Of calls that end early it
// returns what there is.
func readPythonCalls(text string) (calls []wholeRead, end wholeEnd) {
	r := &literalReader{s: text}
	list := r.take("[")
	for {
		name := r.word()
		if name == "" || !r.take("(") {
			return calls, r.fails("")
		}
		ok := r.pythonArguments()
		if calls = append(calls, wholeRead{name, r.out.String()}); !ok {
			return calls, r.fails("")
		}
		if r.take(",") {
			continue
		}
		if r.space(); list || r.s == "" {
			break
		}
	}
	if list && !r.take("]") {
		if r.s == "" {
			return calls, wholeDone // every call is whole
		}
		return calls, wholeBad
	}
	if r.space(); r.s != "" {
		return calls, wholeBad
	}
	return calls, wholeDone
}

// pythonArguments reads what is in a call's parentheses, as one JSON object.
func (r *literalReader) pythonArguments() bool {
	r.out.Reset()
	r.out.WriteByte('{')
	for n := 0; !r.take(")"); n++ {
		if n > 0 {
			if !r.take(",") {
				return false
			}
			if r.take(")") { // Python allows a comma at the end
				break
			}
			r.out.WriteString(", ")
		}
		key := r.word()
		if key == "" || !r.take("=") {
			return false
		}
		r.out.WriteString(quoted(key) + ": ")
		if !r.value() {
			return false
		}
	}
	r.out.WriteByte('}')
	return true
}

// beginsList reports whether the answer begins with a list of calls, or may yet.
func (p *Parser) beginsList() (is, more bool) {
	for _, t := range p.o.Tools {
		first := "[" + t.Name + "("
		is = is || strings.HasPrefix(p.buf, first)
		more = more || len(p.buf) < len(first) && strings.HasPrefix(first, p.buf)
	}
	return is, more && !is && !p.closed
}

// listedCalls reads a list of calls that no mark announced. One that names what is no tool is text.
func (p *Parser) listedCalls() bool {
	n, whole := p.list.find(p.buf)
	switch {
	case whole:
	case p.closed:
		n = len(p.buf)
	case len(p.buf) > maxCall:
		return p.notACall("")
	default:
		return false
	}
	p.list = listEnd{}
	text := p.buf[:n]
	p.buf = p.buf[n:]
	calls, status := readPythonCalls(text)
	if status == wholeBad || whole && status != wholeDone ||
		slices.ContainsFunc(calls, func(c wholeRead) bool { return !offers(p.o.Tools, c.name) }) {
		return p.notACall(text)
	}
	return p.wholes(calls, status == wholeCut)
}

// A listEnd looks for the end of a list that Python writes, in a text that grows.
type listEnd struct {
	at, depth int
	quote     byte // around the characters at at; 0: none
}

// find returns the length of the list that text begins with, once it is whole.
func (l *listEnd) find(text string) (n int, whole bool) {
	for ; l.at < len(text); l.at++ {
		c := text[l.at]
		switch {
		case l.quote != 0 && c == '\\':
			if l.at+1 == len(text) {
				return 0, false
			}
			l.at++ // what it escapes
		case l.quote != 0:
			if c == l.quote {
				l.quote = 0
			}
		case c == '"' || c == '\'':
			l.quote = c
		case strings.IndexByte("[({", c) >= 0:
			l.depth++
		case strings.IndexByte("])}", c) >= 0:
			if l.depth--; l.depth == 0 {
				return l.at + 1, true
			}
		}
	}
	return 0, false
}
