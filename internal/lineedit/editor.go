// Package lineedit reads messages from a terminal: a line editor with history, search, completion and pastes of any
// length. An editor is the state and knows no terminal; a [Reader] joins it to one.
package lineedit

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/specgo/spec/internal/cellwidth"
)

// Options of a [Reader]. The zero value is a reader without completion, history and marks.
type Options struct {
	History *History // nil: none
	// Most is the most bytes of a text; 0: 4 MiB.
	Most int
	// Open reports whether the enter key begins a further line of a text instead of ending it, and the text that is
	// then in front of the new line.
	Open func(text string) (string, bool)
	// Complete returns what may stand in place of the text from a byte on up to its end.
	Complete func(text string) (from int, choices []string)
	// Faint and Off are written around what is not the text, such as "\x1b[2m" and "\x1b[0m".
	Faint, Off string
}

// An outcome is what a key did beside changing the text.
type outcome int

const (
	edited outcome = iota
	entered
	interrupted
	ended
	suspended
	cleared // the screen is to be drawn anew, from its top
)

// An editor is a text with a cursor.
type editor struct {
	Options
	text []byte
	at   int // the cursor: a byte at which a cluster begins, or the end

	killed    []byte
	killing   bool // the last key killed, so that the next one adds to it
	goal      int  // column that up and down keep to; -1: the cursor's
	recalled  int  // entry of the history that is edited; their number: none
	draft     string
	searching *search
	note      string   // told below the text until the next key
	choices   []string // completions that are listed until the next key

	layout layout
	top    int // row shown first
}

// A search is one in the history.
type search struct {
	text  []byte
	found int
	kept  string // the text before
}

const usualMost = 4 << 20

func newEditor(o Options) *editor {
	if o.History == nil {
		o.History = &History{}
	}
	if o.Most == 0 {
		o.Most = usualMost
	}
	return &editor{Options: o, goal: -1, recalled: len(o.History.entries)}
}

// set replaces the text, with the cursor at its end.
func (e *editor) set(text string) {
	e.text = []byte(text)
	e.at = len(e.text)
	e.layout.changed(0)
}

// replace puts a text in place of a part, with the cursor behind it.
func (e *editor) replace(from, to int, text []byte) {
	if len(e.text)-(to-from)+len(text) > e.Most {
		e.note = "the message would be too long"
		return
	}
	e.text = slices.Replace(e.text, from, to, text...)
	e.layout.changed(from)
	e.at = boundary(e.text, from+len(text))
}

// kill takes out a part of the text and keeps it for ctrl-y. Kills in a row are kept as one.
func (e *editor) kill(from, to int) {
	if from == to {
		return
	}
	part := slices.Clone(e.text[from:to])
	switch {
	case !e.killing:
		e.killed = part
	case from < e.at:
		e.killed = append(part, e.killed...)
	default:
		e.killed = append(e.killed, part...)
	}
	e.killing = true
	e.replace(from, to, nil)
}

// press takes one event.
func (e *editor) press(v event) outcome {
	e.note, e.choices = "", nil
	if e.searching != nil {
		if out, done := e.find(v); done {
			return out
		}
	}
	killing, goal := e.killing, e.goal
	e.killing, e.goal = false, -1
	switch v.key {
	case keyText, keyPaste:
		e.replace(e.at, e.at, []byte(v.text))
	case keyLong:
		e.note = "the paste is too long"
	case "enter":
		return e.enter()
	case "ctrl-c":
		return interrupted
	case "ctrl-z":
		return suspended
	case "ctrl-l":
		return cleared
	case "ctrl-d":
		if len(e.text) == 0 {
			return ended
		}
		e.replace(e.at, e.right(), nil)
	default:
		if move, ok := moves[v.key]; ok {
			e.at = move(e)
		} else if kill, ok := kills[v.key]; ok {
			e.killing = killing
			to := kill(e)
			e.kill(min(e.at, to), max(e.at, to))
		} else if act, ok := acts[v.key]; ok {
			e.goal = goal
			act(e)
		}
	}
	return edited
}

