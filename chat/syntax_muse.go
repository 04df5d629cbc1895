package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxMuse: messages of Muse Glimmer, to itself, to the user or to a tool. A call is a message to its tool, with
// <atem:function_calls><atem:invoke name="f"><atem:parameter name="a">…</atem:parameter></atem:invoke>
// </atem:function_calls> in it.
const SyntaxMuse Syntax = "muse"

const (
	museStart   = "<|start|>"
	museMessage = "<|message|>"
	museEnd     = "<|eom|>" // of a message: the turn goes on with another one
	museTurnEnd = "<|eot|>"
	museSelf    = "self"
	museUser    = "user"

	museCalls        = "<atem:function_calls>"
	museCallsEnd     = "</atem:function_calls>"
	museInvoke       = `<atem:invoke name="`
	museInvokeEnd    = "</atem:invoke>"
	museParameter    = `<atem:parameter name="`
	museParameterEnd = "</atem:parameter>"
)

var (
	museMarks = []string{museStart, museMessage, museEnd, museTurnEnd, museCalls, museCallsEnd}
	museEnds  = []string{museEnd, museTurnEnd, museStart} // of a message's text
)

var muse = syntax{
	name:     SyntaxMuse,
	detect:   func(has func(string) bool, _ *Format) bool { return has(museCalls) && has(museEnd) },
	marks:    museMarks,
	ends:     []string{museTurnEnd},
	first:    (*Parser).museHeader,
	next:     (*Parser).museSkip,
	channels: &channels{thought: " to=" + museSelf + museMessage, body: (*Parser).museText},
	tags: &tags{
		call: museInvoke, nameEnd: `">`, sectionEnds: []string{museCallsEnd}, callEnd: museInvokeEnd,
		argument: museParameter, keyEnd: `">`, valueEnd: museParameterEnd,
		writeCall: func(_ *Format, tool string, o *ToolGrammarOptions) (begin, end string) {
			return museTo(tool, &o.GrammarOptions) + o.mark(museCalls) + "\n" + museInvoke + tool + "\">\n",
				museInvokeEnd + "\n" + o.mark(museCallsEnd)
		},
		writeArgument: func(_ *Format, name string, _ bool, _ *ToolGrammarOptions) (begin, end, behind string) {
			return museParameter + name + `">`, museParameterEnd, "\n"
		},
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, "", museNext(&o.GrammarOptions), "", o)
	},
	around: (*Format).museMessages,
	asleep: func(_ *Format, calls *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		answer := grammar.Sequence(grammar.Text(museTo(museUser, &o.GrammarOptions)), museFree(&o.GrammarOptions))
		after := grammar.Sequence(grammar.Text(museNext(&o.GrammarOptions)), calls)
		return grammar.Choice(calls, grammar.Sequence(answer, grammar.Repeat(after, 0, 1)))
	},
}

// museMessages is messages of reasoning and then one that is a text of g.
func (f *Format) museMessages(g *grammar.Grammar, calls bool, o *GrammarOptions) *grammar.Grammar {
	if !calls {
		g = grammar.Sequence(grammar.Text(museTo(museUser, o)), g)
	}
	thought := grammar.Sequence(grammar.Text(museTo(museSelf, o)), museFree(o), grammar.Text(museNext(o)))
	return grammar.Sequence(grammar.Repeat(thought, 0, -1), g)
}

// museTo is the rest of a header that the prompt has begun, museFree a text without marks of messages, and museNext
// what stands between two messages.
func museTo(recipient string, o *GrammarOptions) string {
	return " to=" + recipient + o.mark(museMessage)
}

func museFree(o *GrammarOptions) *grammar.Grammar {
	var marks []string
	for _, m := range append([]string{museMessage}, museEnds...) {
		marks = append(marks, o.mark(m))
	}
	return grammar.Without(marks...)
}

func museNext(o *GrammarOptions) string { return o.mark(museEnd) + o.mark(museStart) + "assistant" }

