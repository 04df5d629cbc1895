package promptcache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/specgo/spec/engine"
)

// Step is the number of tokens that an entry has the keys and values of, but at the end of a text.
const Step = 64

// formatVersion changes when the bytes of an entry mean something else.
const formatVersion = 1

// Lineage is what decides, beside tokens, about the bytes that a session keeps. Sequences of the same lineage go on
// from each other.
type Lineage struct {
	Model    string // the model's Identity, and what else decides about all of its sequences
	KV       string // as engine.SessionOptions has it
	Layers   int    // of the session
	Adapters string // Key of their set
	Salt     string // separates sequences whose tokens are the same
	Read     bool   // of a draft head: each token went in with the target's states of a text
	Before   int32  // of such a text: the token before the sequence; -1: none
}

// LineageOf is the lineage of a session with these options, of a model of that identity ([engine.Model.Identity]).
func LineageOf(identity string, o engine.SessionOptions, salt string) Lineage {
	return Lineage{Model: identity, KV: cmp.Or(o.KV, "f16"), Layers: o.Layers, Adapters: o.Adapters.Key(), Salt: salt,
		Before: -1}
}

// Unread is what a draft head has of a text beyond its sequence: the target's states after tokens with which it has
// not been fed.
type Unread struct {
	Tokens []int32
	States []float32
}

// The kinds of entries of a length of a text.
const (
	kindCache  = 'k' // keys and values of a cache, of the part that ends there
	kindMarks  = 'm' // which lengths within the next part are ends of texts
	kindState  = 's' // of the recurrent layers
	kindUnread = 'u'
)

// of is the key of an entry of a length.
func (k Key) of(kind byte, number int) Key {
	b := append(k[:], kind)
	return sha256.Sum256(binary.LittleEndian.AppendUint32(b, uint32(number)))
}

// next is the key of the length after more tokens.
func (k Key) next(tokens []int32) Key {
	h := sha256.New()
	h.Write(k[:])
	var b [4]byte
	for _, id := range tokens {
		binary.LittleEndian.PutUint32(b[:], uint32(id))
		h.Write(b[:])
	}
	h.Sum(k[:0])
	return k
}

// root is the key of no tokens, in sessions with these caches. A cache that is laid out otherwise than it was has other
// bytes of a position: what was saved in the old layout is not found.
func (l *Lineage) root(caches []engine.SavedCache) (k Key) {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %q %q %d %q %q %t %d\n", formatVersion, Step, l.Model, cmp.Or(l.KV, "f16"),
		l.Layers, l.Adapters, l.Salt, l.Read, l.Before)
	for _, c := range caches {
		fmt.Fprintf(h, "%d %d\n", c.Window, c.Position)
	}
	h.Sum(k[:0])
	return k
}

// text is the keys of a text's lengths.
type text struct {
	tokens []int32
	keys   []Key // of 0, Step, 2*Step, … tokens
}

func (l *Lineage) text(caches []engine.SavedCache, tokens []int32) text {
	t := text{tokens, []Key{l.root(caches)}}
	for n := Step; n <= len(tokens); n += Step {
		t.keys = append(t.keys, t.keys[len(t.keys)-1].next(tokens[n-Step:n]))
	}
	return t
}

// key is the key of a length.
func (t *text) key(n int) Key {
	k := t.keys[n/Step]
	if n%Step > 0 {
		k = k.next(t.tokens[n/Step*Step : n])
	}
	return k
}

// Saved is what Save has done.
type Saved struct {
	Tokens int   // of the sequence that Load restores of what was saved, also where the save ended early
	Bytes  int64 // that were not in the store before
}

// saving is a Save in progress.
type saving struct {
	ctx   context.Context
	store Store
	text
	saved Saved
	used  []Key
	fresh int // entries that were put since the store was told what is used
	data  []byte
}

// mostFresh is the most entries that are put before the store is told that what comes before them is of more use.
const mostFresh = 64

