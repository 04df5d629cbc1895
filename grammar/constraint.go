package grammar

import (
	"bytes"
	"fmt"
	"slices"
)

// Vocabulary is what a constraint must know of a tokenizer; [*bpe.Tokenizer] is one.
type Vocabulary interface {
	Size() int             // ids are 0 … Size-1
	Bytes(id int32) []byte // the bytes that id stands for; none for control tokens
	Token(id int32) string // its name; a grammar allows a control token where it names it, see [ControlToken]
	IsEOG(id int32) bool   // id ends the text: allowed where the grammar's text may end
}

// Options of [Grammar.Bind]. The zero value is useful.
type Options struct {
	// Encode returns the ids of text in the middle of a sequence, as the tokenizer spells it. nil: [Constraint.Forced] finds nothing.
	Encode func(text string) []int32

	// Masks is how many masks are kept; each takes a bit per token. 0 is 1024.
	Masks int
}

// Constraint is a grammar bound to a vocabulary. It is safe for concurrent use.
//
// A state is a number ≥ 0 that means the same for ever: it stands for everything that the grammar knows of the text so far. The
// methods' errors wrap [ErrLimit]: the text drove the machine beyond its limits, and no answer is known.
type Constraint struct {
	machine *machine
	start   int32
	trie    *trie
	size    int
	bytes   [][]byte // by token
	end     []int32  // end-of-generation tokens
	isEnd   map[int32]bool
	encode  func(string) []int32
	control map[string]int32 // control tokens by their spelling in grammars

	// Guarded by machine.mu.
	masks  map[int32][]uint64
	oldest []int32 // the states of masks, oldest first
	most   int
	path   []int32           // of the walk
	forced map[int32][]int32 // by state
}

// ended is the state after an end-of-generation token: nothing may follow.
const ended = 1<<31 - 1

// Bind binds the grammar to a vocabulary. It takes time in proportion to the vocabulary's bytes.
func (g *Grammar) Bind(v Vocabulary, o Options) (*Constraint, error) {
	if g.err != nil {
		return nil, g.err
	}
	m, start := newMachine(g)
	switch start {
	case dead:
		return nil, fmt.Errorf("%w: it allows no text at all", ErrGrammar)
	case full:
		return nil, fmt.Errorf("before the first character: %w", ErrLimit)
	}
	c := &Constraint{machine: m, start: start, size: v.Size(), encode: o.Encode, most: o.Masks,
		control: map[string]int32{}, masks: map[int32][]uint64{}, forced: map[int32][]int32{}, isEnd: map[int32]bool{}}
	if c.most <= 0 {
		c.most = 1024
	}
	c.bytes = make([][]byte, c.size)
	for id := range int32(c.size) {
		if v.IsEOG(id) {
			c.end = append(c.end, id)
			c.isEnd[id] = true
			continue
		}
		text := v.Bytes(id)
		switch name := v.Token(id); {
		case len(text) == 0 && name != "":
			text = []byte(ControlToken(name))
			c.control[string(text)] = id
		case bytes.Contains(text, []byte(controlMark)):
			text = nil // part of no text, and it would be taken for part of a control token's name
		}
		c.bytes[id] = text
	}
	c.trie = newTrie(c.size, func(id int32) []byte { return c.bytes[id] })
	c.path = make([]int32, c.trie.depth+1)
	return c, nil
}

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
		at = c.feed(state, c.bytes[id])
	}
	if at == full {
		return dead, false, fmt.Errorf("after token %d: %w", id, ErrLimit)
	}
	return at, at >= 0, nil
}

// cached is Next where every step is known already.
func (c *Constraint) cached(state, id int32) (to int32, done bool) {
	if !c.known(state) {
		return dead, false
	}
	if c.isEnd[id] {
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

// Mask returns the tokens that the grammar allows in a state: bit id%64 of word id/64, (Size+63)/64 words. The caller must not change
// them. The first call for a state walks the trie of the vocabulary; the result is kept.
func (c *Constraint) Mask(state int32) ([]uint64, error) {
	m := c.machine
	m.mu.RLock()
	mask, ok := c.masks[state]
	m.mu.RUnlock()
	if ok {
		return mask, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if mask, ok := c.masks[state]; ok {
		return mask, nil
	}
	mask = make([]uint64, (c.size+63)/64)
	if state != ended {
		if !c.known(state) {
			return nil, c.unknown(state)
		}
		if err := c.walk(state, mask); err != nil {
			return nil, err
		}
		if m.states[state].final {
			for _, id := range c.end {
				mask[id/64] |= 1 << (id % 64)
			}
		}
	}
	if len(c.oldest) == c.most {
		delete(c.masks, c.oldest[0])
		c.oldest = append(c.oldest[:0], c.oldest[1:]...)
	}
	c.masks[state], c.oldest = mask, append(c.oldest, state)
	return mask, nil
}

// walk sets the bits of the tokens whose bytes may follow a state.
func (c *Constraint) walk(state int32, mask []uint64) error {
	path := c.path
	path[0] = state
	nodes := c.trie.nodes
	for i := 0; i < len(nodes)-1; {
		n := &nodes[i]
		to := int32(unknown)
		if next := c.machine.states[path[n.depth]].next; next != nil {
			to = next[n.b]
		}
		if to == unknown {
			to = c.machine.step(path[n.depth], n.b)
		}
		if to < 0 {
			if to == full {
				return fmt.Errorf("while looking for the allowed tokens: %w", ErrLimit)
			}
			i = int(n.end)
			continue
		}
		path[n.depth+1] = to
		for _, id := range c.trie.tokens[n.token:nodes[i+1].token] {
			mask[id/64] |= 1 << (id % 64)
		}
		i++
	}
	return nil
}

// maxForced is how many bytes are looked ahead for forced tokens: longer fixed texts are forced in several rounds.
const maxForced = 256

// Forced returns the tokens that are certain in a state: the grammar allows one text only, in the tokenizer's spelling of it (a grammar
// fixes bytes; other spellings of the same bytes are allowed too). It stops before a token that a longer one could take the place of,
// whose bytes run over into free text. They are free drafts: they need no draft model. The caller must not change them.
func (c *Constraint) Forced(state int32) ([]int32, error) {
	if c.encode == nil || state == ended {
		return nil, nil
	}
	m := c.machine
	m.mu.RLock()
	ids, ok := c.forced[state]
	m.mu.RUnlock()
	if ok {
		return ids, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !c.known(state) {
		return nil, c.unknown(state)
	}
	var text []byte
	states := []int32{state} // before each byte of text
	for at := state; len(text) < maxForced; {
		b, ok := m.only(at)
		if !ok {
			break
		}
		if at = m.step(at, b); at < 0 {
			if at == full {
				return nil, fmt.Errorf("while looking for forced tokens: %w", ErrLimit)
			}
			break
		}
		text = append(text, b)
		states = append(states, at)
	}
	if len(text) > 0 {
		ids = c.spell(text, states)
	}
	if len(c.forced) >= 4*c.most {
		clear(c.forced)
	}
	c.forced[state] = ids
	return ids, nil
}

// encodeText is the tokens of text, in which control tokens are spelled as in grammars.
func (c *Constraint) encodeText(text []byte) (ids []int32) {
	for len(text) > 0 {
		i := bytes.IndexByte(text, controlMark[0])
		if i < 0 {
			return append(ids, c.encode(string(text))...)
		}
		if i > 0 {
			ids = append(ids, c.encode(string(text[:i]))...)
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
		if to < 0 {
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
