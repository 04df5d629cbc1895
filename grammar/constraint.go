package grammar

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
)

// Constraint is a grammar bound to a vocabulary, for one text. It is safe for concurrent use.
//
// A state is a number ≥ 0 that means the same for ever: it stands for everything that the grammar knows of the text
// so far. The methods' errors wrap [ErrLimit], or are the context's: no answer is known.
type Constraint struct {
	*bound
	ctx   context.Context
	close sync.Once
}

// bound is what the texts of a grammar share.
type bound struct {
	*words
	vocabulary *Vocabulary
	machine    *machine
	start      int32
	path       []int32 // of the walk; guarded by machine.mu

	// Guarded by vocabulary.mu.
	key   string // under which the vocabulary keeps it, if it does
	users int    // texts
	taken int    // bytes of the machine
	idle  *list.Element
	masks map[int32]*list.Element // by state
}

// ended is the state after an end-of-generation token: nothing may follow.
const ended = 1<<31 - 1

// Bind binds the grammar to a vocabulary, for one text, whose methods end with the budget's context. What the tokens
// cannot write is left out of it, so that no text gets to where nothing may follow; if nothing is left the error says
// what is missing. A nil budget has the default limits and no end. The first grammar of a vocabulary takes time in
// proportion to the vocabulary's bytes, others do not. Close gives the memory back.
func (g *Grammar) Bind(b *Budget, v *Vocabulary) (*Constraint, error) {
	b = b.orDefault()
	w, err := v.known(b.ctx)
	if err != nil {
		return nil, err
	}
	if g, err = g.compiled(b, w.letters); err != nil {
		return nil, err
	}
	c := &bound{words: w, vocabulary: v, users: 1, masks: map[int32]*list.Element{}, path: make([]int32, w.depth+1)}
	v.mu.Lock()
	v.users++
	v.texts++
	v.mu.Unlock()
	c.machine, c.start = newMachine(b.ctx, g, w.letters, v.limits, func(n int) bool { return v.charge(c, n) })
	if c.start >= 0 {
		return &Constraint{bound: c, ctx: b.ctx}, nil
	}
	v.release(c)
	if c.start == dead {
		return nil, fmt.Errorf("%w: it allows no text at all", ErrGrammar)
	}
	return nil, fmt.Errorf("before the first character: %w", c.machine.work.err)
}

// Close says that the text is done. Answers that were given stay valid, new ones must not be asked for.
func (c *Constraint) Close() { c.close.Do(func() { c.vocabulary.release(c.bound) }) }

// Start is the state before the first token.
func (c *Constraint) Start() int32 { return c.start }

// Final reports whether the text may end in a state, and Complete whether it must.
func (c *Constraint) Final(state int32) bool {
	if state == ended {
		return true
	}
	c.machine.mu.RLock()
	defer c.machine.mu.RUnlock()
	return c.known(state) && c.machine.states[state].final
}

// Complete reports whether nothing may follow a state but the end of the text.
func (c *Constraint) Complete(state int32) bool {
	if state == ended {
		return true
	}
	c.machine.mu.RLock()
	defer c.machine.mu.RUnlock()
	return c.known(state) && c.machine.states[state].final && len(c.machine.states[state].threads) == 0
}

func (c *Constraint) known(state int32) bool {
	return state >= 0 && int(state) < len(c.machine.states)
}

func (c *Constraint) unknown(state int32) error {
	return fmt.Errorf("%w: state %d was not given by this constraint", ErrGrammar, state)
}

// Next is the state after token id; false if the grammar does not allow id in this state.
func (c *Constraint) Next(state, id int32) (int32, bool, error) {
	m := c.machine
	if state == ended || id < 0 || int(id) >= c.size {
		return dead, false, nil
	}
	m.mu.RLock()
	at, done := c.cached(state, id)
	m.mu.RUnlock()
	if !done {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !c.known(state) {
			return dead, false, c.unknown(state)
		}
		m.begin(c.ctx)
		if at = c.feed(state, c.bytes[id]); at == full {
			return dead, false, fmt.Errorf("after token %d: %w", id, m.work.err)
		}
	}
	return at, at >= 0, nil
}

// cached is Next where every step is known already.
func (c *Constraint) cached(state, id int32) (to int32, done bool) {
	if !c.known(state) {
		return dead, false
	}
	if c.isEnd(id) {
		if c.machine.states[state].final {
			return ended, true
		}
		return dead, true
	}
	text := c.bytes[id]
	if len(text) == 0 || len(text) > maxTokenBytes {
		return dead, true
	}
	for _, b := range text {
		next := c.machine.states[state].next
		if next == nil || next[b] == unknown {
			return dead, false
		}
		if state = next[b]; state < 0 {
			return state, true
		}
	}
	return state, true
}

// feed is the state after some bytes.
func (c *Constraint) feed(state int32, text []byte) int32 {
	for _, b := range text {
		if state = c.machine.step(state, b); state < 0 {
			return state
		}
	}
	return state
}

