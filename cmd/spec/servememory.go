package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

// sessions are those that memory is planned for: --kv-memory, or as much as --parallel sequences of so many tokens as
// -c says, or of keptTokens, unless more is known. One sequence may use what the others do not. rows are those of
// logits that the flags ask for, of each; requests may ask for drafts where these do not, and grammars force tokens, so
// those of a usual draft are planned at least, but where texts are only read.
func (s *capacity) sessions(rows int) engine.Sessions {
	kv, _ := s.cache.kvType() // checked
	if s.known.sequences == 0 {
		rows = max(rows, 1+speculative.DefaultDraftMax)
	}
	return engine.Sessions{
		Count: cmp.Or(s.known.sequences, s.parallel), Tokens: cmp.Or(s.known.tokens, s.context, keptTokens), KV: kv,
		StateBytes: s.states, Rows: rows, KVBytes: s.kvBytes,
	}
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
	return fmt.Errorf("%w; keys and values of %d requests at once are counted, by %s", err, s.parallel, s.sizedBy)
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

// cacheSize reads --cache-ram: a number of MiB as in llama.cpp, where -1 is no bound and 0 is none, or bytes with a
// unit.
func cacheSize(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case err != nil:
		return byteSize(v)
	case n == 0:
		return -1, nil
	case n == -1:
		return math.MaxInt64, nil
	case n < 0 || n > math.MaxInt64>>20:
		return 0, errors.New("not a number of MiB, -1 (no bound) or 0 (none)")
	}
	return n << 20, nil
}

// room is the memory that a model has whose sessions are planned.
func (s *capacity) room(sessions engine.Sessions) library.Room {
	return library.Room{Limit: s.weightMemory, Machine: machineMemory(), Sessions: sessions, Kept: s.kept}
}

// bound gives a loaded model its budgets of keys and values, so that what --memory says holds while requests are
// answered. It refuses a limit that the models and their budgets do not fit in.
func (s *serving) bound(f servedFile, m *servedModel, sessions engine.Sessions) (err error) {
	r := s.room(sessions)
	r.DraftForm = m.Speculation.Needs()&speculative.NeedsForm != 0
	r.DraftVocab = len(m.DraftVocab)
	m.Memory, err = r.Divide(m.Target, m.Draft)
	var low *library.MemoryError
	if errors.As(err, &low) {
		return fmt.Errorf("--memory %s: %w for %s: with its draft, their keys and values and --cache-ram it takes %s",
			size(low.Limit), errNotEnough, terminal.Line(cmp.Or(f.target, "the embedded model"), 60), size(low.Need))
	}
	m.Memory.Kept = s.together
	return err
}
