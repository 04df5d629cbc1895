package chat

import (
	"encoding/json"
	"strings"
)

const (
	dsml        = "｜DSML｜"
	kimiCalls   = "<|tool_calls_section_begin|>"
	kimiCall    = "<|tool_call_begin|>"
	kimiArgs    = "<|tool_call_argument_begin|>"
	kimiCallEnd = "<|tool_call_end|>"
	kimiEnd     = "<|tool_calls_section_end|>"
)

// taggedReader reads a call whose arguments stand between tags, one by one. Its arguments are passed on as one JSON object, an
// argument as soon as it is complete.
type taggedReader struct {
	name string // of the call
	key  string // of the argument being read
	kind string // what DSML says of it: true for a string
	n    int    // arguments so far
}

// Tags of the three formats.
const (
	qwenFunction     = "<function="
	qwenFunctionEnd  = "</function>"
	qwenParameter    = "<parameter="
	qwenParameterEnd = "</parameter>"
	dsmlInvoke       = "<" + dsml + `invoke name="`
	dsmlInvokeEnd    = "</" + dsml + "invoke>"
	dsmlParameter    = "<" + dsml + `parameter name="`
	dsmlParameterEnd = "</" + dsml + "parameter>"
)

// begin is called behind the mark m.
func (r *taggedReader) begin(p *Parser, m string) {
	*r = taggedReader{}
	switch {
	case p.f.Syntax == SyntaxGLM:
		p.state = (*Parser).glmHeader
	case m == qwenFunction:
		p.state = (*Parser).taggedHeader
	default:
		p.state = (*Parser).taggedBetween
	}
}

// taggedBetween is before, between and after the calls that one mark encloses.
func (p *Parser) taggedBetween() bool {
	if !p.skipSpace() {
		if p.closed {
			return p.notACall("")
		}
		return false
	}
	open, ends := qwenFunction, []string{"</tool_call>", "</seed:tool_call>"}
	if p.f.Syntax == SyntaxDSML {
		open, ends = dsmlInvoke, []string{"</" + dsml + "function_calls>", "</" + dsml + "tool_calls>"}
	}
	switch m, more := p.oneOf(append([]string{open}, ends...)...); {
	case more:
		return false
	case m == open:
		p.raw += m
		p.state = (*Parser).taggedHeader
	case m != "" && p.tagged.name != "": // behind a call
		p.raw = ""
		p.state = (*Parser).content
	case m == "" && p.tagged.name != "":
		p.raw = ""
		p.state = (*Parser).content
	default:
		return p.notACall(m)
	}
	return true
}

// taggedHeader reads a call's name.
func (p *Parser) taggedHeader() bool {
	end := ">"
	if p.f.Syntax == SyntaxDSML {
		end = `">`
	}
	before := p.buf
	name, mark, more := p.until(end)
	if more {
		return false
	}
	if name = strings.TrimSpace(name); mark == "" || !plainName(name) {
		p.buf = before
		return p.notACall("")
	}
	p.taggedStart(name)
	return true
}

// glmHeader reads a call's name, which ends at a line's end or the next tag.
func (p *Parser) glmHeader() bool {
	before := p.buf
	p.buf = strings.TrimLeft(p.buf, " \n\t\r")
	name, mark, more := p.until("\n", "<arg_key>", "</tool_call>")
	if more {
		p.buf = before
		return false
	}
	if name = strings.TrimSpace(name); mark == "" || !plainName(name) {
		p.buf = before
		return p.notACall("")
	}
	if mark != "\n" {
		p.buf = mark + p.buf
	}
	p.taggedStart(name)
	return true
}

// plainName reports whether s may be a tool's name.
func plainName(s string) bool { return s != "" && !strings.ContainsAny(s, " \n\t\r<>\"{}[]()") }

func (p *Parser) taggedStart(name string) {
	p.tagged = taggedReader{name: name}
	p.begin(name, "")
	p.raw = ""
	p.state = (*Parser).taggedArgument
}

// taggedArgument reads the beginning of an argument, or the call's end.
func (p *Parser) taggedArgument() bool {
	if p.buf = strings.TrimLeft(p.buf, " \n\t\r"); p.buf == "" {
		if p.closed {
			p.taggedEnd(ErrToolCall)
			return true
		}
		return false
	}
	open, end := qwenParameter, qwenFunctionEnd
	switch p.f.Syntax {
	case SyntaxGLM:
		open, end = "<arg_key>", "</tool_call>"
	case SyntaxDSML:
		open, end = dsmlParameter, dsmlInvokeEnd
	}
	switch m, more := p.oneOf(open, end); {
	case more:
		return false
	case m == open:
		p.state = (*Parser).taggedKey
	case m == end:
		p.taggedEnd(nil)
	default:
		p.taggedEnd(ErrToolCall)
	}
	return true
}

// taggedEnd ends the call.
func (p *Parser) taggedEnd(err error) {
	switch {
	case err != nil:
	case p.tagged.n == 0:
		p.args("{}")
	default:
		p.args("}")
	}
	p.end("", err)
	p.edge()
	p.state = (*Parser).content
	if err == nil && p.f.Syntax != SyntaxGLM {
		p.state = (*Parser).taggedBetween
	}
}

