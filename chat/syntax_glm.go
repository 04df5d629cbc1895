package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxGLM: <tool_call>f<arg_key>a</arg_key><arg_value>…</arg_value></tool_call>, of GLM 4.5 and later; before 4.7
// with line ends between the tags (not Bare). Ling 3 has them behind the name, the keys and the last value.
const SyntaxGLM Syntax = "glm"

const (
	glmKey      = "<arg_key>"
	glmKeyEnd   = "</arg_key>"
	glmValue    = "<arg_value>"
	glmValueEnd = "</arg_value>"
)

var glm = syntax{
	name: SyntaxGLM,
	detect: func(has func(string) bool, f *Format) bool {
		f.Bare = !has(glmKeyEnd+"\n") && !has(glmKeyEnd+`\n`)
		return has(glmKey)
	},
	marks: []string{toolCall, toolCallEnd, glmKey, glmKeyEnd, glmValue, glmValueEnd},
	open:  []string{toolCall},
	begin: func(p *Parser, _ string) { p.state = (*Parser).glmHeader },
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, "", "\n", "", o)
	},
	tags: &tags{
		callEnd: toolCallEnd, argument: glmKey, keyEnd: glmKeyEnd, behindKey: (*Parser).glmValue, valueEnd: glmValueEnd,
		loose: true,
		writeCall: func(f *Format, tool string, o *ToolGrammarOptions) (begin, end string) {
			return o.mark(toolCall) + tool + f.newline(), o.mark(toolCallEnd)
		},
		writeArgument: func(f *Format, name string, _ bool, o *ToolGrammarOptions) (begin, end, behind string) {
			return o.mark(glmKey) + name + o.mark(glmKeyEnd) + f.newline() + o.mark(glmValue), o.mark(glmValueEnd), f.newline()
		},
	},
}

// glmHeader reads a call's name, which ends at a line's end or the next tag.
func (p *Parser) glmHeader() bool {
	before := p.buf
	p.buf = strings.TrimLeft(p.buf, " \n\t\r")
	name, mark, more := p.until("\n", glmKey, toolCallEnd)
	if more {
		p.buf = before
		return false
	}
	if name = strings.TrimSpace(name); mark == "" || !plainName(name) {
		if p.buf = before; p.cutName(before) {
			return p.cutCall()
		}
		return p.notACall("")
	}
	if mark != "\n" {
		p.buf = mark + p.buf
	}
	p.taggedStart(name)
	return true
}

// glmValue reads the tag of a value.
func (p *Parser) glmValue() (ok, more bool) {
	p.buf = strings.TrimLeft(p.buf, " \n\t\r")
	mark, more := p.oneOf(glmValue)
	return mark != "", more
}
