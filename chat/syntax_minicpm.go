package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxMiniCPM: <function name="f"><param name="a">…</param></function>, with <![CDATA[…]]> around texts that have
// tags or lines.
const SyntaxMiniCPM Syntax = "minicpm"

const (
	minicpmFunction    = `<function name="`
	minicpmFunctionEnd = "</function>"
	minicpmParam       = `<param name="`
	minicpmParamEnd    = "</param>"
	cdata              = "<![CDATA["
	cdataEnd           = "]]>"
)

var minicpm = syntax{
	name:   SyntaxMiniCPM,
	detect: func(has func(string) bool, _ *Format) bool { return has(minicpmFunction) && has(minicpmParam) },
	open:   []string{minicpmFunction},
	begin: func(p *Parser, _ string) {
		p.taggedSection()
		p.state = (*Parser).taggedHeader
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, "", "\n", "", o)
	},
	tags: &tags{
		nameEnd: `">`, argument: minicpmParam, keyEnd: `">`, valueEnd: minicpmParamEnd, callEnd: minicpmFunctionEnd,
		quote: cdata, quoteEnd: cdataEnd,
		writeCall: func(_ *Format, tool string, _ *ToolGrammarOptions) (begin, end string) {
			return minicpmFunction + tool + `">`, minicpmFunctionEnd
		},
		writeArgument: func(_ *Format, name string, text bool, _ *ToolGrammarOptions) (begin, end, behind string) {
			if text {
				return minicpmParam + name + `">` + cdata, cdataEnd, minicpmParamEnd
			}
			return minicpmParam + name + `">`, minicpmParamEnd, ""
		},
	},
}
