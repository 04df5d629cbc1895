package spectest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/grammar"
)

// Check says what is wrong with an answer; nil: nothing.
type Check func(a *Answer) error

// Check has each check look at the answer. What is wrong is an error of the test.
func (a *Answer) Check(t testing.TB, checks ...Check) {
	t.Helper()
	for _, check := range checks {
		if err := check(a); err != nil {
			t.Error(err)
		}
	}
}

// Case is a request with its checks, in a table.
type Case struct {
	Name    string // of the golden file, and of the test
	Request spec.Request
	Checks  []Check
}

// Table runs cases, each as a test of its own.
func Table(t *testing.T, m *Model, cases []Case) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.Name] {
			t.Fatalf("spectest: two cases have the name %q", c.Name)
		}
		seen[c.Name] = true
		t.Run(c.Name, func(t *testing.T) { Run(t, m, c.Name, c.Request).Check(t, c.Checks...) })
	}
}

// Contains checks that a text is in the answer's content.
func Contains(text string) Check {
	return func(a *Answer) error {
		if !strings.Contains(a.Text, text) {
			return fmt.Errorf("the answer does not contain %q: %q", text, a.Text)
		}
		return nil
	}
}

// Called checks that the answer calls a tool with arguments: a JSON object, whose members may come in any order and
// whose numbers are compared as they are written. "" stands for any arguments.
func Called(name, arguments string) Check {
	return func(a *Answer) error {
		var got []string
		for _, c := range a.Calls {
			got = append(got, c.Name+" "+c.Arguments)
			if c.Name != name {
				continue
			}
			if arguments == "" {
				return nil
			}
			want, err := decoded(arguments)
			if err != nil {
				return fmt.Errorf("arguments that are expected of %s: %w", name, err)
			}
			if has, err := decoded(c.Arguments); err == nil && reflect.DeepEqual(has, want) {
				return nil
			}
		}
		return fmt.Errorf("the answer does not call %s: %q", strings.TrimSpace(name+" "+arguments), got)
	}
}

func decoded(text string) (v any, err error) {
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("%q is not JSON", text)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}

// JSON checks that the answer's content is JSON that follows a schema, as package grammar writes such texts: valid,
// with the listed members of objects in the order of the schema and no escapes in their names. Blanks may be anywhere.
func JSON(schema json.RawMessage) Check {
	return func(a *Answer) error {
		var text bytes.Buffer
		if err := json.Compact(&text, []byte(a.Text)); err != nil {
			return fmt.Errorf("the answer is not JSON: %w: %q", err, a.Text)
		}
		n, whole, err := follows(schema, text.Bytes())
		switch {
		case err != nil:
			return fmt.Errorf("schema: %w", err)
		case !whole:
			return fmt.Errorf("the answer does not follow the schema behind %q: %q", text.Bytes()[:n], text.Bytes())
		}
		return nil
	}
}

// follows reports how many bytes of a text a schema allows, and whether the text may end there and is whole.
func follows(schema json.RawMessage, text []byte) (n int, whole bool, err error) {
	b := grammar.NewBudget(context.Background(), grammar.Limits{})
	g, err := grammar.ParseSchema(b, schema, grammar.SchemaOptions{})
	if err != nil {
		return 0, false, err
	}
	c, err := g.Bind(b, grammar.NewVocabulary(singleBytes{}, grammar.VocabularyOptions{}))
	if err != nil {
		return 0, false, err
	}
	defer c.Close()
	state := c.Start()
	for n, x := range text {
		next, ok, err := c.Next(state, int32(x))
		if err != nil || !ok {
			return n, false, err
		}
		state = next
	}
	return len(text), c.Final(state), nil
}

// singleBytes is a vocabulary of the bytes, and an end.
type singleBytes struct{}

func (singleBytes) Size() int           { return 257 }
func (singleBytes) Token(int32) string  { return "" }
func (singleBytes) IsEOG(id int32) bool { return id == 256 }
func (singleBytes) Bytes(id int32) []byte {
	if id == 256 {
		return nil
	}
	return []byte{byte(id)}
}
