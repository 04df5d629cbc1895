package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	salt() string
	Close()
}

// sequences makes sequences of one model.
type sequences interface {
	open(ctx context.Context, salt string) (sequence, error) // which shares with those of its salt alone
	close()
}

// scheduled sequences are sessions of a scheduler: those that are in use share passes, and what prompts have in
// common.
type scheduled struct {
	*shared.Scheduler
	o engine.SessionOptions
}

// newShared makes the scheduler of a model, within budgets of memory: of all its sequences, and of those that are kept.
func (s *Server) newShared(m *engine.Model, o engine.SessionOptions, bytes, cache int64) *scheduled {
	return &scheduled{shared.New(m, shared.Options{
		KVBytes: bytes, CacheBytes: cache, Delay: s.o.PromptDelay,
		Panicked: func(v any, stack []byte) { s.panicked(v, stack) },
	}), o}
}

// cacheShares divides a budget of kept sequences between a target and its draft, which may be nil, by what they take
// for the same tokens. A negative budget is none for both.
func cacheShares(budget int64, target, draft *engine.Model, kv string) (ofTarget, ofDraft int64) {
	if draft == nil || budget < 0 {
		return budget, budget
	}
	t, d := pageBytes(target, kv), pageBytes(draft, kv)
	ofDraft = int64(float64(budget) * d / max(t+d, 1))
	return budget - ofDraft, ofDraft
}

// pageBytes is about what a model takes for a page of a long text: keys and values, and a point of recurrent layers.
func pageBytes(m *engine.Model, kv string) float64 {
	d := m.Describe()
	n := float64(d.Recurrent.State)
	for _, c := range d.Caches {
		if one, err := c.Bytes(kv); err == nil { // NewSession says what is wrong
			n += engine.KVPage * float64(one)
		}
	}
	return n
}

func (s *scheduled) open(ctx context.Context, salt string) (sequence, error) {
	session, err := s.NewSession(ctx, shared.SessionOptions{SessionOptions: s.o, Salt: salt})
	if err != nil {
		return nil, err
	}
	return sharedSequence{session, salt}, nil
}

func (s *scheduled) close() { s.Close() }

// sharedSequence has a scheduler's session's abilities, which speculative looks for.
type sharedSequence struct {
	*shared.Session
	saltOf string
}

func (s sharedSequence) salt() string { return s.saltOf }

// salt is what a request's sequences, of the target and of the draft, have in common with those that they may go on
// from: the key that it shows, unless Options.SharePrefixes says otherwise, and its own cache_salt.
func (r *request) salt(s *Server) string {
	who := r.client.id
	if s.o.SharePrefixes {
		who = ""
	}
	if r.cacheSalt == "" {
		return who
	}
	own := sha256.Sum256([]byte(r.cacheSalt))
	return who + " " + hex.EncodeToString(own[:])
}

// kvError is the error of a sequence that alone needs more memory than there is.
func kvError(err error) error {
	if !errors.Is(err, engine.ErrKVBudget) {
		return err
	}
	return &Error{
		Status: http.StatusServiceUnavailable, Type: typeUnavailable, Code: "kv_memory",
		Message: "this server has not enough memory for keys and values of so many tokens", Cause: err,
	}
}