// Save stores what a session keeps of its sequence, up to the last length that it can be restored to, as far as the
// store does not have it. Of a draft head that is what it was fed with the target's states. The session is not
// changed. It stops when ctx ends, or at the first error of the store: what is stored then is of use.
func Save(ctx context.Context, store Store, l Lineage, s *engine.Session, unread Unread) (Saved, error) {
	n := s.Restorable(s.Len())
	if l.Read {
		n = s.Restorable(min(n, s.Fed()))
	}
	caches := s.SavedCaches()
	x := &saving{ctx: ctx, store: store, text: l.text(caches, s.Tokens()[:n])}
	part := func(from, to int) error {
		for i, c := range caches {
			if c.Position == 0 || from < c.First {
				continue
			}
			err := x.put(x.key(to).of(kindCache, i), func(dst []byte) ([]byte, error) { return s.SaveKV(dst, i, from, to) })
			if err != nil {
				return err
			}
		}
		return nil
	}
	ends := s.StatesSaved()
	recurrent := s.SavedStates().Bytes > 0
	// restorable counts to tokens, of which all is saved, where the windows of what follows do not reach back further.
	restorable := func(to int) {
		if !slices.ContainsFunc(caches, func(c engine.SavedCache) bool { return c.Position > 0 && c.First > c.From(to) }) {
			x.saved.Tokens = max(x.saved.Tokens, to)
		}
	}
	for to := Step; to <= n; to += Step {
		if err := part(to-Step, to); err != nil {
			return x.saved, err
		}
		if !recurrent {
			restorable(to)
		}
	}
	if !recurrent {
		ends = []int{n}
	}
	for _, end := range ends {
		if end > n || end == 0 {
			continue
		}
		from := end / Step * Step
		if from < end {
			if err := part(from, end); err != nil {
				return x.saved, err
			}
		}
		if recurrent {
			err := x.put(x.key(end).of(kindState, 0), func(dst []byte) ([]byte, error) { return s.SaveState(dst, end) })
			if err != nil {
				return x.saved, err
			}
			if end%Step == 0 {
				restorable(end)
			}
		}
		if end == n && len(unread.Tokens) > 0 {
			err := x.put(x.key(end).of(kindUnread, 0), func(dst []byte) ([]byte, error) { return unread.append(dst), nil })
			if err != nil {
				return x.saved, err
			}
		}
		if err := x.mark(end); err != nil {
			return x.saved, err
		}
		restorable(end)
	}
	store.Used(ctx, x.used)
	return x.saved, nil
}

// put stores an entry that the store does not have.
func (x *saving) put(key Key, bytes func(dst []byte) ([]byte, error)) (err error) {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	x.used = append(x.used, key)
	if x.store.Has(x.ctx, key) {
		return nil
	}
	if x.data, err = bytes(x.data[:0]); err == nil {
		err = x.store.Put(x.ctx, key, x.data)
	}
	if err != nil {
		return err
	}
	x.saved.Bytes += int64(len(x.data))
	// A store that has no room for all of a text is to keep its beginning: the rest is of no use without it.
	if x.fresh++; x.fresh >= max(1, min(mostFresh, len(x.used)/8)) {
		x.fresh = 0
		x.store.Used(x.ctx, x.used)
	}
	return nil
}

// mark says in the store that a text can end after n tokens.
func (x *saving) mark(n int) error {
	if n%Step == 0 {
		return nil
	}
	key := x.keys[n/Step].of(kindMarks, 0)
	x.used = append(x.used, key)
	had := marksOf(x.store.Get(x.ctx, key))
	marks := had | 1<<(n%Step)
	if marks == had {
		return nil
	}
	return x.store.Put(x.ctx, key, binary.LittleEndian.AppendUint64(nil, marks))
}

// marksOf is an entry of marks: bit i says that a text ends i tokens on.
func marksOf(data []byte, err error) uint64 {
	if err != nil || len(data) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(data)
}

func (u *Unread) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(u.Tokens)))
	for _, id := range u.Tokens {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(id))
	}
	for _, x := range u.States {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	}
	return dst
}

