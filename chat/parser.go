package chat

import (
	"errors"
	"strings"
)

// EventKind says what an [Event] is.
type EventKind int

const (
	ContentEvent   EventKind = iota // Text is part of the answer
	ReasoningEvent                  // Text is part of the reasoning
	ToolCallStart                   // call number Call begins; Name, and ID if the format writes it first
	ToolCallArgs                    // Text is part of the call's arguments, a JSON object
	ToolCallEnd                     // the call ends; ID if the format writes one; Err if it was cut off or malformed
)

// Event is a piece of an answer.
type Event struct {
	Kind     EventKind
	Text     string
	Call     int // counts from 0
	Name, ID string
	Err      error
}

// ErrToolCall is the error of a tool call whose arguments end early or are malformed.
var ErrToolCall = errors.New("chat: malformed or incomplete tool call")

// ParserOptions are the options of [NewParser].
type ParserOptions struct {
	// Tools were offered; without any, nothing is a call. Their schemas tell strings from other values in syntaxes that
	// write arguments as text.
	Tools     []Tool
	Reasoning bool // the prompt ends inside of reasoning, see [Prompt.InReasoning]
}

// Bounds of a [Parser]. What exceeds them is content.
const (
	maxHeader = 1 << 10 // bytes of a call's name or a channel's header
	maxCall   = 1 << 20 // bytes of one call
	maxSpace  = 1 << 12 // bytes of white space in a row that a section's edge takes away
)

// Parser reads an answer piece by piece and tells content, reasoning and tool
// calls apart. The events do not depend on how the text is cut, but for the
// length of the texts: texts of one kind in a row add up to the same. It takes
// time linear in the text. White space beside reasoning and tool calls is left
// out. What looks like a call and is none is content.
//
// A Parser belongs to one goroutine.
type Parser struct {
	f      Format
	syntax *syntax
	o      ParserOptions
	state  func(p *Parser) bool // reads from buf; false: it needs more
	buf    string               // not read yet
	closed bool
	events []Event

	trim  bool   // white space is left out up to the next character
	space []byte // white space at the end of the text so far
	run   int    // its length, also where it was too long to be held back

	calls    int // begun so far
	started  bool
	call     *callReader
	array    bool   // calls are items of a list
	raw      string // what to fall back to: the mark in front of a call, the white space behind it
	header   string // harmony
	body     EventKind
	tagged   taggedReader
	searched int // bytes of buf in which an end tag was not found
}

// NewParser returns a parser for one answer.
func NewParser(f Format, o ParserOptions) *Parser {
	p := &Parser{f: f, syntax: f.Syntax.of(), o: o, state: (*Parser).start}
	switch {
	case p.syntax.first != nil:
		p.state = p.syntax.first
	case o.Reasoning && f.ThinkEnd != "":
		p.state, p.trim = (*Parser).reasoning, true
	}
	return p
}

// Push reads the next piece of the answer. The events are valid until the next call.
func (p *Parser) Push(text string) []Event {
	p.events = p.events[:0]
	if p.buf += text; p.buf != "" {
		for p.state(p) {
		}
	}
	return p.events
}

// Close ends the answer.
func (p *Parser) Close() []Event {
	p.events = p.events[:0]
	p.closed = true
	for p.state(p) {
	}
	p.flushSpace(ContentEvent)
	return p.events
}

// add appends an event; texts of one kind in a row become one.
func (p *Parser) add(e Event) {
	if n := len(p.events) - 1; n >= 0 && e.Kind != ToolCallStart && e.Kind != ToolCallEnd &&
		p.events[n].Kind == e.Kind && p.events[n].Call == e.Call {
		p.events[n].Text += e.Text
		return
	}
	p.events = append(p.events, e)
}

// text passes on content or reasoning; white space at its end is held back.
func (p *Parser) text(kind EventKind, s string) {
	if p.trim {
		if s = strings.TrimLeft(s, " \n\t\r"); s == "" {
			return
		}
		p.trim = false
	}
	t := strings.TrimRight(s, " \n\t\r")
	if t != "" {
		p.flushSpace(kind)
		p.run = 0
		p.add(Event{Kind: kind, Text: t})
	}
	tail := s[len(t):]
	p.run += len(tail)
	p.space = append(p.space, tail...)
	if p.run > maxSpace {
		p.flushSpace(kind)
	}
}

func (p *Parser) flushSpace(kind EventKind) {
	if len(p.space) > 0 {
		p.add(Event{Kind: kind, Text: string(p.space)})
		p.space = p.space[:0]
	}
}

// edge is called between sections: white space on both sides is left out.
func (p *Parser) edge() {
	p.space, p.run, p.trim = p.space[:0], 0, true
}

