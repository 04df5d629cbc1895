package chat

import (
	"errors"
	"slices"
	"strings"
)

// EventKind says what an [Event] is.
type EventKind int

const (
	ContentEvent   EventKind = iota // Text is part of the answer
	ReasoningEvent                  // Text is part of the reasoning
	ToolCallStart                   // call number Call begins; Name, and ID if the format writes it first
	ToolCallArgs                    // Text is part of the call's arguments, a JSON object
	// The call ends; ID if the format writes one; Err if it was cut off or malformed. Without a start: a call was cut off
	// before its name, or nobody can take it.
	ToolCallEnd
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
	Continued bool // the answer goes on with a message that the prompt has begun: white space in front is kept
	// Exact: where calls need no mark an answer is calls only if it begins as [Format.CallBegins] says, and else content,
	// also where it is JSON that names a tool.
	Exact bool
	// JSON: the content is one JSON value, and calls are instead of it: what looks like a mark in its strings is text.
	JSON bool
	// Inline: reasoning stays in the content, with its marks. Opening is what of it the prompt holds ([Prompt.Opening]).
	Inline  bool
	Opening string
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
	unread
	closed bool
	events []Event
	begun  []Event // what the prompt holds of the answer

	trim  bool   // white space is left out up to the next character
	space []byte // white space at the end of the text so far
	run   int    // its length, also where it was too long to be held back

	calls    int // begun so far
	started  bool
	call     *callReader
	array    bool // calls are items of a list
	late     lateCalls
	raw      string // what to fall back to: the mark in front of a call, the white space behind it
	body     EventKind
	kept     bool // the body is reasoning that stays in the content
	tagged   taggedReader
	searched int // bytes of buf in which an end tag was not found
	list     listEnd
	value    *valueScan // content that is to be a JSON value; nil: it is not
	wrapEnd  string     // the mark that ends content which stands between marks; "": it does not
}

// NewParser returns a parser for one answer.
func NewParser(f Format, o ParserOptions) *Parser {
	p := &Parser{f: f, syntax: f.Syntax.of(), o: o, state: (*Parser).start}
	p.beginContent(true)
	switch {
	case o.Reasoning && f.ThinkEnd != "":
		p.state, p.trim = (*Parser).reasoning, !o.Continued && !o.Inline
		if o.Inline && !o.Continued {
			p.text(ContentEvent, o.Opening)
		} else if f.startIsText() && !o.Continued {
			p.text(ReasoningEvent, f.ThinkStart)
		}
	case o.Continued && p.syntax.channels != nil:
		p.state = p.syntax.channels.body
		if o.Reasoning && !o.Inline {
			p.body = ReasoningEvent
		}
	case o.Continued:
		p.state = (*Parser).content
	case p.syntax.first != nil:
		p.state = p.syntax.first
	}
	p.begun, p.events = p.events, nil
	return p
}

// Push reads the next piece of the answer. The events are valid until the next call.
func (p *Parser) Push(text string) []Event {
	p.events, p.begun = append(p.events[:0], p.begun...), nil
	if p.grow(text); p.buf != "" {
		for p.state(p) {
		}
	}
	return p.events
}

// Close ends the answer.
func (p *Parser) Close() []Event {
	p.events, p.begun = append(p.events[:0], p.begun...), nil
	p.closed = true
	for p.state(p) {
	}
	p.flushSpace(ContentEvent)
	return p.events
}

// unread is the text that is not read yet.
type unread struct {
	buf  string
	held strings.Builder // ends with buf, once that was held back
}

