package chat

import (
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
	Reasoning bool                   // the prompt ends inside of reasoning, see [Prompt.InReasoning]
	Control   func(mark string) bool // the vocabulary has the mark as a control token, as [ControlMarks] finds it; nil: none
}

// ToolGrammarOptions are the options of [Format.ToolGrammar].
type ToolGrammarOptions struct {
	GrammarOptions
	Required bool // the answer is calls and nothing else but reasoning; otherwise the grammar sleeps until the mark of a call
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

// spell is how a grammar spells a text with DeepSeek's mark inside of its tags.
func (o *GrammarOptions) spell(s string) string { return strings.ReplaceAll(s, dsml, o.mark(dsml)) }

// blanks are the white space that models write between sections, at most so many bytes.
func blanks(most int) *grammar.Grammar {
	return grammar.Repeat(grammar.Choice(grammar.Text("\n"), grammar.Text(" ")), 0, most)
}

const mostBlanks = 4

// AnswerGrammar is the grammar of an answer whose content is a text of g: reasoning before the content is free.
func (f *Format) AnswerGrammar(g *grammar.Grammar, o GrammarOptions) *grammar.Grammar {
	if f.Syntax == SyntaxHarmony {
		return f.harmonyGrammar(grammar.Sequence(grammar.Text(o.mark("<|channel|>")+"final"+o.mark("<|message|>")), g), o)
	}
	return f.afterReasoning(g, o)
}

func (f *Format) afterReasoning(g *grammar.Grammar, o GrammarOptions) *grammar.Grammar {
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
		begin += thoughtChannel
	}
	return grammar.Choice(g, grammar.Sequence(grammar.Text(begin), thought))
}

// harmonyGrammar is messages of reasoning and then one that is a text of g.
func (f *Format) harmonyGrammar(g *grammar.Grammar, o GrammarOptions) *grammar.Grammar {
	analysis := grammar.Sequence(
		grammar.Text(o.mark("<|channel|>")+"analysis"+o.mark("<|message|>")), grammar.Until(o.mark("<|end|>")), grammar.Text(o.mark("<|start|>")+"assistant"))
	return grammar.Sequence(grammar.Repeat(analysis, 0, 1), g)
}

// ToolGrammar is the grammar of answers in which calls of the tools are well formed and their arguments valid by the tools'
// schemas. For a named choice, pass that tool alone. Where calls are not Required, text before, between and behind them is
// free, but for a mark that begins none. Formats whose arguments are not JSON refuse schemas that they cannot express.
//
// The grammar knows nothing of other tools: with Required false, pass all that were offered.
func (f *Format) ToolGrammar(tools []Tool, o ToolGrammarOptions) (*grammar.Grammar, error) {
	if len(tools) == 0 {
		return nil, fmt.Errorf("%w: none given", ErrTool)
	}
	var calls []*grammar.Grammar
	for _, t := range tools {
		if err := checkTool(t); err != nil {
			return nil, err
		}
		g, err := f.callGrammar(t, &o)
		if err != nil {
			return nil, fmt.Errorf("%w %q: %w", ErrTool, t.Name, err)
		}
		calls = append(calls, g)
	}
	g := f.callsGrammar(grammar.Choice(calls...), &o)
	if f.Syntax == SyntaxHarmony {
		if !o.Required {
			return nil, fmt.Errorf("%w: calls that are not required have no grammar in the format %s", ErrTool, f.Syntax)
		}
		return f.harmonyGrammar(g, o.GrammarOptions), nil
	}
	if !o.Required {
		g = f.sleeping(g, &o)
	}
	return f.afterReasoning(g, o.GrammarOptions), nil
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

// notation is how the format writes arguments. Gemma's template sorts their names, so its models do.
func (f *Format) notation(o *GrammarOptions) grammar.SchemaOptions {
	switch f.Syntax {
	case SyntaxGemma4:
		return grammar.SchemaOptions{Notation: grammar.Notation{Quote: o.mark(gemmaQuote), Names: true, Sorted: true}}
	case SyntaxLFM2:
		return grammar.SchemaOptions{Spaces: true, Notation: grammar.Notation{Python: true, Call: true}}
	}
	return grammar.SchemaOptions{Spaces: true}
}

// argumentsGrammar is the arguments as one object.
func argumentsGrammar(t Tool, o grammar.SchemaOptions) (*grammar.Grammar, error) {
	schema, err := schemaOf(t)
	if err != nil {
		return nil, err
	}
	g, err := grammar.ParseSchema(schema, o)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return g, nil
}

// callGrammar is one call, with the marks that enclose each call.
func (f *Format) callGrammar(t Tool, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	switch f.Syntax {
	case SyntaxQwenXML, SyntaxGLM, SyntaxDSML:
		return f.taggedGrammar(t, o)
	}
	args, err := argumentsGrammar(t, f.notation(&o.GrammarOptions))
	if err != nil {
		return nil, err
	}
	around := func(before, behind string) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(before), args, grammar.Text(behind))
	}
	key := "arguments"
	switch f.Syntax {
	case SyntaxGemma4:
		return around(o.mark(gemmaCall)+"call:"+t.Name, o.mark(gemmaCallEnd)), nil
	case SyntaxLFM2:
		return around(t.Name+"(", ")"), nil
	case SyntaxLlama3:
		key = "parameters"
	case SyntaxMistral:
		if f.Bare {
			return around(o.mark("[TOOL_CALLS]")+t.Name+o.mark("[ARGS]"), ""), nil
		}
	case SyntaxHarmony:
		return around(o.mark("<|channel|>")+"commentary to=functions."+t.Name+" "+o.mark("<|constrain|>")+"json"+o.mark("<|message|>"), ""), nil
	case SyntaxDeepSeek:
		if f.Bare {
			return around(o.mark(deepseekCall)+t.Name+o.mark(deepseekSep), o.mark(deepseekCallEnd)), nil
		}
		return around(o.mark(deepseekCall)+"function"+o.mark(deepseekSep)+t.Name+"\n```json\n", "\n```"+o.mark(deepseekCallEnd)), nil
	case SyntaxKimi:
		number, err := grammar.ParseGBNF("root ::= [0-9]{1,3}")
		if err != nil {
			return nil, err
		}
		return grammar.Sequence(grammar.Text(o.mark(kimiCall)+"functions."+t.Name+":"), number, grammar.Text(o.mark(kimiArgs)), args, grammar.Text(o.mark(kimiCallEnd))), nil
	}
	return around(`{"name": "`+t.Name+`", "`+key+`": `, "}"), nil
}

