package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/speculative"
)

// say adds a message of the user and answers it. Without an answer the message is taken back.
func (d *dialog) say(ctx context.Context, text string) error {
	n := len(d.messages)
	d.messages = append(d.messages, chat.Message{Role: "user", Content: text})
	err := d.answer(ctx)
	if err != nil && len(d.messages) > n && d.messages[len(d.messages)-1].Role == "user" {
		d.messages = d.messages[:len(d.messages)-1]
	}
	return err
}

// answer generates the assistant's next message.
func (d *dialog) answer(ctx context.Context) error {
	prompt, ids, err := d.fit(ctx)
	if err != nil {
		return err
	}
	if d.prefill != nil {
		d.prefill.prompt = 0
		if len(ids) >= watchedPrompt {
			d.prefill.prompt = len(ids)
		}
	}
	ctx, done := d.stop.answering(ctx)
	defer done()
	d.estimate = estimate{}
	format := d.template.Format()
	a := &answerWriter{d: d}
	parser := chat.NewParser(*format, chat.ParserOptions{Reasoning: prompt.InReasoning()})
	sampling := d.sampling
	if d.rules != nil {
		c, err := d.constraint(ctx, format, prompt.InReasoning())
		if err != nil {
			return err
		}
		defer c.Close()
		sampling.Constraint = c
	}
	start, generated := time.Now(), 0
	var failed error
	if d.predict != 0 {
		d.decoder.Limit(d.predict) // which /set may have changed
		for token, err := range d.decoder.Generate(ctx, ids, sampling) {
			if err != nil {
				failed = errors.Join(err, a.write(parser.Push(token.Text), false))
				break
			}
			text := token.Text
			if token.ID >= 0 {
				generated++
			}
			if d.tok.IsControl(token.ID) { // the decoder leaves out control tokens
				text += format.Spell(d.tok, token.ID)
			}
			if failed = a.write(parser.Push(text), token.Drafted); failed != nil {
				break
			}
		}
	}
	failed = errors.Join(failed, a.write(parser.Close(), false), a.end())
	stats := d.decoder.Stats()
	d.last = turn{stats, generated, time.Since(start), len(ids)}
	if a.message.Content != "" || a.message.Reasoning != "" || failed == nil {
		a.message.Role = "assistant"
		d.messages = append(d.messages, a.message)
	}
	switch {
	case failed != nil && d.stopped(ctx, failed):
		d.note("(stopped)")
		return nil
	case stats.End == speculative.EndContext:
		d.note("(the context of %d tokens is full: the answer was cut off)", d.context)
	}
	return failed
}

// stopped reports whether an error is Ctrl-C during an answer, and nothing else.
func (d *dialog) stopped(ctx context.Context, err error) bool {
	return isInterrupt(err) && ctx.Err() != nil && d.stop.stopped()
}

// stopped reports whether the answer under way has been stopped by Ctrl-C, rather than by the program's end.
func (s *stopper) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hit
}

// answerWriter writes an answer and keeps it.
type answerWriter struct {
	d       *dialog
	message chat.Message
	kind    chat.EventKind
	begun   bool
	inLine  bool
}

func (a *answerWriter) write(events []chat.Event, drafted bool) error {
	for _, e := range events {
		d, color := a.d, ""
		if drafted && d.showDrafts {
			color = colorAccepted
		}
		switch e.Kind {
		case chat.ReasoningEvent:
			a.message.Reasoning += e.Text
			if !d.showReasoning {
				continue
			}
			color = colorPrompt
		case chat.ContentEvent:
			a.message.Content += e.Text
		default:
			continue // no tools were offered
		}
		text := e.Text
		if !d.color && e.Kind == chat.ReasoningEvent && !a.begun { // where it cannot be faint, it is marked
			text = "[reasoning]\n" + text
		}
		if a.begun && a.kind != e.Kind {
			text = "\n\n" + text
			if !d.color && e.Kind == chat.ContentEvent {
				text = "\n[answer]\n" + text[2:]
			}
		}
		a.begun, a.kind, a.inLine = true, e.Kind, !strings.HasSuffix(text, "\n")
		if err := d.print(text, color); err != nil {
			return err
		}
	}
	return nil
}

