package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/grammar"
)

// callFormats are the syntaxes of tool calls in all their forms.
var callFormats = []chat.Format{
	{}, {Syntax: chat.SyntaxApertus}, {Syntax: chat.SyntaxApriel}, {Syntax: chat.SyntaxCommand},
	{Syntax: chat.SyntaxCommandR}, {Syntax: chat.SyntaxDeepSeek}, {Syntax: chat.SyntaxDeepSeek, Bare: true},
	{Syntax: chat.SyntaxDSML, Open: "<｜DSML｜function_calls>"}, {Syntax: chat.SyntaxFunctionary31},
	{Syntax: chat.SyntaxFunctionary32}, {Syntax: chat.SyntaxFunctools}, {Syntax: chat.SyntaxGemma4},
	{Syntax: chat.SyntaxGigaChat, Open: "<|function_call|>"}, {Syntax: chat.SyntaxGLM},
	{Syntax: chat.SyntaxGranite}, {Syntax: chat.SyntaxHarmony},
	{Syntax: chat.SyntaxHermes}, {Syntax: chat.SyntaxHunyuan}, {Syntax: chat.SyntaxKimi}, {Syntax: chat.SyntaxLFM2},
	{Syntax: chat.SyntaxLlama3}, {Syntax: chat.SyntaxMiniCPM}, {Syntax: chat.SyntaxMiniMax},
	{Syntax: chat.SyntaxMiniMax3}, {Syntax: chat.SyntaxMistral}, {Syntax: chat.SyntaxMistral, Bare: true},
	{Syntax: chat.SyntaxNemotron}, {Syntax: chat.SyntaxOLMo}, {Syntax: chat.SyntaxQwenXML}, {Syntax: chat.SyntaxSolar},
}

// calls are what texts of grammars of calls were, by syntax.
type calls struct {
	tools, texts, cut, read int
	refused                 map[string]int
	faults                  []fault
}

func (c *calls) String() string {
	refused := 0
	for _, n := range c.refused {
		refused += n
	}
	return fmt.Sprintf("%d tools, %d refused; %d texts, %d cut off at %d tokens; %d calls read back, %d faults",
		c.tools, refused, c.texts, c.cut, mostTokens, c.read, len(c.faults))
}

// toolSchema is a random schema of arguments.
func (d *drawn) toolSchema() string {
	d.defs = 0
	var members, required []string
	for _, name := range []string{"city", "days", "unit"}[:1+d.IntN(3)] {
		members = append(members, quoted(name)+":"+d.part(1))
		if d.chance(60) {
			required = append(required, quoted(name))
		}
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]%s}`, strings.Join(members, ","),
		strings.Join(required, ","), d.one("", `,"additionalProperties":false`))
}

// callsOf writes calls of random tools in every syntax, greedy and sampled, with the marks as text and as control
// tokens, reads them back by the syntax's parser, and judges their arguments.
func callsOf(tools int, seed uint64) map[string]*calls {
	all := map[string]*calls{}
	for _, f := range callFormats {
		name := f.Syntax.String()
		if all[name] == nil {
			all[name] = &calls{refused: map[string]int{}}
		}
		d := &drawn{Rand: rand.New(rand.NewPCG(seed, 2))}
		sum := all[name]
		for i := range tools {
			t := tokens{texts: vocabularies["bytes"].texts}
			if i%2 == 0 {
				t.marks = f.Marks()
			}
			sum.tools++
			sum.tool(&f, d, t, i)
		}
	}
	return all
}

// tool writes calls of one random tool.
func (c *calls) tool(f *chat.Format, d *drawn, t tokens, i int) {
	source := d.toolSchema()
	tools := []chat.Tool{{Name: "get_it", Parameters: []byte(source)}}
	o := chat.ToolGrammarOptions{Required: true, Parallel: i%4 > 1}
	o.Control = chat.ControlMarks(t)
	g, err := f.ToolGrammar(tools, o)
	if err != nil {
		c.refused[kind(err)]++
		return
	}
	bound, err := g.Bind(grammar.NewBudget(context.Background(), grammar.Limits{}), grammar.NewVocabulary(t,
		grammar.VocabularyOptions{}))
	if err != nil {
		c.refused[kind(err)]++
		return
	}
	defer bound.Close()
	other, err := newValidator(source)
	if err != nil {
		c.faults = append(c.faults, fault{source, "", "", err.Error()})
		return
	}
	w := newWriter(d.Rand, t)
	for _, o := range []sampling.Options{{}, {Temperature: 1, Seed: d.Uint64()}} {
		text, ended, err := w.write(bound, o)
		c.texts++
		switch {
		case errors.Is(err, grammar.ErrLimit), err == nil && !ended:
			c.cut++
		case err != nil:
			c.faults = append(c.faults, fault{source, "", string(text), err.Error()})
		default:
			c.judge(f, tools, source, other, string(text))
		}
	}
}

// judge reads a text back.
func (c *calls) judge(f *chat.Format, tools []chat.Tool, source string, other validator, text string) {
	fail := func(format string, args ...any) {
		c.faults = append(c.faults, fault{source, f.Syntax.String(), text, fmt.Sprintf(format, args...)})
	}
	m := read(chat.Message{}, *f, chat.ParserOptions{Tools: tools}, text)
	if m.Content != "" || len(m.ToolCalls) == 0 {
		fail("content %q, %d calls", m.Content, len(m.ToolCalls))
		return
	}
	for _, call := range m.ToolCalls {
		c.read++
		if err := other.judge(call.Arguments); err != nil || call.Name != "get_it" {
			fail("%s, arguments %s: %v", call.Name, call.Arguments, err)
		}
	}
}

// reportCalls prints what there was; faults are an error.
func reportCalls(all map[string]*calls) error {
	bad := false
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		fmt.Printf("%-15s %s\n", name, c)
		show(c.refused)
		for _, x := range c.faults {
			fmt.Printf("  %s\n    %q: %s\n", x.schema, x.text, x.why)
		}
		bad = bad || len(c.faults) > 0
	}
	if bad {
		return errors.New("there are faults")
	}
	return nil
}
