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

// write generates t.Tokens tokens after a prompt; end-of-text tokens do not end it.
func (t *test) write(ctx context.Context, prompt []int32, d speculative.Drafter, o speculative.Options,
	s engine.Sampling) ([]int32, error) {
	session, err := t.target.NewSession(engine.SessionOptions{})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	o.MaxTokens = t.Tokens
	var ids []int32
	for token, err := range speculative.New(session, d, o).Generate(ctx, prompt, s) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, token.ID)
	}
	return ids, nil
}

// confirm computes in one pass whole texts that were generated token by token: the most likely token at
// every position must be the generated one. Verification depends on it.
func (t *test) confirm(ctx context.Context, _ reference) error {
	return t.check(ctx, confirmation, "one pass over a greedy text", func(c *Check) (string, error) {
		n := 0
		sampler, err := sampling.New(t.target.Config().Vocab, engine.Sampling{})
		if err != nil {
			return "", err
		}
		for i, prompt := range t.prompts {
			written, err := t.write(ctx, prompt, nil, speculative.Options{}, engine.Sampling{})
			if err != nil {
				return "", err
			}
			text := slices.Concat(prompt, written)
			logits, err := t.feed(ctx, text, len(text))
			if err != nil {
				return "", err
			}
			vocab := t.target.Config().Vocab
			for j := len(prompt) - 1; j < len(text)-1; j++ {
				if id := sampler.Pick(logits[j*vocab:(j+1)*vocab], nil); id != text[j+1] {
					return fmt.Sprintf("prompt %d, position %d: token %d was generated, the pass gives %d", i+1, j+1, text[j+1], id),
						nil
				}
				n++
			}
		}
		c.Detail = fmt.Sprintf("%d prompts, %d tokens confirmed", len(t.prompts), n)
		return "", nil
	})
}

// greedy compares texts with and without drafts at temperature 0: all drafters and schedules with
// the greedy verifier, then the other verifiers.
func (t *test) greedy(ctx context.Context, _ reference) error {
	sampling := func(int) engine.Sampling { return engine.Sampling{} }
	plain, err := t.plain(ctx, sampling)
	if err != nil {
		return err
	}
	for _, d := range t.drafters() {
		if err := t.identical(ctx, "greedy, "+d.name, plain, d, t.Schedules, nil, sampling); err != nil {
			return err
		}
	}
	return t.verifiers(ctx, "greedy, ", plain, sampling, func(speculative.Verifier) bool { return true })
}

// match compares texts sampled with the same seeds.
func (t *test) match(ctx context.Context, _ reference) error {
	sampling := func(i int) engine.Sampling {
		return engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: uint64(i + 1)}
	}
	plain, err := t.plain(ctx, sampling)
	if err != nil {
		return err
	}
	for _, d := range t.drafters() {
		if err := t.identical(ctx, "sampled, "+d.name, plain, d, t.Schedules, nil, sampling); err != nil {
			return err
		}
	}
	return t.verifiers(ctx, "sampled, ", plain, sampling, func(v speculative.Verifier) bool { return !v.NeedsProbs() })
}

func (t *test) plain(ctx context.Context, sampling func(int) engine.Sampling) (texts [][]int32, err error) {
	for i, prompt := range t.prompts {
		text, err := t.write(ctx, prompt, nil, speculative.Options{}, sampling(i))
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// verifiers checks every verifier that promises the same text, with the draft model if there is one, or the draft head.
func (t *test) verifiers(ctx context.Context, prefix string, plain [][]int32, sampling func(int) engine.Sampling,
	promises func(speculative.Verifier) bool) error {
	drafters := t.drafters()
	d := drafters[max(0, slices.IndexFunc(drafters,
		func(d drafter) bool { return d.name == "model" || d.name == "head, model" }))]
	for _, name := range slices.Sorted(maps.Keys(t.Verifiers)) {
		if v := t.Verifiers[name](); !promises(v) ||
			v.Start(speculative.Setup{Sampling: sampling(0), Vocab: t.target.Config().Vocab}) != nil {
			continue // greedy refuses a temperature
		}
		plan := map[string]func() speculative.Schedule{
			"constant": func() speculative.Schedule { return speculative.Constant(speculative.ConstantOptions{Length: 4}) }}
		if err := t.identical(ctx, prefix+"verifier "+name, plain, d, plan, t.Verifiers[name], sampling); err != nil {
			return err
		}
	}
	return nil
}

// identical compares a drafter's texts under every schedule with the plain ones.
func (t *test) identical(ctx context.Context, what string, plain [][]int32, d drafter,
	plans map[string]func() speculative.Schedule, verifier func() speculative.Verifier,
	sampling func(int) engine.Sampling) error {
	return t.check(ctx, sameText, what, func(c *Check) (string, error) {
		tokens, drafted, accepted := 0, 0, 0
		for _, name := range slices.Sorted(maps.Keys(plans)) {
			for i, prompt := range t.prompts {
				by, release, err := d.make(plain[i])
				if err != nil {
					return "", err
				}
				o := speculative.Options{Schedule: plans[name](), Trace: func(r *speculative.Round) {
					drafted, accepted = drafted+r.Drafted(), accepted+r.Accepted()
				}}
				if verifier != nil {
					o.Verifier = verifier()
				}
				got, err := t.write(ctx, prompt, by, o, sampling(i))
				release()
				if err != nil {
					return "", err
				}
				for j, id := range plain[i] {
					if j >= len(got) || got[j] != id {
						return fmt.Sprintf("prompt %d, %s schedule: the text differs from token %d on", i+1, name, j+1), nil
					}
				}
				tokens += len(got)
			}
		}
		c.Detail = fmt.Sprintf("%d tokens identical, %d of %d drafted accepted", tokens, accepted, drafted)
		return "", nil
	})
}