// callsGrammar is one call, or several, with the marks around all of them.
func (f *Format) callsGrammar(call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
	open, between, end := "", "", ""
	switch f.Syntax {
	case SyntaxHarmony:
		return call // its end mark ends the answer
	case SyntaxHermes:
		call = grammar.Sequence(grammar.Text(o.mark("<tool_call>")+"\n"), call, grammar.Text("\n"+o.mark("</tool_call>")))
		between = "\n"
	case SyntaxQwenXML, SyntaxGLM:
		between = "\n"
	case SyntaxLlama3:
		between = "; "
	case SyntaxGranite:
		open, between, end = o.mark("<|tool_call|>")+"[", ", ", "]"
	case SyntaxMistral:
		if !f.Bare {
			open, between, end = o.mark("[TOOL_CALLS]")+"[", ", ", "]"
		}
	case SyntaxDeepSeek:
		open, end = o.mark(deepseekCalls), o.mark(deepseekEnd)
		if !f.Bare {
			between = "\n"
		}
	case SyntaxKimi:
		open, end = o.mark(kimiCalls), o.mark(kimiEnd)
	case SyntaxLFM2:
		open, between, end = o.mark(lfmCalls)+"[", ", ", "]"+o.mark(lfmEnd)
	case SyntaxDSML:
		open, between, end = o.spell(f.Open+"\n"), "\n", o.spell("\n</"+strings.TrimPrefix(f.Open, "<"))
	case SyntaxJSON:
		if o.Parallel {
			return grammar.Choice(call, several(call, "[", ", ", "]", o))
		}
	}
	return several(call, open, between, end, o)
}

func several(call *grammar.Grammar, open, between, end string, o *ToolGrammarOptions) *grammar.Grammar {
	all := call
	if o.Parallel && (open != "" || between != "" || end == "") {
		all = grammar.Sequence(call, grammar.Repeat(grammar.Sequence(grammar.Text(between), call), 0, -1))
	}
	return grammar.Sequence(grammar.Text(open), all, grammar.Text(end))
}

// sleeping is free text with calls in it.
func (f *Format) sleeping(calls *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
	if f.Syntax == SyntaxJSON || f.Syntax == SyntaxLlama3 {
		// Calls have no mark: an answer that begins as one is one.
		other, err := grammar.ParseGBNF(`root ::= ([^ \n\t\r{\[] .*)?`)
		if err != nil {
			return calls
		}
		return grammar.Sequence(blanks(mostBlanks), grammar.Choice(calls, other))
	}
	var marks []string
	for _, m := range f.openMarks() {
		if m = o.mark(m); f.Syntax == SyntaxDSML {
			m = o.spell(m)
		}
		marks = append(marks, m)
	}
	// The mark is part of calls: text that ends in front of it, and then a call.
	text := grammar.Without(marks...)
	more := 1
	if o.Parallel {
		more = -1
	}
	return grammar.Sequence(text, grammar.Repeat(grammar.Sequence(calls, text), 0, more))
}