// Mask returns the tokens that the grammar allows in a state: bit id%64 of word id/64, (Size+63)/64 words. The caller
// must not change them. The first call for a state walks the trie of the vocabulary, or in a string that the grammar
// leaves free the part of it that ends the string; the result is kept for a while.
func (c *Constraint) Mask(state int32) ([]uint64, error) {
	v, m := c.vocabulary, c.machine
	if mask, ok := v.mask(c.bound, state); ok {
		return mask, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if mask, ok := v.mask(c.bound, state); ok {
		return mask, nil
	}
	mask := make([]uint64, (c.size+63)/64)
	if state != ended {
		if !c.known(state) {
			return nil, c.unknown(state)
		}
		m.begin(c.ctx)
		tokens := c.trie
		if c.bodies != nil && c.bodies.holds(m, state) {
			copy(mask, c.bodies.mask)
			tokens = c.bodies.closing
		}
		if !c.walk(tokens, state, mask) {
			return nil, fmt.Errorf("while looking for the allowed tokens: %w", m.work.err)
		}
		if m.states[state].final {
			for _, id := range c.end {
				mask[id/64] |= 1 << (id % 64)
			}
		}
	}
	v.keep(c.bound, state, mask)
	return mask, nil
}

// walk sets the bits of the tokens of t whose bytes may follow a state. False: a limit was reached.
func (c *Constraint) walk(t *trie, state int32, mask []uint64) bool {
	path, m := c.path, c.machine
	path[0] = state
	nodes := t.nodes
	for i := 0; i < len(nodes)-1; {
		n := &nodes[i]
		to := int32(unknown)
		if next := m.states[path[n.depth]].next; next != nil {
			to = next[n.b]
		}
		if to == unknown {
			to = m.step(path[n.depth], n.b)
		}
		if to == full || !m.work.spend(1) {
			return false
		}
		if to == dead {
			i = int(n.end)
			continue
		}
		path[n.depth+1] = to
		for _, id := range t.tokens[n.token:nodes[i+1].token] {
			mask[id/64] |= 1 << (id % 64)
		}
		i++
	}
	return true
}

// maxForced is how many bytes are looked ahead for forced tokens: longer fixed texts are forced in several rounds.
const maxForced = 256

// forcedBytes is what a kept answer takes beside its tokens.
const forcedBytes = 64

// Forced returns the tokens that are certain in a state: the grammar allows one text only, in the tokenizer's
// spelling of it (a grammar fixes bytes; other spellings of the same bytes are allowed too). It stops before a token
// that a longer one could take the place of, whose bytes run over into free text, and where a limit is exceeded: the
// text may end before. They are free drafts: they need no draft model. The caller must not change them.
func (c *Constraint) Forced(state int32) ([]int32, error) {
	if c.vocabulary.encode == nil || state == ended {
		return nil, nil
	}
	m := c.machine
	m.mu.RLock()
	ids, ok := m.forced[state]
	m.mu.RUnlock()
	if ok {
		return ids, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !c.known(state) {
		return nil, c.unknown(state)
	}
	m.begin(c.ctx)
	var text []byte
	states := []int32{state} // before each byte of text
	for at := state; len(text) < maxForced; {
		b, ok := m.only(at)
		if !ok {
			break
		}
		at = m.step(at, b)
		if at == full && c.ctx.Err() == nil { // the text may end before it gets there
			m.begin(c.ctx)
		}
		if at < 0 {
			break
		}
		text = append(text, b)
		states = append(states, at)
	}
	if len(text) > 0 {
		ids = c.spell(text, states)
	}
	if size := forcedBytes + 4*len(ids); m.work.err == nil && m.owe(size) {
		m.kept += size
		m.forced[state] = ids
	}
	if err := c.ctx.Err(); err != nil {
		return nil, fmt.Errorf("while looking for forced tokens: %w", err)
	}
	return ids, nil
}

// encodeText is the tokens of text, in which control tokens are spelled as in grammars.
func (c *Constraint) encodeText(text []byte) (ids []int32) {
	for len(text) > 0 {
		i := bytes.IndexByte(text, controlMark[0])
		if i < 0 {
			return append(ids, c.vocabulary.encode(string(text))...)
		}
		if i > 0 {
			ids = append(ids, c.vocabulary.encode(string(text[:i]))...)
		}
		n := bytes.IndexByte(text[i+1:], controlMark[0])
		id, ok := c.control[string(text[i:i+n+2])]
		if n < 0 || !ok {
			return ids
		}
		ids, text = append(ids, id), text[i+n+2:]
	}
	return ids
}

// spell is the tokenizer's spelling of text up to the token that free text behind it could change.
func (c *Constraint) spell(text []byte, states []int32) []int32 {
	ids := c.encodeText(text)
	from := 0
	for i, id := range ids {
		if id < 0 || int(id) >= c.size || from+len(c.bytes[id]) > len(text) || len(c.bytes[id]) == 0 ||
			string(text[from:from+len(c.bytes[id])]) != string(c.bytes[id]) || c.overruns(text[from:], states[len(states)-1]) {
			return slices.Clone(ids[:i])
		}
		from += len(c.bytes[id])
	}
	return ids
}

// overruns reports whether a token begins with all of rest and goes on with what the grammar allows behind it.
func (c *Constraint) overruns(rest []byte, after int32) bool {
	at := c.trie.find(rest)
	if at < 0 {
		return false
	}
	base := int(c.trie.nodes[at].depth) + 1
	path := make([]int32, c.trie.depth+1-base+1)
	path[0] = after
	for i := at + 1; i < int(c.trie.nodes[at].end); {
		n := &c.trie.nodes[i]
		to := c.machine.step(path[int(n.depth)-base], n.b)
		if to == full || !c.machine.work.spend(1) {
			return true // not known
		}
		if to == dead {
			i = int(n.end)
			continue
		}
		path[int(n.depth)-base+1] = to
		if len(c.trie.ending(i)) > 0 {
			return true
		}
		i++
	}
	return false
}
