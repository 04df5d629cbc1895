package testkit

import "testing"

func TestPartsOfDocumentsAreReplaced(t *testing.T) {
	for _, c := range []struct {
		text, want string
		ok         bool
	}{
		{"a<b>old<e>c<e>", "a<b>new<e>c<e>", true},
		{"a<b><e>", "a<b>new<e>", true},
		{"a<b>old", "", false},
		{"a<e>old<b>", "", false},
		{"old<e>", "", false},
	} {
		got, ok := replacePart(c.text, "<b>", "<e>", "new")
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %q, %v", c.text, got, ok)
		}
	}
}
