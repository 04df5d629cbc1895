package lineedit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/specgo/spec/internal/cellwidth"
)

// alphabet are characters as a reader sees them, with their cells by hand.
var alphabet = []struct {
	text  string
	cells int
}{
	{"a", 1}, {"b", 1}, {"Z", 1}, {"7", 1}, {" ", 1}, {".", 1}, {"ä", 1}, {"e\u0301", 1}, {"n\u0303\u0323", 1},
	{"世", 2}, {"界", 2}, {"한", 2}, {"\u1112\u1161\u11ab", 2}, {"ｆ", 2}, {"😀", 2}, {"👍🏽", 2}, {"👩\u200d🔧", 2},
	{"👨\u200d👩\u200d👧", 2}, {"🇩🇪", 2}, {"❤\ufe0f", 2}, {"1\ufe0f\u20e3", 2}, {"का", 2}, {"\u05d0", 1}, {"€", 1},
	{"\x01", 4}, {"\u202e", 6}, {"\xff", 4},
}

func TestWidths(t *testing.T) {
	for _, c := range alphabet {
		if n := cellwidth.Cluster([]byte(c.text + "x")); n != len(c.text) {
			t.Errorf("%q: a cluster of %d bytes, want %d", c.text, n, len(c.text))
		}
		if text, cells := shown([]byte(c.text), 0); cells != c.cells || !utf8.ValidString(text) {
			t.Errorf("%q: %d cells, want %d", c.text, cells, c.cells)
		}
	}
}

// A model is what an editor does, said simply: a text in clusters and a place between them.
type model struct {
	left, right []string
	killed      string
	killing     bool
}

func split(text string) (all []string) {
	for text != "" {
		n := cellwidth.Cluster([]byte(text))
		all = append(all, text[:n])
		text = text[n:]
	}
	return all
}

// join makes clusters anew: parts that have met may be one.
func (m *model) join(left, right string) {
	all, n := split(left+right), 0
	for n < len(all) && len(strings.Join(all[:n], "")) < len(left) {
		n++
	}
	m.left, m.right = all[:n], all[n:]
}