// end ends the answer's last line.
func (a *answerWriter) end() error {
	if !a.inLine && a.begun {
		return nil
	}
	return a.d.print("\n", "")
}

// render renders the conversation.
func (d *dialog) render(ctx context.Context) (*chat.Prompt, []int32, error) {
	messages := d.messages
	if !d.template.SystemRole() && len(messages) > 0 && messages[0].Role == "system" {
		d.once("(the chat template has no system message: its text goes in front of the first message)")
		messages = chat.MergeSystem(messages)
	}
	prompt, err := d.template.Render(ctx,
		chat.Conversation{Messages: messages, AddGenerationPrompt: true, Extra: d.variables})
	if err != nil {
		return nil, nil, err
	}
	ids := prompt.IDs(d.tok)
	if len(ids) == 0 {
		return nil, nil, errors.New("the chat template renders nothing")
	}
	return prompt, ids, nil
}

// answerRoom is how much of the context a prompt must leave to an answer, as 1 of so many.
const answerRoom = 8

// fit renders the conversation and, where it leaves no room for an answer, lets the user choose: the
// oldest turns are dropped until half of the context is free, or as many as can be, or the turn is refused.
func (d *dialog) fit(ctx context.Context) (*chat.Prompt, []int32, error) {
	prompt, ids, err := d.render(ctx)
	if err != nil || len(ids) <= d.context-d.context/answerRoom {
		return prompt, ids, err
	}
	if len(ids) <= d.context && d.turns() < 2 {
		return prompt, ids, nil // nothing to drop, and some room
	}
	choice := d.whenFull
	if d.turns() < 2 {
		return nil, nil, fmt.Errorf("the message makes a prompt of %d tokens, the context holds %d (-c)", len(ids), d.context)
	}
	if choice == fullAsk {
		d.note("The conversation has %d tokens, the context holds %d (-c).", len(ids), d.context)
		line, err := d.line(ctx, "Drop the oldest turns, or stop here? [d/S] ")
		if err != nil && !errors.Is(err, errInterrupted) {
			return nil, nil, err
		}
		if choice = fullStop; strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "d") {
			choice = fullDrop
		}
	}
	if choice == fullStop {
		return nil, nil, fmt.Errorf("the conversation has %d tokens, the context holds %d: /undo or /clear shorten it, "+
			"--when-full drop drops the oldest turns", len(ids), d.context)
	}
	dropped := 0
	for len(ids) > d.context/2 && d.turns() > 1 {
		d.dropTurn()
		dropped++
		if prompt, ids, err = d.render(ctx); err != nil {
			return nil, nil, err
		}
	}
	d.note("(dropped the %d oldest of %d turns)", dropped, dropped+d.turns())
	if len(ids) > d.context {
		return nil, nil, fmt.Errorf("the message makes a prompt of %d tokens, the context holds %d (-c)", len(ids), d.context)
	}
	return prompt, ids, nil
}

// turns counts the messages of the user.
func (d *dialog) turns() (n int) {
	for _, m := range d.messages {
		if m.Role == "user" {
			n++
		}
	}
	return n
}

// dropTurn drops the oldest message of the user and what follows it up to the next one.
func (d *dialog) dropTurn() {
	var kept []chat.Message
	users := 0
	for _, m := range d.messages {
		if m.Role == "user" {
			users++
		}
		if users != 1 || m.Role == "system" {
			kept = append(kept, m)
		}
	}
	d.messages = kept
}

// constraint is the grammar of an answer, with reasoning left free.
func (d *dialog) constraint(ctx context.Context, f *chat.Format, inReasoning bool) (*grammar.Constraint, error) {
	return d.vocabulary.Constraint(ctx, fmt.Sprint(inReasoning), func(b *grammar.Budget) (*grammar.Grammar, error) {
		o := chat.GrammarOptions{Reasoning: inReasoning, Control: chat.ControlMarks(d.tok), Budget: b}
		return f.AnswerGrammar(d.rules, o), nil
	})
}
