package grammar

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// walk feeds ids and returns the state, or -1 where one is not allowed.
func walk(t testing.TB, c *Constraint, ids ...int32) int32 {
	t.Helper()
	state := c.Start()
	for _, id := range ids {
		next, ok, err := c.Next(state, id)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return -1
		}
		state = next
	}
	return state
}

func bytesOf(text string) (ids []int32) {
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids
}

// TestUntil: Until and Without on random texts of few letters against a search, with marks that overlap each other
// and themselves.
func TestUntil(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, marks := range [][]string{{"a"}, {"ab"}, {"aab"}, {"abab"}, {"aba", "bab"}, {"abc", "bc"}, {"abcab", "ca"},
		{"aa", "ab", "cc"}, {"b", "bb"}} {
		until, without := bind(t, Until(marks...), bytesVocabulary{}), bind(t, Without(marks...), bytesVocabulary{})
		both := bind(t, Sequence(Repeat(Sequence(Until(marks...), Text("!")), 0, -1), Without(marks...)), bytesVocabulary{})
		for range 2000 {
			text := make([]byte, random.IntN(9))
			for i := range text {
				text[i] = "abc\xc3"[random.IntN(4)]
			}
			first := len(text) + 1 // where the first mark ends
			for _, m := range marks {
				if i := strings.Index(string(text), m); i >= 0 {
					first = min(first, i+len(m))
				}
			}
			ids := bytesOf(string(text))
			state := walk(t, until, ids...)
			if got, want := state >= 0, first >= len(text); got != want {
				t.Fatalf("Until(%q) of %q: allowed %v", marks, text, got)
			}
			if state >= 0 && (until.Final(state) != (first == len(text)) || until.Complete(state) != (first == len(text))) {
				t.Fatalf("Until(%q) of %q: final %v", marks, text, until.Final(state))
			}
			state = walk(t, without, ids...)
			if got, want := state >= 0, first > len(text); got != want || got && !without.Final(state) {
				t.Fatalf("Without(%q) of %q: allowed %v", marks, text, got)
			}
			// After a mark only "!" may follow, then everything is as at the start.
			state = walk(t, both, ids...)
			if got, want := state >= 0, first >= len(text); got != want || got && both.Final(state) != (first > len(text)) {
				t.Fatalf("repeated Until(%q) of %q: allowed %v", marks, text, got)
			}
			if first == len(text) {
				if state = walk(t, both, bytesOf(string(text)+"!c")...); state < 0 || !both.Final(state) {
					t.Fatalf("repeated Until(%q): %q! is refused", marks, text)
				}
			}
		}
	}
}