func word(c string) bool {
	r, _ := utf8.DecodeRuneInString(c)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

func space(c string) bool {
	r, _ := utf8.DecodeRuneInString(c)
	return unicode.IsSpace(r)
}

// split at the left end of the word before the cursor.
func wordBefore(left []string, in func(string) bool) int {
	n := len(left)
	for n > 0 && !in(left[n-1]) {
		n--
	}
	for n > 0 && in(left[n-1]) {
		n--
	}
	return n
}

func wordBehind(right []string) int {
	n := 0
	for n < len(right) && !word(right[n]) {
		n++
	}
	for n < len(right) && word(right[n]) {
		n++
	}
	return n
}

func (m *model) lineEnd() int {
	if n := slices.Index(m.right, "\n"); n >= 0 {
		return n
	}
	return len(m.right)
}

func (m *model) lineStart() int {
	n := len(m.left)
	for n > 0 && m.left[n-1] != "\n" {
		n--
	}
	return n
}

// cut takes out clusters on the left or on the right, and kills them.
func (m *model) cut(left, right int, kill bool) {
	gone := strings.Join(m.left[len(m.left)-left:], "") + strings.Join(m.right[:right], "")
	if kill && gone != "" {
		switch {
		case !m.killing:
			m.killed = gone
		case left > 0:
			m.killed = gone + m.killed
		default:
			m.killed += gone
		}
	}
	m.join(strings.Join(m.left[:len(m.left)-left], ""), strings.Join(m.right[right:], ""))
}

func (m *model) move(by int) {
	all := append(slices.Clone(m.left), m.right...)
	n := max(0, min(len(all), len(m.left)+by))
	m.left, m.right = all[:n], all[n:]
}

func (m *model) insert(text string) {
	m.join(strings.Join(m.left, "")+text, strings.Join(m.right, ""))
}

func (m *model) press(v event) {
	was := m.killing
	nl, nr := len(m.left), len(m.right)
	m.killing = false
	kill := func(left, right int) {
		m.killing = was
		m.cut(left, right, true)
		m.killing = was || left+right > 0
	}
	switch v.key {
	case keyText, keyPaste:
		m.insert(v.text)
	case "left":
		m.move(-1)
	case "right":
		m.move(1)
	case "home":
		m.move(m.lineStart() - nl)
	case "end":
		m.move(m.lineEnd())
	case "alt-b", "ctrl-left":
		m.move(wordBefore(m.left, word) - nl)
	case "alt-f", "ctrl-right":
		m.move(wordBehind(m.right))
	case "ctrl-home":
		m.move(-nl)
	case "ctrl-end":
		m.move(nr)
	case "backspace":
		m.cut(min(1, nl), 0, false)
	case "delete", "ctrl-d":
		m.cut(0, min(1, nr), false)
	case "ctrl-k":
		n := m.lineEnd()
		if n == 0 && nr > 0 {
			n = 1
		}
		kill(0, n)
	case "ctrl-u":
		kill(nl-m.lineStart(), 0)
	case "ctrl-w":
		kill(nl-wordBefore(m.left, func(c string) bool { return !space(c) }), 0)
	case "alt-backspace":
		kill(nl-wordBefore(m.left, word), 0)
	case "alt-d":
		kill(0, wordBehind(m.right))
	case "ctrl-y":
		m.insert(m.killed)
	case "alt-enter":
		m.insert("\n")
	case "ctrl-t":
		if m.lineEnd() == 0 {
			if nl < m.lineStart()+2 {
				return
			}
			m.move(-1)
		}
		if nl = len(m.left); nl == m.lineStart() {
			return
		}
		a, b := m.left[nl-1], m.right[0]
		m.join(strings.Join(m.left[:nl-1], "")+b+a, strings.Join(m.right[1:], ""))
	}
}

// drawing is what a terminal must show of a text: rows, and the cursor's place, by the plain rule. There is no bound.
func drawing(text string, at, width int) (rows []string, row, column int) {
	line, used := "> ", 2
	pos := 0
	place := func() {
		if pos == at {
			row, column = len(rows), used
		}
	}
	for _, c := range split(text) {
		if c == "\n" {
			place()
			rows = append(rows, line)
			line, used = ". ", 2
			pos++
			continue
		}
		drawn, cells := shown([]byte(c), used)
		if used+cells > width-1 {
			rows = append(rows, line)
			line, used = "  ", 2
			drawn, cells = shown([]byte(c), used)
		}
		place()
		line += drawn
		used += cells
		pos += len(c)
	}
	place()
	rows = append(rows, line)
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	return rows, row, column
}

// randomEvent draws an edit.
func randomEvent(r *rand.Rand) event {
	keys := []string{"left", "right", "home", "end", "alt-b", "alt-f", "ctrl-left", "ctrl-right", "ctrl-home", "ctrl-end",
		"backspace", "delete", "ctrl-d", "ctrl-k", "ctrl-u", "ctrl-w", "alt-d", "alt-backspace", "ctrl-y", "ctrl-t",
		"alt-enter", "left", "right", "backspace", "alt-b", "alt-f"}
	if r.IntN(5) < 2 {
		var text strings.Builder
		for range 1 + r.IntN(1+r.IntN(20)) {
			c := alphabet[r.IntN(len(alphabet))].text
			if r.IntN(12) == 0 { // a part of one: what it stands beside may take it up
				c = string([]rune(c)[r.IntN(len([]rune(c))):])
			}
			text.WriteString(c)
		}
		if r.IntN(10) == 0 {
			text.WriteString("\n\tx")
			return event{keyPaste, text.String()}
		}
		return event{keyText, text.String()}
	}
	return event{key: keys[r.IntN(len(keys))]}
}

// 10,000 random edits: the text and the cursor are those of the model, and a terminal shows them at any width, also
// one that changes on the way.
func TestRandomEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		e, m := newEditor(Options{}), &model{}
		width := []int{40, 41, 57, 80, 132, 300}[round%6]
		s, p := newScreen(width, 80), &painter{width: width}
		for step := range 200 {
			v := randomEvent(r)
			if v.key == "ctrl-d" && len(e.text) == 0 {
				continue
			}
			if out := e.press(v); out != edited {
				t.Fatalf("%v: outcome %d", v, out)
			}
			if m.press(v); len(e.text) > 500 {
				v = event{key: "ctrl-home"}
				e.press(v)
				m.press(v)
				for len(e.text) > 0 {
					e.press(event{key: "ctrl-k"})
					m.press(event{key: "ctrl-k"})
				}
			}
			left, right := strings.Join(m.left, ""), strings.Join(m.right, "")
			if string(e.text) != left+right || e.at != len(left) {
				t.Fatalf("round %d, step %d, %v: %q at %d, want %q at %d", round, step, v, e.text, e.at, left+right,
					len(left))
			}
			if step%4 > 0 {
				continue
			}
			if err := s.write(string(p.paint(e.frame("> ", width, s.height)))); err != nil {
				t.Fatalf("round %d, step %d, %v: %v", round, step, v, err)
			}
			rows, row, column := drawing(left+right, e.at, width)
			if got, want := s.lines(), strings.TrimRight(strings.Join(rows, "\n"), "\n"); got != want ||
				s.row != row || s.column != column {
				t.Fatalf("round %d, step %d, %v, width %d: cursor at %d,%d, want %d,%d\n%s\nwant\n%s", round, step, v, width,
					s.row, s.column, row, column, got, want)
			}
		}
	}
}

