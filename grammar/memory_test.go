package grammar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// constraintOf is the constraint of a source in GBNF, kept under it.
func constraintOf(t testing.TB, v *Vocabulary, source string) *Constraint {
	t.Helper()
	c, err := v.Constraint(t.Context(), source, func(b *Budget) (*Grammar, error) { return ParseGBNF(b, source) })
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return c
}

// TestGrammarsShareTheTrie: grammars of a vocabulary have one trie, and each keeps no more than its program and its
// states.
func TestGrammarsShareTheTrie(t *testing.T) {
	words := make([]string, 5000)
	for i := range words {
		words[i] = fmt.Sprintf("word %d", i)
	}
	v := NewVocabulary(bytesVocabulary{words}, VocabularyOptions{})
	first := constraintOf(t, v, `root ::= "a"`)
	for i := range 63 {
		if c := constraintOf(t, v, fmt.Sprintf(`root ::= "a%d"`, i)); c.trie != first.trie {
			t.Fatal("a grammar has a trie of its own")
		}
	}
	if each := v.used / 64; each > 2*owedBytes {
		t.Errorf("%d bytes for a grammar of one text", each)
	}
}

// TestMemoryIsGivenBack: what a grammar took is free when its text is done, and what is kept for the next text of the
// same key is counted until it goes.
func TestMemoryIsGivenBack(t *testing.T) {
	v := NewVocabulary(bytesVocabulary{testWords}, VocabularyOptions{})
	for range 3 {
		c, err := gbnfOf(t, `root ::= [a-z]{1,50}`).Bind(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, c, 40)
		if v.used == 0 || v.users != 1 {
			t.Errorf("%d bytes, %d users of a text under way", v.used, v.users)
		}
		c.Close()
		c.Close() // twice is once
		if v.used != 0 || v.users != 0 || v.recent.Len() != 0 {
			t.Errorf("%d bytes, %d users, %d entries after the text", v.used, v.users, v.recent.Len())
		}
	}
	c := constraintOf(t, v, `root ::= [a-z]*`)
	fill(t, c, 3)
	c.Close()
	if v.used == 0 || v.users != 0 {
		t.Errorf("%d bytes, %d users: the grammar is not kept", v.used, v.users)
	}
	again := v.Find(t.Context(), `root ::= [a-z]*`)
	if again == nil || again.bound != c.bound {
		t.Error("the next text has another constraint")
	}
	if v.Find(t.Context(), "another key") != nil {
		t.Error("a constraint of a key that was never there")
	}
}

// fill asks for n masks along a text of the letter a and returns the first error.
func fill(t testing.TB, c *Constraint, n int) error {
	t.Helper()
	state := c.Start()
	for range n {
		if _, err := c.Mask(state); err != nil {
			return err
		}
		next, ok, err := c.Next(state, 'a')
		if err != nil {
			return err
		}
		if !ok {
			t.Fatal("a is not allowed")
		}
		state = next
	}
	return nil
}

