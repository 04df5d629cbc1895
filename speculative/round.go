package speculative

import (
	"context"
	"errors"
	"fmt"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/tensor"
)

// step is one round: draft, evaluate, verify, commit.
func (d *Decoder) step(ctx context.Context) error {
	d.out = d.out[:0]
	if err := ctx.Err(); err != nil {
		return err
	}
	begin, beginCost := d.now(), d.clock.Now()
	if err := d.propose(ctx); err != nil {
		return err
	}
	drafted, draftedCost := d.now(), d.clock.Now()
	d.drafting += drafted - begin

	logits, err := d.evaluate(ctx)
	if err != nil {
		return err
	}
	d.countDraft()
	v := &d.verification
	v.Sequence, v.Draft, v.Logits, v.Path, v.Err = d.sequence, &d.draft, logits, v.Path[:0], nil
	d.verifier.Verify(v)
	err = d.emitRound(ctx, v)
	kept := min(len(v.Path), len(d.sequence)-d.round.Position) // behind a stop string nothing is part of the text
	if failed := d.commit(v.Path[:kept]); err == nil {
		err = failed
	}
	verified, verifiedCost := d.now(), d.clock.Now()
	d.verifying += verified - drafted
	if err == nil && v.Next < 0 && d.stats.End == "" {
		err = d.noToken(v.Err)
	}
	if err != nil {
		return err
	}

	d.stats.Rounds++
	d.round.Draft, d.round.Path, d.round.Next = &d.draft, v.Path, v.Next
	d.round.Drafting, d.round.Verifying = draftedCost-beginCost, verifiedCost-draftedCost
	if d.drafter != nil || d.draft.rules != nil {
		d.schedule.Observe(&d.round)
	}
	if d.trimmed && len(attentive(d.drafter, d.target.Sequence)) == 0 { // those know the pass
		whole := d.round
		whole.Draft, whole.Path = &d.whole, nil
		for _, i := range d.round.Path {
			whole.Path = append(whole.Path, int32(d.kept[i]))
		}
		d.drafter.Observe(&whole)
	} else if d.drafter != nil {
		d.drafter.Observe(&d.round)
	}
	if d.o.Trace != nil {
		d.o.Trace(&d.round)
	}
	return nil
}

// propose asks for a draft within the token budget and the context. The target adds a token of its own to every
// draft, and its pass feeds the last token of the sequence before the draft.
func (d *Decoder) propose(ctx context.Context) error {
	d.round.Position, d.round.Requested, d.trimmed = len(d.sequence), 0, false
	d.draft.Round = d.stats.Rounds
	d.draft.reset(0, 0, 0)
	d.draft.probs.begin()
	room := d.target.Context() - len(d.sequence)
	if d.o.MaxTokens > 0 {
		room = min(room, d.o.MaxTokens-d.stats.Generated-1)
	}
	if room <= 0 {
		if d.following { // others' drafts are not to wait for one
			d.clock.Announce(false)
		}
		return nil
	}
	askDrafter := d.force(room)
	if d.drafter != nil && askDrafter {
		d.round.Requested = d.schedule.Length(len(d.sequence))
		n := min(max(d.round.Requested, d.o.DraftMin), d.o.DraftMax, room-d.draft.prefix, d.draft.most()-d.draft.prefix)
		if !d.shortage.over(d.stats.Rounds) {
			d.round.Requested, n = 0, 0
		}
		if n > 0 {
			d.draft.extend(min(nodes(n, d.branches, d.treeMax), d.target.Context()-len(d.sequence)-d.draft.prefix), d.treeMax, n)
			d.clock.Announce(true)
			err := d.drafter.Draft(ctx, d.sequence, &d.draft)
			d.clock.Announce(false)
			if refused(err) {
				d.withoutDrafts()
			} else if err != nil {
				return fmt.Errorf("drafting: %w", err)
			}
			if d.draft.Parents == nil {
				d.draft.Extend(d.draft.Len() - 1)
			}
		}
	}
	if d.following && d.round.Requested == 0 {
		d.clock.Announce(false)
	}
	if d.draft.err != nil { // of a text that may never be: the verifier meets the errors of the text's own tokens
		d.withoutDrafts()
	}
	if s, ok := d.schedule.(Trimming); ok && d.drafter != nil && d.draft.rules == nil { // forced tokens stay
		d.kept = append(d.kept[:0], s.Trim(&d.draft)...)
		d.whole, d.trimmed = d.draft.keep(d.kept), true
	}
	d.stats.DraftPasses += d.draft.Passes
	return nil
}