// press gives an editor keys by name, and text in quotes.
func press(e *editor, keys ...string) outcome {
	out := edited
	for _, k := range keys {
		v := event{key: k}
		if text, ok := strings.CutPrefix(k, "'"); ok {
			v = event{keyText, text}
		}
		out = e.press(v)
	}
	return out
}

func TestKeys(t *testing.T) {
	var got []string
	d := &decoder{most: 20}
	const in = "aé\x1b[A\x1bOB\x1b[1;5D\x1b[1;3C\x1b[3~\x1bb\x1b\r\x01\x7f\r\t\x1b[H\x1b[4~\x1b[99~\x1b[200~p\r\n" +
		"q\x03\rr\x1b[201~z\x1b[200~yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\x1b[201~\x1b\x1b[C\x12\x1b[?1;2c."
	for _, b := range []byte(in) { // as slowly as can be
		for _, e := range d.feed([]byte{b}) {
			got = append(got, e.key+":"+e.text)
		}
	}
	want := []string{"text:a", "text:é", "up:", "down:", "ctrl-left:", "alt-right:", "delete:", "alt-b:", "alt-enter:",
		"ctrl-a:", "backspace:", "enter:", "tab:", "home:", "end:", "paste:p\nq\x03\nr", "text:z", "long paste:", "right:",
		"ctrl-r:", "text:."}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	whole := new(decoder)
	whole.most = 20
	var same []string
	for _, e := range whole.feed([]byte(in)) {
		same = append(same, e.key+":"+e.text)
	}
	if want[0] = "text:aé"; !slices.Equal(same, append(want[:1:1], want[2:]...)) {
		t.Errorf("at once: %q", same)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x1b[200~a\x1b[201~\x1b[1;5C\xff"), 3)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		e, d := newEditor(Options{Most: 1000}), &decoder{most: 1000}
		s, p := newScreen(40, 8), &painter{width: 40}
		cut = max(0, min(cut, len(in)))
		for _, part := range [][]byte{in[:cut], in[cut:]} {
			for _, v := range d.feed(part) {
				e.press(v)
				if boundary(e.text, e.at) != e.at || len(e.text) > 1000 {
					t.Fatalf("%q: cursor at %d of %q", v, e.at, e.text)
				}
				if err := s.write(string(p.paint(e.frame("> ", 40, 8)))); err != nil {
					t.Fatalf("%q: %v", v, err)
				}
			}
		}
	})
}

func TestHistoryKeys(t *testing.T) {
	h := &History{}
	for _, text := range []string{"first one", "second", "two\nlines", "third one"} {
		h.Add(text)
	}
	e := newEditor(Options{History: h})
	e.layout.resize(80, 2)
	check := func(want string, keys ...string) {
		t.Helper()
		if press(e, keys...); string(e.text) != want {
			t.Errorf("%q: %q, want %q", keys, e.text, want)
		}
	}
	check("third one", "'draft", "up")
	check("two\nlines", "up")
	check("second", "up", "up")
	check("first one", "up", "up", "up")
	check("draft", "ctrl-n", "ctrl-n", "down", "down", "down")
	check("third one", "ctrl-r", "'one")
	check("first one", "ctrl-r")
	check("first one", "ctrl-r") // there is no other
	check("draft", "ctrl-g")
	check("second", "ctrl-r", "'x", "backspace", "'sec")
	if out := press(e, "enter"); out != entered || e.take() != "second" {
		t.Error("what was found is not entered")
	}
}

// The file is the owner's alone, holds what was entered in other programs too, and is bounded.
func TestHistoryFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "history")
	a, err := OpenHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := OpenHistory(file)
	for _, add := range []struct {
		h    *History
		text string
	}{
		{a, "one\ntwo"}, {b, "b \x1b\u2028"}, {a, "three"}, {a, "three"}, {a, " "},
		{a, strings.Repeat("x", longestEntry+1)},
	} {
		if err := add.h.Add(add.text); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := OpenHistory(file)
	if got := fmt.Sprintf("%q", c.entries); got != `["one\ntwo" "b \x1b\u2028" "three"]` {
		t.Error(got)
	}
	info, _ := os.Stat(file)
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	var many bytes.Buffer
	for i := range 3 * mostEntries {
		many.Write(entryLine(fmt.Sprint("entry ", i)))
	}
	os.WriteFile(file, append([]byte("no JSON\n"), many.Bytes()...), 0o644)
	os.Chmod(file, 0o644)
	c, err = OpenHistory(file)
	if err != nil || len(c.entries) != mostEntries || c.entries[0] != fmt.Sprint("entry ", 2*mostEntries) {
		t.Errorf("%d entries, %v", len(c.entries), err)
	}
	data, _ := os.ReadFile(file)
	info, _ = os.Stat(file)
	if n := bytes.Count(data, []byte("\n")); n != mostEntries || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%d lines, mode %v", n, info.Mode())
	}
	for _, left := range []string{`"hal`, "\x00\x00\x00", "\x00\x00\"a\"\n"} { // by a failure of the machine
		os.WriteFile(file, []byte(left), 0o600)
		if h, err := OpenHistory(file); err != nil || h.file == "" {
			t.Errorf("%q: %v", left, err)
		}
	}
	if _, err := OpenHistory(t.TempDir()); err == nil {
		t.Error("a folder is a history")
	}
}

