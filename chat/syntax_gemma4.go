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
	gemmaChannel = "<|channel>"
)

var gemma4 = syntax{
	name:        SyntaxGemma4,
	detect:      func(has func(string) bool, _ *Format) bool { return has(gemmaCall) },
	thinksAgain: true,
	first:       (*Parser).gemmaFirst,
	marks:       []string{gemmaCall, gemmaCallEnd, gemmaQuote},
	open:        []string{gemmaCall},
	begin:       func(p *Parser, _ string) { p.state = (*Parser).gemmaCall },
	notation: func(o *GrammarOptions) grammar.SchemaOptions {
		return grammar.SchemaOptions{Narrow: true,
			Notation: grammar.Notation{Quote: o.mark(gemmaQuote), Names: true, Sorted: true}}
	},
	call: func(_ *Format, tool string, args *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(o.mark(gemmaCall)+"call:"+tool), args, grammar.Text(o.mark(gemmaCallEnd)))
	},
}

// gemmaFirst passes over marks of channels that are begun again at once, as the model does at times.
func (p *Parser) gemmaFirst() bool {
	found, more := p.peek(gemmaChannel + gemmaChannel)
	switch {
	case more:
		return false
	case found:
		p.buf = p.buf[len(gemmaChannel):]
	default:
		p.state = (*Parser).start
	}
	return true
}

func (p *Parser) gemmaCall() bool { return p.wholeCalls(gemmaCallEnd, readGemmaCall) }

// readGemmaCall reads call:f{a:<|"|>x<|"|>,b:1}.
func readGemmaCall(text string) ([]wholeRead, wholeEnd) {
	r := &literalReader{s: text, gemma: true}
	if !r.take("call:") {
		return nil, r.fails("call:")
	}
	name := r.word()
	if r.space(); name == "" || !strings.HasPrefix(r.s, "{") {
		return nil, r.fails("{")
	}
	ok := r.value()
	call := []wholeRead{{name, r.out.String()}}
	if !ok {
		return call, r.fails("")
	}
	if r.space(); r.s != "" {
		return call, wholeBad
	}
	return call, wholeDone
}
