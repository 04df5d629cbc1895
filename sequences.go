package spec

import (
	"context"
	"sync"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
)

// sequences makes sequences of one model.
type sequences interface {
	// open makes one, which shares with those of its salt and its adapters alone; done gives it back.
	open(ctx context.Context, salt string, set engine.AdapterSet) (s Sequence, done func(), err error)
	expect() // announces the next one that is opened, where passes wait for sequences
	stats() shared.Stats
	close()
}

// single is one session of a model, which is kept from one text to the next; texts take turns.
type single struct {
	model   *engine.Model
	o       engine.SessionOptions
	seat    chan struct{}
	session *engine.Session // nil: none yet, else with the adapters of o. It belongs to whoever has the seat
	salt    string          // that it was used under
}

func newSingle(m *engine.Model, o engine.SessionOptions) *single {
	return &single{model: m, o: o, seat: make(chan struct{}, 1)}
}

func (s *single) open(ctx context.Context, salt string, set engine.AdapterSet) (Sequence, func(), error) {
	select {
	case s.seat <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	leave := sync.OnceFunc(func() { <-s.seat })
	err := ctx.Err()
	if err == nil && s.session != nil && s.o.Adapters != set {
		s.session.Close()
		s.session = nil
	}
	if err == nil && s.session == nil {
		s.o.Adapters = set
		s.session, err = s.model.NewSession(s.o)
	}
	if err == nil && s.salt != salt {
		s.salt, err = salt, s.session.Truncate(0)
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return s.session, leave, nil
}

func (s *single) expect() {}

func (s *single) stats() shared.Stats { return shared.Stats{} }

func (s *single) close() {
	if s.session != nil {
		s.session.Close()
	}
}

// scheduled sequences are sessions of a scheduler: those that are in use share passes, and what prompts have in
// common.
type scheduled struct {
	*shared.Scheduler
	o engine.SessionOptions
}

func (s *scheduled) open(ctx context.Context, salt string, set engine.AdapterSet) (Sequence, func(), error) {
	o := s.o
	o.Adapters = set
	session, err := s.NewSession(ctx, shared.SessionOptions{SessionOptions: o, Salt: salt})
	if err != nil {
		return nil, nil, err
	}
	return session, session.Close, nil
}

func (s *scheduled) expect()             { s.Expect() }
func (s *scheduled) stats() shared.Stats { return s.Stats() }
func (s *scheduled) close()              { s.Close() }

// cacheShare is a scheduler's part of what is kept of finished sequences.
type cacheShare struct {
	bytes int64
	work  float64 // see shared.Options
}

// cacheShares divides a budget of kept sequences between a target and its draft, which may be nil, by what they take
// for the same tokens. A negative budget is none for both. Among models, what both keep of a text is worth as much for
// each byte: it goes together.
func cacheShares(budget int64, target, draft *engine.Model, kv string) (ofTarget, ofDraft cacheShare) {
	work := float64(target.ActiveParameters())
	if draft == nil {
		return cacheShare{budget, work}, cacheShare{}
	}
	t, d := pageBytes(target, kv), pageBytes(draft, kv)
	part := d / max(t+d, 1)
	work += float64(draft.ActiveParameters())
	ofTarget, ofDraft = cacheShare{budget, work - float64(work*part)}, cacheShare{budget, float64(work * part)}
	if budget >= 0 {
		ofDraft.bytes = int64(float64(budget) * part)
		ofTarget.bytes = budget - ofDraft.bytes
	}
	return ofTarget, ofDraft
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

// reused is how many tokens of a sequence were computed for another one.
func reused(s Sequence) int {
	if r, ok := s.(interface{ Reused() int }); ok {
		return r.Reused()
	}
	return 0
}
