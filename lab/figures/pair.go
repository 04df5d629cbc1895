package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// usualDraft is the draft model of all experiments but the one about its size.
const usualDraft = "draft-14m"

// pairKey says which pair an experiment runs on.
type pairKey struct {
	small   bool   // the embedded pair as it is
	weights string // of the target, converted while loading; "": Q8_0
	draft   string // one of synth.LargeDrafts; of the small pair ""
}

// models are an opened pair.
type models struct {
	target, draft *engine.Model
	head          *engine.Model // nil until a drafter needs it
	pair          *compare.Pair
}

// context of all sessions, in tokens: the embedded pair's.
const context1 = 1024

// openPair makes a pair on the runtime. The enlarged models compute what the embedded ones compute, at the cost of
// their size.
func openPair(ctx context.Context, rt *engine.Runtime, k pairKey) (m *models, err error) {
	m = &models{}
	var sessions []*engine.Session
	closeAll := func() {
		for _, s := range sessions {
			s.Close()
		}
		if m.draft != nil {
			m.draft.Close()
		}
		if m.head != nil {
			m.head.Close()
		}
		if m.target != nil {
			m.target.Close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	large, small := synth.LargeTarget, synth.Shape{}
	if k.small {
		large = synth.Shape{}
	} else {
		i := slices.IndexFunc(synth.LargeDrafts, func(s synth.Shape) bool { return s.Name == k.draft })
		if i < 0 {
			return nil, fmt.Errorf("no draft model is called %q", k.draft)
		}
		small = synth.LargeDrafts[i]
	}
	if m.target, err = enlarge(ctx, rt, testdata.Target(), large,
		engine.Options{Name: "target", Weights: k.weights}); err != nil {
		return nil, err
	}
	if m.draft, err = enlarge(ctx, rt, testdata.Draft(), small, engine.Options{Name: "draft"}); err != nil {
		return nil, err
	}
	for _, model := range []*engine.Model{m.target, m.draft} {
		s, err := model.NewSession(engine.SessionOptions{Context: context1})
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, s)
	}
	target, draft := sessions[0], sessions[1]
	own := map[string]speculative.Drafter{} // those of the target alone, one for all runs: they have caches of their own
	var head *engine.Session                // likewise
	var form *engine.DraftForm              // of the target: one for all drafters that use it
	m.pair = &compare.Pair{Target: target, Tokenizer: m.target.Tokenizer(), Close: closeAll,
		Drafter: func(name string) (speculative.Drafter, error) {
			choice := speculative.Choice{Drafter: name}
			needs := choice.Needs()
			if d := own[name]; d != nil {
				return d, nil
			}
			if m.head == nil && needs&speculative.NeedsHead != 0 {
				var err error
				if m.head, err = enlargeHead(ctx, rt, m.target, large); err != nil {
					return nil, err
				}
				if head, err = m.head.NewSession(engine.SessionOptions{Context: context1}); err != nil {
					return nil, err
				}
				sessions = append(sessions, head)
			}
			parts := speculative.Parts{Target: m.target, Session: engine.SessionOptions{Context: context1}, Draft: draft}
			if needs&speculative.NeedsHead != 0 {
				parts.Draft = head
			}
			if needs&speculative.NeedsForm != 0 {
				if form == nil {
					var err error
					if form, err = m.target.NewDraftForm(ctx, engine.DraftFormOptions{}); err != nil {
						return nil, err
					}
				}
				parts.Form = func() *engine.DraftForm { return form }
			}
			d, err := choice.NewDrafter(parts)
			if err == nil && needs&speculative.NeedsTarget != 0 {
				own[name] = d
			}
			return d, err
		}}
	return m, nil
}

// enlargeHead opens the embedded head for a target of that shape.
func enlargeHead(ctx context.Context, rt *engine.Runtime, target *engine.Model, shape synth.Shape) (
	*engine.Model, error) {
	if shape.HiddenSize > 0 {
		shape.Layers = 1
	}
	return enlarge(ctx, rt, testdata.Head(), shape, engine.Options{Name: "head", Target: target})
}

// enlarge opens an embedded model at a larger size; of a shape without a width as it is.
func enlarge(ctx context.Context, rt *engine.Runtime, file *strings.Reader, shape synth.Shape, o engine.Options) (
	*engine.Model, error) {
	small := io.NewSectionReader(file, 0, file.Size())
	if shape.HiddenSize == 0 {
		return engine.New(ctx, rt, small, small.Size(), o)
	}
	f, err := gguf.Open(small, small.Size(), o.Name)
	if err != nil {
		return nil, err
	}
	large, err := synth.Enlarge(f, shape)
	if err != nil {
		return nil, err
	}
	return engine.New(ctx, rt, large, large.Size(), o)
}
