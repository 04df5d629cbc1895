package grammar

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Tokens is what a vocabulary must know of a tokenizer; [*bpe.Tokenizer] is one.
type Tokens interface {
	Size() int             // ids are 0 … Size-1
	Bytes(id int32) []byte // the bytes that id stands for; none for control tokens
	Token(id int32) string // its name; a grammar allows a control token where it names it, see [ControlToken]
	IsEOG(id int32) bool   // id ends the text: allowed where the grammar's text may end
}

// VocabularyOptions are the options of [NewVocabulary]. The zero value is useful.
type VocabularyOptions struct {
	// Encode returns the ids of text in the middle of a sequence, as the tokenizer spells it. nil: [Constraint.Forced]
	// finds nothing.
	Encode func(text string) []int32

	Limits Limits // of the grammars and of the texts under them
}

// Vocabulary is a model's tokens, which all its grammars share: the trie of their bytes, made once, and one budget of
// memory for what the grammars keep. Beyond it what was used least recently is given up: masks, and grammars that no
// text uses. It is safe for concurrent use.
type Vocabulary struct {
	tokens Tokens
	encode func(string) []int32
	limits Limits
	turn   chan struct{} // has one place: of the compilation at work
	making chan struct{} // has one place: of who makes words

	mu     sync.Mutex // the last one taken of several
	words  *words     // nil: not made yet
	used   int        // bytes
	users  int        // grammars that texts use
	texts  int        // constraints that are not closed
	byKey  map[string]*bound
	recent list.List // of *kept, what was used least recently in front
}

// kept is memory that can be given up: a mask, or a grammar that no text uses.
type kept struct {
	of    *bound
	state int32
	mask  []uint64 // nil: the grammar
}

// NewVocabulary makes the vocabulary of a tokenizer. Its trie is made when the first grammar is bound.
func NewVocabulary(t Tokens, o VocabularyOptions) *Vocabulary {
	return &Vocabulary{tokens: t, encode: o.Encode, limits: o.Limits.withDefaults(),
		turn: make(chan struct{}, 1), making: make(chan struct{}, 1), byKey: map[string]*bound{}}
}

// Constraint is the constraint of a key, for one text: that of an earlier call, or compile's grammar, bound. Calls
// compile one at a time, each under a budget of its own; a wait for that ends with ctx, as the compilation does. The
// key must say everything that the grammar depends on. The text's methods end with ctx too. Close gives the
// constraint back.
func (v *Vocabulary) Constraint(ctx context.Context, key string, compile func(*Budget) (*Grammar, error)) (
	*Constraint, error) {
	if c := v.Find(ctx, key); c != nil {
		return c, nil
	}
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-v.turn }()
	if c := v.Find(ctx, key); c != nil {
		return c, nil
	}
	b := NewBudget(ctx, v.limits)
	g, err := compile(b)
	if err != nil {
		return nil, err
	}
	c, err := g.Bind(b, v)
	if err != nil {
		return nil, err
	}
	if _, err := c.Mask(c.start); err != nil { // the first tokens are part of what a grammar costs
		c.Close()
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	c.key = key
	v.byKey[key] = c.bound
	return c, nil
}

// Find is the constraint of a key that an earlier call of Constraint made and that is still kept; nil: none is.
func (v *Vocabulary) Find(ctx context.Context, key string) *Constraint {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.byKey[key]
	if c == nil {
		return nil
	}
	v.texts++
	if c.users++; c.users == 1 {
		v.users++
		v.recent.Remove(c.idle)
	}
	return &Constraint{bound: c, ctx: ctx}
}

// release ends one text's use of c. A grammar that took half of the memory is not kept: another text would soon find
// no more.
func (v *Vocabulary) release(c *bound) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.users == 0 {
		return
	}
	v.texts--
	if c.users--; c.users > 0 {
		return
	}
	v.users--
	if v.byKey[c.key] != c || c.taken > v.limits.Memory/2 {
		v.drop(c)
		return
	}
	c.idle = v.recent.PushBack(&kept{of: c})
}

