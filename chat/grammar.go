package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/specgo/spec/grammar"
)

// ErrTool is wrapped by errors about tools whose calls no grammar can be made of. The message names the tool.
var ErrTool = errors.New("tool")

// Tool is a function that a model may call.
type Tool struct {
	Name       string
	Parameters json.RawMessage // JSON Schema of the arguments, an object's; empty or null: any object
}

// GrammarOptions say what is known of an answer beside its format.
type GrammarOptions struct {
	Reasoning bool // the prompt ends inside of reasoning, see [Prompt.InReasoning]
	// Control says whether the vocabulary has the mark as a control token, as [ControlMarks] finds it; nil: it has none.
	Control func(mark string) bool
	Budget  *grammar.Budget // of the compilation; nil: the default limits
}

// ToolGrammarOptions are the options of [Format.ToolGrammar].
type ToolGrammarOptions struct {
	GrammarOptions
	// Required: the answer is calls and nothing else but reasoning. Otherwise the grammar sleeps until the mark of a call.
	Required bool
	Parallel bool // several calls in one answer
}

// ControlMarks tells marks that are control tokens of a vocabulary from those that are text.
func ControlMarks(t interface {
	ID(token string) (int32, bool)
	Bytes(id int32) []byte
}) func(mark string) bool {
	return func(mark string) bool {
		id, ok := t.ID(mark)
		return ok && len(t.Bytes(id)) == 0
	}
}

// mark is how a grammar spells a mark.
func (o *GrammarOptions) mark(s string) string {
	if o.Control != nil && o.Control(s) {
		return grammar.ControlToken(s)
	}
	return s
}

// spell is how a grammar spells a text with marks inside: DeepSeek's and MiniMax's in tags, GigaChat's around a
// role.
func (o *GrammarOptions) spell(s string) string {
	for _, m := range [...]string{dsml, gigaMessage, gigaRole, minimaxMark} {
		s = strings.ReplaceAll(s, m, o.mark(m))
	}
	return s
}

// blanks are the white space that models write between sections, at most so many bytes.
func blanks(most int) *grammar.Grammar {
	return grammar.Repeat(grammar.Choice(grammar.Text("\n"), grammar.Text(" ")), 0, most)
}

const mostBlanks = 4

// AnswerGrammar is the grammar of an answer whose content is a text of g: reasoning before the content is free.
func (f *Format) AnswerGrammar(g *grammar.Grammar, o GrammarOptions) *grammar.Grammar {
	return f.around(g, false, &o)
}

// around is an answer, or calls, with what may be reasoned before.
func (f *Format) around(g *grammar.Grammar, calls bool, o *GrammarOptions) *grammar.Grammar {
	if around := f.Syntax.of().around; around != nil {
		return around(f, g, calls, o)
	}
	return f.afterReasoning(g, o)
}

func (f *Format) afterReasoning(g *grammar.Grammar, o *GrammarOptions) *grammar.Grammar {
	if f.ThinkEnd == "" {
		return g
	}
	thought := grammar.Sequence(grammar.Until(o.mark(f.ThinkEnd)), blanks(mostBlanks), g)
	if o.Reasoning {
		return thought
	}
	start, line := strings.CutSuffix(f.ThinkStart, thoughtChannel) // Gemma's mark, and a line of text behind it
	begin := o.mark(start)
	if line {
		begin += thoughtChannel + "\n"
	}
	return grammar.Choice(g, grammar.Sequence(grammar.Text(begin), thought))
}

// ToolGrammar is the grammar of answers in which calls of the tools are well formed and their arguments valid by the
// tools' schemas. For a named choice, pass that tool alone. Where calls are not Required, text before, between and
// behind them is free, but for a mark that begins none. Formats whose arguments are not JSON refuse schemas that they
// cannot express.
//
// The grammar knows nothing of other tools: with Required false, pass all that were offered.
func (f *Format) ToolGrammar(tools []Tool, o ToolGrammarOptions) (*grammar.Grammar, error) {
	if len(tools) == 0 {
		return nil, fmt.Errorf("%w: none given", ErrTool)
	}
	if o.Budget == nil {
		o.Budget = grammar.NewBudget(context.Background(), grammar.Limits{})
	}
	s := f.Syntax.of()
	var each []*grammar.Grammar
	for _, t := range tools {
		if err := checkTool(t); err != nil {
			return nil, err
		}
		g, err := f.callGrammar(t, &o)
		if err != nil {
			return nil, fmt.Errorf("%w %q: %w", ErrTool, t.Name, err)
		}
		each = append(each, g)
	}
	g := grammar.Choice(each...)
	if s.calls != nil {
		g = s.calls(f, g, &o)
	} else {
		g = several(g, "", "", "", &o)
	}
	switch {
	case o.Required:
	case s.asleep != nil:
		g = s.asleep(f, g, &o)
	default:
		g = f.sleeping(g, tools, &o)
	}
	return f.around(g, true, &o.GrammarOptions), nil
}

// checkTool refuses names that could not be told from the marks around them.
func checkTool(t Tool) error {
	if t.Name == "" || len(t.Name) > maxHeader {
		return fmt.Errorf("%w: a name of %d bytes", ErrTool, len(t.Name))
	}
	for _, r := range t.Name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.') {
			return fmt.Errorf("%w %q: a name is of letters, digits and . _ -", ErrTool, t.Name)
		}
	}
	return nil
}

