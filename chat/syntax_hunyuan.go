package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxHunyuan: <tool_calls:opensource><tool_call:opensource>f<tool_sep:opensource><arg_key:opensource>…, of Hy3:
// GLM's tags with a suffix, in a section.
const SyntaxHunyuan Syntax = "hunyuan"

const (
	hunyuanCalls    = "<tool_calls:opensource>"
	hunyuanEnd      = "</tool_calls:opensource>"
	hunyuanCall     = "<tool_call:opensource>"
	hunyuanCallEnd  = "</tool_call:opensource>"
	hunyuanSep      = "<tool_sep:opensource>"
	hunyuanKey      = "<arg_key:opensource>"
	hunyuanKeyEnd   = "</arg_key:opensource>"
	hunyuanValue    = "<arg_value:opensource>"
	hunyuanValueEnd = "</arg_value:opensource>"
)

var hunyuan = syntax{
	name: SyntaxHunyuan,
	detect: func(has func(string) bool, f *Format) bool {
		f.ThinkStart, f.ThinkEnd = "<think:opensource>", "</think:opensource>"
		return has("<tool_sep{}>") || has(hunyuanSep) // its template adds the suffix by format
	},
	marks: []string{
		hunyuanCalls, hunyuanEnd, hunyuanCall, hunyuanCallEnd, hunyuanSep, hunyuanKey, hunyuanKeyEnd, hunyuanValue,
		hunyuanValueEnd,
	},
	open: []string{hunyuanCalls, hunyuanCall},
	begin: func(p *Parser, mark string) {
		if p.taggedSection(); mark == hunyuanCall {
			p.state = (*Parser).taggedHeader
		}
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(hunyuanCalls)+"\n", "\n", "\n"+o.mark(hunyuanEnd), o)
	},
	tags: &tags{
		call: hunyuanCall, nameEnd: hunyuanSep, sectionEnds: []string{hunyuanEnd}, callEnd: hunyuanCallEnd,
		argument: hunyuanKey, keyEnd: hunyuanKeyEnd, behindKey: (*Parser).hunyuanValue, valueEnd: hunyuanValueEnd,
		writeCall: func(_ *Format, tool string, o *ToolGrammarOptions) (begin, end string) {
			return o.mark(hunyuanCall) + tool + o.mark(hunyuanSep) + "\n", o.mark(hunyuanCallEnd)
		},
		writeArgument: func(_ *Format, name string, _ bool, o *ToolGrammarOptions) (begin, end, behind string) {
			return o.mark(hunyuanKey) + name + o.mark(hunyuanKeyEnd) + "\n" + o.mark(hunyuanValue), o.mark(hunyuanValueEnd), "\n"
		},
	},
}

// hunyuanValue reads the tag of a value.
func (p *Parser) hunyuanValue() (ok, more bool) {
	p.buf = strings.TrimLeft(p.buf, " \n\t\r")
	mark, more := p.oneOf(hunyuanValue)
	return mark != "", more
}
