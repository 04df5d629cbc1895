// Package ini reads configuration files: sections of keys with values, as llama.cpp's model presets have them.
//
//	version = 1
//	; a comment, also behind a value
//	threads = 8
//	[*]
//	ctx-size = 4096
//	[name of a model]
//	model = "a path; with what would begin a comment"
//
// Nothing is guessed: a line that is none of these, a key or section that is there twice, and a value that other
// readers would cut are errors with their line.
package ini

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A File is what a file says.
type File struct {
	Name     string
	Sections []Section // in the file's order; the first is what stands before all names, and has none
}

// A Section is a name with the entries below it.
type Section struct {
	Name    string
	Line    int
	Entries []Entry
}

// An Entry is a key and its value.
type Entry struct {
	Key, Value string
	Line       int
}

// Everything is the name of the section that is for all others.
const Everything = "*"

// An Error is a mistake in a file.
type Error struct {
	File string
	Line int
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("%s, line %d: %s", e.File, e.Line, e.Msg) }

// Errorf is a mistake in a line of the file.
func (f *File) Errorf(line int, format string, a ...any) error {
	return &Error{f.Name, line, fmt.Sprintf(format, a...)}
}

// Most bytes of a file and of a line of it.
const (
	MostBytes = 1 << 20
	MostLine  = 64 << 10
)

// Read reads a file; name is what errors call it.
func Read(name string, r io.Reader) (*File, error) {
	f := &File{Name: name, Sections: []Section{{}}}
	data, err := io.ReadAll(io.LimitReader(r, MostBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > MostBytes:
		return nil, f.Errorf(1+bytes.Count(data, []byte("\n")), "the file has more than %d bytes", MostBytes)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, MostLine)
	n := 0
	for lines.Scan() {
		n++
		text := lines.Text()
		if n == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		if err := f.line(n, strings.TrimSpace(text)); err != nil {
			return nil, err
		}
	}
	if lines.Err() != nil {
		return nil, f.Errorf(n+1, "more than %d bytes in a line", MostLine)
	}
	return f, nil
}

// line reads a line without the spaces around it.
func (f *File) line(n int, text string) error {
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' }):
		return f.Errorf(n, "not a line of text")
	case text == "" || text[0] == ';' || text[0] == '#':
		return nil
	case text[0] == '[':
		return f.section(n, text)
	}
	key, value, ok := strings.Cut(text, "=")
	if key = strings.TrimSpace(key); !ok || !isKey(key) {
		if i := strings.IndexAny(text, " \t:="); i > 0 {
			text = text[:i] // behind it may stand what no log should have, as in "api-key: …"
		}
		return f.Errorf(n, "neither KEY = VALUE nor [SECTION]: %.60q", text)
	}
	value, err := f.value(n, strings.TrimSpace(value))
	if err != nil {
		return err
	}
	s := &f.Sections[len(f.Sections)-1]
	for _, e := range s.Entries {
		if e.Key == key {
			return f.Errorf(n, "%s again, after line %d", key, e.Line)
		}
	}
	s.Entries = append(s.Entries, Entry{key, value, n})
	return nil
}

// section begins one.
func (f *File) section(n int, text string) error {
	name, rest, ok := strings.Cut(text[1:], "]")
	name, rest = strings.TrimSpace(name), strings.TrimSpace(rest)
	if !ok || name == "" || rest != "" && rest[0] != ';' && rest[0] != '#' {
		return f.Errorf(n, "not [NAME]: %.60q", text)
	}
	for _, s := range f.Sections {
		if s.Name == name {
			return f.Errorf(n, "section [%s] again, after line %d", name, s.Line)
		}
	}
	f.Sections = append(f.Sections, Section{Name: name, Line: n})
	return nil
}

// isKey reports whether a text is the name of a key: letters, digits, and -, _ and . between them.
func isKey(s string) bool {
	for i, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}

// value reads what stands behind the sign: all up to a comment, or what stands between quotes as it is.
func (f *File) value(n int, text string) (string, error) {
	if quoted, ok := strings.CutPrefix(text, `"`); ok {
		value, rest, ok := strings.Cut(quoted, `"`)
		rest = strings.TrimSpace(rest)
		if !ok || rest != "" && rest[0] != ';' && rest[0] != '#' {
			return "", f.Errorf(n, "what begins with a double quote ends with one, and has none inside")
		}
		return value, nil
	}
	at := strings.IndexAny(text, ";#")
	switch {
	case at < 0:
		return text, nil
	case at > 0 && text[at-1] != ' ' && text[at-1] != '\t':
		return "", f.Errorf(n, "%q inside a value: put the value between double quotes, or a space in front of a comment",
			text[at])
	}
	return strings.TrimSpace(text[:at]), nil
}