// TestControlTokens: a grammar names a control token, and allows that token and not its name in other tokens; free
// text allows all of them.
func TestControlTokens(t *testing.T) {
	v := bytesVocabulary{[]string{"<|call|>", "<|other|>", "ca", "\xff", "x\xff"}}
	const call, other, ca, stray, behind, end = 256, 257, 258, 259, 260, 261
	object, err := ParseSchema(nil, []byte(`{"const":"call"}`), SchemaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := bind(t, Sequence(Until(ControlToken("<|call|>")), object, Text(ControlToken("<|other|>")+"!")), v)
	if walk(t, c, bytesOf("<|call|>\"")...) < 0 { // the name written out is free text
		t.Error("the name of a mark is not free text")
	}
	if s := walk(t, c, bytesOf("<|call|>\"call\"")...); s < 0 || c.Final(s) {
		t.Errorf("the name written out is the mark: %d", s)
	}
	state := walk(t, c, 'a', other, 0xE2, 'b', call)
	if state < 0 || c.Final(state) {
		t.Fatal("free text is refused")
	}
	if mask, err := c.Mask(state); err != nil || slices.Index(maskIDs(mask), '"') != 0 || len(maskIDs(mask)) != 1 {
		t.Errorf("behind the mark: %v, %v", maskIDs(mask), err)
	}
	if ids, err := c.Forced(state); err != nil || !slices.Equal(ids, []int32{'"', ca, 'l', 'l', '"', other, '!'}) {
		t.Errorf("forced: %v, %v", ids, err)
	}
	for _, id := range []int32{stray, behind, 0xff} {
		if walk(t, c, id) >= 0 {
			t.Errorf("token %d, which is part of no text, is allowed", id)
		}
	}
	if s := walk(t, c, append(append([]int32{call}, bytesOf(`"call"`)...), other, '!', end)...); s != ended {
		t.Errorf("state %d", s)
	}
	// A grammar that names no control token allows none.
	if mask, err := bind(t, gbnfOf(t, "root ::= [^x]*"), v).Mask(0); err != nil || slices.Contains(maskIDs(mask), call) ||
		slices.Contains(maskIDs(mask), stray) {
		t.Errorf("%v, %v", maskIDs(mask), err)
	}
}

func maskIDs(mask []uint64) (ids []int32) {
	for i, w := range mask {
		for b := range 64 {
			if w>>b&1 != 0 {
				ids = append(ids, int32(64*i+b))
			}
		}
	}
	return ids
}

func TestComposed(t *testing.T) {
	g := Sequence(Text("a"), Choice(Text("b"), gbnfOf(t, `root ::= "(" root ")" | "c"`), Text("")),
		Repeat(Text("d"), 1, 2))
	c := bind(t, g, bytesVocabulary{})
	for text, want := range map[string]bool{"abd": true, "ad": true, "add": true, "a((c))dd": true, "addd": false,
		"a((c)d": false, "ab": false, "": false} {
		if s := walk(t, c, bytesOf(text)...); (s >= 0 && c.Final(s)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	for name, g := range map[string]*Grammar{
		"no mark": Until(), "empty mark": Without("a", ""), "long marks": Until(strings.Repeat("a", maxMarks+1)),
		"repetitions": Repeat(Text("a"), 3, 2),
		"inside":      Sequence(Text("a"), Choice(Repeat(Text("b"), -1, 2))), "nil": Sequence(nil), "nothing": Choice(),
	} {
		if _, err := g.Bind(nil, NewVocabulary(bytesVocabulary{}, VocabularyOptions{})); !errors.Is(err, ErrGrammar) {
			t.Errorf("%s: %v", name, err)
		}
	}
	longest := strings.Repeat("a", maxMarks)
	c = bind(t, Until(longest[1:], "b"), bytesVocabulary{}) // maxMarks bytes in all
	for text, want := range map[string]bool{longest[1:]: true, longest[2:] + "b": true, longest[2:]: false} {
		if s := walk(t, c, bytesOf(text)...); (s >= 0 && c.Final(s)) != want {
			t.Errorf("a mark of %d bytes, text of %d: %v", maxMarks-1, len(text), !want)
		}
	}
}

// TestSpaces: one space behind colons and commas, not inside of strings.
func TestSpaces(t *testing.T) {
	g, err := ParseSchema(nil,
		[]byte(`{"type":"object","properties":{"a":{"type":"array","items":{"const":"x,y:z"}},"b":{"type":"null"}},"required":["a","b"]}`), SchemaOptions{Spaces: true})
	if err != nil {
		t.Fatal(err)
	}
	c := bind(t, g, bytesVocabulary{})
	for text, want := range map[string]bool{`{"a": ["x,y:z", "x,y:z"], "b": null}`: true,
		`{"a":["x,y:z"], "b": null}`: false, `{"a": [ "x,y:z"], "b": null}`: false, `{"a": [],  "b": null}`: false,
		`{"a": [], "b": null}`: true} {
		if s := walk(t, c, bytesOf(text)...); (s >= 0 && c.Final(s)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	if _, err := ParseSchema(nil, []byte(`{}`), SchemaOptions{Spaces: true, Blanks: true}); !errors.Is(err, ErrGrammar) {
		t.Error(err)
	}
}

// TestWithoutControlTokens: a text without a control token ends in front of one, never inside of its name, also behind
// another control token.
func TestWithoutControlTokens(t *testing.T) {
	v := bytesVocabulary{append(slices.Clone(testWords), "<|m|>", "<|x|>")}
	name := func(s string) string { return ControlToken("<|" + s + "|>") }
	c := bind(t, Sequence(Without(name("m")), Text(name("m")+"<")), v)
	at := c.machine.step
	walk := func(text string) int32 {
		state := c.Start()
		for _, b := range []byte(text) {
			if state = at(state, b); state < 0 {
				return state
			}
		}
		return state
	}
	for text, next := range map[string]string{"a" + name("m"): "<", name("m"): "<", name("x") + name("m"): "<",
		name("x") + "<|m|>" + name("m"): "<"} {
		state := walk(text)
		for b := range 256 {
			if state < 0 {
				t.Errorf("%q is refused", text)
				break
			}
			if got, want := at(state, byte(b)) >= 0, string([]byte{byte(b)}) == next; got != want {
				t.Errorf("%q, then %q: allowed %v", text, []byte{byte(b)}, got)
			}
		}
	}
	if free := bind(t, Without(name("m")), v); !free.Final(func() int32 {
		state := free.Start()
		for _, b := range []byte("a" + name("x")) {
			state = free.machine.step(state, b)
		}
		return state
	}()) {
		t.Error("the text may not end behind another control token")
	}
}
