package markdown

import (
	"slices"
	"strings"
	"testing"
)

const sample = "# Title *x*\n\nSome **bold**, *slanted* and `a*b` text, 2 * 3 * 4.\n\n- one\n  * two\n1. three\n\n" +
	"```go\nfunc F() string { return \"a\\\"b\" } // end\nx := 12\n```\n\n| a | bb |\n|---|----|\n| **世** | 1 |\n| 22 | " +
	"`c` |\n" +
	"\n~~~\nplain **not bold**\n~~~\nlast **open"

// Attributes by their names, so that a test can be read.
var attributes = strings.NewReplacer(bold, "<b>", italic, "<i>", code, "<c>", keyword, "<k>", quoted, "<q>", faint,
	"<f>",
	number, "<n>", off, "<>")

func show(pieces []string) string {
	var w Writer
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(w.Write(p))
	}
	b.WriteString(w.End())
	return b.String()
}

func TestWriter(t *testing.T) {
	got := attributes.Replace(show([]string{sample}))
	for _, want := range []string{
		"<><b>Title <><b><i>x<><b><>\n", "Some <><b>bold<>, <><i>slanted<> and <><c>a*b<> text, 2 * 3 * 4.<>\n",
		"• one<>\n  • two<>\n1. three<>\n",
		"<f>```go<>\n<k>func<> F() string { <k>return<> <q>\"<><q>a\\\"b\"<> } <f>// end<><>\nx := <n>12<><>\n<f>```<>\n",
		"<><b>a<>   <><b>bb<>\n<f>──<>  <f>──<>\n<><><b>世<><>  <>1<>\n<>22<>  <><><c>c<><>\n",
		"<f>~~~<>\nplain **not bold**<>\n<f>~~~<>\n", "last <><b>open<>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%q", want, got)
		}
	}
}

// A block of code ends at a mark as long as its first one, and code within a line is no block.
func TestFences(t *testing.T) {
	for _, text := range []string{"````md\n```go\n```\n````\n**b**", "```a```\n**b**", "~~~\n```\n~~~~\n**b**"} {
		if got := attributes.Replace(show([]string{text})); !strings.Contains(got, "<><b>b") {
			t.Errorf("%q becomes\n%q", text, got)
		}
	}
	if got := attributes.Replace(show([]string{"````\n```\n**b**"})); strings.Contains(got, "<b>") {
		t.Errorf("a shorter mark ends a block: %q", got)
	}
}

// Bars behind a backslash are text, and empty cells are cells.
func TestCells(t *testing.T) {
	for _, c := range []struct {
		row  string
		want []string
	}{
		{"| a | b |", []string{"a", "b"}}, {"|a|b", []string{"a", "b"}}, {`| x \| y | z |`, []string{"x | y", "z"}},
		{"||w|", []string{"", "w"}}, {"|a||", []string{"a", ""}}, {"|", []string{""}}, {`|a\|`, []string{"a|"}},
	} {
		if got := cellsOf(c.row); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.row, got, c.want)
		}
	}
	got := bare(show([]string{"| a | b |\n|---|---|\n| `x \\| y` | z |\n||w|\n"}))
	if want := "a      b\n─────  ─\nx | y  z\n       w\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A block of code that follows a table at once is none of the table's text, and the other way round.
func TestTableBeforeCode(t *testing.T) {
	got := attributes.Replace(show([]string{"| **a** |\n|---|\n| `b` |\n```go\nx := 1\n```\n"}))
	for _, want := range []string{"<><b><><b>a", "<><c>b", "x := <n>1"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%q", want, got)
		}
	}
}

// bare is what is shown without attributes.
func bare(text string) string {
	for _, s := range []string{off, bold, faint, italic, code, keyword, quoted, number} {
		text = strings.ReplaceAll(text, s, "")
	}
	return text
}

// What is shown does not depend on the pieces.
func FuzzPieces(f *testing.F) {
	f.Add(sample, 1)
	f.Add(sample, 3)
	f.Add("a\n|x\ny ``` **\n***b*** `` ` ``", 2)
	f.Add("```go\n'\n\"\\\n/", 1)
	f.Add("\t```go\nx\n\t```\n\t|a|\n|b|\n", 1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = 1 + max(n, -n)%7
		var pieces []string
		for rest := text; rest != ""; {
			k := min(n, len(rest))
			pieces = append(pieces, rest[:k])
			rest = rest[k:]
		}
		if strings.ContainsRune(text, '\x1b') {
			return
		}
		if one, other := bare(show([]string{text})), bare(show(pieces)); one != other {
			t.Errorf("%q: %q, in pieces of %d %q", text, one, n, other)
		}
	})
}

// Text appears as it comes: a word that nothing can change is not held back.
func TestNothingIsHeld(t *testing.T) {
	var w Writer
	for _, c := range []struct{ piece, want string }{
		{"Hello", "Hello"}, {" wor", " wor"}, {"ld *", "ld "}, {"*b", off + bold + "b"}, {"\n", off + "\n"}, {"#", ""},
		{"# Head", off + bold + "Head"}, {"\n```sh\n", off + "\n" + faint + "```sh" + off + "\n"}, {"if", ""},
		{" x", keyword + "if" + off + " "},
	} {
		if got := w.Write(c.piece); got != c.want {
			t.Errorf("%q shows %q, want %q", c.piece, got, c.want)
		}
	}
}