// unreadOf is the reverse of append; nothing where the bytes are none of it.
func unreadOf(data []byte) (u Unread) {
	if len(data) < 4 || len(data)%4 != 0 {
		return u
	}
	n := int(binary.LittleEndian.Uint32(data))
	if data = data[4:]; n < 1 || n > len(data)/4 || (len(data)/4-n)%n != 0 {
		return u
	}
	for i := range n {
		u.Tokens = append(u.Tokens, int32(binary.LittleEndian.Uint32(data[4*i:])))
	}
	for data = data[4*n:]; len(data) > 0; data = data[4:] {
		u.States = append(u.States, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return u
}

// Loaded is a sequence that was restored.
type Loaded struct {
	Session *engine.Session
	Unread  Unread
	Bytes   int64 // that were read
}

// loading is a Load in progress.
type loading struct {
	ctx    context.Context
	store  Store
	caches []engine.SavedCache
	states engine.SavedStates
	points bool // to go back to are loaded too
	text
	bad  map[Key]bool // that could not be read
	read int64
	used []Key
}

// Load restores the longest beginning of tokens that the store has, if that is at least least tokens, in a session
// that open makes with the options o; nil: the store has none. What turns out to be damaged counts as missing. The
// error is ctx's, or that of open.
func Load(ctx context.Context, store Store, l Lineage, open func(engine.SessionOptions) (*engine.Session, error),
	o engine.SessionOptions, tokens []int32, least int) (*Loaded, error) {
	return (&loading{ctx: ctx, store: store}).load(l, open, o, tokens, least)
}

// LoadPoints is Load, also of what the store has by which the session can be cut back: earlier states of recurrent
// layers, and positions of layers with a window.
func LoadPoints(ctx context.Context, store Store, l Lineage, open func(engine.SessionOptions) (*engine.Session, error),
	o engine.SessionOptions, tokens []int32, least int) (*Loaded, error) {
	return (&loading{ctx: ctx, store: store, points: true}).load(l, open, o, tokens, least)
}

func (x *loading) load(l Lineage, open func(engine.SessionOptions) (*engine.Session, error), o engine.SessionOptions,
	tokens []int32, least int) (*Loaded, error) {
	ctx, store := x.ctx, x.store
	s, err := open(o)
	if err != nil {
		return nil, err
	}
	caches := s.SavedCaches()
	x.caches, x.states, x.bad = caches, s.SavedStates(), map[Key]bool{}
	x.text = l.text(caches, tokens[:min(len(tokens), s.Context())])
	for {
		n := x.longest(max(least, 1))
		if err := ctx.Err(); err != nil {
			s.Close()
			return nil, err
		}
		if n == 0 {
			s.Close()
			return nil, nil
		}
		x.used = x.used[:0]
		err := x.restore(s, n, l.Read)
		if err == nil {
			loaded := &Loaded{Session: s, Bytes: x.read}
			if key := x.key(n).of(kindUnread, 0); l.Read && x.has(key) {
				u, h := unreadOf(x.get(key)), s.Model().Head()
				if h != nil && len(u.States) == len(u.Tokens)*h.TargetStates() {
					loaded.Unread = u
				}
			}
			if key := x.keys[n/Step].of(kindMarks, 0); n%Step > 0 && !slices.Contains(x.used, key) {
				x.used = append(x.used, key) // by which n was found
			}
			store.Used(ctx, x.used)
			return loaded, nil
		}
		if len(x.bad) == 0 || !errors.Is(err, ErrMissing) { // what was read is none of the session's
			s.Close()
			return nil, err
		}
		s.Close()
		if s, err = open(o); err != nil {
			return nil, err
		}
	}
}

func (x *loading) has(key Key) bool { return !x.bad[key] && x.store.Has(x.ctx, key) }

// get reads an entry; nil: it is damaged, or gone.
func (x *loading) get(key Key) []byte { return x.sized(key, -1) }

// sized reads an entry of so many bytes, of another one nothing; negative: of any number.
func (x *loading) sized(key Key, bytes int64) []byte {
	data, err := x.store.Get(x.ctx, key)
	if err != nil || bytes >= 0 && int64(len(data)) != bytes {
		x.bad[key] = true
		return nil
	}
	x.read += int64(len(data))
	x.used = append(x.used, key)
	return data
}

// part reports whether the store has the part that ends after n tokens, of the caches without a window.
func (x *loading) part(n int) bool {
	key := x.key(n)
	for i, c := range x.caches {
		if c.Position > 0 && c.Window == 0 && !x.has(key.of(kindCache, i)) {
			return false
		}
	}
	return true
}

// longest is the greatest number of tokens, at least least, for which the store has everything; 0: there is none.
func (x *loading) longest(least int) int {
	n := 0
	for n+Step <= len(x.tokens) && x.part(n+Step) {
		n += Step
	}
	for ; n >= 0; n -= Step {
		for marks := x.marks(n); marks != 0; {
			i := bits.Len64(marks) - 1
			marks &^= 1 << i
			if n+i >= least && n+i <= len(x.tokens) && x.part(n+i) && x.complete(n+i) {
				return n + i
			}
		}
		if n < least {
			break
		}
		if x.complete(n) {
			return n
		}
	}
	return 0
}

// marks are the lengths, from n on, that texts end at within the next part: bit i says that one ends i tokens on.
func (x *loading) marks(n int) uint64 {
	key := x.keys[n/Step].of(kindMarks, 0)
	if !x.has(key) {
		return 0
	}
	return marksOf(x.get(key), nil) & (1<<Step - 2)
}

// state reads the states of the recurrent layers after the tokens of a key.
func (x *loading) state(key Key) []byte { return x.sized(key.of(kindState, 0), int64(x.states.Bytes)) }

// earlier are the last states that the store has after fewer than n tokens, as many as a session keeps. Without points
// they are of use and not read.
func (x *loading) earlier(n int) (list []engine.SavedState) {
	for from := (n - 1) / Step * Step; from >= 0 && len(list) < x.states.Most; from -= Step {
		for marks := x.marks(from) | 1; marks != 0 && len(list) < x.states.Most; {
			i := bits.Len64(marks) - 1
			marks &^= 1 << i
			state := engine.SavedState{Tokens: from + i}
			if state.Tokens >= n || state.Tokens < 1 {
				continue
			}
			key := x.key(state.Tokens)
			switch s := key.of(kindState, 0); {
			case !x.has(s):
				continue
			case !x.points:
				x.keep(s)
			default:
				if state.Bytes = x.state(key); state.Bytes == nil {
					continue
				}
			}
			for c := range x.caches { // of what ends within a step
				x.keep(key.of(kindCache, c))
			}
			list = append(list, state)
		}
	}
	slices.Reverse(list)
	return list
}

// keep has what the store has of a key be of use.
func (x *loading) keep(key Key) {
	if !slices.Contains(x.used, key) && x.has(key) {
		x.used = append(x.used, key)
	}
}

// first is for each cache with a window the position from which on the store has what a sequence of n tokens keeps.
// Without points that is of use and not read.
func (x *loading) first(n int) []int {
	list := make([]int, len(x.caches))
	for i, c := range x.caches {
		from := c.From(n)
		for at := from; c.Position > 0 && c.Window > 0 && at > 0; {
			at -= Step
			key := x.key(min(n, at+Step)).of(kindCache, i)
			if !x.has(key) {
				break
			}
			if !x.points {
				x.used = append(x.used, key)
			}
			if at%engine.KVPage == 0 {
				from = at
			}
		}
		list[i] = from
	}
	return list
}

// complete reports whether the store has what a sequence of n tokens needs beside the caches without a window.
func (x *loading) complete(n int) bool {
	if x.states.Bytes > 0 && !x.has(x.key(n).of(kindState, 0)) {
		return false
	}
	for i, c := range x.caches {
		if c.Position == 0 || c.Window == 0 {
			continue
		}
		for from := c.From(n); from < n; from += Step {
			if !x.has(x.key(min(n, from+Step)).of(kindCache, i)) {
				return false
			}
		}
	}
	return true
}

// restore reads the first n tokens into an empty session.
func (x *loading) restore(s *engine.Session, n int, read bool) error {
	r := engine.Restored{Tokens: x.tokens[:n], Step: Step, KV: func(cache, from, to int) ([]byte, error) {
		if err := x.ctx.Err(); err != nil {
			return nil, err
		}
		data := x.sized(x.key(to).of(kindCache, cache), int64(to-from)*x.caches[cache].Position)
		if data == nil {
			return nil, ErrMissing
		}
		return data, nil
	}}
	if read {
		r.Fed = n
	}
	if x.states.Bytes > 0 {
		if r.State = x.state(x.key(n)); r.State == nil {
			return ErrMissing
		}
	}
	if x.points {
		r.First = x.first(n)
		r.Earlier = x.earlier(n)
	}
	err := s.Restore(r)
	if err == nil && !x.points { // a File drops what is of no use, and other texts may leave this one earlier
		x.first(n)
		x.earlier(n)
	}
	return err
}
