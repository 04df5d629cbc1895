package grammar

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

func bind(t testing.TB, g *Grammar, v bytesVocabulary) *Constraint {
	t.Helper()
	c, err := g.Bind(nil, NewVocabulary(v, VocabularyOptions{Encode: v.encode}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func gbnfOf(t testing.TB, source string) *Grammar {
	t.Helper()
	g, err := ParseGBNF(nil, source)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var testWords = []string{"ab", "abc", "b", "{\"", "\":", "name", "nam", "na", "\": \"", "true", "tr", "ä", "\xc3",
	"中文", "}\n", "  ", "12", "123", "zzz", "abcabc"}

// TestMask compares the mask of every state on random texts with feeding every token by itself, and Next with both.
func TestMask(t *testing.T) {
	v := bytesVocabulary{testWords}
	for _, source := range []string{
		`root ::= "a" "b"* | "abc" root`,
		"root ::= \"{\\\"name\\\": \\\"\" [^\"]* \"\\\"}\" \"\\n\"?",
		`root ::= [ä中-文]+ | [0-9]{1,4}`,
		"root ::= \"(\" root \")\" | \"ab\" root \"b\" | \"\"",
		`root ::= .*`,
	} {
		g := gbnfOf(t, source)
		c := bind(t, g, v)
		random := rand.New(rand.NewPCG(1, 2))
		for range 6 {
			state := c.Start()
			var text string
			for range 10 {
				mask, err := c.Mask(state)
				if err != nil {
					t.Fatal(err)
				}
				var allowed []int32
				for id := range int32(v.Size()) {
					_, want, err := c.Next(state, id)
					if err != nil {
						t.Fatal(err)
					}
					fresh, at := machineOf(g) // nothing of it is cached
					for _, b := range []byte(text + string(v.Bytes(id))) {
						if at = fresh.step(at, b); at < 0 {
							break
						}
					}
					direct := at >= 0 && len(v.Bytes(id)) > 0 || v.IsEOG(id) && at >= 0 && fresh.states[at].final
					if got := mask[id/64]>>(id%64)&1 == 1; got != want || got != direct {
						t.Fatalf("%q after %q: token %d %q: mask %v, Next %v, itself %v", source, text, id,
							v.Bytes(id), got, want, direct)
					}
					if want {
						allowed = append(allowed, id)
					}
				}
				if len(allowed) == 0 {
					t.Fatalf("%q after %q: nothing may follow, not even the end", source, text)
				}
				id := allowed[random.IntN(len(allowed))]
				if v.IsEOG(id) {
					end, ok, _ := c.Next(state, id)
					if mask, _ := c.Mask(end); !ok || slices.ContainsFunc(
						mask, func(w uint64) bool { return w != 0 }) || !c.Complete(end) {
						t.Fatalf("%q: something may follow the end", source)
					}
					break
				}
				state, _, _ = c.Next(state, id)
				text += string(v.Bytes(id))
			}
		}
	}
}

func TestForced(t *testing.T) {
	v := bytesVocabulary{testWords}
	for _, test := range []struct{ source, after, want string }{
		{`root ::= "{\"name\": \"" [^"]* "\"}"`, "", `{"|name|": "`}, // up to the free text
		{`root ::= "name" [0-9]`, "", "name"},                        // no token begins with "name" and a digit
		{`root ::= "nam" [a-z]`, "", ""},                             // "name" could take the place of "nam"
		{`root ::= "abc" "zzz"`, "", "abc|zzz"},                      // up to the end
		{`root ::= "ab" ("c" | "d")`, "", ""},                        // "abc"
		{`root ::= "ab" ("x" | "d")`, "", "ab"},                      //
		{`root ::= "abc" "abx" "q"`, "", "abc|ab|x|q"},               //
		{`root ::= [0-9] "true"`, "7", "true"},                       //
		{`root ::= "a"?`, "", ""},                                    // the text may end
		{`root ::= ("true" | "tr")`, "", ""},                         // "tr" is common, and "true" could take its place
	} {
		c := bind(t, gbnfOf(t, test.source), v)
		state := c.Start()
		for _, id := range v.encode(test.after) {
			var ok bool
			if state, ok, _ = c.Next(state, id); !ok {
				t.Fatalf("%q refuses %q", test.source, test.after)
			}
		}
		ids, err := c.Forced(state)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, id := range ids {
			words = append(words, string(v.Bytes(id)))
			var ok bool
			if state, ok, _ = c.Next(state, id); !ok {
				t.Errorf("%q: the forced token %q is not allowed", test.source, v.Bytes(id))
			}
		}
		if got := strings.Join(words, "|"); got != test.want {
			t.Errorf("%q after %q: forced %q, want %q", test.source, test.after, got, test.want)
		}
	}
}

func TestLimits(t *testing.T) {
	v := bytesVocabulary{testWords}
	// Brackets without end: the stack is bounded, with an error that says so.
	c := bind(t, gbnfOf(t, `root ::= "(" root ")" | "x"`), v)
	state := c.Start()
	for i := 0; ; i++ {
		next, ok, err := c.Next(state, '(')
		if err != nil {
			if !errors.Is(err, ErrLimit) || i < 1000 {
				t.Fatalf("after %d brackets: %v", i, err)
			}
			break
		}
		if !ok || i > 1<<20 {
			t.Fatalf("after %d brackets: %v", i, ok)
		}
		state = next
	}
	// A list by right recursion needs no stack.
	c = bind(t, gbnfOf(t, "root ::= \"ab\" root | \"b\""), v)
	state = c.Start()
	for range 10000 {
		state, _, _ = c.Next(state, 256)
	}
	if _, ok, err := c.Next(state, 'b'); !ok || err != nil || len(c.machine.states) > 10 {
		t.Errorf("%v, %v, %d states", ok, err, len(c.machine.states))
	}
	for _, source := range []string{`root ::= "a" [^\x00-\U0010FFFF]`, `root ::= "a" root`} {
		if _, err := ParseGBNF(nil, source); !errors.Is(err, ErrGrammar) {
			t.Errorf("a grammar without texts: %v", err)
		}
	}
	for _, state := range []int32{-1, -2, 1 << 30} {
		if _, ok, _ := c.Next(state, 'a'); ok {
			t.Errorf("state %d takes a token", state)
		}
		if _, err := c.Mask(state); err == nil {
			t.Errorf("state %d has a mask", state)
		}
		if c.Final(state) {
			t.Errorf("state %d is final", state)
		}
	}
	for _, id := range []int32{-1, int32(v.Size()), 1 << 30} {
		if _, ok, _ := c.Next(c.Start(), id); ok {
			t.Errorf("token %d is allowed", id)
		}
	}
}

func TestConcurrent(t *testing.T) {
	v := bytesVocabulary{testWords}
	c := bind(t, gbnfOf(t, "root ::= \"(\" root \")\" root | [a-z]+ | \"\""), v)
	var wait sync.WaitGroup
	for seed := range uint64(4) {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for range 50 {
				state := c.Start()
				for range 30 {
					mask, err := c.Mask(state)
					if err != nil {
						t.Error(err)
						return
					}
					id := int32(random.IntN(c.size))
					next, ok, _ := c.Next(state, id)
					if ok != (mask[id/64]>>(id%64)&1 == 1) {
						t.Errorf("token %d: %v", id, ok)
					}
					if ok && next != ended {
						state = next
					}
					c.Forced(state)
					c.Final(state)
				}
			}
		})
	}
	wait.Wait()
}

// Texts of several grammars of one vocabulary go on at once: each operation alone in its goroutine, so that no other
// lock orders them.
func TestConstraintsOfOneVocabularyGoOnAtOnce(t *testing.T) {
	v := NewVocabulary(bytesVocabulary{testWords}, VocabularyOptions{})
	var calls []func()
	for _, source := range []string{"root ::= [a-z]+ \"x\" root | \"\"", "root ::= \"(\" root \")\" root | \"\""} {
		c, err := gbnfOf(t, source).Bind(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		random, states := rand.New(rand.NewPCG(1, 2)), []int32{c.Start()}
		calls = append(calls, func() { // finds states
			at := states[random.IntN(len(states))]
			if next, ok, _ := c.Next(at, int32(random.IntN(c.size))); ok && next != ended {
				states = append(states, next)
			}
		}, func() { c.Next(c.Start(), int32(len(calls))) }, func() {
			if _, err := c.Mask(c.Start()); err != nil {
				t.Error(err)
			}
		}, func() { c.Forced(c.Start()) }, func() { c.Final(c.Start()) })
	}
	compile := func(b *Budget) (*Grammar, error) { return ParseGBNF(b, "root ::= [0-9]+") }
	calls = append(calls, func() { v.Memory() }, func() { v.Find(t.Context(), "none") }, func() {
		c, err := v.Constraint(t.Context(), "digits", compile)
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	})
	testkit.AtOnce(100, calls...)
}
