package grammar

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"testing"
)

// What a grammar of a regular expression writes, Go's own package matches from beginning to end, and the other way
// round for texts that nearly match.
func TestParseRegex(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, source := range []string{`[ab]{3}-\d{2}`, `x|yy\n"z`, `(a|bc)*d?`, `é+\.`, ``} {
		g, err := ParseRegex(nil, source)
		if err != nil {
			t.Fatalf("%q: %v", source, err)
		}
		want := regexp.MustCompile(`\A(?:` + source + `)\z`)
		for range 20 {
			text := write(t, g, random, 30)
			if !want.MatchString(text) {
				t.Errorf("%q: %q", source, text)
			}
			for _, near := range []string{text + "a", text + "\n", "a" + text, text[:len(text)/2]} {
				if got := accepts(t, g, near); got != want.MatchString(near) {
					t.Errorf("%q: %q is accepted %v", source, near, got)
				}
			}
		}
	}
	for _, source := range []string{`(`, `a)|(b`, `[z-a]`, `\u{110000}`, `[a-\u{ffffffff}]`} {
		if _, err := ParseRegex(nil, source); err == nil {
			t.Errorf("%q is no error", source)
		}
	}
	if _, err := ParseRegex(nil, `[]`); !errors.Is(err, ErrGrammar) {
		t.Errorf("nothing matches: %v", err)
	}
}