// Another program's file is no history: it stays as it is, with its mode, and nothing is added to it. A link to a
// history that is shortened stays a link.
func TestHistoriesOfOthersStay(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	for what, text := range map[string]string{"a shell's": strings.Repeat("git status\n", 3*mostEntries),
		"a note": "two\nlines\n", "a line": "one\n", "a long line": strings.Repeat("x", longestFile)} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h, err := OpenHistory(file)
		if err == nil {
			t.Errorf("%s: taken", what)
		}
		h.Add("typed")
		data, _ := os.ReadFile(file)
		info, _ := os.Stat(file)
		if string(data) != text || runtime.GOOS != "windows" && info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %d bytes of %d, mode %v", what, len(data), len(text), info.Mode())
		}
		os.Remove(file)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(file, bytes.Repeat([]byte("\"a\"\n\"b\"\n"), 3*mostEntries), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := OpenHistory(link)
	info, e := os.Lstat(link)
	if err != nil || e != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v, %v", info, e, err)
	}
	if data, _ := os.ReadFile(file); bytes.Count(data, []byte("\n")) != mostEntries {
		t.Errorf("%d bytes", len(data))
	}
}

func TestCompletion(t *testing.T) {
	e := newEditor(Options{Complete: func(text string) (int, []string) {
		var all []string
		for _, c := range []string{"/save", "/set", "/show", "/stats", "/system"} {
			if strings.HasPrefix(c, text) {
				all = append(all, c)
			}
		}
		return 0, all
	}})
	if press(e, "'/se", "tab"); string(e.text) != "/set" {
		t.Errorf("%q", e.text)
	}
	e.reset()
	if press(e, "'/", "tab", "tab"); string(e.text) != "/s" {
		t.Errorf("%q", e.text)
	}
	s, p := newScreen(24, 10), new(painter)
	s.write(string(p.paint(e.frame("> ", 24, 10))))
	if got := s.lines(); got != "> /s\n/save  /set  /show\n/stats  /system" || s.row != 0 || s.column != 4 {
		t.Errorf("%q, cursor at %d,%d", got, s.row, s.column)
	}
	press(e, "'t")
	s.write(string(p.paint(e.frame("> ", 24, 10))))
	if got := s.lines(); got != "> /st" {
		t.Errorf("%q", got)
	}
}

