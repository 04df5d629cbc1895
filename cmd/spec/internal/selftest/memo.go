package selftest

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/specgo/spec/engine"
)

// memo is a session that caches the logits after every text, so that thousands of short texts after one
// prompt cost a few hundred passes. Its vocabulary is a few tokens of the model's, ids, renumbered from 0;
// the first token of its text stands for the whole prompt. That changes the distribution, of target and
// draft alike, but not what a verifier must do with it.
type memo struct {
	session *engine.Session
	after   func(ctx context.Context, text []int32) ([]float32, error) // instead of session
	prompt  []int32
	ids     []int32
	rows    map[string][]float32 // logits after a text
	text    []byte               // of the sequence
	tree    []string             // the texts of a waiting tree's nodes
	data    []float32
	passes  int
}

func newMemo(s *engine.Session, prompt, ids []int32) *memo {
	return &memo{session: s, prompt: prompt, ids: ids, rows: map[string][]float32{}}
}

func (m *memo) Len() int     { return len(m.text) }
func (m *memo) Context() int { return 64 }
func (m *memo) Vocab() int   { return len(m.ids) }
func (m *memo) MaxTree() int { return 64 }

func (m *memo) Truncate(n int) error {
	if n < 0 || n > len(m.text) {
		return errors.New("truncated beyond the end")
	}
	m.text, m.tree = m.text[:n], nil
	return nil
}

func (m *memo) Commit(path []int32) error {
	if len(path) > 0 {
		m.text = []byte(m.tree[path[len(path)-1]])
	}
	m.tree = nil
	return nil
}

func (m *memo) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	n := int(want)
	if want == engine.All {
		n = len(tokens)
	}
	m.data, m.tree = m.data[:0], m.tree[:0]
	for i, id := range tokens {
		before := string(m.text)
		switch {
		case parents == nil && i > 0:
			before = m.tree[i-1]
		case parents != nil && parents[i] >= 0:
			before = m.tree[parents[i]]
		}
		after := before + string([]byte{byte(id)})
		m.tree = append(m.tree, after)
		if i < len(tokens)-n {
			continue
		}
		row, err := m.row(ctx, after)
		if err != nil {
			return engine.Logits{}, err
		}
		m.data = append(m.data, row...)
	}
	if parents == nil && len(tokens) > 0 {
		m.text, m.tree = []byte(m.tree[len(tokens)-1]), nil
	}
	return engine.Logits{Vocab: len(m.ids), Data: m.data}, nil
}

// row returns the logits after a text.
func (m *memo) row(ctx context.Context, text string) ([]float32, error) {
	if row, ok := m.rows[text]; ok {
		return row, nil
	}
	real := slices.Clone(m.prompt)
	for _, id := range []byte(text[1:]) {
		real = append(real, m.ids[id])
	}
	var logits []float32
	var err error
	if m.after != nil {
		logits, err = m.after(ctx, real)
	} else {
		logits, err = after(ctx, m.session, real)
	}
	if err != nil {
		return nil, err
	}
	m.passes++
	row, some := make([]float32, len(m.ids)), false
	for i, id := range m.ids {
		row[i] = logits[id]
		some = some || !math.IsInf(float64(row[i]), -1)
	}
	if !some { // a head that knows none of these tokens: any distribution will do
		clear(row)
	}
	m.rows[text] = row
	return row, nil
}

// after returns the logits after text; what the session holds of it is not fed again.
func after(ctx context.Context, s *engine.Session, text []int32) ([]float32, error) {
	n, have := 0, s.Tokens()
	for n < len(have) && n < len(text)-1 && have[n] == text[n] {
		n++
	}
	if err := s.Truncate(n); err != nil {
		return nil, err
	}
	logits, err := s.Eval(ctx, text[n:], nil, engine.Last)
	if err != nil {
		return nil, err
	}
	return logits.Row(0), nil
}
