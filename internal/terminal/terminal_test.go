package terminal

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/specgo/spec/internal/cellwidth"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain Ärger 世界 👩\u200d🔧":     "plain Ärger 世界 👩\u200d🔧",
		"a\nb\tc\rd":                  `a\nb\tc\rd`,
		"\x1b[31mred\x07":             `\x1b[31mred\a`,
		"\u0085\u009b":                `\u0085\u009b`,
		"a\u202egpj.exe\u2066\ufeff":  `a\u202egpj.exe\u2066\ufeff`,
		"bad \xff\xfe UTF-8 \ufffd":   `bad \xff\xfe UTF-8 ` + "\ufffd",
		"\x7f\x00":                    `\x7f\x00`,
		"\u2028\U000e0041":            `\u2028\U000e0041`,
		`backslashes \n stay as they`: `backslashes \n stay as they`,
	} {
		if got := Line(in, 0); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := Text("a\n\tb\x1b[K\r\n"); got != "a\n\tb\\x1b[K\\r\n" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("ä", 50) + strings.Repeat("z", 50)
	got := Line(long, 20)
	if utf8.RuneCountInString(got) != 20 || !strings.HasPrefix(got, "äääää") || !strings.HasSuffix(got, "zzzzz") ||
		!strings.Contains(got, " ... ") {
		t.Errorf("cut to %q", got)
	}
	if got := Line(strings.Repeat("世", 20), 20); cellwidth.Of(got) > 20 || !strings.HasPrefix(got, "世世世世世 ... ") {
		t.Errorf("cut to %q", got)
	}
	if got := Line("short", 5); got != "short" {
		t.Errorf("%q", got)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\x1b]0;title\a\xff\u202e", 9)
	f.Fuzz(func(t *testing.T, s string, most int) {
		for _, r := range Line(s, most) {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
				t.Errorf("%q holds %q", s, r)
			}
		}
	})
}

func TestWrap(t *testing.T) {
	const text = `One two three
four five.

  name      what it is, at length
  longname  more

Six.`
	want := `One two three four
five.

  name      what it
            is, at
            length
  longname  more

Six.
`
	if got := Wrap(text, 20); got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if got := Columns("  left", "right", 4, 20); got != "  left\n    right\n" {
		t.Errorf("%q", got)
	}
	if got := Columns("", "äöü äöü äöü", 0, 7); got != "äöü äöü\näöü\n" {
		t.Errorf("%q", got)
	}
	if got := Columns("  a  ", "b", 5, 20); got != "  a  b\n" {
		t.Errorf("%q", got)
	}
	if got := Columns("  name", "more than half of it", 14, 20); got != "  name\n    more than half\n    of it\n" {
		t.Errorf("a narrow terminal: %q", got)
	}
	if got := Columns("kind", "model", 16, 20); got != "kind\n    model\n" {
		t.Errorf("a narrow terminal: %q", got)
	}
	if got := Columns("世", "世界 世界 世界", 4, 13); got != "世  世界 世界\n    世界\n" {
		t.Errorf("%q", got)
	}
	if got := Columns("a", strings.Repeat("x", 30)+" y", 2, 10); got != "a "+strings.Repeat("x", 30)+"\n  y\n" {
		t.Errorf("%q", got)
	}
}

func TestTable(t *testing.T) {
	table := Table{
		Columns: []Column{{Head: "name", Left: true}, {Head: "a", Drop: 1}, {Head: "bb", Drop: 2}, {Head: "end"}},
		Rows:    [][]string{{"x", "12345", "1", "1.0"}, {"longer", "1", "2", ""}},
	}
	for width, want := range map[int]string{
		22: "name        a  bb  end\nx       12345   1  1.0\nlonger      1   2\n",
		21: "name        a  end\nx       12345  1.0\nlonger      1\n",
		17: "name    end\nx       1.0\nlonger\n",
		3:  "name    end\nx       1.0\nlonger\n",
	} {
		if got, _ := table.String(width); got != want {
			t.Errorf("width %d:\n%q, want\n%q", width, got, want)
		}
	}
	wide := Table{Columns: []Column{{Head: "m", Left: true}, {Head: "n"}}, Rows: [][]string{{"世界", "1"}, {"a", "22"}}}
	if got, _ := wide.String(80); got != "m      n\n世界   1\na     22\n" {
		t.Errorf("%q", got)
	}
	if _, dropped := table.String(17); !slices.Equal(dropped, []string{"a", "bb"}) {
		t.Errorf("dropped %q", dropped)
	}
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	now, width := time.Unix(0, 0), 60
	b := newBar(&out, "work", func() int { return width }, func() time.Time { return now })
	at := func(d time.Duration, done int64, what string) string {
		now = time.Unix(0, 0).Add(d)
		out.Reset()
		b.Set(done, 100, what)
		return out.String()
	}
	if got := at(400*time.Millisecond, 10, ""); got != "" {
		t.Errorf("at once: %q", got)
	}
	b.Clear()
	if out.Len() > 0 {
		t.Errorf("cleared before it was shown: %q", &out)
	}
	if got, want := at(600*time.Millisecond, 10, ""), "\r\x1b[Kwork [###...........................]  10 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := at(650*time.Millisecond, 11, ""); got != "" {
		t.Errorf("again at once: %q", got)
	}
	if got, want := at(10*time.Second, 50, "x\ny"),
		"\r\x1b[Kwork [###############...............]  50 %, 10s left  x\\ny"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	width = 20
	if got := at(11*time.Second, 50, "what"); utf8.RuneCountInString(got) > 19+len("\r\x1b[K") {
		t.Errorf("too wide: %q", got)
	}
	// A wide character takes two cells.
	width = 24
	wide := newBar(&out, "模型", func() int { return width }, func() time.Time { return now })
	now = now.Add(700 * time.Millisecond)
	out.Reset()
	wide.Set(50, 100, "世界世界世界")
	if got, want := out.String(), "\r\x1b[K模型 [#####.....]  50 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	width = 30
	wide.Restart("模型")
	now = now.Add(700 * time.Millisecond)
	out.Reset()
	wide.Set(50, 100, "世界世界世界世界世界世界")
	if got := strings.TrimPrefix(out.String(), "\r\x1b[K"); cellwidth.Of(got) > 29 {
		t.Errorf("%q takes %d cells of 30", got, cellwidth.Of(got))
	}
	width = 20
	out.Reset()
	b.Clear()
	b.Clear()
	if out.String() != "\r\x1b[K" {
		t.Errorf("cleared by %q", &out)
	}
	var none *Bar
	none.Set(1, 2, "")
	none.Clear()
	none.Restart("")
	if NewBar(&out, "") != nil {
		t.Error("a bar without a terminal")
	}
}

func TestLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		8400 * time.Millisecond: "8s", 125 * time.Second: "2m05s", 3725 * time.Second: "1h02m",
		59600 * time.Millisecond: "1m00s"} {
		if got := Left(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestNoTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if Is(w) || Is(null) || Is(new(bytes.Buffer)) || Width(w) != DefaultWidth || Width(nil) != DefaultWidth {
		t.Error("a pipe is a terminal")
	}
	if !SameFile(w, w) || SameFile(w, null) || SameFile(w, new(bytes.Buffer)) {
		t.Error("files are told apart wrongly")
	}
}
