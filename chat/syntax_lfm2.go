package chat

import (
	"encoding/json"

	"github.com/specgo/spec/grammar"
)

// SyntaxLFM2: <|tool_call_start|>[f(a="…")]<|tool_call_end|>, calls as Python writes them.
const SyntaxLFM2 Syntax = "lfm2"

const (
	lfmCalls = "<|tool_call_start|>"
	lfmEnd   = "<|tool_call_end|>"
)

var lfm2 = syntax{
	name: SyntaxLFM2,
	detect: func(has func(string) bool, _ *Format) bool {
		return has("<|tool_list_start|>") || has(lfmCalls) || has("List of tools: ")
	},
	marks:    []string{lfmCalls, lfmEnd},
	open:     []string{lfmCalls},
	begin:    func(p *Parser, _ string) { p.state = (*Parser).lfmCalls },
	lists:    true,
	notation: pythonNotation,
	call:     pythonCall,
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(lfmCalls)+"[", ", ", "]"+o.mark(lfmEnd), o)
	},
}

func (p *Parser) lfmCalls() bool { return p.wholeCalls(lfmEnd, readListedCalls) }

// readListedCalls reads [f(a="x", b=1), g()], or the same calls as JSON.
func readListedCalls(text string) ([]wholeRead, wholeEnd) {
	if calls, ok := readJSONCalls(text); ok {
		return calls, wholeDone
	}
	return readPythonCalls(text)
}

// readJSONCalls reads {"name": …, "arguments": {…}}, or a list of such objects.
func readJSONCalls(text string) (calls []wholeRead, ok bool) {
	var list []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal([]byte(text), &list) != nil {
		if json.Unmarshal([]byte("["+text+"]"), &list) != nil {
			return nil, false
		}
	}
	for _, c := range list {
		if c.Name == "" {
			return nil, false
		}
		args := string(c.Arguments)
		if args == "" || args == "null" {
			args = "{}"
		}
		if args[0] != '{' {
			return nil, false
		}
		calls = append(calls, wholeRead{c.Name, args})
	}
	return calls, len(calls) > 0
}