// schemaOf is the tool's schema, which must be an object's.
func schemaOf(t Tool) (json.RawMessage, error) {
	s := strings.TrimSpace(string(t.Parameters))
	if s == "" || s == "null" || s == "{}" || s == "true" {
		return json.RawMessage(`{"type":"object"}`), nil
	}
	var top struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal([]byte(s), &top); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	if top.Type != "object" {
		return nil, errors.New("parameters: a schema of type object expected")
	}
	return json.RawMessage(s), nil
}

// argumentsGrammar is the arguments as one object.
func argumentsGrammar(b *grammar.Budget, t Tool, o grammar.SchemaOptions) (*grammar.Grammar, error) {
	schema, err := schemaOf(t)
	if err != nil {
		return nil, err
	}
	g, err := grammar.ParseSchema(b, schema, o)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return g, nil
}

// callGrammar is one call, with the marks that enclose each call.
func (f *Format) callGrammar(t Tool, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	s := f.Syntax.of()
	if s.tags != nil {
		return f.taggedGrammar(t, s.tags, o)
	}
	if s.write != nil {
		return s.write(f, t, o)
	}
	notation := grammar.SchemaOptions{Spaces: true, Narrow: true}
	if s.notation != nil {
		notation = s.notation(&o.GrammarOptions)
	}
	args, err := argumentsGrammar(o.Budget, t, notation)
	if err != nil {
		return nil, err
	}
	if s.call != nil {
		return s.call(f, t.Name, args, o), nil
	}
	return callObject(t.Name, "arguments", args), nil
}

// callObject is a call as an object with a name and arguments.
func callObject(tool, key string, args *grammar.Grammar) *grammar.Grammar {
	return grammar.Sequence(grammar.Text(callBegin(tool, key)), args, grammar.Text("}"))
}

// callBegin is the beginning of such an object.
func callBegin(tool, key string) string { return `{"name": "` + tool + `", "` + key + `": ` }

// CallBegins are the texts with which the calls of tools begin where they need no mark, as [Format.ToolGrammar] writes
// them; none in other formats.
func (f *Format) CallBegins(tools []Tool) []string { return f.Syntax.of().callBegins(tools) }

func (s *syntax) callBegins(tools []Tool) (list []string) {
	if !s.bare {
		return nil
	}
	for _, t := range tools {
		begin := callBegin(t.Name, cmp.Or(s.keys.args, "arguments"))
		list = append(list, begin, "["+begin)
	}
	return list
}

// several is one call, or with o.Parallel more of them, with the marks around all of them. Of models whose calls stand
// between their own marks, some write a line's end between two and some none.
func several(call *grammar.Grammar, open, between, end string, o *ToolGrammarOptions) *grammar.Grammar {
	all := call
	if o.Parallel && (open != "" || between != "" || end == "") {
		gap := grammar.Text(between)
		if open == "" && between == "\n" {
			gap = grammar.Repeat(gap, 0, 1)
		}
		all = grammar.Sequence(call, grammar.Repeat(grammar.Sequence(gap, call), 0, -1))
	}
	return grammar.Sequence(grammar.Text(open), all, grammar.Text(end))
}

// sleeping is free text with calls in it.
func (f *Format) sleeping(calls *grammar.Grammar, tools []Tool, o *ToolGrammarOptions) *grammar.Grammar {
	if f.Syntax.of().bare {
		// Calls have no mark: an answer that begins as one is one.
		other, err := grammar.ParseGBNF(o.Budget, `root ::= ([^ \n\t\r{\[] .*)?`)
		if err != nil {
			return calls
		}
		return grammar.Sequence(blanks(mostBlanks), grammar.Choice(calls, other))
	}
	// The mark is part of calls: text that ends in front of it, and then a call.
	text := grammar.Without(f.callMarks(tools, &o.GrammarOptions)...)
	more := 1
	if o.Parallel {
		more = -1
	}
	return grammar.Sequence(text, grammar.Repeat(grammar.Sequence(calls, text), 0, more))
}

// callMarks are the texts at which calls begin, and of channels those that end a text.
func (f *Format) callMarks(tools []Tool, o *GrammarOptions) (marks []string) {
	s := f.Syntax.of()
	for _, m := range s.open { // of all forms, which are all read
		marks = append(marks, o.spell(o.mark(m)))
	}
	if s.lists {
		for _, t := range tools {
			marks = append(marks, "["+t.Name+"(") // which would be a call that no grammar holds
		}
	}
	if s.channels != nil {
		for _, m := range s.marks {
			marks = append(marks, o.mark(m))
		}
	}
	return marks
}

// TextGrammar is a text in which no call of the tools begins, and none of some other texts is: content beside calls
// that must be well formed. Formats whose calls begin with no mark are refused.
func (f *Format) TextGrammar(tools []Tool, without []string, o GrammarOptions) (*grammar.Grammar, error) {
	if s := f.Syntax.of(); s.bare || s.answer != nil {
		return nil, fmt.Errorf("%w: a call of the format %s has no mark that tells it from free text", ErrTool, f.Syntax)
	}
	return grammar.Without(append(f.callMarks(tools, &o), without...)...), nil
}