// The enter key begins a further line where the text is open.
func TestOpenText(t *testing.T) {
	e := newEditor(Options{Open: func(text string) (string, bool) { return strings.CutSuffix(text, `\`) }})
	out := press(e, "'a\\", "enter", "'b", "alt-enter", "'c", "home", "enter")
	if got := e.take(); out != entered || got != "a\nb\nc" {
		t.Errorf("%d, %q", out, got)
	}
	for key, want := range map[string]outcome{
		"ctrl-c": interrupted, "ctrl-d": ended, "ctrl-z": suspended, "ctrl-l": cleared} {
		if got := press(e, key); got != want {
			t.Errorf("%s: %d", key, got)
		}
	}
}

// Up and down keep to a column over shorter rows.
func TestVertical(t *testing.T) {
	e := newEditor(Options{})
	e.layout.resize(20, 2)
	e.press(event{keyPaste, "0123456789abcdefghij\nxy\n0123456789"})
	for i, want := range []int{23, 20, 10, 20, 23, 34} {
		press(e, []string{"up", "up", "up", "down", "down", "down"}[i])
		if e.at != want {
			t.Errorf("%d: at %d, want %d", i, e.at, want)
		}
	}
}

// A paste of 1 MB is one text, and what is drawn of it and after each further key fits the screen.
func TestLargePaste(t *testing.T) {
	var text strings.Builder
	for i := 0; text.Len() < 1<<20; i++ {
		fmt.Fprintf(&text, "line %d of what was pasted, with words\n", i)
	}
	for _, paste := range []string{text.String(), strings.Repeat("x", 1<<20)} {
		e, d := newEditor(Options{}), &decoder{most: usualMost}
		s, p := newScreen(80, 24), new(painter)
		in := []byte(pasteBegins + paste + pasteEnds)
		for len(in) > 0 {
			n := min(len(in), 4096)
			for _, v := range d.feed(in[:n]) {
				e.press(v)
			}
			in = in[n:]
		}
		for _, keys := range [][]string{{}, {"'a"}, {"up", "up"}, {"ctrl-home", "'b"}, {"down"}, {"ctrl-end", "backspace"}} {
			press(e, keys...)
			out := p.paint(e.frame("> ", 80, 24))
			if len(out) > 80*24*2 {
				t.Errorf("%q: %d bytes are written", keys, len(out))
			}
			if err := s.write(string(out)); err != nil {
				t.Errorf("%q: %v", keys, err)
			}
			if top := s.lines(); !strings.HasPrefix(top, "[104") {
				t.Errorf("%q: no summary on top of %q", keys, top[:40])
			}
		}
		if got := e.take(); got != "b"+paste {
			t.Errorf("%d bytes arrive of %d", len(got), len(paste))
		}
	}
}

// After a change of the width the old frame is gone, as a terminal wraps its rows or not.
func TestResize(t *testing.T) {
	e, p := newEditor(Options{}), &painter{width: 80}
	s := newScreen(80, 24)
	s.write("above\r\n")
	press(e, "'"+strings.Repeat("0123456789", 20))
	s.write(string(p.paint(e.frame("> ", 80, 24))))
	if s.row != 3 {
		t.Fatalf("cursor in row %d", s.row)
	}
	narrow := newScreen(40, 24) // as a terminal wraps: each of the two full rows takes two
	narrow.write("above\r\n")
	narrow.row, narrow.column = 6, 8
	if err := narrow.write(string(p.resize(40)) + string(p.paint(e.frame("> ", 40, 24)))); err != nil {
		t.Fatal(err)
	}
	rows, row, column := drawing(string(e.text), e.at, 40)
	if got := narrow.lines(); got != "above\n"+strings.Join(rows, "\n") || narrow.row != row+1 || narrow.column != column {
		t.Errorf("%s\ncursor at %d,%d", got, narrow.row, narrow.column)
	}
}

// A word that is killed backwards ends where one step after the other would, and a long run of emoji takes time in
// proportion to its length.
func TestWordsOfEmoji(t *testing.T) {
	parts := []string{"a", " ", "é", "─", "\u0301", "\n",
		"\U0001f600", "\U0001f468\u200d\U0001f469", "\U0001f1e9\U0001f1ea"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var text []byte
		for range random.IntN(20) {
			text = append(text, parts[random.IntN(len(parts))]...)
		}
		e := newEditor(Options{})
		e.set(string(text))
		at, inside := len(text), false
		for at > 0 {
			previous := before(text, at)
			if inside && !e.isText(previous) {
				break
			}
			inside = inside || e.isText(previous)
			at = previous
		}
		if e.press(event{key: "ctrl-w"}); string(e.text) != string(text[:at]) {
			t.Errorf("%q becomes %q, want %q", text, e.text, text[:at])
		}
	}
	e := newEditor(Options{})
	e.set("a " + strings.Repeat("\U0001f600", 1<<16))
	if e.press(event{key: "ctrl-w"}); string(e.text) != "a " {
		t.Errorf("%d bytes are left", len(e.text))
	}
}
