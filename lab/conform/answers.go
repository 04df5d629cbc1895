package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/specgo/spec/chat"
)

// answer is an answer of a model, with what led to it, and the message that it is.
type answer struct {
	Template  string
	Input     string
	Expect    expected
	Tools     []json.RawMessage
	Messages  []chat.Message
	Thinking  bool   `json:"enable_thinking"`
	Reasoning int    `json:"reasoning_format"` // 0: it stays in the content
	Continue  int    // 0, or the last message goes on: 2 in its reasoning, 3 in its content
	Prompt    string // as another engine renders it, for templates that are not here
	Begun     string `json:"generation_prompt"`
	Think     string `json:"think_start"`
}

// expected is a message with its calls in one level.
type expected struct {
	Content   string
	Reasoning string                                 `json:"reasoning_content"`
	Calls     []struct{ Name, Arguments, ID string } `json:"tool_calls"`
}

// sameTemplate are templates that are here under nearly the same name.
var sameTemplate = map[string]string{
	"google-gemma-4-31B-it": "google-gemma-4-31B-it-interleaved",
	"LFM2.5-8B-A1B":         "LFM2.5-Instruct",
}

// answers shows how many answers are parsed as expected, whole and cut at every byte, by syntax.
func answers(dir string, verbose int) error {
	file, err := os.Open(filepath.Join(dir, "answers.jsonl"))
	if err != nil {
		return err
	}
	defer file.Close()
	type count struct{ all, right, exact, steady int }
	var total count
	syntaxes := map[string]*count{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(a.Template), ".jinja")
		format, o, err := a.options(dir, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		key := format.Syntax.String()
		if syntaxes[key] == nil {
			syntaxes[key] = &count{}
		}
		var begun chat.Message
		if o.Continued {
			last := a.Messages[len(a.Messages)-1]
			if begun.Content = last.Content; strings.Contains(a.Begun, last.Reasoning) {
				begun.Reasoning = last.Reasoning
			}
		}
		whole := read(begun, *format, o, a.Input)
		steady := true
		for i := range a.Input {
			cut := read(begun, *format, o, a.Input[:i], a.Input[i:])
			steady = steady && reflect.DeepEqual(cut, whole)
		}
		steady = steady && reflect.DeepEqual(read(begun, *format, o, strings.Split(a.Input, "")...), whole)
		right, exact := a.Expect.is(whole, strings.TrimSpace), a.Expect.is(whole, strings.Clone)
		for _, c := range []*count{&total, syntaxes[key]} {
			c.all++
			c.right += number(right && steady)
			c.exact += number(exact && steady)
			c.steady += number(steady)
		}
		if verbose > 0 && !(right && steady) {
			fmt.Printf("answer of %s (%s), steady %v:\n   of %q\n  got %+v\n want %+v\n",
				name, key, steady, a.Input, whole, a.Expect)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	fmt.Printf("%d answers: %d are parsed as expected under every cut (%.1f %%; %d also in the white space at the ends "+
		"of sections), %d are the same under every cut\n",
		total.all, total.right, percent(total.right, total.all), total.exact, total.steady)
	byCount := func(a, b string) int { return cmp.Or(syntaxes[b].all-syntaxes[a].all, cmp.Compare(a, b)) }
	for _, k := range slices.SortedFunc(maps.Keys(syntaxes), byCount) {
		fmt.Printf("%5d of %3d  %s\n", syntaxes[k].right, syntaxes[k].all, k)
	}
	return nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// options are what a parser of the answer has to know.
func (a *answer) options(dir, name string) (*chat.Format, chat.ParserOptions, error) {
	o := chat.ParserOptions{Inline: a.Reasoning == 0, Continued: a.Continue != 0}
	for _, raw := range a.Tools {
		var t struct {
			Function struct {
				Name       string
				Parameters json.RawMessage
			}
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, o, err
		}
		o.Tools = append(o.Tools, chat.Tool{Name: t.Function.Name, Parameters: t.Function.Parameters})
	}
	if other := sameTemplate[name]; other != "" {
		name = other
	}
	source, err := os.ReadFile(filepath.Join(dir, "../chat/templates", name+".jinja"))
	if err != nil { // the prompt tells the model how to answer
		format := chat.DetectFormat(a.Prompt + strings.ReplaceAll(a.Think, "<", "</"))
		o.Reasoning, o.Opening = format.Opened(a.Begun)
		return format, o, nil
	}
	t, err := chat.New(string(source), chat.Options{})
	if err != nil {
		return nil, o, err
	}
	if a.Continue != 0 {
		o.Reasoning = a.Continue == 2
		return t.Format(), o, nil
	}
	p, err := t.Render(context.Background(), chat.Conversation{Messages: a.Messages, Tools: a.Tools,
		AddGenerationPrompt: true, Extra: map[string]any{"enable_thinking": a.Thinking, "reasoning": a.Thinking}})
	if err != nil {
		return nil, o, err
	}
	o.Reasoning, o.Opening = p.InReasoning(), p.Opening()
	return t.Format(), o, nil
}

// read is the message that an answer's pieces are, behind what the prompt has begun of it.
func read(m chat.Message, f chat.Format, o chat.ParserOptions, pieces ...string) chat.Message {
	p := chat.NewParser(f, o)
	take := func(events []chat.Event) {
		for _, e := range events {
			switch e.Kind {
			case chat.ContentEvent:
				m.Content += e.Text
			case chat.ReasoningEvent:
				m.Reasoning += e.Text
			case chat.ToolCallStart:
				m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: e.ID, Name: e.Name})
			case chat.ToolCallEnd:
				if e.ID != "" { // written behind the arguments
					m.ToolCalls[e.Call].ID = e.ID
				}
			case chat.ToolCallArgs:
				m.ToolCalls[e.Call].Arguments += e.Text
			}
		}
	}
	for _, piece := range pieces {
		take(p.Push(piece))
	}
	take(p.Close())
	return m
}

// is reports whether a message is the expected one, arguments as values. An id that is not expected may be any.
func (want *expected) is(got chat.Message, space func(string) string) bool {
	if space(got.Content) != space(want.Content) || space(got.Reasoning) != space(want.Reasoning) ||
		len(got.ToolCalls) != len(want.Calls) {
		return false
	}
	for i, c := range want.Calls {
		g := got.ToolCalls[i]
		if g.Name != c.Name || c.ID != "" && g.ID != c.ID || !bytes.Equal(compact(g.Arguments), compact(c.Arguments)) {
			return false
		}
	}
	return true
}

// compact is JSON without blanks; what is no JSON stays.
func compact(text string) []byte {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return []byte(text)
	}
	return b.Bytes()
}
