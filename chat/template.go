package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/specgo/spec/chat/internal/jinja"
)

// What errors of [New] and [Template.Render] wrap.
var (
	ErrSyntax      = jinja.ErrSyntax      // the template is malformed
	ErrUnsupported = jinja.ErrUnsupported // it needs what this package does not have
	ErrRefused     = jinja.ErrRaised      // it refused the conversation (raise_exception)
	ErrFailed      = jinja.ErrRuntime     // it failed with this conversation
	ErrLimit       = jinja.ErrLimit       // it exceeded a bound of work, depth or size
)

// Limits bound one rendering: steps, bytes of all texts and lists made on the way, depth, bytes of output. Zero fields
// have the defaults. Beyond one, rendering ends with an [ErrLimit] that names it.
type Limits = jinja.Limits

// DefaultLimits are what the zero value of [Limits] stands for.
func DefaultLimits() Limits { return jinja.DefaultLimits() }

// Error is what a template's errors are: with line and construct.
type Error = jinja.Error

// Origin says who wrote a byte of a prompt.
type Origin = jinja.Origin

const (
	FromTemplate  Origin = iota // the template, BOS and EOS, names of known roles
	FromAssistant               // an assistant's message: content, reasoning, tool calls
	FromMessage                 // any other message, tools, extra variables
)

// ArgumentForm says how a template gets the arguments of tool calls.
type ArgumentForm int

const (
	ArgumentsAuto   ArgumentForm = iota // as an object, unless the template then fails
	ArgumentsObject                     // as an object
	ArgumentsText                       // as JSON text
)

// Options are the options of [New]. The zero value is useful.
type Options struct {
	BOS, EOS  string           // the template's bos_token and eos_token
	Clock     func() time.Time // for strftime_now; nil: time.Now
	Format    *Format          // how answers are written; nil: found by the template's text
	Arguments ArgumentForm

	// Tools is the source of another template, for conversations with tools; "": there is none. Files of some models have
	// it beside the template (tokenizer.chat_template.tool_use).
	Tools string

	// ToolFallback: where the template offers no tools, they are announced in the system message, with calls in plain
	// JSON.
	ToolFallback bool

	Limits Limits // of one rendering
}

// Template is a chat template, ready for use. It is immutable and safe for
// concurrent use.
type Template struct {
	source       string
	program      *jinja.Template
	o            Options
	format       *Format
	typed        bool // content must be a list of parts
	textArgs     bool
	systemRole   bool
	toolsHandled bool
	fallback     bool
	gaps         gaps
	thoughts     thoughtsForm
	responses    bool // results of calls stand beside them, as tool_responses
	ids          callIDs
	withTools    *Template // for conversations with tools; nil: this one
	withToolsErr error     // why it cannot be executed
}

// thoughtsForm says how a template gets the reasoning of an assistant's message.
type thoughtsForm uint8

const (
	thoughtsContent thoughtsForm = iota // as reasoning_content
	thoughtsNamed                       // under another name
	thoughtsPart                        // as a part of the content, of the type thinking
)

// gaps are what a template uses though a conversation need not have it, found by probing. Each is filled in.
type gaps struct {
	tools     bool // a list of tools where there are none: [], not None
	functions bool // FireFunction's variables: the tools as the text functions, and datetime
	details   bool // the description and the parameters of each tool: "" and an object without properties
}

// New parses a template. Errors are of type *[Error] and name the line and the
// construct.
func New(source string, o Options) (*Template, error) {
	program, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	t := &Template{source: source, program: program, o: o, format: o.Format}
	if t.format == nil {
		t.format = DetectFormat(source)
	}
	t.probe()
	if o.Tools != "" {
		other := o
		other.Tools = ""
		t.withTools, t.withToolsErr = New(o.Tools, other)
	}
	if o.ToolFallback {
		t.fallBack()
	}
	return t, nil
}

// For is the template of conversations with tools, or of those without: t itself, but for a file's other template
// (Options.Tools).
func (t *Template) For(tools bool) *Template {
	if tools && t.withTools != nil {
		return t.withTools
	}
	return t
}

// Source returns the template's source.
func (t *Template) Source() string { return t.source }

// Format returns how answers are written.
func (t *Template) Format() *Format { return t.format }

// SystemRole says whether the template renders messages of the role system.
// Where it does not, see [MergeSystem].
func (t *Template) SystemRole() bool { return t.systemRole }

