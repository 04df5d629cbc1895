package spec

import (
	"crypto/rand"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/speculative"
)

// Event is what a token, or the end, adds to an answer. Events depend on the tokens only, not on how they were
// computed, but for Round, Stats, Progress and More, and for Drafted and Source of Token.
type Event struct {
	Answer int // counts from 0, see [Request].N

	Text      string     // that became certain: the answer's content
	Reasoning string     // likewise, of the reasoning before it
	Calls     []CallPart // of tool calls

	// Token is the token, with all the text that became certain by it, marks of the answer's format included. Its ID is
	// -1 where there is none: at the end, or with text that was held back.
	Token    speculative.Token
	Ends     bool // the token ended the answer, and is no part of it
	Thinking bool // the token is one of reasoning

	Scored   *speculative.Token // of the prompt: nothing else is in the event; with Request.Scored
	Progress *Progress          // of the prompt: nothing else is in the event; with Request.Progress

	Round *Round             // of speculation, that the token is the first of; with Request.Rounds
	Stats *speculative.Stats // so far, with Request.Timings; at the end in any case

	Finish Finish // why the answer ended; "" before its end
	More   bool   // further events are there already
}

// CallPart is a part of a tool call. Its beginning has name and id.
type CallPart struct {
	Call      int // counts from 0
	ID, Name  string
	Arguments string // to append: a JSON object in the end
}

// Progress is how far a prompt is computed.
type Progress struct {
	Total  int // tokens of the prompt
	Cached int // that were there already
	Done   int // with those
}

// Round is a round of speculation.
type Round struct {
	Drafted, Accepted int // tokens
	Seconds           float64
}

// Finish is why an answer ended.
type Finish string

// Ends of answers. [speculative.Stats].End says more.
const (
	FinishStop   Finish = "stop"       // the model ended it, or a stop text, or its constraint
	FinishLength Finish = "length"     // MaxTokens, or the context
	FinishCalls  Finish = "tool_calls" // it asks for the tools that it calls
)

// Result is an answer, or what has come of it so far.
type Result struct {
	Text      string
	Reasoning string
	Calls     []chat.ToolCall
	Finish    Finish // "" before the end

	ReasoningTokens int
	Stats           speculative.Stats // at the end
}

// Add adds an event to the answer that it belongs to.
func (r *Result) Add(e *Event) {
	r.Text += e.Text
	r.Reasoning += e.Reasoning
	for _, c := range e.Calls {
		if c.Call == len(r.Calls) {
			r.Calls = append(r.Calls, chat.ToolCall{ID: c.ID, Name: c.Name})
		}
		if c.Call < len(r.Calls) {
			r.Calls[c.Call].Arguments += c.Arguments
		}
	}
	if e.Thinking {
		r.ReasoningTokens++
	}
	if e.Finish != "" {
		r.Finish = e.Finish
	}
	if e.Finish != "" && e.Stats != nil {
		r.Stats = *e.Stats
	}
}

// Message is the answer as a message, for the next turn of a conversation.
func (r *Result) Message() chat.Message {
	return chat.Message{Role: "assistant", Content: r.Text, Reasoning: r.Reasoning, ToolCalls: r.Calls}
}

