package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/speculative"
)

// Names that [Speculation] and requests use. The default comes first.
var (
	drafterNames  = []string{"tree", "splice", "model", "eagle", "eagle-tree", "mtp", "ngram", "suffix", "early-exit", "reencode", "intersect", "none"}
	scheduleNames = []string{"auto", "constant", "heuristic", "dynamic"}
	verifierNames = []string{"greedy", "match", "rejection", "block", "stairs"}
)

// Drafters, Schedules and Verifiers list the names that a [Speculation] may have.
func Drafters() []string  { return slices.Clone(drafterNames) }
func Schedules() []string { return slices.Clone(scheduleNames) }
func Verifiers() []string { return slices.Clone(verifierNames) }

// check refuses names that are not known.
func (s Speculation) check() error {
	for _, n := range []struct {
		field, name string
		known       []string
	}{{"Drafter", s.Drafter, drafterNames}, {"Schedule", s.Schedule, scheduleNames}, {"Verify", s.Verify, verifierNames}} {
		if n.name != "" && !slices.Contains(n.known, n.name) {
			return fmt.Errorf("%s %q is not one of %v", n.field, n.name, n.known)
		}
	}
	if s.Max < 0 || s.Max > MaxDraft || s.Min < 0 || s.Min > MaxDraft {
		return fmt.Errorf("draft lengths go from 0 to %d", MaxDraft)
	}
	return nil
}

// or takes from t what s leaves open.
func (s Speculation) or(t Speculation) Speculation {
	off := s.Off || s.Drafter == "" && t.Off
	return Speculation{cmp.Or(s.Drafter, t.Drafter), cmp.Or(s.Schedule, t.Schedule), cmp.Or(s.Verify, t.Verify), cmp.Or(s.Max, t.Max), cmp.Or(s.Min, t.Min), off}
}

// speculation is a request's, completed by the defaults, for a model.
func (m *loaded) speculation(s Speculation, temperature float32) (Speculation, *Error) {
	s = s.or(m.Speculation).or(m.server.o.Speculation)
	const at = "speculation."
	if s.Off {
		s.Drafter = "none"
	}
	switch s.Drafter {
	case "":
		s.Drafter = "ngram"
		if m.Draft != nil && m.foreign != nil {
			s.Drafter = "reencode"
		} else if m.Draft != nil {
			s.Drafter = "tree"
		}
	case "tree", "splice", "model":
		if m.Draft == nil {
			return s, badField(at+"drafter", "%s needs a draft model, and %s has none", s.Drafter, m.name)
		}
		if m.foreign != nil {
			return s, badField(at+"drafter", "%s needs a draft model of the same vocabulary; reencode and intersect do not", s.Drafter)
		}
	case "eagle", "eagle-tree", "mtp":
		if kind := m.Draft.Kind(); !kind.Head() || kind.MTP() != (s.Drafter == "mtp") {
			return s, badField(at+"drafter", "%s needs a draft head of that kind, and %s has none", s.Drafter, m.name)
		}
	case "reencode", "intersect":
		if m.Draft == nil {
			return s, badField(at+"drafter", "%s needs a draft model, and %s has none", s.Drafter, m.name)
		}
		if m.Draft.Head() != nil {
			return s, badField(at+"drafter", "%s needs a draft model, and %s has a draft head, which knows its tokens only", s.Drafter, m.name)
		}
	}
	if s.Schedule == "" {
		s.Schedule = "auto"
		if s.Verify == "stairs" {
			s.Schedule = "constant"
		}
	}
	if s.Max > 0 && s.Min > s.Max {
		return s, badField(at+"min", "is more than max")
	}
	if s.Verify == "greedy" && temperature > 0 {
		return s, badField(at+"verify", "greedy needs temperature 0")
	}
	return s, nil
}

func newSchedule(s Speculation) speculative.Schedule {
	switch s.Schedule {
	case "constant":
		return speculative.Constant(speculative.ConstantOptions{Length: s.Max})
	case "heuristic":
		return speculative.Heuristic(speculative.HeuristicOptions{Length: s.Max})
	case "dynamic":
		return speculative.Dynamic(speculative.DynamicOptions{Length: s.Max})
	}
	return speculative.Auto(speculative.AutoOptions{})
}

// newVerifier makes the verifier. The default is made here and not by the decoder, because it may be observed.
func newVerifier(s Speculation, temperature float32) speculative.Verifier {
	switch s.Verify {
	case "match":
		return speculative.Match()
	case "rejection":
		return speculative.Rejection()
	case "block":
		return speculative.Block()
	case "stairs":
		return speculative.Stairs(speculative.StairsOptions{})
	}
	if temperature == 0 {
		return speculative.Greedy()
	}
	return speculative.Match()
}

// openDraft makes a sequence of the draft model, or of the draft head, for a text.
func (m *loaded) openDraft(ctx context.Context, target sequence) (seq interface {
	speculative.Sequence
	Close()
}, err error) {
	if h := m.Draft.Head(); h == nil || !h.SharesCache {
		return m.draft.open(ctx)
	}
	t, ok := target.(sharedSequence)
	if !ok {
		return nil, fmt.Errorf("%s: %w: a draft head that looks at the cache of a sequence that has none to show", m.name, engine.ErrUnsupported)
	}
	return shared.NewLentSession(m.Draft, t.Session, engine.SessionOptions{Context: min(m.context, m.Draft.Config().Context)})
}

// newDrafter makes the drafter of a text and what must be closed after it.
func (m *loaded) newDrafter(ctx context.Context, s Speculation, target sequence) (d speculative.Drafter, done func(), err error) {
	nothing := func() {}
	switch s.Drafter {
	case "none":
		return nil, nothing, nil
	case "ngram":
		return speculative.NGram(speculative.NGramOptions{}), nothing, nil
	case "suffix":
		return speculative.Suffix(speculative.SuffixOptions{}), nothing, nil
	case "early-exit":
		d, err := speculative.EarlyExit(m.Target, engine.SessionOptions{Context: m.context, KV: m.server.o.KV})
		return d, nothing, err
	}
	seq, err := m.openDraft(ctx, target)
	if err != nil {
		return nil, nil, err
	}
	both := speculative.Tokenizers{Target: m.tok, Draft: m.Draft.Tokenizer()}
	switch s.Drafter {
	case "tree":
		d = speculative.Tree(seq, speculative.TreeOptions{})
	case "splice":
		d = speculative.Splice(seq, speculative.TreeOptions{})
	case "model":
		d = speculative.Model(seq)
	case "eagle", "mtp":
		d = speculative.Eagle(seq, speculative.EagleOptions{})
	case "eagle-tree":
		d = speculative.Eagle(seq, speculative.EagleOptions{Tree: true, Sources: []speculative.CandidateSource{speculative.SuffixSource(speculative.SuffixOptions{})}})
	case "reencode":
		d = speculative.Reencode(seq, both)
	case "intersect":
		d = speculative.Intersect(seq, both)
	}
	return d, seq.Close, nil
}
