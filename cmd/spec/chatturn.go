package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/cmd/spec/internal/markdown"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

// say adds a message of the user and answers it. Without an answer the conversation is what it was.
func (d *dialog) say(ctx context.Context, text string) error {
	before := d.messages
	d.messages = append(slices.Clone(before), chat.Message{Role: "user", Content: d.attached + text})
	err := d.answer(ctx)
	if d.unanswered() {
		d.messages = before
	} else {
		d.attached = ""
	}
	return err
}

// unanswered reports whether the last message, of one at least, is the user's.
func (d *dialog) unanswered() bool { return d.messages[len(d.messages)-1].Role == "user" }

// answer generates the assistant's next message.
func (d *dialog) answer(ctx context.Context) (err error) {
	defer func() { d.said = d.said || err == nil }()
	if d.request.Speculation.Drafter == "none" { // no earlier answer drafts either
		d.request.Previous = library.Prompt{}
	}
	task, err := d.fit(ctx)
	if err != nil {
		return err
	}
	defer task.Close()
	d.prefill.prompt = len(task.Prompt(0))
	ctx, done := d.stop.answering(ctx)
	defer done()
	if err := task.Compile(ctx); err != nil {
		return requestError(err)
	}
	d.estimate = estimate{}
	a := d.newAnswer()
	start, t := time.Now(), turn{prompt: d.prefill.prompt}
	var failed error
	if d.predict != 0 {
		for e, err := range task.Generate(ctx, library.Run{}) {
			if e.Token.ID >= 0 {
				t.generated++
			}
			if e.Stats != nil {
				t.stats = *e.Stats
			}
			if failed = errors.Join(requestError(err), a.write(&e)); failed != nil {
				break
			}
		}
	}
	if err := a.end(); failed == nil || isInterrupt(failed) { // what could not be written before cannot be now
		failed = errors.Join(failed, err)
	}
	d.request.Previous = library.Prompt{}
	t.took = time.Since(start)
	d.last = t
	if a.message.Content != "" || a.message.Reasoning != "" || failed == nil {
		a.message.Role = "assistant"
		d.messages = append(d.messages, a.message)
	}
	switch {
	case failed != nil && d.stopped(ctx, failed):
		if d.note("(stopped)"); d.singleTurn {
			return errInterrupted // nothing follows
		}
		return nil
	case t.stats.End == speculative.EndContext:
		d.note("(the context of %d tokens is full: the answer was cut off)", d.Context())
	}
	if failed == nil {
		d.drafted()
	}
	return failed
}

// drafted says on a line what drafts did for the answer, to somebody who types.
func (d *dialog) drafted() {
	s := d.last.stats
	if !d.typed || !d.shown || s.Drafted == 0 {
		return
	}
	line := fmt.Sprintf("(%d of %d drafted tokens accepted, %d tokens in %d passes)", s.Accepted, s.Drafted,
		d.last.generated, s.TargetPasses)
	if d.color && terminal.Is(d.p.stderr) {
		line = colorPrompt + line + colorOff
	}
	d.note("%s", line)
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
	styled  *markdown.Writer // of the content; nil: it is written as it is
}

func (d *dialog) newAnswer() *answerWriter {
	a := &answerWriter{d: d}
	if d.markdown && d.shown && d.color && !d.showDrafts {
		a.styled = &markdown.Writer{}
	}
	return a
}

func (a *answerWriter) write(e *library.Event) error {
	a.message.Reasoning += e.Reasoning
	a.message.Content += e.Text
	color := ""
	if e.Token.Drafted && a.d.showDrafts {
		color = colorAccepted
	}
	if a.d.showReasoning {
		if err := a.part(chat.ReasoningEvent, e.Reasoning, colorPrompt); err != nil {
			return err
		}
	}
	return a.part(chat.ContentEvent, e.Text, color)
}

// part writes more of the reasoning or of the content.
func (a *answerWriter) part(kind chat.EventKind, text, color string) error {
	if text == "" {
		return nil
	}
	d := a.d
	if !d.color && kind == chat.ReasoningEvent && !a.begun { // where it cannot be faint, it is marked
		text = "[reasoning]\n" + text
	}
	if a.begun && a.kind != kind {
		text = "\n\n" + text
		if !d.color && kind == chat.ContentEvent {
			text = "\n[answer]\n" + text[2:]
		}
	}
	a.begun, a.kind, a.inLine = true, kind, !strings.HasSuffix(text, "\n")
	if kind == chat.ContentEvent && a.styled != nil {
		_, err := io.WriteString(d.p.stdout, a.styled.Write(terminal.Text(text)))
		return err
	}
	return d.print(text, color)
}

// end ends the answer's last line.
func (a *answerWriter) end() error {
	if a.styled != nil {
		if _, err := io.WriteString(a.d.p.stdout, a.styled.End()); err != nil {
			return err
		}
	}
	if !a.inLine && a.begun {
		return nil
	}
	return a.d.print("\n", "")
}

// prepare makes the task of the next answer, and says how many tokens its prompt has. The task is nil where the prompt
// leaves the context no room for an answer.
func (d *dialog) prepare(ctx context.Context) (task *library.Task, tokens int, err error) {
	if !d.template.SystemRole() && len(d.messages) > 0 && d.messages[0].Role == "system" {
		d.once("(the chat template has no system message: its text goes in front of the first message)")
	}
	d.request.Messages, d.request.MaxTokens = d.messages, max(d.predict, 0)
	task, err = d.Prepare(ctx, d.request)
	if e := (*library.RequestError)(nil); errors.As(err, &e) && e.Code == library.CodeContext {
		return nil, e.Tokens, nil
	}
	if err != nil {
		return nil, 0, requestError(err)
	}
	return task, len(task.Prompt(0)), nil
}

// fit prepares the next answer and, where its prompt leaves it little room, lets the user choose: the oldest turns are
// dropped until half of the context is free, or as many as can be, or the turn is refused.
func (d *dialog) fit(ctx context.Context) (*library.Task, error) {
	context := d.Context()
	task, tokens, err := d.prepare(ctx)
	turns := library.Turns(d.messages)
	if err != nil || task != nil && (!d.Full(tokens, d.request.MaxTokens) || turns < 2) { // or nothing to drop
		return task, err
	}
	if turns < 2 {
		return nil, d.tooLong(tokens)
	}
	choice := d.whenFull
	if choice == fullAsk {
		d.note("The conversation has %d tokens, the context holds %d (-c).", tokens, context)
		d.note("Drop the oldest turns, or stop here?")
		line, err := d.line(ctx, "[d/S] ")
		if err != nil && !errors.Is(err, errInterrupted) {
			return nil, err
		}
		if choice = fullStop; strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "d") {
			choice = fullDrop
		}
	}
	if choice == fullStop {
		return nil, fmt.Errorf("the conversation has %d tokens, the context holds %d: /undo or /clear shorten it, "+
			"--when-full drop drops the oldest turns", tokens, context)
	}
	messages, dropped, err := d.Shorten(ctx, d.request)
	if err != nil {
		return nil, err
	}
	d.messages = messages
	if task, tokens, err = d.prepare(ctx); err != nil {
		return nil, err
	}
	d.note("(dropped the %d oldest of %d turns)", dropped, turns)
	if task == nil {
		return nil, d.tooLong(tokens)
	}
	return task, nil
}

// tooLong is the error of a prompt of one message that leaves no room for an answer.
func (d *dialog) tooLong(tokens int) error {
	return fmt.Errorf("the message makes a prompt of %d tokens, the context holds %d (-c)", tokens, d.Context())
}
