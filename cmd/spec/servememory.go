package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/terminal"
)

// sessions are those that memory is planned for: --kv-memory, or as much as --parallel sequences of so many tokens as
// -c says, or of keptTokens, unless more is known. One sequence may use what the others do not.
func (s *capacity) sessions(rows int) engine.Sessions {
	kv, _ := s.cache.kvType() // checked
	return engine.Sessions{
		Count: cmp.Or(s.known.sequences, s.parallel), Tokens: cmp.Or(s.known.tokens, s.context, keptTokens), KV: kv,
		StateBytes: s.states, Rows: rows, KVBytes: s.kvBytes,
	}
}

// draftBytes is what sessions of a draft model in a file of its own take, before it is loaded. A draft head is
// described by its target: it has one layer, counted like one of the target's.
func draftBytes(f servedFile, s engine.Sessions) int64 {
	target := describeFile(f.target)
	if f.draft == "" || target == nil {
		return 0
	}
	if d := describeFile(f.draft); d != nil {
		return s.Bytes(d)
	}
	if s.KVBytes > 0 {
		return s.KVBytes
	}
	return s.Bytes(target) / int64(max(target.Config.Layers, 1))
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

const (
	// keptMost is the most memory of finished requests that are kept, where --cache-ram does not say how much: as in
	// llama.cpp.
	keptMost = 8 << 30
	// keptShare is the part of the machine's memory that it is at most.
	keptShare = 8
)

// cacheSize reads --cache-ram: a number of MiB as in llama.cpp, where -1 is no bound and 0 is none, or bytes with a
// unit.
func cacheSize(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case err != nil:
		return memorySize(v)
	case n == 0:
		return -1, nil
	case n == -1:
		return math.MaxInt64, nil
	case n < 0 || n > math.MaxInt64>>20:
		return 0, errors.New("not a number of MiB, -1 (no bound) or 0 (none)")
	}
	return n << 20, nil
}

// keptBytes is what may be kept of finished requests, where so much memory is left beside a model with its draft and
// the requests that are computed at once.
func (s *serving) keptBytes(left int64) int64 {
	n := s.kept
	if n == 0 {
		if n = keptMost; machineMemory() > 0 {
			n = min(n, machineMemory()/keptShare)
		}
	}
	if n = min(n, left); n <= 0 {
		return -1
	}
	return n
}

// bound gives a loaded model its budgets of keys and values, so that what --memory says holds while requests are
// answered. It refuses a limit that the models and their budgets do not fit in.
func (s *serving) bound(f servedFile, m *servedModel, sessions engine.Sessions) error {
	sessions.Heads = false // they are m.Draft
	target := m.Target.Describe()
	kv, draft := sessions.Bytes(target), int64(0)
	all := m.Target.Bytes() + kv + sessions.Logits(target)
	if m.Draft != nil {
		if h := m.Draft.Head(); h == nil || !h.SharesCache {
			draft = sessions.Bytes(m.Draft.Describe())
		}
		all += m.Draft.Bytes() + draft
	}
	if s.weightMemory == 0 || f.target == "" {
		limit := int64(math.MaxInt64) // not known
		if n := machineMemory(); n > 0 && s.kept == 0 {
			limit = n / 8 * memoryShare
		}
		m.Memory.Cache = s.keptBytes(limit - all)
		return nil
	}
	if all += s.asked(); all > s.weightMemory {
		return fmt.Errorf("--memory %s: %w for %s: with its draft, their keys and values and --cache-ram it takes %s",
			size(s.weightMemory), errNotEnough, terminal.Line(f.target, 60), size(all))
	}
	m.Memory.Cache = s.keptBytes(s.weightMemory - all + s.asked())
	if more := max(m.Memory.Cache, 0); s.kvBytes == 0 && kv > 0 { // what is kept comes beside what is computed
		ofDraft := int64(float64(more) * float64(draft) / float64(kv+draft))
		kv, draft = kv+more-ofDraft, draft+ofDraft
	}
	m.Memory.KV, m.Memory.DraftKV = kv, draft
	return nil
}

// asked is what --cache-ram says under a limit: what it does not say is what is left.
func (s *serving) asked() int64 {
	if s.kept <= 0 || s.kept == math.MaxInt64 || s.kvBytes > 0 {
		return 0
	}
	return s.kept
}
