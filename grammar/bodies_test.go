package grammar

import (
	"slices"
	"testing"
)

// TestBodies: a mask is the same with the slices of free strings and without, in every state along texts; and free
// strings use them.
func TestBodies(t *testing.T) {
	v := bytesVocabulary{words: []string{`",`, `"}`, `":"`, `a"`, `ab`, `a\`, `\n`, `\u00e`, `\ud8`, "\xe2\x82", "\xac\"",
		"é", `"b"`, "\n", " x",
		`\""`, "\x7f", "long word", `e","`, "\xff", "12", `x"}`}}
	for _, c := range []struct {
		schema, text string
		free         int // states of the text that are in a free string
	}{
		{`{"type":"string"}`, `"ab\n\u00e9\"é €"`, 9},
		{`{"type":"object","properties":{"a":{"type":"string"},"b":{"enum":["ab","ac"]}},"required":["a","b"],
			"additionalProperties":false}`, `{"a":"xé\\y","b":"ab"}`, 5},
		{`{"type":"string","maxLength":4}`, `"abcd"`, 0},
		{`{"type":"string","minLength":1}`, `"abcd"`, 4},
		{`{"type":"string","pattern":"^a*$"}`, `"aaa"`, 0},
		{`{"anyOf":[{"type":"string"},{"type":"object","additionalProperties":{"type":"string"}}]}`, `{"k":"v"}`, 4},
		{`{}`, `{"k":["v",1]}`, 4},
		{`{"type":"array","items":{"type":"string"}}`, `["a","b"]`, 4},
	} {
		g, err := ParseSchema(nil, []byte(c.schema), SchemaOptions{})
		if err != nil {
			t.Fatal(err)
		}
		with, without := bind(t, g, v), bind(t, g, v)
		if with.bodies == nil {
			t.Fatal("no slices")
		}
		plain := *without.words
		plain.bodies = nil
		without.words = &plain
		free, a, b := 0, with.Start(), without.Start()
		for i := 0; ; i++ {
			got, err := with.Mask(a)
			if err != nil {
				t.Fatal(err)
			}
			want, err := without.Mask(b)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: behind %q: %v, want %v", c.schema, c.text[:i], maskIDs(got), maskIDs(want))
			}
			with.machine.mu.Lock()
			if with.bodies.holds(with.machine, a) {
				free++
			}
			with.machine.mu.Unlock()
			if i == len(c.text) {
				break
			}
			var ok bool
			if a, ok, err = with.Next(a, int32(c.text[i])); !ok || err != nil {
				t.Fatalf("%s: %q is refused: %v", c.schema, c.text[:i+1], err)
			}
			b, _, _ = without.Next(b, int32(c.text[i]))
		}
		if free != c.free {
			t.Errorf("%s: %d states of %q are in a free string, want %d", c.schema, free, c.text, c.free)
		}
	}
}
