package spec

import (
	"cmp"
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
	text   int     // tokens of a text beside them

	made   atomic.Pointer[engine.DraftForm]
	writes atomic.Bool   // where texts take turns: the one under way has its first token
	begun  atomic.Bool   // start has been called
	failed atomic.Bool   // what it began: the form is not offered again
	seat   chan struct{} // of whoever makes it
	making sync.WaitGroup
	stop   context.CancelFunc // ends what start began
}

// of says whose it is, and how much it may take.
func (d *draftForm) of(m *engine.Model, o Options) error {
	d.model, d.most, d.tokens, d.seat = m, o.Memory.DraftForm, o.DraftVocab, make(chan struct{}, 1)
	d.text = draftText(o.DraftText)
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
	switch need := d.need(); {
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

// offers reports whether the form drafts where nobody chose a drafter: there is room for it, and its passes read so
// much less than the model's that it may gain.
func (d *draftForm) offers() bool {
	plan := d.model.PlanDraftForm()
	return plan.Gains() && d.need() <= d.most && !d.failed.Load()
}

// need is the bytes that the form takes at most; 0: there can be none.
func (d *draftForm) need() int64 { return d.model.DraftFormBytes(len(d.tokens), d.text) }

// get is the draft form, nil while there is none.
func (d *draftForm) get() *engine.DraftForm { return d.made.Load() }

// start is get, and has the form made in the background when it is first called. Passes go on meanwhile.
func (d *draftForm) start() *engine.DraftForm {
	if f := d.get(); f != nil || d.begun.Swap(true) {
		return f
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.making.Go(func() {
		if d.make(ctx) != nil {
			d.failed.Store(true)
		}
	})
	return nil
}

// later is start behind the first token of a text, which is not to wait for what start begins.
func (d *draftForm) later() *engine.DraftForm {
	if f := d.get(); f != nil || !d.writes.Load() {
		return f
	}
	return d.start()
}

// make makes the draft form unless there is one. It waits for whoever makes it; ctx ends the wait.
func (d *draftForm) make(ctx context.Context) error {
	if d.get() != nil {
		return nil
	}
	select {
	case d.seat <- struct{}{}:
		defer func() { <-d.seat }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.get() != nil {
		return nil
	}
	f, err := d.model.NewDraftForm(ctx, engine.DraftFormOptions{Most: d.most, Tokens: d.tokens, Text: d.text})
	if err == nil {
		d.made.Store(f)
	}
	return err
}

// close frees it. No text may be under way.
func (d *draftForm) close() {
	if d.begun.Load() {
		d.stop()
		d.making.Wait()
	}
	d.get().Close()
}

// draftText is how many tokens of a text [Options].DraftText says.
func draftText(n int) int { return max(cmp.Or(n, speculative.DraftText), 0) }

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
