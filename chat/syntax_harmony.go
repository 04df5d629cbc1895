package chat

import (
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

var harmony = syntax{
	name:   SyntaxHarmony,
	detect: func(has func(string) bool, _ *Format) bool { return has(harmonyChannel) && has(harmonyMessage) },
	marks: []string{
		harmonyChannel, harmonyMessage, harmonyStart, harmonyEnd, harmonyCall, harmonyReturn, harmonyConstrain,
	},
	ends:     []string{harmonyReturn, harmonyCall},
	first:    (*Parser).harmonyHeader,
	channels: true,
	call: func(_ *Format, tool string, args *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(o.mark(harmonyChannel)+"commentary to=functions."+tool+" "+
			o.mark(harmonyConstrain)+"json"+o.mark(harmonyMessage)), args)
	},
	calls: func(_ *Format, call *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
		return call // its end mark ends the answer
	},
	around:   (*Format).harmonyMessages,
	required: true,
}

// harmonyMessages is messages of reasoning and then one that is a text of g.
func (f *Format) harmonyMessages(g *grammar.Grammar, calls bool, o *GrammarOptions) *grammar.Grammar {
	header := func(channel string) *grammar.Grammar {
		return grammar.Text(o.mark(harmonyChannel) + channel + o.mark(harmonyMessage))
	}
	if !calls {
		g = grammar.Sequence(header("final"), g)
	}
	analysis := grammar.Sequence(header("analysis"), grammar.Until(o.mark(harmonyEnd)),
		grammar.Text(o.mark(harmonyStart)+"assistant"))
	return grammar.Sequence(grammar.Repeat(analysis, 0, 1), g)
}

// Harmony: an answer is messages, each with a header, <|message|>, a body and
// <|end|>, <|call|> or <|return|>. The prompt has begun the first header.
func (p *Parser) harmonyHeader() bool {
	header, mark, more := p.until(harmonyMessage)
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
	_, channel, _ := strings.Cut(header, harmonyChannel)
	channel = strings.TrimSpace(channel)
	if k := strings.IndexAny(channel, " <"); k >= 0 {
		channel = channel[:k]
	}
	switch _, to, ok := strings.Cut(header, "to="); {
	case ok && len(p.o.Tools) > 0:
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

var harmonyEnds = []string{harmonyEnd, harmonyCall, harmonyReturn, harmonyStart}

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
	if mark == harmonyStart {
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
		p.state, p.body = (*Parser).harmonyBody, ContentEvent
	}
	return true
}
