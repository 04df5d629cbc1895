package spec

import (
	"strings"
	"testing"
	"time"
)

// TestLinesOfAnAnswer: an answer ends in front of a line that begins with too few blanks, however its text is cut into
// pieces, and after its time only where it has more than a line.
func TestLinesOfAnAnswer(t *testing.T) {
	for _, x := range []struct {
		indent     int
		text, want string
	}{
		{4, "a\n    b\n  c", "a\n    b"},
		{4, "a\n    b\n    c", "a\n    b\n    c"},
		{1, "a\n\tb\n}", "a\n\tb"},
		{1, "a\n\tb\n\n\tc", "a\n\tb"},
		{2, "a\n \tb", "a\n \tb"},
		{2, "a\n ", "a\n "}, // nothing shows yet that the line is too short
		{2, "  a b", "  a b"},
		{0, "a\nb\n\nc", "a\nb\n\nc"},
	} {
		for size := 1; size <= len(x.text); size++ {
			w := lineWatch{Lines: Lines{Indent: x.indent}}
			got, ended := "", false
			for rest := x.text; rest != "" && !ended; {
				var text string
				text, ended = w.push(rest[:min(size, len(rest))], time.Time{})
				rest, got = rest[min(size, len(rest)):], got+text
			}
			if !ended {
				got += w.held
			}
			if got != x.want || ended != (len(x.want) < len(x.text)) {
				t.Errorf("indent %d: %q in pieces of %d: %q, ended %v", x.indent, x.text, size, got, ended)
			}
		}
	}
	begin := time.Unix(1, 0)
	w := lineWatch{Lines: Lines{Within: time.Second}}
	for _, x := range []struct {
		piece string
		after time.Duration
		ended bool
	}{{"a", 0, false}, {"b", 2 * time.Second, false}, {"\nc", 3 * time.Second, true}} {
		if text, ended := w.push(x.piece, begin.Add(x.after)); text != x.piece || ended != x.ended {
			t.Errorf("after %v: %q, ended %v", x.after, text, ended)
		}
	}
	w = lineWatch{Lines: Lines{Within: time.Second}}
	for _, after := range []time.Duration{0, time.Second - 1} {
		if _, ended := w.push("a\n", begin.Add(after)); ended {
			t.Errorf("ended after %v", after)
		}
	}
	if _, ended := w.push(strings.Repeat("b", 3), begin.Add(time.Second)); !ended {
		t.Error("not ended by the time")
	}
}