// museHeaderOf is the header at a text's beginning: <|start|>assistant to=f<|message|>, of which only the last mark
// must be there. size 0: there is none; more: the text may become one.
func museHeaderOf(text string) (to string, size int, more bool) {
	rest := text
	for _, part := range [...]string{museStart, "assistant", "to="} {
		if rest = strings.TrimLeft(rest, " \n"); strings.HasPrefix(part, rest) && rest != part {
			return "", 0, true
		}
		after, ok := strings.CutPrefix(rest, part)
		if rest = after; ok && part == "to=" {
			end := strings.IndexAny(rest, " \n<")
			if end < 0 {
				return rest, 0, true
			}
			to, rest = rest[:end], strings.TrimLeft(rest[end:], " \n")
		}
	}
	if after, ok := strings.CutPrefix(rest, museMessage); ok {
		return to, len(text) - len(after), false
	}
	return to, 0, strings.HasPrefix(museMessage, rest)
}

// museHeader reads a message's header. The prompt has begun the first one.
func (p *Parser) museHeader() bool {
	to, size, more := museHeaderOf(p.buf)
	p.state = (*Parser).museText
	switch begun := strings.TrimSpace(p.buf); {
	case more && !p.closed && len(p.buf) <= maxHeader:
		p.state = (*Parser).museHeader
		return false
	case more && p.closed && len(p.o.Tools) > 0 && to != "" && !strings.HasPrefix(museSelf, to) &&
		!strings.HasPrefix(museUser, to): // the answer ended within a header
		return p.cutCall()
	case more && p.closed && (begun == "" || strings.Contains(begun, "to=") || strings.HasPrefix(begun, museStart[:2]) ||
		strings.HasPrefix(begun, "assistant")):
		p.buf = ""
		return false
	case size == 0: // a message without
		p.body = ContentEvent
		return p.buf != ""
	}
	header := p.buf[:size]
	p.buf = p.buf[size:]
	p.edge()
	p.trim = false
	forUser := to == museUser || to == ""
	p.beginContent(forUser)
	switch {
	case to == museSelf && p.o.Inline:
		p.body = ContentEvent
		p.text(ContentEvent, header)
		p.kept = true
	case to == museSelf:
		p.body = ReasoningEvent
	case forUser:
		p.body = ContentEvent
	case len(p.o.Tools) > 0:
		p.state = (*Parser).museCalls
	default: // nobody offered the tool
		return p.notACall("")
	}
	return true
}

// museText reads a message to the user, or of reasoning.
func (p *Parser) museText() bool {
	mark := ""
	if p.body == ContentEvent {
		mark = p.scanContent(museEnds...)
	} else {
		mark = p.scan(p.body, museEnds...)
	}
	if mark != "" || p.closed {
		p.flushSpace(p.body)
	}
	if mark == "" {
		return false
	}
	if p.kept {
		p.text(ContentEvent, museEnd)
		p.kept = false
	}
	p.state = (*Parser).museHeader
	return true
}

// museCalls is the beginning of a message to a tool.
func (p *Parser) museCalls() bool {
	if !p.skipSpace() || p.cutIn(museCalls) {
		if p.closed {
			return p.cutCall()
		}
		return false
	}
	p.raw = ""
	if _, more := p.oneOf(museCalls); more {
		return false
	}
	p.taggedSection()
	return true
}

// museSkip passes over what stands behind calls, and over a message that is for nobody.
func (p *Parser) museSkip() bool {
	at := len(p.buf)
	for _, m := range museEnds {
		if k := strings.Index(p.buf, m); k >= 0 {
			at = min(at, k)
		}
	}
	if at == len(p.buf) {
		p.buf = p.buf[at-held(p.buf, museEnds):]
		return false
	}
	p.buf = p.buf[at:]
	for _, m := range museEnds {
		p.buf = strings.TrimPrefix(p.buf, m)
	}
	p.edge()
	p.state = (*Parser).museHeader
	return true
}
