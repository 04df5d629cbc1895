package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxQwenXML: <tool_call><function=f><parameter=a>…</parameter></function></tool_call>, of Qwen3-Coder and
// Nemotron, and of Seed, which writes <seed:tool_call> (Open) and no line ends around values (Bare).
const SyntaxQwenXML Syntax = "qwen-xml"

const (
	seedCall    = "<seed:tool_call>"
	seedCallEnd = "</seed:tool_call>"

	qwenFunction     = "<function="
	qwenFunctionEnd  = "</function>"
	qwenParameter    = "<parameter="
	qwenParameterEnd = "</parameter>"
)

var qwenXML = syntax{
	name: SyntaxQwenXML,
	detect: func(has func(string) bool, f *Format) bool {
		if has(seedCall) {
			f.Open, f.Bare = seedCall, true
		}
		return has(qwenFunction) && has(qwenParameter)
	},
	marks: []string{toolCall, toolCallEnd, seedCall, seedCallEnd},
	open:  []string{toolCall, seedCall, qwenFunction},
	begin: func(p *Parser, mark string) {
		p.taggedSection()
		if mark == qwenFunction {
			p.state = (*Parser).taggedHeader
		}
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, "", "\n", "", o)
	},
	tags: &tags{
		call: qwenFunction, nameEnd: ">", sectionEnds: []string{toolCallEnd, seedCallEnd}, callEnd: qwenFunctionEnd,
		argument: qwenParameter, keyEnd: ">", valueEnd: qwenParameterEnd,
		trim: func(f *Format, value string) string {
			if f.Bare {
				return value
			}
			return strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		},
		writeCall: func(f *Format, tool string, o *ToolGrammarOptions) (begin, end string) {
			open := f.Open
			if open == "" {
				open = toolCall
			}
			return o.mark(open) + "\n" + qwenFunction + tool + ">\n", qwenFunctionEnd + "\n" + o.mark("</"+open[1:])
		},
		writeArgument: func(f *Format, name string, _ bool, _ *ToolGrammarOptions) (begin, end, behind string) {
			return qwenParameter + name + ">" + f.newline(), f.newline() + qwenParameterEnd, "\n"
		},
	},
}