// Tools says whether tools can be offered; see [Template.ToolsError].
func (t *Template) Tools() bool { return t.ToolsError() == nil }

// Render renders a conversation, with the template that is for it. Errors wrap one of the sentinel errors, or that of
// ctx if it ended first.
func (t *Template) Render(ctx context.Context, c Conversation) (*Prompt, error) {
	if other := t.For(len(c.Tools) > 0); other != t {
		return other.Render(ctx, c)
	}
	if t.fallback {
		var err error
		if c, err = t.announced(c); err != nil {
			return nil, fmt.Errorf("chat template: %w", err)
		}
	}
	text, err := t.render(ctx, &c, t.textArgs, t.typed, t.o.Limits)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return newPrompt(text, t), nil
}

func (t *Template) render(
	ctx context.Context, c *Conversation, textArgs, typed bool, limits Limits,
) (jinja.Text, error) {
	clock := t.o.Clock
	if !c.Clock.IsZero() {
		clock = func() time.Time { return c.Clock }
	}
	vars := &jinja.Dict{}
	set := func(key string, v jinja.Value) { vars.Set(jinja.NewText(key, FromTemplate), v) }
	messages, err := t.messageValues(c.Messages, textArgs, typed)
	if err != nil {
		return jinja.Text{}, err
	}
	for k, v := range c.Extra {
		x, err := value(v, FromMessage, 0)
		if err != nil {
			return jinja.Text{}, fmt.Errorf("the variable %s: %w", k, err)
		}
		set(k, x)
		if _, own := c.Extra[strength]; k == "reasoning_effort" && !own {
			set(strength, x)
		}
	}
	set("messages", &jinja.List{Items: messages})
	tools := &jinja.List{}
	switch {
	case len(c.Tools) > 0:
		for i, raw := range c.Tools {
			v, err := jsonValue(raw, FromMessage)
			if err != nil {
				return jinja.Text{}, fmt.Errorf("tool %d: %w", i, err)
			}
			describe(v, t.gaps.details)
			tools.Items = append(tools.Items, v)
		}
		set("tools", tools)
		if t.gaps.functions {
			t.setFunctions(set, c.Tools, clock)
		}
	case t.gaps.tools:
		set("tools", tools)
	default:
		set("tools", jinja.None{})
		if t.gaps.functions {
			t.setFunctions(set, nil, clock)
		}
	}
	set("add_generation_prompt", c.AddGenerationPrompt)
	set("bos_token", jinja.NewText(t.o.BOS, FromTemplate))
	set("eos_token", jinja.NewText(t.o.EOS, FromTemplate))
	return t.program.Render(ctx, jinja.Context{Vars: vars, Clock: clock, Limits: limits})
}

// strength is what the template of Muse Glimmer calls reasoning_effort.
const strength = "reasoning_strength"

// setFunctions sets FireFunction's variables: the tools as JSON, "" without any, and the time.
func (t *Template) setFunctions(
	set func(key string, v jinja.Value), tools []json.RawMessage, clock func() time.Time,
) {
	text := ""
	if data, err := json.MarshalIndent(tools, "", "    "); err == nil && len(tools) > 0 {
		text = string(data)
	}
	set("functions", jinja.NewText(text, FromMessage))
	set("datetime", jinja.NewText(clock().UTC().Format("Jan 02 2006 15:04:05 GMT"), FromTemplate))
}

// describe fills in what a tool need not say of itself where it says null, and with all also where it says nothing.
func describe(tool jinja.Value, all bool) {
	d, _ := tool.(*jinja.Dict)
	if d == nil {
		return
	}
	if inner, ok := d.Get("function"); ok {
		if d, ok = inner.(*jinja.Dict); !ok {
			return
		}
	}
	add := func(d *jinja.Dict, key string, v jinja.Value) {
		old, ok := d.Get(key)
		if _, null := old.(jinja.None); null || !ok && all {
			d.Set(jinja.NewText(key, FromTemplate), v)
		}
	}
	empty := &jinja.Dict{}
	empty.Set(jinja.NewText("type", FromTemplate), jinja.NewText("object", FromTemplate))
	empty.Set(jinja.NewText("properties", FromTemplate), &jinja.Dict{})
	add(d, "description", jinja.NewText("", FromTemplate))
	add(d, "parameters", empty)
	parameters, _ := d.Get("parameters")
	if p, ok := parameters.(*jinja.Dict); ok {
		add(p, "properties", &jinja.Dict{})
	}
}

