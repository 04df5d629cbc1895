package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/cmd/spec/internal/compare"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// pair opens the models with one type of weights, which it names. tokens is how many are to be generated.
func (c *comparison) pair(ctx context.Context, p *program, rt *engine.Runtime, tokens int) (pair *compare.Pair, types string, err error) {
	var models []*engine.Model
	closeAll := func() {
		for _, s := range c.sequences {
			s.Close()
		}
		for _, m := range models {
			m.Close()
		}
		c.sequences = nil
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	c.beside, c.contextHint, c.logitRows = c.drafts, c.context, treeRows
	target, err := c.target(ctx, p, rt)
	if err != nil {
		return nil, "", err
	}
	models = append(models, target)
	tok := target.Tokenizer()
	if tok == nil {
		return nil, "", fmt.Errorf("%s: no tokenizer in the file, so no text can be generated", c.name())
	}
	size, err := contextSize(c.context, target, c.name())
	if err != nil {
		return nil, "", err
	}
	if tokens > size {
		return nil, "", fmt.Errorf("-n %d: the context holds %d tokens (-c)", tokens, size)
	}
	kv, err := c.cache.kvType()
	if err != nil {
		return nil, "", err
	}
	session, err := target.NewSession(engine.SessionOptions{Context: size, KV: kv})
	if err != nil {
		return nil, "", err
	}
	c.sequences = append(c.sequences, session)

	files := c.drafts
	if len(files) == 0 && c.drafting() {
		files = []string{"", embeddedHead}
	}
	team := &team{context: size, kv: kv, target: session}
	if slices.Contains(c.matrix.Drafters, mtp) && (target.HasMTP() || len(c.drafts) == 0) {
		head, err := c.openMTP(ctx, p, rt, target)
		if err != nil {
			return nil, "", err
		}
		models = append(models, head)
		if team.mtp, err = head.NewSession(engine.SessionOptions{Context: size, KV: kv}); err != nil {
			return nil, "", err
		}
		c.sequences = append(c.sequences, team.mtp)
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
		if draft.Tokenizer() == nil {
			return nil, "", fmt.Errorf("-md %s: no tokenizer in the file, so nothing shows that it is the target's", file)
		}
		o := engine.SessionOptions{Context: min(session.Context(), draft.Config().Context), KV: kv}
		if h := draft.Head(); h != nil && h.SharesCache {
			o.Target = session
		}
		s, err := draft.NewSession(o)
		if err != nil {
			return nil, "", err
		}
		c.sequences = append(c.sequences, s)
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
	if target.Encodes() {
		if _, pair.Start, err = promptOf(target, nil, c.name()); err != nil {
			return nil, "", err
		}
	}
	return pair, target.WeightTypes(), nil
}

// embeddedHead stands for the embedded head in a list of files.
const embeddedHead = "embedded head"

// team is the drafters that a target may have.
type team struct {
	context int
	kv      string
	target  *engine.Session
	drafts  []*engine.Session   // of draft models
	heads   []*engine.Session   // of draft heads
	mtp     *engine.Session     // of the target's MTP block; nil if no drafter needs it
	early   speculative.Drafter // one for all runs: it has a cache of its own
}

// drafter makes a drafter by name. Tree merges the draft models, or the one there is with a lookup.
func (t *team) drafter(name string) (speculative.Drafter, error) {
	switch name {
	case "ngram", "suffix":
		return textDrafters[name](), nil
	case "early-exit":
		if t.early == nil {
			var err error
			if t.early, err = speculative.EarlyExit(t.target.Model(), engine.SessionOptions{Context: t.context, KV: t.kv}); err != nil {
				return nil, err
			}
		}
		return t.early, nil
	}
	if name == mtp {
		if t.mtp == nil {
			return nil, fmt.Errorf("no MTP block for drafter %s", name)
		}
		return speculative.MTP(t.mtp, speculative.EagleOptions{}), nil
	}
	if headDrafters[name] != nil {
		if len(t.heads) == 0 {
			return nil, fmt.Errorf("no draft head for drafter %s", name)
		}
		return headDrafters[name](t.heads[0]), nil
	}
	n, _ := draftNumber(name)
	if n >= len(t.drafts) {
		return nil, fmt.Errorf("no draft model for drafter %s", name)
	}
	ours, theirs := t.target.Model().Tokenizer(), t.drafts[n].Model().Tokenizer()
	switch name {
	case "reencode":
		return speculative.Reencode(t.drafts[n], speculative.Tokenizers{Target: ours, Draft: theirs}), nil
	case "intersect":
		return speculative.Intersect(t.drafts[n], speculative.Tokenizers{Target: ours, Draft: theirs}), nil
	}
	if err := ours.Compatible(theirs); err != nil {
		return nil, fmt.Errorf("the draft model cannot be drafter %s: %w", name, err)
	}
	switch name {
	case "splice":
		return speculative.Splice(t.drafts[n], speculative.TreeOptions{}), nil
	case "tree":
		return speculative.Tree(t.drafts[n], speculative.TreeOptions{}), nil
	case "merge":
		var all []speculative.Drafter
		for _, s := range t.drafts {
			all = append(all, speculative.Model(s))
		}
		if len(all) == 1 {
			all = append(all, speculative.Suffix(speculative.SuffixOptions{}))
		}
		return speculative.Merge(all...), nil
	}
	return speculative.Model(t.drafts[n]), nil
}
