package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxOLMo: <function_calls>, a call as Python writes it on each line, and </function_calls>, of OLMo 3.
const SyntaxOLMo Syntax = "olmo"

const (
	olmoCalls = "<function_calls>"
	olmoEnd   = "</function_calls>"
)

var olmo = syntax{
	name:     SyntaxOLMo,
	detect:   func(has func(string) bool, _ *Format) bool { return has(olmoCalls) },
	marks:    []string{olmoCalls, olmoEnd},
	open:     []string{olmoCalls},
	begin:    func(p *Parser, _ string) { p.state = (*Parser).olmoCalls },
	lists:    true,
	notation: pythonNotation,
	call:     pythonCall,
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(olmoCalls), "\n", o.mark(olmoEnd), o)
	},
}

func (p *Parser) olmoCalls() bool { return p.wholeCalls(olmoEnd, readPythonCalls) }

// pythonNotation and pythonCall write a call as Python does.
func pythonNotation(*GrammarOptions) grammar.SchemaOptions {
	return grammar.SchemaOptions{Spaces: true, Narrow: true, Notation: grammar.Notation{Python: true, Call: true}}
}

func pythonCall(_ *Format, tool string, args *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
	return grammar.Sequence(grammar.Text(tool+"("), args, grammar.Text(")"))
}
