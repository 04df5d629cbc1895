package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/specgo/spec/cmd/spec/internal/terminal"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/serve"
)

// servedMemory is what a server may take for one model beside weights and activations, in bytes.
type servedMemory struct {
	target, draft int64 // keys, values and recurrent states, of all sequences together
	logits        int64 // of a pass
}

func (m servedMemory) all() int64 { return m.target + m.draft + m.logits }

// kvBytesOf are the keys, values and states that the sequences of one model may take: --kv-memory, or as much as
// --parallel sequences of so many tokens as -c says, or of keptTokens, unless more is known. One sequence may use what
// the others do not.
func (s *capacity) kvBytesOf(d *engine.Description) int64 {
	if s.kvBytes > 0 {
		return s.kvBytes
	}
	kv, _ := s.cache.kvType() // checked
	tokens := min(cmp.Or(s.known.tokens, s.context, keptTokens), d.Config.Context)
	n := d.Recurrent.Most(s.states)
	for _, c := range d.Caches {
		one, err := c.Bytes(kv)
		if err != nil {
			continue // NewSession says what is wrong
		}
		n += one * int64((c.Most(tokens)+kvPage-1)/kvPage*kvPage)
		if c.Window > 0 {
			n += one * kvPage // what is kept begins within a page
		}
	}
	return int64(s.sequences()) * n
}

// sequences are those that memory is counted for.
func (s *capacity) sequences() int { return cmp.Or(s.known.sequences, s.parallel) }

// kvPage is the number of positions in which the engine allocates keys and values.
const kvPage = 256

// memoryBeside counts what is needed beside the weights of a target and its draft, before they are loaded. A draft
// head is described by its target: it has one layer, counted like one of the target's.
func (s *serving) memoryBeside(f servedFile, rows int) (m servedMemory) {
	target := describeFile(f.target)
	if target == nil {
		return m // loading it says what is wrong
	}
	m.target = s.kvBytesOf(target)
	m.logits = int64(s.sequences()) * int64(rows) * int64(target.Config.Vocab) * 4
	switch draft := describeFile(f.draft); {
	case draft != nil:
		m.draft = s.kvBytesOf(draft)
	case s.targetOnly:
	case f.draft != "" || hasMTP(f.target):
		m.draft = m.target
		if s.kvBytes == 0 {
			m.draft /= int64(max(target.Config.Layers, 1))
		}
	}
	return m
}

// memoryError adds to an error of too little memory what a server counts.
func (s *capacity) memoryError(err error) error {
	if !errors.Is(err, errNotEnough) {
		return err
	}
	if k := s.known; k.sequences > 0 {
		return fmt.Errorf("%w; keys and values of %d texts at once are counted, the longest of %d tokens", err, k.sequences,
			k.tokens)
	}
	return fmt.Errorf("%w; keys and values of %d requests at once are counted: -np, -c and --kv-memory say how much "+
		"that is", err, s.parallel)
}

// describeFile describes the model of a file; nil if it has none by itself.
func describeFile(file string) *engine.Description {
	if file == "" || regularFile(file) != nil { // opening a pipe waits for a writer
		return nil
	}
	f, err := gguf.OpenFile(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	d, err := engine.Describe(f)
	if err != nil {
		return nil
	}
	return d
}

// bound gives a loaded model its budgets of keys and values, so that what --memory says holds while requests are
// answered. It refuses a limit that the models and their budgets do not fit in.
func (s *serving) bound(f servedFile, m *serve.Model, logits int64) error {
	if s.weightMemory == 0 || f.target == "" {
		return nil
	}
	m.KVBytes = s.kvBytesOf(m.Target.Describe())
	all := m.Target.Bytes() + m.KVBytes + logits
	if m.Draft != nil {
		if h := m.Draft.Head(); h == nil || !h.SharesCache {
			m.DraftKVBytes = s.kvBytesOf(m.Draft.Describe())
		}
		all += m.Draft.Bytes() + m.DraftKVBytes
	}
	if all > s.weightMemory {
		return fmt.Errorf("--memory %s: %w for %s: with its draft and their keys and values it takes %s",
			size(s.weightMemory), errNotEnough, terminal.Line(f.target, 60), size(all))
	}
	return nil
}