// Bounds of one probe, which has at most two short messages.
const (
	probeSteps = 100_000
	probeBytes = 8 << 20
)

// probe finds out by small conversations what the template takes.
func (t *Template) probe() {
	const word = "qzprobe7"
	has := func(c Conversation, textArgs, typed bool) (bool, error) {
		text, err := t.render(context.Background(), &c, textArgs, typed, Limits{Steps: probeSteps, Bytes: probeBytes})
		return err == nil && strings.Contains(text.String(), word), err
	}
	user := func(s string) Message { return Message{Role: "user", Content: s} }

	// Templates may use what a conversation without tools lacks; those for models with pictures may take lists of parts
	// only.
	one := Conversation{Messages: []Message{user(word)}, AddGenerationPrompt: true}
	ok, _ := has(one, false, false)
	for _, g := range []gaps{{tools: true}, {functions: true}, {}} {
		if !ok {
			t.gaps = g
			ok, _ = has(one, false, false)
		}
	}
	if !ok {
		t.typed, _ = has(one, false, true)
	}
	t.systemRole, _ = has(Conversation{Messages: []Message{{Role: "system", Content: word}, user("a")}}, false, t.typed)
	tools := one
	tools.Messages = []Message{user("a")}
	tools.Tools = append(tools.Tools, []byte(`{"type":"function","function":{"name":"`+word+
		`","description":"a","parameters":{"type":"object","properties":{}}}}`))
	t.toolsHandled, _ = has(tools, false, t.typed)
	bare := tools
	bare.Tools = []json.RawMessage{[]byte(`{"type":"function","function":{"name":"` + word + `"}}`)}
	if ok, _ = has(bare, false, t.typed); t.toolsHandled && !ok {
		t.gaps.details = true
	}

	text := func(c Conversation) string {
		text, _ := t.render(context.Background(), &c, false, t.typed, Limits{Steps: probeSteps, Bytes: probeBytes})
		return text.String()
	}
	t.probeThoughts(text)
	t.probeResponses(text)

	switch t.o.Arguments {
	case ArgumentsText:
		t.textArgs = true
	case ArgumentsAuto:
		call := Conversation{Messages: []Message{user("a"), {
			Role: "assistant", ToolCalls: []ToolCall{{ID: "call00001", Name: "f", Arguments: `{"a":"` + word + `"}`}},
		}}}
		if _, err := has(call, false, t.typed); errors.Is(err, ErrFailed) {
			t.textArgs, _ = has(call, true, t.typed)
		}
	}
	t.probeIDs(func(c Conversation) bool {
		_, err := has(c, t.textArgs, t.typed)
		return err != nil
	})
}

// probeThoughts finds out how a template that does not know reasoning_content has reasoning. text is what it renders.
func (t *Template) probeThoughts(text func(Conversation) string) {
	if strings.Contains(t.source, "reasoning_content") {
		return
	}
	const thought, answer = "qzprobe8", "qzprobe9"
	c := Conversation{Messages: []Message{{Role: "user", Content: "a"},
		{Role: "assistant", Content: answer, Reasoning: thought}}}
	for _, t.thoughts = range []thoughtsForm{thoughtsNamed, thoughtsPart} {
		got := text(c)
		printed := strings.Contains(got, `'type'`) || strings.Contains(got, `"type"`) // the list of parts, as it is
		if strings.Contains(got, thought) && strings.Contains(got, answer) && !printed {
			return
		}
	}
	t.thoughts = thoughtsContent
}

// MergeSystem returns messages without those of the role system: their text
// goes in front of the first message of the user, with an empty line between.
// It is for templates without that role. Without a user's message, system
// messages become one.
func MergeSystem(messages []Message) []Message {
	var system []string
	var out []Message
	for _, m := range messages {
		if m.Role == "system" {
			system = append(system, m.Content)
		} else {
			out = append(out, m)
		}
	}
	if system == nil {
		return out
	}
	text := strings.Join(system, "\n\n")
	for i := range out {
		if out[i].Role == "user" {
			out[i].Content = text + "\n\n" + out[i].Content
			return out
		}
	}
	return append([]Message{{Role: "user", Content: text}}, out...)
}
