package chat

import "strings"

// mistral reads what follows [TOOL_CALLS]: a list of calls, or a name and
// [ARGS] and arguments, with an id before [ARGS] in some versions.
func (p *Parser) mistral() bool {
	if !p.skipSpace() {
		if p.closed {
			return p.notACall("")
		}
		return false
	}
	if c := p.buf[0]; c == '[' || c == '{' {
		if p.buf[0] == '[' {
			if _, more := p.peek("[ARGS]", "[CALL_ID]"); more {
				return false
			}
		}
		p.state = (*Parser).calls0
		return true
	}
	before := p.buf
	name, mark, more := p.until("[CALL_ID]", "[ARGS]", "{")
	if more {
		return false
	}
	id := ""
	if mark == "[CALL_ID]" {
		if id, mark, more = p.until("[ARGS]"); more {
			p.buf = before
			return false
		}
	}
	if name = strings.TrimSpace(name); mark == "" || name == "" || strings.ContainsAny(name, " \n\t\r") {
		p.buf = before
		return p.notACall("")
	}
	if mark == "{" {
		p.buf = "{" + p.buf
	}
	p.begin(name, strings.TrimSpace(id))
	p.state = (*Parser).bareArgs
	return true
}

// peek says whether the text begins with one of marks, or could still.
func (p *Parser) peek(marks ...string) (found, more bool) {
	for _, m := range marks {
		found = found || strings.HasPrefix(p.buf, m)
		more = more || !p.closed && len(p.buf) < len(m) && strings.HasPrefix(m, p.buf)
	}
	return found, more
}

// deepseekBetween is before, between and after the calls of one answer.
func (p *Parser) deepseekBetween() bool {
	if !p.skipSpace() {
		if p.closed {
			p.raw = ""
		}
		return false
	}
	switch m, more := p.oneOf(deepseekCall, deepseekEnd, deepseekCallEnd, "```"); {
	case more:
		return false
	case m == deepseekCall:
		p.raw += m
		p.state = (*Parser).deepseekHeader
	case m == deepseekEnd:
		p.raw = ""
		p.state = (*Parser).content
	case m != "":
		p.raw = ""
	default:
		return p.notACall("")
	}
	return true
}

// deepseekHeader reads a call's name: "function", the separator, the name and
// a line ```json, or, since V3.1, the name and the separator.
func (p *Parser) deepseekHeader() bool {
	before := p.buf
	name, mark, more := p.until(deepseekSep)
	if more {
		return false
	}
	name = strings.TrimSpace(name)
	if mark != "" && name == "function" {
		if name, mark, more = p.until("```json"); more {
			p.buf = before
			return false
		}
		name = strings.TrimSpace(name)
	}
	if mark == "" || name == "" || strings.ContainsAny(name, " \n\t\r") {
		p.buf = before
		return p.notACall("")
	}
	p.begin(name, "")
	p.state = (*Parser).bareArgs
	return true
}

// Harmony: an answer is messages, each with a header, <|message|>, a body and
// <|end|>, <|call|> or <|return|>. The prompt has begun the first header.
func (p *Parser) harmonyHeader() bool {
	header, mark, more := p.until("<|message|>")
	if more {
		return false
	}
	if mark == "" { // no header: an answer without channels
		p.state, p.body = (*Parser).harmonyBody, ContentEvent
		return p.buf != ""
	}
	p.edge()
	p.trim = false
	p.state = (*Parser).harmonyBody
	_, channel, _ := strings.Cut(header, "<|channel|>")
	channel = strings.TrimSpace(channel)
	if k := strings.IndexAny(channel, " <"); k >= 0 {
		channel = channel[:k]
	}
	switch _, to, ok := strings.Cut(header, "to="); {
	case ok && p.o.Tools:
		if k := strings.IndexAny(to, " <\n"); k >= 0 {
			to = to[:k]
		}
		if name := strings.TrimPrefix(to, "functions."); name != "" {
			p.begin(name, "")
		}
		p.body = ToolCallArgs
		if !p.started {
			p.body = ContentEvent
		}
	case channel == "analysis":
		p.body = ReasoningEvent
	default:
		p.body = ContentEvent
	}
	return true
}

var harmonyEnds = []string{"<|end|>", "<|call|>", "<|return|>", "<|start|>"}

func (p *Parser) harmonyBody() bool {
	mark := ""
	if p.body != ToolCallArgs {
		mark = p.scan(p.body, harmonyEnds...)
		if mark != "" || p.closed {
			p.flushSpace(p.body)
		}
	} else {
		mark = p.harmonyArgs()
	}
	if mark == "" {
		return false
	}
	p.state = (*Parser).harmonyNext
	if mark == "<|start|>" {
		p.state = (*Parser).harmonyHeader
	}
	return true
}

// harmonyArgs passes on arguments as they are, and checks them.
func (p *Parser) harmonyArgs() string {
	at, mark := len(p.buf), ""
	for _, m := range harmonyEnds {
		if k := strings.Index(p.buf, m); k >= 0 && k < at {
			at, mark = k, m
		}
	}
	if mark == "" && !p.closed {
		at -= held(p.buf, harmonyEnds)
	}
	if p.call == nil {
		p.call = &callReader{}
	}
	for i := range at {
		if p.call.sent == 0 && !p.call.scan.next(p.buf[i]) {
			p.call.sent = i + 1 // malformed
		}
	}
	p.args(p.buf[:at])
	p.buf = p.buf[at+len(mark):]
	if mark != "" || p.closed {
		var err error
		if p.call.sent > 0 || !p.call.scan.done() {
			err = ErrToolCall
		}
		p.end("", err)
		p.call = nil
	}
	return mark
}

// harmonyNext skips to the next message.
func (p *Parser) harmonyNext() bool {
	if !p.skipSpace() {
		return false
	}
	p.raw = ""
	m, more := p.oneOf(append([]string{"<|channel|>"}, harmonyEnds...)...)
	switch {
	case more:
		return false
	case m == "<|start|>":
		p.state = (*Parser).harmonyHeader
	case m == "<|channel|>":
		p.buf = m + p.buf
		p.state = (*Parser).harmonyHeader
	case m == "":
		p.state, p.body = (*Parser).harmonyBody, ContentEvent
	}
	return true
}
