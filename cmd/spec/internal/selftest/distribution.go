package selftest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/speculative"
)

const (
	vocabTokens   = 48   // the most likely tokens of the vocabulary, to which the chi-squared tests are restricted
	countedTokens = 3    // tokens of a text that are counted
	drawnTokens   = 5    // tokens of a text: drafts go on after the counted ones
	topK          = 4    // top-k: texts fall into topK^countedTokens cells
	leastPValue   = 1e-5 // p-value below which a verifier has failed: a false alarm once in some thousand runs
)

// distributions draws many short texts with every verifier and compares how often each occurred with
// its probability, computed from the target's logits.
func (t *test) distributions(ctx context.Context, _ reference) error {
	prompt := t.prompts[0]
	s, err := t.target.NewSession(engine.SessionOptions{})
	if err != nil {
		return err
	}
	defer s.Close()
	logits, err := after(ctx, s, prompt)
	if err != nil {
		return err
	}
	ids := mostLikely(logits, vocabTokens)
	target := newMemo(s, prompt, ids)
	sampling := engine.Sampling{Temperature: 1.5, TopK: topK}
	exact, err := t.exact(ctx, target, sampling)
	if err != nil {
		return err
	}

	drafters := map[string]func() speculative.Drafter{
		"replay": func() speculative.Drafter {
			return speculative.Replay(speculative.ReplayOptions{Tokens: []int32{0, 1, 2, 0, 1}})
		},
		"tree": func() speculative.Drafter { return &branches{record: []int32{0, 1, 2, 0, 1}} },
	}
	if t.draft != nil && slices.Max(prompt) < int32(t.draft.Config().Vocab) &&
		slices.Max(ids) < int32(t.draft.Config().Vocab) {
		ds, err := t.draft.NewSession(engine.SessionOptions{})
		if err != nil {
			return err
		}
		defer ds.Close()
		draft := newMemo(ds, prompt, ids)
		drafters["model"] = func() speculative.Drafter { return speculative.Model(draft) }
	} else {
		// The target itself, after another prompt, is a model that is often wrong.
		ds, err := t.target.NewSession(engine.SessionOptions{})
		if err != nil {
			return err
		}
		defer ds.Close()
		draft := newMemo(ds, t.prompts[len(t.prompts)-1], ids)
		drafters["other prompt"] = func() speculative.Drafter { return speculative.Model(draft) }
	}
	if t.head != nil && slices.Max(prompt) < int32(t.head.Config().Vocab) &&
		slices.Max(ids) < int32(t.head.Config().Vocab) {
		h, err := newHeadMemo(t.target, t.head)
		if err != nil {
			return err
		}
		defer h.close()
		draft := newMemo(nil, prompt, ids)
		draft.after = h.after
		drafters["head"] = func() speculative.Drafter { return speculative.Model(draft) }
	}
	plans := map[string]func() speculative.Schedule{
		"": func() speculative.Schedule { return speculative.Constant(speculative.ConstantOptions{Length: 3}) },
		", min. confidence": func() speculative.Schedule {
			return speculative.Constant(speculative.ConstantOptions{Length: 3, MinConfidence: 0.3})
		},
	}
	if err := t.chiSquared(ctx, "plain sampling", target, exact, nil, nil, nil, sampling); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(t.Verifiers)) {
		verifier := t.Verifiers[name]
		if verifier().Start(speculative.Setup{Sampling: sampling, Vocab: target.Vocab()}) != nil {
			continue // greedy
		}
		for _, by := range slices.Sorted(maps.Keys(drafters)) {
			for _, plan := range slices.Sorted(maps.Keys(plans)) {
				if plan != "" && (by == "replay" || by == "tree") {
					continue // their confidence does not vary
				}
				if err := t.chiSquared(ctx, name+", "+by+plan, target, exact, drafters[by], plans[plan], verifier,
					sampling); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// chiSquared makes one test.
func (t *test) chiSquared(ctx context.Context, what string, target *memo, exact []float64,
	by func() speculative.Drafter, plan func() speculative.Schedule, verifier func() speculative.Verifier,
	sampling engine.Sampling) error {
	return t.check(ctx, distribution, what, func(c *Check) (string, error) {
		o := speculative.Options{MaxTokens: drawnTokens}
		var d speculative.Drafter
		if by != nil {
			d, o.Schedule, o.Verifier = by(), plan(), verifier()
		}
		accepted, drafted := 0, 0
		o.Trace = func(r *speculative.Round) { drafted, accepted = drafted+r.Drafted(), accepted+r.Accepted() }
		decoder := speculative.New(target, d, o)
		counts := make([]int, len(exact))
		for i := range t.Draws {
			sampling.Seed = uint64(i + 1)
			cell, n := 0, 0
			for token, err := range decoder.Generate(ctx, []int32{0}, sampling) {
				if err != nil {
					return "", err
				}
				if n++; n <= countedTokens {
					cell = cell*vocabTokens + int(token.ID)
				}
			}
			counts[cell]++
		}
		x, p, ok := ChiSquared(counts, exact, t.Draws)
		if !ok {
			c.Detail = "nothing to compare: one text has all the probability"
			return "", nil
		}
		c.PValue = &p
		c.Detail = fmt.Sprintf("%d texts, chi-squared %.1f", t.Draws, x)
		if drafted > 0 {
			c.Detail += fmt.Sprintf(", %d of %d drafted accepted", accepted, drafted)
		}
		if p < leastPValue {
			return fmt.Sprintf("chi-squared %.1f: texts do not occur as often as the target's probabilities say", x), nil
		}
		return "", nil
	})
}

// exact is the probability of every text of countedTokens tokens.
func (t *test) exact(ctx context.Context, target *memo, s engine.Sampling) ([]float64, error) {
	sampler, err := sampling.New(target.Vocab(), s)
	if err != nil {
		return nil, err
	}
	p := make([]float64, vocabTokens*vocabTokens*vocabTokens)
	var fill func(text string, cell, n int, chance float64) error
	fill = func(text string, cell, n int, chance float64) error {
		if n == countedTokens {
			p[cell] += chance
			return nil
		}
		row, err := target.row(ctx, text)
		if err != nil {
			return err
		}
		for _, next := range sampler.Distribution(row, nil) {
			if err := fill(text+string([]byte{byte(next.ID)}), cell*vocabTokens+int(next.ID), n+1,
				float64(chance*float64(next.P))); err != nil {
				return err
			}
		}
		return nil
	}
	return p, fill("\x00", 0, 0, 1)
}

// mostLikely returns the n tokens of the greatest logits.
func mostLikely(logits []float32, n int) []int32 {
	ids := make([]int32, len(logits))
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		switch x, y := logits[a], logits[b]; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for len(ids) < n {
		ids = append(ids, ids...)
	}
	return ids[:n:n]
}