// scan passes on text up to the first of marks, which it reads and returns. It
// returns "" if more text is needed, or the answer has ended.
func (p *Parser) scan(kind EventKind, marks ...string) string {
	at, found := len(p.buf), ""
	for _, m := range marks {
		if k := strings.Index(p.buf, m); k >= 0 && k < at {
			at, found = k, m
		}
	}
	if found == "" && !p.closed {
		at = len(p.buf) - held(p.buf, marks)
	}
	p.text(kind, p.buf[:at])
	p.buf = p.buf[at+len(found):]
	return found
}

// held returns how many bytes at the end of s begin one of marks.
func held(s string, marks []string) int {
	for i := max(0, len(s)-maxMark); i < len(s); i++ {
		for _, m := range marks {
			if strings.HasPrefix(m, s[i:]) {
				return len(s) - i
			}
		}
	}
	return 0
}

// maxMark is longer than any mark.
const maxMark = 64

// skipSpace reads white space and returns whether anything follows. It is kept
// in p.raw, to be content if what follows is no call.
func (p *Parser) skipSpace() bool {
	rest := strings.TrimLeft(p.buf, " \n\t\r")
	if n := len(p.buf) - len(rest); len(p.raw) < maxCall {
		p.raw += p.buf[:n]
	}
	p.buf = rest
	return rest != ""
}

// oneOf reads one of marks. more says that the text could still become one.
func (p *Parser) oneOf(marks ...string) (found string, more bool) {
	for _, m := range marks {
		if strings.HasPrefix(p.buf, m) {
			p.buf = p.buf[len(m):]
			return m, false
		}
		more = more || !p.closed && strings.HasPrefix(m, p.buf)
	}
	return "", more
}

// peek says whether the text begins with one of marks, or could still.
func (p *Parser) peek(marks ...string) (found, more bool) {
	for _, m := range marks {
		found = found || strings.HasPrefix(p.buf, m)
		more = more || !p.closed && len(p.buf) < len(m) && strings.HasPrefix(m, p.buf)
	}
	return found, more
}

// until reads up to one of marks, within maxHeader bytes. more says that it
// may still come.
func (p *Parser) until(marks ...string) (text, mark string, more bool) {
	at := -1
	for _, m := range marks {
		if k := strings.Index(p.buf[:min(len(p.buf), maxHeader)], m); k >= 0 && (at < 0 || k < at) {
			at, mark = k, m
		}
	}
	if at < 0 {
		return "", "", !p.closed && len(p.buf) < maxHeader
	}
	text = p.buf[:at]
	p.buf = p.buf[at+len(mark):]
	return text, mark, false
}

// upTo reads up to mark. What was searched before is searched again only where the mark may have been cut.
func (p *Parser) upTo(mark string) (text string, found bool) {
	from := max(0, p.searched-len(mark))
	i := strings.Index(p.buf[min(from, len(p.buf)):], mark)
	if i < 0 {
		p.searched = len(p.buf)
		return "", false
	}
	i += from
	p.searched = 0
	text = p.buf[:i]
	p.buf = p.buf[i+len(mark):]
	return text, true
}

// start is the beginning of an answer: reasoning, a call in plain JSON, or text.
func (p *Parser) start() bool {
	rest := strings.TrimLeft(p.buf, " \n\t\r")
	if rest == "" && !p.closed {
		// The white space is content, unless a section follows.
		p.text(ContentEvent, p.buf)
		p.buf = ""
		return false
	}
	p.text(ContentEvent, p.buf[:len(p.buf)-len(rest)])
	p.buf = rest
	if m := p.f.ThinkStart; m != "" && rest != "" {
		found, more := p.oneOf(m)
		if more {
			return false
		}
		if found != "" {
			p.edge()
			p.state = (*Parser).reasoning
			return true
		}
	}
	p.state = (*Parser).content
	if p.syntax.bare && len(p.o.Tools) > 0 && rest != "" && (rest[0] == '{' || rest[0] == '[') {
		p.raw = ""
		p.state = (*Parser).calls0
	}
	return true
}

func (p *Parser) reasoning() bool {
	if p.scan(ReasoningEvent, p.f.ThinkEnd) == "" {
		if p.closed {
			p.edge()
		}
		return false
	}
	p.edge()
	p.state = (*Parser).start
	return true
}

func (p *Parser) content() bool {
	var marks []string
	if len(p.o.Tools) > 0 {
		marks = p.syntax.open
	}
	m := p.scan(ContentEvent, marks...)
	if m == "" {
		return false
	}
	p.raw = m
	p.state = (*Parser).calls0
	if p.syntax.begin != nil {
		p.syntax.begin(p, m)
	}
	return true
}

// notACall makes content of what was read as a call, and goes on with content.
func (p *Parser) notACall(read string) bool {
	p.text(ContentEvent, p.raw+read)
	p.raw, p.call, p.array = "", nil, false
	p.state = (*Parser).content
	return true
}