// Collect reads events to their end: the answers in the order of their numbers, or with what has come of them when an
// error ends them.
func Collect(events iter.Seq2[Event, error]) (list []Result, err error) {
	for e, err := range events {
		for len(list) <= e.Answer {
			list = append(list, Result{})
		}
		list[e.Answer].Add(&e)
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

// reader makes events of an answer's tokens.
type reader struct {
	t      *Task
	index  int
	isEnd  func(int32) bool
	parser *chat.Parser // nil: the text is plain
	lines  *lineWatch   // nil: answers do not end by their lines
	round  *Round       // waits for its first token
	stats  func() speculative.Stats

	shown int        // bytes of the tokens' texts so far
	marks []heldMark // that stand behind text which is held back

	written bool // there is content, or a call
	calls   int
}

func (t *Task) newReader(index int, stats func() speculative.Stats) *reader {
	r := &reader{t: t, index: index, isEnd: t.isEnd(), stats: stats}
	if t.r.Lines != (Lines{}) {
		r.lines = &lineWatch{Lines: t.r.Lines}
	}
	if kind := t.r.Constraint.Kind; t.format != nil {
		r.parser = chat.NewParser(*t.format, chat.ParserOptions{Tools: t.offered, Reasoning: t.reasoning,
			Continued: t.r.Continue, Exact: kind == JSONSchema, JSON: kind == JSONSchema || kind == AnyJSON})
	}
	return r
}

// heldMark is a mark of the format that waits for the text in front of it.
type heldMark struct {
	at   int // bytes of text in front of it
	mark string
}

// marked is the text of a token with the format's marks, which decoders leave out where they are control tokens. One
// behind text that is held back comes with it, in its place.
func (r *reader) marked(text string, held int, id int32) string {
	from := r.shown
	r.shown += len(text)
	if r.t.m.tok.IsControl(id) {
		if mark := r.t.format.Spell(r.t.m.tok, id); mark != "" {
			r.marks = append(r.marks, heldMark{r.shown + held, mark})
		}
	}
	if len(r.marks) == 0 || r.marks[0].at > r.shown {
		return text
	}
	var b strings.Builder
	at := 0
	for len(r.marks) > 0 && r.marks[0].at <= r.shown {
		next := r.marks[0].at - from
		b.WriteString(text[at:next])
		b.WriteString(r.marks[0].mark)
		at, r.marks = next, r.marks[1:]
	}
	b.WriteString(text[at:])
	return b.String()
}

// token is the event of a token. It is the last one if the answer's lines say so.
func (r *reader) token(token speculative.Token) (Event, bool) {
	ended := false
	if r.lines != nil {
		token.Text, ended = r.lines.push(token.Text, time.Now())
		token.Held += len(r.lines.held)
	}
	e := Event{Answer: r.index, Token: token}
	if r.t.format != nil { // the parser needs the marks
		e.Token.Text = r.marked(token.Text, token.Held, token.ID)
	}
	e.Ends = token.ID >= 0 && r.isEnd(token.ID)
	if r.t.r.Rounds {
		e.Round, r.round = r.round, nil
	}
	if r.t.r.Timings {
		s := r.stats()
		e.Stats = &s
	}
	if r.parser == nil {
		e.Text = e.Token.Text
		return e, ended
	}
	r.read(r.parser.Push(e.Token.Text), &e)
	e.Thinking = e.Reasoning != "" || r.t.reasoning && !r.written
	return e, ended
}

// end is the event of the answer's end; err is why it failed, nil if it did not. early: its lines ended it.
func (r *reader) end(err error, early bool) Event {
	s := r.stats()
	e := Event{Answer: r.index, Token: speculative.Token{ID: -1}, Stats: &s}
	if r.lines != nil && !early {
		e.Token.Text = r.lines.held
	}
	if r.parser != nil {
		e.Token.Text = r.marked(e.Token.Text, 0, -1)
		r.read(r.parser.Push(e.Token.Text), &e)
		rest := r.parser.Close()
		if r.calls == 0 && r.t.callsConstraint().required { // what was held back is the beginning of a call
			rest = slices.DeleteFunc(rest, func(e chat.Event) bool { return e.Kind == chat.ContentEvent })
		}
		r.read(rest, &e)
	} else {
		e.Text = e.Token.Text
	}
	switch {
	case err != nil:
	case early, s.End == speculative.EndLength, s.End == speculative.EndContext:
		e.Finish = FinishLength
	case r.calls > 0:
		e.Finish = FinishCalls
	default:
		e.Finish = FinishStop
	}
	return e
}

// read adds a parser's events to an event.
func (r *reader) read(events []chat.Event, to *Event) {
	for _, e := range events {
		switch e.Kind {
		case chat.ContentEvent:
			to.Text += e.Text
			r.written = r.written || e.Text != ""
		case chat.ReasoningEvent:
			to.Reasoning += e.Text
		case chat.ToolCallStart:
			to.Calls = append(to.Calls, CallPart{Call: e.Call, ID: e.ID, Name: e.Name})
			r.calls, r.written = r.calls+1, true
		case chat.ToolCallArgs:
			if n := len(to.Calls) - 1; n >= 0 && to.Calls[n].Call == e.Call {
				to.Calls[n].Arguments += e.Text
			} else {
				to.Calls = append(to.Calls, CallPart{Call: e.Call, Arguments: e.Text})
			}
		}
	}
}

// named gives tool calls that begin without an id one.
func (t *Task) named(e *Event) {
	for i := range e.Calls {
		c := &e.Calls[i]
		switch {
		case c.Name == "" || c.ID != "":
		case t.r.CallID != nil:
			c.ID = t.r.CallID()
		default:
			c.ID = "call_" + rand.Text()
		}
	}
}