// countDraft counts the tokens of a draft that was evaluated: of one that memory was refused for nothing was.
func (d *Decoder) countDraft() {
	d.stats.Drafted += d.draft.Len() - d.draft.forced
	d.stats.Forced += d.draft.forced
	deepest := 0
	for i := range d.draft.Len() {
		deepest = max(deepest, d.draft.own[i])
		if d.draft.Sources[i] == SourcePrevious {
			d.stats.Previous.Drafted++
		}
	}
	for i := range deepest {
		d.stats.DraftedAt[i]++
	}
}

// withoutDrafts ends the drafts of some rounds: memory was refused, or the constraint could not say what may follow a
// draft. Schedules learn nothing from what is left of this one if that is no draft.
func (d *Decoder) withoutDrafts() {
	d.shortage.begin(d.stats.Rounds)
	if d.draft.Len() == d.draft.forced {
		d.round.Requested = 0
	}
}

// evaluate is pass, without the draft if that asks for more memory than there is.
func (d *Decoder) evaluate(ctx context.Context) (engine.Logits, error) {
	logits, err := d.pass(ctx)
	switch {
	case err == nil && d.draft.Len() > d.draft.forced && d.shortage.over(d.stats.Rounds):
		d.shortage.drafted()
	case refused(err) && d.draft.Len() > 0:
		d.draft.reset(0, 0, 0)
		d.trimmed = false
		d.withoutDrafts()
		if err := d.restore(ctx); err != nil {
			return engine.Logits{}, err
		}
		return d.pass(ctx)
	}
	return logits, err
}

// restore has the target hold the sequence without its last token again, after a pass that failed: an [Evaluator] may
// have left something else.
func (d *Decoder) restore(ctx context.Context) error {
	if err := d.target.open(); err != nil {
		return err
	}
	if err := d.target.rewind(d.sequence, 0); err != nil {
		return err
	}
	_, err := d.target.prefill(ctx, d.sequence[:len(d.sequence)-1])
	return err
}

// pass feeds the last token of the sequence and the draft in one pass.
func (d *Decoder) pass(ctx context.Context) (engine.Logits, error) {
	d.fed = append(append(d.fed[:0], d.sequence[len(d.sequence)-1]), d.draft.Tokens...)
	if own, ok := d.verifier.(Evaluator); ok && d.draft.Parents == nil {
		logits, err := own.Evaluate(ctx, meteredTarget(&d.target), d.sequence, &d.draft)
		passes, tokens := own.Work()
		d.stats.TargetPasses, d.stats.TargetTokens = d.stats.TargetPasses+passes, d.stats.TargetTokens+tokens
		if err != nil {
			d.target.tokens = nil // what it holds is not known
			return engine.Logits{}, err
		}
		d.target.tokens = append(append(d.target.tokens[:0], d.sequence...), d.draft.Tokens...)
		return logits, nil
	}
	logits, err := d.feed(ctx)
	if err == nil {
		d.stats.TargetPasses, d.stats.TargetTokens = d.stats.TargetPasses+1, d.stats.TargetTokens+len(d.fed)
	}
	return logits, err
}

// feed feeds d.fed to the target, as the draft's chain or tree.
func (d *Decoder) feed(ctx context.Context) (engine.Logits, error) {
	want := engine.Rows(len(d.fed))
	if d.draft.Parents == nil {
		return d.target.chain(ctx, d.fed, want)
	}
	d.parent = append(d.parent[:0], -1)
	for _, p := range d.draft.Parents {
		d.parent = append(d.parent, p+1)
	}
	return d.target.eval(ctx, d.fed, d.parent, want)
}

// commit rolls the target's cache back to the accepted path. The last token of the sequence stays to be fed.
func (d *Decoder) commit(path []int32) error {
	if d.draft.Parents == nil {
		return d.target.cut(d.round.Position + len(path))
	}
	d.path = append(d.path[:0], 0)
	d.target.tokens = append(d.target.tokens, d.fed[0])
	for _, i := range path {
		d.path = append(d.path, i+1)
		d.target.tokens = append(d.target.tokens, d.draft.Tokens[i])
	}
	return d.target.Commit(d.path)
}

// count counts node i of a draft as accepted by so much.
func (d *Decoder) count(v *Verification, i int32, by int) {
	source := v.Draft.Sources[i]
	if source == SourceGrammar {
		d.stats.ForcedAccepted += by
		return
	}
	d.stats.AcceptedAt[v.Draft.own[i]-1] += by
	d.stats.Accepted += by
	if source == SourcePrevious {
		d.stats.Previous.Accepted += by
	}
}

