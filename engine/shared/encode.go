package shared

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
)

// Encoder inputs, of encoder-decoder models. What the encoder makes of an input is a part of a session's memory, and
// the input one of its lineage: sequences with different inputs have nothing in common, and those with the same one
// share it, from before their first token on.
//
// An encoder sees its whole input at once, so that it is not cut into chunks: a pass encodes one session's input,
// the oldest one's, besides what it computes for others, who wait for that.

// Encode sets the encoder's input of the sequence, which is empty then, as [engine.Session.Encode] does. It waits for
// the pass that computes it, unless another session has the same input. When ctx ends, so does the encoder's work. If
// Encode fails, the session keeps its input and its sequence.
func (s *Session) Encode(ctx context.Context, ids []int32) error {
	if s == nil {
		return fmt.Errorf("%w: no session", engine.ErrUsage)
	}
	c := s.c
	if err := c.m.CheckInput(ids); err != nil {
		return err
	}
	c.mu.Lock()
	if err := s.usable(); err != nil {
		c.mu.Unlock()
		return err
	}
	had, of, tokens, computed := s.input, s.lineage.encoder, s.tokens, s.computed
	s.exit.drop()
	s.drop()
	s.input, s.lineage.encoder = slices.Clone(ids), inputKey(ids)
	s.tokens, s.computed = nil, 0
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	s.submission.encode = true
	c.mu.Unlock()

	_, err := s.submit(ctx, engine.Segment{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.submission.encode = false; err == nil {
		return nil
	}
	s.drop()
	s.input, s.lineage.encoder, s.tokens, s.computed = had, of, tokens, computed // they are computed again
	return err
}

// Input is the encoder's input that Encode set last, nil if there is none. It must not be changed.
func (s *Session) Input() []int32 { return s.input }

// inputKey is an input as a value that can be compared.
func inputKey(ids []int32) string {
	b := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return string(b)
}

// encodes reports whether the session has an input that its memory lacks: it is new, or the memory was given up.
func (s *Session) encodes() bool {
	return len(s.input) > 0 && (s.session == nil || s.session.Input() == nil)
}

// findInput looks for a sequence with the input that s lacks, and goes on from that. It reports true if s is to wait,
// since an older session is about to have it encoded.
func (c *Scheduler) findInput(s *Session) (waits bool) {
	if !s.encodes() || !c.shares(s) {
		return false
	}
	var from *engine.Session
	if root := c.prefixes.roots[s.lineage]; root != nil {
		root.each(nil, func(o *prefix) bool {
			c.prefixes.use(o.at)
			from = o.session
			return false
		})
	}
	for _, o := range c.sessions {
		switch {
		case o == s || o.lineage != s.lineage:
		case from == nil && o.state != taken && o.session != nil && !o.encodes():
			from = o.session
		case o.serial < s.serial && o.pending() && o.encodes():
			waits = true
		}
	}
	if from == nil {
		return waits
	}
	memory, err := from.ForkAt(0)
	if err != nil {
		return waits // it is encoded
	}
	s.drop()
	s.session = memory
	if s.submission.encode { // else its memory was given up
		s.gain(len(s.input))
	}
	c.stats.PrefixHits++
	c.stats.PrefixTokens += int64(len(s.input))
	return false
}

// takeInput has the pass encode the input of s, if there is memory for it.
func (c *Scheduler) takeInput(s *Session) bool {
	session := s.session
	if session == nil {
		var err error
		if session, err = c.m.NewSession(s.options.SessionOptions); err != nil {
			s.complete(engine.Result{}, err)
			return false
		}
	}
	fixed := int64(0)
	if s.session == nil {
		fixed = session.Bytes()
	}
	kept, during := session.EncodeNeed(len(s.input))
	if !c.reserve(s, fixed+kept+during) {
		if s.session == nil {
			session.Close()
		}
		return false
	}
	c.planned -= min(fixed, c.planned) // fill counts it
	s.session = session
	c.fill(s)
	if len(s.tokens) > 0 {
		c.stats.Recomputed += int64(len(s.input))
	}
	c.encoding = s
	c.enter(s, taken)
	return true
}

// encode is the encoder's part of a pass, and how long it took without the wait for other models' passes. It ends
// with the context of who asked for it.
func (c *Scheduler) encode() (took time.Duration, err error) {
	s := c.encoding
	defer func() {
		if v := recover(); v != nil {
			err = c.panicked(v, debug.Stack())
		}
	}()
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	defer context.AfterFunc(c.ctx, stop)()
	turn := c.m.Runtime().Turn()
	defer c.endTurn(&turn, &took)
	if c.prepare != nil {
		turn.Took = c.prepare(engine.Batch{{Session: s.session, Tokens: s.input}})
	}
	return 0, turn.Encode(ctx, s.session, s.input)
}

// encoded is the end of the encoder's part of a pass.
func (c *Scheduler) encoded(took time.Duration, err error) {
	s := c.encoding
	c.stats.Passes++
	c.stats.PassTime += took
	s.pass = c.stats.Passes
	s.cost.spend(took.Seconds())
	if err != nil {
		s.drop() // of what it holds nothing is known
	} else {
		c.stats.Tokens += int64(len(s.input))
		c.stats.PromptTokens += int64(len(s.input))
	}
	if s.advance(engine.Result{}, err); s.state == taken {
		c.enter(s, submitted)
	}
}
