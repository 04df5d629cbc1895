package compare

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/specgo/spec/internal/results"
)

// A Prompt is a text to be continued.
type Prompt struct {
	ID   string `json:"id"`
	Text string `json:"prompt"`
	Then string `json:"text,omitempty"` // its continuation for FixedText; "": plain decoding's
}

// A Set is a list of prompts of one kind.
type Set struct {
	Name    string
	Prompts []Prompt
	File    results.File // where they are from
}

// The built-in sets were written for this project. They are Go, as the embedded pair writes it:
// functions to complete, functions to repeat, and files to begin; and sentences for models that translate.
//
//go:embed prompts/*.jsonl
var builtin embed.FS

// Translation is the built-in set for encoder-decoder models. Its first prompt is that of the publication on stairs.
const Translation = "translation"

// Builtin returns the built-in set of that name: code, copy, open or translation.
func Builtin(name string) (Set, bool) {
	text, err := builtin.ReadFile("prompts/" + name + ".jsonl")
	if err != nil {
		return Set{}, false
	}
	prompts, err := ReadPrompts(bytes.NewReader(text), name)
	return Set{name, prompts, results.TextFile("built-in "+name, text)}, err == nil
}

// longest is the greatest length of a line of prompts, in bytes.
const longest = 16 << 20

// NewSet makes a set of a file's contents: of lines {"id": ..., "prompt": ...} where the first line that is not empty
// is a JSON object, as [ReadPrompts] reads them; else the whole text is one prompt, byte for byte. The set's name is
// the file's without its folder and extension.
func NewSet(text []byte, file string) (Set, error) {
	base := filepath.Base(file)
	s := Set{Name: strings.TrimSuffix(base, filepath.Ext(base)), File: results.TextFile(base, text)}
	first, _, _ := bytes.Cut(bytes.TrimLeft(text, " \t\r\n"), []byte("\n"))
	var object map[string]json.RawMessage
	if ext := filepath.Ext(file); ext == ".jsonl" || ext == ".json" || json.Unmarshal(first, &object) == nil {
		var err error
		s.Prompts, err = ReadPrompts(bytes.NewReader(text), file)
		return s, err
	}
	if len(text) == 0 {
		return s, fmt.Errorf("%s: no prompts", file)
	}
	if !utf8.Valid(text) {
		return s, fmt.Errorf("%s: not text in UTF-8", file)
	}
	s.Prompts = []Prompt{{ID: base, Text: string(text)}}
	return s, nil
}

// ReadPrompts reads lines {"id": ..., "prompt": ..., "text": ...}; other keys are ignored. A prompt without id
// gets the number of its line. File is what errors call the text.
func ReadPrompts(r io.Reader, file string) (list []Prompt, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longest)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var p struct {
			ID   json.RawMessage `json:"id"` // a string or a number
			Text *string         `json:"prompt"`
			Then string          `json:"text"`
		}
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, n, err)
		}
		if p.Text == nil || *p.Text == "" {
			return nil, fmt.Errorf(`%s: line %d: no "prompt"`, file, n)
		}
		id := fmt.Sprint(n)
		if len(p.ID) > 0 && json.Unmarshal(p.ID, &id) != nil {
			id = string(p.ID)
		}
		list = append(list, Prompt{id, *p.Text, p.Then})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no prompts", file)
	}
	return list, nil
}
