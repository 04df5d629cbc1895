package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/speculative/lookup"
	"github.com/specgo/spec/testdata"
)

// pair opens the models of a plan with one type of weights, which it names.
func (c *comparison) pair(ctx context.Context, p *program, rt *engine.Runtime, plan compare.Plan) (
	pair *compare.Pair, types string, err error) {
	var models []*engine.Model
	var texts []*lookup.Index
	var sequences []*engine.Session
	closeAll := func() {
		closeIndexes(texts)
		for _, s := range sequences {
			s.Close()
		}
		for _, m := range models {
			m.Close()
		}

	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	c.beside, c.sessions = c.drafts, engine.Sessions{Tokens: c.context, Rows: treeRows, Heads: true,
		Own: true, Alone: true, DraftVocab: c.vocab.tokens, DraftText: speculative.DraftText}
	target, err := c.target(ctx, p, rt)
	if err != nil {
		return nil, "", err
	}
	models = append(models, target)
	tok, err := tokenizerOf(target, c.name())
	if err != nil {
		return nil, "", err
	}
	size, err := contextSize(c.context, target, c.name())
	if err != nil {
		return nil, "", err
	}
	if plan.Tokens > size {
		return nil, "", fmt.Errorf("-n %d: the context holds %d tokens (-c)", plan.Tokens, size)
	}
	kv, err := c.cache.kvType()
	if err != nil {
		return nil, "", err
	}
	session, err := target.NewSession(engine.SessionOptions{Context: size, KV: kv})
	if err != nil {
		return nil, "", err
	}
	sequences = append(sequences, session)

	files := c.draftFiles()
	if texts, err = openIndexes(ctx, p, tok, c.texts); err != nil {
		return nil, "", err
	}
	team := &team{context: size, kv: kv, target: session, texts: texts, own: map[string]speculative.Drafter{}}
	if team.vocab, err = c.vocab.of(ctx, tok); err != nil {
		return nil, "", err
	}
	// The block in the model's own file drafts where it is asked for, and where there is no other draft model.
	own := slices.ContainsFunc(plan.Settings, func(s compare.Setting) bool {
		needs := speculative.Choice{Drafter: s.Drafter}.Needs()
		return needs&speculative.NeedsMTP != 0 && (target.HasMTP() || len(c.drafts) == 0) ||
			needs&speculative.NeedsDraft != 0 && target.HasMTP() && len(c.drafts) == 0
	})
	if own {
		head, err := c.openMTP(ctx, p, rt, target)
		if err != nil {
			return nil, "", err
		}
		models = append(models, head)
		form, err := head.NewDraftVocab(ctx, team.vocab, speculative.DraftText)
		if err != nil {
			return nil, "", err
		}
		o := engine.SessionOptions{Context: size, KV: kv, Form: form}
		if team.mtp, err = head.NewSession(o); err != nil {
			return nil, "", err
		}
		sequences = append(sequences, team.mtp)
	}
	for _, file := range files {
		embedded := testdata.Draft()
		if file == embeddedHead {
			file, embedded = "", testdata.Head()
		}
		draft, err := c.openDraft(ctx, p, rt, target, file, "draft", embedded)
		if err != nil {
			return nil, "", err
		}
		models = append(models, draft)
		if _, err := tokenizerOf(draft, "-md "+file); err != nil {
			return nil, "", fmt.Errorf("%w, so nothing shows that it is the target's", err)
		}
		o := engine.SessionOptions{Context: min(session.Context(), draft.Config().Context), KV: kv}
		if h := draft.Head(); h != nil && h.SharesCache {
			o.Target = session
		}
		if vocabulary(target, draft) == nil {
			if o.Form, err = draft.NewDraftVocab(ctx, team.vocab, speculative.DraftText); err != nil {
				return nil, "", err
			}
		}
		s, err := draft.NewSession(o)
		if err != nil {
			return nil, "", err
		}
		sequences = append(sequences, s)
		switch kind := draft.Kind(); {
		case kind.MTP():
			team.mtp = s
		case kind.Head():
			team.heads = append(team.heads, s)
		default:
			team.drafts = append(team.drafts, s)
		}
	}
	pair = &compare.Pair{Target: session, Tokenizer: tok, Close: closeAll, Drafter: team.drafter}
	pair.Start, err = decoderStart(target, c.name())
	return pair, target.WeightTypes(), err
}

// embeddedHead stands for the embedded head in a list of files.
const embeddedHead = "embedded head"

// team is the drafters that a target may have.
type team struct {
	context int
	kv      string
	target  *engine.Session
	drafts  []*engine.Session              // of draft models
	heads   []*engine.Session              // of draft heads
	mtp     *engine.Session                // of the target's MTP block; nil if no drafter needs it
	texts   []*lookup.Index                // to look up in
	vocab   []int32                        // the draft vocabulary; nil: all tokens
	own     map[string]speculative.Drafter // those of the target alone, one for all runs: they have caches of their own
}

// drafter makes a drafter by name. Merge verifies the drafts of all draft models together, or of the one there is and
// of a lookup.
func (t *team) drafter(name string) (speculative.Drafter, error) {
	n, of := draftNumber(name)
	if name == "merge" {
		var all []speculative.Drafter
		for n := range max(1, len(t.drafts)) {
			d, err := t.make("model", n)
			if err != nil {
				return nil, err
			}
			all = append(all, d)
		}
		if len(all) == 1 {
			all = append(all, speculative.Suffix(speculative.SuffixOptions{}))
		}
		return speculative.Merge(all...), nil
	}
	if of && n > 0 {
		name = "model"
	}
	return t.make(name, n)
}

// make makes a drafter of the list, of draft model n if it needs one.
func (t *team) make(name string, n int) (d speculative.Drafter, err error) {
	choice := speculative.Choice{Drafter: name}
	needs := choice.Needs()
	if d := t.own[name]; d != nil {
		return d, nil
	}
	var draft *engine.Session
	switch {
	case needs&speculative.NeedsMTP != 0:
		draft = t.mtp
	case needs&(speculative.NeedsHead|speculative.NeedsBlock) != 0 && len(t.heads) > 0:
		draft = t.heads[0]
	case needs&(speculative.NeedsDraft|speculative.NeedsForeign) != 0 && n < len(t.drafts):
		draft = t.drafts[n]
	case needs&speculative.NeedsDraft != 0 && len(t.drafts) == 0 && len(t.heads) > 0:
		draft = t.heads[0]
	case needs&speculative.NeedsDraft != 0 && len(t.drafts) == 0:
		draft = t.mtp
	}
	parts := speculative.Parts{Target: t.target.Model(), Session: engine.SessionOptions{Context: t.context, KV: t.kv}}
	for _, x := range t.texts {
		parts.Sources = append(parts.Sources, speculative.IndexSource(x))
	}
	var model *engine.Model
	var foreign error
	if draft != nil {
		parts.Draft, model = draft, draft.Model()
		foreign = vocabulary(parts.Target, model)
	}
	if err := choice.Fits(parts.Target, model, foreign); err != nil {
		return nil, flagError(err)
	}
	if needs&speculative.NeedsForm != 0 {
		form, err := parts.Target.NewDraftForm(context.Background(), engine.DraftFormOptions{Tokens: t.vocab,
			Text: speculative.DraftText})
		if err != nil {
			return nil, err
		}
		parts.Form = func() *engine.DraftForm { return form }
	}
	if d, err = choice.NewDrafter(parts); err == nil && needs&speculative.NeedsTarget != 0 {
		t.own[name] = d
	}
	return d, err
}
