package spec

import (
	"context"
	"fmt"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/speculative"
)

// handed is the sequence that an answer has in its hands: what Options.Around makes of it, with the abilities beyond
// Sequence that this hides. One that has all of them by itself is taken as it is.
func (m *Model) handed(own Sequence) (Sequence, error) {
	if m.around == nil {
		return own, nil
	}
	s := m.around(own)
	if s == nil {
		return nil, fmt.Errorf("%w: Around has returned no sequence", ErrOptions)
	}
	switch own := own.(type) {
	case *engine.Session:
		if _, all := s.(sessionAbilities); !all {
			return &aroundSession{s, own, altered{s}}, nil
		}
	case *shared.Session:
		if _, all := s.(sharedAbilities); !all {
			return &aroundShared{s, own, altered{s}}, nil
		}
	}
	return s, nil
}

type (
	// abilities are what sequences of both kinds can do beyond Sequence, as package speculative and this one ask for it.
	// None of it computes logits of the target.
	abilities interface {
		Costs() *costs.Costs
		Encode(ctx context.Context, ids []int32) error
		Input() []int32
		PassRows() int
		Layers() int
		Adapters() engine.AdapterSet
	}

	// sessionAbilities are those of a session by itself.
	sessionAbilities interface {
		abilities
		Restorable(n int) int
		DraftAt(n int, f *engine.DraftForm, old *engine.Session) (*engine.Session, error)
		ExitAt(n, layers int, old *engine.Session) (*engine.Session, error)
	}

	// sharedAbilities are those of a session whose passes are shared.
	sharedAbilities interface {
		abilities
		Spent() time.Duration
		Announce(will bool)
		Follow(f interface{ Announce(will bool) })
		Load() shared.Load
		PassCosts(seconds []float64) bool
		Reusable(text []int32) int
		Await(ctx context.Context, text []int32)
		Resume(ctx context.Context, before, tokens []int32, unread func() (tokens []int32, states []float32)) (
			next []int32, states []float32)
		Recall(ctx context.Context, text []int32)
		Reused() int
		Exit(layers int) (*shared.ExitSession, error)
		Draft(f *engine.DraftForm) (*shared.ExitSession, error)
	}
)

// aroundSession and aroundShared are a sequence with the abilities of the one that it is made of.
type (
	aroundSession struct {
		Sequence
		sessionAbilities
		altered
	}

	aroundShared struct {
		Sequence
		sharedAbilities
		altered
	}
)

var (
	_ speculative.Shared    = (*aroundShared)(nil)
	_ speculative.Recalling = (*aroundShared)(nil)
	_ speculative.Costed    = (*aroundSession)(nil)
	_ speculative.Encoding  = (*aroundSession)(nil)
	_ speculative.Altered   = (*aroundSession)(nil)
)

// altered is [speculative.Altered].
type altered struct{ s Sequence }

func (a altered) Altered() string { return fmt.Sprintf("%T, which spec.Options.Around returned", a.s) }
