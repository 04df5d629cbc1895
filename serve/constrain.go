package serve

import (
	"fmt"
	"slices"
	"sync"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/grammar"
)

// constrain binds the grammar that the answer must follow to the model's vocabulary: that of the request's format, that of
// tool calls where they are required or strict, or both.
func (p *plan) constrain(s *engine.Sampling) error {
	content, calls := p.constraint, p.callsConstraint()
	switch {
	case p.choice.mode == "required" && content.kind != "":
		return badField("tool_choice", "a required call and %s exclude each other", content.field)
	case p.choice.mode == "required" && calls.tools == nil && p.choice.name != "":
		return badField("tool_choice", "there is no tool %q", clip(p.choice.name))
	case p.choice.mode == "required" && calls.tools == nil:
		return badField("tool_choice", "a call is required, and there are no tools")
	case content.kind == "" && calls.tools == nil:
		return nil
	}
	field := content.field
	if field == "" {
		field = calls.field
	}
	key := fmt.Sprintf("%s %q %v %v %s", content.kind, content.source, p.reasoning, p.format != nil, calls.key())
	c, err := p.m.grammars.bind(key, p.m.tok, func() (*grammar.Grammar, error) {
		if content.kind == "" {
			return p.callGrammar(calls)
		}
		g, err := content.parse()
		if err != nil || p.format == nil || content.kind == "gbnf" { // a grammar in GBNF is that of the whole answer
			return g, err
		}
		g = p.format.AnswerGrammar(g, p.grammarOptions())
		if calls.tools == nil {
			return g, nil
		}
		calls.required = true // a call, or an answer in the format
		other, err := p.callGrammar(calls)
		if err != nil {
			return nil, err
		}
		return grammar.Choice(g, other), nil
	})
	if err != nil {
		return badField(field, "%v", err)
	}
	s.Constraint = c
	return nil
}

// callsConstraint says which calls must be well formed.
type callsConstraint struct {
	tools    []tool
	required bool
	parallel bool
	field    string
}

func (c *callsConstraint) key() string {
	if c.tools == nil {
		return ""
	}
	key := fmt.Sprint(c.required, c.parallel)
	for _, t := range c.tools {
		key += fmt.Sprintf(" %q %q", t.name, t.parameters)
	}
	return key
}

// callsConstraint is the request's: of required calls, strict tools, calls that may not be several, and calls beside a format.
func (p *plan) callsConstraint() callsConstraint {
	c := callsConstraint{parallel: !p.single, field: "tools"}
	if p.format == nil || len(p.offered) == 0 {
		return c
	}
	strict := slices.ContainsFunc(p.tools, func(t tool) bool { return t.strict })
	switch {
	case p.choice.mode == "required" && p.choice.name != "":
		c.required = true
		for _, t := range p.tools {
			if t.name == p.choice.name {
				c.tools = []tool{t}
			}
		}
	case p.choice.mode == "required":
		c.required, c.tools = true, p.tools
	case strict, p.single, p.constraint.kind != "" && p.constraint.kind != "gbnf":
		c.tools = p.tools
	}
	return c
}

func (p *plan) grammarOptions() chat.GrammarOptions {
	return chat.GrammarOptions{Reasoning: p.reasoning, Control: chat.ControlMarks(p.m.tok)}
}

func (p *plan) callGrammar(c callsConstraint) (*grammar.Grammar, error) {
	return p.format.ToolGrammar(chatTools(c.tools), chat.ToolGrammarOptions{GrammarOptions: p.grammarOptions(), Required: c.required, Parallel: c.parallel})
}

// chatTools are tools as package chat has them.
func chatTools(tools []tool) (list []chat.Tool) {
	for _, t := range tools {
		list = append(list, chat.Tool{Name: t.name, Parameters: t.parameters})
	}
	return list
}

// parse compiles the request's grammar.
func (s *constraintSource) parse() (*grammar.Grammar, error) {
	switch s.kind {
	case "json":
		return grammar.ParseJSON(grammar.SchemaOptions{Blanks: true})
	case "schema":
		return grammar.ParseSchema(s.source, grammar.SchemaOptions{Spaces: true})
	}
	return grammar.ParseGBNF(string(s.source))
}

// grammars keeps the constraints of a model: the masks that one request computed serve the next.
type grammars struct {
	mu   sync.Mutex
	kept []keptGrammar // the one that was used last at the end
}

type keptGrammar struct {
	key        string
	constraint *grammar.Constraint
}

// maxGrammars is how many constraints are kept for a model.
const maxGrammars = 32

// bind is the constraint of a key, from an earlier request or made now.
func (g *grammars) bind(key string, tok *bpe.Tokenizer, parse func() (*grammar.Grammar, error)) (*grammar.Constraint, error) {
	if c := g.find(key); c != nil {
		return c, nil
	}
	parsed, err := parse()
	if err != nil {
		return nil, err
	}
	c, err := parsed.Bind(tok, grammar.Options{Encode: func(text string) []int32 {
		return tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true})
	}})
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.kept) == maxGrammars {
		g.kept = append(g.kept[:0], g.kept[1:]...)
	}
	g.kept = append(g.kept, keptGrammar{key, c})
	return c, nil
}

func (g *grammars) find(key string) *grammar.Constraint {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, k := range g.kept {
		if k.key == key {
			g.kept = append(append(g.kept[:i], g.kept[i+1:]...), k)
			return k.constraint
		}
	}
	return nil
}
