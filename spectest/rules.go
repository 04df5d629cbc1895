package spectest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/internal/strictjson"
)

// Line is a case as a line of JSON has it, for programs that are not written in Go ("spec eval").
type Line struct {
	Name   string          `json:"name"`   // of the case, and of its golden file
	URL    string          `json:"url"`    // of the endpoint that the body is for; "": /v1/chat/completions
	Body   json.RawMessage `json:"body"`   // the request, as that endpoint takes it
	Golden bool            `json:"golden"` // the answer is compared with the golden file
	Checks []Rule          `json:"checks"`
}

// Rule is a check as JSON has it: one of its members is set.
type Rule struct {
	Contains *string         `json:"contains"`
	Schema   json.RawMessage `json:"json_schema"`
	Called   *CalledRule     `json:"called"`
	Similar  *SimilarRule    `json:"similar"`
	Judged   *JudgedRule     `json:"judged"`
}

// CalledRule is [Called] as JSON has it.
type CalledRule struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // left out: any
}

// SimilarRule is [Similar] as JSON has it.
type SimilarRule struct {
	To      string  `json:"to"`
	AtLeast float64 `json:"at_least"`
}

// JudgedRule is [Judged] as JSON has it.
type JudgedRule struct {
	Question string   `json:"question"` // {answer} stands for the answer
	Choices  []string `json:"choices"`
	Want     string   `json:"want"`
}

// ParseLine reads a case. What it does not know it refuses.
func ParseLine(text []byte) (*Line, error) {
	l := &Line{URL: "/v1/chat/completions"}
	if err := strictjson.Unmarshal(text, l); err != nil {
		return nil, err
	}
	switch {
	case l.Name == "":
		return nil, errors.New("name: missing")
	case !validName(l.Name):
		return nil, fmt.Errorf("name: %q is no name of a golden file", l.Name)
	case len(l.Body) == 0 || l.Body[0] != '{':
		return nil, errors.New("body: missing, or no object")
	case !l.Golden && len(l.Checks) == 0:
		return nil, errors.New("checks: there are none, and golden is not true: nothing would be looked at")
	}
	for i := range l.Checks {
		if err := l.Checks[i].check(); err != nil {
			return nil, fmt.Errorf("checks[%d]: %w", i, err)
		}
	}
	return l, nil
}

// check refuses rules that say nothing, or several things.
func (r *Rule) check() error {
	n := 0
	for _, set := range []bool{r.Contains != nil, r.Schema != nil, r.Called != nil, r.Similar != nil, r.Judged != nil} {
		if set {
			n++
		}
	}
	switch {
	case n != 1:
		return fmt.Errorf("%d of contains, json_schema, called, similar and judged, want 1", n)
	case r.Called != nil && r.Called.Name == "":
		return errors.New("called.name: missing")
	case r.Similar != nil && r.Similar.To == "":
		return errors.New("similar.to: missing")
	case r.Similar != nil && r.Similar.AtLeast == 0:
		return errors.New("similar.at_least: missing, or 0, which texts of any kind have")
	case r.Similar != nil && !(r.Similar.AtLeast > -1 && r.Similar.AtLeast <= 1):
		return fmt.Errorf("similar.at_least: %v, want more than -1 and at most 1", r.Similar.AtLeast)
	case r.Judged != nil && !slices.Contains(r.Judged.Choices, r.Judged.Want):
		return fmt.Errorf("judged.want: %q is not one of the choices", r.Judged.Want)
	case r.Judged != nil && !strings.Contains(r.Judged.Question, answerMark):
		return errors.New("judged.question: {answer} is not in it")
	}
	return nil
}

// answerMark stands for the answer in a question.
const answerMark = "{answer}"

// Check is the check that a rule describes; m judges and compares where that needs a model.
func (r *Rule) Check(ctx context.Context, m *spec.Model) Check {
	switch {
	case r.Contains != nil:
		return Contains(*r.Contains)
	case r.Schema != nil:
		return JSON(r.Schema)
	case r.Called != nil:
		return Called(r.Called.Name, string(r.Called.Arguments))
	case r.Similar != nil:
		return Similar(ctx, m, r.Similar.To, r.Similar.AtLeast)
	}
	j := r.Judged
	return Judged(ctx, m, func(a *Answer) string { return strings.ReplaceAll(j.Question, answerMark, a.Text) }, j.Choices,
		j.Want)
}

// Similar checks that the cosine of the vectors of the answer's content and of a text is at least so much. The vectors
// are m's embeddings, as [spec.Model.Embed] makes them without options: the same bits on every machine.
func Similar(ctx context.Context, m *spec.Model, text string, atLeast float64) Check {
	return func(a *Answer) error {
		if a.Text == "" {
			return errors.New("the answer is empty, which is similar to nothing")
		}
		v, err := m.Embed(ctx, []string{a.Text, text}, spec.EmbedOptions{})
		if err != nil {
			return err
		}
		dot := 0.
		for i := range v[0] {
			dot += float64(float64(v[0][i]) * float64(v[1][i]))
		}
		if !(dot >= atLeast) {
			return fmt.Errorf("the answer has the similarity %.4f to %q, want at least %v: %q", math.Round(dot*1e4)/1e4, text,
				atLeast, a.Text)
		}
		return nil
	}
}

// Judged checks what m says of the answer: question makes a prompt of it, a message where m has a chat template, which
// m answers greedily by one of the choices.
func Judged(ctx context.Context, m *spec.Model, question func(*Answer) string, choices []string, want string) Check {
	return func(a *Answer) error {
		alternatives := make([]string, len(choices))
		for i, c := range choices {
			alternatives[i] = grammar.Literal(c)
		}
		r := spec.Request{Clock: Clock(), Constraint: spec.Constraint{Kind: spec.GBNF,
			Source: []byte("root ::= " + strings.Join(alternatives, " | ")), Field: "choices"}}
		if template, _ := m.Template(); template != nil {
			r.Messages = []chat.Message{chat.User(question(a))}
		} else {
			r.Prompts = []spec.Prompt{{Text: question(a), Plain: true}}
		}
		var said spec.Result
		for e, err := range m.Generate(ctx, r) {
			if err != nil {
				return fmt.Errorf("judging: %w", err)
			}
			said.Add(&e)
		}
		if said.Text != want {
			return fmt.Errorf("the answer is judged %q, want %q: %q", said.Text, want, a.Text)
		}
		return nil
	}
}