// grow appends a piece, in time that grows with the piece: what is held back is in a builder, whose memory what was
// read leaves when it is most of it.
func (u *unread) grow(text string) {
	if u.buf == "" {
		u.buf = text
		return
	}
	if all := u.held.String(); len(all) > 2*len(u.buf)+maxHeader || !strings.HasSuffix(all, u.buf) {
		u.held.Reset()
		u.held.WriteString(u.buf)
	}
	u.held.WriteString(text)
	all := u.held.String()
	u.buf = all[len(all)-len(u.buf)-len(text):]
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

// beginContent is where content begins, which is the request's JSON value if it is the whole answer.
func (p *Parser) beginContent(whole bool) {
	if p.value = nil; whole && p.o.JSON {
		p.value = &valueScan{}
	}
}

// scanContent is scan of content: within the strings of a JSON value nothing is a mark.
func (p *Parser) scanContent(marks ...string) string {
	if p.value == nil {
		return p.scan(ContentEvent, marks...)
	}
	at, mark, half := 0, "", false
	for at < len(p.buf) {
		if !p.value.inString() {
			if mark, half = p.markAt(at, marks); mark != "" || half {
				break
			}
		}
		p.value.next(p.buf[at])
		at++
	}
	p.text(ContentEvent, p.buf[:at])
	p.buf = p.buf[at+len(mark):]
	return mark
}

// markAt is the one of marks at a byte; half: it may become one.
func (p *Parser) markAt(at int, marks []string) (mark string, half bool) {
	rest := p.buf[at:]
	for _, m := range marks {
		if strings.HasPrefix(rest, m) {
			return m, false
		}
		half = half || !p.closed && strings.HasPrefix(m, rest)
	}
	return "", half
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
	if p.f.ThinkStart != "" && rest != "" {
		found, more := p.oneOf(p.f.ThinkStart, p.f.ThinkEnd)
		if more {
			return false
		}
		if found != "" {
			p.thinkMark(found)
			return true
		}
	}
	if p.syntax.lists {
		is, more := p.beginsList()
		if more {
			return false
		}
		if is {
			p.raw, p.state = "", (*Parser).listedCalls
			return true
		}
	}
	calls := p.syntax.bare && len(p.o.Tools) > 0 && rest != "" && (rest[0] == '{' || rest[0] == '[')
	if calls && p.o.Exact && p.calls == 0 {
		var more bool
		if calls, more = p.peek(p.syntax.callBegins(p.o.Tools)...); more && !calls {
			return false
		}
	}
	p.state = (*Parser).content
	if p.syntax.answer != nil {
		p.state = p.syntax.answer
	}
	if calls {
		p.raw = ""
		p.state = (*Parser).calls0
	}
	return true
}

// thinkMark is behind a mark of reasoning outside of it: a section begins, or one ends that never began.
func (p *Parser) thinkMark(mark string) {
	start := mark != p.f.ThinkEnd
	if p.o.Inline {
		p.text(ContentEvent, mark)
	} else {
		p.edge()
		if start && p.f.startIsText() {
			p.text(ReasoningEvent, mark)
		}
	}
	p.state = (*Parser).start
	if start {
		p.state = (*Parser).reasoning
	}
}

func (p *Parser) content() bool {
	var marks []string
	if len(p.o.Tools) > 0 {
		marks = append(marks, p.syntax.open...)
	}
	marks = append(marks, p.syntax.drop...)
	if p.wrapEnd != "" {
		marks = append(marks, p.wrapEnd)
	}
	if p.closed && p.trim && p.calls > 0 && p.cutIn(p.syntax.allMarks()...) {
		p.buf = "" // a mark behind a call was cut off
	}
	if n := p.halfMark(); n > 0 {
		p.text(ContentEvent, p.buf[:len(p.buf)-n])
		return p.cutCall()
	}
	again := p.syntax.thinksAgain && p.f.ThinkStart != ""
	if again {
		marks = append(marks, p.f.ThinkStart, p.f.ThinkEnd)
	}
	m := p.scanContent(marks...)
	switch {
	case m == "":
		return false
	case again && (m == p.f.ThinkStart || m == p.f.ThinkEnd):
		p.thinkMark(m)
		return true
	case m == p.wrapEnd:
		p.wrapEnd = ""
		p.edge()
		return true
	case slices.Contains(p.syntax.drop, m):
		return true
	}
	p.beginCalls(m)
	return true
}

// beginCalls is behind a mark at which calls begin.
func (p *Parser) beginCalls(m string) {
	p.raw = m
	p.state = (*Parser).calls0
	if p.syntax.begin != nil {
		p.syntax.begin(p, m)
	}
}

// notACall makes content of what was read as a call, and goes on with content.
func (p *Parser) notACall(read string) bool {
	if p.syntax.next != nil { // it is not for the user
		p.edge()
		p.add(Event{Kind: ToolCallEnd, Call: p.calls, Err: ErrToolCall})
		p.raw, p.state = "", p.syntax.next
		return true
	}
	kind, state := ContentEvent, (*Parser).content
	if p.late == lateReading {
		kind, state = ReasoningEvent, (*Parser).reasoning
	}
	read = p.raw + read
	for i := 0; kind == ContentEvent && p.value != nil && i < len(read); i++ {
		p.value.next(read[i])
	}
	p.text(kind, read)
	p.raw, p.call, p.array = "", nil, false
	p.state = state
	return true
}

// behindCalls reads on behind calls.
func (p *Parser) behindCalls() func(p *Parser) bool {
	if p.syntax.next != nil {
		return p.syntax.next
	}
	return (*Parser).content
}

// cutCall is where an answer ends in a call whose name is not whole: the call is reported, and no content.
func (p *Parser) cutCall() bool {
	if p.late == lateReading {
		return p.notACall("")
	}
	p.edge()
	p.add(Event{Kind: ToolCallEnd, Call: p.calls, Err: ErrToolCall})
	p.raw, p.call, p.array, p.buf = "", nil, false, ""
	p.state = (*Parser).content
	return false
}

// cutIn reports whether the answer ended within one of marks.
func (p *Parser) cutIn(marks ...string) bool {
	rest := strings.TrimSpace(p.buf)
	return p.closed && slices.ContainsFunc(marks, func(m string) bool { return m != rest && strings.HasPrefix(m, rest) })
}

// halfMark is how many bytes at the answer's end begin a mark of a call, at least half of it. Fewer are content: "<"
// and "fun" are the ends of other texts too.
func (p *Parser) halfMark() int {
	if !p.closed || len(p.o.Tools) == 0 {
		return 0
	}
	n := held(p.buf, p.syntax.open)
	tail := p.buf[len(p.buf)-n:]
	if slices.ContainsFunc(p.syntax.open, func(m string) bool { return strings.HasPrefix(m, tail) && 2*n >= len(m) }) {
		return n
	}
	return 0
}

// cutName reports whether an answer ended in a call's name: what there is begins that of an offered tool.
func (p *Parser) cutName(name string) bool {
	name, _, _ = strings.Cut(strings.TrimSpace(name[:len(name)-held(name, p.syntax.marks)]), "\n")
	return p.closed && slices.ContainsFunc(p.o.Tools, func(t Tool) bool { return strings.HasPrefix(t.Name, name) })
}
