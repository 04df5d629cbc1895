package chat

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Formats whose arguments are neither JSON nor texts between tags: a call is read when it is complete.

const (
	gemmaQuote   = `<|"|>`
	gemmaCall    = "<|tool_call>"
	gemmaCallEnd = "<tool_call|>"
	lfmCalls     = "<|tool_call_start|>"
	lfmEnd       = "<|tool_call_end|>"
)

// wholeCall reads calls up to their end mark.
func (p *Parser) wholeCall() bool {
	end := gemmaCallEnd
	if p.f.Syntax == SyntaxLFM2 {
		end = lfmEnd
	}
	from := max(0, p.searched-len(end))
	i := strings.Index(p.buf[min(from, len(p.buf)):], end)
	if i < 0 {
		p.searched = len(p.buf)
		if p.closed || len(p.buf) > maxCall {
			p.searched = 0
			return p.notACall("")
		}
		return false
	}
	i += from
	p.searched = 0
	text := p.buf[:i]
	calls, ok := readPythonCalls(text)
	if p.f.Syntax == SyntaxGemma4 {
		calls, ok = readGemmaCall(text)
	}
	p.buf = p.buf[i+len(end):]
	if !ok {
		return p.notACall(text + end)
	}
	for _, c := range calls {
		p.begin(c.name, "")
		p.args(c.args)
		p.end("", nil)
	}
	p.edge()
	p.raw = ""
	p.state = (*Parser).content
	return true
}

// wholeRead is a call that was read.
type wholeRead struct{ name, args string }

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

// readGemmaCall reads call:f{a:<|"|>x<|"|>,b:1}.
func readGemmaCall(text string) ([]wholeRead, bool) {
	r := &literalReader{s: text, gemma: true}
	if !r.take("call:") {
		return nil, false
	}
	name := r.word()
	r.space()
	if name == "" || !strings.HasPrefix(r.s, "{") || !r.value() {
		return nil, false
	}
	r.space()
	return []wholeRead{{name, r.out.String()}}, r.s == ""
}

// readPythonCalls reads [f(a="x", b=1), g()], or the same calls as JSON.
func readPythonCalls(text string) ([]wholeRead, bool) {
	if calls, ok := readJSONCalls(text); ok {
		return calls, true
	}
	r := &literalReader{s: text}
	list := r.take("[")
	var calls []wholeRead
	for {
		name := r.word()
		if name == "" || !r.take("(") {
			return nil, false
		}
		r.out.Reset()
		r.out.WriteByte('{')
		for n := 0; !r.take(")"); n++ {
			if n > 0 {
				if !r.take(",") {
					return nil, false
				}
				r.out.WriteString(", ")
			}
			key := r.word()
			if key == "" || !r.take("=") {
				return nil, false
			}
			r.out.WriteString(quoted(key) + ": ")
			if !r.value() {
				return nil, false
			}
		}
		r.out.WriteByte('}')
		calls = append(calls, wholeRead{name, r.out.String()})
		if !r.take(",") {
			break
		}
	}
	if list && !r.take("]") {
		return nil, false
	}
	r.space()
	return calls, r.s == ""
}

// readJSONCalls reads {"name": …, "arguments": {…}}, or a list of such objects.
func readJSONCalls(text string) (calls []wholeRead, ok bool) {
	var list []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal([]byte(text), &list) != nil {
		if json.Unmarshal([]byte("["+text+"]"), &list) != nil {
			return nil, false
		}
	}
	for _, c := range list {
		if c.Name == "" {
			return nil, false
		}
		args := string(c.Arguments)
		if args == "" || args == "null" {
			args = "{}"
		}
		if args[0] != '{' {
			return nil, false
		}
		calls = append(calls, wholeRead{c.Name, args})
	}
	return calls, len(calls) > 0
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
		r.s = rest
		r.out.WriteString(quoted(text))
		return ok
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

// text reads a string in quotes, with the escapes that JSON and Python share, and Python's \' and \xHH.
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
		c, multi, rest, err := strconv.UnquoteChar(s, quote)
		if err != nil {
			if s[0] == '\\' && len(s) > 1 && (s[1] == '"' || s[1] == '\'') {
				b.WriteByte(s[1])
				s = s[2:]
				continue
			}
			if s[0] != '\n' {
				return false
			}
			c, rest = '\n', s[1:]
		}
		if multi || c < 0x80 {
			b.WriteRune(c)
		} else {
			b.WriteByte(byte(c))
		}
		s = rest
	}
	return false
}
