package serve

import (
	"errors"
	"sync"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/grammar"
)

// constrain binds the request's grammar, or that of a required call, to the model's vocabulary.
func (p *plan) constrain(s *engine.Sampling) error {
	source := p.constraint
	switch p.choice.mode {
	case "required":
		if source.kind != "" {
			return badField("tool_choice", "a required call and %s exclude each other", source.field)
		}
		var err error
		if source, err = p.requiredCall(); err != nil {
			return err
		}
	case "none", "auto", "":
	}
	if source.kind == "" {
		return nil
	}
	c, err := p.m.grammars.bind(p.m.tok, source)
	if err != nil {
		return badField(source.field, "%v", err)
	}
	s.Constraint = c
	return nil
}

// requiredCall makes the answer a tool call: the mark in front of calls goes into the prompt, and what follows is JSON by
// the functions' schemas. Reasoning that the template has opened is closed.
func (p *plan) requiredCall() (c constraintSource, err error) {
	const field = "tool_choice"
	tools := p.tools
	if p.choice.name != "" {
		tools = nil
		for _, t := range p.tools {
			if t.name == p.choice.name {
				tools = []tool{t}
			}
		}
		if tools == nil {
			return c, badField(field, "there is no tool %q", clip(p.choice.name))
		}
	}
	if len(tools) == 0 {
		return c, badField(field, "a call is required, and there are no tools")
	}
	mark, arguments := "", "arguments"
	switch p.format.Syntax {
	case chat.SyntaxJSON:
	case chat.SyntaxHermes:
		mark = "<tool_call>\n"
	case chat.SyntaxLlama3:
		arguments = "parameters"
	default:
		return c, badField(field, "a required call is not supported for the format of %s (%s)", p.m.name, p.format.Syntax)
	}
	if p.reasoning {
		mark = p.format.ThinkEnd + "\n\n" + mark
	}
	p.prefix = mark
	schema, err := callSchema(tools, arguments)
	return constraintSource{"schema", schema, "tools"}, err
}

// grammars keeps the constraints of a model: the masks that one request computed serve the next.
type grammars struct {
	mu   sync.Mutex
	kept []keptGrammar // the one that was used last at the end
}

type keptGrammar struct {
	kind, source string
	constraint   *grammar.Constraint
}

// maxGrammars is how many constraints are kept for a model.
const maxGrammars = 32

func (g *grammars) bind(tok *bpe.Tokenizer, s constraintSource) (*grammar.Constraint, error) {
	if c := g.find(s); c != nil {
		return c, nil
	}
	var parsed *grammar.Grammar
	var err error
	switch s.kind {
	case "json":
		parsed, err = grammar.ParseJSON(grammar.SchemaOptions{Blanks: true})
	case "schema":
		parsed, err = grammar.ParseSchema(s.source, grammar.SchemaOptions{})
	case "gbnf":
		parsed, err = grammar.ParseGBNF(string(s.source))
	default:
		err = errors.New("no grammar")
	}
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
	g.kept = append(g.kept, keptGrammar{s.kind, string(s.source), c})
	return c, nil
}

func (g *grammars) find(s constraintSource) *grammar.Constraint {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, k := range g.kept {
		if k.kind == s.kind && k.source == string(s.source) {
			g.kept = append(append(g.kept[:i], g.kept[i+1:]...), k)
			return k.constraint
		}
	}
	return nil
}
