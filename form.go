package spec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/units"
	"github.com/specgo/spec/speculative"
)

// draftForm is the target's draft form, which is made when it is first wanted.
type draftForm struct {
	model  *engine.Model
	most   int64   // bytes; 0: there is none
	tokens []int32 // of the draft vocabulary; nil: all

	made atomic.Pointer[engine.DraftForm]
	mu   sync.Mutex // of whoever makes it
}

// of says whose it is, and how much it may take.
func (d *draftForm) of(m *engine.Model, o Options) error {
	d.model, d.most, d.tokens = m, o.Memory.DraftForm, o.DraftVocab
	if err := checkVocab(d.tokens, m.Config().Vocab); err != nil {
		return err
	}
	if o.Speculation.Needs()&speculative.NeedsForm == 0 {
		return nil
	}
	if d.most == 0 {
		d.most = math.MaxInt64
	}
	return o.Speculation.Fits(m, nil, nil)
}

// refuses is why there is no draft form, in words that go on after the drafter's name; "" if there is one, or can be.
func (d *draftForm) refuses() string {
	switch need := d.model.PlanDraftForm().Bytes; {
	case need == 0: // Choice.Fits says so
		return ""
	case d.most == 0:
		return "needs memory for the model in fewer bits, which it was not started with"
	case need > d.most:
		return fmt.Sprintf("needs %s of memory for the model in fewer bits, there is room for %s", units.Bytes(need),
			units.Bytes(max(d.most, 0)))
	}
	return ""
}

// get is the draft form, nil while there is none.
func (d *draftForm) get() *engine.DraftForm { return d.made.Load() }

// make makes the draft form unless there is one. It waits for whoever makes it.
func (d *draftForm) make(ctx context.Context) error {
	if d.get() != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.get() != nil {
		return nil
	}
	f, err := d.model.NewDraftForm(ctx, engine.DraftFormOptions{Most: d.most, Tokens: d.tokens})
	if err == nil {
		d.made.Store(f)
	}
	return err
}

// close frees it. No text may be under way.
func (d *draftForm) close() { d.get().Close() }

// checkVocab refuses a draft vocabulary that a model with so many tokens cannot have.
func checkVocab(tokens []int32, vocab int) error {
	known := make(map[int32]bool, len(tokens))
	for _, id := range tokens {
		if id < 0 || int(id) >= vocab || known[id] {
			return fmt.Errorf("a draft vocabulary with token %d, of %d, or with it twice", id, vocab)
		}
		known[id] = true
	}
	if tokens != nil && len(tokens) == 0 {
		return errors.New("a draft vocabulary without tokens")
	}
	return nil
}
