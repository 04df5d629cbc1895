package spec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/specgo/spec/chat"
)

// Complete continues a text. What else the request says holds, see [Model.Generate].
func (m *Model) Complete(ctx context.Context, text string, r Request) iter.Seq2[Event, error] {
	r.Messages, r.Prompts = nil, []Prompt{{Text: text}}
	return m.Generate(ctx, r)
}

// Chat writes the next message of a conversation. What else the request says holds, see [Model.Generate].
func (m *Model) Chat(ctx context.Context, messages []chat.Message, r Request) iter.Seq2[Event, error] {
	if messages == nil {
		messages = []chat.Message{} // the template says whether there may be none
	}
	r.Messages, r.Prompts = messages, nil
	return m.Generate(ctx, r)
}

// Text reads the events of one answer to their end: its content, or what has come of it when an error ends it.
func Text(events iter.Seq2[Event, error]) (string, error) {
	var b strings.Builder
	for e, err := range events {
		if e.Answer == 0 {
			b.WriteString(e.Text)
		}
		if err != nil {
			return b.String(), err
		}
	}
	return b.String(), nil
}

// ErrCutOff is the error of an [Answer] that MaxTokens or the context ended before it was a whole value.
var ErrCutOff = errors.New("spec: the answer was cut off")

// Answer is the next message of a conversation as a value of type T: the answer follows [SchemaFor] T. It is one
// answer, whatever N says, and has no other Constraint: of that AnyOrder alone is looked at. A call of a tool is no
// value, and an error.
func Answer[T any](ctx context.Context, m *Model, messages []chat.Message, r Request) (value T, err error) {
	schema, err := SchemaFor[T]()
	if err != nil {
		return value, err
	}
	if c := r.Constraint; c.Kind != "" && (c.Kind != JSONSchema || !bytes.Equal(c.Source, schema)) {
		return value, bad(r.Constraint.field(), "the answer follows the schema of %T", value)
	}
	r.Constraint, r.N = Constraint{Kind: JSONSchema, Source: schema, AnyOrder: r.Constraint.AnyOrder}, 1
	list, err := Collect(m.Chat(ctx, messages, r))
	if err != nil {
		return value, err
	}
	if calls := list[0].Calls; len(calls) > 0 {
		return value, fmt.Errorf("spec: the answer is no %T: it calls the tool %s", value, calls[0].Name)
	}
	if list[0].Finish == FinishLength && !whole(list[0].Text) {
		return value, fmt.Errorf("%w after %d tokens", ErrCutOff, list[0].Stats.Generated)
	}
	if err := json.Unmarshal([]byte(list[0].Text), &value); err != nil {
		return value, fmt.Errorf("spec: the answer is no %T: %w", value, err)
	}
	return value, nil
}

// whole reports whether a text is a JSON value behind which no more of it can come: any but a number. The last token
// that was allowed has completed it then.
func whole(text string) bool {
	text = strings.TrimSpace(text)
	return json.Valid([]byte(text)) && strings.ContainsRune(`}]"el`, rune(text[len(text)-1]))
}