// enter ends the text, or begins a further line of it.
func (e *editor) enter() outcome {
	if e.Open != nil {
		if text, open := e.Open(string(e.text)); open {
			e.replace(0, len(e.text), []byte(text+"\n"))
			return edited
		}
	}
	e.at = len(e.text)
	return entered
}

// moves are the keys that move the cursor: where to.
var moves = map[string]func(*editor) int{
	"left": (*editor).left, "ctrl-b": (*editor).left,
	"right": (*editor).right, "ctrl-f": (*editor).right,
	"home": (*editor).lineStart, "ctrl-a": (*editor).lineStart,
	"end": (*editor).lineEnd, "ctrl-e": (*editor).lineEnd,
	"alt-b": (*editor).wordLeft, "ctrl-left": (*editor).wordLeft, "alt-left": (*editor).wordLeft,
	"alt-f": (*editor).wordRight, "ctrl-right": (*editor).wordRight, "alt-right": (*editor).wordRight,
	"ctrl-home": func(*editor) int { return 0 }, "alt-<": func(*editor) int { return 0 },
	"ctrl-end": (*editor).last, "alt->": (*editor).last,
}

// kills are the keys that kill from the cursor to somewhere.
var kills = map[string]func(*editor) int{
	"ctrl-k": (*editor).rest, "ctrl-u": (*editor).lineStart, "ctrl-w": (*editor).spaceLeft,
	"alt-d": (*editor).wordRight, "alt-backspace": (*editor).wordLeft,
}

// acts are the keys that do something else.
var acts = map[string]func(*editor){
	"backspace": func(e *editor) { e.replace(e.left(), e.at, nil) },
	"delete":    func(e *editor) { e.replace(e.at, e.right(), nil) },
	"alt-enter": func(e *editor) { e.replace(e.at, e.at, []byte("\n")) },
	"ctrl-y":    func(e *editor) { e.replace(e.at, e.at, e.killed) },
	"ctrl-t":    (*editor).transpose,
	"tab":       (*editor).complete,
	"up":        func(e *editor) { e.vertical(-1) },
	"down":      func(e *editor) { e.vertical(1) },
	"ctrl-p":    func(e *editor) { e.recall(-1) },
	"ctrl-n":    func(e *editor) { e.recall(1) },
	"ctrl-r": func(e *editor) {
		e.searching = &search{found: len(e.History.entries), kept: string(e.text)}
	},
}

func (e *editor) left() int {
	if e.at == 0 {
		return 0
	}
	return before(e.text, e.at)
}

func (e *editor) right() int {
	if e.at == len(e.text) {
		return e.at
	}
	return e.at + cellwidth.Cluster(e.text[e.at:])
}

func (e *editor) last() int      { return len(e.text) }
func (e *editor) lineStart() int { return bytes.LastIndexByte(e.text[:e.at], '\n') + 1 }

func (e *editor) lineEnd() int {
	if n := bytes.IndexByte(e.text[e.at:], '\n'); n >= 0 {
		return e.at + n
	}
	return len(e.text)
}

// rest is the end of the line, or behind it where the cursor is there.
func (e *editor) rest() int {
	if end := e.lineEnd(); end > e.at {
		return end
	}
	return e.right()
}

