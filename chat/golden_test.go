package chat

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/internal/testkit"
)

func fixedClock() time.Time { return time.Date(2026, 7, 26, 12, 0, 0, 0, time.UTC) }

type goldenFile struct {
	BOS   string       `json:"bos"`
	EOS   string       `json:"eos"`
	Cases []goldenCase `json:"cases"`
}

type goldenCase struct {
	Name     string            `json:"name"`
	Messages []Message         `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
	Options  map[string]any    `json:"options"`
	Text     string            `json:"text"`
	Error    string            `json:"error"`
}

func (c *goldenCase) conversation() Conversation {
	conv := Conversation{Messages: c.Messages, Tools: c.Tools, Extra: map[string]any{}, AddGenerationPrompt: true}
	for k, v := range c.Options {
		if k == "add_generation_prompt" {
			conv.AddGenerationPrompt = v.(bool)
		} else {
			conv.Extra[k] = v
		}
	}
	return conv
}

// forGoldens calls f with every template of shared/chat and what an
// independent implementation renders with it.
func forGoldens(t *testing.T, f func(t *testing.T, name string, tmpl *Template, g *goldenFile)) {
	folder := testkit.Shared(t, "chat")
	paths, err := filepath.Glob(folder + "/templates/*.jinja")
	if len(paths) == 0 {
		t.Fatal("no templates", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".jinja")
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(folder + "/golden/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var g goldenFile
			if err := json.Unmarshal(data, &g); err != nil {
				t.Fatal(err)
			}
			tmpl, err := New(string(source), Options{BOS: g.BOS, EOS: g.EOS, Clock: fixedClock, Arguments: ArgumentsObject})
			if err != nil {
				t.Fatal(err)
			}
			f(t, name, tmpl, &g)
		})
	}
}

// filledIn are the reference's errors of templates that use what a conversation without tools lacks, and FireFunction's
// with them, which is filled in here.
var filledIn = []string{
	"TypeError: 'NoneType' object is not iterable", "UndefinedError: 'functions' is undefined",
}

func TestGoldens(t *testing.T) { forGoldens(t, checkGoldens) }

func checkGoldens(t *testing.T, name string, tmpl *Template, g *goldenFile) {
	for _, c := range g.Cases {
		p, err := tmpl.Render(t.Context(), c.conversation())
		switch {
		case slices.Contains(filledIn, c.Error) && (len(c.Tools) == 0 || c.Error == filledIn[1]):
			last := c.Messages[len(c.Messages)-1].Content
			if err != nil || !strings.Contains(p.Text(), strings.TrimSpace(last)) {
				t.Errorf("%s, %s: %v, the text lacks %q", name, c.Name, err, last)
			}
		case tmpl.responses && slices.ContainsFunc(c.Messages, func(m Message) bool { return m.Role == "tool" }):
			// The reference has a role that the model does not know: TestResultsBesideCalls.
			if err != nil {
				t.Errorf("%s, %s: %v", name, c.Name, err)
			}
		case strings.Contains(c.Error, "'append' of 'list'"):
			// The reference's sandbox forbids what its template needs; other programs allow it.
			if err != nil {
				t.Errorf("%s, %s: %v", name, c.Name, err)
			}
		case c.Error != "":
			if err == nil {
				t.Errorf("%s, %s: no error, the reference has: %s", name, c.Name, c.Error)
			}
		case err != nil:
			t.Errorf("%s, %s: %v", name, c.Name, err)
		case p.Text() != c.Text:
			t.Errorf("%s, %s: %s", name, c.Name, firstDifference(p.Text(), c.Text))
		}
	}
}

func firstDifference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	cut := func(s string) string { return s[max(0, i-40):min(len(s), i+80)] }
	a, _ := json.Marshal(cut(got))
	b, _ := json.Marshal(cut(want))
	return fmt.Sprintf("differs at byte %d\n got: %s\nwant: %s", i, a, b)
}

// templateSource is a template of shared/chat.
func templateSource(t *testing.T, name string) string {
	t.Helper()
	source, err := os.ReadFile(testkit.Shared(t, "chat/templates", name+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}
