package spec

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/grammar"
)

// Compiled reports whether there is nothing to compile: the answers follow no grammar, or one that an earlier request
// had and that is still kept, and the request's breakers are tokens.
func (t *Task) Compiled(ctx context.Context) bool {
	if !t.lacks() {
		return true
	}
	if t.breaks() {
		return false
	}
	calls := t.callsConstraint()
	t.constraint = t.m.vocabulary.Find(ctx, t.constraintKey(&calls))
	return t.constraint != nil
}

// lacks reports whether the answers would not follow all that the request says: Compile has not been called, or Close
// has.
func (t *Task) lacks() bool {
	calls := t.callsConstraint()
	return t.breaks() || t.constraint == nil && (t.r.Constraint.Kind != "" || calls.tools != nil)
}

// Compile binds the grammar that the answers must follow to the model's vocabulary: that of the request's constraint,
// that of tool calls where they are required or strict, or both. It looks for the request's breakers in the tokens. A
// model compiles one grammar at a time; a wait for that ends with ctx, and so does the compilation.
func (t *Task) Compile(ctx context.Context) error {
	t.setBreakers()
	if t.Compiled(ctx) {
		return nil
	}
	calls := t.callsConstraint()
	c, err := t.m.vocabulary.Constraint(ctx, t.constraintKey(&calls), func(b *grammar.Budget) (*grammar.Grammar, error) {
		return t.answerGrammar(b, calls)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return &RequestError{Field: t.constraintField(&calls), Reason: err.Error(), Err: err}
	}
	t.constraint = c
	return nil
}

// constraintField is what errors call what the answers must follow.
func (t *Task) constraintField(calls *callsConstraint) string {
	if t.r.Constraint.Kind == "" {
		return calls.field
	}
	return t.r.Constraint.field()
}

// checkConstraint refuses what contradicts itself, before anything is compiled.
func (t *Task) checkConstraint() error {
	calls := t.callsConstraint()
	content := &t.r.Constraint
	if t.r.Sampling.Constraint != nil && (content.Kind != "" || calls.tools != nil) {
		return bad(t.constraintField(&calls), "Sampling has a constraint too")
	}
	if content.Kind == "" && len(content.Source) > 0 {
		return bad(content.field(), "a source of no kind")
	}
	switch choice := t.r.ToolChoice; {
	case choice.Mode != CallAuto && choice.Mode != CallNone && choice.Mode != CallRequired:
		return bad("tool_choice", "%.20q is neither auto (%q), none nor required", string(choice.Mode), string(CallAuto))
	case choice.Mode != CallRequired && choice.Name != "":
		return bad("tool_choice", "names the tool %.128q, and no call is required", choice.Name)
	}
	if t.r.Continue && (content.Kind != "" || calls.tools != nil) {
		return bad(t.constraintField(&calls),
			"constrains a whole answer, so that continue_final_message and it exclude each other")
	}
	if t.r.ToolChoice.Mode != CallRequired {
		if calls.checked && calls.tools != nil && t.mayCall(content) {
			return bad(content.field(), "its texts may be calls that nothing checks, so that it and strict tools, or calls "+
				"that may not be several, exclude each other")
		}
		return nil
	}
	switch {
	case content.Kind != "":
		return bad("tool_choice", "a required call and %s exclude each other", content.field())
	case calls.tools == nil && t.r.ToolChoice.Name != "":
		return bad("tool_choice", "there is no tool %q", t.r.ToolChoice.Name)
	case calls.tools == nil:
		return bad("tool_choice", "a call is required, and there are no tools")
	}
	return nil
}

// mayCall reports whether a text of a constraint may be read as a call, whatever the constraint says: one of the
// caller's own grammar, and any JSON where calls need no mark. Without leaves out the marks of calls; of a schema
// strings alone are free, and they stand within JSON.
func (t *Task) mayCall(content *Constraint) bool {
	switch content.Kind {
	case GBNF, Regex:
		return true
	case AnyJSON:
		return t.format.Unmarked()
	}
	return false
}

// bannedError is err, but that of a request whose bans leave nothing of what its own constraint allows names both.
func (t *Task) bannedError(err error) error {
	if !errors.Is(err, sampling.ErrBanned) {
		return err
	}
	calls := t.callsConstraint()
	field := t.constraintField(&calls)
	if _, ok := t.r.Sampling.Constraint.(*budget); ok {
		field = "thinking_budget"
	} else if t.r.Sampling.Constraint != nil {
		field = "the constraint of Sampling"
	}
	return &RequestError{Field: "logit_bias", Err: err, Reason: fmt.Sprintf("it bans what %s needs: %v", field, err)}
}

// constraintKey names everything that the grammar of the answers depends on.
func (t *Task) constraintKey(calls *callsConstraint) string {
	content := &t.r.Constraint
	h := sha256.New() // whose Write does not fail
	fmt.Fprintf(h, "%s %v %v %v %d:", content.Kind, content.AnyOrder, t.reasoning, t.format != nil, len(content.Source))
	h.Write(content.Source)
	if calls.tools != nil {
		fmt.Fprint(h, calls.required, calls.parallel, calls.checked)
	}
	for _, t := range calls.tools {
		fmt.Fprintf(h, "%d:%s%d:%s", len(t.Name), t.Name, len(t.Parameters), t.Parameters)
	}
	return string(h.Sum(nil))
}

// answerGrammar compiles the grammar of the answers.
func (t *Task) answerGrammar(b *grammar.Budget, calls callsConstraint) (*grammar.Grammar, error) {
	content := &t.r.Constraint
	if content.Kind == "" {
		return t.callGrammar(b, calls)
	}
	g, err := content.parse(b)
	if err == nil && content.Kind == Without && calls.checked { // its texts could be calls
		var texts []string
		if texts, err = content.texts(); err == nil {
			g, err = t.format.TextGrammar(chatTools(calls.tools), texts, t.grammarOptions(b))
		}
	}
	if err != nil || t.format == nil {
		return g, err
	}
	if content.Kind == JSONSchema && calls.checked {
		begin, err := mayBegin(b, g, t.format.CallBegins(chatTools(calls.tools)))
		if err == nil && begin != "" {
			err = fmt.Errorf("a value of it may begin as a call does, %s, which nothing checks, so that it and strict tools, "+
				"or calls that may not be several, exclude each other", begin)
		}
		if err != nil {
			return nil, err
		}
	}
	g = t.format.AnswerGrammar(g, t.grammarOptions(b))
	if calls.tools == nil {
		return g, nil
	}
	calls.required = true // a call, or an answer in the format
	other, err := t.callGrammar(b, calls)
	if err != nil {
		return nil, err
	}
	return grammar.Choice(g, other), nil
}

// mayBegin is the first of some texts with which a text of a grammar may begin; "": none is.
func mayBegin(b *grammar.Budget, g *grammar.Grammar, texts []string) (string, error) {
	if len(texts) == 0 {
		return "", nil
	}
	c, err := g.Bind(b, grammar.NewVocabulary(singleBytes{}, grammar.VocabularyOptions{}))
	if err != nil {
		return "", err
	}
	defer c.Close()
	for _, text := range texts {
		state, ok := c.Start(), true
		for i := 0; i < len(text) && ok; i++ {
			if state, ok, err = c.Next(state, int32(text[i])); err != nil {
				return "", err
			}
		}
		if ok {
			return text, nil
		}
	}
	return "", nil
}

// singleBytes is a vocabulary of the bytes, and an end.
type singleBytes struct{}

func (singleBytes) Size() int           { return 257 }
func (singleBytes) Token(int32) string  { return "" }
func (singleBytes) IsEOG(id int32) bool { return id == 256 }
func (singleBytes) Bytes(id int32) []byte {
	if id == 256 {
		return nil
	}
	return []byte{byte(id)}
}

// parse compiles the constraint by itself.
func (c *Constraint) parse(b *grammar.Budget) (*grammar.Grammar, error) {
	switch c.Kind {
	case AnyJSON:
		return grammar.ParseJSON(b, grammar.SchemaOptions{Blanks: true})
	case JSONSchema:
		return grammar.ParseSchema(b, c.Source, grammar.SchemaOptions{Spaces: true, Narrow: true, AnyOrder: c.AnyOrder})
	case GBNF:
		return grammar.ParseGBNF(b, string(c.Source))
	case Regex:
		return grammar.ParseRegex(b, string(c.Source))
	case Without:
		texts, err := c.texts()
		if err != nil {
			return nil, err
		}
		return grammar.Without(texts...), nil
	}
	return nil, fmt.Errorf("%q is not a kind of constraints", c.Kind)
}

// texts are those that Without leaves out.
func (c *Constraint) texts() (list []string, err error) {
	err = json.Unmarshal(c.Source, &list)
	return list, err
}

// callsConstraint says which calls must be well formed.
type callsConstraint struct {
	tools    []Tool
	required bool
	parallel bool
	checked  bool // no other calls than these: tools are strict, or calls may not be several
	field    string
}

// callsConstraint is the request's: of required calls, strict tools, calls that may not be several, and calls beside
// a constraint.
func (t *Task) callsConstraint() callsConstraint {
	r := &t.r
	c := callsConstraint{parallel: !r.OneCall, field: "tools"}
	if t.format == nil || len(t.offered) == 0 {
		return c
	}
	strict := slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Strict })
	c.checked = strict || r.OneCall
	switch {
	case r.ToolChoice.Mode == CallRequired && r.ToolChoice.Name != "":
		c.required = true
		for _, t := range r.Tools {
			if t.Name == r.ToolChoice.Name {
				c.tools = []Tool{t}
			}
		}
	case r.ToolChoice.Mode == CallRequired:
		c.required, c.tools = true, r.Tools
	case strict, r.OneCall, r.Constraint.Kind != "":
		c.tools = r.Tools
	}
	return c
}

func (t *Task) grammarOptions(b *grammar.Budget) chat.GrammarOptions {
	return chat.GrammarOptions{Reasoning: t.reasoning, Control: chat.ControlMarks(t.m.tok), Budget: b}
}

func (t *Task) callGrammar(b *grammar.Budget, c callsConstraint) (*grammar.Grammar, error) {
	return t.format.ToolGrammar(chatTools(c.tools),
		chat.ToolGrammarOptions{GrammarOptions: t.grammarOptions(b), Required: c.required, Parallel: c.parallel})
}

// Check reports what is wrong with the constraint by itself, whatever the model.
func (c *Constraint) Check(ctx context.Context, l grammar.Limits) error {
	if c.Kind == "" {
		return nil
	}
	if _, err := c.parse(grammar.NewBudget(ctx, l)); err != nil {
		return fmt.Errorf("%s: %w", c.field(), err)
	}
	return nil
}
