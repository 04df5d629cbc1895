package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/randommodel"
)

// encoderText is a text of a decoder, with the encoder's input that it depends on.
type encoderText struct {
	input, tokens []int32
	want          []float32 // the logits of all tokens, in a session alone
}

// encoderTexts draws texts: the second has the input of the first, the others inputs of their own.
func encoderTexts(t *testing.T, m *engine.Model, n int) []encoderText {
	t.Helper()
	list := make([]encoderText, n)
	for i := range list {
		x := &list[i]
		x.input = randomTokens(20+60*(i%5), m.Config().Vocab, uint64(max(i, 1)))
		x.tokens = append([]int32{0}, randomTokens(17, m.Config().Vocab, uint64(100+i))...)
		s := newSession(t, m, engine.SessionOptions{})
		if err := s.Encode(t.Context(), x.input); err != nil {
			t.Fatal(err)
		}
		l, err := s.Eval(t.Context(), x.tokens, nil, engine.All)
		if err != nil {
			t.Fatal(err)
		}
		x.want = slices.Clone(l.Data)
	}
	return list
}

// write feeds a text to a session, a few tokens at a time.
func (x *encoderText) write(ctx context.Context, s *Session) error {
	if err := s.Encode(ctx, x.input); err != nil {
		return err
	}
	var got []float32
	for n, all := 1, x.tokens; len(all) > 0; n = n%3 + 1 {
		n = min(n, len(all))
		l, err := s.Eval(ctx, all[:n], nil, engine.All)
		if err != nil {
			return err
		}
		got, all = append(got, l.Data...), all[n:]
	}
	if !slices.Equal(got, x.want) {
		return errors.New("other logits than alone")
	}
	return nil
}

// Sessions of an encoder-decoder model with different inputs, and with the same one, share passes and have the logits
// that each has alone: with any memory, also where they take it from each other.
func TestEncodersSharePasses(t *testing.T) {
	m := openFile(t, newRuntime(t, engine.RuntimeOptions{Threads: 2}), randommodel.FlanT5().File(t), engine.Options{})
	texts := encoderTexts(t, m, 6)
	one := newSession(t, m, engine.SessionOptions{})
	kept, during := one.EncodeNeed(260)
	least := kept + during + one.Need(18, 3)
	for _, o := range []Options{
		{}, {CacheBytes: -1}, {KVBytes: least}, {KVBytes: 2 * least}, {KVBytes: 2 * least, CacheBytes: -1},
	} {
		c := New(m, o)
		var wait sync.WaitGroup
		for i := range texts {
			wait.Go(func() {
				for range 2 {
					s, err := c.NewSession(t.Context(), SessionOptions{})
					if err == nil {
						err = texts[i].write(t.Context(), s)
						s.Close()
					}
					if err != nil {
						t.Errorf("%+v: text %d: %v", o, i, err)
					}
				}
			})
		}
		wait.Wait()
		if s := c.Stats(); o.KVBytes > 0 && s.KVBytes > o.KVBytes {
			t.Errorf("%+v: %d bytes in use", o, s.KVBytes)
		}
		c.Close()
		if n := c.used.Load(); n != 0 {
			t.Errorf("%+v: %d bytes are left", o, n)
		}
	}
}

// A pass with the tokens of two texts has the encoder's states of each for its own.
func TestTwoInputsInAPass(t *testing.T) {
	m := openFile(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), randommodel.FlanT5().File(t), engine.Options{})
	texts := encoderTexts(t, m, 3)[1:]
	c := New(m, Options{Wait: time.Hour})
	defer c.Close()
	var list []*Session
	for i := range texts {
		s, err := c.NewSession(t.Context(), SessionOptions{})
		if err == nil {
			err = s.Encode(t.Context(), texts[i].input)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Announce(false)
		list = append(list, s)
	}
	segments := 0
	c.SetPrepare(func(b engine.Batch) time.Duration { segments = len(b); return 0 })
	for _, s := range list {
		s.Announce(true) // the pass waits for both
	}
	var wait sync.WaitGroup
	for i, s := range list {
		wait.Go(func() {
			l, err := s.Eval(t.Context(), texts[i].tokens, nil, engine.All)
			if err != nil || !slices.Equal(l.Data, texts[i].want) {
				t.Errorf("text %d: other logits than alone, %v", i, err)
			}
		})
	}
	if wait.Wait(); segments != 2 {
		t.Errorf("a pass of %d segments", segments)
	}
}

