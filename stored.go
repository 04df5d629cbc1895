package spec

import (
	"fmt"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/engine/shared"
)

// Stored keeps what was computed for prompts and answers beyond a [Model], so that texts of other runs, and of other
// machines, go on from it: those of the same model file under the same options and salt. The texts are the same.
type Stored struct {
	Store promptcache.Store
	// PromptsOnly has answers not stored.
	PromptsOnly bool
	// Failed is told of errors of the store, after which the texts go on; nil: nobody.
	Failed func(error)
}

// checkStored refuses a store for sequences that cannot be told apart from others'.
func (m *Model) checkStored(o Options) error {
	if o.Stored == nil {
		return nil
	}
	if o.Stored.Store == nil {
		return fmt.Errorf("%w: Stored without a Store", ErrOptions)
	}
	if o.Parallel == 1 {
		return fmt.Errorf("%w: Stored is for sequences that share passes: Options.Parallel is not 1", ErrOptions)
	}
	if m.parts.Target.Encodes() {
		return fmt.Errorf("%w: Stored: %s is an encoder-decoder model, of which no prompt is kept", ErrOptions, m.name)
	}
	if o.Memory.Cache < 0 {
		return fmt.Errorf("%w: Stored needs memory for kept sequences: Memory.Cache is negative", ErrOptions)
	}
	for _, model := range append([]*engine.Model{m.parts.Target, m.parts.Draft}, m.parts.Drafts...) {
		if model != nil && !sharesCache(model) && model.Identity() == "" {
			return fmt.Errorf("%w: Stored, and %s was opened without engine.Options.Fingerprint", ErrOptions, model.Name())
		}
	}
	return nil
}

// stored is where the sequences of a model are kept.
func (o *Options) stored(model *engine.Model) *shared.Stored {
	if o.Stored == nil {
		return nil
	}
	return &shared.Stored{Store: o.Stored.Store, PromptsOnly: o.Stored.PromptsOnly, Failed: o.Stored.Failed,
		Identity: model.Identity()} // a head's keys and values are stored as its target's are
}
