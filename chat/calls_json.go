package chat

import (
	"encoding/json"
	"slices"
	"strings"
)

// begin, args and end report a call.
func (p *Parser) begin(name, id string) {
	p.edge()
	p.calls++
	p.started = true
	if p.late == lateReading {
		p.late = lateHeld
	}
	p.add(Event{Kind: ToolCallStart, Call: p.calls - 1, Name: name, ID: id})
}

func (p *Parser) args(s string) {
	if s != "" {
		p.add(Event{Kind: ToolCallArgs, Call: p.calls - 1, Text: s})
	}
}

func (p *Parser) end(id string, err error) {
	p.add(Event{Kind: ToolCallEnd, Call: p.calls - 1, ID: id, Err: err})
	p.started = false
	p.raw = ""
}

// calls0 reads the beginning of one call, or of a list of them.
func (p *Parser) calls0() bool {
	if !p.skipSpace() {
		if p.closed {
			return p.cutCall()
		}
		return false
	}
	p.array = p.buf[0] == '['
	if p.array {
		p.raw += "["
		p.buf = p.buf[1:]
	}
	p.state = (*Parser).callObject
	return true
}

// callObject reads one call, an object with a name and arguments.
func (p *Parser) callObject() bool {
	if p.call == nil {
		if !p.skipSpace() {
			switch {
			case p.closed && p.bareText():
				return p.notACall("")
			case p.closed:
				return p.cutCall()
			}
			return false
		}
		if p.buf[0] != '{' {
			return p.notACall("")
		}
		p.call = &callReader{keys: p.syntax.keys}
	}
	n, status := p.call.read(p, p.buf)
	p.buf = p.buf[n:]
	switch {
	case status == callDone:
		p.end(p.call.id, nil)
		p.call = nil
		p.state = (*Parser).afterCall
		return true
	case status == callBad || p.closed:
		if p.started {
			p.end(p.call.id, ErrToolCall)
			p.call, p.array = nil, false
			p.state = (*Parser).content
			return true
		}
		if status == callBad || p.bareText() && !offers(p.o.Tools, p.call.name) {
			return p.notACall(string(p.call.raw))
		}
		if p.call.name == "" {
			return p.cutCall()
		}
		p.begin(p.call.name, p.call.id)
		p.end(p.call.id, ErrToolCall)
		p.edge()
		p.call, p.array = nil, false
		p.state = (*Parser).content
		return true
	}
	return false
}

// bareText reports whether no mark has said that a call begins.
func (p *Parser) bareText() bool { return p.syntax.bare && strings.TrimLeft(p.raw, "[ \n\t\r,") == "" }

// mayCall reports whether an object of JSON with a name is a call. Where no mark says that one begins, the first must
// name a tool: {"name": "Alice"} is an answer.
func (p *Parser) mayCall(name string) bool {
	return p.calls > 0 || !p.bareText() || offers(p.o.Tools, name)
}

func offers(tools []Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name })
}

// afterCall reads what may stand behind a call.
func (p *Parser) afterCall() bool {
	if !p.skipSpace() {
		if p.closed {
			p.raw = ""
		}
		return false
	}
	if p.array {
		switch p.buf[0] {
		case ',':
			p.raw, p.buf = ",", p.buf[1:]
			p.state = (*Parser).callObject
			return true
		case ']':
			p.raw, p.buf = "", p.buf[1:]
			p.array = false
			return true
		}
		p.array = false
	}
	p.state = (*Parser).content
	switch {
	case p.syntax.bare:
		p.buf = strings.TrimPrefix(p.buf, ";")
		p.state = (*Parser).start
	case p.syntax.close != "":
		if _, more := p.oneOf(p.syntax.close); more {
			p.state = (*Parser).afterCall
			return false
		}
	}
	p.raw = ""
	return true
}

type callStatus int

const (
	callMore callStatus = iota
	callDone
	callBad
)

// callReader reads a call such as {"name": "f", "arguments": {…}}.
type callReader struct {
	keys     callKeys
	scan     jsonScan
	raw      []byte // everything read
	key      string // of the value being read
	from     int    // where the key or value being read begins
	inValue  bool
	name, id string
	wrapped  string // the object "function", where a call is written as OpenAI's API has it
	hasArgs  bool
	held     string // arguments that came before the name
	stream   bool   // the value being read is arguments that are passed on
	sent     int    // how far
}

// read takes bytes of s and returns how many.
func (c *callReader) read(p *Parser, s string) (int, callStatus) {
	for i := range len(s) {
		if len(c.raw) >= maxCall {
			c.flush(p)
			return i, callBad
		}
		b := s[i]
		at := len(c.raw)
		top := len(c.scan.stack) == 1
		before := c.scan.state
		if !c.scan.next(b) {
			c.flush(p)
			return i, callBad
		}
		c.raw = append(c.raw, b)
		now := c.scan.state
		switch {
		case !c.inValue && top && now == scanString && c.scan.key &&
			before != scanString && before != scanEscape && before != scanHex:
			c.from = at
		case !c.inValue && top && now == scanColon && before == scanString:
			if json.Unmarshal(c.raw[c.from:], &c.key) != nil {
				return i + 1, callBad
			}
		case !c.inValue && top && before == scanValue && !isJSONSpace(b):
			c.inValue, c.from = true, at
			if !c.begin(p, b) {
				return i + 1, callBad
			}
		}
		// A number ends in front of the byte behind it, other values with their last.
		ended := c.inValue &&
			(now == scanAfter && len(c.scan.stack) == 1 || top && (now == scanKey || len(c.scan.stack) == 0))
		if ended {
			c.inValue = false
			end := len(c.raw)
			if b := c.raw[c.from]; b == '-' || b >= '0' && b <= '9' {
				end--
			}
			if !c.value(p, string(c.raw[c.from:end])) {
				return i + 1, callBad
			}
		}
		if c.scan.done() {
			return i + 1, c.finish(p)
		}
	}
	c.flush(p)
	return len(s), callMore
}

