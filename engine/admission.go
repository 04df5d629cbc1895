package engine

import "fmt"

// admit checks segment i, makes room for it and adds it to the pass.
func (m *Model) admit(p *pass, i int, g *Segment) error {
	s := g.Session
	switch {
	case s == nil:
		return fmt.Errorf("%w: no session", ErrUsage)
	case s.m != m:
		return fmt.Errorf("%w: a session of another model", ErrUsage)
	case s.serial == p.serial:
		return fmt.Errorf("%w: the session is in the batch twice", ErrUsage)
	}
	s.serial = p.serial
	if s.closed {
		return fmt.Errorf("session: %w", ErrClosed)
	}
	if s.form != nil && s.form.closed {
		return fmt.Errorf("draft form: %w", ErrClosed)
	}
	if m.encoder != nil && s.input == nil {
		return fmt.Errorf("%w: a %s model reads one before it writes (Encode)", ErrInput, m.config.Architecture)
	}
	for j, id := range g.Tokens {
		if id < 0 || int(id) >= m.config.Vocab {
			return fmt.Errorf("token %d: %w: id %d of %d", j, ErrVocabulary, id, m.config.Vocab)
		}
	}
	n, depth := len(g.Tokens), len(g.Tokens)
	if g.Parents != nil {
		if len(g.Parents) != n || n > maxTree {
			return fmt.Errorf("%w: a tree of %d tokens and %d parents, at most %d", ErrUsage, n, len(g.Parents), maxTree)
		}
		var err error
		if depth, err = p.depths(g.Parents); err != nil {
			return err
		}
	}
	if len(s.tokens)+depth > s.context {
		return fmt.Errorf("%w: %d tokens and %d more, room for %d", ErrContextFull, len(s.tokens), depth, s.context)
	}
	rows := int(g.Logits)
	if g.Logits == All {
		rows = n
	}
	if rows < 0 || rows > n {
		return fmt.Errorf("%w: logits of %d positions wanted, %d tokens", ErrUsage, rows, n)
	}
	own := chunk{
		s: s, segment: i, start: len(s.tokens), tokens: g.Tokens, parents: g.Parents,
		wanted: n - rows, hidden: n, states: g.Layers,
	}
	switch {
	case m.head != nil:
		if err := m.head.admit(g); err != nil {
			return err
		}
		own.fed, own.block = s.feeds(g), m.blocks(g)
	case len(g.States) > 0 || g.FromTarget:
		return fmt.Errorf("%w: hidden states go into draft heads only", ErrUsage)
	}
	s.hidden = s.hidden[:0]
	if g.Hidden != None || len(g.Layers) > 0 {
		states, err := m.admitHidden(g, n)
		if err != nil {
			return err
		}
		own.hidden = n - states
	}
	p.adapted.add(i, len(p.results), &s.adapters)
	if err := s.roomForAll(len(s.tokens) + n); err != nil {
		return err
	}
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	sized(&s.logits, rows*m.config.Vocab)
	// What is known and not in the caches is recomputed first, like a prompt.
	known := 0
	if !s.noCache {
		known = s.Restorable(len(s.tokens))
	}
	if m.head != nil && known < len(s.tokens) { // a pass of several rounds has failed, and windows have moved on
		return fmt.Errorf("%w: of %d tokens %d are left, and a draft head's cannot be recomputed: Truncate it", ErrUsage,
			len(s.tokens), known)
	}
	s.rewind(known)
	again := s.tokens[known:]
	if s.redone = 0; n > 0 {
		if !s.noCache {
			s.redone = len(again)
			s.again += len(again)
		}
		p.push(chunk{s: s, segment: i, start: known, tokens: again, wanted: len(again)})
	}
	p.push(own)
	return nil
}