// taggedKey reads an argument's name, and of DSML whether it is a string.
func (p *Parser) taggedKey() bool {
	before := p.buf
	end := ">"
	switch p.f.Syntax {
	case SyntaxGLM:
		end = "</arg_key>"
	case SyntaxDSML:
		end = `" string="`
	}
	key, mark, more := p.until(end)
	if !more && mark != "" {
		switch p.f.Syntax {
		case SyntaxGLM:
			rest := strings.TrimLeft(p.buf, " \n\t\r")
			if n := len("<arg_value>"); strings.HasPrefix(rest, "<arg_value>") {
				p.buf = rest[n:]
			} else if !p.closed && strings.HasPrefix("<arg_value>", rest) {
				more = true
			} else {
				mark = ""
			}
		case SyntaxDSML:
			p.tagged.kind, mark, more = p.until(`">`)
		}
	}
	if more {
		p.buf = before
		return false
	}
	if mark == "" {
		p.taggedEnd(ErrToolCall)
		return true
	}
	p.tagged.key = key
	p.state = (*Parser).taggedValue
	return true
}

// taggedValue reads an argument's value up to its end tag.
func (p *Parser) taggedValue() bool {
	end := qwenParameterEnd
	switch p.f.Syntax {
	case SyntaxGLM:
		end = "</arg_value>"
	case SyntaxDSML:
		end = dsmlParameterEnd
	}
	// What was searched before is searched again only where the tag may have been cut.
	from := max(0, p.searched-len(end))
	i := strings.Index(p.buf[min(from, len(p.buf)):], end)
	if i < 0 {
		p.searched = len(p.buf)
		if p.closed || len(p.buf) > maxCall {
			p.taggedPass(p.buf) // what there is of it
			p.buf = ""
			p.taggedEnd(ErrToolCall)
			return true
		}
		return false
	}
	i += from
	value := p.buf[:i]
	p.buf = p.buf[i+len(end):]
	p.taggedPass(value)
	p.state = (*Parser).taggedArgument
	return true
}

// taggedPass passes on an argument.
func (p *Parser) taggedPass(value string) {
	p.searched = 0
	if p.f.Syntax == SyntaxQwenXML {
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
	}
	prefix := ", "
	if p.tagged.n == 0 {
		prefix = "{"
	}
	p.tagged.n++
	p.args(prefix + quoted(p.tagged.key) + ": " + p.taggedJSON(value))
}

// taggedJSON is an argument's value as JSON: a string, unless the format or the tool's schema says otherwise. Without both, text
// that is JSON of another type is that.
func (p *Parser) taggedJSON(value string) string {
	text, known := false, false
	if p.f.Syntax == SyntaxDSML {
		text, known = p.tagged.kind != "false", true
	} else {
		text, known = p.isStringArgument()
	}
	trimmed := strings.TrimSpace(value)
	if !(known && text) && trimmed != "" && json.Valid([]byte(trimmed)) && (known || trimmed[0] != '"') {
		return trimmed
	}
	return quoted(value)
}

// quoted is a JSON string. Characters that are special in HTML stay as they are.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// isStringArgument says what the schema of the call's tool says of the argument: whether it is a string, if that is known.
func (p *Parser) isStringArgument() (text, known bool) {
	for _, t := range p.o.Offered {
		if t.Name != p.tagged.name {
			continue
		}
		var schema struct {
			Properties map[string]struct {
				Type any   `json:"type"`
				Enum []any `json:"enum"`
			} `json:"properties"`
		}
		if json.Unmarshal(t.Parameters, &schema) != nil {
			return false, false
		}
		property, ok := schema.Properties[p.tagged.key]
		if !ok {
			return false, false
		}
		switch x := property.Type.(type) {
		case string:
			return x == "string", true
		case nil:
			if len(property.Enum) > 0 {
				for _, v := range property.Enum {
					if _, ok := v.(string); !ok {
						return false, false
					}
				}
				return true, true
			}
		}
		return false, false
	}
	return false, false
}

// kimiBetween is before, between and after the calls of one answer.
func (p *Parser) kimiBetween() bool {
	if !p.skipSpace() {
		if p.closed {
			p.raw = ""
		}
		return false
	}
	switch m, more := p.oneOf(kimiCallEnd, kimiCall, kimiEnd); {
	case more:
		return false
	case m == kimiCall:
		p.raw += m
		p.state = (*Parser).kimiHeader
	case m == kimiEnd:
		p.raw = ""
		p.state = (*Parser).content
	case m != "":
		p.raw = ""
	default:
		return p.notACall("")
	}
	return true
}

// kimiHeader reads a call's id, functions.NAME:NUMBER.
func (p *Parser) kimiHeader() bool {
	before := p.buf
	id, mark, more := p.until(kimiArgs)
	if more {
		return false
	}
	id = strings.TrimSpace(id)
	name := strings.TrimPrefix(id, "functions.")
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[:i]
	}
	if mark == "" || !plainName(name) {
		p.buf = before
		return p.notACall("")
	}
	p.begin(name, id)
	p.state = (*Parser).bareArgs
	return true
}
