package cellwidth

import "testing"

func TestWidths(t *testing.T) {
	if got := Of("a世e\u0301"); got != 4 {
		t.Errorf("%d cells", got)
	}
	// Where East Asian Width changes from one character to the next, as Python's unicodedata has it.
	for _, r := range []rune{
		0x2329, 0x2614, 0x267f, 0x26c4, 0x26d4, 0x26f2, 0x274c, 0x2757, 0x2b1b, 0x2b50,
		0xfe10, 0x1f3a0, 0x1f3e0, 0x1f440, 0x1f550, 0x1f5a4, 0x1f6cc, 0x1f6d5,
	} {
		if runeWidth(r) != 2 {
			t.Errorf("%#x: %d cells, want 2", r, runeWidth(r))
		}
	}
	for _, r := range []rune{
		0x231c, 0x232b, 0x2616, 0x26cf, 0x26fe, 0x274d, 0x303f, 0xff61, 0x1f321, 0x1f37d,
		0x1f3d4, 0x1f4fd, 0x1f568, 0x1f57b, 0x1f5a5, 0x1f93b, 0x1f946, 0x1fa00,
	} {
		if runeWidth(r) != 1 {
			t.Errorf("%#x: %d cells, want 1", r, runeWidth(r))
		}
	}
}

// Texts are cut between clusters, from the one side and from the other.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		text       string
		most       int
		begin, end string
	}{
		{"abc", 2, "ab", "bc"}, {"abc", 3, "abc", "abc"}, {"世界", 3, "世", "界"}, {"a世", 2, "a", "世"}, {"世", 1, "", ""},
		{"e\u0301e\u0301", 1, "e\u0301", "e\u0301"}, {"🇩🇪🇩🇪", 3, "🇩🇪", "🇩🇪"}, {"x", -1, "", ""}, {"", 4, "", ""},
	} {
		if got := Cut(c.text, c.most); got != c.begin {
			t.Errorf("%q in %d cells begins with %q, want %q", c.text, c.most, got, c.begin)
		}
		if got := CutFront(c.text, c.most); got != c.end {
			t.Errorf("%q in %d cells ends with %q, want %q", c.text, c.most, got, c.end)
		}
	}
}
