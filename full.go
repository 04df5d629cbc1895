package spec

import (
	"context"
	"slices"
	"sort"

	"github.com/specgo/spec/chat"
)

// Full says what becomes of a prompt that leaves the context too little room for an answer. An answer that fills the
// context ends with [FinishLength] either way.
type Full string

// The ways to deal with a full context.
const (
	// FullStop: a prompt that does not fit is refused.
	FullStop Full = ""
	// FullDrop: a conversation loses its oldest turns, and a text its middle behind the first [Request].Keep tokens, so
	// that half of the context is free. A gap to fill, and an encoder's text, are not cut.
	FullDrop Full = "drop"
)

// answerRoom is how much of the context a prompt must leave to an answer, as 1 of so many, or as much as MaxTokens says
// if that is less.
const answerRoom = 8

// Full reports whether a prompt of so many tokens leaves the context too little room for an answer of at most maxTokens
// (0: of any length). What an encoder reads takes nothing of the context.
func (m *Model) Full(tokens, maxTokens int) bool {
	if m.parts.Target.Encodes() {
		return false
	}
	room := m.context / answerRoom
	if maxTokens > 0 {
		room = min(room, maxTokens)
	}
	return tokens > m.context-max(room, 1)
}

// Shorten drops the oldest turns of a request's conversation until half of the context is free, or all but the last. A
// turn is a message of the user with what follows it; what stands before the first, and messages of the system, stay.
// It returns the messages that are left, and how many turns were dropped.
func (m *Model) Shorten(ctx context.Context, r Request) (left []chat.Message, dropped int, err error) {
	all := r.Messages
	most := max(Turns(all)-1, 0)
	// A prompt grows with its messages, so that half of the choices go with each look.
	dropped = 1 + sort.Search(max(most-1, 0), func(i int) bool {
		if err != nil {
			return true
		}
		var n int
		r.Messages = withoutTurns(all, i+1)
		n, err = m.Count(ctx, r)
		return err == nil && n <= m.context/2
	})
	if dropped = min(dropped, most); err != nil {
		return nil, 0, err
	}
	return withoutTurns(all, dropped), dropped, nil
}

// Turns counts the messages of the user.
func Turns(messages []chat.Message) (n int) {
	for i := range messages {
		if messages[i].Role == "user" {
			n++
		}
	}
	return n
}

// withoutTurns is a conversation without its oldest n turns.
func withoutTurns(messages []chat.Message, n int) (left []chat.Message) {
	turn := 0
	for _, m := range messages {
		if m.Role == "user" {
			turn++
		}
		if turn == 0 || turn > n || m.Role == "system" || m.Role == developerRole {
			left = append(left, m)
		}
	}
	return left
}

// makeRoom shortens a prompt that is too long, where the request says so.
func (t *Task) makeRoom(ctx context.Context) error {
	switch t.r.WhenFull {
	case FullStop:
		return nil
	case FullDrop:
	default:
		return bad("when_full", "%.20q is neither stop nor drop", string(t.r.WhenFull))
	}
	if t.start != nil || t.r.Infill != nil {
		return nil
	}
	if t.r.Messages == nil {
		for i, ids := range t.prompts {
			if t.m.Full(len(ids), t.r.MaxTokens) {
				t.prompts[i] = t.shortened(ids)
			}
		}
		return nil
	}
	if Turns(t.r.Messages) < 2 || !t.m.Full(len(t.prompts[0]), t.r.MaxTokens) {
		return nil
	}
	messages, _, err := t.m.Shorten(ctx, t.r)
	if err != nil {
		return err
	}
	t.r.Messages, t.offered, t.cut = messages, nil, true
	if err := t.setConversation(ctx); err != nil {
		return err
	}
	return t.truncate() // what is left of the conversation is the prompt now
}

// shortened is a prompt without its middle: the tokens to keep, with the one that begins texts, and the newest, in half
// of the context. One that keeps more than that is left to be refused.
func (t *Task) shortened(ids []int32) []int32 {
	keep, half := min(t.r.Keep, t.m.context), t.m.context/2 // no sum that overflows
	if keep < 0 {
		return ids
	}
	if tok := t.m.tok; tok.AddsBOS() && len(ids) > 0 && ids[0] == tok.BOS() {
		keep++
	}
	if keep >= half {
		return ids
	}
	t.cut = true
	return slices.Concat(ids[:keep], ids[len(ids)-(half-keep):])
}

// truncate leaves the last tokens of the prompts, where the request says how many.
func (t *Task) truncate() error {
	n := t.r.Truncate
	switch {
	case n == 0:
		return nil
	case t.r.Infill != nil:
		return bad("truncate_prompt_tokens", "the text around a gap (suffix) is not cut")
	case t.start != nil:
		return bad("truncate_prompt_tokens", "an encoder's text is not cut")
	case n < 0:
		n = max(1, t.m.context-max(1, t.r.MaxTokens))
	}
	for i, ids := range t.prompts {
		if len(ids) <= n {
			continue
		}
		t.cut = true
		rest := ids[len(ids)-n:]
		if tok := t.m.tok; tok.AddsBOS() && ids[0] == tok.BOS() {
			rest = append([]int32{ids[0]}, rest[1:]...)
		}
		t.prompts[i] = rest
	}
	return nil
}

// Cut reports whether something was dropped from a prompt, see WhenFull and Truncate of [Request].
func (t *Task) Cut() bool { return t.cut }
