package chat

import (
	"fmt"
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxDSML: <｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="true">…,
// of DeepSeek V3.2 and V4, which has tool_calls instead of function_calls (Open).
const SyntaxDSML Syntax = "dsml"

const (
	dsml             = "｜DSML｜"
	dsmlFunctions    = "<" + dsml + "function_calls>"
	dsmlFunctionsEnd = "</" + dsml + "function_calls>"
	dsmlTools        = "<" + dsml + "tool_calls>"
	dsmlToolsEnd     = "</" + dsml + "tool_calls>"
	dsmlInvoke       = "<" + dsml + `invoke name="`
	dsmlInvokeEnd    = "</" + dsml + "invoke>"
	dsmlParameter    = "<" + dsml + `parameter name="`
	dsmlParameterEnd = "</" + dsml + "parameter>"
)

var dsmlCalls = syntax{
	name: SyntaxDSML,
	detect: func(has func(string) bool, f *Format) bool {
		f.Open = dsmlTools
		if has("function_calls") {
			f.Open = dsmlFunctions
		}
		return has(dsml)
	},
	marks: []string{dsml},
	open:  []string{dsmlFunctions, dsmlTools},
	begin: func(p *Parser, _ string) { p.taggedSection() },
	calls: func(f *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.spell(f.Open+"\n"), "\n", o.spell("\n</"+strings.TrimPrefix(f.Open, "<")), o)
	},
	tags: &tags{
		call: dsmlInvoke, nameEnd: `">`, sectionEnds: []string{dsmlFunctionsEnd, dsmlToolsEnd}, callEnd: dsmlInvokeEnd,
		argument: dsmlParameter, keyEnd: `" string="`, behindKey: (*Parser).dsmlType, valueEnd: dsmlParameterEnd, typed: true,
		writeCall: func(_ *Format, tool string, o *ToolGrammarOptions) (begin, end string) {
			return o.spell(dsmlInvoke + tool + "\">\n"), o.spell(dsmlInvokeEnd)
		},
		writeArgument: func(_ *Format, name string, text bool, o *ToolGrammarOptions) (begin, end, behind string) {
			return o.spell(fmt.Sprintf(`%s%s" string="%v">`, dsmlParameter, name, text)), o.spell(dsmlParameterEnd), "\n"
		},
	},
}

// dsmlType reads whether the argument is a string.
func (p *Parser) dsmlType() (ok, more bool) {
	kind, mark, more := p.until(`">`)
	p.tagged.text = kind != "false"
	return mark != "", more
}
