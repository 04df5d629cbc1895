package spec

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/specgo/spec/engine"
)

// AdapterFile is an adapter (LoRA) that [Open] loads for the target.
type AdapterFile struct {
	Path  string
	Scale float32 // where a request does not say otherwise; 1 is how it was trained
}

// AdapterScale is the scale of an adapter in a [Request].
type AdapterScale struct {
	ID    int // its place in Parts.Adapters
	Scale float32
}

// adapters are those of a model, with the scales of requests that do not choose.
type adapters struct {
	mu   sync.Mutex
	list []engine.ScaledAdapter
}

// openAdapters loads adapters for a model.
func openAdapters(ctx context.Context, m *engine.Model, files []AdapterFile) (list []engine.ScaledAdapter, err error) {
	for _, f := range files {
		a, err := m.OpenAdapter(ctx, f.Path)
		if err != nil {
			return nil, err
		}
		list = append(list, engine.ScaledAdapter{Adapter: a, Scale: f.Scale})
	}
	return list, nil
}

// Adapters are the model's adapters with the scales of requests that do not choose.
func (m *Model) Adapters() []engine.ScaledAdapter {
	m.adapters.mu.Lock()
	defer m.adapters.mu.Unlock()
	return slices.Clone(m.adapters.list)
}

// SetAdapters sets the scales of requests that do not choose, as a request does: those that are not named get 0. What
// has been prepared keeps its own. What is wrong with the scales is a *[RequestError].
func (m *Model) SetAdapters(scales []AdapterScale) error {
	list, _, err := m.scaled(scales)
	if err != nil {
		return err
	}
	m.adapters.mu.Lock()
	defer m.adapters.mu.Unlock()
	m.adapters.list = list
	return nil
}

// adapterSet is what a request's sequences have: nil are the model's own scales.
func (m *Model) adapterSet(scales []AdapterScale) (engine.AdapterSet, error) {
	if scales == nil {
		return engine.NewAdapterSet(m.Adapters()...)
	}
	_, set, err := m.scaled(scales)
	return set, err
}

// scaled is the model's adapters with a request's scales, in the order of their ids.
func (m *Model) scaled(scales []AdapterScale) (list []engine.ScaledAdapter, set engine.AdapterSet, err error) {
	list = m.Adapters()
	for i := range list {
		list[i].Scale = 0
	}
	named := map[int]bool{}
	for _, s := range scales {
		switch {
		case s.ID < 0 || s.ID >= len(list):
			return nil, set, bad("lora", "there is no adapter with the id %d; the model has %d", s.ID, len(list))
		case named[s.ID]:
			return nil, set, bad("lora", "the adapter with the id %d is named twice", s.ID)
		}
		named[s.ID] = true
		list[s.ID].Scale = s.Scale
	}
	if set, err = engine.NewAdapterSet(list...); err != nil {
		return nil, set, &RequestError{Field: "lora", Reason: err.Error(), Err: err}
	}
	return list, set, nil
}

// readSalt is the salt of a draft head's sequence, whose state follows from the target's hidden states: another one for
// each salt and set. It is the salt alone where there are no adapters, and else has the set's key, which has no zero
// byte, behind its last zero byte.
func readSalt(salt string, set *engine.AdapterSet) string {
	if set.Len() == 0 && !strings.Contains(salt, "\x00") {
		return salt
	}
	return salt + "\x00" + set.Key()
}
