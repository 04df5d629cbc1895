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
	marks: []string{lfmCalls, lfmEnd},
	open:  []string{lfmCalls},
	begin: func(p *Parser, _ string) { p.state = (*Parser).lfmCalls },
	notation: func(*GrammarOptions) grammar.SchemaOptions {
		return grammar.SchemaOptions{Spaces: true, Narrow: true, Notation: grammar.Notation{Python: true, Call: true}}
	},
	call: func(_ *Format, tool string, args *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(tool+"("), args, grammar.Text(")"))
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(lfmCalls)+"[", ", ", "]"+o.mark(lfmEnd), o)
	},
}

func (p *Parser) lfmCalls() bool { return p.wholeCalls(lfmEnd, readPythonCalls) }

// readPythonCalls reads [f(a="x", b=1), g()], or the same calls as JSON.
func readPythonCalls(text string) ([]wholeRead, bool) {
	if calls, ok := readJSONCalls(text); ok {
		return calls, true
	}
	r := &literalReader{s: text}
	list := r.take("[")
	var calls []wholeRead
	for {
		name := r.word()
		if name == "" || !r.take("(") {
			return nil, false
		}
		r.out.Reset()
		r.out.WriteByte('{')
		for n := 0; !r.take(")"); n++ {
			if n > 0 {
				if !r.take(",") {
					return nil, false
				}
				r.out.WriteString(", ")
			}
			key := r.word()
			if key == "" || !r.take("=") {
				return nil, false
			}
			r.out.WriteString(quoted(key) + ": ")
			if !r.value() {
				return nil, false
			}
		}
		r.out.WriteByte('}')
		calls = append(calls, wholeRead{name, r.out.String()})
		if !r.take(",") {
			break
		}
	}
	if list && !r.take("]") {
		return nil, false
	}
	r.space()
	return calls, r.s == ""
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
