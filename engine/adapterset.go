package engine

import (
	"fmt"
	"math"
	"strings"
)

// MaxAdapters is the most adapters of a session.
const MaxAdapters = 8

// ScaledAdapter is an adapter and the scale that its changes are multiplied by. A scale of 1 is how it was trained.
type ScaledAdapter struct {
	Adapter *Adapter
	Scale   float32
}

// AdapterSet is the adapters of a session with their scales, in the order in which what they compute is added. Two sets
// are equal (==) exactly if they have the same adapters with the same scales in the same order: then the same tokens
// have the same logits, keys and values. The zero value is none.
type AdapterSet struct {
	n    int
	list [MaxAdapters]ScaledAdapter
}

// NewAdapterSet makes a set. Adapters with a scale of 0 are left out. It refuses, with an error that wraps ErrUsage,
// more than MaxAdapters, an adapter twice, those of several models, and scales that are not finite.
func NewAdapterSet(list ...ScaledAdapter) (AdapterSet, error) {
	var s AdapterSet
	for i, x := range list {
		switch {
		case x.Adapter == nil:
			return AdapterSet{}, fmt.Errorf("%w: adapter %d of the set is nil", ErrUsage, i)
		case x.Scale-x.Scale != 0:
			return AdapterSet{}, fmt.Errorf("%s: %w: a scale of %v", x.Adapter.info.File, ErrUsage, x.Scale)
		case x.Adapter.m != list[0].Adapter.m:
			return AdapterSet{}, fmt.Errorf("%s: %w: an adapter of another model", x.Adapter.info.File, ErrUsage)
		}
		for _, before := range list[:i] {
			if before.Adapter == x.Adapter {
				return AdapterSet{}, fmt.Errorf("%s: %w: an adapter that is in the set twice", x.Adapter.info.File, ErrUsage)
			}
		}
		if x.Scale == 0 {
			continue
		}
		if s.n == MaxAdapters {
			return AdapterSet{}, fmt.Errorf("%w: more than %d adapters of a session", ErrUsage, MaxAdapters)
		}
		s.list[s.n] = x
		s.n++
	}
	return s, nil
}

// Len is the number of adapters.
func (s *AdapterSet) Len() int { return s.n }

// At is the i-th adapter.
func (s *AdapterSet) At(i int) ScaledAdapter { return s.list[:s.n][i] }

// Key identifies what the set computes, on every machine: each adapter's Fingerprint and the bits of its scale. "" is
// none.
func (s *AdapterSet) Key() string {
	var b strings.Builder
	for _, x := range s.list[:s.n] {
		fmt.Fprintf(&b, "%s*%08x ", x.Adapter.sum, math.Float32bits(x.Scale))
	}
	return b.String()
}

// fits refuses adapters of other models than m.
func (s *AdapterSet) fits(m *Model) error {
	if s.n > 0 && s.list[0].Adapter.m != m {
		return fmt.Errorf("%w: an adapter of %s (%s)", ErrUsage, s.list[0].Adapter.m.name, s.list[0].Adapter.info.File)
	}
	return nil
}
