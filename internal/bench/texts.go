package bench

import (
	"fmt"

	"github.com/specgo/spec/engine"
)

// TextTokens is how many tokens a text of several that are embedded together has.
const TextTokens = 128

// Vectors reports whether the model is measured by embedding texts, because it writes none.
func Vectors(m *engine.Model) bool { return m.Config().Layers == 0 && m.TakesTexts() }

// texts measures the vectors of n texts of some tokens each, which are embedded together.
func (r *runner) texts(kind string, n, tokens int) ([]Row, error) {
	if most := r.m.Config().Context; tokens > most {
		return nil, fmt.Errorf("a text of %d: the model takes %d tokens", tokens, most)
	}
	list := make([][]int32, n)
	for i := range list {
		list[i] = r.tokens(tokens)
	}
	seconds, err := r.repeated(func() error {
		vectors, err := r.m.Embed(r.ctx, list, engine.EmbedOptions{Pooling: engine.PoolMean, Normalize: true})
		for _, v := range vectors {
			if v.Err != nil {
				return v.Err
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return []Row{r.summary(kind, n*tokens, 0, 0, seconds)}, nil
}

// vectors measures texts alone and together.
func (r *runner) vectors(add func([]Row, error) error) error {
	if r.o.Memory != nil {
		speed, err := r.o.Memory()
		if err != nil {
			return err
		}
		r.memory = append(r.memory, speed)
	}
	for _, n := range r.o.Prefill {
		if err := add(r.texts("text", 1, n)); err != nil {
			return err
		}
	}
	for _, n := range r.o.Batches {
		if err := add(r.texts("texts", n, min(TextTokens, r.m.Config().Context))); err != nil {
			return err
		}
	}
	return nil
}
