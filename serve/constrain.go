package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/grammar"
)

// constrain binds the grammar that the answers must follow to the model's vocabulary: that of the request's format,
// that of tool calls where they are required or strict, or both. A grammar that is not there yet is compiled when its
// turn has come: one at a time, in a queue of its own, so that no place for an answer waits for it. done gives the
// grammar back.
func (p *plan) constrain(ctx context.Context, bounded bool) (done func(), err error) {
	content, calls := p.constraint, p.callsConstraint()
	if content.kind == "" && calls.tools == nil {
		return func() {}, nil
	}
	key := p.constraintKey(&content, &calls)
	c := p.m.vocabulary.Find(ctx, key)
	if c == nil {
		_, leave, err := p.m.server.compiling.enter(ctx, &p.client.compiling, 1, bounded)
		if err != nil {
			return nil, err
		}
		defer leave()
		c, err = p.m.vocabulary.Constraint(ctx, key, func(b *grammar.Budget) (*grammar.Grammar, error) {
			return p.answerGrammar(b, &content, calls)
		})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, badField(cmp.Or(content.field, calls.field), "%v", err)
		}
	}
	for i := range p.tasks {
		p.tasks[i].sampling.Constraint = c
	}
	return c.Close, nil
}

// checkConstraint refuses what contradicts itself, before anything is compiled.
func (p *plan) checkConstraint() error {
	if p.choice.mode != "required" {
		return nil
	}
	switch calls := p.callsConstraint(); {
	case p.constraint.kind != "":
		return badField("tool_choice", "a required call and %s exclude each other", p.constraint.field)
	case calls.tools == nil && p.choice.name != "":
		return badField("tool_choice", "there is no tool %q", clip(p.choice.name))
	case calls.tools == nil:
		return badField("tool_choice", "a call is required, and there are no tools")
	}
	return nil
}

// bannedError is err, but that of a request whose bans leave nothing of what its own constraint allows is a 400 that
// names both.
func (p *plan) bannedError(err error) error {
	if !errors.Is(err, sampling.ErrBanned) {
		return err
	}
	calls := p.callsConstraint()
	return badField("logit_bias", "it bans what %s needs: %v", cmp.Or(p.constraint.field, calls.field), err)
}

// constraintKey names everything that the grammar of the answers depends on.
func (p *plan) constraintKey(content *constraintSource, calls *callsConstraint) string {
	key := sha256.Sum256(fmt.Appendf(nil, "%s %q %v %v %s", content.kind, content.source, p.reasoning, p.format != nil,
		calls.key()))
	return string(key[:])
}

// answerGrammar compiles the grammar of the answers.
func (p *plan) answerGrammar(b *grammar.Budget, content *constraintSource, calls callsConstraint) (
	*grammar.Grammar, error) {
	if content.kind == "" {
		return p.callGrammar(b, calls)
	}
	g, err := content.parse(b)
	if err != nil || p.format == nil || content.kind == "gbnf" { // a grammar in GBNF is that of the whole answer
		return g, err
	}
	g = p.format.AnswerGrammar(g, p.grammarOptions(b))
	if calls.tools == nil {
		return g, nil
	}
	calls.required = true // a call, or an answer in the format
	other, err := p.callGrammar(b, calls)
	if err != nil {
		return nil, err
	}
	return grammar.Choice(g, other), nil
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

// callsConstraint is the request's: of required calls, strict tools, calls that may not be several, and calls beside
// a format.
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

func (p *plan) grammarOptions(b *grammar.Budget) chat.GrammarOptions {
	return chat.GrammarOptions{Reasoning: p.reasoning, Control: chat.ControlMarks(p.m.tok), Budget: b}
}

func (p *plan) callGrammar(b *grammar.Budget, c callsConstraint) (*grammar.Grammar, error) {
	return p.format.ToolGrammar(chatTools(c.tools),
		chat.ToolGrammarOptions{GrammarOptions: p.grammarOptions(b), Required: c.required, Parallel: c.parallel})
}

// chatTools are tools as package chat has them.
func chatTools(tools []tool) (list []chat.Tool) {
	for _, t := range tools {
		list = append(list, chat.Tool{Name: t.name, Parameters: t.parameters})
	}
	return list
}

// parse compiles the request's grammar.
func (s *constraintSource) parse(b *grammar.Budget) (*grammar.Grammar, error) {
	switch s.kind {
	case "json":
		return grammar.ParseJSON(b, grammar.SchemaOptions{Blanks: true})
	case "schema":
		return grammar.ParseSchema(b, s.source, grammar.SchemaOptions{Spaces: true, Narrow: true})
	}
	return grammar.ParseGBNF(b, string(s.source))
}

// newVocabulary is a tokenizer's, for all grammars of a model.
func newVocabulary(tok *bpe.Tokenizer, l grammar.Limits) *grammar.Vocabulary {
	return grammar.NewVocabulary(tok, grammar.VocabularyOptions{Limits: l, Encode: func(text string) []int32 {
		return tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true})
	}})
}