// A session that gave up its memory has its input encoded again, and its sequence computed.
func TestInputIsEncodedAgain(t *testing.T) {
	m := openFile(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), randommodel.SmallT5().File(t), engine.Options{})
	texts := encoderTexts(t, m, 3)[1:]
	one := newSession(t, m, engine.SessionOptions{})
	kept, during := one.EncodeNeed(len(texts[1].input))
	c := New(m, Options{KVBytes: kept + during + one.Need(18, 1)})
	defer c.Close()
	a, err := c.NewSession(t.Context(), SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ids := slices.Clone(texts[0].input)
	if err := a.Encode(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	clear(ids) // they are the caller's again
	l, err := a.Eval(t.Context(), texts[0].tokens[:9], nil, engine.All)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Clone(l.Data)
	a.Announce(false)
	c.mu.Lock()
	a.drop() // as for the memory of another
	c.mu.Unlock()
	b, err := c.NewSession(t.Context(), SessionOptions{})
	if err == nil {
		err = texts[1].write(t.Context(), b)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Announce(false)
	if l, err = a.Eval(t.Context(), texts[0].tokens[9:], nil, engine.All); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(append(got, l.Data...), texts[0].want) {
		t.Error("other logits than alone")
	}
	if s := c.Stats(); s.Preemptions != 1 || s.Recomputed != int64(len(texts[0].input)+9) {
		t.Errorf("%d sessions gave up their memory, %d tokens were computed again", s.Preemptions, s.Recomputed)
	}
}

// An input is encoded once for all sessions that have it at the same time, and for those after them while their
// sequences are kept; not under another salt, and not where nothing is shared.
func TestInputsAreSharedByWhatTheyAre(t *testing.T) {
	m := openFile(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), randommodel.SmallT5().File(t), engine.Options{})
	x := encoderTexts(t, m, 1)[0]
	for _, test := range []struct {
		o     Options
		salts []string
		want  int // inputs that are encoded
	}{
		{Options{CacheBytes: 1 << 30}, []string{"", "", ""}, 1},
		{Options{CacheBytes: 1 << 30}, []string{"a", "b", "a"}, 2},
		{Options{}, []string{"", "", ""}, 2}, // nothing is kept: the last one comes later
		{Options{CacheBytes: -1}, []string{"", "", ""}, 3},
	} {
		c := New(m, test.o)
		encoded, passes, tokens := 0, int64(0), int64(0)
		const long = 20 * time.Millisecond
		c.SetPrepare(func(b engine.Batch) time.Duration {
			passes++
			for _, g := range b {
				tokens += int64(len(g.Tokens))
			}
			if len(b[0].Tokens) != len(x.input) {
				return 0
			}
			encoded++
			return long
		})
		reused := 0
		write := func(salts ...string) {
			var wait sync.WaitGroup
			var list []*Session
			for _, salt := range salts {
				s, err := c.NewSession(t.Context(), SessionOptions{Salt: salt})
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, s)
			}
			for _, s := range list {
				wait.Go(func() {
					if err := x.write(t.Context(), s); err != nil {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			for _, s := range list {
				if reused += s.Reused(); !slices.Equal(s.Input(), x.input) {
					t.Errorf("the input is %v", s.Input())
				}
				s.Close()
			}
		}
		write(test.salts[:2]...)
		write(test.salts[2])
		if most := (3 - test.want) * len(x.input); encoded != test.want || reused < most {
			t.Errorf("%+v, salts %q: %d inputs were encoded, expected %d; %d tokens reused, expected %d at least", test.o,
				test.salts, encoded, test.want, reused, most)
		}
		if s := c.Stats(); s.PromptTokens < int64(test.want*len(x.input)) || s.PrefixTokens != int64(reused) {
			t.Errorf("%+v: %d prompt tokens, %d reused of %d", test.o, s.PromptTokens, s.PrefixTokens, reused)
		}
		if s := c.Stats(); s.Passes != passes || s.Tokens != tokens || s.PassTime < time.Duration(encoded)*long {
			t.Errorf("%+v: %d passes of %d tokens in %v; there were %d of %d, of which %d encoded for %v each", test.o, s.Passes,
				s.Tokens, s.PassTime, passes, tokens, encoded, long)
		}
		c.Close()
	}
}

// Inputs are the same only if all of their ids are.
func TestInputKey(t *testing.T) {
	seen := map[string]bool{}
	list := [][]int32{{}, {1}, {257}, {1 << 16}, {1 << 24}, {1, 0}, {0, 1}, {1, 1}}
	for _, ids := range list {
		seen[inputKey(ids)] = true
	}
	if len(seen) != len(list) || inputKey([]int32{5, 6}) != inputKey([]int32{5, 6}) {
		t.Errorf("%d inputs have %d keys", len(list), len(seen))
	}
}

// A new input begins an empty sequence, also behind a tree of candidates.
func TestInputAfterATree(t *testing.T) {
	m := openFile(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), randommodel.SmallT5().File(t), engine.Options{})
	texts := encoderTexts(t, m, 3)[1:]
	c := New(m, Options{})
	defer c.Close()
	s, err := c.NewSession(t.Context(), SessionOptions{})
	if err == nil {
		err = texts[0].write(t.Context(), s)
	}
	if err == nil {
		_, err = s.Eval(t.Context(), []int32{1, 2, 3}, []int32{-1, -1, 0}, engine.All)
	}
	if err == nil {
		err = texts[1].write(t.Context(), s)
	}
	if err != nil || s.Len() != len(texts[1].tokens) {
		t.Errorf("%d tokens, %v", s.Len(), err)
	}
}

// An Encode that fails leaves input and sequence as they were: of a caller that has left, whose work ends, of an input
// that is refused, of one that no memory suffices for, and of a panic.
func TestEncodeThatFails(t *testing.T) {
	m := openFile(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), randommodel.SmallT5().File(t), engine.Options{})
	x := encoderTexts(t, m, 1)[0]
	long := randomTokens(2000, m.Config().Vocab, 7)
	one := newSession(t, m, engine.SessionOptions{})
	kept, _ := one.EncodeNeed(len(long))
	ctx, cancel := context.WithCancel(t.Context())
	left, stop := context.WithCancel(t.Context())
	stop()
	for _, test := range []struct {
		name    string
		o       Options
		ctx     context.Context
		input   []int32
		prepare func()
		is      error
	}{
		{name: "left before", ctx: left, input: long, is: context.Canceled},
		{name: "left meanwhile", ctx: ctx, input: long, prepare: cancel, is: context.Canceled},
		{name: "empty", ctx: t.Context(), is: engine.ErrInput},
		{name: "vocabulary", ctx: t.Context(), input: []int32{1, 1 << 20}, is: engine.ErrVocabulary},
		{name: "memory", ctx: t.Context(), o: Options{KVBytes: kept}, input: long, is: engine.ErrKVBudget},
		{name: "panic", ctx: t.Context(), input: long, prepare: func() { panic("a fault") }, is: engine.ErrPanic},
	} {
		c := New(m, test.o)
		s, err := c.NewSession(t.Context(), SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Encode(t.Context(), x.input); err != nil {
			t.Fatal(err)
		}
		first, err := s.Eval(t.Context(), x.tokens[:10], nil, engine.All)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Clone(first.Data)
		c.SetPrepare(func(engine.Batch) time.Duration {
			if test.prepare != nil {
				test.prepare()
			}
			return 0
		})
		if err := s.Encode(test.ctx, test.input); !errors.Is(err, test.is) {
			t.Errorf("%s: %v", test.name, err)
		}
		c.SetPrepare(nil)
		rest, err := s.Eval(t.Context(), x.tokens[10:], nil, engine.All)
		if err != nil {
			t.Fatal(test.name, err)
		}
		if !slices.Equal(append(got, rest.Data...), x.want) || !slices.Equal(s.Input(), x.input) ||
			s.lineage.encoder != inputKey(x.input) { // or others with the input that failed would go on from this one
			t.Errorf("%s: the sequence is another one", test.name)
		}
		again := int64(0) // what was computed before is counted where it is computed again
		if test.input != nil && !errors.Is(test.is, engine.ErrVocabulary) {
			again = int64(len(x.input) + 10)
		}
		if n := c.Stats().Recomputed; n != again {
			t.Errorf("%s: %d tokens were computed again, want %d", test.name, n, again)
		}
		c.Close()
		if n := c.used.Load(); n != 0 {
			t.Errorf("%s: %d bytes are left", test.name, n)
		}
	}
}

// Before an input there is nothing to compute, and models without an encoder take none.
func TestNoInput(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	for _, m := range []*engine.Model{
		openFile(t, rt, randommodel.SmallT5().File(t), engine.Options{}), smallLlama(t, rt, 64),
	} {
		c := New(m, Options{})
		s, err := c.NewSession(t.Context(), SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if m.Encodes() {
			_, err = s.Eval(t.Context(), []int32{0}, nil, engine.Last)
		} else {
			err = s.Encode(t.Context(), []int32{1, 2})
		}
		if !errors.Is(err, engine.ErrInput) || s.Len() != 0 {
			t.Errorf("%s: %v", m.Config().Architecture, err)
		}
		if _, err := s.Eval(t.Context(), nil, nil, engine.Last); err == nil {
			t.Errorf("%s: no tokens", m.Config().Architecture)
		}
		c.Close()
		if _, err := c.Lineage(SessionOptions{}); m.Encodes() != errors.Is(err, engine.ErrUnsupported) {
			t.Errorf("%s: a lineage in a store: %v", m.Config().Architecture, err)
		}
		if _, err := s.Save(t.Context(), nil); m.Encodes() && !errors.Is(err, engine.ErrUnsupported) {
			t.Errorf("%s: a saved sequence: %v", m.Config().Architecture, err)
		}
	}
	if err := (*Session)(nil).Encode(t.Context(), nil); !errors.Is(err, engine.ErrUsage) {
		t.Error(fmt.Sprint("no session: ", err))
	}
}
