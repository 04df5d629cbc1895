package spec

import (
	"math"
	"strings"
	"sync"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
)

// budget is a constraint on an answer's reasoning: after so many tokens of it the mark that ends it is forced. It says
// nothing of what follows, and of answers that do not reason. It is safe for concurrent use.
type budget struct {
	most       int32
	start, end string  // marks of reasoning
	closing    []int32 // tokens of end
	spell      func(int32) string
	all        []uint64

	mu     sync.Mutex
	states []thought
	ids    map[thought]int32
}

// thought is what is known of an answer.
type thought struct {
	phase thinkPhase
	n     int32  // tokens of reasoning, or of the mark that ends it
	tail  string // text that may be the beginning of a mark
}

type thinkPhase uint8

const (
	thinkBefore thinkPhase = iota // nothing but white space, or a part of the mark
	thinkInside
	thinkClosing
	thinkOver
)

// newBudget is a budget for answers in a format; inside: they begin within reasoning.
func newBudget(most int, f *chat.Format, tok *bpe.Tokenizer, vocab int, inside bool) *budget {
	b := &budget{most: int32(min(most, math.MaxInt32)), start: strings.TrimSpace(f.ThinkStart), end: f.ThinkEnd,
		ids: map[thought]int32{}}
	b.closing = tok.Encode(f.ThinkEnd, bpe.EncodeOptions{ParseSpecial: true, NoSpacePrefix: true})
	b.spell = func(id int32) string {
		if tok.IsControl(id) {
			return f.Spell(tok, id)
		}
		return string(tok.Bytes(id))
	}
	b.all = make([]uint64, (vocab+63)/64)
	for id := range vocab {
		b.all[id/64] |= 1 << (id % 64)
	}
	first := thought{phase: thinkBefore}
	if inside {
		first.phase = thinkInside
	}
	b.number(first)
	return b
}

// writes reports whether the vocabulary has the tokens of the mark that ends reasoning.
func (b *budget) writes() bool {
	text := ""
	for _, id := range b.closing {
		text += b.spell(id)
	}
	return text == b.end
}

// number is that of a state. The lock is held, or nobody else knows b.
func (b *budget) number(t thought) int32 {
	id, ok := b.ids[t]
	if !ok {
		id = int32(len(b.states))
		b.states, b.ids[t] = append(b.states, t), id
	}
	return id
}

func (b *budget) at(state int32) thought {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states[state]
}

// Start is the state in front of an answer.
func (b *budget) Start() int32 { return 0 }

// Next is the state behind a token.
func (b *budget) Next(state, id int32) (int32, bool, error) {
	t := b.at(state)
	switch t.phase {
	case thinkBefore:
		t.tail += b.spell(id)
		text := strings.TrimLeft(t.tail, " \n\t\r")
		switch {
		case strings.HasPrefix(text, b.start):
			t = b.inside(thought{phase: thinkInside}, text[len(b.start):])
		case strings.HasPrefix(b.start, text):
			t.tail = text
		default:
			t = thought{phase: thinkOver}
		}
	case thinkInside:
		t.n++
		t = b.inside(t, b.spell(id))
	case thinkClosing:
		if b.closing[t.n] != id {
			return 0, false, nil
		}
		if t.n++; int(t.n) == len(b.closing) {
			t = thought{phase: thinkOver}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.number(t), true, nil
}

// inside is the state after more text of reasoning.
func (b *budget) inside(t thought, text string) thought {
	t.tail += text
	switch {
	case strings.Contains(t.tail, b.end):
		return thought{phase: thinkOver}
	case t.n >= b.most:
		return thought{phase: thinkClosing}
	}
	n := min(len(t.tail), len(b.end)-1)
	for !strings.HasPrefix(b.end, t.tail[len(t.tail)-n:]) {
		n--
	}
	t.tail = t.tail[len(t.tail)-n:]
	return t
}

// Mask is the tokens that may follow.
func (b *budget) Mask(state int32) ([]uint64, error) {
	t := b.at(state)
	if t.phase != thinkClosing {
		return b.all, nil
	}
	id := b.closing[t.n]
	mask := make([]uint64, id/64+1)
	mask[id/64] = 1 << (id % 64)
	return mask, nil
}

// Forced is what is left of the mark that ends the reasoning.
func (b *budget) Forced(state int32) ([]int32, error) {
	if t := b.at(state); t.phase == thinkClosing {
		return b.closing[t.n:], nil
	}
	return nil, nil
}

// Final reports whether the answer may end.
func (b *budget) Final(state int32) bool { return b.at(state).phase != thinkClosing }

// setBudget bounds the reasoning of the task's answers.
func (t *Task) setBudget() error {
	n := t.r.ThinkingBudget
	if n <= 0 || t.format == nil || !t.format.Thinks() {
		return nil
	}
	calls := t.callsConstraint()
	switch {
	case t.format.ThinkEnd == "":
		return bad("thinking_budget", "%s has no mark that ends reasoning", t.m.name)
	case t.r.Constraint.Kind != "" || calls.tools != nil:
		return bad("thinking_budget", "it and %s exclude each other", t.constraintField(&calls))
	case t.r.Sampling.Constraint != nil:
		return bad("thinking_budget", "Sampling has a constraint too")
	}
	b := newBudget(n, t.format, t.m.tok, t.m.parts.Target.Config().Vocab, t.reasoning)
	if !b.writes() {
		return bad("thinking_budget", "the vocabulary of %s has no tokens for %s, which ends reasoning", t.m.name,
			t.format.ThinkEnd)
	}
	t.r.Sampling.Constraint = b
	return nil
}
