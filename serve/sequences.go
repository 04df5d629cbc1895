package serve

import (
	"context"
	"errors"
	"net/http"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/speculative"
)

// sequence is a model's sequence in the hands of one task.
type sequence interface {
	speculative.Segmented
	Tokens() []int32
	Model() *engine.Model
	Reused() int // tokens that were computed for another sequence
	Close()
}

// sequences makes sequences of one model.
type sequences interface {
	open(ctx context.Context) (sequence, error)
	close()
}

// scheduled sequences are sessions of a scheduler: those that are in use share passes, and what prompts have in common.
type scheduled struct {
	*shared.Scheduler
	o engine.SessionOptions
}

// newShared makes the scheduler of a model, within a budget of memory.
func (s *Server) newShared(m *engine.Model, o engine.SessionOptions, bytes int64) *scheduled {
	return &scheduled{shared.New(m, shared.Options{
		KVBytes: bytes, Delay: s.o.PromptDelay, Prefixes: max(s.o.Parallel, minPrefixes),
		Panicked: func(v any, stack []byte) { s.panicked(v, stack) },
	}), o}
}

// minPrefixes is how many finished sequences are kept at least for prompts that begin alike.
const minPrefixes = 4

func (s *scheduled) open(ctx context.Context) (sequence, error) {
	session, err := s.NewSession(ctx, shared.SessionOptions{SessionOptions: s.o})
	if err != nil {
		return nil, err
	}
	return sharedSequence{session}, nil
}

func (s *scheduled) close() { s.Close() }

// sharedSequence has a scheduler's session's abilities, which speculative looks for.
type sharedSequence struct{ *shared.Session }

// kvError is the error of a sequence that alone needs more memory than there is.
func kvError(err error) error {
	if !errors.Is(err, engine.ErrKVBudget) {
		return err
	}
	return &Error{Status: http.StatusServiceUnavailable, Type: typeUnavailable, Code: "kv_memory", Message: "this server has not enough memory for keys and values of so many tokens", Cause: err}
}
