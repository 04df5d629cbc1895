package chat

import (
	"slices"

	"github.com/specgo/spec/grammar"
)

// Syntax names how a model writes tool calls: one of the constants Syntax…, each declared in the file that is the
// whole of it. The zero value is [SyntaxJSON].
type Syntax string

func (s Syntax) String() string {
	if s == "" {
		return "json"
	}
	return string(s)
}

// syntaxes are all that are known. A template has the first that detects it, and the last where none does.
var syntaxes = [...]*syntax{
	&harmony, &muse, &dsmlCalls, &deepseek, &mistral, &kimi, &gemma4, &lfm2, &solar, &glm, &qwenXML, &granite,
	&minimax3, &minimax, &hunyuan, &minicpm, &olmo, &functionary32, &functionary31,
	&command, &commandR, &apertus, &apriel, &nemotron, &functoolsCalls, &gigaChat, &hermes, &llama3, &plainJSON,
}

// of is the description of a syntax. A name that is none of the constants is plain JSON, as a Format's zero value is.
func (s Syntax) of() *syntax {
	if i := slices.IndexFunc(syntaxes[:], func(x *syntax) bool { return x.name == s }); i >= 0 {
		return syntaxes[i]
	}
	return &plainJSON
}

// A syntax is how calls are told from text, read, and written as a grammar. What is left out is as in [SyntaxJSON]: a
// call is an object with a name and arguments.
type syntax struct {
	name Syntax

	// detect says whether a template with these texts in its source has models of this syntax, and fills in the format.
	detect func(has func(text string) bool, f *Format) bool
	marks  []string // of calls and their parts: vocabularies may have them as control tokens
	ends   []string // marks that end an answer beside the tokenizer's own ends of generation

	// Reading. open are the marks in content at which calls begin, and begin chooses what reads on behind one of them.
	// bare says that calls need no mark: an answer that begins as JSON is one. close may stand behind a call, and
	// between reads what follows arguments that stand by themselves. first reads an answer's beginning where no template
	// opens reasoning.
	open     []string
	bare     bool
	lists    bool // without a mark too: an answer that begins with [, a tool's name and (
	close    string
	begin    func(p *Parser, mark string)
	between  func(p *Parser) bool
	first    func(p *Parser) bool
	answer   func(p *Parser) bool // reads the beginning of what follows reasoning
	drop     []string             // marks around content that are no part of it
	channels *channels            // content and reasoning are messages with a header each; nil: they are not
	next     func(p *Parser) bool // reads what follows calls, and what is none in their place; nil: both are content

	thinksAgain bool     // reasoning may stand between content; an end of it that never began is left out
	keys        callKeys // of a call in JSON

	// Writing. Arguments are one object in a notation, unless tags has them one by one. call is one call, calls what
	// stands around and between several; around is an answer or calls with what may be reasoned before.
	notation func(o *GrammarOptions) grammar.SchemaOptions
	tags     *tags
	write    func(f *Format, t Tool, o *ToolGrammarOptions) (*grammar.Grammar, error) // a call by itself
	call     func(f *Format, tool string, args *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar
	calls    func(f *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar
	around   func(f *Format, g *grammar.Grammar, calls bool, o *GrammarOptions) *grammar.Grammar
	// asleep is an answer that may have calls, and need not; nil: free text, in which marks begin calls.
	asleep func(f *Format, calls *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar
}

// channels are those of a syntax.
type channels struct {
	thought string               // what begins reasoning behind a prompt
	body    func(p *Parser) bool // reads a message's text
}

// allMarks are the marks of calls and their parts, also those that are text in every vocabulary.
func (s *syntax) allMarks() []string {
	all := append(slices.Clone(s.marks), s.open...)
	all = append(all, s.close)
	if t := s.tags; t != nil {
		all = append(append(all, t.call, t.callEnd), t.sectionEnds...)
	}
	return all
}

// callKeys are those of a call in JSON. Zero ones are name and id.
type callKeys struct {
	name, id string
	args     string // as grammars write it; zero: arguments
	keyed    bool   // the name is the key of the arguments
}