// TestLeastRecentlyUsedGoes: beyond the memory of a vocabulary the masks and the idle grammars that were used least
// recently are given up, and no others.
func TestLeastRecentlyUsedGoes(t *testing.T) {
	words := make([]string, 80000) // a mask takes 10 KB
	for i := range words {
		words[i] = "z"
	}
	v := NewVocabulary(bytesVocabulary{words}, VocabularyOptions{Limits: Limits{Memory: 400 << 10}})
	source := func(i int) string { return fmt.Sprintf(`root ::= [a-z]{%d,100}`, i) }
	for i := range 3 {
		c := constraintOf(t, v, source(i))
		fill(t, c, 2)
		c.Close()
	}
	v.Find(t.Context(), source(0)).Close() // used once more: 1 is the oldest now
	there := func() (list []bool) {
		for i := range 3 {
			_, ok := v.byKey[source(i)]
			list = append(list, ok)
		}
		return list
	}
	var states []int32
	var first *uint64
	seen := fmt.Sprint(there())
	order := []string{seen}
	long := constraintOf(t, v, `root ::= [a-z]{1,200}`)
	for state := long.Start(); len(states) < 60; {
		if _, err := long.Mask(state); err != nil {
			t.Fatal(err)
		}
		states = append(states, state)
		if mask, err := long.Mask(states[0]); err != nil { // always used last, so never computed again
			t.Fatal(err)
		} else if first = cmp.Or(first, &mask[0]); first != &mask[0] {
			t.Fatal("a mask that was used just before is gone")
		}
		state, _, _ = long.Next(state, 'a')
		if now := fmt.Sprint(there()); now != seen {
			order, seen = append(order, now), now
		}
		if v.used > v.limits.Memory {
			t.Fatalf("%d bytes of %d", v.used, v.limits.Memory)
		}
	}
	if got := strings.Join(order,
		" "); got != "[true true true] [true false true] [true false false] [false false false]" {
		t.Errorf("grammars that are kept: %s", got)
	}
	kept := 0
	for i, s := range states {
		_, ok := long.masks[s]
		if ok {
			kept++
		}
		if ok && 0 < i && i < 20 || !ok && (i == 0 || i > 55) {
			t.Errorf("mask %d of %d is kept: %v", i, len(states), ok)
		}
	}
	if kept == 0 || kept == len(states) || long.masks[states[len(states)-1]] == nil {
		t.Errorf("%d of %d masks are kept", kept, len(states))
	}
}

// TestOneGrammarDoesNotEndOthers: a grammar that takes all memory ends its own text, with an error that names the
// limit; another text still gets its share, and the large grammar is not given to the next text.
func TestOneGrammarDoesNotEndOthers(t *testing.T) {
	const memory = 1 << 20
	v := NewVocabulary(bytesVocabulary{}, VocabularyOptions{Limits: Limits{Memory: memory}})
	large := constraintOf(t, v, `root ::= [a-b]* "a" [a-b]{40}`)
	if err := grow(large); !names(err, "Memory", memory) {
		t.Fatalf("%v", err)
	}
	if v.used > memory {
		t.Errorf("%d bytes of %d are used", v.used, memory)
	}
	small := constraintOf(t, v, `root ::= "x" [a-z]{1,1000} | [a-z]{1,1000}`)
	if err := fill(t, small, 100); err != nil {
		t.Errorf("another text: %v", err)
	}
	large.Close()
	if v.Find(t.Context(), `root ::= [a-b]* "a" [a-b]{40}`) != nil {
		t.Error("the next text would find no memory")
	}
	if v.used > memory {
		t.Errorf("%d bytes of %d are used when it is gone", v.used, memory)
	}
}

// grow drives a constraint through many states.
func grow(c *Constraint) error {
	for n := range 1 << 16 {
		state := c.Start()
		for bit := range 16 {
			next, ok, err := c.Next(state, int32('a'+n>>bit&1))
			if err != nil {
				return err
			}
			if !ok {
				return errors.New("not allowed")
			}
			state = next
		}
	}
	return nil
}

// TestSuccessorsAreGivenUpBeforeStates: a text whose states fit the memory goes on when their tables of successors do
// not.
func TestSuccessorsAreGivenUpBeforeStates(t *testing.T) {
	const memory = 1 << 20 // of 900 states, each with 1 KiB of successors
	v := NewVocabulary(bytesVocabulary{}, VocabularyOptions{Limits: Limits{Memory: memory}})
	c := constraintOf(t, v, `root ::= [a-z]{1,2000}`)
	if err := fill(t, c, 1500); err != nil {
		t.Error(err)
	}
	if v.used > memory {
		t.Errorf("%d bytes of %d", v.used, memory)
	}
}