// isWord reports whether the cluster at a byte belongs to a word.
func (e *editor) isWord(at int) bool {
	r, _ := utf8.DecodeRune(e.text[at:])
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

func (e *editor) isText(at int) bool {
	r, _ := utf8.DecodeRune(e.text[at:])
	return !unicode.IsSpace(r)
}

func (e *editor) wordLeft() int  { return e.back(e.isWord) }
func (e *editor) spaceLeft() int { return e.back(e.isText) }

// back is the beginning of the word before the cursor. Each cluster on the way is found once: of a run of emoji one of
// them is found only from the run's beginning.
func (e *editor) back(in func(int) bool) int {
	at, inside := e.at, false
	for at > 0 {
		for _, previous := range slices.Backward(clusters(e.text, at)) {
			if inside && !in(previous) {
				return at
			}
			inside = inside || in(previous)
			at = previous
		}
	}
	return at
}

// wordRight is the end of the word behind the cursor.
func (e *editor) wordRight() int {
	at, inside := e.at, false
	for at < len(e.text) {
		if inside && !e.isWord(at) {
			break
		}
		inside = inside || e.isWord(at)
		at += cellwidth.Cluster(e.text[at:])
	}
	return at
}

// transpose exchanges the clusters around the cursor, at the end of a line the last two.
func (e *editor) transpose() {
	start, middle := e.lineStart(), e.at
	if middle == e.lineEnd() && middle > start {
		middle = before(e.text, middle)
	}
	if middle == start {
		return
	}
	from, to := before(e.text, middle), middle+cellwidth.Cluster(e.text[middle:])
	e.replace(from, to, append(slices.Clone(e.text[middle:to]), e.text[from:middle]...))
}

// vertical moves the cursor a row up or down, and beyond the first and the last row through the history.
func (e *editor) vertical(by int) {
	l := &e.layout
	i := l.through(e.text, e.at, 1)
	if e.goal < 0 {
		e.goal = l.column(e.text, l.rows[i], e.at)
	}
	if i += by; i < 0 || i >= len(l.rows) {
		e.recall(by)
		return
	}
	r := l.rows[i]
	e.at = l.at(e.text, r, e.goal)
	if e.at == r.to && r.to > r.from && r.to < len(e.text) && e.text[r.to] != '\n' {
		e.at = before(e.text, r.to) // the end of a row that goes on is the beginning of the next one
	}
}

// recall shows another entry of the history; what was typed is behind the last one.
func (e *editor) recall(by int) {
	entries := e.History.entries
	to := e.recalled + by
	if to < 0 || to > len(entries) {
		return
	}
	if e.recalled == len(entries) {
		e.draft = string(e.text)
	}
	if e.recalled, e.goal = to, -1; to == len(entries) {
		e.set(e.draft)
		return
	}
	e.set(entries[to])
}

// find takes an event while the history is searched; done is false where the key is one of the editor's, which then
// edits what was found.
func (e *editor) find(v event) (outcome, bool) {
	s := e.searching
	from := s.found + 1
	switch v.key {
	case keyText, keyPaste:
		s.text = append(s.text, v.text...)
	case "backspace":
		if len(s.text) > 0 {
			s.text = s.text[:before(s.text, len(s.text))]
		}
		from = len(e.History.entries)
	case "ctrl-r":
		from = s.found
	case "ctrl-g", "ctrl-c":
		e.searching = nil
		e.set(s.kept)
		return edited, true
	default:
		e.searching = nil
		if s.found < len(e.History.entries) {
			e.recalled, e.draft = s.found, s.kept
		}
		return edited, false
	}
	if len(s.text) == 0 {
		return edited, true
	}
	found := e.History.search(string(s.text), from)
	if found < 0 {
		e.note = "not found"
		return edited, true
	}
	s.found = found
	e.set(e.History.entries[found])
	e.at = boundary(e.text, strings.LastIndex(string(e.text), string(s.text)))
	return edited, true
}

// complete writes what all choices begin with, or lists them.
func (e *editor) complete() {
	if e.Complete == nil || e.at < len(e.text) {
		return
	}
	from, choices := e.Complete(string(e.text))
	if len(choices) == 0 {
		return
	}
	common := choices[0]
	for _, c := range choices {
		for !strings.HasPrefix(c, common) {
			_, n := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-n]
		}
	}
	if common != string(e.text[from:]) && common != "" {
		e.replace(from, len(e.text), []byte(common))
		return
	}
	e.choices = choices
}

// take returns the text and begins anew.
func (e *editor) take() string {
	text := string(e.text)
	e.reset()
	return text
}

// reset drops the text.
func (e *editor) reset() {
	e.text, e.at, e.top, e.goal = nil, 0, 0, -1
	e.searching, e.note, e.choices, e.draft = nil, "", nil, ""
	e.recalled = len(e.History.entries)
	e.layout.changed(0)
}
