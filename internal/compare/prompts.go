package compare

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
)

// A Prompt is a text to be continued.
type Prompt struct {
	ID   string `json:"id"`
	Text string `json:"prompt"`
}

// A Set is a list of prompts of one kind.
type Set struct {
	Name    string
	Prompts []Prompt
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
	return Set{name, prompts}, err == nil
}

// longest is the greatest length of a line of prompts, in bytes.
const longest = 16 << 20

// ReadPrompts reads lines {"id": ..., "prompt": ...}; other keys are ignored. A prompt without id
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
		list = append(list, Prompt{id, *p.Text})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no prompts", file)
	}
	return list, nil
}
