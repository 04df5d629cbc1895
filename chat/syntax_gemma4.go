package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxGemma4: <|tool_call>call:f{a:<|"|>…<|"|>}<tool_call|>. Gemma's template sorts the names of arguments, so
// its models do.
const SyntaxGemma4 Syntax = "gemma4"

const (
	gemmaQuote   = `<|"|>`
	gemmaCall    = "<|tool_call>"
	gemmaCallEnd = "<tool_call|>"
)

var gemma4 = syntax{
	name:   SyntaxGemma4,
	detect: func(has func(string) bool, _ *Format) bool { return has(gemmaCall) },
	marks:  []string{gemmaCall, gemmaCallEnd, gemmaQuote},
	open:   []string{gemmaCall},
	begin:  func(p *Parser, _ string) { p.state = (*Parser).gemmaCall },
	notation: func(o *GrammarOptions) grammar.SchemaOptions {
		return grammar.SchemaOptions{Narrow: true,
			Notation: grammar.Notation{Quote: o.mark(gemmaQuote), Names: true, Sorted: true}}
	},
	call: func(_ *Format, tool string, args *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(o.mark(gemmaCall)+"call:"+tool), args, grammar.Text(o.mark(gemmaCallEnd)))
	},
}

func (p *Parser) gemmaCall() bool { return p.wholeCalls(gemmaCallEnd, readGemmaCall) }

// readGemmaCall reads call:f{a:<|"|>x<|"|>,b:1}.
func readGemmaCall(text string) ([]wholeRead, bool) {
	r := &literalReader{s: text, gemma: true}
	if !r.take("call:") {
		return nil, false
	}
	name := r.word()
	r.space()
	if name == "" || !strings.HasPrefix(r.s, "{") || !r.value() {
		return nil, false
	}
	r.space()
	return []wholeRead{{name, r.out.String()}}, r.s == ""
}
