package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxLlama3: {"name": …, "parameters": {…}}, with or without <|python_tag|> in front.
const SyntaxLlama3 Syntax = "llama3"

const pythonTag = "<|python_tag|>"

var llama3 = syntax{
	name: SyntaxLlama3,
	detect: func(has func(string) bool, _ *Format) bool {
		return has("<|start_header_id|>") && (has(`"parameters"`) || has(pythonTag))
	},
	marks: []string{pythonTag},
	open:  []string{pythonTag},
	bare:  true,
	lists: true,
	keys:  callKeys{args: "parameters"},
	begin: func(p *Parser, _ string) { p.state = (*Parser).pythonBehindTag },
	call: func(_ *Format, tool string, args *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
		return callObject(tool, "parameters", args)
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, "", "; ", "", o)
	},
}