// TestOneCompilationAtATime: texts of one key wait for one compilation, those of others for their turn; a wait ends
// with its context and leaves nothing behind.
func TestOneCompilationAtATime(t *testing.T) {
	v := NewVocabulary(bytesVocabulary{}, VocabularyOptions{})
	var inside, calls atomic.Int32
	compile := func(b *Budget) (*Grammar, error) {
		calls.Add(1)
		if inside.Add(1) > 1 {
			t.Error("two compilations at once")
		}
		defer inside.Add(-1)
		for range 100 {
			b.spend(sliceSteps) // yields
		}
		return ParseGBNF(b, `root ::= "a"*`)
	}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			c, err := v.Constraint(t.Context(), fmt.Sprint(i%2), compile)
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	wait.Wait()
	if n := calls.Load(); n != 2 {
		t.Errorf("%d compilations of 2 grammars", n)
	}
	v.turn <- struct{}{} // a long compilation
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Constraint(ctx, "third", compile); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-v.turn
	if c, err := v.Constraint(t.Context(), "third", compile); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	if v.users != 0 {
		t.Errorf("%d users", v.users)
	}
}

// TestContextEndsTheWork: compiling, binding and masks end with their context, soon after it has ended, and with its
// error.
func TestContextEndsTheWork(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(nil)
	long := `root ::= ` + strings.Repeat("[a-z] ", 20000)
	if _, err := ParseGBNF(NewBudget(ended, Limits{}), long); !errors.Is(err, context.Canceled) {
		t.Errorf("GBNF: %v", err)
	}
	schema := `{"enum":[` + repeated(10000, func(i int) string { return fmt.Sprint(i) }) + `]}`
	if _, err := ParseSchema(NewBudget(ended, Limits{}), []byte(schema), SchemaOptions{}); !errors.Is(
		err, context.Canceled) {
		t.Errorf("schema: %v", err)
	}
	words := make([]string, 10000)
	for i := range words {
		words[i] = fmt.Sprint(i)
	}
	v := NewVocabulary(bytesVocabulary{words}, VocabularyOptions{})
	if _, err := Text("a").Bind(NewBudget(ended, Limits{}), v); !errors.Is(err, context.Canceled) {
		t.Errorf("binding: %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Hour)
	c, err := gbnfOf(t, `root ::= [0-9]*`).Bind(NewBudget(ctx, Limits{}), v)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := c.Mask(c.Start()); !errors.Is(err, context.Canceled) {
		t.Errorf("a mask: %v", err)
	}
}

// TestBindRefusesNothing: no vocabulary, no tokenizer and no grammar are errors.
func TestBindRefusesNothing(t *testing.T) {
	var none *Grammar
	for name, bind := range map[string]func() error{
		"no vocabulary": func() error { _, err := Text("a").Bind(nil, nil); return err },
		"no tokenizer":  func() error { _, err := Text("a").Bind(nil, NewVocabulary(nil, VocabularyOptions{})); return err },
		"no grammar": func() error {
			_, err := none.Bind(nil, NewVocabulary(bytesVocabulary{}, VocabularyOptions{}))
			return err
		},
	} {
		if err := bind(); !errors.Is(err, ErrGrammar) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// twoEnds is a vocabulary whose last two tokens end a text.
type twoEnds struct{ bytesVocabulary }

func (v twoEnds) IsEOG(id int32) bool { return int(id) >= v.Size()-2 }

// TestAllEndTokens: every token that ends a text is allowed where the text may end, and none elsewhere.
func TestAllEndTokens(t *testing.T) {
	v := twoEnds{bytesVocabulary{[]string{"<|im_end|>"}}}
	c, err := gbnfOf(t, `root ::= "a"+`).Bind(nil, NewVocabulary(v, VocabularyOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	state, _, _ := c.Next(c.Start(), 'a')
	for _, id := range []int32{256, 257} {
		for at, want := range map[int32]bool{c.Start(): false, state: true} {
			mask, err := c.Mask(at)
			if err != nil {
				t.Fatal(err)
			}
			_, ok, _ := c.Next(at, id)
			if in := mask[id/64]>>(id%64)&1 == 1; in != want || ok != want {
				t.Errorf("end token %d in state %d: in the mask %v, allowed %v", id, at, in, ok)
			}
		}
	}
}
