package chat

import (
	"slices"
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxHarmony: the channels of gpt-oss.
const SyntaxHarmony Syntax = "harmony"

const (
	harmonyChannel   = "<|channel|>"
	harmonyMessage   = "<|message|>"
	harmonyStart     = "<|start|>"
	harmonyEnd       = "<|end|>"
	harmonyCall      = "<|call|>"
	harmonyReturn    = "<|return|>"
	harmonyConstrain = "<|constrain|>"
)

var harmonyMarks = []string{
	harmonyChannel, harmonyMessage, harmonyStart, harmonyEnd, harmonyCall, harmonyReturn, harmonyConstrain,
}

var harmony = syntax{
	name:     SyntaxHarmony,
	detect:   func(has func(string) bool, _ *Format) bool { return has(harmonyChannel) && has(harmonyMessage) },
	marks:    harmonyMarks,
	ends:     []string{harmonyReturn, harmonyCall},
	first:    (*Parser).harmonyHeader,
	channels: &channels{thought: harmonyChannel + "analysis" + harmonyMessage, body: (*Parser).harmonyBody},
	call: func(_ *Format, tool string, args *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(o.mark(harmonyChannel)+"commentary to=functions."+tool+" "+
			o.mark(harmonyConstrain)+"json"+o.mark(harmonyMessage)), args)
	},
	calls: func(_ *Format, call *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
		return call // its end mark ends the answer
	},
	around: (*Format).harmonyMessages,
	asleep: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		preamble := harmonyBefore("commentary", &o.GrammarOptions) // what the user is told of a call
		final := grammar.Sequence(harmonyBegin("final", &o.GrammarOptions), harmonyText(&o.GrammarOptions))
		return grammar.Sequence(grammar.Repeat(preamble, 0, 1), grammar.Choice(call, final))
	},
}

// harmonyMessages is messages of reasoning and then one that is a text of g.
func (f *Format) harmonyMessages(g *grammar.Grammar, calls bool, o *GrammarOptions) *grammar.Grammar {
	if !calls {
		g = grammar.Sequence(harmonyBegin("final", o), g)
	}
	return grammar.Sequence(grammar.Repeat(harmonyBefore("analysis", o), 0, 1), g)
}

// harmonyBegin is a header of a channel, harmonyText a body, which has no mark of another message, and harmonyBefore a
// message in front of another one.
func harmonyBegin(channel string, o *GrammarOptions) *grammar.Grammar {
	return grammar.Text(o.mark(harmonyChannel) + channel + o.mark(harmonyMessage))
}

func harmonyText(o *GrammarOptions) *grammar.Grammar {
	marks := slices.Clone(harmonyMarks)
	for i, m := range marks {
		marks[i] = o.mark(m)
	}
	return grammar.Without(marks...)
}

func harmonyBefore(channel string, o *GrammarOptions) *grammar.Grammar {
	return grammar.Sequence(harmonyBegin(channel, o), harmonyText(o), grammar.Text(o.mark(harmonyEnd)+
		o.mark(harmonyStart)+"assistant"))
}

// Harmony: an answer is messages, each with a header, <|message|>, a body and
// <|end|>, <|call|> or <|return|>. The prompt has begun the first header.
func (p *Parser) harmonyHeader() bool {
	header, mark, more := p.until(harmonyMessage)
	if more {
		return false
	}
	if mark == "" && p.closed && harmonyBegun(p.buf) { // the answer ended within a header
		if harmonyRecipient(p.buf) != "" && len(p.o.Tools) > 0 {
			return p.cutCall()
		}
		p.buf = ""
		return false
	}
	if mark == "" { // no header: an answer without channels
		p.state, p.body = (*Parser).harmonyBody, ContentEvent
		return p.buf != ""
	}
	p.edge()
	p.trim = false
	p.state = (*Parser).harmonyBody
	channel := header
	if i := strings.LastIndex(header, harmonyChannel); i >= 0 {
		channel = strings.TrimSpace(header[i+len(harmonyChannel):])
	}
	if k := strings.IndexAny(channel, " <"); k >= 0 {
		channel = channel[:k]
	}
	p.beginContent(channel == "final")
	to := harmonyRecipient(header)
	switch name := strings.TrimPrefix(to, "functions."); {
	case name != "" && len(p.o.Tools) > 0:
		p.begin(name, "")
		p.body = ToolCallArgs
	case to != "":
		// A tool's message is not for the user. Nobody offered the tool, or it has no name.
		p.add(Event{Kind: ToolCallEnd, Call: p.calls, Err: ErrToolCall})
		p.state = (*Parser).harmonySkip
	case channel == "analysis" && p.o.Inline:
		p.body = ContentEvent
		p.text(ContentEvent, header+harmonyMessage)
		p.kept = true
	case channel == "analysis":
		p.body = ReasoningEvent
	default:
		p.body = ContentEvent
	}
	return true
}