func (c *callReader) isArgs() bool {
	return c.keys.keyed || c.key == "arguments" || c.key == "parameters"
}

func (c *callReader) isName() bool { return c.key == "name" || c.key == c.keys.name && c.key != "" }

func (c *callReader) isID() bool { return c.key == "id" || c.key == c.keys.id && c.key != "" }

// begin is called at the first byte of a value.
func (c *callReader) begin(p *Parser, b byte) bool {
	if !c.isArgs() {
		return true
	}
	if c.hasArgs || b != '{' && b != '"' && b != 'n' {
		return false
	}
	c.hasArgs = true
	if c.keys.keyed {
		if b != '{' || c.key == "" || len(c.key) > maxHeader {
			return false
		}
		c.name = c.key
	}
	if c.name != "" && !p.mayCall(c.name) {
		return false
	}
	if b == '{' && c.name != "" {
		p.begin(c.name, c.id)
		c.stream, c.sent = true, c.from
	}
	return true
}

// value is called with a complete value.
func (c *callReader) value(p *Parser, raw string) bool {
	switch {
	case c.isArgs() && c.stream:
		c.flush(p)
		c.stream = false
	case c.isName():
		return c.name == "" && json.Unmarshal([]byte(raw), &c.name) == nil && c.name != "" && len(c.name) <= maxHeader
	case c.isID():
		if json.Unmarshal([]byte(raw), &c.id) != nil || len(c.id) > maxHeader { // a number, say
			c.id = ""
		}
	case !c.keys.keyed && c.key == "function" && raw[0] == '{':
		c.wrapped = raw
	case c.isArgs():
		switch raw[0] {
		case '"':
			if json.Unmarshal([]byte(raw), &c.held) != nil {
				return false
			}
			if strings.TrimSpace(c.held) == "" { // of a function without any
				c.held = ""
			} else if !isObject(c.held) {
				return false
			}
		case '{':
			c.held = raw
		}
	}
	return true
}

// unwrap takes the call out of {"type": "function", "function": {"name": …, "parameters": {…}}}.
func (c *callReader) unwrap() {
	var f struct {
		Name                  string
		Arguments, Parameters json.RawMessage
	}
	if c.name != "" || json.Unmarshal([]byte(c.wrapped), &f) != nil || len(f.Name) > maxHeader {
		return
	}
	args := string(f.Arguments)
	if args == "" {
		args = string(f.Parameters)
	}
	if strings.HasPrefix(args, `"`) && json.Unmarshal([]byte(args), &args) != nil {
		return
	}
	if args = strings.TrimSpace(args); args == "" || args == "null" {
		args = "{}"
	}
	if isObject(args) {
		c.name, c.held = f.Name, args
	}
}

func isObject(s string) bool {
	s = strings.TrimLeft(s, " \n\t\r")
	return strings.HasPrefix(s, "{") && json.Valid([]byte(s))
}

func (c *callReader) flush(p *Parser) {
	if c.stream {
		p.args(string(c.raw[c.sent:]))
		c.sent = len(c.raw)
	}
}

func (c *callReader) finish(p *Parser) callStatus {
	if p.started {
		return callDone
	}
	if c.unwrap(); c.name == "" || !p.mayCall(c.name) {
		return callBad
	}
	if c.held == "" {
		c.held = "{}"
	}
	p.begin(c.name, c.id)
	p.args(c.held)
	return callDone
}

// bareArgs reads arguments that stand by themselves, one JSON object.
func (p *Parser) bareArgs() bool {
	if p.call == nil {
		p.call = &callReader{}
	}
	for i := range len(p.buf) {
		c := p.call
		b := p.buf[i]
		if len(c.raw) == 0 && isJSONSpace(b) {
			continue
		}
		if len(c.raw) >= maxCall || len(c.raw) == 0 && b != '{' || !c.scan.next(b) {
			return p.bareEnd(i, ErrToolCall)
		}
		c.raw = append(c.raw, b)
		if c.scan.done() {
			return p.bareEnd(i+1, nil)
		}
	}
	p.args(string(p.call.raw[p.call.sent:]))
	p.call.sent = len(p.call.raw)
	p.buf = ""
	if p.closed {
		return p.bareEnd(0, ErrToolCall)
	}
	return false
}

func (p *Parser) bareEnd(n int, err error) bool {
	p.args(string(p.call.raw[p.call.sent:]))
	p.end("", err)
	p.buf = p.buf[n:]
	p.call = nil
	p.state = (*Parser).content
	if err == nil && p.syntax.between != nil {
		p.state = p.syntax.between
	}
	return true
}

// sectionBetween is before, between and after the calls of a section: the mark of a call, behind which header reads
// on, the mark of the section's end, and others that are passed over.
func (p *Parser) sectionBetween(header func(*Parser) bool, call, end string, others ...string) bool {
	first := strings.TrimSpace(p.raw) != "" // no call was read in this section
	if !p.skipSpace() {
		switch {
		case p.closed && first:
			return p.cutCall()
		case p.closed:
			p.raw = ""
		}
		return false
	}
	if p.cutIn(append([]string{call, end}, others...)...) {
		if first {
			return p.cutCall()
		}
		p.raw, p.buf = "", ""
		return false
	}
	switch m, more := p.oneOf(append([]string{call, end}, others...)...); {
	case more:
		return false
	case m == "":
		return p.notACall("")
	case m == call:
		p.raw += m
		p.state = header
	case m == end:
		p.raw = ""
		p.state = (*Parser).content
	default:
		p.raw = ""
	}
	return true
}