// emitRound appends the accepted tokens and the target's own token to the sequence, until the text ends, or ctx: what
// Options.Top describes of each of many tokens takes a while.
func (d *Decoder) emitRound(ctx context.Context, v *Verification) error {
	node := -1
	for _, i := range v.Path {
		if d.o.Top > 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t := Token{ID: v.Draft.Tokens[i], Drafted: true, Source: v.Draft.Sources[i]}
		d.count(v, i, 1)
		if err := d.emit(t, v.row(node)); err != nil || d.stats.End != "" {
			return err
		}
		node = int(i)
	}
	if v.Next >= 0 {
		return d.emit(Token{ID: v.Next, Source: SourceTarget}, v.row(node))
	}
	return nil
}

// leave ends the text behind the first n tokens of the round, and with it what the target holds.
func (d *Decoder) leave(n int) {
	if n < len(d.out) {
		d.stats.End = ""
	}
	for i := n; i < len(d.out); i++ {
		t := &d.out[i]
		if t.ID < 0 {
			continue
		}
		d.sequence = d.sequence[:len(d.sequence)-1]
		d.stats.Generated--
		if t.Drafted {
			d.count(&d.verification, d.verification.Path[i], -1)
		}
	}
	if d.target.cut(len(d.sequence)) != nil {
		d.target.tokens = nil // what it holds is not known
	}
}

// describe fills in the probabilities of a token that follows the sequence. row is the logits that predicted it.
func (d *Decoder) describe(t *Token, row []float32) {
	if d.chooser != nil {
		d.chances = d.chooser.AppendDistribution(d.chances[:0], row, d.sequence)
		ranking := newRanking(max(d.o.Top, 0), len(d.chances))
		for _, p := range d.chances {
			if p.ID == t.ID && d.o.LogProbs {
				t.LogProb = tensor.Log(p.P)
			}
			ranking.add(p)
		}
		if d.o.Top > 0 {
			t.Top = ranking.sorted()
		}
		for i := range t.Top {
			t.Top[i].P = tensor.Log(t.Top[i].P)
		}
		return
	}
	d.o.raw(t, row)
}

// emit appends a token to the sequence. row is the logits that predicted it.
func (d *Decoder) emit(t Token, row []float32) error {
	if err := d.constraint.next(t.ID); err != nil {
		return err
	}
	d.describe(&t, row)
	t.Position = len(d.sequence)
	d.sequence = append(d.sequence, t.ID)
	d.stats.Generated++
	stop := false
	switch {
	case d.o.EOG != nil && d.o.EOG(t.ID):
		d.stats.End = EndOfText
	default:
		if t.Text, stop = d.print.next(t.ID); stop {
			d.stats.End = EndStop
		} else if d.o.MaxTokens > 0 && d.stats.Generated >= d.o.MaxTokens {
			d.stats.End = EndLength
		} else if len(d.sequence) > d.target.Context() {
			d.stats.End = EndContext
		} else if complete, err := d.constraint.complete(); err != nil {
			return err
		} else if complete {
			d.stats.End = EndComplete
		}
	}
	if d.stats.End != "" && !stop {
		t.Text += d.print.rest()
	}
	t.Held = len(d.print.held)
	d.out = append(d.out, t)
	return nil
}

// force begins the draft with the tokens that are forced after the sequence, at most room of them, and reports
// whether the drafter is asked too.
func (d *Decoder) force(room int) (ask bool) {
	x := &d.draft
	x.mostDepth = room
	if x.rules == nil {
		return true
	}
	x.root = d.constraint.at
	if x.Extend(-1); x.err != nil || x.forced == 0 {
		return x.err == nil
	}
	all := x.Len()
	if d.drafter != nil && !continues(d.drafter) && all < forcedAlone {
		x.truncate(0)
		return true
	}
	n := all
	if s, ok := d.schedule.(Forcing); ok {
		n = min(all, max(0, s.Force(all)))
	}
	ended := x.ended
	x.truncate(n)
	x.ended = ended && n == all
	return n == 0 || n == all && continues(d.drafter)
}

// noToken is the error of a round whose verifier could choose no token, nil where the constrained text is complete.
func (d *Decoder) noToken(why error) error {
	switch {
	case errors.Is(why, sampling.ErrComplete):
		d.stats.End = EndComplete
		rest := d.print.rest()
		if n := len(d.out); n > 0 {
			d.out[n-1].Text, d.out[n-1].Held = d.out[n-1].Text+rest, 0
		} else if rest != "" {
			d.out = append(d.out, Token{ID: -1, Position: len(d.sequence), Text: rest})
		}
		return nil
	case why != nil:
		return fmt.Errorf("%w: %w", ErrNoToken, why)
	}
	return ErrNoToken
}