// drop forgets a grammar that no text uses. The lock is held.
func (v *Vocabulary) drop(c *bound) {
	if v.byKey[c.key] == c {
		delete(v.byKey, c.key)
	}
	for _, e := range c.masks {
		v.remove(e)
	}
	v.used -= c.taken
	c.taken = 0
}

// remove gives up a mask. The lock is held.
func (v *Vocabulary) remove(e *list.Element) {
	k := v.recent.Remove(e).(*kept)
	delete(k.of.masks, k.state)
	v.used -= maskBytes(k.mask)
}

func maskBytes(mask []uint64) int { return 8*len(mask) + 160 }

// room gives up what was used least recently until the budget is kept, if that is possible. The lock is held.
func (v *Vocabulary) room() bool {
	for v.used > v.limits.Memory {
		e := v.recent.Front()
		if e == nil {
			return false
		}
		if k := e.Value.(*kept); k.mask != nil {
			v.remove(e)
		} else {
			v.recent.Remove(e)
			v.drop(k.of)
		}
	}
	return true
}

// charge counts a grammar's memory. Where nothing can be given up a grammar still gets an equal share of the budget,
// so that one which took all of it does not end the others' texts.
func (v *Vocabulary) charge(c *bound, n int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n > 0 && c.users == 0 {
		return false
	}
	v.used += n
	c.taken += n
	if n < 0 || v.room() || c.taken <= v.limits.Memory/(v.users+1) {
		return true
	}
	v.used -= n
	c.taken -= n
	return false
}

// mask is the mask of a state, if it is kept.
func (v *Vocabulary) mask(c *bound, state int32) ([]uint64, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := c.masks[state]
	if !ok {
		return nil, false
	}
	v.recent.MoveToBack(e)
	return e.Value.(*kept).mask, true
}

// keep keeps a mask.
func (v *Vocabulary) keep(c *bound, state int32, mask []uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := c.masks[state]; ok || c.users == 0 {
		return
	}
	c.masks[state] = v.recent.PushBack(&kept{c, state, mask})
	v.used += maskBytes(mask)
	v.room()
}

// Memory is how many bytes the grammars keep, and how many constraints are not closed yet.
func (v *Vocabulary) Memory() (bytes, texts int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.used, v.texts
}

// words is what the tokens of a vocabulary are. It does not change.
type words struct {
	*trie
	size    int
	bytes   [][]byte         // by token; nil: part of no text
	end     []int32          // end-of-generation tokens, ascending
	control map[string]int32 // control tokens by their spelling in grammars
	letters *alphabet        // what the tokens can write
	bodies  *bodies          // nil: there are none
}

// isEnd reports whether a token ends the text.
func (w *words) isEnd(id int32) bool {
	_, found := slices.BinarySearch(w.end, id)
	return found
}

// known are the vocabulary's words, made by the first call.
func (v *Vocabulary) known(ctx context.Context) (*words, error) {
	if v == nil || v.tokens == nil {
		return nil, fmt.Errorf("%w: no vocabulary to bind it to", ErrGrammar)
	}
	select {
	case v.making <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-v.making }()
	v.mu.Lock()
	w := v.words
	v.mu.Unlock()
	if w != nil {
		return w, nil
	}
	w = &words{size: v.tokens.Size(), control: map[string]int32{}}
	w.bytes = make([][]byte, w.size)
	for id := range int32(w.size) {
		if id%sliceTokens == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			runtime.Gosched()
		}
		if v.tokens.IsEOG(id) {
			w.end = append(w.end, id)
			continue
		}
		text := v.tokens.Bytes(id)
		switch name := v.tokens.Token(id); {
		case len(text) == 0 && name != "":
			text = []byte(ControlToken(name))
			w.control[string(text)] = id
		case bytes.Contains(text, []byte(controlMark)):
			text = nil // part of no text, and it would be taken for part of a control token's name
		}
		w.bytes[id] = text
	}
	w.letters = newAlphabet(w.bytes, w.control)
	w.trie, w.bodies = newTrie(w.bytes), newBodies(w.bytes)
	v.mu.Lock()
	v.words = w
	v.mu.Unlock()
	return w, nil
}

// sliceTokens is how many tokens are read between two looks at the context.
const sliceTokens = 1 << 10