// harmonyBegun reports whether a text is the beginning of a header, with its role or, as the first one, without.
func harmonyBegun(text string) bool {
	rest, role := strings.CutPrefix(text, "assistant")
	rest = strings.TrimSpace(rest)
	return role && rest == "" || strings.HasPrefix(rest, harmonyChannel) || strings.HasPrefix(rest, "to=")
}

// harmonyRecipient is the tool that a message goes to, "" if it goes to the user or an assistant.
func harmonyRecipient(header string) string {
	_, to, _ := strings.Cut(header, "to=")
	if k := strings.IndexAny(to, " <\n"); k >= 0 {
		to = to[:k]
	}
	if to == "assistant" || to == "user" || to == "all" {
		return ""
	}
	return to
}

// harmonySkip passes over a message that is for nobody.
func (p *Parser) harmonySkip() bool {
	mark, at := "", len(p.buf)
	for _, m := range harmonyEnds {
		if k := strings.Index(p.buf, m); k >= 0 && k < at {
			at, mark = k, m
		}
	}
	if mark == "" {
		p.buf = p.buf[len(p.buf)-held(p.buf, harmonyEnds):]
		return false
	}
	p.buf = p.buf[at+len(mark):]
	p.state = (*Parser).harmonyNext
	if mark == harmonyStart {
		p.state = (*Parser).harmonyHeader
	}
	return true
}

var harmonyEnds = []string{harmonyEnd, harmonyCall, harmonyReturn, harmonyStart}

func (p *Parser) harmonyBody() bool {
	mark := ""
	if p.body != ToolCallArgs {
		if p.body == ContentEvent {
			mark = p.scanContent(harmonyEnds...)
		} else {
			mark = p.scan(p.body, harmonyEnds...)
		}
		if mark != "" || p.closed {
			p.flushSpace(p.body)
		}
		if mark != "" && p.kept {
			p.text(ContentEvent, harmonyEnd)
			p.kept = false
		}
	} else {
		mark = p.harmonyArgs()
	}
	if mark == "" {
		return false
	}
	p.state = (*Parser).harmonyNext
	if mark == harmonyStart {
		p.state = (*Parser).harmonyHeader
	}
	return true
}

// harmonyArgs passes on arguments as they are, and checks them: they are one object, and an empty one where a call has
// none. A mark within a string of theirs is text.
func (p *Parser) harmonyArgs() string {
	if p.call == nil {
		p.call = &callReader{}
	}
	c, at, mark, half := p.call, 0, "", false
	for at < len(p.buf) {
		if bad := c.sent > 0; bad || !c.scan.inString() {
			if mark, half = p.markAt(at, harmonyEnds); mark != "" || half {
				break
			}
		}
		b := p.buf[at]
		at++
		if !c.hasArgs && !isJSONSpace(b) {
			if c.hasArgs = true; b != '{' {
				c.sent = 1 // malformed
			}
		}
		if c.sent == 0 && !c.scan.next(b) {
			c.sent = 1
		}
	}
	p.args(p.buf[:at])
	p.buf = p.buf[at+len(mark):]
	if mark != "" || p.closed {
		var err error
		switch {
		case mark != "" && !c.hasArgs:
			p.args("{}")
		case c.sent > 0 || !c.scan.done():
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
	m, more := p.oneOf(append([]string{harmonyChannel}, harmonyEnds...)...)
	switch {
	case more:
		return false
	case m == harmonyStart:
		p.state = (*Parser).harmonyHeader
	case m == harmonyChannel:
		p.buf = m + p.buf
		p.state = (*Parser).harmonyHeader
	case m == "":
		p.beginContent(false)
		p.state, p.body = (*Parser).harmonyBody, ContentEvent
	}
	return true
}
